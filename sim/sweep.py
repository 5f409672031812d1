"""Sweeps: a grid of cells, cut into tiles that fit in memory, added up tile by tile.

A *block* is a box of neighbouring cells; a *tile* is a block played on a range of runs. All cells of a sweep use the same
runs, so they share their randomness. Blocks and tile lengths follow from the sweep alone, never from the machine, and sums
of whole numbers do not depend on order: any engine, any number of threads and any interruption give the same bits.

Runs are dealt to *lanes*, tile by tile in turn, so that a sweep of few cells still has work for many processes. Each lane
of each block is a sum of its own, with its own count of runs done (:mod:`sim.store`).
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from sim import curators
from sim.errors import InputError
from sim.model import Cell, Parameter, from_mapping, parameters
from sim.params import rest_of, with_rest
from sim.sums import MAX_RUNS, Layout
from sim.tables import Tables, check_limits, derive

GROUPS = ("world", "policy", "channel")


class _Known(dict[str, Parameter]):
    """The parameters of a cell by path. Those of a curator are found too, by ``policy.NAME.parameter``, and not listed."""

    def __contains__(self, path: object) -> bool:
        return super().__contains__(path) or (isinstance(path, str) and curators.parameter(path) is not None)

    def __missing__(self, path: str) -> Parameter:
        found = curators.parameter(path)
        if found is None:
            raise KeyError(path)
        return found


PARAMETERS: Mapping[str, Parameter] = _Known((p.path, p) for p in parameters())

MAX_BLOCK_CELLS = 64
MAX_BLOCK_BYTES = 16 * 2**20  # of sums
TILE_TRIALS = 2**27  # about a second
MAX_TILE_RUNS = 2**16
MIN_STREAMS = 64  # blocks x lanes


@dataclass(frozen=True)
class Axis:
    """One dimension of a sweep.

    Parameters
    ----------
    name
        Of the dimension.
    paths
        The parameters it sets; or one group (``world``), whose values are presets by name.
    values
        At least one; numbers, or names.
    linked
        For each value, what each of ``paths`` is set to. Empty: all to the value itself.
    label
        What the axis is, in words of the user's; may be empty.
    """

    name: str
    paths: tuple[str, ...]
    values: tuple[Any, ...]
    linked: tuple[tuple[Any, ...], ...] = ()
    label: str = ""

    def settings(self, i: int) -> dict[str, Any]:
        """Return what the axis sets at an index, by path."""
        return dict(zip(self.paths, self.linked[i], strict=True)) if self.linked else dict.fromkeys(self.paths, self.values[i])

    @property
    def is_group(self) -> bool:
        return self.paths[0] in GROUPS

    @property
    def own(self) -> str | None:
        """The parameter that the axis is named after, if it sets that one: its values are those of the axis."""
        return next((path for path in self.paths if path == self.name or path.endswith("." + self.name)), None)

    @property
    def unit(self) -> str:
        path = (self.own or "") if self.linked else self.paths[0]
        return PARAMETERS[path].unit if path in PARAMETERS else ""

    @property
    def long_name(self) -> str:
        if self.label:
            return self.label
        if self.is_group:
            return self.paths[0]
        if self.linked and not self.own:
            return "sets " + ", ".join(self.paths)
        if len(self.paths) > 1 and not self.linked:
            return " = ".join(self.paths)
        path = self.own or self.paths[0]
        return f"{path}: {PARAMETERS[path].doc}"


def tree(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by path as nested mappings."""
    out: dict[str, Any] = {}
    for path, value in values.items():
        *groups, leaf = path.split(".")
        here = out
        for group in groups:
            here = here.setdefault(group, {})
        here[leaf] = value
    return out


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested mappings with other leaves."""
    return {**values, **{k: _merged(values.get(k) or {}, v) if isinstance(v, Mapping) else v for k, v in changes.items()}}


@cache
def _names(group: Hashable) -> tuple[frozenset[str], str | None]:
    """Return the fields of a group, and the one that takes other keys."""
    return frozenset(item.name for item in fields(group)), rest_of(group)  # type: ignore[arg-type]


def replaced(group: Any, changes: Mapping[str, Any]) -> Any:
    """Return a parameter group with other leaves; each group in it is made, and checked, once."""
    kind: Any = type(group)
    known, open_ = _names(kind)
    new = {k: replaced(getattr(group, k), v) if isinstance(v, Mapping) else v for k, v in changes.items() if k in known}
    for k, v in changes.items():
        if k not in known:
            assert open_ is not None, k
            new[open_] = with_rest(new.get(open_, getattr(group, open_)), k, v)
    return replace(group, **new)


@dataclass(frozen=True)
class Block:
    """A box of cells: the first and one past the last index along each axis."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(a, b) for a, b in zip(self.start, self.stop, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(b - a for a, b in zip(self.start, self.stop, strict=True))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*(range(a, b) for a, b in zip(self.start, self.stop, strict=True)))


def fit_box(shape: Sequence[int], room: int) -> tuple[int, ...]:
    """Return the shape of boxes of at most ``room`` cells: whole trailing axes, an even part of the next, one of those before."""
    box: list[int] = []
    for n in reversed(shape):
        parts = -(-n // max(1, room))
        box.append(-(-n // parts))
        room = room // n if parts == 1 else 1
    return tuple(reversed(box))


def boxes(shape: Sequence[int], box: Sequence[int]) -> Iterator[Block]:
    """Yield the boxes of this shape that cover a grid, in order; those at the end are smaller."""
    for start in itertools.product(*(range(0, n, b) for n, b in zip(shape, box, strict=True))):
        yield Block(start, tuple(min(a + b, n) for a, b, n in zip(start, box, shape, strict=True)))


@dataclass(frozen=True)
class Sweep:
    """A grid of cells and the randomness they share.

    Parameters
    ----------
    name
        Of the sweep.
    axes
        In the order of the dimensions. None at all is a single cell.
    bases
        Parameters of a cell as nested mappings, for each combination of presets on the group axes (a tuple of names; empty
        without such axes).
    baseline
        Parameters, by path, that turn a cell into the cell it is compared with.
    seed
        First half of the key of all randomness.
    """

    name: str
    axes: tuple[Axis, ...]
    bases: Mapping[tuple[str, ...], Mapping[str, Any]]
    baseline: Mapping[str, Any]
    seed: int

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def curators(self) -> list[str]:
        """Names of the curators that cells have, or those that they are compared with."""
        on_axes = [axis.settings(i).get("policy.curator") for axis in self.axes for i in range(len(axis.values)) if not axis.is_group]
        set_by_axis = any("policy.curator" in axis.paths for axis in self.axes)
        policies = [base["policy"] for base in self.bases.values() if isinstance(base["policy"], Mapping) and not set_by_axis]
        bases = [policy.get("curator", curators.RATCHET) for policy in policies]
        return list(dict.fromkeys(str(name) for name in (*bases, *on_axes, self.baseline.get("policy.curator")) if name))

    @cached_property
    def _models(self) -> dict[tuple[str, ...], Cell]:
        return {}

    def _model(self, index: Sequence[int]) -> tuple[Cell, dict[str, Any]]:
        """Return a cell with the same presets, and the parameters, by path, that make it the cell at this index.

        The first cell of each combination of presets is read from its mapping and kept; the others, many times faster, are that
        one with other values. All axes set the same parameters in every cell, so nothing of the first is left over.
        """
        chosen = list(zip(self.axes, index, strict=True))
        names = tuple(axis.values[i] for axis, i in chosen if axis.is_group)
        values = {path: value for axis, i in chosen if not axis.is_group for path, value in axis.settings(i).items()}
        if names not in self._models:
            self._models[names] = from_mapping(Cell, _merged(self.bases[names], tree(values)))
        return self._models[names], values

    def cell(self, index: Sequence[int]) -> Cell:
        """Return the cell at an index along each axis."""
        model, values = self._model(index)
        made: Cell = replaced(model, tree(values))
        return made

    def baseline_cell(self, index: Sequence[int]) -> Cell:
        """Return the cell that the cell at this index is compared with."""
        model, values = self._model(index)
        made: Cell = replaced(model, tree({**values, **self.baseline}))
        return made

    def some(self, baseline: bool = False) -> Iterator[Cell]:
        """Yield all cells of a small grid, or those they are compared with; else the ones along each axis, from both ends of the others."""
        ends = [tuple(0 for _ in self.axes), tuple(n - 1 for n in self.shape)]
        along = ((*end[:k], i, *end[k + 1 :]) for end in ends for k, n in enumerate(self.shape) for i in range(n))
        everything = itertools.product(*(range(n) for n in self.shape))
        for index in everything if self.size <= 5000 else along:
            yield self.baseline_cell(index) if baseline else self.cell(index)

    def check(self) -> None:
        """Build some cells, and those they are compared with, to see that they are valid.

        Raises
        ------
        InputError
            Something is out of bounds or beyond the kernels' limits.
        """
        for cell in itertools.chain(self.some(), self.some(baseline=True)):
            check_limits(cell)

    # ------------------------------------------------------------ tiles

    @cached_property
    def largest(self) -> tuple[int, int]:
        """Most rounds, and most trials of a run, that any cell can have (over values along each axis)."""
        rounds, tasks = 1, 1
        for cell in (make(index) for index in self._corners() for make in (self.cell, self.baseline_cell)):
            rounds = max(rounds, cell.policy.rounds)
            tasks = max(tasks, cell.world.n_train + cell.world.n_eval)
        return rounds, rounds * tasks

    def _corners(self) -> Iterator[tuple[int, ...]]:
        """Yield indices that reach every combination of values which decide the size of a run."""
        sized = {"policy.rounds", "world.n_train", "world.n_eval"}
        return itertools.product(*(range(len(axis.values)) if axis.is_group or sized & set(axis.paths) else (0,) for axis in self.axes))

    @property
    def layout(self) -> Layout:
        return Layout(self.largest[0])

    @cached_property
    def block_shape(self) -> tuple[int, ...]:
        """Cells of a block along each axis."""
        return fit_box(self.shape, min(MAX_BLOCK_CELLS, MAX_BLOCK_BYTES // (8 * self.layout.size)))

    @property
    def n_blocks(self) -> int:
        return int(np.prod([-(-n // b) for n, b in zip(self.shape, self.block_shape, strict=True)], dtype=np.int64))

    @cached_property
    def lanes(self) -> int:
        """Sums that the runs of a block are dealt to."""
        return max(1, min(MIN_STREAMS, -(-MIN_STREAMS // self.n_blocks)))

    @cached_property
    def tile_runs(self) -> int:
        """Runs of a tile: a power of two that takes about a second."""
        trials = self.largest[1] * int(np.prod(self.block_shape, dtype=np.int64))
        return 1 << (max(1, min(MAX_TILE_RUNS, TILE_TRIALS // trials)).bit_length() - 1)

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks, in order."""
        return boxes(self.shape, self.block_shape)

    def lane_runs(self, lane: int, runs: int) -> int:
        """Return how many of the first ``runs`` runs belong to a lane."""
        whole, rest = divmod(runs, self.tile_runs * self.lanes)
        return whole * self.tile_runs + max(0, min(self.tile_runs, rest - lane * self.tile_runs))

    def tiles(self, lane: int, done: int, runs: int, at_most: int = MAX_TILE_RUNS) -> Iterator[tuple[int, int]]:
        """Yield (first run, number of runs) of the tiles of a lane, from its ``done``-th run on, up to ``runs`` overall.

        A tile longer than ``at_most`` comes in pieces.
        """
        last = self.lane_runs(lane, runs)
        while done < last:
            tile, inside = divmod(done, self.tile_runs)
            n = min(self.tile_runs - inside, last - done, at_most)
            yield (tile * self.lanes + lane) * self.tile_runs + inside, n
            done += n

    def tables(self, block: Block) -> tuple[Tables, np.ndarray]:
        """Return the tables of a block's cells, followed by baseline cells that are not among them.

        Returns
        -------
        tables
            Of the block's cells in order, then the others.
        baseline
            int32: for each of these cells, the one it is compared with. A cell not in the block is compared with itself.
        """
        cells = [self.cell(index) for index in block]
        position = {cell: i for i, cell in reversed(list(enumerate(cells)))}
        baseline = []
        for index in block:
            other = self.baseline_cell(index)
            if other not in position:
                position[other] = len(cells)
                cells.append(other)
            baseline.append(position[other])
        baseline += range(len(baseline), len(cells))
        return derive(cells), np.array(baseline, np.int32)


def check_runs(runs: int, name: str = "runs") -> None:
    """Raise InputError unless 1 <= runs <= the number that keeps all sums exact."""
    if not isinstance(runs, int) or isinstance(runs, bool) or not 1 <= runs <= MAX_RUNS:
        raise InputError(name, repr(runs), f"a whole number from 1 to {MAX_RUNS}")
