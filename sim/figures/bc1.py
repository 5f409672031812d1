"""BC's figure 1: the loop under an honest judge and under one that passes failures, drawn with what was simulated on its arrows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from sim.figures import style
from sim.figures.axes import pi_tau, settings
from sim.figures.axes import split as fix
from sim.figures.reported import BAND, cell, of_world

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = (
    "observed_failures",
    "hidden_failures",
    "phantom_failures",
    "synthesised",
    "retired",
    "evicted",
    "active_final",
    "tail_eval",
    "delta_clean",
)
SIDES: Final = {"clean": "an honest judge", "bias:0.45": "a judge that passes 45 % of the failures"}
BROKEN: Final = 0.1  # of what the honest judge's curator retires: less counts as a broken arrow
POINTS: Final = {"failures": 0.22, "skills": 0.34}  # width of an arrow per failure in a round, and per skill in a run
THINNEST: Final = 0.7
BOX: Final = (2.5, 1.1)
BOXES: Final = {  # centre, in units of a page 10 wide and 8 high
    "solve": (1.7, 6.8),
    "judge": (8.3, 6.8),
    "curator": (5.0, 3.9),
    "library": (1.7, 1.2),
    "synthesiser": (8.3, 1.2),
}


class Flows(NamedTuple):
    """What flows in the loop under one judge: failures per round, skills per run, and the eval.

    Attributes
    ----------
    failed, seen
        Failures per round: true ones, and those the judge reports.
    written, retired, evicted, shelf
        Skills: per run, and on the shelf at the end.
    tail_eval
        Pass rate in the last rounds.
    """

    failed: float
    seen: float
    written: float
    retired: float
    evicted: float
    shelf: float
    tail_eval: float


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Keep one world; fix all axes but the condition."""
    return fix(of_world(data, BAND), ("condition",))


def flows(data: xarray.Dataset, name: str) -> Flows:
    """Return the numbers of a channel. True failures are those seen and those hidden, without passes that were called failures."""
    there = cell(data, BAND, name)
    part = {variable: float(there[variable]) for variable in VARIABLES}
    seen = part["observed_failures"]
    return Flows(
        failed=seen + part["hidden_failures"] - part["phantom_failures"],
        seen=seen,
        written=part["synthesised"],
        retired=part["retired"],
        evicted=part["evicted"],
        shelf=part["active_final"],
        tail_eval=part["tail_eval"],
    )


def is_broken(here: Flows, honest: Flows) -> bool:
    """Whether the curator does so much less than under an honest judge that its arrow is broken."""
    return here.retired < BROKEN * honest.retired


def draw(data: xarray.Dataset) -> Figure:
    """Draw the loop twice, side by side, arrows as wide as what flows along them.

    Parameters
    ----------
    data
        The variables over ``condition``.
    """
    both = {name: flows(data, name) for name in SIDES}
    honest = both["clean"]
    figure, (panels,) = style.page(
        1,
        2,
        3.7,
        f"{data.attrs.get('sweep', 'result')}: the loop, and where a judge breaks it",
        settings(data),
        _caption(data, both),
        sharex=False,
    )
    for ax, (name, here) in zip(panels, both.items(), strict=True):
        _loop(ax, here, is_broken(here, honest))
        ax.set_title(SIDES[name], loc="left", fontweight="bold")
    return figure


def _loop(ax: Axes, here: Flows, broken: bool) -> None:
    ax.set_xlim(0, 10)
    ax.set_ylim(-0.9, 7.6)
    ax.set_axis_off()
    _box(ax, "solve", "agent", f"tail eval {here.tail_eval:.3f}")
    _box(ax, "judge", "judge", f"{here.failed:.1f} fail, {here.seen:.1f} seen")
    _box(ax, "curator", "curator", "retires" if not broken else "blind")
    _box(ax, "library", "library", f"{here.shelf:.1f} skills")
    _box(ax, "synthesiser", "synthesiser", "writes skills")
    blue, green, orange, grey = style.COLOURS[0], style.COLOURS[2], style.COLOURS[1], style.GREY
    _arrow(ax, (2.95, 6.8), (7.05, 6.8), POINTS["failures"] * here.failed, grey)
    _words(ax, (5.0, 7.05), f"{here.failed:.1f} failures\nper round", grey, va="bottom")
    _arrow(ax, (8.3, 6.25), (8.3, 1.75), POINTS["failures"] * here.seen, blue)
    _words(ax, (8.05, 2.75), f"{here.seen:.1f} failures\nobserved per round", blue, ha="right")
    _arrow(ax, (7.05, 1.2), (2.95, 1.2), POINTS["skills"] * here.written, green)
    _words(ax, (5.0, 0.85), f"{here.written:.1f} written", green, va="top")
    _arrow(ax, (1.7, 1.75), (1.7, 6.25), POINTS["skills"] * here.shelf, grey)
    _words(ax, (1.35, 4.0), "skills in use", grey, rotation=90)
    _arrow(ax, (1.7, 0.65), (1.7, -0.75), POINTS["skills"] * here.evicted, grey)
    _words(ax, (2.2, -0.3), f"{here.evicted:.1f} evicted from a full shelf", grey, ha="left")
    _evidence(ax, here, broken)
    _arrow(ax, (4.1, 3.35), (2.6, 1.78), POINTS["skills"] * here.retired, orange, dashed=broken)
    _words(ax, (3.1, 2.95), f"{here.retired:.1f} retired", orange, ha="right")


def _evidence(ax: Axes, here: Flows, broken: bool) -> None:
    """Draw the arrow from the judge to the curator: what each skill did; cut in two where it no longer leads to retirement."""
    start, end = (7.3, 6.22), (5.75, 4.48)
    width = POINTS["failures"] * here.seen
    if not broken:
        _arrow(ax, start, end, width, style.COLOURS[0])
        _words(ax, (6.2, 5.6), "evidence", style.COLOURS[0], ha="right")
        return
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    look: dict[str, Any] = {"color": style.COLOURS[0], "solid_capstyle": "butt", "zorder": 2}
    for a, b in ((0.0, 0.36), (0.64, 0.86)):
        xs, ys = ([s + f * (e - s) for f in (a, b)] for s, e in zip(start, end, strict=True))
        ax.plot(xs, ys, linewidth=width, alpha=1.0 if a == 0 else 0.25, **look)
    ax.plot(*middle, "x", markersize=13, markeredgewidth=3, color=style.COLOURS[1], zorder=4)
    _words(ax, (5.85, 5.65), f"{here.failed - here.seen:.1f} of {here.failed:.1f}\nfailures hidden", style.COLOURS[1], ha="right")


def _box(ax: Axes, name: str, title: str, words: str) -> None:
    (x, y), (width, height) = BOXES[name], BOX
    look: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.2", "facecolor": "#f4f4f4", "edgecolor": "#888888", "linewidth": 0.8}
    ax.add_patch(FancyBboxPatch((x - width / 2, y - height / 2), width, height, zorder=3, **look))
    ax.text(x, y + 0.22, title, ha="center", va="center", fontsize=9, fontweight="bold", zorder=5)
    ax.text(x, y - 0.24, words, ha="center", va="center", fontsize=7.5, zorder=5)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], width: float, colour: str, *, dashed: bool = False) -> None:
    width = max(width, THINNEST)
    look: dict[str, Any] = {"linestyle": (0, (4, 3)) if dashed else "-", "shrinkA": 0, "shrinkB": 0, "zorder": 2}
    head = f"-|>,head_length={3.5 + 0.6 * width:.3f},head_width={2.2 + 0.6 * width:.3f}"
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle=head, mutation_scale=1, linewidth=width, color=colour, joinstyle="miter", **look))


def _words(ax: Axes, at: tuple[float, float], words: str, colour: str, **look: Any) -> None:
    ax.text(*at, words, fontsize=7.5, color=colour, linespacing=1.15, **{"ha": "center", "va": "center", **look})


def _caption(data: xarray.Dataset, both: dict[str, Flows]) -> str:
    honest, other = both["clean"], both["bias:0.45"]
    delta = float(cell(data, BAND, "bias:0.45")["delta_clean"])
    words = ["Means over runs; arrows are as wide as what flows: failures per round (blue, and into the judge), or skills per run."]
    words.append(f"Right, {other.failed - other.seen:.1f} of {other.failed:.1f} failures a round are passed:")
    words.append(f"the curator retires {other.retired:.1f} skills instead of {honest.retired:.1f},")
    words.append(f"while {other.written:.1f} instead of {honest.written:.1f} are written and the tail eval moves by {delta:+.3f}.")
    if (pi := pi_tau(data)) is not None:
        words.append(rf"From q = $\pi_\tau$ = {pi:g} on, given trials enough, even a skill that never passes stays.")
    words.append(f"An arrow counts as broken below {BROKEN:.0%} of the honest judge's retirement.")
    return " ".join(words)
