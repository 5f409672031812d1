"""``python -m real_loop.lift``: what a run's final library is worth, task by task, against the same tasks without it (BC App. G).

The library is frozen as it was on the shelf at the end. Every task is attempted a few times with it, the router choosing as in the
run, and as often with routing withheld; or with the library of another run. The seeds of sampling depend on the task and the repeat,
not on the arm, and what was asked in one arm is not asked again in the other: where both arms ask the same, because the router declined,
both have the same answer and the difference is exactly zero. What is left is what skills changed. Everything is in a log of its own, so
that a command that was stopped goes on where it was; the run's own log is only read.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from real_loop.calls import Calls, together
from real_loop.library import Skill
from real_loop.log import Log, Reader, check, plain
from real_loop.roles import EVAL, TRAIN, At, Router
from real_loop.settings import Settings
from sim.errors import InputError
from sim.report import Progress, guarded

if TYPE_CHECKING:
    from real_loop.lift_report import Attempts
    from real_loop.run import Graded
    from real_loop.suites import Suite, Task

HELP: Final = """\
Attempt each eval task a few times with a run's final library and as often without it; compare task by task.

usage: python -m real_loop.lift LOG [repeats=3] [against=LOG2] [tasks=eval | all] [unfinished=yes] [out=FOLDER] [--json] [key=value ...]

  python -m real_loop.lift outputs/real_loop/report_band_58/default
  python -m real_loop.lift RUN repeats=10 base_url=http://127.0.0.1:8080/v1 budget.cost=2
  python -m real_loop.lift CLEAN against=BIASED            two libraries: does the biased judge's one harm?
  python -m real_loop.lift RUN unfinished=yes              of a run that is not over: the shelf after its last whole round

Models, prompts and temperatures are those of the run; a routed skill is always injected, also of a run that withheld it. tasks=all adds
the train tasks, from whose failures the skills were written. Keys: budget.*, base_url, roles.ROLE.base_url, servers, concurrency,
patience and sandbox, as of python -m real_loop.

Results go to LOG's folder/lift, or to out=FOLDER: lift.sqlite, report.json, lift.png. The same command again goes on where it stopped, and
with larger repeats= adds to what is there. --json prints report.json and nothing else.
"""
OWN: Final = ("repeats", "against", "tasks", "unfinished", "out")
WITH, WITHOUT, OTHER = "library", "withheld", "against"  # arms
MOST: Final = 1000  # repeats


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 1 ended before its time, 130 stopped."""
    return guarded(_main, args)


@dataclass(frozen=True)
class Asked:
    """What a command asks for: logs, how often, which tasks, and settings of where and how far."""

    log: str
    against: str | None
    repeats: int
    tasks: str
    unfinished: bool
    out: str | None
    given: dict[str, Any]


@dataclass(frozen=True)
class Frozen:
    """A library as it was on the shelf when its run, or the last whole round of it, was over."""

    path: Path
    identity: dict[str, Any]
    settings: Settings
    shelf: tuple[Skill, ...]
    ended: int


def _main(args: list[str]) -> int:
    if {"--help", "-h"} & set(args):
        print(HELP, end="")
        return 0
    from real_loop import lift_report
    from real_loop.main import held, shown

    asked = _asked([a for a in args if a != "--json"])
    library = frozen(asked.log, asked.unfinished)
    other = frozen(asked.against, asked.unfinished) if asked.against is not None else None
    if other is not None:
        _same_tasks(library, other)
    settings = with_given(library.settings, asked.given)
    out = Path(os.path.expanduser(asked.out)) if asked.out else library.path.parent / _folder(other)
    suite, tasks = tasks_of(library, settings, asked.tasks)
    release = held(out)
    try:
        with Progress("lift") as progress:
            work = played(settings, library, other, suite, tasks, asked.repeats, out / "lift.sqlite", progress)
            attempts = asyncio.run(work)
    except KeyboardInterrupt:
        again = shlex.join(["python", "-m", "real_loop.lift", *shown(args)])
        print(f"stopped; what was attempted is kept. Continue with: {again}", file=sys.stderr)
        return 130
    finally:
        release()
    about = {
        "log": str(library.path), "against": str(other.path) if other else None, "rounds": [library.ended, library.settings.policy.rounds],
        "skills": [len(library.shelf), len(other.shelf) if other else 0], "tasks": asked.tasks, "repeats": asked.repeats,
    }  # fmt: skip
    report = lift_report.report(attempts, about)
    files = lift_report.write(report, out)
    if "--json" in args:
        print(json.dumps(report, indent=1))
    else:
        lift_report.say(report)
        for file in files:
            print(file)
    return 0


def _asked(args: list[str]) -> Asked:
    from real_loop.config import FREE, read_args

    if flags := [a for a in args if a.startswith("-")]:
        raise InputError(flags[0], "an unknown option", "--json or --help")
    logs = [a for a in args if "=" not in a or "/" in a.partition("=")[0]]
    if len(logs) != 1:
        raise InputError("LOG", ", ".join(logs) or "none", "one folder of a run, or the log in it", "see python -m real_loop.lift --help")
    texts = {key: value for key, _, value in (a.partition("=") for a in args if a not in logs) if key == "against"}
    given = read_args([a for a in args if a not in logs and a.partition("=")[0] != "against"])
    own = {key: given.pop(key) for key in OWN if key in given}
    for key in given:
        if key.split(".")[0] not in FREE and not (key.startswith("roles.") and key.endswith(".base_url")):
            known = [*OWN, *(k for k in FREE if k != "out"), "roles.ROLE.base_url"]
            raise InputError(key, "a key that is not asked for here", "one of " + ", ".join(known), "all else is as the run had it")
    repeats, which, unfinished = own.get("repeats", 3), own.get("tasks", "eval"), own.get("unfinished", False)
    if isinstance(repeats, bool) or not isinstance(repeats, int) or not 1 <= repeats <= MOST:
        raise InputError("repeats", repr(repeats), f"a whole number from 1 to {MOST}")
    if which not in ("eval", "all"):
        raise InputError("tasks", repr(which), "eval or all")
    if not isinstance(unfinished, bool):
        raise InputError("unfinished", repr(unfinished), "yes or no")
    return Asked(logs[0], texts.get("against"), repeats, which, unfinished, own.get("out"), given)


def _folder(other: Frozen | None) -> str:
    return "lift" if other is None else f"lift-against-{other.path.parent.name or other.path.stem}"


# ---------------------------------------------------------------- what is compared


def frozen(log: str, unfinished: bool) -> Frozen:
    """Return a run's final library: what its log says was on the shelf at the end, after the decisions were made again.

    Raises
    ------
    InputError
        It is no log of a run of real models, or the run is not over and may not be unfinished, or no round of it is over.
    RunError
        The log contradicts itself.
    """
    from real_loop.history import History

    with closing(Reader(log)) as reader:
        history = History(reader)
        history.check()
    if history.settings.scripted is not None:
        todo = "its skills have no texts that a model could be given"
        raise InputError(str(reader.path), f"a run of scripted roles ({history.settings.model})", "a run of real models", todo)
    over = f"{history.ended} of {history.policy.rounds} rounds"
    if not history.finished and not unfinished:
        todo = "finish it, or take the shelf after the last whole round: unfinished=yes"
        raise InputError(str(reader.path), f"a run that is not over ({over})", "a finished run", todo)
    if not history.ended:
        raise InputError(str(reader.path), "a run without a whole round", "at least one", "go on with the run")
    # The shelf that the next round began with, if it began; else the library has not moved since.
    now = tuple(entry.skill for entry in history.library.shelf)
    shelf = history.shelves.get((history.ended, TRAIN), now)
    return Frozen(reader.path, history.identity, history.settings, shelf, history.ended)


def _same_tasks(library: Frozen, other: Frozen) -> None:
    for key in ("suite_digest", "tasks"):
        if library.identity.get(key) != other.identity.get(key):
            todo = "two libraries are compared on tasks that neither run, or both, had in train"
            raise InputError(f"against={other.path}", f"a run with other {key.replace('_', ' ')}", f"those of {library.path}", todo)


def with_given(settings: Settings, given: dict[str, Any]) -> Settings:
    """Return a run's settings with what a command may change: where models are served, what may be spent, what holds code.

    Raises
    ------
    InputError
        A value is none that the setting can have.
    """
    from omegaconf import OmegaConf

    from real_loop.config import CONF, FREE, read_yaml, tree
    from sim.params import from_mapping, to_mapping

    usual = {key: value for key, value in read_yaml(CONF / "config.yaml").items() if key in FREE}
    layers = (to_mapping(settings), usual, tree(given))
    values = OmegaConf.to_container(OmegaConf.merge(*(OmegaConf.create(layer) for layer in layers)))
    assert isinstance(values, dict)
    return from_mapping(Settings, {str(key): value for key, value in values.items()})


def tasks_of(library: Frozen, settings: Settings, which: str) -> tuple[Suite, tuple[Task, ...]]:
    """Return the suite and the tasks of a run: the eval tasks, and with ``all`` the train tasks after them.

    Raises
    ------
    InputError
        The suite or the prompts are other ones now.
    """
    from real_loop.roles.trade import trade_of
    from real_loop.tasks import opened

    digest = trade_of(settings.subset.suite).digest()
    if library.identity.get("prompts") != digest:
        got = f"a run with other prompts (digest {library.identity.get('prompts')})"
        raise InputError(str(library.path), got, f"those of this version ({digest})", "use the version that wrote the log")
    suite = opened(settings, warn=True)
    if library.identity.get("suite_digest") != suite.digest:
        got = f"a run on other tasks of {suite.name} (digest {str(library.identity.get('suite_digest'))[:12]})"
        raise InputError(str(library.path), got, f"those there are now ({suite.digest[:12]})", "use the data that the run had")
    named = library.identity["tasks"]
    ids = [*named[EVAL], *(named[TRAIN] if which == "all" else ())]
    return suite, tuple(suite.task(name) for name in ids)


def told(settings: Settings, library: Frozen, other: Frozen | None) -> dict[str, Any]:
    """Return the identity of the log: the libraries, and how tasks are attempted. Which tasks, and how often, may grow."""
    from real_loop.config import identity

    run = identity(settings)
    about = {
        "suite": settings.subset.suite,
        "model": settings.model,
        "mode": settings.roles.mode,
        "seed": settings.seed,
        "run": settings.run,
    }
    about |= {"digest": library.identity.get("suite_digest"), "prompts": library.identity.get("prompts")}
    about |= {role: run["roles"][role] for role in ("router", "solver")}
    return {"lift": {**about, WITH: _digest(library), OTHER: _digest(other) if other else None}, "tasks": library.identity["tasks"]}


def _digest(library: Frozen) -> str:
    text = json.dumps([asdict(skill) for skill in library.shelf], sort_keys=True)
    return f"{len(library.shelf)} skills, digest {hashlib.sha256(text.encode()).hexdigest()[:16]}"


# ---------------------------------------------------------------- attempts


class PairedCalls(Calls):
    """Calls whose seeds depend on the repeat, which is the round here, and the task, but not on the arm; nothing is asked in both arms."""

    def seeded(self, at: At, role: str, attempt: int) -> int:
        """Return the seed of a call: that of one phase, whatever the arm."""
        return super().seeded(replace(at, phase="lift"), role, attempt)

    def alike(self, at: At, role: str, text: str) -> Any:
        """Return the call of the other arm that asked the same, seed and all, or None."""
        query = "SELECT * FROM calls WHERE subject = ? AND role = ? AND round = ? AND request = ? ORDER BY id LIMIT 1"
        return self.log.one(query, (at.subject, role, at.round, text))


async def played(
    settings: Settings, library: Frozen, other: Frozen | None, suite: Suite, tasks: Sequence[Task], repeats: int, path: Path, bar: Progress
) -> Attempts:
    """Attempt every task in both arms, or what is left of it.

    Returns
    -------
    attempts
        By arm, the library's first: by task, the outcome of each repeat.

    Raises
    ------
    BudgetReached, ServiceError
        What was attempted is in the log.
    """
    from real_loop.lift_report import outcome
    from real_loop.roles.prompted import PromptedRouter, PromptedSolver, TopHit
    from real_loop.roles.trade import trade_of
    from real_loop.run import Graded, LoggedBudget, clients, until_stopped
    from real_loop.suites import REPORTS

    arms = {WITH: library.shelf, OTHER if other else WITHOUT: other.shelf if other else ()}
    this = told(settings, library, other)
    check(path, this)  # before servers are started
    budget = LoggedBudget(settings)
    top = settings.roles.mode == "top_hit"
    needed = ("solver",) if top or not any(arms.values()) else ("router", "solver")
    note: Callable[[str], None] = bar.note
    async with clients(settings, budget, note, only=needed) as models:
        sources = {
            arm: {"log": str(of.path), "skills": [asdict(s) for s in of.shelf]} for arm, of in ((WITH, library), (OTHER, other)) if of
        }
        with closing(Log(path, this, sources)) as log:
            budget.keep(log)
            calls = PairedCalls(log, models, budget, settings.seed, settings.run, False)
            trade = trade_of(suite.name)
            router: Router = TopHit() if top else PromptedRouter(calls, settings.roles.router, trade)
            attempt = Attempting(log, calls, router, PromptedSolver(calls, settings.roles.solver, trade), Graded(suite))

            async def pair(repeat: int, i: int, task: Task) -> None:
                for arm, shelf in arms.items():  # one after the other: what both ask is asked once
                    fresh = await attempt.made(At(repeat, arm, i, task.id), task, shelf)
                    bar.advance(1, fresh)

            bar.start(len(arms) * repeats * len(tasks), unit="attempts")
            work = [pair(repeat, i, task) for repeat in range(repeats) for i, task in enumerate(tasks)]
            local = all(client.name.startswith("local/") for client in models.values())
            await until_stopped(together(calls, work), calls, note, local)
            counts = suite.name in REPORTS
            rows = {arm: {task.id: [log.capsule(r, arm, task.id) for r in range(repeats)] for task in tasks} for arm in arms}
            return {arm: {task: [outcome(row, counts) for row in found] for task, found in of.items()} for arm, of in rows.items()}


@dataclass(frozen=True)
class Attempting:
    """How a task is attempted once in an arm: routed, solved, graded and logged."""

    log: Log
    calls: Calls
    router: Router
    solver: Any
    grader: Graded

    async def made(self, at: At, task: Task, shelf: tuple[Skill, ...]) -> bool:
        """Attempt a task, unless the log has it; return whether it was new. ``at.round`` is the repeat and ``at.phase`` the arm."""
        if self.log.capsule(at.round, at.phase, task.id) is not None:
            return False
        self.calls.check()
        choice = await self.router.route(at, task, shelf)
        skill = next((s for s in shelf if s.number == choice.skill), None)
        answer = await self.solver.solve(at, task, skill)
        row = {
            "round": at.round, "phase": at.phase, "task": task.id, "position": at.index, "skill": choice.skill,
            "injected": int(skill is not None), "route_call": choice.call, "solve_call": answer.call, "prompt": plain(answer.prompt),
            "answer": plain(answer.answer), "observed": None, "passed": None, "reason": answer.void, "trace": "", "judge_call": None,
            "tokens": 0, "cost": None, "seconds": 0.0,
        }  # fmt: skip
        twin = self.log.one("SELECT * FROM capsules WHERE round = ? AND task = ? AND solve_call = ?", (at.round, task.id, answer.call))
        if twin is not None:  # one answer has one grade, also where a time limit is near
            row |= {name: twin[name] for name in ("passed", "reason", "trace")}
        elif not answer.void:
            grade = await self.grader.grade(at, task, answer.answer)
            row |= {"passed": int(grade.passed), "reason": grade.logged, "trace": plain(grade.trace), "seconds": grade.seconds}
        self.log.add("capsules", row)
        return True


if __name__ == "__main__":
    from sim.__main__ import started

    started("real_loop.lift")
