"""The programs that speed is compared with compute the same: the C kernel to the bit, the NumPy version within its errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import compiled, vectorised
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


@pytest.mark.parametrize("build", compiled.BUILDS)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cells=st.lists(strategies.cells, min_size=1, max_size=3), seed=strategies.seeds, first_run=st.integers(0, 2**32 - 4))
def test_the_c_kernel_is_the_numba_kernel(build: str, cells: list[Cell], seed: int, first_run: int) -> None:
    assert_same(build, cells, seed, first_run, 3, np.arange(len(cells), dtype=np.int32)[::-1].copy())


@pytest.mark.parametrize("build", compiled.BUILDS)
def test_the_c_kernel_on_named_worlds_and_on_what_is_timed(build: str) -> None:
    assert_same(build, list(NAMED.values()), 5, 6, 300)
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
