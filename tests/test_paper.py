"""BC reproduced: what is reported is found, how far it is away, the table in numbers, the figures, and which results they fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import xarray

from sim import figures
from sim.config import load
from sim.errors import InputError
from sim.figures import axes, bc1, bc3, bc8, paper
from sim.figures import reported as bc
from sim.figures.reported import agrees, cell, channel, channels, compare, distance, reported, three_seed_error
from sim.fitted import ROLES
from sim.main import main as simulate
from sim.store import open_result
from tests.conftest import Command

OURS = ("bc1", "bc3", "bc4", "bc6", "bc8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep with a few runs."""
    path = tmp_path_factory.mktemp("paper")
    assert simulate(["+sweep=paper", "runs=200", f"out={path}", "figures=[]"]) == 0
    return path


@pytest.fixture(scope="module")
def data(folder: Path) -> xarray.Dataset:
    return axes.prepare(open_result(folder)).load()


# ---------------------------------------------------------------- what is reported


def test_what_is_reported_is_found_by_channel() -> None:
    known = reported()
    assert known["report_main_71", "bias:0.45", "synthesised"] == (15.7, 15.7)
    assert known["report_main_71", "noise:0.3", "retired"] == (0.7, 1.0)  # a range of channels holds in each
    assert all(low <= high for low, high in known.values())
    assert {world for world, _, _ in known} == {"report_main_71", "report_band_58", "report_hard_133", "mbpp_hard100", "report_weak_71"}


def test_floors_belong_to_the_loop_without_skills() -> None:
    known = reported()
    assert known["report_band_58", "no_skill", "tail_sampled"] == (0.388, 0.388)
    assert known["report_weak_71", "no_skill", "tail_sampled"] == (0.17, 0.17)
    assert known["report_weak_71", "clean", "tail_sampled"] == (0.171, 0.171)
    assert known["report_main_71", "no_skill", "delta_clean"] == (0.06, 0.06)  # a lift of -0.060
    assert not any(variable in ("floor_eval", "tail_eval") for _, _, variable in known)


def test_distance_is_signed_and_zero_inside_a_range() -> None:
    assert distance(1.0, 0.5, (2.0, 3.0), "retired") == 2.0  # reported above
    assert distance(4.0, 0.5, (2.0, 3.0), "retired") == -2.0
    assert distance(2.5, 0.5, (2.0, 3.0), "retired") == 0.0
    assert distance(0.0, 0.0, (0.3, 0.3), "retired") == pytest.approx(3.0)  # no spread at all: as what can be read off a table


@pytest.mark.parametrize(("off", "mark"), [(2.0, "✓"), (-2.0, "✓"), (2.01, "✗"), (-2.01, "✗"), (0.0, "✓")])
def test_marks_at_the_boundary(off: float, mark: str) -> None:
    error = 0.3
    z = distance(20.0, error, (20.0 + off * error, 20.0 + off * error), "synthesised")
    assert bc.written(((20.0 + off * error,) * 2, z)).split()[1] == mark
    assert agrees(z) == (mark == "✓")


def test_a_condition_is_known_by_its_rates() -> None:
    assert [channel(*rates) for rates in bc.CHANNELS.values()] == list(bc.CHANNELS)
    assert channel(0.33, 0.0) == "bias:0.33"
    assert channel(0.2, 0.1) == ""
    assert bc.subset(f"{ROLES}_report_main_71") == bc.subset("report_main_71") == "report_main_71"
    assert bc.subset("one_skill") == ""


# ---------------------------------------------------------------- the sweep


def test_the_sweep_asks_for_all_of_it() -> None:
    settings = load(["+sweep=paper"])
    assert list(settings.figures or []) == ["paper", *OURS]
    assert set(OURS) == set(bc.NEEDS)


def test_without_skills_is_the_bare_model(data: xarray.Dataset) -> None:
    """A judge that passes every failure: nothing is written, the eval is the floor, and samples of it scatter more than it does."""
    assert [str(w) for w in data["world"].values] == list(bc.worlds(data))
    for world in bc.worlds(data):
        bare, clean = cell(data, world, "no_skill"), cell(data, world, "clean")
        assert float(bare["synthesised"]) == float(bare["active_final"]) == 0.0
        assert float(bare["tail_eval"]) == pytest.approx(float(clean["floor_eval"]), abs=1e-6)
        assert float(bare["delta_clean"]) == pytest.approx(-float(clean["lift"]), abs=1e-6)
        assert abs(float(bare["tail_sampled"] - bare["floor_eval"])) < 5.0 * float(bare["tail_sampled_se"])
        assert float(bare["tail_sampled_sd"]) > float(bare["floor_eval_sd"])


# ---------------------------------------------------------------- the table


def rows(text: str) -> dict[tuple[str, str], list[str]]:
    """Return the cells of a table by world and condition; what is reported under it by its name and a star."""
    found, world, last = {}, "", ""
    for line in text.splitlines():
        if line.startswith("## "):
            world = line[3:]
        elif line.startswith("| ") and not line.startswith("|  "):
            first, *others = (part.strip() for part in line.strip("|").split("|"))
            last = first
            found[world, first] = others
        elif line.startswith("|   reported"):
            found[world, last + "*"] = [part.strip() for part in line.strip("|").split("|")][1:]
    return found


def test_numbers_in_the_table_are_those_of_the_result(data: xarray.Dataset) -> None:
    found = rows(paper.table(data))
    part = cell(data, "report_main_71", "bias:0.45")
    i = list(paper.COLUMNS).index("synthesised")
    assert found["report_main_71", "bias 0.45"][i] == f"{float(part['synthesised']):.2f} ± {float(part['synthesised_sd']):.2f}"
    z = (15.7 - float(part["synthesised"])) / (float(part["synthesised_sd"]) / np.sqrt(3))
    assert found["report_main_71", "bias 0.45*"][i] == f"15.7 {'✓' if abs(z) <= 2 else '✗'} {z:+.2f}"
    i = list(paper.COLUMNS).index("delta_clean")
    clean = cell(data, "report_main_71", "clean")
    spread = np.hypot(float(part["tail_sampled_sd"]), float(clean["tail_sampled_sd"]))
    assert found["report_main_71", "bias 0.45"][i] == f"{float(part['delta_clean']):+.3f} ± {spread:.3f}"
    assert found["report_main_71", "noise 0.3*"][i].startswith("0.018 to 0.06 ")
    assert found["report_main_71", "clean"][i] == ""
    assert found["report_weak_71", "no skill*"][0].startswith("0.17 ")
    assert found["report_weak_71", "no skill"][2:] == [""] * 5  # no library
    assert ("report_hard_133", "clean*") not in found
    assert ("report_main_71", "bias 0.3") not in found  # not one of BC's


def test_the_head_of_the_table_counts_its_marks(data: xarray.Dataset) -> None:
    text = paper.table(data)
    cells = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    near, far = cells.count("✓"), cells.count("✗")
    assert f"{near} of {near + far} reported values lie within 2 standard errors" in text
    assert far > 0  # else the mark of disagreement is not tested
    assert near + far == sum(v in paper.COLUMNS for _, _, v in reported())
    assert "fitted to these very values" in text


def test_columns_stand_under_each_other(data: xarray.Dataset) -> None:
    for section in paper.table(data).split("## ")[1:]:
        lines = [line for line in section.splitlines() if line.startswith("|")]
        assert len({tuple(m.start() for m in re.finditer(r"\|", line)) for line in lines}) == 1


def test_errors_of_three_seeds(data: xarray.Dataset) -> None:
    part = cell(data, "mbpp_hard100", "clean")
    assert three_seed_error(part, "retired") == pytest.approx(float(part["retired_sd"]) / np.sqrt(3))
    assert three_seed_error(part, "delta_clean") == pytest.approx(float(part["tail_sampled_sd"]) * np.sqrt(2 / 3))
    assert compare(part, ("mbpp_hard100", "clean", "retired")) is None  # not reported


# ---------------------------------------------------------------- the figures


@pytest.mark.slow
def test_all_are_drawn_and_twice_alike(folder: Path, tmp_path: Path) -> None:
    result = open_result(folder)
    first = figures.draw(result, tmp_path / "a", ["paper", *OURS])
    assert [p.name for p in first] == ["paper.png", "paper.svg", "paper.md", *(f"{n}.{kind}" for n in OURS for kind in ("png", "svg"))]
    again = figures.draw(result, tmp_path / "b", ["bc8"])
    assert [p.read_bytes() for p in first if p.stem == "bc8"] == [p.read_bytes() for p in again]
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == sorted(p.name for p in first)  # nothing half-written


def test_stages_are_fractions_of_clean(data: xarray.Dataset) -> None:
    x, y = bc3.shares(bc.of_world(data, "report_main_71"), "synthesised")
    assert x.tolist() == [0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.7, 0.85, 1.0]
    assert (y[0], y[-1]) == (1.0, 0.0)
    written = data["synthesised"].sel(world="report_main_71")
    assert y[4] == pytest.approx(float(written.sel(condition="bias 0.45") / written.sel(condition="clean")))


def test_the_map_of_rounds_has_the_right_rows(data: xarray.Dataset) -> None:
    part = bc.of_world(data, "report_main_71")
    names = list(bc8.rows(part).values())
    assert names == ["clean", *(f"noise 0.{i}" for i in (1, 2, 3, 4)), "bias 0.2", "bias 0.45", "bias 0.7", "strict judge"]
    maps = bc8.activity(part)
    totals = {name: data[name].sel(world="report_main_71", condition=names).values for name in ("deprecated", "retired")}
    assert maps["retired or evicted"].shape == (len(names), data.sizes["round"])
    assert maps["retired or evicted"].sum(axis=1) == pytest.approx(totals["deprecated"])
    assert maps["of these, retired"].sum(axis=1) == pytest.approx(totals["retired"])


def test_the_loop_balances_and_breaks(data: xarray.Dataset) -> None:
    part = bc.of_world(data, "report_band_58")
    honest, other = bc1.flows(part, "clean"), bc1.flows(part, "bias:0.45")
    for here in (honest, other):
        assert here.written - here.retired - here.evicted == pytest.approx(here.shelf)
    assert honest.seen == pytest.approx(honest.failed)  # nothing is hidden
    assert other.seen == pytest.approx(0.55 * other.failed, rel=0.03)
    assert bc1.is_broken(other, honest)
    assert not bc1.is_broken(honest, honest)


def test_calibrated_worlds_stand_for_their_subsets(data: xarray.Dataset) -> None:
    renamed = data.assign_coords(world=np.array([f"{ROLES}_{world}" for world in bc.worlds(data)], np.dtypes.StringDType()))
    assert all(bc.has_figure(renamed, name) for name in OURS)
    assert list(paper.compared(renamed).values()) == list(paper.compared(data).values())
    assert bc8.activity(bc.of_world(renamed, bc.MAIN))["of these, retired"].sum() > 0


# ---------------------------------------------------------------- what fits

FITS: Mapping[tuple[str, ...], set[str]] = {
    (): {"paper", *OURS},
    ("axes.world=[report_main_71]",): {"paper", "bc3", "bc8"},
    ("axes.world=[report_main_71,report_band_58]",): {"paper", "bc1", "bc3", "bc6", "bc8"},
    ("axes.condition=[clean,bias 0.45]",): {"paper", "bc1", "bc8"},
    ("axes.condition=[bias 0.45,bias 0.7]",): set(),  # nothing to compare with
    ("policy.sampled_eval=false",): {"bc1", "bc6", "bc8"},
}


@pytest.mark.parametrize("change", FITS)
def test_which_results_fit(change: tuple[str, ...], tmp_path: Path) -> None:
    assert simulate(["+sweep=paper", *change, "runs=2", f"out={tmp_path}", "figures=[]"]) == 0
    result = open_result(tmp_path)
    ours = {"paper", *OURS}
    assert set(figures.possible(result)) & ours == FITS[change]
    for name in ours - FITS[change]:
        with pytest.raises(InputError, match=f"figures: got {name} for a result with axes"):
            figures.draw(result, tmp_path, [name])


def test_conditions_that_set_something_else_do_not_fit(tmp_path: Path) -> None:
    axis = "+axes.condition={set: [channel.rho_fp, policy.tau], values: {clean: [0, 0.1], bias 0.45: [0.45, 0.1]}}"
    more = ["+axes.world=[report_main_71,report_band_58]", axis, "policy.sampled_eval=true", "runs=2", "figures=[]"]
    assert simulate([*more, f"out={tmp_path}"]) == 0
    result = axes.prepare(open_result(tmp_path))
    assert channels(result) == {}
    assert not {"paper", *OURS} & set(figures.possible(result))


def test_what_does_not_fit_is_one_line(command: Command) -> None:
    assert "bc4 for a result with axes" in command("+sweep=paper", "axes.world=[report_main_71]", "runs=2", "out=a", "figures=[bc4]").error
    assert "bc1 for a result with axes" in command("+sweep=cliff", "runs=1", "axes.rho_fp=[0,1]", "out=b", "figures=[bc1]").error


def test_another_controller_is_not_compared_with_bc(command: Command, tmp_path: Path) -> None:
    few = ("axes.world=[report_main_71]", "axes.condition=[clean,bias 0.45]", "runs=20", "figures=[paper]")
    assert command("+sweep=paper", "policy.tau=0.2", *few, "out=t").code == 0
    text = (tmp_path / "t/paper.md").read_text()
    assert "BC reports nothing of this" in text
    assert "✓" not in text.split("## ")[1]
