"""What the tests of the store share: small sweeps, and views of a store's files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import xarray
import zarr

GRID = ("+axes.tau=[0.0,0.2]", "+axes.rho_fp={start: 0, stop: 1, step: 0.25}")
# 3 blocks of 64 cells; with short tiles 66 chunks, each written once or twice.
LONG = ("+axes.tau={start: 0, stop: 0.5, step: 0.25}", "+axes.rho_fp={start: 0, stop: 0.945, step: 0.015}", "engine.threads=2", "runs=2048")
SHORT_TILES = 2**22

Start = Callable[..., "subprocess.Popen[str]"]


def chunks(folder: Path) -> list[Path]:
    return sorted(p for p in (folder / "result.zarr/tiles/sums/c").rglob("*") if p.is_file() and not p.name.endswith(".partial"))


def results(folder: Path) -> xarray.Dataset:
    with xarray.open_zarr(folder / "result.zarr", consolidated=False, chunks=None) as data:
        return data.load()


def runs_kept(folder: Path) -> int:
    """Return the finished runs of all cells; no chunk may be unreadable."""
    root = zarr.open_group(folder / "result.zarr", mode="r", zarr_format=3, use_consolidated=False)
    sums = root["tiles/sums"][...]
    return int(sums[..., 0].sum())
