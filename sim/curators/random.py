"""Random: the baseline that looks at nothing.

    lever 1: nobody          lever 2: one at random, each as likely as the others

No parameters. The word is drawn for (run, round, skill); that two of 2^32 are equal, and the older leaves, is passed over.
"""

from __future__ import annotations

from typing import Final

from sim.curators.contract import Skill, Table

LINE: Final = "full shelf: evict one at random"
SOURCE: Final = "baseline"
DRAWS: Final = True


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: nobody."""
    return skill.n < 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: a random word."""
    return word
