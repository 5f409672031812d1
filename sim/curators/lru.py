"""Least recently used: usage alone, the channel is never seen.

    lever 1: nobody          lever 2: the one whose last routed trial, or writing if it had none, is longest ago; of equals the oldest

No parameters.
"""

from __future__ import annotations

from typing import Final

from sim.curators.contract import Skill, Table

LINE: Final = "full shelf: evict the longest unused"
SOURCE: Final = "baseline"
CLOCK: Final = True


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: nobody."""
    return skill.n < 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: rounds since its last trial, the most first."""
    return -skill.idle
