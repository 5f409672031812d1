"""What a kind of suite has its roles say: a folder of prompts, a system message, and which part of an answer counts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from real_loop.suites import CODE, REPORTS, CodeTask, Task, code_of, text_of

PROMPTS: Final = Path(__file__).resolve().parent / "prompts"


@dataclass(frozen=True)
class Trade:
    """The words of one kind of suite. Roles are given one; nothing here is looked up by the name of a suite but by `trade_of`.

    Parameters
    ----------
    prompts
        Folder of the prompts' text files.
    system
        System message of every role.
    part
        Returns the part of an answer to a task that the grader looks at; empty when there is none.
    nothing
        Stands for an answer without such a part.
    shown
        Characters of that part that critic and judge are shown.
    blanks
        Returns what the solver's prompt is filled in with beside skill and task.
    """

    prompts: Path
    system: str
    part: Callable[[Task, str], str]
    nothing: str
    shown: int
    blanks: Callable[[Task], Mapping[str, str]]

    def prompt(self, name: str, /, **values: str) -> str:
        """Return a prompt with its blanks filled in. What is filled in is not read again, whatever it holds."""
        return Template((self.prompts / f"{name}.txt").read_text()).substitute(values)

    def digest(self) -> str:
        """Return a hash of all prompts: other prompts, another run."""
        sha = hashlib.sha256()
        for file in sorted(self.prompts.glob("*.txt")):
            sha.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        return sha.hexdigest()[:16]

    def answered(self, task: Task, answer: str) -> str:
        """Return an answer as critic and judge are shown it."""
        return self.part(task, answer)[: self.shown] or self.nothing


def _entry(task: Task) -> str:
    return task.entry_point if isinstance(task, CodeTask) else ""


CODING: Final = Trade(
    PROMPTS,
    "You are a careful Python programmer.",
    lambda task, answer: code_of(answer, _entry(task)),
    "(no code)",
    1500,
    lambda task: {"entry_point": _entry(task)},
)
REPORTING: Final = Trade(
    PROMPTS / "report",
    "You are a careful analyst who writes sections of research reports from given evidence.",
    lambda _, answer: text_of(answer),
    "(no text)",
    8000,  # all that 2,200 tokens hold
    lambda _: {},
)
_TRADES: Final = dict.fromkeys(CODE, CODING) | dict.fromkeys(REPORTS, REPORTING)


def trade_of(suite: str) -> Trade:
    """Return what a suite, by its name, has its roles say; KeyError when there is none of that name."""
    return _TRADES[suite]
