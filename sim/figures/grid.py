"""Heat maps over two axes of numbers, such as the error rate of the judge and a knob of the policy."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from sim.figures import style
from sim.figures.axes import (
    FP,
    PF,
    TAU,
    axes,
    axis_label,
    each,
    is_just,
    numeric,
    pi_tau,
    rate_axis,
    settings,
    symbol,
    text,
    variable_label,
)
from sim.figures.axes import split as fix

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = ("retired", "synthesised", "evicted", "delta_clean")
MAX_COLUMNS: Final = 4


def roles(data: xarray.Dataset) -> tuple[str, str, str | None]:
    """Return the axes for x, y and columns.

    x is the error rate of the judge, or else the longest axis of numbers; y the longest other. Columns are the axis with the
    fewest values of those left.
    """
    numbers = numeric(data)
    x = rate_axis(data) or max(reversed(numbers), key=lambda d: data.sizes[d])
    y = max(reversed([d for d in numbers if d != x]), key=lambda d: data.sizes[d])
    left = [d for d in axes(data) if d not in (x, y)]
    return x, y, min(left, key=lambda d: data.sizes[d]) if left else None


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix the axes that have no role."""
    return fix(data, [d for d in roles(data) if d])


def draw(data: xarray.Dataset) -> Figure:
    """Draw maps of skills retired, written, evicted and of the change in eval; a column per value of a third axis.

    Parameters
    ----------
    data
        ``retired``, ``synthesised``, ``evicted``, ``delta_clean`` over two axes of numbers, and up to one more of any kind. The
        predicted threshold is drawn where an axis is an error rate of the judge.
    """
    x, y, columns = roles(data)
    data = data.transpose(*([columns] if columns else []), y, x, ...)
    parts = each(data, columns, MAX_COLUMNS)
    shape = (2, 2) if columns is None else (len(VARIABLES), len(parts))
    marked = any(_threshold(part, x, y) is not None for part in parts)
    figure, panels = style.page(
        *shape,
        2.75 if columns is None else 1.85,
        f"{data.attrs.get('sweep', 'result')}: {symbol(data, x)} against {symbol(data, y)}",
        settings(data),
        _caption(data, x, y, columns, len(parts), marked),
        xlabel=axis_label(data, x),
    )
    for k, name in enumerate(VARIABLES):
        centred = name == "delta_clean"
        scale = style.norm([part[name].values for part in parts], centred)
        row = panels.flat[k : k + 1] if columns is None else panels[k]
        for ax, part in zip(row, parts, strict=True):
            mesh = style.heat(ax, part[x].values, part[y].values, part[name].values, scale, centred, 7.0 if columns is None else 0)
            mark(ax, part, x, y, centred)
        what, unit = variable_label(data, name)
        lines = "\n".join(textwrap.wrap(what, 22))
        style.colour_bar(figure, mesh, list(row), "" if columns is None else f"{lines}\n({unit})")
        if columns is None:
            row[0].set_title(f"{what} ({unit})", loc="left", fontsize=9.5)
    if columns is not None:
        for i, (ax, part) in enumerate(zip(panels[0], parts, strict=True)):
            value = text(part[columns].item())
            ax.set_title(f"{symbol(data, columns)} = {value}" if i == 0 else value, fontweight="bold")
    for ax in panels[:, 0]:
        ax.set_ylabel(axis_label(data, y, 36) if columns is None else symbol(data, y))
    for ax in panels[:, 1:].flat:
        ax.tick_params(labelleft=False)
    return figure


def _threshold(data: xarray.Dataset, x: str, y: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the predicted threshold as a line (x, y) over the map, or None if x is no single error rate or tau is unknown."""
    hidden = is_just(data, x, FP)
    if not (hidden or is_just(data, x, PF)):
        return None
    sign = -1.0 if hidden else 1.0
    if is_just(data, y, TAU):
        tau = np.linspace(float(data[y].min()), float(data[y].max()), 200)
        return (1 + sign * tau) / 2, tau
    pi = pi_tau(data)
    if pi is None:
        return None
    return np.array([pi if hidden else 1 - pi] * 2), np.array([0.0, 1.0])


def mark(ax: Axes, data: xarray.Dataset, x: str, y: str, dark: bool) -> None:
    """Draw the predicted threshold over a map, in dark ink or white."""
    line = _threshold(data, x, y)
    if line is None:
        return
    ink = style.INK if dark else "white"
    halo = [withStroke(linewidth=3, foreground="white" if dark else style.INK, alpha=0.5)]
    across = ax.transData if is_just(data, y, TAU) else ax.get_xaxis_transform()
    ax.plot(*line, color=ink, linewidth=1.5, linestyle=(0, (4, 2)), path_effects=halo, transform=across, scalex=False, scaley=False)


def _caption(data: xarray.Dataset, x: str, y: str, columns: str | None, shown: int, marked: bool) -> str:
    words = ["Colour and contours: means over runs. Grey: no value. Pointed colour bars: some values lie beyond."]
    if marked and is_just(data, x, FP):
        words.append(r"Dashed: predicted threshold $\rho_{fp}=\pi_\tau=(1-\tau)/2$, past which the curator is blind, given enough trials.")
    elif marked:
        words.append(r"Dashed: $\rho_{pf}=1-\pi_\tau=(1+\tau)/2$, past which the curator is indiscriminate.")
    if columns is not None:
        some = f"; {shown} of {data.sizes[columns]} values." if shown < data.sizes[columns] else "."
        words.append(f"Columns: {axis_label(data, columns)}{some}")
        words.append(f"Up: {axis_label(data, y)}.")
    return " ".join(words)
