"""RT's run and its ablations, as a figure and in numbers: what one change to the loop does, how three seeds scatter, what is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.figure import Figure

from sim.figures import style
from sim.figures.axes import settings
from sim.figures.axes import split as fix
from sim.figures.marks import line, line_legend
from sim.figures.reported import AGREES, Ends, ablations, agrees, aligned, distance, plain, run_sd, summary, three_seed_error, written

if TYPE_CHECKING:
    import xarray

COLUMNS: Final = {
    "rolling_gain": "Gain",
    "tail_eval": "Tail eval",
    "peak_sampled": "Peak",
    "floor_eval": "No skill",
    "synthesised": "Written",
    "retired": "Retired",
    "evicted": "Evicted",
    "active_final": "On the shelf",
    "retire_trials": "Trials then",
    "rollbacks": "Rollbacks",
}
DRAWN: Final = ("rolling_gain", "tail_eval", "peak_sampled", "synthesised", "retired", "evicted", "active_final")
SPREAD: Final = tuple(f"{name}_sd" for name in COLUMNS if name != "retire_trials")
VARIABLES: Final = (*COLUMNS, *SPREAD)
AXIS: Final = "condition"
EVALS: Final = ("rolling_gain", "tail_eval", "peak_sampled", "floor_eval")


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but the condition."""
    return fix(data, (AXIS,))


def compared(data: xarray.Dataset) -> dict[tuple[str, str], tuple[Ends, float]]:
    """Return what is reported and how many standard errors of three seeds it is away, by condition and variable."""
    found = {}
    for name in map(str, data[AXIS].values):
        part = data.sel({AXIS: name})
        for variable in COLUMNS:
            if (ends := ablations().get((name, variable))) is not None:
                found[name, variable] = ends, distance(float(part[variable]), three_seed_error(part, variable), ends, variable)
    return found


# ---------------------------------------------------------------- in numbers


def table(data: xarray.Dataset) -> str:
    """Return RT's ablations in numbers, as Markdown whose columns also stand under each other as plain text."""
    found = compared(data)
    beyond = sum(not agrees(z) for _, z in found.values())
    words = (
        f"{summary([z for _, z in found.values()])}; {beyond} do not.",
        "The world was fitted to these very values: agreement is how well they can be met together, not a test.",
        "",
        "A line per condition: mean ± standard deviation of one run, each with tasks of its own; RT's three seeds share theirs.",
        "Below it, what RT reports, and how many standard errors of a mean of three such runs it lies above (+) or below (-) the mean:",
        f"✓ within {AGREES:g}, ✗ farther. An error counts as 0.1 skills, or 0.01 of an eval, at least; inside a reported range it is 0.",
        "Gain: last window less first. Peak: the best of all sampled evals, so high even where nothing is injected (A1).",
        "No skill: RT reports 0.258 at round 0; here the eval falls below that before it rises, and the gain contains the dip.",
        "Trials then: of a skill when retired; RT reports a median, and that and the skills written of one run.",
        "",
        f"{plain(settings(data))}.",
    )
    lines = [["", *COLUMNS.values()]]
    for name in map(str, data[AXIS].values):
        part = data.sel({AXIS: name})
        lines.append([name, *(_number(part, variable) for variable in COLUMNS)])
        if any((name, variable) in found for variable in COLUMNS):
            lines.append(["  reported", *(written(found.get((name, variable))) for variable in COLUMNS)])
    return "\n".join([f"# {data.attrs.get('sweep', 'result')}: RT's run and its ablations", "", *words, "", *aligned(lines), ""])


def _number(part: xarray.Dataset, variable: str) -> str:
    sign, digits = "+" if variable == "rolling_gain" else "", 3 if variable in EVALS else 1
    spread = "" if variable == "retire_trials" else f" ± {run_sd(part, variable):.{digits}f}"
    return f"{float(part[variable]):{sign}z.{digits}f}{spread}"


# ---------------------------------------------------------------- as a figure


def draw(data: xarray.Dataset) -> Figure:
    """Draw a panel per column, a line per condition.

    Parameters
    ----------
    data
        The variables and their standard deviations over ``condition``.
    """
    names, found = [str(name) for name in data[AXIS].values], compared(data)
    figure, (panels,) = style.page(
        1,
        len(DRAWN),
        0.5 + 0.19 * len(names),
        f"{data.attrs.get('sweep', 'result')}: RT's run, and one change at a time",
        settings(data),
        _caption(data, [z for _, z in found.values()]),
        legend=line_legend(),
        sharex=False,
    )
    for ax, variable in zip(panels, DRAWN, strict=True):
        ax.set_title(COLUMNS[variable], fontsize=9)
        for i, name in enumerate(names):
            line(ax, data.sel({AXIS: name}), i, variable, found.get((name, variable)))
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_yticks(range(len(names)), names if ax is panels[0] else [""] * len(names), fontsize=7.5)
        ax.tick_params(labelsize=7, length=2)
        style.plain_ticks(ax, 3)
        ax.grid(True)
        ax.margins(x=0.15)
        if variable == "rolling_gain":
            ax.axvline(0, color=style.GREY, linewidth=0.7, zorder=1)
        if variable == "tail_eval":
            ax.axvline(float(data["floor_eval"].mean()), color=style.GREY, linewidth=0.9, linestyle=(0, (6, 2)), zorder=1)
    return figure


def _caption(data: xarray.Dataset, off: list[float]) -> str:
    words = [f"{summary(off)}. Each seed draws its own tasks here; RT's share theirs and scatter less. A bound is drawn to its end."]
    words.append("The table (ratchet.md) has three columns more.")
    words.append(f"Dashed: no skill, {float(data['floor_eval'].mean()):.3f}.")
    names = {str(name) for name in data[AXIS].values}
    if "A1 withheld" in names:
        peak = float(data["peak_sampled"].sel({AXIS: "A1 withheld"}))
        words.append(f"A peak is the best of all sampled evals: {peak:.2f} even where nothing is injected (A1).")
    return " ".join(words)
