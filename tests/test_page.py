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
from tests.conftest import ROOT, Answer, Command, Main

Theory = Command


@pytest.fixture
def page(answers: Callable[[Main], Command]) -> Theory:
    return answers(main)


def words(said: Answer) -> str:
    assert said.code == 0, said.err
    return " ".join(said.out.split())


def test_the_page_of_a_governable_judge(page: Theory) -> None:
    said = page("tau=0.1", "rho_fp=0.3").out
    for text in ("governable", "0.214", "x 2.041", "0.9955", "tau = -0.23", "n_min = 24 is enough"):
        assert text in said
    assert max(map(len, said.splitlines())) <= 100


def test_numbers_are_those_of_the_functions(page: Theory) -> None:
    found = json.loads(page("tau=0.1", "rho_fp=0.3", "rho_pf=0.1", "n_min=30", "p0=0.4", "--json").out)
    assert found["region"] == "governable"
    assert found["p_star"] == theory.p_star(0.1, 0.3, 0.1)
    assert found["floors"]["printed"]["pass_rate"] == theory.floor_printed(0.4, 0.1, 30, 12, 1e-3, 0.3, 0.1, scale="pass_rate")
    assert found["floors"]["tasks"]["chat"] == theory.floor_mean(0.4, 0.1, 30, 12, 1e-3, 0.3, 0.1, scale="chat")
    assert found["corrected"]["tau"] == theory.corrected_tau(0.1, 0.3, 0.1)
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
    blind = words(page("rho_fp=0.5"))
    assert "More trials do not help" in blind
    assert "no n_min gets rid of the bad one (0)" in blind
    assert "use tau = -0.45 and n_min = 113, where a perfect judge takes 41" in blind
    assert "Use n_min = 41: then" in words(page())  # at 24 the good skill is lost in 12 % of all cases
    assert "n_min = 41 is enough" in words(page("n_min=41"))
    assert "drags them to just above 0.45 stays" in words(page("p0=0.9"))
    assert "lifts them to no more than 0.45 is retired" in words(page("p0=0.2"))
    assert "No floor for tasks of any difficulty promises anything" in words(page("n_min=4"))
    assert "since no tested skill stays" in words(page("channel=strict_judge", "n_min=100"))


def test_advice_says_why_no_evidence_is_enough(page: Theory) -> None:
    assert "no n_min gets rid of the bad one (0.4)" in words(page("rho_fp=0.25", "rho_pf=0.1", "bad=0.4"))
    assert "the good skill (true rate 0.6) is retired in the end" in words(page("rho_pf=0.4"))
    assert "apart so surely" in words(page("good=0.451", "bad=0.449"))


def test_following_the_advice_ends(page: Theory) -> None:
    """The corrected tau, told what was wanted, is recognised; and a wrong rate moves it as said."""
    found = json.loads(page("rho_fp=0.25", "rho_pf=0.1", "--json").out)["corrected"]
    again = words(page("rho_fp=0.25", "rho_pf=0.1", f"tau={found['tau']}", f"n_min={found['needed']['n_min']}", "wanted=0.1"))
    assert f"tau = {found['tau']:g} is corrected" in again
    assert f"n_min = {found['needed']['n_min']} is enough" in again
    assert found["p_star_if_off"] == pytest.approx(theory.p_star(found["tau"], 0.3, 0.1))


def test_a_world_gives_the_difficulty_of_its_tasks(page: Theory) -> None:
    found = json.loads(page("world=mbpp_hard100", "n_min=1000", "--json").out)
    assert found["point"]["p0"] == pytest.approx(0.27, abs=0.01)
    tasks = found["floors"]["tasks"]["pass_rate"]
    only_the_mean = json.loads(page(f"p0={found['point']['p0']}", "n_min=1000", "--json").out)["floors"]["tasks"]["pass_rate"]
    assert 0 < only_the_mean < tasks
    assert json.loads(page("p0=0.6", "n_min=1000", "--json").out)["floors"]["channel"] is None  # it needs p0 <= 1/2
    charged = json.loads(page("world=mbpp_hard100", "n_min=1000", "skills=40", "--json").out)["floors"]["tasks"]["pass_rate"]
    assert charged == pytest.approx(tasks - 28e-3)
    assert "p0" in page("world=mbpp_hard100", "p0=0.5").error


def test_tables_of_points(page: Theory, tmp_path: Path) -> None:
    grid = json.loads(page("rho_fp=[0,0.2]", "tau={start: 0.1, stop: 0.3, step: 0.1}", "--json").out)
    assert [(p["point"]["rho_fp"], p["point"]["tau"]) for p in grid] == [(q, t) for q in (0.0, 0.2) for t in (0.1, 0.2, 0.3)]
    (tmp_path / "judges.csv").write_text("name,rho_fp, rho_pf,n_min\nmine,0.1,2e-1,\nhers,0.5,0.6,50.0\n\n")
    rows = json.loads(page("points=judges.csv", "tau=[0.1,0.2]", "--json").out)
    assert [(p["point"]["rho_fp"], p["point"]["n_min"], p["point"]["tau"]) for p in rows] == [
        (0.1, 24, 0.1), (0.1, 24, 0.2), (0.5, 50, 0.1), (0.5, 50, 0.2),
    ]  # fmt: skip
    said = page("points=judges.csv").out
    for text in ("inverted", "governable", "mine", "hers"):
        assert text in said
    assert len(json.loads(page("rho_fp=[0.1]", "--json").out)) == 1


def test_names_are_printed_as_they_are(page: Theory, tmp_path: Path) -> None:
    (tmp_path / "judges.csv").write_text("name,rho_fp\n[/b],0.1\n[gpt-4] :smile:,0.2\n")
    said = page("points=judges.csv").out
    assert "[/b]" in said
    assert "[gpt-4] :smile:" in said
    assert "gpt:4" in page("name=gpt:4").out
    (tmp_path / "p0.csv").write_text("p0\n0.1\n")
    assert "p0" in page("points=p0.csv", "world=mbpp_hard100").error


def test_advice_names_what_is_wrong(page: Theory) -> None:
    for args in (("rho_fp=0.6", "rho_pf=0.5"), ("rho_fp=0.5", "rho_pf=0.5"), ("rho_fp=0.2", "rho_pf=0.9"), ("rho_fp=0.6", "rho_pf=0.6")):
        assert "No threshold helps" in words(page(*args))
    assert "it would retire nothing" in words(page("wanted=0.9", "rho_fp=0.05", "rho_pf=0.01"))
    assert "No floor is needed" in words(page("p0=0"))


def test_evidence_beyond_what_is_worked_out_leaves_the_closed_forms(page: Theory) -> None:
    found = json.loads(page("n_min=100000", "--json").out)
    assert found["chances"] is None
    assert found["floors"]["clean"]["pass_rate"] == pytest.approx(0.432, abs=1e-3)
    assert "worked out for up to 10000 trials" in page("n_min=100000").out
    assert json.loads(page("tau=-0.99999", "good=1", "bad=0.9", "--json").out)["chances"] is None


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("rho_fp=2",), "rho_fp"),
        (("tau=1",), "error: tau"),
        (("tau=[0.1,1.5]",), "error: tau"),
        (("rhofp=0.1",), "expected rho_fp"),
        (("q=0.1",), "expected rho_fp"),
        (("rho_fp=",), "got nothing"),
        (("channel.spread=0.3",), "an unknown key"),
        (("world.n_train=10",), "an unknown key"),
        (("world.difficulty.a=10",), "an unknown key"),
        (("wanted=2",), "wanted"),
        (("skills=0",), "skills"),
        (("n_min=2.5",), "a whole number"),
        (("n_min=true",), "a whole number"),
        (("rho_fp=[]",), "at least one"),
        (("rho_fp=x",), "a number"),
        (("rho_fp=0.1", "channel.rho_fp=0.2"), "a second value"),
        (("rho_fp={start: 0}",), "start, stop"),
        (("p0=nan",), "a probability"),
        (("p0=.nan",), "p0"),
        (("good=0.2", "bad=0.3"), "less than good"),
        (("delta=0",), "delta"),
        (("every=0",), "error: every"),
        (("per_round=2", "every=3"), "one of the two"),
        (("per_round=0",), "error: per_round"),
        (("trials=0",), "trials"),
        (("trials=1" + "0" * 400,), "trials"),
        (("n_min=1" + "0" * 400,), "n_min"),
        (("cap=1" + "0" * 400,), "cap"),
        (("delta=1e-160",), "delta"),
        (("per_round=1e-15",), "per_round"),
        (("points=a.csv", "points=b.csv"), "a second value"),
        (("foo=1",), "an unknown key"),
        (("runs=5",), "an unknown key"),
        (("world=nope",), "world"),
        (("channel=nope",), "channel"),
        (("points=nope.csv",), "no such file"),
        (("rho_fp=1:30",), "rho_fp"),
        (("tau={0.1: 0.2}",), "tau"),
        (("rho_fp=2020-13-45",), "rho_fp"),
        (("rho_fp=!!int x",), "rho_fp"),
        (("rho_fp=1" + "0" * 400,), "rho_fp"),
        (("n_min=1" + "0" * 5000,), "n_min"),
        (("=1",), "an argument without ="),
        (("x",), "an argument without ="),
        (("--csv",), "--json"),
        (("--config-dir",), "a folder"),
    ],
)
def test_bad_input_is_one_line(page: Theory, args: tuple[str, ...], words: str) -> None:
    assert words in page(*args).error


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "args",
    [
        ("tau=-0.2", "rho_fp=0.2"),  # an observed rate that is pi_tau up to rounding
        ("tau=0.9", "rho_fp=0.05"),
        ("rho_fp=0.45", "rho_pf=0.55"),
        ("tau=0.9996",),
        ("tau=0.9999", "every=1000"),
        ("tau=0.9999999999", "every=5000", "good=0.99", "rho_fp=0.3", "rho_pf=0.05"),
        ("rho_fp=0.999999", "tau=0.14", "n_min=2", "wanted=0.999999", "every=5000"),
        ("per_round=300", "tau=0.333"),
        ("per_round=2",),
        ("tau=0.9999999999999",),
        ("tau=-0.9996", "rho_fp=0.3"),
        ("delta=1e-100",),
        ("per_round=30",),
        ("per_round=0.5",),
        ("every=100",),
        ("rho_fp=0.5", "rho_pf=0.4999999999"),
        ("n_min=2147483647", "cap=2147483647"),
    ],
)
def test_extremes_are_strict_json(page: Theory, args: tuple[str, ...]) -> None:
    said = page(*args, "--json")
    assert said.code == 0, said.err
    assert said.err == ""
    found = json.loads(said.out, parse_constant=lambda name: pytest.fail(name))
    for row in found["chances"] or []:
        assert 0 <= row["first_test"] <= row["ever"] + 1e-9 <= 1 + 1e-9
        assert row["by_trials"] <= row["ever"] + 1e-9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows"),
        ("rho_fp\n", "no rows"),
        ("rho\n0.1\n", "'rho'"),
        ("rho_fp,rho_fp\n0.1,0.2\n", "twice"),
        ("rho_fp,tau\n0.1\n", "line 2"),
        ("rho_fp\n\n0.1\nx\n", "line 4"),
        ("n_min\n2.5\n", "a whole number"),
        ("rho_fp\n1.5\n", "line 2, rho_fp"),
        ("rho_fp,good,bad\n0.1,0.2,0.3\n", "line 2, bad"),
        ("rho_fp;tau\n0.1;0.1\n", "separated by commas"),
        ("rho_fp\nnan\n", "line 2, rho_fp"),
        ("rho_fp\n1e400\n", "line 2, rho_fp"),
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
