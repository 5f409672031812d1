"""engine=dask: the bits of the engine ``local``, whatever happens to workers, scheduler and command; with real processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import zarr

from sim import pieces
from sim.config import load
from sim.dask_engine import MAX_FAILED, Dask
from sim.engines import Stream, streams
from sim.errors import InputError
from sim.main import main
from sim.store import Store
from tests.conftest import ROOT, Answer, Command, files, finish, same
from tests.stores import GRID, Start, chunks, results
from tests.workers import Processes, below, gone, wait

TILES = 4  # runs of a tile
LANES = 16
RUNS = TILES * LANES * 3  # three tiles in each of 16 streams
SWEEP = (*GRID, f"runs={RUNS}")
STARTED = f"import sim.sweep; sim.sweep.MAX_TILE_RUNS, sim.sweep.MIN_STREAMS = {TILES}, {LANES}; from sim.__main__ import run; run()"


def shorten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("sim.sweep.MAX_TILE_RUNS", TILES)
    patch.setattr("sim.sweep.MIN_STREAMS", LANES)


@pytest.fixture(autouse=True)
def short_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of SWEEP, made by the engine ``local``."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        assert main([*SWEEP, "figures=[]", f"out={folder}"]) == 0
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """A scheduler and two workers that nothing happens to."""
    started = Processes(tmp_path_factory.mktemp("cluster"))
    started.add(2)
    yield started
    started.close()


@pytest.fixture
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Processes]]:
    """Schedulers of a test's own, with workers that do something."""
    started = []

    def make(workers: int, **env: str) -> Processes:
        started.append(Processes(tmp_path_factory.mktemp("own")))
        if workers:
            started[-1].add(workers, **env)
        return started[-1]

    yield make
    for each in started:
        each.close()


def at(processes: Processes) -> tuple[str, str]:
    return "engine=dask", f"engine.address={processes.address}"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A real command with short tiles, in a session of its own; ended with the test."""
    children: list[subprocess.Popen[str]] = []

    def start(*args: str, **env: str) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), **env}
        command = [sys.executable, "-c", STARTED, *args, "figures=[]"]
        interruptible = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
        children.append(subprocess.Popen(command, cwd=tmp_path, env=environment, preexec_fn=interruptible, **pipes))
        return children[-1]

    yield start
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate()


def one_line(answer: Answer, code: int) -> str:
    assert answer.code == code, answer
    lines = answer.err.splitlines()
    assert len(lines) == 1, answer.err
    return lines[0]


# ---------------------------------------------------------------- the same bits


def test_same_bits_and_nothing_left_to_do(command: Command, cluster: Processes, whole: Path) -> None:
    answer = command(*SWEEP, "out=a", *at(cluster))
    assert answer.code == 0, answer
    assert answer.err == ""
    assert f"{10 * RUNS:,} libraries in" in answer.out
    same(whole, "a")
    before = files("a")
    again = command(*SWEEP, "out=a", *at(cluster))
    assert "nothing left to simulate" in again.out, again
    assert files("a") == before
    where = json.loads(results(Path("a")).attrs["engine_where"])
    assert where == {"scheduler": cluster.address, "workers": 2, "threads": 2, "hosts": ["127.0.0.1"]}


@pytest.mark.slow
def test_begun_with_one_engine_and_finished_with_the_other(command: Command, cluster: Processes, whole: Path) -> None:
    half = (*GRID, f"runs={RUNS // 2 - 1}")
    for out, first, then in (("a", at(cluster), ()), ("b", (), at(cluster))):
        assert command(*half, f"out={out}", *first).code == 0
        assert command(*SWEEP, f"out={out}", *then).code == 0
        same(whole, out)


def test_target_se(command: Command, cluster: Processes) -> None:
    asked = (*GRID, "runs=32", "target_se={retired: 0.2, tail_eval: 0.008}")
    assert command(*asked, "out=a").code == 0
    answer = command(*asked, "out=b", *at(cluster))
    assert answer.code == 0, answer
    same("a", "b")
    assert int(results(Path("b"))["runs"].min()) > 100
    assert "nothing left" in command(*asked, "out=b", *at(cluster)).out


@pytest.mark.slow
def test_workers_of_ones_own(started: Start, tmp_path: Path, whole: Path) -> None:
    """Started and ended with the command; nobody but this machine can talk to them."""
    child = started(*SWEEP, "out=a", "engine=dask", "engine.workers=2")
    wait(lambda: chunks(tmp_path / "a"))
    there = below(child.pid)
    listening = [c.laddr.ip for p in [psutil.Process(child.pid), *there] for c in p.net_connections() if c.status == "LISTEN"]
    answer = finish(child)
    assert answer.code == 0, answer
    assert answer.err == ""
    assert len(there) >= 2
    assert set(listening) == {"127.0.0.1"}
    assert gone(there)
    same(whole, tmp_path / "a")


def test_twice_and_late_does_no_harm(tmp_path: Path, whole: Path) -> None:
    """A piece played by two workers at once, and once more by one that was taken for lost: same bits, never fewer runs."""
    sweep = load(list(SWEEP)).sweep
    Store(tmp_path, sweep).close()
    job = pieces.job(uuid.uuid4().hex, sweep, tmp_path, "numba")
    first = next(streams(sweep, lambda block: RUNS // 3))
    assert pieces.play_piece(job, first, 60).new == 10 * TILES
    late = Store(tmp_path, sweep, shared=True)
    early = late.read(0, first.block)

    def play() -> None:
        for stream in streams(sweep, lambda block: RUNS):
            pieces.play_piece(job, stream, 60)

    both = [threading.Thread(target=play) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    late.write(0, first.block, early)
    sums = [zarr.open_group(folder / "result.zarr", mode="r")["tiles/sums"][...] for folder in (tmp_path, whole)]
    assert np.array_equal(*sums)


def test_pieces_end_in_time_and_when_told(tmp_path: Path) -> None:
    sweep = load(list(SWEEP)).sweep
    Store(tmp_path, sweep).close()
    job = pieces.job(uuid.uuid4().hex, sweep, tmp_path, "numba")
    stream = next(streams(sweep, lambda block: RUNS))
    assert pieces.play_piece(job, stream, 0) == (0, 10 * TILES, False, "")
    assert pieces.play_piece(job, stream, 60) == (10 * TILES, 20 * TILES, True, "")
    pieces.stop(job.token)
    assert pieces.play_piece(job, Stream(1, stream.block, RUNS), 60) == (0, 0, False, "")


def test_a_worker_that_does_not_see_the_store(tmp_path: Path) -> None:
    job = pieces.job("x", load(list(SWEEP)).sweep, tmp_path / "elsewhere", "numba")
    with pytest.raises(InputError, match=r"no such store on worker .* file system that all of them share"):
        pieces.play_piece(job, Stream(0, next(load(list(SWEEP)).sweep.blocks()), RUNS), 60)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- faults


@pytest.mark.slow
def test_a_worker_is_killed_in_the_middle_of_a_tile(started: Start, made: Callable[..., Processes], tmp_path: Path, whole: Path) -> None:
    own = made(2, TILE_SECONDS="0.1")
    child = started(*SWEEP, "out=a", *at(own))
    wait(lambda: len(chunks(tmp_path / "a")) > 5)
    own.workers[0].kill()
    answer = finish(child)
    assert answer.code == 0, answer
    assert answer.err == ""
    same(whole, tmp_path / "a")


@pytest.mark.slow
def test_the_scheduler_is_killed(started: Start, command: Command, made: Callable[..., Processes], tmp_path: Path, whole: Path) -> None:
    own = made(1, TILE_SECONDS="0.1")
    child = started(*SWEEP, "out=a", *at(own))
    wait(lambda: len(chunks(tmp_path / "a")) > 5)
    own.scheduler.kill()
    line = one_line(finish(child, 30), 1)
    assert own.address in line
    assert "same command again" in line
    kept = len(chunks(tmp_path / "a"))
    assert 5 < kept < LANES
    left = command(*SWEEP, "out=a")
    assert left.code == 0, left
    assert int(re.search(r"([\d,]+) libraries in", left.out)[1].replace(",", "")) < 10 * RUNS  # type: ignore[index]
    same(whole, "a")


def test_nobody_answers(command: Command) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sim.dask_engine.CONNECT", 1.0)
        line = command(*SWEEP, "out=a", "engine=dask", "engine.address=tcp://127.0.0.1:9").error
    assert "engine.address" in line
    assert "tcp://127.0.0.1:9" in line


@pytest.mark.parametrize("late", [False, True])
def test_a_worker_of_another_halfblind(command: Command, made: Callable[..., Processes], tmp_path: Path, late: bool) -> None:
    """Other sources, though of the same version: refused with both named, before anything is played."""
    root = tmp_path / "other"
    shutil.copytree(ROOT / "sim", root / "sim", ignore=shutil.ignore_patterns("__pycache__"))
    with open(root / "sim/kernels/words.py", "a") as source:
        source.write("# another\n")
    own = made(0)
    own.add(1, root=root)
    with pytest.MonkeyPatch.context() as patch:
        if late:
            patch.setattr(Dask, "_check_workers", lambda self: None)
        line = command(*SWEEP, "out=a", *at(own)).error
    found = re.findall(r"halfblind 0\.\d\.\d \(model \d, store \d, sources ([0-9a-f]{12})\)", line)
    assert len(set(found)) == 2
    assert "worker" in line
    assert chunks(Path("a")) == []


def test_a_worker_of_an_old_halfblind(command: Command, made: Callable[..., Processes], tmp_path: Path) -> None:
    (tmp_path / "old/sim").mkdir(parents=True)
    (tmp_path / "old/sim/__init__.py").write_text('__version__ = "0.0.9"\n')
    own = made(0)
    own.add(1, root=tmp_path / "old")
    line = command(*SWEEP, "out=a", *at(own)).error
    assert "halfblind 0.0.9" in line  # of other sources, or, where an editable install answers for what is missing, with a stamp


@pytest.mark.slow
def test_a_tile_that_fails_is_named_and_tried_again(command: Command, made: Callable[..., Processes], whole: Path) -> None:
    own = made(1, TILE_FAILS=str(TILES * (LANES + 7)))  # the second tile of lane 7
    answer = command(*SWEEP, "out=a", *at(own))
    assert answer.out == ""
    line = one_line(answer, 1)
    assert "tau=0.0 to 0.2, rho_fp=0.0 to 1.0, lane 7, runs 92 to 95: ArithmeticError: a tile that fails" in line
    assert "the rest is done" in line
    rest = command(*SWEEP, "out=a")
    assert f"\n{10 * 2 * TILES} libraries in" in rest.out, rest
    same(whole, "a")


@pytest.mark.slow
def test_another_run_in_the_folder_is_refused(started: Start, command: Command, made: Callable[..., Processes], tmp_path: Path) -> None:
    own = made(1, TILE_SECONDS="0.1")
    child = started(*SWEEP, "out=a", *at(own))
    wait(lambda: chunks(tmp_path / "a"))
    assert "another run is writing" in command(*SWEEP, "out=a", *at(own)).error
    assert child.poll() is None


# ---------------------------------------------------------------- stopped


@pytest.mark.slow
@pytest.mark.parametrize("where", ["workers of its own", "a scheduler"])
def test_ctrl_c(started: Start, command: Command, made: Callable[..., Processes], tmp_path: Path, whole: Path, where: str) -> None:
    """Finished tiles are kept, workers of its own end, others are free at once."""
    slow = {"TILE_SECONDS": "0.2"}
    own = made(2, **slow) if where == "a scheduler" else None
    preload = {} if own else {"DASK_DISTRIBUTED__WORKER__PRELOAD": "['tests.workers']", **slow}
    child = started(*SWEEP, "out=a", *(at(own) if own else ("engine=dask", "engine.workers=2")), **preload)
    wait(lambda: len(chunks(tmp_path / "a")) > 3)
    there = below(child.pid)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    answer = finish(child, 30)
    assert "finished tiles are kept" in one_line(answer, 130)
    assert gone(there)
    kept = files("a")
    assert list(Path("a").rglob("*.partial")) == []
    rest = command(*SWEEP, "out=a")
    assert rest.code == 0, rest
    assert 3 < sum("/sums/c/" in name for name in kept) < LANES
    same(whole, "a")


@pytest.mark.slow
def test_the_command_is_killed(started: Start, command: Command, tmp_path: Path, whole: Path) -> None:
    """Its workers end by themselves, and the next command goes on."""
    slow = {"DASK_DISTRIBUTED__WORKER__PRELOAD": "['tests.workers']", "TILE_SECONDS": "0.2"}
    child = started(*SWEEP, "out=a", "engine=dask", "engine.workers=2", **slow)
    wait(lambda: len(chunks(tmp_path / "a")) > 3)
    there = below(child.pid)
    child.kill()
    assert gone(there)
    assert command(*SWEEP, "out=a").code == 0
    same(whole, "a")


# ---------------------------------------------------------------- planning


class Pretended:
    """A client whose workers are done at once, or fail."""

    status = "running"

    def __init__(self, piece: Callable[[Stream], pieces.Piece]) -> None:
        self.piece, self.out, self.most = piece, 0, 0

    def nthreads(self) -> dict[str, int]:
        return {"tcp://127.0.0.1:1": 3}

    def run(self, *_: object, **__: object) -> dict[str, object]:
        return {}

    def cancel(self, *_: object) -> None: ...

    def submit(self, _: object, job: object, stream: Stream, seconds: float, key: object, pure: bool) -> Any:
        self.out += 1
        self.most = max(self.most, self.out)

        def result() -> pieces.Piece:
            self.out -= 1
            return self.piece(stream)

        return SimpleNamespace(key=key, result=result, done=lambda: True, add_done_callback=lambda f: f(SimpleNamespace(key=key)))


def test_a_million_cells_are_planned_a_few_at_a_time() -> None:
    """And a stream that comes back unfinished is handed out again, found tiles counted once."""
    sweep = load(["+axes.tau={start: 0, stop: 0.999, step: 0.001}", "+axes.rho_fp={start: 0, stop: 0.999, step: 0.001}"]).sweep
    assert sweep.size == 10**6
    taken, seen, most = 0, {}, 0  # type: ignore[var-annotated]

    def work() -> Iterator[Stream]:
        nonlocal taken
        for stream in streams(sweep, lambda block: 10**4):
            taken += 1
            if taken > 2000:
                return
            yield stream

    def piece(stream: Stream) -> pieces.Piece:
        nonlocal most
        seen[stream.block.start] = seen.get(stream.block.start, 0) + 1
        most = max(most, taken - sum(n == 2 for n in seen.values()))
        return pieces.Piece(5, 7, seen[stream.block.start] == 2)

    client = Pretended(piece)
    counts = {True: 0, False: 0}

    def advance(libraries: int, new: bool) -> None:
        counts[new] += libraries

    Dask(client, pieces.job("x", sweep, Path("a"), "numba"), "nowhere").run(work(), advance)
    assert client.most <= 6
    assert most <= 8
    assert counts == {True: 2000 * 14, False: 2000 * 5}


def test_no_more_pieces_after_many_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.sweep.MIN_STREAMS", 64)
    sweep = load(list(SWEEP)).sweep
    client = Pretended(lambda stream: pieces.Piece(0, 0, False, "broken"))
    engine = Dask(client, pieces.job("x", sweep, Path("a"), "numba"), "nowhere")
    with pytest.raises(InputError, match=f"lane 0, broken.*and {MAX_FAILED + 2} more.*given up"):
        engine.run(streams(sweep, lambda block: RUNS), lambda libraries, new: None)


# ---------------------------------------------------------------- what is asked for

BAD = [
    (["engine=dusk"], ["engine", "dask, local"]),
    (["engine.workers=2"], ["engine.workers"]),
    (["engine.name=dusk"], ["engine.name", "dask"]),
    (["+engine.workers=2"], ["engine.workers", "engine=dask"]),
    (["engine=dask", "engine.workers=0"], ["engine.workers", "0"]),
    (["engine=dask", "engine.nope=1"], ["engine.nope"]),
    (["engine=dask", "engine.jobs=2"], ["engine.jobs", "engine.cluster"]),
    (["engine=dask", "engine.address=nowhere"], ["engine.address", "nowhere", "tcp://"]),
    (["engine=dask", "engine.address=tcp://me:secret@host"], ["engine.address", "tcp://host'"]),
    (["engine=dask", "engine.address=tcp://h:1", "engine.workers=2"], ["engine.workers", "engine.address"]),
    (["engine=dask", "engine.address=tcp://h:1", "engine.threads=2"], ["engine.threads", "engine.address"]),
    (["engine=dask", "engine.cluster={cores: 2}"], ["engine.cluster", "class"]),
    (["engine=dask", "engine.cluster=3"], ["engine.cluster", "3"]),
    (["engine=dask", "out=memory://a"], ["out", "memory", "workers see"]),
]


@pytest.mark.parametrize(("given", "words"), BAD)
def test_bad_input(command: Command, given: list[str], words: list[str]) -> None:
    line = command("runs=1", *given).error
    assert all(word in line for word in words), line
    assert "secret" not in line
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(("package", "given"), [("distributed", "engine.workers=1"), ("dask_jobqueue", "engine.cluster={class: X}")])
def test_a_package_is_missing(command: Command, monkeypatch: pytest.MonkeyPatch, package: str, given: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert "pip install 'halfblind[" in command("runs=1", "out=a", "engine=dask", given).error


def test_importing_brings_no_dask() -> None:
    modules = "sim.main, sim.config, sim.store, sim.engines, sim.report"
    code = f"import sys, {modules}; print([m for m in ('dask', 'distributed') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_workers_that_do_not_start(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*args: object) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr("sim.dask_engine._local", dies)
    answer = command(*SWEEP, "out=a", "engine=dask", "engine.workers=1")
    assert answer.code == 1
    assert "engine: got workers that did not start (Nanny failed to start.)" in answer.err
    assert "tcp://host:8786" in command(*SWEEP, "out=a", "engine=dask", "engine.address=tls://127.0.0.1:44").error
