"""ExpeL: an importance that agreement raises and disagreement lowers, deleted at 0.

    importance: 2 at birth; observed pass +1, observed fail -1, or -3 while the shelf is full
    lever 1: importance <= 0, which it keeps          lever 2: least importance

In ExpeL an LLM votes on insights and a full list has 25; here the observed outcome votes and full is the shelf's cap. ExpeL deletes at
once: an importance that has reached 0 stays there until the round's end. Lever 2 is ours: ExpeL's list may grow past its limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Own, Skill, Table, Trial, pick
from sim.params import Group, param

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "importance 2 at birth, +1 a pass, -1 a fail (-3 on a full shelf); retire at <= 0; full shelf: evict the least"
SOURCE: Final = "ExpeL (code); lever 2 is ours"
FIELDS: Final = ("importance",)


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.expel"
    birth: int = param("importance of a new skill", at_least=1, at_most=1_000_000, default=2)
    agree: int = param("what an observed pass adds", at_least=0, at_most=1000, default=1)
    disagree: int = param("what an observed fail takes", at_least=0, at_most=1000, default=1)
    disagree_full: int = param("the same while the shelf is full", at_least=0, at_most=1000, default=3)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return importance at birth, and what a pass, a fail, and a fail on a full shelf do to it."""
    p = parameters
    return np.array([p.birth, p.agree, p.disagree, p.disagree_full], np.int64)


def first(table: Table) -> Own:
    """Importance at birth."""
    return (table[0],)


def after_trial(skill: Skill, trial: Trial, table: Table) -> Own:
    """Vote, unless it is deleted already."""
    (importance,) = skill.own
    down = pick(trial.full, table[3], table[2])
    return (pick(importance <= 0, importance, importance + pick(trial.observed, table[1], -down)),)


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1."""
    return skill.own[0] <= 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: importance."""
    return skill.own[0]
