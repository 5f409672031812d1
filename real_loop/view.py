"""What is seen of a run while it plays: a table on a terminal, updated as things happen; elsewhere a line per finished round, and
one now and then of what is going on.

What the log had already, when a run is taken up, is passed over in one line and tells nothing about the time left.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from real_loop.calls import Calls
from real_loop.measures import Spending, spending
from real_loop.roles import EVAL, TRAIN
from real_loop.words import duration, fitted, number, rate, shown, table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

COLUMNS: Final = ("round", "eval", "active", "retired", "evicted", "written", "seen failing", "calls", "tokens", "USD")
DOING: Final = {TRAIN: "train trials", EVAL: "eval tasks", "critic": "failures criticised", "write": "skills written"}
# Where there is no terminal, s:
QUIET: Final = 30.0  # between lines that say the same of a failing service
SILENT: Final = 60.0  # after a line, until one says what is going on


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
        self.unpriced = 0  # calls in the log of unknown cost, at the start
        self.last_note, self.noted_at = "", -QUIET
        self.waiting = ""  # what was said to be waited for, and not yet that it is over
        self.said_at = self.began_at
        self.over = threading.Event()
        self.teller: threading.Thread | None = None
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
        else:
            self.teller = threading.Thread(target=self._tell, daemon=True)
            self.teller.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()
        else:
            self.over.set()
            if self.teller is not None:
                self.teller.join()
            self._say_found()

    # ------------------------------------------------------------ what happens

    def attach(self, calls: Calls) -> None:
        """Watch these calls."""
        self.calls = calls
        calls.watch = self._called
        self.unpriced = calls.log.one("SELECT count(*) FROM calls WHERE cost IS NULL")[0]

    def note(self, text: str) -> None:
        """Say what is waited for; empty when it is over."""
        text = shown(" ".join(text.split()))
        kind = text.partition(" (")[0]
        again = kind == self.last_note.partition(" (")[0] and time.monotonic() - self.noted_at < QUIET
        if self.live is not None:
            self.last_note = text
        elif text:
            if not again:
                self._say(f"waiting: {text}")
                self.noted_at, self.waiting = time.monotonic(), kind
            self.last_note = text
        elif self.waiting:
            self._say(f"no longer waiting: {self.waiting} (over after {duration(time.monotonic() - self.noted_at)})")
            self.waiting = ""

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
        self._say(f"round {round_}: eval {evals}, {words}{took}; {self._time()}")

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
            self._say(f"{what} in the log already")
            self.found = []

    def _say(self, line: str) -> None:
        self.said_at = time.monotonic()
        print(f"{line}\n", end="", file=sys.stderr, flush=True)  # in one piece: two threads speak

    def _tell(self) -> None:
        """Say what is going on whenever nothing was said for a while; runs in a thread of its own."""
        while not self.over.wait(max(0.05, self.said_at + SILENT - time.monotonic())):
            if time.monotonic() - self.said_at >= SILENT:
                if self.phase:
                    self._say(self._going_on())
                else:
                    self.said_at = time.monotonic()  # nothing began: what is waited for was said

    def _going_on(self) -> str:
        """Return a line of where the run is."""
        words = [f"round {self.now}: {self.done} of {self.total} {DOING.get(self.phase, self.phase)}", self._totals()]
        return "; ".join(words + ([f"waiting: {self.last_note}"] if self.waiting else []))

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
            price = Spending(spent.calls, spent.tokens, spent.cost, self.unpriced + spent.unpriced).price
            words = [f"{spent.calls:,} calls", f"{spent.tokens:,} tokens", f"{price} USD", f"{self.fallbacks} fallbacks"]
            words.append(f"{sum(spent.faults.values())} faults")
        return ", ".join([*words, self._time()])

    def _drawn(self) -> Group:
        """Return what the terminal shows now."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        room = max(3, self.console.height - 7)
        parts: list[Any] = [Text(shown(self.title), style="bold", no_wrap=True)]
        if self.rows:
            parts.append(table(*fitted(COLUMNS, self.rows[-room:], self.console.width)))
        if self.phase:
            line = Table.grid(padding=(0, 1))
            what = Text(f"round {self.now} (of {self.rounds}): {DOING.get(self.phase, self.phase)}")
            line.add_row(what, ProgressBar(total=max(self.total, 1), completed=self.done, width=24), Text(f"{self.done}/{self.total}"))
            parts.append(line)
        parts.append(Text(self._totals()))
        if self.last_note:
            parts.append(Text(f"waiting: {self.last_note}", style="yellow", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)
