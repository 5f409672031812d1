"""Lines along an axis of numbers: the cliff, and what stands beside it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sim.figures import style
from sim.figures.axes import (
    FP,
    axis_label,
    each,
    finite_range,
    named,
    numeric,
    rate_axis,
    sets,
    settings,
    symbol,
    text,
    threshold,
    variable_label,
)
from sim.figures.axes import split as fix

if TYPE_CHECKING:
    import xarray

ROWS: Final = ("retired", "synthesised", "delta_clean")
VARIABLES: Final = (*ROWS, "wrongly_retired", "tail_eval", "floor_eval")
MAX_LINES: Final = 7
MAX_COLUMNS: Final = 5
WRONGLY: Final = (0, (1, 1.2))
NO_SKILL: Final = (0, (5, 1.5, 1, 1.5))
SAME: Final = 0.01  # evals with no skill that differ by less are drawn as one line
UNLIKE: Final = 6.0  # ranges of panels that differ by more than this factor get scales of their own


def roles(data: xarray.Dataset) -> tuple[str, str | None, str | None]:
    """Return the axes for x, lines and columns.

    x is the error rate of the judge, or else the longest axis of numbers. Lines are the shortest other axis of numbers, or else
    one of names. Columns are an axis of names that is left, ``world`` before others.
    """
    numbers, names = numeric(data), named(data)
    x = rate_axis(data) or max(reversed(numbers), key=lambda d: data.sizes[d])
    others = [d for d in numbers if d != x]
    names = tuple(sorted(names, key=lambda d: sets(data, d) != ("world",)))
    if others:
        return x, min(others, key=lambda d: data.sizes[d]), names[0] if names else None
    return x, names[-1] if names else None, names[0] if len(names) > 1 else None


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix the axes that have no role; cut many columns into several files."""
    x, lines, columns = roles(data)
    parts: dict[str, xarray.Dataset] = {}
    for name, part in fix(data, [d for d in (x, lines, columns) if d]).items():
        n = data.sizes[columns] if columns else 1
        files = -(-n // MAX_COLUMNS)
        for i in range(files):
            piece = part.isel({columns: slice(i * n // files, (i + 1) * n // files)}) if columns and files > 1 else part
            parts["-".join(w for w in (name, str(i + 1) if files > 1 else "") if w)] = piece
    return parts


def draw(data: xarray.Dataset) -> Figure:
    """Draw skills retired, skills written and the change in eval along an axis of numbers.

    Parameters
    ----------
    data
        ``retired``, ``synthesised``, ``delta_clean``, their ``_se``, ``wrongly_retired`` and evals, over one axis of numbers,
        and up to one more that gives the lines and one of names that gives the columns. The end of the governable rectangle is
        marked where there is one.
    """
    x, lines, columns = roles(data)
    parts = [each(column, lines, MAX_LINES) for column in each(data, columns, MAX_COLUMNS)]
    rows = len(ROWS)
    wide = columns is None  # a single column lies on its side
    marked = any(threshold(part, x) is not None for column in parts for part in column)
    figure, panels = style.page(
        1 if wide else rows,
        rows if wide else len(parts),
        2.7 if wide else 1.75,
        f"{data.attrs.get('sweep', 'result')}: skills retired, skills written and eval along {symbol(data, x)}",
        settings(data),
        _caption(data, x, lines, marked),
        xlabel=axis_label(data, x),
        legend=_legend(parts[0], x, lines, marked),
    )
    panels = panels.T if wide else panels
    for row, name in zip(panels, ROWS, strict=True):
        for ax, column in zip(row, parts, strict=True):
            _panel(ax, column, x, name)
        _scale(row, parts, name)
        what, unit = variable_label(data, name)
        if wide:
            row[0].set_title(textwrap.fill(what, 34), loc="left")
            row[0].set_ylabel(unit)
        else:
            row[0].set_ylabel(f"{what.replace(' against', chr(10) + 'against')}\n({unit})")
    figure.align_ylabels(panels[:, 0])
    if columns is not None:
        for ax, column in zip(panels[0], parts, strict=True):
            ax.set_title(text(column[0][columns].item()), fontweight="bold")
    return figure


def _panel(ax: Axes, parts: list[xarray.Dataset], x: str, name: str) -> None:
    """Draw one variable: a line with its band for each part, and where each is predicted to break."""
    style.value_axis(ax, parts[0][x].values, "x", 6)
    ax.grid(True)
    if name == "delta_clean":
        ax.axhline(0, color=style.GREY, linewidth=0.7, zorder=1)
        _draw_no_skill(ax, parts, x)
    ends: dict[float, Any] = {}
    for i, part in enumerate(parts):
        look = style.line_style(i, len(parts))
        values = part[x].values
        style.band(ax, values, part[name].values, part[name + "_se"].values, look, len(values) <= 12)
        if name == "retired":
            ax.plot(values, part["wrongly_retired"].values, color=look["color"], linewidth=1.3, linestyle=WRONGLY, zorder=2.5)
        end = threshold(part, x)
        if end is not None:
            ends[end] = look["color"] if end not in ends else style.GREY  # one that several lines share is grey
    for end, colour in ends.items():
        ax.axvline(end, color=colour, linewidth=1.0, linestyle=(0, (3, 2)), alpha=0.9 if name == "retired" else 0.45, zorder=1.5)


def _draw_no_skill(ax: Axes, parts: list[xarray.Dataset], x: str) -> None:
    """Draw the eval with no skill: one grey line if it is nearly the same everywhere, else one along each part's own."""
    levels = [_no_skill(part) for part in parts]
    span = finite_range(levels)
    if span and span[1] - span[0] <= SAME:
        ax.axhline(sum(span) / 2, color=style.GREY, linewidth=1.2, linestyle=NO_SKILL, zorder=1)
        return
    for i, (part, level) in enumerate(zip(parts, levels, strict=True)):
        look = style.line_style(i, len(parts)) | {"linewidth": 1.0, "linestyle": NO_SKILL}
        ax.plot(part[x].values, level, zorder=1, **look)


def _no_skill(part: xarray.Dataset) -> np.ndarray:
    """Return the eval with no skill, against that of a perfect judge, shape (x,)."""
    clean = part["tail_eval"].values - part["delta_clean"].values
    return np.asarray(part["floor_eval"].values - clean)


def _scale(row: np.ndarray, parts: list[list[xarray.Dataset]], name: str) -> None:
    """Let the panels of a row share their scale, unless that would flatten some of them."""
    spans = [finite_range(_ends(part, name) for part in column) for column in parts]
    sizes = [high - low for low, high in (span for span in spans if span)]
    alike = len(row) > 1 and (not sizes or min(sizes) <= 0 or max(sizes) / min(sizes) <= UNLIKE)
    if alike:
        spans = [(min(s[0] for s in spans if s), max(s[1] for s in spans if s)) if sizes else None] * len(row)
        for ax in row[1:]:
            ax.tick_params(labelleft=False)
    for ax, span in zip(row, spans, strict=True):
        low, high = span or (0.0, 1.0)
        signed = name == "delta_clean"
        low = low if signed else 0.0
        room = (high - low) or abs(high) or 1.0
        ax.set_ylim(low - (0.07 if signed else 0.015) * room, high + 0.07 * room)


def _ends(part: xarray.Dataset, name: str) -> np.ndarray:
    """Return what the bands of a part reach, or its means where there is no error."""
    error = style.Z95 * np.nan_to_num(part[name + "_se"].values)
    if name == "delta_clean":
        return np.stack([part[name].values - error, part[name].values + error, _no_skill(part)])
    return np.stack([part[name].values - error, part[name].values + error])


def _legend(parts: list[xarray.Dataset], x: str, lines: str | None, marked: bool) -> list[Line2D]:
    handles = []
    if lines is not None:
        short = "" if sets(parts[0], lines)[0] in ("world", "policy", "channel") else f"{symbol(parts[0], lines)} = "
        handles = [
            Line2D([], [], label=short + text(part[lines].item()), **style.line_style(i, len(parts))) for i, part in enumerate(parts)
        ]
    handles.append(Line2D([], [], color=style.GREY, linewidth=1.3, linestyle=WRONGLY, label="retired though it helps"))
    if marked:
        label = r"predicted threshold " + (r"$\pi_\tau=(1-\tau)/2$" if FP in sets(parts[0], x) else r"$1-\pi_\tau=(1+\tau)/2$")
        handles.append(Line2D([], [], color=style.GREY, linewidth=1.0, linestyle=(0, (3, 2)), label=label))
    return handles


def _caption(data: xarray.Dataset, x: str, lines: str | None, marked: bool) -> str:
    words = ["Lines: means over runs. Bands: ±1.96 standard errors; where none shows, it is thinner than the line."]
    if lines is not None and data.sizes[lines] > MAX_LINES:
        words.append(f"{MAX_LINES} of {data.sizes[lines]} values of {symbol(data, lines)} are drawn.")
    if lines is not None:
        words.append("Where lines coincide, the thinner lies on the wider.")
    words.append("Dotted above: retired though the skill helps. Dash-dotted below: the eval with no skill.")
    if marked and FP in sets(data, x):
        words.append(r"Dashed, in the colour of its line: $\pi_\tau$, past which the curator is blind, given enough trials.")
    elif marked:
        words.append(r"Dashed: $1-\pi_\tau$, past which the curator is indiscriminate.")
    return " ".join(words)
