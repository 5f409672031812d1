"""BC's table as a figure: what a library does under each reward channel, what three would scatter, and what is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sim.figures import style
from sim.figures.axes import settings
from sim.figures.axes import split as fix

if TYPE_CHECKING:
    import xarray

COLUMNS: Final = {  # BC's names
    "tail_sampled": "Tail eval",
    "delta_clean": "Δ clean",
    "synthesised": "Synth",
    "deprecated": "Dep.",
    "retired": "True-ret.",
    "evicted": "Evict",
    "divergence": "Div.",
}
VARIABLES: Final = (*COLUMNS, *(f"{name}_sd" for name in COLUMNS))
SEEDS: Final = 3  # of the papers
AGREES: Final = 2.0  # standard errors of a mean of three
AXES: Final = ("world", "condition")
SMALLEST: Final = {"tail_sampled": 0.01, "delta_clean": 0.01, "divergence": 0.005}  # errors of what was read off a table; else 0.1


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but world and condition."""
    return fix(data, AXES)


def _channel(condition: str) -> str:
    """Return the name a targets file has for a condition, empty if none."""
    kind, _, rate = condition.partition(" ")
    if condition in ("clean", "strict judge"):
        return condition.replace(" ", "_")
    return f"{kind}:{rate}" if kind in ("noise", "bias") and rate else ""


def reported() -> dict[tuple[str, str, str], tuple[float, float]]:
    """Return what the papers report: by world, channel and metric, the ends of a range that may be a point."""
    from sim.config import CONF
    from sim.targets import read_targets

    found: dict[tuple[str, str, str], tuple[float, float]] = {}
    for target in read_targets(CONF / "targets" / "papers.csv"):
        metric = "tail_sampled" if target.metric == "tail_eval" else target.metric
        if not target.not_fitted and not target.is_bound and metric in COLUMNS:
            found |= {(target.subset, channel, metric): (target.low, target.high) for channel in target.channels}
    return found


def three_seed_error(cell: xarray.Dataset, name: str) -> float:
    """Return the standard error of a mean of three seeds; of a difference of two such means for delta_clean."""
    sd = float(cell["tail_sampled_sd" if name == "delta_clean" else f"{name}_sd"])
    factor = 2.0 if name == "delta_clean" else 1.0
    return float(np.sqrt(factor / SEEDS) * sd)


def distance(mean: float, error: float, ends: tuple[float, float], name: str) -> float:
    """Return how far a reported value or range is from a simulated mean, in standard errors of three seeds; 0 inside the range."""
    off = max(ends[0] - mean, 0.0) - max(mean - ends[1], 0.0)
    return off / max(error, SMALLEST.get(name, 0.1))


def draw(data: xarray.Dataset) -> Figure:
    """Draw a row of panels per world, a panel per column of BC's table, a line per condition.

    Parameters
    ----------
    data
        The variables and their standard deviations over ``world`` and ``condition``.
    """
    worlds, conditions = [str(w) for w in data["world"].values], [str(c) for c in data["condition"].values]
    known = reported()
    ends = {(w, c, name): known.get((w, _channel(c), name)) for w in worlds for c in conditions for name in COLUMNS}
    cells = {(w, c): data.sel(world=w, condition=c) for w in worlds for c in conditions}
    off = {
        (w, c, name): distance(float(cells[w, c][name]), three_seed_error(cells[w, c], name), end, name)
        for (w, c, name), end in ends.items()
        if end is not None
    }
    figure, panels = style.page(
        len(worlds),
        len(COLUMNS),
        0.35 + 0.155 * len(conditions),
        f"{data.attrs.get('sweep', 'result')}: BC's table, simulated and reported",
        settings(data),
        _caption(list(off.values())),
        legend=_legend(),
        sharex=False,
    )
    for column, (name, title) in enumerate(COLUMNS.items()):
        panels[0, column].set_title(title, fontsize=9)
        for ax, world in zip(panels[:, column], worlds, strict=True):
            for i, condition in enumerate(conditions):
                _line(ax, cells[world, condition], i, name, ends[world, condition, name], off.get((world, condition, name), 0.0))
            ax.set_ylim(len(conditions) - 0.4, -0.6)
            ax.set_yticks(range(len(conditions)), conditions if column == 0 else [""] * len(conditions), fontsize=6.5)
            ax.tick_params(labelsize=6.5, length=2)
            style.plain_ticks(ax, 3)
            ax.grid(True)
            ax.margins(x=0.15)
            if name == "delta_clean":
                ax.axvline(0, color=style.GREY, linewidth=0.7, zorder=1)
    for ax, world in zip(panels[:, 0], worlds, strict=True):
        ax.set_ylabel(world, fontsize=7.5, fontweight="bold")
    return figure


def _line(ax: Axes, cell: xarray.Dataset, i: int, name: str, ends: tuple[float, float] | None, z: float) -> None:
    """Draw a condition: its mean, the scatter of three seeds, and what is reported, z standard errors away."""
    mean, reach = float(cell[name]), style.Z95 * three_seed_error(cell, name)
    ax.plot([mean - reach, mean + reach], [i, i], color=style.COLOURS[5], linewidth=3.5, solid_capstyle="butt", zorder=2)
    ax.plot(mean, i, "o", markersize=3, color=style.COLOURS[0], zorder=4)
    if ends is None:
        return
    colour, middle = style.COLOURS[2] if abs(z) <= AGREES else style.COLOURS[1], float(np.mean(ends))
    ax.plot(ends, [i, i], color=colour, linewidth=1.2, zorder=3)
    ax.plot(middle, i, "D", markersize=3.2, color=colour, zorder=5)
    if abs(z) > AGREES:
        look: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 5.5, "color": colour}
        ax.annotate(f"{z:+.1f}" if abs(z) < 10 else f"{'+' if z > 0 else '-'}>10", (middle, i), xytext=(0, 3), **look)


def _legend() -> list[Any]:
    return [
        Line2D([], [], marker="o", linestyle="none", markersize=3.5, color=style.COLOURS[0], label="simulated mean"),
        Line2D([], [], color=style.COLOURS[5], linewidth=3.5, label="where 95 % of means of three seeds fall"),
        Line2D([], [], marker="D", linestyle="none", markersize=3.5, color=style.COLOURS[2], label="reported, within 2 standard errors"),
        Line2D([], [], marker="D", linestyle="none", markersize=3.5, color=style.COLOURS[1], label="farther: how many"),
    ]


def _caption(off: list[float]) -> str:
    near = sum(abs(z) <= AGREES for z in off)
    words = [f"{near} of {len(off)} reported values lie within two standard errors of a mean of three seeds (Δ clean: of a difference)."]
    words.append("Each seed draws its own tasks here; on common tasks evals scatter less. A reported range is drawn from end to end.")
    words.append("The worlds are first fits to these very values, not an independent test of them.")
    return " ".join(words)
