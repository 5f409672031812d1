"""The figure of a judge that scores: its curve on the plane of judges, the governable rectangle, and the threshold chosen."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from real_loop.audit.curve import Chosen, Curve
from real_loop.audit.scores import Scores, shown
from sim.figures import style
from sim.figures.plane import rectangle
from sim.theory import pi_tau

BLUE, RED, GREEN, PINK = style.COLOURS[:4]
LABELS: Final = 7  # thresholds named along the curve
APART: Final = 0.11  # of the panel, between two of them, and between a name and a point


def draw(found: Scores, tau: float, title: str, subtitle: str = "") -> Figure:
    """Draw the curve on the plane, x rho_fp and y rho_pf.

    Parameters
    ----------
    found
        Of one judge.
    tau
        Whose rectangle is drawn.
    title, subtitle
        Of the page; plain text.
    """
    pi, at = float(pi_tau(tau)), found.at_tau
    own = found.chosen if found.chosen.threshold != at.threshold else None
    figure, panels = style.page(1, 1, 5.6, title, subtitle, _caption(found), legend=_legend(found, tau, own))
    ax = panels[0, 0]
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    ax.grid(True)
    ax.fill_between([0, pi], 0, 1 - pi, color=GREEN, alpha=0.10, linewidth=0)
    rectangle(ax, pi, dark=True)
    for x, y, dx, dy, ha, va, word in (
        (pi, 1, 3, -4, "left", "top", rf"$\pi_\tau$ = {pi:.3g}"),
        (1, 1 - pi, 0, 3, "right", "bottom", rf"$1-\pi_\tau$ = {1 - pi:.3g}"),
    ):
        ax.annotate(word, (x, y), xytext=(dx, dy), textcoords="offset points", ha=ha, va=va, fontsize=8.5)
    ax.plot(found.curve.rho_fp, found.curve.rho_pf, color=BLUE, linewidth=1.6, zorder=3)
    points = [_held(ax, chosen, colour, mark) for chosen, colour, mark in ((at, RED, "o"), (own, PINK, "s")) if chosen is not None]
    if found.verdicts is not None:
        point = (found.verdicts.rho_fp, found.verdicts.rho_pf)
        ax.plot(*point, "*", color=style.INK, markersize=12, markeredgecolor="white", zorder=6)
        points.append(point)
    _thresholds(ax, found.curve, points)
    ax.set_xlabel(r"$\rho_{fp}$: P(observed pass | true fail)")
    ax.set_ylabel(r"$\rho_{pf}$: P(observed fail | true pass)")
    return figure


def _held(ax: Axes, chosen: Chosen, colour: str, mark: str) -> tuple[float, float]:
    """Draw a threshold on the curve, hollow, and where it is on held-out tasks, with the intervals used; return the latter."""
    fp, pf = chosen.held_out.rho_fp, chosen.held_out.rho_pf
    assert fp.value is not None
    assert pf.value is not None
    x, y = fp.value, pf.value
    bars: dict[str, Any] = {"color": colour, "linewidth": 1.3, "capsize": 2.5, "zorder": 5}
    ax.errorbar(x, y, xerr=[[x - fp.used.low], [fp.used.high - x]], yerr=[[y - pf.used.low], [pf.used.high - y]], **bars)
    ax.plot(*chosen.in_sample, mark, color="white", markeredgecolor=colour, markersize=7, markeredgewidth=1.4, zorder=5)
    ax.plot(x, y, mark, color=colour, markersize=7, zorder=6)
    return x, y


def _thresholds(ax: Axes, curve: Curve, taken: list[tuple[float, float]]) -> None:
    """Name some thresholds along the curve, none near a point or another name."""
    x, y = curve.rho_fp, curve.rho_pf
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    places = list(taken)
    for share in np.linspace(0.0, 1.0, LABELS + 2)[1:-1]:
        i = int(np.searchsorted(along, share * along[-1]))
        if not np.isfinite(curve.threshold[i]) or any(np.hypot(x[i] - a, y[i] - b) < APART for a, b in places):
            continue
        places.append((float(x[i]), float(y[i])))
        halo = [withStroke(linewidth=2.2, foreground="white")]
        ax.plot(x[i], y[i], "o", color=BLUE, markersize=3.5, zorder=4)
        look: dict[str, Any] = {"fontsize": 8, "color": BLUE, "path_effects": halo, "zorder": 7, "textcoords": "offset points"}
        room = x[i] > 1.3 * APART  # left of the curve, below it; near the axis on the other side
        side: dict[str, Any] = (
            {"ha": "right", "va": "top", "xytext": (-4, -3)} if room else {"ha": "left", "va": "bottom", "xytext": (4, 3)}
        )
        ax.annotate(shown(float(curve.threshold[i])), (x[i], y[i]), **side, **look)


def _legend(found: Scores, tau: float, own: Chosen | None) -> list[Line2D]:
    at = found.at_tau
    bare: dict[str, Any] = {"linestyle": "none", "markersize": 7}
    auc = f"all thresholds, AUC {found.curve.auc:.3f}"
    if found.auc_interval is not None:
        auc += f" ({found.auc_interval.low:.3f} to {found.auc_interval.high:.3f})"
    out = [Line2D([], [], color=BLUE, linewidth=1.6, label=auc)]
    out.append(Line2D([], [], marker="o", color=RED, label=f"pass from {shown(at.threshold)} on, best at tau = {tau:g}", **bare))
    if own is not None:
        with_tau = "" if own.tau is None else f" (tau = {own.tau:g})"
        out.append(
            Line2D([], [], marker="s", color=PINK, label=f"pass from {shown(own.threshold)} on, best with its own tau{with_tau}", **bare)
        )
    if found.verdicts is not None:
        out.append(Line2D([], [], marker="*", color=style.INK, label="the judge's own verdicts", **{**bare, "markersize": 10}))
    return out


def _caption(found: Scores) -> str:
    unit = found.at_tau.unit
    return (
        f"Shaded: governable, given enough trials. Filled marks: rates on held-out {unit}s with their intervals, the widest of exact, "
        f"bootstrap and clustered; hollow: the same threshold on the {unit}s it was chosen on. "
        r"Numbers along the curve: thresholds; a case passes if its score is at least that. Dotted: $\kappa=0$, a coin."
    )
