"""Resampling of tasks: how often each comes in a draw, a few hundred draws at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from real_loop.audit.rates import Interval

RESAMPLES: Final = 1_000
LEAST: Final = 200  # draws, of however many units
WORK: Final = 1e7  # draws times units, about half a second
CELLS: Final = 1_000_000  # numbers in memory at once
SPARSE: Final = 0.1  # of the draws, that may leave a statistic undefined


def draws(units: int, wide: int = 0, resamples: int = RESAMPLES, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield how often each unit comes, for several draws of as many units as there are, with replacement; shape (draws, units).

    Parameters
    ----------
    units
        Tasks, or what else errors cluster by.
    wide
        Numbers that each draw is made into afterwards, where these are more than the units: it sets how many draws come at once.
    resamples, seed
        Draws in all, fewer where units are very many; the same seed gives the same draws.
    """
    resamples = min(resamples, max(LEAST, int(WORK / max(units, 1))))
    rng, step = np.random.default_rng(seed), max(1, CELLS // max(units, wide, 1))
    for first in range(0, resamples, step):
        size = min(step, resamples - first)
        places = rng.integers(units, size=(size, units)) + units * np.arange(size)[:, None]
        yield np.bincount(places.ravel(), minlength=size * units).reshape(size, units).astype(np.float64)


def percentiles(values: np.ndarray, confidence: float) -> Interval | None:
    """Return the interval between percentiles; None where too many values are undefined, or all are alike: the draws say nothing."""
    known = values[np.isfinite(values)]
    if len(known) < max(2, (1.0 - SPARSE) * len(values)) or np.ptp(known) < 1e-12:
        return None
    low, high = np.quantile(known, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    return Interval(float(low), float(high))
