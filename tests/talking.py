"""A model that is a few lines of Python, for runs of the real loop with texts: it answers every role of the small suite."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from real_loop.calls import Calls
from real_loop.config import Plan, load
from real_loop.log import Log
from real_loop.loop import Loop, Watch
from real_loop.models import Budget, Reply, Request
from real_loop.rewards import Flips
from real_loop.roles import At, Cast
from real_loop.roles.prompted import PromptedCritic, PromptedRouter, PromptedSolver, PromptedSynthesizer
from real_loop.roles.trade import CODING
from real_loop.run import library_of, told
from real_loop.suites import CodeTask, Grade, Task

SETTINGS = ("subset=demo24", "model=openai/fake", "policy.rounds=4", "policy.window=2", "policy.n_min=3", "writing.min_cluster=2")
PRIOR = "Write good skills."
PATTERNS = ("returns the wrong type of number", "off by one at the end of the list", "forgets the empty input")


class Talker:
    """Routes to the newest skill, fails by the seed of the request, and names patterns; now and then it says nothing that can be read.

    Parameters
    ----------
    stop
        Called before each answer with the number of calls so far; may raise.
    """

    name, slots = "fake", 4

    def __init__(self, budget: Budget, stop: Callable[[int], None] = lambda calls: None) -> None:
        self.budget, self.stop, self.asked = budget, stop, 0

    async def generate(self, request: Request) -> Reply:
        self.stop(self.asked)
        self.asked += 1
        await asyncio.sleep(0)
        text = "I would rather not say." if request.seed % 3 == 0 and request.schema else self.answer(request)
        reply = Reply(text, "stop", len(request.user) // 4, len(text) // 4, 0.001, 0.25, "fake-1")
        self.budget.add(reply)
        return reply

    def answer(self, request: Request) -> str:
        if request.schema_name == "router":
            assert request.schema is not None
            names = request.schema["properties"]["skill"]["enum"]
            return json.dumps({"skill": names[request.seed % len(names)]})
        if request.schema_name == "critic":
            return json.dumps({"label": "neutral", "pattern": PATTERNS[request.seed % 3]})
        if request.schema_name == "synthesizer":
            what = f"Cost $x_{request.seed % 100}$ [bold]of numbers[/bold]\x1b[31m and such that go on for long"
            return json.dumps({
                "name": what, "applicability": "a list may be empty", "insight": "Look at the last element twice; sk-secretsecret1",
                "pitfalls": "none known", "postcondition": "the empty list gives zero",
            })  # fmt: skip
        return "passes" if request.seed % 5 < 2 else "fails"

    def about(self) -> dict[str, Any]:
        return {"model": "fake-1"}

    async def close(self) -> None: ...


class Reader:
    """Takes an answer at its word."""

    async def grade(self, at: At, task: Task, answer: str) -> Grade:
        return Grade(answer == "passes", answer, 0.01, "passed" if answer == "passes" else "wrong")


def play(path: Path | str, watch: Watch, *more: str, stop: Callable[[int], None] = lambda calls: None) -> tuple[Plan, Log]:
    """Play a run of talking roles, or what is left of it; return its log, open."""
    plan = load([*SETTINGS, *more])
    s = plan.settings
    names = [f"Demo/{i}" for i in range(s.subset.n_train + s.subset.n_eval)]
    tasks = {"train": names[: s.subset.n_train], "eval": names[s.subset.n_train :]}
    log = Log(path, told(s, None, tasks, PRIOR, plan))

    async def played() -> None:
        budget = Budget()
        models = dict.fromkeys(("router", "solver", "critic", "synthesizer"), Talker(budget, stop))
        calls = Calls(log, models, budget, s.seed, s.run, s.evals == "paired")
        train, evals = (tuple(CodeTask(name, f"Write {name}.", "f", "", "", (), ()) for name in tasks[part]) for part in ("train", "eval"))
        roles = PromptedRouter(calls, s.roles.router, CODING), PromptedSolver(calls, s.roles.solver, CODING), Reader()
        cast = Cast(
            *roles, PromptedCritic(calls, s.roles.critic, CODING), PromptedSynthesizer(calls, s.roles.synthesizer, CODING), train, evals
        )
        watch.attach(calls)
        library, inject = library_of(s, cast), s.roles.mode != "withheld"
        flips = Flips(s.reward, s.seed, s.run)
        await Loop(library, cast, flips, log, calls, watch, PRIOR, s.writing.rewrite_every, inject).play()

    try:
        asyncio.run(played())
    except BaseException:
        log.close()
        raise
    return plan, log
