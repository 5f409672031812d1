"""The backends by name: what turns tables and a range of runs into sums."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
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


def _jax(
    layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int, memory: float | None = None
) -> np.ndarray:
    from sim.kernels import jax_kernel

    try:
        return jax_kernel.run(layout, tables, baseline, seed, first_run, n_runs, memory)
    except RuntimeError as error:
        raise _out_of_memory(error) from error


def _prepare_numba(layout: Layout, tables: Tables, baseline: np.ndarray, n_runs: int) -> None:
    _numba(layout, tables, baseline, 0, 0, 1)


def _prepare_jax(layout: Layout, tables: Tables, baseline: np.ndarray, n_runs: int, memory: float | None = None) -> None:
    from sim.kernels import jax_kernel

    try:
        jax_kernel.run(layout, tables, baseline, 0, 0, 0, memory, prepared_for=n_runs)
    except RuntimeError as error:
        raise _out_of_memory(error) from error


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
