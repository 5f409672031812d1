"""The engine ``dask``: pieces of streams as Dask tasks, on this machine, on a scheduler's workers or on a queue's.

Workers write whole chunks of the store themselves (:mod:`sim.pieces`); here is only planned. Few pieces are out at a time and
the next are thought of when some come back, so neither this process nor the scheduler holds a sweep's worth of tasks. A lost
worker loses the tile it was at: what it had finished is in the store, and whoever plays the piece next goes on from there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sim.cluster import Cluster
from sim.engines import Advance, Stream
from sim.errors import InputError, RunError
from sim.pieces import Job, check_stamp, job, play_piece, stop
from sim.places import public
from sim.sweep import Sweep

SECONDS = 3.0  # of a piece with few workers: as often do results, and progress, come back
PIECES_PER_SECOND = 50.0  # at most, with many: a scheduler can do some hundreds
WORDLESS = 10.0  # seconds without any worker before a line says so
MAX_FAILED = 20  # pieces, before no more are begun
CONNECT = 10.0  # seconds to find the scheduler, or to say good-bye
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("NUMBA", "OMP", "MKL", "OPENBLAS")}
_AGAIN = "run the same command again: finished tiles are kept"


class Dask:
    """A client of Dask's scheduler.

    Parameters
    ----------
    client
        Connected.
    job
        What all pieces have in common.
    where
        The scheduler, for messages.
    """

    def __init__(self, client: Any, job: Job, where: str) -> None:
        self.client, self.job, self.where = client, job, where
        self.seen: set[str] = set()
        self.most = (0, 0)  # workers and threads at once
        self.threads, self._looked, self._alone = 0, -60.0, time.monotonic()
        self._said = False
        self._look()
        if self.threads:
            self._check_workers()

    # ------------------------------------------------------------ workers

    def _look(self) -> None:
        """See, every few seconds, which workers there are; say once when there are none."""
        now = time.monotonic()
        if now - self._looked < 2:
            return
        try:
            there = self.client.nthreads()
        except Exception as error:  # comms raise many types
            raise self._lost() from error
        self._looked, self.threads = now, sum(there.values())
        self.seen |= {str(urlsplit(address).hostname) for address in there}
        self.most = max(self.most, (len(there), self.threads))
        if there:
            self._alone = now
        elif now - self._alone > WORDLESS and not self._said:
            self._said = True
            print(f"waiting for workers of {self.where}", file=sys.stderr, flush=True)

    def _check_workers(self) -> None:
        """Refuse workers of another halfblind; those that come later are refused at their first piece."""
        answers = self.client.run(_asked(), on_error="return")
        for worker, answer in answers.items():
            if not isinstance(answer, Exception):  # else it has just gone
                check_stamp(self.job.stamp, answer, worker)

    def _lost(self) -> RunError:
        return RunError("engine=dask", f"no answer from the scheduler at {self.where}", "it to stay while the sweep runs", _AGAIN)

    @property
    def about(self) -> dict[str, Any]:
        """Where tiles were played, for provenance."""
        workers, threads = self.most
        return {"scheduler": self.where, "workers": workers, "threads": threads, "hosts": sorted(self.seen)[:100]}

    # ------------------------------------------------------------ playing

    def run(self, work: Iterable[Stream], advance: Advance) -> None:
        """Play streams to their ends.

        Raises
        ------
        KeyboardInterrupt
            After the workers were told to end, and the tiles in flight kept.
        InputError
            A worker cannot use the store, or is of another halfblind.
        RunError
            The scheduler has gone, or some tiles failed: then all others are done.
        """
        waiting, again = iter(work), deque[Stream]()
        out: dict[Any, tuple[Any, Stream]] = {}
        begun: set[tuple[int, Any]] = set()  # streams some piece of which came back
        back: queue.SimpleQueue[Any] = queue.SimpleQueue()
        failed: list[str] = []
        try:
            while True:
                self._look()
                while len(out) < max(4, 2 * self.threads) and len(failed) < MAX_FAILED:
                    stream = again.popleft() if again else next(waiting, None)
                    if stream is None:
                        break
                    future = self._submit(stream, back)
                    out[future.key] = future, stream
                if not out:
                    break
                future, stream = out.pop(self._next(back))
                found, new, finished, wrong = self._result(future)
                name = stream.lane, stream.block.start
                advance(new, True)
                if name not in begun:  # later pieces find what earlier ones did
                    advance(found, False)
                if wrong:
                    failed.append(f"{self._named(stream)}, {wrong}")
                elif not finished:
                    begun.add(name)
                    again.append(stream)
                else:
                    begun.discard(name)
        except BaseException:
            self._halt([future for future, _ in out.values()])
            raise
        if failed:
            more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
            rest = "the rest is done" if len(failed) < MAX_FAILED else "given up after these"
            got = "; ".join(failed[:3]) + more
            raise RunError("tiles that failed", got, f"sums ({rest})", "run the same command again to try only what is missing")

    def _submit(self, stream: Stream, back: queue.SimpleQueue[Any]) -> Any:
        seconds = max(SECONDS, self.threads / PIECES_PER_SECOND)
        key = (f"halfblind-{self.job.token}", uuid.uuid4().hex)
        future = self.client.submit(play_piece, self.job, stream, seconds, key=key, pure=False)
        future.add_done_callback(lambda done: back.put(done.key))
        return future

    def _next(self, back: queue.SimpleQueue[Any]) -> Any:
        """Wait for a piece to come back, in short steps so that Ctrl-C gets through."""
        while True:
            with contextlib.suppress(queue.Empty):
                return back.get(timeout=0.2)
            if self.client.status != "running":
                raise self._lost()
            self._look()

    def _result(self, future: Any) -> tuple[int, int, bool, str]:
        from distributed import CancelledError, KilledWorker

        try:
            found, new, finished, wrong = future.result()
        except InputError:
            raise
        except CancelledError as error:
            raise self._lost() from error
        except KilledWorker as error:
            return 0, 0, False, f"{error.allowed_failures + 1} workers died playing it"
        except Exception as error:  # of unpickling, for one
            return 0, 0, False, f"{type(error).__name__}: {str(error)[:200]}"
        return found, new, finished, wrong

    def _named(self, stream: Stream) -> str:
        """Return the cells and the lane of a stream, in words."""
        sweep: Sweep = pickle.loads(self.job.sweep)
        ends = zip(sweep.axes, stream.block.start, stream.block.stop, strict=True)
        cells = [f"{axis.name}={axis.values[a]}" + (f" to {axis.values[b - 1]}" if b - a > 1 else "") for axis, a, b in ends]
        return ", ".join([*cells, f"lane {stream.lane}"])

    def _halt(self, futures: list[Any]) -> None:
        """Let pieces end after the tile in flight; wait for that a while."""
        if self.client.status != "running":
            return

        def tell() -> None:
            with contextlib.suppress(Exception):
                self.client.run(stop, self.job.token, on_error="ignore")

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        end = time.monotonic() + CONNECT
        while time.monotonic() < end and self.client.status == "running" and not all(future.done() for future in futures):
            time.sleep(0.05)
        with contextlib.suppress(Exception):
            self.client.cancel(futures)


def _asked() -> Callable[[], Any]:
    """Return a function that travels by value: also a worker without this module can say what it has."""

    def stamp() -> Any:
        try:
            import sim

            try:
                from sim.stamp import stamp

                return stamp()
            except ImportError:
                return f"halfblind {sim.__version__} of other sources"
        except ImportError as error:
            return f"no halfblind ({error})"

    return stamp


# ---------------------------------------------------------------- connecting


@contextlib.contextmanager
def connected(asked: Cluster, sweep: Sweep, out: Path | str, backend: str, memory: float | None = None) -> Iterator[Dask]:
    """Start what was asked for, or connect to it; end it, or disconnect, afterwards.

    Raises
    ------
    InputError
        A package is missing, the description of a cluster is wrong, nobody answers at the address, a worker has another
        halfblind, or the results are to go where workers cannot see them.
    """
    try:
        import dask
        import distributed
    except ImportError as error:
        raise InputError("engine", f"dask without {error.name}", "it to be installed", "pip install 'halfblind[dask]'") from error
    if isinstance(out, str) and out.startswith("memory:"):
        raise InputError("out", "memory of this process", "a place that workers see", "use a folder, or a URL such as s3://...")
    where = out if isinstance(out, str) else out.resolve()
    work = job(uuid.uuid4().hex[:12], sweep, where, backend, memory)
    _hush()
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": CONNECT}))
        if asked.address is not None:
            target: Any = asked.address
        elif asked.cluster is not None:
            target = _queue(asked.cluster, asked.jobs or 1)
            stack.callback(target.close)
        else:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="halfblind-", ignore_cleanup_errors=True))
            target = _started(lambda: _local(asked, scratch))
            stack.callback(target.close, timeout=CONNECT)
        try:
            client = distributed.Client(target, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError, ImportError, TypeError, RuntimeError) as error:
            todo = "start one with: dask scheduler"
            raise InputError("engine.address", public(str(asked.address)), f"a scheduler that answers ({error})", todo) from error
        stack.callback(_left, client)
        yield Dask(client, work, public(str(client.scheduler.address)))


def _hush() -> None:
    """Leave it to one line at the end to say what went wrong."""
    for name in [*logging.root.manager.loggerDict, "tornado.application", "asyncio"]:
        if name.split(".")[0] in ("distributed", "tornado", "asyncio"):
            logger = logging.getLogger(name)
            logger.setLevel(logging.CRITICAL + 1)
            for handler in logger.handlers:  # of modules that are yet to be imported
                handler.setLevel(logging.CRITICAL + 1)


def _left(client: Any) -> None:
    """Disconnect; without a scheduler there is nothing to wait for."""
    with contextlib.suppress(Exception):
        client.close(timeout=CONNECT if client.status == "running" else 0.5)


def _started(make: Callable[[], Any]) -> Any:
    """Make a cluster of processes that Ctrl-C does not reach: a terminal sends it to all.

    They are begun by a thread that does not take the signal, and inherit that. The main thread takes it, and then ends the
    cluster once it is whole.
    """
    made: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        resource_tracker.ensure_running()  # begun later, it would let the signal through to its thread
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            made.append(make())
        except BaseException as error:  # handed to the caller below
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.05)
    except KeyboardInterrupt:
        thread.join(CONNECT)
        for cluster in made:
            cluster.close(timeout=CONNECT)
        raise
    if errors and isinstance(errors[0], Exception) and not isinstance(errors[0], InputError):
        error = errors[0]
        raise RunError("engine", f"workers that did not start ({error})", "processes that live", "run the same command again") from error
    if errors:
        raise errors[0]
    return made[0]


def _local(asked: Cluster, scratch: str) -> Any:
    """Start workers on this machine. They, the scheduler and its HTTP routes listen on loopback only; there is no dashboard."""
    import distributed

    return distributed.LocalCluster(
        n_workers=asked.workers or len(os.sched_getaffinity(0)),
        threads_per_worker=asked.threads or 1,
        host="127.0.0.1",
        dashboard_address=None,
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        silence_logs=logging.CRITICAL,
        memory_limit=0,
        local_directory=scratch,
        env=ONE_THREAD,
    )


def _queue(description: Any, jobs: int) -> Any:
    """Start jobs through dask-jobqueue."""
    try:
        import dask_jobqueue
    except ImportError as error:
        todo = "pip install 'halfblind[jobs]'"
        raise InputError("engine.cluster", "a queue without dask-jobqueue", "it to be installed", todo) from error
    kind = getattr(dask_jobqueue, description["class"], None)
    if not (isinstance(kind, type) and issubclass(kind, dask_jobqueue.JobQueueCluster)):
        known = [n for n in dir(dask_jobqueue) if n.endswith("Cluster") and n != "JobQueueCluster"]
        raise InputError("engine.cluster.class", repr(description["class"]), "one of " + ", ".join(known))
    try:
        cluster = kind(**{"silence_logs": logging.CRITICAL, **{k: v for k, v in description.items() if k != "class"}})
        cluster.scale(jobs=jobs)
    except Exception as error:  # its classes raise many types
        todo = "see the documentation of dask-jobqueue"
        raise InputError("engine.cluster", f"{type(error).__name__}: {str(error)[:200]}", "what its class takes", todo) from error
    return cluster
