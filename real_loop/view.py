"""What is seen of a run while it plays: a table on a terminal, updated as things happen; elsewhere a line per finished round.

What the log had already, when a run is taken up, is passed over in one line and tells nothing about the time left.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from real_loop.calls import Calls
from real_loop.measures import Spending, spending
from real_loop.roles import EVAL, TRAIN
from real_loop.words import duration, number, rate, shown, table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

COLUMNS: Final = ("round", "eval", "active", "retired", "evicted", "written", "seen failing", "calls", "tokens", "USD")
DOING: Final = {TRAIN: "train trials", EVAL: "eval tasks", "critic": "failures criticised", "write": "skills written"}
QUIET: Final = 30.0  # s between lines that say the same of a failing service, where there is no terminal


class View:
    """Shows a run on standard error. A :class:`real_loop.loop.Watch`.

    Parameters
    ----------
    rounds
        Of the run.
    title
        What it is called.
    """

    def __init__(self, rounds: int, title: str) -> None:
        self.rounds, self.title = rounds, title
        self.calls: Calls | None = None
        self.live: Live | None = None
        self.began_at = time.monotonic()
        self.rows: list[list[str]] = []
        self.now, self.phase, self.done, self.total = 0, "", 0, 0
        self.sizes = dict[str, int]()  # train trials and eval tasks of a round
        self.units = 0  # of these, done so far
        self.fallbacks = 0
        self.last_note, self.noted_at = "", -QUIET
        # What comes from the log comes before all that is new.
        self.found: list[int] = []  # rounds that the log had
        self.new_since: float | None = None
        self.new_units = 0
        self._last = self.began_at

    def __enter__(self) -> View:
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.console = Console(stderr=True, highlight=False, markup=False, emoji=False)
            self.live = Live(get_renderable=self._drawn, console=self.console, refresh_per_second=4, transient=True)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()
        else:
            self._say_found()

    # ------------------------------------------------------------ what happens

    def attach(self, calls: Calls) -> None:
        """Watch these calls."""
        self.calls = calls
        calls.watch = self._called

    def note(self, text: str) -> None:
        """Say what is waited for; empty when it is over."""
        text = shown(" ".join(text.split()))
        kind = text.partition(" (")[0]
        again = kind == self.last_note.partition(" (")[0] and time.monotonic() - self.noted_at < QUIET
        if self.live is None and text and not again:
            print(f"waiting: {text}", file=sys.stderr, flush=True)
            self.noted_at = time.monotonic()
        if text or self.live is not None:
            self.last_note = text

    def began(self, round_: int, phase: str, total: int) -> None:
        """A phase begins."""
        self.now, self.phase, self.done, self.total = round_, phase, 0, total
        self._last = time.monotonic()
        if phase in (TRAIN, EVAL):
            self.sizes[phase] = total

    def did(self) -> None:
        """One of it is done."""
        self.done += 1
        if self.phase in (TRAIN, EVAL):
            self.units += 1
            self.new_units += self.new_since is not None
        self._last = time.monotonic()

    def ended(self, round_: int, counts: dict[str, int]) -> None:
        """A round is over."""
        spent, old = Spending(), False
        if self.calls is not None:
            log = self.calls.log
            spent = spending(log).get(round_, spent)
            old = log.one("SELECT part FROM rounds WHERE round = ?", (round_,))[0] < log.part
            self.fallbacks = log.one("SELECT count(*) FROM fallbacks")[0]
        if not old and self.new_since is None:
            self._new()  # nothing was asked: scripted roles
        evals = rate(counts["passes"], counts["attempted"])
        names = ("active", "retired", "evicted", "written", "observed_failures")
        self.rows.append([
            str(round_), evals, *(str(counts[name]) for name in names), number(spent.calls), number(spent.tokens), spent.price
        ])  # fmt: skip
        if self.live is not None:
            return
        if old:
            self.found.append(round_)
            return
        self._say_found()
        took = f"; {number(spent.calls)} calls, {number(spent.tokens)} tokens, {spent.price} USD" if spent.calls else ""
        words = ", ".join(f"{counts[name]} {name}" for name in names[:4])
        line = f"round {round_}: eval {evals}, {words}{took}; {self._time()}"
        print(line, file=sys.stderr, flush=True)

    def _called(self) -> None:
        """A call was made just now: from here on nothing comes from the log."""
        self._new()
        if self.calls is not None:
            self.fallbacks = self.calls.log.one("SELECT count(*) FROM fallbacks")[0]

    def _new(self) -> None:
        if self.new_since is None:
            self.new_since = self._last

    def _say_found(self) -> None:
        if self.found:
            first, last = self.found[0], self.found[-1]
            what = f"round {first} was" if first == last else f"rounds {first} to {last} were"
            print(f"{what} in the log already", file=sys.stderr, flush=True)
            self.found = []

    # ------------------------------------------------------------ what is shown

    def left(self) -> float | None:
        """Return about how long it will go on, s, by what new trials took, with all that goes with them; None while unknown."""
        if self.new_since is None or not self.new_units or TRAIN not in self.sizes:
            return None
        each = (time.monotonic() - self.new_since) / self.new_units
        whole = self.rounds * (self.sizes[TRAIN] + self.sizes.get(EVAL, self.sizes[TRAIN]))
        return each * max(0, whole - self.units)

    def _time(self) -> str:
        left = self.left()
        passed = f"{duration(time.monotonic() - self.began_at)} passed"
        return passed + (f", about {duration(left)} left" if left else "")

    def _totals(self) -> str:
        words = []
        if self.calls is not None and (spent := self.calls.budget.spent).calls:
            cost = f"{spent.cost:.4g}{'+?' if spent.unpriced else ''}"
            words = [f"{spent.calls:,} calls", f"{spent.tokens:,} tokens", f"{cost} USD", f"{self.fallbacks} fallbacks"]
            words.append(f"{sum(spent.faults.values())} faults")
        return ", ".join([*words, self._time()])

    def _drawn(self) -> Group:
        """Return what the terminal shows now."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        room = max(3, self.console.height - 6)
        parts: list[Any] = [Text(shown(self.title), style="bold", no_wrap=True)]
        if self.rows:
            parts.append(table(COLUMNS, self.rows[-room:]))
        if self.phase:
            line = Table.grid(padding=(0, 1))
            what = Text(f"round {self.now} (of {self.rounds}): {DOING.get(self.phase, self.phase)}")
            line.add_row(what, ProgressBar(total=max(self.total, 1), completed=self.done, width=24), Text(f"{self.done}/{self.total}"))
            parts.append(line)
        parts.append(Text(self._totals(), no_wrap=True, overflow="ellipsis"))
        if self.last_note:
            parts.append(Text(f"waiting: {self.last_note}", style="yellow", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)
