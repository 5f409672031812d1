"""Generative Agents' retrieval score, as a rule for skills: recency and importance.

    score = w_recent decay^idle + w_importance (s + 1) / (n + 2)
    lever 1: nobody          lever 2: the least score

The system keeps the top by 0.5 * 0.99^rank + 2 * importance, with importance from an LLM; here rank is rounds since the last routed
trial, and importance the smoothed observed pass rate. The arithmetic is ours. Both terms in 2^-32, rounded down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Skill, Table, fixed
from sim.params import Group, param, rate

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "full shelf: evict the least 0.5 * 0.99^idle + 2 (s + 1) / (n + 2)"
SOURCE: Final = "Generative Agents (proxy)"
CLOCK: Final = True


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.generative_agents_style"
    w_recent: float = param("weight of recency", at_least=0.0, at_most=100.0, default=0.5)
    decay: float = rate("what is left of recency after a round unused", default=0.99)
    w_importance: float = param("weight of importance", at_least=0.0, at_most=100.0, default=2.0)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the weight of importance, then what recency is worth by rounds unused, in 2^-32."""
    p, idle = parameters, np.arange(policy.rounds + 1)
    return np.concatenate([fixed([p.w_importance], 32), fixed(p.w_recent * p.decay**idle, 32)])


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: nobody."""
    return skill.n < 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: the score."""
    return table[1 + skill.idle] + (table[0] * (skill.n + skill.net + 2)) // (2 * (skill.n + 2))
