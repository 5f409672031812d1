"""Which assumption of the model breaks: what a log shows of each, held against the same of simulated runs (posterior predictive checks).

A check is a number that a log has without anybody knowing what is true: how often two failures of a task get the same label, how much
of a round one skill takes, whether a skill passes as often late as early. Each is about one assumption of MODEL.md. It is computed
from the log and, in the same way, from runs simulated on the log's tasks with worlds of the fit; a real value far out among the simulated
ones says that this assumption does not hold there, whatever the sums that a comparison sees.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from real_loop.history import History
from real_loop.roles import TRAIN
from real_loop.validate.compare import null_of, p_value, scores
from real_loop.validate.predict import Difficulty, Given, OnTasks, Planned, Worlds
from sim import rng
from sim.model import Cell
from sim.tables import Tables, derive

NONE: Final = -1
EACH: Final = 6  # trials of a skill, and of a task, below which its rate says too little


@dataclass(frozen=True)
class Trial:
    """One train trial: who was on the shelf, what was routed, what truly came of it and what was seen, and the label of a failure."""

    round: int
    task: int
    shelf: tuple[int, ...]
    skill: int
    passed: bool
    observed: bool
    label: int


def trace(history: History) -> list[Trial]:
    """Return the train trials of a log that had an outcome, in order."""
    clusters: dict[str, int] = {}
    out = []
    for (t, phase), rows in sorted(history.trials.items()):
        if phase != TRAIN:
            continue
        shelf = tuple(skill.number for skill in history.shelves.get((t, phase), ()))
        for row in rows:
            if row["observed"] is None:
                continue
            verdict = history.verdicts.get(row["id"])
            name = history.library.patterns.find(verdict["cluster"]) if verdict is not None and verdict["cluster"] else None
            label = clusters.setdefault(name, len(clusters)) if name is not None else NONE
            skill = NONE if row["skill"] is None else int(row["skill"])
            out.append(Trial(t, row["position"], shelf, skill, bool(row["passed"]), bool(row["observed"]), label))
    return out


class Traced(OnTasks):
    """A run that keeps its trials."""

    def __init__(self, tables: Tables, seed: int, run: int, given: Given, paired: bool) -> None:
        self.kept: list[Trial] = []
        super().__init__(tables, seed, run, given, paired)

    def trials(self, t: int) -> None:
        shelf = tuple(skill.born for skill in self.shelf)
        for i, task in enumerate(self.train):
            route_word, pick_word = self.words(t, rng.ROUTE, i)
            outcome_word, flip_word = self.words(t, rng.OUTCOME, i)
            skill = self.route(task, route_word, pick_word)
            passed = outcome_word < self.pass_threshold(task, skill)
            observed = passed != (flip_word < (task.flip_pass if passed else task.flip_fail))
            label = self.label(task, route_word, pick_word)
            self.kept.append(Trial(t, i, shelf, NONE if skill is None else skill.born, passed, observed, NONE if observed else label))
        super().trials(t)


# ---------------------------------------------------------------- checks


def _rates(groups: dict[int, list[bool]], least: int = EACH) -> np.ndarray:
    return np.array([np.mean(of) for of in groups.values() if len(of) >= least])


def _by(trials: Sequence[Trial], key: str) -> dict[int, list[bool]]:
    out: dict[int, list[bool]] = defaultdict(list)
    for trial in trials:
        out[getattr(trial, key)].append(trial.passed)
    out.pop(NONE, None)
    return out


def same_label(trials: Sequence[Trial]) -> float:
    """Of pairs of failures of one task, the share with the same label."""
    by_task: dict[int, list[int]] = defaultdict(list)
    for trial in trials:
        if trial.label != NONE:
            by_task[trial.task].append(trial.label)
    pairs = sum(len(of) * (len(of) - 1) for of in by_task.values())
    same = sum(n * (n - 1) for of in by_task.values() for n in Counter(of).values())
    return same / pairs if pairs else np.nan


def labels_in_use(trials: Sequence[Trial]) -> float:
    """Effective number of labels: 1 / sum of squared shares."""
    counts = np.array(list(Counter(trial.label for trial in trials if trial.label != NONE).values()), float)
    return float(counts.sum() ** 2 / (counts**2).sum()) if counts.size else np.nan


def favourite(trials: Sequence[Trial]) -> float:
    """Of routed trials of rounds with three skills or more, the share that goes to the skill most often chosen in its round."""
    by_round: dict[int, Counter[int]] = defaultdict(Counter)
    for trial in trials:
        if trial.skill != NONE and len(trial.shelf) >= 3:
            by_round[trial.round][trial.skill] += 1
    total = sum(of.total() for of in by_round.values())
    return sum(of.most_common(1)[0][1] for of in by_round.values()) / total if total else np.nan


def same_skill_again(trials: Sequence[Trial]) -> float:
    """Of trials of a task that had a skill the round before which is still there, the share that has it again."""
    last: dict[int, Trial] = {}
    again = []
    for trial in trials:
        before = last.get(trial.task)
        if before is not None and before.skill in trial.shelf and len(trial.shelf) >= 2:
            again.append(trial.skill == before.skill)
        last[trial.task] = trial
    return float(np.mean(again)) if again else np.nan


def routed_few(trials: Sequence[Trial]) -> float:
    """Share of trials with a skill while the shelf has one or two."""
    of = [trial.skill != NONE for trial in trials if 1 <= len(trial.shelf) <= 2]
    return float(np.mean(of)) if of else np.nan


def routed_many(trials: Sequence[Trial]) -> float:
    """Share of trials with a skill while the shelf has four or more."""
    of = [trial.skill != NONE for trial in trials if len(trial.shelf) >= 4]
    return float(np.mean(of)) if of else np.nan


def late_minus_early(trials: Sequence[Trial]) -> float:
    """Pass rate of the second half of a skill's trials minus that of the first, mean over skills."""
    found = []
    for of in _by(trials, "skill").values():
        half = len(of) // 2
        if half >= EACH // 2:
            found.append(np.mean(of[half:]) - np.mean(of[:half]))
    return float(np.mean(found)) if found else np.nan


def skills_differ(trials: Sequence[Trial]) -> float:
    """Standard deviation of true pass rates over skills."""
    rates = _rates(_by(trials, "skill"))
    return float(rates.std(ddof=1)) if len(rates) > 1 else np.nan


def tasks_differ(trials: Sequence[Trial]) -> float:
    """Standard deviation of true pass rates over tasks, whatever skill they had."""
    rates = _rates(_by(trials, "task"))
    return float(rates.std(ddof=1)) if len(rates) > 1 else np.nan


def never_passed(trials: Sequence[Trial]) -> float:
    """Share of tasks that no trial of passed."""
    rates = _rates(_by(trials, "task"), 1)
    return float((rates == 0).mean()) if len(rates) else np.nan


def bare_minus_skilled(trials: Sequence[Trial]) -> float:
    """True pass rate of trials without a skill minus that of trials with one."""
    bare, skilled = ([trial.passed for trial in trials if (trial.skill == NONE) == none] for none in (True, False))
    return float(np.mean(bare) - np.mean(skilled)) if bare and skilled else np.nan


def errors_by_task(trials: Sequence[Trial]) -> float:
    """Intra-class correlation by task of failures passed as successes."""
    from real_loop.audit.rates import icc

    by_task: dict[int, list[bool]] = defaultdict(list)
    for trial in trials:
        if not trial.passed:
            by_task[trial.task].append(trial.observed)
    n = np.array([len(of) for of in by_task.values()], float)
    errors = np.array([sum(of) for of in by_task.values()], float)
    found = icc(n, errors) if n.size and 0 < errors.sum() < n.sum() else None
    return np.nan if found is None else float(found)


@dataclass(frozen=True)
class Check:
    """A number, the assumption that it is about, and what a value too large or too small would mean."""

    measure: Callable[[Sequence[Trial]], float]
    assumption: str
    large: str
    small: str


TOPIC: Final = "a task has one topic, mislabelled at one rate"
SHELF: Final = "recall and false_match do not depend on the shelf"
HARD: Final = "difficulties are Beta, and one effect holds for all tasks of a topic"
CHECKS: Final = {
    "same_label": Check(same_label, TOPIC, "labels stick more than topics", "a task's failures differ"),
    "labels_in_use": Check(labels_in_use, "topics have weights k^-skew", "more topics, or more even ones", "fewer topics, or one prevails"),
    "favourite": Check(
        favourite, "of skills that fit, rank by age decides, at one favour", "the router has a favourite", "the router spreads evenly"
    ),
    "same_skill_again": Check(same_skill_again, "each routing is drawn anew", "the router repeats itself", "it avoids what a task had"),
    "routed_few": Check(routed_few, SHELF, "a small shelf is used more", "a small shelf is used less"),
    "routed_many": Check(routed_many, SHELF, "a large shelf is used more", "a large shelf is used less"),
    "late_minus_early": Check(late_minus_early, "a skill's effect is constant", "skills get better with age", "skills get worse with age"),
    "skills_differ": Check(skills_differ, "effects are Normal with one sd", "skills differ more", "skills differ less"),
    "tasks_differ": Check(tasks_differ, HARD, "tasks differ more", "tasks differ less"),
    "never_passed": Check(never_passed, HARD, "more hopeless tasks", "fewer hopeless tasks"),
    "bare_minus_skilled": Check(bare_minus_skilled, "effects add on the logit", "skills hurt more", "skills hurt less"),
    "errors_by_task": Check(errors_by_task, "errors of the reward are independent", "errors come by task", "errors avoid tasks"),
}


@dataclass(frozen=True)
class Checked:
    """A check, over the logs that it has a number for.

    Attributes
    ----------
    name
        Of the check.
    logs
        Which of the logs, shape (k,).
    real
        Its number there, shape (k,).
    bands
        5, 50 and 95 % quantiles of simulated numbers, shape (3, k).
    p
        Chance of numbers at least as unusual in sum, if the assumption holds (:func:`real_loop.validate.compare.p_value`).
    score
        Mean normal score: above 0 where real numbers are larger than simulated ones.
    """

    name: str
    logs: tuple[int, ...]
    real: np.ndarray
    bands: np.ndarray
    p: float
    score: float


def criticise(
    histories: Sequence[History],
    plans: Sequence[Planned],
    fit: Worlds,
    tasks: Difficulty,
    draws: int,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> list[Checked]:
    """Check every assumption on all logs together.

    Parameters
    ----------
    histories, plans
        Logs, and how each is simulated.
    fit, tasks
        Worlds, and difficulties of the tasks.
    draws
        Joint draws.
    advance
        Called after each.

    Returns
    -------
    list
        The checks that some log has a number for, which most simulated runs have as well.
    """
    worlds, random = fit.worlds(draws, seed), np.random.default_rng([seed, 9])
    traces = [trace(history) for history in histories]
    real = np.array([[check.measure(of) for of in traces] for check in CHECKS.values()])
    drawn = np.empty((draws, *real.shape))
    for d in range(draws):
        given = tasks.draw(worlds[d], np.random.default_rng([seed, d]))
        world = replace(worlds[d], n_train=len(given.train[0]), n_eval=len(given.evals[0]))
        for i, plan in enumerate(plans):
            channel = plan.cell.channel if plan.channel is None else plan.channel(random)
            cell = Cell(world, replace(plan.cell.policy, sampled_eval=True), channel)
            played = Traced(derive([cell]), seed + 1, d * len(plans) + i, given, plan.paired)
            played.play()
            drawn[d, :, i] = [check.measure(played.kept) for check in CHECKS.values()]
        advance()
    return checked(real, drawn)


def checked(real: np.ndarray, drawn: np.ndarray) -> list[Checked]:
    """Hold real numbers, shape (checks, logs), against simulated ones, shape (draws, checks, logs); nan where there is none."""
    found = []
    for c, name in enumerate(CHECKS):
        logs = np.flatnonzero(np.isfinite(real[c]) & (np.isfinite(drawn[:, c]).mean(axis=0) >= 0.5))
        if not logs.size:
            continue
        values = drawn[:, c, logs]
        middle = np.nanmedian(values, axis=0)
        score = scores(real[None, c, logs], np.where(np.isfinite(values), values, middle))[0]
        p = p_value(score, null_of(np.where(np.isfinite(values), values, middle)))
        bands = np.nanquantile(values, (0.05, 0.5, 0.95), axis=0)
        found.append(Checked(name, tuple(map(int, logs)), real[c, logs], bands, p, float(score.mean())))
    return found
