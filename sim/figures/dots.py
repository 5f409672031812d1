"""Means with error bars for axes of names: presets, modes, curators."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sim.figures import style
from sim.figures.axes import axes, each, named, settings, symbol, text, variable_label
from sim.figures.axes import split as fix

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = ("retired", "synthesised", "tail_eval", "delta_clean")
MAX_ROWS: Final = 16
MAX_COLOURS: Final = 6


def roles(data: xarray.Dataset) -> tuple[str, str | None]:
    """Return the axis for rows, an axis of names if there is one, and one for colours: the shortest of those left."""
    names = named(data)
    rows = names[0] if names else axes(data)[0]
    left = [d for d in axes(data) if d != rows]
    return rows, min(left, key=lambda d: data.sizes[d]) if left else None


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix the axes that have no role."""
    return fix(data, [d for d in roles(data) if d])


def draw(data: xarray.Dataset) -> Figure:
    """Draw skills retired, skills written, tail eval and its change as dots with error bars, a row per value of an axis.

    Parameters
    ----------
    data
        ``retired``, ``synthesised``, ``tail_eval``, ``delta_clean`` and their ``_se`` over one axis, and up to one more that
        gives colours.
    """
    rows, colours = roles(data)
    lines = each(data, rows, MAX_ROWS)
    count = len(each(data, colours, MAX_COLOURS))
    caption = "Dots: means over runs. Bars: ±1.96 standard errors; where none shows, it is shorter than the dot."
    for axis, shown in ((rows, len(lines)), (colours, count)):
        if axis is not None and shown < data.sizes[axis]:
            caption += f" {shown} of {data.sizes[axis]} values of {symbol(data, axis)} are drawn."
    handles = []
    if colours is not None:
        short = f"{symbol(data, colours)} = " if data[colours].dtype.kind in "fiu" else ""
        labels = [short + text(cell[colours].item()) for cell in each(lines[0], colours, MAX_COLOURS)]
        handles = [Line2D([], [], marker="o", linestyle="none", color=c, label=w) for c, w in zip(style.COLOURS, labels, strict=False)]
    figure, panels = style.page(
        1,
        len(VARIABLES),
        0.85 + 0.3 * len(lines) * max(1.0, 0.7 * count),
        f"{data.attrs.get('sweep', 'result')}: means by {symbol(data, rows)}" + (f" and {symbol(data, colours)}" if colours else ""),
        settings(data),
        caption,
        legend=handles,
        sharex=False,
    )
    offsets = np.linspace(-0.22, 0.22, count) if count > 1 else np.zeros(1)
    for ax, name in zip(panels[0], VARIABLES, strict=True):
        if name == "delta_clean":
            ax.axvline(0, color=style.GREY, linewidth=0.7, zorder=1)
        for i, line in enumerate(lines):
            for j, cell in enumerate(each(line, colours, MAX_COLOURS)):
                mean, se = float(cell[name]), float(cell[name + "_se"])
                bar = style.Z95 * se if np.isfinite(se) else 0.0
                ax.errorbar(mean, i + offsets[j], xerr=bar, fmt="o", markersize=4, elinewidth=1.4, color=style.COLOURS[j], zorder=3)
        what, unit = variable_label(data, name)
        ax.set_title("\n".join(textwrap.wrap(what, 22)), loc="left")
        ax.set_xlabel(unit)
        ax.grid(True)
        ax.set_ylim(len(lines) - 0.5, -0.5)
        style.plain_ticks(ax, 4)
        ax.set_yticks(range(len(lines)), [text(line[rows].item()) for line in lines] if ax is panels[0][0] else [""] * len(lines))
        ax.margins(x=0.12)
    return figure
