"""VRR-Stop, as a rule for skills: stop when the posterior of being bad, given the channel, is high.

    P(bad | s, f) = prior q1^s (1 - q1)^f / (prior q1^s (1 - q1)^f + (1 - prior) q0^s (1 - q0)^f),  q = rho_fp + kappa p
    lever 1: P(bad | s, f) >= 1 - delta          lever 2: least chat, as Ratchet

A good skill truly passes with p0 = pi_tau + gap, a bad one with p1 = pi_tau - gap; rho_fp and rho_pf are the audited rates, taken as known
exactly. No numeric rule is published: the arithmetic is ours. The posterior falls with s: the threshold is a table of net by n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Skill, Table, around, chat, largest_net, observed
from sim.params import Group, param

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "retire when P(bad | s, f, channel) >= 1 - delta"
SOURCE: Final = "VRR-Stop (proxy)"
NEEDS: Final = "audited error rates of the judge"


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.vrr_style"
    delta: float = param("posterior doubt at which a skill leaves", "probability", above=0.0, below=0.5, default=0.05)
    prior: float = param("share of bad skills among new ones", "probability", above=0.0, below=1.0, default=0.5)
    gap: float = param("true pass rates of good and bad are this far from pi_tau", "pass rate", above=0.0, below=0.5, default=0.15)
    rho_fp: float = param("audited P(observed pass given true fail)", "probability", at_least=0.0, below=1.0, default=0.0)
    rho_pf: float = param("audited P(observed fail given true pass)", "probability", at_least=0.0, below=1.0, default=0.0)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the largest net that leaves by n."""
    p = parameters
    good, bad = (observed(rate_, p.rho_fp, p.rho_pf, "policy.vrr_style.rho_fp") for rate_ in around(policy, p.gap, "policy.vrr_style.gap"))
    up, down = math.log(bad / good), math.log((1 - bad) / (1 - good))
    level = math.log((1 - p.delta) / p.delta) - math.log(p.prior / (1 - p.prior))
    return largest_net(lambda n, s: s * up + (n - s) * down >= level, 1, n_max)


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: net at or below the table's."""
    return skill.net <= table[skill.n]


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: chat, as Ratchet."""
    return chat(skill.n, skill.net)
