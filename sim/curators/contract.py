"""What a rule may look at, and the arithmetic it is written in: whole numbers, without a branch.

The functions of a rule run unchanged in plain Python (the reference, a real loop), compiled by numba and traced by JAX. So they
are made of comparisons, ``&``, ``|``, ``+ - * // % << >>``, look-ups ``table[i]`` with i from 0 to its last, and the helpers here.
A condition is turned round by ``c == 0``. Everything has 64 bits, signed. What needs floats is put into the table, on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from sim.errors import InputError

if TYPE_CHECKING:
    from sim.model import Policy

NEVER: Final = -(2**31)  # a net that no skill has
FRACTION_BITS: Final = 22  # more than the trials a skill can have: 4096 tasks in 1000 rounds

Table: TypeAlias = Sequence[int]
Own: TypeAlias = tuple[int, ...]


class Skill(NamedTuple):
    """All a rule may look at.

    Attributes
    ----------
    n, net
        Routed trials; observed passes minus observed failures.
    age, idle
        Rounds since it was written; since its last routed trial, or since it was written if it had none. 0 unless the rule has CLOCK.
    born
        Birth number, smaller is older.
    own
        The rule's own evidence, as many whole numbers as it has FIELDS.
    """

    n: int
    net: int
    age: int
    idle: int
    born: int
    own: Own


class Trial(NamedTuple):
    """What was observed of a trial.

    Attributes
    ----------
    observed
        1 pass, 0 fail.
    t
        The round.
    full
        1 if the shelf is full.
    paired, difference, reported, control
        For rules that ask for more than a log holds: 0 for now.
    """

    observed: int
    t: int
    full: int
    paired: int = 0
    difference: int = 0
    reported: int = 0
    control: int = 0


# ---------------------------------------------------------------- in compiled code too


def pick(condition: int, a: int, b: int) -> int:
    """Return ``a`` where the condition holds, else ``b``. Both are worked out."""
    return b + condition * (a - b)


def least(a: int, b: int) -> int:
    """Return the smaller."""
    return b + (a < b) * (a - b)


def most(a: int, b: int) -> int:
    """Return the larger."""
    return b + (a > b) * (a - b)


def chat(n: int, net: int) -> int:
    """Return a whole number that orders skills as net / n does, equal for equal fractions; an untried skill counts as 0 / 1.

    Two different fractions with denominators below 2^b are at least 2^-2b apart, so (1 + net / n) 2^(2b) rounded down tells them
    apart. It is divided out in two steps of b bits. From 0 to 2^45.
    """
    tried = n + (n == 0)
    share = (n + net + (n == 0)) << FRACTION_BITS
    high = share // tried
    return (high << FRACTION_BITS) + ((share - high * tried) << FRACTION_BITS) // tried


# ---------------------------------------------------------------- on the host


def decimal(value: float) -> Fraction:
    """Return a parameter as the decimal it was written as."""
    return Fraction(str(value))


def pass_rate(policy: Policy) -> Fraction:
    """Return pi_tau = (1 - tau) / 2, the observed pass rate at which Ratchet retires."""
    return (1 - decimal(policy.tau)) / 2


def around(policy: Policy, gap: float, name: str) -> tuple[float, float]:
    """Return the pass rates of a good and of a bad skill, pi_tau + gap and pi_tau - gap.

    Raises
    ------
    InputError
        One of them is not between 0 and 1; ``name`` is the parameter that is at fault.
    """
    pi, off = pass_rate(policy), decimal(gap)
    if not 0 < pi - off < pi + off < 1:
        room = float(min(pi, 1 - pi))
        raise InputError(name, gap, f"below {room:g}: rates pi_tau -/+ gap between 0 and 1, and pi_tau is {float(pi):g}")
    return float(pi + off), float(pi - off)


def fixed(values: float | Sequence[float] | np.ndarray, bits: int) -> np.ndarray:
    """Return numbers in 2^-bits, rounded: int64, shape of the values."""
    return np.round(np.asarray(values, np.float64) * 2.0**bits).astype(np.int64)


def floor_times(factor: Fraction, n: np.ndarray) -> np.ndarray:
    """Return floor(factor * n), exactly: int64, shape of ``n``."""
    if abs(factor.numerator) * (int(np.max(n, initial=0)) + 1) < 2**62:
        return np.asarray(factor.numerator * n.astype(np.int64) // factor.denominator)
    return np.array([factor.numerator * int(k) // factor.denominator for k in n], np.int64)


def below_rate(cut: Fraction, n_least: int, n_max: int, passes: int = 0, trials: int = 0) -> np.ndarray:
    """Return the largest net at which (s + passes) / (n + trials) < cut, for n from 0 to n_max; NEVER where n < n_least.

    ``passes`` and ``trials`` are what a prior adds to the s observed passes and the n trials. int64, shape (n_max + 1,).
    """
    n = np.arange(n_max + 1, dtype=np.int64)
    s = -floor_times(-cut, n + trials) - 1 - passes  # the largest whole number below cut * (n + trials)
    return np.where((n >= n_least) & (s >= 0), 2 * np.minimum(s, n) - n, NEVER)


def largest_net(leaves: Callable[[np.ndarray, np.ndarray], np.ndarray], n_least: int, n_max: int) -> np.ndarray:
    """Return the largest net at which a skill leaves, for n from 0 to n_max; NEVER where n < n_least or it stays whatever it does.

    Parameters
    ----------
    leaves
        Called with n and observed passes s, int64 of one shape: whether a skill leaves. Where one with s leaves, one with less does.
    n_least
        Trials below which nothing leaves.
    n_max
        Most trials a skill can have.

    Returns
    -------
    numpy.ndarray
        int64, shape (n_max + 1,).
    """
    n = np.arange(n_max + 1, dtype=np.int64)
    low, high = np.full(n_max + 1, -1, np.int64), n.copy()  # the largest s that leaves is in low .. high
    while (low < high).any():
        middle = (low + high + 1) // 2
        gone = leaves(n, np.maximum(middle, 0)) & (middle >= 0)
        low, high = np.where(gone & (low < high), middle, low), np.where(gone | (low >= high), high, middle - 1)
    return np.where((n >= n_least) & (low >= 0), 2 * low - n, NEVER)


def observed(rate: float, rho_fp: float, rho_pf: float, name: str) -> float:
    """Return the observed pass rate of a true one, rho_fp + kappa * rate.

    Raises
    ------
    InputError
        kappa = 1 - rho_fp - rho_pf is not above 0; ``name`` is the parameter that is at fault.
    """
    kappa = 1 - decimal(rho_fp) - decimal(rho_pf)
    if kappa <= 0:
        raise InputError(name, f"rho_fp + rho_pf = {float(1 - kappa):g}", "below 1: kappa above 0")
    return rho_fp + float(kappa) * rate
