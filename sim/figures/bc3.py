"""BC's figure 3: bias starves writing and retirement alike; what that, and noise, do to the eval, and what three seeds can see of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.figures import marks, style
from sim.figures.axes import settings
from sim.figures.axes import split as fix
from sim.figures.reported import MAIN, along, channels, of_world, values

if TYPE_CHECKING:
    import xarray

SHARES: Final = {
    "observed_failures": (style.INK, "observed failures"),
    "synthesised": (style.COLOURS[2], "skills written"),
    "retired": (style.COLOURS[4], "skills retired"),
}
VARIABLES: Final = (*SHARES, "delta_clean", "divergence", "tail_sampled_sd", "tail_sampled", "divergence_sd")
JUDGE: Final = "strict_judge"
ROOM: Final = 1.3  # of the magnified panel, beyond what it shows


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Keep one world; fix all axes but the condition."""
    return fix(of_world(data, MAIN), ("condition",))


def shares(data: xarray.Dataset, variable: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rates of bias and a variable as fractions of its clean level, shapes (rates,)."""
    found = along(data, "bias", end=True)
    level = values(data, MAIN, list(found), variable)
    return np.array(list(found.values())), level / level[0] if level[0] > 0 else np.full(len(level), np.nan)


def draw(data: xarray.Dataset) -> Figure:
    """Draw the stages of the loop against bias, and the eval against labels flipped, at two magnifications.

    Parameters
    ----------
    data
        The variables over ``condition``.
    """
    lines = [(kind, colour) for kind, colour in marks.KINDS.items() if kind != "strict judge" or JUDGE in channels(data)]
    figure, (panels,) = style.page(
        1,
        3,
        2.9,
        f"{data.attrs.get('sweep', 'result')}: the stages of the loop along bias, and the eval against labels flipped",
        settings(data),
        _caption(data),
        legend=marks.legend(lines, data, bars=True, pi=True),
        sharex=False,
    )
    first, second, third = panels
    _stages(first, data)
    for ax, bars in ((second, True), (third, False)):
        _outcome(ax, data, bars)
    second.set_title("b. eval against a perfect judge", loc="left")
    third.set_title("c. the same, magnified", loc="left")
    second.set_ylabel("Δ tail eval (pass rate)")
    reach = max(float(np.abs(values(data, MAIN, list(along(data, kind)), "delta_clean")).max()) for kind in ("bias", "noise"))
    third.set_ylim(-ROOM * (reach or 0.01), ROOM * (reach or 0.01))
    return figure


def _stages(ax: Axes, data: xarray.Dataset) -> None:
    for variable, (colour, name) in SHARES.items():
        x, y = shares(data, variable)
        ax.plot(x, y, "o-", color=colour, markersize=3, zorder=3, label=name)
        clean = marks.ends(MAIN, "clean", variable)
        for channel, rate in along(data, "bias").items():
            if clean and (there := marks.ends(MAIN, channel, variable)):
                marks.point(ax, rate, (there[0] / clean[1], there[1] / clean[0]), colour)
    marks.threshold(ax, data)
    ax.set_title("a. stages of the loop", loc="left")
    ax.set_xlabel(marks.BIAS_LABEL, fontsize=7.5)
    ax.set_ylabel("fraction of the clean level")
    ax.set_ylim(-0.05, 1.35 * max(1.0, ax.get_ylim()[1] / 1.1))
    ax.legend(loc="upper right", fontsize=7.5, handlelength=1.4, borderaxespad=0.1)
    ax.grid(True)


def _outcome(ax: Axes, data: xarray.Dataset, bars: bool) -> None:
    kinds = {**{kind: list(along(data, kind)) for kind in ("noise", "bias")}, "strict judge": [JUDGE] if JUDGE in channels(data) else []}
    for kind, names in kinds.items():
        if not names:
            continue
        colour = marks.KINDS[kind]
        x, y = (values(data, MAIN, names, variable) for variable in ("divergence", "delta_clean"))
        ax.plot(x, y, "o-", color=colour, markersize=3, zorder=3)
        if not bars:
            se = np.array([values(data, MAIN, names, "delta_clean_se")])[0]
            ax.fill_between(x, y - style.Z95 * se, y + style.Z95 * se, color=colour, alpha=0.28, linewidth=0, zorder=2)
            continue
        at = marks.ours(names)
        marks.scatter(ax, x[at], y[at], marks.errors(data, MAIN, names, "delta_clean")[at], colour)
        for i, name in enumerate(names):
            if there := marks.ends(MAIN, name, "delta_clean"):
                flipped = marks.ends(MAIN, name, "divergence")
                marks.point(ax, float(np.mean(flipped)) if flipped else float(x[i]), there, colour)
    ax.axhline(0, color=style.GREY, linewidth=0.7, zorder=1)
    ax.set_xlabel(marks.FLIPPED_LABEL, fontsize=7.5)
    ax.grid(True)


def _caption(data: xarray.Dataset) -> str:
    names = list(along(data, "bias"))
    harm = values(data, MAIN, names, "delta_clean")
    error = float(np.max(marks.errors(data, MAIN, names, "delta_clean")))
    worst = int(np.argmin(harm))
    rate = list(along(data, "bias").values())[worst]
    left = ", ".join(f"{SHARES[name][1]} {float(np.interp(0.45, *shares(data, name))):.2f}" for name in SHARES)
    words = [f"a: observed failures feed both other stages; left of the clean level at q = 0.45: {left}."]
    words.append(f"b, c: of the biases drawn q = {rate:g} harms most, by {-harm[worst]:.3f};")
    words.append(f"a difference of two means of three seeds has a standard error of {error:.3f}.")
    words.append("A reported value stands at the simulated share of labels flipped where that share is not reported.")
    words.append("c has bands of ±1.96 standard errors of the simulation.")
    return " ".join(words)
