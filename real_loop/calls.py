"""Ask a model once and for all: a call that the log has is not made again, and one that is made is in the log before it is used."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from real_loop.log import Log, plain
from real_loop.models import Budget, Client, Overflow, Request
from real_loop.reuse import Known
from real_loop.roles import EVAL, At
from sim.errors import RunError

T = TypeVar("T")
MOST_TOKENS = 10**9
OVERFLOW = "overflow"  # stop_reason of a call whose prompt is longer than the model's context


def _count(tokens: int) -> int:
    """Return a count as a service says it, within reason."""
    return min(max(tokens, 0), MOST_TOKENS)


class Malformed(ValueError):  # noqa: N818 - an answer, not a mistake of ours
    """An answer that does not say what was asked, and why."""


class Stopping(Exception):  # noqa: N818 - not an error of its own
    """No call is made any more, since something else ended the run."""


@dataclass(frozen=True)
class Answered:
    """A call's answer as the log has it, the number of its row, and the most likely first tokens where they were asked for.

    The log keeps an answer with such tokens as JSON: ``{"text": ..., "top": [[token, log probability], ...]}``, ``top`` null when the
    service did not tell.
    """

    call: int
    text: str
    stop_reason: str
    tokens: int
    cost: float | None
    seconds: float
    top: tuple[tuple[str, float], ...] | None = None


def _logged(request: Request) -> str:
    """Return a request as the log keeps it. What only some requests have is left out of all others: logs stay as they were."""
    told = asdict(request)
    if request.top_logprobs is None:
        del told["top_logprobs"]
    return plain(json.dumps(told, sort_keys=True, ensure_ascii=False))


class Calls:
    """All calls of a run.

    Parameters
    ----------
    log
        Where they are kept.
    clients
        The model of each role.
    budget
        What may be spent; the clients check it.
    seed, run
        What the seeds of sampling are made of, with the place of the call.
    paired
        Whether the eval phase asks the same thing once only: its seeds do not depend on the round.
    known
        Logs whose answers are taken over.
    """

    def __init__(
        self, log: Log, clients: Mapping[str, Client], budget: Budget, seed: int, run: int, paired: bool, known: Known | None = None
    ) -> None:
        self.log, self.clients, self.budget, self.known = log, clients, budget, known
        self.seed, self.run, self.paired = seed, run, paired
        self.free = {id(client): asyncio.Semaphore(client.slots) for client in clients.values()}
        self.stopping: BaseException | None = None
        self.in_flight = 0
        self.watch: Callable[[], None] = lambda: None

    def stop(self, why: BaseException) -> None:
        """Let no call begin any more; those in flight end."""
        self.stopping = self.stopping or why

    def check(self) -> None:
        """Raise Stopping once the run is to end."""
        if self.stopping is not None:
            raise Stopping

    def seeded(self, at: At, role: str, attempt: int) -> int:
        """Return the seed of a call: 31 bits of a hash of its place."""
        where = "" if self.paired and at.phase == EVAL else at.round
        text = f"{self.seed}/{self.run}/{where}/{at.phase}/{role}/{at.subject}/{attempt}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1

    def alike(self, at: At, role: str, text: str) -> Any:
        """Return the logged call at another place whose answer is the one to this request as well, or None."""
        if not (self.paired and at.phase == EVAL):
            return None
        query = "SELECT * FROM calls WHERE subject = ? AND role = ? AND phase = ? AND request = ? ORDER BY id LIMIT 1"
        return self.log.one(query, (at.subject, role, at.phase, text))

    async def ask(self, at: At, role: str, request: Request, attempt: int = 0) -> Answered:
        """Return the answer to a request, from the log if it is there. The request's seed is set here.

        Raises
        ------
        BudgetReached, ServiceError, InputError
            From the model's client. No answer is logged then.
        Stopping
            The run is about to end.
        """
        key = (at.round, at.phase, role, at.subject, attempt)
        request = replace(request, seed=self.seeded(at, role, attempt))
        text = _logged(request)
        row = self.log.call(key)
        if row is not None and row["request"] != text:
            where = f"{self.log.path}: call of round {at.round}, {at.phase}, {role}, {at.subject}"
            todo = "the log was written by other code or with other data; start anew with another out="
            raise RunError(where, "another request", "the one as logged", todo)
        row = self.alike(at, role, text) if row is None else row
        row = self._taken(key, role, request, text) if row is None else row
        if row is None:
            row = await self._made(key, role, request, text)
        tokens = row["input_tokens"] + row["output_tokens"]
        said, top = row["answer"], None
        if request.top_logprobs is not None and row["stop_reason"] != OVERFLOW:
            kept = json.loads(said)
            said, top = kept["text"], None if kept["top"] is None else tuple((str(t), float(p)) for t, p in kept["top"])
        return Answered(row["id"], said, row["stop_reason"], tokens, row["cost"], row["seconds"], top)

    def _taken(self, key: tuple[int, str, str, str, int], role: str, request: Request, text: str) -> dict[str, Any] | None:
        """Return a call that another log answers, logged as one of this run; None if none does."""
        found = self.known.answer(self.log, role, key[3], request, text) if self.known is not None else None
        if found is None:
            return None
        self.check()
        row = {**dict(zip(("round", "phase", "role", "subject", "attempt"), key, strict=True)), "request": text, **found}
        row["id"] = self.log.add("calls", row)
        return row

    async def _made(self, key: tuple[int, str, str, str, int], role: str, request: Request, text: str) -> dict[str, object]:
        client = self.clients[role]
        row: dict[str, object] = dict(zip(("round", "phase", "role", "subject", "attempt"), key, strict=True))
        async with self.free[id(client)]:
            self.check()
            self.in_flight += 1
            try:
                reply = await client.generate(request)
                said = reply.text
                if request.top_logprobs is not None:
                    said = json.dumps({"text": said, "top": reply.top}, ensure_ascii=False)
                row |= {"model": plain(reply.model), "answer": plain(said), "stop_reason": reply.stop_reason, "cost": reply.cost}
                row |= {"input_tokens": _count(reply.input_tokens), "output_tokens": _count(reply.output_tokens), "seconds": reply.seconds}
            except Overflow:
                row |= {"model": client.name, "answer": "", "stop_reason": OVERFLOW, "cost": 0.0}
                row |= {"input_tokens": 0, "output_tokens": 0, "seconds": 0.0}
            except Exception as error:
                self.stop(error)
                raise
            finally:
                self.in_flight -= 1
            row["request"] = text
            row["id"] = self.log.add("calls", row)
        self.watch()
        return row

    async def ask_for(self, at: At, role: str, request: Request, read: Callable[[str], T]) -> tuple[T | None, Answered]:
        """Return what ``read`` makes of the answer. A malformed one has one more try; then None, and a fallback is logged.

        Parameters
        ----------
        read
            Raises Malformed, with what is wrong.
        """
        why = ""
        for attempt in (0, 1):
            again = f"{request.user}\n\nYour last answer could not be used: {why}. Answer again, exactly as asked."
            answered = await self.ask(at, role, replace(request, user=again) if attempt else request, attempt)
            if answered.stop_reason == OVERFLOW:
                why = "the prompt is longer than the model's context"
                break
            try:
                return read(answered.text), answered
            except Malformed as error:
                why = str(error)[:200]
        self.fell_back(at, role, why)
        return None, answered

    def fell_back(self, at: At, role: str, why: str) -> None:
        """Log that a role's defined fallback stands in for an answer."""
        row = {"round": at.round, "phase": at.phase, "role": role, "subject": at.subject, "why": why}
        self.log.settle("fallbacks", ("round", "phase", "role", "subject"), row)


async def together(calls: Calls, work: Iterable[Awaitable[T]]) -> list[T]:
    """Await all of them, in order. When one fails the others do not begin new calls, but finish those in flight."""
    results = await asyncio.gather(*work, return_exceptions=True)
    errors = [r for r in results if isinstance(r, BaseException)]
    for error in errors:
        if not isinstance(error, Stopping):
            calls.stop(error)
            raise error
    if errors:
        raise calls.stopping or errors[0]
    return [r for r in results if not isinstance(r, BaseException)]
