"""What ratings are worth: how far a defect lowers them, and whether they follow the warnings of the checks.

A rating is a number, not a verdict. That a defect moves it is seen in pairs: the clean section, and the same one with the defect (BC
section 5). Whether a library that learns to avoid warnings would work against the judge is seen in clean sections, by the rank correlation
of rating and warnings (the direction check of BC App. E).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
PERMUTATIONS = 9999


@dataclass(frozen=True)
class Drop:
    """Ratings of clean sections less those with one defect of a class.

    Parameters
    ----------
    cls
        The class.
    n
        Pairs.
    mean, median
        Of the drops, in points of the rating.
    lower, equal, higher
        Pairs in which the section with the defect has the lower, the same, the higher rating.
    p
        Of Wilcoxon's signed rank test that the drop is not above 0 (one-sided); pairs without a difference are left out, and with none
        left it is 1.
    """

    cls: str
    n: int
    mean: float
    median: float
    lower: int
    equal: int
    higher: int
    p: float


def drops(rating: Mapping[str, float], pairs: Sequence[tuple[str, str, str]]) -> list[Drop]:
    """Return the drop of each class, in the order in which they come.

    Parameters
    ----------
    rating
        By case.
    pairs
        Class, case that is clean, case with the defect. Pairs without both ratings are left out.
    """
    from scipy.stats import wilcoxon

    by_class: dict[str, list[float]] = {}
    for cls, clean, broken in pairs:
        if clean in rating and broken in rating:
            by_class.setdefault(cls, []).append(rating[clean] - rating[broken])
    out = []
    for cls, values in by_class.items():
        d = np.array(values)
        p = float(wilcoxon(d, zero_method="wilcox", alternative="greater").pvalue) if d.any() else 1.0
        signs = (int((d > 0).sum()), int((d == 0).sum()), int((d < 0).sum()))
        out.append(Drop(cls, len(d), float(d.mean()), float(np.median(d)), *signs, p))
    return out


@dataclass(frozen=True)
class Direction:
    """Spearman's rank correlation of ratings and warnings: above 0 where what has more warnings is rated higher.

    ``rho`` and ``p`` are None where there is none: fewer than four sections, or all ratings or all warnings alike; so are ``low`` and
    ``high``, the ends of the interval, and where rho is 1 or -1. ``p`` is that of a permutation test, both sides, with ties or without.
    """

    n: int
    rho: float | None
    low: float | None
    high: float | None
    p: float | None


def direction(ratings: Sequence[float], warnings: Sequence[int]) -> Direction:
    """Return the correlation with its 95 % interval.

    By Fisher's transformation with the standard error sqrt((1 + rho^2 / 2) / (n - 3)) (Bonett and Wright 2000, Psychometrika 65, eq. 3);
    it is short for ratings of few distinct values, so a direction is told by the permutation test.

    Parameters
    ----------
    ratings, warnings
        Of the same sections, each shape (n,).
    """
    from scipy.stats import rankdata

    n = len(ratings)
    if n < 4 or len(set(ratings)) < 2 or len(set(warnings)) < 2:
        return Direction(n, None, None, None, None)
    x, y = rankdata(ratings), rankdata(warnings)
    x, y = x - x.mean(), y - y.mean()
    rho = float(np.clip(x @ y / math.sqrt((x @ x) * (y @ y)), -1.0, 1.0))
    rng = np.random.default_rng(0)
    others = np.array([rng.permutation(x) @ y for _ in range(PERMUTATIONS)])
    p = float((1 + (np.abs(others) >= abs(x @ y) - 1e-9).sum()) / (1 + PERMUTATIONS))
    low, high = interval(rho, n) if abs(rho) < 1 - 1e-9 else (None, None)
    return Direction(n, rho, low, high, p)


def interval(rho: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a rank correlation between -1 and 1 of n pairs, n at least 4; see `direction`."""
    from scipy.stats import norm

    reach = float(norm.ppf((1 + CONFIDENCE) / 2)) * math.sqrt((1 + rho * rho / 2) / (n - 3))
    return math.tanh(math.atanh(rho) - reach), math.tanh(math.atanh(rho) + reach)
