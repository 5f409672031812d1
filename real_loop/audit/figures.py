"""Figures of an audit: judges on the plane with the governable rectangle, and what each flags by class of defect."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from real_loop.audit import curve_figure
from real_loop.audit.words import percent, short
from sim.figures import style
from sim.figures.plane import rectangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from real_loop.audit.scores import Scores

LISTED: Final = 12  # judges beside the plane
ROOMY: Final = 6  # judges up to which each has a line for each rate
PANELS: Final = 6  # judges whose classes are drawn
BARS: Final = 24  # classes in a panel
GRID: Final = 240  # cells of a posterior along each axis
GREEN: Final = "#e3f1ea"  # of the governable rectangle
SHADE: Final = {"go": style.COLOURS[2], "no-go": style.COLOURS[1], "undetermined": style.COLOURS[4]}


def draw(found: dict[str, Any], folder: Path, curves: Mapping[str, Scores | None] | None = None) -> list[Path]:
    """Draw an audit from its JSON values (:func:`real_loop.audit.main.audited`); return the files written, PNG and SVG of each figure.

    ``curves`` are of the judges with scores, by name.

    Raises
    ------
    InputError
        They cannot be written.
    """
    judges = [judge for judge in found["judges"] if judge["rho_fp"] is not None]
    if not judges:
        return []
    lines = {name: scores for name, scores in (curves or {}).items() if scores is not None}
    with style.context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a script that the font lacks: boxes in the figure say so
        written = style.save(plane(found, judges), folder, "plane")
        if any(group["class"] for judge in judges for group in judge["classes"]):
            written += style.save(classes(found, judges), folder, "classes")
        for i, (name, scores) in enumerate(list(lines.items())[:LISTED], 1):
            title = f"{_text(name, 60)}: the threshold on the score that makes the best curator"
            page = curve_figure.draw(scores, found["controller"]["tau"], title, _subtitle(found))
            written += style.save(page, folder, "curve" if len(lines) == 1 else f"curve_{i}")
    return written


def _text(name: str, letters: int = 28) -> str:
    """Return a name as matplotlib takes it: a dollar sign would begin a formula."""
    return short(name or "the judge", letters).replace("$", r"\$")


def _subtitle(found: dict[str, Any]) -> str:
    c = found["controller"]
    source = short(Path(found["source"]).name, 60).replace("$", r"\$") or "verdicts"
    return f"{source}: {found['rows']:,} rows  ·  tau = {c['tau']:g}, n_min = {c['n_min']}, cap = {c['cap']}"


def _colour(judge: dict[str, Any]) -> str:
    return SHADE[judge["verdict"].split(":")[0]]


# ---------------------------------------------------------------- the plane


def plane(found: dict[str, Any], judges: list[dict[str, Any]]) -> Figure:
    """Draw judges on the plane: the region of joint confidence, the intervals, the edges; and a list beside it."""
    sure, pi = percent(found["confidence"]), judges[0]["pi_tau"]
    caption = (
        rf"Green: governable judges, $\rho_{{fp}}<\pi_\tau$ and $\rho_{{pf}}<1-\pi_\tau$, given enough trials (RT section 4.1). "
        f"Dotted: κ = 0. Ellipse: the smallest region that holds {sure} of the posterior of both rates (Jeffreys' prior; counts "
        f"deflated by the design effect). Cross: the {sure} interval of each rate, the widest of exact, bootstrap and clustered, which "
        "the verdict goes by. A bar across the plane: a rate without cases."
    )
    title = "audit: can this judge govern a library?" if len(judges) == 1 else "audit: which of these judges can govern a library?"
    figure, panels = style.page(1, 2, 4.5, title, _subtitle(found), caption, sharex=False)
    ax, beside = panels[0]
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    for side in ("top", "right"):
        ax.spines[side].set_visible(True)
    ax.add_patch(Rectangle((0, 0), pi, 1 - pi, facecolor=GREEN, edgecolor="none", zorder=0))
    rectangle(ax, pi, dark=True)
    ax.set_xlabel(r"$\rho_{fp}$: hidden failures, P(observed pass | true fail)")
    ax.set_ylabel(r"$\rho_{pf}$: phantom failures, P(observed fail | true pass)")
    _names(ax, pi)
    for i, judge in enumerate(judges):
        _judge(ax, judge, found["confidence"], "" if len(judges) == 1 else str(i + 1), len(judges) > ROOMY)
    _list(beside, judges, pi)
    return figure


def _names(ax: Axes, pi: float) -> None:
    """Name the regions, each in its upper right corner, where few judges are and no line is, and the edges."""
    look: dict[str, Any] = {"fontsize": 8.5, "color": style.GREY, "style": "italic", "zorder": 1, "textcoords": "offset points"}
    corners = {"governable": (pi, 1 - pi), "blind": (1, 1 - pi), "indiscriminate": (pi, 1), "blind and\nindiscriminate": (1, 1)}
    for word, at in corners.items():
        ax.annotate(word, at, xytext=(-6, -6), ha="right", va="top", **look)
    edge: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8.5, "xycoords": "axes fraction", "annotation_clip": False}
    ax.annotate(rf"$\pi_\tau$ = {pi:.3g}", (pi, 1), xytext=(0, 3), ha="center", va="bottom", **edge)
    ax.annotate(rf"$1-\pi_\tau$ = {1 - pi:.3g}", (1, 1 - pi), xytext=(4, 0), ha="left", va="center", rotation=90, **edge)


def _judge(ax: Axes, judge: dict[str, Any], confidence: float, label: str, many: bool) -> None:
    """Draw a judge: its region, its cross, its number; or a bar across the plane where a rate is unknown."""
    colour, (fp, pf) = _colour(judge), (judge["rho_fp"], judge["rho_pf"])
    line: dict[str, Any] = {"color": colour, "linewidth": 1.3, "zorder": 5, "scalex": False, "scaley": False, "solid_capstyle": "butt"}
    if fp["value"] is None or pf["value"] is None:
        if fp["value"] is not None:
            ax.axvspan(*fp["used"], color=colour, alpha=0.25, linewidth=0, zorder=3)
            ax.plot([fp["value"]] * 2, [0, 1], **line)
        if pf["value"] is not None:
            ax.axhspan(*pf["used"], color=colour, alpha=0.25, linewidth=0, zorder=3)
            ax.plot([0, 1], [pf["value"]] * 2, **line)
        return
    x, y, inside = _region(fp, pf, confidence)
    ax.contourf(x, y, inside, levels=[1.0, np.inf], colors=[colour], alpha=0.12 if many else 0.28, zorder=3)
    ax.contour(x, y, inside, levels=[1.0], colors=[colour], linewidths=0.9, zorder=4)
    ax.plot(fp["used"], [pf["value"]] * 2, **line)
    ax.plot([fp["value"]] * 2, pf["used"], **line)
    ax.plot(fp["value"], pf["value"], "o", color=colour, markersize=6, markeredgecolor="white", zorder=6, clip_on=False)
    if label:
        halo = [withStroke(linewidth=2.0, foreground="white")]
        right, above = fp["value"] < 0.93, pf["value"] < 0.93
        place: dict[str, Any] = {
            "xytext": (5 if right else -5, 4 if above else -4),
            "ha": "left" if right else "right",
            "va": "bottom" if above else "top",
        }
        at = (fp["value"], pf["value"])
        ax.annotate(
            label, at, textcoords="offset points", fontsize=9, fontweight="bold", color=style.INK, path_effects=halo, zorder=7, **place
        )


def _region(fp: dict[str, Any], pf: dict[str, Any], confidence: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a grid, and the posterior on it over the level above which the smallest region of this confidence lies; shape (y, x)."""
    from scipy.stats import beta

    axes, masses = [], []
    for rate in (fp, pf):
        k = rate["value"] * rate["n_effective"]
        posterior = beta(k + 0.5, rate["n_effective"] - k + 0.5)
        low, high = posterior.ppf(1e-5), posterior.isf(1e-5)
        low, high = (0.0 if low < 0.02 else low), (1.0 if high > 0.98 else high)
        ends = np.linspace(low, high, GRID + 1)
        axes.append((ends[1:] + ends[:-1]) / 2.0)
        masses.append(np.diff(posterior.cdf(ends)))
        for side, end in ((0, 0.0), (-1, 1.0)):  # the outermost cells reach to the frame
            if abs(ends[side] - end) < 1e-12:
                axes[-1][side] = end
    mass = np.outer(masses[1], masses[0])
    ordered = np.sort(mass.ravel())[::-1]
    level = ordered[np.searchsorted(np.cumsum(ordered), confidence * mass.sum())]
    return axes[0], axes[1], mass / level


def _list(ax: Axes, judges: list[dict[str, Any]], pi: float) -> None:
    """Write what each judge is, its rates and its verdict."""
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(-1, 0)
    shown, roomy = judges[:LISTED], len(judges) <= ROOMY
    lines = 3 if roomy else 2
    step, y = min(1.0 / (lines * len(shown) + 5), 0.06), -0.02
    for i, judge in enumerate(shown, 1):
        if len(judges) > 1:
            ax.text(0.0, y, str(i), fontsize=8.5, fontweight="bold", va="top")
        ax.text(0.06, y, _text(judge["judge"], 22), fontsize=8.5, fontweight="bold", va="top")
        ax.text(1.0, y, judge["verdict"], fontsize=8, color=_colour(judge), fontweight="bold", va="top", ha="right")
        words = [_measured(judge, name, symbol, roomy) for name, symbol in (("rho_fp", r"$\rho_{fp}$"), ("rho_pf", r"$\rho_{pf}$"))]
        for j, line in enumerate(words if roomy else [";  ".join(words)], 1):
            ax.text(0.06, y - j * step, line, fontsize=7.5, color=style.GREY, va="top")
        y -= lines * step
    if len(judges) > LISTED:
        ax.text(0.06, y, f"and {len(judges) - LISTED} more, in report.txt", fontsize=7.5, color=style.GREY, va="top")
        y -= step
    y -= 0.5 * step
    for verdict, colour in SHADE.items():
        about = {"go": "both intervals inside", "no-go": "an interval wholly past its edge", "undetermined": "an interval on both sides"}[
            verdict
        ]
        ax.text(0.06, y, f"{verdict}: {about}", fontsize=7.5, color=colour, va="top")
        y -= step


def _measured(judge: dict[str, Any], name: str, symbol: str, counts: bool) -> str:
    """Return a rate with its interval, and what it is measured on."""
    rate, cases = judge[name], "true fails" if name == "rho_fp" else "true passes"
    if rate["value"] is None:
        return f"{symbol} unknown: no {cases}"
    low, high = rate["used"]
    if not counts:
        return f"{symbol} {rate['value']:.2f} [{low:.2f}, {high:.2f}]"
    return f"{symbol} {rate['value']:.3f} [{low:.3f}, {high:.3f}]: {rate['k']:,} of {rate['n']:,} {cases}"


# ---------------------------------------------------------------- by class


def classes(found: dict[str, Any], judges: list[dict[str, Any]]) -> Figure:
    """Draw what share of each class a judge flags, true fails above and true passes below, a panel per judge."""
    shown, sure = judges[:PANELS], percent(found["confidence"])
    most = max(min(len(judge["classes"]), BARS) for judge in shown)
    across = min(len(shown), 3)
    down = -(-len(shown) // across)
    caption = (
        f"Whiskers: {sure} intervals, the widest of exact, bootstrap and clustered. Dashed: "
        rf"$1-\pi_\tau$ = {1 - judges[0]['pi_tau']:.3g}. True fails must be flagged more often than that, or skills that fail so are never "
        "retired; true passes less often, or every skill is."
    )
    caption += f" {len(judges) - PANELS} more judges are in report.txt." if len(judges) > PANELS else ""
    legend = [
        Line2D([], [], marker="s", linestyle="", color=style.COLOURS[0], label="true fails"),
        Line2D([], [], marker="s", linestyle="", color=style.COLOURS[5], label="true passes"),
    ]
    height = 0.75 + 0.27 * most
    title = "audit: what the judge flags" if len(judges) == 1 else "audit: what the judges flag"
    page: dict[str, Any] = {"xlabel": "share that the judge fails", "legend": legend}
    figure, panels = style.page(down, across, height, title, _subtitle(found), caption, **page)
    for ax in panels.flat[len(shown) :]:
        ax.set_axis_off()
    for i, (ax, judge) in enumerate(zip(panels.flat, shown, strict=False)):
        _bars(ax, judge, most, names=i % across == 0 or _labels(judge) != _labels(shown[i - 1]))
        if len(judges) > 1:
            ax.set_title(f"{_text(judge['judge'], 26)}\n{judge['verdict']}", loc="left", fontsize=8.5)
    return figure


def _labels(judge: dict[str, Any]) -> list[str]:
    bare = {"fail": "all true fails", "pass": "all true passes"}
    alone = all(not group["class"] for group in judge["classes"])
    other = bare if alone else {"fail": "other true fails", "pass": "true passes"}
    return [_text(g["class"], 26) if g["class"] else other[g["truth"]] for g in judge["classes"][:BARS]]


def _bars(ax: Axes, judge: dict[str, Any], rows: int, names: bool) -> None:
    groups = judge["classes"][:BARS]
    ax.set_xlim(0, 1)
    ax.set_ylim(rows - 0.4, -0.6)
    ax.grid(axis="x")
    for y, group in enumerate(groups):
        fail = group["truth"] == "fail"
        colour = style.COLOURS[0] if fail else style.COLOURS[5]
        if group["value"] is not None:
            value, (low, high) = group["value"], group["used"]
            if fail:
                value, low, high = 1 - value, 1 - high, 1 - low
            ax.barh(y, value, height=0.62, color=colour, alpha=0.85, zorder=2)
            ax.plot([low, high], [y, y], color=style.INK, linewidth=1.1, zorder=3, solid_capstyle="butt")
            ax.plot([low, high], [y, y], "|", color=style.INK, markersize=5, zorder=3)
        ax.annotate(
            f"{group['flagged']}/{group['n']}", (1, y), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
            fontsize=7.5, color=style.GREY, va="center", annotation_clip=False,
        )  # fmt: skip
    ax.axvline(1 - judge["pi_tau"], color=style.INK, linewidth=1.1, linestyle=(0, (4, 2)), zorder=4)
    ax.set_yticks(range(len(groups)), _labels(judge) if names else [""] * len(groups))
    ax.tick_params(axis="y", length=0)
