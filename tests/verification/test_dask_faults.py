"""Faults of engine=dask that take long: a tile that kills every worker it is given to, and jobs of a queue."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import Command, answers, command, same  # noqa: F401 - fixtures
from tests.stores import GRID

TILES, LANES = 4, 16
SWEEP = (*GRID, f"runs={TILES * LANES * 2}")

SBATCH = """\
#!{python}
import subprocess, sys
job = subprocess.Popen(["/bin/bash", sys.argv[-1]], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print("Submitted batch job", job.pid)
"""
SCANCEL = """\
#!{python}
import os, signal, sys
os.killpg(int(sys.argv[-1]), signal.SIGTERM)
"""


@pytest.fixture(autouse=True)
def short_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.sweep.MAX_TILE_RUNS", TILES)
    monkeypatch.setattr("sim.sweep.MIN_STREAMS", LANES)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No process that a test began may outlive it."""
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    yield
    begun = [p for p in psutil.Process().children(recursive=True) if p.pid not in before]
    _, alive = psutil.wait_procs([p for p in begun if "resource_tracker" not in " ".join(p.cmdline())], timeout=15)
    assert alive == []


def test_a_tile_that_kills_its_workers(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Dask gives it up after a few workers; it is named, the rest is done, the next command tries only it."""
    assert command(*SWEEP, "out=whole").code == 0
    import dask
    import distributed  # noqa: F401 - its defaults first

    monkeypatch.setenv("TILE_KILLS", str(TILES * (LANES + 5)))
    with dask.config.set({"distributed.worker.preload": ["tests.workers"]}):
        answer = command(*SWEEP, "out=a", "engine=dask", "engine.workers=2")
    assert answer.code == 1, answer
    assert "lane 5, 4 workers died playing it" in answer.err
    assert len(answer.err.splitlines()) == 1
    monkeypatch.delenv("TILE_KILLS")
    rest = command(*SWEEP, "out=a", "engine=dask", "engine.workers=2")
    assert f"\n{10 * TILES} libraries in" in rest.out, rest
    same("whole", "a")


def test_jobs_of_a_queue(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Slurm's commands replaced by ones that start the job's script here; dask-jobqueue does the rest."""
    pytest.importorskip("dask_jobqueue")
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(python=sys.executable))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert command(*SWEEP, "out=whole").code == 0
    extra = "scheduler_options: {dashboard_address: '127.0.0.1:0', host: 127.0.0.1}, worker_extra_args: ['--host', '127.0.0.1']"
    cluster = f"{{class: SLURMCluster, cores: 1, processes: 1, memory: 1GB, job_script_prologue: ['export SECRET=x'], {extra}}}"
    answer = command(*SWEEP, "out=a", "engine=dask", f"engine.cluster={cluster}", "engine.jobs=2")
    assert answer.code == 0, answer
    assert answer.err == ""
    same("whole", "a")
    root = Path("a/result.zarr/zarr.json").read_text()
    assert "SECRET" not in root
    assert "SLURMCluster" in root
    line = command(*SWEEP, "out=b", "engine=dask", "engine.cluster={class: NoCluster}").error
    assert "SLURMCluster" in line
    line = command(*SWEEP, "out=b", "engine=dask", "engine.cluster={class: SLURMCluster, nonsense: 1}").error
    assert "engine.cluster" in line
