"""Ratchet at the threshold that a judge's errors make of its own (Rogan and Gladen).

    lever 1: n >= n_min and phat <= rho_fp + kappa pi_tau,  kappa = 1 - rho_fp - rho_pf          lever 2: least chat, as Ratchet

rho_fp and rho_pf are the audited rates, here taken as known exactly. With both 0 it is Ratchet. Exact: rates and tau are read as the
decimals they were written as.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import Skill, Table, chat, decimal, pass_rate
from sim.curators.ratchet import retire_table
from sim.errors import InputError
from sim.params import Group, rate

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "retire at n >= n_min and phat <= rho_fp + kappa pi_tau; full shelf: evict the least chat"
SOURCE: Final = "Rogan and Gladen 1978"
NEEDS: Final = "audited error rates of the judge"


@dataclass(frozen=True)
class Parameters(Group):
    """Of this rule."""

    PATH: ClassVar[str] = "policy.corrected"
    rho_fp: float = rate("audited P(observed pass given true fail)", default=0.0)
    rho_pf: float = rate("audited P(observed fail given true pass)", default=0.0)


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the largest net that leaves by n: Ratchet's table at tau' = 1 - 2 (rho_fp + kappa pi_tau)."""
    q, r = decimal(parameters.rho_fp), decimal(parameters.rho_pf)
    if q + r >= 1:
        raise InputError("policy.corrected.rho_fp", f"rho_fp + rho_pf = {float(q + r):g}", "below 1: kappa above 0")
    return retire_table(1 - 2 * (q + (1 - q - r) * pass_rate(policy)), policy.n_min, n_max)


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: net at or below the table's."""
    return skill.net <= table[skill.n]


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: chat, as Ratchet."""
    return chat(skill.n, skill.net)
