"""The store: the same bits whatever happens to the process, the disk or the files."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr

from sim.config import load
from sim.errors import InputError
from sim.main import main
from sim.store import Store, open_result
from sim.sweep import Block
from sim.variables import SERIES_VARIABLES, VARIABLES
from tests.conftest import Command, files, finish, same

GRID = ("+axes.tau=[0.0,0.2]", "+axes.rho_fp={start: 0, stop: 1, step: 0.25}")
# 3 blocks of 64 cells; with short tiles 66 chunks, each written once or twice.
LONG = ("+axes.tau={start: 0, stop: 0.5, step: 0.25}", "+axes.rho_fp={start: 0, stop: 0.945, step: 0.015}", "engine.threads=2", "runs=2048")
SHORT_TILES = 2**22

Start = Callable[..., "subprocess.Popen[str]"]


def chunks(folder: Path) -> list[Path]:
    return sorted(p for p in (folder / "result.zarr/tiles/sums/c").rglob("*") if p.is_file() and not p.name.endswith(".partial"))


def results(folder: Path) -> xarray.Dataset:
    with xarray.open_zarr(folder / "result.zarr", consolidated=False, chunks=None) as data:
        return data.load()


# ---------------------------------------------------------------- continuing


def test_same_command_again_simulates_nothing_and_changes_no_bit(command: Command) -> None:
    first = command(*GRID, "runs=16", "out=a")
    assert first.code == 0, first
    assert "160 libraries in" in first.out
    before = files("a")
    again = command(*GRID, "runs=16", "out=a")
    assert again.code == 0
    assert "nothing left to simulate" in again.out
    assert files("a") == before
    fewer = command(*GRID, "runs=8", "out=a")
    assert "nothing left to simulate" in fewer.out
    assert files("a") == before


def test_single_point(command: Command) -> None:
    answer = command("runs=8", "out=a")
    assert answer.code == 0, answer
    data = results(Path("a"))
    assert int(data["runs"]) == 8
    assert data["retired"].dims == ()
    assert data["eval_by_round"].dims == ("round",)


@pytest.mark.parametrize("axes", [(), GRID])
def test_more_runs_later_equal_all_at_once(command: Command, axes: tuple[str, ...]) -> None:
    assert command(*axes, "runs=100", "out=once").code == 0
    for runs in (40, 100):
        assert command(*axes, f"runs={runs}", "out=parts").code == 0
    same("once", "parts")
    assert (results(Path("parts"))["runs"] == 100).all()


def test_more_runs_across_tiles_and_lanes(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiles of 2 runs, 150 runs fill all 64 lanes and begin a second round; 77 end inside a tile."""
    monkeypatch.setattr("sim.sweep.MAX_TILE_RUNS", 2)
    for folder, parts in {"once": (150,), "parts": (1, 77, 150)}.items():
        for runs in parts:
            assert command(*GRID, f"runs={runs}", f"out={folder}").code == 0
    same("once", "parts")


def test_threads_and_order_do_not_matter(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.sweep.MAX_TILE_RUNS", 4)
    assert command(*GRID, "runs=100", "out=one", "engine.threads=1").code == 0
    assert command(*GRID, "runs=100", "out=three", "engine.threads=3").code == 0
    same("one", "three")

    import sim.engines

    forward = sim.engines.streams
    monkeypatch.setattr("sim.engines.streams", lambda *a: reversed(list(forward(*a))))
    assert command(*GRID, "runs=100", "out=back", "engine.threads=2").code == 0
    same("one", "back")


def test_tile_length_does_not_change_the_sums(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut otherwise, the same runs give the same results; the lanes differ, their totals do not."""
    assert command(*GRID, "runs=100", "out=a").code == 0
    monkeypatch.setattr("sim.sweep.MAX_TILE_RUNS", 8)
    monkeypatch.setattr("sim.sweep.MAX_BLOCK_CELLS", 3)
    assert command(*GRID, "runs=100", "out=b").code == 0
    xarray.testing.assert_identical(results(Path("a")).drop_attrs(), results(Path("b")).drop_attrs())


def test_reference_backend_gives_the_same_store(command: Command) -> None:
    world = ("world.n_train=8", "world.n_eval=4")
    assert command(*GRID, *world, "runs=3", "out=a").code == 0
    assert command(*GRID, *world, "runs=3", "out=b", "backend=reference").code == 0
    same("a", "b")
    assert command(*GRID, *world, "runs=6", "out=b").code == 0  # one backend continues what the other began
    assert command(*GRID, *world, "runs=6", "out=a", "backend=reference").code == 0
    same("a", "b")


# ---------------------------------------------------------------- killed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of LONG, made in one go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sim.sweep.TILE_TRIALS", SHORT_TILES)
        folder = tmp_path_factory.mktemp("long")
        assert main([*LONG, "figures=[]", f"out={folder}"]) == 0
    return folder


def runs_kept(folder: Path) -> int:
    """Return the finished runs of all cells; no chunk may be unreadable."""
    root = zarr.open_group(folder / "result.zarr", mode="r", zarr_format=3, use_consolidated=False)
    sums = root["tiles/sums"][...]
    return int(sums[..., 0].sum())


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
    import sim.store

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sim.store.os, "rename", stop)
        assert command(*GRID, "runs=8", "out=a").code == 130
    assert not Path("a/result.zarr").exists()
    assert command(*GRID, "runs=8", "out=a").code == 0
    assert command(*GRID, "runs=8", "out=b").code == 0
    same("a", "b")
    assert not Path("a/result.zarr.new").exists()


# ---------------------------------------------------------------- held, refused


def test_second_process_is_refused_while_the_first_runs(process: Start, command: Command, tmp_path: Path) -> None:
    long = (*LONG[:-1], "runs=200000")
    child = process(*long, "out=shared", tile_trials=SHORT_TILES)
    while child.poll() is None and not chunks(tmp_path / "shared"):
        time.sleep(0.01)
    line = command(*long, "out=shared").error
    assert child.poll() is None, "the first run was over too early"
    assert "shared" in line
    assert "another run is writing" in line
    child.kill()
    child.wait()
    again = process(*long, "out=shared", tile_trials=SHORT_TILES)  # a killed process holds nothing
    before = runs_kept(tmp_path / "shared")
    while again.poll() is None and runs_kept(tmp_path / "shared") == before:
        time.sleep(0.05)
    assert again.poll() is None


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (["policy.tau=0.2"], ["policy.tau", "0.1 there", "0.2 here"]),
        (["seed=2"], ["seed", "1 there", "2 here"]),
        (["world.effect.mean=0.5"], ["world.effect.mean", "-0.84 there", "0.5 here"]),
        (["world=report_band_58"], ["world."]),
        (["axes.rho_fp=[0.0,0.3]"], ["axes.rho_fp", "0.2"]),
        (["+axes.cap=[4,8]"], ["axes.cap"]),
        (["+baseline.policy.tau=0.0"], ["baseline.policy.tau"]),
        (["baseline.channel.rho_fp=0.1"], ["baseline.channel.rho_fp"]),
    ],
)
def test_another_configuration_is_refused(command: Command, changed: list[str], named: list[str]) -> None:
    base = ["+axes.rho_fp=[0.0,0.2]", "runs=8", "out=a"]
    assert command(*base).code == 0
    before = files("a")
    overlaid = [a for a in base if not any(a.lstrip("+").split("=")[0] == c.split("=")[0] for c in changed)]
    changed = [c if c.startswith("+") or not c.startswith("axes") else "+" + c for c in changed]
    line = command(*overlaid, *changed).error
    for word in named:
        assert word in line
    assert "out=" in line
    assert files("a") == before


def test_axes_in_another_order_are_refused_by_name(command: Command) -> None:
    """Equal lengths: only the order tells the two apart."""
    axes = ["+axes.tau=[0.1,0.2]", "+axes.spread=[0.1,0.2]"]
    assert command(*axes, "runs=8", "out=a").code == 0
    before = files("a")
    line = command(*reversed(axes), "runs=8", "out=a").error
    assert "axes" in line
    assert files("a") == before


# ---------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of GRID in two blocks and several lanes: ``a`` with 8 runs, ``whole`` with 16."""
    folder = tmp_path_factory.mktemp("templates")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sim.sweep.MAX_TILE_RUNS", 4)
        patch.setattr("sim.sweep.MAX_BLOCK_CELLS", 5)
        for name, runs in (("a", 8), ("whole", 16)):
            assert main([*GRID, f"runs={runs}", "figures=[]", f"out={folder / name}"]) == 0
    return folder


@pytest.fixture
def stored(command: Command, templates: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of both in the present folder: a store of four chunks in ``a``, and what it must become in ``whole``."""
    monkeypatch.setattr("sim.sweep.MAX_TILE_RUNS", 4)
    monkeypatch.setattr("sim.sweep.MAX_BLOCK_CELLS", 5)
    shutil.copytree(templates, ".", dirs_exist_ok=True)
    return Path("a")


def damage_chunk(folder: Path, how: str) -> Path:
    victim = chunks(folder)[1]
    raw = bytearray(victim.read_bytes())
    if how == "cut":
        raw = raw[: len(raw) // 2]
    elif how == "empty":
        raw = bytearray()
    elif how == "flip":
        raw[len(raw) // 2] ^= 0x10
    elif how == "crc":
        raw[-1] ^= 0x01
    victim.write_bytes(raw)
    return victim


@pytest.mark.parametrize("how", ["cut", "empty", "flip", "crc"])
def test_damaged_chunk_of_sums(command: Command, stored: Path, how: str) -> None:
    victim = damage_chunk(stored, how)
    before = files(stored)
    line = command(*GRID, "runs=16", "out=a").error
    assert "result.zarr" in line
    assert "damaged" in line
    after = files(stored)
    for name in before:
        if name != str(victim) and "/tiles/sums/c/" in name:
            assert name in after, "a finished tile is gone"
    victim.unlink()  # without the damaged tile, the rest is still good: it is played again
    assert command(*GRID, "runs=16", "out=a").code == 0
    same("a", "whole")


def test_chunk_whose_cells_disagree(command: Command, stored: Path) -> None:
    root = zarr.open_group(stored / "result.zarr", mode="r+", zarr_format=3, use_consolidated=False)
    root["tiles/sums"][0, 0, 0, 0] += 1
    assert "damaged" in command(*GRID, "runs=16", "out=a").error


@pytest.mark.parametrize("what", ["zarr.json", "tiles/sums/zarr.json"])
@pytest.mark.parametrize("how", ["cut", "garbage", "other", "gone"])
def test_damaged_metadata(command: Command, stored: Path, what: str, how: str) -> None:
    path = stored / "result.zarr" / what
    text = path.read_text()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": text[: len(text) // 2].encode(), "empty": b"", "garbage": b"\x00\xff", "other": b"{}", "list": b"[]"}[how])
    tiles = {p: p.read_bytes() for p in chunks(stored)}
    line = command(*GRID, "runs=16", "out=a").error
    assert "result.zarr" in line
    assert {p: p.read_bytes() for p in chunks(stored)} == tiles
    if how in ("cut", "gone"):
        path.write_text(text)  # the tiles are as good as before
        assert command(*GRID, "runs=16", "out=a").code == 0
        same("a", "whole")


@pytest.mark.parametrize("how", ["cut", "gone"])
def test_damaged_metadata_that_nothing_needs(command: Command, stored: Path, how: str) -> None:
    """The group of the tiles holds nothing itself: refused in a line, or used and right."""
    path = stored / "result.zarr/tiles/zarr.json"
    path.write_text("{") if how == "cut" else path.unlink()
    answer = command(*GRID, "runs=16", "out=a")
    if answer.code == 0:
        data, whole = results(Path("a")), results(Path("whole"))
        xarray.testing.assert_identical(data.drop_attrs(), whole.drop_attrs())
    else:
        assert answer.error


@pytest.mark.parametrize("what", ["tiles", "tiles/sums"])
def test_tiles_are_missing(command: Command, stored: Path, what: str) -> None:
    shutil.rmtree(stored / "result.zarr" / what)
    line = command(*GRID, "runs=16", "out=a").error
    assert "result.zarr" in line


@pytest.mark.parametrize(
    "edit",
    [
        {"schema_version": 99},
        {"schema_version": "1"},
        {"schema_version": None},
        {"identity": None},
        {"identity": 3},
        {"identity": {}},
        {"identity": {"seed": [1]}},
    ],
)
def test_edited_attributes(command: Command, edit: dict[str, object]) -> None:
    assert command(*GRID, "runs=8", "out=a").code == 0
    path = Path("a/result.zarr/zarr.json")
    meta = json.loads(path.read_text())
    meta["attributes"] |= edit
    path.write_text(json.dumps(meta))
    line = command(*GRID, "runs=16", "out=a").error
    assert "result.zarr" in line
    if edit.get("schema_version") == 99:
        assert "schema version 99" in line
        with pytest.raises(InputError, match="schema version 99"):
            open_result("a")


def test_sums_of_another_shape(command: Command) -> None:
    assert command(*GRID, "runs=8", "out=a").code == 0
    path = Path("a/result.zarr/tiles/sums/zarr.json")
    meta = json.loads(path.read_text())
    meta["shape"][0] += 1
    path.write_text(json.dumps(meta))
    assert "damaged" in command(*GRID, "runs=8", "out=a").error


@pytest.mark.parametrize("how", ["flip", "cut", "gone"])
@pytest.mark.parametrize("name", ["retired", "tail_eval/zarr.json", "rho_fp"])
def test_damaged_results(command: Command, stored: Path, how: str, name: str) -> None:
    """Results follow from the sums: written again from them, or refused in a line; never a traceback, never wrong numbers."""
    place = Path("whole/result.zarr") / name
    victim = place if place.is_file() else next(p for p in sorted((place / "c").rglob("*")) if p.is_file())
    raw = bytearray(victim.read_bytes())
    shutil.copytree("whole", "good")
    if how == "gone":
        victim.unlink()
    else:
        raw[len(raw) // 2] ^= 0x10
        victim.write_bytes(raw if how == "flip" else raw[: len(raw) // 2])
    answer = command(*GRID, "runs=16", "out=whole")
    if answer.code == 0:
        same("whole", "good")
    else:
        assert "result.zarr" in answer.error
    victim.unlink(missing_ok=True)
    assert command(*GRID, "runs=20", "out=whole").code == 0, "more runs write the results anew, whatever is there"


@pytest.mark.parametrize("what", ["file", "empty folder", "folder of something else", "dangling link"])
def test_something_else_is_in_the_way(command: Command, what: str) -> None:
    place = Path("a/result.zarr")
    place.parent.mkdir()
    if what == "file":
        place.write_text("hello")
    elif what == "dangling link":
        place.symlink_to("nowhere")
    else:
        place.mkdir()
        if what != "empty folder":
            (place / "notes.txt").write_text("hello")
    before = files("a")
    line = command(*GRID, "runs=8", "out=a").error
    assert "result.zarr" in line
    assert {k: v for k, v in files("a").items() if k in before} == before


def test_open_result_says_what_is_missing(command: Command, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing there"):
        open_result(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no result"):
        open_result(tmp_path / "empty")
    sweep = load([*GRID]).sweep
    Store(tmp_path / "half", sweep).close()
    with pytest.raises(InputError, match="unfinished"):
        open_result(tmp_path / "half")


# ---------------------------------------------------------------- disk


@pytest.mark.parametrize("out", ["plain/a", "plain", "/proc/nowhere", "/dev/null/a", "/sys/x", "x" * 300])
def test_out_that_cannot_be_written(command: Command, out: str) -> None:
    Path("plain").write_text("a file")
    line = command(*GRID, "runs=8", f"out={out}").error
    assert out[:40] in line
    assert "out=" in line
    assert Path("plain").read_text() == "a file"


def test_lock_that_cannot_be_made(command: Command) -> None:
    Path("a/.lock").mkdir(parents=True)
    assert command(*GRID, "runs=8", "out=a").error


@pytest.mark.parametrize("what", ["metadata", "tiles", "results"])
def test_full_disk(process: Start, command: Command, what: str) -> None:
    """No file may grow beyond a limit: the store's first files, its tiles, or the last of its results do not fit."""
    assert command(*GRID, "runs=16", "out=whole").code == 0
    tiles = max(p.stat().st_size for p in chunks(Path("whole")))
    root = Path("whole/result.zarr/zarr.json").stat().st_size  # grows when provenance is added
    limit = {"metadata": 500, "tiles": tiles - 1, "results": root - 100}[what]
    full = finish(process(*GRID, "runs=16", "out=full", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))))
    line = full.error
    assert "no space left" in line
    assert "same command again" in line
    assert command(*GRID, "runs=16", "out=full").code == 0
    same("whole", "full")
    assert list(Path("full").rglob("*.partial")) == []


def test_full_disk_while_a_store_grows(process: Start, command: Command) -> None:
    """What was there before stays readable, and goes on when there is room again."""
    assert command(*GRID, "runs=8", "out=full").code == 0
    limit = max(p.stat().st_size for p in chunks(Path("full"))) // 2
    full = finish(process(*GRID, "runs=16", "out=full", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))))
    assert "no space left" in full.error
    assert (results(Path("full"))["runs"] == 8).all()
    assert command(*GRID, "runs=16", "out=full").code == 0
    assert command(*GRID, "runs=16", "out=whole").code == 0
    same("whole", "full")


# ---------------------------------------------------------------- target_se


def test_target_se_is_reached_in_every_cell(command: Command) -> None:
    answer = command(*GRID, "runs=32", "target_se={retired: 0.1, tail_eval: 0.004}", "out=a")
    assert answer.code == 0, answer
    data = results(Path("a"))
    assert float(data["retired_se"].max()) <= 0.1
    assert float(data["tail_eval_se"].max()) <= 0.004
    assert int(data["runs"].min()) > 32
    again = command(*GRID, "runs=32", "target_se={retired: 0.1, tail_eval: 0.004}", "out=a")
    assert "nothing left" in again.out


def test_target_se_stops_at_max_runs(command: Command) -> None:
    assert command(*GRID, "runs=16", "target_se={retired: 0.0001}", "max_runs=50", "out=a").code == 0
    assert (results(Path("a"))["runs"] == 50).all()
    assert command(*GRID, "runs=50", "out=b").code == 0
    same("a", "b")
    assert "nothing left" in command(*GRID, "runs=16", "target_se={retired: 0.0001}", "max_runs=50", "out=a").out


def test_target_se_that_is_met_adds_nothing(command: Command) -> None:
    assert command(*GRID, "runs=128", "target_se={retired: 100}", "out=a").code == 0
    assert (results(Path("a"))["runs"] == 128).all()


def test_target_se_from_a_single_run(command: Command) -> None:
    """One run has no standard error: that is not below any target."""
    assert command(*GRID, "runs=1", "target_se={tail_eval: 0.01}", "max_runs=5000", "out=a").code == 0
    data = results(Path("a"))
    assert int(data["runs"].min()) > 1
    assert float(data["tail_eval_se"].max()) <= 0.01


@pytest.mark.parametrize("after", [2, 5, 9])
def test_target_se_gives_the_same_numbers_after_a_kill(command: Command, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Killed between two tiles of a stream, the run must not take another path to its target."""
    monkeypatch.setattr("sim.sweep.MAX_TILE_RUNS", 8)
    arguments = (*GRID, "runs=16", "target_se={tail_eval: 0.0025}", "engine.threads=1")
    assert command(*arguments, "out=whole").code == 0
    write, left = Store.write, after

    def killed(self: Store, lane: int, block: Block, vectors: np.ndarray) -> None:
        nonlocal left
        write(self, lane, block, vectors)
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", killed)
        assert command(*arguments, "out=cut").code == 130
    assert command(*arguments, "out=cut").code == 0
    same("whole", "cut")


# ---------------------------------------------------------------- what a reader sees


def test_plain_xarray_shows_everything(command: Command) -> None:
    axes = ("+axes.world=[report_main_71,report_band_58]", "+axes.rho={set: [channel.rho_fp, channel.rho_pf], values: [0, 0.2, 0.4]}")
    assert command(*axes, "runs=8", "out=a", "seed=7").code == 0
    with xarray.open_zarr("a/result.zarr", consolidated=False) as data:
        names = [*VARIABLES, *SERIES_VARIABLES]
        expected = {"runs", "retired_histogram", *(n + s for n in names for s in ("", "_sd", "_se"))}
        assert set(data.data_vars) == expected
        for name, variable in data.variables.items():
            assert variable.attrs["long_name"], name
            assert "units" in variable.attrs, name
        for name in VARIABLES:
            assert data[name].dims == ("world", "rho")
            assert data[name].attrs["units"] == VARIABLES[name].units
        for name in SERIES_VARIABLES:
            assert data[name].dims == ("world", "rho", "round")
        assert data["retired_histogram"].dims == ("world", "rho", "retired_count")
        assert (data["retired_histogram"].sum("retired_count") == 8).all()
        assert data["rho"].values.tolist() == [0.0, 0.2, 0.4]
        assert data["rho"].attrs["units"] == "probability"
        assert data["rho"].attrs["sets"] == ["channel.rho_fp", "channel.rho_pf"]
        assert data["world"].values.tolist() == ["report_main_71", "report_band_58"]
        given = data.attrs
        assert given["schema_version"] == 1
        assert given["complete"] is True
        assert re.fullmatch(r"halfblind \d.*", given["package"])
        assert isinstance(given["commit"], str)
        assert given["seed"] == 7
        assert given["backend"] == "numba"
        assert given["config"]["axes"]["world"] == ["report_main_71", "report_band_58"]
        assert given["config"]["policy"]["tau"] == 0.1
        assert given["config"]["runs"] == 8
        assert given["wall_seconds"] > 0
        assert given["runs_per_second"] > 0
        assert "figures=[]" in given["command"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", given["finished"])


def test_baseline_differences(command: Command) -> None:
    assert command("+axes.rho_fp=[0,0.3,0.9]", "+axes.tau=[0.0,0.3]", "runs=64", "out=a").code == 0
    data = results(Path("a"))
    clean = data.sel(rho_fp=0)
    assert (clean["delta_clean"] == 0).all()
    assert (clean["delta_clean_se"] == 0).all()
    assert (clean["delta_clean_sd"] == 0).all()
    difference = data["tail_eval"] - clean["tail_eval"]
    np.testing.assert_allclose(data["delta_clean"], difference, atol=1e-12)
    assert (data["delta_clean_se"].sel(rho_fp=[0.3, 0.9]) > 0).all()
    independent = np.hypot(data["tail_eval_se"], clean["tail_eval_se"])
    assert float((data["delta_clean_se"] / independent).sel(rho_fp=[0.3, 0.9]).mean()) < 1  # paired: common random numbers


def test_baseline_outside_the_grid(command: Command) -> None:
    """The clean cell need not be one of the sweep's."""
    assert command("+axes.rho_fp=[0.3,0.9]", "runs=64", "out=a").code == 0
    assert command("+axes.rho_fp=[0,0.3,0.9]", "runs=64", "out=b").code == 0
    a, b = results(Path("a")), results(Path("b")).sel(rho_fp=[0.3, 0.9])
    xarray.testing.assert_identical(a.drop_attrs(), b.drop_attrs())


def test_baseline_of_more_rounds_than_the_cells(command: Command) -> None:
    answer = command("+axes.tau=[0.1,0.2]", "+baseline.policy.rounds=20", "runs=4", "out=a")
    assert answer.code == 0, answer


def test_cells_of_different_length(command: Command) -> None:
    assert command("+axes.rounds=[4,12,30]", "runs=16", "out=a").code == 0
    assert command("policy.rounds=12", "+axes.tau=[0.1]", "runs=16", "out=b").code == 0
    a, b = results(Path("a")), results(Path("b"))
    assert a.sizes["round"] == 30
    assert np.isnan(a["eval_by_round"].sel(rounds=12).values[12:]).all()
    for name in VARIABLES:
        assert np.array_equal(a[name].sel(rounds=12), b[name].isel(tau=0), equal_nan=True), name
    for name in SERIES_VARIABLES:
        assert np.array_equal(a[name].sel(rounds=12).values[:12], b[name].isel(tau=0), equal_nan=True), name


def test_stays_within_reach_of_a_read_only_reader(command: Command) -> None:
    """Reading a result writes nothing."""
    assert command(*GRID, "runs=8", "out=a").code == 0
    before = {p: os.stat(p).st_mtime_ns for p in Path("a").rglob("*")}
    open_result("a").load()
    assert {p: os.stat(p).st_mtime_ns for p in Path("a").rglob("*")} == before
