"""A judge that scores is a curve on the plane of judges, one point for each threshold; and the threshold that makes the best curator.

A case passes if its score is at least the threshold. The rates of a threshold that was chosen on the same cases flatter the judge: the
choice is fitted to their accidents, the more so the fewer they are. So rates are reported on tasks that had no part in the choice
(cross-validation over tasks, never over rows: rows of one task are alike, and a threshold that saw some knows the others).

Thresholds are compared by *power at equal evidence*: the same number of trials, and a good skill lost with the same chance alpha; the
better one keeps the bad skill more rarely. It is what the retirement test of BC App. C.1 and RT section 4.1 makes of the two rates (exact
binomials, :mod:`sim.operating`). AUC, accuracy and kappa weigh them otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from real_loop.audit.cases import Cases
from real_loop.audit.rates import Rates, measured
from sim.errors import InputError
from sim.theory import EDGE, observed_rate, pi_tau, region

if TYPE_CHECKING:
    from sim.cadence import Cadence
    from sim.points import Point

FOLDS: Final = 5
RATE_RESAMPLES: Final = 2_000
FINE: Final = 500  # steps of a curve in draws, and of rates in the choice at a fixed tau: more would change nothing that can be seen


# ---------------------------------------------------------------- the curve


@dataclass(frozen=True)
class Curve:
    """The rates of a judge at each threshold, lowest threshold first.

    Attributes
    ----------
    threshold
        -inf, where all pass; each distinct score above the lowest; inf, where none does. Shape (m,).
    rho_fp, rho_pf
        Shape (m,): rho_fp falls from 1 to 0, rho_pf rises from 0 to 1.
    n_fail, n_pass
        True fails and true passes, as independent cases of equal weight (Kish's effective number).
    auc
        P(a true pass scores above a true fail), ties half.
    """

    threshold: np.ndarray
    rho_fp: np.ndarray
    rho_pf: np.ndarray
    n_fail: float
    n_pass: float
    auc: float


def roc(truth: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None) -> Curve:
    """Return the rates at each distinct threshold.

    Parameters
    ----------
    truth, score, weight
        Shape (n,); bool, finite, at least 0 (all 1 by default).

    Raises
    ------
    InputError
        There are no true fails or no true passes: half of the curve is unknown.
    """
    truth, score = np.asarray(truth, bool), np.asarray(score, np.float64)
    weight = np.ones(len(truth)) if weight is None else np.asarray(weight, np.float64)
    if not np.isfinite(score).all():
        raise InputError("score", score[~np.isfinite(score)][0], "finite numbers")
    for name, of in (("fails", ~truth), ("passes", truth)):
        if not weight[of].sum() > 0:
            raise InputError("scores", f"no true {name}", "some of both", "a curve is about both rates")
    values, place = np.unique(score, return_inverse=True)
    fails, passes = (np.bincount(place, weight * of, len(values)) for of in (~truth, truth))
    rho_fp, rho_pf, auc = points(fails[None], passes[None])
    threshold = np.concatenate([[-np.inf], values[1:], [np.inf]])
    n_fail, n_pass = (float(weight[of].sum() ** 2 / (weight[of] ** 2).sum()) for of in (~truth, truth))
    return Curve(threshold, rho_fp[0], rho_pf[0], n_fail, n_pass, float(auc[0]))


def points(fails: np.ndarray, passes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both rates at each threshold and AUC from weights by distinct score, for several draws.

    Shapes (draws, scores) in, (draws, scores + 1) twice and (draws,) out; nan where a draw has no such case.
    """
    nothing = np.zeros((len(fails), 1))
    below_f, below_p = (np.concatenate([nothing, np.cumsum(w, axis=1)], axis=1) for w in (fails, passes))
    with np.errstate(invalid="ignore"):
        rho_fp, rho_pf = 1.0 - below_f / below_f[:, -1:], below_p / below_p[:, -1:]
        won = (passes * (below_f[:, :-1] + 0.5 * fails)).sum(axis=1)
        auc = won / (below_f[:, -1] * below_p[:, -1])
    return np.clip(rho_fp, 0.0, 1.0), np.clip(rho_pf, 0.0, 1.0), auc


@dataclass(frozen=True)
class Part:
    """The part of a curve inside the governable rectangle, rho_fp < pi_tau and rho_pf < 1 - pi_tau.

    Attributes
    ----------
    low, high
        First and last threshold inside.
    thresholds
        How many are.
    first, last
        Their places on the curve.
    """

    low: float
    high: float
    thresholds: int
    first: int
    last: int


def governable(curve: Curve, tau: float) -> Part | None:
    """Return which thresholds are inside the rectangle, in one stretch since both rates are monotone; None where none is."""
    pi = float(pi_tau(tau))
    inside = np.flatnonzero((curve.rho_fp < pi - EDGE) & (curve.rho_pf < 1.0 - pi - EDGE))
    if not len(inside):
        return None
    first, last = int(inside[0]), int(inside[-1])
    return Part(float(curve.threshold[first]), float(curve.threshold[last]), len(inside), first, last)


# ---------------------------------------------------------------- which threshold


def kept_at_equal_evidence(good: np.ndarray, bad: np.ndarray, trials: int, alpha: float) -> np.ndarray:
    """Return the chance that a bad skill is still there after one test that loses a good one with chance alpha exactly.

    The test is of a number of passes after so many trials. A bound of whole passes would lose less than alpha, more or less by accident of
    the rate; so at the bound a coin decides (Neyman and Pearson 1933), and thresholds are compared at the same chance.

    Parameters
    ----------
    good, bad
        *Observed* pass rates of the two skills, shape (m,).
    trials
        Of a skill at the test.
    alpha
        In (0, 1).

    Returns
    -------
    numpy.ndarray
        Shape (m,). 1 - alpha or more where the judge does not tell the skills apart.
    """
    from scipy.stats import binom

    bound = np.asarray(binom.ppf(alpha, trials, good))
    below, at = binom.cdf(bound - 1, trials, good), binom.pmf(bound, trials, good)
    coin = np.clip(np.divide(alpha - below, at, out=np.zeros(len(bound)), where=at > 0), 0.0, 1.0)
    return np.asarray(binom.sf(bound, trials, bad) + (1.0 - coin) * binom.pmf(bound, trials, bad))


def margin_at(good: float, trials: int, alpha: float) -> float | None:
    """Return the tau whose test after so many trials loses a good skill with a chance of at most alpha, as near to it as passes allow.

    Parameters
    ----------
    good
        *Observed* pass rate of the skill.
    trials, alpha
        As in :func:`kept_at_equal_evidence`.

    Returns
    -------
    float or None
        The threshold is half a pass above the most passes that retire. None where even no pass at all is too likely.
    """
    from scipy.stats import binom

    bound = int(binom.ppf(alpha, trials, good))
    while bound >= 0 and binom.cdf(bound, trials, good) > alpha:
        bound -= 1
    if bound < 0 or bound >= trials:
        return None
    digits = len(str(trials)) + 1
    return round(1.0 - (2 * bound + 1) / trials, digits)


def cadence_of(point: Point) -> Cadence:
    """Return when the rule looks: as the point has it, or where rounds are random, after as many trials as they have on average."""
    from sim.cadence import every

    return point.cadence if point.cadence.fixed else every(max(1, round(point.cadence.mean)))


def _kept_by_rule(rate: np.ndarray, point: Point) -> np.ndarray:
    """Return the chance that a skill of each observed rate is still there at the horizon, under the rule of the point.

    More than 2 FINE rates are read off between FINE + 1 of them, right to about 1e-4.
    """
    from sim.operating import operating

    cadence = cadence_of(point)
    values = np.unique(rate)
    if len(values) > 2 * FINE:
        values = np.linspace(values[0], values[-1], FINE + 1)
    kept = operating(values, point.tau, point.n_min, max(1, point.horizon // cadence.fixed), cadence).kept.clip(0.0, 1.0)
    return np.interp(rate, values, kept)


def best(curve: Curve, point: Point, fixed: bool) -> int:
    """Return the place of the best threshold of a curve.

    Rates are taken as Jeffreys' prior has them, (k + 1/2) / (n + 1): no judge is perfect because four of four cases went well.

    Parameters
    ----------
    curve
        Of the cases to choose on.
    point
        The controller and the two skills; its rates are not used.
    fixed
        Whether tau and n_min stay as they are. Then the rule trades one error for the other as the threshold moves, and the best makes the
        larger of two ratios least: the chance that the good skill is gone by ``point.horizon`` trials to alpha, and that the bad one is
        still there to beta. Holding the former alone at alpha would let pass whatever keeps the shelf full. Else tau goes with the
        threshold, and the skills are tested once, after so many trials.
    """
    rho_fp = (curve.rho_fp * curve.n_fail + 0.5) / (curve.n_fail + 1.0)
    rho_pf = (curve.rho_pf * curve.n_pass + 0.5) / (curve.n_pass + 1.0)
    good, bad = (np.asarray(observed_rate(p, rho_fp, rho_pf)).clip(0.0, 1.0) for p in (point.good, point.bad))
    if fixed:
        kept = _kept_by_rule(np.concatenate([good, bad]), point)
        lost, kept = 1.0 - kept[: len(good)], kept[len(good) :]
        kept = np.maximum(lost / point.alpha, kept / point.beta)
    else:
        kept = kept_at_equal_evidence(good, bad, point.horizon, point.alpha)
    return int(np.lexsort((rho_fp + rho_pf, np.round(kept, 15)))[0])  # where chances are alike, the larger kappa


@dataclass(frozen=True)
class Chosen:
    """A threshold, and what it is worth on tasks that had no part in choosing it.

    Attributes
    ----------
    fixed
        Whether it was chosen for the tau and n_min of the point, or with a tau of its own.
    threshold
        Chosen on all cases; a case passes if its score is at least that. -inf lets all pass, inf none.
    by_fold
        Thresholds chosen without each fold, shape (folds,): how far apart they are says how well it is known.
    fold
        The fold that each row was held out with, shape (n,).
    held_out
        Rates over the folds, each judged by the threshold chosen without it.
    in_sample
        Rates (rho_fp, rho_pf) of ``threshold`` on the cases it was chosen on.
    optimism
        By which the latter flatter the judge: held out minus in sample, of rho_fp and rho_pf; in sample minus held out, of kappa.
    tau
        The margin that goes with it at the held-out rates; None where none holds the good skill's loss at alpha.
    trials, lost, kept
        After so many trials at that tau and the held-out rates: chance that the good skill is gone, and that the bad one is still there.
        Tested once, or where ``fixed``, whenever the rule looks. 0 and 1 where tau is None: nothing is retired.
    region
        Of the held-out rates at the tau of the point.
    inside
        Whether both of their intervals are wholly inside its rectangle.
    unit
        What was held out together: "task"; "case" or "row" where tasks were not given or were fewer than the folds.
    """

    fixed: bool
    threshold: float
    by_fold: np.ndarray
    fold: np.ndarray
    held_out: Rates
    in_sample: tuple[float, float]
    optimism: tuple[float, float, float]
    tau: float | None
    trials: int
    lost: float
    kept: float
    region: str
    inside: bool
    unit: str


def folds_of(cases: Cases, folds: int, seed: int) -> tuple[np.ndarray, str]:
    """Return the fold of each row, shape (n,), and what is held out together: all rows of a task are in one fold.

    Tasks are dealt in the order of their share of true passes, at random among those alike, so that each fold has its part of both truths.

    Raises
    ------
    InputError
        There are fewer than two folds or rows.
    """
    if folds < 2:
        raise InputError("folds", folds, "at least 2")
    each = np.arange(len(cases))
    kinds = (("task", cases.task if cases.clustered else each), ("case", cases.case), ("row", each))
    coded = [(name, np.unique(values, return_inverse=True)[1]) for name, values in kinds]
    if not cases.clustered:
        coded = coded[2:]
    unit, code = next(((name, code) for name, code in coded if code.max(initial=-1) + 1 >= folds), coded[-1])
    units = int(code.max(initial=-1)) + 1
    if units < 2:
        raise InputError("scores", f"{units} cases", "at least 2, to choose a threshold on some and report it on others")
    rng, folds = np.random.default_rng(seed), min(folds, units)
    share = np.bincount(code, cases.truth, units) / np.bincount(code, minlength=units)
    order = np.lexsort((rng.random(units), share))
    dealt = np.concatenate([rng.permutation(folds) for _ in range(-(-units // folds))])[:units]
    fold = np.empty(units, np.int64)
    fold[order] = dealt
    return fold[code], unit


def choose(cases: Cases, point: Point, seed: int = 0, folds: int = FOLDS, *, fixed: bool = False, confidence: float = 0.95) -> Chosen:
    """Return the threshold that makes the best curator, with its rates on held-out tasks.

    Parameters
    ----------
    cases
        Of one judge, with scores.
    point
        The controller and the two skills to be told apart; its rates are not used.
    seed
        Of the folds and of the bootstrap.
    folds
        Parts of the tasks, each held out once.
    fixed
        As in :func:`best`.
    confidence
        Of the intervals.

    Raises
    ------
    InputError
        One truth has no cases, or there are too few to hold any out.
    """
    score = scores_of(cases)
    whole = roc(cases.truth, score, cases.weight)
    at = best(whole, point, fixed)
    fold, unit = folds_of(cases, folds, seed)
    verdict, by_fold = np.zeros(len(cases), bool), []
    for i in range(int(fold.max()) + 1):
        held = fold == i
        threshold = _chosen_without(cases, score, held, point, fixed)
        verdict[held] = score[held] >= threshold
        by_fold.append(threshold)
    rates = measured(replace(cases, verdict=verdict, invalid=None), confidence, RATE_RESAMPLES, seed)
    fp, pf = rates.rho_fp, rates.rho_pf
    assert fp.value is not None, "a curve has true fails"
    assert pf.value is not None, "a curve has true passes"
    tau, lost, kept = _what_it_does(fp.value, pf.value, point, fixed)
    pi, inside = float(pi_tau(point.tau)), (float(whole.rho_fp[at]), float(whole.rho_pf[at]))
    gaps = fp.value - inside[0], pf.value - inside[1]
    return Chosen(
        fixed,
        float(whole.threshold[at]),
        np.array(by_fold),
        fold,
        rates,
        inside,
        (gaps[0], gaps[1], sum(gaps)),
        tau,
        point.horizon,
        lost,
        kept,
        str(region(point.tau, fp.value, pf.value)),
        fp.used.high < pi and pf.used.high < 1.0 - pi,
        unit,
    )


def scores_of(cases: Cases) -> np.ndarray:
    """Return the scores of some cases; InputError where there are none."""
    if cases.score is None:
        raise InputError("scores", "verdicts alone", "a score for each case")
    return np.asarray(cases.score, np.float64)


def _chosen_without(cases: Cases, score: np.ndarray, held: np.ndarray, point: Point, fixed: bool) -> float:
    """Return the threshold chosen on the rows that are not held out; where one truth has no cases there, their median."""
    truth, weight = cases.truth[~held], cases.weight[~held]
    if not (weight[truth].sum() > 0 and weight[~truth].sum() > 0):
        return float(np.median(score[~held]))
    curve = roc(truth, score[~held], weight)
    return float(curve.threshold[best(curve, point, fixed)])


def _what_it_does(rho_fp: float, rho_pf: float, point: Point, fixed: bool) -> tuple[float | None, float, float]:
    """Return the tau that goes with these rates, and the chances that the good skill is gone and that the bad one is still there."""
    from scipy.stats import binom

    from sim.operating import most_passes

    seen = np.clip([float(observed_rate(p, rho_fp, rho_pf)) for p in (point.good, point.bad)], 0.0, 1.0)
    if fixed:
        kept = _kept_by_rule(seen, point)
        return point.tau, float(1.0 - kept[0]), float(kept[1])
    tau = margin_at(float(seen[0]), point.horizon, point.alpha)
    if tau is None:
        return None, 0.0, 1.0
    low = int(most_passes(tau, 1, point.horizon)[-1])
    return tau, float(binom.cdf(low, point.horizon, seen[0])), float(binom.sf(low, point.horizon, seen[1]))
