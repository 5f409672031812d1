"""What a case of the verification finds: predictions, what the kernel gave, and how likely so large a difference is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from sim.figures import style

FALSE_ALARM = 1e-3  # of the whole suite, if every key were drawn anew; shared out evenly over its cases
ROUNDING = 2.0**-19


@dataclass(frozen=True)
class Finding:
    """Comparisons of one kind.

    Parameters
    ----------
    predicted, measured, p
        Shape (comparisons,): what theory says, what was found, and the probability of a difference as large if theory is right.
    x, xlabel
        Where each comparison is drawn.
    group
        The colour it has, by name.
    ylabel
        What is compared.
    """

    predicted: np.ndarray
    measured: np.ndarray
    p: np.ndarray
    x: np.ndarray
    xlabel: str
    ylabel: str
    group: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """The p-value of the case: of its most surprising comparison, allowing for how many there are (Bonferroni)."""
        return float(min(1.0, np.nanmin(self.p) * len(self.p)))


def series(group: str, x: Any, predicted: Any, measured: Any, p: Any) -> Finding:
    """Return comparisons of one group, from arrays or numbers; its labels come with :func:`joined`."""
    parts = np.broadcast_arrays(*(np.atleast_1d(np.asarray(part, np.float64)) for part in (predicted, measured, p, x)))
    return Finding(*parts, xlabel="", ylabel="", group=(group,) * len(parts[0]))


def joined(findings: list[Finding], xlabel: str, ylabel: str) -> Finding:
    """Return several findings as one."""
    parts = (np.concatenate([getattr(f, name) for f in findings]) for name in ("predicted", "measured", "p", "x"))
    return Finding(*parts, xlabel=xlabel, ylabel=ylabel, group=tuple(g for f in findings for g in f.group))


def of_counts(count: np.ndarray, runs: int, chance: np.ndarray) -> np.ndarray:
    """Return exact two-sided p-values of counts that are binomial if theory is right."""
    chance = np.clip(chance, 0.0, 1.0)
    return np.minimum(1.0, 2 * np.minimum(binom.cdf(count, runs, chance), binom.sf(count - 1, runs, chance)))


def of_means(measured: np.ndarray, se: np.ndarray, predicted: np.ndarray, rare: float = 0.0) -> np.ndarray:
    """Return two-sided p-values of means, by the normal approximation; what does not vary must be right up to rounding.

    ``rare`` is what a single rare event would add to a mean: an error is not taken as smaller, lest one that did not occur
    counts as impossible.
    """
    off = np.maximum(np.abs(measured - predicted) - ROUNDING, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(off == 0, 1.0, 2 * norm.sf(off / np.maximum(se, rare)))


def draw(finding: Finding, name: str, about: str, gate: float, folder: Path) -> Path:
    """Draw measured over predicted, and below how surprising each difference is; return the picture's path."""
    with style.context():
        figure, panels = style.page(
            2,
            1,
            2.2,
            f"Verification: {name.replace('_', ' ')}",
            about,
            f"Lines or bars: predicted. Points: the kernel. Below: p-values in standard normal units; dashed: the gate for "
            f"{len(finding.p)} comparisons, p = {gate:.1g} for all of them together. p-value of the case: {finding.worst:.3g}.",
            xlabel=finding.xlabel,
            legend=_legend(finding),
        )
        top, bottom = panels[:, 0]
        groups = list(dict.fromkeys(finding.group)) or [""]
        signed = np.sign(finding.measured - finding.predicted) * norm.isf(np.clip(finding.p / 2, 1e-16, 0.5))
        for i, group in enumerate(groups):
            mine = np.array([g == group for g in finding.group]) if finding.group else np.ones(len(finding.p), bool)
            order = np.argsort(finding.x[mine], kind="stable")
            look: dict[str, Any] = {"color": style.COLOURS[i % len(style.COLOURS)]}
            x = finding.x[mine][order]
            marks = {"linestyle": "none", "marker": "_", "markersize": 11} if len(np.unique(x)) < len(x) or len(x) < 6 else {}
            top.plot(x, finding.predicted[mine][order], **look, **marks)
            top.plot(x, finding.measured[mine][order], "o", markersize=3, **look)
            bottom.plot(x, signed[mine][order], "o", markersize=3, **look)
        limit = float(norm.isf(gate / len(finding.p) / 2))
        for level in (-limit, limit):
            bottom.axhline(level, color=style.GREY, linestyle=(0, (3, 2)), linewidth=0.8)
        bottom.axhline(0, color=style.GREY, linewidth=0.7)
        reach = 1.15 * max(limit, float(np.abs(signed).max()))
        bottom.set_ylim(-reach, reach)
        top.set_ylabel(finding.ylabel)
        bottom.set_ylabel("standard normal units")
        figure.align_ylabels([top, bottom])
        return style.save(figure, folder, name)[0]


def _legend(finding: Finding) -> list[Any]:
    from matplotlib.lines import Line2D

    groups = list(dict.fromkeys(finding.group))
    return [Line2D([], [], color=style.COLOURS[i % len(style.COLOURS)], marker="o", markersize=3, label=g) for i, g in enumerate(groups)][
        :21
    ]
