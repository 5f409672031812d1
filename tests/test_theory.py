"""Closed forms to the papers' numbers, to their definitions and to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import theory
from sim.errors import InputError

rates = st.floats(0.0, 0.49)
taus = st.floats(-0.95, 0.95)


def test_numbers_of_the_papers() -> None:
    assert theory.pi_tau(0.1) == 0.45
    assert theory.hoeffding_radius(100, 1e-3, scale="chat") == pytest.approx(0.39, abs=0.005)
    assert theory.hoeffding_radius(20, 1e-3, scale="pass_rate") == pytest.approx(0.44, abs=0.005)  # RT quotes it as if on the other scale
    assert 0.5 - theory.floor_clean(0.5, 0.1, 100, 50, 1e-3, scale="pass_rate") == pytest.approx(0.295, abs=5e-4)
    assert theory.kappa(0.01, 0.95) == pytest.approx(0.04)
    assert theory.tau_eff(0.1, 0.3) == pytest.approx(0.25)
    assert theory.evidence_inflation(0.3, 0.3) == pytest.approx(6.25)
    assert theory.region(0.1, 0.01, 0.95) == "indiscriminate"


def test_regions_and_their_edges() -> None:
    found = theory.region(0.1, [0.0, 0.4499, 0.45, 0.0, 0.0, 0.45, 0.9], [0.0, 0.5499, 0.0, 0.55, 0.5499, 0.55, 0.9])
    assert found.tolist() == ["governable", "governable", "blind", "indiscriminate", "governable", "inverted", "inverted"]
    for tau, pi in ((0.7, 0.15), (0.3, 0.35), (-0.3, 0.65), (0.9, 0.05)):  # 1 - 0.7 is not 0.3 in binary
        assert theory.region(tau, pi, 0.0) == "blind"
        assert theory.region(tau, 0.0, round(1 - pi, 10)) == "indiscriminate"


@given(taus, rates, rates)
def test_a_region_is_what_unlimited_evidence_does_to_the_best_and_the_worst_skill(tau: float, rho_fp: float, rho_pf: float) -> None:
    never, always = theory.observed_rate(0.0, rho_fp, rho_pf), theory.observed_rate(1.0, rho_fp, rho_pf)
    pi = theory.pi_tau(tau)
    if min(abs(never - pi), abs(always - pi)) > 1e-9:
        name = {(True, False): "governable", (False, False): "blind", (True, True): "indiscriminate"}[never <= pi, always <= pi]
        assert theory.region(tau, rho_fp, rho_pf) == name
        assert (0 < theory.p_star(tau, rho_fp, rho_pf) < 1) == (name == "governable")


@given(st.floats(0.0, 1.0), rates, rates)
def test_the_inversion_inverts(p: float, rho_fp: float, rho_pf: float) -> None:
    assert theory.true_rate(theory.observed_rate(p, rho_fp, rho_pf), rho_fp, rho_pf) == pytest.approx(p, abs=1e-9)


@given(taus, rates, rates)
def test_the_corrected_threshold_is_where_pi_tau_lands(tau: float, rho_fp: float, rho_pf: float) -> None:
    corrected = theory.corrected_tau(tau, rho_fp, rho_pf)
    assert -1 < corrected < 1
    assert theory.p_star(corrected, rho_fp, rho_pf) == pytest.approx(theory.pi_tau(tau), abs=1e-8)


def test_a_corrected_tau_is_a_plain_decimal() -> None:
    assert theory.corrected_tau(0.1, 0.3, 0.0) == -0.23


@given(st.floats(0.0, 1.0), taus, st.integers(1, 500), st.integers(1, 50), st.floats(1e-6, 0.1), rates, rates)
def test_floors_are_in_their_order(p0: float, tau: float, n: int, cap: int, delta: float, rho_fp: float, rho_pf: float) -> None:
    policy, judge = (tau, n, cap, delta), (rho_fp, rho_pf)
    tight = theory.floor_channel(p0, *policy, *judge, scale="pass_rate")
    printed = theory.floor_printed(p0, *policy, *judge, scale="pass_rate")
    clean = theory.floor_clean(p0, *policy, scale="pass_rate")
    assert printed <= tight + 1e-12 or printed > p0 - cap * delta  # a rise is not promised
    assert tight <= p0 - cap * delta
    assert theory.floor_printed(p0, *policy, 0.0, 0.0, scale="pass_rate") == pytest.approx(clean)
    radius = theory.hoeffding_radius(n, delta, scale="pass_rate")
    low = theory.survivor_rate(tau, radius, *judge)
    k = theory.kappa(*judge)
    if 0 < low < 0.5:
        assert tight - printed == pytest.approx((1 - k**2) / (2 * k))
    assert theory.floor_tasks([0.5], *policy, *judge, scale="pass_rate") == pytest.approx(
        theory.floor_channel(0.5, *policy, *judge, scale="pass_rate")
    )
    assert theory.floor_channel(p0, *policy, *judge, scale="chat") == pytest.approx(2 * tight - 1)


def test_the_papers_weakening_step_goes_the_wrong_way() -> None:
    """RT App. F bounds survivors with the lower bound of kappa; phantom failures that do not happen then promise too much."""
    radius = theory.hoeffding_radius(100, 1e-3, scale="pass_rate")
    truth = theory.survivor_rate(0.1, radius, 0.0, 0.0)
    assert theory.survivor_rate(0.1, radius, 0.0, 0.4) > truth  # "weakened" by kappa >= 0.6
    bounds = [theory.survivor_rate(0.1, radius, 0.1, pf) for pf in (0.0, 0.2, 0.4)]
    assert bounds == sorted(bounds)


def test_floor_of_tasks_is_below_each_task_and_averages_them() -> None:
    p0 = np.array([[0.1, 0.9], [0.5, 0.5]])
    low = theory.survivor_rate(0.1, theory.hoeffding_radius(400, 1e-3, scale="pass_rate"), 0.1, 0.1)
    found = theory.floor_tasks(p0, 0.1, 400, 1, 1e-3, 0.1, 0.1, scale="pass_rate")
    assert found == pytest.approx([(0.1 + low) / 2 - 1e-3, low - 1e-3])


def test_the_floor_of_a_mean_is_that_of_the_worst_tasks() -> None:
    """Tasks that pass always or never, in the share of the mean, do worst; no other tasks of that mean do worse."""
    rng = np.random.default_rng(2)
    policy, judge = (0.1, 400, 3, 1e-3), (0.1, 0.2)
    for _ in range(50):
        p0 = rng.beta(*rng.uniform(0.1, 2.0, 2), 200)
        worst = theory.floor_mean(p0.mean(), *policy, *judge, scale="pass_rate")
        assert worst <= theory.floor_tasks(p0, *policy, *judge, scale="pass_rate") + 1e-12
    extreme = np.repeat([0.0, 1.0], [130, 70])
    reached = theory.floor_tasks(extreme, *policy, *judge, scale="pass_rate")
    assert theory.floor_mean(0.35, *policy, *judge, scale="pass_rate") == pytest.approx(reached)


def test_arrays_broadcast() -> None:
    q = np.linspace(0, 0.4, 5)
    assert theory.p_star(0.1, q, 0.1).shape == (5,)
    assert theory.floor_printed(0.5, 0.1, 24, 12, 1e-3, q[:, None], q[None, :], scale="chat").shape == (5, 5)
    assert theory.hoeffding_radius([24, 100], 1e-3, scale="chat").shape == (2,)


def test_the_shrinking_radius_shrinks_and_is_narrowest_when_tuned_to_its_trials() -> None:
    n = np.array([100, 200, 400, 1600])
    radius = theory.uniform_radius(n, 100, 1e-3, scale="pass_rate")
    assert (np.diff(radius) < 0).all()
    assert radius[0] > theory.hoeffding_radius(100, 1e-3, scale="pass_rate")
    assert radius[-1] < theory.hoeffding_radius(100, 1e-3, scale="pass_rate")
    for tuned in (25, 50, 200, 400):
        assert theory.uniform_radius(100, tuned, 1e-3, scale="pass_rate") > radius[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.p_star(0.1, 0.5, 0.5), "kappa"),
        (lambda: theory.true_rate(0.3, [0.1, 0.7], 0.4), "kappa"),
        (lambda: theory.tau_eff(0.1, 0.5), "kappa"),
        (lambda: theory.corrected_tau(0.1, 0.6, 0.6), "kappa"),
        (lambda: theory.floor_channel(0.5, 0.1, 24, 12, 1e-3, 0.3, 0.7, scale="chat"), "kappa"),
        (lambda: theory.kappa(1.2, 0.0), "rho_fp"),
        (lambda: theory.kappa(0.2, float("nan")), "rho_pf"),
        (lambda: theory.pi_tau(1.0), "tau"),
        (lambda: theory.pi_tau("low"), "tau"),  # type: ignore[arg-type]
        (lambda: theory.kappa([0.1, [0.2]], 0.0), "rho_fp"),  # type: ignore[list-item]
        (lambda: theory.hoeffding_radius(0, 1e-3, scale="chat"), "n:"),
        (lambda: theory.hoeffding_radius(10, 0.0, scale="chat"), "delta"),
        (lambda: theory.hoeffding_radius(10, 0.1, scale="chta"), "pass_rate or chat"),
        (lambda: theory.floor_clean(1.5, 0.1, 24, 12, 1e-3, scale="chat"), "p0"),
        (lambda: theory.floor_clean(0.5, 0.1, 24, 0, 1e-3, scale="chat"), "cap"),
    ],
)
def test_bad_values_are_named(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
