"""MACLA: a weighted score of reliability, frequency and recency, looked at when the shelf is full.

    score = w_rate a / (a + b) + w_used min(1, n / 10) + w_recent (1 - min(1, idle / horizon))       a = 1 + s, b = 2 + f
    lever 1: nobody          lever 2: the least score

A skill starts at (a, b) = (1, 2). Each term in 2^-32, rounded down. The system counts time in its own steps: ``horizon`` in rounds is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Skill, Table, fixed, least
from sim.params import Group, param

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "full shelf: evict the least 0.5 a / (a + b) + 0.3 min(1, n / 10) + 0.2 (1 - min(1, idle / horizon))"
SOURCE: Final = "MACLA (code); the horizon in rounds is ours"
CLOCK: Final = True


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.macla"
    w_rate: float = param("weight of the mean of Beta(1 + s, 2 + f)", at_least=0.0, at_most=10.0, default=0.5)
    w_used: float = param("weight of how often it was used", at_least=0.0, at_most=10.0, default=0.3)
    w_recent: float = param("weight of how recently it was used", at_least=0.0, at_most=10.0, default=0.2)
    n_full: int = param("trials that count as often", "trials", at_least=1, at_most=2**22, default=10)
    horizon: int = param("rounds after which a skill counts as unused", "rounds", at_least=1, at_most=1000, default=10)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the weights in 2^-32, and where frequency and recency are full."""
    p = parameters
    return np.concatenate([fixed([p.w_rate, p.w_used, p.w_recent], 32), [p.n_full, p.horizon]])


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: nobody."""
    return skill.n < 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: the score."""
    rate = (table[0] * (skill.n + skill.net + 2)) // (2 * (skill.n + 3))
    used = (table[1] * least(skill.n, table[3])) // table[3]
    recent = (table[2] * (table[4] - least(skill.idle, table[4]))) // table[4]
    return rate + used + recent
