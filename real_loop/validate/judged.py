"""What came of a comparison: tests of each variable over the runs that were predicted, sentences, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from real_loop.roles import EVAL, TRAIN
from real_loop.validate.compare import NOT_PREDICTED, PREDICTED, Outcome, held_against, holm, scores, verdict
from real_loop.validate.conditions import Plan, Seen
from real_loop.validate.predict import BY_ROUND, FINAL, Values

LABELS: Final = {
    "synthesised": "skills written",
    "retired": "skills retired",
    "evicted": "skills evicted",
    "active_final": "skills on the shelf at the end",
    "observed_failures": "observed failures per round",
    "divergence": "labels flipped, share of train trials",
    "routed": "trials with a skill, share of train trials",
    "tail_sampled": "eval of the last rounds",
    "eval": "eval, by round",
    "active": "skills on the shelf, by round",
}
BAND: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


def label(name: str, by_round: bool) -> str:
    """Return a variable in words."""
    if by_round and name in ("retired", "evicted", "synthesised"):
        return f"{LABELS[name]} so far, by round"
    return (
        f"{LABELS[name].split(' per round')[0].split(', share')[0]}, by round"
        if by_round and "by round" not in LABELS[name]
        else LABELS[name]
    )


def matters(name: str, log: Seen) -> float:
    """Return a shift of a variable that somebody would care about: one skill; a tenth of trials, tasks or labels.

    Skills are counted: one more or less is the least that can be seen. An eval of the papers moves by a tenth where they call it harm.
    """
    tasks = log.history.tasks
    return {
        "synthesised": 2.0,
        "observed_failures": 0.1 * len(tasks[TRAIN]),
        "divergence": 0.1,
        "routed": 0.1,
        "tail_sampled": max(0.1, 1 / len(tasks[EVAL])),
        "eval": max(0.1, 1 / len(tasks[EVAL])),
    }.get(name, 1.0)


@dataclass(frozen=True)
class Held:
    """One variable, held against its prediction.

    Attributes
    ----------
    name, by_round
        Which; whether it is the one by round.
    matters
        A shift somebody would care about.
    real
        Values of the logs, shape (logs,) or (logs, rounds).
    drawn
        Predicted values, shape (draws, logs) or (draws, logs, rounds).
    bands
        Their quantiles at BAND, shape (5, logs) or (5, logs, rounds).
    score
        Normal scores of the real values, shape as ``real``.
    test, adjusted, verdict
        Over the logs that were held out; None where none was.
    """

    name: str
    by_round: bool
    matters: float
    real: np.ndarray
    drawn: np.ndarray
    bands: np.ndarray
    score: np.ndarray
    test: Outcome | None
    adjusted: float | None
    verdict: str


def judged(logs: Sequence[Seen], plan: Plan, draws: Sequence[Sequence[Values]]) -> list[Held]:
    """Hold every shared variable of the logs against its joint draws."""
    out = np.array(plan.held_out)
    found = dict[tuple[str, bool], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Outcome | None]]()
    for name, by_round in [*((name, False) for name in FINAL), *((name, True) for name in BY_ROUND)]:
        real = _stacked([log.values for log in logs], name, by_round)
        drawn = np.stack([_stacked(row, name, by_round) for row in draws])
        flat = drawn.reshape(len(drawn), -1)
        score = scores(real.reshape(1, -1), flat).reshape(real.shape)
        mine = np.isfinite(real) & (out if not by_round else out[:, None])
        done = held_against(real[mine], drawn[:, mine], matters(name, logs[0])) if mine.any() else None
        bands = np.full((len(BAND), *real.shape), np.nan)
        bands[:, np.isfinite(real)] = np.quantile(drawn[:, np.isfinite(real)], BAND, axis=0)
        found[name, by_round] = real, drawn, bands, score, done
    p = {f"{name}/{by_round}": done.p for (name, by_round), (*_, done) in found.items() if done is not None}
    adjusted = holm(p) if p else {}
    held = []
    for (name, by_round), (real, drawn, bands, score, done) in found.items():
        size, own = matters(name, logs[0]), adjusted.get(f"{name}/{by_round}")
        said = verdict(own, done, size) if done is not None and own is not None else ""
        held.append(Held(name, by_round, size, real, drawn, bands, score, done, own, said))
    return held


def _stacked(values: Sequence[Values], name: str, by_round: bool) -> np.ndarray:
    """Return a variable of several runs; by round padded with nan where runs have fewer rounds."""
    if not by_round:
        return np.array([v.final[name] for v in values])
    rounds = max(len(v.by_round[name]) for v in values)
    return np.array([np.pad(v.by_round[name], (0, rounds - len(v.by_round[name])), constant_values=np.nan) for v in values])


def sentence(held: Held) -> str:
    """Say in one honest sentence whether a variable was predicted."""
    what = label(held.name, held.by_round).capitalize()
    if held.test is None:
        return f"{what}: nothing was held out, so nothing was predicted."
    t, p = held.test, f"p = {held.test.p:.2g}"
    seen = (
        f"a shift of {t.shift:.2g} would have been noticed"
        if np.isfinite(t.shift)
        else f"not even a shift of {8 * held.matters:.2g} would have been"
    )
    if held.verdict == NOT_PREDICTED:
        side = "larger" if t.score > 0 else "smaller"
        how = f"real values are {side} than predicted on average" if abs(t.score) > 0.3 else "real values scatter more than predicted"
        return f"{what}: not predicted ({p}, {held.adjusted:.2g} among all variables): {how}."
    if held.verdict == PREDICTED:
        return f"{what}: predicted ({p}); {seen}."
    return f"{what}: undecidable at this number of runs ({p}); {seen}, and {held.matters:.2g} is what matters."


def table(held: Sequence[Held], logs: Sequence[Seen], plan: Plan) -> list[list[str]]:
    """Return the table of final values: a row for each variable and condition: real values, predicted median and 90 %, p of each."""
    from scipy.special import ndtr

    rows = []
    for h in held:
        if h.by_round:
            continue
        for condition in dict.fromkeys(log.condition for log in logs):
            at = [i for i, log in enumerate(logs) if log.condition == condition]
            real = ", ".join(_number(h.real[i]) for i in at)
            low, middle, high = (float(np.mean([h.bands[k, i] for i in at])) for k in (0, 2, 4))
            band = f"{_number(middle)} ({_number(low)} to {_number(high)})"
            p = ", ".join(f"{2 * min(ndtr(z), 1 - ndtr(z)):.2f}" for z in (h.score[i] for i in at))
            fitted = "" if all(plan.held_out[i] for i in at) else "fitted to it"
            rows.append([LABELS[h.name], condition, real, band, p, fitted])
    return rows


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "-"
    return f"{value:.0f}" if value == round(value) and abs(value) >= 1 else f"{value:.2f}"


def numbers(held: Sequence[Held], logs: Sequence[Seen], plan: Plan) -> dict[str, Any]:
    """Return everything as plain values, for JSON."""

    def plain(values: np.ndarray) -> Any:
        return [plain(v) for v in values] if np.ndim(values) else (float(values) if np.isfinite(values) else None)

    variables = [
        {
            "name": h.name,
            "by_round": h.by_round,
            "real": plain(h.real),
            "predicted": {f"{q:g}": plain(h.bands[k]) for k, q in enumerate(BAND)},
            "score": plain(h.score),
            "p": h.test.p if h.test else None,
            "p_adjusted": h.adjusted,
            "noticed_shift": h.test.shift if h.test and np.isfinite(h.test.shift) else None,
            "matters": h.matters,
            "verdict": h.verdict,
            "sentence": sentence(h),
        }
        for h in held
    ]
    runs = [
        {"log": log.name, "condition": log.condition, "seed": log.history.settings.seed, "held_out": out}
        for log, out in zip(logs, plan.held_out, strict=True)
    ]
    return {"runs": runs, "variables": variables}
