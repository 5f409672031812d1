"""What a run may spend on calls, and what it has spent: checked before each attempt, kept across parts of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sim.errors import InputError, RunError

if TYPE_CHECKING:
    from real_loop.models.client import Reply


@dataclass
class Spent:
    """What was spent so far: calls answered, tokens, cost in USD, seconds of wall time; faults met by kind."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    unpriced: int = 0  # calls of unknown cost, not in ``cost``
    faults: dict[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def as_dict(self) -> dict[str, Any]:
        """Return what ``Spent(**...)`` takes, to be stored."""
        return asdict(self)


class BudgetReached(RunError):  # noqa: N818 - an end, not a mistake
    """A limit is reached: no call was made. Raise the limit and run the same command again to go on.

    Parameters
    ----------
    which
        ``calls``, ``tokens``, ``cost`` or ``seconds``.
    spent, limit
        In its unit: numbers, USD or seconds.
    """

    def __init__(self, which: str, spent: float, limit: float) -> None:
        self.which, self.spent, self.limit = which, spent, limit
        units = {"cost": " USD", "seconds": " s"}.get(which, "")
        todo = f"what is done is kept: raise budget.{which} and run the same command again to go on"
        super().__init__(f"budget.{which}", f"{spent:.6g}{units} spent", f"less than {limit:.6g}{units}", todo)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.which, self.spent, self.limit)


class Budget:
    """Limits and what was spent.

    Parameters
    ----------
    calls, tokens, cost, seconds
        Limits: answered calls, tokens read and written, USD, seconds of wall time; None is no limit.
    spent
        What earlier parts of the run spent. Wall time runs from now on, on top of it.

    Raises
    ------
    InputError
        At a limit that is no number, or negative.
    """

    def __init__(
        self,
        calls: int | None = None,
        tokens: int | None = None,
        cost: float | None = None,
        seconds: float | None = None,
        spent: Spent | None = None,
    ) -> None:
        self.limits: dict[str, float | None] = {"calls": calls, "tokens": tokens, "cost": cost, "seconds": seconds}
        for name, limit in self.limits.items():
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0):
                raise InputError(f"budget.{name}", limit, "a number from 0 on, or null for no limit")
        self._spent = Spent(**(spent or Spent()).as_dict())
        self._since, self._before = time.monotonic(), self._spent.seconds
        self._open = 0  # calls in flight: each will count when it is answered

    def take_up(self, spent: Spent) -> None:
        """Go on from what earlier parts of the run spent."""
        self._spent, self._before, self._since = Spent(**spent.as_dict()), spent.seconds, time.monotonic()

    @property
    def spent(self) -> Spent:
        """What was spent up to now, earlier parts included."""
        self._spent.seconds = self._before + time.monotonic() - self._since
        return self._spent

    def left(self) -> float:
        """Return the seconds of wall time left; infinite without a limit."""
        limit = self.limits["seconds"]
        return math.inf if limit is None else max(0.0, limit - self.spent.seconds)

    def check(self, own: int = 0) -> None:
        """Raise when a limit is reached; call it before each attempt.

        Parameters
        ----------
        own
            1 when the caller's own call is among those in flight (see :meth:`call`).

        Raises
        ------
        BudgetReached
            When nothing is left of one of the limits.
        InputError
            When the cost is limited and calls are made whose cost nobody knows.
        """
        spent = self.spent
        if self.limits["cost"] is not None and spent.unpriced:
            todo = "give the price of the model, or limit budget.calls or budget.tokens instead"
            raise InputError("budget.cost", "a limit for a model of unknown price", "a price", todo)
        so_far = {"calls": spent.calls + self._open - own, "tokens": spent.tokens, "cost": spent.cost, "seconds": spent.seconds}
        for name, limit in self.limits.items():
            if limit is not None and so_far[name] >= limit:
                raise BudgetReached(name, so_far[name], limit)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Hold a place for one call while it is in flight, so that calls made at once do not pass the limit together."""
        self.check()
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    def add(self, reply: Reply) -> None:
        """Count an answer."""
        self._spent.calls += 1
        self._spent.input_tokens += max(reply.input_tokens, 0)
        self._spent.output_tokens += max(reply.output_tokens, 0)
        if reply.cost is None:
            self._spent.unpriced += 1
        else:
            self._spent.cost += reply.cost

    def fault(self, kind: str, detail: str = "") -> None:
        """Count a failed attempt; the detail, without keys, is for those who keep it."""
        self._spent.faults[kind] = self._spent.faults.get(kind, 0) + 1
