"""Sums: exact squares, means and errors against NumPy on the single runs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sim import sums
from sim.kernels import numba_kernel
from sim.tables import EVAL_BITS, derive
from sim.variables import METRIC, SERIES, SERIES_VARIABLES, VARIABLES
from tests.worlds import HARD_133, cell, rolling


@given(st.lists(st.integers(-(2**31), 2**31), min_size=2, max_size=30))
def test_squared_deviations_are_exact(values: list[int]) -> None:
    squares = [v * v for v in values]
    n, total = len(values), sum(values)
    got = sums.spread(np.int64(n), np.int64(total), np.int64(sum(s >> 32 for s in squares)), np.int64(sum(s & 0xFFFFFFFF for s in squares)))
    exact = (n * sum(squares) - total**2) / n
    assert abs(float(got) - exact) <= 1e-9 * max(exact, 1.0)


def test_a_constant_has_no_spread_after_billions_of_runs() -> None:
    """n = 2^31 - 1 runs of the value 123456789: naive floats would leave an error of thousands."""
    n, x = 2**31 - 1, 123_456_789
    square = x * x
    got = sums.spread(np.int64(n), np.int64(n * x), np.int64(n * (square >> 32)), np.int64(n * (square & 0xFFFFFFFF)))
    assert got == 0


def test_statistics_are_those_of_the_runs() -> None:
    cells = [cell(HARD_133, q, policy=rolling()) for q in (0.0, 0.2, 0.45)]
    tables = derive(cells)
    n = 400
    run = numba_kernel.run(tables, np.zeros(3, np.int32), 9, 0, n, keep_records=True)
    layout = sums.Layout(12)
    done = sums.statistics(layout, layout.pack(n, run.metrics, run.series, run.histogram), tables.cells)

    retired = run.records[:, :, METRIC["retired"]]
    np.testing.assert_allclose(done["retired"].mean, retired.mean(axis=1))
    np.testing.assert_allclose(done["retired"].sd, retired.std(axis=1, ddof=1))
    np.testing.assert_allclose(done["retired"].se, retired.std(axis=1, ddof=1) / np.sqrt(n))

    tail = run.records[:, :, METRIC["tail_eval"]] / 4 / 2**EVAL_BITS
    np.testing.assert_allclose(done["delta_clean"].mean, (tail - tail[0]).mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(done["delta_clean"].se, (tail - tail[0]).std(axis=1, ddof=1) / np.sqrt(n), atol=1e-12)
    assert done["delta_clean"].se[0] == 0

    trials, count = run.records[:, :, METRIC["retire_trials"]], retired
    ratio = trials.sum(axis=1) / count.sum(axis=1)
    np.testing.assert_allclose(done["retire_trials"].mean, ratio)
    residual = trials - ratio[:, None] * count
    np.testing.assert_allclose(done["retire_trials"].se, residual.std(axis=1, ddof=1) / np.sqrt(n) / count.mean(axis=1))

    series = run.series_records[..., SERIES.index("active")]
    np.testing.assert_allclose(done["active_by_round"].mean, series.mean(axis=1))
    np.testing.assert_allclose(done["active_by_round"].se, series.std(axis=1, ddof=1) / np.sqrt(n))
    np.testing.assert_allclose(done["divergence"].mean, run.records[:, :, METRIC["flips"]].mean(axis=1) / (80 * 12))

    passes = run.records[:, :, METRIC["tail_sampled"]] / (4 * 53)
    np.testing.assert_allclose(done["tail_sampled"].mean, passes.mean(axis=1))
    assert (run.histogram.sum(axis=1) == n).all()
    assert run.histogram[0, 5] == (retired[0] == 5).sum()


def test_what_was_not_recorded_is_not_a_number() -> None:
    tables = derive([cell(rho_fp=1.0)])
    run = numba_kernel.run(tables, np.zeros(1, np.int32), 9, 0, 5)
    layout = sums.Layout(14)
    done = sums.statistics(layout, layout.pack(5, run.metrics, run.series, run.histogram), tables.cells)
    assert np.isnan(done["tail_sampled"].mean).all()
    assert np.isnan(done["retire_trials"].mean).all()
    assert np.isfinite(done["eval_by_round"].mean[0, :12]).all()
    assert np.isnan(done["eval_by_round"].mean[0, 12:]).all()


# What each variable is, written out by hand: the metric, and what one unit of it is worth in a cell of HARD_133 (80 train and 53
# eval tasks, 12 rounds, window 4).
BY_HAND = {
    "tail_eval": ("tail_eval", 1 / 4 / 2**20), "first_eval": ("first_eval", 1 / 4 / 2**20), "peak_eval": ("peak_eval", 1 / 2**20),
    "floor_eval": ("floor_eval", 1 / 2**20), "lift": ("lift", 1 / 4 / 2**20), "rolling_gain": ("rolling_gain", 1 / 4 / 2**20),
    "tail_sampled": ("tail_sampled", 1 / 4 / 53), "first_sampled": ("first_sampled", 1 / 4 / 53), "peak_sampled": ("peak_sampled", 1 / 53),
    "divergence": ("flips", 1 / 80 / 12), "routed": ("routed", 1 / 80 / 12), "observed_failures": ("observed_failures", 1 / 12),
    "hidden_failures": ("hidden_failures", 1 / 12), "phantom_failures": ("phantom_failures", 1 / 12),
    **{name: (name, 1.0) for name in ("synthesised", "retired", "evicted", "deprecated", "rollbacks", "restored", "dropped",
                                      "active_final", "harmful_final", "wrongly_retired")},
}  # fmt: skip


def test_every_variable_has_its_unit() -> None:
    tables = derive([cell(HARD_133, 0.2, 0.1, policy=rolling())])
    run = numba_kernel.run(tables, np.zeros(1, np.int32), 9, 0, 50, keep_records=True)
    layout = sums.Layout(12)
    done = sums.statistics(layout, layout.pack(50, run.metrics, run.series, run.histogram), tables.cells)
    assert {*BY_HAND, "delta_clean", "retire_trials"} == set(VARIABLES)
    for name, (metric, unit) in BY_HAND.items():
        runs = run.records[0, :, METRIC[metric]] * unit
        assert runs.any(), f"{name} is zero in every run: the test says nothing"
        np.testing.assert_allclose([done[name].mean[0], done[name].sd[0]], [runs.mean(), runs.std(ddof=1)], err_msg=name)
    for name, variable in SERIES_VARIABLES.items():
        rounds = run.series_records[0, :, :, SERIES.index(variable.source)] * (2.0**-20 if name == "eval_by_round" else 1.0)
        np.testing.assert_allclose(done[name].mean[0], rounds.mean(axis=0), err_msg=name)


def test_a_single_run_that_retired_something_has_no_error() -> None:
    tables = derive([cell(rho_fp=0.4)])
    n = next(n for n in range(1, 2000) if numba_kernel.run(tables, np.zeros(1, np.int32), 9, n, 1).metrics[0, METRIC["retired"], 0])
    run = numba_kernel.run(tables, np.zeros(1, np.int32), 9, 1, n)
    layout = sums.Layout(12)
    done = sums.statistics(layout, layout.pack(n, run.metrics, run.series, run.histogram), tables.cells)
    assert np.isfinite(done["retire_trials"].mean).all()
    assert np.isnan(done["retire_trials"].se).all()
