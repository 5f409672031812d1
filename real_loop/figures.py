"""Figures of a run, drawn from its log: the trajectory by round, and the life of each skill. Looks are those of the simulator's figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm
from matplotlib.ticker import MaxNLocator

from real_loop.history import History
from real_loop.measures import lives, series
from real_loop.words import settings, shown
from sim.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED: Final = 45  # skills whose names can be read beside their bars
LONGEST: Final = 34  # letters of a name
BLUE, RED, GREEN, PINK, ORANGE = style.COLOURS[:5]


def draw(history: History, folder: Path) -> list[Path]:
    """Draw what the log has enough of; return the files written: PNG and SVG of each figure.

    Raises
    ------
    InputError
        They cannot be written.
    """
    written = []
    with style.context():
        if history.ended:
            written += style.save(trajectory(history), folder, "trajectory")
        if history.skills:
            written += style.save(of_skills(history), folder, "lives")
    return written


def _title(history: History, what: str) -> tuple[str, str]:
    model = history.identity["model"] or "a run"
    reached = "" if history.finished else f", {history.ended} of {history.policy.rounds} rounds"
    return f"{_plain(model)}{reached}: {what}", "  ·  ".join(_plain(word) for word in settings(history.identity)[1:])


def _plain(text: str) -> str:
    """Return a text that matplotlib takes as it is: a dollar sign would begin a formula."""
    return shown(text).replace("$", r"\$")


def trajectory(history: History) -> Figure:
    """Draw eval, shelf and failures by round, one above the other."""
    data = series(history)
    x = data["round"]
    flips = data["hidden_failures"].sum() + data["phantom_failures"].sum()
    caption = "Eval: the share of eval tasks that truly passed in one attempt each, ± one binomial standard error. "
    caption += "No skill is written in the last round."
    caption += f" {int(flips)} of {int(data['trials'].sum())} train labels were flipped." if flips else ""
    title, subtitle = _title(history, "the life of its library, round by round")
    figure, panels = style.page(3, 1, 1.9, title, subtitle, caption, xlabel="round", ratios=(1.25, 1.0, 1.0))
    first, second, third = panels[:, 0]
    first.errorbar(x, data["eval"], data["eval_se"], fmt="o-", color=BLUE, markersize=4, elinewidth=1.0, capsize=2, label="eval")
    _windows(first, history, data)
    if any(now.rolled_back for now in history.rounds):
        back = [now.round for now in history.rounds if now.rolled_back and now.ended]
        first.plot(back, data["eval"][back], "o", markersize=9, markerfacecolor="none", markeredgecolor=RED, label="rolled back")
    first.set_ylabel("eval (pass rate)")
    first.set_ylim(bottom=max(0.0, first.get_ylim()[0]))
    second.plot(x, data["active"], "o-", color=GREEN, markersize=3.5, linewidth=1.8, label="on the shelf", zorder=3)
    looks = (("synthesised", "written", BLUE, -0.25), ("retired", "retired", RED, 0.0), ("evicted", "evicted", ORANGE, 0.25))
    for name, label, colour, shift in looks:
        second.bar(x + shift, data[name], 0.23, color=colour, label=label, zorder=2)
    second.set_ylabel("skills")
    true = data["observed_failures"] - data["phantom_failures"] + data["hidden_failures"]
    third.plot(x, true, "s--", color=style.GREY, markersize=3.5, label="true")
    third.plot(x, data["observed_failures"], "o-", color=RED, markersize=3.5, label="as observed")
    for low, high, colour, label in (
        (true, data["observed_failures"], PINK, "phantom"),
        (data["observed_failures"], true, ORANGE, "hidden"),
    ):
        if (high > low).any():
            third.fill_between(
                x, low, high, where=high >= low, interpolate=True, color=colour, alpha=0.25, linewidth=0, label=f"net {label}"
            )
    third.set_ylabel("failures")
    for ax, what in ((first, "eval"), (second, "the library"), (third, f"failures in {len(history.tasks['train'])} train trials")):
        ax.set_title(what, loc="left")
        ax.grid(True)
        if ax is not first:
            ax.set_ylim(0, 1.08 * max(ax.get_ylim()[1], 1))
            ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        labelled = sorted(zip(*ax.get_legend_handles_labels(), strict=True), key=lambda item: item[1] != "eval")
        look: dict[str, Any] = {"fontsize": 8, "borderaxespad": 0.1, "columnspacing": 1.4, "handlelength": 1.8}
        ax.legend(*zip(*labelled, strict=True), loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=5, **look)
    third.xaxis.set_major_locator(MaxNLocator(12, integer=True, min_n_ticks=1))
    third.set_xlim(-0.6, max(x[-1], 1) + 0.6)
    return figure


def _windows(ax: Axes, history: History, data: dict[str, np.ndarray]) -> None:
    """Draw the mean over the first and the last rounds, as far as they were played."""
    window, rounds = history.policy.window, history.policy.rounds
    label = f"mean of the first and the last {window} rounds"
    for begin in (0, rounds - window):
        at = slice(begin, begin + window)
        if window > 1 and len(data["round"]) >= begin + window and (n := data["attempted"][at].sum()):
            level = data["passes"][at].sum() / n
            ax.plot(
                [begin - 0.3, begin + window - 0.7], [level, level], color=GREEN, linewidth=3, solid_capstyle="butt", alpha=0.8, label=label
            )
            place: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "ha": "left", "va": "center"}
            place["bbox"] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
            ax.annotate(f"{level:.3f}", (begin + window - 0.7, level), fontsize=8, fontweight="bold", color=GREEN, zorder=6, **place)
            label = "_nolegend_"


def of_skills(history: History) -> Figure:
    """Draw the life of each skill: a bar for each time on the shelf, coloured by its mean signed outcome then, and how it ended."""
    from sim.figures.rt2 import bars

    found, tau = lives(history), history.policy.tau
    title, subtitle = _title(history, "the life of each of its skills")
    caption = "Colour: the mean signed outcome that the curator decides by, as observed when a bar ends, red at "
    caption += f"{-tau:g} (-tau) and below: there a skill of {history.policy.n_min} trials is retired. Numbers: trials. Grey: no trial."
    height = min(7.0, 2.0 + 0.14 * len(found))
    figure, panels = style.page(1, 1, height, title, subtitle, caption, xlabel="round")
    ax = panels[0, 0]
    colours = [s.net / s.n if s.n else np.nan for life in found for s in life.stretches]
    label = "mean signed outcome"
    far = max((abs(c + tau) for c in colours if np.isfinite(c)), default=1.0)
    bars(figure, ax, found, max(history.ended, 1), colours, CenteredNorm(-tau, max(far, 0.5)), label, extend="neither")
    ax.set_facecolor("#e9e9e9")
    if len(found) <= NAMED:
        names = [_plain(history.skills[life.number].skill.name) for life in found]
        labels = [f"{name[: LONGEST - 1]}…" if len(name) > LONGEST else name for name in names]
        ax.set_yticks(
            [life.number for life in found], [f"{name}  {life.number}" for name, life in zip(labels, found, strict=True)], fontsize=6.5
        )
        ax.set_ylabel("")
    else:
        ax.yaxis.set_major_locator(MaxNLocator(10, integer=True))
    ax.xaxis.set_major_locator(MaxNLocator(12, integer=True, min_n_ticks=1))
    ax.set_xlim(-1.2 if any(life.born_round < 0 for life in found) else -0.5, max(history.ended, 1) - 0.5 + 0.03 * max(history.ended, 1))
    return figure
