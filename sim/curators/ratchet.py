"""Ratchet: retire on measured contribution, evict the weakest when the shelf is full (RT section 3, levers 1 and 2).

    lever 1: net <= -tau n, n >= n_min          lever 2: least chat = net / n, untried as 0; of equals the oldest

A skill's evidence is two integers: ``n``, the trials routed to it, and ``net``, observed passes minus observed
failures. Its contribution is ``chat = net / n``, taken as 0 before the first trial. Every comparison is exact:
``chat`` is never divided out, and ``tau`` is read as the decimal it was written as (0.1 is one tenth, while in binary
floating point 0.1 * 70 > 7, so that a skill at exactly -tau would survive).

``retire_table``, ``retires`` and ``weakest`` are for loops of one's own, and what the kernels have stages of their own for; below
them is the same as a rule among others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from sim.curators.contract import NEVER, Skill, Table, chat
from sim.errors import InputError
from sim.params import Group

if TYPE_CHECKING:
    from sim.model import Policy

LINE: Final = "retire at n >= n_min and phat <= pi_tau; full shelf: evict the least chat"
SOURCE: Final = "RT section 3 and BC (paper)"


def retire_table(tau: float | str | Fraction, n_min: int, n_max: int) -> np.ndarray:
    """Return the largest ``net`` at which a skill is retired, for each number of trials.

    Parameters
    ----------
    tau
        Retirement margin on the chat scale, read as decimal text: ``0.1``, ``"0.1"`` and ``Fraction(1, 10)`` agree.
    n_min
        Trials below which nothing is retired.
    n_max
        Most trials a skill can have: train tasks per round x rounds. No test beyond them is possible.

    Returns
    -------
    numpy.ndarray
        int32, shape (n_max + 1,): floor(-tau * n) from n_min on, :data:`NEVER` before.

    Raises
    ------
    InputError
        tau is not a number in (-1, 1), n_min is below 1, or n_max is below 0 or above 2^31 - 1.
    """
    try:
        exact = Fraction(str(tau))
    except ValueError:
        raise InputError("tau", repr(tau), "a number above -1 and below 1") from None
    if not -1 < exact < 1:
        raise InputError("tau", tau, "a number above -1 and below 1")
    if n_min < 1:
        raise InputError("n_min", n_min, "at least 1")
    if not 0 <= n_max < 2**31:
        raise InputError("n_max", n_max, "from 0 to 2^31 - 1")
    n = np.arange(n_max + 1, dtype=np.int64)
    if abs(exact.numerator) * (n_max + 1) < 2**62:
        bound = -exact.numerator * n // exact.denominator
    else:
        bound = np.array([-exact.numerator * k // exact.denominator for k in range(n_max + 1)], np.int64)
    return np.where(n < n_min, NEVER, bound).astype(np.int32)


def retires(n: int, net: int, table: Sequence[int] | np.ndarray) -> bool:
    """Lever 1: whether a skill with ``n`` trials and this ``net`` leaves. True iff n >= n_min and net <= -tau * n."""
    return net <= table[n]


def weakest(n: Sequence[int] | np.ndarray, net: Sequence[int] | np.ndarray, born: Sequence[int] | np.ndarray, size: int) -> int:
    """Lever 2: the index of the skill with the smallest chat among the first ``size``; of equals, the oldest.

    Parameters
    ----------
    n, net
        Trials and net outcomes, in any order of skills.
    born
        Birth numbers: smaller is older.
    size
        How many entries are skills; at least 1.
    """
    worst = 0
    for j in range(1, size):
        # chat_j < chat_worst, cross-multiplied; an untried skill counts as 0 / 1. int() keeps 32-bit counters from wrapping.
        left = int(net[j]) * max(int(n[worst]), 1)
        right = int(net[worst]) * max(int(n[j]), 1)
        if left < right or (left == right and born[j] < born[worst]):
            worst = j
    return worst


# ---------------------------------------------------------------- as a rule among others


@dataclass(frozen=True)
class Parameters(Group):
    """None of its own: tau and n_min are the policy's."""

    PATH: ClassVar[str] = "policy.ratchet"


def tables(parameters: Parameters, policy: Policy, n_max: int) -> np.ndarray:
    """Return the largest net at which a skill is retired, for each number of trials."""
    return retire_table(policy.tau, policy.n_min, n_max)


def leaves(skill: Skill, t: int, table: Table) -> bool:
    """Lever 1."""
    return skill.net <= table[skill.n]


def strength(skill: Skill, t: int, word: int, table: Table) -> int:
    """Lever 2: chat."""
    return chat(skill.n, skill.net)
