"""Sections of reports of known truth: clean ones, and each with one defect of each class; what checks and judges say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from real_loop.audit.asked import RATING, Asked, Case, Words
from real_loop.audit.coded import Made, draw, name_of

if TYPE_CHECKING:
    from real_loop.audit.judged import Audit
    from real_loop.calls import Calls
    from real_loop.log import Log
    from real_loop.settings import Settings
    from real_loop.suites.report import ReportSuite, ReportTask

CHECKS: Final = "checks"
CLEAN: Final = "clean"
TRIES: Final = 3  # sections that a model may write before another slice is taken
VARIANTS: Final = 5  # of the composer by rules, where the warnings of tier 2 shall differ
RULES: Final = "rules"


class Sections:
    """Sections to be judged, and where they come from.

    Parameters
    ----------
    audit, settings
        What is asked for: ``n`` clean sections and as many of each class of defect, written by ``composer``.
    """

    def __init__(self, audit: Audit, settings: Settings) -> None:
        from real_loop.audit.judged import tasks_of
        from real_loop.roles.trade import REPORTING

        self.audit, self.settings, self.words = audit, settings, Words(REPORTING, "report_rating")
        self.suite: ReportSuite
        self.suite, self.tasks, self.note = tasks_of(settings)
        self.varied = audit.manner == RATING and self.suite.tier == 1
        self.told: dict[str, Any] = {"suite": self.suite.name, "digest": self.suite.digest, "composer": audit.composer}
        self.told |= {"tasks": sorted(task.id for task in self.tasks), "varied": self.varied}
        self.roles = ("judge",) if audit.composer == RULES else ("judge", "solver")

    def task(self, name: str) -> ReportTask:
        """Return a task by its id."""
        return self.suite.task(name)

    async def made(self, log: Log | None, calls: Calls | None, done: Callable[[bool], None]) -> Made:
        """Return the cases. What a model composes is in the log."""
        seed, audit = self.settings.seed, self.audit
        made = Made(writers=() if audit.composer == RULES else (audit.composer,))
        clean = 0
        for i, task in enumerate(sorted(self.tasks, key=lambda task: draw(seed, task.id))):
            if clean >= audit.n:
                break
            text = self._by_rules(task, i) if calls is None or audit.composer == RULES else await self._composed(task, i, calls)
            if text is None or not self.passes(task, text):
                made.left_out["no clean section was written"] += 1
                continue
            clean += 1
            self._add(made, task, text)
            done(audit.composer != RULES)
        return made

    def passes(self, task: ReportTask, text: str) -> bool:
        """Tell whether the checks find nothing in a section."""
        return not self.found(task, text)

    def found(self, task: ReportTask, text: str, tier: int | None = None) -> int:
        """Return how many violations the checks find, by default those of the suite's tier."""
        from real_loop.suites.report.grader import violations

        return len(violations(task.slice, text, tier or self.suite.tier))

    def _by_rules(self, task: ReportTask, i: int) -> str:
        from real_loop.suites.report.compose import compose

        return compose(task.slice, i % VARIANTS if self.varied else 0)

    async def _composed(self, task: ReportTask, i: int, calls: Calls) -> str | None:
        """Return the first clean section that the composer writes, if one of a few is."""
        from real_loop.roles import At
        from real_loop.roles.prompted import PromptedSolver

        composer = PromptedSolver(calls, self.settings.roles.solver, self.words.trade)
        for attempt in range(TRIES):
            answered = await composer.solve(At(attempt, "compose", i, task.id), task, None)
            text = self.words.trade.part(task, answered.answer).replace("\r\n", "\n")
            if text.strip() and self.passes(task, text):
                return text
        return None

    def _add(self, made: Made, task: ReportTask, text: str) -> None:
        from real_loop.audit.defects import CLASSES, NotApplicable, inject

        name = name_of(task.id, text)
        made.cases.append(Case(name, task.id, True, "", text, origin=name, reason="passed"))
        for cls in CLASSES:
            try:
                got = inject(task.slice, text, cls, self.settings.seed)
            except NotApplicable as why:
                made.left_out[f"{cls} does not apply, {why.reason}"] += 1
                continue
            other = name_of(task.id, got.text)
            made.cases.append(Case(other, task.id, False, cls, got.text, got.line, got.before, got.after, name, cls))

    def checks(self, cases: Sequence[Case]) -> list[Asked]:
        """Return what the checks say of cases; their score is the number of violations, negated."""
        found = {case.id: self.found(self.task(case.task), case.text) for case in cases}
        return [Asked(case.id, CHECKS, not found[case.id], 0.0 - found[case.id]) for case in cases]


def flagged(cases: Sequence[Case], said: Sequence[Asked]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return by class (``clean`` first) and judge how many cases were flagged, of how many; and for each model with checks their union.

    Of repeated calls each counts. The union flags what the judge or the checks flag.
    """
    truth = {case.id: case.cls or CLEAN for case in cases}
    by_checks = {each.case: not each.verdict for each in said if each.judge == CHECKS}
    table: dict[str, dict[str, tuple[int, int]]] = {cls: {} for cls in dict.fromkeys(truth[case.id] for case in cases)}

    def count(cls: str, judge: str, flag: bool) -> None:
        k, n = table[cls].get(judge, (0, 0))
        table[cls][judge] = (k + flag, n + 1)

    for each in said:
        if each.verdict is None:
            continue
        count(truth[each.case], each.judge, not each.verdict)
        if each.judge != CHECKS and each.case in by_checks:
            count(truth[each.case], f"{each.judge} or checks", not each.verdict or by_checks[each.case])
    return table


def ratings(said: Sequence[Asked]) -> dict[str, float]:
    """Return the mean rating of each case."""
    by_case: dict[str, list[float]] = {}
    for each in said:
        if each.verdict is None and each.score is not None:
            by_case.setdefault(each.case, []).append(each.score)
    return {case: sum(values) / len(values) for case, values in by_case.items()}


def found(sections: Sections, made: Made, said: Sequence[Asked]) -> dict[str, Any]:
    """Return what the verdicts or ratings show, as JSON values."""
    from real_loop.audit.rated import direction, drops

    classes = {cls: {judge: list(kn) for judge, kn in row.items()} for cls, row in flagged(made.cases, said).items()}
    rated = ratings(said)
    if not rated:
        return {"classes": classes}
    pairs = [(case.cls, case.origin, case.id) for case in made.cases if not case.truth]
    clean = [case for case in made.cases if case.truth and case.id in rated]
    warnings = [sections.found(sections.task(case.task), case.text, tier=2) for case in clean]
    towards = direction([rated[case.id] for case in clean], warnings)
    return {"classes": classes, "drops": [asdict(each) for each in drops(rated, pairs)], "direction": asdict(towards)}


def words(what: Mapping[str, Any]) -> list[str]:
    """Return tables of `found` as lines."""
    lines: list[str] = []
    judges = list(dict.fromkeys(judge for row in what["classes"].values() for judge in row))
    if judges:
        lines += [f"{j + 1}: {judge}" for j, judge in enumerate(judges)]
        lines.append(f"{'flagged':<20} {'cases':>6}" + "".join(f" {j + 1:>6}" for j in range(len(judges))))
        for cls, row in what["classes"].items():
            n = max((kn[1] for kn in row.values()), default=0)
            cells = [f"{row[judge][0] / row[judge][1]:.2f}" if judge in row else "" for judge in judges]
            lines.append(f"{cls:<20} {n:>6}" + "".join(f" {cell:>6}" for cell in cells))
    if "drops" in what:
        lines.append(f"{'rating: clean less':<20} {'pairs':>6} {'mean':>6} {'lower':>6} {'equal':>6} {'higher':>6}  p (signed rank)")
        for d in what["drops"]:
            lines.append(f"{d['cls']:<20} {d['n']:>6} {d['mean']:>6.2f} {d['lower']:>6} {d['equal']:>6} {d['higher']:>6}  {d['p']:.2g}")
        d = what["direction"]
        if d["rho"] is None:
            lines.append(f"direction: no correlation of rating and warnings in {d['n']} clean sections: too few, or all alike")
        else:
            sure = d["p"] < 0.05
            way = f"more warnings, {'lower' if d['rho'] < 0 else 'higher'} ratings" if sure else "no way is sure"
            interval = "" if d["low"] is None else f"{d['low']:.2f} to {d['high']:.2f}, "
            told = f"{d['rho']:.2f} ({interval}p = {d['p']:.2g})"
            lines.append(f"direction: Spearman's rho of rating and warnings {told}, {d['n']} clean sections: {way}")
    return lines


def checked(audit: Audit, settings: Settings) -> tuple[Sections, Made, list[Asked]]:
    """Return the audit of the checks alone, on sections composed by rules: no model is asked.

    Raises
    ------
    InputError
        A composer that is a model was named.
    """
    import asyncio

    from sim.errors import InputError

    if audit.composer != RULES:
        raise InputError("composer", repr(audit.composer), f"{RULES} with judge={CHECKS}", "no model is asked then")
    sections = Sections(replace(audit, manner="strict"), settings)
    made = asyncio.run(sections.made(None, None, lambda new: None))
    return sections, made, sections.checks(made.cases)
