"""The life of a library: what happens in each round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sim.figures import style
from sim.figures.axes import axes, each, rate_axis, sets, settings, symbol, text, variable_label
from sim.figures.axes import split as fix

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = (
    "eval_by_round",
    "active_by_round",
    "observed_failures_by_round",
    "synthesised_by_round",
    "retired_by_round",
    "evicted_by_round",
)
MAX_LINES: Final = 6


def lines_axis(data: xarray.Dataset) -> str | None:
    """Return the axis whose values are drawn as lines: the error rate of the judge, or else the last."""
    return rate_axis(data) or (axes(data)[-1] if axes(data) else None)


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but the one drawn as lines."""
    axis = lines_axis(data)
    return fix(data, [axis] if axis else [])


def draw(data: xarray.Dataset) -> Figure:
    """Draw eval, skills on the shelf, failures seen, skills written, retired and evicted, round by round.

    Parameters
    ----------
    data
        The six variables ``..._by_round`` and their ``_se`` over ``round`` and up to one more axis, a line per value of it.
    """
    axis = lines_axis(data)
    parts = each(data, axis, MAX_LINES)
    caption = "Lines: means over runs. Bands: ±1.96 standard errors; where none shows, it is thinner than the line."
    caption += " No skill is written in the last round."
    if axis is not None and len(parts) < data.sizes[axis]:
        caption += f" {len(parts)} of {data.sizes[axis]} values of {symbol(data, axis)} are drawn."
    handles = []
    if axis is not None:
        short = "" if sets(data, axis)[0] in ("world", "policy", "channel") else f"{symbol(data, axis)} = "
        looks = [style.line_style(i, len(parts)) for i in range(len(parts))]
        handles = [Line2D([], [], label=short + text(p[axis].item()), **look) for p, look in zip(parts, looks, strict=True)]
    figure, panels = style.page(
        2,
        3,
        2.2,
        f"{data.attrs.get('sweep', 'result')}: the life of a library, round by round",
        settings(data),
        caption,
        xlabel="round",
        legend=handles,
    )
    for ax, name in zip(panels.flat, VARIABLES, strict=True):
        for i, part in enumerate(parts):
            x = part["round"].values
            style.band(ax, x, part[name].values, part[name + "_se"].values, style.line_style(i, len(parts)), len(x) <= 12)
        what, unit = variable_label(data, name)
        ax.set_title(what, loc="left")
        ax.set_ylabel(unit)
        ax.grid(True)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if name != "eval_by_round":
            ax.set_ylim(0, max(ax.get_ylim()[1], 1e-3))
    return figure
