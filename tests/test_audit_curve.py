"""Scores as a curve: rates to a count by hand, the choice to brute force, held-out rates that do not flatter, tasks that stay together."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from real_loop.audit import curve, scores
from real_loop.audit.cases import Cases
from sim.errors import InputError
from sim.operating import most_passes, operating
from sim.points import Point

POINT = Point(rho_fp=0.0, rho_pf=0.0, tau=0.1, n_min=24, cap=12)
FALSE_ALARM = 1e-5  # of each test of a mean, two-sided


def made(truth: np.ndarray, score: np.ndarray, task: np.ndarray | None = None, verdict: np.ndarray | None = None) -> Cases:
    """Cases of one judge, each row its own case; its own task too where none are given."""
    n = len(truth)
    each = np.array([f"c{i}" for i in range(n)])
    tasks = each if task is None else np.array([f"t{i}" for i in task])
    return Cases(truth, verdict, score, np.full(n, ""), tasks, each, np.full(n, "j"), np.ones(n), task is not None)


def some(n: int, tasks: int | None, shift: float, seed: int = 0, effect: float = 0.5) -> Cases:
    """Scores that are normal, higher by ``shift`` for true passes and alike within a task; half of the rows pass."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % 2 == 0)
    task = rng.integers(tasks, size=n) if tasks else None
    score = shift * truth + rng.normal(size=n) + (0.0 if task is None else effect * rng.normal(size=tasks)[task])
    return made(truth, score, task)


rows = st.lists(st.tuples(st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, 3.0])), min_size=2, max_size=25)


@settings(max_examples=60, deadline=None)
@given(rows)
def test_rates_and_auc_are_counts(drawn: list[tuple[bool, int, float]]) -> None:
    """Ties, weights and both ends, to sums written out."""
    truth, score, weight = (np.array(x) for x in zip(*drawn, strict=True))
    if truth.all() or not truth.any():
        with pytest.raises(InputError, match="scores: got no true"):
            curve.roc(truth, score, weight)
        return
    found = curve.roc(truth, score, weight)
    assert found.threshold[0] == -np.inf
    assert found.threshold[-1] == np.inf
    assert set(found.threshold[1:-1]) == set(score.astype(float)) - {float(score.min())}
    for t, fp, pf in zip(found.threshold, found.rho_fp, found.rho_pf, strict=True):
        passed = [s >= t for s in score]
        for truth_of, errs, rate in ((False, True, fp), (True, False, pf)):
            of = [w for w, y in zip(weight, truth, strict=True) if y == truth_of]
            wrong = [w for w, y, p in zip(weight, truth, passed, strict=True) if y == truth_of and p == errs]
            assert rate == pytest.approx(sum(wrong) / sum(of))
    pairs = [(wp * wf, (sp > sf) + 0.5 * (sp == sf)) for yp, sp, wp in drawn if yp for yf, sf, wf in drawn if not yf]
    assert found.auc == pytest.approx(sum(w * x for w, x in pairs) / sum(w for w, _ in pairs))


@pytest.mark.parametrize("tau", [-0.5, 0.1, 0.6])
def test_the_part_inside_the_rectangle(tau: float) -> None:
    found = curve.roc(some(80, None, 1.0).truth, some(80, None, 1.0).score)
    pi = (1 - tau) / 2
    inside = [t for t, fp, pf in zip(found.threshold, found.rho_fp, found.rho_pf, strict=True) if fp < pi - 1e-9 and pf < 1 - pi - 1e-9]
    part = curve.governable(found, tau)
    assert part is not None
    assert (part.low, part.high, part.thresholds) == (inside[0], inside[-1], len(inside))
    assert curve.governable(curve.roc(np.array([True, False]), np.array([0.0, 1.0])), tau) is None  # the wrong way round


# ---------------------------------------------------------------- the choice


def power_by_coin(good: float, bad: float, n: int, alpha: float) -> float:
    """P(bad kept) of the test that loses good with chance alpha, by adding outcomes up from no pass on."""
    left, gone = alpha, 0.0
    for s in range(n + 1):
        share = min(1.0, left / binom.pmf(s, n, good)) if binom.pmf(s, n, good) > 0 else float(left > 0)
        gone += share * binom.pmf(s, n, bad)
        left -= share * binom.pmf(s, n, good)
        if left <= 1e-15:
            break
    return 1.0 - gone


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_choice_is_that_of_brute_force(seed: int, fixed: bool) -> None:
    cases = some(60, None, 1.2, seed)
    assert cases.score is not None
    fails, passes = cases.score[~cases.truth], cases.score[cases.truth]
    worth = {}
    for t in [-np.inf, *sorted(set(cases.score))[1:], np.inf]:
        fp, pf = ((fails >= t).sum() + 0.5) / (len(fails) + 1), ((passes < t).sum() + 0.5) / (len(passes) + 1)
        good, bad = (p * (1 - pf) + (1 - p) * fp for p in (POINT.good, POINT.bad))
        if fixed:
            kept = [operating(r, 0.1, 24, 48).kept[0] for r in (good, bad)]
            worth[t] = max((1 - kept[0]) / POINT.alpha, kept[1] / POINT.beta)
        else:
            worth[t] = power_by_coin(good, bad, 48, POINT.alpha)
    found = curve.roc(cases.truth, cases.score)
    chosen = found.threshold[curve.best(found, POINT, fixed)]
    assert worth[chosen] == pytest.approx(min(worth.values()), abs=1e-12)
    youden = found.threshold[np.argmin(found.rho_fp + found.rho_pf)]
    assert worth[youden] >= worth[chosen] - 1e-12


def test_many_thresholds_are_as_good_as_read_off(monkeypatch: pytest.MonkeyPatch) -> None:
    found = curve.roc(some(3000, None, 1.0).truth, some(3000, None, 1.0).score)
    quick = curve.best(found, POINT, True)
    monkeypatch.setattr(curve, "FINE", 10**6)
    exact = curve.best(found, POINT, True)
    assert found.rho_fp[quick] == pytest.approx(found.rho_fp[exact], abs=2e-3)
    assert found.rho_pf[quick] == pytest.approx(found.rho_pf[exact], abs=2e-3)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.02, 1.0), st.integers(2, 400), st.sampled_from([0.01, 0.05, 0.2]))
def test_a_margin_holds_alpha_and_one_more_pass_would_not(good: float, trials: int, alpha: float) -> None:
    tau = curve.margin_at(good, trials, alpha)
    if tau is None:
        assert binom.cdf(0, trials, good) > alpha or good == 1.0
        return
    low = int(most_passes(tau, 1, trials)[-1])
    assert binom.cdf(low, trials, good) <= alpha
    assert low + 1 >= trials or binom.cdf(low + 1, trials, good) > alpha


# ---------------------------------------------------------------- held out


def test_choosing_and_reporting_on_the_same_cases_flatters_noise_and_held_out_rates_do_not() -> None:
    """Scores that say nothing, 20 cases of each truth: kappa is 0. A false alarm has a chance of FALSE_ALARM on either side."""
    rng, limit = np.random.default_rng(1), norm.isf(FALSE_ALARM / 2)
    truth = np.arange(40) % 2 == 0
    held, flattered = [], []
    for i in range(100):
        found = curve.choose(made(truth, rng.normal(size=40)), POINT, seed=i, folds=4)
        fp, pf = found.held_out.rho_fp.value, found.held_out.rho_pf.value
        assert fp is not None
        assert pf is not None
        held.append(1 - fp - pf)
        flattered.append(1 - sum(found.in_sample))
        assert found.optimism[2] == pytest.approx(flattered[-1] - held[-1])
    z = [np.mean(x) / (np.std(x, ddof=1) / np.sqrt(len(x))) for x in (held, flattered)]
    assert abs(z[0]) < limit
    assert z[1] > limit  # the broken variant, seen at once
    assert np.mean(flattered) > 0.1


def test_held_out_rates_are_those_of_the_thresholds() -> None:
    """Normal scores, whose rates at each fold's threshold are known: no bias. A false alarm has a chance of 2 FALSE_ALARM."""
    gaps = []
    for i in range(60):
        found = curve.choose(some(60, None, 1.0, seed=i), POINT, seed=i)
        true_fp, true_pf = norm.sf(found.by_fold).mean(), norm.cdf(found.by_fold - 1.0).mean()
        assert found.held_out.rho_fp.value is not None
        assert found.held_out.rho_pf.value is not None
        gaps.append((found.held_out.rho_fp.value - true_fp, found.held_out.rho_pf.value - true_pf))
    z = np.mean(gaps, axis=0) / (np.std(gaps, axis=0, ddof=1) / np.sqrt(len(gaps)))
    assert (np.abs(z) < norm.isf(FALSE_ALARM / 2)).all()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=10, max_size=60), st.integers(2, 6), st.integers(0, 99))
def test_rows_of_a_task_are_never_on_both_sides(drawn: list[tuple[int, bool]], folds: int, seed: int) -> None:
    task, truth = (np.array(x) for x in zip(*drawn, strict=True))
    cases = made(truth, np.arange(len(task)) * 1.0, task)
    fold, unit = curve.folds_of(cases, folds, seed)
    tasks = len(set(task))
    assert unit == ("task" if tasks >= folds else "case")  # each row is a case of its own here
    assert len(set(fold)) == folds
    if unit == "task":
        assert all(len(set(fold[task == t])) == 1 for t in set(task))
        sizes = np.bincount([fold[task == t][0] for t in set(task)], minlength=folds)
        assert sizes.max() - sizes.min() <= 1


def test_a_threshold_that_knows_the_task_is_not_reported() -> None:
    """Each task has its own two scores, which no other task shares. Split by row the curve would look perfect; by task it is a coin."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(40), 10)
    truth = rng.permutation(np.arange(40) % 2 == 0)[task]  # all rows of a task alike
    score = rng.normal(size=40)[task]
    by_task = curve.choose(made(truth, score, task), POINT)
    rate = by_task.held_out.rho_fp
    assert rate.exact is not None
    assert rate.used.high - rate.used.low > 2.5 * (rate.exact.high - rate.exact.low)  # 20 tasks, not 200 rows
    by_row = curve.choose(made(truth, score), POINT)
    assert by_row.unit == "row"
    assert "Each row was taken for a task" in " ".join(scores.scores(made(truth, score), POINT, resamples=20).words)
    assert by_row.optimism[2] < by_task.optimism[2]  # what the rows tell each other goes unseen


# ---------------------------------------------------------------- all together


@pytest.mark.slow
def test_the_interval_of_auc_covers() -> None:
    """Clustered scores, true AUC by the normal law; nominal 95 %. At 92 % coverage, fewer than 44 of 60 have a chance of 1e-5."""
    true = norm.cdf(1.0 / np.sqrt(2 * (1 + 0.25)))
    hits = 0
    for i in range(60):
        cases = some(200, 50, 1.0, seed=i)
        assert cases.score is not None
        found, _, _ = scores._resampled(cases, curve.roc(cases.truth, cases.score), 0.95, 200, i)
        assert found is not None
        hits += found.low <= true <= found.high
    assert hits >= 44


def test_verdicts_are_compared_at_their_own_rho_fp() -> None:
    cases = some(400, None, 1.5)
    assert cases.score is not None
    on = scores.scores(replace(cases, verdict=cases.score >= 0.7), POINT, resamples=100)
    assert on.verdicts is not None
    assert on.verdicts.gain == pytest.approx(0.0, abs=1e-9)
    noisy = scores.scores(replace(cases, verdict=cases.score + 2 * np.random.default_rng(1).normal(size=400) >= 0.7), POINT, resamples=100)
    assert noisy.verdicts is not None
    assert noisy.verdicts.gain_interval is not None
    assert noisy.verdicts.gain_interval.low > 0


def test_what_cannot_be_chosen_is_said() -> None:
    with pytest.raises(InputError, match="no true passes"):
        curve.choose(made(np.zeros(9, bool), np.arange(9.0)), POINT)
    with pytest.raises(InputError, match="verdicts alone"):
        curve.choose(replace(some(9, None, 1.0), score=None), POINT)
    with pytest.raises(InputError, match="finite"):
        curve.roc(np.array([True, False]), np.array([np.nan, 1.0]))
    two = scores.scores(made(np.array([True, False]), np.array([1.0, 0.0])), POINT)  # one row on each side: rates, but wide ones
    assert two.at_tau.held_out.rho_fp.used.high > 0.9
    assert not two.at_tau.inside
    assert two.auc_interval is None


def test_everything_is_json_and_the_same_twice() -> None:
    first, again = (json.dumps(scores.plain(scores.scores(some(90, 30, 1.0), POINT, seed=3)), allow_nan=False) for _ in range(2))
    assert first == again


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    from real_loop.audit import curve_figure
    from sim.figures import style

    cases = some(90, 30, 1.0)
    assert cases.score is not None
    found = scores.scores(replace(cases, verdict=cases.score > 0), POINT)
    with style.context():
        figure = curve_figure.draw(found, 0.1, "a judge")
        written = style.save(figure, tmp_path, "curve")
    assert [p.name for p in written] == ["curve.png", "curve.svg"]
    (ax,) = figure.axes
    at = found.at_tau.held_out
    points = [(float(x), float(y)) for line in ax.lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]
    for point in ((at.rho_fp.value, at.rho_pf.value), found.at_tau.in_sample, (found.verdicts.rho_fp, found.verdicts.rho_pf)):  # type: ignore[union-attr]
        assert point in points


@pytest.mark.slow
def test_five_thousand_rows_take_about_a_second() -> None:
    cases = some(5000, 500, 1.0)
    scores.scores(cases, POINT)
    start = time.process_time()
    scores.scores(cases, POINT)
    assert time.process_time() - start < 2.0
