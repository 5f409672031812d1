"""Worlds simple enough to have known answers, and the kernel played on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim import sums
from sim.kernels import numba_kernel
from sim.model import Cell, Channel, Critic, Difficulty, Effect, Policy, Router, Synth, World
from sim.tables import Tables, derive
from sim.variables import METRIC

SEED = 20
NEVER = 2**31 - 1  # an n_min at which nothing is retired
HOPELESS = 1.0 / (1.0 + np.exp(8.0))  # pass rate of tasks at the lower end of the clipped logits
NEAR_HALF = Difficulty(1000.0, 1000.0, 0, "all")
NO_HOPE = Difficulty(0.001, 1000.0, 0, "all")  # all of its bins are clipped

# One topic, one skill at a time, which sees every task; skills and tasks never pass.
ONE_SKILL = World(
    n_train=24,
    n_eval=1,
    topics=1,
    topic_skew=0.0,
    difficulty=NO_HOPE,
    effect=Effect(-20.0, 0.0, -20.0, 0.0, 0.0),
    router=Router(recall=1.0, false_match=0.0),
    critic=Critic(mislabel=0.0),
    synth=Synth(min_cluster=1, per_round=1, memory=1.0, cover_guard=1.0, phantom_cost=0.0),
)
POLICY = Policy(tau=0.1, n_min=24, cap=12, rounds=12, window=4)

Change = Callable[[Tables], Tables]


def with_synth(world: World, **changes: Any) -> World:
    return replace(world, synth=replace(world.synth, **changes))


def cell(world: World, rho_fp: float = 0.0, rho_pf: float = 0.0, policy: Policy = POLICY, **channel: Any) -> Cell:
    return Cell(world, policy, Channel(rho_fp, rho_pf, **channel))


class Played:
    """The kernel's sums over the runs of some cells, each cell on runs of its own."""

    def __init__(self, cells: Sequence[Cell], runs: int, change: Change | None = None, records: bool = False, seed: int = SEED) -> None:
        self.runs = runs
        parts = []
        for i, one in enumerate(cells):
            tables = derive([one])
            tables = change(tables) if change else tables
            parts.append(numba_kernel.run(tables, np.zeros(1, np.int32), seed, i * runs, runs, keep_records=records))
        self.metrics = np.concatenate([part.metrics for part in parts])
        self.histogram = np.concatenate([part.histogram for part in parts])
        if records:
            self.records = np.concatenate([part.records for part in parts])

    def total(self, name: str) -> np.ndarray:
        """Return the sum over runs, shape (cells,)."""
        return self.metrics[:, METRIC[name], 0]

    def mean(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean over runs, and its standard error; shapes (cells,)."""
        s = self.metrics[:, METRIC[name]]
        squares = sums.spread(np.int64(self.runs), s[:, 0], s[:, 1], s[:, 2])
        return s[:, 0] / self.runs, np.sqrt(squares / (self.runs - 1) / self.runs)

    def per_run(self, name: str) -> np.ndarray:
        """Return every run, shape (cells, runs)."""
        values: np.ndarray = self.records[:, :, METRIC[name]]
        return values
