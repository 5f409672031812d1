"""When the rule looks: the trials that a skill gets between two looks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sim.errors import InputError

MAX_TRIALS: Final = 10_000  # that chances are worked out for
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
        mean is not above 0 or too large.
    """
    from scipy.stats import poisson as distribution

    if not 0.0 < mean <= MAX_TRIALS:
        raise InputError("mean trials per round", mean, f"a number above 0 and at most {MAX_TRIALS}")
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
    return _trimmed(binom.pmf(np.arange(tasks + 1), tasks, share), f"after rounds of {tasks} tasks, each with chance {share:g}")


def _trimmed(pmf: np.ndarray, name: str) -> Cadence:
    pmf = pmf[: int(np.flatnonzero(pmf > TINY)[-1]) + 1]
    return Cadence(tuple((pmf / pmf.sum()).tolist()), name)


EVERY_TRIAL: Final = every(1)
