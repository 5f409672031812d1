"""Insight governance (Cui et al.), as a rule for skills: off when the recent pass rate is low.

    lever 1: the last ``window`` trials are there and their pass rate is below ``low``          lever 2: least chat, as Ratchet

The system turns an insight off below 0.45 and on again above 0.55. Here off is off the shelf: without trials it could never come on
again, so that the upper threshold has no place. The arithmetic, window and all, is ours. The last outcomes are the bits of a number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Own, Skill, Table, Trial, chat, decimal
from sim.params import Group, param, rate

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "retire when phat over the last 20 trials < 0.45 (off = leaves: without trials it could not come on again)"
SOURCE: Final = "insight governance, Cui et al. (proxy)"
FIELDS: Final = ("recent", "passes")


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.insight_style"
    window: int = param("trials looked back at", "trials", at_least=1, at_most=60, default=20)
    low: float = rate("pass rate below which it is off", default=0.45)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the window, the mask of its bits, and the most passes that are below the threshold."""
    window = parameters.window
    return np.array([window, (1 << window) - 1, math.ceil(decimal(parameters.low) * window) - 1], np.int64)


def first(table: Table) -> Own:
    """No outcome yet."""
    return (0, 0)


def after_trial(skill: Skill, trial: Trial, table: Table) -> Own:
    """Push an outcome in at one end, and one out at the other."""
    recent, passes = skill.own
    gone = (recent >> (table[0] - 1)) & 1
    return ((recent << 1) + trial.observed) & table[1], passes + trial.observed - gone


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: a full window, and too few passes in it."""
    return (skill.n >= table[0]) & (skill.own[1] <= table[2])


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: chat, as Ratchet."""
    return chat(skill.n, skill.net)
