"""CUSUM: change detection, so that a skill which has become bad is seen as soon as one that always was.

    g <- max(0, g + llr),  llr of a pass ln(p1 / p0), of a fail ln((1 - p1) / (1 - p0)),  p0 = pi_tau + gap, p1 = pi_tau - gap
    lever 1: g has reached h, after any trial          lever 2: least chat, as Ratchet

g and h in 2^-32. Having reached h, g stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Own, Skill, Table, Trial, around, chat, fixed, most, pick
from sim.params import Group, param

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "g <- max(0, g + llr of pi_tau - gap to pi_tau + gap); retire at g >= h"
SOURCE: Final = "Page 1954"
FIELDS: Final = ("g",)


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.cusum"
    gap: float = param("rates before and after a change are this far from pi_tau", "pass rate", above=0.0, below=0.5, default=0.15)
    h: float = param("g at which a skill leaves", "nats", above=0.0, at_most=1000.0, default=4.0)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return llr of a fail and of a pass, and h; in 2^-32."""
    good, bad = around(policy, parameters.gap, "policy.cusum.gap")
    return fixed([math.log((1 - bad) / (1 - good)), math.log(bad / good), parameters.h], 32)


def first(table: Table) -> Own:
    """Nothing."""
    return (0,)


def after_trial(skill: Skill, trial: Trial, table: Table) -> Own:
    """Add, from 0 up to h."""
    (g,) = skill.own
    return (pick(g >= table[2], g, most(g + pick(trial.observed, table[1], table[0]), 0)),)


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1."""
    return skill.own[0] >= table[2]


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: chat, as Ratchet."""
    return chat(skill.n, skill.net)
