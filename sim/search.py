"""Minimising over the unit cube, and walking around a minimum. Knows nothing of what is minimised.

The search is quasi-random first, then CMA-ES (the package cma) with restarts elsewhere, of doubled population. The walk is
Metropolis, its steps adapted in a first half that is thrown away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

EXPLORE: Final = 16  # one evaluation in so many is quasi-random
SIGMA: Final = 0.05  # first standard deviation of a descent
FAR: Final = 0.15  # a restart begins at least so far, in some parameter, from where the descents before it ended
SMALL: Final = 1e-3  # a descent ends when its standard deviations are below
NEAR: Final = 2.0  # vectors within so much loss per parameter of the best shape the first steps of a walk


class Spent(Exception):  # noqa: N818 - not an error
    """The budget of evaluations is used up."""


class Ledger:
    """Evaluates, counts, keeps everything.

    Parameters
    ----------
    loss
        Of a vector of the unit cube.
    budget
        Evaluations.
    improved
        Called with each new best vector and its loss.
    advance
        Called after each evaluation.
    """

    def __init__(
        self,
        loss: Callable[[np.ndarray], float],
        budget: int,
        improved: Callable[[np.ndarray, float], None],
        advance: Callable[[], None],
    ) -> None:
        self._loss, self.budget, self._improved, self._advance = loss, budget, improved, advance
        self.vectors: list[np.ndarray] = []
        self.losses: list[float] = []
        self.best, self.best_loss = np.empty(0), math.inf

    def __call__(self, unit: np.ndarray) -> float:
        if len(self.losses) >= self.budget:
            raise Spent
        loss = self._loss(unit)
        self.vectors.append(unit.copy())
        self.losses.append(loss)
        if loss < self.best_loss:
            self.best, self.best_loss = unit.copy(), loss
            self._improved(self.best, loss)
        self._advance()
        return loss


def search(ledger: Ledger, start: np.ndarray, steps: np.ndarray, seed: int, explore: bool) -> None:
    """Use up the budget of a ledger in search of the least loss.

    Parameters
    ----------
    ledger
        Holds the result.
    start
        Shape (parameters,).
    steps
        Widths of whole numbers, 0 for others; shape (parameters,).
    seed
        Of the choices of the search.
    explore
        Whether to look everywhere first; else stay near the start.
    """
    from scipy.stats.qmc import Sobol

    rng = np.random.default_rng(seed)
    size = 4 + int(3 * math.log(len(start)))
    try:
        ledger(start)
        if explore:
            points = Sobol(len(start), rng=rng)
            for _ in range(ledger.budget // EXPLORE):
                ledger(points.random()[0])
        begin, ends = ledger.best, []
        while True:
            ends.append(descend(ledger, begin, SIGMA, size, steps, rng))
            begin, size = _elsewhere(ledger, ends, rng), min(2 * size, 64)
    except Spent:
        return


def _elsewhere(ledger: Ledger, ends: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Return the best vector so far that is far from where all descents ended, or a random one."""
    for i in np.argsort(ledger.losses, kind="stable"):
        if all(np.abs(ledger.vectors[i] - end).max() > FAR for end in ends):
            return ledger.vectors[i]
    return rng.random(len(ends[0]))


def descend(
    loss: Callable[[np.ndarray], float], start: np.ndarray, sigma: float, size: int, steps: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Follow CMA-ES from a start until it has converged or stands still; return where. Parameters as in :func:`search`."""
    import cma

    # The library's whole numbers are 0, 1, 2, ...: units of their steps, from the middle of the first.
    unit, middle = np.where(steps > 0, steps, 1.0), np.where(steps > 0, 0.5, 0.0)
    options = {
        "bounds": [0.0 * unit, 1.0 / unit - 2.0 * middle],
        "CMA_stds": np.where(steps > 0, 1.0 / sigma, 1.0),  # of whole numbers one step at first
        "integer_variables": np.flatnonzero(steps).tolist(),
        "popsize": size,
        "seed": int(rng.integers(1, 2**31)),
        "tolx": SMALL * sigma,
        "verbose": -9,
    }
    begin = np.clip(start / unit - middle, 0.0, 1.0 / unit - 2.0 * middle)
    evolution = cma.CMAEvolutionStrategy(begin, sigma, options)
    while not evolution.stop():
        found = evolution.ask()
        evolution.tell(found, [loss(np.clip((vector + middle) * unit, 0.0, 1.0)) for vector in found])
    return np.clip((np.asarray(evolution.result.xbest) + middle) * unit, 0.0, 1.0)


@dataclass(frozen=True)
class Walk:
    """Vectors that fit, each as often as it deserves.

    Parameters
    ----------
    vectors
        Shape (steps, parameters).
    losses
        Shape (steps,).
    accepted
        Share of the proposed steps that were taken.
    """

    vectors: np.ndarray
    losses: np.ndarray
    accepted: float


def walk(ledger: Ledger, evaluations: int, seed: int, advance: Callable[[], None], loss: Callable[[np.ndarray], float]) -> Walk:
    """Walk from the best vector of a search, in proportion to exp(-loss / 2), every vector of the cube as likely before.

    Parameters
    ----------
    ledger
        Of the search.
    evaluations
        Steps, of which the second half is kept; at least 2.
    seed
        Of the choices of the walk.
    advance
        Called after each step.
    loss
        Of a vector of the cube.
    """
    rng = np.random.default_rng(seed)
    here, now, d = ledger.best, ledger.best_loss, len(ledger.best)
    near = np.array(ledger.vectors)[np.array(ledger.losses) <= now + NEAR * d]
    mean, cov = here, (np.cov(near.T).reshape(d, d) if len(near) > 4 * d else np.zeros((d, d))) + 1e-4 * np.eye(d)
    scale, half, taken = 2.38 / math.sqrt(d), evaluations // 2, 0
    root = np.linalg.cholesky(cov)
    vectors, losses = [], []
    for i in range(evaluations):
        there = here + scale * root @ rng.standard_normal(d)
        inside = bool(((there >= 0) & (there <= 1)).all())
        other = loss(there) if inside else math.inf
        yes = other < math.inf and math.log(1.0 - rng.random()) < (now - other) / 2
        if yes:
            here, now = there, other
        if i < half:  # learn the shape of the set, then keep the steps as they are
            weight = 1.0 / (i / 2 + 2 * d)
            off = here - mean
            mean = mean + weight * off
            cov = (1 - weight) * cov + weight * np.outer(off, off)
            scale *= math.exp((yes - 0.234) / math.sqrt(i + 1))
            if i % 20 == 0:
                root = np.linalg.cholesky(cov + 1e-8 * np.eye(d))
        else:
            taken += yes
            vectors.append(here)
            losses.append(now)
        advance()
    return Walk(np.array(vectors), np.array(losses), taken / max(1, evaluations - half))


def independent(vectors: np.ndarray) -> float:
    """Return how many independent vectors a walk is worth: its length over the autocorrelation time of its slowest parameter.

    The time is summed up to the first lag whose autocorrelation is below 0.05.

    Parameters
    ----------
    vectors
        Shape (steps, parameters).
    """
    n = len(vectors)
    off = vectors - vectors.mean(axis=0)
    power = np.abs(np.fft.rfft(off, 2 * n, axis=0)) ** 2
    products = np.fft.irfft(power, axis=0)[:n]
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(products[0] > 0, products / products[0], 1.0)
    short = correlation < 0.05
    ends = np.where(short.any(axis=0), short.argmax(axis=0), n)
    times = [1.0 + 2.0 * correlation[1:end, k].sum() for k, end in enumerate(ends)]
    return float(n / max(times))
