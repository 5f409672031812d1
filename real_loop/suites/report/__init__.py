"""Reports written section by section from slices of evidence, and graded by checks of form: the testbed of BC.

155 slices are generated, five productions of 31 sections (`generate`); `grader` finds violations and tells their lines.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from real_loop.suites.answers import text_of
from real_loop.suites.report.generate import productions
from real_loop.suites.report.grader import Violation, violations
from real_loop.suites.report.slices import Slice, dumped, to_json
from real_loop.suites.task import Grade, Task

__all__ = ["NAMES", "ReportSuite", "ReportTask", "Violation", "load_report", "text_of"]

NAMES: Final = ("report", "report_strict")  # tier 1, tier 2
_TRACE = 600
_SHOWN = 5  # violations told in a trace

_FORM = """Write this section of a report in Markdown, from this slice of evidence and nothing else.

Purpose of the section: {purpose}.

Slice:
{slice}

Rules of form:
- Open with a line "**TL;DR**" and at least {floor} bullets under it, one finding each. The body follows in short paragraphs.
- Cite a card by its id in square brackets, [E000], in the sentence that uses it. Cite only cards of this slice.
- A sentence with a numeral in digits needs a citation or a metric's tag in braces, {{m_name}}, in the same sentence; years are free. \
Use only tags listed under metrics.
- Point to another section as §s0, only to those listed under xref.{more}

Write the section in Markdown."""
_MORE = """
- A sentence that cites a card whose status is weak says so: reportedly, may, could, unverified, unconfirmed, preliminary.
- Cite cards of both stances, bull and bear, where the slice has both.
- Cite at least two thirds of the cards."""


@dataclass(frozen=True)
class ReportTask(Task):
    """One section to be written.

    Parameters
    ----------
    id
        Production and section (``ferry/s3``).
    prompt
        What a composer is shown: purpose, slice, rules of form.
    production
        Which report it is part of.
    slice
        What it may be written from.
    """

    production: str
    slice: Slice = field(repr=False)


@dataclass(frozen=True)
class ReportSuite:
    """Sections to write and how they are graded. Made by `load_report`; grading needs no sandbox, no model and no network.

    Parameters
    ----------
    name
        One of `NAMES`.
    digest
        SHA-256 of the tasks.
    tier
        1: the five checks; 2: those and hedging, both stances, coverage.
    tasks
        By production, in the order of its sections.
    """

    name: str
    digest: str
    tier: int
    tasks: tuple[ReportTask, ...]

    def task(self, name: str) -> ReportTask:
        """Return a task by its id; KeyError when there is none."""
        return self._by_id[name]

    @functools.cached_property
    def _by_id(self) -> Mapping[str, ReportTask]:
        return {task.id: task for task in self.tasks}

    def grade(self, task: ReportTask, answer: str) -> Grade:
        """Grade a section: it passes when no check finds a violation. Any number of threads may call it."""
        began = time.monotonic()
        found = violations(task.slice, text_of(answer), self.tier)
        reason = "violations" if found else "passed"
        return Grade(not found, _trace(found), time.monotonic() - began, reason, tuple(each.cls for each in found))


def _trace(found: list[Violation]) -> str:
    """Say what is broken: how often each class, and the first few with their lines."""
    if not found:
        return "no violations"
    counts = ", ".join(f"{n} {name}" for name, n in Counter(each.cls for each in found).most_common())
    said = "; ".join(f"line {each.line}: {each.cls}: {each.what}" for each in found[:_SHOWN])
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    text = f"{counts}. {said}{more}"
    return text if len(text) <= _TRACE else text[: _TRACE - 3] + "..."


def prompt(each: Slice, tier: int) -> str:
    """Return what a composer is shown of a slice."""
    more = _MORE if tier == 2 else ""
    fixed = {"purpose": each.purpose, "floor": each.tldr_min_bullets}
    return _FORM.format(slice=dumped(each), more=more, **fixed)


@functools.cache
def load_report(tier: int) -> ReportSuite:
    """Return the suite of 155 sections, graded by the five checks (tier 1) or those and three more (tier 2).

    Its digest is that of slices, prompts and tier: another text of any of them, another suite.
    """
    if tier not in (1, 2):
        raise ValueError(f"tier: {tier}")
    tasks = []
    sha = hashlib.sha256(f"{tier}\n".encode())
    for name, slices in productions().items():
        for each in slices:
            task = ReportTask(f"{name}/{each.section}", prompt(each, tier), name, each)
            sha.update(json.dumps([task.id, to_json(each), task.prompt], ensure_ascii=False).encode() + b"\n")
            tasks.append(task)
    return ReportSuite(NAMES[tier - 1], sha.hexdigest(), tier, tuple(tasks))
