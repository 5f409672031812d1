"""Simulation against exact theory: the chance that a useless skill is retired by the end of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sim.figures import style
from sim.figures.axes import FP, axis_label, each, pi_tau, setting, settings, symbol, text
from sim.figures.one_skill import Library, largest, lines_axis, retired_runs, scores, split

if TYPE_CHECKING:
    import xarray

__all__ = ["VARIABLES", "curve_legend", "draw", "points", "split", "thresholds"]

VARIABLES: Final = ("retired_histogram", "floor_eval")
MAX_LINES: Final = len(style.COLOURS)
GRID: Final = 401  # rates at which exact curves are worked out
FALSE_ALARM: Final = 0.05  # chance that some point passes the outer lines though all is right
FAR: Final = 6.0  # scores beyond are drawn here


def draw(data: xarray.Dataset) -> Figure:
    """Draw exact curves with simulated points on them, and below how far each point is off.

    Parameters
    ----------
    data
        ``retired_histogram``, ``floor_eval`` and ``runs`` over an axis that sets rho_fp, and up to one more that gives the lines.
    """
    x, axis = setting(data, FP), lines_axis(data)
    assert x is not None, "the rate of hidden failures is the x axis"
    parts = each(data, axis, MAX_LINES)
    grid = np.linspace(float(data[x].min()), float(data[x].max()), GRID)
    libraries = [Library.read(part) for part in parts]
    off = [scores(retired_runs(p), p["runs"].values, lib.retires(p[x].values)) for p, lib in zip(parts, libraries, strict=True)]
    tested = int((~np.isnan(off)).sum())
    outer = largest(tested, FALSE_ALARM)
    figure, panels = style.page(
        2,
        1,
        2.35,
        f"{data.attrs.get('sweep', 'result')}: simulation against exact theory",
        settings(data),
        _caption(data, axis, len(parts), outer),
        xlabel=axis_label(data, x),
        legend=curve_legend(parts, axis),
        ratios=(2.9, 1.0),
    )
    above, below = panels[:, 0]
    for i, (part, library, score) in enumerate(zip(parts, libraries, off, strict=True)):
        look = style.line_style(i, len(parts))
        above.plot(grid, library.retires(grid), zorder=2, **look)
        points(above, part[x].values, part, library, look["color"])
        # Points of the same rate stand side by side, so that all of them show.
        aside = (i - (len(parts) - 1) / 2) * 0.18 * float(np.diff(part[x].values).min())
        below.plot(part[x].values + aside, np.clip(score, -FAR, FAR), "o", markersize=3.2, color=look["color"], clip_on=False, zorder=3)
    worst = float(np.nanmax(np.abs(off), initial=0.0))
    above.set_title("a useless skill is retired by the end of the run", loc="left")
    above.set_ylabel("probability")
    above.set_ylim(-0.02, 1.03)
    below.set_title(f"simulated minus exact: {tested} points, the farthest {worst:.2f} standard errors off", loc="left")
    below.set_ylabel("standard errors")
    below.axhspan(-2, 2, color=style.COLOURS[5], alpha=0.22, linewidth=0, zorder=0)
    below.axhline(0, color=style.GREY, linewidth=0.7, zorder=1)
    for side in (-outer, outer):
        below.axhline(side, color=style.GREY, linewidth=1.0, linestyle=(0, (1, 1.5)), zorder=1)
    reach = max(outer, min(worst, FAR)) * 1.15
    below.set_ylim(-reach, reach)
    below.set_yticks([-2, 0, 2])
    thresholds([above, below], parts)
    for ax in (above, below):
        ax.grid(True)
        ax.margins(x=0.015)
    figure.align_ylabels(panels[:, 0])
    return figure


def points(ax: Axes, where: np.ndarray, part: xarray.Dataset, library: Library, colour: str) -> None:
    """Draw simulated shares of runs with a retirement, with error bars from the exact chance."""
    x, runs = setting(part, FP), part["runs"].values
    exact = np.clip(library.retires(part[x].values), 0, 1)
    error = style.Z95 * np.sqrt(exact * (1 - exact) / runs)
    look: dict[str, Any] = {"fmt": "o", "markersize": 4, "elinewidth": 1.1, "zorder": 3, "color": colour}
    ax.errorbar(where, retired_runs(part) / runs, yerr=error, markeredgecolor="white", markeredgewidth=0.5, **look)


def thresholds(panels: list[Axes], parts: list[xarray.Dataset]) -> None:
    """Draw where each line has its pi_tau, and name it on the first panel if all share it."""
    ends = [pi_tau(part) for part in parts]
    for i, end in enumerate(ends):
        if end is None or end in ends[:i]:
            continue
        colour = style.GREY if ends.count(end) > 1 or len(ends) == 1 else style.COLOURS[i]
        for ax in panels:
            ax.axvline(end, color=colour, linewidth=1.0, linestyle=(0, (3, 2)), zorder=1.5)
        if len(set(ends)) == 1:
            at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top"}
            panels[0].annotate(rf"$\pi_\tau$ = {end:.3g}", (end, 1), xytext=(5, -1), ha="left", **at)


def curve_legend(parts: list[xarray.Dataset], axis: str | None) -> list[Line2D]:
    """Return handles for the lines, and for what is exact and what simulated."""
    handles = []
    if axis is not None:
        short = f"{symbol(parts[0], axis)} = " if parts[0][axis].dtype.kind in "fiu" else ""
        looks = [style.line_style(i, len(parts)) for i in range(len(parts))]
        handles = [Line2D([], [], label=short + text(p[axis].item()), **look) for p, look in zip(parts, looks, strict=True)]
    grey: dict[str, Any] = {"color": style.GREY}
    handles.append(Line2D([], [], label="exact", linewidth=1.3, **grey))
    handles.append(Line2D([], [], label="simulated", marker="o", markersize=4, linestyle="none", **grey))
    return handles


def _caption(data: xarray.Dataset, axis: str | None, shown: int, outer: float) -> str:
    words = ["Lines: exact, from the sequential test by dynamic programming; nothing is fitted. Points: share of simulated runs."]
    words.append("Bars: ±1.96 standard errors of the exact chance; where none shows, it is shorter than the point.")
    if axis is not None and shown < data.sizes[axis]:
        words.append(f"{shown} of {data.sizes[axis]} values of {symbol(data, axis)} are drawn.")
    words.append("A skill in this world never truly passes: it should always be retired.")
    words.append(r"Dashed: $\pi_\tau=(1-\tau)/2$, past which the curator is blind, given enough trials.")
    words.append("Below: normal scores of the binomial tails. Band: ±2.")
    words.append(f"Dotted: ±{outer:.2f}, which any point at all passes with a chance of at most {FALSE_ALARM:.0%} (Bonferroni).")
    words.append("Points whose chance is 0 or 1, and that agree, are left out below.")
    words.append("Cells share their randomness: neighbours err alike.")
    return " ".join(words)
