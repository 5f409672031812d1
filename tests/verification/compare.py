"""The kernel against the float model: every mean, world by world, with the probability of so large a difference.

Kernel and model have independent randomness, so the means of a variable differ by chance alone. How far is told by the
spread of single runs, and, because much of what is counted is rare, by their skewness (:func:`score`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import pearson3

from sim import sums
from sim.kernels import numba_kernel
from sim.model import Cell
from sim.tables import EVAL_BITS, Tables, derive
from sim.variables import SERIES_VARIABLES, VARIABLES
from tests.verification.float_model import simulate

ROUNDING = 4 * 2.0**-EVAL_BITS  # the kernel's evals are rounded down, the model's are not
ENOUGH = 400  # retired skills, to compare the mean of their trials


class Mean(NamedTuple):
    """A variable over runs: mean and standard deviation of one run; the third moment about the mean if known."""

    runs: int
    mean: float
    sd: float
    third: float = math.nan


class Comparison(NamedTuple):
    """One variable of one world. For a series the variable is its name and the round: `active_by_round[3]`."""

    world: int
    variable: str
    kernel: float
    model: float
    z: float
    p: float


Means = dict[str, Mean]


def kernel_means(cells: Sequence[Cell], runs: int, seed: int = 1, change: Callable[[Tables], Tables] | None = None) -> list[Means]:
    """Return the kernel's means of all cells, each on runs of its own; `change` is for tests with wrong tables."""
    out = []
    for world, cell in enumerate(cells):
        tables = derive([cell])
        result = numba_kernel.run(change(tables) if change else tables, np.zeros(1, np.int32), seed, world * runs, runs)
        layout = sums.Layout(cell.policy.rounds)
        vectors = layout.pack(runs, result.metrics, result.series, result.histogram)
        means: Means = {}
        for name, s in sums.statistics(layout, vectors, tables.cells).items():
            if name in SERIES_VARIABLES:
                means |= {f"{name}[{t}]": Mean(runs, s.mean[0, t], s.sd[0, t]) for t in range(layout.rounds)}
            elif name == "retire_trials":  # a ratio over runs: the standard deviation that gives its standard error
                means[name] = Mean(runs, s.mean[0], s.se[0] * math.sqrt(runs))
            elif not VARIABLES[name].paired and not math.isnan(s.mean[0]):
                means[name] = Mean(runs, s.mean[0], s.sd[0])
        out.append(means)
    return out


def model_means(cells: Sequence[Cell], runs: int, seed: int = 1, bins: bool = False) -> list[Means]:
    """Return the float model's means of all cells."""
    out = []
    for world, cell in enumerate(cells):
        values = simulate(cell, runs, np.random.default_rng([seed, world]), bins)
        means: Means = {}
        for name in values:
            if name in SERIES_VARIABLES:
                means |= {f"{name}[{t}]": _mean(column) for t, column in enumerate(values[name].T)}
            else:
                means[name] = _mean(values[name])
        means["retire_trials"] = _ratio(values["retire_trials"], values["retired"])
        out.append(means)
    return out


def _mean(values: np.ndarray) -> Mean:
    mean = values.mean()
    return Mean(len(values), mean, values.std(ddof=1), ((values - mean) ** 3).mean())


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> Mean:
    if not denominator.any():
        return Mean(len(numerator), math.nan, math.nan)
    ratio = numerator.sum() / denominator.sum()
    residual = _mean((numerator - ratio * denominator) / denominator.mean())
    return residual._replace(mean=ratio)


def compare(kernel: Sequence[Means], model: Sequence[Means]) -> Iterator[Comparison]:
    """Yield every variable of every world.

    Raises
    ------
    AssertionError
        Kernel and model do not have the same variables in some world.
    """
    for world, (ours, theirs) in enumerate(zip(kernel, model, strict=True)):
        assert ours.keys() == theirs.keys(), (world, ours.keys() ^ theirs.keys())
        for name in ours:
            if name == "retire_trials" and min(m["retired"].mean * m["retired"].runs for m in (ours, theirs)) < ENOUGH:
                continue  # how many they are is compared all the same
            yield Comparison(world, name, float(ours[name].mean), float(theirs[name].mean), *score(ours[name], theirs[name]))


def score(kernel: Mean, model: Mean) -> tuple[float, float]:
    """Return by how many standard errors two means differ, and the probability of at least that much.

    If both simulate the same process the difference has mean 0; its variance and third moment follow from those of one
    run, and its distribution is taken as Pearson's type III: normal if there is no skewness, and for rare events close
    to the exact test of two Poisson counts, on the careful side of it.
    """
    difference = float(kernel.mean - model.mean)
    excess = max(0.0, abs(difference) - ROUNDING)
    if excess == 0.0:
        return 0.0, 1.0
    share = 1 / kernel.runs, 1 / model.runs
    variance = float(kernel.runs * kernel.sd**2 + model.runs * model.sd**2) / (kernel.runs + model.runs)  # known best from both
    if variance == 0.0:
        return math.copysign(math.inf, difference), 0.0
    error = math.sqrt(variance * (share[0] + share[1]))
    # Third moment over variance, or square over mean about a constant: with its sign, the size of a rare event.
    size = float(model.third / model.sd**2) if model.sd > 0 else float(kernel.sd**2 + difference**2) / difference
    skewness = size * variance * (share[0] ** 2 - share[1] ** 2) / error**3
    z = math.copysign(excess / error, difference)
    return z, min(1.0, 2 * float(min(pearson3.sf(z, skewness), pearson3.cdf(z, skewness))))
