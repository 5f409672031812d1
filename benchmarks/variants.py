"""The programs that are timed, by name: each takes the tables of a setting and plays a number of runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from benchmarks import compiled
from sim.kernels.backends import BACKENDS
from sim.sums import Layout
from sim.tables import Tables

Play: TypeAlias = Callable[[Tables, int], object]
"""(tables, runs) -> what it returned."""


@dataclass(frozen=True)
class Variant:
    """A program.

    Parameters
    ----------
    play
        Plays runs of all cells.
    speed
        A guess of its ns per trial, for how many runs to give it.
    alone
        Whether it plays one cell after another, so that eight take eight times as long: then it is timed on one.
    wall
        Whether wall time counts instead of CPU time: it has threads of its own.
    batch
        Runs that it plays side by side: it is given a multiple of them.
    """

    play: Play
    speed: float
    alone: bool = False
    wall: bool = False
    batch: int = 1


ANCHORS = {"C, AVX-512": "hand", "C, autovectorised": "auto"}


def _baseline(tables: Tables) -> np.ndarray:
    return np.zeros(len(tables.cells), np.int32)


def _numba(tables: Tables, runs: int) -> object:
    from sim.kernels import numba_kernel

    return numba_kernel.run(tables, _baseline(tables), 1, 0, runs)


def in_threads(play: Play, tables: Tables, runs: int, threads: int) -> None:
    """Play as many runs on each of some threads, side by side."""
    workers = [threading.Thread(target=play, args=(tables, runs)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _c(build: str) -> Play:
    return lambda tables, runs: compiled.run(build, tables, _baseline(tables), 1, 0, runs)


def _numpy(tables: Tables, runs: int) -> object:
    from benchmarks import vectorised

    return vectorised.run(tables, 1, runs)


def _backend(name: str) -> Play:
    def play(tables: Tables, runs: int) -> object:
        return BACKENDS[name].simulate(Layout(int(tables.cells["rounds"].max())), tables, _baseline(tables), 1, 0, runs)

    return play


def _jax(kind: str) -> Play:
    def play(tables: Tables, runs: int) -> object:
        import jax

        with jax.default_device(jax.devices(kind)[0]):
            return _backend("jax")(tables, runs)

    return play


def _why_no_jax(kind: str) -> str:
    """Return why JAX cannot be timed on a kind of device; nothing if it can."""
    if "jax" not in BACKENDS:
        return "no backend of this name yet"
    try:
        import jax

        jax.devices(kind)
    except ImportError:
        return "jax is not installed"
    except RuntimeError:
        return "jax has no such device"
    return ""


def variants(only: str = "") -> tuple[dict[str, Variant], dict[str, str]]:
    """Return the programs that can run here, and why others cannot; of the C builds, ``only`` one if it is one of them."""
    found: dict[str, Variant] = {}
    missing: dict[str, str] = {}
    for name, build in ANCHORS.items():
        if only in ANCHORS and name != only:
            continue
        try:
            compiled.library(build)
            found[name] = Variant(_c(build), 4.0)
        except compiled.UnavailableError as why:
            missing[name] = str(why)
    found["numba"] = Variant(_numba, 5.0)
    for kind in ("cpu", "gpu"):
        if why_not := _why_no_jax(kind):
            missing[f"JAX on {kind.upper()}"] = why_not
        else:
            found[f"JAX on {kind.upper()}"] = Variant(_jax(kind), 50.0 if kind == "cpu" else 2.0, wall=True, batch=128)
    found["NumPy, over runs"] = Variant(_numpy, 50.0, alone=True)
    found["plain Python"] = Variant(_backend("reference"), 12_000.0, alone=True)
    return found, missing
