"""Ask a model about cases: a verdict, the log-odds of PASS, or a rating; each from the log if it is there.

Verdicts are asked for by the judge of the loop (`real_loop.roles.prompted.Judge`): what is audited is what ``reward=judge`` would use.
The log-odds come of the same prompt with another last sentence: one word instead of JSON, of which only the first token is asked for.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

from real_loop.calls import OVERFLOW, Calls, Malformed
from real_loop.models import Request
from real_loop.roles import At
from real_loop.roles.prompted import Judge, _object, _schema

if TYPE_CHECKING:
    from real_loop.roles.trade import Trade
    from real_loop.settings import Role
    from real_loop.suites import Task

PROMPTS: Final = Path(__file__).resolve().parent / "judge_prompts"
BINARY: Final = ("strict", "lenient")
RATING: Final = "rating"
JSON: Final = "Answer with JSON only:"  # how the last sentence of a prompt for a verdict begins
WORD: Final = "Answer with one word only: PASS or FAIL."
TOP: Final = 20  # most tokens that services report
ROLE: Final = "judge"
LONGEST_RATING: Final = 40  # tokens


@dataclass(frozen=True)
class Case:
    """Something of known truth to be judged.

    Parameters
    ----------
    id
        Its name: made of the task and what it says, so that the same is the same in every run.
    task
        What it answers; errors may cluster by it.
    truth
        Whether it truly passes.
    cls
        Class of the defect, "" for what passes.
    text
        What the judge is shown of it.
    line, before, after
        Where and how it differs from what passes, if it was made from that; 0 and "" else.
    origin
        Id of the case that it was made from, or its own.
    reason
        What the true grader said.
    """

    id: str
    task: str
    truth: bool
    cls: str = ""
    text: str = field(default="", repr=False)
    line: int = 0
    before: str = ""
    after: str = ""
    origin: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Asked:
    """What a judge said of a case, once.

    Parameters
    ----------
    case, judge
        Id of the case; name of the judge, with its manner.
    verdict
        None for a rating, which is a score alone.
    score
        Log-odds of PASS (nats), or a rating from 1 to 10; None where there is none.
    malformed
        Why the answer could not be read, else "". Such a verdict is FAIL, such a rating 1.
    unseen
        Of a log-odds: words (0 to 2) that were not among the tokens reported.
    """

    case: str
    judge: str
    verdict: bool | None
    score: float | None = None
    malformed: str = ""
    unseen: int = 0


def in_a_word(text: str) -> str:
    """Return a prompt that asks for one word where it asked for JSON."""
    before, mark, _ = text.rpartition(JSON)
    assert mark, "every prompt for a verdict ends so"
    return before + WORD


def log_odds(top: Sequence[tuple[str, float]]) -> tuple[float, int]:
    """Return log P(PASS) - log P(FAIL) of the first token (nats), and how many of the two words were not among those reported.

    A token counts for a word that it begins, or that begins with it, in whatever case: "P", "PASS", " pass". A word of which no such
    token was reported has at most the chance of the least likely one reported, and is given that; when neither was, 0.
    """
    chance = {"PASS": 0.0, "FAIL": 0.0}
    for token, value in top:
        text = token.strip().upper()
        for word in chance:
            if text and (word.startswith(text) or text.startswith(word)):
                chance[word] += math.exp(value)
    unseen = sum(p <= 0 for p in chance.values())
    if unseen == 2:
        return 0.0, 2
    least = math.exp(min(value for _, value in top))
    passes, fails = (p if p > 0 else least for p in chance.values())
    return math.log(max(passes, 1e-300)) - math.log(max(fails, 1e-300)), unseen


class Words:
    """What judges of one trade are asked: verdicts as the loop asks for them, ratings by a prompt of this folder.

    Parameters
    ----------
    trade
        The loop's words for the kind of suite.
    rating
        Name of the prompt for ratings.
    """

    def __init__(self, trade: Trade, rating: str) -> None:
        self.trade, self.rating, self.system = trade, rating, trade.system

    def digest(self) -> str:
        """Return a hash of the prompts: other prompts, another audit."""
        files = [*(self.trade.prompts / f"judge_{manner}.txt" for manner in BINARY), PROMPTS / f"{self.rating}.txt"]
        sha = hashlib.sha256(f"{self.system}\0{WORD}".encode())
        for file in files:
            sha.update(b"\0" + file.name.encode() + b"\0" + file.read_bytes())
        return sha.hexdigest()[:16]

    def text(self, manner: str, task: Task, case: Case) -> str:
        """Return the prompt."""
        values = {"task": task.prompt, "answer": self.trade.answered(task, case.text)}
        if manner == RATING:
            return Template((PROMPTS / f"{self.rating}.txt").read_text()).substitute(values)
        return self.trade.prompt(f"judge_{manner}", **values)


class Panel:
    """One model as several judges.

    Parameters
    ----------
    calls
        The log and the model.
    role
        How it samples.
    words
        What it is asked.
    name
        Of the model; a judge's is that and its manner.
    scores
        Whether to ask for log-odds too, as long as the service tells them.
    """

    def __init__(self, calls: Calls, role: Role, words: Words, name: str, scores: bool) -> None:
        self.calls, self.role, self.words, self.name, self.scores = calls, role, words, name, scores
        self.told = True  # log-odds, until the service does not
        self.first = asyncio.Lock()  # one call shows whether it does: the others wait for it
        self.known = False

    async def ask(self, manner: str, vote: int, index: int, task: Task, case: Case) -> Asked:
        """Ask about a case once: a verdict (and its log-odds), or a rating."""
        judge = f"{self.name} {manner}"
        at = At(vote, manner, index, case.id)
        if manner == RATING:
            rating, why = await self._rating(at, task, case)
            return Asked(case.id, judge, None, rating, why)
        verdict, _ = await Judge(self.calls, self.role, manner, self.words.trade).judge(at, task, case.text)
        why = self._malformed(at)
        score, unseen = None, 0
        if self.scores:
            odds = At(vote, f"{manner}/log-odds", index, case.id)
            if not self.known:
                async with self.first:
                    if not self.known:
                        score, unseen = await self._log_odds(odds, manner, task, case)
                        self.told, self.known = score is not None, True
                        return Asked(case.id, judge, verdict, score, why, unseen)
            if self.told:
                score, unseen = await self._log_odds(odds, manner, task, case)
        return Asked(case.id, judge, verdict, score, why, unseen)

    def _malformed(self, at: At) -> str:
        query = "SELECT why FROM fallbacks WHERE round = ? AND phase = ? AND role = ? AND subject = ?"
        row = self.calls.log.one(query, (at.round, at.phase, ROLE, at.subject))
        return "" if row is None else str(row["why"])

    async def _log_odds(self, at: At, manner: str, task: Task, case: Case) -> tuple[float | None, int]:
        text = in_a_word(self.words.text(manner, task, case))
        answered = await self.calls.ask(at, ROLE, Request(self.words.system, text, 0.0, 1, 0, None, ROLE, TOP))
        if answered.stop_reason == OVERFLOW:
            return 0.0, 2
        return (None, 0) if answered.top is None else log_odds(answered.top)

    async def _rating(self, at: At, task: Task, case: Case) -> tuple[float, str]:
        def read(text: str) -> int:
            got = _object(text).get("rating")
            if type(got) is not int or not 1 <= got <= 10:
                raise Malformed('"rating" is no whole number from 1 to 10')
            return got

        schema = _schema({"rating": {"type": "integer", "enum": list(range(1, 11))}})
        text = self.words.text(RATING, task, case)
        request = Request(self.words.system, text, self.role.temperature, min(self.role.max_tokens, LONGEST_RATING), 0, schema, RATING)
        rating, _ = await self.calls.ask_for(at, ROLE, request, read)
        return float(rating or 1), self._malformed(at)
