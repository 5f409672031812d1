"""Damaged stores, folders in the way and full disks: one line, status 2, and nothing else lost."""

from __future__ import annotations

import json
import resource
import shutil
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
from tests.conftest import Command, files, finish, same
from tests.stores import GRID, Start, chunks, results

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize("how", ["moved", "removed"])
def test_a_store_that_is_moved_while_the_sweep_runs(command: Command, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """zarr would quietly begin a new store in its place."""
    write, calls = Store.write, []

    def moving(self: Store, lane: int, block: Block, vectors: np.ndarray) -> None:
        calls.append(block)
        if len(calls) == 2:
            shutil.move("a", "b") if how == "moved" else shutil.rmtree("a")
        write(self, lane, block, vectors)

    monkeypatch.setattr(Store, "write", moving)
    monkeypatch.setattr("sim.sweep.MAX_BLOCK_CELLS", 5)
    line = command(*GRID, "runs=8", "engine.threads=1", "out=a").error
    assert "moved or removed" in line
    monkeypatch.setattr(Store, "write", write)
    if how == "moved":
        shutil.rmtree("a", ignore_errors=True)
        shutil.move("b", "a")
    assert command(*GRID, "runs=8", "out=a").code == 0
    assert command(*GRID, "runs=8", "out=c").code == 0
    same("a", "c")
