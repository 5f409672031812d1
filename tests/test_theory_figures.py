"""Sweeps and figures of a library of one skill: simulation to exact theory, which results fit, files, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import xarray
from scipy.stats import multivariate_normal, norm

from sim import figures
from sim.config import load
from sim.errors import InputError
from sim.figures import axes, one_skill
from sim.main import main as simulate
from sim.store import open_result

# Small versions of the sweeps: fewer cells and runs.
SMALL = {
    "operating": ["axes.n_min=[24,96]", "axes.rho_fp=[0,0.3,0.4,0.45,0.5,0.55,0.6,0.7,1]", "runs=1500"],
    "sharpness": ["axes.n_min=[24,100]", "axes.rho_fp=[0.3,0.4,0.45,0.5,0.6]", "runs=300"],
    "guarantee": ["axes.p0=[0.1,0.5,0.95]", "axes.effect.mean=[-5,-3,-1,0,1,2]", "runs=40"],
}
FALSE_ALARM = 1e-4  # that the gate of the operating curve fails though all is right


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """One small result for each sweep."""
    folder = tmp_path_factory.mktemp("theory")
    for name, small in SMALL.items():
        assert simulate([f"+sweep={name}", *small, f"out={folder / name}", "figures=[]"]) == 0
    return {name: folder / name for name in SMALL}


def read(path: Path, name: str) -> xarray.Dataset:
    """Return a result as the figure of this name gets it."""
    import importlib

    return figures._load(axes.prepare(open_result(path)), importlib.import_module(f"sim.figures.{name}").VARIABLES)


@pytest.mark.parametrize("name", SMALL)
def test_the_sweeps_compose_and_ask_for_their_figure(name: str) -> None:
    settings = load([f"+sweep={name}"])
    assert settings.sweep.name == name
    assert list(settings.figures or []) == [name]


@pytest.mark.parametrize("name", SMALL)
def test_figures_are_drawn_twice_alike(name: str, results: Mapping[str, Path], tmp_path: Path) -> None:
    data = open_result(results[name])
    first, again = (figures.draw(data, tmp_path / folder, [name]) for folder in ("a", "b"))
    assert [p.name for p in first] == [f"{name}.png", f"{name}.svg"]
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in again]


# ---------------------------------------------------------------- simulation to theory


def test_simulation_lies_on_the_exact_curve(results: Mapping[str, Path]) -> None:
    """Every cell within the Bonferroni limit; a false alarm has a chance of at most FALSE_ALARM. A wrong n_min fails it."""
    data = read(results["operating"], "operating")
    off, wrong = [], []
    for part in axes.each(data, "n_min", 7):
        library = one_skill.Library.read(part)
        count, runs, q = one_skill.retired_runs(part), part["runs"].values, part["rho_fp"].values
        off.append(one_skill.scores(count, runs, library.retires(q)))
        wrong.append(one_skill.scores(count, runs, replace(library, n_min=48).retires(q)))
    tested = int((~np.isnan(off)).sum())
    assert 10 <= tested <= 16
    assert np.nanmax(np.abs(off)) <= one_skill.largest(tested, FALSE_ALARM)
    assert (np.nanmax(np.abs(wrong), axis=1) > one_skill.largest(tested, FALSE_ALARM)).all()


def test_scores_are_standard_errors_and_right_in_the_tails() -> None:
    chance, runs = np.array([0.5, 0.3, 0.9]), np.full(3, 20_000)
    count = np.array([10_100, 5_900, 18_050])
    plain = (count / runs - chance) / np.sqrt(chance * (1 - chance) / runs)
    np.testing.assert_allclose(one_skill.scores(count, runs, chance), plain, atol=0.03)
    rare = one_skill.scores(np.array([1, 0, 0, 1]), np.full(4, 1000), np.array([1e-5, 1e-5, 0.0, 0.0]))
    assert rare[0] == pytest.approx(norm.isf(1 - (1 - 1e-5) ** 1000), rel=1e-3)  # not the 10 standard errors that it is away
    assert rare[1] == pytest.approx(0.0)
    assert np.isnan(rare[2])
    assert rare[3] == np.inf


@pytest.mark.parametrize("times", [(1,), (1, Fraction(5, 4), Fraction(3, 2), Fraction(7, 4), 2)])
def test_the_limit_is_a_normal_probability(times: tuple[Fraction, ...]) -> None:
    t = np.array([float(time) for time in times])
    for z in (-1.0, 1.5):
        above = multivariate_normal.cdf(z * t, cov=np.minimum.outer(t, t), rng=1)  # P(-W < z t at all times)
        found = one_skill.limit(np.array([z]), tuple(map(Fraction, times)))[0]
        assert found == pytest.approx(1 - above, abs=1e-4)


def test_curves_approach_the_limit() -> None:
    z = np.linspace(-3, 3, 13)
    far = []
    for n in (400, 1600):  # ties at pi_tau in every look
        library = one_skill.Library(0.1, n, 9, n // 4, 0.0)
        far.append(np.abs(library.retires(0.45 + z * np.sqrt(0.45 * 0.55 / n)) - one_skill.limit(z, library.times)).max())
    assert 0.01 < far[0] < 0.025
    assert far[1] == pytest.approx(far[0] / 2, rel=0.1)


def test_where_the_promise_breaks(results: Mapping[str, Path]) -> None:
    from sim.figures import guarantee

    found = guarantee.floors(read(results["guarantee"], "guarantee"))
    assert found.fall == pytest.approx(0.295, abs=5e-4)
    assert found.tail[1:, 0].max() < 0  # harmful skills, used before they are tested
    assert found.last[1, 0] > 0.29  # all of them retired once tested
    assert found.last[2, 1] < -0.1  # a skill that halves the pass rate of easy tasks is kept
    assert found.last[:2].min() > 0
    assert found.any_task.min() > 0


# ---------------------------------------------------------------- which results fit


def fits(data: xarray.Dataset) -> set[str]:
    """Return which of the three figures can be drawn; none is drawn unless asked for, and others are refused."""
    assert not set(figures.choose(data)) & set(SMALL)
    found = set(figures.possible(data)) & set(SMALL)
    for name in set(SMALL) - found:
        with pytest.raises(InputError, match=f"figures: got {name} for a result with axes"):
            figures.draw(data, Path("nowhere"), [name])
    return found


@pytest.mark.parametrize(
    ("more", "fit"),
    [
        (["+axes.rho_fp=[0.2,0.5]", "world=one_skill"], {"operating", "sharpness"}),
        (["+axes.rho_fp=[0.2,0.5]", "world=one_skill", "+axes.tau=[0.1,0.3]", "+axes.n_min=[24,48]"], {"operating"}),  # looks differ
        (["+axes.rho_fp=[0.2,0.5]", "world=one_skill", "+axes.policy=[bc,rt]"], set()),  # one rolls back
        (["+axes.rho_fp=[0.2,0.5]", "+axes.world=[one_skill,report_main_71]"], set()),
        (["+axes.rho={set: [rho_fp, rho_pf], values: [0.1, 0.2]}", "world=one_skill"], set()),
        (["+axes.rho_fp=[0.2,0.5]"], set()),
        (["+sweep=guarantee", "axes.p0=[0.1,0.5]", "axes.effect.mean=[-1,1]", "policy.rounds=10"], {"guarantee"}),
        (["+sweep=guarantee", "axes.effect.mean=[-1,1]", "axes.p0={values: {0.1: [20, 80], 0.3: [60, 140]}}", "policy.rounds=10"], set()),
    ],
)
def test_only_results_that_theory_knows_fit(more: list[str], fit: set[str], tmp_path: Path) -> None:
    assert simulate([*more, "runs=2", "figures=[]", f"out={tmp_path}"]) == 0
    assert fits(open_result(tmp_path)) == fit


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("operating", "world.router.recall", 0.9),
        ("operating", "world.router.mode", "withheld"),
        ("operating", "world.effect.mean", -3.0),
        ("operating", "world.difficulty.a", 5.0),
        ("operating", "world.topics", 2),
        ("operating", "world.synth.per_round", 0),
        ("operating", "policy.rollback.on", True),
        ("operating", "channel.spread", 0.2),
        ("guarantee", "channel.rho_fp", 0.1),
        ("guarantee", "policy.n_min", 121),
        ("guarantee", "world.effect.sd", 0.5),
    ],
)
def test_one_other_parameter_is_enough_to_be_refused(name: str, path: str, value: object, results: Mapping[str, Path]) -> None:
    data = open_result(results[name])
    assert name in fits(data)
    (cell,) = data.attrs["identity"]["cells"].values()
    *groups, last = path.split(".")
    for group in groups:
        cell = cell[group]
    assert cell[last] != value
    cell[last] = value
    assert fits(data) == set()


def test_files_for_axes_that_have_no_role(tmp_path: Path) -> None:
    more = ["+axes.rho_fp=[0.2,0.5]", "+axes.tau=[0.1,0.3]", "+axes.n_min=[24,48,96]"]
    assert simulate(["world=one_skill", *more, "runs=2", "figures=[]", f"out={tmp_path}"]) == 0
    written = figures.draw(open_result(tmp_path), tmp_path, ["operating"])
    assert [p.name for p in written if p.suffix == ".png"] == ["operating-tau-0.1.png", "operating-tau-0.3.png"]
