"""The JAX kernel: the run of :mod:`sim.reference` for many runs and cells at once, on whatever devices JAX finds.

:mod:`sim.kernels.jax_round` has the stages of a round, :mod:`sim.kernels.jax_runs` maps them over runs and cells and adds up;
here is what Python calls, what is compiled, and where. A call shares its runs out to all devices, and each adds up its own.

JAX stays as the user configured it. 64-bit integers are switched on for calls made here only, by :func:`jax.enable_x64`.
Compiled programs are kept on disk by ourselves, in a folder that cannot be stale (:mod:`sim.kernels.cache`): JAX's own cache
is one setting for the whole process, and needs a program traced before it can be looked up.

How fast a GPU could be, estimated from bytes moved and not measured. A train trial writes about 46 bytes (where it is to be
counted, and what) and reads them again; what it looks up is in the cache. Shelf, pools and books of a cell are read and
written a few times a round: about 3 kB at S1 (benchmarks/settings.py). That is 7.4 kB for the 71 trials of a round, some 100
bytes each: at the 4.8 TB/s of an H200 5e10 trials a second, 0.02 ns each. Scattered additions may cost more than that. A
library of S1 in flight takes 4.5 kB (:func:`run_bytes`): 10^5 of them 0.4 GiB, half of 139 GiB some 16 million.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import platform
import tempfile
import threading
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import serialize_executable
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sim.curators import Rule
from sim.errors import InputError
from sim.kernels.cache import cache_folder, usable
from sim.kernels.jax_round import Sizes
from sim.kernels.jax_runs import Flat, Row, play_few, play_runs
from sim.sums import Layout
from sim.tables import CELL_DTYPE, ONE16, Tables
from sim.variables import METRICS

CPU_MEMORY = 4 * 2**20  # bytes in flight: what a cache holds is faster than what memory does
GPU_SHARE = 0.5  # of a device's memory: as much again for what the compiler needs
MIN_BATCH, MAX_BATCH = 64, 2**16

_programs: dict[Any, Any] = {}
_lock = threading.Lock()


# ---------------------------------------------------------------- sizes


def padded(n: int, to: int) -> int:
    """Return ``n`` rounded up to a multiple."""
    return -(-n // to) * to


def power_of_two(n: int) -> int:
    """Return ``n`` rounded up to a power of two."""
    return 1 << max(n - 1, 0).bit_length()


def sizes_of(cells: np.ndarray, rule: Rule | None = None) -> Sizes:
    """Return the largest sizes among these cells, rounded up so that few programs are compiled; and their curator, unless it is Ratchet."""
    per_round = max(1, int(cells["per_round"].max()))
    trials = int((cells["n_train"].astype(np.int64) * cells["rounds"]).max())
    return Sizes(
        n_train=padded(int(cells["n_train"].max()), 16),
        n_eval=padded(int(cells["n_eval"].max()), 16),
        topics=padded(int(cells["topics"].max()), 8),
        slots=padded(int(cells["cap"].max()) + per_round, 8),
        per_round=per_round,
        rounds=int(cells["rounds"].max()),
        trial_bits=trials.bit_length(),
        start=bool(cells["start"].any()),
        sampled=bool(cells["sampled"].any()),
        rollback=bool(cells["rollback"].any()),
        spread=bool(cells["spread_by_task"].any() or cells["spread_by_topic"].any()),
        ragged=len(np.unique(cells["rounds"])) > 1,
        favour=power_of_two(int(cells["cap"].max()) + 1) if cells["favour_table"].any() else 0,
        by_weight=bool(cells["mislabel_by_weight"].any()),
        rule=rule,
    )


def run_bytes(sizes: Sizes, n_cells: int) -> int:
    """Return about how much memory a run in flight takes, all its cells together: state and what a round leaves behind."""
    tasks = sizes.n_train * (46 + 8 * sizes.spread) + sizes.n_eval * (4 + 60 * sizes.sampled)
    slot = 60 + (32 + 24 * len(sizes.rule.fields) if sizes.rule else 0)
    return n_cells * (tasks + sizes.slots * (slot + (50 + sizes.slots) * sizes.rollback) + sizes.topics * 40 + 500)


def batch_of(sizes: Sizes, n_cells: int, n_runs: int, memory: float | None, device: Any) -> int:
    """Return how many runs are in flight on a device: what its memory allows, and no more than are wanted."""
    if memory is not None:
        room = memory * 2**30
    elif device.platform == "cpu":
        room = CPU_MEMORY
    else:
        room = GPU_SHARE * (device.memory_stats() or {}).get("bytes_limit", 2**32)
    fit = min(MAX_BATCH, max(1, int(room / run_bytes(sizes, n_cells))))
    return min(1 << (fit.bit_length() - 1), max(MIN_BATCH, power_of_two(n_runs)))


# ---------------------------------------------------------------- arguments


def lengthened(array: np.ndarray, to: int) -> np.ndarray:
    """Return an array with its last row repeated up to a length."""
    return np.concatenate([array, np.repeat(array[-1:], to - len(array), axis=0)])


def flat(tables: Tables, sizes: Sizes) -> Flat:
    """Lay the tables out for the device: one-dimensional, their lengths powers of two, so that few programs are compiled."""
    cells, kinds = tables.cells, len(tables.topic_cdf)
    cuts, n_cuts, n_eval = np.zeros((kinds, sizes.topics), np.uint32), np.zeros(kinds, np.int32), np.zeros(kinds, np.int32)
    cuts[:, : tables.topic_cdf.shape[1]] = tables.topic_cdf
    n_cuts[cells["task_table"]], n_eval[cells["task_table"]] = cells["topics"] - 1, cells["n_eval"]
    one_of = np.unique(cells["eval_table"], return_index=True)[1]

    favour = np.full((len(tables.favour) if sizes.favour else 0, sizes.favour, sizes.favour), ONE16, np.uint32)
    for table, cut in zip(favour, tables.favour, strict=False):
        rows, width = np.minimum(cut.shape, sizes.favour)
        table[:rows, :width] = np.where(cut[:rows, :width] == 0, ONE16, cut[:rows, :width])  # what is padded is never reached

    def long(array: np.ndarray) -> np.ndarray:
        return lengthened(array, power_of_two(len(array)))

    return Flat(
        passes=long(tables.pass_threshold.reshape(-1)),
        signs=long(tables.effect_sign.reshape(-1)),
        route_any=long(tables.route_any.reshape(-1)),
        off_weight=long(tables.off_weight.astype(np.uint32).reshape(-1)),
        route_width=np.int32(tables.route_any.shape[-1]),
        flip_rate=long(tables.flip_rate.reshape(-1)),
        favour=long(favour.reshape(-1)) if sizes.favour else np.zeros(1, np.uint32),
        retire=long(tables.retire),
        cuts=long(cuts),
        n_cuts=long(n_cuts),
        n_eval=long(n_eval),
        eval_task=long(cells["task_table"][one_of]),
        eval_pass=long(cells["pass_table"][one_of]),
    )


def arguments(tables: Tables, baseline: np.ndarray) -> tuple[Sizes, tuple[Any, np.ndarray, Flat]]:
    """Return the sizes of a call, and its cells, baseline and tables. The number of cells is rounded up: some play twice."""
    sizes, n = sizes_of(tables.cells, tables.only_rule()), len(tables.cells)
    more = n if n <= 2 else padded(n, 4)
    cells = Row(*(lengthened(np.ascontiguousarray(tables.cells[name]), more) for name in CELL_DTYPE.names or ()))
    return sizes, (cells, lengthened(baseline, more), flat(tables, sizes))


def shares(first_run: int, n_runs: int, devices: int) -> tuple[np.ndarray, np.ndarray]:
    """Deal runs out: the first run of each device, uint32, and how many it has, int32."""
    start = np.arange(devices + 1) * n_runs // devices
    return (first_run + start[:-1]).astype(np.uint32), np.diff(start).astype(np.int32)


# ---------------------------------------------------------------- compiled programs


def traceable(sizes: Sizes, batch: int, devices: Sequence[Any], few: bool = False) -> Any:
    """Return the function that is compiled: each device plays its share; results have one row per device.

    With ``few`` a share is at most a batch, and the records of its runs come back too.
    """
    mesh = Mesh(np.array(devices), ("runs",))
    split, everywhere = PartitionSpec("runs"), PartitionSpec()

    def share(seed: Any, first_run: Any, n_runs: Any, cells: Any, baseline: Any, tables: Flat) -> Any:
        sums = (play_few if few else play_runs)(seed, first_run[0], n_runs[0], cells, baseline, tables, sizes, batch)
        return jax.tree.map(lambda part: part[None], sums)

    specs = (everywhere, split, split, everywhere, everywhere, everywhere)
    body = jax.shard_map(share, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)
    return jax.jit(body, in_shardings=tuple(NamedSharding(mesh, spec) for spec in specs))


def machine(devices: Sequence[Any]) -> str:
    """Return what a program that was compiled here depends on, apart from its sources and its sizes."""
    flags = ""
    with contextlib.suppress(OSError):
        flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(("flags", "Features"))), "")
    kinds = [(d.platform, d.device_kind, d.id) for d in devices]
    return f"{platform.machine()} {flags} {devices[0].client.platform_version} {kinds} {os.environ.get('XLA_FLAGS')}"


def kept(file: Path) -> Any:
    """Return a program that was kept, or None: whatever is wrong with the file costs time, not the run."""
    try:
        return serialize_executable.deserialize_and_load(*pickle.loads(file.read_bytes()))
    except Exception:
        return None


def keep(file: Path, compiled: Any) -> None:
    """Keep a program, if that is possible here."""
    with contextlib.suppress(Exception), tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as out:
        try:
            out.write(pickle.dumps(serialize_executable.serialize(compiled)))
            out.close()
            os.replace(out.name, file)
        except BaseException:
            os.unlink(out.name)
            raise


@contextlib.contextmanager
def traced(rule: Rule | None) -> Iterator[None]:
    """Say in one line what JAX cannot trace of a curator."""
    try:
        yield
    except (TypeError, ValueError, IndexError, NotImplementedError) as error:  # JAX's own errors are of these types
        if rule is None or not rule.own:
            raise
        got = f"what JAX cannot trace ({type(error).__name__}: {' '.join(str(error).split())[:160]})"
        raise InputError(f"curator {rule.name}", got, "whole numbers, & | and pick(c, a, b)", "see sim/curators/README.md") from error


def program(sizes: Sizes, batch: int, devices: Sequence[Any], values: Any, few: bool = False) -> Any:
    """Return the compiled program for arguments of these shapes: made once per process, and once per machine if it can be kept.

    Raises
    ------
    InputError
        The curator is written in a way that JAX cannot trace.
    """
    shapes = [(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(values)]
    key = (sizes, batch, tuple(devices), tuple(shapes), few)
    with _lock:
        if key in _programs:
            return _programs[key]
        name = hashlib.sha256(repr((sizes, batch, shapes, machine(devices), few)).encode()).hexdigest()[:32]
        folder = cache_folder("jax", f"{jax.__version__} {version('jaxlib')}", sizes.rule.digest if sizes.rule else "")
        compiled = kept(folder / name)
        if compiled is None:
            with traced(sizes.rule):
                lowered = traceable(sizes, batch, devices, few).lower(*values)
            compiled = lowered.compile()
            if usable(folder):
                keep(folder / name, compiled)
        _programs[key] = compiled
        return compiled


# ---------------------------------------------------------------- from Python


def run(
    layout: Layout,
    tables: Tables,
    baseline: np.ndarray,
    seed: int,
    first_run: int,
    n_runs: int,
    memory: float | None = None,
    batch: int | None = None,
    prepared_for: int = 0,
) -> np.ndarray:
    """Simulate every cell on a range of runs.

    Parameters
    ----------
    layout, tables, baseline, seed, first_run, n_runs
        As for every backend (:data:`sim.kernels.backends.Simulate`), of cells with one curator.
    memory
        GiB that the runs in flight may take on each device; by default what suits it.
    batch
        Runs in flight on each device, instead.
    prepared_for
        The number of runs that calls to come will have: with ``n_runs=0`` their program is compiled and nothing is played.

    Returns
    -------
    numpy.ndarray
        int64 sums, shape (cells, layout.size).
    """
    devices = jax.local_devices()
    sizes, fixed = arguments(tables, baseline)
    each = -(-max(n_runs, prepared_for) // len(devices))
    batch = batch or batch_of(sizes, len(fixed[1]), each, memory, devices[0])
    with jax.enable_x64(True):
        values = (np.uint32(seed), *shares(first_run, n_runs, len(devices)), *fixed)
        parts = jax.device_get(program(sizes, batch, devices, values)(*values))
    metrics, series, histogram = (part.sum(axis=0)[: len(baseline)] for part in parts)
    return layout.pack(n_runs, metrics, series, histogram)


def records(
    layout: Layout,
    tables: Tables,
    baseline: np.ndarray,
    seed: int,
    first_run: int,
    n_runs: int,
    memory: float | None = None,
    prepared_for: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate as :func:`run` does; return also what each run recorded, int64 (cells, runs, metrics)."""
    devices = jax.local_devices()
    sizes, fixed = arguments(tables, baseline)
    cells = len(baseline)
    batch = batch_of(sizes, len(fixed[1]), -(-max(n_runs, prepared_for) // len(devices)), memory, devices[0])
    sums, kept_ = np.zeros((cells, layout.size), np.int64), np.zeros((cells, n_runs, len(METRICS)), np.int64)
    with jax.enable_x64(True):
        if not n_runs:
            program(sizes, batch, devices, (np.uint32(seed), *shares(first_run, 0, len(devices)), *fixed), few=True)
        for done in range(0, n_runs, batch * len(devices)):
            now = min(batch * len(devices), n_runs - done)
            first, numbers = shares(first_run + done, now, len(devices))
            values = (np.uint32(seed), first, numbers, *fixed)
            *parts, record = jax.device_get(program(sizes, batch, devices, values, few=True)(*values))
            metrics, series, histogram = (part.sum(axis=0)[:cells] for part in parts)
            sums += layout.pack(now, metrics, series, histogram)
            rows = np.concatenate([part[:number] for part, number in zip(record, numbers, strict=True)])
            kept_[:, done : done + now] = rows[:, :cells].swapaxes(0, 1)
    return sums, kept_
