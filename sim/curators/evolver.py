"""EvolveR: a smoothed success rate, looked at every ten rounds.

    lever 1: every 10 rounds, (s + 1) / (n + 2) < 0.3          lever 2: least (s + 1) / (n + 2), ours

Exact: the threshold is a table of net by n. An untried skill has 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Skill, Table, below_rate, chat, decimal
from sim.params import Group, param, rate

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "every 10 rounds retire (s + 1) / (n + 2) < 0.3; full shelf: evict the least"
SOURCE: Final = "EvolveR (code); lever 2 is ours"


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.evolver"
    every: int = param("rounds between two looks", "rounds", at_least=1, at_most=1000, default=10)
    cut: float = rate("smoothed pass rate below which a skill leaves", default=0.3)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the rounds between two looks, then the largest net that leaves by n."""
    nets = below_rate(decimal(parameters.cut), 0, n_max, passes=1, trials=2)
    return np.concatenate([[parameters.every], nets])


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1."""
    return ((t + 1) % table[0] == 0) & (skill.net <= table[1 + skill.n])


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: the rate that leaves is ordered by."""
    return chat(skill.n + 2, skill.net)
