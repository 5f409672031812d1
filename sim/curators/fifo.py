"""First in, first out: the baseline that looks at nothing but birth.

    lever 1: nobody          lever 2: the oldest

No parameters.
"""

from __future__ import annotations

from typing import Final

from sim.curators.contract import Skill, Table

LINE: Final = "full shelf: evict the oldest"
SOURCE: Final = "baseline"


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: nobody."""
    return skill.n < 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: birth number."""
    return skill.born
