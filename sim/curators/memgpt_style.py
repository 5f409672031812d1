"""MemGPT's queue, as a rule for skills: first in, first out.

    lever 1: nobody          lever 2: the oldest

MemGPT flushes the oldest messages of its queue and summarises them; the summary, an LLM's, is left out. The arithmetic
is ours. No parameters.
"""

from __future__ import annotations

from typing import Final

from sim.curators.contract import Skill, Table

LINE: Final = "full shelf: evict the oldest"
SOURCE: Final = "MemGPT (proxy)"


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: nobody."""
    return skill.n < 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: birth number."""
    return skill.born
