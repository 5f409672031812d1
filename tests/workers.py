"""Dask schedulers and workers as real processes on loopback, and what a worker that preloads this module does wrong.

``TILE_SECONDS`` makes each tile last that long, ``TILE_FAILS`` makes the tile raise whose first run it is, ``TILE_KILLS`` makes it
end its process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from tests.conftest import ROOT


def dask_setup(worker: Any) -> None:
    from sim.kernels import backends

    whole = backends.BACKENDS["numba"]

    def simulate(layout: Any, tables: Any, baseline: Any, seed: int, first_run: int, n_runs: int) -> Any:
        time.sleep(float(os.environ.get("TILE_SECONDS", "0")))
        if os.environ.get("TILE_FAILS") == str(first_run):
            raise ArithmeticError("a tile that fails")
        if os.environ.get("TILE_KILLS") == str(first_run):
            os.kill(os.getpid(), signal.SIGKILL)
        return whole.simulate(layout, tables, baseline, seed, first_run, n_runs)

    backends.BACKENDS["numba"] = backends.Backend(simulate, whole.slowness)


class Processes:
    """A scheduler and its workers, ended by :meth:`close`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.log = open(folder / "log", "ab")  # noqa: SIM115 - until close()
        http = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", *http, "--scheduler-file", str(self.file))
        wait(lambda: self.file.exists() and self.file.read_text().endswith("}"))
        import json

        self.address = str(json.loads(self.file.read_text())["address"])

    def _start(self, *args: str, root: Path = ROOT, **env: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *args]
        environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{ROOT}", **env}
        return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=self.log, stderr=self.log, start_new_session=True)

    def add(self, number: int = 1, root: Path = ROOT, **env: str) -> list[subprocess.Popen[bytes]]:
        """Start workers of one thread each, with this package first on their path; wait until they are there."""
        plain = ("--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
        preload = ("--preload", "tests.workers") if env else ()
        started = [self._start("worker", self.address, *plain, *preload, root=root, **env) for _ in range(number)]
        self.workers += started
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(sum(w.poll() is None for w in self.workers), timeout=60)
        return started

    def close(self) -> None:
        for child in [*self.workers, self.scheduler]:
            if child.poll() is None:
                child.kill()
            child.wait()
        self.log.close()


def wait(ready: Any, seconds: float = 60) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def below(pid: int) -> list[psutil.Process]:
    """Return the processes that a process has started, and they in turn."""
    return psutil.Process(pid).children(recursive=True)


def gone(processes: list[psutil.Process], seconds: float = 15) -> bool:
    """Whether all of them end by themselves."""
    return not psutil.wait_procs(processes, timeout=seconds)[1]
