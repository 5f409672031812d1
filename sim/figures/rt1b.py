"""RT's figure 1b: the governable rectangle [0, pi_tau) x [0, 1 - pi_tau), with judges on it.

The judges are those of :mod:`sim.judges` that are marked to be shown, and the channels that BC injects. Colour is what the simulated
curator retires under each judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from sim.figures import style
from sim.figures.axes import FP, PF, TAU, axis_label, parameter, pi_tau, setting, settings, variable_label
from sim.figures.plane import rectangle, split
from sim.judges import REPORTED, Judge, listed

if TYPE_CHECKING:
    import xarray

__all__ = ["VARIABLES", "draw", "split"]

VARIABLES: Final = ("retired",)
INJECTED: Final = {  # BC section 6
    "clean": (0.0, 0.0),
    **{f"noise {rho:g}": (rho, rho) for rho in (0.1, 0.2, 0.3, 0.4)},
    **{f"bias {q:g}": (q, 0.0) for q in (0.2, 0.45, 0.7)},
}


def draw(data: xarray.Dataset) -> Figure:
    """Draw the plane of judges, coloured by skills retired, the rectangle and the judges; and the list of judges beside it.

    Parameters
    ----------
    data
        ``retired`` over two axes of numbers that set rho_fp and rho_pf, and no others.
    """
    x, y = setting(data, FP), setting(data, PF)
    assert x is not None, "a plane needs rho_fp"
    assert y is not None, "a plane needs rho_pf"
    data = data.transpose(y, x, ...)
    pi, judges = pi_tau(data), listed()
    title = f"{data.attrs.get('sweep', 'result')}: which judges can govern a library"
    figure, panels = style.page(1, 2, 4.7, title, settings(data), _caption(pi, judges), sharex=False)
    ax, beside = panels[0]
    z = data["retired"].values
    mesh = style.heat(ax, data[x].values, data[y].values, z, style.norm([z], False), False, contour=False)
    what, unit = variable_label(data, "retired")
    ax.set_title(f"colour: {what} ({unit})", loc="left", pad=18 if pi is not None else 6)
    ax.set_xlabel(axis_label(data, x, 48))
    ax.set_ylabel(axis_label(data, y, 48))
    style.colour_bar(figure, mesh, ax)
    ink, halo = rectangle(ax, pi)
    _names(ax, pi, ink, halo)
    _place(ax, judges)
    _list(beside, judges, parameter(data, TAU) if pi is not None else None)
    return figure


def _names(ax: Axes, pi: float | None, ink: str, halo: list[Any]) -> None:
    """Name the regions, and the two edges of the rectangle with their values."""
    if pi is None:
        return
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    look: dict[str, Any] = {"fontsize": 9, "fontweight": "bold", "color": ink, "path_effects": halo, "ha": "center", "va": "center"}
    for word, at in (
        ("governable", (0.68 * pi + 0.32 * left, 0.90 * (1 - pi) + 0.10 * low)),
        ("blind", ((pi + right) / 2 + 0.08, 0.42 * (1 - pi) + 0.58 * low + 0.2)),
        ("indiscriminate", (0.71 * pi + 0.29 * left, 0.70 * (1 - pi) + 0.30 * high)),
        ("inverted", ((pi + right) / 2, (1 - pi + high) / 2)),
    ):
        if left < at[0] < right and low < at[1] < high:
            ax.annotate(word, at, zorder=3, **look)
    edge: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8.5, "va": "bottom"}
    if left < pi < right:
        ax.annotate(rf"blind edge: $\pi_\tau$ = {pi:.3g}", (pi, 1), xycoords=("data", "axes fraction"), xytext=(0, 3), ha="center", **edge)
    if low < 1 - pi < high:
        words = rf"indiscriminate edge: $1-\pi_\tau$ = {1 - pi:.3g}"
        ax.annotate(words, (right, 1 - pi), xytext=(-4, 3), ha="right", color=ink, path_effects=halo, **edge)


def _place(ax: Axes, judges: list[Judge]) -> None:
    """Draw the judges in view: measured ones with a number and their intervals, the injected channels as squares."""
    halo = [withStroke(linewidth=2.0, foreground="white")]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    view: dict[str, Any] = {"scalex": False, "scaley": False, "clip_on": False}  # markers on the frame are whole
    line = {**view, "clip_on": True}
    for p, r in INJECTED.values():
        if not (left <= p <= right and low <= r <= high):
            continue
        ax.plot(p, r, "s", markersize=5, color="white", markeredgecolor=style.INK, markeredgewidth=1.0, zorder=5.8, **view)
    for i, judge in enumerate(judges, 1):
        if not (left <= judge.rho_fp <= right and low <= judge.rho_pf <= high):
            continue
        star = judge.name == REPORTED
        colour = style.COLOURS[1] if star else style.INK
        (x0, x1), (y0, y1) = judge.intervals
        for xs, ys in (((x0, x1), (judge.rho_pf,) * 2), ((judge.rho_fp,) * 2, (y0, y1))):
            ax.plot(xs, ys, color="white", linewidth=2.6, alpha=0.7, zorder=5.5, **line)
            ax.plot(xs, ys, color=colour, linewidth=1.2, zorder=5.6, **line)
        look: dict[str, Any] = {"markersize": 13 if star else 6.5, "color": colour, "markeredgecolor": "white", "markeredgewidth": 0.9}
        ax.plot(judge.rho_fp, judge.rho_pf, "*" if star else "o", zorder=6, **look, **view)
        beside = judge.rho_fp < 0.9
        place: dict[str, Any] = {"xytext": (5 if beside else -5, 4), "textcoords": "offset points", "ha": "left" if beside else "right"}
        ax.annotate(
            str(i), (judge.rho_fp, judge.rho_pf), fontsize=8.5, fontweight="bold", color=colour, path_effects=halo, zorder=7, **place
        )


def _list(ax: Axes, judges: list[Judge], tau: float | None) -> None:
    """Write the list of judges: what each is, its rates with their intervals, and its region, with a ? if they reach into another."""
    from sim.theory import region

    ax.set_axis_off()
    ax.set_xlim(0, 1)
    step = 1.0 / (2 * len(judges) + 5)
    ax.set_ylim(-1.0, 0.0)
    y = -step * 0.2
    for i, judge in enumerate(judges, 1):
        (x0, x1), (y0, y1) = judge.intervals
        where = "" if tau is None else str(region(tau, judge.rho_fp, judge.rho_pf))
        if tau is not None and len(set(np.ravel(region(tau, [[x0], [x1]], [y0, y1])))) > 1:
            where += "?"
        colour = style.COLOURS[1] if judge.name == REPORTED else style.INK
        ax.text(0.0, y, f"{'★' if judge.name == REPORTED else ''}{i}", fontsize=8, fontweight="bold", color=colour, va="top")
        ax.text(0.075, y, judge.name, fontsize=8, color=colour, va="top")
        ax.text(1.0, y, where, fontsize=7.5, color=style.GREY, va="top", ha="right", style="italic")
        rates = (
            f"{judge.rho_fp:.2f} [{x0:.2f}, {x1:.2f}] of {judge.n_fail:,};   {judge.rho_pf:.2f} [{y0:.2f}, {y1:.2f}] of {judge.n_pass:,}"
        )
        ax.text(0.075, y - step * 0.95, rates, fontsize=6.8, color=style.GREY, va="top")
        y -= 2 * step
    y -= 0.4 * step
    ax.text(0.0, y, "□", fontsize=8, va="top")
    ax.text(0.075, y, "injected by BC: clean; noise 0.1, 0.2, 0.3, 0.4 (both rates);", fontsize=7.5, va="top")
    ax.text(0.075, y - 0.95 * step, r"bias 0.2, 0.45, 0.7 ($\rho_{pf}$ = 0)", fontsize=7.5, va="top")
    ax.text(
        0.075,
        y - 2.1 * step,
        r"below names: $\rho_{fp}$ of true failures; $\rho_{pf}$ of true passes",
        fontsize=6.8,
        va="top",
        color=style.GREY,
    )


def _caption(pi: float | None, judges: list[Judge]) -> str:
    words = []
    if pi is not None:
        words.append(
            r"Rectangle: $\rho_{fp}<\pi_\tau$ and $\rho_{pf}<1-\pi_\tau$, the judges that can govern given enough trials (RT section 4.1)."
            " Inverted: past both edges, so κ < 0."
        )
    words.append(r"Dotted: $\kappa=1-\rho_{fp}-\rho_{pf}=0$; above it the judge is worse than a coin.")
    words.append(
        "Crosses: exact binomial 95 % intervals, from the whole numbers nearest to the reported rates; ? if they reach into another region."
    )
    words.append(
        f"{len(judges)} measured judges of the many in sim/conf/channels.csv, with sources."
        " ★: the papers' own, measured on injected and audited sections."
    )
    return " ".join(words)
