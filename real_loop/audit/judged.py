"""``python -m real_loop.audit subset=... judge=...``: ask a model for verdicts on cases of known truth, and audit it by them.

Every grade and every call is in a log before it is used: an audit that was stopped or killed goes on, and asks nothing twice. The
verdicts end up in ``verdicts.csv``, which the audit of a file (``from=verdicts.csv``) takes just as well.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from real_loop.audit.asked import BINARY, RATING, Asked, Case
from real_loop.suites import REPORTS
from sim.errors import InputError
from sim.params import Group, param
from sim.report import Progress

if TYPE_CHECKING:
    from real_loop.audit.coded import Made
    from real_loop.calls import Calls
    from real_loop.log import Log
    from real_loop.settings import Settings

CHECKS: Final = "checks"
COLUMNS: Final = ("truth", "verdict", "score", "class", "task", "case", "judge")
OTHERS: Final = ("reward", "policy", "ablation", "writing", "evals")  # of a run, not of an audit
ALL: Final = 10**6  # cases: as many as there are
VARIED: Final = 0.7  # temperature of repeated calls: at 0 they would all say the same


@dataclass(frozen=True, kw_only=True)
class Audit(Group):
    """What is asked of whom. Other keys are those of a run: subset.*, budget.*, roles.judge.*, seed, servers and so on."""

    PATH: ClassVar[str] = ""
    judge: str = param("the judge: local/NAME or PROVIDER/NAME; checks: those of the report suites alone, which need no model")
    n: int = param(
        "true fails and true passes each; of reports clean sections, and of each class of defect", "cases", at_least=1, default=100
    )
    manner: str = param("how the judge is asked; both: strict and lenient", choices=("strict", "lenient", "both", RATING), default="both")
    cases: str = param("mutants: solutions and mutants of them; or the log of a run or probe, whose answers are judged", default="mutants")
    per_task: int = param("most true passes, and most true fails, of one task of a log", "answers", at_least=1, default=2)
    calls: int = param("verdicts on each case: more than one are votes, at a temperature above 0", "calls", at_least=1, default=1)
    scores: bool = param("ask for log-odds of PASS too", default=True)
    composer: str = param("who writes the clean sections of reports: rules, or a model", default="rules")

    @property
    def manners(self) -> tuple[str, ...]:
        """The manners asked."""
        return BINARY if self.manner == "both" else (self.manner,)


KEYS: Final = tuple(Audit.__dataclass_fields__)


def read(args: Sequence[str], more: Path | None = None) -> tuple[Audit, Settings]:
    """Read ``key=value`` arguments: those of the audit, and the settings of a run for the rest.

    Raises
    ------
    InputError
        Anything in them is wrong; nothing was asked or written then.
    """
    import yaml

    from real_loop.config import load
    from sim.params import from_mapping

    own: dict[str, Any] = {}
    rest: list[str] = []
    for arg in args:
        key, equals, text = arg.partition("=")
        if key in OTHERS or key.split(".")[0] in OTHERS or key in ("model", "roles.judge.model"):
            todo = "the judge's model is judge=NAME" if "model" in key else "leave it out"
            raise InputError(key, "a setting that an audit does not have", "one of " + ", ".join(KEYS) + " or of a run", todo)
        if key not in KEYS or not equals:
            rest.append(arg)
        elif key in own:
            raise InputError(key, "two values", "one")
        else:
            try:
                own[key] = text if key in ("judge", "cases", "composer") else yaml.safe_load(text)
            except (yaml.YAMLError, ValueError, RecursionError):
                raise InputError(arg, "a value that cannot be read", "a number, a name, true or false") from None
    if "judge" not in own:
        raise InputError("judge", "nothing", "local/NAME, PROVIDER/NAME, or checks", "or from=FILE to audit verdicts you have")
    if not any(arg.startswith("subset=") for arg in rest):
        raise InputError("subset", "nothing", "a subset, such as mbpp or report_main_71", "it says what is judged")
    if own["judge"] == CHECKS:
        own.setdefault("n", ALL)
    audit = from_mapping(Audit, own)
    if audit.calls > 1 and own.get("scores"):
        raise InputError("scores", f"true with calls={audit.calls}", "one of the two", "log-odds are the same at every call")
    if audit.calls > 1:
        audit = replace(audit, scores=False)
    if audit.judge == CHECKS and audit.manner == RATING:
        raise InputError("manner", repr(RATING), "none with judge=checks", "checks rate nothing")
    if audit.judge != CHECKS and not re.fullmatch(r"[^/\s]+/\S+", audit.judge):
        raise InputError("judge", repr(audit.judge), "local/NAME, PROVIDER/NAME as in openai/gpt-4o-mini, or checks")
    if audit.judge.startswith("scripted/"):
        raise InputError("judge", repr(audit.judge), "a model that can be asked", "scripted roles write no verdicts")
    settings = load([*rest, *([] if audit.judge == CHECKS else [f"model={audit.judge}"])], more).settings
    role = settings.roles.judge
    if audit.calls > 1 and not any(arg.startswith("roles.judge.temperature=") for arg in rest):
        role = replace(role, temperature=VARIED)
    if audit.calls > 1 and role.temperature <= 0:
        raise InputError("roles.judge.temperature", role.temperature, f"above 0 with calls={audit.calls}", "at 0 every call says the same")
    settings = replace(settings, roles=replace(settings.roles, judge=role))
    if settings.subset.suite in REPORTS and audit.cases != "mutants":
        raise InputError("cases", repr(audit.cases), "none with a subset of reports", "their cases are clean sections and known defects")
    if settings.subset.suite not in REPORTS:
        for wrong, key in ((audit.judge == CHECKS, "judge"), (audit.composer != "rules", "composer")):
            if wrong:
                raise InputError(key, repr(getattr(audit, key)), "a subset of reports with it", "such as subset=report_main_71")
    return audit, settings


def folder(audit: Audit, settings: Settings) -> Path:
    """Return where an audit is kept: ``out=``, or a name made of what identifies it."""
    if settings.out is not None:
        return Path(os.path.expanduser(settings.out))
    parts = [settings.subset.name, audit.judge, audit.cases, audit.composer if audit.composer != "rules" else ""]
    parts += [f"calls{audit.calls}" if audit.calls > 1 else "", f"seed{settings.seed}" if settings.seed != 1 else ""]
    return Path("outputs") / "audit" / "-".join(re.sub(r"[^\w.]+", "_", part) for part in parts if part)


# ---------------------------------------------------------------- asking


def _composing(settings: Settings, composer: str) -> Settings:
    """Return settings whose solver is the composer; one that is the judge too is found where that is."""
    if composer == settings.model and settings.roles.solver.model is None:
        return settings
    return replace(settings, roles=replace(settings.roles, solver=replace(settings.roles.solver, model=composer)))


async def asked(audit: Audit, settings: Settings, path: Path, progress: Progress) -> tuple[Any, Made, list[Asked]]:
    """Make the cases and ask about each; return what they are of, what was made and what was said, in an order by seed.

    Raises
    ------
    BudgetReached, ServiceError, RunError, InputError
        What was graded and asked is in the log at ``path``.
    """
    from real_loop.audit.asked import Panel
    from real_loop.calls import Calls
    from real_loop.log import Log, check
    from real_loop.run import LoggedBudget, clients, until_stopped

    subject = await asyncio.to_thread(_subject, audit, settings)
    if subject.note:
        print(subject.note, file=sys.stderr)
    told = {"audit": {**subject.told, "judge": audit.judge, "seed": settings.seed, "run": settings.run, **_sampling(audit, settings)}}
    told["audit"]["prompts"] = subject.words.digest()
    check(path, told)
    budget = LoggedBudget(settings)
    if audit.composer != "rules":
        settings = _composing(settings, audit.composer)
    async with clients(settings, budget, progress.note, only=subject.roles) as models:
        with closing(Log(path, told)) as log:
            budget.keep(log)
            calls = Calls(log, models, budget, settings.seed, settings.run, False)
            panel = Panel(calls, settings.roles.judge, subject.words, audit.judge, audit.scores)
            local = all(client.name.startswith("local/") for client in models.values())
            work = _work(audit, settings.seed, subject, panel, log, calls, progress)
            return (subject, *await until_stopped(work, calls, progress.note, local))


def _sampling(audit: Audit, settings: Settings) -> dict[str, Any]:
    role = settings.roles.judge
    return {"temperature": role.temperature, "max_tokens": role.max_tokens}


async def _work(audit: Audit, seed: int, subject: Any, panel: Any, log: Log, calls: Calls, progress: Progress) -> tuple[Made, list[Asked]]:
    from real_loop.audit.coded import draw
    from real_loop.calls import together

    progress.start(audit.n, "making cases", "cases")
    made = await subject.made(log, calls, lambda new: progress.advance(1, new))
    shuffled = sorted(made.cases, key=lambda case: draw(seed, "order", case.id))
    rows = [(manner, vote, i, case) for vote in range(audit.calls) for manner in audit.manners for i, case in enumerate(shuffled)]
    progress.start(len(rows), "asking", "cases")

    async def one(manner: str, vote: int, i: int, case: Case) -> Asked:
        before = calls.budget.spent.calls
        said: Asked = await panel.ask(manner, vote, i, subject.task(case.task), case)
        progress.advance(1, calls.budget.spent.calls > before)
        return said

    said = await together(calls, [one(*row) for row in rows])
    if not panel.told:  # some were asked before the service showed that it does not tell: none counts
        said = [each if each.verdict is None else replace(each, score=None) for each in said]
    return made, said


class _Code:
    """Cases of code."""

    def __init__(self, audit: Audit, settings: Settings) -> None:
        from real_loop.audit.asked import Words
        from real_loop.log import found
        from real_loop.roles.trade import CODING

        self.audit, self.settings, self.words, self.roles = audit, settings, Words(CODING, "code_rating"), ("judge",)
        self.told: dict[str, Any] = {"suite": settings.subset.suite, "cases": audit.cases}
        self.suite, self.tasks, self.note = tasks_of(settings)
        if audit.cases != "mutants":
            self.note = ""
            self.source = found(audit.cases)
            self.told |= {"cases": str(self.source.resolve()), "per_task": audit.per_task}
        else:
            self.told |= {"tasks": sorted(task.id for task in self.tasks)}
        self.told["digest"] = self.suite.digest

    def task(self, name: str) -> Any:
        return self.suite.task(name)

    async def made(self, log: Log, calls: Calls, done: Callable[[bool], None]) -> Made:
        from real_loop.audit import coded
        from real_loop.roles import At
        from real_loop.run import Graded
        from real_loop.suites import CodeTask, code_of

        n, seed = self.audit.n, self.settings.seed
        if self.audit.cases != "mutants":
            known = {task.id: task.entry_point for task in self.suite.tasks}
            return coded.from_log(
                self.source, lambda name, text: code_of(text, known[name]) if name in known else None, n, seed, self.audit.per_task
            )
        grader = Graded(self.suite)

        async def grade(task: CodeTask, answer: str) -> tuple[bool, str, float]:
            grade = await grader.grade(At(0, "case", 0, task.id), task, answer)
            return grade.passed, grade.reason, grade.seconds

        return await coded.from_solutions(self.tasks, n, seed, log, grade, done)


def tasks_of(settings: Settings) -> tuple[Any, list[Any], str]:
    """Return the suite, the tasks to make cases of, and what is to be said of that.

    They are the tasks of the subset's split where there is one for the model; else all of the suite: what a judge sees does not hang on
    which tasks another model failed.

    Raises
    ------
    InputError
        There is no sandbox or no data, or a split that was named cannot be read.
    """
    from real_loop.tasks import OWN, SHIPPED, chosen, opened, pool, solver_model, split_name

    subset = settings.subset
    name = split_name(subset.name, solver_model(settings))
    there = any((place / name).exists() for place in (OWN, SHIPPED))
    if subset.ids is not None or subset.split is not None or (subset.keep != "all" and there):
        suite, train, evals = chosen(settings)
        return suite, [*train, *evals], ""
    suite = opened(settings, warn=True)
    ids = set(pool(settings, suite))
    tasks = [task for task in suite.tasks if task.id in ids]
    note = "" if subset.keep == "all" else f"{subset.name} has no split for {solver_model(settings)}: cases are of all {len(tasks)} tasks"
    return suite, tasks, note


def _subject(audit: Audit, settings: Settings) -> Any:
    if settings.subset.suite in REPORTS:
        from real_loop.audit.reported import Sections

        return Sections(audit, settings)
    return _Code(audit, settings)


# ---------------------------------------------------------------- what was said


def self_judging(judge: str, writers: Sequence[str]) -> bool:
    """Tell whether the judge wrote some of what it judges."""
    return judge in writers


def written(folder: Path, cases: Sequence[Case], said: Sequence[Asked]) -> Path:
    """Write the verdicts as the audit reads them, and each case with what was said of it beside them; return the former's path.

    A verdict that could not be read is ``invalid``: it counts as FAIL, and is told apart.
    """
    by_id = {case.id: case for case in cases}
    with_verdict = any(each.verdict is not None for each in said)
    with_score = bool(said) and all(each.score is not None for each in said)
    names = [c for c in COLUMNS if (c != "verdict" or with_verdict) and (c != "score" or with_score)]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(names)
    for each in said:
        case = by_id[each.case]
        verdict = "invalid" if each.malformed else "pass" if each.verdict else "fail"
        row = {
            "truth": "pass" if case.truth else "fail", "verdict": verdict, "class": case.cls, "task": case.task, "case": case.id,
            "judge": each.judge, "score": "" if each.score is None else f"{each.score + 0.0:.6g}",
        }  # fmt: skip
        table.writerow([row[name] for name in names])
    path = folder / ("verdicts.csv" if with_verdict else "ratings.csv")
    put(path, text.getvalue().encode())
    answers: dict[str, list[dict[str, Any]]] = {}
    for each in said:
        answers.setdefault(each.case, []).append({k: v for k, v in asdict(each).items() if k != "case"})
    lines = [json.dumps({**asdict(case), "said": answers.get(case.id, [])}, ensure_ascii=False) for case in cases]
    put(folder / f"{path.stem}_cases.jsonl", ("\n".join(lines) + "\n").encode("utf-8", "replace"))
    return path


def put(path: Path, content: bytes) -> None:
    """Write a file whole.

    Raises
    ------
    InputError
        It cannot be written; what was asked is in the log.
    """
    from real_loop.suites import data

    try:
        data.put(path, content)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InputError(str(path), why, "a file that can be written", "what was asked is kept: mend that, and say it again") from None


def told(audit: Audit, made: Made, said: Sequence[Asked]) -> list[str]:
    """Return lines on what was asked: how many cases of what, what is no case, and what could not be read."""
    passes = sum(case.truth for case in made.cases)
    tasks = len({case.task for case in made.cases})
    lines = [f"{passes} cases that truly pass and {len(made.cases) - passes} that truly fail, of {tasks} tasks"]
    if made.equivalent:
        classes = ", ".join(f"{cls} {k}" for cls, k in sorted(made.equivalent.items()))
        lines.append(f"{sum(made.equivalent.values())} mutants passed the tests and are no case ({classes})")
    lines += [f"left out: {number}, {why}" for why, number in sorted(made.left_out.items())]
    if passes < audit.n < ALL:
        lines.append(f"n={audit.n} was asked for: there are no more")
    for judge in dict.fromkeys(each.judge for each in said):
        mine = [each for each in said if each.judge == judge]
        if wrong := sum(bool(each.malformed) for each in mine):
            lines.append(
                f"{judge}: {wrong} of {len(mine)} answers could not be read; they count as {'1' if mine[0].verdict is None else 'FAIL'}"
            )
        if audit.scores and mine[0].verdict is not None and judge != CHECKS:
            unseen = [sum(each.unseen == k for each in mine) for k in (1, 2)]
            if mine[0].score is None:
                lines.append(f"{judge}: the service tells no log probabilities: verdicts alone")
            elif any(unseen):
                lines.append(
                    f"{judge}: of {len(mine)} log-odds, {unseen[0]} are bounds (one of the words was not among the likeliest tokens), "
                    f"and {unseen[1]} are 0 (neither was)"
                )
    if self_judging(audit.judge, made.writers):
        lines.append(f"self-judging: {audit.judge} wrote what it judges; models tend to favour what they wrote")
    return lines


# ---------------------------------------------------------------- the command


def run(args: Sequence[str], more: Path | None = None, command: Sequence[str] | None = None) -> tuple[Path, Path] | int:
    """Ask about all cases; return the file of the verdicts and the folder for what comes of them, or an exit status when stopped.

    Parameters
    ----------
    args
        ``key=value`` arguments; see `Audit`.
    more
        A folder of presets of the user's own.
    command
        All that was given, to be said again when stopped.

    Raises
    ------
    InputError, RunError
        See `read` and `asked`.
    """
    from real_loop.audit import reported
    from real_loop.main import held, shown

    audit, settings = read(args, more)
    out = folder(audit, settings)
    release = held(out)
    try:
        with Progress(f"auditing {audit.judge}") as progress:
            if audit.judge == CHECKS:
                subject, made, said = reported.checked(audit, settings)
                if subject.note:
                    print(subject.note, file=sys.stderr)
            else:
                subject, made, said = asyncio.run(asked(audit, settings, out / "log.sqlite", progress))
    except KeyboardInterrupt:
        config = ["--config-dir", str(more)] if more else []
        again = shlex.join(["python", "-m", "real_loop.audit", *shown(command or args), *config])
        print(f"stopped; what was asked is kept. Continue with: {again}", file=sys.stderr)
        return 130
    finally:
        release()
    lines = told(audit, made, said)
    what: dict[str, Any] = {}
    if isinstance(subject, reported.Sections):
        if audit.judge != CHECKS and audit.manner != RATING:
            said = [*said, *subject.checks(made.cases)]
        what = reported.found(subject, made, said)
        lines += reported.words(what)
    path = written(out, made.cases, said)
    told_json = {
        "judge": audit.judge, "cases": "injections" if what else audit.cases, "composer": audit.composer, "notes": told(audit, made, said),
        "self_judging": self_judging(audit.judge, made.writers), "writers": list(made.writers), "equivalent": dict(made.equivalent),
        "left_out": dict(made.left_out), **what,
    }  # fmt: skip
    put(out / f"{path.stem}_asked.json", (json.dumps(told_json, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
    print("\n".join([*lines, f"verdicts: {path}"]), file=sys.stderr)
    return path, out if path.stem == "verdicts" else out / RATING
