"""What a Dask worker does: a piece of a stream, some seconds long, tile by tile into the store.

Nothing is kept between pieces but what saves time, so a piece can run anywhere, twice, or in part.
"""

from __future__ import annotations

import functools
import pickle
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sim.engines import Stream, play
from sim.errors import InputError
from sim.kernels.backends import Backend, backend
from sim.stamp import Stamp, stamp
from sim.store import Store
from sim.sums import Layout
from sim.sweep import Sweep
from sim.tables import Tables


@dataclass(frozen=True)
class Job:
    """What all pieces of a command have in common.

    Parameters
    ----------
    token
        Names the command among others of the same workers.
    sweep
        A pickled :class:`~sim.sweep.Sweep`.
    out
        The output folder, as an absolute path or a URL.
    backend, memory
        As :func:`sim.kernels.backends.backend` takes them.
    stamp
        Of the command; a worker must have the same.
    """

    token: str
    sweep: bytes
    out: Path | str
    backend: str
    stamp: Stamp
    memory: float | None = None


def job(token: str, sweep: Sweep, out: Path | str, backend: str, memory: float | None = None) -> Job:
    """Return the job of a command. How the sweep is cut into tiles is settled here, not by the workers."""
    _ = sweep.block_shape, sweep.lanes, sweep.tile_runs
    return Job(token, pickle.dumps(sweep), out, backend, stamp(), memory)


class Piece(NamedTuple):
    """What became of a piece: libraries found and simulated, whether its stream is done, and what failed, if anything."""

    found: int
    new: int
    finished: bool
    failed: str = ""


class _Until:
    """Ends a piece: when its command was stopped, or its time is over and a tile is done."""

    def __init__(self, token: str, seconds: float) -> None:
        self.token, self.end, self.tiles = token, time.monotonic() + seconds, 0

    def is_set(self) -> bool:
        return self.token in _stopped or (self.tiles > 0 and time.monotonic() >= self.end)


_stopped: set[str] = set()
_opening = threading.Lock()


def stop(token: str) -> None:
    """Let the pieces of a command end after the tile in flight, on this worker, for good."""
    _stopped.add(token)


@functools.lru_cache(maxsize=4)
def _opened(job: Job) -> Store:
    sweep: Sweep = pickle.loads(job.sweep)
    return Store(job.out, sweep, shared=True)


def play_piece(job: Job, stream: Stream, seconds: float) -> Piece:
    """Play a stream on for some seconds, or to its end.

    Raises
    ------
    InputError
        This worker has another halfblind, or cannot use the store. Whatever else goes wrong is returned, with the runs it
        happened at, so that other pieces go on.
    """
    check_stamp(job.stamp, stamp())
    with _opening:
        store = _opened(job)
        store.open()
    how, at = backend(job.backend, job.memory), ""

    def simulate(layout: Layout, tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int) -> np.ndarray:
        nonlocal at
        at = f"runs {first_run} to {first_run + n_runs - 1}: "
        return how.simulate(layout, tables, baseline, seed, first_run, n_runs)

    until, counts = _Until(job.token, seconds), {True: 0, False: 0}

    def advance(libraries: int, new: bool) -> None:
        counts[new] += libraries
        until.tiles += new

    finished, failed = False, ""
    try:
        finished = play(store.sweep, store, Backend(simulate, how.slowness), advance, stream, until)
    except InputError:
        raise
    except Exception as error:  # of a kernel, which has no errors of its own
        failed = f"{at}{type(error).__name__}: {str(error)[:200]} (on {socket.gethostname()})"
    return Piece(counts[False], counts[True], finished, failed)


def check_stamp(here: Stamp, there: object, worker: str = "") -> None:
    """Refuse a worker of another halfblind.

    Raises
    ------
    InputError
        The two differ.
    """
    if here != there:
        todo = "install the same one everywhere, restart the workers and run the same command again"
        raise InputError(f"worker {worker or socket.gethostname()}", there, str(here), todo)
