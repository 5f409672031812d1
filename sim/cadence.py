"""When the rule looks: the trials that a skill gets between two looks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sim.errors import InputError

MAX_TRIALS: Final = 10_000  # that chances are worked out for
LEAST_MEAN: Final = 0.01  # trials per round
TINY: Final = 1e-18  # chances of a number of trials below this are left out


@dataclass(frozen=True)
class Cadence:
    """When the rule looks: the distribution of the trials between two looks.

    Parameters
    ----------
    pmf
        Chances of 0, 1, 2, ... trials; they sum to 1.
    name
        In words.
    """

    pmf: tuple[float, ...]
    name: str

    @property
    def fixed(self) -> int:
        """The number of trials between looks if it is always the same, else 0."""
        return len(self.pmf) - 1 if self.pmf[-1] == 1.0 else 0

    @property
    def mean(self) -> float:
        """Mean trials between looks."""
        return float(np.dot(self.pmf, np.arange(len(self.pmf))))


def every(trials: int = 1) -> Cadence:
    """A look after every so many trials.

    Raises
    ------
    InputError
        trials is not a whole number from 1 on.
    """
    if isinstance(trials, bool) or not isinstance(trials, int) or not 1 <= trials <= MAX_TRIALS:
        raise InputError("trials between looks", repr(trials), f"a whole number from 1 to {MAX_TRIALS}")
    return Cadence((0.0,) * trials + (1.0,), f"after every {trials} trials" if trials > 1 else "after every trial")


def poisson(mean: float) -> Cadence:
    """A look after every round, with a Poisson number of trials in a round: many tasks, each rarely routed to the skill.

    Raises
    ------
    InputError
        mean is too small or too large.
    """
    from scipy.stats import poisson as distribution

    if not LEAST_MEAN <= mean <= MAX_TRIALS:
        raise InputError("mean trials per round", mean, f"a number from {LEAST_MEAN} to {MAX_TRIALS}")
    return _trimmed(distribution.pmf(np.arange(int(mean + 12 * math.sqrt(mean) + 24)), mean), f"after rounds of {mean:g} trials on average")


def binomial(tasks: int, share: float) -> Cadence:
    """A look after every round of so many tasks, each routed to the skill with the same chance.

    Raises
    ------
    InputError
        tasks is not a whole number from 1 on, or share is not a probability above 0.
    """
    from scipy.stats import binom

    if isinstance(tasks, bool) or not isinstance(tasks, int) or not 1 <= tasks <= MAX_TRIALS:
        raise InputError("tasks per round", repr(tasks), f"a whole number from 1 to {MAX_TRIALS}")
    if not 0.0 < share <= 1.0:
        raise InputError("share of tasks routed to a skill", share, "a probability above 0")
    if share == 1.0:
        return every(tasks)
    if tasks * share < LEAST_MEAN:
        raise InputError("mean trials per round", tasks * share, f"at least {LEAST_MEAN}")
    return _trimmed(binom.pmf(np.arange(tasks + 1), tasks, share), f"after rounds of {tasks} tasks, each with chance {share:g}")


def _trimmed(pmf: np.ndarray, name: str) -> Cadence:
    pmf = pmf[: int(np.flatnonzero(pmf > TINY)[-1]) + 1]
    return Cadence(tuple((pmf / pmf.sum()).tolist()), name)


EVERY_TRIAL: Final = every(1)


class FirstTest:
    """The distribution of the trials at the first look with n_min of them; looks without a trial in between do not count.

    Parameters
    ----------
    cadence
        When the rule looks.
    most
        Largest n_min.
    """

    def __init__(self, cadence: Cadence, most: int) -> None:
        self.cadence = cadence
        if cadence.fixed:
            return
        self.pmf = np.array(cadence.pmf)
        self.pmf[0] = 0.0
        self.pmf /= self.pmf.sum()
        self.seen = np.zeros(most + len(self.pmf))  # P(some look has just n trials)
        self.seen[0] = 1.0
        for n in range(most):
            self.seen[n : n + len(self.pmf)] += self.seen[n] * self.pmf

    def of(self, n_min: int) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers of trials and their chances, both of shape (numbers,)."""
        if self.cadence.fixed:
            return np.array([-(-n_min // self.cadence.fixed) * self.cadence.fixed]), np.ones(1)
        longest = len(self.pmf) - 1
        before = np.arange(max(0, n_min - longest), n_min)
        n = np.arange(n_min, n_min + longest)
        step = n[:, None] - before
        chance = np.where(step <= longest, self.pmf[np.minimum(step, longest)], 0.0) @ self.seen[before]
        return n[chance > TINY], chance[chance > TINY]

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of values by number of trials, shape (most + 1,), at the first test, for each n_min; same shape.

        nan for n_min = 0, and where a test may lie beyond the values. With one n_min more, only looks at just n_min trials have to wait for
        the next one.
        """
        n = np.arange(len(values))
        if self.cadence.fixed:
            at = -(-n // self.cadence.fixed) * self.cadence.fixed
            return np.where((n > 0) & (at < len(values)), values[np.minimum(at, len(values) - 1)], np.nan)
        longest = len(self.pmf) - 1
        later = np.convolve(np.concatenate([values, np.full(longest, np.nan)]), self.pmf[:0:-1])[longest:][: len(values)]
        seen = self.seen[: len(values)]
        steps = seen * (later - np.where(n > 0, values, 0.0))  # from n_min = n to n + 1
        return np.concatenate([[np.nan], np.cumsum(steps)])[: len(values)]
