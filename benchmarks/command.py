"""What a user waits for: the command from process start, with and without compiled code on disk, and its parts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The cliff, ended as soon as the first tile of one run is computed: kernel loaded, store made.
FIRST_TILE = """
import os, sys
from sim.kernels import backends
def first(layout, tables, baseline, seed, first_run, n_runs, play=backends.BACKENDS["numba"].simulate):
    play(layout, tables, baseline, seed, first_run, 1)
    os._exit(0)
backends.BACKENDS["numba"] = backends.Backend(first, 1)
sys.argv[0] = "sim"
from sim.__main__ import run
run()
"""


def seconds(command: list[str], env: dict[str, str], repeats: int = 1) -> float:
    """Return the least seconds of a command from process start to its end."""
    least = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run(command, env=env, check=True, capture_output=True)
        least = min(least, time.perf_counter() - began)
    return least


def report() -> None:
    """Print the seconds of each."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"HALFBLIND_CACHE": str(Path(folder) / "cache")}

        def cliff(name: str) -> list[str]:
            return ["+sweep=cliff", f"out={folder}/{name}"]

        print("seconds from process start (wall time)")
        for words in ("cold cache", "warm cache"):
            print(
                f"  python -m sim +sweep=cliff, {words}: {seconds([sys.executable, '-m', 'sim', *cliff(words[:4])], env):.1f}", flush=True
            )
        started = min(seconds([sys.executable, "-c", FIRST_TILE, *cliff(f"first{i}")], env) for i in range(3))
        print(f"  until a warm cliff starts computing: {started:.1f}")
        print(f"  python -m sim --help: {seconds([sys.executable, '-m', 'sim', '--help'], env, 3):.1f}")
