"""Which rate of hidden failures harms most: a map over the quality of skills and another axis, and the curves behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sim.figures import style
from sim.figures.axes import axis_label, each, harm_axes, settings, symbol, text
from sim.figures.axes import split as fix

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = ("delta_clean", "lift", "synthesised")
FALSE_ALARM: Final = 0.01  # of all the shapes that are told apart
MAX_LINES: Final = 5
SHAPES: Final = ("none", "hump", "grows")


class Peak(NamedTuple):
    """Where along a rate harm is greatest.

    Attributes
    ----------
    shape
        ``none``: no harm that can be told from none. ``hump``: an inverted U, the end is better than the peak. ``grows``: it is not.
    rate, harm, se
        At the peak.
    low, high
        Rates between which harm cannot be told from that at the peak.
    """

    shape: str
    rate: float
    harm: float
    se: float
    low: float
    high: float


def peak(rate: np.ndarray, harm: np.ndarray, se: np.ndarray, limit: float) -> Peak:
    """Return where harm is greatest, and what shape it has; ``limit`` is the z score that tells two values apart."""
    i = int(np.argmax(harm))
    near = rate[harm >= harm[i] - 2.0 * np.hypot(se, se[i])]
    recedes = harm[-1] < harm[i] - limit * np.hypot(se[i], se[-1])
    shape = "none" if harm[i] <= limit * se[i] else "hump" if recedes else "grows"
    return Peak(shape, float(rate[i]), float(harm[i]), float(se[i]), float(near.min()), float(near.max()))


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but rho_fp, the effect of skills, and one more."""
    return fix(data, _axes(data))


def peaks(data: xarray.Dataset) -> list[list[Peak]]:
    """Return the peaks of a part, by the third axis, then by effect."""
    x, effect, other = _axes(data)
    data = data.transpose(other, effect, x, ...)
    harm, se = -data["delta_clean"].values, data["delta_clean_se"].values
    from scipy.stats import norm

    limit = float(norm.isf(FALSE_ALARM / 2 / harm[..., 0].size))
    return [[peak(data[x].values, h, s, limit) for h, s in zip(*pair, strict=True)] for pair in zip(harm, se, strict=True)]


def draw(data: xarray.Dataset) -> Figure:
    """Draw the rate at which harm peaks, how great it is there, and the curves of one value of the third axis.

    Parameters
    ----------
    data
        ``delta_clean`` with its error, ``lift`` and ``synthesised`` over rho_fp, the effect of skills, and one more axis of numbers.
    """
    x, effect, other = _axes(data)
    found = peaks(data)
    rates = np.array([[p.rate if p.shape != "none" else np.nan for p in row] for row in found])
    harms = np.array([[p.harm if p.shape != "none" else np.nan for p in row] for row in found])
    parts = each(data.isel({other: -1}), effect, MAX_LINES)
    figure, (panels,) = style.page(
        1,
        3,
        3.0,
        f"{data.attrs.get('sweep', 'result')}: the rate of hidden failures that harms most",
        settings(data),
        _caption(data, found),
        legend=[*_legend(parts, effect)],
        sharex=False,
    )
    first, second, third = panels
    values = {"x": data[effect].values, "y": data[other].values}
    for ax, z, scale, title, form in (
        (first, rates, Normalize(0.0, 1.0), rf"where harm peaks: {symbol(data, x)}", "{:.2f}"),
        (second, harms, style.norm([harms], False), "harm there (pass rate)", "{:.3f}"),
    ):
        style.heat(ax, values["x"], values["y"], z, scale, False, contour=False)
        ax.set_title(title, loc="left")
        ax.set_xlabel(axis_label(data, effect, 34))
        _write(ax, values, z, scale, found, form)
    first.set_ylabel(axis_label(data, other, 34))
    second.tick_params(labelleft=False)
    _curves(third, parts, x)
    third.set_title(f"{symbol(data, other)} = {text(data[other].values[-1])}", loc="left")
    third.set_xlabel(axis_label(data, x, 40))
    third.set_ylabel("eval lost against a perfect judge (pass rate)")
    return figure


def _axes(data: xarray.Dataset) -> tuple[str, str, str]:
    found = harm_axes(data)
    assert found is not None, "rho_fp, the effect of skills and one more are the axes"
    return found


def _write(ax: Axes, values: dict[str, np.ndarray], z: np.ndarray, scale: Normalize, found: list[list[Peak]], form: str) -> None:
    """Write each cell's value into it, and mark those where harm grows to the end."""
    for j, row in enumerate(found):
        for i, p in enumerate(row):
            at = (values["x"][i], values["y"][j])
            if p.shape == "none":
                ax.annotate("none", at, ha="center", va="center", fontsize=6, color=style.INK)
                continue
            note = form.format(z[j, i]) + ("\nend" if p.shape == "grows" else "")
            ink = style.INK if scale(z[j, i]) > 0.6 else "white"
            ax.annotate(note.replace("0.", "."), at, ha="center", va="center", fontsize=6, color=ink, linespacing=0.95)
    ax.tick_params(length=2)


def _curves(ax: Axes, parts: list[xarray.Dataset], x: str) -> None:
    ax.grid(True)
    ax.axhline(0, color=style.GREY, linewidth=0.7, zorder=1)
    tallest = 0.0
    for i, part in enumerate(parts):
        look = style.line_style(i, len(parts))
        harm, se = -part["delta_clean"].values, part["delta_clean_se"].values
        style.band(ax, part[x].values, harm, se, look, False)
        top = int(np.argmax(harm[:-1]))
        if harm[top] > 0:
            ax.plot(part[x].values[top], harm[top], "o", markersize=4, color=look["color"], zorder=4)
            tallest = max(tallest, float(harm[top]))
    ax.set_ylim(-2.0 * (tallest or 0.01), 2.2 * (tallest or 0.01))


def _legend(parts: list[xarray.Dataset], effect: str) -> list[Line2D]:
    return [
        Line2D([], [], label=f"{symbol(parts[0], effect)} = {text(part[effect].item())}", **style.line_style(i, len(parts)))
        for i, part in enumerate(parts)
    ]


def _caption(data: xarray.Dataset, found: list[list[Peak]]) -> str:
    every = [p for row in found for p in row]
    count = {shape: sum(p.shape == shape for p in every) for shape in SHAPES}
    humps = [p for p in every if p.shape == "hump"]
    words = [f"{count['hump']} of {len(every)} cells: an inverted U, harm peaks and then recedes."]
    if humps:
        words.append(f"Its peak lies between q = {min(p.rate for p in humps):g} and {max(p.rate for p in humps):g}.")
    words.append(
        f"{count['grows']} (end): harm grows to q = 1, where nothing is written and the whole lift is lost. {count['none']}: none."
    )
    words.append("At q = 1 the loop is the bare model, so harm there is what the skills of a perfect judge's loop add.")
    words.append("Right, with ±1.96 standard errors: dots mark the peak below q = 1; the axis is cut.")
    words.append(f"Shapes are told apart at a false-alarm rate of {FALSE_ALARM:.0%} for all cells together.")
    return " ".join(words)
