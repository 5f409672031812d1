"""How figures look: colours, sizes, the page around the panels, heat maps; and how they are saved.

Matplotlib's settings are changed only inside :func:`context`, which starts from its defaults, so that neither a user's own
settings nor a program's leak in or out.
"""

from __future__ import annotations

import contextlib
import io
import os
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox

from sim.errors import InputError
from sim.figures.axes import edges, is_geometric, spread, text

# Okabe and Ito's palette, told apart with any colour vision; its yellow is too pale for lines on white.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK: Final = "#222222"
GREY: Final = "#5f5f5f"
MISSING: Final = "#d9d9d9"
SEQUENTIAL: Final = ListedColormap(matplotlib.colormaps["viridis"](np.linspace(0.0, 0.88, 256)))  # white lines show on all of it
DIVERGING: Final = "RdBu"
WIDTH: Final = 9.0  # inches
DPI: Final = 150
Z95: Final = 1.96  # standard errors on either side of a mean

_SETTINGS: Final = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#888888",
    "axes.linewidth": 0.7,
    "axes.labelsize": 8.5,
    "axes.titlesize": 9.5,
    "axes.titlepad": 6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "xtick.color": "#888888",
    "ytick.color": "#888888",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "mathtext.default": "regular",
    "svg.hashsalt": "halfblind",  # the same identifiers each time
    "svg.fonttype": "path",
}


@contextlib.contextmanager
def context() -> Iterator[None]:
    """Use this project's settings of matplotlib while drawing and saving, and put back those there were."""
    with matplotlib.style.context(_SETTINGS, after_reset=True):
        yield


# ---------------------------------------------------------------- pages


def page(
    rows: int,
    columns: int,
    panel_height: float,
    title: str,
    subtitle: str,
    caption: str,
    *,
    xlabel: str = "",
    legend: Sequence[Any] = (),
    sharex: bool = True,
    ratios: Sequence[float] | None = None,
) -> tuple[Figure, np.ndarray]:
    """Return a figure with room around its panels for a title, a legend, the name of the x axis and a caption.

    Parameters
    ----------
    rows, columns, panel_height
        Of the panels; inches.
    title, subtitle, caption, xlabel
        Texts; the caption and the subtitle are wrapped.
    legend
        Handles of a legend of one line under the subtitle.
    sharex
        Whether the panels of a column share their x axis.
    ratios
        Heights of the rows relative to each other; all alike by default.

    Returns
    -------
    figure
        The figure.
    panels
        Its axes, shape (rows, columns).
    """
    under, below = textwrap.wrap(subtitle, 128), textwrap.wrap(caption, 158)
    longest = max((len(str(handle.get_label())) for handle in legend), default=0)
    across = len(legend) if sum(len(str(handle.get_label())) + 6 for handle in legend) <= 125 else max(1, 125 // (longest + 6))
    top = 0.40 + 0.18 * len(under) + 0.04 + (0.11 + 0.19 * -(-len(legend) // across) if legend else 0.0)
    bottom = 0.10 + 0.155 * len(below) + (0.22 if xlabel else 0.0)
    height = top + rows * panel_height + bottom
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    rect = (0.006, bottom / height, 0.988, 1 - (top + bottom) / height)
    figure.set_layout_engine("constrained", rect=rect, w_pad=0.04, h_pad=0.04, wspace=0.02, hspace=0.02)
    left = 0.1 / WIDTH
    figure.text(left, 1 - 0.12 / height, title, ha="left", va="top", fontsize=12, fontweight="bold")
    figure.text(left, 1 - 0.38 / height, "\n".join(under), ha="left", va="top", fontsize=8.5, color=GREY, linespacing=1.3)
    figure.text(left, 0.08 / height, "\n".join(below), ha="left", va="bottom", fontsize=7.5, color=GREY, linespacing=1.3)
    if xlabel:
        figure.text(0.5, (bottom - 0.02) / height, xlabel, ha="center", va="top", fontsize=9)
    if legend:
        place = (left, 1 - (0.45 + 0.18 * len(under)) / height)
        look: dict[str, Any] = {"handlelength": 1.6, "handletextpad": 0.5, "columnspacing": 1.5, "borderpad": 0, "borderaxespad": 0.2}
        labels = [str(handle.get_label()) for handle in legend]
        box = figure.legend(list(legend), labels, loc="upper left", bbox_to_anchor=place, ncols=across, **look)
        box.set_in_layout(False)
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=sharex, height_ratios=ratios)


def line_style(i: int, n: int) -> dict[str, Any]:
    """Return the look of the i-th of n lines: earlier ones are wider, so that lines in one place all show."""
    width = 1.3 if n <= 1 else 2.0 - 1.1 * i / (n - 1)
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": "-" if i < len(COLOURS) else (0, (4, 1.2)), "linewidth": width}


def band(ax: Axes, x: np.ndarray, mean: np.ndarray, se: np.ndarray, style: dict[str, Any], markers: bool) -> None:
    """Draw means as a line over a band of 1.96 standard errors on either side."""
    ax.fill_between(x, mean - Z95 * se, mean + Z95 * se, color=style["color"], alpha=0.28, linewidth=0.5, zorder=2)
    ax.plot(x, mean, marker="o" if markers else None, markersize=3, zorder=3, **style)


def value_axis(ax: Axes, values: np.ndarray, which: str, room: int = 9) -> bool:
    """Scale an axis to the values it shows: log, with ticks at values, if they are roughly geometric. Return whether it is."""
    log = is_geometric(values)
    axis = ax.xaxis if which == "x" else ax.yaxis
    whole = bool(np.all(np.asarray(values) == np.round(values)))
    if log:
        (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    if log or (len(values) <= room and whole):
        ticks = _apart([float(values[i]) for i in spread(len(values), room)], room if log else 0)
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FixedFormatter([f"{t:.2g}" if log and t < 1 else text(t) for t in ticks]))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(min(room, 6), steps=[1, 2, 2.5, 5, 10]))
    return log


def _apart(ticks: list[float], room: int) -> list[float]:
    """Leave out ticks of a log axis that would touch the one before: nearer than half of an equal share. 0: leave out none."""
    if not room:
        return ticks
    least = 0.5 * np.log(ticks[-1] / ticks[0]) / room
    kept = ticks[:1]
    for tick in ticks[1:]:
        if np.log(tick / kept[-1]) >= least:
            kept.append(tick)
    return kept


def plain_ticks(ax: Axes, room: int) -> None:
    """Put at most this many ticks on the x axis of a narrow panel."""
    ax.xaxis.set_major_locator(MaxNLocator(room, steps=[1, 2, 2.5, 5, 10]))


# ---------------------------------------------------------------- heat maps


def norm(arrays: Sequence[np.ndarray], centred: bool) -> Normalize:
    """Return the colour scale for arrays: from zero or below to their largest value; or alike on both sides of zero.

    The latter leaves out the farthest 2 % of the values, lest an extreme corner bleach all else.
    """
    values = np.concatenate([np.ravel(a) for a in arrays])
    values = values[np.isfinite(values)]
    if centred:
        far = float(np.quantile(np.abs(values), 0.98, method="higher")) if values.size else 0.0
        return CenteredNorm(0.0, far or 1.0)
    low, high = (min(0.0, float(values.min())), float(values.max())) if values.size else (0.0, 1.0)
    return Normalize(low, high if high > low else low + 1.0)


def heat(
    ax: Axes, x: np.ndarray, y: np.ndarray, z: np.ndarray, scale: Normalize, centred: bool, size: float = 7.0, *, contour: bool = True
) -> Any:
    """Draw cells at their true places, and contour lines over them.

    Parameters
    ----------
    x, y
        Ascending values, shapes (n,) and (m,). The scales of the axes are set from them.
    z
        Values, shape (m, n). Those that are not finite are left grey.
    scale, centred
        From :func:`norm`.
    size
        Of the labels on the contour lines, points; none if 0.
    contour
        Whether there are contour lines.

    Returns
    -------
    mappable
        For a colour bar.
    """
    log_x, log_y = value_axis(ax, x, "x", 6), value_axis(ax, y, "y")
    ax.set_facecolor(MISSING)
    for side in ("top", "right"):
        ax.spines[side].set_visible(True)
    z = np.ma.masked_invalid(z)
    colours = DIVERGING if centred else SEQUENTIAL
    # As an image also in SVG: thousands of polygons are slow, and show hairlines between them.
    mesh = ax.pcolormesh(edges(x, log_x), edges(y, log_y), z, norm=scale, cmap=colours, rasterized=True, shading="flat")
    if contour:
        contours(ax, x, y, z, scale, centred, size)
    ax.set_xlim(float(edges(x, log_x)[0]), float(edges(x, log_x)[-1]))
    ax.set_ylim(float(edges(y, log_y)[0]), float(edges(y, log_y)[-1]))
    return mesh


def contours(ax: Axes, x: np.ndarray, y: np.ndarray, z: np.ndarray, scale: Normalize, centred: bool, size: float) -> None:
    """Draw contour lines at round values of the colour scale, where the cells reach them."""
    valid = np.ma.compressed(z)
    if min(z.shape) < 3 or valid.size < 9:
        return
    low, high = float(scale.vmin or 0.0), float(scale.vmax or 0.0)
    levels = [v for v in MaxNLocator(5).tick_values(low, high) if max(low, valid.min()) < v < min(high, valid.max())]
    if centred:
        levels = [v for v in levels if v]  # the line of zero would follow the noise; white shows where it is
    if not levels:
        return
    ink = "#444444" if centred else "white"
    lines = ax.contour(x, y, z, levels=levels, colors=ink, linewidths=0.7, alpha=0.75, linestyles="solid")
    if size and not centred:
        ax.clabel(lines, fontsize=size, fmt=lambda v: f"{v:g}", inline_spacing=2)


def colour_bar(figure: Figure, mesh: Any, panels: Any, label: str = "") -> None:
    """Put a slim colour bar to the right of panels."""
    beyond = mesh.norm.vmin > mesh.get_array().min() or mesh.norm.vmax < mesh.get_array().max()
    bar = figure.colorbar(mesh, ax=panels, shrink=0.96, aspect=24, pad=0.015, extend="both" if beyond else "neither")
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(labelsize=7.5, length=2)
    bar.locator = MaxNLocator(5)
    bar.update_ticks()
    if label:
        bar.set_label(label, fontsize=8)


# ---------------------------------------------------------------- saving


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG: the same figure gives the same bytes, and a file is replaced whole or not at all.

    Raises
    ------
    InputError
        The folder cannot be made or written, or the disk is full.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once: both files alike, in half the time
    for ax in figure.axes:  # the layout's last digits depend on addresses in memory, and names in an SVG on these digits
        ax.set_position(Bbox(np.round(ax.get_position(original=True).get_points(), 9)))
    written = []
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": "halfblind"})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata)
        written.append(replace(folder / f"{name}.{kind}", buffer.getvalue()))
    return written


def replace(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all, and return its path.

    Raises
    ------
    InputError
        The folder cannot be made or written, or the disk is full.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        why = (os.strerror(error.errno) if error.errno else str(error)).lower()
        todo = "free some space or choose another folder with out=..., then draw again: python -m sim.figures FOLDER"
        raise InputError(str(path), why, "a file that can be written", todo) from error
    return path
