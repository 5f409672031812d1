"""Results in an object store: two runs at once, then workers of Dask, and the bits of a folder. Thousands of requests: slow."""

from __future__ import annotations

import threading

import pytest

from sim.config import load
from sim.store import Store
from tests.conftest import Command, contents
from tests.s3 import Bucket
from tests.stores import GRID
from tests.test_places import arrays, bucket  # noqa: F401 - a fixture


def test_an_object_store(command: Command, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Two runs at once do no harm: each object is a whole state of its tiles. Workers of Dask go on."""
    monkeypatch.setattr("sim.sweep.MIN_STREAMS", 6)
    monkeypatch.setattr("sim.sweep.MAX_TILE_RUNS", 8)
    assert command(*GRID, "runs=96", "out=folder").code == 0
    sweep = load([*GRID]).sweep
    from sim.engines import play, streams
    from sim.kernels.backends import backend

    def run() -> None:
        store = Store("s3://b/x/a", sweep)
        for stream in streams(sweep, lambda block: 48):
            play(sweep, store, backend("numba"), lambda libraries, new: None, stream, threading.Event())

    both = [threading.Thread(target=run) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sum("/sums/c/" in key for key in bucket.objects) == 6
    answer = command(*GRID, "runs=96", "out=s3://b/x/a", "engine=dask", "engine.workers=1")
    assert answer.code == 0, answer
    assert "\n480 libraries in" in answer.out
    assert arrays("s3://b/x/a") == contents("folder")
    assert all(key.startswith("x/a/result.zarr/") for key in bucket.objects)
    assert not any(b"secret" in value for value in bucket.objects.values())
