"""Wald's sequential probability ratio test of a bad skill against a good one.

    llr = s ln(p1 / p0) + f ln((1 - p1) / (1 - p0)),  p0 = pi_tau + gap, p1 = pi_tau - gap
    lever 1: llr has reached ln((1 - beta) / alpha), after any trial          lever 2: least chat, as Ratchet

The side that retires: a skill that Wald's other boundary would accept is kept, and goes on being watched. So a good skill (observed
pass rate p0) is ever retired with chance at most alpha / (1 - beta), and a bad one (p1) in the end always. llr falls with s: the
threshold is a table of net by n; ``crossed`` remembers within a round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Own, Skill, Table, Trial, around, chat, largest_net
from sim.params import Group, param

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "retire when the log likelihood ratio of pi_tau - gap to pi_tau + gap has reached ln((1 - beta) / alpha)"
SOURCE: Final = "Wald 1945"
FIELDS: Final = ("crossed",)


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.sprt"
    gap: float = param("rates of good and bad skills are this far from pi_tau", "pass rate", above=0.0, below=0.5, default=0.15)
    alpha: float = param("chance of retiring a good skill", "probability", above=0.0, below=0.5, default=0.05)
    beta: float = param("chance of keeping a bad skill in Wald's two-sided test", "probability", above=0.0, below=0.5, default=0.05)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the largest net that leaves by n."""
    p = parameters
    good, bad = around(policy, p.gap, "policy.sprt.gap")
    up, down, level = math.log(bad / good), math.log((1 - bad) / (1 - good)), math.log((1 - p.beta) / p.alpha)
    return largest_net(lambda n, s: s * up + (n - s) * down >= level, 1, n_max)


def first(table: Table) -> Own:
    """Not crossed."""
    return (0,)


def after_trial(skill: Skill, trial: Trial, table: Table) -> Own:
    """Look after each trial."""
    return (skill.own[0] | (skill.net <= table[skill.n]),)


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1."""
    return skill.own[0] > 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: chat, as Ratchet."""
    return chat(skill.n, skill.net)
