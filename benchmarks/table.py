"""The table of speeds: every program on every setting, in one process and interleaved; memory and compile time in processes of their own.

Programs of one thread are timed by the CPU time of the process, which a busy machine disturbs less than wall time; with
threads, and for JAX, it is wall time. Baselines keep ratios to the C kernel, which say more than times do on another machine.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks import compiled
from benchmarks.settings import SETTINGS, eight, trials
from benchmarks.variants import ANCHORS, Variant, in_threads, variants
from sim.tables import derive

REPEATS = 9
SECONDS = 0.12  # of one call
MOST = 1.0  # of all calls of a program in one setting: no further repeats beyond
SHORT, SHORT_REPEATS = 0.02, 60  # seconds of a call with threads, which need free cores at the same time
MOVED = 0.10
BASELINE = Path(__file__).resolve().parent / "baseline.json"
NEAR = "numba"  # what the baseline follows

Progress: TypeAlias = Callable[[str], None]
"""Called with what is being done."""


def cpu_model() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """Return what the times depend on."""
    import llvmlite.binding
    import numba

    features = llvmlite.binding.get_host_cpu_features()
    wide = "AVX-512" if features.get("avx512f") else "AVX2" if features.get("avx2") else platform.machine()
    return {
        "processor": f"{cpu_model()} ({llvmlite.binding.get_host_cpu_name()})",
        "class": f"{llvmlite.binding.get_host_cpu_name()}, {wide}",
        "cores": len(os.sched_getaffinity(0)),
        "compiler": compiled.compiler_version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def measure(found: dict[str, Variant], progress: Progress) -> dict[str, dict[str, tuple[float, float]]]:
    """Return ns per trial, minimum and median, by setting and program: eight cells at a time, or one where they do not share."""
    out: dict[str, dict[str, tuple[float, float]]] = {}
    for setting, (world, policy) in SETTINGS.items():
        eight_cells = eight(world, policy)
        given = {alone: (derive(cells), trials(cells)) for alone, cells in ((False, eight_cells), (True, eight_cells[:1]))}
        runs = {name: max(1, round(SECONDS * 1e9 / v.speed / given[v.alone][1] / v.batch)) * v.batch for name, v in found.items()}
        samples: dict[str, list[float]] = {name: [] for name in found}
        for repeat in range(REPEATS + 1):
            progress(f"{setting}: {repeat} of {REPEATS} repeats")
            for name, variant in found.items():
                tables, per_run = given[variant.alone]
                if sum(samples[name]) * runs[name] * per_run > MOST * 1e9:
                    continue
                clock = time.perf_counter if variant.wall else time.process_time
                began = clock()
                variant.play(tables, runs[name])
                if repeat or variant.alone:  # the first warms up; these have nothing to warm
                    samples[name].append((clock() - began) / (runs[name] * per_run) * 1e9)
        out[setting] = {name: (min(values), statistics.median(values)) for name, values in samples.items()}
    return out


def scaling(found: dict[str, Variant], progress: Progress) -> dict[str, tuple[float, float]]:
    """Return how many times as fast two threads are as one, by setting: by wall time, and were both cores free, by CPU time.

    Minimum of many short calls. On a busy machine the two threads seldom have two cores, and the first says little.
    """
    out = {}
    for setting, (world, policy) in SETTINGS.items():
        progress(f"{setting}: two threads")
        cells = eight(world, policy)
        tables, runs, wall = derive(cells), max(1, round(SHORT * 1e9 / found[NEAR].speed / trials(cells))), {1: np.inf, 2: np.inf}
        cpu = dict(wall)
        for _ in range(SHORT_REPEATS):
            for threads in wall:
                began, used = time.perf_counter(), time.process_time()
                in_threads(found[NEAR].play, tables, runs, threads)
                wall[threads] = min(wall[threads], time.perf_counter() - began)
                cpu[threads] = min(cpu[threads], time.process_time() - used)
        out[setting] = float(2 * wall[1] / wall[2]), float(4 * cpu[1] / cpu[2])
    return out


# ---------------------------------------------------------------- a process per program

CHILD = "import sys; from benchmarks.table import child; child(sys.argv[1], int(sys.argv[2]))"


def child(name: str, again: int) -> None:
    """Print the CPU seconds that a first call takes longer than a second one, and the peak memory in MiB; S2."""
    from sim.kernels import numba_kernel  # noqa: F401  (imported now: that is not compiling)

    tables = derive(eight(*SETTINGS["S2"])[: 1 if name == "plain Python" else 8])

    def play() -> float:
        began = sum(os.times()[:4])  # the C compiler is a child
        variants(name)[0][name].play(tables, {"plain Python": 1, "NumPy, over runs": 256}.get(name, 64))
        return sum(os.times()[:4]) - began

    print(play() - (play() if again else 0.0), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def alone(name: str) -> tuple[float, float]:
    """Return (seconds to compile, with nothing compiled before; peak MiB) of a program in a process of its own."""
    compiles = name.startswith(("C,", "numba", "JAX"))
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"HALFBLIND_CACHE": cache, "TMPDIR": cache} if compiles else dict(os.environ)
        done = subprocess.run([sys.executable, "-c", CHILD, name, str(int(compiles))], env=env, capture_output=True, text=True, check=True)
    seconds, memory = (float(word) for word in done.stdout.split())
    return (seconds if compiles else 0.0), memory


# ---------------------------------------------------------------- the baseline


def ratios(times: dict[str, dict[str, tuple[float, float]]]) -> dict[str, float]:
    """Return the times of the numba kernel as ratios to each C build of the same run, by setting."""
    return {
        f"{setting}, {NEAR} / {anchor}": round(by_name[NEAR][0] / by_name[anchor][0], 3)
        for setting, by_name in times.items()
        for anchor in ANCHORS
        if anchor in by_name
    }


def moved(now: dict[str, float], then: dict[str, float]) -> list[str]:
    """Return a line for each ratio that differs from the baseline's by more than a tenth."""
    return [
        f"{name}: {then[name]:.2f} -> {value:.2f}, {'slower' if value > then[name] else 'faster'} by {abs(value / then[name] - 1):.0%}"
        for name, value in now.items()
        if name in then and abs(value / then[name] - 1) > MOVED
    ]


def baselines() -> dict[str, Any]:
    """Return the baselines kept, by class of machine."""
    return json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}


def keep_baseline(where: dict[str, Any], now: dict[str, float]) -> None:
    """Write the baseline of this class of machine anew."""
    kept = {key: where[key] for key in ("compiler", "python", "numpy", "numba")}
    all_ = baselines() | {where["class"]: {"ratios": now, "with": kept}}
    BASELINE.write_text(json.dumps(all_, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def report(keep: bool, progress: Progress) -> None:
    """Print the table, the ratios, and what moved against the baseline; with ``keep`` write the baseline."""
    found, missing = variants()
    where = machine()
    beside = {}
    for name in found:
        progress(f"{name} in a process of its own")
        beside[name] = alone(name)
    times = measure(found, progress)
    two = scaling(found, progress)
    progress("")
    named = [f"{where['cores']} cores", where["compiler"], *(f"{key} {where[key]}" for key in ("python", "numpy", "numba"))]
    print(", ".join([where["processor"], *named]) + "\n")
    print(f"{'ns per trial, 8 cells':24}" + "".join(f"{s:>8} min  median" for s in times) + "   compile s   peak MiB")
    for name in found:
        row = f"{name:24}" + "".join(f"{times[s][name][0]:12.2f}{times[s][name][1]:8.2f}" for s in times)
        compile_, memory = beside.get(name, (0.0, 0.0))
        print(row + (f"{compile_:12.1f}" if compile_ else f"{'':12}") + (f"{memory:11.0f}" if memory else ""))
    for name, why in missing.items():
        print(f"{name:24}  left out: {why}")
    print("\ntwo threads, times as fast: " + ", ".join(f"{s} {wall:.2f} (by CPU time {cpu:.2f})" for s, (wall, cpu) in two.items()))
    now = ratios(times)
    for name, value in now.items():
        print(f"{name}: {value:.2f}")
    if keep:
        keep_baseline(where, now)
        print(f"baseline of {where['class']} written")
        return
    then = baselines().get(where["class"])
    if then is None:
        print(f"no baseline for {where['class']}; write one: python -m benchmarks --baseline")
        return
    lines = moved(now, then["ratios"])
    print("moved by more than 10 % as a ratio to C: " + ("; ".join(lines) if lines else "nothing"))
