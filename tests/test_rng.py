"""The generator: published known answers, and the same words in plain Python and compiled."""

from __future__ import annotations

import numpy as np
import pytest

from sim import rng
from sim.kernels import words

KNOWN = [  # counter, key, output: Random123's known answers for threefry2x32, 20 rounds
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_known_answers(counter: tuple[int, int], key: tuple[int, int], output: tuple[int, int]) -> None:
    assert rng.threefry(*key, *counter) == output


@pytest.mark.parametrize("purpose", range(9))
@pytest.mark.parametrize("seed", [0, 1, 0xFFFFFFFF])
def test_compiled_words_are_the_same(purpose: int, seed: int) -> None:
    first, second = np.zeros((2, 37), np.uint32)
    for run, round_ in [(0, 0), (7, 3), (2**32 - 1, 999)]:
        words.block(first, second, purpose, round_, seed, run)
        expected = [rng.words(seed, run, round_, purpose, i) for i in range(37)]
        assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected


def test_no_two_counters_coincide() -> None:
    """Purposes, indices and rounds of the largest run have counters of their own."""
    limit = 1 << rng.INDEX_BITS
    assert limit >= 4096
    assert len({purpose << rng.INDEX_BITS | index for purpose in range(9) for index in (0, limit - 1)}) == 18
    assert 9 << rng.INDEX_BITS <= 2**32
