"""The Zarr store of a sweep: exact sums while it runs, named results with units and provenance when it is done.

``result.zarr`` holds, in its root group, what :mod:`xarray` shows: the variables over the axes of the sweep. In the group
``tiles`` it holds one array of int64 sums with dimensions (lane, axes..., sum). One chunk is one lane of one block, and its
first sum is the number of runs done: a chunk is replaced in one step (:mod:`sim.places`), so after a kill at any instant a
chunk is either the old sums with the old count or the new sums with the new count. Nothing else is needed to continue.

A store remembers the sweep it belongs to. Another sweep is refused, with the difference named.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from sim import curators
from sim.errors import InputError
from sim.places import NAME, Folder, Place, explained, is_url, place
from sim.sums import Statistic, statistics
from sim.sweep import Axis, Block, Sweep, boxes, fit_box
from sim.tables import CELL_DTYPE
from sim.variables import HISTOGRAM_BINS, SERIES_VARIABLES, SUFFIXES, VARIABLES, Variable

if TYPE_CHECKING:
    import xarray

SCHEMA_VERSION = 1  # of the layout of a store
MODEL_VERSION = 2  # of the model: a change that changes any bit of any result changes this
REGION_CELLS, REGION_BYTES = 4096, 2**27  # cells, and sums, worked out at a time: one chunk of the results
LOADED_BYTES = 2**30  # results up to this size are read at once
_CODECS: Any = [ZstdCodec(level=1), Crc32cCodec()]  # the checksum finds damaged bytes


# ---------------------------------------------------------------- which sweep a store belongs to


def identity(sweep: Sweep) -> dict[str, Any]:
    """Return all that decides the bits of a sweep's results, as JSON values.

    Not in it: the number of runs (more of them are added to what is there), backend and engine (all give the same bits).
    """
    tables, _ = sweep.tables(next(sweep.blocks()))
    return {
        "model_version": MODEL_VERSION,
        "seed": sweep.seed,
        "order of axes": [axis.name for axis in sweep.axes],
        "axes": {
            axis.name: {
                "sets": list(axis.paths),
                "values": list(axis.values),
                **({"linked": [list(row) for row in axis.linked]} if axis.linked else {}),
            }
            for axis in sweep.axes
        },
        "cells": {"/".join(names) or "all": dict(base) for names, base in sweep.bases.items()},
        "baseline": dict(sweep.baseline),
        "tiles": {"block": list(sweep.block_shape), "lanes": sweep.lanes, "runs": sweep.tile_runs},
        "tables": tables.digest()[:16],
        **({"rules": own} if (own := own_rules(sweep)) else {}),
    }


def own_rules(sweep: Sweep) -> dict[str, str]:
    """Return the digests of the sources of curators that are no part of this package, by name: they too decide the bits."""
    return {rule.name: rule.digest for rule in map(curators.find, sweep.curators) if rule.own}


def sweep_of(known: Mapping[str, Any], name: str = "") -> Sweep:
    """Return the sweep that an :func:`identity` is of; its seed and its cells are those whose results the store holds."""
    axes = []
    for axis in known["order of axes"]:
        about = known["axes"][axis]
        linked = tuple(tuple(row) for row in about.get("linked", ()))
        axes.append(Axis(axis, tuple(about["sets"]), tuple(about["values"]), linked))
    groups = itertools.product(*(axis.values for axis in axes if axis.is_group))
    bases = {names: known["cells"]["/".join(names) or "all"] for names in groups}
    return Sweep(name, tuple(axes), bases, known["baseline"], known["seed"])


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping) and value:
        return {k: v for name, part in value.items() for k, v in _flat(part, f"{prefix}.{name}".lstrip(".")).items()}
    return {prefix: value}


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return what differs between two identities, as ``policy.tau (0.1 there, 0.2 here)``."""
    a, b = _flat(there), _flat(json.loads(json.dumps(here)))
    missing = "absent"
    found = [k for k in dict.fromkeys([*a, *b]) if a.get(k, missing) != b.get(k, missing)]
    derived = ("tiles", "tables")
    if any(not k.startswith(derived) for k in found):
        found = [k for k in found if not k.startswith(derived)]

    def short(x: Any) -> str:
        text = json.dumps(x) if not isinstance(x, str) else x
        return text if len(text) <= 60 else text[:57] + "..."

    return [f"{k.removeprefix('cells.')} ({short(a.get(k, missing))} there, {short(b.get(k, missing))} here)" for k in found]


# ---------------------------------------------------------------- writing


class Store:
    """The store of a sweep that is being run. A folder is held by one run at a time.

    Parameters
    ----------
    out
        The output folder, by path or URL; the store is ``result.zarr`` in it.
    sweep
        Whose sums these are.
    shared
        For a process that a run has given work: the store must be there, and is neither made nor held.

    Raises
    ------
    InputError
        The folder cannot be written, another process holds it, or the store there is damaged, of another schema or of
        another sweep.
    """

    def __init__(self, out: Path | str, sweep: Sweep, shared: bool = False) -> None:
        self.place, self.sweep, self.shared = place(out), sweep, shared
        self.path = self.place.store_name
        self._once = threading.Lock()
        self._release: Callable[[], None] = lambda: None
        if not shared:
            with explained(self.place.name, "results", remote=self.place.remote):
                self._release = self.place.hold()
        try:
            with self._explained("results", reading=False):
                there = self.place.there()
                if not there and not shared:
                    self.place.make(self._build)
            if not there and shared:
                todo = "use a file system that all of them share, or out=s3://..."
                raise InputError(self.path, f"no such store on worker {socket.gethostname()}", "the same on all workers", todo)
            self.open()
            if not shared:
                with self._explained("more results"):
                    self.place.tidy()
        except BaseException:
            self._release()
            raise

    def _explained(self, doing: str, reading: bool = True) -> contextlib.AbstractContextManager[None]:
        return explained(self.path, doing, reading, self.place.remote)

    def _build(self, empty: Any) -> None:
        sweep = self.sweep
        root = zarr.create_group(empty, zarr_format=3)
        about: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "complete": 0,
            "sweep": sweep.name,
            "identity": json.dumps(identity(sweep)),
        }
        root.attrs.update(about)
        root.create_group("tiles").create_array(
            "sums",
            shape=(sweep.lanes, *sweep.shape, sweep.layout.size),
            chunks=(1, *sweep.block_shape, sweep.layout.size),
            dtype=np.int64,
            fill_value=0,
            compressors=_CODECS,
            dimension_names=("lane", *(axis.name for axis in sweep.axes), "sum"),
        )

    def open(self) -> None:
        """Read what the store says about itself, again if others may have changed it."""
        with self._explained("more results"):
            root = zarr.open_group(self.place.zarr(), mode="r+", zarr_format=3, use_consolidated=False)
            attrs: dict[str, Any] = dict(root.attrs)
            _check_schema(self.path, attrs)
            different = differences(json.loads(attrs["identity"]), self._identity)
            if different:
                more = f" and {len(different) - 4} more" if len(different) > 4 else ""
                got = "results of another configuration: " + "; ".join(different[:4]) + more
                todo = "choose another out=..., or remove that folder"
                raise InputError(self.path, got, "the same one", todo)
            self.root = root
            sums: Any = root["tiles/sums"]
            if tuple(sums.shape) != (self.sweep.lanes, *self.sweep.shape, self.sweep.layout.size):
                raise ValueError(f"sums have shape {sums.shape}")
            self.sums: Any = sums
            self._mark = self.place.mark()

    @functools.cached_property
    def _identity(self) -> dict[str, Any]:
        return identity(self.sweep)

    def _check_place(self) -> None:
        """Refuse to write when the store is no longer where it was: zarr would quietly begin a new one there."""
        if self.place.mark() != self._mark:
            todo = "put it back and run the same command again: finished tiles are kept in it"
            raise InputError(self.path, "a store that was moved or removed while the sweep ran", "it to stay", todo)

    @property
    def complete(self) -> bool:
        """Whether results were written after the last tile."""
        return bool(self.root.attrs.get("complete"))

    def close(self) -> None:
        """Let other processes write to the folder."""
        self._release()

    def read(self, lane: int, block: Block) -> np.ndarray:
        """Return the sums of one lane of a block: int64, shape (cells of the block, sums)."""
        with self._explained("more results"):
            return np.asarray(self.sums[(lane, *block.slices)]).reshape(-1, self.sweep.layout.size)

    def write(self, lane: int, block: Block, vectors: np.ndarray) -> None:
        """Replace the sums of one lane of a block: one chunk, in one step.

        Where others may write, a process that was taken for lost among them, sums of as many runs as these or more stay.
        """
        whole = (a % b == 0 for a, b in zip(block.start, self.sweep.block_shape, strict=True))
        assert all(whole), "a tile must be a whole chunk"
        with self._explained("its tiles", reading=False):
            self._check_place()
            if (self.shared or self.place.remote) and self.read(lane, block)[0, 0] >= vectors[0, 0]:
                return
            with self._once:
                if self.complete:  # results that lack these sums are no longer the results of this store
                    self.root.attrs["complete"] = 0
            self.sums[(lane, *block.slices)] = vectors.reshape(*block.shape, -1)

    def totals(self, block: Block) -> np.ndarray:
        """Return the sums of a box of cells over all lanes: int64, shape (*box, sums)."""
        with self._explained("figures"):
            return np.asarray(self.sums[(slice(None), *block.slices)]).sum(axis=0)

    # ------------------------------------------------------------ results

    def finish(self, provenance: Mapping[str, Any], advance: Callable[[int], None] = lambda cells: None) -> None:
        """Work out the results from the sums and write them, with units, names and provenance.

        ``advance`` is called with the number of cells whenever some are written.
        """
        with self._explained("results", reading=False):
            self._check_place()
            before: Any = self.root.attrs.get("wall_seconds", 0.0)
            wall = (before if isinstance(before, int | float) else 0.0) + provenance["wall_seconds"]
            config = json.dumps(provenance["config"])
            self.root.attrs.update({**provenance, "config": config, "wall_seconds": wall, "complete": 0})
            _write_results(self.root, self.sweep, self.totals, advance)
            self.root.attrs["complete"] = 1


def _write_results(root: Any, sweep: Sweep, totals: Callable[[Block], np.ndarray], advance: Callable[[int], None]) -> None:
    layout = sweep.layout
    for axis in sweep.axes:
        text = isinstance(axis.values[0], str)
        values = np.array(axis.values, dtype=np.dtypes.StringDType() if text else None)
        attributes: dict[str, Any] = {"long_name": axis.long_name, "units": axis.unit, "sets": list(axis.paths)}
        if axis.linked:
            attributes["linked"] = json.dumps(dict(zip(axis.values, axis.linked, strict=True)))
        _coordinate(root, axis.name, values, attributes)
    _coordinate(root, "round", np.arange(layout.rounds), {"long_name": "round", "units": "rounds"})
    label = {"long_name": f"skills retired in a run; the last bin is {HISTOGRAM_BINS - 1} or more", "units": "skills"}
    _coordinate(root, "retired_count", np.arange(HISTOGRAM_BINS), label)

    chunk = fit_box(sweep.shape, min(REGION_CELLS, REGION_BYTES // (8 * layout.size * sweep.lanes)))
    names = tuple(axis.name for axis in sweep.axes)
    arrays: dict[str, Any] = {}

    def array(name: str, dtype: Any, long_name: str, units: str, extra: tuple[tuple[str, int], ...] = ()) -> Any:
        if name not in arrays:
            arrays[name] = root.create_array(
                name,
                shape=(*sweep.shape, *(n for _, n in extra)),
                chunks=(*chunk, *(n for _, n in extra)),
                dtype=dtype,
                fill_value=np.nan if dtype is np.float64 else 0,
                compressors=_CODECS,
                dimension_names=(*names, *(d for d, _ in extra)),
                attributes={"long_name": long_name, "units": units},
                config={"write_empty_chunks": True},  # so that a chunk that is missing was lost
                overwrite=True,
            )
        return arrays[name]

    def put(variable: Variable, statistic: Statistic, where: Any, extra: tuple[tuple[str, int], ...]) -> None:
        texts = ("", "standard deviation of a run: ", "standard error of the mean: ")
        for suffix, text, values in zip(SUFFIXES, texts, (statistic.mean, statistic.sd, statistic.se), strict=True):
            array(variable.name + suffix, np.float64, text + variable.long_name, variable.units, extra)[where] = values

    for region in boxes(sweep.shape, chunk):
        vectors = totals(region)
        done = statistics(layout, vectors, cell_rows(sweep, region))
        parts = layout.unpack(vectors)
        where = (*region.slices, ...)
        array("runs", np.int64, "simulated runs", "runs")[where] = parts["runs"]
        extra = (("retired_count", HISTOGRAM_BINS),)
        array("retired_histogram", np.int64, "runs by skills retired", "runs", extra)[where] = parts["histogram"]
        for variable in VARIABLES.values():
            put(variable, done[variable.name], where, ())
        for variable in SERIES_VARIABLES.values():
            put(variable, done[variable.name], where, (("round", layout.rounds),))
        advance(parts["runs"].size)


def _coordinate(root: Any, name: str, values: np.ndarray, attributes: Mapping[str, Any]) -> None:
    root.create_array(
        name,
        data=values,
        chunks=values.shape,
        compressors=_CODECS,
        dimension_names=(name,),
        attributes=dict(attributes),
        config={"write_empty_chunks": True},
        overwrite=True,
    )


_SIZES = {"world.n_train", "world.n_eval", "policy.rounds", "policy.window", "policy.sampled_eval", "policy.rollback.on"}


def cell_rows(sweep: Sweep, block: Block) -> np.ndarray:
    """Return what :func:`sim.sums.statistics` needs to know of each cell: CELL_DTYPE, shape of the box."""
    rows = np.zeros(block.shape, CELL_DTYPE)
    matters = [axis.is_group or bool(_SIZES & set(axis.paths)) for axis in sweep.axes]
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    for index in block:
        key = tuple(i if m else 0 for i, m in zip(index, matters, strict=True))
        if key not in known:
            world, policy = sweep.cell(key).world, sweep.cell(key).policy
            known[key] = (world.n_train, world.n_eval, policy.rounds, policy.window, policy.sampled_eval or policy.rollback.on)
        at = tuple(i - a for i, a in zip(index, block.start, strict=True))
        for name, value in zip(("n_train", "n_eval", "rounds", "window", "sampled"), known[key], strict=True):
            rows[name][at] = value
    return rows


# ---------------------------------------------------------------- reading


def _check_schema(path: object, attrs: Mapping[str, Any]) -> None:
    version = attrs.get("schema_version")
    if version != SCHEMA_VERSION or "identity" not in attrs:
        got = f"schema version {version}" if version is not None else "a store of something else"
        raise InputError(str(path), got, f"schema version {SCHEMA_VERSION}", "use the halfblind that wrote it, or run the sweep again")


def find(path: Path) -> Path:
    """Return the store in this folder, or this path itself if it is one.

    Raises
    ------
    InputError
        There is none.
    """
    for candidate in (path, path / NAME):
        if (candidate / "zarr.json").is_file():
            return candidate
    if path.is_dir() and len(found := sorted(path.glob(f"*/{NAME}"))) == 1:
        return found[0]
    choices = f"one of {', '.join(str(p.parent) for p in found[:5])}" if path.is_dir() and found else f"a folder with {NAME} in it"
    raise InputError(str(path), "no result" if path.exists() else "nothing there", choices, "run a sweep first")


def _result_at(out: Path | str) -> Place:
    """Return the place whose store is this one, or is in this folder."""
    at = place(str(out).rstrip("/").removesuffix(f"/{NAME}") if is_url(out) else out)
    if isinstance(at, Folder):
        store = find(at.path)
        return Folder(store.parent, store)
    with explained(at.store_name, "reading", remote=True):
        if at.there():
            return at
    raise InputError(at.name, "no result", f"an address with {NAME} in it", "run a sweep first")


def open_result(path: Path | str) -> xarray.Dataset:
    """Open a finished result.

    Parameters
    ----------
    path
        The output folder, or the store in it; a path or a URL.

    Raises
    ------
    InputError
        There is no store, or it is damaged, unfinished or of another schema.
    """
    import xarray

    at = _result_at(path)
    store = at.store_name
    with explained(store, "reading", remote=at.remote):
        data = xarray.open_zarr(at.zarr(), consolidated=False, chunks=None)
        _check_schema(store, data.attrs)
        if not data.attrs.get("complete"):
            todo = "run its command again: it continues where it stopped"
            raise InputError(store, "an unfinished sweep", "a finished one", todo)
        missing = [v for v in ("runs", *VARIABLES, *SERIES_VARIABLES) if v not in data]
        if missing:
            raise ValueError(f"variables missing: {', '.join(missing)}")
        order = [v + suffix for v in (*VARIABLES, *SERIES_VARIABLES) for suffix in SUFFIXES]
        for name, array in zarr.open_group(at.zarr(), mode="r", use_consolidated=False).arrays():
            if array.nchunks_initialized < array.nchunks:
                raise ValueError(f"a chunk of {name} is missing")
        data = data[["runs", *order, "retired_histogram"]]
        data.attrs |= {name: json.loads(data.attrs[name]) for name in ("identity", "config")}
        for axis in data.coords:
            if "linked" in data[axis].attrs:
                data[axis].attrs["linked"] = json.loads(data[axis].attrs["linked"])
        return data.load() if data.nbytes <= LOADED_BYTES else data


def now() -> str:
    """Return the time as written into provenance."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
