"""How many seeds it takes to see a difference between two conditions, and how often a few seeds see it.

``python -m sim.power`` answers for simulated conditions (:mod:`sim.seeds`). Everything here is a pure function of the values
that single runs gave, one number per run.

The test is the two-sided t-test: Welch's for two groups of seeds, the paired one for differences seed by seed. Its power is
worked out twice. *By resampling*: groups of n runs are drawn from the simulated ones, tested, and the rejections counted. That
needs no normal values, and counts of skills are not normal. *Normal*: the noncentral t, which reaches numbers of seeds that
nobody could resample.

A test divides by the spread it sees, and a few runs may have none. A group without spread adds nothing to the error. Where
no group has any, different means count as a difference seen, equal ones as none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
from scipy import special, stats

from sim.errors import InputError

RESAMPLED: Final = 64  # seeds up to which seeds needed are looked for by resampling
MOST_SEEDS: Final = 10_000  # where the search for seeds needed ends
GROUPS: Final = 10_000  # groups drawn: a power of 0.8 is then known to 0.004
NO_SPREAD: Final = 1e-11  # a spread this small, as a share of the squares it is the difference of, is rounding


# ---------------------------------------------------------------- normal values


def _rejected(shift: float, df: float, alpha: float) -> float:
    """Return the chance that a noncentral t is beyond the two-sided critical value."""
    critical, shift = float(special.stdtrit(df, 1 - alpha / 2)), abs(shift)
    # the far side needs a normal value below -shift: next to nothing soon, and then scipy has no number for it
    far = stats.nct.cdf(-critical, df, shift) if shift < 8 else 0.0
    return float(stats.nct.sf(critical, df, shift) + far)


def welch_power(difference: float, sd_a: float, sd_b: float, n: int, alpha: float) -> float:
    """Return the power of Welch's test on two groups of n normal values; exact where both spreads are equal.

    Parameters
    ----------
    difference
        Between the true means.
    sd_a, sd_b
        Standard deviation of one value in each group.
    n
        Values per group.
    alpha
        Level of the two-sided test.

    Raises
    ------
    InputError
        A number is out of bounds.
    """
    _check(n, alpha, sd_a, sd_b)
    a, b = sd_a**2 / n, sd_b**2 / n
    if a + b == 0:
        return float(difference != 0)
    df = (n - 1) * (a + b) ** 2 / (a * a + b * b)
    return _rejected(difference / (a + b) ** 0.5, df, alpha)


def paired_power(difference: float, sd: float, n: int, alpha: float) -> float:
    """Return the exact power of the paired test on n pairs whose differences are normal.

    Parameters
    ----------
    difference, sd
        Mean and standard deviation of the differences.
    n
        Pairs.
    alpha
        Level of the two-sided test.

    Raises
    ------
    InputError
        A number is out of bounds.
    """
    _check(n, alpha, sd)
    if sd == 0:
        return float(difference != 0)
    return _rejected(difference * n**0.5 / sd, n - 1, alpha)


def _check(n: int, alpha: float, *sds: float) -> None:
    if n < 2:
        raise InputError("seeds", n, "at least 2")
    if not 0 < alpha < 1:
        raise InputError("alpha", alpha, "a number above 0 and below 1")
    for sd in sds:
        if not 0 <= sd < np.inf:
            raise InputError("sd", sd, "a number of at least 0")


def least_seeds(power_at: Callable[[int], float], target: float, at_least: int = 2, at_most: int = MOST_SEEDS) -> int | None:
    """Return the least n from ``at_least`` to ``at_most`` with enough power, or None beyond; power must grow with n."""
    low, high = at_least - 1, at_least  # low is too few, or not allowed
    while power_at(high) < target:
        if high == at_most:
            return None
        low, high = high, min(2 * high, at_most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle) >= target else (middle, high)
    return high


# ---------------------------------------------------------------- resampling


@dataclass(frozen=True)
class Sums:
    """Running sums over the members of many groups.

    Parameters
    ----------
    x, xx
        float64, shape (members, groups): row n - 1 has the sums of values and of squares of the first n members.
    """

    x: np.ndarray
    xx: np.ndarray

    def mean_and_error(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return means of the first n members and their squared standard errors, each of shape (groups,)."""
        x, xx = self.x[n - 1], self.xx[n - 1]
        squares = n * xx - x * x
        return x / n, np.where(squares > NO_SPREAD * n * xx, squares, 0.0) / (n * n * (n - 1))


def draw_picks(runs: int, members: int, groups: int, rng: np.random.Generator) -> np.ndarray:
    """Return which runs are in which group, drawn with replacement: int64, shape (members, groups)."""
    return rng.integers(runs, size=(members, groups))


def group_sums(values: np.ndarray, picks: np.ndarray) -> Sums:
    """Return the running sums of groups.

    Parameters
    ----------
    values
        float64, shape (runs,): one number per run. Small ones, so that squares keep their digits.
    picks
        From :func:`draw_picks`.
    """
    drawn = values[picks]
    return Sums(np.cumsum(drawn, axis=0), np.cumsum(drawn * drawn, axis=0))


@cache
def _critical_values(alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return 1 / df and the critical values there, to interpolate: exact ones take longer than all the rest."""
    inverse = np.linspace(1e-4, 1.0, 4000)
    return inverse, special.stdtrit(1 / inverse, 1 - alpha / 2)


def _beyond(difference: np.ndarray, square: np.ndarray, df: np.ndarray | float, alpha: float) -> np.ndarray:
    critical = np.interp(1 / np.asarray(df), *_critical_values(alpha))
    return np.where(square > 0, np.abs(difference) > critical * np.sqrt(square), difference != 0)


def welch_rejects(a: Sums, b: Sums, n: int, alpha: float) -> np.ndarray:
    """Return, for each pair of groups, whether Welch's test on their first n members sees a difference; bool, shape (groups,)."""
    mean_a, square_a = a.mean_and_error(n)
    mean_b, square_b = b.mean_and_error(n)
    total = square_a + square_b
    parts = square_a**2 + square_b**2
    df = np.where(parts > 0, (n - 1) * total**2 / np.where(parts > 0, parts, 1.0), n - 1)
    return _beyond(mean_b - mean_a, total, df, alpha)


def paired_rejects(d: Sums, n: int, alpha: float) -> np.ndarray:
    """Return, for each group of differences, whether the paired test on the first n sees one; bool, shape (groups,)."""
    mean, square = d.mean_and_error(n)
    return _beyond(mean, square, n - 1.0, alpha)


# ---------------------------------------------------------------- two conditions


@dataclass(frozen=True)
class Needed:
    """Seeds per condition for the power wanted.

    Parameters
    ----------
    n
        The least number that is enough; None if there is none.
    by
        How it was found: ``resampling``, ``normal`` (more than resampling looked at), ``beyond`` (more than :data:`MOST_SEEDS`),
        ``unresolved`` (the simulated difference is within two standard errors of 0, and so is any answer).
    """

    n: int | None
    by: Literal["resampling", "normal", "beyond", "unresolved"]


@dataclass(frozen=True)
class Comparison:
    """Condition b against condition a, on one metric."""

    difference: float  # mean of b minus mean of a
    se: float  # standard error of that: runs are paired by common random numbers
    sd_a: float  # of one seed
    sd_b: float
    sd_paired: float  # of the difference between paired seeds
    power: float  # of ``seeds`` unpaired seeds per condition, by resampling
    power_normal: float  # the same if values were normal
    power_paired: float  # of ``seeds`` paired seeds, by resampling
    false_alarms: tuple[float, float]  # the test on two groups of a, and of b: how often it sees a difference there
    no_spread: float  # how often neither group had any spread
    needed: Needed
    needed_paired: Needed


def centred(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both with the first value of a taken away: small numbers, and whole ones stay whole, so equal ones stay equal."""
    return np.asarray(a, np.float64) - a[0], np.asarray(b, np.float64) - a[0]


def compare(
    a: np.ndarray,
    b: np.ndarray,
    seeds: int = 3,
    alpha: float = 0.05,
    target: float = 0.8,
    groups: int = GROUPS,
    seed: int = 1,
) -> Comparison:
    """Compare two conditions by the runs simulated of each.

    Parameters
    ----------
    a, b
        float64, shape (runs,), at least 2: the metric in each run. Run i of one is paired with run i of the other.
    seeds
        Seeds per condition whose power is asked for.
    alpha
        Level of the two-sided tests.
    target
        Power for which the seeds needed are looked for.
    groups
        How many groups are resampled.
    seed
        Of the draws. The same for many comparisons makes their errors go together, and their differences smaller.

    Raises
    ------
    InputError
        A number is out of bounds, or the arrays have different lengths.
    """
    if np.ndim(a) != 1 or np.shape(a) != np.shape(b) or len(a) < 2:
        raise InputError("runs", f"arrays of shapes {np.shape(a)} and {np.shape(b)}", "two of the same length, at least 2")
    _check(seeds, alpha)
    if not 0 < target < 1:
        raise InputError("power", target, "a number above 0 and below 1")
    a, b = centred(a, b)
    paired = b - a
    rng = np.random.default_rng(seed)
    members = max(seeds, RESAMPLED)
    picks_a, picks_b = (draw_picks(len(a), members, groups, rng) for _ in range(2))
    sums_a, sums_b, sums_d = group_sums(a, picks_a), group_sums(b, picks_b), group_sums(paired, picks_a)
    # second groups of the same condition, for false alarms
    again_a, again_b = group_sums(a, picks_b[:seeds]), group_sums(b, picks_a[:seeds])

    def unpaired_at(n: int) -> float:
        return float(welch_rejects(sums_a, sums_b, n, alpha).mean())

    def paired_at(n: int) -> float:
        return float(paired_rejects(sums_d, n, alpha).mean())

    difference, sd_a, sd_b, sd_d = float(paired.mean()), *(float(x.std(ddof=1)) for x in (a, b, paired))
    se = sd_d / len(a) ** 0.5
    resolved = abs(difference) > 2 * se
    return Comparison(
        difference=difference,
        se=se,
        sd_a=sd_a,
        sd_b=sd_b,
        sd_paired=sd_d,
        power=unpaired_at(seeds),
        power_normal=welch_power(difference, sd_a, sd_b, seeds, alpha),
        power_paired=paired_at(seeds),
        false_alarms=(
            float(welch_rejects(sums_a, again_a, seeds, alpha).mean()),
            float(welch_rejects(sums_b, again_b, seeds, alpha).mean()),
        ),
        no_spread=float(((sums_a.mean_and_error(seeds)[1] == 0) & (sums_b.mean_and_error(seeds)[1] == 0)).mean()),
        needed=_needed(unpaired_at, lambda n: welch_power(difference, sd_a, sd_b, n, alpha), target, members, resolved),
        needed_paired=_needed(paired_at, lambda n: paired_power(difference, sd_d, n, alpha), target, members, resolved),
    )


def _needed(resampled: Callable[[int], float], normal: Callable[[int], float], target: float, members: int, resolved: bool) -> Needed:
    """Look for the least n by resampling, one by one: few runs without spread can bend the curve. Beyond, trust the normal one."""
    if not resolved:
        return Needed(None, "unresolved")
    if resampled(members) >= target:
        return Needed(next(n for n in range(2, members + 1) if resampled(n) >= target), "resampling")
    n = least_seeds(normal, target, members + 1)
    return Needed(n, "beyond" if n is None else "normal")


@dataclass(frozen=True)
class Placed:
    """Where a difference that somebody reported lies among those of as many simulated seeds.

    Parameters
    ----------
    z
        Its distance from the simulated difference, in standard deviations of such a difference; None without any.
    chance
        P(a difference as large, either way, between two groups of seeds of a): what a condition that changes nothing gives.
    """

    z: float | None
    chance: float


def place(reported: float, a: np.ndarray, b: np.ndarray, seeds: int = 3, groups: int = GROUPS, seed: int = 1) -> Placed:
    """Place a reported difference, mean of b minus mean of a, of ``seeds`` unpaired seeds; the rest is as for :func:`compare`."""
    rng = np.random.default_rng(seed)
    a, b = centred(a, b)
    one, other = (a[draw_picks(len(a), seeds, groups, rng)].sum(axis=0) for _ in range(2))
    as_large = int((np.abs(other - one) >= (abs(reported) - 1e-9) * seeds).sum())
    sd = float(np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / seeds))
    return Placed((reported - float(b.mean() - a.mean())) / sd if sd > 0 else None, (as_large + 1) / (groups + 1))


if __name__ == "__main__":
    import sys

    from sim.seeds import main

    sys.exit(main(sys.argv[1:]))
