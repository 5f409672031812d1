"""MemP: a low success rate after few trials.

    lever 1: n >= 3 and phat < 0.5          lever 2: least chat, as Ratchet: ours

Exact: the threshold is a table of net by n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Skill, Table, below_rate, chat, decimal
from sim.params import Group, param, rate

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "retire at n >= 3 and phat < 0.5; full shelf: evict the least chat"
SOURCE: Final = "MemP (code); lever 2 is ours"


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.memp"
    n_least: int = param("trials below which nothing is retired", "trials", at_least=1, at_most=2**22, default=3)
    cut: float = rate("pass rate below which a skill leaves", default=0.5)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the largest net that leaves by n."""
    return below_rate(decimal(parameters.cut), parameters.n_least, n_max)


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: net at or below the table's."""
    return skill.net <= table[skill.n]


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: chat, as Ratchet."""
    return chat(skill.n, skill.net)
