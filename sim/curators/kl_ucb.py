"""KL-UCB: retire when even an optimistic pass rate is below pi_tau.

    lever 1: max{q : n kl(phat, q) <= ln(1 / delta)} < pi_tau, that is phat < pi_tau and n kl(phat, pi_tau) > ln(1 / delta)
    lever 2: least chat, as Ratchet

kl is the divergence of two coins. A fixed level takes the place of the bandit's ln t, since skills leave one by one and for good. The
bound rises with s: the threshold is a table of net by n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Skill, Table, chat, largest_net, pass_rate
from sim.params import Group, param

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "retire when the KL upper confidence bound of the pass rate < pi_tau"
SOURCE: Final = "KL-UCB (Garivier and Cappé 2011), at a fixed level"


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.kl_ucb"
    delta: float = param("level of the bound", "probability", above=0.0, below=1.0, default=0.05)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the largest net that leaves by n."""
    from scipy.special import rel_entr

    pi, level = float(pass_rate(policy)), -math.log(parameters.delta)

    def gone(n: np.ndarray, s: np.ndarray) -> np.ndarray:
        p = s / np.maximum(n, 1)
        return (p < pi) & (n * (rel_entr(p, pi) + rel_entr(1 - p, 1 - pi)) > level)

    return largest_net(gone, 1, n_max)


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: net at or below the table's."""
    return skill.net <= table[skill.n]


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: chat, as Ratchet."""
    return chat(skill.n, skill.net)
