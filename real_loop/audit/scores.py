"""All that the scores of one judge say: the curve, the thresholds worth taking, how the verdicts lie to it, in numbers and in words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from real_loop.audit.cases import Cases
from real_loop.audit.curve import FINE, FOLDS, Chosen, Curve, Part, choose, governable, points, roc, scores_of
from real_loop.audit.rates import FEW, Interval
from real_loop.audit.resample import RESAMPLES, draws, percentiles
from sim.theory import EDGE

if TYPE_CHECKING:
    from sim.points import Point


@dataclass(frozen=True)
class Compared:
    """The verdicts that came with the scores, against the curve of the scores.

    Attributes
    ----------
    rho_fp, rho_pf
        Of the verdicts.
    curve_rho_pf
        Of the curve at the same rho_fp, between thresholds on the straight line; where it stands upright there, the nearest.
    gain, gain_interval
        By which thresholding the score lowers rho_pf at the same rho_fp, and its bootstrap interval; None where the draws say nothing.
    """

    rho_fp: float
    rho_pf: float
    curve_rho_pf: float
    gain: float
    gain_interval: Interval | None


@dataclass(frozen=True)
class Scores:
    """All that is found out about the scores of one judge.

    Attributes
    ----------
    curve, governable
        The rates at each threshold, and which of them are inside the rectangle.
    auc_interval
        Percentiles over resampled tasks; None where they say nothing: fewer than FEW tasks of either truth, or scores that part the truths.
    chosen
        The threshold that goes with a tau of its own.
    at_tau
        The threshold that goes with the tau of the point.
    verdicts
        None where there are only scores.
    words
        What follows, a sentence or two each.
    """

    curve: Curve
    governable: Part | None
    auc_interval: Interval | None
    chosen: Chosen
    at_tau: Chosen
    verdicts: Compared | None
    words: tuple[str, ...]


def scores(
    cases: Cases, point: Point, seed: int = 0, folds: int = FOLDS, *, confidence: float = 0.95, resamples: int = RESAMPLES
) -> Scores:
    """Return all about the scores of one judge. Parameters as in :func:`choose`; ``resamples`` of the interval of AUC.

    Raises
    ------
    InputError
        As :func:`choose`.
    """
    curve = roc(cases.truth, scores_of(cases), cases.weight)
    auc, gain, verdicts = _resampled(cases, curve, confidence, resamples, seed)
    if verdicts is not None:
        verdicts = replace(verdicts, gain_interval=gain)
    part = governable(curve, point.tau)
    chosen, at_tau = (choose(cases, point, seed, folds, fixed=fixed, confidence=confidence) for fixed in (False, True))
    found = Scores(curve, part, auc, chosen, at_tau, verdicts, ())
    return replace(found, words=tuple(_words(found, point)))


def _resampled(
    cases: Cases, curve: Curve, confidence: float, resamples: int, seed: int
) -> tuple[Interval | None, Interval | None, Compared | None]:
    """Return the intervals of AUC and of the verdicts' distance from the curve, and the verdicts' point."""
    from scipy.sparse import csr_array

    truth, weight = cases.truth, cases.weight
    unit = np.unique(cases.task, return_inverse=True)[1] if cases.clustered else np.arange(len(cases))
    units = int(unit.max()) + 1
    _, place, times = np.unique(scores_of(cases), return_inverse=True, return_counts=True)
    if len(times) > FINE:  # scores next to each other count as one
        place = (FINE * (np.cumsum(times) - times) // len(cases))[place]
    shape = (units, int(place.max()) + 1)
    by_score = [csr_array((weight[of], (unit[of], place[of])), shape=shape).T.tocsr() for of in (~truth, truth)]
    said, verdicts = None, None
    if cases.verdict is not None:
        wrong = cases.verdict != truth
        said = [np.stack([np.bincount(unit, weight * x, units) for x in (of, of & wrong)], 1) for of in (~truth, truth)]
        rho_fp, rho_pf = (float(s[:, 1].sum() / s[:, 0].sum()) for s in said)
        on_curve = _on_curve(curve.rho_fp, curve.rho_pf, rho_fp, rho_pf)
        verdicts = Compared(rho_fp, rho_pf, on_curve, rho_pf - on_curve, None)
    if min(len(np.unique(unit[of & (weight > 0)])) for of in (~truth, truth)) < FEW:
        return None, None, verdicts
    aucs, gains = [], []
    for drawn in draws(units, shape[1], resamples, seed):
        rho_fp_s, rho_pf_s, auc = points((by_score[0] @ drawn.T).T, (by_score[1] @ drawn.T).T)
        aucs.append(auc)
        if said is not None:
            with np.errstate(invalid="ignore"):
                own_fp, own_pf = ((drawn @ s[:, 1]) / (drawn @ s[:, 0]) for s in said)
            gains.append([pf - _on_curve(f, p, fp, pf) for f, p, fp, pf in zip(rho_fp_s, rho_pf_s, own_fp, own_pf, strict=True)])
    return percentiles(np.concatenate(aucs), confidence), percentiles(np.concatenate(gains), confidence) if gains else None, verdicts


def _on_curve(rho_fp: np.ndarray, rho_pf: np.ndarray, x: float, y: float) -> float:
    """Return the rho_pf of a curve where its rho_fp is x: where it stands upright there, the nearest to y. nan where x is nan."""
    if not np.isfinite(x):
        return float("nan")
    xs, ys = rho_fp[::-1], rho_pf[::-1]  # xs rise, ys fall
    first, last = int(np.searchsorted(xs, x - EDGE)), int(np.searchsorted(xs, x + EDGE, side="right")) - 1
    if first <= last:
        return float(np.clip(y, ys[last], ys[first]))
    return float(ys[last] + (ys[first] - ys[last]) * (x - xs[last]) / (xs[first] - xs[last]))


# ---------------------------------------------------------------- in words


def shown(threshold: float) -> str:
    """Return a threshold in up to four digits."""
    return f"{threshold:.4g}" if np.isfinite(threshold) else ("any score" if threshold < 0 else "no score")


def _words(found: Scores, point: Point) -> list[str]:
    """Return what follows from the scores, the most useful first."""
    part, fixed, own = found.governable, found.at_tau, found.chosen
    rates = [f"rho_fp {c.held_out.rho_fp.value:.3f} and rho_pf {c.held_out.rho_pf.value:.3f}" for c in (fixed, own)]
    if part is None:
        out = [f"No threshold on the score is inside the rectangle at tau = {point.tau:g}."]
    else:
        out = [f"Thresholds from {shown(part.low)} to {shown(part.high)} are inside the rectangle at tau = {point.tau:g}."]
        sure = " with both intervals" if fixed.inside else ", but not with both intervals" if fixed.region == "governable" else ""
        where = "inside" if fixed.region == "governable" else f"outside ({fixed.region})"
        out.append(f"The best at this tau, pass from {shown(fixed.threshold)} on: {rates[0]} on held-out {fixed.unit}s, {where}{sure}.")
    if own.tau is None:
        out.append(f"No tau holds the loss of the good skill at {point.alpha:g} within {own.trials} trials.")
    else:
        out.append(
            f"With a tau of its own, pass from {shown(own.threshold)} on and tau = {own.tau:g}: {rates[1]} held out; after "
            f"{own.trials} trials the good skill is lost with chance {own.lost:.2g}, the bad one still there with {own.kept:.2g}."
        )
    if fixed.unit != "task":
        why = "the tasks are too few for the folds" if fixed.unit == "case" else "no tasks were given, or too few for the folds"
        alike = f"where {fixed.unit}s are alike, held-out rates flatter the judge"
        out.append(f"Each {fixed.unit} was taken for a task of its own, since {why}: {alike}.")
    if found.verdicts is not None and (told := _about_verdicts(found.verdicts)):
        out.append(told)
    return out


def _about_verdicts(said: Compared) -> str:
    """Return how the verdicts lie to the curve; nothing where no difference is shown."""
    ends = said.gain_interval
    if ends is None or ends.low <= 0 <= ends.high:
        return ""
    how = "lowers" if said.gain > 0 else "raises"
    by = f"by {abs(said.gain):.3f} (interval {ends.low:+.3f} to {ends.high:+.3f})"
    return f"At the rho_fp of the verdicts, thresholding the score {how} rho_pf {by}."


def plain(value: object) -> object:
    """Return dataclasses, tuples and arrays as JSON values; None where a number is not finite."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value
