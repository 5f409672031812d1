"""Least frequently used: usage alone, the channel is never seen.

    lever 1: nobody          lever 2: the fewest routed trials; of equals the oldest

No parameters. A skill that was just written has none.
"""

from __future__ import annotations

from typing import Final

from sim.curators.contract import Skill, Table

LINE: Final = "full shelf: evict the least used"
SOURCE: Final = "baseline"


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: nobody."""
    return skill.n < 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: routed trials."""
    return skill.n
