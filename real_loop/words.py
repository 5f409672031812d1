"""What is said of a run on the terminal and under figures: its settings in short, a table by round, totals."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from real_loop.history import History, Round
from real_loop.measures import Spending, Troubles, error
from sim.curators import RATCHET

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE: Final = 160  # columns of what is not a terminal
MANY: Final = 0.1  # fallbacks of a role, of what it was asked, from which that is said
# Headers where a terminal is too narrow for those of its table, and columns that are left out then, the first first.
SHORT: Final = {"seen failing": "failing"}
SPARE: Final = ("routed", "evicted", "retired", "failing", "tokens", "written", "calls", "USD")
GAP: Final = 2  # between columns
# What a fallback of a role means.
INSTEAD: Final = {
    "router": "no skill was tried there",
    "solver": "those trials have no outcome",
    "critic": "no skill can be written from those failures",
    "synthesizer": "no skill was written there",
    "judge": "it counts as a failure",
}
COLUMNS: Final = ("round", "eval", "active", "retired", "evicted", "written", "seen failing", "routed", "calls", "tokens", "USD")


def reward(identity: Mapping[str, Any]) -> str:
    """Return the reward channel in words."""
    r = identity["reward"]
    if r["kind"] == "judge":
        return f"{r['prompt']} judge"
    if not r["rho_fp"] and not r["rho_pf"]:
        return "perfect grader"
    rates = f"rho_fp = {r['rho_fp']:g}, rho_pf = {r['rho_pf']:g}"
    return rates + (f", spread {r['spread']:g} over {r['unit']}s" if r["spread"] else "")


def settings(identity: Mapping[str, Any]) -> list[str]:
    """Return the main settings of a run, a phrase each."""
    p, tasks = identity["policy"], identity["tasks"]
    ruled = "" if p["curator"] == RATCHET else f"curator {p['curator']}, "
    models = sorted({role["model"] for role in identity["roles"].values() if isinstance(role, dict) and role["model"]})
    words = [
        ", ".join([identity["model"] or "no model of all", *models]),
        f"{identity['subset']['name']}: {len(tasks['train'])} train and {len(tasks['eval'])} eval tasks",
        reward(identity),
        f"{ruled}tau = {p['tau']:g}, n_min = {p['n_min']}, cap = {p['cap']}, {p['rounds']} rounds",
    ]
    if p["rollback"]["on"]:
        words.append(f"rollback at {p['rollback']['margin']:g} below the best, {p['rollback']['patience']} in a row")
    if identity["roles"]["mode"] != "adjudicate":
        words.append(f"mode {identity['roles']['mode']}")
    words += [other] if (other := ", ".join(unusual(identity))) else []
    return [*words, f"seed {identity['seed']}, run {identity['run']}"]


@cache
def _defaults() -> dict[str, Any]:
    import yaml

    return dict(yaml.safe_load((Path(__file__).parent / "conf" / "config.yaml").read_text()))


def unusual(identity: Mapping[str, Any]) -> list[str]:
    """Return what is not as ``conf/config.yaml`` has it, of how skills are written, evals attempted and models asked.

    Scripted roles have theirs from the world: nothing is said of them.
    """
    if "world" in identity:
        return []
    usual, words = _defaults(), list[str]()
    given = [(name, identity["writing"].get(name), value) for name, value in usual["writing"].items()]
    given.append(("evals", identity["evals"], usual["evals"]))
    for role, asked in usual["roles"].items():
        if isinstance(asked, Mapping) and (role != "judge" or identity["reward"]["kind"] == "judge"):
            given += [(f"{role}.{name}", identity["roles"][role].get(name), value) for name, value in asked.items()]
    for name, got, value in given:
        if got != value:
            is_number = isinstance(got, int | float)
            words.append(f"{name} = {got:g}" if is_number else f"{name} {'null' if got is None else Path(str(got)).name}")
    return words


def number(value: float) -> str:
    """Return a count in few letters: 950, 12.3k, 4.1M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * size or (letter == "M" and abs(value) >= size):
            return f"{value / size:.1f}{letter}"
    return f"{value:.0f}"


def duration(seconds: float) -> str:
    """Return a time as 0:07:30."""
    whole = max(0, round(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def rate(passes: int, of: int) -> str:
    """Return a pass rate with its error."""
    return f"{passes / of:.3f} ± {error(passes, of):.3f}" if of else "-"


def cells(now: Round, spent: Spending) -> list[str]:
    """Return what COLUMNS say of a round."""
    routed = f"{now.routed / now.trials:.0%}" if now.trials else "-"
    seen = f"{now.observed_failures}/{now.trials}" if now.trials else "-"
    counts = [str(n) for n in (now.active, now.retired, now.evicted, now.synthesised)]
    marks = ("" if now.ended else "+") + ("*" if now.rolled_back else "")
    return [
        f"{now.round}{marks}", rate(now.passes, now.attempted), *counts, seen, routed,
        number(spent.calls), number(spent.tokens), spent.price,
    ]  # fmt: skip


def by_round(rounds: Sequence[Round], spent: Mapping[int, Spending], width: int) -> Table:
    """Return a table of rounds, as far as a terminal has room."""
    return table(*fitted(COLUMNS, [cells(now, spent.get(now.round, Spending())) for now in rounds], width))


def fitted(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of a table that a terminal has room for: with short headers, then without errors, then without some."""

    def wide() -> int:
        return sum(max(map(len, column)) + GAP for column in zip(names, *cells, strict=True)) - GAP

    names, cells = list(columns), [list(row) for row in rows]
    if wide() > width:
        names = [SHORT.get(name, name) for name in names]
    if wide() > width:
        at = names.index("eval")
        for row in cells:
            row[at] = row[at].partition(" ")[0]
    for name in (name for name in SPARE if name in names):
        if wide() <= width:
            break
        at = names.index(name)
        del names[at]
        for row in cells:
            del row[at]
    return names, cells


def legend(rounds: Sequence[Round]) -> str:
    """Return what the marks of the table by round mean, as far as there are any."""
    words = ["eval: true pass rate of one attempt per task ± its standard deviation under Jeffreys' prior"]
    words += ["seen failing: train trials observed as failures"]
    words += ["+ not over"] if any(not now.ended for now in rounds) else []
    words += ["* rolled back"] if any(now.rolled_back for now in rounds) else []
    return "; ".join(words)


def totals(history: History, spent: Mapping[int, Spending], troubles: Troubles, wall: float) -> str:
    """Return a line of what the run took and what went wrong."""
    total = sum(spent.values(), Spending())
    over = f"{history.ended} of {history.policy.rounds} rounds"
    took = f"{total.calls:,} calls, {total.tokens:,} tokens, {total.price} USD" if total.calls else "no model asked"
    return f"{over}; {took}, {duration(wall)} of wall time; {troubles}"


def warnings(troubles: Troubles) -> list[str]:
    """Return a line for each role of which more than a few answers could not be used: why, and what to do."""
    lines = []
    for role, n in troubles.fallbacks.items():
        asked = troubles.asked.get(role, n)
        if n > MANY * asked:
            ((why, _),) = troubles.reasons[role].most_common(1)
            line = (
                f"{role}: {n} of {asked} answers could not be used, most often since: {why}; {INSTEAD.get(role, 'its fallback stood in')}"
            )
            lines.append(f"{line}. Try another model for this role: roles.{role}.model=...")
    return lines


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str] = (), title: str | None = None) -> Table:
    """Return a table without lines; numbers to the right. Texts are shown as they are, brackets and all."""
    from rich.table import Table
    from rich.text import Text

    out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", title=title, title_justify="left")
    for name in columns:
        out.add_column(name, justify="left" if name in left else "right", overflow="fold" if name in left else "ellipsis")
    for row in rows:
        out.add_row(*(Text(shown(cell)) for cell in row))
    return out


def console() -> Console:
    """Return a console on standard output; where that is no terminal it is wide, and lines have no blanks at their ends."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    file = None if terminal else cast("IO[str]", _Trimmed())
    return Console(file=file, width=None if terminal else WIDE, highlight=False, markup=False, emoji=False)


class _Trimmed:
    """Standard output, without blanks at the ends of lines. It is given whole lines."""

    def write(self, text: str) -> int:
        sys.stdout.write(re.sub(r" +$", "", text, flags=re.MULTILINE))
        return len(text)

    def flush(self) -> None:
        sys.stdout.flush()


def shown(text: str) -> str:
    """Return a text without what would move a terminal's cursor or change its colours: models write what they like."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
