"""The backends by name: what turns tables and a range of runs into sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from sim.errors import InputError
from sim.sums import Layout, from_records
from sim.tables import Tables

Simulate: TypeAlias = Callable[[Layout, Tables, np.ndarray, int, int, int], np.ndarray]
"""(layout, tables, baseline, seed, first_run, n_runs) -> int64 sums, shape (cells, layout.size)."""


def _numba(layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int) -> np.ndarray:
    from sim.kernels import numba_kernel

    sums = numba_kernel.run(tables, baseline, seed, first_run, n_runs)
    return layout.pack(n_runs, sums.metrics, sums.series, sums.histogram)


def _reference(layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int) -> np.ndarray:
    from sim import reference

    return from_records(layout, *reference.records(tables, seed, first_run, n_runs), baseline)


class Backend(NamedTuple):
    """How to simulate, and how many times slower than the fastest: tiles are cut into as many pieces."""

    simulate: Simulate
    slowness: int


BACKENDS = {"numba": Backend(_numba, 1), "reference": Backend(_reference, 2**13)}


def backend(name: str) -> Backend:
    """Return a backend by name.

    Raises
    ------
    InputError
        No backend of this name exists.
    """
    if name not in BACKENDS:
        raise InputError("backend", repr(name), "one of " + ", ".join(BACKENDS))
    return BACKENDS[name]
