"""The reward channel: what is reported of a train trial. Evaluation never goes through it.

Flips come from the simulator's counter generator (MODEL.md 4): the word of (run, round, trial) decides, whatever was asked before,
so a run that is taken up flips the same labels, and cells with the same seed flip alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from real_loop.roles import At
from real_loop.roles.prompted import Judge
from real_loop.settings import Reward
from real_loop.suites import Grade, Task
from sim import rng
from sim.model import Channel
from sim.tables import RATE_BITS, flip_rates, threshold

NO_DETAIL = "The checks report a failure, without detail."


@dataclass(frozen=True)
class Observed:
    """What is reported of a trial: whether it passed, what the critic is told, and the judge's call if one was asked."""

    passed: bool
    trace: str
    call: int | None = None


class Observer(Protocol):
    """Reports a true outcome, rightly or not."""

    async def observe(self, at: At, task: Task, answer: str, grade: Grade) -> Observed: ...


class Flips:
    """The true outcome, flipped at given rates.

    Parameters
    ----------
    reward
        Rates; with ``spread`` they differ from unit to unit around them.
    seed, run
        The key of the flips.
    topics
        Of the train tasks, for ``unit = topic``.
    """

    def __init__(self, reward: Reward, seed: int, run: int, topics: tuple[int, ...] = ()) -> None:
        self.seed, self.run, self.topics = seed, run, topics
        self.by_topic, self.spread = reward.unit == "topic", reward.spread > 0
        rates = Channel(reward.rho_fp, reward.rho_pf, reward.spread, reward.unit)
        self.flat = int(threshold(reward.rho_fp)), int(threshold(reward.rho_pf))
        self.bins = flip_rates(rates).tolist() if self.spread else []

    def thresholds(self, position: int) -> tuple[int, int]:
        """Return the words below which a fail, and a pass, of this train task is flipped."""
        if not self.spread:
            return self.flat
        a, b = rng.words(self.seed, self.run, 0, rng.RATE_DRAW, self.topics[position] if self.by_topic else position)
        return self.bins[0][a >> (32 - RATE_BITS)], self.bins[1][b >> (32 - RATE_BITS)]

    def flipped(self, round_: int, position: int, passed: bool) -> bool:
        """Whether the outcome of a trial is reported wrongly."""
        word = rng.words(self.seed, self.run, round_, rng.OUTCOME, position)[1]
        return word < self.thresholds(position)[passed]

    async def observe(self, at: At, task: Task, answer: str, grade: Grade) -> Observed:
        """Return the outcome as reported. Of a pass reported as a failure there is nothing to tell."""
        flipped = self.flipped(at.round, at.index, grade.passed)
        return Observed(grade.passed != flipped, NO_DETAIL if flipped else grade.trace)


class Judged:
    """What a judge says who is a model and does not run the answer."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    async def observe(self, at: At, task: Task, answer: str, grade: Grade) -> Observed:
        """Return the judge's verdict."""
        passed, call = await self.judge.judge(at, task, answer)
        return Observed(passed, "The reviewer says that this answer fails.", call)
