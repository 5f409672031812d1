"""The curator: exact boundary of the retire test, and the eviction choice."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.curators import ratchet
from sim.kernels import shelf


@pytest.mark.parametrize("tau", ["0.1", "0.3", "0.7"])
def test_boundary_is_exact_for_every_n(tau: str) -> None:
    """A skill at exactly -tau is retired, one outcome above it is not. Floats get this wrong: 0.1 * 70 > 7."""
    table = ratchet.retire_table(float(tau), 24, 2000)
    exact = Fraction(tau)
    for n in range(2001):
        for net in range(-n, n + 1, 2) if n <= 60 else _around(-exact * n, n):
            assert ratchet.retires(n, net, table) == (n >= 24 and Fraction(net) <= -exact * n), (n, net)


def _around(boundary: Fraction, n: int) -> range:
    near = int(boundary)
    return range(max(-n, near - 6), min(n, near + 6) + 1)


def test_decimal_text_decides() -> None:
    as_float, as_text, as_fraction = (ratchet.retire_table(tau, 1, 500) for tau in (0.1, "0.1", Fraction(1, 10)))
    np.testing.assert_array_equal(as_float, as_text)
    np.testing.assert_array_equal(as_float, as_fraction)
    assert as_float[70] == -7
    assert ratchet.retires(70, -7, as_float)


@pytest.mark.parametrize("tau", [-0.9, -0.3, 0.0, 1e-9, 0.123456789, 0.99])
def test_table_is_the_floor_at_any_tau(tau: float) -> None:
    table = ratchet.retire_table(tau, 3, 300)
    exact = Fraction(str(tau))
    assert [int(v) for v in table[3:]] == [(-exact * n).__floor__() for n in range(3, 301)]
    assert (table[:3] == ratchet.NEVER).all()


def test_a_tau_of_many_digits_is_exact_too() -> None:
    tau = 0.1234567890123456
    table = ratchet.retire_table(tau, 1, 10_000)
    assert [int(table[n]) for n in (9_999, 10_000)] == [(-Fraction(str(tau)) * n).__floor__() for n in (9_999, 10_000)]


shelves = st.lists(st.tuples(st.integers(0, 50), st.integers(-50, 50)), min_size=1, max_size=12)


@given(shelves, st.randoms(use_true_random=False))
def test_weakest_has_the_smallest_chat_and_is_the_oldest_of_equals(skills: list[tuple[int, int]], random: object) -> None:
    n = [a for a, _ in skills]
    net = [max(-a, min(a, b)) for a, b in skills]
    born = list(range(len(skills)))
    random.shuffle(born)  # type: ignore[attr-defined]
    chat = [Fraction(b, a) if a else Fraction(0) for a, b in zip(n, net, strict=True)]
    expected = min(range(len(skills)), key=lambda j: (chat[j], born[j]))
    assert ratchet.weakest(n, net, born, len(skills)) == expected
    arrays = [np.array(x, np.int32) for x in (n, net, born)]
    assert ratchet.weakest(*arrays, len(skills)) == expected


def test_large_counts_are_compared_exactly() -> None:
    """Cross products pass 2^31; the compiled rule must not wrap."""
    n, net = np.array([4_000_000, 3_999_999], np.int32), np.array([-1_999_999, -2_000_000], np.int32)
    born = np.array([0, 1], np.int32)
    assert ratchet.weakest(n, net, born, 2) == 1
    import numba

    compiled = numba.njit(ratchet.weakest)
    assert compiled(n, net, born, 2) == 1
    assert compiled(n[::-1].copy(), net[::-1].copy(), born, 2) == 0


def test_the_kernel_compiles_these_very_functions() -> None:
    assert shelf.retires.py_func is ratchet.retires
    assert shelf.weakest.py_func is ratchet.weakest
