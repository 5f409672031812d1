"""The roles of the loop, one small protocol each. The curator is the fifth: arithmetic, in :mod:`real_loop.library`.

What each is given is what RT appendix G lists. :mod:`real_loop.roles.prompted` has the roles that ask a model, with their prompts as
text files beside it; :mod:`real_loop.roles.scripted` those that follow a world of the simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from real_loop.library import Cluster, Skill
from real_loop.suites import Grade, Task

TRAIN = "train"
EVAL = "eval"
WRITE = "write"
REWRITE = "rewrite"
LABELS = ("helped", "hurt", "neutral", "inapplicable")


@dataclass(frozen=True)
class At:
    """Where in a run something is asked: round, phase, place among its like, and the task or cluster it is about."""

    round: int
    phase: str
    index: int
    subject: str


@dataclass(frozen=True)
class Choice:
    """What the router says: the number of a skill, or None to decline."""

    skill: int | None
    call: int | None = None


@dataclass(frozen=True)
class Attempt:
    """What the solver says. ``void`` says why there is no answer that could be graded, when there is none."""

    answer: str
    call: int | None = None
    prompt: str = ""
    void: str = ""


@dataclass(frozen=True)
class Verdict:
    """What the critic says of a failure: one of LABELS, and a short pattern; empty when it could not be read."""

    label: str
    pattern: str
    call: int | None = None


@dataclass(frozen=True)
class Failure:
    """What the critic is given: the failing capsule with its task, skill, output and grader trace, as the reward channel tells them."""

    task: Task
    skill: Skill | None
    answer: str
    trace: str


@dataclass(frozen=True)
class Text:
    """What the synthesizer writes."""

    name: str
    applicability: str
    insight: str
    pitfalls: str
    postcondition: str
    call: int | None = None


class Router(Protocol):
    """Chooses at most one skill for a task, from names and applicability conditions."""

    async def route(self, at: At, task: Task, shelf: Sequence[Skill]) -> Choice: ...


class Solver(Protocol):
    """Attempts a task, with the routed skill's body before it."""

    async def solve(self, at: At, task: Task, skill: Skill | None) -> Attempt: ...


class Grader(Protocol):
    """Says truly whether an answer passes. Nobody in the loop sees it but through the reward channel."""

    async def grade(self, at: At, task: Task, answer: str) -> Grade: ...


class Critic(Protocol):
    """Labels an observed failure."""

    async def criticise(self, at: At, failure: Failure) -> Verdict: ...


class Synthesizer(Protocol):
    """Writes a skill from a cluster, under the authoring prior; None when nothing usable came."""

    async def write(self, at: At, cluster: Cluster, prior: str) -> Text | None: ...

    async def rewrite(self, at: At, prior: str, summary: str) -> tuple[str, int | None]: ...


@dataclass(frozen=True)
class Cast:
    """All roles of a run, the tasks they work on, and patterns known beforehand."""

    router: Router
    solver: Solver
    grader: Grader
    critic: Critic
    synthesizer: Synthesizer
    train: tuple[Task, ...]
    eval: tuple[Task, ...]
    known: tuple[str, ...] = ()
    start: tuple[tuple[str, Text], ...] = ()  # cluster and text of skills on the shelf before the first round
    topics: tuple[int, ...] = field(default=())  # of the train tasks, where they are known
