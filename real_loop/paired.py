"""Two arms compared task by task: mean difference, signed ranks, bootstrap over tasks, many tests at once. Arithmetic alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

EXACT: Final = 200  # differences up to which the null distribution of the rank sum is worked out
RESAMPLES: Final = 10_000
BLOCK: Final = 500  # resamples in memory at once
CONFIDENCE: Final = 0.95
SEED: Final = 20_260_701
TINY: Final = 1e-9  # means of repeats that differ by less are equal: what is left of them is rounding


@dataclass(frozen=True)
class Lift:
    """The difference between two arms in one score, over tasks; positive where the first arm is better.

    Attributes
    ----------
    first, second
        Means of the score in either arm.
    mean, low, high
        Of the difference; a percentile bootstrap interval over tasks (95 %), None for fewer than two tasks.
    n, better, worse
        Tasks, and those of them where the first arm is better, and where it is worse. The others are the zeros.
    p
        Two-sided, of Wilcoxon's signed rank test over the differences that are not zero; 1 where all are.
    exact
        Whether that is exact (ties and all), or a normal approximation.
    """

    first: float
    second: float
    mean: float
    low: float | None
    high: float | None
    n: int
    better: int
    worse: int
    p: float
    exact: bool


def lift(first: Sequence[float], second: Sequence[float], less_is_better: bool = False) -> Lift:
    """Return the paired difference of two arms.

    Parameters
    ----------
    first, second
        Mean score of each task in either arm, shape (tasks,), at least one.
    less_is_better
        Whether the score counts what is wrong: then the difference is second - first (BC table 3's reduction in violations).
    """
    a, b = np.asarray(first, float), np.asarray(second, float)
    d = b - a if less_is_better else a - b
    d = np.where(np.abs(d) < TINY, 0.0, d)
    p, exact = signed_rank(d)
    low, high = interval(d)
    better, worse = int((d > 0).sum()), int((d < 0).sum())
    mean = float(d.mean()) if abs(d.mean()) > TINY else 0.0
    return Lift(float(a.mean()), float(b.mean()), mean, low, high, len(d), better, worse, p, exact)


def signed_rank(d: np.ndarray) -> tuple[float, bool]:
    """Return the two-sided p of Wilcoxon's signed rank test of differences, and whether it is exact.

    Zeros are left out (Wilcoxon's own way), ties have mean ranks. Up to EXACT differences the distribution of the rank sum under random
    signs is worked out for the very ranks there are: means of a few repeats are full of ties, where :func:`scipy.stats.wilcoxon` has
    no exact distribution beyond 13 differences. With more it is that function's normal approximation.
    """
    from scipy.stats import rankdata, wilcoxon

    d = d[d != 0]
    if not len(d):
        return 1.0, True
    if len(d) > EXACT:
        return float(wilcoxon(d, method="approx").pvalue), False
    # What differs by rounding only is a tie: means of thirds are seldom the same to the last bit.
    doubled = np.round(2 * rankdata(np.round(np.abs(d), 9))).astype(int)
    chance = np.zeros(doubled.sum() + 1)
    chance[0] = 1.0
    for rank in doubled:
        chance[rank:] = (chance[rank:] + chance[: len(chance) - rank]) / 2
        chance[:rank] /= 2
    at = int(doubled[d > 0].sum())
    return float(min(1.0, 2 * min(chance[: at + 1].sum(), chance[at:].sum()))), True


def interval(d: np.ndarray) -> tuple[float, float] | tuple[None, None]:
    """Return the percentile bootstrap interval of a mean over tasks: the same for the same differences; None for fewer than two."""
    if len(d) < 2:
        return None, None
    rng = np.random.default_rng(SEED)
    means = np.concatenate([d[rng.integers(0, len(d), (min(BLOCK, RESAMPLES - i), len(d)))].mean(1) for i in range(0, RESAMPLES, BLOCK)])
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def holm(p: Sequence[float]) -> list[float]:
    """Return p values corrected for being many (Holm 1979): at level alpha the chance of any false rejection is at most alpha."""
    order = np.argsort(p, kind="stable")
    out, worst = [0.0] * len(p), 0.0
    for place, i in enumerate(order):
        worst = max(worst, min(1.0, (len(p) - place) * p[i]))
        out[i] = worst
    return out
