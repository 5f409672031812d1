"""What figures of the papers draw alike: the scatter of three seeds, reported values, pi_tau, and the legends of all that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sim.figures import style
from sim.figures.axes import pi_tau
from sim.figures.reported import CHANNELS, Ends, agrees, cell, reported, three_seed_error

if TYPE_CHECKING:
    import xarray

KINDS: Final = {"noise": style.COLOURS[0], "bias": style.COLOURS[1], "strict judge": style.COLOURS[3]}
PI: Final[dict[str, Any]] = {"color": style.INK, "linewidth": 1.0, "linestyle": (0, (3, 2)), "zorder": 1.5}
BIAS_LABEL: Final = r"bias q = $\rho_{fp}$: failures observed as passes"
FLIPPED_LABEL: Final = "labels flipped (fraction of train trials)"


def scatter(ax: Axes, x: np.ndarray, mean: np.ndarray, error: np.ndarray, colour: str) -> None:
    """Draw where 95 % of means of three seeds fall, as thin bars; ``error`` is the standard error of such a mean."""
    ax.errorbar(x, mean, style.Z95 * error, fmt="none", ecolor=colour, elinewidth=0.9, capsize=2, capthick=0.9, alpha=0.75, zorder=2)


def point(ax: Axes, x: float, ends: Ends, colour: str) -> None:
    """Draw a reported value as an open diamond; a reported range from end to end."""
    if ends[0] < ends[1]:
        ax.plot([x, x], ends, color=colour, linewidth=3.2, alpha=0.45, solid_capstyle="butt", zorder=4)
    ax.plot(x, float(np.mean(ends)), "D", markersize=5, markerfacecolor="white", markeredgecolor=colour, markeredgewidth=1.3, zorder=5)


def errors(data: xarray.Dataset, world: str, names: Sequence[str], variable: str) -> np.ndarray:
    """Return the standard error of a mean of three seeds in each of these channels."""
    return np.array([three_seed_error(cell(data, world, name), variable) for name in names])


def ours(names: Sequence[str]) -> list[int]:
    """Return the places of those channels that BC has; the others only make a curve smooth."""
    return [i for i, name in enumerate(names) if name in CHANNELS]


def ends(world: str, name: str, variable: str) -> Ends | None:
    """Return what is reported of a channel, if anything."""
    return reported().get((world, name, variable))


def threshold(ax: Axes, data: xarray.Dataset) -> None:
    """Draw pi_tau across an axis of bias, if the result has one."""
    if (pi := pi_tau(data)) is not None:
        ax.axvline(pi, **PI)


def legend(lines: Sequence[tuple[str, str]], data: xarray.Dataset, *, bars: bool, pi: bool) -> list[Line2D]:
    """Return the handles of lines, by name and colour, and of the marks around them."""
    handles = [Line2D([], [], color=colour, marker="o", markersize=3.5, label=name) for name, colour in lines]
    handles.append(_mark("D", 5, "reported", markerfacecolor="white", markeredgecolor=style.GREY, markeredgewidth=1.3))
    if bars:
        handles.append(_mark("|", 9, "±1.96 errors of three seeds", markeredgecolor=style.GREY))
    if pi and (value := pi_tau(data)) is not None:
        handles.append(Line2D([], [], label=rf"$\pi_\tau$ = {value:g}", **PI))
    return handles


def _mark(marker: str, size: float, label: str, **look: Any) -> Line2D:
    return Line2D([], [], linestyle="none", marker=marker, markersize=size, label=label, **look)


# ---------------------------------------------------------------- a table as a figure


def line(ax: Axes, part: xarray.Dataset, i: int, variable: str, there: tuple[Ends, float] | None) -> None:
    """Draw a condition: its mean, the scatter of three seeds, and what is reported."""
    mean, reach = float(part[variable]), style.Z95 * three_seed_error(part, variable)
    ax.plot([mean - reach, mean + reach], [i, i], color=style.COLOURS[5], linewidth=3.5, solid_capstyle="butt", zorder=2)
    ax.plot(mean, i, "o", markersize=3, color=style.COLOURS[0], zorder=4)
    if there is None:
        return
    ends, z = there
    ends = (ends[0] if np.isfinite(ends[0]) else ends[1], ends[1] if np.isfinite(ends[1]) else ends[0])  # of a bound its end
    colour, middle = style.COLOURS[2] if agrees(z) else style.COLOURS[1], float(np.mean(ends))
    ax.plot(ends, [i, i], color=colour, linewidth=1.2, zorder=3)
    ax.plot(middle, i, "D", markersize=3.2, color=colour, zorder=5)
    if not agrees(z):
        look: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 5.5, "color": colour}
        ax.annotate(f"{z:+.1f}" if abs(z) < 10 else f"{'+' if z > 0 else '-'}>10", (middle, i), xytext=(0, 3), **look)


def line_legend() -> list[Line2D]:
    """Return the handles of what :func:`line` draws."""
    return [
        Line2D([], [], marker="o", linestyle="none", markersize=3.5, color=style.COLOURS[0], label="simulated mean"),
        Line2D([], [], color=style.COLOURS[5], linewidth=3.5, label="mean ± 1.96 standard errors of three seeds"),
        Line2D([], [], marker="D", linestyle="none", markersize=3.5, color=style.COLOURS[2], label="reported, within 2 standard errors"),
        Line2D([], [], marker="D", linestyle="none", markersize=3.5, color=style.COLOURS[1], label="farther: how many"),
    ]
