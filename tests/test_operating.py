"""Exact chances to check values, to plain enumeration and induction, and to each other."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from sim import theory
from sim.curators import ratchet
from sim.errors import InputError
from sim.operating import (
    Cadence,
    binomial,
    corrected,
    ever_retired,
    every,
    first_test,
    library_retires,
    most_passes,
    operating,
    poisson,
    radius_broken,
    smallest_n_min,
)

taus = st.integers(-95, 95).map(lambda k: k / 100)


def test_check_values() -> None:
    """Known to four digits: tau 0.1, n_min 24, tested after every trial."""
    within = operating([0.3, 0.4, 0.45, 0.5, 0.6], 0.1, 24, 48).retired_by[:, -1]
    np.testing.assert_allclose(within, [0.9955, 0.8914, 0.7253, 0.4944, 0.1148], atol=5e-5)
    np.testing.assert_allclose(ever_retired([0.5, 0.6], 0.1, 24), [0.597, 0.1195], atol=1.5e-4)


def plainly(rate: float, tau: float, n_min: int, trials: int, apart: int) -> list[float]:
    """P(retired at trial n) by walking through all outcomes, with the product's own rule."""
    table = ratchet.retire_table(tau, n_min, trials)
    out = [0.0] * (trials + 1)
    for outcomes in itertools.product((1, -1), repeat=trials):
        chance = np.prod([rate if o == 1 else 1 - rate for o in outcomes])
        net = np.cumsum(outcomes)
        n = next((n for n in range(apart, trials + 1, apart) if ratchet.retires(n, int(net[n - 1]), table)), None)
        if n:
            out[n] += float(chance)
    return out


@settings(max_examples=15, deadline=None)
@given(st.floats(0.0, 1.0), taus, st.integers(1, 9), st.integers(1, 4))
def test_every_path_counts(rate: float, tau: float, n_min: int, apart: int) -> None:
    found = operating([rate], tau, n_min, 10 // apart, every(apart))
    expected = plainly(rate, tau, n_min, 10, apart)
    np.testing.assert_allclose(found.retired[0], [expected[n] for n in found.look], atol=1e-12)
    assert found.kept[0] == pytest.approx(1 - sum(expected), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6), taus, st.integers(1, 80), st.integers(1, 30))
def test_chances_add_up(rates: list[float], tau: float, n_min: int, apart: int) -> None:
    found = operating(rates, tau, n_min, 200 // apart, every(apart))
    np.testing.assert_allclose(found.retired.sum(axis=1) + found.kept, 1.0, atol=1e-11)


def test_one_look_is_a_binomial_tail() -> None:
    rate = np.linspace(0, 1, 21)
    for n in (10, 500, 5000):
        found = operating(rate, 0.1, n, 1, every(n))
        low = most_passes(0.1, n, n)[n]
        np.testing.assert_allclose(found.retired_by[:, 0], binom.cdf(low, n, rate), atol=1e-11)
        np.testing.assert_allclose(found.kept, binom.sf(low, n, rate), rtol=1e-8, atol=1e-250)  # tiny chances too


@pytest.mark.parametrize("cadence", [every(3), every(1)])
def test_rounds_of_a_known_number_are_the_same_by_either_route(cadence: Cadence) -> None:
    """A distribution that is nearly a single number goes through the table of trials by passes."""
    from sim.cadence import Cadence as Made

    k = cadence.fixed
    almost = Made((*([0.0] * k), 1.0 - 1e-15, 1e-15), "almost fixed")
    assert not almost.fixed
    rate = [0.2, 0.5, 0.7]
    np.testing.assert_allclose(operating(rate, 0.1, 7, 12, almost).retired_by, operating(rate, 0.1, 7, 12, cadence).retired_by, atol=1e-12)


def test_random_rounds_against_simulation() -> None:
    """20,000 skills each; the gate is 5 standard errors for 12 comparisons (false alarms below 1e-5)."""
    rng = np.random.default_rng(5)
    for cadence, draw in ((poisson(3.0), lambda size: rng.poisson(3.0, size)), (binomial(9, 0.4), lambda size: rng.binomial(9, 0.4, size))):
        rates = np.array([0.3, 0.5, 0.6])
        found = operating(rates, 0.1, 12, 10, cadence)
        np.testing.assert_allclose(found.retired.sum(axis=1) + found.kept, 1.0, atol=1e-11)
        np.testing.assert_allclose(found.at_trials.sum(axis=1), found.retired.sum(axis=1), atol=1e-12)
        trials = np.cumsum(draw((20_000, 10)), axis=1)
        low = most_passes(0.1, 12, int(trials.max()))
        for rate, by, mean in zip(rates, found.retired_by, found.mean_trials, strict=True):
            passes = np.cumsum(rng.random((20_000, trials.max())) < rate, axis=1)
            passes = np.concatenate([np.zeros((20_000, 1), int), passes], axis=1)
            out = np.take_along_axis(passes, trials, axis=1) <= low[trials]
            share = out.any(axis=1).mean()
            assert abs(share - by[-1]) < 5 * np.sqrt(by[-1] * (1 - by[-1]) / 20_000)
            at = np.take_along_axis(trials, out.argmax(axis=1)[:, None], axis=1)[out.any(axis=1)]
            assert abs(at.mean() - mean) < 5 * at.std() / np.sqrt(len(at))


# ---------------------------------------------------------------- for ever


@pytest.mark.parametrize("tau", [0.1, -0.3, 0.5, 0.0, 0.15])
@pytest.mark.parametrize("cadence", [every(1), every(7), every(20), every(100)])
def test_the_ruin_solution_is_the_limit_of_many_looks(tau: float, cadence: Cadence) -> None:
    pi = theory.pi_tau(tau)
    rates = [pi + 0.07, pi + 0.15, min(1.0, pi + 0.4)]
    long = operating(rates, tau, 24, 6000 // cadence.fixed, cadence).retired_by[:, -1]
    np.testing.assert_allclose(ever_retired(rates, tau, 24, cadence), long, atol=1e-10)


def test_the_ruin_solution_with_random_rounds() -> None:
    long = operating([0.65], 0.1, 24, 70, poisson(4.0)).retired_by[:, -1]
    np.testing.assert_allclose(ever_retired([0.65], 0.1, 24, poisson(4.0)), long, atol=1e-9)


@pytest.mark.parametrize(
    ("rate", "tau", "long"),
    [
        (0.503, 0.0005, 0.96824944), (0.46, 0.0873, 0.96749090), (0.6, 0.1234, 0.09177370),  # induction over 400,000 trials or fewer
        (0.4, 0.3334, 0.44991), (0.75, -0.3333, 0.29037), (0.25, 0.6667, 0.29840), (0.5, 0.1429, 0.45195), (0.55, 0.0004, 0.55695),
        (0.9999, -0.9996, 0.5), (0.99999, -0.9996, 0.05),  # two failures in 5000 retire: the first in all later trials, nearly
    ],
)  # fmt: skip
def test_many_decimals_of_tau(rate: float, tau: float, long: float) -> None:
    """Close to small fractions, where ties decide, and where one step is far larger than the other."""
    assert abs(ever_retired([rate], tau, 24)[0] - long) < (2e-3 if rate != 0.9999 else 0.02)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tau", [0.1, 0.123, 0.0, 0.9, -0.2, -0.9996])
def test_close_to_the_threshold_nothing_breaks(tau: float) -> None:
    """Rates that are pi_tau up to rounding, and so little above that the walk hardly drifts: 1 less something proportional."""
    pi = theory.pi_tau(tau)
    above = np.array([1e-17, 1e-16, 1e-13, 1e-11, 1e-10, 1e-9, 1e-8])
    found = ever_retired(pi + above, tau, 24)
    assert (found[:3] == 1.0).all()
    lost = 1 - found[3:]
    assert (lost > 0).all()
    np.testing.assert_allclose(lost[1:] / lost[:-1], 10, rtol=0.01)


def test_at_or_below_the_threshold_retirement_is_certain() -> None:
    assert ever_retired([0.0, 0.3, 0.45, 1.0], 0.1, 24).tolist() == [1.0, 1.0, 1.0, 0.0]
    near = ever_retired([0.45 + 1e-5, 0.45 + 1e-3, 0.46], 0.1, 24)
    assert (np.diff(near) < 0).all()
    assert near[0] > 0.9999


# ---------------------------------------------------------------- what it takes


@pytest.mark.parametrize("apart", [1, 5])
def test_the_smallest_n_min_is_enough_and_one_less_is_not(apart: int) -> None:
    found = smallest_n_min(0.6, 0.3, 0.1, 0.05, 0.05, cadence=every(apart))
    assert ever_retired([0.6], 0.1, found.n_min, every(apart))[0] == pytest.approx(found.wrongly_retired)
    assert found.wrongly_retired <= 0.05
    assert found.kept <= 0.05
    for n_min in range(1, found.n_min):
        first = -(-n_min // apart) * apart
        kept = binom.sf(most_passes(0.1, first, first)[first], first, 0.3)
        assert kept > 0.05 or ever_retired([0.6], 0.1, n_min, every(apart))[0] > 0.05


def test_the_search_goes_to_the_end() -> None:
    assert smallest_n_min(0.6, 0.04, 0.1, 0.1, 0.1, within=17).n_min == 17
    assert smallest_n_min(0.9, 0.1, 0.1, 0.05, 0.05, within=24, cadence=every(24)).n_min == 1
    assert smallest_n_min(0.6, 0.0, 0.1, 0.05, 0.05, cadence=every(9999)).n_min == 1
    near = smallest_n_min(0.5, 0.4, 0.1, 0.05, 0.05, cadence=poisson(3.0))
    assert ever_retired([0.5], 0.1, near.n_min, poisson(3.0))[0] == pytest.approx(near.wrongly_retired)


def test_means_over_first_tests_follow_each_other() -> None:
    """The cumulative form is that of one n_min at a time."""
    from sim.cadence import FirstTest

    values = np.random.default_rng(3).random(200)
    for cadence in (every(1), every(7), poisson(3.0), poisson(0.2), binomial(20, 0.4)):
        tests = FirstTest(cadence, 199)
        found = tests.mean(values)
        for n_min in (1, 2, 3, 10, 77, 120):
            n, chance = tests.of(n_min)
            assert found[n_min] == pytest.approx(chance @ values[n], rel=1e-9)
        assert np.isnan(found[0])
        assert np.isnan(found[199]) == (cadence != every(1))


def test_margins_next_to_one_are_refused() -> None:
    for tau in (-0.99999, 0.99999, -0.9998765):
        with pytest.raises(InputError, match="tau"):
            ever_retired(0.999999, tau, 24)
        assert operating(1.0, tau, 24, 100).kept[0] == pytest.approx(1.0)


def test_a_first_test_is_no_more_than_the_whole() -> None:
    for cadence in (every(1), every(7), poisson(30.0), poisson(0.3), binomial(20, 0.4)):
        rate = np.linspace(0, 1, 11)
        first, ever = first_test(rate, 0.1, 24, cadence), ever_retired(rate, 0.1, 24, cadence)
        assert (first <= ever + 1e-12).all()
    np.testing.assert_allclose(first_test(rate, 0.1, 24, every(10)), binom.cdf(13, 30, rate))
    simulated = np.random.default_rng(1).poisson(30.0, (2, 100_000))  # nearly always the first round with a trial is the test
    n = np.where(simulated[0] >= 24, simulated[0], simulated.sum(axis=0))
    passes = np.random.default_rng(2).binomial(n, 0.5)
    share = (passes <= most_passes(0.1, 24, int(n.max()))[n]).mean()
    assert abs(share - first_test([0.5], 0.1, 24, poisson(30.0))[0]) < 5 * 0.5 / np.sqrt(100_000)


def test_the_smallest_n_min_within_a_life() -> None:
    found = smallest_n_min(0.6, 0.4, 0.1, 0.1, 0.1, within=300)
    retired = operating([0.6, 0.4], 0.1, found.n_min, 300).retired_by[:, -1]
    assert found.wrongly_retired == pytest.approx(retired[0])
    assert found.kept == pytest.approx(1 - retired[1])
    assert found.wrongly_retired <= 0.1
    assert found.kept <= 0.1
    for n_min in range(1, found.n_min):
        retired = operating([0.6, 0.4], 0.1, n_min, 300).retired_by[:, -1]
        assert retired[0] > 0.1 or 1 - retired[1] > 0.1


def test_a_corrected_test_has_its_price() -> None:
    found = corrected(0.6, 0.2, 0.1, 0.3, 0.2, 0.05, 0.05)
    good, bad = theory.observed_rate([0.6, 0.2], 0.3, 0.2)
    assert found.tau == theory.corrected_tau(0.1, 0.3, 0.2)
    assert found.needed == smallest_n_min(good, bad, found.tau, 0.05, 0.05)
    assert found.needed_clean == smallest_n_min(0.6, 0.2, 0.1, 0.05, 0.05)
    assert found.needed is not None
    assert found.needed_clean is not None
    assert 2 < found.needed.n_min / found.needed_clean.n_min < 2 * theory.evidence_inflation(0.3, 0.2)
    assert corrected(0.6, 0.2, 0.1, 0.47, 0.51, 0.05, 0.05).needed is None
    with pytest.raises(InputError, match="kappa"):
        corrected(0.6, 0.2, 0.1, 0.6, 0.5, 0.05, 0.05)


# ---------------------------------------------------------------- radii


def test_a_constant_radius_holds_at_all_looks_and_a_shrinking_one_does_not() -> None:
    n, delta = np.arange(24, 3001), 0.05
    for rate in (0.5, 0.3, 0.1):
        constant = radius_broken(rate, n, theory.hoeffding_radius(24, delta, scale="pass_rate"))
        at_one = radius_broken(rate, n[:1], theory.hoeffding_radius(24, delta, scale="pass_rate"))
        uniform = radius_broken(rate, n, theory.uniform_radius(n, 24, delta, scale="pass_rate"))
        assert at_one <= constant <= delta
        assert uniform <= delta
    assert radius_broken(0.5, n, theory.hoeffding_radius(n, delta, scale="pass_rate")) > 2 * delta


# ---------------------------------------------------------------- one skill at a time; speed; bad values


def test_a_library_waits_for_its_first_failure() -> None:
    by_look = operating([0.5], 0.1, 4, 5, every(4)).retired_by[0]
    chances = [(0.9**4) ** d * (1 - 0.9**4) for d in range(5)]
    expected = sum(c * by_look[4 - d] for d, c in enumerate(chances))
    assert library_retires([0.5], 0.9, 0.1, 4, 6, every(4), 4)[0] == pytest.approx(expected)
    assert library_retires([0.5], 0.9, 0.1, 4, 1, every(4), 4)[0] == 0.0


def test_a_full_curve_is_fast() -> None:
    """200 rates to 2000 trials: under a second was asked for; about 0.1 s on one core."""
    began = time.perf_counter()
    operating(np.linspace(0, 1, 200), 0.1, 24, 2000)
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: operating(1.5, 0.1, 24, 48), "rate"),
        (lambda: operating([[0.5]], 0.1, 24, 48), "rate"),
        (lambda: operating(0.5, 1.0, 24, 48), "tau"),
        (lambda: operating(0.5, 0.1, 0, 48), "n_min"),
        (lambda: operating(0.5, 0.1, 2.5, 48), "n_min"),  # type: ignore[arg-type]
        (lambda: operating(0.5, 0.1, 24, 0), "looks"),
        (lambda: operating(0.5, 0.1, 24, 10**7), "at most 10000 trials"),
        (lambda: operating(0.5, 0.1, 24, 1000, poisson(2.0)), "at most 1000 trials"),
        (lambda: every(0), "trials between looks"),
        (lambda: poisson(-1.0), "mean trials"),
        (lambda: poisson(1e-18), "mean trials"),
        (lambda: binomial(10, 1e-9), "mean trials"),
        (lambda: first_test(0.5, 0.1, 10**6), "n_min"),
        (lambda: binomial(5, 1.5), "share"),
        (lambda: operating(0.5, 0.1, 24, 48, 10), "cadence"),  # type: ignore[arg-type]
        (lambda: operating("a", 0.1, 24, 48), "rate"),  # type: ignore[arg-type]
        (lambda: radius_broken(0.5, np.arange(24, 49), [0.1, 0.2]), "radius"),
        (lambda: radius_broken([0.5, 0.6], [24], 0.1), "rate"),  # type: ignore[arg-type]
        (lambda: radius_broken(0.5, [48, 24], 0.1), "n:"),
        (lambda: smallest_n_min(0.4, 0.3, 0.1, 0.05, 0.05), "pi_tau"),
        (lambda: smallest_n_min(0.6, 0.3, 0.1, 0.0, 0.05), "alpha"),
        (lambda: smallest_n_min(0.46, 0.44, 0.1, 0.001, 0.001), "tell apart"),
        (lambda: smallest_n_min(0.5, 0.4, 0.1, 0.01, 0.01, within=100), "within"),
        (lambda: smallest_n_min(0.6, 0.3, 0.1, 0.01, 0.01, within=100, cadence=poisson(2.0)), "cadence"),
    ],
)
def test_bad_values_are_named(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
