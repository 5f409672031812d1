"""The controllers: which skills leave the shelf. Pure functions of whole numbers, one rule per module.

The same functions run in the plain-Python reference, compiled in the kernels, and in a real loop. A rule's module has

``LINE``, ``SOURCE``, ``NEEDS``
    The rule on one line; where it is from; what it needs beyond observed outcomes. The first is required.
``Parameters``
    A frozen dataclass of its parameters (:class:`sim.params.Group`, PATH ``policy.NAME``).
``FIELDS``, ``FULL``, ``CLOCK``, ``DRAWS``
    Names of its own evidence, whole numbers per skill; ``"evict"`` or ``"refuse"``, what a full shelf means for a new skill; whether it
    looks at ``age`` and ``idle``; whether ``strength`` looks at its random word. Without them: none, evict, no, no.
``tables(parameters, policy, n_max) -> int64 array``
    Built once on the host, with exact arithmetic or stated fixed point: what the other functions look up.
``first(table) -> own``, ``after_trial(skill, trial, table) -> own``, ``after_round(skill, t, table) -> own``
    Its evidence at birth; after each routed trial, in the order of tasks (``n``, ``net`` and ``idle`` have it already); of every active
    skill at the end of a round's trials, before lever 1. The last two may be absent: without ``after_trial`` counting stays fast.
``leaves(skill, t, table) -> bool``
    Lever 1, once per round and active skill.
``strength(skill, t, word, table) -> int``
    Lever 2: the least leaves a full shelf; of equals, the oldest. ``word`` is a uint32 drawn for (run, round, skill).

README.md has an example of one's own, and :mod:`sim.curators.contract` says how they are written. ``python -m sim.curators`` lists them.
"""

from __future__ import annotations

from sim.curators.contract import NEVER, Skill, Trial, chat, least, most, pick
from sim.curators.registry import NAMES, RATCHET, Rule, check, check_own, chosen, filled, find, key_of, names, parameter

__all__ = [
    "NAMES", "NEVER", "RATCHET", "Rule", "Skill", "Trial", "chat", "check", "check_own", "chosen", "filled", "find", "key_of", "least",
    "most", "names", "parameter", "pick",
]  # fmt: skip
