"""RT reproduced: the sweep of ablations, its table, the figure; A4's two stable states and what explains them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray

from sim.config import load
from sim.figures import axes, collapse, possible, ratchet
from sim.figures.reported import ablations
from sim.free import ablations as changes
from sim.main import main as simulate
from sim.store import open_result
from tests.conftest import Command


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> xarray.Dataset:
    path = tmp_path_factory.mktemp("ratchet")
    assert simulate(["+sweep=ratchet", "runs=60", f"out={path}", "figures=[]"]) == 0
    return axes.prepare(open_result(path)).load()


def test_each_ablation_changes_one_thing(data: xarray.Dataset) -> None:
    rows = changes()
    assert rows["default"] == {}
    assert rows["A7 cap 100"] == {"policy.cap": 100}
    assert all(len(row) == (2 if name.startswith("A4") else 1) for name, row in rows.items() if name != "default")
    world = load(["+sweep=ratchet"]).sweep.cell((0,)).world
    assert world == load(["world=mbpp_100"]).sweep.cell(()).world  # the first row repeats the preset
    assert {name for name, _ in ablations()} <= set(map(str, data.condition.values))


def test_what_rt_found_is_found(data: xarray.Dataset) -> None:
    gain = {str(c): float(data.rolling_gain.sel(condition=c)) for c in data.condition.values}
    eval_ = {str(c): float(data.tail_eval.sel(condition=c)) for c in data.condition.values}
    floor = float(data.floor_eval.mean())
    assert gain["default"] > 0.25
    assert gain["A1 withheld"] == pytest.approx(0, abs=1e-5)
    assert gain["A2 top_hit"] < 0.25 * gain["default"]
    assert eval_["A4 n_min 20 tau 0"] < floor - 0.05  # worse than no skill
    assert float(data.active_final.sel(condition="A4 n_min 20 tau 0")) < 5
    assert all(abs(gain[name] - gain["default"]) < 0.06 for name in ("A5 no guard", "A6 strict guard", "A7 cap 100"))


def test_the_table_has_the_numbers_of_the_result(data: xarray.Dataset) -> None:
    text = ratchet.table(data)
    rows = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in text.splitlines() if line.startswith("|")
    }
    columns = list(ratchet.COLUMNS)
    part = data.sel(condition="A7 cap 100")
    assert rows["A7 cap 100"][columns.index("active_final")] == f"{float(part.active_final):.1f} ± {float(part.active_final_sd):.1f}"
    found = ratchet.compared(data)
    off = found["A4 n_min 20 tau 0", "rolling_gain"][1]
    cell = data.sel(condition="A4 n_min 20 tau 0")
    error = max(float(cell.rolling_gain_sd) / np.sqrt(3), 0.01)
    assert off == pytest.approx((-0.019 - float(cell.rolling_gain)) / error)
    assert f"-0.019 {'✓' if abs(off) <= 2 else '✗'} {off:+.2f}" in text
    assert "< 0.082 ✓ +0.00" in text
    assert f"{sum(abs(z) <= 2 for _, z in found.values())} of {len(found)} reported" in text


def test_the_rows_are_relative_to_the_world_and_only_rt_s_is_compared(command: Command, tmp_path: Path) -> None:
    given = ["+sweep=ratchet", "world.effect.mean=0.5", "policy.n_min=40"]
    cells = load(given).sweep
    rows = dict(zip(cells.axes[0].values, (cells.cell((i,)) for i in range(cells.shape[0])), strict=True))
    assert rows["default"].world.effect.mean == rows["A7 cap 100"].world.effect.mean == 0.5
    assert rows["A8 worse prior"].world.effect.mean == 0.0
    assert rows["A8 better prior"].world.effect.mean == 1.0
    assert (rows["default"].policy.n_min, rows["A4 n_min 20 tau 0"].policy.n_min) == (40, 20)
    assert "while another axis follows world.effect.mean" in command("+sweep=ratchet", "+axes.world=[mbpp_100,mbpp_hard100]").error
    said = command("+sweep=ratchet", "world=report_main_71", "runs=2", "figures=[ratchet]", "out=o")
    assert "figures: got ratchet for a result with axes: condition" in said.error
    assert "got ratchet" in command("+sweep=ratchet", "channel=strict_judge", "runs=2", "figures=[ratchet]", "out=j").error


def test_which_results_have_ablations(data: xarray.Dataset, command: Command, tmp_path: Path) -> None:
    assert "ratchet" in possible(data)
    assert "ratchet" not in possible(data.isel(condition=slice(1, None)))  # nothing to compare with
    assert "figures: got ratchet for a result with axes" in command("+sweep=evidence", "runs=2", "figures=[ratchet]", "out=e").error
    assert command("+sweep=ratchet", "runs=4", "axes.condition=[default,A7 cap 100]", "figures=[ratchet]", "out=r").code == 0
    assert (tmp_path / "r/ratchet.png").exists()
    assert (tmp_path / "r/ratchet.md").read_text().count("A7 cap 100") == 1


# ---------------------------------------------------------------- two stable states


def test_the_start_decides_where_the_rule_is_eager_and_only_there(command: Command, tmp_path: Path) -> None:
    assert (
        command(
            "+sweep=collapse", "runs=60", "axes.tau=[0]", "axes.start=[0,50]", "axes.n_min=[12,100]", "figures=[collapse]", "out=c"
        ).code
        == 0
    )
    assert (tmp_path / "c/collapse.png").exists()
    data = open_result(tmp_path / "c").load()
    narrow, broad = (data.active_final.sel(tau=0, start=start) for start in (0, 50))
    assert narrow.sel(n_min=12) < 5 < 40 < broad.sel(n_min=12)
    assert narrow.sel(n_min=100) > 45 < broad.sel(n_min=100)
    assert collapse.apart(axes.prepare(data), "n_min", "start") == [12.0]
    assert "figures: got collapse" in command("+sweep=evidence", "runs=2", "figures=[collapse]", "out=e").error


def test_what_an_average_skill_shows_is_what_trials_give(command: Command, tmp_path: Path) -> None:
    """The pass rate of routed trials on a fixed shelf of one skill per topic, against the closed form behind the figure."""
    fixed = ["world=mbpp_100", "world.synth.per_round=0", "policy.n_min=1000000", "policy.rounds=4", "policy.window=4", "runs=4000"]
    routed = ("world.difficulty.a=1", "world.difficulty.probes=0", "world.difficulty.keep=all")
    assert command(*fixed, *routed, "+axes.start=[1,15,30]", "figures=[]", "policy.cap=30", "out=f").code == 0
    data = open_result(tmp_path / "f").load()
    cell = load([*fixed, *routed, "policy.cap=30"]).sweep.cell(())
    shown = collapse.shown_rate(replace(cell.world, start=0))
    bare = float(data.floor_eval.mean())
    for start in (1, 15, 30):
        part = data.sel(start=start)
        share = float(part.routed)
        # eval tasks are routed as train tasks are: tail eval = share x rate + (1 - share) x bare
        assert float(part.tail_eval) == pytest.approx(share * shown[start - 1] + (1 - share) * bare, abs=0.006)


def test_a_narrow_shelf_shows_less_than_its_skills_are_worth() -> None:
    rate = collapse.shown_rate(load(["world=mbpp_100"]).sweep.cell(()).world)
    assert (np.diff(rate) > 0).all()
    assert rate[0] < 0.2 < 0.5 < rate[-1]
