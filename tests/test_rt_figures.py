"""RT's figures 1b, 2 and 3a, and the map of regimes: what they say is what was simulated, and which results have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from sim import figures
from sim.figures import axes, regimes, rt2, rt3a
from sim.figures.regimes import NAMES
from sim.main import main as simulate
from sim.store import open_result
from tests.test_figures import is_blank, made_up


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> xarray.Dataset:
    """A short sweep of RT's loop under its channels."""
    out = tmp_path_factory.mktemp("scored")
    short = ("policy.rounds=25", "policy.n_min=40", "policy.cap=12", "runs=4")
    assert simulate(["+sweep=scored", *short, f"out={out}", "figures=[]"]) == 0
    return axes.prepare(open_result(out))


# ---------------------------------------------------------------- rt1b


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [np.linspace(0, 1, 6), [0.0, 0.2], [0.6, 0.8]])
def test_the_rectangle_is_drawn(values: Sequence[float], tmp_path: Path) -> None:
    written = figures.draw(made_up(rho_fp=list(values), rho_pf=list(values)), tmp_path, ["rt1b"])
    assert [p.name for p in written] == ["rt1b.png", "rt1b.svg"]
    assert not is_blank(written[0])


# ---------------------------------------------------------------- rt2 and rt3a


def test_the_life_of_a_library_is_that_of_the_clean_cell(scored: xarray.Dataset, tmp_path: Path) -> None:
    (part,) = rt2.split(scored.isel(condition=[3, 1, 0])).values()
    assert part["condition"].item() == "clean"
    assert part.attrs["part"] == "1 of 3"
    cell, _ = axes.played_cell(part)
    assert (cell.channel.rho_fp, cell.policy.rounds, cell.policy.cap) == (0.0, 25, 12)
    (first,) = rt2.split(scored.isel(condition=[3, 1])).values()
    assert axes.played_cell(first)[0].channel.rho_fp == 0.7
    written = figures.draw(scored, tmp_path, ["rt2"])
    assert [p.name for p in written] == ["rt2.png", "rt2.svg"]
    assert not is_blank(written[0])
    assert [p.read_bytes() for p in figures.draw(scored, tmp_path / "again", ["rt2"])] == [p.read_bytes() for p in written]


def test_a_library_without_skills_is_drawn(tmp_path: Path) -> None:
    """Nothing is ever written, and evals are not sampled."""
    assert simulate(["channel.rho_fp=1", "policy.rounds=4", "runs=2", f"out={tmp_path}", "figures=[rt2]"]) == 0
    assert not is_blank(tmp_path / "rt2.png")


def test_skills_are_retired_by_their_observed_rate(scored: xarray.Dataset) -> None:
    """Whatever the judge: a tested skill went if and only if what was observed is at most pi_tau."""
    seen = {}
    for part in (scored.isel(condition=i) for i in range(scored.sizes["condition"])):
        one = rt3a.judged(part, "condition")
        true, observed, n, retired = one.skills.T
        tested = n >= one.cell.policy.n_min
        assert not (retired[~tested]).any()
        np.testing.assert_array_equal(retired[tested] == 1, observed[tested] <= 0.45 + 1e-12)
        seen[one.name] = int(tested.sum()), int(retired.sum())
        if one.name == "clean":
            np.testing.assert_allclose(observed, true, atol=1e-12)
        elif one.name.startswith("bias"):
            assert (observed >= true - 1e-12).all()
        a, b = one.cell.channel.rho_fp, one.cell.channel.rho_pf
        spread = np.sqrt(((true * b * (1 - b) + (1 - true) * a * (1 - a)) / n)[tested])
        off = np.abs(observed - (1 - a - b) * true - a)[tested]
        assert (off <= 5 * spread + 1e-9).all()  # about 1 in a million per skill, if the line is right
    assert seen["bias 0.7"][1] == 0 < seen["bias 0.7"][0]
    assert seen["strict judge"][0] == seen["strict judge"][1] > 0
    assert seen["clean"][1] > 0


def test_crossings_are_exact(scored: xarray.Dataset) -> None:
    found = [
        rt3a.crossing(axes.played_cell(scored.sel(condition=c))[0]) for c in ("clean", "noise 0.3", "bias 0.2", "bias 0.7", "strict judge")
    ]
    assert found == pytest.approx([0.45, 0.375, 0.3125, -5 / 6, 11.0])


def test_skills_on_the_lines_are_drawn(scored: xarray.Dataset, tmp_path: Path) -> None:
    written = figures.draw(scored, tmp_path, ["rt3a"])
    assert [p.name for p in written] == ["rt3a.png", "rt3a.svg"]
    assert not is_blank(written[0])
    assert {"rt2", "rt3a"} <= set(figures.possible(scored))
    assert not {"rt2", "rt3a"} & set(figures.possible(made_up(rho_fp=[0.0, 0.5])))  # which knows no sweep


def test_judges_worse_than_a_coin_have_no_crossing(tmp_path: Path) -> None:
    axis = "+axes.condition={set: [channel.rho_fp, channel.rho_pf], values: {a: [0.8, 0.7], b: [0.5, 0.5]}}"
    assert simulate([axis, "policy.rounds=6", "runs=2", f"out={tmp_path}", "figures=[rt3a]"]) == 0
    data = axes.prepare(open_result(tmp_path))
    assert [rt3a.crossing(axes.played_cell(data.isel(condition=i))[0]) for i in (0, 1)] == [None, None]


# ---------------------------------------------------------------- regimes


def mapped(retired: Any, synthesised: Any, delta: Any, error: float = 0.01) -> xarray.Dataset:
    """Return a result over tau and rho_fp with these numbers, evals that scatter by 0.03, of 100 attempts each."""
    q, tau = list(np.linspace(0, 1, np.shape(retired)[1])), list(np.linspace(-0.4, 0.4, np.shape(retired)[0]))
    data = made_up(tau=tau, rho_fp=q)
    for name, values in (("retired", retired), ("synthesised", synthesised), ("delta_clean", delta)):
        data[name] = data[name].copy(data=np.array(values, float))
        data[f"{name}_se"] = xarray.full_like(data[name], error)
    data["tail_eval"] = xarray.full_like(data["tail_eval"], 0.5)
    data["tail_eval_sd"] = xarray.full_like(data["tail_eval"], 0.03)
    data["tail_sampled_sd"] = xarray.full_like(data["tail_eval"], np.nan)
    data.attrs["config"] = {
        "policy": {"tau": 0.1, "curator": "ratchet", "window": 4},
        "world": {"n_eval": 25},
        "channel": {"rho_pf": 0.0, "spread": 0.0},
    }
    return axes.prepare(data)


def test_each_cell_has_its_regime() -> None:
    data = mapped(
        [[10, 5, 4.9, 1, 0], [0.4, 3, 3, 3, 3]],
        [[20, 9, 10, 9.9, 0], [20, 20, 20, 20, 20]],
        [[0, -0.2, -0.04, -0.2, 0.2], [0, -0.2, 0, 0, 0]],
    )
    found = regimes.regimes(data, "rho_fp", "tau")
    names = [[NAMES[k] for k in row] for row in found.kind]
    assert names == [["governed", "governed", "blind", "starved", "starved"], ["nothing to govern"] * 5]
    assert found.retired[0].tolist() == pytest.approx([1, 0.5, 0.49, 0.1, 0])
    assert found.visible.tolist() == [[False, True, False, True, False], [False] * 5]
    limit = 2 * np.sqrt(2 / 3 * (0.03**2 + 0.25 / 100))
    np.testing.assert_allclose(found.limit, limit)
    assert found.close[0].tolist() == [False, True, True, False, False]


def test_a_recorded_scatter_is_taken_as_it_is() -> None:
    data = mapped([[10, 5], [10, 5]], [[20, 9], [20, 9]], [[0, -0.1], [0, -0.1]])
    data["tail_sampled_sd"] = xarray.full_like(data["tail_eval"], 0.06)
    np.testing.assert_allclose(regimes.regimes(data, "rho_fp", "tau").limit, 2 * np.sqrt(2 / 3) * 0.06)


def test_regimes_need_the_clean_judge_on_the_axis() -> None:
    data = mapped([[10, 5, 1], [10, 5, 1]], [[20, 9, 1], [20, 9, 1]], [[0, 0, 0], [0, 0, 0]])
    assert "regimes" in figures.possible(data)
    assert "regimes" not in figures.possible(data.isel(rho_fp=[1, 2]))
    assert "regimes" not in figures.possible(data.isel(tau=0))
    for channel in ({"rho_pf": 0.1, "spread": 0.0}, {"rho_pf": 0.0, "spread": 0.2}):
        other = data.assign_attrs(config={**data.attrs["config"], "channel": channel})
        assert "regimes" not in figures.possible(other)
    assert "regimes" not in figures.possible(made_up(rho_fp=[0.0, 0.5], rho_pf=[0.0, 0.5]))


@pytest.mark.filterwarnings("error")
def test_regimes_of_a_simulated_sweep(tmp_path: Path) -> None:
    """Retirement is lost on this side of pi_tau, the higher tau the sooner; writing later, whatever tau."""
    sweep = ("+sweep=tau", "axes.tau=[-0.4,0,0.4]", "axes.rho_fp.step=0.1", "runs=200", "world=mbpp_hard100")
    assert simulate([*sweep, f"out={tmp_path}", "figures=[regimes]"]) == 0
    assert not is_blank(tmp_path / "regimes.png")
    data = axes.prepare(open_result(tmp_path))
    found = regimes.regimes(data, "rho_fp", "tau")
    q = data["rho_fp"].values
    ends = [q[row == 1].max() for row in found.kind]
    pi = (1 - data["tau"].values) / 2
    assert (np.diff(ends) < 0).all()
    assert (ends < pi).all()
    assert (np.array(ends) > pi - 0.3).all()
    starved = [q[row == 3].min() for row in found.kind]
    assert max(starved) - min(starved) < 0.11
    assert min(starved) > 0.75
