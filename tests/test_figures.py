"""Figures: which are chosen, that each draws what is there, that files are deterministic, and what bad input says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from sim import figures
from sim.errors import InputError
from sim.figures import __main__ as command
from sim.figures import axes
from sim.main import main as simulate
from sim.store import open_result
from sim.variables import SERIES_VARIABLES, VARIABLES

SETS = {"rho_fp": [axes.FP], "rho_pf": [axes.PF], "rho": [axes.FP, axes.PF], "tau": [axes.TAU], "world": ["world"], "policy": ["policy"]}


def made_up(rounds: int = 3, missing: float = 0.0, **values: Sequence[Any]) -> xarray.Dataset:
    """Return a result of made-up numbers over these axes, a share of them missing."""
    rng = np.random.default_rng(1)
    shape = tuple(len(v) for v in values.values())
    coords: dict[str, Any] = {"round": np.arange(rounds)}
    for name, v in values.items():
        array = np.array(v, np.dtypes.StringDType()) if isinstance(v[0], str) else np.array(v)
        coords[name] = (name, array, {"long_name": f"group.{name}: what it is", "units": "1", "sets": SETS.get(name, [f"group.{name}"])})
    data: dict[str, Any] = {"runs": (tuple(values), np.full(shape, 3))}
    for variables, extra in ((VARIABLES, ()), (SERIES_VARIABLES, (rounds,))):
        for variable in variables.values():
            for suffix in ("", "_se"):
                numbers = rng.random((*shape, *extra))
                numbers = np.where(rng.random(numbers.shape) < missing, np.nan, numbers)
                dims = (*values, "round") if extra else tuple(values)
                data[variable.name + suffix] = (dims, numbers, {"long_name": variable.long_name, "units": variable.units})
    return xarray.Dataset(data, coords, {"sweep": "made_up", "config": {"policy": {"tau": 0.1, "curator": "ratchet"}}})


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Real results of a few runs: one that suits each figure."""
    folder = tmp_path_factory.mktemp("results")
    sweeps = {
        "lines": ["+axes.world=[report_main_71,mbpp_hard100]", "+axes.tau=[0.1,0.5]", "+axes.rho_fp=[0,0.2,0.4,0.6]"],
        "plane": ["+axes.rho_pf=[0,0.4,0.8]", "+axes.rho_fp=[0,0.4,0.8]"],
        "grid": ["+axes.n_min=[4,8,16,32,64]", "+axes.rho_fp=[0,0.2,0.4,0.6,0.8]"],
        "rounds": ["+axes.rho_fp=[0.2]"],
        "dots": ["+axes.world=[report_main_71,mbpp_hard100]", "+axes.curator=[ratchet]"],
    }
    for name, overrides in sweeps.items():
        # No figures yet: they are what is tested.
        assert simulate([*overrides, "runs=8", "policy.rounds=4", f"out={folder / name}", "figures=[]"]) == 0
    return {name: folder / name for name in sweeps}


def is_blank(path: Path) -> bool:
    """Whether a PNG has hardly any ink."""
    from matplotlib.image import imread

    return bool((imread(path)[..., :3] < 0.9).any(axis=-1).mean() < 0.005)


# ---------------------------------------------------------------- choosing

LONG = list(np.linspace(0, 1, 6))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ("rounds",)),
        ({"rho_fp": [0.2]}, ("rounds",)),
        ({"world": ["a", "b"], "tau": [0.1, 0.3, 0.5], "rho_fp": LONG}, ("lines",)),
        ({"world": ["a", "b"], "tau": [0.1, 0.3, 0.5], "rho": LONG}, ("lines",)),
        ({"rho_pf": LONG, "rho_fp": LONG}, ("plane",)),
        ({"rho_pf": [0.1], "rho_fp": LONG}, ("lines", "rounds")),
        ({"tau": LONG, "rho_fp": LONG}, ("grid",)),
        ({"n_min": [4, 8, 16, 32, 64], "rho_fp": LONG}, ("grid",)),
        ({"a": [0.3, 0.6, 1.2, 2.4], "n_train": [10, 20, 40, 60, 80, 120], "rho_fp": LONG}, ("grid",)),
        ({"rho_fp": list(np.linspace(0, 1, 9))}, ("lines",)),
        ({"world": ["a", "b"]}, ("dots", "rounds")),
        ({"world": ["a", "b"], "policy": ["bc", "rt"]}, ("dots",)),
        ({"on": [True, False]}, ("dots", "rounds")),
    ],
)
def test_choice_follows_the_axes(values: Mapping[str, Sequence[Any]], expected: tuple[str, ...]) -> None:
    assert figures.choose(made_up(**values)) == expected


def test_names_are_checked_without_matplotlib() -> None:
    code = "import sys; from sim import figures; figures.check(['lines', 'plane']); figures.check(None); print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    with pytest.raises(InputError, match=r"figures: got nonsense, expected one of lines, plane, grid"):
        figures.check(["lines", "nonsense"])


# ---------------------------------------------------------------- drawing


@pytest.mark.parametrize("name", ["lines", "plane", "grid", "rounds", "dots"])  # others: test_theory_figures.py
def test_a_real_result_is_drawn(name: str, results: Mapping[str, Path], tmp_path: Path) -> None:
    data = open_result(results[name])
    assert name in figures.choose(data)
    written = figures.draw(data, tmp_path / "new" / "folder", [name])
    assert [p.name for p in written] == [f"{name}.png", f"{name}.svg"]
    assert not is_blank(written[0])
    svg = written[1].read_text()
    assert svg.lstrip().startswith("<?xml")
    assert svg.count("<path") > 50
    if name in ("plane", "lines"):  # a heat map and lines: the same result gives the same bytes
        again = figures.draw(data, tmp_path / "again", [name])
        assert [p.read_bytes() for p in again] == [p.read_bytes() for p in written]


def test_settings_of_matplotlib_stay_as_they_were(tmp_path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 33.0}):
        figures.draw(made_up(), tmp_path, None)
        assert matplotlib.rcParams["font.size"] == 33.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("values", "missing", "files"),
    [
        ({"rho_fp": [0.5], "world": ["a"]}, 0.0, ["rounds"]),
        ({"rho_fp": [0.8, 0.2, 0.2]}, 1.0, ["lines", "rounds"]),
        ({"rho_fp": [0.0, 0.5], "rho_pf": [0.0, 0.5]}, 0.3, ["plane"]),
        ({"a": [1.0, 2.0, 4.0, 8.0, 64.0], "b": [1, 2, 3, 4, 5], "c": [1, 2]}, 0.3, ["grid"]),
        ({"tau": [0.1, 0.3], "rho_fp": [0.0, 0.5], "rho_pf": [0.0, 0.5]}, 1.0, ["plane-tau-0.1", "plane-tau-0.3"]),
        ({"world": ["a b/c", "d"], "policy": ["bc", "rt"]}, 0.3, ["dots"]),
    ],
)
def test_odd_results_are_drawn(values: Mapping[str, Sequence[Any]], missing: float, files: list[str], tmp_path: Path) -> None:
    written = figures.draw(made_up(missing=missing, **values), tmp_path, None)
    assert [p.name for p in written] == [f"{f}.{kind}" for f in files for kind in ("png", "svg")]


def test_many_presets_are_cut_into_files() -> None:
    from sim.figures import lines

    data = axes.prepare(made_up(world=[f"w{i}" for i in range(7)], tau=[0.1, 0.3], rho_fp=LONG))
    parts = lines.split(data)
    assert list(parts) == ["1", "2"]
    assert [text for part in parts.values() for text in part["world"].values.tolist()] == [f"w{i}" for i in range(7)]


def test_at_most_six_combinations_are_drawn() -> None:
    parts = axes.split(axes.prepare(made_up(a=list(range(5)), b=list(range(4)), rho_fp=[0, 1])), ["rho_fp"])
    assert len(parts) == axes.MAX_PARTS
    assert all(part.attrs["part"] == "6 of 20" and part["runs"].dims == ("rho_fp",) for part in parts.values())


# ---------------------------------------------------------------- reading


def test_pi_tau_comes_from_the_axis_then_the_preset_then_the_config() -> None:
    fixed = made_up(rho_fp=LONG)
    assert axes.pi_tau(fixed) == pytest.approx(0.45)
    assert axes.threshold(fixed, "rho_fp") == pytest.approx(0.45)
    along = made_up(tau=[0.1, 0.5], rho_pf=LONG)
    assert axes.pi_tau(along) is None
    assert axes.threshold(along.isel(tau=1), "rho_pf") == pytest.approx(0.75)
    presets = made_up(policy=["bc", "rt"], rho_fp=LONG)
    presets.attrs["identity"] = {
        "axes": {"policy": {"sets": ["policy"]}, "rho_fp": {"sets": [axes.FP]}},
        "cells": {"bc": {"policy": {"tau": 0.1}}, "rt": {"policy": {"tau": 0.3}}},
    }
    assert axes.pi_tau(presets) is None
    assert axes.pi_tau(presets.isel(policy=1)) == pytest.approx(0.35)
    fixed.attrs["config"] = {"policy": {"tau": 0.1, "curator": "another"}}
    assert axes.pi_tau(fixed) is None


@pytest.mark.slow
def test_a_linked_axis_is_taken_for_what_it_is(tmp_path: Path) -> None:
    linked = {
        "judge": "{set: [rho_fp, rho_pf], values: {0.1: [0.1, 0.3], 0.4: [0.4, 0]}}",
        "n_min": "{set: [n_train, n_min, cap], values: {24: [6, 24, 5], 100: [25, 100, 5]}}",
        "margin_of": "{set: [tau], values: {1: [0.1], 2: [0.5]}}",
        "rounds": "{values: [4, 6], label: 'how long: life'}",
    }
    assert simulate([*(f"+axes.{k}={v}" for k, v in linked.items()), "runs=2", f"out={tmp_path}", "figures=[]"]) == 0
    data = axes.prepare(open_result(tmp_path))
    assert axes.rate_axis(data) is None
    assert axes.setting(data, axes.FP, axes.PF) is axes.setting(data, axes.TAU) is None
    assert "plane" not in figures.possible(data)
    assert axes.pi_tau(data) is None
    assert axes.parameter(data, "policy.cap") == 5  # the same at both values
    part = data.isel(judge=1, n_min=0, margin_of=1)
    found = {path: axes.parameter(part, path) for path in (axes.FP, axes.PF, axes.TAU, "policy.n_min", "world.n_train")}
    assert found == {axes.FP: 0.4, axes.PF: 0.0, axes.TAU: 0.5, "policy.n_min": 24, "world.n_train": 6}
    assert axes.pi_tau(part) == pytest.approx(0.25)
    assert axes.threshold(data.isel(margin_of=1), "judge") is None
    assert axes.symbol(data, "judge") == "judge"
    assert axes.axis_label(data, "judge") == "judge: sets channel.rho_fp, channel.rho_pf"
    assert axes.axis_label(data, "n_min") == "n_min: trials a skill must have before it can be retired"
    assert axes.axis_label(data, "margin_of") == "margin_of: sets policy.tau"
    assert axes.axis_label(data, "rounds") == "rounds: how long: life (rounds)"
    words = axes.settings(part)
    assert "judge = 0.4" in words
    assert r"$\tau$ = 0.5" in words  # the axis does not say it
    assert words.count("n_min = 24") == 1
    assert figures.draw(data, tmp_path, ["grid", "lines"])


@pytest.mark.slow
def test_a_linked_axis_named_after_an_error_rate_marks_nothing(tmp_path: Path) -> None:
    axis = "+axes.rho_fp={set: [rho_fp, cap], values: {0: [0, 4], 0.3: [0.3, 6], 0.6: [0.6, 8]}}"
    assert simulate([axis, "+axes.tau=[0.1,0.2]", "runs=2", f"out={tmp_path}", "figures=[grid]"]) == 0
    data = open_result(tmp_path)
    assert axes.symbol(data, "rho_fp") == axes.SYMBOLS[axes.FP]
    assert axes.axis_label(data, "rho_fp").startswith(axes.SYMBOLS[axes.FP] + ": P(observed pass")
    assert axes.threshold(data.isel(tau=0), "rho_fp") is None
    assert axes.rate_axis(data) is None


def test_edges_lie_between_values() -> None:
    assert axes.edges([0.0, 1.0, 3.0], log=False).tolist() == [-0.5, 0.5, 2.0, 4.0]
    assert axes.edges([1.0, 4.0], log=True) == pytest.approx([0.5, 2.0, 8.0])
    assert axes.is_geometric([4, 8, 16, 32, 64])
    assert not axes.is_geometric(LONG)
    assert not axes.is_geometric([1, 2])


# ---------------------------------------------------------------- the gallery


def test_the_gallery_shows_each_picture_once_with_a_command() -> None:
    root = Path(figures.__file__).resolve().parents[2]
    text = (root / "outputs" / "gallery" / "README.md").read_text()
    pictures = sorted(p.name for p in (root / "outputs" / "gallery").glob("*.png"))
    assert sorted(re.findall(r"!\[[^]]+\]\((.+?)\)", text)) == pictures
    sweeps = re.findall(r"`python -m sim \+sweep=(\w+)`", text)
    assert all((root / "sim" / "conf" / "sweep" / f"{name}.yaml").exists() for name in sweeps)
    assert all((root / "outputs" / "gallery" / name).stat().st_size < 350_000 for name in pictures)


# ---------------------------------------------------------------- the command


def test_the_command_prints_what_it_drew(results: Mapping[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(results["rounds"] / "result.zarr"), "figures=[rounds]", f"out={tmp_path}"]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "rounds.png"), str(tmp_path / "rounds.svg")]
    assert command.main(["--help"]) == 0
    assert "usage: python -m sim.figures" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "PATH"),
        (["nowhere/at/all"], "nothing there"),
        (["RESULT", "figures=pie"], "figures: got pie, expected one of"),
        (["RESULT", "figures=plane"], "figures: got plane for a result with axes"),
        (["RESULT", "figures="], "figures: got nothing"),
        (["RESULT", "colour=red"], "colour: got an unknown key"),
        (["RESULT", "--fast"], "--fast: got an unknown option"),
        (["RESULT", "out=FILE/below"], "expected a file that can be written"),
    ],
)
def test_bad_input_is_one_line(
    args: list[str], says: str, results: Mapping[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    args = [a.replace("RESULT", str(results["rounds"])).replace("FILE", str(tmp_path / "file")) for a in args]
    assert command.main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert says in err


def test_stopping_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(figures, "check", stop)
    assert command.main(["somewhere"]) == 130
    assert capsys.readouterr().err == "stopped\n"
