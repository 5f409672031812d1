"""The store: continuing, refusing, and what a reader sees; the same bits whatever the order."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

from sim.config import load
from sim.store import Store, identity, open_result
from sim.sweep import Block
from sim.variables import SERIES_VARIABLES, VARIABLES
from tests.conftest import Command, files, same
from tests.stores import GRID, LONG, SHORT_TILES, Start, chunks, results, runs_kept

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


def test_a_linked_axis_is_part_of_what_a_store_belongs_to(command: Command) -> None:
    """Its own values, order and what they set; a store of other axes has nothing new in it."""
    axis = "+axes.x={{set: [tau, cap], values: {{{}}}}}"
    assert command(axis.format("1: [0.1, 4], 2: [0.2, 8]"), "runs=8", "out=a").code == 0
    before = files("a")
    assert json.loads(results(Path("a"))["x"].attrs["linked"]) == {"1": [0.1, 4], "2": [0.2, 8]}
    for other in ("1: [0.1, 4], 2: [0.2, 6]", "2: [0.2, 8], 1: [0.1, 4]", "1: [0.1, 4], 3: [0.2, 8]"):
        assert "axes.x" in command(axis.format(other), "runs=8", "out=a").error
    assert files("a") == before
    assert command(axis.format("1: [0.1, 4], 2: [0.2, 8]"), "runs=16", "out=a").code == 0
    assert (results(Path("a"))["runs"] == 16).all()
    assert identity(load(["+axes.rho={set: [rho_fp, rho_pf], values: [0, 0.2]}"]).sweep)["axes"] == {
        "rho": {"sets": ["channel.rho_fp", "channel.rho_pf"], "values": [0.0, 0.2]}
    }


def test_axes_in_another_order_are_refused_by_name(command: Command) -> None:
    """Equal lengths: only the order tells the two apart."""
    axes = ["+axes.tau=[0.1,0.2]", "+axes.spread=[0.1,0.2]"]
    assert command(*axes, "runs=8", "out=a").code == 0
    before = files("a")
    line = command(*reversed(axes), "runs=8", "out=a").error
    assert "axes" in line
    assert files("a") == before


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


@pytest.mark.slow
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
        assert given["complete"] == 1
        assert re.fullmatch(r"halfblind \d.*", given["package"])
        assert isinstance(given["commit"], str)
        assert given["seed"] == 7
        assert given["backend"] == "numba"
        config = json.loads(given["config"])
        assert config["axes"]["world"] == {"set": ["world"], "values": ["report_main_71", "report_band_58"]}
        assert config["policy"]["tau"] == 0.1
        assert config["runs"] == 8
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


def test_tables_that_come_out_otherwise_are_refused(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change in how tables are made, with every setting the same, must not continue an old store."""
    assert command(*GRID, "runs=4", "out=a").code == 0
    monkeypatch.setattr("sim.tables.LOGIT_CLIP", 1.0)
    assert "tables" in command(*GRID, "runs=8", "out=a").error
