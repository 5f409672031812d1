"""RT's figure 3a: what each judge makes of a true pass rate, where that crosses pi_tau, and skills of simulated runs on it.

The lines are exact: observed = kappa true + rho_fp. A point is a skill of one of the first runs of a stored sweep, played again
(:mod:`sim.lives`): the share of its trials that truly passed against the share observed as passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from sim.figures import style
from sim.figures.axes import axes, channel_axis, each, played_cell, settings, text
from sim.figures.axes import split as fix
from sim.lives import RETIRED, Life, lives
from sim.model import Cell

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = ("retired",)
RUNS: Final = 3  # first ones, whose skills are drawn
MAX_CHANNELS: Final = 5  # and a panel with all lines
COLUMNS: Final = 3


@dataclass(frozen=True)
class Judged:
    """A channel, and the skills of the runs played under it.

    Attributes
    ----------
    name
        Of the channel.
    cell
        What was played.
    skills
        Every stretch of a skill on the shelf that ended with trials: true rate, observed rate, trials, whether retired. Shape (skills, 4).
    """

    name: str
    cell: Cell
    skills: np.ndarray


def judged(part: xarray.Dataset, axis: str) -> Judged:
    """Play the first runs of one channel again."""
    cell, seed = played_cell(part)
    found: list[Life] = [life for run in range(min(RUNS, int(part["runs"]))) for life in lives(cell, seed, run)]
    stretches = [s for life in found for s in life.stretches if s.n]
    rows = [(s.passes / s.n, (1 + s.net / s.n) / 2, s.n, s.how == RETIRED) for s in stretches]
    name = text(part[axis].item())
    return Judged(name if part[axis].dtype.kind not in "fiu" else f"{axis} = {name}", cell, np.array(rows, float).reshape(-1, 4))


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but that of the channels."""
    return fix(data, [_axis(data)])


def _axis(data: xarray.Dataset) -> str:
    found = channel_axis(data)
    assert found is not None, "channels are an axis"
    return found


def draw(data: xarray.Dataset) -> Figure:
    """Draw the lines of all channels, then a panel for each with its skills.

    Parameters
    ----------
    data
        A result over one axis of channels, with the identity of its sweep, by which runs are played again.
    """
    axis = _axis(data)
    assert axes(data) == (axis,)
    channels = [judged(part, axis) for part in each(data, axis, MAX_CHANNELS)]
    rows = -(-(len(channels) + 1) // COLUMNS)
    figure, panels = style.page(
        rows,
        COLUMNS,
        2.85,
        f"{data.attrs.get('sweep', 'result')}: what a judge makes of a skill's pass rate",
        settings(data),
        _caption(channels, data.sizes[axis], min(RUNS, int(data["runs"].min()))),
        xlabel="true pass rate on the tasks routed to the skill",
        legend=_legend(),
    )
    for ax in panels.flat[len(channels) + 1 :]:
        ax.set_visible(False)
    everything = panels.flat[0]
    everything.set_title("every judge: observed = κ · true + $\\rho_{fp}$", loc="left")
    _frame(everything, channels[0].cell)
    for i, (ax, one) in enumerate(zip(panels.flat[1:], channels, strict=False)):
        _frame(ax, one.cell)
        colour = style.COLOURS[i % len(style.COLOURS)]
        _points(ax, one, colour)
        for where in (everything, ax):
            _line(where, one.cell, colour, where is everything)
        ax.set_title(_title(one), loc="left", color=colour, fontweight="bold")
        _count(ax, one)
    _name_lines(everything, channels)
    for ax in panels[:, 0]:
        ax.set_ylabel("observed pass rate")
    return figure


def _frame(ax: Axes, cell: Cell) -> None:
    """Draw pi_tau, and shade where skills are retired."""
    pi = (1 - cell.policy.tau) / 2
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.axhspan(-0.02, pi, color="#f3f0ea", zorder=0)
    ax.axhline(pi, color=style.INK, linewidth=1.1, linestyle=(0, (4, 2)), zorder=1.5)
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.tick_params(labelsize=7.5)


def _line(ax: Axes, cell: Cell, colour: str, thick: bool) -> None:
    """Draw the exact line, the band of n_min trials around it, and p* where the line crosses pi_tau."""
    a, b, pi = cell.channel.rho_fp, cell.channel.rho_pf, (1 - cell.policy.tau) / 2
    p = np.linspace(0, 1, 101)
    observed = (1 - a - b) * p + a
    if not thick:
        spread = style.Z95 * np.sqrt(((1 - p) * a * (1 - a) + p * b * (1 - b)) / cell.policy.n_min)
        ax.fill_between(p, observed - spread, observed + spread, color=colour, alpha=0.13, linewidth=0, zorder=1.2)
    ax.plot(p, observed, color=colour, linewidth=2.0 if thick else 1.2, zorder=2)
    star = crossing(cell)
    if star is not None and 0 <= star <= 1:
        ax.plot([star, star], [-0.02, pi], color=colour, linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=1.8)
        ax.plot(star, pi, "D", markersize=5.5, color=colour, markeredgecolor="white", markeredgewidth=0.8, zorder=6)


def crossing(cell: Cell) -> float | None:
    """Return p*, the true rate whose observed rate is pi_tau: below 0 nothing is retired, above 1 everything; None if kappa <= 0."""
    from sim.theory import p_star

    if 1 - cell.channel.rho_fp - cell.channel.rho_pf <= 1e-9:
        return None
    return float(p_star(cell.policy.tau, cell.channel.rho_fp, cell.channel.rho_pf))


def _points(ax: Axes, one: Judged, colour: str) -> None:
    true, observed, n, retired = one.skills.T
    tested = n >= one.cell.policy.n_min
    ax.plot(true[~tested], observed[~tested], ".", markersize=2.2, color=style.GREY, alpha=0.5, zorder=2.2, markeredgewidth=0)
    for gone, face in ((0, "white"), (1, colour)):
        here = tested & (retired == gone)
        look: dict[str, Any] = {"markerfacecolor": face, "markeredgecolor": colour, "markeredgewidth": 0.8, "linestyle": "none"}
        ax.plot(true[here], observed[here], "o", markersize=4.2, zorder=4 + gone, **look)


def _title(one: Judged) -> str:
    star = crossing(one.cell)
    where = "no p*" if star is None else "p* < 0" if star < 0 else "p* > 1" if star > 1 else f"p* = {star:.2f}"
    return f"{one.name}: {where}"


def _count(ax: Axes, one: Judged) -> None:
    """Write how many skills were retired, of those that could be."""
    tested = one.skills[one.skills[:, 2] >= one.cell.policy.n_min]
    words = f"{int(tested[:, 3].sum())} of {len(tested)} skills\nwith n_min trials retired"
    low = one.cell.channel.rho_pf > one.cell.channel.rho_fp and one.cell.channel.rho_pf > 0.5
    ax.annotate(words, (0.98, 0.97 if low else 0.03), xycoords="axes fraction", ha="right", va="top" if low else "bottom", fontsize=7.5)


def _name_lines(ax: Axes, channels: list[Judged]) -> None:
    """Write each channel's name at an end of its line, where ends are apart."""
    taken: list[float] = []
    halo = [withStroke(linewidth=3, foreground="white")]
    for i, one in enumerate(channels):
        right = 1 - one.cell.channel.rho_pf
        left = one.cell.channel.rho_fp
        look: dict[str, Any] = {"fontsize": 7.5, "color": style.COLOURS[i % len(style.COLOURS)], "fontweight": "bold", "zorder": 7}
        p = 0.5 if right < 0.3 else 0.05
        at = (1 - one.cell.channel.rho_fp - one.cell.channel.rho_pf) * p + left
        while any(abs(at - other) < 0.05 for other in taken):
            at += 0.05
        taken.append(at)
        ax.annotate(one.name, (p, at), xytext=(0, 0), textcoords="offset points", ha="left", va="center", path_effects=halo, **look)
    pi = (1 - channels[0].cell.policy.tau) / 2
    ax.annotate(rf"$\pi_\tau$ = {pi:.3g}", (1.0, pi), xytext=(0, 3), textcoords="offset points", ha="right", fontsize=8)
    ax.annotate("retired", (1.0, pi), xytext=(0, -4), textcoords="offset points", ha="right", va="top", fontsize=7.5, color=style.GREY)


def _legend() -> list[Any]:
    ink = style.INK
    return [
        Line2D([], [], marker="o", linestyle="none", markersize=4.5, color=ink, label="retired"),
        Line2D(
            [], [], marker="o", linestyle="none", markersize=4.5, markerfacecolor="white", color=ink, label="has n_min trials, not retired"
        ),
        Line2D([], [], marker=".", linestyle="none", markersize=3, color=style.GREY, label="fewer trials"),
        Line2D([], [], marker="D", linestyle="none", markersize=5, color=ink, label="p*: true rate at which skills are retired"),
    ]


def _caption(channels: list[Judged], everything: int, runs: int) -> str:
    words = [f"Skills of the first {runs} runs of each channel, played again: one point per stay on the shelf."]
    words.append("Bands: 95 % of the observed rates at n_min trials, given the true passes among them.")
    words.append("Dashed: the threshold; below it (shaded) skills with n_min trials are retired.")
    if len(channels) < everything:
        words.append(f"{len(channels)} of {everything} channels are drawn.")
    return " ".join(words)
