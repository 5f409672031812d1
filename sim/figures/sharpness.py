"""The cliff turns into a step as n_min grows: how fast, and the one curve behind all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sim.figures import style
from sim.figures.axes import FP, axis_label, each, setting, settings, symbol, text
from sim.figures.one_skill import Library, limit, lines_axis, split
from sim.figures.operating import GRID, MAX_LINES, curve_legend, points, thresholds

if TYPE_CHECKING:
    import xarray

__all__ = ["VARIABLES", "draw", "split"]

VARIABLES: Final = ("retired_histogram", "floor_eval")
REACH: Final = 4.0  # standard errors of n_min outcomes, to either side of pi_tau
STEP: Final[dict[str, Any]] = {"color": style.GREY, "linewidth": 1.0, "linestyle": (0, (3, 2))}
LIMIT: Final[dict[str, Any]] = {"color": style.INK, "linewidth": 1.6, "linestyle": (0, (1, 1.2))}


def draw(data: xarray.Dataset) -> Figure:
    """Draw the cliff, and the same curves over the distance from pi_tau in standard errors, with their limit.

    Parameters
    ----------
    data
        ``retired_histogram``, ``floor_eval`` and ``runs`` over an axis that sets rho_fp, and up to one more that gives the lines.
        All skills are looked at after the same multiples of n_min trials.
    """
    x, axis = setting(data, FP), lines_axis(data)
    assert x is not None, "the rate of hidden failures is the x axis"
    parts = each(data, axis, MAX_LINES)
    libraries = [Library.read(part) for part in parts]
    times = libraries[0].times
    legend = [*curve_legend(parts, axis), Line2D([], [], label="limit", **LIMIT)]
    figure, (panels,) = style.page(
        1,
        2,
        3.5,
        f"{data.attrs.get('sweep', 'result')}: the cliff becomes a step",
        settings(data),
        _caption(data, axis, len(parts), [float(time) for time in times]),
        legend=legend,
        sharex=False,
    )
    left, right = panels
    grid = np.linspace(float(data[x].min()), float(data[x].max()), GRID)
    z = np.linspace(-REACH, REACH, GRID)
    end = limit(z, times)
    right.plot(z, end, zorder=4, **LIMIT)
    far = []
    for i, (part, library) in enumerate(zip(parts, libraries, strict=True)):
        look, pi = style.line_style(i, len(parts)), (1 - library.tau) / 2
        width = np.sqrt(pi * (1 - pi) / library.n_min)
        left.plot(grid, library.retires(grid), zorder=2, **look)
        points(left, part[x].values, part, library, look["color"])
        inside = (pi + z * width >= 0) & (pi + z * width <= 1)
        scaled = library.retires(pi + z[inside] * width)
        right.plot(z[inside], scaled, zorder=2, **look)
        shown = part.isel({x: np.abs(part[x].values - pi) <= REACH * width})
        points(right, (shown[x].values - pi) / width, shown, library, look["color"])
        far.append((text(part[axis].item()) if axis else "", float(np.abs(scaled - end[inside]).max()), look["color"]))
    thresholds([left], parts)
    right.axvline(0, zorder=1.5, **STEP)
    right.set_xlim(-REACH, REACH)
    left.set_xlabel(axis_label(data, x, 80))
    right.set_xlabel(r"$(\rho_{fp}-\pi_\tau)\,\sqrt{n_{min}\,/\,\pi_\tau(1-\pi_\tau)}$" + " (standard errors of n_min outcomes)")
    left.set_ylabel("a useless skill is retired by the end of the run\n(probability)")
    left.set_title("the cliff", loc="left")
    right.set_title("the same, scaled: one curve", loc="left")
    right.tick_params(labelleft=False)
    for ax in panels:
        ax.set_ylim(-0.02, 1.03)
        ax.grid(True)
    for i, (word, distance, colour) in enumerate([(symbol(data, axis) if axis else "", None, style.INK), *far]):
        line = 0.86 - 0.062 * i
        head = "farthest from\nthe limit" if distance is None else f"{distance:.3f}"
        right.text(0.70, line, word, transform=right.transAxes, ha="right", va="bottom", fontsize=8.5, color=colour)
        right.text(0.97, line, head, transform=right.transAxes, ha="right", va="bottom", fontsize=8.5, color=colour)
    return figure


def _caption(data: xarray.Dataset, axis: str | None, shown: int, times: list[float]) -> str:
    looks = ", ".join(f"{t:.4g}" for t in times[:5]) + (f" ... {times[-1]:.4g}" if len(times) > 5 else "")
    words = ["Lines: exact. Points: share of simulated runs, bars ±1.96 standard errors; where none shows, it is shorter than the point."]
    if axis is not None and shown < data.sizes[axis]:
        words.append(f"{shown} of {data.sizes[axis]} values of {symbol(data, axis)} are drawn.")
    words.append(r"Dashed: $\pi_\tau=(1-\tau)/2$, the step that the cliff becomes: 1 before it, 0 past it.")
    words.append(f"Every skill is looked at after {looks} n_min trials.")
    words.append("Dotted: the limit of many trials, Brownian motion with drift that is seen at 0 or below at one of these times.")
    words.append("The cliff's width shrinks as n_min$^{-1/2}$: half the width takes four times the trials.")
    words.append("What still parts the curves is that passes are whole numbers, and ties are retired.")
    return " ".join(words)
