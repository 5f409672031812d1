"""Where today's judges sit: measured judges on the plane, and what happens to retirement and to the eval under each, in every world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from sim.figures import style
from sim.figures.axes import FP, PF, TAU, linked, parameter, pi_tau, sets, settings, variable_label
from sim.figures.axes import split as fix
from sim.figures.reported import aligned, plain, worlds
from sim.judges import FAMILIES, Judge, read_judges

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = ("retired", "harmful_final", "delta_clean", "synthesised")
SHOWN: Final = ("retired", "harmful_final", "delta_clean")
AXIS: Final = "judge"
OWN: Final = "not of the package"  # family of judges whose counts are not known
COLOURS: Final = dict(zip((*FAMILIES, OWN), (*style.COLOURS[:2], style.COLOURS[4], style.COLOURS[2], style.COLOURS[3]), strict=True))
MARKS: Final = dict(zip(COLOURS, "osD^v", strict=True))
REGIONS: Final = ("governable", "blind", "indiscriminate", "inverted")
WORDS: Final = {
    "retired": "skills retired",
    "harmful_final": "hurting skills\nleft at the end",
    "delta_clean": "eval, minus that\nof a clean judge",
}
SIZE: Final = {"LLM judge": 4.2, "self-judging": 3.4, "agent": 5.2, "tests": 4.4, OWN: 5.0}


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but world and judge."""
    return fix(data, ("world", AXIS))


def placed(data: xarray.Dataset) -> dict[str, Judge]:
    """Return the judges of a result by name, with the rates that were simulated, but for those without any error.

    One whose name and rates are not those of ``channels.csv`` has neither counts nor a family: n_fail and n_pass are 0.
    """
    known = {judge.name: judge for judge in read_judges()}
    paths = sets(data, AXIS)
    fp, pf = paths.index(FP), paths.index(PF)
    found = {}
    for name in map(str, np.atleast_1d(data[AXIS].values)):
        row = linked(data, AXIS)[name]
        rates = float(row[fp]), float(row[pf])
        judge = known.get(name)
        if judge is None or (judge.rho_fp, judge.rho_pf) != rates:
            judge = Judge(name, *rates, 0, 0, "", family=OWN)
        if rates != (0.0, 0.0):
            found[name] = judge
    return found


def regions(data: xarray.Dataset) -> dict[str, str]:
    """Return the region of each judge (:func:`sim.theory.region`), with a ? where its intervals reach into another; empty without tau."""
    from sim.theory import region

    tau = parameter(data, TAU) if pi_tau(data) is not None else None
    found = {}
    for name, judge in placed(data).items():
        if tau is None:
            found[name] = ""
            continue
        found[name] = str(region(tau, judge.rho_fp, judge.rho_pf))
        if judge.n_fail:
            (x0, x1), (y0, y1) = judge.intervals
            found[name] += "?" * (len(set(np.ravel(region(tau, [[x0], [x1]], [y0, y1])))) > 1)
    return found


def of_world(data: xarray.Dataset, world: str) -> xarray.Dataset:
    """Return the part of a world."""
    return data.sel(world=world) if "world" in data.dims else data


# ---------------------------------------------------------------- in numbers


def table(data: xarray.Dataset) -> str:
    """Return the judges in numbers, a section per family, as Markdown whose columns also stand under each other as plain text."""
    judges, where, names = placed(data), regions(data), worlds(data)
    head = [f"# {data.attrs.get('sweep', 'result')}: where today's judges sit", ""]
    head += [
        "A row per judge: its rates with exact 95 % intervals, the region it is in (?: an interval reaches into another), in each world",
        "the skills retired per run, those of the shelf at the end that hurt on-topic, and the eval of the last rounds against a perfect",
        "judge, ± the standard error of that paired difference. Where the rates come from: sim/conf/channels.csv.",
        "",
        f"{plain(settings(data))}.",
        "",
    ]
    if tally := counted(data):
        columns = [*REGIONS, "within its intervals"]
        head += ["Judges by region:", "", *aligned([["", *columns], *([family, *map(str, row)] for family, row in tally.items())]), ""]
    columns = ["judge", "rho_fp", "rho_pf", "region"]
    sections = []
    for family in COLOURS:
        mine = [judge for judge in judges.values() if judge.family == family]
        if not mine:
            continue
        lines = [[*columns, *names]]
        if family == next(iter(COLOURS)):
            clean = [_cell(of_world(data, w), c) for w in names for c in _clean(data)[:1]]
            lines += [["(clean)", "0", "0", "governable" if tally else "", *clean]] if clean else []
        for judge in mine:
            rates = [f"{judge.rho_fp:.4g}", f"{judge.rho_pf:.4g}"]
            if judge.n_fail:
                rates = [
                    f"{r} [{low:.2f}, {high:.2f}] of {n}"
                    for r, (low, high), n in zip(rates, judge.intervals, (judge.n_fail, judge.n_pass), strict=True)
                ]
            lines.append([judge.name, *rates, where[judge.name], *(_cell(of_world(data, w), judge.name) for w in names)])
        sections += [f"## {family}", "", *aligned(lines), ""]
    return "\n".join([*head, *sections])


def counted(data: xarray.Dataset) -> dict[str, list[int]]:
    """Return how many judges of each family are in each of REGIONS, and of how many the region is sure within their intervals."""
    where = regions(data)
    found = {}
    for family in COLOURS:
        mine = [where[name] for name, judge in placed(data).items() if judge.family == family]
        if mine and all(mine):
            found[family] = [sum(w.rstrip("?") == r for w in mine) for r in REGIONS] + [sum("?" not in w for w in mine)]
    return found


def _clean(data: xarray.Dataset) -> list[str]:
    """Return the names of judges without any error."""
    there = placed(data)
    return [str(name) for name in np.atleast_1d(data[AXIS].values) if str(name) not in there]


def _cell(part: xarray.Dataset, name: str) -> str:
    now = part.sel({AXIS: name})
    kept = f"{float(now['retired']):.1f}, {float(now['harmful_final']):.1f}"
    off, error = float(now["delta_clean"]), float(now["delta_clean_se"])
    return kept if not np.isfinite(off) or not error else f"{kept}, {off:+.4f} ± {error:.4f}"


# ---------------------------------------------------------------- as a figure


def draw(data: xarray.Dataset) -> Figure:
    """Draw the plane with all judges, how many of each family are where, and under it three variables against rho_fp, world by world.

    Parameters
    ----------
    data
        The variables over ``judge``, and perhaps ``world``.
    """
    names, judges, pi = worlds(data)[: len(style.COLOURS)], placed(data), pi_tau(data)
    there = [family for family in COLOURS if any(j.family == family for j in judges.values())]
    columns = max(len(names), 2)
    figure, panels = style.page(
        1 + len(SHOWN),
        columns,
        1.9,
        f"{data.attrs.get('sweep', 'result')}: where {len(judges)} measured judges sit, and what becomes of the library",
        settings(data),
        _caption(pi),
        legend=[_handle(family) for family in there],
        sharex=False,
        ratios=(2.7, *(1.0,) * len(SHOWN)),
    )
    grid = panels[0, 0].get_gridspec()
    for ax in panels[0]:
        ax.remove()
    cut = max(1, round(0.6 * columns))
    _plane(figure.add_subplot(grid[0, :cut]), judges, pi)
    _tally(figure.add_subplot(grid[0, cut:]), data, there)
    for row, variable in enumerate(SHOWN, 1):
        lows, highs = list[float](), list[float]()
        for column in range(columns):
            ax = panels[row, column]
            if column >= len(names):
                ax.set_axis_off()
                continue
            _along(ax, of_world(data, names[column]), variable, judges, pi)
            lows, highs = [*lows, ax.get_ylim()[0]], [*highs, ax.get_ylim()[1]]
            if row == 1:
                ax.set_title(names[column], loc="left", fontsize=9)
            if row == len(SHOWN):
                ax.set_xlabel(r"$\rho_{fp}$", labelpad=1)
        for column in range(len(names)):
            panels[row, column].set_ylim(min(lows), max(highs))
            if column:
                panels[row, column].tick_params(labelleft=False)
        panels[row, 0].set_ylabel(f"{WORDS[variable]}\n({variable_label(data, variable)[1]})", fontsize=7.5)
    return figure


def _handle(family: str) -> Line2D:
    look: dict[str, Any] = {"color": COLOURS[family], "marker": MARKS[family], "linestyle": "", "markersize": SIZE[family] + 1}
    return Line2D([], [], label=family, **look)


def _plane(ax: Axes, judges: dict[str, Judge], pi: float | None) -> None:
    """Draw the judges as points with their intervals, over the rectangle."""
    if pi is not None:
        ax.add_patch(Rectangle((0, 0), pi, 1 - pi, facecolor="#e3f1ea", edgecolor="none", zorder=0))
        for xs, ys in (((pi, pi), (0, 1)), ((0, 1), (1 - pi, 1 - pi))):
            ax.plot(xs, ys, color=style.GREY, linewidth=0.8, linestyle="--", zorder=1)
        look: dict[str, Any] = {"fontsize": 9, "fontweight": "bold", "color": style.GREY, "zorder": 1.5}
        ax.text(0.012, 1 - pi - 0.015, "governable", ha="left", va="top", **look)
        ax.text(0.99, 1 - pi - 0.015, "blind", ha="right", va="top", **look)
        ax.text(0.99, 0.985, "inverted", ha="right", va="top", **look)
        ax.text(pi - 0.012, 0.985, "indiscriminate", ha="right", va="top", **look)
        ax.annotate(rf"$\pi_\tau$ = {pi:.3g}", (pi, 1), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=8)
    ax.plot([0, 1], [1, 0], color=style.GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    for judge in judges.values():
        colour = COLOURS[judge.family]
        if judge.n_fail:
            (x0, x1), (y0, y1) = judge.intervals
            ax.plot((x0, x1), (judge.rho_pf,) * 2, color=colour, linewidth=0.7, alpha=0.35, zorder=2)
            ax.plot((judge.rho_fp,) * 2, (y0, y1), color=colour, linewidth=0.7, alpha=0.35, zorder=2)
        ax.plot(judge.rho_fp, judge.rho_pf, zorder=3, clip_on=False, **_mark(judge, pi))
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel(r"$\rho_{fp}$: failures observed as passes (probability)")
    ax.set_ylabel(r"$\rho_{pf}$: passes observed as failures (probability)")


def _mark(judge: Judge, pi: float | None) -> dict[str, Any]:
    """Return the look of a point: filled inside the rectangle, hollow outside."""
    colour, size = COLOURS[judge.family], SIZE[judge.family]
    inside = pi is None or (judge.rho_fp < pi and judge.rho_pf < 1 - pi)
    look: dict[str, Any] = {"marker": MARKS[judge.family], "linestyle": "", "markersize": size, "markeredgewidth": 0.5 if inside else 0.9}
    return {**look, "color": colour if inside else "white", "markeredgecolor": "white" if inside else colour}


def _tally(ax: Axes, data: xarray.Dataset, families: list[str]) -> None:
    """Draw a bar for each family: how many of its judges are in each region."""
    tally = counted(data)
    if not tally:
        ax.set_axis_off()
        return
    shades = dict(zip(REGIONS, ("#7fbf9f", "#b8b8b8", "#d9c27a", "#8a8a8a"), strict=True))
    for y, family in enumerate(families):
        left = 0
        *counts, sure = tally[family]
        for name, n in zip(REGIONS, counts, strict=True):
            ax.barh(y, n, left=left, height=0.46, color=shades[name], edgecolor="white")
            left += n
        words = ", ".join(f"{n} {name}" for name, n in zip(REGIONS, counts, strict=True) if n)
        ax.text(0, y - 0.28, f"{family}: {words}; sure: {sure} of {left}", fontsize=7.5, color=COLOURS[family], va="bottom")
    ax.set_ylim(len(families) - 0.5, -0.75)
    ax.set_yticks([])
    ax.set_xlabel("judges")
    ax.spines["left"].set_visible(False)
    handles = [
        Rectangle((0, 0), 1, 1, color=shades[name], label=name) for name in REGIONS if any(r[REGIONS.index(name)] for r in tally.values())
    ]
    ax.legend(handles=handles, loc="center right", fontsize=8, handlelength=1.0)
    ax.set_title("how many are in which region", loc="left")


def _along(ax: Axes, part: xarray.Dataset, variable: str, judges: dict[str, Judge], pi: float | None) -> None:
    """Draw a variable against rho_fp, a point per judge with its standard error, and the clean judge as a line."""
    for name in _clean(part)[:1]:
        ax.axhline(float(part[variable].sel({AXIS: name})), color=style.INK, linewidth=0.8, zorder=1)
    if pi is not None:
        ax.axvline(pi, color=style.GREY, linewidth=0.8, linestyle="--", zorder=1)
    alike: dict[str, list[Judge]] = {}
    for judge in judges.values():
        alike.setdefault(repr(_mark(judge, pi)), []).append(judge)
    for some in alike.values():  # one call for all points of one look: there are many
        now = part.sel({AXIS: [judge.name for judge in some]})
        x, y, se = [judge.rho_fp for judge in some], now[variable].values, np.nan_to_num(now[f"{variable}_se"].values)
        ax.vlines(x, y - style.Z95 * se, y + style.Z95 * se, color=COLOURS[some[0].family], linewidth=0.8, alpha=0.5, zorder=2)
        ax.plot(x, y, zorder=3, clip_on=False, **{**_mark(some[0], pi), "markersize": 0.75 * SIZE[some[0].family]})
    ax.set_xlim(0, 1)
    ax.margins(y=0.06)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.grid(True)
    ax.tick_params(labelsize=7)


def _caption(pi: float | None) -> str:
    words = [
        "Bars: exact binomial 95 % intervals of the rates above, 1.96 standard errors of the simulation below. Line: a perfect judge.",
        r"Hollow: outside the governable rectangle. Dotted: $\kappa=1-\rho_{fp}-\rho_{pf}=0$." if pi is not None else "",
        "Sure: the intervals of both rates stay in the region. Rates, counts and sources: sim/conf/channels.csv.",
        r"Near $\rho_{fp}=1$ nothing is written, and the eval is that of the bare model.",
    ]
    return " ".join(word for word in words if word)
