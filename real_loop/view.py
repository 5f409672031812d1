"""What is seen of a run while it plays."""

from __future__ import annotations

import sys
import time
from typing import Any

from real_loop.calls import Calls


class View:
    """Prints a line per round."""

    def __init__(self, rounds: int, title: str) -> None:
        self.rounds, self.title = rounds, title
        self.calls: Calls | None = None
        self.began_at = time.monotonic()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def attach(self, calls: Calls) -> None:
        """Watch these calls."""
        self.calls = calls

    def note(self, text: str) -> None:
        """Say what is waited for."""
        if text:
            print(text, file=sys.stderr, flush=True)

    def began(self, round_: int, phase: str, total: int) -> None:
        """A phase begins."""
        print(f"[{time.monotonic() - self.began_at:.0f} s] round {round_} {phase} {total}", file=sys.stderr, flush=True)

    def did(self) -> None:
        """One of it is done."""

    def ended(self, round_: int, counts: dict[str, Any]) -> None:
        """A round is over."""
        print(round_, counts, self.calls.budget.spent if self.calls else "", file=sys.stderr, flush=True)
