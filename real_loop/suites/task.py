"""What a suite is made of: tasks, and the grades that answers to them get. Programs are one kind of answer, sections of reports another."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

# Of answers that are programs.
REASONS: Final = (
    "passed",
    "wrong",  # a value that is not the expected one
    "error",  # an exception, or the process died
    "timeout",
    "memory",
    "output",  # far more than what was expected
    "syntax",
    "no_entry",  # the code does not define the function asked for
    "no_code",
)
REPORT_REASONS: Final = ("passed", "violations")  # of answers that are sections of reports
_COUNTED: Final = re.compile(r"[a-z_]+:[1-9]\d{0,8}(?: [a-z_]+:[1-9]\d{0,8})*")


@dataclass(frozen=True)
class Task:
    """One task, of whatever kind.

    Parameters
    ----------
    id
        As the suite names it (``Mbpp/2``).
    prompt
        What a solver is shown.
    """

    id: str
    prompt: str


@dataclass(frozen=True)
class CodeTask(Task):
    """One programming task.

    Parameters
    ----------
    entry_point
        Name of the function asked for.
    prefix
        Code that runs before an answer: imports and helpers of the prompt. May be empty.
    canonical
        A solution, complete.
    base, plus
        Arguments of each test, a tuple each. Passing means all of both.
    atol
        Absolute tolerance of comparisons; 0: exact, but 1e-6 where floats are expected.
    rule
        Name of a special comparison (`real_loop.suites.compare`), or empty.
    """

    entry_point: str
    prefix: str = field(repr=False)
    canonical: str = field(repr=False)
    base: tuple[tuple[Any, ...], ...] = field(repr=False, compare=False)
    plus: tuple[tuple[Any, ...], ...] = field(repr=False, compare=False)
    atol: float = 0.0
    rule: str = ""


@dataclass(frozen=True)
class Grade:
    """What became of an answer.

    Parameters
    ----------
    passed
        All tests agreed, or no check of the form found anything.
    trace
        Short text for a critic. Of code: which call failed, what it gave and what was expected; or the exception and its line.
        Of a section: the first violations, with their lines.
    seconds
        Wall clock that grading took.
    reason
        One of `REASONS`, or of `REPORT_REASONS`.
    violations
        Class of each violation found, one for each; None where the suite does not count them.
    """

    passed: bool
    trace: str
    seconds: float
    reason: str
    violations: tuple[str, ...] | None = None

    @property
    def logged(self) -> str:
        """The reason as a log keeps it; of a section that fails, how many violations of each class (``bare_number:2 broken_xref:1``)."""
        if self.passed or not self.violations:
            return self.reason
        return " ".join(f"{name}:{n}" for name, n in sorted(Counter(self.violations).items()))


def violations_of(logged: str) -> Counter[str]:
    """Return how many violations of each class a log's reason tells of; none where it tells of something else."""
    if not _COUNTED.fullmatch(logged):
        return Counter()
    pairs = (item.partition(":") for item in logged.split(" "))
    return Counter({name: int(n) for name, _, n in pairs})


class Suite(Protocol):
    """Tasks of one kind, and how answers to them are graded."""

    @property
    def name(self) -> str:
        """One of :data:`real_loop.suites.NAMES`."""

    @property
    def digest(self) -> str:
        """SHA-256 of the tasks."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, in the suite's order."""

    def task(self, name: str, /) -> Task:
        """Return a task by its id; KeyError when there is none."""

    def grade(self, task: Any, answer: str, /) -> Grade:
        """Grade a model's answer to one of the suite's tasks. Blocks; any number of threads may call it."""
