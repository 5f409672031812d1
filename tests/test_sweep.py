"""Sweeps: blocks and lanes cover everything once, tables carry baselines, backends agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.kernels.backends import backend
from sim.model import Cell, from_mapping, to_mapping
from sim.sweep import MAX_BLOCK_CELLS, Axis, Sweep, boxes, fit_box
from tests.worlds import cell

CLEAN = {"channel.rho_fp": 0.0, "channel.rho_pf": 0.0}


def sweep(*axes: Axis, **changes: Any) -> Sweep:
    return Sweep("test", axes, {(): to_mapping(cell())}, CLEAN, 1, **changes)


Q = Axis("rho_fp", ("channel.rho_fp",), (0.0, 0.2, 0.4, 0.6))
N_MIN = Axis("n_min", ("policy.n_min",), (8, 24))


@given(st.lists(st.integers(1, 9), max_size=4), st.integers(1, 100))
def test_boxes_cover_a_grid_once(shape: list[int], room: int) -> None:
    box = fit_box(shape, room)
    assert np.prod(box, dtype=int) <= room
    seen = np.zeros(shape, int)
    for block in boxes(shape, box):
        seen[block.slices] += 1
    assert (seen == 1).all()


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_lanes_share_out_every_run_once(runs: int, earlier: int) -> None:
    one = sweep()
    one.__dict__["tile_runs"], one.__dict__["lanes"] = 64, 3
    seen = np.zeros(runs, int)
    for lane in range(3):
        assert sum(n for _, n in one.tiles(lane, 0, runs)) == one.lane_runs(lane, runs)
        done = min(one.lane_runs(lane, earlier), one.lane_runs(lane, runs))
        stop = min(runs, earlier)
        for first, n in [*one.tiles(lane, 0, stop), *one.tiles(lane, done, runs)]:
            seen[first : first + n] += 1
            assert n <= 64
    assert (seen == 1).all(), "continuing from an earlier number of runs plays the rest, once"


def test_cells_and_baselines() -> None:
    grid = sweep(N_MIN, Q)
    assert grid.shape == (2, 4)
    assert grid.cell((1, 3)).policy.n_min == 24
    assert grid.cell((1, 3)).channel.rho_fp == 0.6
    assert grid.baseline_cell((1, 3)) == grid.cell((1, 0))
    (block,) = grid.blocks()
    tables, baseline = grid.tables(block)
    assert len(tables.cells) == 8
    assert baseline.tolist() == [0, 0, 0, 0, 4, 4, 4, 4]


def test_cells_are_those_of_their_mappings() -> None:
    """However a cell is made, it is what its parameters written out give; also where a base alone would not be valid."""
    base = to_mapping(cell())
    axes = (Axis("window", ("policy.window",), (14, 2)), Axis("rounds", ("policy.rounds",), (14, 20)), N_MIN, Q)
    grid = Sweep("test", axes, {(): base}, {"channel.rho_fp": 0.0, "world.effect.mean": 1.0}, 1)
    for index in [(1, 1, 1, 3), (0, 0, 0, 0), (0, 1, 1, 2)]:
        window, rounds, n_min, q = (axis.values[i] for axis, i in zip(axes, index, strict=True))
        written = {**base, "policy": {**base["policy"], "window": window, "rounds": rounds, "n_min": n_min}}
        clean = {**written, "world": {**base["world"], "effect": {**base["world"]["effect"], "mean": 1.0}}}
        assert grid.baseline_cell(index) == from_mapping(Cell, {**clean, "channel": {**base["channel"], "rho_fp": 0.0}})
        assert grid.cell(index) == from_mapping(Cell, {**written, "channel": {**base["channel"], "rho_fp": q}})


def test_a_baseline_outside_the_grid_is_played_along() -> None:
    grid = sweep(Axis("rho_fp", ("channel.rho_fp",), (0.2, 0.4)))
    tables, baseline = grid.tables(next(grid.blocks()))
    assert len(tables.cells) == 3
    assert baseline.tolist() == [2, 2, 2]


def test_linked_parameters_move_together() -> None:
    grid = sweep(Axis("rho", ("channel.rho_fp", "channel.rho_pf"), (0.1, 0.3)))
    assert [(grid.cell((i,)).channel.rho_fp, grid.cell((i,)).channel.rho_pf) for i in (0, 1)] == [(0.1, 0.1), (0.3, 0.3)]


def test_a_grid_of_a_million_cells_is_planned_without_making_them() -> None:
    axes = [
        Axis(n, (p,), tuple(np.linspace(0, 1, 100).tolist()))
        for n, p in (("a", "channel.rho_fp"), ("b", "channel.rho_pf"), ("c", "world.router.recall"))
    ]
    grid = sweep(*axes)
    assert grid.size == 10**6
    assert np.prod(grid.block_shape) <= MAX_BLOCK_CELLS
    blocks = grid.blocks()
    assert next(blocks).start == (0, 0, 0)
    assert grid.n_blocks == sum(1 for _ in blocks) + 1


@pytest.mark.parametrize("rounds", [3, 12])
def test_backends_give_the_same_sums(rounds: int) -> None:
    grid = sweep(Axis("rounds", ("policy.rounds",), (4, rounds + 4)), Q)
    tables, baseline = grid.tables(next(grid.blocks()))
    results = [backend(name).simulate(grid.layout, tables, baseline, 7, 100, 3) for name in ("numba", "reference")]
    np.testing.assert_array_equal(*results)
