"""The backends by name: what turns tables and a range of runs into sums."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple, TypeAlias

import numpy as np

from sim.errors import InputError
from sim.sums import Layout, difference_sums, from_records
from sim.tables import Tables
from sim.variables import METRICS

Simulate: TypeAlias = Callable[[Layout, Tables, np.ndarray, int, int, int], np.ndarray]
"""(layout, tables, baseline, seed, first_run, n_runs) -> int64 sums, shape (cells, layout.size)."""


def _numba(layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int) -> np.ndarray:
    return by_rule(_numba_group, layout, tables, baseline, seed, first_run, n_runs)


def _numba_group(
    layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int, keep: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    from sim.kernels import numba_kernel

    sums = numba_kernel.run(tables, baseline, seed, first_run, n_runs, keep, keep_series=False)
    return layout.pack(n_runs, sums.metrics, sums.series, sums.histogram), sums.records if keep else None


def _reference(layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int) -> np.ndarray:
    from sim import reference

    return from_records(layout, *reference.records(tables, seed, first_run, n_runs), baseline)


def _jax(
    layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int, memory: float | None = None
) -> np.ndarray:
    try:
        return by_rule(partial(_jax_group, memory=memory), layout, tables, baseline, seed, first_run, n_runs)
    except RuntimeError as error:
        raise _out_of_memory(error) from error


def _jax_group(
    layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int, keep: bool, memory: float | None
) -> tuple[np.ndarray, np.ndarray | None]:
    from sim.kernels import jax_kernel

    if keep:
        return jax_kernel.records(layout, tables, baseline, seed, first_run, n_runs, memory)
    return jax_kernel.run(layout, tables, baseline, seed, first_run, n_runs, memory), None


def _prepare_numba(layout: Layout, tables: Tables, baseline: np.ndarray, n_runs: int) -> None:
    _numba(layout, tables, baseline, 0, 0, 1)


def _prepare_jax(layout: Layout, tables: Tables, baseline: np.ndarray, n_runs: int, memory: float | None = None) -> None:
    from sim.kernels import jax_kernel

    def prepare(
        layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int, keep: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if keep:
            sums, _ = jax_kernel.records(layout, tables, baseline, 0, 0, 0, memory, prepared_for=n_runs)
            return sums, np.zeros((len(baseline), n_runs, len(METRICS)), np.int64)
        return jax_kernel.run(layout, tables, baseline, 0, 0, 0, memory, prepared_for=n_runs), None

    try:
        by_rule(prepare, layout, tables, baseline, 0, 0, min(n_runs, chunk_of(tables, baseline, n_runs)))
    except RuntimeError as error:
        raise _out_of_memory(error) from error


# ---------------------------------------------------------------- cells with different curators

Group: TypeAlias = Callable[[Layout, Tables, np.ndarray, int, int, int, bool], tuple[np.ndarray, np.ndarray | None]]
"""As :data:`Simulate`, for cells of one curator, and whether to keep records; -> (sums, records of (cells, runs, metrics) or None)."""

KEPT_BYTES = 2**25  # of records in memory at a time


def _numbers(tables: Tables) -> np.ndarray:
    """Number the curators of these cells."""
    kinds = {rule: i for i, rule in enumerate(dict.fromkeys(tables.rules))}
    return np.array([kinds[rule] for rule in tables.rules], np.int64)


def chunk_of(tables: Tables, baseline: np.ndarray, n_runs: int) -> int:
    """Return how many runs :func:`by_rule` takes at a time."""
    rule_of = _numbers(tables) if tables.rules else np.zeros(len(baseline), np.int64)
    if (rule_of == rule_of[baseline]).all():
        return max(n_runs, 1)
    fit = max(1, KEPT_BYTES // (8 * len(METRICS) * len(tables.cells)))
    return 1 << (fit.bit_length() - 1)


def by_rule(play: Group, layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int) -> np.ndarray:
    """Simulate cells of different curators, those of each together, on the same runs.

    A cell that is compared with one of another curator has its differences added up here, from the records of single runs: to the
    same bits. Runs are then taken a chunk at a time, so that memory does not grow with them.

    Returns
    -------
    numpy.ndarray
        int64 sums, shape (cells, layout.size).
    """
    if len(set(tables.rules)) <= 1:
        return play(layout, tables, baseline, seed, first_run, n_runs, False)[0]
    rule_of = _numbers(tables)
    apart = np.flatnonzero(rule_of != rule_of[baseline])  # compared with a cell of another curator
    needed = {int(rule_of[c]) for c in (*apart, *baseline[apart])}
    chunk = chunk_of(tables, baseline, n_runs)
    total = np.zeros((len(tables.cells), layout.size), np.int64)
    for done in range(0, max(n_runs, 1), chunk):
        now, kept = min(chunk, n_runs - done), dict[int, np.ndarray]()
        for group in range(int(rule_of.max()) + 1):
            cells = np.flatnonzero(rule_of == group)
            place = {int(c): i for i, c in enumerate(cells)}
            own = np.array([place.get(int(baseline[c]), i) for i, c in enumerate(cells)], np.int32)
            sums, records = play(layout, tables.only(cells), own, seed, first_run + done, now, group in needed)
            total[cells] += sums
            if records is not None:
                kept |= {int(c): records[i] for i, c in enumerate(cells)}
        for c in map(int, apart):
            difference = kept[c] - kept[int(baseline[c])]
            layout.unpack(total[c])["metrics"][:, 3:] += difference_sums(difference)
    return total


def _out_of_memory(error: RuntimeError) -> Exception:
    """Return what to say where a device has no room, else the error itself."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        return error
    return InputError("backend.memory", "more than the device has", "less", "set backend.memory=GIB to less than it has free")


class Backend(NamedTuple):
    """How to simulate.

    Parameters
    ----------
    simulate
        From tables and a range of runs to sums.
    slowness
        How many times slower than the fastest: tiles are cut into as many pieces.
    prepare
        Has what is needed compiled, for tiles like (layout, tables, baseline, n_runs); None if nothing is compiled.
    threads
        From how many Python threads it is best called; None for as many as there are cores.
    """

    simulate: Simulate
    slowness: int
    prepare: Callable[[Layout, Tables, np.ndarray, int], None] | None = None
    threads: int | None = None


BACKENDS = {
    "numba": Backend(_numba, 1, _prepare_numba),
    "reference": Backend(_reference, 2**13),
    "jax": Backend(_jax, 1, _prepare_jax, threads=1),
}


def backend(name: str, memory: float | None = None) -> Backend:
    """Return a backend by name.

    Parameters
    ----------
    name
        One of :data:`BACKENDS`.
    memory
        GiB that the runs in flight may take on each device (``jax``); None for what suits it.

    Raises
    ------
    InputError
        No backend of this name exists, or what it needs is not installed.
    """
    if name not in BACKENDS:
        raise InputError("backend", repr(name), "one of " + ", ".join(BACKENDS))
    found = BACKENDS[name]
    if name != "jax":
        return found
    if find_spec("jax") is None:
        raise InputError("backend", "'jax', and no jax is installed", "the package jax", "pip install 'halfblind[jax]'")
    try:
        import jax

        jax.devices()
    except Exception as error:  # a package that is there in part, a platform that is not
        got = f"'jax', which does not start ({type(error).__name__}: {str(error)[:160]})"
        raise InputError("backend", got, "a JAX that works here", "see JAX_PLATFORMS, or pip install 'halfblind[jax]'") from error
    return found._replace(simulate=partial(_jax, memory=memory), prepare=partial(_prepare_jax, memory=memory))
