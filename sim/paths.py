"""Paths of outcomes: one table of their chances serves all rates, since n trials with s passes have chance r^s (1 - r)^(n - s)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from sim.cadence import TINY

FAINT: Final = 1e-200  # chances of paths below this are dropped before they reach the smallest floats, which do not shrink any more


def _bases(rate: np.ndarray, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Return base rates, and which of them each rate belongs to: a path's chance is worked out there, and reweighted for the rate.

    A base is so near in logit that what is likely at the rate is not below exp(-100) there, far above FAINT.
    """
    from scipy.special import expit, logit

    apart = min(6.0, 2.0 * math.sqrt(800.0 / trials))
    with np.errstate(divide="ignore"):
        steps, group = np.unique(np.round(np.clip(logit(rate), -6, 6) / apart), return_inverse=True)
    return expit(steps * apart), group


def _reweighted(rate: np.ndarray, base: float, n: np.ndarray, s: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the chances at other rates of paths that have this chance at the base, shape (rates, paths)."""
    from scipy.special import xlog1py, xlogy

    r = rate[:, None]
    with np.errstate(divide="ignore"):
        log = np.log(weight) - s * math.log(base) - (n - s) * math.log1p(-base)
        return np.exp(log + xlogy(s, r) + xlog1py(n - s, -r))


def first_passage(rate: ArrayLike, n: ArrayLike, low: ArrayLike, high: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return when a count of passes first leaves the open interval (low, high), looked at after n[0] < n[1] < ... trials.

    Parameters
    ----------
    rate
        Shape (rates,).
    n
        Trials at each look, shape (looks,).
    low, high
        The count has left if it is at most ``low`` or at least ``high``; shape (looks,). No upper end by default.

    Returns
    -------
    left
        P(left at this look for the first time), shape (rates, looks).
    stayed
        P(still inside after the last look), shape (rates,).
    """
    rate, n, low = np.atleast_1d(np.asarray(rate, np.float64)), np.asarray(n), np.asarray(low)
    high = n + 1 if high is None else np.asarray(high)
    bases, group = _bases(rate, int(n[-1]))
    inside, first = np.ones((len(bases), 1)), 0  # chances of first, first + 1, ... passes, at each base
    gone: list[tuple[np.ndarray, np.ndarray]] = []  # passes and chances of those that leave, look by look
    for trial in range(1, int(n[-1]) + 1):
        step = np.zeros((len(bases), inside.shape[1] + 1))
        step[:, :-1] = (1.0 - bases)[:, None] * inside
        step[:, 1:] += bases[:, None] * inside
        inside = step
        if trial % 32 == 0:
            inside[inside < FAINT] = 0.0
        if trial != n[len(gone)]:
            continue
        s = first + np.arange(inside.shape[1])
        out = (s <= low[len(gone)]) | (s >= high[len(gone)])
        gone.append((s[out], inside[:, out]))
        kept = np.flatnonzero(~out)
        first, inside = (int(s[kept[0]]), inside[:, kept[0] : kept[-1] + 1]) if len(kept) else (first, inside[:, :0])
    look = np.repeat(np.arange(len(n)), [len(s) for s, _ in gone])
    s_out, chances = np.concatenate([s for s, _ in gone]), np.concatenate([c for _, c in gone], axis=1)
    left, stayed = np.zeros((len(rate), len(n))), np.zeros(len(rate))
    for i, base in enumerate(bases):
        mine = np.flatnonzero(group == i)
        for j, row in zip(mine, _reweighted(rate[mine], base, n[look], s_out, chances[i]), strict=True):
            left[j] = np.bincount(look, row, len(n))
        stayed[mine] = _reweighted(rate[mine], base, n[-1], first + np.arange(inside.shape[1]), inside[i]).sum(axis=1)
    return left, stayed


def random_looks(
    rate: np.ndarray, pmf: np.ndarray, looks: int, most_passes: Callable[[int], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return when a count of passes is first seen at or below its bound, where the number of trials between looks is random.

    Parameters
    ----------
    rate
        Shape (rates,).
    pmf
        Chances of 0, 1, 2, ... trials between two looks.
    looks
        How many.
    most_passes
        Gives the bounds for 0, 1, ..., n_max trials, given n_max.

    Returns
    -------
    left
        P(at or below the bound at this look for the first time), shape (rates, looks).
    at_trials
        P(so after this many trials), shape (rates, n_max + 1).
    stayed
        P(above at all looks), shape (rates,).
    """
    sums = np.ones(1)  # of the number of trials by a look, if nothing were retired
    for _ in range(looks):
        sums = np.convolve(sums, pmf)
        sums = sums[: int(np.flatnonzero(sums > TINY)[-1]) + 1]
    n_max = len(sums) - 1
    low = most_passes(n_max)
    retired, kept, at_trials = np.zeros((len(rate), looks)), np.zeros(len(rate)), np.zeros((len(rate), n_max + 1))
    trials, passes = np.indices((n_max + 1, n_max + 1), dtype=np.int32)
    bases, groups = _bases(rate, n_max)
    for i_base, base in enumerate(bases):
        group = np.flatnonzero(groups == i_base)
        alive, first, end = np.zeros((n_max + 1, n_max + 1)), 0, 1  # [trials, passes]; only trials first .. end - 1 have a chance
        alive[0, 0] = 1.0
        for look in range(looks):
            end = min(end + len(pmf) - 1, n_max + 1)
            here = (slice(first, end), slice(0, end))
            step = alive[here]
            after = pmf[0] * step
            for chance in pmf[1:]:
                moved = np.zeros_like(step)
                moved[1:] = (1.0 - base) * step[:-1]
                moved[1:, 1:] += base * step[:-1, :-1]
                step = moved
                after += chance * step
            n, s = trials[here], passes[here]
            out = (s <= low[n]) & (after > 0)
            if out.any():
                chances = _reweighted(rate[group], base, n[out], s[out], after[out])
                retired[group, look] = chances.sum(axis=1)
                for i, row in zip(group, chances, strict=True):
                    at_trials[i] += np.bincount(n[out], row, n_max + 1)
                after[out] = 0.0
            after[after < FAINT] = 0.0
            alive[here] = after
            likely = first + np.flatnonzero(after.sum(axis=1) > TINY)
            alive[first : likely[0] if len(likely) else end] = 0.0
            if not len(likely):
                break
            first, end = int(likely[0]), int(likely[-1]) + 1
            alive[end:] = 0.0
        there = alive > 0
        kept[group] = _reweighted(rate[group], base, trials[there], passes[there], alive[there]).sum(axis=1)
    return retired, at_trials, kept
