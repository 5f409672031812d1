"""Prediction and comparison: the simulator put on a log's tasks is the simulator; tests of predictions keep their level and notice."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, ncx2
from scipy.stats import chi2 as chi_square

from real_loop import replay, run
from real_loop.config import load
from real_loop.history import History
from real_loop.log import Reader
from real_loop.validate import conditions, predict
from real_loop.validate.compare import (
    NOT_PREDICTED,
    PREDICTED,
    UNDECIDABLE,
    Outcome,
    held_against,
    null_of,
    p_value,
    ranks,
    scores,
    verdict,
)
from real_loop.validate.criticism import CHECKS, NONE, Traced, Trial, checked, trace
from real_loop.validate.judged import judged, sentence
from real_loop.validate.main import LEAST, main, read
from real_loop.validate.page import broken
from sim import calibrate
from sim.errors import InputError
from sim.model import Cell, World
from sim.reference import Run
from sim.tables import derive, difficulty_bins
from tests.conftest import Command
from tests.test_real_loop import Watching

SMALL = ("model=scripted/mbpp_hard100", "policy.rounds=5", "policy.n_min=8", "policy.cap=3", "policy.window=2")
REWARDS = {
    "clean": ["reward=clean"],
    "bias": ["reward=bias", "q=0.5"],
    "noise": ["reward=noise", "rho=0.3", "reward.spread=0.3"],
    "short": ["reward=clean", "policy.rounds=3"],
}


def scripted(folder: Path, *args: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(run.scripted(load(args), folder / "log.sqlite", Watching()))
    return folder / "log.sqlite"


def arguments(*more: str) -> list[str]:
    return [f"{key}={value}" for key, value in dict(arg.split("=", 1) for arg in (*SMALL, *more)).items()]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished logs under several rewards, of one scripted world and seed."""
    base = tmp_path_factory.mktemp("logs")
    return {name: scripted(base / name, *arguments(*args)) for name, args in REWARDS.items()}


class Known:
    """A fit that knows the world."""

    def __init__(self, world: World) -> None:
        self.known = world

    def worlds(self, n: int, seed: int) -> list[World]:
        return [self.known] * n


def own_tasks(cell: Cell, seed: int, number: int) -> predict.Given:
    played = Run(derive([cell]), 0, seed, number)
    train, evals = ((np.array([t.topic for t in tasks]), np.array([t.bin for t in tasks])) for tasks in (played.train, played.eval))
    return predict.Given(train, evals)


@pytest.mark.parametrize("name", REWARDS)
def test_a_prediction_on_the_logs_own_tasks_is_the_log(logs: dict[str, Path], name: str) -> None:
    """Scripted roles are the simulator, so with the same words and tasks each shared variable is the same, final and by round."""
    history = History(Reader(logs[name]))
    assert history.cell is not None
    s = history.settings
    played = predict.OnTasks(derive([history.cell]), s.seed, s.run, own_tasks(history.cell, s.seed, s.run), False)
    played.play()
    seen, made = predict.real(history), played.values()
    assert made.final == pytest.approx(seen.final, nan_ok=True)
    for variable in predict.BY_ROUND:
        assert made.by_round[variable] == pytest.approx(seen.by_round[variable]), variable


def test_other_tasks_make_another_run(logs: dict[str, Path]) -> None:
    history = History(Reader(logs["clean"]))
    assert history.cell is not None
    given = own_tasks(history.cell, 1, 0)
    easy = predict.Given((given.train[0], np.full_like(given.train[1], 255)), given.evals)
    rates = []
    for tasks in (given, easy):
        played = predict.OnTasks(derive([history.cell]), 1, 0, tasks, False)
        played.play()
        rates.append(played.values().final["observed_failures"])
    assert rates[1] < rates[0] / 2


def test_paired_evals_move_with_the_library_alone(logs: dict[str, Path]) -> None:
    history = History(Reader(logs["clean"]))
    assert history.cell is not None
    world = history.cell.world
    nothing = replace(history.cell, world=replace(world, synth=replace(world.synth, per_round=0)))
    by_round = []
    for paired in (True, False):
        played = predict.OnTasks(derive([nothing]), 3, 0, own_tasks(nothing, 3, 0), paired)
        played.play()
        by_round.append(played.values().by_round["eval"])
    assert len(set(by_round[0])) == 1
    assert len(set(by_round[1])) > 1


# ---------------------------------------------------------------- tasks


def world_of(logs: dict[str, Path]) -> World:
    cell = History(Reader(logs["clean"])).cell
    assert cell is not None
    return cell.world


class Probes:
    def __init__(self, probes: int, passes: dict[str, int]) -> None:
        self.probes, self.passes = probes, passes


@pytest.mark.parametrize("probed", [True, False])
def test_difficulty_is_the_posterior(logs: dict[str, Path], probed: bool) -> None:
    """With its probes known a task's pass rate is Beta(a + passes, b + failures), whatever rule kept it; without, the rule counts."""
    world = world_of(logs)
    d = world.difficulty
    assert d.keep == "any_fail"
    seen, passes = {"x": (4, 2), "y": (0, 5), "z": (0, 0)}, {"x": 2, "y": 0, "z": 1}
    tasks = predict.Difficulty({"train": ["x", "y"], "eval": ["z"]}, seen, Probes(d.probes, passes) if probed else None)
    p, random = difficulty_bins(world.difficulty), np.random.default_rng(1)
    drawn = np.array([np.concatenate([given.train[1], given.evals[1]]) for given in (tasks.draw(world, random) for _ in range(4000))])
    found = p[drawn].mean(axis=0)
    for i, name in enumerate("xyz"):
        if probed:
            expected = beta.mean(d.a + seen[name][0] + passes[name], d.b + seen[name][1] + d.probes - passes[name])
        else:
            grid = (np.arange(20000) + 0.5) / 20000
            weight = beta.pdf(grid, d.a + seen[name][0], d.b + seen[name][1]) * (1 - grid**d.probes)
            expected = (weight * grid).sum() / weight.sum()
        assert found[i] == pytest.approx(expected, abs=4 * p.std() / np.sqrt(4000) + 0.003), name


def test_answers_that_logs_share_count_once(logs: dict[str, Path]) -> None:
    one = History(Reader(logs["clean"]))
    assert predict.bare([one, History(Reader(logs["clean"]))]) == predict.bare([one])
    trials = sum(row["skill"] is None for rows in one.trials.values() for row in rows)
    assert sum(map(sum, predict.bare([one]).values())) == trials > 0


# ---------------------------------------------------------------- tests of predictions


def test_scores_are_normal_scores_of_mid_ranks() -> None:
    drawn = np.array([[0.0], [1.0], [1.0], [2.0]])
    low, middle, high = scores(np.array([[-5.0], [1.0], [9.0]]), drawn)[:, 0]
    assert middle == pytest.approx(0, abs=1e-12)
    assert low == pytest.approx(-high)
    assert high == pytest.approx(1.2816, abs=1e-3)  # of 0.9, beyond all of four
    assert 0 <= ranks(np.array([[1.0]]), drawn, 1)[0, 0] <= 1


def test_the_level_holds_where_runs_share_a_world() -> None:
    """400 families of six runs that share an effect: rejected in 5 %, 4 standard errors at most beside it (false alarm 6e-5).

    A sum of squares that took the runs as independent would reject far more often.
    """
    random = np.random.default_rng(4)
    drawn = random.normal(size=(600, 1)) + 0.5 * random.normal(size=(600, 6))
    real = random.normal(size=(400, 1)) + 0.5 * random.normal(size=(400, 6))
    null = null_of(drawn)
    rejected = np.mean([p_value(row, null) < 0.05 for row in scores(real, drawn)])
    assert abs(rejected - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 400) + 0.01
    naive = chi_square.sf((scores(real, drawn) ** 2).sum(axis=1), 6)
    assert (naive < 0.05).mean() > 0.12


def test_the_shift_that_would_be_noticed() -> None:
    """Of independent normals it is known: the noncentral chi-square says when power reaches 80 %."""
    random = np.random.default_rng(5)
    for k in (1, 4):
        drawn = random.normal(size=(4000, k))
        steps = np.arange(0.25, 8.1, 0.25)
        expected = steps[ncx2.sf(chi_square.isf(0.05, k), k, k * steps**2) >= 0.8][0]
        assert held_against(np.zeros(k), drawn, 1.0).shift == pytest.approx(expected, abs=0.26)
    counts = random.poisson(0.01, size=(400, 3)).astype(float)
    assert held_against(np.zeros(3), counts, 1.0).shift == 1.0  # of counts a whole one
    assert held_against(np.zeros(1), np.repeat([[0.0], [100.0]], 50, axis=0), 1.0).shift == np.inf


def test_verdicts() -> None:
    assert verdict(0.01, Outcome(0.001, 0.5, 1.0), 1.0) == NOT_PREDICTED
    assert verdict(0.5, Outcome(0.5, 1.0, 0.0), 1.0) == PREDICTED
    assert verdict(0.5, Outcome(0.5, 2.0, 0.0), 1.0) == UNDECIDABLE


@pytest.mark.slow
def test_a_right_world_predicts_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    """The same comparison: with the world behind the logs nothing is found wrong, with skills that help much more something is."""
    args = arguments("model=scripted/report_band_58", "policy.rounds=4")
    seen = conditions.read([scripted(tmp_path / name, *args, *REWARDS[name]) for name in ("clean", "bias")])
    assert seen[0].history.cell is not None
    world = seen[0].history.cell.world
    plan = conditions.plan(seen, world)
    assert plan.held_out == (False, True)
    tasks = predict.Difficulty(seen[0].history.tasks, predict.bare([seen[0].history]), None)
    wrong = replace(world, effect=replace(world.effect, mean=4.0), router=replace(world.router, recall=1.0, false_match=1.0))
    said = []
    for known in (world, wrong):
        draws = predict.predict(plan.runs, [Known(known)], tasks, LEAST, 1)
        said.append({h.verdict for h in judged(seen, plan, draws)})
    assert NOT_PREDICTED not in said[0]
    assert NOT_PREDICTED in said[1]


def made(random: np.random.Generator, failures: float, retired: float) -> predict.Values:
    """Return values of a run that never was: what they depend on is known."""
    final = dict.fromkeys(predict.FINAL, 0.0) | {"observed_failures": random.normal(failures, 2), "retired": float(random.poisson(retired))}
    return predict.Values(final, {name: random.normal(0, 1, 4) for name in predict.BY_ROUND})


def test_what_is_off_is_found_and_the_rest_is_not(logs: dict[str, Path]) -> None:
    """Of two predicted runs with 12 more failures than predicted, that is told, upwards; all else is as predicted (seed fixed)."""
    random = np.random.default_rng(11)
    seen = conditions.read([logs["clean"], logs["bias"], logs["noise"]])
    plan = conditions.plan(seen, world_of(logs))
    draws = [[made(random, 20, 0.02) for _ in range(3)] for _ in range(400)]
    seen = [replace(log, values=made(random, 20 + 12 * out, 0.02)) for log, out in zip(seen, plan.held_out, strict=True)]
    found = {(h.name, h.by_round): h for h in judged(seen, plan, draws)}
    off = found.pop(("observed_failures", False))
    assert off.verdict == NOT_PREDICTED
    assert "larger than predicted" in sentence(off)
    assert NOT_PREDICTED not in {h.verdict for h in found.values()}
    assert found["retired", False].verdict == PREDICTED  # nearly always 0: one more would have been noticed
    assert "a shift of 1 would have been noticed" in sentence(found["retired", False])


# ---------------------------------------------------------------- what is refused


def test_logs_that_cannot_be_compared(logs: dict[str, Path], tmp_path: Path) -> None:
    other = scripted(tmp_path / "other", *arguments("model=scripted/report_band_58"))
    with pytest.raises(InputError, match="log of another model"):
        conditions.read([logs["clean"], other])
    with pytest.raises(InputError, match="the same log twice"):
        conditions.read([logs["clean"], logs["clean"].parent])
    with pytest.raises(InputError, match="no log of a clean run"):
        conditions.plan(conditions.read([logs["bias"]]), world_of(logs))
    two = conditions.plan(conditions.read([logs["clean"], logs["short"], logs["bias"]]), world_of(logs))
    assert two.held_out == (True, True, True)
    assert [[log.name for log in of] for of in two.fits] == [["clean", "short"], ["short"], ["clean"]]


WRONG = (
    "", "x draws=3", "x draws=many", "x colour=red", "x seed=1 seed=2", "x figures=perhaps", "--fast", "x out=",
)  # fmt: skip


@pytest.mark.slow
def test_the_command_from_logs_to_figures(answers: Callable[..., Command], tmp_path: Path) -> None:
    """Two clean runs, each predicted from the other, and a biased one: fitted, predicted, compared, criticised, drawn."""
    base = ("model=scripted/report_band_58", "policy.rounds=4")
    names = {"clean": ["reward=clean"], "again": ["reward=clean", "policy.rounds=3"], "bias": ["reward=bias", "q=0.6"]}
    paths = [scripted(tmp_path / name, *arguments(*base, *more)) for name, more in names.items()]
    out = tmp_path / "out"
    said = answers(main)(*map(str, paths), f"draws={LEAST}", f"out={out}")
    assert said.code == 0, said.err
    assert "3 runs, 3 of them predicted" in said.out
    assert {path.name for path in out.iterdir()} == {
        "validate.md", "validate.json", *(f"{name}.{kind}" for name in ("bands", "calibration", "cliff") for kind in ("png", "svg"))
    }  # fmt: skip
    found = json.loads((out / "validate.json").read_text())
    assert [run["held_out"] for run in found["runs"]] == [True] * 3
    assert len(found["variables"]) == len(predict.FINAL) + len(predict.BY_ROUND)
    for variable in found["variables"]:
        assert variable["sentence"] in said.out.replace("\n", " ") or variable["sentence"] in said.out
        assert 0 < variable["p"] <= variable["p_adjusted"] <= 1
    assert {p["path"] for p in found["parameters"]} >= {"difficulty.a", "router.recall", "effect.mean"}
    assert "| clean | perfect grader | 1 |" in (out / "validate.md").read_text()


def test_refused_in_one_line(answers: Callable[..., Command], logs: dict[str, Path], tmp_path: Path) -> None:
    for args, what in (
        ([str(logs["bias"])], "no log of a clean run"),
        ([str(tmp_path)], "no log there"),
        ([str(logs["clean"]), "probes=/nowhere/split.json"], "split"),
        ([str(logs["clean"]), "--fast"], "unknown option"),
    ):
        said = answers(main)(*args)
        assert said.code == 2
        assert what in said.err
        assert said.err.count("\n") == 1


@pytest.mark.parametrize("line", WRONG)
def test_bad_arguments(line: str) -> None:
    with pytest.raises(InputError):
        read(line.split())


# ---------------------------------------------------------------- assumptions


def trial(t: int, task: int, skill: int = NONE, passed: bool = False, label: int = NONE, shelf: tuple[int, ...] = (0, 1, 2)) -> Trial:
    return Trial(t, task, shelf, skill, passed, passed, label)


def test_checks_by_hand() -> None:
    trials = [
        trial(0, 0, label=1, shelf=()),
        trial(0, 1, label=2, shelf=()),
        trial(1, 0, 0, label=1),
        trial(1, 1, 0, passed=True),
        trial(2, 0, 0, label=3),
        trial(2, 1, 1, passed=True),
    ]
    of = {name: check.measure(trials) for name, check in CHECKS.items()}
    assert of["same_label"] == pytest.approx(1 / 3)  # task 0: labels 1, 1, 3
    assert of["labels_in_use"] == pytest.approx(16 / 6)  # shares 2, 1, 1 of 4
    assert of["favourite"] == pytest.approx(3 / 4)  # two of two, then one of two
    assert of["same_skill_again"] == pytest.approx(1 / 2)
    assert of["never_passed"] == pytest.approx(1 / 2)
    assert of["bare_minus_skilled"] == pytest.approx(0 - 1 / 2)
    assert np.isnan(of["routed_few"])
    aging = [trial(t, t, 0, passed=t >= 3) for t in range(6)]
    assert CHECKS["late_minus_early"].measure(aging) == 1.0


def test_a_trace_of_a_scripted_log_is_that_of_the_simulator(logs: dict[str, Path]) -> None:
    """Who was routed where, what came of it and on which topic a failure is booked: trial by trial."""
    history = History(Reader(logs["noise"]))
    assert history.cell is not None
    s = history.settings
    played = Traced(derive([history.cell]), s.seed, s.run, own_tasks(history.cell, s.seed, s.run), False)
    played.play()
    mine, theirs = played.kept, trace(history)
    names: dict[int, int] = {}
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert (a.label == NONE) == (b.label == NONE)
        assert names.setdefault(a.label, b.label) == b.label
        assert replace(a, label=0) == replace(b, label=0)
    assert len(set(names.values())) == len(names)


def test_a_router_with_a_favourite_is_found(logs: dict[str, Path]) -> None:
    """A check that is off in every log is told, with its direction; the others are not (seed fixed)."""
    random = np.random.default_rng(2)
    drawn = random.normal(size=(400, len(CHECKS), 3))
    real = random.normal(size=(len(CHECKS), 3))
    at = list(CHECKS).index("favourite")
    real[at] += 4
    drawn[:150, at + 1, 0] = np.nan  # a number that some simulated runs lack
    seen = conditions.read([logs["clean"], logs["bias"], logs["noise"]])
    said = broken(seen, checked(real, drawn))
    assert len(said) == 1
    assert "The router has a favourite" in said[0]
    assert broken(seen, checked(random.normal(size=real.shape), drawn)) == [
        f"No assumption of the model is found to break ({len(CHECKS)} checks)."
    ]


@pytest.mark.slow
def test_a_single_clean_log_predicts_nothing(answers: Callable[..., Command], logs: dict[str, Path], tmp_path: Path) -> None:
    said = answers(main)(str(logs["short"]), f"draws={LEAST}", f"out={tmp_path}", "figures=no")
    assert said.code == 0, said.err
    assert said.out.count("Nothing was predicted") == 1
    assert "fitted to it" in said.out
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["validate.json", "validate.md"]


def changed(path: Path, copy: Path, statement: str) -> Path:
    """Copy a log and change it, past the triggers that forbid it."""
    copy.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy / "log.sqlite")) as db:
        source.backup(db)
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute(statement)
        db.commit()
    return copy


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE capsules SET skill = 99 WHERE id = (SELECT max(id) FROM capsules WHERE phase = 'eval')",
        "UPDATE rounds SET passes = passes + 3",
        "DELETE FROM changes WHERE kind = 'retired'",
        "UPDATE capsules SET observed = 1 - observed WHERE id = 3",
    ],
    ids=["a skill that is not there", "sums", "no retirement", "another outcome"],
)
def test_a_log_that_contradicts_itself_is_not_fitted(
    answers: Callable[..., Command], logs: dict[str, Path], tmp_path: Path, statement: str
) -> None:
    bad = changed(logs["clean"], tmp_path / "bad", statement)
    for said in (answers(main)(str(bad)), answers(calibrate.main)(f"from={bad}", f"out={tmp_path / 'out'}")):
        assert said.code == 1
        assert said.err.count("\n") == 1
        assert "unfinished" not in said.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_is_said_before_the_work(answers: Callable[..., Command], logs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for command in (main, replay.main):
        said = answers(command)(str(logs["clean"]), f"out={tmp_path / 'file'}")
        assert said.code == 2
        assert "expected a folder" in said.err
        assert not said.out
