"""The C kernel: built at run time with the machine's compiler, called through ctypes. Tables in, sums out, like the numba kernel.

Two builds of ``c/kernel.c``: ``auto``, plain C that the compiler vectorises, and ``hand``, with the hot stages in AVX-512
intrinsics. Where there is no compiler, or no AVX-512, the builds that are possible are what there is.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from sim.kernels.layout import Sums
from sim.tables import CELL_DTYPE, LATER, Tables
from sim.variables import HISTOGRAM_BINS, METRIC_SUMS, METRICS, SERIES, SERIES_SUMS

SOURCES = Path(__file__).resolve().parent / "c"
FLAGS = (
    "-std=gnu11",
    "-g",
    "-O3",
    "-march=native",
    "-mprefer-vector-width=512",
    "-fno-trapping-math",
    "-fno-math-errno",
    "-shared",
    "-fPIC",
)
BUILDS = {"auto": (), "hand": ("-DHAND",)}


class UnavailableError(Exception):
    """A build is not possible on this machine; the message says why."""


LENGTHS = ("cells", "task_kinds", "topics", "route_kinds", "route_width")
ARRAYS = ("cells", "topic_cdf", "pass_threshold", "effect_sign", "route_any", "off_weight", "flip_rate", "retire")


class _Tables(ctypes.Structure):
    """The C struct ``Tables``."""

    _fields_ = [*((name, ctypes.c_int64) for name in LENGTHS), *((f"{name}_at", ctypes.c_void_p) for name in ARRAYS)]


def compiler() -> str | None:
    """Return the C compiler, if there is one: ``CC``, else gcc, clang or cc."""
    return next((path for name in (os.environ.get("CC"), "gcc", "clang", "cc") if name and (path := shutil.which(name))), None)


def compiler_version() -> str:
    """Return the first line of what the compiler says of itself."""
    cc = compiler()
    return subprocess.run([cc, "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0] if cc else "no C compiler"


@functools.cache
def library(build: str) -> ctypes.CDLL:
    """Compile a build, unless it was before, and load it.

    Raises
    ------
    UnavailableError
        No compiler, or it refuses: the processor has no AVX-512.
    """
    cc = compiler()
    if cc is None:
        raise UnavailableError("no C compiler")
    flags = (*FLAGS, *BUILDS[build])
    sha = hashlib.sha256(" ".join((cc, compiler_version(), platform.processor(), *flags)).encode())
    for path in sorted(SOURCES.iterdir()):
        sha.update(path.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"halfblind-bench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{sha.hexdigest()[:16]}-{build}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as made:
            done = subprocess.run(
                [cc, *flags, str(SOURCES / "kernel.c"), "-o", f"{made}/k.so", "-lm"], capture_output=True, text=True, check=False
            )
            if done.returncode:
                message = next((line for line in done.stderr.splitlines() if "error" in line), "no reason given")
                raise UnavailableError(message.split("error:")[-1].strip())
            os.replace(f"{made}/k.so", target)
    loaded = ctypes.CDLL(str(target))
    loaded.cell_bytes.restype = ctypes.c_int64
    assert loaded.cell_bytes() == CELL_DTYPE.itemsize, "the C struct Cell is not CELL_DTYPE"
    loaded.simulate.restype = None
    return loaded


def run(build: str, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int) -> Sums:
    """Simulate every cell on a range of runs, as :func:`sim.kernels.numba_kernel.run` does."""
    arrays = [np.ascontiguousarray(getattr(tables, name)) for name in ARRAYS]
    assert not any(tables.cells[name].any() for name in LATER), "options that the C kernel does not have"
    cells, rounds = len(tables.cells), int(tables.cells["rounds"].max())
    given = _Tables(
        cells, len(tables.topic_cdf), tables.topic_cdf.shape[1], len(tables.route_any), tables.route_any.shape[2],
        *(array.ctypes.data for array in arrays),
    )  # fmt: skip
    metrics = np.zeros((cells, len(METRICS), len(METRIC_SUMS)), np.int64)
    series = np.zeros((cells, rounds, len(SERIES), len(SERIES_SUMS)), np.int64)
    histogram = np.zeros((cells, HISTOGRAM_BINS), np.int64)
    base = np.ascontiguousarray(baseline, np.int32)
    library(build).simulate(
        ctypes.byref(given), ctypes.c_void_p(base.ctypes.data), ctypes.c_uint32(seed), ctypes.c_uint32(first_run), ctypes.c_int64(n_runs),
        *(ctypes.c_void_p(out.ctypes.data) for out in (metrics, series, histogram)),
    )  # fmt: skip
    none = np.zeros((cells, 0, 0), np.int64)
    return Sums(metrics, series, histogram, none, none)
