"""Lives of skills: they add up to what the run and the kernel count, with rollbacks and all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.kernels import numba_kernel
from sim.lives import DROPPED, EVICTED, HOW, ON_SHELF, RETIRED, Life, Stretch, lives, replay
from sim.model import Cell
from sim.store import identity, open_result, sweep_of
from sim.tables import derive
from sim.variables import METRICS, SERIES
from tests import strategies
from tests.conftest import Command
from tests.worlds import HARD_133, NAMED, cell, rolling


def kernel(one: Cell, seed: int, run: int) -> tuple[dict[str, int], np.ndarray]:
    """Return the metrics and the series, shape (rounds, series), of the kernel."""
    sums = numba_kernel.run(derive([one]), np.zeros(1, np.int32), seed, run, 1, keep_records=True)
    return dict(zip(METRICS, sums.records[0, 0].tolist(), strict=True)), sums.series_records[0, 0]


def ended(found: Sequence[Life], how: str) -> list[Stretch]:
    return [s for life in found for s in life.stretches if s.how == how]


def check(one: Cell, seed: int, run: int) -> list[Life]:
    """The lives of a run are those of the kernel's run, as far as that counts."""
    found = lives(one, seed, run)
    m, series = kernel(one, seed, run)
    assert [life.number for life in found] == list(range(len(found)))
    counted = {
        "synthesised": sum(life.born_round >= 0 for life in found),
        "retired": len(ended(found, RETIRED)),
        "evicted": len(ended(found, EVICTED)),
        "dropped": len(ended(found, DROPPED)),
        "restored": sum(life.restored for life in found),
        "active_final": len(ended(found, ON_SHELF)),
        "retire_trials": sum(s.n for s in ended(found, RETIRED)),
        "wrongly_retired": sum(len(ended([life], RETIRED)) for life in found if life.effect > 0),
        "harmful_final": sum(life.how == ON_SHELF and life.effect < 0 for life in found),
    }
    assert sum(life.born_round < 0 for life in found) == one.world.start
    assert counted == {name: m[name] for name in counted}
    for t, now in enumerate(dict(zip(SERIES, row, strict=True)) for row in series.tolist()):
        there = [s for life in found for s in life.stretches if s.came <= t and (s.left is None or s.left > t)]
        assert len(there) == now["active"]
        assert sum(life.born_round == t for life in found) == now["synthesised"]
        assert sum(s.left == t for s in ended(found, RETIRED)) == now["retired"]
        assert sum(s.left == t for s in ended(found, EVICTED)) == now["evicted"]
    for life in found:
        assert life.how in HOW
        assert (life.left_round is None) == (life.how == ON_SHELF)
        for before, after in zip(life.stretches[:-1], life.stretches[1:], strict=True):
            assert before.left is not None
            assert before.left <= after.came
        assert all(0 <= s.passes <= s.n and abs(s.net) <= s.n for s in life.stretches)
    if not one.policy.rollback.on:
        assert sum(life.n for life in found) == m["routed"]
    if one.channel.rho_fp == one.channel.rho_pf == 0.0:
        assert all(s.net == 2 * s.passes - s.n for life in found for s in life.stretches)
    return found


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.cells, strategies.seeds, st.integers(0, 2**32 - 2))
def test_lives_add_up_to_what_the_kernel_counts(one: Cell, seed: int, run: int) -> None:
    check(one, seed, run)


@pytest.mark.parametrize("name", NAMED)
def test_lives_of_the_papers_worlds(name: str) -> None:
    assert check(NAMED[name], 3, 4) == check(NAMED[name], 3, 4)


def test_a_skill_that_a_rollback_puts_back_has_several_stretches() -> None:
    found = [life for run in range(20) for life in check(cell(HARD_133, 0.2, policy=rolling()), 5, run)]
    back = [life for life in found if life.restored]
    assert back
    assert any(life.how == RETIRED and life.restored for life in found) or any(life.how == ON_SHELF for life in back)
    assert any(life.how == DROPPED for life in found)
    assert ended(found, RETIRED)


def test_rates_are_of_trials() -> None:
    life = Life(0, 2, -0.5, False, (Stretch(1, 4, EVICTED, 8, -4, 1), Stretch(6, None, ON_SHELF, 10, -2, 3)))
    assert (life.born_round, life.left_round, life.how, life.restored) == (1, None, ON_SHELF, 1)
    assert (life.true_rate, life.observed_rate) == pytest.approx((0.3, 0.4))
    young = Life(0, 2, -0.5, False, (Stretch(1, 1, EVICTED, 0, 0, 0),))
    assert math.isnan(young.true_rate)
    assert math.isnan(young.observed_rate)


def test_a_stored_sweep_can_be_played_again(command: Command, tmp_path: Path) -> None:
    """The store knows enough: axes of numbers, of presets, and linked; the one run is the kernel's mean."""
    axes = (
        "+axes.world=[report_main_71,report_hard_133]",
        "+axes.condition={set: [channel.rho_fp, channel.rho_pf], values: {clean: [0, 0], strict: [0.01, 0.95]}}",
        "+axes.tau=[0.1,0.3]",
    )
    assert command(*axes, "runs=1", "seed=7", "policy.rollback.on=true", "out=here").code == 0
    data = open_result(tmp_path / "here")
    sweep = sweep_of(data.attrs["identity"])
    assert identity(sweep) == data.attrs["identity"]
    for index in ((0, 0, 0), (1, 1, 1), (1, 0, 1)):
        played = replay(sweep.cell(index), sweep.seed, 0)
        stored = data.isel(dict(zip(("world", "condition", "tau"), index, strict=True)))
        for name in ("synthesised", "retired", "evicted", "active_final"):
            assert played.metrics[name] == float(stored[name])
        assert played.sampled[-1] <= sweep.cell(index).world.n_eval
        assert max(played.sampled) / sweep.cell(index).world.n_eval == pytest.approx(float(stored["peak_sampled"]))
