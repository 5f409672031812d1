"""ProcMEM / Skill-Pro: only when the shelf is full, by a lower confidence bound of the gain.

    lcb = net / n - c sqrt(ln(1 + t) / n)        t = rounds so far, from 1; n = 0 counts as 1
    lever 1: nobody
    lever 2: the least lcb among those with n >= 10, age > 2 and lcb < -0.001; if there is none, the lowest tier of n < 10,
             10..79, >= 80 and in it the least lcb

The system's gain is the paired gain of a skill; a log has none, so it is taken from ``net`` alone: the mean signed outcome. In 2^-20,
rounded down; the root is a product of two tables in 2^-20.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Skill, Table, fixed, most, pick
from sim.params import Group, param

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "full shelf: evict the least lcb = net / n - 0.2 sqrt(ln(1 + t) / n) of mature bad skills, else of the lowest tier of n"
SOURCE: Final = "ProcMEM / Skill-Pro (code); the gain is from net alone"
CLOCK: Final = True
BITS: Final = 20
HEAD: Final = 5  # numbers before the roots
TIER: Final = 1 << 40  # further apart than any two lcb


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.procmem"
    width: float = param("c of the confidence bound", at_least=0.0, at_most=100.0, default=0.2)
    bound: float = param("an lcb below this makes a candidate", at_least=-2.0, at_most=2.0, default=-0.001)
    n_least: int = param("trials of a candidate, and of the middle tier", "trials", at_least=1, at_most=2**22, default=10)
    n_many: int = param("trials of the upper tier", "trials", at_least=1, at_most=2**22, default=80)
    maturity: int = param("rounds that a candidate is older than", "rounds", at_least=0, at_most=1000, default=2)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return least n, tier, age, bound; c sqrt(ln(1 + t)) by round; then 1 / sqrt(n), all roots in 2^-20."""
    p, rounds = parameters, np.arange(policy.rounds)
    widths, roots = p.width * np.sqrt(np.log(2.0 + rounds)), 1.0 / np.sqrt(np.maximum(np.arange(n_max + 1), 1))
    head = [p.n_least, p.n_many, p.maturity, fixed(p.bound, BITS), policy.rounds]
    return np.concatenate([np.array(head, np.int64), fixed(widths, BITS), fixed(roots, BITS)])


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: nobody."""
    return skill.n < 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: lcb; candidates far below all others, then by tiers."""
    lcb = (skill.net << BITS) // most(skill.n, 1) - ((table[HEAD + t] * table[HEAD + table[4] + skill.n]) >> BITS)
    candidate = (skill.n >= table[0]) & (skill.age > table[2]) & (lcb < table[3])
    tier = (skill.n >= table[0]) * 1 + (skill.n >= table[1]) * 1
    return lcb + pick(candidate, -1, tier) * TIER
