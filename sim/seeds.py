"""``python -m sim.power``: how many seeds a comparison of two conditions needs, as a table.

Conditions of a world are simulated together, run by run with the same random words (:mod:`sim.kernels`); what follows from
the runs is in :mod:`sim.power`.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.claims import CONDITIONS, EVALS, MAX_ROWS, PAPER_SEEDS, REPORTED, Questions, channels, read, settings
from sim.errors import InputError
from sim.report import WIDE, Progress, guarded
from sim.variables import METRIC, VARIABLES

if TYPE_CHECKING:
    from sim.config import Settings
    from sim.model import Cell, Channel
    from sim.power import Comparison, Needed, Placed

HELP = f"""\
Seeds needed to see a difference between two conditions, and the power of the papers' three.

usage: python -m sim.power [key=value ...] [--json]

  python -m sim.power                                          the papers' main claims, each against a clean judge
  python -m sim.power b=bias:0.45 world=report_main_71 metric=tail_sampled
  python -m sim.power a=noise:0.3 b=0.3/0 'metric=[retired,lift]' world=mbpp_hard100 'seeds=[3,10]'
  python -m sim.power world=report_band_58 policy.rounds=50 world.n_eval=200

keys; a list for a, b, world, metric or seeds, such as [retired,lift], makes a table of all combinations:
  a        the condition to compare with (clean)
  b        the other one ({", ".join(CONDITIONS)})
           noise:RATE (rho_fp = rho_pf), bias:RATE (rho_fp), RHO_FP/RHO_PF, or a channel preset such as strict_judge
  world    a preset of python -m sim (the papers' four)
  metric   a variable that a run has by itself (retired, synthesised, evicted, tail_sampled, tail_eval)
  seeds    seeds per condition whose power is given (3)
  power    power for which the seeds needed are given (0.8)
  alpha    level of the two-sided t-test (0.05)
  runs     libraries simulated per condition (10000)
  tasks    same: all seeds of both conditions share their tasks, as in the papers, so the eval with no skill is taken off;
           fresh: each seed draws its own tasks (same)
  policy=, world.KEY=, policy.KEY=, channel.spread=, channel.unit=, seed=, engine.threads=, --config-dir   as for python -m sim

--json prints a list with an object per row; null where there is no such number."""


# ---------------------------------------------------------------- simulating


def simulate(cells: Sequence[Cell], metrics: Sequence[str], runs: int, found: Settings, progress: Progress) -> np.ndarray:
    """Return each metric in every run, in its unit: float64, shape (metrics, cells, runs).

    Parameters
    ----------
    cells
        At least one.
    metrics
        Names in :mod:`sim.variables`.
    runs
        Per cell.
    found
        For the seed and the number of threads.
    progress
        Counts libraries.
    """
    from sim.kernels import numba_kernel
    from sim.sums import scale
    from sim.tables import derive

    tables = derive(cells)
    columns = [METRIC[VARIABLES[name].source] for name in metrics]
    units = np.stack([scale(VARIABLES[name].scale, tables.cells) for name in metrics])[..., None]
    out = np.empty((len(metrics), len(cells), runs))
    # short enough to stop soon after Ctrl-C, and to keep the records of each round out of the way
    chunk = max(1, min(1000, 2**21 // (len(cells) * int(tables.cells["rounds"].max()))))

    def play(first: int) -> None:
        n = min(chunk, runs - first)
        records = numba_kernel.run(tables, np.zeros(len(cells), np.int32), found.sweep.seed, first, n, keep_records=True).records
        out[:, :, first : first + n] = np.moveaxis(records[:, :, columns], 2, 0) * units
        progress.advance(len(cells) * n, True)

    pool = ThreadPoolExecutor(found.threads or len(os.sched_getaffinity(0)))
    try:
        for _ in pool.map(play, range(0, runs, chunk)):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
    return out


def against_no_skill(values: np.ndarray, metrics: Sequence[str]) -> dict[str, np.ndarray]:
    """Return metrics by name with the eval with no skill taken off those that are evals of the same tasks.

    All seeds of a paper share one draw of tasks; each run here has its own. What the draw adds to an eval is all but gone in
    its difference to what the same tasks give without skills, which is known exactly (``floor_eval``).

    Parameters
    ----------
    values
        float64, shape (metrics, cells, runs); ``floor_eval`` among the metrics.
    metrics
        Their names.
    """
    floor = values[list(metrics).index("floor_eval")]
    return {name: row - floor if name in EVALS else row for name, row in zip(metrics, values, strict=True)}


# ---------------------------------------------------------------- rows


@dataclass(frozen=True)
class Row:
    """One comparison: what was asked, and what came out."""

    world: str
    a: str
    b: str
    metric: str
    seeds: int
    found: Comparison
    reported: float | None
    source: str
    placed: Placed | None

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        found = dataclasses.asdict(self.found)
        placed = dataclasses.asdict(self.placed) if self.placed else {"z": None, "chance": None}
        asked = {name: getattr(self, name) for name in ("world", "a", "b", "metric", "seeds")}
        return {**asked, **found, "reported": self.reported, "source": self.source or None, **placed}


def answer(asked: Questions, more: Path | None, progress: Progress) -> list[Row]:
    """Simulate what is asked about and compare.

    Raises
    ------
    InputError
        Something in it is wrong; nothing has been simulated then.
    """
    from sim.kernels.backends import backend
    from sim.main import compile_kernel
    from sim.tables import check_limits

    known = channels(asked, more)
    pairs = list(dict.fromkeys((known[a][0], known[b][0]) for a, b in itertools.product(asked.a, asked.b) if known[a] != known[b]))
    if not pairs:
        raise InputError("b", ", ".join(asked.b), "a condition other than a")
    if (rows := len(pairs) * len(asked.world) * len(asked.metric) * len(asked.seeds)) > MAX_ROWS:
        raise InputError("rows", rows, f"at most {MAX_ROWS}")
    by_name: dict[str, Channel] = dict(known.values())
    worlds = {world: settings(asked, world, more) for world in asked.world}
    cells = {world: [replace(cell, channel=channel) for channel in by_name.values()] for world, (_, cell) in worlds.items()}
    for cell in itertools.chain(*cells.values()):
        check_limits(cell)
    progress.note("compiling the kernel (once for this version)")
    compile_kernel(next(iter(worlds.values()))[0], backend("numba"), progress)
    metrics = list(dict.fromkeys([*asked.metric, "floor_eval"]))
    values = {}
    for world, (found, _) in worlds.items():
        progress.start(len(by_name) * asked.runs, world)
        simulated = simulate(cells[world], metrics, asked.runs, found, progress)
        values[world] = against_no_skill(simulated, metrics) if asked.tasks == "same" else dict(zip(metrics, simulated, strict=True))
    progress.start(rows, "testing", "rows")
    position = {name: i for i, name in enumerate(by_name)}
    out = []
    for world, metric, (a, b), seeds in itertools.product(asked.world, asked.metric, pairs, asked.seeds):
        out.append(_row(asked, world, a, b, metric, seeds, values[world][metric], position))
        progress.advance(1, True)
    return out


def _row(asked: Questions, world: str, a: str, b: str, metric: str, seeds: int, runs: np.ndarray, position: Mapping[str, int]) -> Row:
    from sim.power import GROUPS, RESAMPLED, compare, place

    one, other = runs[position[a]], runs[position[b]]
    groups = min(GROUPS, GROUPS * RESAMPLED // max(seeds, RESAMPLED))  # of many seeds fewer groups, for memory
    found = compare(one, other, seeds, asked.alpha, asked.power, groups)
    reported, source = REPORTED.get((world, b, metric), (None, "")) if a == "clean" else (None, "")
    placed = None if reported is None else place(reported, one, other, PAPER_SEEDS)
    return Row(world, a, b, metric, seeds, found, reported, source, placed)


# ---------------------------------------------------------------- command line


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 130 stopped."""
    return guarded(_main, args)


def _main(args: list[str]) -> int:
    from sim.main import config_dir

    if {"--help", "-h"} & set(args):
        print(HELP)
        return 0
    more, args = config_dir(args)
    flags = [a for a in args if a.startswith("-")]
    if unknown := [f for f in flags if f != "--json"]:
        raise InputError(unknown[0], "an unknown option", "--json, --config-dir or --help")
    asked = read([a for a in args if not a.startswith("-")])
    with Progress("power") as progress:
        rows = answer(asked, more, progress)
    if "--json" in flags:
        print(json.dumps([row.as_json() for row in rows], indent=2, allow_nan=False))
    else:
        print_tables(asked, rows)
    return 0


def print_tables(asked: Questions, rows: Sequence[Row]) -> None:
    """Print a table per world."""
    from rich.console import Console
    from rich.table import Table

    from sim.power import RESAMPLED

    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    several = [name for name in ("a", "seeds") if len({getattr(row, name) for row in rows}) > 1]
    seeds = f"{asked.seeds[0]} seeds" if "seeds" not in several else "seeds"
    for world, part in itertools.groupby(rows, lambda row: row.world):
        group = list(part)
        placed = any(row.placed for row in group)
        title = world if "a" in several else f"{world}, against {rows[0].a}"
        table = Table(title=title, title_justify="left", header_style="bold")
        for name in ("metric", *several, "b"):
            table.add_column(name)
        names = ("difference", "sd of a seed", f"power of\n{seeds}", f"seeds for\n{100 * asked.power:g} %", "if paired")
        for name in (*names, *(("reported", "z", "chance") if placed else ())):
            table.add_column(name, justify="right")
        for metric, block in itertools.groupby(group, lambda row: row.metric):
            for i, row in enumerate(block):
                cells = (metric if i == 0 else "", *(str(getattr(row, name)) for name in several), row.b, *_numbers(row))
                table.add_row(*cells, *(_placed(row) if placed else ()))
            table.add_section()
        console.print(table)
    alarms = max(max(row.found.false_alarms) for row in rows)
    print(f"difference ± standard error over {asked.runs:,} runs per condition; sd: of a, of b; t-test, two-sided at {asked.alpha:g},")
    print(
        f"Welch's or paired; power by resampling, seeds beyond {RESAMPLED} as if values were normal; ?: difference within two errors of 0"
    )
    print(f"false alarms, between seeds of one condition: at most {100 * alarms:.1f} % in these rows")
    if asked.tasks == "same":
        print("evals are taken against the same tasks with no skill: seeds share their tasks (tasks=fresh: they do not)")
    print("paired: seeds share all randomness, which real models cannot quite; tail_eval: exact, as with very many attempts per task")
    if any(row.placed for row in rows):
        print(f"reported: BC, {PAPER_SEEDS} seeds; z: of that from the simulated difference; chance: of one as large between seeds of a")
    print("the worlds are fits to what the papers report: read orders of magnitude")


def _numbers(row: Row) -> list[str]:
    found, digits = row.found, 4 if VARIABLES[row.metric].units == "pass rate" else 3
    return [
        f"{found.difference:+.{digits}f} ± {found.se:.{digits}f}",
        f"{found.sd_a:.3f}, {found.sd_b:.3f}",
        f"{found.power:.3f}",
        _seeds(found.needed),
        _seeds(found.needed_paired),
    ]


def _placed(row: Row) -> list[str]:
    if row.reported is None or row.placed is None:
        return ["", "", ""]
    z, chance = row.placed.z, row.placed.chance
    return [f"{row.reported:+g}", "-" if z is None else f"{z:+.1f}", "<0.001" if chance < 0.001 else f"{chance:.3f}"]


def _seeds(needed: Needed) -> str:
    from sim.power import MOST_SEEDS

    return {"beyond": f"> {MOST_SEEDS}", "unresolved": "?"}.get(needed.by, str(needed.n))
