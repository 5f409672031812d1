"""Never: an open loop, as Voyager and most are.

    lever 1: nobody          full shelf: nothing new is written, and its pool of failures stays

No parameters.
"""

from __future__ import annotations

from typing import Final

from sim.curators.contract import Skill, Table

LINE: Final = "nothing ever leaves; full shelf: nothing new is written"
SOURCE: Final = "Voyager and most open loops (code)"
FULL: Final = "refuse"


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: nobody."""
    return skill.n < 0
