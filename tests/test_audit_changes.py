"""The audit put together: a judge with scores alone, repeated calls, judges side by side, and what to change about each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from real_loop.audit import changes, words
from real_loop.audit.cases import Cases, read, write
from real_loop.audit.main import audited, main
from sim.errors import InputError
from sim.points import Point
from tests.conftest import Command, Main

POINT = Point(rho_fp=0.0, rho_pf=0.0, tau=0.1, n_min=24, cap=12)


@pytest.fixture
def audit(answers: Callable[[Main], Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    return answers(main)


def made(truth: Any, verdict: Any = None, score: Any = None, case: Any = None, judge: Any = None, task: Any = None) -> Cases:
    n = len(truth)
    each = np.array([f"c{i}" for i in range(n)])
    return Cases(
        truth=np.array(truth, bool),
        verdict=None if verdict is None else np.array(verdict, bool),
        score=None if score is None else np.array(score, float),
        cls=np.full(n, ""),
        task=np.array(task) if task is not None else each if case is None else np.array(case),
        case=each if case is None else np.array(case),
        judge=np.full(n, "") if judge is None else np.array(judge),
        weight=np.ones(n),
        clustered=task is not None or case is not None,
    )


def test_scores_alone_are_judged_by_a_threshold_that_each_task_had_no_part_in(audit: Command, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("truth,score\n" + "1,3.5\n0,-2\n" * 50)
    said = audit("from=v.csv", "--json")
    judge = json.loads(said.out)["judges"][0]
    assert (said.code, judge["verdict"], judge["by_score"]) == (0, "go", True)
    assert (judge["rho_fp"]["k"], judge["rho_pf"]["k"]) == (0, 0)
    assert "It gives scores alone" in words.page(judge)
    assert (tmp_path / "outputs" / "audit" / "v" / "curve.png").exists()


def test_scores_that_say_nothing_get_no_go_from_their_threshold() -> None:
    rng = np.random.default_rng(3)
    judge = audited(made(np.arange(400) % 2, score=rng.normal(size=400)), POINT, None)["judges"][0]
    assert judge["verdict"] != "go"


def test_scores_of_one_truth_are_no_verdict(audit: Command, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("truth,score\n" + "1,3.5\n" * 50)
    said = audit("from=v.csv", "--json")
    judge = json.loads(said.out)["judges"][0]
    assert (said.code, judge["rho_fp"], judge["curve"], judge["cures"]) == (4, None, None, None)
    assert "scores alone" in words.page(judge)
    assert "Scores of one truth alone make no curve" in words.page(judge)


def test_scores_of_one_truth_beside_verdicts_are_told(tmp_path: Path) -> None:
    judge = audited(made([0] * 30, verdict=[0] * 30, score=range(30)), POINT, None)["judges"][0]
    assert judge["verdict"] == "undetermined"
    assert judge["rho_fp"]["value"] == 0
    assert "make no curve" in words.page(judge)


def test_a_judge_past_the_edge_is_told_what_to_change() -> None:
    truth = [0] * 200 + [1] * 200
    judge = audited(made(truth, verdict=[1] * 120 + [0] * 80 + [1] * 200), POINT, None)["judges"][0]
    assert judge["verdict"] == "no-go: blind"
    assert {cure["kind"] for cure in judge["cures"]} & {"tau", "rectangle"}
    assert judge["cures"][0]["region"] == "governable"
    assert judge["cures"][0]["n_min"] is not None
    assert judge["cures"][0]["label"] in " ".join(words.page(judge).split())


def test_repeated_calls_come_in_as_votes_and_single_ones_do_not() -> None:
    rng = np.random.default_rng(5)
    truth = np.repeat(np.arange(60) % 2, 3)
    verdict = np.where(rng.random(180) < 0.3, 1 - truth, truth)
    case = np.repeat([f"c{i}" for i in range(60)], 3)
    several = audited(made(truth, verdict, case=case), POINT, None)["judges"][0]
    assert several["votes"]["fails"]["repeated"] == 30
    assert "what repeated calls say" in words.page(several)
    assert audited(made(truth, verdict), POINT, None)["judges"][0]["votes"] is None


def test_judges_of_the_same_cases_are_tried_together_and_strangers_are_not() -> None:
    truth = np.array([0] * 40 + [1] * 40)
    lenient, blind_to_half = np.ones(80, bool), np.where(truth, True, np.arange(80) < 20)
    case = [f"c{i}" for i in range(80)]
    both = made(np.tile(truth, 2), np.concatenate([lenient, blind_to_half]), case=case * 2, judge=["llm"] * 80 + ["checks"] * 80)
    first, second = audited(both, POINT, None)["judges"]
    assert [(u["judges"], u["both"], u["calls"]) for u in first["unions"]] == [
        (["llm", "checks"], True, 1.0),
        (["llm", "checks"], False, 1.0),
    ]
    assert first["unions"][0]["rho_fp"]["value"] == second["rho_fp"]["value"] == 0.5
    assert "both pass, llm and checks: rho_fp 0.500" in " ".join(words.page(first).split())
    apart = made(
        np.tile(truth, 2), np.concatenate([lenient, blind_to_half]), case=case + [f"d{i}" for i in range(80)], judge=["a"] * 80 + ["b"] * 80
    )
    assert audited(apart, POINT, None)["judges"][0]["unions"] == []


def test_a_long_curve_is_thinned_in_the_report_and_keeps_its_ends() -> None:
    rng = np.random.default_rng(7)
    truth = np.arange(2000) % 2
    score = rng.normal(size=2000) + truth
    cases = made(truth, score > 0.5, score)
    judge = audited(cases, POINT, None)["judges"][0]
    curve = judge["curve"]["curve"]
    assert len(curve["threshold"]) == len(curve["rho_fp"]) == changes.MOST_POINTS
    assert (curve["rho_fp"][0], curve["rho_fp"][-1], curve["rho_pf"][0], curve["rho_pf"][-1]) == (1, 0, 0, 1)
    json.dumps(judge, allow_nan=False)


def test_a_judge_without_scores_beside_one_with(tmp_path: Path) -> None:
    rows = [f"{t},{t},{s},{j},c{i}" for j in ("llm", "checks") for i in range(8) for t, s in [(i % 2, f"{i}.5" if j == "llm" else "")]]
    file = tmp_path / "v.csv"
    file.write_text("truth,verdict,score,judge,case\n" + "\n".join(rows) + "\n")
    found = read(file)
    assert found.of(found.judge == "llm").score is not None
    assert found.of(found.judge == "checks").score is None
    assert [judge["curve"] is None for judge in audited(found, POINT, None)["judges"]] == [False, True]
    write(tmp_path / "w.csv", found)
    np.testing.assert_array_equal(read(tmp_path / "w.csv").score, found.score)


@pytest.mark.parametrize(
    "rows", ["truth,verdict,score,judge\n1,1,,a\n1,1,2,a\n", "truth,verdict,score\n1,1,\n0,1,\n", "truth,score\n1,\n0,2\n"]
)
def test_some_scores_missing(rows: str, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(rows)
    with pytest.raises(InputError) as told:
        read(tmp_path / "v.csv")
    assert told.value.got == "an empty cell"


@pytest.mark.parametrize("sign", [";", "\t"], ids=("semicolon", "tab"))
def test_what_spreadsheets_put_between_columns(sign: str, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(f"verdict{sign}truth\n1{sign}0\n0{sign}1\n")
    found = read(tmp_path / "v.csv")
    assert (found.truth.tolist(), found.verdict.tolist() if found.verdict is not None else None) == ([False, True], [True, False])


def test_a_change_that_makes_the_judge_worse_is_not_told() -> None:
    """A judge that errs more may take fewer trials at the rates seen; what needs no change comes first when it is as sure."""
    rng = np.random.default_rng(11)
    truth = np.repeat([0, 1], 300)
    score = rng.normal(size=600) + 4.5 * truth - 2.2
    judge = audited(made(truth, score > 0, score), POINT, None)["judges"][0]
    assert judge["verdict"] == "go"
    assert judge["as_it_is"]["n_min_sure"] is not None
    assert all(cure["n_min_sure"] <= judge["as_it_is"]["n_min_sure"] for cure in judge["cures"])


def test_a_judge_that_can_govern_is_told_from_which_n_min_on() -> None:
    judge = audited(made([0] * 400 + [1] * 400, [1] * 130 + [0] * 270 + [1] * 360 + [0] * 40), POINT, None)["judges"][0]
    assert (judge["verdict"], judge["as_it_is"]["n_min"] > 24) == ("go", True)
    assert f"GO, with n_min of at least {judge['as_it_is']['n_min']} (it is 24)" in words.page(judge)


def test_a_judge_worse_than_a_coin_is_told_once() -> None:
    judge = audited(made([0] * 50 + [1] * 50, [1] * 40 + [0] * 10 + [0] * 40 + [1] * 10), POINT, None)["judges"][0]
    page = " ".join(words.page(judge).split())
    assert page.count("the wrong way round") == 1
    assert "use another judge" in page


def test_no_change_is_told_from_next_to_nothing() -> None:
    judge = audited(made([0, 0, 1, 1], [1, 0, 1, 1]), POINT, None)["judges"][0]
    assert judge["verdict"] == "undetermined"
    assert "no change is sure to do" in " ".join(words.page(judge).split())
    assert "At the rates seen" not in words.page(judge)


def test_figures_of_another_report_do_not_stay(audit: Command, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("truth,score\n" + "1,3.5\n0,-2\n" * 50)
    assert audit("from=v.csv").code == 0
    folder = tmp_path / "outputs" / "audit" / "v"
    assert (folder / "curve.png").exists()
    assert audit("from=v.csv", "figures=no").code == 0
    assert sorted(file.name for file in folder.iterdir()) == ["report.json", "report.txt"]


def test_many_judges_are_a_table_on_the_terminal_and_pages_in_the_file(audit: Command, tmp_path: Path) -> None:
    rows = [f"{i % 2},{i % 2},j{k}" for k in range(6) for i in range(20)]
    (tmp_path / "v.csv").write_text("truth,verdict,judge\n" + "\n".join(rows) + "\n")
    said = audit("from=v.csv", "figures=no")
    assert "chance to be past it" not in said.out
    assert (tmp_path / "outputs" / "audit" / "v" / "report.txt").read_text().count("chance to be past it") == 6


@pytest.mark.parametrize("beside", ["", "0,0,b,t\n1,1,b,t\n"], ids=("alone", "with another"))
def test_a_judge_without_any_verdict_that_can_be_read(beside: str, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("truth,verdict,judge,task\n" + "0,invalid,a,t\n1,invalid,a,t\n" * 30 + beside)
    judge = audited(read(tmp_path / "v.csv"), POINT, None)["judges"][0]
    assert (judge["rho_fp"]["k"], judge["rho_pf"]["k"], judge["invalid"]["left_out"]) == (0, 30, None)
    assert "gave no verdict that can be read" in " ".join(words.page(judge).split())


def test_a_score_that_is_always_the_same_says_so() -> None:
    judge = audited(made([0, 1] * 20, score=[5] * 40), POINT, None)["judges"][0]
    assert (judge["verdict"], judge["rho_fp"]) == ("undetermined", None)
    assert "the same for all cases" in " ".join(words.page(judge).split())


def test_a_threshold_that_passes_all_or_none_is_told_as_that() -> None:
    """Scores the wrong way round: the best threshold is none."""
    judge = audited(made([0] * 30 + [1] * 30, score=[2.0] * 30 + [1.0] * 30), POINT, None)["judges"][0]
    passes = judge["curve"]["at_tau"]["passes"]
    assert passes == {1.0: "all cases", 0.0: "no case"}[judge["rho_fp"]["value"]]
    assert f"audited as passing {passes}" in " ".join(words.page(judge).split())
