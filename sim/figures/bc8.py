"""BC's figure 8: skills deprecated round by round under each reward channel, and how many of these were retired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from sim.figures import style
from sim.figures.axes import parameter, settings
from sim.figures.axes import split as fix
from sim.figures.reported import CHANNELS, MAIN, NO_SKILL, channels, of_world, values

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = ("retired_by_round", "evicted_by_round")


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Keep one world; fix all axes but the condition."""
    return fix(of_world(data, MAIN), ("condition",))


def rows(data: xarray.Dataset) -> dict[str, str]:
    """Return BC's channels that a result has, in its order, with the names of their conditions; without skills nothing happens."""
    return {name: condition for name, condition in channels(data).items() if name in CHANNELS and name != NO_SKILL}


def activity(data: xarray.Dataset) -> dict[str, np.ndarray]:
    """Return skills deprecated, and skills retired, per round: shape (rows, rounds)."""
    retired, evicted = (values(data, MAIN, list(rows(data)), variable) for variable in VARIABLES)
    return {"retired or evicted": retired + evicted, "of these, retired": retired}


def draw(data: xarray.Dataset) -> Figure:
    """Draw two heat maps over rounds, a row per condition.

    Parameters
    ----------
    data
        ``retired_by_round`` and ``evicted_by_round`` over ``condition`` and ``round``.
    """
    maps, shown = activity(data), rows(data)
    figure, (panels,) = style.page(
        1,
        2,
        0.6 + 0.26 * len(shown),
        f"{data.attrs.get('sweep', 'result')}: skills deprecated, round by round",
        settings(data),
        _caption(data),
        xlabel="round",
        sharex=False,
    )
    scale = style.norm(list(maps.values()), False)
    x, y = data["round"].values, np.arange(len(shown))
    for ax, (title, z) in zip(panels, maps.items(), strict=True):
        mesh = style.heat(ax, x, y, z, scale, False, contour=False)
        _write(ax, x, z, scale)
        ax.set_title(f"{title} (skills per round)", loc="left")
        ax.set_xticks(x)
        ax.set_yticks(y, list(shown.values()) if ax is panels[0] else [""] * len(shown))
        ax.set_ylim(len(shown) - 0.5, -0.5)
        ax.tick_params(length=0)
    style.colour_bar(figure, mesh, list(panels))
    return figure


def _write(ax: Axes, x: np.ndarray, z: np.ndarray, scale: Normalize) -> None:
    """Write each cell's value into it; nothing where less than 0.05."""
    for i, row in enumerate(z):
        for at, value in zip(x, row, strict=True):
            if value >= 0.05:
                ink = style.INK if scale(value) > 0.6 else "white"
                note = f"{value:.1f}".removeprefix("0") if value < 0.95 else f"{value:.1f}"
                ax.annotate(note, (at, i), ha="center", va="center", fontsize=6, color=ink)


def _caption(data: xarray.Dataset) -> str:
    n_min, cap = parameter(data, "policy.n_min"), parameter(data, "policy.cap")
    totals = dict(zip(rows(data).values(), activity(data)["of these, retired"].sum(axis=1), strict=True))
    words = [
        f"Nothing leaves before a skill has n_min = {n_min} trials or the shelf its {cap} skills; from then on each new skill evicts one."
    ]
    words.append("Fewer are written under bias, so the shelf fills later. Retired per run:")
    words.append(", ".join(f"{name} {total:.1f}" for name, total in totals.items()) + ".")
    words.append("Cells below 0.05 have no number. BC's figure is the left one; it prints no numbers.")
    return " ".join(words)
