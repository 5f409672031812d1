"""The problem that a calibration solves: which parameters are free, which cells the targets need, how far predictions are off.

All evaluations use the same runs, so that two parameter vectors differ by what they are and hardly by luck.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from sim.errors import InputError
from sim.free import Free, Values, all_parameters, changes, family, free_parameters, presets
from sim.kernels.backends import backend
from sim.model import Cell, Channel, Policy, World
from sim.sums import Layout, statistics
from sim.sweep import replaced, tree
from sim.tables import Tables, derive, difficulty_bins
from sim.targets import BC_SUBSETS, SUBSETS, Target

NOWHERE: Final = 100.0  # deviation of a prediction that does not exist, such as trials at retirement when nothing retires
CLEAN: Final = "clean"
CLEAN_CHANNEL: Final = Channel(0.0, 0.0)


def read_value(world: World, path: str) -> float:
    """Return the parameter of a world at a path."""
    here: object = world
    for name in path.split("."):
        here = getattr(here, name)
    assert isinstance(here, int | float)
    return here


# ---------------------------------------------------------------- predictions


@dataclass(frozen=True)
class Condition:
    """A metric of a subset under a channel, by name."""

    subset: str
    channel: str
    metric: str


@dataclass(frozen=True)
class Prediction:
    """Means over runs and their standard errors; each of shape (conditions,)."""

    mean: np.ndarray
    se: np.ndarray


class Simulator:
    """Predicts conditions: one batch of cells, its runs dealt to threads.

    Parameters
    ----------
    conditions
        At least one. ``delta_clean`` brings the cell of the perfect judge with it.
    policy
        The controller of all cells.
    seed
        First half of the key of all randomness.
    """

    def __init__(self, conditions: Sequence[Condition], policy: Policy, seed: int) -> None:
        self.conditions, self.policy, self.seed = tuple(conditions), policy, seed
        wanted = [(c.subset, c.channel) for c in conditions]
        wanted += [(c.subset, CLEAN) for c in conditions if c.metric == "delta_clean"]
        self.cells = list(dict.fromkeys(wanted))
        position = {cell: i for i, cell in enumerate(self.cells)}
        self.baseline = np.array([position.get((subset, CLEAN), i) for i, (subset, _) in enumerate(self.cells)], np.int32)
        self.at = [position[c.subset, c.channel] for c in conditions]
        self.settings = {name: tree(changes(name)) for _, name in self.cells}
        self.layout = Layout(policy.rounds)
        self.threads = len(os.sched_getaffinity(0))
        self.pool = ThreadPoolExecutor(self.threads)

    def tables(self, worlds: Mapping[str, World]) -> Tables:
        """Return the tables of all cells in these worlds."""
        shapes = {worlds[subset].difficulty for subset, _ in self.cells}
        list(self.pool.map(difficulty_bins, shapes))  # by far the slowest part, and kept
        base = {subset: Cell(world, self.policy, CLEAN_CHANNEL) for subset, world in worlds.items()}
        return derive([replaced(base[subset], self.settings[name]) for subset, name in self.cells])

    def predict(self, worlds: Mapping[str, World], runs: int, first_run: int = 0) -> Prediction:
        """Simulate runs ``first_run`` to ``first_run + runs - 1`` of every cell.

        Returns
        -------
        Prediction
            Of each condition. Not a number where there is nothing to take the mean of.
        """
        tables = self.tables(worlds)
        simulate = backend("numba").simulate

        def part(first: int, n: int) -> np.ndarray:
            return simulate(self.layout, tables, self.baseline, self.seed, first, n)

        piece = -(-runs // self.threads)
        starts = range(0, runs, piece)
        sums = sum(self.pool.map(part, [first_run + i for i in starts], [min(piece, runs - i) for i in starts]))
        found = statistics(self.layout, np.asarray(sums), tables.cells)
        each = [(found[c.metric], i) for c, i in zip(self.conditions, self.at, strict=True)]
        return Prediction(np.array([s.mean[i] for s, i in each]), np.array([s.se[i] for s, i in each]))


# ---------------------------------------------------------------- the problem


class Problem:
    """Targets, free parameters, and the loss between them.

    Parameters
    ----------
    targets
        As read; those that are not fitted are left out.
    subsets
        Whose targets to fit.
    fix
        Names of parameters that keep their start value; a group (``router``) or a subset stands for all in it.
    start
        Start values by name, for parameters that should not start as the presets have them.
    seed
        Of all simulations.

    Raises
    ------
    InputError
        No target is left, a name in ``fix`` or ``start`` is unknown, a start value is out of bounds, or nothing is free.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        subsets: Sequence[str] = BC_SUBSETS,
        fix: Sequence[str] = (),
        start: Values | None = None,
        seed: int = 1,
    ) -> None:
        self.targets = [t for t in targets if not t.not_fitted and t.subset in subsets]
        if not self.targets:
            raise InputError("targets", "none that can be fitted", "one of " + ", ".join(subsets))
        self.subsets = [s for s in SUBSETS if any(t.subset == s for t in self.targets)]
        self.bases, self.policy = presets(family(self.subsets).policy)
        self.seed = seed
        everything = free_parameters(self.subsets)
        self.free = tuple(p for p in everything if not any(p.name == name or p.name.startswith(name + ".") for name in fix))
        self.presets, self.start = self._start(everything, {}), self._start(everything, start or {})
        for name in fix:
            if not any(p.name == name or p.name.startswith(name + ".") for p in everything):
                raise InputError("fix", repr(name), "names among " + ", ".join(p.name for p in everything))
        if not self.free:
            raise InputError("fix", "every parameter", "one left to fit")
        named = {s: list(dict.fromkeys(name for t in self.targets if t.subset == s for name in t.channels)) for s in self.subsets}
        self.rows = [
            (i, Condition(t.subset, name, t.variable)) for i, t in enumerate(self.targets) for name in t.channels or named[t.subset]
        ]
        self.conditions = [condition for _, condition in self.rows]
        for i, condition in self.rows:
            changes(condition.channel, self.targets[i].line)
        if empty := [t for i, t in enumerate(self.targets) if all(j != i for j, _ in self.rows)]:
            raise InputError(f"targets, line {empty[0].line}", "any channel, and no other target of the subset", "one that names a channel")
        self.simulator = Simulator(self.conditions, self.policy, seed)

    def _start(self, everything: Sequence[Free], given: Values) -> dict[str, float]:
        names = {p.name for p in all_parameters()}
        if unknown := [name for name in given if name not in names]:
            raise InputError("start", repr(unknown[0]), "names among " + ", ".join(sorted(names)))
        own = {p.name for p in everything if p.subset}
        if not own & set(given) and {p.name for p in all_parameters() if p.subset} & set(given):
            raise InputError("start", "parameters of other subsets", f"those of {', '.join(self.subsets)}")
        values = {}
        for p in everything:
            value = given.get(p.name, read_value(self.bases[p.subset or self.subsets[0]], p.path))
            if isinstance(value, bool) or not isinstance(value, int | float) or not p.low <= value <= p.high or (p.whole and value % 1):
                raise InputError(f"start, {p.name}", repr(value), f"a {'whole ' * p.whole}number from {p.low:g} to {p.high:g}")
            values[p.name] = int(value) if p.whole else float(value)
        return values

    def values(self, unit: np.ndarray) -> dict[str, float]:
        """Return all parameters by name: the free ones from numbers between 0 and 1, shape (free,); the others as they start."""
        return {**self.start, **{p.name: p.value(float(u)) for p, u in zip(self.free, unit, strict=True)}}

    def unit(self, values: Values) -> np.ndarray:
        """Return the free parameters as numbers between 0 and 1, shape (free,)."""
        return np.array([p.unit(values[p.name]) for p in self.free])

    def worlds(self, values: Values) -> dict[str, World]:
        """Return the world of each subset with these parameters."""
        made = {}
        for subset in self.subsets:
            changes = {p.path: values[p.name] for p in free_parameters([subset])}
            world: World = replaced(self.bases[subset], tree(changes))
            made[subset] = world
        return made

    def predict(self, values: Values, runs: int, first_run: int = 0) -> Prediction:
        """Return the prediction of each condition."""
        return self.simulator.predict(self.worlds(values), runs, first_run)

    def deviations(self, mean: np.ndarray) -> np.ndarray:
        """Return how many tolerances each condition is off, shape (conditions,); 0 inside a range or bound."""
        off = np.array([self.targets[i].deviation(float(m)) for (i, _), m in zip(self.rows, mean, strict=True)])
        return np.where(np.isnan(off), NOWHERE, off)

    def worst(self, mean: np.ndarray) -> np.ndarray:
        """Return which condition of each target is off most, shape (targets,): a target of several channels holds in each of them."""
        size = np.abs(self.deviations(mean))
        owner = np.array([i for i, _ in self.rows])
        return np.array([max(np.flatnonzero(owner == i), key=lambda j: size[j]) for i in range(len(self.targets))])

    def target_deviations(self, mean: np.ndarray) -> np.ndarray:
        """Return how many tolerances each target is off at its worst condition, shape (targets,)."""
        return self.deviations(mean)[self.worst(mean)]

    def loss(self, values: Values, runs: int) -> float:
        """Return the sum of squared deviations over targets."""
        return float((self.target_deviations(self.predict(values, runs).mean) ** 2).sum())
