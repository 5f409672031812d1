"""A tiny suite of reports: three productions of unequal size, a grader of three checks, and a writer of sections that pass them.

It stands in for the suite that the package ships, in tests of what the loop does with sections whatever is in them.
"""

from __future__ import annotations

import re
import sys
import time
import types
from dataclasses import dataclass, field

import pytest

from real_loop.suites import Grade, Task, text_of

SIZES = {"bakery": 12, "harbour": 6, "orchard": 3}
REPORT = "real_loop.suites.report"


@dataclass(frozen=True)
class Section(Task):
    production: str
    cards: tuple[str, ...]


def _task(production: str, number: int) -> Section:
    cards = tuple(f"E{number:02}{i}" for i in range(1, 4))
    lines = "\n".join(f'{{"id": "{card}", "claim": "output of line {i} grew"}}' for i, card in enumerate(cards))
    prompt = f"Brief of {production}, section {number}.\n{lines}\nCite cards as [E000], begin with a TL;DR, leave no number bare."
    return Section(f"{production}/s{number}", prompt, production, cards)


@dataclass(frozen=True)
class Sections:
    """The suite. ``report_strict`` also asks that all cards are cited."""

    name: str
    digest: str = "5" * 64
    tasks: tuple[Section, ...] = tuple(_task(name, i) for name, size in SIZES.items() for i in range(size))
    seen: list[str] = field(default_factory=list, compare=False, repr=False)

    def task(self, name: str) -> Section:
        return next(task for task in self.tasks if task.id == name)

    def grade(self, task: Section, answer: str) -> Grade:
        began, found, text = time.monotonic(), list[tuple[int, str]](), text_of(answer)
        self.seen.append(task.id)
        for number, line in enumerate(text.splitlines(), 1):
            cited = re.findall(r"\[(E\d+)\]", line)
            found += [(number, "orphan_citation") for card in cited if card not in task.cards]
            if not cited and re.search(r"\d", line):
                found.append((number, "bare_number"))
        if "TL;DR" not in text:
            found.insert(0, (1, "missing_tldr"))
        if self.name == "report_strict" and not all(f"[{card}]" in text for card in task.cards):
            found.append((1, "low_coverage"))
        trace = "\n".join(f"line {number}: {name}" for number, name in found[:4])
        reason = "violations" if found else "passed"
        return Grade(not found, trace, time.monotonic() - began, reason, tuple(name for _, name in found))


def written(user: str) -> str:
    """Return a section that passes both tiers, from a request with its brief in it."""
    cards = re.findall(r'"id": "(E\d+)"', user)
    return "\n".join(["## TL;DR", *(f"- Output grew by {len(cards)} parts [{card}]" for card in cards), "", "All of it is told."])


def shipped(monkeypatch: pytest.MonkeyPatch) -> dict[str, Sections]:
    """Put the tiny suite where the package has its own; return both tiers by name."""
    both = {name: Sections(name) for name in ("report", "report_strict")}
    module = types.ModuleType(REPORT)
    module.load_report = lambda tier: list(both.values())[tier - 1]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, REPORT, module)
    return both
