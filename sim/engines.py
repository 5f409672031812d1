"""Where tiles run: in this process, on as many threads as there are cores; or on Dask's workers (:mod:`sim.dask_engine`).

A *stream* is one lane of one block. Its tiles follow each other, since each adds to the same sums; streams are independent.
The kernel releases the interpreter lock, so threads are all that is needed on one machine.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sim.errors import InputError
from sim.kernels.backends import Backend
from sim.store import Store, cell_rows
from sim.sums import statistics
from sim.sweep import Block, Sweep

if TYPE_CHECKING:
    from sim.config import Settings


@dataclass(frozen=True)
class Stream:
    """One lane of one block, to be played up to ``runs`` runs of every cell."""

    lane: int
    block: Block
    runs: int


def streams(sweep: Sweep, runs: Callable[[Block], int]) -> Iterator[Stream]:
    """Yield the streams of a sweep, given the runs wanted of each block."""
    for block in sweep.blocks():
        wanted = runs(block)
        for lane in range(sweep.lanes):
            if sweep.lane_runs(lane, wanted):
                yield Stream(lane, block, wanted)


Advance = Callable[[int, bool], None]


class Stop(Protocol):
    """Says when to end, as a :class:`threading.Event` does."""

    def is_set(self) -> bool: ...


def play(sweep: Sweep, store: Store, backend: Backend, advance: Advance, stream: Stream, stop: Stop) -> bool:
    """Play the tiles of a stream that are not in the store yet; keep each as soon as it is done. Return whether all are.

    Parameters
    ----------
    advance
        Called with a number of libraries, and whether they were just simulated or found in the store.
    stop
        When set, return after the tile in flight.

    Raises
    ------
    InputError
        The store cannot be read or written.
    """
    vectors = store.read(stream.lane, stream.block)
    done = int(vectors[0, 0])
    if (vectors[:, 0] != done).any():
        todo = "move it away and run the command again, or choose another out=..."
        raise InputError(str(store.path), "a damaged store (cells of a tile differ in runs)", "equal counts", todo)
    advance(len(vectors) * min(done, sweep.lane_runs(stream.lane, stream.runs)), False)
    if done >= sweep.lane_runs(stream.lane, stream.runs):
        return True
    if stop.is_set():
        return False
    tables, baseline = sweep.tables(stream.block)
    piece = max(1, sweep.tile_runs // backend.slowness)
    for first_run, n_runs in sweep.tiles(stream.lane, done, stream.runs, piece):
        if stop.is_set():
            return False
        sums = backend.simulate(sweep.layout, tables, baseline, sweep.seed, first_run, n_runs)
        vectors = vectors + sums[: len(vectors)]
        store.write(stream.lane, stream.block, vectors)
        advance(len(vectors) * n_runs, True)
    return True


class Local:
    """Threads of this process.

    Parameters
    ----------
    threads
        How many; None for as many as this process may use cores.
    """

    name = "local"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or len(os.sched_getaffinity(0))

    def run(self, work: Iterable[Stream], do: Callable[[Stream, threading.Event], object]) -> None:
        """Call ``do`` for every stream.

        Raises
        ------
        KeyboardInterrupt
            After the tiles in flight were kept.
        Exception
            The first error of any stream, after the others stopped.
        """
        queue, lock, stop = iter(work), threading.Lock(), threading.Event()
        errors: list[BaseException] = []

        def worker() -> None:
            while not stop.is_set():
                try:
                    with lock:
                        stream = next(queue, None)
                    if stream is None:
                        return
                    do(stream, stop)
                except BaseException as error:  # handed to the caller below
                    errors.append(error)
                    stop.set()

        threads = [threading.Thread(target=worker, daemon=True) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        try:
            _join(threads)
        except KeyboardInterrupt:
            stop.set()
            _join(threads)
            raise
        if errors:
            raise errors[0]


def _join(threads: list[threading.Thread]) -> None:
    """Wait in short steps, so that Ctrl-C gets through."""
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)


Run = Callable[[Iterable[Stream]], None]


@contextlib.contextmanager
def opened(settings: Settings, store: Store, backend: Backend, advance: Advance) -> Iterator[tuple[Run, Callable[[], dict[str, Any]]]]:
    """Make the engine that was asked for ready.

    Yields
    ------
    run
        Plays streams, and returns when all are done.
    about
        Tells where, for provenance.

    Raises
    ------
    InputError
        The engine cannot be used.
    """
    if settings.cluster is None:
        local = Local(backend.threads or settings.threads)
        do = functools.partial(play, settings.sweep, store, backend, advance)
        yield lambda work: local.run(work, do), lambda: {"threads": local.threads}
        return
    from sim.dask_engine import connected

    with connected(settings.cluster, settings.sweep, settings.out, settings.backend, settings.memory) as dask:
        yield lambda work: dask.run(work, advance), lambda: dask.about


FEW_RUNS = 100  # a standard error of fewer is not believed


def rung(runs: int, done: int) -> int:
    """Return the first step of the ladder runs, 1.5 runs, 2.25 runs, ... that is not below ``done``."""
    step = runs
    while step < done:
        step = max(step + 1, step * 3 // 2)
    return step


class Ladder:
    """The runs each block should have next for standard errors at or below their targets in every cell.

    Errors are looked at only on the steps of a ladder that does not depend on what was found, so that a sweep which was
    interrupted takes the same steps as one which was not.
    """

    def __init__(self, sweep: Sweep, store: Store, runs: int, target_se: dict[str, float], max_runs: int) -> None:
        self.sweep, self.store, self.runs, self.target_se, self.max_runs = sweep, store, runs, target_se, max_runs
        self.raised = 0  # blocks that were given more runs than they had

    def __call__(self, block: Block) -> int:
        """Return the runs of a block."""
        vectors = self.store.totals(block)
        done = int(vectors.reshape(-1, vectors.shape[-1])[0, 0])
        wanted = self._wanted(block, vectors, done)
        self.raised += wanted > done
        return wanted

    def _wanted(self, block: Block, vectors: np.ndarray, done: int) -> int:
        step = min(rung(self.runs, done), max(self.max_runs, self.runs))
        if done < step:
            return step
        values = statistics(self.sweep.layout, vectors, cell_rows(self.sweep, block))
        met = done >= FEW_RUNS and not any((values[name].se > target).any() for name, target in self.target_se.items())
        return done if met else max(done, min(rung(self.runs, done + 1), self.max_runs))
