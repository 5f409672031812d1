"""SWARM: success rate and its moving average, looked at every three rounds.

    ema <- ema + weight (outcome - ema), from 1/2
    lever 1: every 3 rounds, n >= 3 and 0.5 phat + 0.5 ema < 0.2          lever 2: least 0.5 phat + 0.5 ema

The weight of the moving average and its start are ours. All in 2^-30, rounded down; phat of an untried skill counts as 1/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Own, Skill, Table, Trial, decimal, fixed
from sim.params import Group, param, rate

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "every 3 rounds retire n >= 3 and 0.5 phat + 0.5 ema < 0.2; full shelf: evict the least of it"
SOURCE: Final = "SWARM (code); weight and start of the ema are ours"
FIELDS: Final = ("ema",)
BITS: Final = 30
ONE: Final = 1 << BITS


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.swarm"
    every: int = param("rounds between two looks", "rounds", at_least=1, at_most=1000, default=3)
    n_least: int = param("trials below which nothing is retired", "trials", at_least=0, at_most=2**22, default=3)
    cut: float = rate("mean of phat and ema below which a skill leaves", default=0.2)
    weight: float = rate("of a new outcome in the moving average", default=0.3)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return rounds between two looks, least n, twice the threshold, the weight of an outcome and what it leaves; in 2^-30."""
    p = parameters
    weight = int(fixed(p.weight, BITS))
    return np.array([p.every, p.n_least, math.ceil(2 * decimal(p.cut) * ONE), weight, ONE - weight], np.int64)


def first(table: Table) -> Own:
    """One half."""
    return (ONE // 2,)


def after_trial(skill: Skill, trial: Trial, table: Table) -> Own:
    """Move the average."""
    return (((skill.own[0] * table[4]) >> BITS) + trial.observed * table[3],)


def score(skill: Skill) -> int:
    """Return phat + ema."""
    tried = skill.n + (skill.n == 0)
    return ((skill.n + skill.net + (skill.n == 0)) << (BITS - 1)) // tried + skill.own[0]


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1."""
    return ((t + 1) % table[0] == 0) & (skill.n >= table[1]) & (score(skill) < table[2])


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: the same score."""
    return score(skill)
