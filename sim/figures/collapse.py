"""Two stable states of a shelf: its size at the end against how early the rule acts, from narrow and from broad starts; and why.

Where skills injected on another topic hurt, a narrow shelf is routed mostly off its topics. Young skills then look bad whatever they are
worth on their own topic, and a rule that acts early removes them before the shelf is broad enough to be routed well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sim.figures import style
from sim.figures.axes import FP, PF, TAU, axis_label, each, parameter, setting, settings, text
from sim.figures.axes import split as fix
from sim.model import World, from_mapping
from sim.theory import observed_rate

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = ("active_final", "tail_eval", "floor_eval")
STARTS: Final = 4
N_MIN: Final = "policy.n_min"
START: Final = "world.start"
KNOWN: Final = {(20, 0.0): "A4", (24, 0.1): "BC", (100, 0.1): "RT"}  # n_min, tau of the papers
DASHES: Final = ("-", (0, (4, 1.5)), (0, (1, 1.2)))


def collapse_axes(data: xarray.Dataset) -> tuple[str, str] | None:
    """Return the axes of n_min and of the shelf at the start, if a result has both; else None."""
    x, start = setting(data, N_MIN), setting(data, START)
    return (x, start) if x and start else None


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but n_min, the shelf at the start, and tau."""
    keep = collapse_axes(data)
    assert keep is not None, "n_min and the shelf at the start are axes"
    return fix(data, [*keep, *([tau] if (tau := setting(data, TAU)) else [])])


def shown_rate(world: World) -> np.ndarray:
    """Return the true pass rate on all trials routed to an average skill, by how many topics have a skill.

    One skill for each of the first m topics, m = 1 .. ``topics``; routing and pass probabilities as in MODEL.md, exactly. Shape (topics,).
    """
    from sim.tables import EFFECT_BINS, NO_SKILL, OFF_TOPIC, pass_table, recall

    passes = pass_table(replace(world, start=0))[0].mean(axis=1) / 2.0**32
    on, off = passes[:EFFECT_BINS].mean(), passes[OFF_TOPIC]
    assert passes[NO_SKILL] >= off, "a skill on another topic never helps"
    weight = np.arange(1, world.topics + 1, dtype=float) ** -world.topic_skew
    weight /= weight.sum()
    noticed = recall(world)

    def some(others: np.ndarray) -> np.ndarray:
        if world.router.mode == "top_hit":
            return (others > 0).astype(float)
        return np.asarray(1.0 - (1.0 - world.router.false_match) ** others)

    m = np.arange(1, world.topics + 1)
    covered = np.cumsum(weight)
    right = covered * noticed
    wrong = covered * (1.0 - noticed) * some(m - 1) + (1.0 - covered) * some(m)
    return np.asarray((right * on + wrong * off) / np.maximum(right + wrong, 1e-12))


def draw(data: xarray.Dataset) -> Figure:
    """Draw shelf size and eval against n_min, a line per start and tau, and the pass rate that an average skill shows.

    Parameters
    ----------
    data
        ``active_final``, ``tail_eval`` and ``floor_eval`` over n_min, the shelf at the start, and maybe tau.
    """
    keep = collapse_axes(data)
    assert keep is not None, "n_min and the shelf at the start are axes"
    x, start = keep
    tau = setting(data, TAU)
    taus = [float(part[tau]) for part in each(data, tau, len(DASHES))] if tau else [float(parameter(data, TAU))]
    parts = each(data, start, STARTS)
    seen = _seen(data)
    figure, (panels,) = style.page(
        1,
        3 if seen is not None else 2,
        2.9,
        f"{data.attrs.get('sweep', 'result')}: shelves that start narrow and broad",
        settings(data),
        _caption(data, x, start, tau, seen),
        legend=_legend(parts, start, taus),
        sharex=False,
    )
    for ax, name, title in zip(
        panels, ("active_final", "tail_eval"), ("skills on the shelf at the end", "tail eval (pass rate)"), strict=False
    ):
        for i, part in enumerate(parts):
            for k, line in enumerate(each(part, tau, len(DASHES))):
                look = {**style.line_style(i, len(parts)), "linestyle": DASHES[k]}
                style.band(ax, line[x].values, line[name].values, line[f"{name}_se"].values, look, False)
        ax.set_title(title, loc="left")
        ax.set_xlabel(axis_label(data, x, 36))
        style.value_axis(ax, data[x].values, "x", 6)
        ax.grid(True)
        ax.set_ylim(bottom=0)
        _mark(ax, data[x].values, taus, first=name == "active_final")
    floor = float(data["floor_eval"].mean())
    panels[1].axhline(floor, color=style.GREY, linewidth=0.9, linestyle=(0, (6, 2)), zorder=1)
    panels[1].annotate("no skill", (float(data[x].max()), floor), xytext=(0, 2), textcoords="offset points", ha="right", fontsize=7)
    if seen is not None:
        _why(panels[2], seen, taus)
    return figure


def _seen(data: xarray.Dataset) -> np.ndarray | None:
    """Return the pass rate that the judge sees of an average skill (:func:`shown_rate`), if all cells have one world and one judge."""
    fp, pf, spread = (parameter(data, path) for path in (FP, PF, "channel.spread"))
    world = _world(data)
    return None if world is None or fp is None or pf is None or spread else observed_rate(shown_rate(world), fp, pf)


def _world(data: xarray.Dataset) -> World | None:
    """Return the world of a part, if all its cells but for the start have the same."""
    cells = (data.attrs.get("identity") or {}).get("cells") or {}
    worlds = [cell["world"] for cell in cells.values() if "world" in cell]
    fixed = all(not str(path).startswith("world.") or str(path) == START for name in data.coords for path in _sets(data, str(name)))
    return from_mapping(World, worlds[0]) if len(worlds) == 1 and fixed else None


def _sets(data: xarray.Dataset, name: str) -> tuple[str, ...]:
    there = data[name].attrs.get("sets") or ()
    return (there,) if isinstance(there, str) else tuple(there)


def _mark(ax: Axes, n_min: np.ndarray, taus: list[float], first: bool) -> None:
    """Mark where the papers' settings are."""
    for (n, tau), name in KNOWN.items():
        if n_min.min() <= n <= n_min.max() and any(abs(tau - t) < 1e-9 for t in taus):
            ax.axvline(n, color=style.GREY, linewidth=0.7, linestyle=":", zorder=1)
            if first:
                side = "right" if name == "A4" else "left"  # A4 and BC are neighbours
                side = "right" if name == "A4" else "left"  # A4 and BC are neighbours
                look: dict[str, Any] = {"textcoords": "offset points", "ha": side, "va": "bottom", "fontsize": 7, "color": style.INK}
                ax.annotate(name, (n, 0.03), xycoords=("data", "axes fraction"), xytext=(-3 if side == "right" else 3, 0), **look)


def _why(ax: Axes, rate: np.ndarray, taus: list[float]) -> None:
    topics = np.arange(1, len(rate) + 1)
    ax.plot(topics, rate, color=style.COLOURS[6], linewidth=1.6, zorder=3)
    for k, tau in enumerate(taus):
        pi = (1.0 - tau) / 2.0
        ax.axhline(pi, color=style.COLOURS[1], linewidth=1.0, linestyle=DASHES[k], zorder=2)
        ax.annotate(rf"$\pi_\tau$, tau = {text(tau)}", (topics[0], pi), xytext=(0, 2), textcoords="offset points", ha="left", fontsize=7)
    ax.set_ylim(0, min(1.0, max([float(rate.max()), *((1.0 - t) / 2.0 for t in taus)]) + 0.08))
    ax.set_title("observed pass rate of the average skill", loc="left", fontsize=8.5)
    ax.set_xlabel("topics that have a skill, one each")
    ax.grid(True)
    style.plain_ticks(ax, 6)


def _legend(parts: list[xarray.Dataset], start: str, taus: list[float]) -> list[Line2D]:
    lines = [
        Line2D([], [], **style.line_style(i, len(parts)), label=f"{text(part[start].item())} skills at the start")
        for i, part in enumerate(parts)
    ]
    return [
        *lines,
        *(Line2D([], [], color=style.INK, linestyle=DASHES[k], label=f"tau = {text(t)}") for k, t in enumerate(taus)),
    ]


def apart(data: xarray.Dataset, x: str, start: str) -> list[float]:
    """Return the values of n_min at which the narrowest and the broadest start end with shelves that differ by half the broader."""
    ends = data["active_final"].isel({start: [0, -1]}).transpose(start, x).values
    return [float(n) for n, narrow, broad in zip(data[x].values, *ends, strict=True) if narrow < broad / 2]


def _caption(data: xarray.Dataset, x: str, start: str, tau: str | None, seen: np.ndarray | None) -> str:
    words = []
    for part in each(data, tau, len(DASHES)):
        far = apart(part, x, start)
        if far:
            at = f" at tau = {text(part[tau].item())}" if tau else ""
            i = far[len(far) // 2]
            narrow, broad = (float(part["active_final"].sel({x: i}).isel({start: j})) for j in (0, -1))
            span = f"n_min from {far[0]:g} to {far[-1]:g}" if len(far) > 1 else f"n_min = {far[0]:g}"
            words.append(f"{span}{at}: the start decides (at {i:g}: {narrow:.1f} skills left against {broad:.1f}).")
    words = words or ["The start makes no difference: one stable state."]
    words.append("Lines: ±1.96 standard errors. Dotted: settings of the papers.")
    if seen is not None:
        for part in each(data, tau, len(DASHES)):
            value = float(part[tau]) if tau else float(parameter(data, TAU))
            enough = np.flatnonzero(seen > (1.0 - value) / 2.0)
            when = f"while fewer than {enough[0] + 1} topics have a skill" if enough.size else "however many topics have a skill"
            words.append(f"Right, tau = {text(value)}: {when}, the average one passes too rarely to stay.")
    return " ".join(words)
