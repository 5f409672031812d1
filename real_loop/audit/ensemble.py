"""What several verdicts on one case are worth: votes of repeated calls of one judge, and two judges together.

Errors on one case come together: a judge that is fooled once is likely fooled again. So independence promises too much, and here the
correlation is measured. Where each case has enough calls, votes are counted (all subsets of k calls of a case, hypergeometric); where
there are few, they follow from a beta-binomial with the mean and the intra-case correlation of each truth (Skellam 1948; moments as in
Ridout, Demetrio and Firth 1999). Where there are none, only bounds are known.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np

from real_loop.audit.cases import Cases
from real_loop.audit.rates import Interval, Rates, exact, measured
from real_loop.audit.resample import RESAMPLES, draws, percentiles
from sim.errors import InputError

Rule = Literal["majority", "all", "any"]
CALLS: Final = (1, 3, 5, 7)
RULES: Final[dict[Rule, str]] = {
    "majority": "pass if most of the calls pass",
    "all": "pass only if all calls pass",
    "any": "pass if any call passes",
}


# ---------------------------------------------------------------- how a vote errs


def fewest_errors(rule: Rule, calls: int, truth: bool) -> int:
    """Return how many calls on a case must err for the vote to err: a true fail passes, or a true pass fails.

    Raises
    ------
    InputError
        A majority of an even number of calls, or no call.
    """
    if calls < 1 or (rule == "majority" and calls % 2 == 0):
        raise InputError("calls", calls, "an odd number, so that a majority exists" if rule == "majority" else "at least 1")
    if rule == "majority":
        return calls // 2 + 1
    return calls if (rule == "all") != truth else 1


def at_least(errors: int, calls: int, mean: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """Return the chance of at least so many errors in so many calls under a beta-binomial, same shape as its parameters.

    Parameters
    ----------
    mean
        P(a call errs).
    correlation
        Of two calls on one case, from 0 (independent) to 1 (all alike).
    """
    from scipy.stats import betabinom, binom

    mean, correlation = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(correlation, np.float64))
    spread = (correlation > 1e-9) & (correlation < 1.0 - 1e-9) & (mean > 0.0) & (mean < 1.0)
    size = np.divide(1.0 - correlation, correlation, out=np.ones(mean.shape), where=spread)
    k = np.arange(errors, calls + 1).reshape(-1, *[1] * mean.ndim)
    some = np.where(spread, mean, 0.5)
    mixed = betabinom.pmf(k, calls, some * size, (1.0 - some) * size).sum(axis=0)
    alike = np.where(correlation >= 1.0 - 1e-9, mean, binom.sf(errors - 1, calls, mean))
    return np.where(spread, np.minimum(mixed, 1.0), alike)


def bounds(errors: int, calls: int, mean: float) -> Interval:
    """Return the least and the largest chance of at least so many errors in calls that are exchangeable, whatever their correlation.

    By de Finetti the calls on a case are independent given the chance P of an error on that case, so the chance wanted is the mean of
    g(P) = P(Binomial(calls, P) >= errors) over cases, and only the mean of P is known: it lies between the convex and the concave envelope
    of g at that mean. A majority of three can be worse than one call: up to 9/8 of its rate.
    """
    if calls == 1:
        return Interval(mean, mean)
    low, high = _envelopes(errors, calls)
    return Interval(max(float(np.interp(mean, *low)), 0.0), min(-float(np.interp(mean, *high)), 1.0))


@functools.cache
def _envelopes(errors: int, calls: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return the corners of the convex envelope, and of the concave one upside down."""
    from scipy.stats import binom

    x = np.linspace(0.0, 1.0, 1001)
    g = np.asarray(binom.sf(errors - 1, calls, x))
    return _hull(x, g), _hull(x, -g)


def _hull(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower convex hull of points whose x ascends."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1 and (y[kept[-1]] - y[kept[-2]]) * (x[i] - x[kept[-2]]) >= (y[i] - y[kept[-2]]) * (x[kept[-1]] - x[kept[-2]]):
            kept.pop()
        kept.append(i)
    return x[kept], y[kept]


# ---------------------------------------------------------------- repeated calls


@dataclass(frozen=True)
class Mix:
    """Errors of repeated calls on cases of one truth.

    Attributes
    ----------
    cases, calls, repeated
        Cases, calls, and cases with at least two calls.
    mean, mean_interval
        Mean over calls of the chance that one errs; None without cases.
    correlation, correlation_interval
        Of two calls on one case; None without repeated calls, or where no call erred, or all did. May come out below 0 by chance.
    """

    cases: int
    calls: int
    repeated: int
    mean: float | None
    mean_interval: Interval
    correlation: float | None
    correlation_interval: Interval | None


@dataclass(frozen=True)
class Estimate:
    """A rate of a vote among cases of one truth.

    Attributes
    ----------
    value, interval
        The best there is: counted where each case has enough calls, else the beta-binomial; the interval by resampling, or at no error
        at all, or without repeated calls, from the bounds. None and what the bounds leave without repeated calls.
    counted, counted_cases
        Mean over subsets of the calls of a case, and how many cases have enough calls; None where none has.
    model
        Of the beta-binomial; None where the correlation is unknown.
    independent
        What independent calls of the same rate would give.
    bounds
        What the rate of one call leaves open, whatever the correlation.
    """

    value: float | None
    interval: Interval
    counted: float | None
    counted_cases: int
    model: float | None
    independent: float | None
    bounds: Interval


@dataclass(frozen=True)
class Vote:
    """A rule over so many calls on each case, and its rates."""

    rule: Rule
    calls: int
    rho_fp: Estimate
    rho_pf: Estimate


@dataclass(frozen=True)
class Repeats:
    """What repeated calls of one judge say.

    Attributes
    ----------
    judge
        Its name.
    fails, passes
        Errors on true fails and on true passes.
    votes
        By rule and number of calls.
    words
        What follows.
    """

    judge: str
    fails: Mix
    passes: Mix
    votes: tuple[Vote, ...]
    words: tuple[str, ...]


class _Counts(NamedTuple):
    """Cases of one truth: unit of resampling, calls, errors and weight of each, shape (cases,)."""

    unit: np.ndarray
    n: np.ndarray
    e: np.ndarray
    w: np.ndarray

    def once(self, truth: bool, wanted: list[tuple[Rule, int]]) -> np.ndarray:
        """Return columns that a draw counts as often as the unit, shape (cases, 4 + 2 wanted).

        Calls, errors, pairs of calls and pairs of errors of a case; and for each vote, whether there are calls enough, and the share of the
        subsets of the calls in which the vote errs.
        """
        from scipy.stats import hypergeom

        n, e = self.n, self.e
        columns = [n, e, n * (n - 1), e * (e - 1)]
        for rule, k in wanted:
            enough = n >= k
            columns += [enough, np.where(enough, hypergeom.sf(fewest_errors(rule, k, truth) - 1, np.maximum(n, k), e, k), 0.0)]
        return np.stack(columns, 1) * self.w[:, None]

    @property
    def squares(self) -> np.ndarray:
        """Columns that a draw counts as often squared: a unit that comes twice is no pair of different cases. Shape (cases, 2)."""
        return np.stack([self.w * self.n, self.w * self.e], 1) ** 2


def _by_unit(unit: np.ndarray, columns: np.ndarray, units: int) -> np.ndarray:
    return np.stack([np.bincount(unit, column, units) for column in columns.T], 1)


def _moments(once: np.ndarray, square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the correlation from sums, shapes (draws, 4) and (draws, 2); nan where they are undefined.

    Two calls on one case err together with chance E[P^2], two on different cases with E[P]^2; both are estimated by counting pairs.
    """
    n, e, pairs, both = once.T
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = e / n
        apart = (e**2 - square[:, 1]) / (n**2 - square[:, 0])
        together = both / pairs
        room = mean - apart
        return mean, np.where((pairs > 0) & (room > 1e-12), (together - apart) / room, np.nan)


def repeats(cases: Cases, calls: Iterable[int] = CALLS, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0) -> Repeats:
    """Return what votes of repeated calls are worth.

    Parameters
    ----------
    cases
        Of one judge, with verdicts; rows of one case are calls.
    calls
        Numbers of calls; majorities only of odd ones.
    confidence, resamples, seed
        Of the intervals: over tasks where they are given, else over cases.

    Raises
    ------
    InputError
        There are no verdicts, or the rows are of several judges.
    """
    if cases.verdict is None:
        raise InputError("verdict", "scores alone", "a verdict for each call")
    if len(names := cases.judges) != 1:
        raise InputError("judge", ", ".join(names)[:60] or "no rows", "calls of one judge")
    _, first, case = np.unique(cases.case, return_index=True, return_inverse=True)
    n, w = np.bincount(case).astype(float), np.bincount(case, cases.weight)
    e = np.bincount(case, cases.verdict != cases.truth).astype(float)
    by = cases.task if cases.clustered else cases.case
    unit = np.unique(by, return_inverse=True)[1][first]
    units, truth = int(unit.max()) + 1, cases.truth[first]
    counts = [_Counts(unit[of], n[of], e[of], (w / n)[of]) for of in (~truth, truth)]
    wanted = [(rule, k) for k in dict.fromkeys(calls) for rule in RULES if (k > 1 or rule == "majority") and (k % 2 or rule != "majority")]
    once = np.concatenate([_by_unit(part.unit, part.once(bool(i), wanted), units) for i, part in enumerate(counts)], 1)
    squares = np.concatenate([_by_unit(part.unit, part.squares, units) for part in counts], 1)
    several = [(m @ once, m**2 @ squares) for m in draws(units, 0, resamples, seed)]
    all_once = np.concatenate([once.sum(axis=0)[None], *(x for x, _ in several)])  # the cases as they are, then the draws
    all_squares = np.concatenate([squares.sum(axis=0)[None], *(x for _, x in several)])
    halves = zip(counts, np.split(all_once, 2, axis=1), np.split(all_squares, 2, axis=1), strict=True)
    made = [_made(part, bool(i), wanted, mine, squared, confidence) for i, (part, mine, squared) in enumerate(halves)]
    votes = [Vote(rule, k, fp, pf) for (rule, k), fp, pf in zip(wanted, made[0][1], made[1][1], strict=True)]
    found = Repeats(names[0], made[0][0], made[1][0], tuple(votes), ())
    return replace(found, words=tuple(_words(found)))


def _made(
    of: _Counts, truth: bool, wanted: list[tuple[Rule, int]], once: np.ndarray, squares: np.ndarray, confidence: float
) -> tuple[Mix, list[Estimate]]:
    """Return the mix of one truth, and the rates of the votes that are wanted, from sums over the cases as they are and over draws."""
    cases, calls, repeated = len(of.n), int(of.n.sum()), int((of.n > 1).sum())
    if not of.w.sum() > 0:
        unknown = Interval(0.0, 1.0)
        return Mix(cases, calls, repeated, None, unknown, None, None), [Estimate(None, unknown, None, 0, None, None, unknown)] * len(wanted)
    means, correlations = _moments(once[:, :4], squares)
    mean, correlation = min(float(means[0]), 1.0), None if np.isnan(correlations[0]) else float(correlations[0])
    tasks = len(np.unique(of.unit))
    surely = exact(mean * tasks, tasks, confidence)  # as if all calls of a task came together
    ends = percentiles(means[1:], confidence) or surely, percentiles(correlations[1:], confidence)
    mix = Mix(cases, calls, repeated, mean, ends[0], correlation, ends[1])
    out = []
    for i, (rule, k) in enumerate(wanted):
        errors = fewest_errors(rule, k, truth)
        enough, wrong = once[:, 4 + 2 * i], once[:, 5 + 2 * i]
        shares = np.divide(wrong, enough, out=np.full(len(once), np.nan), where=enough > 0)
        counted = None if np.isnan(shares[0]) else float(shares[0])
        model, values = None, np.full(1, np.nan)
        if k == 1 or correlation is not None:
            values = at_least(errors, k, np.nan_to_num(means).clip(0.0, 1.0), np.nan_to_num(correlations).clip(0.0, 1.0))
            values = np.where(np.isnan(means), np.nan, values)
            model = float(values[0])
        if counted is not None and (of.n >= k).all():
            values = shares
        elif model is None and repeated and mean in (0.0, 1.0):
            values = np.full(1, mean)  # no call erred, or all did: so does any vote
        value = None if np.isnan(values[0]) else float(values[0])
        far = Interval(bounds(errors, k, surely.low).low, bounds(errors, k, surely.high).high)
        independent = float(at_least(errors, k, np.array(mean), np.array(0.0)))
        interval = percentiles(values[1:], confidence) or far
        out.append(Estimate(value, interval, counted, int((of.n >= k).sum()), model, independent, bounds(errors, k, mean)))
    return mix, out


def _words(found: Repeats) -> list[str]:
    mixes = {"true fails": found.fails, "true passes": found.passes}
    if not any(mix.repeated for mix in mixes.values()):
        what = "No case was judged twice, so what a vote of several calls gains is unknown: if calls on a case always agree, nothing."
        return [f"{what} Ask about each case several times."]
    out = []
    for name, mix in mixes.items():
        if mix.correlation is None:
            why = "no case was judged twice" if not mix.repeated else "no call erred" if not mix.mean else "all calls erred"
            out.append(f"How errors on {name} come together is unknown: {why}.")
        else:
            ends = mix.correlation_interval
            known = "" if ends is None else f" ({ends.low:.2f} to {ends.high:.2f})"
            out.append(f"Errors of two calls on one of the {name} correlate at {mix.correlation:.2f}{known}: {_meant(mix.correlation)}.")
    return out


def _meant(correlation: float) -> str:
    if correlation > 0.9:
        return "asking again gains next to nothing"
    return "asking again gains less than independence promises" if correlation > 0.1 else "calls err nearly independently"


# ---------------------------------------------------------------- two judges together


@dataclass(frozen=True)
class Together:
    """Errors of two judges together among cases of one truth.

    Attributes
    ----------
    value, interval
        Measured jointly.
    first, second
        Rates of each alone, on the same cases.
    independent
        What their product would be.
    correlation, correlation_interval
        Of their errors (phi); None where one of them never errs, or always.
    """

    value: float
    interval: Interval
    first: float
    second: float
    independent: float
    correlation: float | None
    correlation_interval: Interval | None


@dataclass(frozen=True)
class Union:
    """Two judges on the same cases.

    Attributes
    ----------
    judges
        Their names.
    both
        Whether a case passes only if both pass it (the union of what they flag), else if either does.
    calls
        Of both, per case.
    cases, left_out
        Cases that both judged, and cases that only one did.
    rho_fp, rho_pf
        None without cases of that truth.
    """

    judges: tuple[str, str]
    both: bool
    calls: float
    cases: int
    left_out: int
    rho_fp: Together | None
    rho_pf: Together | None


def union(
    cases: Cases,
    a: str,
    b: str,
    *,
    both: bool = True,
    calls: tuple[float, float] = (1.0, 1.0),
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Union:
    """Return the rates of two judges together, measured on the cases that both have judged.

    Parameters
    ----------
    cases
        Of both judges, matched by ``case``; of repeated calls every pair counts, the case as much as before.
    a, b
        Their names.
    both
        Whether a case passes only if both pass it (a union of flags, as of checks and a judge), else if either does.
    calls
        Cost of each per case; 0 for checks that cost nothing.
    confidence, resamples, seed
        Of the intervals.

    Raises
    ------
    InputError
        There are no verdicts, a judge is unknown or named twice, no case was judged by both, or the judges differ in the truth of a case.
    """
    if cases.verdict is None:
        raise InputError("verdict", "scores alone", "verdicts of both judges")
    for name in (a, b):
        if name not in cases.judges:
            raise InputError("judge", repr(name[:60]), f"one of {', '.join(cases.judges)[:200]}")
    if a == b:
        raise InputError("judges", f"{a!r} twice", "two different ones", "for several calls of one, see votes")
    paired, left_out = _paired(cases, a, b)
    assert paired.verdicts.shape[0] == 2
    verdict = np.asarray(paired.verdicts.all(axis=0) if both else paired.verdicts.any(axis=0))
    rates = measured(paired.of(verdict), confidence, resamples, seed)
    parts = [_together(paired, bool(truth), both, rates, confidence, resamples, seed) for truth in (False, True)]
    return Union((a, b), both, float(sum(calls)), len(np.unique(paired.rows.case)), left_out, parts[0], parts[1])


class _Pairs(NamedTuple):
    """Pairs of verdicts on one case: rows of the first judge with their share of the weight, and both verdicts, shape (2, pairs)."""

    rows: Cases
    verdicts: np.ndarray

    def of(self, verdict: np.ndarray) -> Cases:
        return replace(self.rows, verdict=verdict, invalid=None)


def _paired(cases: Cases, a: str, b: str) -> tuple[_Pairs, int]:
    """Return the pairs of verdicts, and how many cases only one of the judges has."""
    assert cases.verdict is not None
    one, two = (np.flatnonzero(cases.judge == name) for name in (a, b))
    shared = np.intersect1d(cases.case[one], cases.case[two])
    alone = len(np.union1d(cases.case[one], cases.case[two])) - len(shared)
    if not len(shared):
        todo = "name what was judged in a column case, the same for both judges"
        raise InputError("case", f"no case that both {a} and {b} judged", "cases in common", todo)
    one, two = (rows[np.isin(cases.case[rows], shared)] for rows in (one, two))
    two = two[np.argsort(cases.case[two], kind="stable")]
    start = np.searchsorted(cases.case[two], cases.case[one], side="left")
    times = np.searchsorted(cases.case[two], cases.case[one], side="right") - start
    left = np.repeat(one, times)
    right = two[np.repeat(start, times) + np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)]
    if (off := np.flatnonzero(cases.truth[left] != cases.truth[right])).size:
        got = f"a true pass to one of {a} and {b}, a true fail to the other"
        raise InputError(f"case {cases.case[left[off[0]]]}", got, "one truth per case")
    rows = cases.of(left)
    again = len(left) > len(shared)
    weight = rows.weight / np.repeat(times, times)
    rows = replace(rows, weight=weight, task=rows.task if cases.clustered else rows.case, clustered=cases.clustered or again)
    return _Pairs(rows, np.stack([cases.verdict[left], cases.verdict[right]])), alone


def _together(paired: _Pairs, truth: bool, both: bool, rates: Rates, confidence: float, resamples: int, seed: int) -> Together | None:
    rate = rates.rho_pf if truth else rates.rho_fp
    if rate.value is None:
        return None
    of = paired.rows.truth == truth
    w, wrong = paired.rows.weight[of], (paired.verdicts != truth)[:, of]
    unit = np.unique(paired.rows.task[of], return_inverse=True)[1]
    units = int(unit.max()) + 1
    sums = np.stack([np.bincount(unit, w * x, units) for x in (np.ones(of.sum()), wrong[0], wrong[1], wrong[0] & wrong[1])], 1)
    total = sums.sum(axis=0)
    first, second = float(total[1] / total[0]), float(total[2] / total[0])
    meet = both != truth  # then the pair errs only where both err
    alone = first * second if meet else 1.0 - (1.0 - first) * (1.0 - second)
    phi = float(_phi(total[None])[0])
    drawn = np.concatenate([_phi(m @ sums) for m in draws(units, 0, resamples, seed)])
    known = None if np.isnan(phi) else phi
    ends = None if known is None else percentiles(drawn, confidence)
    return Together(rate.value, rate.used, first, second, alone, known, ends)


def _phi(sums: np.ndarray) -> np.ndarray:
    """Return the correlation of two errors from sums of weights: all, of the first, of the second, of both; shape (draws, 4)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        p, q, both = (sums[:, 1:] / sums[:, :1]).T
        spread = p * (1 - p) * q * (1 - q)
        return np.where(spread > 1e-12, (both - p * q) / np.sqrt(np.maximum(spread, 1e-300)), np.nan)
