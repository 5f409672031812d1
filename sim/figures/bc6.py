"""BC's figure 6: retirement against labels flipped, noise and bias, in two subsets; and what the count of deprecated skills consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sim.figures import marks, style
from sim.figures.axes import settings
from sim.figures.axes import split as fix
from sim.figures.reported import BAND, CHANNELS, MAIN, NO_SKILL, along, channels, of_world, values

if TYPE_CHECKING:
    import xarray

WORLDS: Final = (MAIN, BAND)
VARIABLES: Final = ("retired", "retired_sd", "evicted", "deprecated", "divergence")
PARTS: Final = {"retired": style.COLOURS[2], "evicted": "#b5b5b5"}


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Keep the two subsets; fix all axes but the condition."""
    return fix(of_world(data, *WORLDS), ("world", "condition"))


def draw(data: xarray.Dataset) -> Figure:
    """Draw skills retired against labels flipped for two subsets, and a bar of retired and evicted skills per condition.

    Parameters
    ----------
    data
        The variables over ``world`` and ``condition``.
    """
    lines = [(kind, marks.KINDS[kind]) for kind in ("noise", "bias")]
    bars = [Patch(color=colour, label=name) for name, colour in PARTS.items()]
    figure, (panels,) = style.page(
        1,
        3,
        2.9,
        f"{data.attrs.get('sweep', 'result')}: skills retired against labels flipped, and what deprecation consists of",
        settings(data),
        _caption(data),
        legend=[*marks.legend(lines, data, bars=True, pi=False), *bars],
        sharex=False,
    )
    for ax, world, letter in zip(panels, WORLDS, "ab", strict=False):
        _retired(ax, data, world)
        ax.set_title(f"{letter}. {world}", loc="left")
    panels[0].set_ylabel("skills retired (per run)")
    _stack(panels[2], data)
    panels[2].set_title(f"c. {BAND}: deprecated", loc="left")
    return figure


def _retired(ax: Axes, data: xarray.Dataset, world: str) -> None:
    for kind in ("noise", "bias"):
        names, colour = list(along(data, kind)), marks.KINDS[kind]
        x, y = (values(data, world, names, variable) for variable in ("divergence", "retired"))
        ax.plot(x, y, "o-", color=colour, markersize=3, zorder=3)
        at = marks.ours(names)
        marks.scatter(ax, x[at], y[at], marks.errors(data, world, names, "retired")[at], colour)
        for i, name in enumerate(names):
            if there := marks.ends(world, name, "retired"):
                marks.point(ax, float(x[i]), there, style.INK if name == "clean" else colour)
    ax.set_xlabel(marks.FLIPPED_LABEL, fontsize=7.5)
    ax.grid(True)


def _stack(ax: Axes, data: xarray.Dataset) -> None:
    """Draw a bar per condition of BC's, retired and evicted one after the other."""
    shown = {name: condition for name, condition in channels(data).items() if name in CHANNELS and name != NO_SKILL}
    y, left = np.arange(len(shown)), np.zeros(len(shown))
    for variable, colour in PARTS.items():
        width = values(data, BAND, list(shown), variable)
        ax.barh(y, width, left=left, height=0.72, color=colour, zorder=2)
        left = left + width
    for i, name in enumerate(shown):
        if there := marks.ends(BAND, name, "retired"):
            ax.plot(
                float(np.mean(there)), i, "D", markersize=5, markerfacecolor="white", markeredgecolor=style.INK, zorder=4, clip_on=False
            )
    ax.set_yticks(y, list(shown.values()), fontsize=7.5)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0, pad=6)
    ax.set_xlabel("skills (per run)", fontsize=7.5)
    ax.grid(True, axis="x")


def _caption(data: xarray.Dataset) -> str:
    names = ("clean", "bias:0.45")
    retired, total = (values(data, BAND, names, variable) for variable in ("retired", "deprecated"))
    flipped, left = (values(data, BAND, ("noise:0.4", "bias:0.7"), variable) for variable in ("divergence", "retired"))
    words = [f"b: noise 0.4 flips {flipped[0]:.2f} of the labels and leaves {left[0]:.1f} skills retired, bias 0.7 flips {flipped[1]:.2f}"]
    words.append(
        f"and leaves {left[1]:.1f}. BC reports retirement as unmoved by noise; here it goes from {retired[0]:.1f} to {left[0]:.1f}."
    )
    words.append(f"c: from clean to bias 0.45 retired falls from {retired[0]:.1f} to {retired[1]:.1f},")
    words.append(f"deprecated from {total[0]:.1f} to {total[1]:.1f}: a shelf that retires nothing is full, and evicts.")
    words.append("Diamonds in c: reported retired; in a and b at the simulated share of labels flipped, black for clean.")
    return " ".join(words)
