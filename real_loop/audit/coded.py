"""Programs of known truth for judges of code: solutions and mutants of them, or answers from the log of a run."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from real_loop.audit.asked import Case
from real_loop.audit.mutants import Mutant, mutants, normal
from real_loop.roles.trade import CODING

if TYPE_CHECKING:
    from real_loop.log import Log
    from real_loop.suites import CodeTask

MOST_TRIES: Final = 12  # mutants of one task that are graded before another task is taken
Grading = Callable[["CodeTask", str], Awaitable[tuple[bool, str, float]]]  # passed, reason, seconds


@dataclass
class Made:
    """Cases, and what became of what is no case.

    Parameters
    ----------
    cases
        As many true fails as true passes.
    equivalent
        Mutants that pass the true tests, by class.
    left_out
        What gave no case, by why.
    writers
        Models that wrote what is judged; none for solutions and mutants.
    """

    cases: list[Case] = field(default_factory=list)
    equivalent: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    writers: tuple[str, ...] = ()


def draw(seed: int, *words: str) -> bytes:
    """Return what puts names into an order of their own for each seed."""
    return hashlib.sha256("\0".join((str(seed), *words)).encode("utf-8", "replace")).digest()


def name_of(task: str, text: str) -> str:
    """Return the id of a case."""
    return f"{task}/{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:10]}"


def fenced(code: str) -> str:
    """Return a program as an answer, so that it is read whole."""
    return f"```python\n{code}\n```"


async def from_solutions(
    tasks: Sequence[CodeTask], n: int, seed: int, log: Log, grade: Grading, done: Callable[[bool], None] = lambda new: None
) -> Made:
    """Return n solutions and one mutant of each: of the first tasks, in an order by seed, that have a mutant which fails.

    Original and mutant come of the same tasks, so that no difference between tasks is taken for one between right and wrong. Every
    grade is in the log (capsules ``original`` and ``mutant``), so that what is a case does not hang on how fast this machine is today.

    Parameters
    ----------
    tasks
        With canonical solutions.
    grade
        The true grader.
    done
        Told of each task that gave a case, and whether anything new was graded for it.

    Raises
    ------
    RunError, InputError
        From the grader or the log.
    """
    made = Made()
    for task in sorted(tasks, key=lambda task: draw(seed, task.id)):
        if len(made.cases) >= 2 * n:
            break
        graded = _Graded(log, grade, task)
        try:
            original = normal(task.canonical)
        except ValueError:
            made.left_out["their solution cannot be read"] += 1
            continue
        if len(original) > CODING.shown:
            made.left_out[f"their solution is longer than the {CODING.shown} characters that judges are shown"] += 1
            continue
        if not await graded.passes("original", 0, original, {}):
            made.left_out["their solution fails once it is written anew"] += 1
            continue
        found = await _failing(task, seed, graded, made.equivalent)
        if found is None:
            made.left_out["no mutant of their solution fails the tests"] += 1
            continue
        name = name_of(task.id, original)
        made.cases.append(Case(name, task.id, True, "", fenced(original), origin=name, reason="passed"))
        made.cases.append(replace(found, origin=name))
        done(graded.fresh)
    return made


async def _failing(task: CodeTask, seed: int, graded: _Graded, equivalent: Counter[str]) -> Case | None:
    fitting = (m for m in mutants(task.canonical, seed, task.id) if len(m.code) <= CODING.shown)
    for number, mutant in enumerate(islice(fitting, MOST_TRIES)):
        told = {"class": mutant.cls, "line": mutant.line, "before": mutant.before, "after": mutant.after}
        if await graded.passes("mutant", number, mutant.code, told):
            equivalent[mutant.cls] += 1
            continue
        return _case(task, mutant, graded.reason)
    return None


def _case(task: CodeTask, mutant: Mutant, reason: str) -> Case:
    name, text = name_of(task.id, mutant.code), fenced(mutant.code)
    return Case(name, task.id, False, mutant.cls, text, mutant.line, mutant.before, mutant.after, reason=reason)


class _Graded:
    """Grades programs of one task, each once for all."""

    def __init__(self, log: Log, grade: Grading, task: CodeTask) -> None:
        self.log, self.grade, self.task = log, grade, task
        self.reason, self.fresh = "", False

    async def passes(self, phase: str, number: int, code: str, told: dict[str, Any]) -> bool:
        """Return whether a program passes the true tests, and keep the reason."""
        row = self.log.capsule(number, phase, self.task.id)
        if row is None:
            self.fresh = True
            passed, reason, seconds = await self.grade(self.task, fenced(code))
            row = {
                "round": number, "phase": phase, "task": self.task.id, "position": number, "skill": None, "injected": 0,
                "route_call": None, "solve_call": None, "prompt": json.dumps(told) if told else "", "answer": code, "passed": int(passed),
                "observed": None, "reason": reason, "trace": "", "judge_call": None, "tokens": 0, "cost": None, "seconds": seconds,
            }  # fmt: skip
            self.log.add("capsules", row)
        elif row["answer"] != code:
            from sim.errors import RunError

            todo = "the log was written by other code or with other data; start anew with another out="
            raise RunError(f"{self.log.path}: {phase} {number} of {self.task.id}", "another program", "the one as logged", todo)
        self.reason = str(row["reason"])
        return bool(row["passed"])


def from_log(path: Path, shown: Callable[[str, str], str | None], n: int, seed: int, per_task: int) -> Made:
    """Return n answers that truly fail and n that truly pass, of a run's or a probe's log, as the models wrote them.

    The same code of a task counts once, and of each task at most ``per_task`` answers of either kind are taken; answers without code
    are left out: no judge is needed for them. Trials with a skill and without count alike: the judge is not told.

    Parameters
    ----------
    path
        The log, or the folder of the run.
    shown
        Returns what a judge is shown of an answer to the task of that id; None when the suite has no such task.

    Raises
    ------
    InputError
        There is no such log, or its answers are to other tasks, or all pass or all fail.
    """
    from real_loop.log import Reader, reading
    from sim.errors import InputError

    made = Made()
    pool: dict[tuple[bool, str], dict[str, Case]] = {}
    with closing(Reader(path)) as reader, reading(path):
        writers = writers_of(reader.identity)
        for row in reader.rows("capsules", "id"):
            if row["passed"] is None or row["phase"] in ("original", "mutant"):
                continue
            text = shown(row["task"], row["answer"])
            if text is None:
                raise InputError(f"cases={path}", f"an answer to {row['task']}", "answers to tasks of this suite", "give its subset=")
            if not text.strip() or row["reason"] == "no_code":
                made.left_out["answers with nothing in them"] += 1
                continue
            case = _answered(row, text)
            pool.setdefault((case.truth, case.task), {})[case.id] = case
    for truth in (True, False):
        mine: list[Case] = []
        for (passed, _), cases in pool.items():
            if passed == truth:
                mine += sorted(cases.values(), key=lambda c: draw(seed, c.id))[:per_task]
        made.cases += sorted(mine, key=lambda c: draw(seed, c.id))[:n]
    passes = sum(case.truth for case in made.cases)
    fewest = min(passes, len(made.cases) - passes)
    if not fewest:
        got = f"{passes} answers that pass and {len(made.cases) - passes} that fail"
        raise InputError(f"cases={path}", got, "some of both", "without both there is nothing to tell apart")
    made.cases = made.cases[:fewest] + made.cases[passes : passes + fewest]
    made.writers = tuple(writers)
    return made


def _answered(row: dict[str, Any], text: str) -> Case:
    name, passed = name_of(row["task"], text), bool(row["passed"])
    cls = "" if passed else row["reason"]
    return Case(name, row["task"], passed, cls, row["answer"], origin=name, reason=row["reason"])


def writers_of(identity: dict[str, Any]) -> list[str]:
    """Return the models that wrote the answers of a log: of a run its solver's, of a probe the one probed."""
    probe = identity.get("probe")
    if isinstance(probe, dict):
        return [str(probe["model"])] if probe.get("model") else []
    roles = identity.get("roles")
    own = roles.get("solver", {}).get("model") if isinstance(roles, dict) else None
    model = own or identity.get("model")
    return [str(model)] if model else []
