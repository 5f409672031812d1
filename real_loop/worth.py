"""Whether the skills of a log help: the only sense that a log has of it, and the truth where roles were scripted.

A skill's trials passed at some rate. Had the same tasks been attempted without a skill, they would have passed at another: that is
estimated from the trials of these tasks without a skill (those of the first round, and those where the router declined) and from the
probes that the tasks were chosen by. These are no random ones: tasks were chosen since probes failed, and skills are written from
failures, so that taken at face value they can make skills look better than they are. So each task has a posterior: tasks are drawn from a
Beta, whose mean and size are integrated over a grid with the weights that all trials without a skill give them, and given that Beta the
counts of a task are all there is to know of it, however it was chosen (selection by what is known is ignorable, Rubin 1976). Of the 60
train tasks in the gallery's log of MBPP+ probes passed at 0.211; their posterior mean is 0.241, and the first round passed at 0.267.
The difference of the two rates has an interval made of the intervals of both (Zou and Donner 2008: their squared arms add up); where it
includes zero, the log cannot tell.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from real_loop.history import History
from real_loop.measures import Truth
from real_loop.sensors import trials

CONFIDENCE: Final = 0.95
MEANS: Final = (np.arange(50) + 0.5) / 50  # of the Beta of tasks: a uniform prior
SIZES: Final = 2.0 ** np.arange(-2, 6)  # a + b: uniform in its logarithm, correlations of 0.8 to 0.03

Counts: TypeAlias = Mapping[str, tuple[int, int]]  # by task: passes, attempts


@dataclass(frozen=True)
class Worth:
    """What a skill is worth on the tasks that it was routed to.

    Attributes
    ----------
    helps
        None where the log cannot tell.
    rate, without
        Pass rate of its trials, and what the same tasks pass at without it (posterior mean); nan where there are none.
    low, high
        Interval of the difference, at CONFIDENCE; -1 and 1 where there are no trials.
    n
        Trials.
    effect
        Its true effect on its topic (logit), where the roles were scripted: ``helps`` is then its sign. Else None.
    """

    helps: bool | None
    rate: float
    without: float
    low: float
    high: float
    n: int
    effect: float | None = None


def worth(history: History, probes: Counts | None = None) -> dict[int, Worth]:
    """Return what each skill of a log is worth: as is known of scripted roles, else as the log tells.

    Parameters
    ----------
    history
        The log.
    probes
        Passes and attempts without a skill of all tasks that were probed, also of those that were not chosen (:func:`probed`).
    """
    found, truth = by_log(history, probes), Truth.of(history.identity)
    if truth is None:
        return found
    effects = {number: truth.effect(past.skill) for number, past in history.skills.items()}
    return {n: Worth(effects[n] > 0, w.rate, w.without, w.low, w.high, w.n, effects[n]) for n, w in found.items()}


def by_log(history: History, probes: Counts | None = None) -> dict[int, Worth]:
    """Return what the log alone tells of each skill, by its number. Parameters as in :func:`worth`."""
    without: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for task, (passes, of) in (probes or {}).items():
        without[task] = [passes, of]
    routed: dict[int, Counter[str]] = defaultdict(Counter)
    passes_of = Counter[int]()
    for row in trials(history):
        if row["injected"]:
            routed[row["skill"]][row["task"]] += 1
            passes_of[row["skill"]] += row["passed"]
        else:
            without[row["task"]][0] += row["passed"]
            without[row["task"]][1] += 1
    weights = _weights(list(without.values()))
    return {number: _one(passes_of[number], routed[number], without, weights) for number in history.skills}


def _weights(counts: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the posterior weights of the grid of Betas, shape (MEANS, SIZES), given passes and attempts of tasks."""
    from scipy.special import betaln

    a, b = MEANS[:, None] * SIZES, (1 - MEANS)[:, None] * SIZES
    log = np.zeros(a.shape)
    for (k, m), times in Counter((k, m) for k, m in counts).items():
        log += times * (betaln(a + k, b + m - k) - betaln(a, b))
    weights = np.exp(log - log.max())
    return np.asarray(weights / weights.sum())


def _one(passes: int, routed: Mapping[str, int], without: Mapping[str, Sequence[int]], weights: np.ndarray) -> Worth:
    n = sum(routed.values())
    if not n:
        return Worth(None, float("nan"), float("nan"), -1.0, 1.0, 0)
    mean, variance = np.zeros(weights.shape), np.zeros(weights.shape)
    for task, times in routed.items():
        k, m = without.get(task, (0, 0))
        a, b = MEANS[:, None] * SIZES + k, (1 - MEANS)[:, None] * SIZES + m - k
        mean += times / n * a / (a + b)
        variance += (times / n) ** 2 * a * b / ((a + b) ** 2 * (a + b + 1))
    base = float((weights * mean).sum())
    size = base * (1 - base) / float((weights * (variance + (mean - base) ** 2)).sum()) - 1  # of the Beta with these two moments
    (low, high), (low0, high0) = _interval(passes, n), _ends(base * size, (1 - base) * size)
    rate = passes / n
    below, above = np.hypot(rate - low, high0 - base), np.hypot(high - rate, base - low0)
    least, most = rate - base - float(below), rate - base + float(above)
    return Worth(True if least > 0 else False if most < 0 else None, rate, base, max(-1.0, least), min(1.0, most), n)


def _interval(k: int, n: int) -> tuple[float, float]:
    """Return Jeffreys' interval of a rate, that goes to 0 where nothing passed and to 1 where all did."""
    low, high = _ends(k + 0.5, n - k + 0.5)
    return 0.0 if k == 0 else low, 1.0 if k == n else high


def _ends(a: float, b: float) -> tuple[float, float]:
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE) / 2
    return float(betaincinv(a, b, tail)), 1.0 - float(betaincinv(b, a, tail))


# ---------------------------------------------------------------- probes


def probed(history: History) -> tuple[dict[str, tuple[int, int]], Path] | None:
    """Return the probes that a run's tasks were chosen by, and their file: None where no file has them, or one of other tasks.

    Looked for where the run found its split, or would find it here. They must be of the suite, the model and the temperature of the run.
    """
    from real_loop.tasks import OWN, SHIPPED, solver_model, split_name

    s = history.settings
    if s.scripted or not s.model:
        return None
    name = split_name(s.subset.name, solver_model(s))
    places = [Path(s.subset.split).expanduser()] if s.subset.split is not None else [OWN / name, SHIPPED / name]
    for path in places:
        try:
            told = json.loads(path.read_text())
            fits = told["digest"] == history.identity.get("suite_digest") and told["model"] == solver_model(s)
            if fits and told["temperature"] == s.roles.solver.temperature and told["probes"] > 0:
                found = {str(task): (int(passes), int(told["probes"])) for task, passes in told["passes"].items()}
                if all(0 <= k <= m for k, m in found.values()):
                    return found, path
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # no such file, or none that says it
    return None
