"""The command ``python -m real_loop.validate``: fit on clean runs, predict the others, compare."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sim.errors import InputError
from sim.report import Progress, folder, guarded

if TYPE_CHECKING:
    from real_loop.estimate import Estimated
    from real_loop.validate.conditions import Plan, Seen
    from real_loop.validate.figures import Cliff
    from real_loop.validate.judged import Held
    from real_loop.validate.predict import Difficulty

HELP: Final = """\
Does the simulator predict the real loop? Fit its world to clean runs, predict runs under other rewards, and compare.

usage: python -m real_loop.validate LOG [LOG ...] [key=value ...]

LOG is the folder of a finished run, or the log in it; one at least is of a clean run (reward=clean). All are of one suite, model and
split; they may differ in reward, policy and seed. With two clean runs or more each of them is predicted from the others.

  python -m real_loop.validate outputs/real_loop/clean* outputs/real_loop/bias*

keys:
  probes=FILE    split file with the probes that the tasks were chosen by (that of the runs, if it is found; none: without)
  draws=N        joint draws of worlds, tasks and runs (500; at least 320: fewer cannot tell chance from error among all variables)
  seed=N         of the draws (1)
  out=FOLDER     validate.md, validate.json and figures (outputs/validate)
  figures=no     without figures
"""
LEAST: Final = 320  # of draws: 1 of 321 is below a p of 5 % shared by fifteen variables
CLIFF: Final = ("retired", "active_final", "tail_sampled")
CHECKED: Final = 320  # joint draws of the checks, at least
GRID: Final = np.linspace(0.0, 1.0, 21)


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    logs: tuple[str, ...]
    probes: str | None = None
    draws: int = 500
    seed: int = 1
    out: Path = Path("outputs/validate")
    figures: bool = True


def read(args: Sequence[str]) -> Asked:
    """Read the command line.

    Raises
    ------
    InputError
        A key is unknown, or a value is not what it should be.
    """
    logs, given = [], dict[str, Any]()
    for arg in args:
        key, equals, text = arg.partition("=")
        if arg.startswith("-"):
            raise InputError(arg, "an unknown option", "LOG [LOG ...] [key=value ...]", "see python -m real_loop.validate --help")
        if not equals or os.path.exists(arg):
            logs.append(arg)
            continue
        if key not in ("probes", "draws", "seed", "out", "figures"):
            raise InputError(key, "an unknown key", "probes, draws, seed, out or figures")
        if key in given or not text.strip():
            raise InputError(key, "a second value" if key in given else "nothing", "one value")
        if key in ("draws", "seed"):
            low, high = {"draws": (LEAST, 100_000), "seed": (0, 2**31)}[key]
            if not text.isascii() or not text.isdigit() or not low <= int(text[:12]) <= high:
                raise InputError(key, text, f"a whole number from {low} to {high}")
            given[key] = int(text)
        elif key == "figures":
            if text not in ("yes", "no"):
                raise InputError(key, text, "yes or no")
            given[key] = text == "yes"
        else:
            given[key] = Path(os.path.expanduser(text)) if key == "out" else os.path.expanduser(text)
    if not logs:
        raise InputError("LOG", "none", "finished logs, one of a clean run at least", "see python -m real_loop.validate --help")
    return Asked(tuple(logs), **given)


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 1 a log that contradicts itself, 130 stopped."""
    return guarded(_main, args)


def _main(args: list[str]) -> int:
    if {"--help", "-h"} & set(args):
        print(HELP, end="")
        return 0
    asked = read(args)
    from real_loop.validate import conditions, judged, predict
    from real_loop.validate.criticism import criticise
    from real_loop.validate.page import Found, say, write

    logs = conditions.read(asked.logs)
    folder(asked.out)
    with Progress("validate") as progress:
        progress.note("fitting")
        fits, tasks, plan = fitted(logs, asked)
        progress.start(asked.draws, "predicting", "draws")
        draws = predict.predict(plan.runs, fits, tasks, asked.draws, asked.seed, lambda: progress.advance(1, True))
        held = judged.judged(logs, plan, draws)
        cliff = simulated(logs, plan, held, fits[0], tasks[0], asked, progress) if asked.figures else None
        n = max(CHECKED, asked.draws // 2)
        progress.start(n, "assumptions", "draws")
        checks = criticise([log.history for log in logs], plan.runs, fits[0], tasks[0], n, asked.seed, lambda: progress.advance(1, True))
        progress.note("writing")
        found = Found(logs, plan, held, checks, fits[0])
        written = write(asked.out, found, cliff, asked.figures)
    say(found)
    for path in written:
        print(path)
    return 0


def fitted(logs: Sequence[Seen], asked: Asked) -> tuple[list[Estimated], list[Difficulty], Plan]:
    """Fit a world for each set of logs that something is predicted from.

    Returns
    -------
    fits, tasks, plan
        Fits and what they saw of the tasks, in the plan's order.
    """
    from real_loop.estimate import estimate
    from real_loop.estimate.command import probes_of
    from real_loop.validate.conditions import clean, plan
    from real_loop.validate.predict import Difficulty, bare

    probes, _ = probes_of([log.history for log in logs], Path(asked.probes) if asked.probes is not None else None)
    first = estimate([log.history for log in clean(logs)], probes, asked.draws, asked.seed)
    made = plan(logs, first.world())
    histories = [[log.history for log in of] for of in made.fits]
    fits = [first if i == 0 else estimate(of, probes, asked.draws, asked.seed + i) for i, of in enumerate(histories)]
    tasks = [Difficulty(logs[0].history.tasks, bare(of), probes) for of in histories]
    return fits, tasks, made


def simulated(
    logs: Sequence[Seen], plan: Plan, held: Sequence[Held], fit: Estimated, tasks: Difficulty, asked: Asked, progress: Progress
) -> Cliff:
    """Simulate the cliff over rho_fp with the policy of the first log, and lay the real points on it."""
    from real_loop.validate.figures import Cliff
    from real_loop.validate.predict import Planned, predict
    from sim.model import Channel

    policy = logs[0].history.policy
    alike = [i for i, log in enumerate(logs) if log.history.policy == policy]
    base = replace(plan.runs[0].cell, policy=policy)
    grid = [Planned(replace(base, channel=Channel(float(q), 0.0)), 0, plan.runs[0].paired) for q in GRID]
    n = max(20, asked.draws // 4)
    progress.start(n, "the cliff", "draws")
    draws = predict(grid, [fit], tasks, n, asked.seed + 1000, lambda: progress.advance(1, True))
    drawn = {name: np.array([[v.final[name] for v in row] for row in draws]) for name in CLIFF}
    final = {h.name: h for h in held if not h.by_round}
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in CLIFF}
    others: dict[str, list[tuple[str, list[float], np.ndarray]]] = {name: [] for name in CLIFF}
    for name in CLIFF:
        by_condition: dict[str, list[int]] = {}
        for i in alike:
            r = logs[i].history.settings.reward
            if r.kind == "channel" and not r.rho_pf and not r.spread:
                points[name].append((r.rho_fp, float(final[name].real[i])))
            else:
                by_condition.setdefault(short(logs[i]), []).append(i)
        for condition, at in by_condition.items():
            band = final[name].bands[:, at].mean(axis=1)
            others[name].append((condition, [float(final[name].real[i]) for i in at], band))
    rounds, tasks_ = policy.rounds, logs[0].history.tasks
    about = f"{logs[0].history.identity['model']}: tau = {policy.tau:g}, n_min = {policy.n_min}, cap = {policy.cap}, {rounds} rounds, "
    about += f"{len(tasks_['train'])} train and {len(tasks_['eval'])} eval tasks"
    return Cliff(GRID, drawn, points, others, policy.tau, about)


def short(log: Seen) -> str:
    """Return a reward in few letters."""
    r = log.history.settings.reward
    if r.kind == "judge":
        return f"{r.prompt} judge"
    what = f"noise {r.rho_fp:g}" if r.rho_fp == r.rho_pf else f"{r.rho_fp:g}, {r.rho_pf:g}"
    return what + (f", spread {r.spread:g}" if r.spread else "")
