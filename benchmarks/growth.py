"""How time grows with each size, as one figure: outputs/bench/growth.png, with the exponent fitted to each."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.settings import SETTINGS, eight
from benchmarks.variants import in_threads, variants
from sim.model import Cell
from sim.tables import derive

OUT = Path("outputs/bench")
REPEATS = 4
SIZES = {
    "runs": [200, 400, 800, 1600, 3200, 6400, 12800],
    "rounds": [6, 12, 24, 48, 96, 192],
    "train tasks": [16, 32, 64, 128, 256, 512, 1024],
    "cap": [4, 8, 16, 32, 64, 128],
    "topics": [4, 8, 16, 32, 64],
    "cells": [1, 2, 4, 8, 16, 32],
    "threads": [1, 2],
}


def _setting(name: str, size: int) -> tuple[list[Cell], int, int]:
    """Return the cells, the runs and the threads of a point: S1 with one size changed."""
    world, policy = SETTINGS["S1"]
    cells, runs, threads = 1, 1000, 1
    if name == "runs":
        runs = size
    elif name == "rounds":
        policy = replace(policy, rounds=size)
    elif name == "train tasks":
        world = replace(world, n_train=size)
    elif name == "cap":  # enough rounds and writing to fill the shelf
        policy, runs = replace(policy, cap=size, rounds=100), 50
        world = replace(world, n_train=200, synth=replace(world.synth, cover_guard=0.0, per_round=4))
    elif name == "topics":
        world = replace(world, topics=size)
    elif name == "cells":
        cells = size
    elif name == "threads":
        runs, threads = 4000, size
    eights = eight(world, policy)
    return [eights[(3 + i) % len(eights)] for i in range(cells)], runs, threads


def measure(name: str, sizes: list[int]) -> tuple[np.ndarray, float]:
    """Return the seconds at each size, and the exponent of their growth by least squares on the upper sizes."""
    play = variants()[0]["numba"].play
    points = [_setting(name, size) for size in sizes]
    tables = [derive(cells) for cells, _, _ in points]
    best = np.full(len(sizes), np.inf)
    for repeat in range(REPEATS + 1):
        for i, (_, runs, threads) in enumerate(points):
            clock = time.perf_counter if threads > 1 or name == "threads" else time.process_time
            began = clock()
            in_threads(play, tables[i], runs // threads, threads)
            if repeat:
                best[i] = min(best[i], clock() - began)
    upper = slice(-4, None)
    return best, float(np.polyfit(np.log(sizes[upper]), np.log(best[upper]), 1)[0])


def report(progress: Any) -> None:
    """Measure, print the exponents, draw the figure."""
    sizes = SIZES | {"threads": [n for n in (1, 2, 4, 8, 16) if n <= max(2, len(os.sched_getaffinity(0)))]}
    found = {}
    for name, values in sizes.items():
        progress(f"growth with {name}")
        found[name] = measure(name, values)
    progress("")
    print("time grows with the power: " + ", ".join(f"{name} {exponent:.2f}" for name, (_, exponent) in found.items()))
    print("drawn: " + ", ".join(str(path) for path in draw(sizes, found)))


def draw(sizes: dict[str, list[int]], found: dict[str, tuple[np.ndarray, float]]) -> list[Path]:
    """Draw a panel for each size, both axes logarithmic."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator, StrMethodFormatter

    from sim.figures import style

    with style.context():
        figure, panels = style.page(
            2, 4, 1.9, "How time grows", "The numba kernel on S1 with one size changed; dashed: in proportion to it",
            "CPU time, minimum of repeats; for threads wall time of as many runs in all. The power is fitted to the largest four sizes.",
            sharex=False,
        )  # fmt: skip
        flat = [ax for row in panels for ax in row]
        for ax, (name, (seconds, exponent)) in zip(flat, found.items(), strict=False):
            x, y = np.array(sizes[name], float), seconds * 1e3
            ax.plot(x, y[0] * x[0] / x if name == "threads" else y[-1] * x / x[-1], "--", color=style.GREY, lw=0.8)
            ax.plot(x, y, "o-", color=style.COLOURS[0], ms=3.5, lw=1.2)
            ax.set_ylim(y.min() / 2, y.max() * 1.6)
            ax.set(xscale="log", yscale="log", title=f"{name}: power {exponent:.2f}")
            ax.xaxis.set_major_locator(FixedLocator(list(x[:: 2 if len(x) > 4 else 1])))
            ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            for axis in (ax.xaxis, ax.yaxis):
                axis.set_major_formatter(StrMethodFormatter("{x:g}"))
                axis.set_minor_locator(NullLocator())
        for ax in flat[len(found) :]:
            ax.set_visible(False)
        for row in panels:
            row[0].set_ylabel("milliseconds")
        OUT.mkdir(parents=True, exist_ok=True)
        return list(style.save(figure, OUT, "growth"))
