"""``python -m real_loop.probe``: choose the tasks that a model does not always pass, as the papers built their subsets.

Each task is attempted a few times by the bare model. The tasks that fit the subset's rule are split at random into train and eval, and
the split is written to a file that later runs and other machines use. The attempts are in a log beside it: a probe that was stopped
goes on where it was.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.errors import InputError
from sim.main import config_dir
from sim.report import Progress, guarded

if TYPE_CHECKING:
    from real_loop.roles import At, Grader, Solver
    from real_loop.settings import Settings
    from real_loop.suites import Suite, Task

HELP = """\
Attempt each task of a suite a few times with the bare model; keep those that fit the subset's rule, split into train and eval.

usage: python -m real_loop.probe subset=NAME [model=...] [key=value ...]

  python -m real_loop.probe subset=mbpp_hard100 model=local/qwen2.5-coder-0.5b
  python -m real_loop.probe subset=mbpp_hard100 subset.n_train=30 subset.n_eval=20 out=mine.json
  python -m real_loop.probe subset=report_main_71 model=local/qwen2.5-coder-1.5b

The split goes to outputs/splits, or to out=FILE, and the attempts to a log beside it; the same command again goes on.
Keys are those of python -m real_loop: model, base_url, subset.*, roles.solver.*, budget.*, seed.
"""
PROBE = "probe"


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 1 ended before its time, 130 stopped."""
    return guarded(_main, args)


def _main(args: list[str]) -> int:
    given = args
    more, args = config_dir(args)
    if {"--help", "-h"} & set(args):
        print(HELP, end="")
        return 0
    if flags := [a for a in args if a.startswith("-")]:
        raise InputError(flags[0], "an unknown option", "--help or --config-dir")
    from real_loop.config import load
    from real_loop.main import held, shown
    from real_loop.tasks import OWN, opened, solver_model, split_name

    settings = load(args, more).settings
    subset, model = settings.subset, solver_model(settings)
    if settings.scripted:
        raise InputError("model", repr(settings.model), "a model that can be asked", "scripted roles bring their own tasks")
    if subset.keep == "all" or subset.probes < 1:
        got = f"{subset.name}, which keeps all tasks"
        raise InputError("subset", got, "one that probes choose, such as mbpp_hard100", "or set subset.keep=any_fail subset.probes=3")
    path = Path(os.path.expanduser(settings.out)) if settings.out else OWN / split_name(subset.name, model)
    if path.suffix != ".json":
        raise InputError("out", str(path), "a file that ends in .json")
    suite = opened(settings)
    release = held(path.parent)
    try:
        with Progress(f"probing {suite.name}") as progress:
            passes = asyncio.run(probed(settings, suite, path.with_suffix(".probes.sqlite"), progress))
    except KeyboardInterrupt:
        again = shlex.join(["python", "-m", "real_loop.probe", *shown(given)])
        print(f"stopped; what was attempted is kept. Continue with: {again}", file=sys.stderr)
        return 130
    finally:
        release()
    _write(path, settings, suite, model, passes)
    return 0


async def probed(settings: Settings, suite: Suite, path: Path, progress: Progress) -> dict[str, int]:
    """Attempt every task as often as the subset says; return how often each passed.

    Raises
    ------
    BudgetReached, ServiceError
        What was attempted is in the log.
    """
    from real_loop.calls import Calls, together
    from real_loop.log import Log, check
    from real_loop.roles import At
    from real_loop.roles.prompted import PromptedSolver
    from real_loop.roles.trade import trade_of
    from real_loop.run import Graded, LoggedBudget, clients, until_stopped
    from real_loop.tasks import pool

    role, trade = settings.roles.solver, trade_of(suite.name)
    told: dict[str, dict[str, Any]] = {
        "probe": {"suite": suite.name, "digest": suite.digest, "model": role.model or settings.model, "seed": settings.seed}
    }
    told["probe"] |= {"run": settings.run, "pool": settings.subset.pool}
    told["probe"] |= {"temperature": role.temperature, "max_tokens": role.max_tokens, "prompts": trade.digest()}
    check(path, told)
    budget, number = LoggedBudget(settings), settings.subset.probes
    note: Callable[[str], None] = progress.note
    async with clients(settings, budget, note, only=("solver",)) as models:
        with closing(Log(path, told)) as log:
            budget.keep(log)
            calls = Calls(log, models, budget, settings.seed, settings.run, False)
            solver, grader = PromptedSolver(calls, replace(role, model=None), trade), Graded(suite)

            async def attempt(probe: int, i: int, task: Task) -> tuple[str, bool | None]:
                at = At(probe, PROBE, i, task.id)
                capsule = log.capsule(probe, PROBE, task.id)
                fresh = capsule is None
                if fresh:
                    calls.check()
                    capsule = await attempted(at, task, solver, grader)
                    log.add("capsules", capsule)
                progress.advance(1, fresh)
                return task.id, None if capsule["passed"] is None else bool(capsule["passed"])

            chosen = set(pool(settings, suite))
            tasks = [task for task in suite.tasks if task.id in chosen]
            progress.start(number * len(tasks), unit="attempts")
            work = [attempt(probe, i, task) for probe in range(number) for i, task in enumerate(tasks)]
            local = all(client.name.startswith("local/") for client in models.values())
            outcomes = await until_stopped(together(calls, work), calls, note, local)
    void = {name for name, passed in outcomes if passed is None}
    passes = dict.fromkeys((name for name, _ in outcomes if name not in void), 0)
    for name in passes:
        passes[name] = sum(bool(passed) for other, passed in outcomes if other == name)
    if void:
        print(f"left out: {len(void)} tasks whose prompts are longer than the model's context", file=sys.stderr)
    return passes


async def attempted(at: At, task: Task, solver: Solver, grader: Grader) -> dict[str, Any]:
    """Attempt a task once with the bare model; return the capsule, without an outcome where the prompt is too long for the model."""
    from real_loop.log import plain
    from real_loop.suites import Grade

    answer = await solver.solve(at, task, None)
    if answer.void:
        grade = Grade(False, "", 0.0, answer.void)
    else:
        grade = await grader.grade(at, task, answer.answer)
    return {
        "round": at.round, "phase": PROBE, "task": task.id, "position": at.index, "skill": None, "injected": 0, "route_call": None,
        "solve_call": answer.call, "prompt": answer.prompt, "answer": answer.answer, "observed": None,
        "passed": None if answer.void else int(grade.passed), "reason": grade.logged, "trace": plain(grade.trace),
        "judge_call": None, "tokens": 0, "cost": None, "seconds": grade.seconds,
    }  # fmt: skip


def _write(path: Path, settings: Settings, suite: Suite, model: str, passes: dict[str, int]) -> None:
    from real_loop.suites import split

    subset, number = settings.subset, settings.subset.probes
    counts = Counter(passes.values())
    print(
        f"{suite.name}, {number} attempts at each of {len(passes)} tasks by {model}; passed "
        + ", ".join(f"{k}: {counts[k]} tasks" for k in range(number + 1))
    )
    train, evals = split.choose(passes, number, subset.keep, subset.n_train, subset.n_eval, subset.split_seed, split.strata(suite))
    temperature = settings.roles.solver.temperature
    found = split.Split(suite.name, suite.digest, model, subset.split_seed, number, temperature, subset.keep, passes, train, evals)
    split.write(path, found)
    if not any(passes.values()):
        print(f"{model} passed none of them: see in the log what it answered, {path.with_suffix('.probes.sqlite')}", file=sys.stderr)
    print(f"{len(train)} train and {len(evals)} eval tasks: {path}")
    sizes = f"subset={subset.name} subset.n_train={subset.n_train} subset.n_eval={subset.n_eval}"
    print(f"python -m real_loop {sizes} model={model}" + (f" subset.split={path}" if settings.out else ""))


if __name__ == "__main__":
    from sim.__main__ import started

    started("real_loop.probe")
