"""A model of our own that plays all roles: its answers depend on nothing but the request, as those of a real model with a seed do."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from real_loop.sandbox import find
from real_loop.suites import load

SECTION = "Answer with the section in Markdown only"  # only the solver of reports is told so
PATTERNS = ("ignores empty input", "off by one index", "wrong return type", "misses duplicates")


class Clever:
    """Answers any role's request, of programs, and of sections of reports where it is given who writes one that passes.

    Parameters
    ----------
    spoil
        Share of structured answers that are malformed at the first try.
    write
        Returns a section that passes, by the request.
    """

    def __init__(self, spoil: float = 0.0, write: Callable[[str], str] | None = None) -> None:
        self.spoil, self.write = spoil, write
        self.solutions = {task.entry_point: task.canonical for task in load("demo24", find("limits")).tasks}
        self.asked: list[str] = []

    def __call__(self, body: dict[str, Any]) -> str:
        user = body["messages"][-1]["content"]
        draw = hashlib.sha256(f"{body.get('seed')}/{user}".encode()).digest()
        role = self.role(user)
        self.asked.append(role)
        if role not in ("solver", "writer", "rewriter") and "could not be used" not in user and draw[3] < 256 * self.spoil:
            return ("Certainly!", '{"skill": 7, "pattern": "", "name": "x"}', '{"skill": "S1", "patt')[draw[4] % 3]
        return str(getattr(self, role)(user, draw))

    @staticmethod
    def role(user: str) -> str:
        """Tell which role's prompt this is."""
        for mark, role in (
            ("Skills on the shelf", "router"),
            ("Code only", "solver"),
            (SECTION, "writer"),
            ("What kind of mistake", "critic"),
        ):
            if mark in user:
                return role
        return "judge" if "reviewer" in user else "rewriter" if "Rewrite the guide" in user else "synthesizer"

    def router(self, user: str, draw: bytes) -> str:
        ids = re.findall(r"^(S\d+):", user, re.MULTILINE)
        return json.dumps({"skill": [*ids, "none"][draw[0] % (len(ids) + 1)]})

    def solver(self, user: str, draw: bytes) -> str:
        name = re.findall(r"defines `(\w+)`", user)[-1]
        if draw[0] % 3 == 0 or ("Guidance" in user and draw[1] % 2):
            return f"Here it is:\n```python\n{self.solutions[name]}\n```"
        return ("I do not know.", f"```python\ndef {name}(*args):\n    return None\n```", f"```python\ndef {name}(:\n```")[draw[0] % 3 - 1]

    def writer(self, user: str, draw: bytes) -> str:
        assert self.write is not None
        section = self.write(user)
        if draw[0] % 3 == 0 or ("Guidance" in user and draw[1] % 2):
            return f"Here it is:\n```markdown\n{section}\n```" if draw[2] % 2 else section
        spoilt = (
            section.replace("TL;DR", "In short"),
            f"{section}\nIt rose by 41 percent.\nAnd by 7 more.",
            f"{section}\nSo it is said [E999].",
        )
        return spoilt[draw[0] % 3 if draw[2] % 2 else draw[1] % 3]

    def critic(self, user: str, draw: bytes) -> str:
        label = ("helped", "hurt", "neutral", "inapplicable")[draw[1] % 4]
        return json.dumps({"pattern": PATTERNS[draw[0] % 4], "label": label})

    def synthesizer(self, user: str, draw: bytes) -> str:
        return json.dumps(dict.fromkeys(("name", "applicability", "insight", "pitfalls", "postcondition"), f"text {draw[0]}"))

    def judge(self, user: str, draw: bytes) -> str:
        return json.dumps({"verdict": "PASS" if draw[0] % 2 else "FAIL"})

    def rewriter(self, user: str, draw: bytes) -> str:
        return f"A better guide, number {draw[0]}."
