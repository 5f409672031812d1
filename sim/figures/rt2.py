"""RT's figure 2: the eval over a run's rounds, the life of each of its skills, and the growth of the library.

The lives are those of the first run of one cell, played again by the plain-Python reference (:mod:`sim.lives`); means and
scatter are over all runs of that cell. Of a result with axes one cell is taken: ``clean`` where an axis has that name, else the
first value of each axis.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colorbar import Colorbar
from matplotlib.colors import CenteredNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sim.figures import style
from sim.figures.axes import axes, played_cell, settings, text
from sim.lives import DROPPED, EVICTED, ON_SHELF, RETIRED, Life, Replay, Stretch, replay

if TYPE_CHECKING:
    import xarray

COUNTS: Final = {"synthesised": "written", "active": "on the shelf", "retired": "retired", "evicted": "evicted"}
VARIABLES: Final = ("eval_by_round", "eval_by_round_sd", "floor_eval", *(f"{name}_by_round" for name in COUNTS))
RUN: Final = 0  # the run whose skills are drawn
ROOM: Final = 70  # lives whose trials can all be told
LIVES_HEIGHT: Final = 300.0  # points that are left for the bars of all lives
LIVES_WIDTH: Final = 450.0
NONE: Final = "#a6a6a6"  # of a bar without a number
END: Final = {RETIRED: "x", EVICTED: "|", DROPPED: 4}  # markers
BACK: Final = 9  # marker of a return


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Take one cell: that named ``clean``, or the first."""
    at = {}
    for axis in axes(data):
        values = [text(value) for value in data[axis].values.tolist()]
        at[axis] = values.index("clean") if "clean" in values else 0
    part = data.isel(at)
    if at:
        part = part.assign_attrs(part=f"1 of {data['runs'].size}")
    return {"": part}


def draw(data: xarray.Dataset) -> Figure:
    """Draw the trajectory, the lives and the growth of the library, one above the other.

    Parameters
    ----------
    data
        ``eval_by_round`` with its standard deviation over runs, ``floor_eval``, and skills written, on the shelf, retired and evicted
        by round, of one cell; and the identity of its sweep, by which the first run is played again.
    """
    cell, seed = played_cell(data)
    run = replay(cell, seed, RUN)
    found = run.lives(cell)
    figure, panels = style.page(
        3,
        1,
        2.9,
        f"{data.attrs.get('sweep', 'result')}: the life of a library and of each of its skills",
        settings(data),
        _caption(run, found),
        xlabel="round",
        ratios=(1.0, 2.3, 0.8),
    )
    first, second, third = panels[:, 0]
    _trajectory(first, data, run)
    _lives(figure, second, found, cell.policy.rounds)
    _growth(third, data, run)
    second.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    second.set_xlim(-0.5, cell.policy.rounds - 0.5 + 0.012 * cell.policy.rounds)
    return figure


def _trajectory(ax: Axes, data: xarray.Dataset, run: Replay) -> None:
    """Draw the eval by round: its mean, the scatter of single runs, the run whose skills are drawn, windows and floor."""
    mean, sd = data["eval_by_round"].values, data["eval_by_round_sd"].values
    rounds, window, n_eval = len(run.series), run.c["window"], run.c["n_eval"]
    x = np.arange(rounds)
    blue, red, green = style.COLOURS[:3]
    mean, sd = mean[:rounds], sd[:rounds]
    if run.c["sampled"]:
        sampled = np.array(run.sampled) / n_eval
        ax.plot(x, sampled, ".", color=red, markersize=3.5, alpha=0.75, zorder=2, label="this run, one attempt per task")
    ax.plot(x, [now["eval"] / 2**20 for now in run.series], color=red, linewidth=1.0, zorder=3, label="this run, expected")
    ax.fill_between(x, mean - sd, mean + sd, color=blue, alpha=0.18, linewidth=0, zorder=1, label="± 1 standard deviation of a run")
    ax.plot(x, mean, color=blue, linewidth=2.0, zorder=4, label="mean over runs")
    ax.axhline(float(data["floor_eval"]), color=style.GREY, linewidth=1.1, linestyle=(0, (5, 1.5, 1, 1.5)), label="no skill")
    for i, (a, b) in enumerate(((0, window), (rounds - window, rounds))):
        level = float(mean[a:b].mean())
        said = "mean of the first and the last rounds" if i == 0 else None
        ax.plot([a - 0.4, b - 0.6], [level, level], color=green, linewidth=3.2, solid_capstyle="butt", zorder=5, label=said)
        side: dict[str, Any] = {"ha": "right" if i else "left", "va": "bottom", "fontsize": 8, "fontweight": "bold", "color": green}
        ax.annotate(
            f"{level:.3f}", (b - 0.6 if i else a - 0.4, level), xytext=(0 if i else 2, 3), textcoords="offset points", zorder=6, **side
        )
    ax.set_ylabel("eval (pass rate)")
    ax.grid(True)
    ax.set_ylim(top=ax.get_ylim()[1] + 0.22 * np.ptp(ax.get_ylim()))  # room for the legend
    ax.legend(loc="upper left", ncols=3, fontsize=7.5, handlelength=1.8, borderaxespad=0.1, columnspacing=1.4, labelspacing=0.25)
    ax.set_title("eval by round", loc="left")


def _lives(figure: Figure, ax: Axes, found: list[Life], rounds: int) -> None:
    """Draw the lives, coloured by the effects of the skills."""
    ax.set_title("the skills of this run: when each was on the shelf", loc="left")
    effects = np.array([life.effect for life in found])
    scale = CenteredNorm(0.0, float(np.quantile(np.abs(effects), 0.98)) if len(found) else 1.0)
    colours = [life.effect for life in found for _ in life.stretches]
    bars(figure, ax, found, rounds, colours, scale, "on-topic effect (logit): red hurts, blue helps")


def bars(
    figure: Figure, ax: Axes, found: list[Life], rounds: int, colours: list[float], scale: Normalize, label: str, extend: str = "both"
) -> Colorbar:
    """Draw a bar for each stretch of each life, how it ended, and where a rollback put it back; return the colour bar.

    Parameters
    ----------
    found
        In order of birth.
    rounds
        Where the bars of skills end that are on the shelf.
    colours
        A number for each stretch of each life, in order; grey where it is none.
    scale, label, extend
        Of these numbers; on which sides some may lie beyond the scale.
    """
    ax.set_ylabel("skill, in order of birth")
    ax.set_facecolor("#f4f4f4")
    width = min(7.0, 0.85 * LIVES_HEIGHT / max(len(found), 1))
    drawn = [(life, s, rounds - 0.5 if s.left is None else float(s.left)) for life in found for s in life.stretches]
    lines = LineCollection([[(s.came, life.number), (end, life.number)] for life, s, end in drawn], linewidths=width, capstyle="butt")
    lines.set_cmap(colormaps[style.DIVERGING].with_extremes(bad=NONE))
    lines.set_norm(scale)
    lines.set_array(np.array(colours))
    ax.add_collection(lines)
    for how, marker in END.items():
        ends = [(end, life.number) for life, s, end in drawn if s.how == how]
        size = {RETIRED: max(3.5, 0.8 * width), EVICTED: max(3.0, 1.1 * width), DROPPED: max(1.5, 0.6 * width)}[how]
        look: dict[str, Any] = {"markeredgewidth": 1.2 if how == RETIRED else 0.8, "color": style.GREY if how == DROPPED else style.INK}
        ax.plot(*(np.array(ends).T if ends else ([], [])), linestyle="none", marker=marker, markersize=size, zorder=4, **look)
    back = [(float(s.came), life.number) for life in found for s in life.stretches[1:]]
    if back:
        ax.plot(*np.array(back).T, linestyle="none", marker=BACK, markersize=max(4.0, 0.6 * width), color=style.COLOURS[2], zorder=4)
    _trials(ax, drawn, rounds, len(found))
    ax.set_ylim(-1.5, max(len(found), 1) + 0.5)
    bar = figure.colorbar(ScalarMappable(scale, style.DIVERGING), ax=ax, aspect=30, pad=0.015, extend=extend)
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(labelsize=7.5, length=2)
    bar.set_label(label, fontsize=8)
    marks = [
        Line2D([], [], linestyle="none", marker="x", markersize=5, color=style.INK, label="retired, with its trials"),
        Line2D([], [], linestyle="none", marker="|", markersize=7, color=style.INK, label="evicted"),
    ]
    if any(s.how == DROPPED for _, s, _ in drawn):
        marks.append(Line2D([], [], linestyle="none", marker=4, markersize=4, color=style.GREY, label="removed by a rollback"))
    if back:
        label = "put back by a rollback (restored)"
        marks.append(Line2D([], [], linestyle="none", marker=BACK, markersize=4, color=style.COLOURS[2], label=label))
    ax.legend(handles=marks, loc="upper left", fontsize=7.5, borderaxespad=0.4, labelspacing=0.25)
    return bar


def _trials(ax: Axes, drawn: list[tuple[Life, Stretch, float]], rounds: int, number: int) -> None:
    """Write trials beside the ends of bars, of few lives all and of many those of retired skills; where two would touch, the first."""
    tall = 6.5 * max(number + 2, 1) / LIVES_HEIGHT  # of a number, in lives; and its length, in rounds
    wide = 3.6 * (rounds + 1) / LIVES_WIDTH
    taken: list[tuple[float, float, float]] = [
        (end, end + 4.0 * (rounds + 1) / LIVES_WIDTH, life.number) for life, s, end in drawn if s.how == RETIRED
    ]
    for life, s, end in drawn:
        if not (s.how == RETIRED or (s is life.stretches[-1] and number <= ROOM)):
            continue
        left, right = end + 5.0 * (rounds + 1) / LIVES_WIDTH, end + 5.0 * (rounds + 1) / LIVES_WIDTH + wide * len(str(s.n))
        if any(a < right and left < b and abs(y - life.number) < tall and (y, a) != (life.number, end) for a, b, y in taken):
            continue
        taken.append((left, right, life.number))
        place: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "ha": "left"}
        ax.annotate(f"{s.n}", (end, life.number), fontsize=5.5, color=style.INK, zorder=5, annotation_clip=False, **place)


def _growth(ax: Axes, data: xarray.Dataset, run: Replay) -> None:
    """Draw skills written, retired and evicted so far, and those on the shelf: means over runs, and this run."""
    rounds = len(run.series)
    x = np.arange(rounds)
    for i, (name, what) in enumerate(COUNTS.items()):
        summed = (lambda v: v) if name == "active" else np.cumsum
        ax.plot(x, summed(data[f"{name}_by_round"].values[:rounds]), color=style.COLOURS[i], linewidth=1.8, label=what)
        ax.step(x, summed([now[name] for now in run.series]), where="mid", color=style.COLOURS[i], linewidth=0.8, linestyle=(0, (3, 1.2)))
    ax.set_ylabel("skills")
    ax.grid(True)
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left", ncols=2, fontsize=7.5, borderaxespad=0.2, labelspacing=0.25)
    ax.set_title("growth: written, retired and evicted so far, and the shelf", loc="left")


def _caption(run: Replay, found: list[Life]) -> str:
    ends = {how: [s.n for life in found for s in life.stretches if s.how == how] for how in (RETIRED, EVICTED, ON_SHELF)}
    words = [f"The skills are those of run {RUN}, played again: {len(found)} written"]
    for how, what in ((RETIRED, "retired"), (EVICTED, "evicted")):
        words[0] += f", {len(ends[how])} {what}" + (f" (median {median(ends[how]):g} trials)" if ends[how] else "")
    words[0] += f", {len(ends[ON_SHELF])} on the shelf at the end."
    if back := sum(life.restored for life in found):
        words.append(f"{run.metrics['rollbacks']} rollbacks put skills back {back} times, with the counters they had.")
    words.append("Thin and dashed below: this run; full: means over runs. An arrowhead on the colour bar: some effects lie beyond.")
    return " ".join(words)
