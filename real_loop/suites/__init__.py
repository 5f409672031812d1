"""Suites of tasks, and the grading of answers to them: programming tasks here, sections of reports in :mod:`real_loop.suites.report`.

A program runs in the sandbox and only reports what its function returned; what was expected never enters that process, and
whether it agrees is decided on this side. Expected values come from running the canonical solution in the same sandbox, once:
they are kept in the user's cache, under the digest of the tasks and of the code that ran them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import marshal
import math
import os
import platform
import threading
import time
from dataclasses import dataclass, field
from importlib import resources
from types import CodeType
from typing import Any, Final

from real_loop.sandbox import Sandbox
from real_loop.suites.answers import code_of, complete, text_of
from real_loop.suites.compare import agree, tolerance
from real_loop.suites.data import cache, put, tasks_of
from real_loop.suites.task import REASONS, REPORT_REASONS, CodeTask, Grade, Suite, Task, violations_of
from real_loop.suites.wire import WireError, decode
from sim.errors import InputError, RunError

__all__ = [
    "CODE",
    "NAMES",
    "REASONS",
    "REPORTS",
    "REPORT_REASONS",
    "CodeSuite",
    "CodeTask",
    "Grade",
    "Suite",
    "Task",
    "code_of",
    "load",
    "text_of",
    "violations_of",
]

CODE: Final = ("mbppplus", "humanevalplus", "demo24")
REPORTS: Final = ("report", "report_strict")  # graded by the first tier of checks, and by both
NAMES: Final = (*CODE, *REPORTS)
# CPU seconds. An answer has _LEAST and four times those of the canonical solution, but not beyond _MOST or twice those.
_LEAST, _MOST, _REFERENCE = 4.0, 60.0, 120.0
_SLOW = 0.5  # CPU seconds of the canonical solution
_TRACE = 600
_MEMORY, _MEMORY_REFERENCE = 1024, 4096  # MiB: of any answer at least; of the canonical one
_SLACK = 1 << 16  # characters an answer may return beyond four times the expected
_LONG = 1 << 18  # characters of a value; of longer ones a digest is compared
_ANSWER = 1 << 18  # characters of code


@functools.cache
def _harness() -> tuple[CodeType, str]:
    """Return the program of the sandboxed side and a digest of it and of the interpreter."""
    text = resources.files("real_loop.suites").joinpath("harness.py").read_text("utf-8")
    digest = hashlib.sha256(f"{text}\n{platform.python_version()}".encode()).hexdigest()
    return compile(text, "<harness>", "exec"), digest


@dataclass(frozen=True)
class _Expected:
    """What the canonical solution returned, as text, and what it took: CPU seconds, and MiB of memory at most."""

    values: tuple[str, ...]
    seconds: float
    memory: float


@dataclass(frozen=True)
class _Report:
    """What the sandboxed side wrote: values as text, one for each call that returned, and how it ended."""

    values: tuple[str, ...]
    end: str  # "z" when all calls returned, "e" with an error, "" when it broke off
    error: tuple[str, str, str, int, str]  # kind, name, message, line, source
    took: tuple[float, float]
    status: str
    bad: bool  # something else was written there


@dataclass(frozen=True)
class CodeSuite:
    """Programming tasks and how answers to them are graded. Made by `load`.

    Parameters
    ----------
    name
        One of `NAMES`.
    digest
        SHA-256 of the tasks.
    tasks
        In the order of the file.
    """

    name: str
    digest: str
    tasks: tuple[CodeTask, ...]
    sandbox: Sandbox = field(repr=False)
    _known: dict[str, _Expected] = field(default_factory=dict, repr=False, compare=False)
    _locks: dict[str, threading.Lock] = field(default_factory=dict, repr=False, compare=False)

    def task(self, name: str) -> CodeTask:
        """Return a task by its id; KeyError when there is none."""
        return self._by_id[name]

    @functools.cached_property
    def _by_id(self) -> dict[str, CodeTask]:
        return {task.id: task for task in self.tasks}

    def grade(self, task: CodeTask, answer: str) -> Grade:
        """Grade a model's answer: its code must agree on all base and all plus tests. Blocks; any number of threads may call it.

        Raises
        ------
        RunError
            The sandbox cannot start, or the canonical solution does not run on this machine.
        """
        began = time.monotonic()
        code = complete(code_of(answer, task.entry_point), task.entry_point, task.prefix)
        if not code.strip() or len(code) > _ANSWER:
            trace = "the answer has no code in it" if not code.strip() else f"the answer is longer than {_ANSWER} characters"
            return Grade(False, trace, time.monotonic() - began, "no_code")
        passed, trace, reason = self._verdict(task, code)
        return Grade(passed, trace if len(trace) <= _TRACE else trace[: _TRACE - 3] + "...", time.monotonic() - began, reason)

    def _verdict(self, task: CodeTask, code: str) -> tuple[bool, str, str]:
        expected = self._expected(task)
        args = (*task.base, *task.plus)
        # Where the tests take long most answers are found out by the base tests, in a run of their own.
        steps = (len(task.base), len(args)) if expected.seconds > _SLOW and task.base else (len(args),)
        for tests in steps:
            passed, trace, reason = self._compared(task, code, expected, args[:tests])
            if not passed:
                break
        return passed, trace, reason

    def _compared(self, task: CodeTask, code: str, expected: _Expected, args: tuple[tuple[Any, ...], ...]) -> tuple[bool, str, str]:
        longest = max(map(len, expected.values), default=0)
        limit = math.ceil(min(_LEAST + 4 * expected.seconds, max(_MOST, 2 * expected.seconds)))
        memory = max(_MEMORY, int(2 * expected.memory) + 256)
        large = any(text.startswith('["h"') for text in expected.values)
        most = _LONG if large else min(_LONG, 4 * longest + _SLACK)
        output = 4 * sum(map(len, expected.values)) + 2 * _LONG
        report = self._run(task, task.prefix, code, args, (limit, memory), (most, large, output))
        atol = task.atol
        for i, text in enumerate(report.values):
            if i == len(task.base):
                atol = task.atol
            want = decode(expected.values[i])[0]
            try:
                got, same_type = decode(text)
            except WireError:
                return False, f"{_call(task, args[i])} returned something that cannot be read", "error"
            if not agree(task.rule, args[i], got, want, atol, same_type):
                return False, f"{_call(task, args[i])} returned {_short(got)}, expected {_short(want)} ({_which(task, i)})", "wrong"
            atol = tolerance(atol, want)
        return self._ending(task, report, args, limit)

    def _ending(self, task: CodeTask, report: _Report, args: tuple[tuple[Any, ...], ...], limit: int) -> tuple[bool, str, str]:
        at = len(report.values)
        called = at < len(args) and report.error[0] not in ("load", "syntax")
        where = f" in {_call(task, args[at])} ({_which(task, at)})" if called else ""
        if report.bad:
            return False, f"the answer wrote into the results{where}", "error"
        if report.status in ("timeout", "output"):
            text = f"not done in time ({limit} s of CPU)" if report.status == "timeout" else "far more returned than expected"
            return False, text + where, report.status
        if report.end == "e":
            kind, name, said, line, source = report.error
            if kind == "no_entry":
                return False, f"the code does not define {task.entry_point}", kind
            if kind == "output":
                return False, f"far more returned than expected{where}", kind
            here = f" (line {line}: {source})" if line else ""
            return False, f"{name}: {said[:200]}{here}{where}", kind if kind in REASONS else "error"
        if report.end == "z" and at == len(args):
            return True, f"all {at} tests passed", "passed"
        return False, f"the process ended early{where}", "memory" if report.status == "memory" else "error"

    def _expected(self, task: CodeTask) -> _Expected:
        """Return what is expected of a task: from memory, from the cache, or by running its canonical solution."""
        known = self._known.get(task.id)
        if known is not None:
            return known
        with self._locks.setdefault(task.id, threading.Lock()):
            known = self._known.get(task.id)
            if known is not None:
                return known
            file = cache() / "expected" / f"{self.name}-{self.digest[:16]}-{_harness()[1][:16]}" / f"{task.id.replace('/', '-')}.json"
            tests = len(task.base) + len(task.plus)
            try:
                kept = json.loads(file.read_bytes())
                known = _Expected(tuple(map(str, kept["values"])), float(kept["seconds"]), float(kept["memory"]))
                for text in known.values:
                    decode(text)
            except (OSError, ValueError, TypeError, LookupError, RecursionError):
                known = None
            if known is None or len(known.values) != tests:
                known = self._canonical(task)
                with contextlib.suppress(OSError):  # then it is run again another time
                    put(file, json.dumps({"seconds": known.seconds, "memory": known.memory, "values": known.values}).encode())
            self._known[task.id] = known
            return known

    def _canonical(self, task: CodeTask) -> _Expected:
        args = (*task.base, *task.plus)
        report = self._run(task, "", task.canonical, args, (_REFERENCE, _MEMORY_REFERENCE), (_LONG, True, 64 << 20))
        if report.end != "z" or report.bad or len(report.values) != len(args):
            why = ": ".join(filter(None, report.error[1:3])) or report.status
            raise RunError(f"{self.name} {task.id}", f"a canonical solution that fails here ({why})", "one that runs", "use another Python")
        return _Expected(report.values, *report.took)

    def _run(
        self,
        task: CodeTask,
        prefix: str,
        code: str,
        args: tuple[tuple[Any, ...], ...],
        limits: tuple[float, int],
        sizes: tuple[int, bool, int],
    ) -> _Report:
        """Have the sandboxed side call some code on inputs of a task, and take its report apart.

        Limits: CPU seconds and MiB. Sizes: characters of a value, whether longer ones come as digests, and bytes of all.
        """
        (seconds, memory), (most, large, output) = limits, sizes
        word = os.urandom(8).hex()
        tests = [marshal.dumps(each) for each in args]
        order = marshal.dumps((word, prefix, code, task.entry_point, tests, most, large))
        outcome = self.sandbox.run(_harness()[0], order, seconds=seconds, memory_mb=memory, output_bytes=output)
        values: list[str] = []
        end, bad, took = "", False, (0.0, 0.0)
        error: tuple[str, str, str, int, str] = ("", "", "", 0, "")
        *lines, rest = outcome.stdout.split(b"\n")
        for line in lines:
            begin, _, text = line.decode("ascii", "replace").partition(" ")
            kind, _, text = text.partition(" ")
            if begin != word or end or len(values) > len(tests):
                bad = True
                break
            try:
                if kind == "r":
                    values.append(text)
                elif kind == "e":
                    a, b, c, d, e = decode(text)[0]
                    end, error = "e", (str(a), str(b), str(c), int(d), str(e))
                elif kind == "z":
                    a, b = decode(text)[0]
                    end, took = "z", (float(a), float(b))
                else:
                    bad = True
            except (ValueError, TypeError, OverflowError):
                bad = True
        bad = bad or bool(rest and outcome.status == "ok") or len(values) > len(tests)
        return _Report(tuple(values[: len(tests)]), end, error, took, outcome.status, bad)


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 30]} ... {text[-20:]}"


def _short(value: object, most: int = 150) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of more digits than Python prints
        text = f"a large {type(value).__name__}"
    return _clip(text, most)


def _call(task: CodeTask, args: tuple[Any, ...]) -> str:
    return f"{task.entry_point}({_clip(', '.join(_short(arg, 200) for arg in args), 240)})"


def _which(task: CodeTask, i: int) -> str:
    return f"test {i + 1} of {len(task.base) + len(task.plus)}"


def load(name: str, sandbox: Sandbox | None) -> Suite:
    """Load a suite by name; the file of a benchmark is downloaded when it is nowhere on this machine.

    Parameters
    ----------
    name
        One of `NAMES`.
    sandbox
        Where programs run; of no use to `REPORTS`.

    Raises
    ------
    InputError
        No suite of that name, its file is not what it should be, or it needs a sandbox and there is none.
    RunError
        It had to be downloaded and could not be.
    """
    if name not in NAMES:
        raise InputError("suite", name, " or ".join(NAMES))
    if name in REPORTS:
        from real_loop.suites.report import load_report

        return load_report(1 + REPORTS.index(name))
    if sandbox is None:
        raise InputError("sandbox", "none", f"one that programs of {name} can run in")
    digest, tasks = tasks_of(name)
    return CodeSuite(name, digest, tasks, sandbox)
