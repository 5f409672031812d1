"""The random words of a run, generated in blocks: Threefry as in :mod:`sim.rng`, in uint32 arithmetic.

Words depend on (seed, run, round, purpose, index) and on nothing else, so they are drawn once per run and round and
used by all cells. Blocks are whole vectors of :data:`LANES` words: the generator then has no single steps at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim import rng
from sim.kernels.jit import entry, part, stage

U32 = np.uint32
PARITY = U32(rng.PARITY)
EVEN, ODD = (tuple(U32(rotation) for rotation in rng.ROTATIONS[at : at + 4]) for at in (0, 4))
LANES = 16  # words in the widest vector register (512 bits); more than a machine has costs nothing but memory


def padded(n: int) -> int:
    """Return ``n`` rounded up to whole vectors."""
    return (n + LANES - 1) // LANES * LANES


class Words(NamedTuple):
    """The words of one round; uint32, each as long as the largest cell needs, padded."""

    route: np.ndarray
    pick: np.ndarray
    outcome: np.ndarray
    flip: np.ndarray
    eval_route: np.ndarray
    eval_pick: np.ndarray
    eval_outcome: np.ndarray
    eval_spare: np.ndarray
    cover_even: np.ndarray
    cover_odd: np.ndarray
    cover: np.ndarray  # the two, woven: one word per topic
    spurious: np.ndarray
    effect: np.ndarray


class Draws(NamedTuple):
    """The words that draw the tasks and the first shelf of one run; uint32, padded."""

    train_topic: np.ndarray
    train_bin: np.ndarray
    eval_topic: np.ndarray
    eval_bin: np.ndarray
    rate_fail: np.ndarray
    rate_pass: np.ndarray
    start_spare: np.ndarray
    start_effect: np.ndarray


@stage
def mix(x, y, rotation):
    x = U32(x + y)
    y = U32(U32(y << rotation) | U32(y >> U32(U32(32) - rotation)))
    return x, U32(y ^ x)


@stage
def four(x, y, rotations):
    a, b, c, d = rotations
    x, y = mix(x, y, a)
    x, y = mix(x, y, b)
    x, y = mix(x, y, c)
    return mix(x, y, d)


@stage
def twenty(x, y, key0, key1, key2):
    """Return the two words of a counter that the key was added to."""
    x, y = four(x, y, EVEN)
    x, y = U32(x + key1), U32(U32(y + key2) + U32(1))
    x, y = four(x, y, ODD)
    x, y = U32(x + key2), U32(U32(y + key0) + U32(2))
    x, y = four(x, y, EVEN)
    x, y = U32(x + key0), U32(U32(y + key1) + U32(3))
    x, y = four(x, y, ODD)
    x, y = U32(x + key1), U32(U32(y + key2) + U32(4))
    x, y = four(x, y, EVEN)
    return U32(x + key2), U32(U32(y + key0) + U32(5))


@part
def fill(first, second, purpose, round_, key0, key1):
    """Fill two arrays of equal length with the words of one purpose. Plain lanes: the compiler vectorises this loop."""
    key2 = U32(U32(key0 ^ key1) ^ PARITY)
    base = U32(U32(purpose) << U32(rng.INDEX_BITS))
    for i in range(len(first)):
        first[i], second[i] = twenty(U32(U32(base + U32(i)) + key0), U32(round_ + key1), key0, key1, key2)


@stage
def one_word(purpose, index, round_, key0, key1):
    """Return the first word of one index of a purpose."""
    base = U32(U32(purpose) << U32(rng.INDEX_BITS))
    return twenty(U32(U32(base + index) + key0), U32(round_ + key1), key0, key1, U32(U32(key0 ^ key1) ^ PARITY))[0]


@stage
def draw_words(words, round_, key0, key1, sampled):
    """Generate the words of a round."""
    fill(words.route, words.pick, U32(rng.ROUTE), round_, key0, key1)
    fill(words.outcome, words.flip, U32(rng.OUTCOME), round_, key0, key1)
    fill(words.cover_even, words.cover_odd, U32(rng.COVER), round_, key0, key1)
    for i in range(len(words.cover_even)):
        words.cover[2 * i], words.cover[2 * i + 1] = words.cover_even[i], words.cover_odd[i]
    fill(words.spurious, words.effect, U32(rng.SYNTH), round_, key0, key1)
    if sampled:
        fill(words.eval_route, words.eval_pick, U32(rng.EVAL_ROUTE), round_, key0, key1)
        fill(words.eval_outcome, words.eval_spare, U32(rng.EVAL_OUTCOME), round_, key0, key1)


@stage
def draw_tasks(draws, key0, key1):
    """Generate the words that draw the tasks and the first shelf of one run."""
    fill(draws.train_topic, draws.train_bin, U32(rng.TRAIN_DRAW), U32(0), key0, key1)
    fill(draws.eval_topic, draws.eval_bin, U32(rng.EVAL_DRAW), U32(0), key0, key1)
    fill(draws.rate_fail, draws.rate_pass, U32(rng.RATE_DRAW), U32(0), key0, key1)
    fill(draws.start_spare, draws.start_effect, U32(rng.START), U32(0), key0, key1)


@entry
def block(first, second, purpose, round_, seed, run):
    """Fill two uint32 arrays of equal length with the words of one purpose."""
    fill(first, second, U32(purpose), U32(round_), U32(seed), U32(run))
