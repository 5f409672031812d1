"""The random words of a run, generated in blocks: Threefry as in :mod:`sim.rng`, in uint32 arithmetic.

Words depend on (seed, run, round, purpose, index) and on nothing else, so they are drawn once per run and round and
used by all cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim import rng
from sim.kernels.jit import entry, stage

U32 = np.uint32
PARITY = U32(rng.PARITY)


class Words(NamedTuple):
    """The words of one round; uint32, each as long as the largest cell needs."""

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
    spurious: np.ndarray
    effect: np.ndarray


class Draws(NamedTuple):
    """The words that draw the tasks of one run; uint32."""

    train_topic: np.ndarray
    train_bin: np.ndarray
    eval_topic: np.ndarray
    eval_bin: np.ndarray
    rate_fail: np.ndarray
    rate_pass: np.ndarray


@stage
def mix(x, y, rotation):
    x = U32(x + y)
    y = U32(U32(y << U32(rotation)) | U32(y >> U32(32 - rotation)))
    return x, U32(y ^ x)


@stage
def four(x, y, a, b, c, d):
    x, y = mix(x, y, a)
    x, y = mix(x, y, b)
    x, y = mix(x, y, c)
    return mix(x, y, d)


@stage
def fill(first, second, size, purpose, round_, key0, key1):
    """Write the words of indices 0 .. size - 1 of one purpose. Plain lanes: the compiler vectorises this loop."""
    key2 = U32(U32(key0 ^ key1) ^ PARITY)
    base = U32(purpose << rng.INDEX_BITS)
    for i in range(size):
        x, y = U32(U32(base + U32(i)) + key0), U32(round_ + key1)
        x, y = four(x, y, 13, 15, 26, 6)
        x, y = U32(x + key1), U32(U32(y + key2) + U32(1))
        x, y = four(x, y, 17, 29, 16, 24)
        x, y = U32(x + key2), U32(U32(y + key0) + U32(2))
        x, y = four(x, y, 13, 15, 26, 6)
        x, y = U32(x + key0), U32(U32(y + key1) + U32(3))
        x, y = four(x, y, 17, 29, 16, 24)
        x, y = U32(x + key1), U32(U32(y + key2) + U32(4))
        x, y = four(x, y, 13, 15, 26, 6)
        first[i], second[i] = U32(x + key2), U32(U32(y + key0) + U32(5))


@stage
def draw_words(words, round_, key0, key1, n_train, n_eval, topics, per_round, sampled):
    """Generate the words of a round."""
    fill(words.route, words.pick, n_train, rng.ROUTE, round_, key0, key1)
    fill(words.outcome, words.flip, n_train, rng.OUTCOME, round_, key0, key1)
    fill(words.cover_even, words.cover_odd, (topics + 1) // 2, rng.COVER, round_, key0, key1)
    fill(words.spurious, words.effect, per_round, rng.SYNTH, round_, key0, key1)
    if sampled:
        fill(words.eval_route, words.eval_pick, n_eval, rng.EVAL_ROUTE, round_, key0, key1)
        fill(words.eval_outcome, words.eval_spare, n_eval, rng.EVAL_OUTCOME, round_, key0, key1)


@stage
def draw_tasks(draws, key0, key1, n_train, n_eval, units):
    """Generate the words that draw the tasks of a run."""
    fill(draws.train_topic, draws.train_bin, n_train, rng.TRAIN_DRAW, U32(0), key0, key1)
    fill(draws.eval_topic, draws.eval_bin, n_eval, rng.EVAL_DRAW, U32(0), key0, key1)
    fill(draws.rate_fail, draws.rate_pass, units, rng.RATE_DRAW, U32(0), key0, key1)


@entry
def block(first, second, purpose, round_, seed, run):
    """Fill two uint32 arrays of equal length with the words of one purpose."""
    fill(first, second, len(first), purpose, U32(round_), U32(seed), U32(run))
