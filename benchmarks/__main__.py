"""``python -m benchmarks``: ns per trial of the kernel, its compile time, threads, and the whole cliff command.

A trial is one train or eval task in one round. "8 cells" is amortised: the random words of a run serve eight cells, as in a
sweep. Figures are the minimum and median of interleaved repeats in one process. Machines differ and are noisy: compare
ratios within one table, not tables.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.settings import SETTINGS, eight
from sim.model import Cell
from sim.tables import derive

REPEATS = 7


def trials(cells: list[Cell]) -> int:
    """Return the train and eval trials of one run of all cells."""
    return sum((c.world.n_train + c.world.n_eval) * c.policy.rounds for c in cells)


def timed(call: Callable[[], object]) -> float:
    """Return the seconds one call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def cold_compile() -> float:
    """Return the seconds a first call takes in a process with an empty cache of compiled code."""
    code = (
        "import time, numpy as np; from benchmarks.settings import eight, SETTINGS; from sim.tables import derive;"
        "t = derive(eight(*SETTINGS['S1'])); from sim.kernels import numba_kernel as k; b = time.perf_counter();"
        "k.run(t, np.zeros(8, np.int32), 1, 0, 1); print(time.perf_counter() - b)"
    )
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"HALFBLIND_CACHE": cache}
        return float(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout)


def kernel_table() -> None:
    """Print ns per trial for every setting, alone and amortised, on one thread and on two."""
    from sim.kernels import numba_kernel

    jobs: dict[str, tuple[Callable[[], object], int]] = {}
    for name, (world, policy) in SETTINGS.items():
        for n in (8, 1):
            cells = eight(world, policy)[:n]
            tables, baseline = derive(cells), np.zeros(n, np.int32)
            runs = max(2, int(8e6 / trials(cells)))

            def one(tables=tables, baseline=baseline, runs=runs) -> None:  # type: ignore[no-untyped-def]
                numba_kernel.run(tables, baseline, 1, 0, runs)

            def two(one: Callable[[], None] = one) -> None:
                threads = [threading.Thread(target=one) for _ in range(2)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

            jobs[f"{name}, {n} cell{'s' * (n > 1)}"] = (one, runs * trials(cells))
            if n == 8:
                jobs[f"{name}, 8 cells, 2 threads"] = (two, 2 * runs * trials(cells))
    for job, _ in jobs.values():
        job()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(REPEATS):
        for name, (job, _) in jobs.items():
            seconds[name].append(timed(job))
    print(f"{'numba kernel':28}{'ns per trial: min':>18}{'median':>9}")
    for name, (_, n) in jobs.items():
        print(f"{name:28}{min(seconds[name]) / n * 1e9:18.2f}{statistics.median(seconds[name]) / n * 1e9:9.2f}")


def whole_command() -> None:
    """Print the seconds `python -m sim +sweep=cliff` takes from process start, with a cold and a warm cache."""
    for name, warm in (("cold cache", False), ("warm cache", True)):
        with tempfile.TemporaryDirectory() as folder:
            env = os.environ | ({} if warm else {"HALFBLIND_CACHE": str(Path(folder) / "cache")})
            command = [sys.executable, "-m", "sim", "+sweep=cliff", f"out={folder}/cliff"]
            seconds = timed(lambda c=command, e=env: subprocess.run(c, env=e, check=True, capture_output=True))  # type: ignore[misc]
        print(f"python -m sim +sweep=cliff, {name}: {seconds:.1f} s")


def main() -> None:
    """Print all tables."""
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}, numpy {np.__version__}")
    print(f"first call with an empty cache: {cold_compile():.1f} s")
    kernel_table()
    whole_command()


if __name__ == "__main__":
    main()
