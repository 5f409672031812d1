"""Roles that follow a world of the simulator: known difficulties and effects, no text, no model.

They are the demo without weights, and the test that the loop and the simulator are the same: with the same seed and run they draw the
same random words as :class:`sim.reference.Run`, so that the loop has to arrive at the same numbers. A skill's text says all there is
to know of it (its topic and its row of the pass table), so the log holds everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from real_loop.library import Cluster, Skill
from real_loop.roles import EVAL, At, Attempt, Cast, Choice, Failure, Text, Verdict
from real_loop.suites import Grade, Task
from sim import rng
from sim.model import Cell
from sim.reference import Run
from sim.reference import Skill as Known
from sim.tables import EFFECT_BINS, EFFECT_BITS, derive, effects

PASSES, FAILS = "passes", "fails"


def topic_name(topic: int) -> str:
    """Return the pattern that stands for a topic."""
    return f"topic {topic:02}"


class Script:
    """All roles of one scripted run.

    Parameters
    ----------
    cell
        World, policy and channel; the channel is not looked at, since flips are the reward's.
    seed, run
        The key of all randomness.
    """

    def __init__(self, cell: Cell, seed: int, run: int) -> None:
        self.world, self.cell = Run(derive([cell]), 0, seed, run), cell
        self.size = effects(cell.world)

    def cast(self) -> Cast:
        """Return the roles with their tasks."""
        topics, start = range(self.cell.world.topics), [(s.topic, s.row) for s in self.world.shelf]
        return Cast(
            *(self,) * 5,
            train=tuple(_task(f"train-{i:04}") for i in range(self.cell.world.n_train)),
            eval=tuple(_task(f"eval-{i:04}") for i in range(self.cell.world.n_eval)),
            known=tuple(map(topic_name, topics)),
            start=tuple((topic_name(topic), self.text(topic, row)) for topic, row in start),
            topics=tuple(task.topic for task in self.world.train),
        )

    def words(self, at: At, train: int, evals: int) -> tuple[int, int]:
        """Return the random words of a trial, by purpose in training and in evaluation."""
        return self.world.words(at.round, evals if at.phase == EVAL else train, at.index)

    def task(self, at: At) -> object:
        return (self.world.eval if at.phase == EVAL else self.world.train)[at.index]

    def text(self, topic: int, row: int) -> Text:
        """Return the text of a skill that says what it is."""
        spurious = " (spurious)" if row >= EFFECT_BINS else ""
        return Text(topic_name(topic), topic_name(topic), f"row {row}: {self.size[row]:+.3f} logit{spurious}", "none", "none")

    async def route(self, at: At, task: Task, shelf: Sequence[Skill]) -> Choice:
        """Route as the simulator does."""
        self.world.shelf = [known(skill) for skill in shelf]
        skill = self.world.route(self.task(at), *self.words(at, rng.ROUTE, rng.EVAL_ROUTE))  # type: ignore[arg-type]
        return Choice(skill.born if skill else None)

    async def solve(self, at: At, task: Task, skill: Skill | None) -> Attempt:
        """Pass with the probability that the world gives this task with this skill."""
        word = self.words(at, rng.OUTCOME, rng.EVAL_OUTCOME)[0]
        least = self.world.pass_threshold(self.task(at), known(skill) if skill else None)  # type: ignore[arg-type]
        return Attempt(PASSES if word < least else FAILS)

    async def grade(self, at: At, task: Task, answer: str) -> Grade:
        """Read the outcome."""
        return Grade(answer == PASSES, answer, 0.0, "passed" if answer == PASSES else "wrong")

    async def criticise(self, at: At, failure: Failure) -> Verdict:
        """Name the task's topic, or with probability ``mislabel`` a random one."""
        label = self.world.label(self.task(at), *self.world.words(at.round, rng.ROUTE, at.index))  # type: ignore[arg-type]
        return Verdict("neutral" if failure.skill else "inapplicable", topic_name(label))

    async def write(self, at: At, cluster: Cluster, prior: str) -> Text | None:
        """Draw a skill's effect; phantom failures make it spurious."""
        spurious_word, effect_word = self.world.words(at.round, rng.SYNTH, at.index)
        spurious = (spurious_word >> 16) * cluster.amount < self.world.c["phantom_cost"] * cluster.phantoms
        return self.text(cluster.order, (effect_word >> (32 - EFFECT_BITS)) + (EFFECT_BINS if spurious else 0))

    async def rewrite(self, at: At, prior: str, summary: str) -> tuple[str, int | None]:
        """Leave the prior as it is."""
        return prior, None


def _task(name: str) -> Task:
    return Task(name, f"scripted task {name}")


def known(skill: Skill) -> Known:
    """Return what the simulator knows of a skill, read from its text."""
    row = re.match(r"row (\d+)", skill.insight)
    assert row is not None, skill
    return Known(int(skill.cluster.removeprefix("topic ")), int(row[1]), skill.number)
