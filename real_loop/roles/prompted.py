"""Roles that ask a model, in the words of their trade (:mod:`real_loop.roles.trade`); a structured answer is JSON with a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from real_loop.calls import OVERFLOW, Calls, Malformed
from real_loop.library import Cluster, Skill
from real_loop.log import plain
from real_loop.models import Request
from real_loop.patterns import features, similarity
from real_loop.roles import LABELS, At, Attempt, Choice, Failure, Text, Verdict
from real_loop.roles.trade import Trade
from real_loop.settings import Role
from real_loop.suites import Task

NONE: Final = "none"
SHOWN_PATTERNS: Final = 12
LONGEST: Final = {"name": 60, "applicability": 200, "insight": 300, "pitfalls": 200, "postcondition": 200}
LONGEST_PATTERN: Final = 60


def _object(text: str) -> Mapping[str, Any]:
    """Read a JSON object, with or without a fence or words around it."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise Malformed("no JSON object in it")
    try:
        value = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        raise Malformed("no JSON that can be read") from None
    if not isinstance(value, dict):
        raise Malformed("no JSON object in it")
    return value


def _string(value: Mapping[str, Any], key: str, longest: int) -> str:
    got = value.get(key)
    if not isinstance(got, str) or not got.strip():
        raise Malformed(f'"{key}" is not a text')
    return plain(" ".join(got.split()))[:longest]


def _schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(properties), "additionalProperties": False}


def _texts(longest: Mapping[str, int]) -> dict[str, Any]:
    return {key: {"type": "string", "maxLength": length} for key, length in longest.items()}


class _Asking:
    """A role with a model: how it samples, in which words it is asked, and its name in the log."""

    name: str

    def __init__(self, calls: Calls, role: Role, trade: Trade) -> None:
        self.calls, self.role, self.trade = calls, role, trade

    def request(self, user: str, schema: dict[str, Any] | None = None) -> Request:
        return Request(self.trade.system, user, self.role.temperature, self.role.max_tokens, 0, schema, self.name)


class PromptedRouter(_Asking):
    """Asks which skill applies, by name and applicability condition. An answer that cannot be read declines."""

    name = "router"

    async def route(self, at: At, task: Task, shelf: Sequence[Skill]) -> Choice:
        """Return a skill's number, or None; an empty shelf asks nobody."""
        if not shelf:
            return Choice(None)
        ids = {f"S{skill.number}": skill.number for skill in shelf}
        lines = "\n".join(f"S{s.number}: {s.name}. Applies when: {s.applicability}" for s in shelf)

        def read(text: str) -> int | None:
            got = str(_object(text).get("skill"))
            if got in ids:
                return ids[got]
            if got.lower() == NONE:
                return None
            raise Malformed(f'"skill" is {got[:20]!r}, not one of {", ".join(ids)} or {NONE}')

        schema = _schema({"skill": {"type": "string", "enum": [*ids, NONE]}})
        skill, answered = await self.calls.ask_for(
            at, self.name, self.request(self.trade.prompt("router", skills=lines, task=task.prompt), schema), read
        )
        return Choice(skill, answered.call)


class TopHit:
    """Takes the skill whose name and condition are most like the task (RT ablation A2). It never declines and asks nobody."""

    async def route(self, at: At, task: Task, shelf: Sequence[Skill]) -> Choice:
        """Return the number of the most similar skill; of equals, the oldest."""
        if not shelf:
            return Choice(None)
        mine = features(task.prompt)
        best = max(shelf, key=lambda s: (similarity(mine, features(f"{s.name} {s.applicability}")), -s.number))
        return Choice(best.number)


class PromptedSolver(_Asking):
    """Attempts a task with the skill's body before it."""

    name = "solver"

    async def solve(self, at: At, task: Task, skill: Skill | None) -> Attempt:
        """Return the answer; void when the prompt is longer than the model's context."""
        body = ""
        if skill is not None:
            fields = {key: getattr(skill, key) for key in LONGEST}
            body = self.trade.prompt("skill", **fields)
        text = self.trade.prompt("solver", skill=body, task=task.prompt, **self.trade.blanks(task))
        answered = await self.calls.ask(at, self.name, self.request(text))
        void = "the prompt is longer than the model's context" if answered.stop_reason == OVERFLOW else ""
        if void:
            self.calls.fell_back(at, self.name, void)
        return Attempt(answered.text, answered.call, text, void)


class PromptedCritic(_Asking):
    """Labels a failure and names its pattern. An answer that cannot be read is neutral, without a pattern.

    Without guidance there is nothing to label: it is inapplicable.
    """

    name = "critic"

    async def criticise(self, at: At, failure: Failure) -> Verdict:
        """Return the verdict."""
        skill, properties = failure.skill, _texts({"pattern": LONGEST_PATTERN})
        if skill is not None:
            properties["label"] = {"type": "string", "enum": list(LABELS)}
        text = self.trade.prompt(
            "critic",
            task=failure.task.prompt,
            guidance=f"\nGuidance that was given: {skill.name}. {skill.insight}\n" if skill else "",
            answer=self.trade.answered(failure.task, failure.answer),
            trace=failure.trace,
            form=json.dumps(dict.fromkeys(properties, "...")),
            labels=self.trade.prompt("labels").rstrip() if skill else "",
        )

        def read(answer: str) -> Verdict:
            value = _object(answer)
            label = str(value.get("label")).lower() if skill else "inapplicable"
            if label not in LABELS:
                raise Malformed(f'"label" is {label[:20]!r}, not one of {", ".join(LABELS)}')
            return Verdict(label, _string(value, "pattern", LONGEST_PATTERN).lower().rstrip("."))

        schema = _schema(properties)
        verdict, answered = await self.calls.ask_for(at, self.name, self.request(text, schema), read)
        return Verdict(verdict.label, verdict.pattern, answered.call) if verdict else Verdict("neutral", "", answered.call)


class PromptedSynthesizer(_Asking):
    """Writes a skill from a cluster of patterns and the authoring prior. An answer that cannot be read is no skill."""

    name = "synthesizer"

    async def write(self, at: At, cluster: Cluster, prior: str) -> Text | None:
        """Return a skill's text, or None."""
        counts: dict[str, int] = {}
        for pattern in cluster.patterns:
            counts[pattern] = counts.get(pattern, 0) + 1
        shown = sorted(counts.items(), key=lambda item: -item[1])[:SHOWN_PATTERNS]
        lines = "\n".join(f"- {pattern}" + (f" ({n} times)" if n > 1 else "") for pattern, n in shown)

        def read(answer: str) -> dict[str, str]:
            value = _object(answer)
            return {key: _string(value, key, length) for key, length in LONGEST.items()}

        request = self.request(self.trade.prompt("synthesizer", prior=prior, patterns=lines), _schema(_texts(LONGEST)))
        fields, answered = await self.calls.ask_for(at, self.name, request, read)
        return Text(**fields, call=answered.call) if fields else None

    async def rewrite(self, at: At, prior: str, summary: str) -> tuple[str, int | None]:
        """Return the prior written anew (RT ablation A8); the old one when nothing came."""
        answered = await self.calls.ask(at, self.name, self.request(self.trade.prompt("rewrite", prior=prior, summary=summary)))
        if not answered.text.strip():
            self.calls.fell_back(at, self.name, "the prompt is too long" if answered.stop_reason == OVERFLOW else "an empty answer")
        return answered.text.strip() or prior, answered.call


class Judge(_Asking):
    """Says whether an answer passes, without running it: BC's realistic reward. Temperature 0, verdict as an enum.

    An answer that cannot be read counts as FAIL.
    """

    name = "judge"

    def __init__(self, calls: Calls, role: Role, manner: str, trade: Trade) -> None:
        super().__init__(calls, role, trade)
        self.manner = manner

    async def judge(self, at: At, task: Task, answer: str) -> tuple[bool, int]:
        """Return whether it passes in the judge's eyes, and the number of the call."""

        def read(text: str) -> bool:
            got = str(_object(text).get("verdict")).upper()
            if got not in ("PASS", "FAIL"):
                raise Malformed('"verdict" is neither "PASS" nor "FAIL"')
            return got == "PASS"

        schema = _schema({"verdict": {"type": "string", "enum": ["PASS", "FAIL"]}})
        text = self.trade.prompt(f"judge_{self.manner}", task=task.prompt, answer=self.trade.answered(task, answer))
        verdict, answered = await self.calls.ask_for(at, self.name, self.request(text, schema), read)
        return bool(verdict), answered.call
