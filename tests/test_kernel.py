"""The numba kernel is the reference, to the bit, and nothing that should not matter does."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim import reference
from sim.kernels import numba_kernel
from sim.model import Cell, Effect
from sim.sums import Layout, from_records
from sim.tables import derive
from sim.variables import METRIC, METRICS, SERIES
from tests import strategies
from tests.worlds import HARD_133, MAIN_71, NAMED, cell, rolling


def own(cells: list[Cell]) -> np.ndarray:
    return np.arange(len(cells), dtype=np.int32)


def assert_same(cells: list[Cell], seed: int, first_run: int, n_runs: int) -> None:
    """The kernel's records, series and sums are those of the reference."""
    tables = derive(cells)
    baseline = np.zeros(len(cells), np.int32)
    metrics, series = reference.records(tables, seed, first_run, n_runs)
    sums = numba_kernel.run(tables, baseline, seed, first_run, n_runs, keep_records=True)
    for name, m in METRIC.items():
        np.testing.assert_array_equal(sums.records[:, :, m], metrics[:, :, m], err_msg=name)
    for s, name in enumerate(SERIES):
        np.testing.assert_array_equal(sums.series_records[..., s], series[..., s], err_msg=name)
    layout = Layout(series.shape[2])
    np.testing.assert_array_equal(
        layout.pack(n_runs, sums.metrics, sums.series, sums.histogram), from_records(layout, metrics, series, baseline)
    )


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(strategies.cells, min_size=1, max_size=3), strategies.seeds, st.integers(0, 2**32 - 3))
def test_kernel_is_the_reference(cells: list[Cell], seed: int, first_run: int) -> None:
    assert_same(cells, seed, first_run, 2)


@pytest.mark.parametrize("name", NAMED)
def test_kernel_is_the_reference_on_the_papers_worlds(name: str) -> None:
    assert_same([NAMED[name]], 12, 34, 4)


def test_cells_of_different_worlds_share_a_call() -> None:
    assert_same(list(NAMED.values()), 5, 6, 2)


def test_the_largest_run_fits() -> None:
    """Topics 64, cap 128, tasks 4096 at once; and 1000 rounds."""
    wide = replace(
        MAIN_71, n_train=4096, n_eval=4096, topics=64, topic_skew=0.0, synth=replace(MAIN_71.synth, per_round=64, cover_guard=0.0)
    )
    assert_same([cell(wide, 0.1, 0.1, policy=replace(rolling(), cap=128, rounds=4, window=2))], 1, 0, 1)
    long = replace(MAIN_71, n_train=6, n_eval=2, synth=replace(MAIN_71.synth, memory=1.0, min_cluster=400))
    assert_same([cell(long, 0.1, 0.1, policy=replace(rolling(), rounds=1000, window=1000))], 1, 0, 1)


def test_a_full_pool_does_not_overflow() -> None:
    """Nothing is ever written, so that a single topic's pool reaches its bound: every trial of 1000 rounds."""
    stuck = replace(MAIN_71, topics=1, n_train=4096, n_eval=1, synth=replace(MAIN_71.synth, per_round=0, memory=1.0))
    tables = derive([cell(stuck, 0.0, 1.0, policy=replace(cell().policy, rounds=1000))])
    sums = numba_kernel.run(tables, np.zeros(1, np.int32), 1, 0, 1, keep_records=True)
    assert sums.records[0, 0, METRIC["observed_failures"]] > 4_095_000


def records(cells: list[Cell], first_run: int, n_runs: int, seed: int = 3) -> np.ndarray:
    return numba_kernel.run(derive(cells), own(cells), seed, first_run, n_runs, keep_records=True).records


def test_tiles_of_runs_and_of_cells_are_the_whole() -> None:
    cells = [cell(rho_fp=q, policy=p) for q in (0.0, 0.3, 0.6) for p in (cell().policy, rolling())]
    whole = records(cells, 0, 30)
    np.testing.assert_array_equal(np.concatenate([records(cells, a, b - a) for a, b in [(0, 1), (1, 17), (17, 30)]], axis=1), whole)
    np.testing.assert_array_equal(np.concatenate([records(cells[:1], 0, 30), records(cells[1:], 0, 30)]), whole)


def test_nothing_is_left_over_after_many_runs() -> None:
    """The last runs of a long call are those of a call of their own: no counter drifts."""
    crowded = replace(MAIN_71, topics=3, synth=replace(MAIN_71.synth, per_round=3, cover_guard=0.0, min_cluster=1))
    cells = [cell(crowded, policy=replace(rolling(), cap=1)), cell(crowded, policy=replace(rolling(), cap=3))]
    tables = derive(cells)
    long = numba_kernel.run(tables, own(cells), 3, 0, 20_000, keep_records=True).records[:, -2:]
    np.testing.assert_array_equal(long, reference.records(tables, 3, 19_998, 2)[0])


def test_order_of_cells_and_of_calls_does_not_matter() -> None:
    cells = [cell(rho_fp=q) for q in (0.0, 0.3, 0.6)]
    later, earlier = records(cells[::-1], 10, 10), records(cells[::-1], 0, 10)
    np.testing.assert_array_equal(np.concatenate([earlier, later], axis=1)[::-1], records(cells, 0, 20))


def test_threads_do_not_disturb_each_other() -> None:
    cells = [cell(HARD_133, q) for q in (0.0, 0.5)]
    results: dict[int, np.ndarray] = {}
    threads = [threading.Thread(target=lambda k=k: results.update({k: records(cells, 40 * k, 40)})) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(np.concatenate([results[k] for k in range(6)], axis=1), records(cells, 0, 240))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.cells, strategies.rates, strategies.rates, strategies.seeds)
def test_the_first_round_is_monotone_in_rho_fp(one: Cell, q: float, r: float, seed: int) -> None:
    """With shared randomness a higher rho_fp can only turn observed failures of the first round into passes, run by run."""
    low, high = sorted([q, r])
    cells = [replace(one, channel=replace(one.channel, rho_fp=rho, spread=0.0)) for rho in (low, high)]
    sums = numba_kernel.run(derive(cells), own(cells), seed, 0, 20, keep_records=True)
    first = sums.series_records[:, :, 0, SERIES.index("observed_failures")]
    assert (first[1] <= first[0]).all()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.cells, strategies.seeds)
def test_the_books_balance(one: Cell, seed: int) -> None:
    m = dict(zip(METRICS, np.moveaxis(records([one], 0, 20, seed)[0], 1, 0), strict=True))
    world, policy = one.world, one.policy
    trials = world.n_train * policy.rounds
    left = m["retired"] + m["evicted"] + m["dropped"]
    np.testing.assert_array_equal(m["active_final"], world.start + m["synthesised"] + m["restored"] - left)
    np.testing.assert_array_equal(m["deprecated"], m["retired"] + m["evicted"])
    np.testing.assert_array_equal(m["flips"], m["hidden_failures"] + m["phantom_failures"])
    assert (m["active_final"] <= policy.cap).all()
    assert (m["harmful_final"] <= m["active_final"]).all()
    assert (m["wrongly_retired"] <= m["retired"]).all()
    assert (m["synthesised"] <= world.synth.per_round * (policy.rounds - 1)).all()
    assert (m["flips"] <= trials).all()
    assert (m["routed"] <= trials).all()
    assert (m["retire_trials"] >= policy.n_min * m["retired"]).all()
    if world.router.mode == "withheld":
        np.testing.assert_array_equal(m["tail_eval"], policy.window * m["floor_eval"])
    if policy.cap == 1 and world.topics == 1 and policy.rounds == 1:
        assert (m["synthesised"] == 0).all()


def test_skills_that_do_nothing_leave_the_eval_at_its_floor() -> None:
    idle = replace(MAIN_71, effect=Effect(0.0, 0.0, 0.0, 0.0, 0.0))
    m = records([cell(idle, rho_fp=0.2)], 0, 50)[0]
    # The on-topic share is rounded down per topic, by less than 2^-20 of a pass each.
    assert np.abs(m[:, METRIC["lift"]]).max() <= 4
