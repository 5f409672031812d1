"""Killed, interrupted and continued: at most the tiles in flight are lost, and the numbers are those of an undisturbed run."""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from sim.main import main
from sim.store import Store
from tests.conftest import Command, finish, same
from tests.stores import GRID, LONG, SHORT_TILES, Start, chunks, runs_kept

# ---------------------------------------------------------------- killed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of LONG, made in one go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sim.sweep.TILE_TRIALS", SHORT_TILES)
        folder = tmp_path_factory.mktemp("long")
        assert main([*LONG, "figures=[]", f"out={folder}"]) == 0
    return folder


@pytest.mark.slow
def test_sigkill_at_any_instant(process: Start, tmp_path: Path, undisturbed: Path) -> None:
    """Killed while it starts, plays (twice) and writes results; each time at another moment of that."""
    rng, kept = np.random.default_rng(), 0
    folder = tmp_path / "killed"
    for stage in ("start", "play", "play later", "results"):
        target = {"start": 0, "play": int(rng.integers(1, 25)), "play later": int(rng.integers(30, 60)), "results": 0}[stage]
        child = process(*LONG, "out=killed", tile_trials=SHORT_TILES, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if stage == "start":
            time.sleep(rng.uniform(0.3, 1.5))
        elif stage == "results":
            while child.poll() is None and not (folder / "result.zarr/tail_eval").exists():
                time.sleep(0.002)
        else:
            while child.poll() is None and len(chunks(folder)) < target:
                time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.05))
        if child.poll() is not None:
            assert stage == "results", "the run was over before it could be killed"
            break
        child.send_signal(signal.SIGKILL)
        child.wait()
        if (folder / "result.zarr").exists():
            now = runs_kept(folder)
            assert now >= kept, "finished tiles were lost"
            kept = now
    assert kept > 0
    last = finish(process(*LONG, "out=killed", tile_trials=SHORT_TILES))
    assert last.code == 0, last
    same(undisturbed, folder)
    assert list((folder / "result.zarr/tiles").rglob("*.partial")) == []


def test_ctrl_c_keeps_tiles_and_names_the_command(process: Start, tmp_path: Path, undisturbed: Path) -> None:
    arguments = (*LONG, "out=stopped")
    child = process(*arguments, tile_trials=SHORT_TILES, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    while child.poll() is None and not chunks(tmp_path / "stopped"):
        time.sleep(0.005)
    child.send_signal(signal.SIGINT)
    answer = finish(child)
    assert answer.code == 130, answer
    assert "Traceback" not in answer.err
    assert len(answer.err.splitlines()) == 1
    assert "Continue with: python -m sim" in answer.err
    named = shlex.split(answer.err.split("Continue with: ")[1])
    assert named == ["python", "-m", "sim", *arguments, "figures=[]"]
    assert 0 < runs_kept(tmp_path / "stopped") < 2048 * 192
    last = finish(process(*named[3:], tile_trials=SHORT_TILES))
    assert last.code == 0, last
    same(undisturbed, tmp_path / "stopped")


@pytest.mark.parametrize("place", ["start", "end"])
@pytest.mark.parametrize("earlier", [0, 8])
def test_interrupted_while_results_are_written(command: Command, monkeypatch: pytest.MonkeyPatch, place: str, earlier: int) -> None:
    """The tiles are all there, the results not or in part: the same command writes them, also over those of fewer runs."""
    import sim.store

    assert command(*GRID, "runs=24", "out=whole").code == 0
    if earlier:
        assert command(*GRID, f"runs={earlier}", "out=cut").code == 0

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if place == "start":
            patch.setattr(Store, "finish", stop)
        else:
            write = sim.store._write_results
            patch.setattr(sim.store, "_write_results", lambda *a: (write(*a), stop()))
        answer = command(*GRID, "runs=24", "out=cut")
        assert answer.code == 130, answer
        assert "Traceback" not in answer.err
    again = command(*GRID, "runs=24", "out=cut")
    assert again.code == 0, again
    same("whole", "cut")


def test_interrupt_after_the_last_tile_of_an_extension(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the last tile is in flight: it is kept, nothing is left to simulate, but the results are still the old ones."""
    import sim.engines

    assert command(*GRID, "runs=24", "out=whole").code == 0
    assert command(*GRID, "runs=8", "out=cut").code == 0
    run = sim.engines.Local.run
    with monkeypatch.context() as patch:

        def stopped(*a: object) -> None:
            run(*a)  # type: ignore[arg-type]
            raise KeyboardInterrupt

        patch.setattr(sim.engines.Local, "run", stopped)
        assert command(*GRID, "runs=24", "out=cut").code == 130
    again = command(*GRID, "runs=24", "out=cut")
    assert again.code == 0
    assert " 24 runs each" in again.out
    same("whole", "cut")


def test_killed_while_the_store_is_made(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    import sim.places

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sim.places.os, "rename", stop)
        assert command(*GRID, "runs=8", "out=a").code == 130
    assert not Path("a/result.zarr").exists()
    assert command(*GRID, "runs=8", "out=a").code == 0
    assert command(*GRID, "runs=8", "out=b").code == 0
    same("a", "b")
    assert not Path("a/result.zarr.new").exists()
