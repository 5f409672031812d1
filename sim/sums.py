"""Sums over runs: how they are laid out, added and turned into means and standard errors.

What a kernel returns for a cell is one vector of int64 sums. Vectors of different runs add up, in any order, to the same
bits. Nothing is rounded before the last step, :func:`statistics`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.tables import EVAL_BITS
from sim.variables import (
    HISTOGRAM_BINS,
    METRIC,
    METRIC_SUMS,
    METRICS,
    SERIES,
    SERIES_SUMS,
    SERIES_VARIABLES,
    VARIABLES,
)

MAX_RUNS = 2**31 - 1  # per cell: below this no sum overflows, but for retire_trials_x_retired in runs of the largest size (3e8)


@dataclass(frozen=True)
class Layout:
    """Where each sum is in a cell's vector: runs, metrics, series, histogram.

    Parameters
    ----------
    rounds
        Rounds of the longest cell.
    """

    rounds: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            "runs": (),
            "metrics": (len(METRICS), len(METRIC_SUMS)),
            "series": (self.rounds, len(SERIES), len(SERIES_SUMS)),
            "histogram": (HISTOGRAM_BINS,),
        }

    @property
    def size(self) -> int:
        """Length of the vector."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def pack(self, runs: int, metrics: np.ndarray, series: np.ndarray, histogram: np.ndarray) -> np.ndarray:
        """Return int64, shape (cells, size). A series shorter than ``rounds`` is filled with zeros."""
        cells = len(metrics)
        short = self.rounds - series.shape[1]
        series = np.pad(series, [(0, 0), (0, short), (0, 0), (0, 0)])
        parts = [np.full(cells, runs, np.int64), metrics, series, histogram]
        return np.concatenate([part.reshape(cells, -1) for part in parts], axis=1)

    def unpack(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """Return views by name, each of shape ``vectors.shape[:-1] + shapes[name]``."""
        out, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + int(np.prod(shape))
            out[name] = vectors[..., start:stop].reshape((*vectors.shape[:-1], *shape))
            start = stop
        return out


def _squares(values: np.ndarray) -> list[np.ndarray]:
    square = values * values
    return [(square >> 32).sum(axis=1), (square & 0xFFFFFFFF).sum(axis=1)]


def difference_sums(difference: np.ndarray) -> np.ndarray:
    """Return the sums of differences to a baseline cell, run by run: int64, (metrics, 3) from (runs, metrics)."""
    return np.stack([difference.sum(axis=0), *(part[0] for part in _squares(difference[None]))], axis=-1)


def from_records(layout: Layout, metrics: np.ndarray, series: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Add up the records of single runs (:func:`sim.reference.records`) as the kernels do.

    Parameters
    ----------
    layout
        For the longest cell.
    metrics, series
        int64, shapes (cells, runs, metrics) and (cells, runs, rounds, series).
    baseline
        int32, shape (cells,): the cell each cell is compared with.

    Returns
    -------
    numpy.ndarray
        int64, shape (cells, layout.size).
    """
    difference = metrics - metrics[baseline]
    metric_sums = np.stack([metrics.sum(axis=1), *_squares(metrics), difference.sum(axis=1), *_squares(difference)], axis=-1)
    series_sums = np.stack([series.sum(axis=1), *_squares(series)], axis=-1)
    retired = np.minimum(metrics[:, :, METRIC["retired"]], HISTOGRAM_BINS - 1)
    histogram = np.stack([np.bincount(row, minlength=HISTOGRAM_BINS) for row in retired]).astype(np.int64)
    return layout.pack(metrics.shape[1], metric_sums, series_sums, histogram)


def scale(name: str, cells: np.ndarray) -> np.ndarray:
    """Return what one unit of a recorded whole number is worth in each cell.

    Parameters
    ----------
    name
        A scale named in :mod:`sim.variables`.
    cells
        CELL_DTYPE, any shape.
    """
    n_train, n_eval, rounds, window = (cells[k].astype(np.float64) for k in ("n_train", "n_eval", "rounds", "window"))
    return {
        "one": np.ones(cells.shape),
        "eval": np.full(cells.shape, 2.0**-EVAL_BITS),
        "window": 2.0**-EVAL_BITS / window,
        "sampled": 1.0 / n_eval,
        "window_sampled": 1.0 / (n_eval * window),
        "per_trial": 1.0 / (n_train * rounds),
        "per_round": 1.0 / rounds,
    }[name]


def spread(n: np.ndarray, total: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return the sum of squared deviations from the mean: exact whenever it is below 2^62.

    With m the whole part of the mean and r = total - n m, the sum of (x - m)^2 is xx - n m^2 - 2 m r. It is computed
    modulo 2^64, which is exact for small results however large the terms are; large results do not need it.
    """
    m = np.where(n > 0, total // np.maximum(n, 1), 0)
    r = total - n * m
    with np.errstate(over="ignore"):
        exact = (high << 32) + low - n * m * m - 2 * m * r
    rough = high * 2.0**32 + low - n.astype(np.float64) * m * m - 2.0 * m * r
    about = np.where(rough < 2.0**62, exact.astype(np.float64), rough)
    return np.maximum(about - r.astype(np.float64) ** 2 / np.maximum(n, 1), 0.0)


@dataclass(frozen=True)
class Statistic:
    """A variable over cells: mean over runs, standard deviation of one run, standard error of the mean."""

    mean: np.ndarray
    sd: np.ndarray
    se: np.ndarray


def _statistic(n: np.ndarray, sums: np.ndarray, unit: np.ndarray) -> Statistic:
    count = np.where(n > 0, n, np.nan)
    squares = spread(n, sums[..., 0], sums[..., 1], sums[..., 2])
    sd = np.sqrt(squares / np.where(n > 1, n - 1, np.nan))
    return Statistic(sums[..., 0] / count * unit, sd * unit, sd / np.sqrt(count) * unit)


def _retire_trials(n: np.ndarray, sums: np.ndarray, none_retired: np.ndarray) -> Statistic:
    """Return the mean number of trials at retirement, over retired skills, with the standard error of that ratio.

    One run that retired something says nothing about the spread between runs: then there is no error.
    """
    trials, retired = sums[..., METRIC["retire_trials"], :], sums[..., METRIC["retired"], :]
    cross = sums[..., METRIC["retire_trials_x_retired"], 0].astype(np.float64)
    total = np.where(retired[..., 0] > 0, retired[..., 0], np.nan).astype(np.float64)
    ratio = trials[..., 0] / total
    xx, yy = (part[..., 1] * 2.0**32 + part[..., 2] for part in (trials, retired))
    residual = np.maximum(xx - 2 * ratio * cross + ratio**2 * yy, 0.0)
    se = np.where(n - none_retired > 1, np.sqrt(residual * n / np.where(n > 1, n - 1, np.nan)) / total, np.nan)
    return Statistic(ratio, np.full(ratio.shape, np.nan), se)


def statistics(layout: Layout, vectors: np.ndarray, cells: np.ndarray) -> dict[str, Statistic]:
    """Turn sums into the variables of :mod:`sim.variables`.

    Parameters
    ----------
    layout
        Of the vectors.
    vectors
        int64, shape (..., layout.size).
    cells
        CELL_DTYPE, shape (...): for units, and to leave out what a cell did not record.

    Returns
    -------
    dict
        By variable. Arrays have shape (...), and (..., rounds) for the series. Not a number where there is no run, no such
        round, no sampled eval, or nothing retired.
    """
    parts = layout.unpack(vectors)
    n, metrics, series = parts["runs"], parts["metrics"], parts["series"]
    out = {}
    for variable in VARIABLES.values():
        sums = metrics[..., METRIC[variable.source], 3 if variable.paired else 0 :]
        unit = scale(variable.scale, cells)
        if variable.scale.endswith("sampled"):
            unit = np.where(cells["sampled"] != 0, unit, np.nan)
        out[variable.name] = _statistic(n, sums, unit)
    out["retire_trials"] = _retire_trials(n, metrics, parts["histogram"][..., 0])
    inside = np.arange(layout.rounds) < cells["rounds"][..., None]
    for variable in SERIES_VARIABLES.values():
        unit = np.where(inside, scale(variable.scale, cells)[..., None], np.nan)
        out[variable.name] = _statistic(n[..., None], series[..., SERIES.index(variable.source), :], unit)
    return out
