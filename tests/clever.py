"""A model of our own that plays all roles: its answers depend on nothing but the request, as those of a real model with a seed do."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from real_loop.sandbox import find
from real_loop.suites import load

PATTERNS = ("ignores empty input", "off by one index", "wrong return type", "misses duplicates")


class Clever:
    """Answers any role's request. ``spoil`` is the share of structured answers that are malformed at the first try."""

    def __init__(self, spoil: float = 0.0) -> None:
        self.spoil = spoil
        self.solutions = {task.entry_point: task.canonical for task in load("demo24", find("limits")).tasks}
        self.asked: list[str] = []

    def __call__(self, body: dict[str, Any]) -> str:
        user = body["messages"][-1]["content"]
        draw = hashlib.sha256(f"{body.get('seed')}/{user}".encode()).digest()
        role = self.role(user)
        self.asked.append(role)
        if role not in ("solver", "rewriter") and "could not be used" not in user and draw[3] < 256 * self.spoil:
            return ("Certainly!", '{"skill": 7, "pattern": "", "name": "x"}', '{"skill": "S1", "patt')[draw[4] % 3]
        return str(getattr(self, role)(user, draw))

    @staticmethod
    def role(user: str) -> str:
        """Tell which role's prompt this is."""
        for mark, role in (("Skills on the shelf", "router"), ("Code only", "solver"), ("What kind of mistake", "critic")):
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

    def critic(self, user: str, draw: bytes) -> str:
        label = ("helped", "hurt", "neutral", "inapplicable")[draw[1] % 4]
        return json.dumps({"pattern": PATTERNS[draw[0] % 4], "label": label})

    def synthesizer(self, user: str, draw: bytes) -> str:
        return json.dumps(dict.fromkeys(("name", "applicability", "insight", "pitfalls", "postcondition"), f"text {draw[0]}"))

    def judge(self, user: str, draw: bytes) -> str:
        return json.dumps({"verdict": "PASS" if draw[0] % 2 else "FAIL"})

    def rewriter(self, user: str, draw: bytes) -> str:
        return f"A better guide, number {draw[0]}."
