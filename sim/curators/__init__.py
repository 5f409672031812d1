"""The controllers: which skills leave the shelf. Pure functions of integer counters, one rule per module.

The same functions run in the plain-Python reference, compiled in the kernels, and in a real loop. A rule's module offers

``retire_table(tau, n_min, n_max)``
    What it needs from the parameters, built once on the host with exact arithmetic.
``retires(n, net, table)``
    Lever 1: does a skill with this evidence leave?
``weakest(n, net, born, size)``
    Lever 2: which of the first ``size`` skills makes room when the shelf is full?
"""

from __future__ import annotations

from sim.curators import ratchet
from sim.errors import InputError

CURATORS = {"ratchet": ratchet}


def check(name: str) -> None:
    """Raise InputError when no curator of this name exists."""
    if name not in CURATORS:
        raise InputError("policy.curator", repr(name), "one of " + ", ".join(CURATORS))
