"""What a suite is made of: tasks, and the grades that answers to them get."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

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


@dataclass(frozen=True)
class Task:
    """One programming task.

    Parameters
    ----------
    id
        As the suite names it (``Mbpp/2``).
    prompt
        What a solver is shown.
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

    id: str
    prompt: str
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
        All tests agreed.
    trace
        Short text for a critic: which call failed, what it gave and what was expected; or the exception and its line.
    seconds
        Wall clock that grading took.
    reason
        One of `REASONS`.
    """

    passed: bool
    trace: str
    seconds: float
    reason: str
