"""Votes to simulated and enumerated ones, two judges to tables written out, cures to the rule itself."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, norm

from real_loop.audit import ensemble, scores
from real_loop.audit.cases import Cases
from real_loop.audit.cures import Cure, cures, listed, nearest_tau
from sim import theory
from sim.errors import InputError
from sim.operating import ever_retired, first_test, smallest_n_min
from sim.points import Point

POINT = Point(rho_fp=0.0, rho_pf=0.0, tau=0.1, n_min=24, cap=12)
FALSE_ALARM = 1e-5  # of each test against simulation, two-sided


def calls(errors: list[tuple[bool, list[int]]], judge: str = "j") -> Cases:
    """Cases of a truth and calls that err (1) or not."""
    truth = np.array([t for t, e in errors for _ in e], bool)
    wrong = np.array([x for _, e in errors for x in e], bool)
    case = np.array([f"c{i}" for i, (_, e) in enumerate(errors) for _ in e])
    n = len(truth)
    return Cases(truth, truth != wrong, None, np.full(n, ""), case, case, np.full(n, judge), np.ones(n), True)


def mixed(cases: int, k: int, seed: int, a: float = 1.0, b: float = 3.0) -> Cases:
    """Cases whose chance of an error is Beta(a, b): mean a / (a + b), correlation 1 / (a + b + 1)."""
    rng = np.random.default_rng(seed)
    p = rng.beta(a, b, cases)
    return calls([(i % 2 == 0, (rng.random(k) < p[i]).astype(int).tolist()) for i in range(cases)])


def together(first: Cases, second: Cases) -> Cases:
    """The rows of both."""
    names = ("truth", "verdict", "cls", "task", "case", "judge", "weight")
    return replace(first, **{name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in names})


# ---------------------------------------------------------------- votes


@pytest.mark.parametrize("rule", ensemble.RULES)
@pytest.mark.parametrize("truth", [False, True])
def test_the_rules_are_what_they_say(rule: ensemble.Rule, truth: bool) -> None:
    passes = {"majority": lambda v: sum(v) > len(v) / 2, "all": all, "any": any}[rule]
    for k in (1, 3, 5):
        least = ensemble.fewest_errors(rule, k, truth)
        for verdicts in itertools.product((False, True), repeat=k):
            errors = sum(v != truth for v in verdicts)
            assert (passes(verdicts) != truth) == (errors >= least)
    with pytest.raises(InputError, match="odd"):
        ensemble.fewest_errors("majority", 4, truth)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.02, 0.98), st.floats(0.0, 1.0), st.sampled_from([3, 5, 7]))
def test_votes_of_a_beta_binomial_by_integration(mean: float, correlation: float, k: int) -> None:
    for errors in (1, k // 2 + 1, k):
        found = float(ensemble.at_least(errors, k, np.array(mean), np.array(correlation)))
        bounds = ensemble.bounds(errors, k, mean)
        assert bounds.low - 1e-5 <= found <= bounds.high + 1e-5
        if 0.02 < correlation < 0.9:
            size = 1 / correlation - 1
            x = beta.ppf((np.arange(2_000) + 0.5) / 2_000, mean * size, (1 - mean) * size)
            assert found == pytest.approx(binom.sf(errors - 1, k, x).mean(), abs=1e-3)


def test_the_ends_of_correlation_and_of_what_is_known() -> None:
    for k in (3, 5, 7):
        least = k // 2 + 1
        assert float(ensemble.at_least(least, k, np.array(0.3), np.array(1.0))) == 0.3
        assert float(ensemble.at_least(least, k, np.array(0.3), np.array(0.0))) == pytest.approx(binom.sf(k // 2, k, 0.3))
    worst = ensemble.bounds(2, 3, 0.2)  # cases that err with chance 3/4, or never: 9/8 of the rate of a call
    assert worst.high == pytest.approx(9 / 8 * 0.2, abs=1e-5)
    assert worst.low == pytest.approx(3 * 0.2**2 - 2 * 0.2**3, abs=1e-5)
    assert ensemble.bounds(3, 3, 0.2) == pytest.approx((0.2**3, 0.2), abs=1e-5)


def test_counted_votes_are_all_subsets() -> None:
    errors = [
        (False, [1, 1, 0, 0, 0]),
        (False, [1, 0, 0, 1, 1]),
        (True, [0, 0, 0, 0, 1]),
        (True, [1, 1, 1, 1, 1]),
        (False, [0, 0, 0, 0, 0]),
    ]
    found = ensemble.repeats(calls(errors), (3, 5), resamples=50)
    for vote in found.votes:
        for truth, rate in ((False, vote.rho_fp), (True, vote.rho_pf)):
            least = ensemble.fewest_errors(vote.rule, vote.calls, truth)
            shares = [
                sum(sum(part) >= least for part in itertools.combinations(e, vote.calls)) / comb(5, vote.calls)
                for t, e in errors
                if t == truth
            ]
            assert rate.counted == pytest.approx(np.mean(shares))
            assert rate.value == rate.counted


def test_mean_correlation_and_votes_of_simulated_calls() -> None:
    """Beta(1, 3): mean 1/4, correlation 1/5, votes by quadrature; the model even for more calls than there were.

    Means over 40 files of 160 cases; a false alarm has a chance of FALSE_ALARM each. Were calls taken as independent, all but the
    mean would be off.
    """
    x = beta.ppf((np.arange(20_000) + 0.5) / 20_000, 1, 3)
    true = {k: binom.sf(k // 2, k, x).mean() for k in (3, 7)}
    got, alone = [], []
    for seed in range(40):
        found = ensemble.repeats(mixed(160, 4, seed), (3, 7), resamples=2)
        votes = {v.calls: v.rho_fp for v in found.votes if v.rule == "majority"}
        got.append([found.fails.mean, found.fails.correlation, votes[3].counted, votes[3].model, votes[7].value])
        alone.append(votes[7].independent)
    expected = np.array([0.25, 0.2, true[3], true[3], true[7]])
    values = np.array(got, float)
    se = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    bias = np.array([0.0, 0.005, 0.0, 0.003, 0.003])  # of ratios of estimates, at 80 cases
    assert (np.abs(values.mean(axis=0) - expected) < norm.isf(FALSE_ALARM / 2) * se + bias).all()
    assert np.mean(alone) < true[7] - 0.05


@pytest.mark.slow
def test_intervals_of_votes_cover() -> None:
    """Nominal 95 %. At 90 % coverage fewer than 39 of 60 have a chance below 1e-6."""
    x = beta.ppf((np.arange(20_000) + 0.5) / 20_000, 1, 3)
    hits = np.zeros(2)
    for seed in range(60):
        found = ensemble.repeats(mixed(120, 3, seed), (3, 5), resamples=200)
        votes = {v.calls: v.rho_fp for v in found.votes if v.rule == "majority"}
        hits += [votes[k].interval.low <= binom.sf(k // 2, k, x).mean() <= votes[k].interval.high for k in (3, 5)]
    assert (hits >= 39).all()


def test_without_repeats_only_bounds_are_known() -> None:
    found = ensemble.repeats(calls([(i % 2 == 0, [int(i % 5 == 0)]) for i in range(100)]), resamples=50)
    assert found.fails.correlation is None
    assert "Ask about each case several times" in found.words[0]
    for vote in found.votes:
        if vote.calls > 1:
            assert vote.rho_fp.value is None
            assert vote.rho_fp.interval.low <= vote.rho_fp.bounds.low <= vote.rho_fp.bounds.high <= vote.rho_fp.interval.high
    assert not [c for c in cures((0.2, 0.2), ((0.1, 0.3), (0.1, 0.3)), POINT, found.votes) if c.kind == "vote"]


def test_no_error_at_all_is_no_certainty() -> None:
    found = ensemble.repeats(calls([(i % 2 == 0, [0, 0, 0]) for i in range(20)]), (3,), resamples=50)
    vote = found.votes[0]
    assert vote.rho_fp.value == 0.0
    assert vote.rho_fp.interval.high > 0.25  # ten cases
    assert json.dumps(scores.plain(found), allow_nan=False)


def test_one_truth_alone_has_one_rate() -> None:
    found = ensemble.repeats(calls([(False, [0, 1, 0]), (False, [1, 1, 0])]), (3,), resamples=50)
    assert found.passes.mean is None
    assert found.votes[0].rho_fp.value is not None
    assert found.votes[0].rho_pf.value is None


# ---------------------------------------------------------------- two judges


def test_a_union_is_a_table_of_cases() -> None:
    """Judges fooled by the same cases: independence would promise 0.16 hidden failures of both, there are 0.4."""
    fails, passes = [(1, 1)] * 4 + [(0, 0)] * 6, [(0, 1)] * 2 + [(1, 0)] * 3 + [(0, 0)] * 5
    cases = [(False, pair) for pair in fails] + [(True, pair) for pair in passes]
    a, b = (calls([(t, [pair[i]]) for t, pair in cases], name) for i, name in ((0, "a"), (1, "b")))
    both = ensemble.union(together(a, b), "a", "b", resamples=200, calls=(1, 0))
    assert both.rho_fp is not None
    assert both.rho_pf is not None
    assert (both.rho_fp.value, both.rho_fp.independent, both.rho_fp.correlation) == pytest.approx((0.4, 0.16, 1.0))
    assert (both.rho_pf.value, both.rho_pf.independent) == pytest.approx((0.5, 1 - 0.7 * 0.8))
    assert both.rho_pf.correlation == pytest.approx(np.corrcoef(np.array(passes).T)[0, 1])
    assert (both.calls, both.cases, both.left_out) == (1.0, 20, 0)
    either = ensemble.union(together(a, b), "a", "b", both=False, resamples=200)
    assert either.rho_fp is not None
    assert either.rho_pf is not None
    assert (either.rho_fp.value, either.rho_pf.value, either.rho_pf.independent) == pytest.approx((0.4, 0.0, 0.06))
    assert either.calls == 2.0


def test_repeated_calls_of_two_judges_pair_up() -> None:
    a = calls([(False, [1, 0]), (True, [0, 1])], "a")
    b = calls([(False, [1, 1, 0]), (True, [0])], "b")
    order = np.random.default_rng(0).permutation(8)  # the order of rows says nothing
    found = ensemble.union(together(a, b).of(order), "a", "b", resamples=50)
    assert found.rho_fp is not None
    assert found.rho_pf is not None
    assert (found.rho_fp.value, found.rho_pf.value) == pytest.approx((1 / 2 * 2 / 3, 1 / 2))
    assert (found.rho_fp.first, found.rho_fp.second) == pytest.approx((1 / 2, 2 / 3))


def test_what_does_not_match_is_refused() -> None:
    a, b = calls([(False, [1]), (True, [0])], "a"), calls([(False, [1]), (True, [0])], "b")
    apart = replace(b, case=np.array(["x", "y"]))
    with pytest.raises(InputError, match="no case that both a and b judged"):
        ensemble.union(together(a, apart), "a", "b")
    with pytest.raises(InputError, match="one truth per case"):
        ensemble.union(together(a, replace(b, truth=~b.truth)), "a", "b")
    with pytest.raises(InputError, match="one of a, b"):
        ensemble.union(together(a, b), "a", "c")
    with pytest.raises(InputError, match="twice"):
        ensemble.union(together(a, b), "a", "a")
    with pytest.raises(InputError, match="calls of one judge"):
        ensemble.repeats(together(a, b))


# ---------------------------------------------------------------- cures


def by_kind(found: list[Cure]) -> dict[str, Cure]:
    return {c.kind: c for c in found}


@settings(max_examples=12, deadline=None)
@given(st.floats(0.0, 0.6), st.floats(0.0, 0.6), st.floats(0.0, 0.08), st.floats(0.0, 0.08))
def test_what_helps_does_what_it_says(rho_fp: float, rho_pf: float, wide: float, tall: float) -> None:
    """By the rule itself, and no trial fewer would do; what does not help has a reason."""
    ends = ((max(rho_fp - wide, 0.0), rho_fp + wide), (max(rho_pf - tall, 0.0), rho_pf + tall))
    found = cures((rho_fp, rho_pf), ends, POINT)
    helps, reasons = listed(found)
    assert len(helps) + len(reasons) == len(found) == 3
    assert all(reasons)
    prices = [(np.inf if c.n_min_sure is None else c.n_min_sure * c.calls, c.cost) for c in helps]
    assert prices == sorted(prices)
    for c in helps:
        good, bad = theory.observed_rate([POINT.good, POINT.bad], rho_fp, rho_pf)
        assert c.n_min is not None
        lost, kept = ever_retired([good], c.tau, c.n_min)[0], 1 - first_test([bad], c.tau, c.n_min)[0]
        assert lost <= POINT.alpha + 1e-9
        assert kept <= POINT.beta
        if c.n_min > 1:
            before = ever_retired([good], c.tau, c.n_min - 1)[0], 1 - first_test([bad], c.tau, c.n_min - 1)[0]
            assert before[0] > POINT.alpha - 1e-9 or before[1] > POINT.beta
        pi = (1 - c.tau) / 2
        assert c.sure == (ends[0][1] < pi - 1e-12 and ends[1][1] < 1 - pi - 1e-12)
        if c.n_min_sure is not None:
            assert c.lost_worst is not None
            assert c.n_min_sure >= c.n_min or c.lost_worst > POINT.alpha  # the ends are never easier
    if 1 - rho_fp - rho_pf <= 0:
        assert not helps
        assert all("nothing inside the rule helps" in reason for reason in reasons)


def test_the_corrected_tau_is_that_of_theory() -> None:
    tau = by_kind(cures((0.5, 0.0), ((0.45, 0.55), (0.0, 0.05)), replace(POINT, bad=0.2)))["tau"]
    assert tau.tau == pytest.approx(float(theory.corrected_tau(0.1, 0.5, 0.0)))
    assert (tau.n_min, tau.n_min_clean) == (113, 41)  # as in README
    assert tau.tau_low == pytest.approx(float(theory.corrected_tau(0.1, 0.55, 0.0)), abs=0.006)
    assert tau.tau_high == pytest.approx(float(theory.corrected_tau(0.1, 0.45, 0.05)), abs=0.006)
    assert tau.helps
    assert not by_kind(cures((0.5, 0.0), ((0.45, 0.55), (0.0, 0.05)), replace(POINT, bad=0.2)))["n_min"].helps


@settings(max_examples=100, deadline=None)
@given(st.integers(-90, 90), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_nearest_rectangle(hundredths: int, rho_fp: float, rho_pf: float) -> None:
    tau = hundredths / 100
    found = nearest_tau(tau, rho_fp, rho_pf)
    grid = [k / 100 for k in range(-99, 100) if rho_fp < (1 - k / 100) / 2 - 1e-11 and rho_pf < (1 + k / 100) / 2 - 1e-11]
    if grid:
        assert found is not None
        assert abs(found - tau) == pytest.approx(min(abs(t - tau) for t in grid), abs=1e-9)
    if found is not None:
        assert rho_fp < (1 - found) / 2
        assert rho_pf < (1 + found) / 2
    if rho_fp + rho_pf >= 1:
        assert found is None


def test_a_threshold_and_votes_are_priced_at_their_own_rates() -> None:
    """A judge that is indiscriminate as it is; its score, thresholded, is not. Three calls pay in trials, never in calls."""
    rng = np.random.default_rng(0)
    truth = np.arange(800) % 2 == 0
    score = 2.0 * truth + rng.normal(size=800)
    each = np.array([f"c{i}" for i in range(800)])
    cases = Cases(truth, score > 3, score, np.full(800, ""), each, each, np.full(800, "j"), np.ones(800), False)
    verdicts = ((0.002, 0.84), ((0.0, 0.02), (0.8, 0.88)))
    found = cures(*verdicts, POINT, curve=scores.scores(cases, POINT, resamples=50))
    threshold = found[0]
    assert threshold.kind == "threshold"
    assert threshold.helps
    good, bad = theory.observed_rate([POINT.good, POINT.bad], threshold.rho_fp, threshold.rho_pf)
    assert threshold.n_min == smallest_n_min(float(good), float(bad), threshold.tau, 0.05, 0.05).n_min
    votes = ensemble.repeats(mixed(400, 5, 0, 1.5, 3.0), (1, 3, 5), resamples=50)
    assert votes.fails.mean is not None
    assert votes.passes.mean is not None
    alone = (votes.fails.mean, votes.passes.mean), (votes.fails.mean_interval, votes.passes.mean_interval)
    priced = [c for c in cures(*alone, POINT, votes.votes) if c.kind == "vote"]
    assert len(priced) == 6  # one call is no vote
    for c in priced:
        if c.helps:
            assert c.n_min is not None
            assert c.cost == c.n_min * c.calls
            assert "calls a trial" in c.sentence


def test_cures_are_json_and_refuse_what_is_no_interval() -> None:
    found = cures((0.3, 0.2), ((0.2, 0.4), (0.1, 0.3)), POINT)
    assert json.dumps(scores.plain(found), allow_nan=False)
    with pytest.raises(InputError, match="interval of rho_pf"):
        cures((0.3, 0.2), ((0.2, 0.4), (0.3, 0.1)), POINT)


@pytest.mark.slow
def test_votes_and_cures_of_five_thousand_rows_take_about_a_second() -> None:
    cases = mixed(1000, 5, 0, 1.0, 4.0)

    def all_of_it() -> None:
        votes = ensemble.repeats(cases)
        cures((0.2, 0.2), ((0.15, 0.25), (0.15, 0.25)), POINT, votes.votes)

    all_of_it()
    start = time.process_time()
    all_of_it()
    assert time.process_time() - start < 2.0
