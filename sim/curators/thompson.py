"""Thompson sampling: on a full shelf the skill with the least draw from its posterior leaves.

    lever 1: nobody          lever 2: the least draw of p ~ Beta(s + 1, f + 1)

The draw is made on the scale where a binomial rate has a constant spread: the angle asin(sqrt(p)) is taken as normal around
asin(sqrt((s + 3/4) / (n + 3/2))) with standard deviation 1 / sqrt(4 n + 6), which keeps the order of the draws of p. Compared with the
exact posterior the distribution function is off by at most 0.054, where all trials went one way; at shares from 1/4 to 3/4 by 0.012
from n = 8 on and 0.004 from n = 100 on. In 2^-24: normal quantiles and angles are tables of 4096 bins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sim.curators.contract import Skill, Table, fixed
from sim.curators.registry import NoParameters

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "full shelf: evict the least draw of p ~ Beta(s + 1, f + 1)"
SOURCE: Final = "Thompson sampling; the draw by the arcsine law"
DRAWS: Final = True
BITS: Final = 24
BIN_BITS: Final = 12
BINS: Final = 1 << BIN_BITS
FINE: Final = 18
SHARE_BITS: Final = BIN_BITS + FINE


def tables(parameters: NoParameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return normal quantiles, angles of shares, and spreads of the angle by n; in 2^-24."""
    from scipy.special import ndtri

    bins = (np.arange(BINS) + 0.5) / BINS
    angles = np.arcsin(np.sqrt(np.arange(BINS + 1) / BINS))
    spreads = 1.0 / np.sqrt(4.0 * np.arange(n_max + 1) + 6.0)
    return np.concatenate([fixed(ndtri(bins), BITS), fixed(angles, BITS), fixed(spreads, BITS)])


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1: nobody."""
    return skill.n < 0


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: the angle drawn. The share is (4 s + 3) / (4 n + 6), between two angles of the table by its remainder."""
    share = (2 * (skill.n + skill.net) + 3) << SHARE_BITS
    share = share // (4 * skill.n + 6)
    at, between = BINS + (share >> FINE), share & ((1 << FINE) - 1)
    angle = table[at] + (((table[at + 1] - table[at]) * between) >> FINE)
    return angle + ((table[word >> (32 - BIN_BITS)] * table[2 * BINS + 1 + skill.n]) >> BITS)
