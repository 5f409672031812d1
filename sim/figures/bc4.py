"""BC's figure 4: skills retired, skills written and the eval along the rate of bias, in three subsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.figures import marks, style
from sim.figures.axes import settings
from sim.figures.axes import split as fix
from sim.figures.reported import BAND, CODE, HARD, along, of_world, values

if TYPE_CHECKING:
    import xarray

WORLDS: Final = {BAND: style.COLOURS[0], HARD: style.COLOURS[1], CODE: style.COLOURS[2]}
PANELS: Final = {
    "retired": ("a. skills retired", "skills per run"),
    "synthesised": ("b. skills written", "skills per run"),
    "delta_clean": ("c. eval against a perfect judge", "Δ tail eval (pass rate)"),
}
VARIABLES: Final = (*PANELS, "retired_sd", "synthesised_sd", "tail_sampled_sd", "observed_failures")
BIASES: Final = ("bias:0.2", "bias:0.45", "bias:0.7")
APART: Final = 0.012  # of bars that would hide each other, along the rate


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Keep the three subsets; fix all axes but the condition."""
    return fix(of_world(data, *WORLDS), ("world", "condition"))


def draw(data: xarray.Dataset) -> Figure:
    """Draw skills retired, skills written and the change in eval, a line per subset.

    Parameters
    ----------
    data
        The variables over ``world`` and ``condition``.
    """
    figure, (panels,) = style.page(
        1,
        3,
        2.9,
        f"{data.attrs.get('sweep', 'result')}: retirement, writing and eval along bias, in three subsets",
        settings(data),
        _caption(data),
        xlabel=marks.BIAS_LABEL + " (probability)",
        legend=marks.legend(list(WORLDS.items()), data, bars=True, pi=True),
        sharex=False,
    )
    for ax, (variable, (title, unit)) in zip(panels, PANELS.items(), strict=True):
        for i, world in enumerate(WORLDS):
            _curve(ax, data, world, variable, (i - 1) * APART)
        marks.threshold(ax, data)
        ax.set_title(title, loc="left")
        ax.set_ylabel(unit)
        ax.grid(True)
        if variable == "delta_clean":
            ax.axhline(0, color=style.GREY, linewidth=0.7, zorder=1)
        else:
            ax.set_ylim(bottom=-0.6)
    return figure


def _curve(ax: Axes, data: xarray.Dataset, world: str, variable: str, shift: float) -> None:
    found, colour = along(data, "bias", end=True), WORLDS[world]
    names, x = list(found), np.array(list(found.values()))
    y = values(data, world, names, variable)
    ax.plot(x, y, "o-", color=colour, markersize=3, zorder=3)
    at = marks.ours(names)
    marks.scatter(ax, x[at] + shift, y[at], marks.errors(data, world, names, variable)[at], colour)
    for name, rate in found.items():
        if there := marks.ends(world, name, variable):
            marks.point(ax, rate + shift, there, colour)


def _caption(data: xarray.Dataset) -> str:
    falls, retired, harm, error = [], [], [], []
    for world in WORLDS:
        retired.append(f"{values(data, world, ('bias:0.45',), 'retired')[0]:.1f}")
        harm.append(float(np.abs(values(data, world, BIASES, "delta_clean")).max()))
        error.append(float(marks.errors(data, world, BIASES, "delta_clean").min()))
        failures, written = (values(data, world, ("clean", "bias:0.7"), variable) for variable in ("observed_failures", "synthesised"))
        falls.append(f"{world} {failures[0]:.0f} to {failures[1]:.0f} and {written[0]:.1f} to {written[1]:.1f}")
    words = [f"a: retired at q = 0.45: {', '.join(retired)}. b: failures seen per round, and skills written, from q = 0 to 0.7:"]
    words.append("; ".join(falls) + ".")
    words.append(
        f"c: up to q = 0.7 the eval moves by {max(harm):.3f} at most, with a standard error of {min(error):.3f} or more for three seeds."
    )
    words.append("BC says of the last two only that they stay at or above clean. At q = 1 nothing is written.")
    return " ".join(words)
