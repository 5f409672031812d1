"""Predicted and real values, held against each other: how unusual a real one is, and what could have been seen at all.

A value is turned into its mid-rank among the predicted ones, and that into a standard normal score. A test adds the squares of the scores
of all runs; what that sum is when the prediction is right the joint draws say themselves, each scored among the others, so runs that
share a world and its tasks need not be independent. Beside each test stands the smallest shift that it would have noticed four times
in five: a test that notices nothing says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

LEVEL: Final = 0.05
POWER: Final = 0.8
STEPS: Final = 0.25 * np.arange(1, 33)  # shifts that are tried, in units of what matters; of counts, whole ones
PREDICTED, NOT_PREDICTED, UNDECIDABLE = "predicted", "not predicted", "undecidable"


@dataclass(frozen=True)
class Outcome:
    """One variable, over the runs (and rounds) that were predicted.

    Attributes
    ----------
    p
        Chance of values at least as unusual in sum, if the prediction is right.
    shift
        Smallest shift of every value, up or down, that would have been noticed with a chance of 80 % at the 5 % level; infinity if
        none of eight times what matters.
    score
        Mean normal score of the real values: above 0 where they are larger than predicted.
    """

    p: float
    shift: float
    score: float


def scores(values: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return the normal scores of values among drawn ones.

    Parameters
    ----------
    values
        Shape (m, k): m rows to be scored.
    drawn
        Shape (draws, k).

    Returns
    -------
    numpy.ndarray
        Shape (m, k). A value of the middle rank has 0; one beyond all n drawn ones that of 1 / (2 (n + 1)).
    """
    n = len(drawn)
    ordered = np.sort(drawn, axis=0)
    out = np.empty(values.shape)
    for j in range(values.shape[1]):
        below = np.searchsorted(ordered[:, j], values[:, j], "left")
        upto = np.searchsorted(ordered[:, j], values[:, j], "right")
        out[:, j] = ((below + upto) / 2 + 0.5) / (n + 1)
    return np.asarray(ndtri(out))


def own_scores(drawn: np.ndarray) -> np.ndarray:
    """Return the normal scores of drawn values, each among the others; shape (draws, k)."""
    n = len(drawn)
    return np.asarray(ndtri((rankdata(drawn, "average", axis=0) - 0.5) / n))


def null_of(drawn: np.ndarray) -> np.ndarray:
    """Return the sums of squared scores that right predictions give, one for each joint draw; shape (draws,)."""
    return np.asarray((own_scores(drawn) ** 2).sum(axis=1))


def p_value(score: np.ndarray, null: np.ndarray) -> float:
    """Return the chance of a sum of squares at least as large as that of these scores, if the prediction is right."""
    return (1 + int((null >= (score**2).sum() - 1e-9).sum())) / (1 + len(null))


def noticed_shift(drawn: np.ndarray, null: np.ndarray, matters: float) -> float:
    """Return the smallest shift of all values, up or down, that a test at :data:`LEVEL` notices with a chance of :data:`POWER`.

    Infinity if none of :data:`STEPS` times what matters is.
    """
    limit, shifts = np.quantile(null, 1 - LEVEL), STEPS * matters
    if (drawn == np.round(drawn)).all():
        shifts = np.unique(np.ceil(shifts))
    for shift in shifts:
        noticed = [((scores(drawn + sign * shift, drawn) ** 2).sum(axis=1) > limit).mean() for sign in (-1, 1)]
        if min(noticed) >= POWER:
            return float(shift)
    return float(np.inf)


def held_against(real: np.ndarray, drawn: np.ndarray, matters: float) -> Outcome:
    """Hold real values of one variable against what was predicted.

    Parameters
    ----------
    real
        Shape (k,): of all runs, and rounds.
    drawn
        Shape (draws, k): joint draws.
    matters
        A shift of the variable that somebody would care about, in its unit.
    """
    null, here = null_of(drawn), scores(real[None, :], drawn)[0]
    return Outcome(p_value(here, null), noticed_shift(drawn, null, matters), float(here.mean()))


def ranks(values: np.ndarray, drawn: np.ndarray, seed: int) -> np.ndarray:
    """Return where values lie among drawn ones, from 0 to 1, ties broken at random: uniform if the prediction is right.

    Parameters
    ----------
    values
        Shape (m, k).
    drawn
        Shape (draws, k).
    """
    ordered, random = np.sort(drawn, axis=0), np.random.default_rng(seed)
    out = np.empty(values.shape)
    for j in range(values.shape[1]):
        below = np.searchsorted(ordered[:, j], values[:, j], "left")
        upto = np.searchsorted(ordered[:, j], values[:, j], "right")
        out[:, j] = (below + random.random(len(values)) * (upto - below + 1)) / (len(drawn) + 1)
    return out


def holm(p: dict[str, float]) -> dict[str, float]:
    """Return p-values adjusted for there being several variables (Holm 1979)."""
    from real_loop.paired import holm as adjusted

    return dict(zip(p, adjusted(list(p.values())), strict=True))


def verdict(adjusted: float, found: Outcome, matters: float) -> str:
    """Say whether a variable was predicted.

    Not predicted: at least so unusual in less than 5 % of families of variables that are predicted rightly. Predicted: not that, and
    a shift that matters would have been noticed. Else nobody can tell at this number of runs.
    """
    if adjusted < LEVEL:
        return NOT_PREDICTED
    return PREDICTED if found.shift <= matters else UNDECIDABLE
