"""The programs that speed is compared with compute the same: the C kernel to the bit, the NumPy version within its errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import compiled, stages, table, variants, vectorised
from benchmarks.settings import SETTINGS, eight
from sim.kernels import numba_kernel
from sim.model import Cell
from sim.tables import derive
from sim.variables import METRIC
from tests import strategies
from tests.worlds import NAMED


def assert_same(build: str, cells: list[Cell], seed: int, first_run: int, n_runs: int, baseline: np.ndarray | None = None) -> None:
    try:
        compiled.library(build)
    except compiled.UnavailableError as why:
        pytest.skip(str(why))
    tables = derive(cells)
    baseline = np.zeros(len(cells), np.int32) if baseline is None else baseline
    here = compiled.run(build, tables, baseline, seed, first_run, n_runs)
    there = numba_kernel.run(tables, baseline, seed, first_run, n_runs)
    for name in ("metrics", "series", "histogram"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name), err_msg=name)


def of_the_papers(cell: Cell) -> Cell:
    """Return a cell without the options that the C kernel does not have."""
    w = cell.world
    return replace(cell, world=replace(w, router=replace(w.router, favour=0.0), critic=replace(w.critic, mislabel_to="uniform")))


@pytest.mark.parametrize("build", compiled.BUILDS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    cells=st.lists(strategies.cells.map(of_the_papers), min_size=1, max_size=3), seed=strategies.seeds, first_run=st.integers(0, 2**32 - 4)
)
def test_the_c_kernel_is_the_numba_kernel(build: str, cells: list[Cell], seed: int, first_run: int) -> None:
    assert_same(build, cells, seed, first_run, 3, np.arange(len(cells), dtype=np.int32)[::-1].copy())


@pytest.mark.parametrize("build", compiled.BUILDS)
def test_the_c_kernel_on_named_worlds_and_on_what_is_timed(build: str) -> None:
    assert_same(build, list(NAMED.values()), 5, 6, 100)
    for name, (world, policy) in SETTINGS.items():
        assert_same(build, eight(world, policy), 7, 8, 2 if name == "W" else 20)


def test_the_numpy_version_is_the_same_model() -> None:
    """Means over runs of five metrics in three cells, each within 4.5 standard errors: a false alarm in ten thousand."""
    world, policy = SETTINGS["S1"]
    cells = [eight(world, policy)[i] for i in (0, 4, 7)]
    tables, runs = derive(cells), 1500
    records = numba_kernel.run(tables, np.zeros(3, np.int32), 1, 0, 4 * runs, keep_records=True).records
    for cell, found in enumerate(vectorised.run(tables, 2, runs)):
        for name, values in found.items():
            expected = records[cell, :, METRIC[name]] * (2.0**-20 / policy.window if name == "tail_eval" else 1.0)
            error = np.sqrt(values.var() / runs + expected.var() / (4 * runs))
            assert abs(values.mean() - expected.mean()) < 4.5 * error + 1e-9, (cell, name, values.mean(), expected.mean())


def test_what_moved_is_said_as_a_ratio() -> None:
    then = {"S1, numba / C": 1.4, "S2, numba / C": 1.5, "W, numba / C": 1.0}
    assert table.moved({"S1, numba / C": 1.5, "S2, numba / C": 1.8, "W, numba / C": 0.8, "new": 2.0}, then) == [
        "S2, numba / C: 1.50 -> 1.80, slower by 20%",
        "W, numba / C: 1.00 -> 0.80, faster by 20%",
    ]
    for kept in table.baselines().values():
        assert all(0.1 < ratio < 10 for ratio in kept["ratios"].values())


def test_every_stage_that_is_timed_is_there() -> None:
    """The profile works on copies of the kernel's source: its lines must be found, and the copies must compile as Python."""
    for stage in stages.STAGES:
        assert stages.variant(stage).simulate


def test_without_a_compiler_the_c_rows_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "compiler", lambda: None)
    compiled.library.cache_clear()
    found, missing = variants.variants()
    compiled.library.cache_clear()
    assert missing["C, AVX-512"] == missing["C, autovectorised"] == "no C compiler"
    assert {"numba", "NumPy, over runs", "plain Python"} <= set(found)
