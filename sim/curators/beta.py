"""Bayes: retire when the pass rate is below pi_tau with high posterior probability.

    lever 1: n >= n_min and P(p < pi_tau | s, f) = I_pi(s + 1, f + 1) > 1 - delta          lever 2: least chat, as Ratchet

A uniform prior of the observed pass rate. The posterior falls with s: the threshold is a table of net by n, from scipy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Skill, Table, chat, largest_net, pass_rate
from sim.params import Group, param

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "retire at n >= n_min and P(p < pi_tau | s, f) = I_pi(s + 1, f + 1) > 1 - delta"
SOURCE: Final = "Bayes, uniform prior"


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.beta"
    delta: float = param("posterior doubt at which a skill leaves", "probability", above=0.0, below=1.0, default=0.05)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the largest net that leaves by n."""
    from scipy.special import betaincc

    pi, delta = float(pass_rate(policy)), parameters.delta
    return largest_net(lambda n, s: betaincc(s + 1.0, n - s + 1.0, pi) < delta, policy.n_min, n_max)


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: net at or below the table's."""
    return skill.net <= table[skill.n]


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: chat, as Ratchet."""
    return chat(skill.n, skill.net)
