"""The phase diagram of judges: where the curator works, where it is blind, where it retires everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from sim.figures import style
from sim.figures.axes import FP, PF, axis_label, pi_tau, setting, settings, variable_label
from sim.figures.axes import split as fix

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = ("retired", "synthesised", "wrongly_retired", "harmful_final", "delta_clean")
LETTER: Final = 0.03  # room for a letter of a region's name along a panel, and for a line of it
LINE: Final = 0.055


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but the two error rates."""
    return fix(data, [d for d in (setting(data, FP), setting(data, PF)) if d])


def draw(data: xarray.Dataset) -> Figure:
    """Draw four maps of the plane of judges, and the governable rectangle over them.

    Parameters
    ----------
    data
        ``retired``, ``synthesised``, ``wrongly_retired``, ``harmful_final``, ``delta_clean`` over two axes of numbers that set
        rho_fp and rho_pf, and no others.
    """
    x, y = setting(data, FP), setting(data, PF)
    assert x is not None, "a plane needs rho_fp"
    assert y is not None, "a plane needs rho_pf"
    data = data.transpose(y, x, ...)
    pi = pi_tau(data)
    figure, panels = style.page(
        2,
        2,
        3.45,
        f"{data.attrs.get('sweep', 'result')}: what the curator does under every judge",
        settings(data),
        _caption(pi),
    )
    written = data["synthesised"].values
    share = np.divide(data["retired"].values, written, out=np.full(written.shape, np.nan), where=written > 0)
    maps = [(share, "skills retired, as a share of skills written", "fraction")]
    maps += [(data[name].values, *_title(data, name)) for name in VARIABLES[2:]]
    for k, (ax, (z, title, unit)) in enumerate(zip(panels.flat, maps, strict=True)):
        centred = k == 3
        mesh = style.heat(ax, data[x].values, data[y].values, z, style.norm([z], centred), centred, size=7.0 if k else 0.0)  # names instead
        style.colour_bar(figure, mesh, ax)
        _regions(ax, pi, names=k == 0, dark=centred)
        ax.set_title(f"{title} ({unit})", loc="left", fontsize=9.5, pad=18 if k < 2 and pi is not None else 6)
    for ax in panels[-1]:
        ax.set_xlabel(axis_label(data, x))
    for ax in panels[:, 0]:
        ax.set_ylabel(axis_label(data, y, 42))
    return figure


def _title(data: xarray.Dataset, name: str) -> tuple[str, str]:
    short = {
        "wrongly_retired": "skills retired though they help on-topic",
        "harmful_final": "skills on the shelf at the end that hurt on-topic",
    }
    what, unit = variable_label(data, name)
    return short.get(name, what), unit


def rectangle(ax: Axes, pi: float | None, dark: bool = False) -> tuple[str, list[Any]]:
    """Draw the edges of the governable rectangle and where the judge turns worse than a coin; return the ink and its halo.

    Parameters
    ----------
    ax
        With its limits set; x is rho_fp and y rho_pf.
    pi
        pi_tau, or None if cells differ in it: then there is no rectangle.
    dark
        Whether the ink is dark, for maps that are pale in the middle.
    """
    ink = style.INK if dark else "white"
    halo = [withStroke(linewidth=2.2, foreground="white" if dark else style.INK, alpha=0.55)]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    ax.plot([0, 1], [1, 0], color=ink, linewidth=0.9, linestyle=(0, (1, 2)), path_effects=halo, scalex=False, scaley=False)
    if pi is None:
        return ink, halo
    inside_x, inside_y = left < pi < right, low < 1 - pi < high
    look: dict[str, Any] = {"color": ink, "linewidth": 1.8, "path_effects": halo, "solid_capstyle": "butt"}
    if inside_x:
        ax.plot([pi, pi], [low, min(high, 1 - pi)], scalex=False, scaley=False, **look)
        ax.plot([pi, pi], [min(high, 1 - pi), high], scalex=False, scaley=False, **{**look, "linewidth": 0.8})
    if inside_y:
        ax.plot([left, min(right, pi)], [1 - pi, 1 - pi], scalex=False, scaley=False, **look)
        ax.plot([min(right, pi), right], [1 - pi, 1 - pi], scalex=False, scaley=False, **{**look, "linewidth": 0.8})
    return ink, halo


def _regions(ax: Axes, pi: float | None, names: bool, dark: bool) -> None:
    """Draw the rectangle and name the regions."""
    ink, halo = rectangle(ax, pi, dark)
    if pi is None or not names or "log" in (ax.get_xscale(), ax.get_yscale()):
        return  # on a log scale the regions have no room for names
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    inside_x, inside_y = left < pi < right, low < 1 - pi < high
    label: dict[str, Any] = {"textcoords": "offset points", "va": "bottom", "fontsize": 8.5}
    if inside_x:
        top: dict[str, Any] = {**label, "xycoords": ("data", "axes fraction"), "ha": "center"}
        ax.annotate(rf"$\pi_\tau$ = {pi:.3g}", (pi, 1), xytext=(0, 3), **top)
    if inside_y:
        side: dict[str, Any] = {**label, "ha": "right", "color": ink, "path_effects": halo}
        ax.annotate(rf"$1-\pi_\tau$ = {1 - pi:.3g}", (right, 1 - pi), xytext=(-4, 3), **side)
    middle_x, middle_y = np.clip(pi, left, right), np.clip(1 - pi, low, high)
    # Two names stand in corners, because the dotted line runs through the middle of their regions.
    regions = {
        "governable": (left, middle_x, low, middle_y, "center", "center"),
        "blind": (middle_x, right, low, middle_y, "left", "bottom"),
        "indiscriminate": (left, middle_x, middle_y, high, "right", "top"),
        "worse than\na coin": (middle_x, right, middle_y, high, "center", "center"),
    }
    for word, (x0, x1, y0, y1, ha, va) in regions.items():
        lines = word.split("\n")
        long, thick = LETTER * max(map(len, lines)), LINE * (len(lines) + 1)
        wide, tall = (x1 - x0) / (right - left), (y1 - y0) / (high - low)
        upright = wide < long  # then the name stands on end, in the middle
        if upright:
            ha, va = "center", "center"
        if (wide > thick and tall > long) if upright else tall > thick:
            at = {"left": x0, "center": (x0 + x1) / 2, "right": x1}[ha], {"bottom": y0, "center": (y0 + y1) / 2, "top": y1}[va]
            shift = {"left": 7, "center": 0, "right": -7}[ha], {"bottom": 7, "center": 0, "top": -7}[va]
            look: dict[str, Any] = {
                "rotation": 90 if upright else 0,
                "fontsize": 10,
                "fontweight": "bold",
                "color": ink,
                "path_effects": halo,
                "linespacing": 1.1,
            }
            ax.annotate(word, at, xytext=shift, textcoords="offset points", ha=ha, va=va, **look)


def _caption(pi: float | None) -> str:
    words = [r"Dotted: $\kappa=1-\rho_{fp}-\rho_{pf}=0$; above it the judge is worse than a coin."]
    words.append("Grey: no value. Pointed colour bar: some values lie beyond.")
    if pi is not None:
        words.append(
            r"Rectangle: governable judges, $\rho_{fp}<\pi_\tau$ and $\rho_{pf}<1-\pi_\tau$ with $\pi_\tau=(1-\tau)/2$."
            " Its edges hold given enough trials."
        )
    return " ".join(words)
