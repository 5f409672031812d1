"""Threefry-2x32-20 and the counter layout: which random word decides what.

Every random word is a pure function of (seed, run, round, purpose, index), so nothing depends on the cell, the
tile, the thread or the machine, and all cells of a sweep share their randomness (common random numbers).

The generator is the 20-round Threefry-2x32 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3" (SC 2011). Key: (seed, run). Counter: (purpose << 24 | index, round). Each call gives two 32-bit words.
"""

from __future__ import annotations

from typing import Final

PARITY: Final = 0x1BD11BDA
ROTATIONS: Final = (13, 15, 26, 6, 17, 29, 16, 24)
INDEX_BITS: Final = 24

# Purpose                    first word                          second word
TRAIN_DRAW: Final = 0  # topic of train task i                its difficulty bin        (round 0)
EVAL_DRAW: Final = 1  # topic of eval task i                 its difficulty bin        (round 0)
RATE_DRAW: Final = 2  # rho_fp bin of unit u                 its rho_pf bin            (round 0)
ROUTE: Final = 3  # route; low half: random label        low half: pick; high half: mislabel
OUTCOME: Final = 4  # true outcome                         flip
EVAL_ROUTE: Final = 5  # route                                low half: pick
EVAL_OUTCOME: Final = 6  # true outcome                         -
COVER: Final = 7  # cover guard of topic 2 i             of topic 2 i + 1
SYNTH: Final = 8  # high half: spurious?                 effect bin of the i-th skill written
START: Final = 9  # -                                    effect bin of the i-th skill at the start (round 0)
CURATOR: Final = 10  # a rule's word for the skill of birth number i   -

_MASK = 0xFFFFFFFF


def threefry(key0: int, key1: int, counter0: int, counter1: int) -> tuple[int, int]:
    """Return the two words of one Threefry-2x32-20 call, on plain integers.

    >>> [f"{word:08x}" for word in threefry(0, 0, 0, 0)]
    ['6b200159', '99ba4efe']
    """
    keys = (key0, key1, key0 ^ key1 ^ PARITY)
    x, y = (counter0 + key0) & _MASK, (counter1 + key1) & _MASK
    for group in range(5):
        for rotation in ROTATIONS[4 * (group % 2) : 4 * (group % 2) + 4]:
            x = (x + y) & _MASK
            y = ((y << rotation | y >> (32 - rotation)) & _MASK) ^ x
        x = (x + keys[(group + 1) % 3]) & _MASK
        y = (y + keys[(group + 2) % 3] + group + 1) & _MASK
    return x, y


def words(seed: int, run: int, round_: int, purpose: int, index: int) -> tuple[int, int]:
    """Return the two words for one (round, purpose, index) of a run."""
    return threefry(seed, run, purpose << INDEX_BITS | index, round_)
