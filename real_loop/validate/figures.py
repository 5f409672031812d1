"""Figures of a comparison: predicted bands by round with the real runs in them, the calibration of all predictions, and the cliff."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from real_loop.validate.compare import ranks
from real_loop.validate.conditions import Seen
from real_loop.validate.judged import Held, label
from sim.figures import style

ROWS: Final = ("eval", "active", "retired", "evicted", "observed_failures")
NAMES: Final = {"eval": "tail_sampled", "active": "active_final"}  # by round, and at the end
BLUE, RED = style.COLOURS[:2]


def draw(held: Sequence[Held], logs: Sequence[Seen], held_out: Sequence[bool], cliff: Cliff | None, folder: Path) -> list[Path]:
    """Draw all figures; return the files written.

    Raises
    ------
    InputError
        They cannot be written.
    """
    with style.context():
        written = style.save(bands(held, logs, held_out), folder, "bands")
        if any(held_out):
            written += style.save(calibration(held, held_out), folder, "calibration")
        if cliff is not None:
            written += style.save(cliff.figure(), folder, "cliff")
    return written


def bands(held: Sequence[Held], logs: Sequence[Seen], held_out: Sequence[bool]) -> Any:
    """Draw by round what was predicted under each reward and what the real runs showed."""
    conditions = list(dict.fromkeys(log.condition for log in logs))
    by_name = {h.name: h for h in held if h.by_round}
    legend = [
        Patch(color=BLUE, alpha=0.18, linewidth=0, label="predicted, 90 %"),
        Patch(color=BLUE, alpha=0.4, linewidth=0, label="predicted, 50 %"),
        Line2D([], [], color=RED, marker="o", markersize=3, label="real runs"),
    ]
    caption = "Predicted: the simulator on the same tasks, its world fitted to clean runs, with the uncertainty of the fit. "
    caption += "Counts of skills retired and evicted are sums up to a round. "
    if not all(held_out):
        caption += "Runs drawn dashed were part of the fit."
    what = "What the simulator predicted, and what the real loop did"
    tasks = logs[0].history.tasks
    under = f"{logs[0].history.identity['model']}, {len(tasks['train'])} train and {len(tasks['eval'])} eval tasks, {len(logs)} runs"
    figure, panels = style.page(len(ROWS), len(conditions), 1.35, what, under, caption, xlabel="round", legend=legend)
    for j, condition in enumerate(conditions):
        at = [i for i, log in enumerate(logs) if log.condition == condition]
        for i, name in enumerate(ROWS):
            ax, h = panels[i, j], by_name[name]
            x = np.arange(h.real.shape[1])
            low, q1, middle, q3, high = (h.bands[k, at].mean(axis=0) for k in range(5))
            ax.fill_between(x, low, high, color=BLUE, alpha=0.18, linewidth=0)
            ax.fill_between(x, q1, q3, color=BLUE, alpha=0.28, linewidth=0)
            ax.plot(x, middle, color=BLUE, linewidth=0.9)
            for k in at:
                ax.plot(x, h.real[k], "o-" if held_out[k] else "o--", color=RED, markersize=2.8, linewidth=1.0)
            ax.grid(True)
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            if not i:
                ax.set_title(condition, loc="left", fontsize=8)
            if not j:
                ax.set_ylabel(label(name, True).replace(", by round", "").replace(" so far", ""), fontsize=7.5)
    for i in range(len(ROWS)):
        ends = np.array([ax.get_ylim() for ax in panels[i]])
        for ax in panels[i]:
            ax.set_ylim(ends[:, 0].min(), ends[:, 1].max())
            if ax is not panels[i, 0]:
                ax.tick_params(labelleft=False)
    return figure


def calibration(held: Sequence[Held], held_out: Sequence[bool]) -> Any:
    """Draw how often real values lie below each predicted quantile: on the diagonal if predictions are right."""
    caption = (
        "Real values of the runs that were predicted, among predicted ones; ties are broken at random. Thick: all variables together; the "
    )
    caption += (
        "band holds it at each quantile in 90 % of joint draws if predictions are right, since values of one run depend on each other."
    )
    lines = [h for h in held if not h.by_round]
    legend: list[Line2D | Patch] = [
        Line2D([], [], label=label(h.name, False), **style.line_style(i, len(lines))) for i, h in enumerate(lines)
    ]
    legend += [Line2D([], [], color=style.INK, linewidth=2.4, label="all"), Patch(color=style.GREY, alpha=0.25, linewidth=0, label="90 %")]
    figure, panels = style.page(
        1, 2, 3.4, "Are the predictions calibrated?", "share of real values below a predicted quantile", caption,
        xlabel="predicted quantile", legend=legend, sharex=False,
    )  # fmt: skip
    at, out = np.linspace(0, 1, 101), np.array(held_out)
    for ax, by_round, title in zip(panels[0], (False, True), ("final values", "by round"), strict=True):
        found, chance = list[np.ndarray](), list[np.ndarray]()
        for k, h in enumerate(h for h in held if h.by_round == by_round):
            mine = np.isfinite(h.real) & (out if not by_round else out[:, None])
            drawn = h.drawn[:, mine]
            found.append(ranks(h.real[mine][None, :], drawn, k)[0])
            chance.append(ranks(drawn, drawn, 1000 + k))
            where = NAMES.get(h.name, h.name)
            look = style.line_style(next(i for i, other in enumerate(lines) if other.name == where), len(lines))
            ax.plot(at, (found[-1][:, None] <= at).mean(axis=0), alpha=0.75, **{**look, "linewidth": 0.8})
        together = np.concatenate(chance, axis=1)
        low, high = np.quantile([(row[:, None] <= at).mean(axis=0) for row in together], (0.05, 0.95), axis=0)
        ax.fill_between(at, low, high, color=style.GREY, alpha=0.25, linewidth=0)
        ax.plot(at, (np.concatenate(found)[:, None] <= at).mean(axis=0), color=style.INK, linewidth=2.4)
        ax.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.8, linestyle=":")
        ax.set_title(title, loc="left")
        ax.set_aspect("equal")
        ax.grid(True)
    return figure


class Cliff:
    """The simulated cliff with the real points on it.

    Parameters
    ----------
    q
        Rates at which it was simulated, shape (k,).
    drawn
        By variable: simulated values, shape (draws, k).
    points
        By variable: the real points (rho_fp, value, what), of runs whose rewards pass no true pass as a failure.
    others
        By variable: real values and predicted quantiles of all other runs: (condition, real values, band).
    """

    def __init__(
        self,
        q: np.ndarray,
        drawn: dict[str, np.ndarray],
        points: dict[str, list[tuple[float, float]]],
        others: dict[str, list[tuple[str, list[float], np.ndarray]]],
        tau: float,
        about: str,
    ) -> None:
        self.q, self.drawn, self.points, self.others, self.tau, self.about = q, drawn, points, others, tau, about

    def figure(self) -> Any:
        """Draw it: a panel per variable."""
        names = list(self.drawn)
        legend = [
            Patch(color=BLUE, alpha=0.18, linewidth=0, label="simulated, 90 %"),
            Patch(color=BLUE, alpha=0.4, linewidth=0, label="simulated, 50 %"),
            Line2D([], [], color=RED, marker="o", linestyle="", markersize=4, label="real runs"),
            Line2D([], [], color=style.GREY, linestyle=":", label="(1 - tau) / 2"),
        ]
        caption = "The band: the simulator on the same tasks with the fitted world. Right of the line: rewards with phantom failures, "
        caption += "or a judge, each with its own predicted band."
        figure, panels = style.page(1, len(names), 2.6, "The cliff, simulated and real", self.about, caption,
                                    xlabel="rho_fp: failures passed as successes", legend=legend)  # fmt: skip
        for ax, name in zip(panels[0], names, strict=True):
            low, q1, middle, q3, high = np.quantile(self.drawn[name], (0.05, 0.25, 0.5, 0.75, 0.95), axis=0)
            ax.fill_between(self.q, low, high, color=BLUE, alpha=0.18, linewidth=0)
            ax.fill_between(self.q, q1, q3, color=BLUE, alpha=0.28, linewidth=0)
            ax.plot(self.q, middle, color=BLUE, linewidth=1.0)
            ax.axvline((1 - self.tau) / 2, color=style.GREY, linestyle=":", linewidth=1.0)
            for x, y in self.points[name]:
                ax.plot([x], [y], "o", color=RED, markersize=4.5, markeredgecolor="white", markeredgewidth=0.6, zorder=4)
            ticks, texts = [0.0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"]
            for k, (what, real, band) in enumerate(self.others[name]):
                x = 1.12 + 0.14 * k
                ax.plot([x, x], [band[0], band[4]], color=BLUE, alpha=0.35, linewidth=5, solid_capstyle="butt")
                ax.plot([x, x], [band[1], band[3]], color=BLUE, alpha=0.6, linewidth=5, solid_capstyle="butt")
                ax.plot([x] * len(real), real, "o", color=RED, markersize=4.5, markeredgecolor="white", markeredgewidth=0.6, zorder=4)
                ticks, texts = [*ticks, x], [*texts, what]
            if self.others[name]:
                ax.axvline(1.04, color="#888888", linewidth=0.7)
            ax.set_xticks(ticks, texts)
            for text in ax.get_xticklabels()[5:]:
                text.set_rotation(30)
                text.set_ha("right")
            ax.set_title(label(name, False), loc="left")
            ax.grid(True)
        return figure
