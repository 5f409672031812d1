"""Try again while a service fails: how often, how long, and never without looking at the budget."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from real_loop.models.budget import Budget
from real_loop.models.errors import Fault, ServiceError

if TYPE_CHECKING:
    from real_loop.models.client import Reply


@dataclass(frozen=True)
class Patience:
    """How long to bear with a service that fails: in seconds, except ``tries``.

    Parameters
    ----------
    timeout
        Of one attempt.
    tries
        Attempts that reach the service and fail; those that do not reach it are bounded by ``absent`` instead.
    absent
        Without any connection.
    total
        Of one call, with all its attempts and waits.
    first, longest
        The first wait and the longest one; they double in between. A service that asks for more is given more.
    """

    timeout: float = 600.0
    tries: int = 10
    absent: float = 90.0
    total: float = 3600.0
    first: float = 1.0
    longest: float = 60.0


_JITTER = random.Random()  # its own: nobody's draws depend on how a service fares
Note = Callable[[str], None]


def silent(_: str) -> None:
    """Note nothing."""
    return


async def persist(attempt: Callable[[], Awaitable[Reply]], title: str, patience: Patience, budget: Budget, note: Note) -> Reply:
    """Attempt until there is a reply, checking the budget before each attempt and counting the failed ones.

    Raises
    ------
    ServiceError
        When patience is at its end.
    BudgetReached
        When the budget is.
    """
    begin = time.monotonic()
    reached = unreached = 0
    away: float | None = None
    with budget.call():
        while True:
            budget.check(own=1)
            try:
                reply = await attempt()
            except Fault as error:
                fault = Fault(error.kind, error.detail, error.retry_after)
            else:
                if reached or unreached:
                    note("")
                budget.add(reply)
                return reply
            budget.fault(fault.kind, fault.detail)
            now = time.monotonic()
            if fault.kind == "no connection":
                unreached += 1
                away = now if away is None else away
                over = now - away >= patience.absent
                wait = min(patience.first * 2 ** (unreached - 1), patience.longest, patience.absent / 6)
            else:
                reached, unreached, away = reached + 1, 0, None
                over = reached >= patience.tries
                wait = min(patience.first * 2 ** (reached - 1), patience.longest)
            wait *= _JITTER.uniform(0.75, 1.25)  # so that calls that failed together do not come back together
            if fault.retry_after is not None:
                wait = max(wait, fault.retry_after)
            if over or now - begin + wait > patience.total:
                tried = f"{reached + unreached} attempts in {now - begin:.0f} s, the last: {fault.kind}, {fault.detail}"
                if fault.retry_after is not None and fault.retry_after > patience.total:
                    tried += f", asking to wait {fault.retry_after:.0f} s"
                todo = "nothing is lost: run the same command again when the service is back"
                if fault.kind in ("bad body", "no connection"):
                    todo = f"see that the model's address is right; {todo}"
                raise ServiceError(title, tried, "an answer", todo)
            wait = min(wait, budget.left())
            note(f"{fault.kind} ({fault.detail}); again in {wait:.{0 if wait >= 10 else 1}f} s")
            await asyncio.sleep(wait)
