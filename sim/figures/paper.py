"""BC's table, as a figure and in numbers: what a library does under each reward channel, how three scatter, and what is reported."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from matplotlib.figure import Figure

from sim.figures import style
from sim.figures.axes import settings
from sim.figures.axes import split as fix
from sim.figures.marks import line, line_legend
from sim.figures.reported import (
    AGREES,
    CHANNELS,
    NO_SKILL,
    Ends,
    agrees,
    aligned,
    cell,
    channels,
    compare,
    plain,
    run_sd,
    summary,
    worlds,
    written,
)

if TYPE_CHECKING:
    import xarray

COLUMNS: Final = {  # BC's names
    "tail_sampled": "Tail eval",
    "delta_clean": "Δ clean",
    "synthesised": "Synth",
    "deprecated": "Dep.",
    "retired": "True-ret.",
    "evicted": "Evict",
    "divergence": "Div.",
}
VARIABLES: Final = (*COLUMNS, *(f"{name}_sd" for name in COLUMNS))
AXES: Final = ("world", "condition")
EVALS: Final = ("tail_sampled", "delta_clean")  # all there is of a loop without skills
DECIMALS: Final = {"tail_sampled": 3, "delta_clean": 3, "divergence": 3}  # of simulated numbers; else 2
Compared = dict[tuple[str, str, str], tuple[Ends, float]]


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but world and condition."""
    return fix(data, AXES)


def rows(data: xarray.Dataset) -> dict[str, str]:
    """Return BC's channels that a result has, in its order, with the names of their conditions."""
    return {name: condition for name, condition in channels(data).items() if name in CHANNELS}


def compared(data: xarray.Dataset) -> Compared:
    """Return what is reported and how many standard errors it is away, by world, channel and variable."""
    found = {}
    for world in worlds(data):
        for name in rows(data):
            part = cell(data, world, name)
            for variable in COLUMNS:
                if there := compare(part, (world, name, variable)):
                    found[world, name, variable] = there
    return found


def is_empty(name: str, variable: str) -> bool:
    """Whether a channel has nothing to show of a variable: without skills there is no library."""
    return name == NO_SKILL and variable not in EVALS


# ---------------------------------------------------------------- in numbers


def table(data: xarray.Dataset) -> str:
    """Return BC's table in numbers, a section per world, as Markdown whose columns also stand under each other as plain text."""
    found, shown = compared(data), rows(data)
    beyond = sum(not agrees(z) for _, z in found.values())
    words: tuple[str, ...] = (
        f"{summary([z for _, z in found.values()])}; {beyond} do not.",
        "A range reported for four rates of noise counts four times.",
        "The worlds were fitted to these very values: agreement is how well they can be met, not a test.",
    )
    if not found:
        words = ("BC reports nothing of this: its controller is that of policy=bc, its subsets have worlds of their names.",)
    notes = (
        "A line per condition: mean ± standard deviation of one run (Δ clean: of the difference of two runs, each with tasks of its own).",
        "Below it, what BC reports, and how many standard errors of a mean of three such runs it lies above (+) or below (-) the mean:",
        f"✓ within {AGREES:g}, ✗ farther. An error counts as 0.1 skills, or 0.01 of an eval, at least; inside a reported range it is 0.",
        "No skill: a judge that passes every failure, so nothing is written. Its reported Δ clean is minus the reported lift.",
    )
    head = [f"# {data.attrs.get('sweep', 'result')}: BC's table", "", *words, "", *notes, "", f"{plain(settings(data))}.", ""]
    sections = []
    for world in worlds(data):
        lines = [["", *COLUMNS.values()]]
        for name, condition in shown.items():
            part = cell(data, world, name)
            lines.append([condition, *("" if is_empty(name, v) else _number(part, name, v) for v in COLUMNS)])
            if any((world, name, variable) in found for variable in COLUMNS):
                lines.append(["  reported", *(written(found.get((world, name, variable))) for variable in COLUMNS)])
        sections += [f"## {world}", "", *aligned(lines), ""]
    return "\n".join([*head, *sections])


def _number(part: xarray.Dataset, name: str, variable: str) -> str:
    if variable == "delta_clean" and name == "clean":
        return ""
    sign, digits = "+" if variable == "delta_clean" else "", DECIMALS.get(variable, 2)
    return f"{float(part[variable]):{sign}z.{digits}f} ± {run_sd(part, variable):.{digits}f}"


# ---------------------------------------------------------------- as a figure


def draw(data: xarray.Dataset) -> Figure:
    """Draw a row of panels per world, a panel per column of BC's table, a line per condition.

    Parameters
    ----------
    data
        The variables and their standard deviations over ``world`` and ``condition``.
    """
    shown, found = rows(data), compared(data)
    figure, panels = style.page(
        len(worlds(data)),
        len(COLUMNS),
        0.35 + 0.155 * len(shown),
        f"{data.attrs.get('sweep', 'result')}: BC's table, simulated and reported",
        settings(data),
        _caption([z for _, z in found.values()]),
        legend=line_legend(),
        sharex=False,
    )
    for column, (variable, title) in enumerate(COLUMNS.items()):
        panels[0, column].set_title(title, fontsize=9)
        for ax, world in zip(panels[:, column], worlds(data), strict=True):
            for i, name in enumerate(shown):
                if not is_empty(name, variable):
                    line(ax, cell(data, world, name), i, variable, found.get((world, name, variable)))
            ax.set_ylim(len(shown) - 0.4, -0.6)
            ax.set_yticks(range(len(shown)), list(shown.values()) if column == 0 else [""] * len(shown), fontsize=6.5)
            ax.tick_params(labelsize=6.5, length=2)
            style.plain_ticks(ax, 3)
            ax.grid(True)
            ax.margins(x=0.15)
            if variable == "delta_clean":
                ax.axvline(0, color=style.GREY, linewidth=0.7, zorder=1)
    for ax, world in zip(panels[:, 0], worlds(data), strict=True):
        ax.set_ylabel(world, fontsize=7.5, fontweight="bold")
    return figure


def _caption(off: list[float]) -> str:
    if not off:
        return "BC reports nothing of this: its controller is that of policy=bc, its subsets have worlds of their names."
    words = f"""
        {summary(off)} (Δ clean: of a difference). Each seed draws its own tasks here; on common tasks evals scatter less.
        A reported range is drawn from end to end. The worlds are fits to these very values, not an independent test of them.
        """
    return " ".join(textwrap.dedent(words).split())
