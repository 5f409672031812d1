"""An anytime-valid test: evidence against a pass rate of pi_tau or more, however often it is looked at.

    e = (p1 / pi_tau)^s ((1 - p1) / (1 - pi_tau))^f,  p1 = pi_tau - gap
    lever 1: the running maximum of e has reached 1 / delta          lever 2: least chat, as Ratchet

e is a supermartingale for any skill that passes with pi_tau or more, whatever it passed before: such a skill is ever retired with
chance at most delta (Ville). e falls with s: the threshold is a table of net by n; ``crossed`` is the running maximum's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Own, Skill, Table, Trial, around, chat, largest_net, pass_rate
from sim.params import Group, param

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "retire when ((p1 / pi_tau)^s ((1 - p1) / (1 - pi_tau))^f) has ever reached 1 / delta"
SOURCE: Final = "anytime-valid testing (Ville)"
FIELDS: Final = ("crossed",)


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.eprocess"
    gap: float = param("how far below pi_tau the alternative is", "pass rate", above=0.0, below=0.5, default=0.2)
    delta: float = param("chance of ever retiring a skill at pi_tau or above", "probability", above=0.0, below=1.0, default=0.05)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the largest net at which e has reached 1 / delta, by n."""
    pi, p1 = float(pass_rate(policy)), around(policy, parameters.gap, "policy.eprocess.gap")[1]
    up, down, level = math.log(p1 / pi), math.log((1 - p1) / (1 - pi)), -math.log(parameters.delta)
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
