"""What the commands say on the terminal: progress while they work, a compact table and paths at the end."""

from __future__ import annotations

import errno
import io
import itertools
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.errors import InputError

if TYPE_CHECKING:
    import xarray

COLUMNS = ("retired", "wrongly_retired", "harmful_final", "synthesised", "evicted", "tail_eval", "lift", "delta_clean")
LEGEND = {
    "wrongly_retired": "wrongly_retired: retired though they help",
    "harmful_final": "harmful_final: on the shelf at the end and hurting",
    "lift": "lift: tail_eval against no skill",
    "delta_clean": "delta_clean: tail_eval against a perfect judge",
}
MAX_ROWS = 30
WIDE = 200  # columns of what is not a terminal


def ready_streams() -> None:
    """Make standard output and error fit to print to: present, and not failing at a letter the terminal cannot show."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the rest of the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def guarded(command: Callable[[list[str]], int], args: Sequence[str]) -> int:
    """Run a command; return its exit status: its own, 2 for bad input, 1 for what could not be done, 130 when stopped.

    Bad input is one line on standard error. So is output that cannot be written.
    """
    ready_streams()
    try:
        status = command(list(args))
        sys.stdout.flush()
    except InputError as error:
        print("; ".join([f"error: {error}", *getattr(error, "__notes__", [])]), file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that nothing fails once more at exit
        return 141
    except OSError as error:
        if error.filename is not None:
            raise
        print(f"error: output: got {os.strerror(error.errno or 0).lower()}, expected to be able to print", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 2
    return status


def folder(out: Path) -> Path:
    """Make a folder for results before anything is worked out, and return it.

    Raises
    ------
    InputError
        It is a file, or cannot be made or written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "")
    except OSError as error:
        why = (os.strerror(error.errno) if error.errno else str(error)).lower()
        raise InputError("out", f"{out} ({why})", "a folder that can be made and written", "choose another out=FOLDER") from None
    return out


class Progress:
    """A bar with rate and time left, when standard error is a terminal; silence otherwise."""

    def __init__(self, title: str) -> None:
        self.title, self.lock = title, threading.Lock()
        self.bar: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, SpinnerColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[state]}"))
            self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task(title, total=None, state="")
        self.total: int | None = None
        self.done = self.fresh = 0
        self.since, self.unit = 0.0, ""

    def __enter__(self) -> Progress:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def note(self, text: str) -> None:
        """Say what is going on where nothing can be counted."""
        if self.bar is not None:
            self.bar.update(self.task, description=f"{self.title}: {text}", total=None, completed=0, state="")

    def start(self, total: int | None, text: str = "", unit: str = "libraries") -> None:
        """Begin to count towards a total."""
        self.total, self.done, self.fresh, self.since, self.unit = total, 0, 0, time.monotonic(), unit
        if self.bar is not None:
            description = f"{self.title}: {text}" if text else self.title
            self.bar.update(self.task, description=description, total=total, completed=0, state="")

    def advance(self, number: int, new: bool) -> None:
        """Count; only what is new tells the rate, and the rate the time left."""
        if self.bar is None:
            return
        with self.lock:
            self.done += number
            self.fresh += number if new else 0
            state = ""
            if self.fresh:
                rate = self.fresh / max(time.monotonic() - self.since, 1e-9)
                state = f"{rate:,.0f} {self.unit}/s"
                if self.total:
                    left = max(0, round((self.total - self.done) / rate))
                    state = f"{100 * self.done / self.total:3.0f} %  {state}  {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"
            self.bar.update(self.task, completed=self.done, state=state)


def _chosen(data: xarray.Dataset, axes: Sequence[str]) -> dict[str, list[int]]:
    """Choose a few values along each axis: all presets, then the ends and some between of the last axes."""
    chosen = {axis: [0] for axis in axes}
    rows = 1
    order = [a for a in axes if data[a].dtype.kind not in "fiu"] + list(reversed([a for a in axes if data[a].dtype.kind in "fiu"]))
    for axis in order:
        n = data.sizes[axis]
        room = min(n, MAX_ROWS // rows, 6 if data[axis].dtype.kind in "fiu" else MAX_ROWS)
        if room > 1:
            chosen[axis] = sorted({round(i * (n - 1) / (room - 1)) for i in range(room)})
            rows *= len(chosen[axis])
    return chosen


def _number(mean: float, se: float) -> str:
    if not math.isfinite(mean):
        return "-"
    digits = 3 if not math.isfinite(se) or se == 0 else min(5, max(1, -math.floor(math.log10(se))))
    text = f"{mean:.{digits}f}"
    text = text.removeprefix("-") if float(text) == 0 else text
    return f"{text} ± {se:.{digits}f}" if math.isfinite(se) and se > 0 else text


def table(data: xarray.Dataset) -> None:
    """Print the main variables at a few cells of a result: as many columns as fit."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    axes = [str(d) for d in data["runs"].dims]
    chosen = _chosen(data, axes)
    fixed = [a for a in axes if len(chosen[a]) == 1]
    shown = [a for a in axes if a not in fixed]
    rows = []
    for index in itertools.product(*(chosen[a] for a in axes)):
        at = dict(zip(axes, index, strict=True))
        cell = data.isel(at)
        numbers = [_number(float(cell[name]), float(cell[name + "_se"])) for name in COLUMNS]
        rows.append([*(str(data[a].values[at[a]]) for a in shown), *numbers])
    widths = [3 + max(map(len, column)) for column in zip([*shown, *COLUMNS], *rows, strict=True)]
    fit = max((n for n in range(len(widths) + 1) if sum(widths[:n]) < console.width), default=len(shown) + 1)

    title = data.attrs["sweep"] + "".join(f", {a} = {data[a].values[chosen[a][0]]}" for a in fixed)
    out = Table(title=title, title_justify="left", header_style="bold")
    for name in [*shown, *COLUMNS][:fit]:
        out.add_column(name, justify="left" if name in shown else "right")
    for row in rows:
        out.add_row(*row[:fit])
    console.print(out)
    runs = data["runs"].values
    each = f"{runs.min():,}" if runs.min() == runs.max() else f"{runs.min():,} to {runs.max():,}"
    many = f"{runs.size:,} cells, {each} runs each" if runs.size > 1 else f"{each} runs"
    left_out = "; some cells left out, all are in result.zarr" if _left_out(data, chosen) else ""
    print(f"{many}, mean ± standard error{left_out}")
    print("; ".join(LEGEND[name] for name in [*shown, *COLUMNS][:fit] if name in LEGEND))


def _left_out(data: xarray.Dataset, chosen: dict[str, list[int]]) -> bool:
    return any(len(index) < data.sizes[axis] for axis, index in chosen.items())


def paths(written: Sequence[Path | str], fresh: int, seconds: float) -> None:
    """Print what was written, and how fast it went."""
    if fresh:
        print(f"{fresh:,} libraries in {seconds:.1f} s, {fresh / seconds:,.0f} per second")
    else:
        print("nothing left to simulate: the results were there")
    for path in written:
        print(path)
