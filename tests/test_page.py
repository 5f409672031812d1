"""``python -m sim.theory``: the page, the table, JSON, and one line for anything wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sim import theory
from sim.operating import ever_retired, operating
from sim.page import main
from tests.conftest import ROOT, Answer

Theory = Callable[..., Answer]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Theory:
    monkeypatch.chdir(tmp_path)

    def call(*args: str) -> Answer:
        capfd.readouterr()
        code = main(args)
        said = capfd.readouterr()
        return Answer(code, said.out, said.err)

    return call


def test_the_page_of_a_governable_judge(page: Theory) -> None:
    said = page("tau=0.1", "rho_fp=0.3").out
    for words in ("governable", "0.214", "x 2.041", "0.9955", "tau = -0.23", "This test does what is wanted"):
        assert words in said
    assert max(map(len, said.splitlines())) <= 100


def test_numbers_are_those_of_the_functions(page: Theory) -> None:
    found = json.loads(page("tau=0.1", "rho_fp=0.3", "rho_pf=0.1", "n_min=30", "p0=0.4", "--json").out)
    assert found["region"] == "governable"
    assert found["p_star"] == theory.p_star(0.1, 0.3, 0.1)
    assert found["floors"]["printed"]["pass_rate"] == theory.floor_printed(0.4, 0.1, 30, 12, 1e-3, 0.3, 0.1, scale="pass_rate")
    assert found["floors"]["tasks"]["chat"] == theory.floor_tasks([0.4], 0.1, 30, 12, 1e-3, 0.3, 0.1, scale="chat")
    row = next(r for r in found["chances"] if r["true"] == 0.6)
    observed = theory.observed_rate(0.6, 0.3, 0.1)
    assert row["by_trials"] == pytest.approx(operating(observed, 0.1, 30, 60).retired_by[0, -1])
    assert row["ever"] == pytest.approx(ever_retired(observed, 0.1, 30)[0])
    assert row["first_test"] < row["by_trials"] < row["ever"]


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        (("rho_fp=0.45",), "Blind"),
        (("rho_pf=0.55",), "Indiscriminate"),
        (("rho_fp=0.6", "rho_pf=0.6"), "Inverted"),
        (("channel=strict_judge",), "Indiscriminate"),
        (("channel=noise", "channel.rho_fp=0.2"), "Governable"),
    ],
)
def test_each_region_has_its_verdict(page: Theory, rates: tuple[str, ...], verdict: str) -> None:
    assert f"  - {verdict}: " in page(*rates).out


def test_advice_follows_the_numbers(page: Theory) -> None:
    blind = page("rho_fp=0.5").out
    assert "More trials do not help" in blind
    assert "No n_min up to 10000" in blind
    assert "tau = -0.45 retires under this judge what tau = 0.1" in blind
    assert "n_min = 41 is the least" in page().out  # at 24 the good skill is lost in 12 % of all cases
    assert "This test does what is wanted" in page("n_min=41").out
    easy, hard = page("p0=0.9").out, page("p0=0.2").out
    assert "drags them to just above 0.45 is never retired" in easy
    assert "lifts them, but not above 0.45, is retired" in hard
    assert "promises anything" in page("n_min=4").out


def test_a_world_gives_the_difficulty_of_its_tasks(page: Theory) -> None:
    found = json.loads(page("world=mbpp_hard100", "n_min=1000", "--json").out)
    assert found["point"]["p0"] == pytest.approx(0.27, abs=0.01)
    tasks, channel = found["floors"]["tasks"]["pass_rate"], found["floors"]["channel"]["pass_rate"]
    assert tasks != channel
    assert "p0" in page("world=mbpp_hard100", "p0=0.5").error


def test_tables_of_points(page: Theory, tmp_path: Path) -> None:
    grid = json.loads(page("rho_fp=[0,0.2]", "tau={start: 0.1, stop: 0.3, step: 0.1}", "--json").out)
    assert [(p["point"]["rho_fp"], p["point"]["tau"]) for p in grid] == [(q, t) for q in (0.0, 0.2) for t in (0.1, 0.2, 0.3)]
    (tmp_path / "judges.csv").write_text("rho_fp, rho_pf,n_min\n0.1,0.2,\n0.5,0.6,50\n\n")
    rows = json.loads(page("points=judges.csv", "tau=[0.1,0.2]", "--json").out)
    assert [(p["point"]["rho_fp"], p["point"]["n_min"], p["point"]["tau"]) for p in rows] == [
        (0.1, 24, 0.1), (0.1, 24, 0.2), (0.5, 50, 0.1), (0.5, 50, 0.2),
    ]  # fmt: skip
    said = page("points=judges.csv").out
    assert "inverted" in said
    assert "governable" in said
    assert len(json.loads(page("rho_fp=[0.1]", "--json").out)) == 1


def test_evidence_beyond_what_is_worked_out_leaves_the_closed_forms(page: Theory) -> None:
    found = json.loads(page("n_min=100000", "--json").out)
    assert found["chances"] is None
    assert found["floors"]["clean"]["pass_rate"] == pytest.approx(0.432, abs=1e-3)
    assert "worked out for up to 10000 trials" in page("n_min=100000").out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("rho_fp=2",), "rho_fp"),
        (("tau=1",), "policy.tau"),
        (("tau=[0.1,1.5]",), "policy.tau"),
        (("n_min=2.5",), "a whole number"),
        (("n_min=true",), "a whole number"),
        (("rho_fp=[]",), "at least one"),
        (("rho_fp=x",), "a number"),
        (("rho_fp=0.1", "channel.rho_fp=0.2"), "one value"),
        (("rho_fp={start: 0}",), "start, stop"),
        (("p0=nan",), "a number"),
        (("p0=.nan",), "p0"),
        (("good=0.2", "bad=0.3"), "less than good"),
        (("delta=0",), "delta"),
        (("every=0",), "trials between looks"),
        (("per_round=2", "every=3"), "one of the two"),
        (("per_round=0",), "mean trials"),
        (("trials=0",), "trials"),
        (("foo=1",), "an unknown key"),
        (("runs=5",), "an unknown key"),
        (("world=nope",), "world"),
        (("channel=nope",), "channel"),
        (("points=nope.csv",), "no such file"),
        (("x",), "an argument without ="),
        (("--csv",), "--json"),
        (("--config-dir",), "a folder"),
    ],
)
def test_bad_input_is_one_line(page: Theory, args: tuple[str, ...], words: str) -> None:
    assert words in page(*args).error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows"),
        ("rho_fp\n", "no rows"),
        ("rho\n0.1\n", "'rho'"),
        ("rho_fp,rho_fp\n0.1,0.2\n", "twice"),
        ("rho_fp,tau\n0.1\n", "row 2"),
        ("rho_fp\n0.1\nx\n", "row 3"),
        ("n_min\n2.5\n", "a whole number"),
        ("rho_fp\n1.5\n", "rho_fp"),
    ],
)
def test_a_bad_file_of_points_is_one_line(page: Theory, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "points.csv").write_text(text)
    assert words in page("points=points.csv").error


def test_the_real_command() -> None:
    done = subprocess.run([sys.executable, "-m", "sim.theory", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "rho_fp" in done.stdout
    done = subprocess.run([sys.executable, "-m", "sim.theory", "tau=2"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
