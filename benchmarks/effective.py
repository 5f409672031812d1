"""Statistics per second: how many runs an answer takes with common random numbers and an exact eval, and without either.

The answer is delta_clean, the tail eval under a judge that passes 30 % of the failures against the same loop under a perfect
one, to a standard error of 0.01. A run counts twice, once per judge. Independent runs have another seed in the clean loop. The
sampled eval attempts each eval task once per round, as one would with a real agent.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from sim.config import load
from sim.kernels import numba_kernel
from sim.model import Cell
from sim.tables import EVAL_BITS, derive
from sim.variables import METRIC

WORLDS = ("report_main_71", "report_band_58", "report_hard_133", "report_weak_71")
Q = 0.3
SE = 0.01
RUNS = 20_000
WAYS = ("common, exact", "common, sampled", "independent, exact", "independent, sampled")


def pair(world: str) -> list[Cell]:
    """Return a preset under a clean judge and under one with hidden failures, BC's controller."""
    return [load([f"world={world}", "policy=bc", f"channel.rho_fp={q}", "channel.rho_pf=0.0"]).sweep.cell(()) for q in (0.0, Q)]


def spreads(world: str) -> tuple[dict[str, float], float]:
    """Return the standard deviation of delta_clean of one pair of runs, by way, and how much longer a run with sampled eval takes."""
    cells = pair(world)
    sampled = [replace(cell, policy=replace(cell.policy, sampled_eval=True)) for cell in cells]
    tables, base = derive(sampled), np.zeros(2, np.int32)
    records = [numba_kernel.run(tables, base, seed, 0, RUNS, keep_records=True).records for seed in (1, 2)]
    n_eval, window = cells[0].world.n_eval, cells[0].policy.window
    out = {}
    for seeds, clean in (("common", records[0]), ("independent", records[1])):
        for kind, metric, unit in (("exact", "tail_eval", 2.0**-EVAL_BITS / window), ("sampled", "tail_sampled", 1.0 / (window * n_eval))):
            difference = records[0][1, :, METRIC[metric]] - clean[0, :, METRIC[metric]]
            out[f"{seeds}, {kind}"] = float(difference.std(ddof=1)) * unit
    seconds = {}
    for name, these in (("exact", derive(cells)), ("sampled", tables)):
        least = math.inf
        for _ in range(5):
            began = time.process_time()
            numba_kernel.run(these, base, 1, 0, RUNS // 4)
            least = min(least, time.process_time() - began)
        seconds[name] = least
    return out, seconds["sampled"] / seconds["exact"]


def report() -> None:
    """Print the pairs of runs needed in each world and way, and the factors."""
    print(f"pairs of runs for a standard error of {SE} of delta_clean at q = {Q}, from {RUNS:,} pairs")
    print(f"{'':18}" + "".join(f"{way:>22}" for way in WAYS) + f"{'factor':>9}{'in time':>9}")
    for world in WORLDS:
        sd, longer = spreads(world)
        needed = {way: (sd[way] / SE) ** 2 for way in WAYS}
        factor = needed[WAYS[3]] / needed[WAYS[0]]
        cells = "".join(f"{needed[way]:14.1f} ({needed[way] / needed[WAYS[0]]:4.1f}x)" for way in WAYS)
        print(f"{world:18}{cells}{factor:8.1f}x{factor * longer:8.1f}x")
