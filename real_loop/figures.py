"""Figures of a run, drawn from its log: the trajectory by round, and the life of each skill. Looks are those of the simulator's figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, MaxNLocator

from real_loop.history import History
from real_loop.measures import lives, series
from real_loop.words import settings, shown
from sim.curators import RATCHET
from sim.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED: Final = 45  # skills whose names can be read beside their bars
LONGEST: Final = 34  # letters of a name
SINGLE: Final = 30  # rounds whose skills are counted one by one; of more rounds a few are summed
LEAST: Final = 0.2  # of the pass rates that the axis of evals spans
SUBTITLE: Final = 8.5  # points
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


def _page(history: History, what: str, rows: int, height: float, caption: str, **more: Any) -> tuple[Figure, np.ndarray]:
    """Return a page of the simulator's looks. Its subtitle is broken between phrases only, where it does not fit the page."""
    model = history.identity["model"] or "a run"
    reached = "" if history.finished else f", {history.ended} of {history.policy.rounds} rounds"
    font, lines = FontProperties(family="DejaVu Sans", size=SUBTITLE), list[str]()
    for phrase in map(_plain, settings(history.identity)[1:]):
        longer = f"{lines[-1]}  ·  {phrase}" if lines else phrase
        if lines and text_to_path.get_text_width_height_descent(longer, font, False)[0] <= 72 * (style.WIDTH - 0.2):
            lines[-1] = longer
        else:
            lines.append(phrase)
    room = " ".join(["x" * 100] * len(lines))  # as many lines
    figure, panels = style.page(rows, 1, height, f"{_plain(model)}{reached}: {what}", room, caption, xlabel="round", **more)
    figure.texts[1].set_text("\n".join(lines))
    return figure, panels


def _plain(text: str) -> str:
    """Return a text that matplotlib takes as it is: a dollar sign would begin a formula."""
    return shown(text).replace("$", r"\$")


def trajectory(history: History) -> Figure:
    """Draw eval, shelf, skills that came and went, and failures by round, one above the other."""
    data = series(history)
    x = data["round"]
    flips = data["hidden_failures"].sum() + data["phantom_failures"].sum()
    caption = (
        "Eval: the share of eval tasks that truly passed in one attempt each, ± the standard deviation of its posterior under Jeffreys' "
    )
    caption += "prior, cut at 0 and 1. No skill is written in the last round."
    caption += f" {int(flips)} of {int(data['trials'].sum())} train labels were flipped." if flips else ""
    figure, panels = _page(history, "the life of its library, round by round", 4, 1.6, caption, ratios=(1.35, 0.9, 0.9, 1.0))
    first, second, third, fourth = panels[:, 0]
    low, high = _evals(first, data)
    if window := _window(history, data):
        first.plot(*window[0], color=GREEN, linewidth=3, solid_capstyle="butt", alpha=0.8, label=window[1])
    second.plot(x, data["active"], "o-", color=GREEN, markersize=3.5, linewidth=1.8, label="on the shelf", zorder=3)
    back = [now.round for now in history.rounds if now.rolled_back and now.ended]
    for ax, name in ((first, "eval"), (second, "active")):
        if back:
            ring: dict[str, Any] = {"markersize": 9, "markerfacecolor": "none", "markeredgecolor": RED, "zorder": 5}
            ax.plot(back, data[name][back], "o", label="rolled back", **ring)
    first.set_ylabel("pass rate")
    second.set_ylabel("skills")
    summed = _came_and_went(third, data)
    _failures(fourth, data)
    first.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    for ax in (second, fourth):
        top = max(ax.get_ylim()[1], 1)
        ax.set_ylim(-0.06 * top, 1.08 * top)
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    over = "" if summed == 1 else f": sums over {summed} rounds"
    what = (
        "eval",
        "skills on the shelf",
        f"skills that came (up) and went (down){over}",
        f"failures in {len(history.tasks['train'])} train trials",
    )
    for ax, title in zip(panels[:, 0], what, strict=True):
        ax.set_title(title, loc="left")
        ax.grid(True)
        labelled = sorted(zip(*ax.get_legend_handles_labels(), strict=True), key=lambda item: item[1] != "eval")
        look: dict[str, Any] = {"fontsize": 8, "borderaxespad": 0.1, "columnspacing": 1.4, "handlelength": 1.8}
        ax.legend(*zip(*labelled, strict=True), loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=5, **look)
    fourth.xaxis.set_major_locator(MaxNLocator(12, integer=True, min_n_ticks=1))
    fourth.set_xlim(-0.6, max(x[-1], 1) + 0.6)
    return figure


def _evals(ax: Axes, data: dict[str, np.ndarray]) -> tuple[float, float]:
    """Draw the eval with its errors; return which pass rates its axis should show."""
    rate, se = data["eval"], data["eval_se"]
    errors = np.fmin(se, rate), np.fmin(se, 1 - rate)
    ax.errorbar(data["round"], rate, errors, fmt="o-", color=BLUE, markersize=4, elinewidth=1.0, capsize=2, label="eval")
    if not np.isfinite(rate).any():
        return 0.0, 1.0
    low, high = float(np.nanmin(rate - errors[0])), float(np.nanmax(rate + errors[1]))
    if low < LEAST / 2:
        low = 0.0
    return max(0.0, min(low, high - LEAST)), min(1.0, max(high, low + LEAST))


def _window(history: History, data: dict[str, np.ndarray]) -> tuple[tuple[list[float], list[float]], str] | None:
    """Return the means over the first and the last rounds, as far as they were played: lines with a gap between, and their label."""
    window, rounds = history.policy.window, history.policy.rounds
    xs, ys, levels = list[float](), list[float](), list[float]()
    for begin in (0, rounds - window):
        at = slice(begin, begin + window)
        if window > 1 and len(data["round"]) >= begin + window and (n := data["attempted"][at].sum()):
            levels.append(data["passes"][at].sum() / n)
            xs += [begin - 0.3, begin + window - 0.7, np.nan]
            ys += [levels[-1], levels[-1], np.nan]
    which = ("the first", "the first and the last")[len(levels) - 1]
    return ((xs, ys), f"mean of {which} {window} rounds: {' and '.join(f'{v:.3f}' for v in levels)}") if levels else None


def _came_and_went(ax: Axes, data: dict[str, np.ndarray]) -> int:
    """Draw how many skills were written, upwards, and retired and evicted, downwards; return over how many rounds they are summed."""
    n = len(data["round"])
    summed = 1 if n <= SINGLE else next(k for k in (2, 4, 5, 10, 20, 25, 50, 100, n) if n <= SINGLE * k)
    starts = np.arange(0, n, summed)
    middle = (starts + np.minimum(starts + summed, n) - 1) / 2
    width = 0.8 * (np.minimum(starts + summed, n) - starts)
    gone = np.zeros(len(starts))
    for name, label, colour in (("synthesised", "written", BLUE), ("retired", "retired", RED), ("evicted", "evicted", ORANGE)):
        counts = np.add.reduceat(data[name], starts)
        if name == "synthesised":
            ax.bar(middle, counts, width, color=colour, label=label, zorder=2)
            most = counts.max()
        else:
            ax.bar(middle, -counts, width, bottom=-gone, color=colour, label=label, zorder=2)
            gone += counts
    ax.axhline(0, color=style.GREY, linewidth=0.8, zorder=3)
    ax.set_ylim(-1.1 * max(gone.max(), 1), 1.1 * max(most, 1))
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):g}"))
    ax.set_ylabel("skills")
    return summed


def _failures(ax: Axes, data: dict[str, np.ndarray]) -> None:
    """Draw failures as observed and true ones; a single line where no label was flipped."""
    x, observed = data["round"], data["observed_failures"]
    ax.set_ylabel("failures")
    if not (data["phantom_failures"].any() or data["hidden_failures"].any()):
        ax.plot(x, observed, "o-", color=RED, markersize=3.5, label="as observed, and true: no label was flipped")
        return
    true = observed - data["phantom_failures"] + data["hidden_failures"]
    ax.plot(x, true, "s--", color=style.GREY, markersize=4.5, markerfacecolor="white", label="true")
    ax.plot(x, observed, "o-", color=RED, markersize=3, label="as observed")
    for low, high, colour, label in ((true, observed, PINK, "phantom"), (observed, true, ORANGE, "hidden")):
        if (high > low).any():
            look: dict[str, Any] = {"color": colour, "alpha": 0.25, "linewidth": 0, "label": f"net {label}"}
            ax.fill_between(x, low, high, where=high >= low, interpolate=True, **look)


def of_skills(history: History) -> Figure:
    """Draw the life of each skill: a bar for each time on the shelf, coloured by its mean signed outcome then, and how it ended."""
    from sim.figures.rt2 import bars

    found, tau = lives(history), history.policy.tau
    caption = "Colour: the mean signed outcome that the curator decides by, as observed when a bar ends, red at "
    caption += f"{-tau:g} (-tau) and below: there a skill of {history.policy.n_min} trials is retired. "
    if history.policy.curator != RATCHET:
        caption = f"Colour: the mean signed outcome, as observed when a bar ends, red at {-tau:g} and below; the curator is "
        caption += f"{history.policy.curator}. "
    caption += "Numbers at the ends of bars: trials, where there is room. Grey: no trial."
    height = min(7.0, 2.0 + 0.14 * len(found))
    figure, panels = _page(history, "the life of each of its skills", 1, height, caption)
    ax = panels[0, 0]
    colours = [s.net / s.n if s.n else np.nan for life in found for s in life.stretches]
    label = "mean signed outcome"
    far = max((abs(c + tau) for c in colours if np.isfinite(c)), default=1.0)
    scale = CenteredNorm(-tau, max(far, 0.5))
    bar = bars(figure, ax, found, max(history.ended, 1), colours, scale, label, extend="neither")
    low, high = max(-1.0, scale.vmin or -1.0), min(1.0, scale.vmax or 1.0)  # the outcome goes no farther
    bar.ax.set_ylim(low, high)
    bar.ax.axhline(-tau, color=style.INK, linewidth=1.0)
    round_ones = MaxNLocator(9, steps=[1, 2, 5, 10]).tick_values(low, high)
    ticks = [-tau, *(t for t in round_ones if low <= t <= high and abs(t + tau) > 0.05 * (high - low))]
    labels = [f"{t:g}".replace("-", "\N{MINUS SIGN}") for t in ticks]
    bar.set_ticks(ticks, labels=[f"{labels[0]} (-tau)", *labels[1:]])
    ax.set_facecolor("#e9e9e9")
    if len(found) <= NAMED:
        names = [_plain(history.skills[life.number].skill.name) for life in found]
        labels = [f"{name[: LONGEST - 1]}…" if len(name) > LONGEST else name for name in names]
        ax.set_yticks(
            [life.number for life in found], [f"#{life.number}  {name}" for name, life in zip(labels, found, strict=True)], fontsize=6.5
        )
        ax.set_ylabel("")
    else:
        ax.yaxis.set_major_locator(MaxNLocator(10, integer=True))
    ax.xaxis.set_major_locator(MaxNLocator(12, integer=True, min_n_ticks=1))
    ax.set_xlim(-1.2 if any(life.born_round < 0 for life in found) else -0.5, max(history.ended, 1) - 0.5 + 0.03 * max(history.ended, 1))
    return figure
