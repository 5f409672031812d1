"""What is said at the end of a run, be it finished or not: a table by round, what it took, where everything is."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

from real_loop.history import History, snapshot
from real_loop.log import Reader, wall_seconds
from real_loop.measures import spending, troubles
from real_loop.words import by_round, console, legend, shown, totals
from real_loop.words import warnings as worries
from sim.errors import InputError

FIRST, LAST = 3, 17  # rounds that the table shows of a long run
FIGURES: Final = "figures"


def say(path: Path, out: Path, export: bool, draw: bool = True) -> int:
    """Print how a run went, draw its figures and perhaps write its log out.

    Parameters
    ----------
    path, out
        The log, and the folder of the run.
    export
        Whether to write the log out, to ``out/export``.
    draw
        Whether to draw.

    Returns
    -------
    int
        Exit status: what could not be drawn or written is said, not raised, since the run itself is done.
    """
    if not path.is_file():
        return 0
    reader = Reader(path)
    try:
        with snapshot(reader):
            history = History(reader)
            _table(reader, history)
    finally:
        reader.close()
    status = 0
    if draw:
        status = max(status, _tried(lambda: _drawn(history, out)))
    if export:
        status = max(status, _tried(lambda: _exported(path, out)))
    print(path)
    return status


def _table(reader: Reader, history: History) -> None:
    out, spent, rounds, trouble = console(), spending(reader), history.rounds, troubles(reader)
    if rounds:
        seen = rounds if len(rounds) <= FIRST + LAST + 1 else [*rounds[:FIRST], *rounds[-LAST:]]
        out.print(by_round(seen, spent, out.width))
        if len(seen) < len(rounds):
            out.print(f"(rounds {FIRST} to {len(rounds) - LAST - 1} are left out; python -m real_loop.show has all)")
        out.print(legend(rounds))
    out.print(totals(history, spent, trouble, wall_seconds(reader.db)))
    for line in worries(trouble):
        out.print(shown(line), soft_wrap=True)


def _drawn(history: History, out: Path) -> list[Path]:
    from real_loop.figures import draw

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a script that the font lacks: boxes in the figure say so
        return [file for file in draw(history, out / FIGURES) if file.suffix == ".png"]


def _exported(path: Path, out: Path) -> list[Path]:
    from real_loop.export import write

    write(path, out / "export")
    return [out / "export"]


def _tried(work: Callable[[], list[Path]]) -> int:
    try:
        for file in work():
            print(file)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    return 0
