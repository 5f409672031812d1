"""In which regime a library lives: governed, blind or starved, over the rate of hidden failures and one more setting.

Each cell is compared with the same setting under a clean judge, the cell of rho_fp = 0 with the same other coordinates:

- r = retired / retired(rho_fp = 0), s = synthesised / synthesised(rho_fp = 0): what is left of retirement and of writing.
- **governed**: r >= 1/2. **Blind**: r < 1/2 though s >= 1/2, so skills are written and stay. **Starved**: r < 1/2 and s < 1/2, so there
  is little to retire, for little is written.
- **nothing to govern** (grey): even under the clean judge fewer than 0.5 skills per run are retired.
- The eval **shows it** (hatched) where delta_clean, the fall of the eval against a perfect judge, is beyond two standard errors of
  the difference of two means of three seeds with sampled evals; elsewhere the regime is *silent*. A seed's sampled tail eval scatters by
  tail_sampled_sd; where sampled evals were not recorded, by tail_eval_sd and the binomial scatter of n_eval x window attempts together.
  Each seed draws its own tasks here; on common tasks only the attempts scatter, and three seeds see about two thirds of that fall.

Alternatives, and why not. *Retired per written skill* (r / s) isolates the judge from the supply, but it is a ratio of two small numbers
just where it matters, at large rho_fp, and calls a library that writes nothing blind. *Naming the regime after the smaller of s and
r / s* leaves no starved region: retirement per skill reaches 0 at pi_tau, writing only at rho_fp = 1. *Harmful skills on the
shelf* is what an operator cares for but cannot count, and says nothing where all skills help. *A fall of the eval of 0.04*, up to
which RT declines to read its ablations (section 5.1), is one number for evals of any size. *Against pi_tau itself*: that is the
theory's line, and the picture is there to show how far from it finite evidence ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from sim.figures import style
from sim.figures.axes import axis_label, each, edges, parameter, settings, symbol, text
from sim.figures.grid import MAX_COLUMNS, mark, roles
from sim.figures.grid import split as split

if TYPE_CHECKING:
    import xarray

__all__ = ["VARIABLES", "Regimes", "draw", "regimes", "split"]

VARIABLES: Final = ("retired", "synthesised", "delta_clean", "tail_eval", "tail_eval_sd", "tail_sampled_sd")
HALF: Final = 0.5  # of what a clean judge retires and writes
LEAST: Final = 0.5  # skills per run that a clean judge must retire for there to be something to govern
SEEDS: Final = 3  # of the papers
SEEN: Final = 2.0  # standard errors of the difference
NAMES: Final = ("nothing to govern", "governed", "blind", "starved")
COLOURS: Final = (style.MISSING, "#7fbf9b", "#e0833f", "#6f6fb0")


class Regimes(NamedTuple):
    """The regimes of a map; all arrays have shape (y, rho_fp).

    Attributes
    ----------
    kind
        Index into NAMES.
    retired, written
        r and s, nan where the clean judge retires next to nothing.
    close
        Whether r or s decides the regime and is within two standard errors of 1/2.
    visible
        Whether three seeds see the fall of the eval.
    fall, limit
        How far it falls, and how far they see, pass rate.
    """

    kind: np.ndarray
    retired: np.ndarray
    written: np.ndarray
    close: np.ndarray
    visible: np.ndarray
    fall: np.ndarray
    limit: np.ndarray


def _share(part: xarray.Dataset, name: str, enough: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a variable as a share of its value at the first rho_fp, and the standard error of that, as if runs were not shared."""
    mean, se = part[name].values, part[f"{name}_se"].values
    clean, clean_se = mean[:, :1], se[:, :1]
    base = np.where(enough & (clean > 0), clean, np.nan)
    share = mean / base
    return share, np.hypot(se / base, share * clean_se / base)


def regimes(part: xarray.Dataset, x: str, y: str) -> Regimes:
    """Return the regime of each cell of a part over two axes, x being rho_fp from 0 on."""
    part = part.transpose(y, x, ...)
    enough = part["retired"].values[:, :1] >= LEAST
    r, r_se = _share(part, "retired", enough)
    s, s_se = _share(part, "synthesised", enough)
    kind = np.where(r >= HALF, 1, np.where(s >= HALF, 2, 3))
    kind = np.where(np.isnan(r) | np.isnan(s), 0, kind)
    near_r, near_s = np.abs(r - HALF) < 2 * r_se, np.abs(s - HALF) < 2 * s_se
    close = (kind > 0) & (near_r | ((kind > 1) & near_s))
    fall, limit = -part["delta_clean"].values, seen_by_three(part, y)
    return Regimes(kind, r, s, close, (fall > limit) & (kind > 0), fall, limit)


def seen_by_three(part: xarray.Dataset, y: str) -> np.ndarray:
    """Return the fall of the tail eval that is two standard errors of the difference of three seeds and three clean ones; pass rate."""
    sampled = part["tail_sampled_sd"].values
    rows = [part.isel({y: j}) for j in range(part.sizes[y])]
    attempts = np.array([[_number(row, "world.n_eval") * _number(row, "policy.window")] for row in rows])
    p = np.clip(part["tail_eval"].values, 0.0, 1.0)
    worked_out = np.sqrt(part["tail_eval_sd"].values ** 2 + p * (1 - p) / attempts)
    sd = np.where(np.isfinite(sampled) & (sampled > 0), sampled, worked_out)
    return np.asarray(SEEN * np.sqrt((sd**2 + sd[:, :1] ** 2) / SEEDS))


def _number(part: xarray.Dataset, path: str) -> float:
    value = parameter(part, path)
    return float(value) if isinstance(value, int | float) else np.nan


def draw(data: xarray.Dataset) -> Figure:
    """Draw a map of the regimes, a column per value of a third axis.

    Parameters
    ----------
    data
        ``retired``, ``synthesised``, ``delta_clean`` with their errors and the scatter of evals, over rho_fp from 0 on and one more axis of
        numbers, and up to one more of any kind.
    """
    x, y, columns = roles(data)
    parts = each(data, columns, MAX_COLUMNS)
    maps = [regimes(part, x, y) for part in parts]
    figure, (panels,) = style.page(
        1,
        len(parts),
        3.3 if len(parts) > 1 else 4.2,
        f"{data.attrs.get('sweep', 'result')}: governed, blind or starved, along {symbol(data, x)} and {symbol(data, y)}",
        settings(data),
        _caption(maps, columns is not None and len(parts) < data.sizes[columns]),
        xlabel=axis_label(data, x),
        legend=_legend(maps),
        sharex=False,
    )
    for i, (ax, part, found) in enumerate(zip(panels, parts, maps, strict=True)):
        _map(ax, part.transpose(y, x, ...), x, y, found)
        mark(ax, part, x, y, dark=True)
        if columns is not None:
            value = text(part[columns].item())
            ax.set_title(f"{symbol(data, columns)} = {value}" if i == 0 and part[columns].dtype.kind in "fiu" else value, fontweight="bold")
        if i:
            ax.tick_params(labelleft=False)
    panels[0].set_ylabel(axis_label(data, y, 44))
    return figure


def _map(ax: Axes, part: xarray.Dataset, x: str, y: str, found: Regimes) -> None:
    """Draw one map: colours of regimes, hatches where the eval shows it, and the lines on which half is left."""
    xs, ys = part[x].values.astype(float), part[y].values.astype(float)
    log = style.value_axis(ax, xs, "x", 6), style.value_axis(ax, ys, "y")
    x_edges, y_edges = edges(xs, log[0]), edges(ys, log[1])
    look: dict[str, Any] = {"cmap": ListedColormap(COLOURS), "norm": BoundaryNorm(np.arange(len(NAMES) + 1) - 0.5, len(NAMES))}
    ax.pcolormesh(x_edges, y_edges, found.kind, shading="flat", rasterized=True, **look)
    for j, i in np.argwhere(found.visible):
        box = (x_edges[i], y_edges[j]), x_edges[i + 1] - x_edges[i], y_edges[j + 1] - y_edges[j]
        _hatch(ax, *box)
    for share, dash in ((found.retired, "solid"), (found.written, (0, (1, 1.3)))):
        inside = np.ma.masked_invalid(share)
        if min(inside.shape) >= 2 and inside.count() and inside.min() < HALF < inside.max():
            lines = ax.contour(xs, ys, inside, levels=[HALF], colors=style.INK, linewidths=1.4, linestyles=[dash])
            lines.set_path_effects([withStroke(linewidth=2.6, foreground="white", alpha=0.8)])
    ax.set_xlim(float(x_edges[0]), float(x_edges[-1]))
    ax.set_ylim(float(y_edges[0]), float(y_edges[-1]))
    for side in ("top", "right"):
        ax.spines[side].set_visible(True)


def _hatch(ax: Axes, corner: tuple[float, float], width: float, height: float) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle(corner, width, height, fill=False, hatch="////", edgecolor=(0, 0, 0, 0.45), linewidth=0.0, zorder=1.5))


def _legend(maps: list[Regimes]) -> list[Any]:
    there = {int(k) for found in maps for k in np.unique(found.kind)}
    handles: list[Any] = [Patch(color=COLOURS[k], label=NAMES[k]) for k in (1, 2, 3, 0) if k in there]
    if any(found.visible.any() for found in maps):
        handles.append(Patch(facecolor="white", edgecolor=style.GREY, hatch="////", label="the eval shows it"))
    look: dict[str, Any] = {"color": style.INK, "linewidth": 1.4}
    handles.append(Line2D([], [], label="r = 1/2", **look))
    handles.append(Line2D([], [], linestyle=(0, (1, 1.3)), label="s = 1/2", **look))
    handles.append(Line2D([], [], linestyle=(0, (4, 2)), label=r"$\pi_\tau$", **look))
    return handles


def _caption(maps: list[Regimes], some: bool) -> str:
    limits = np.concatenate([found.limit[found.kind > 0] for found in maps])
    limits = limits[np.isfinite(limits)]
    cells, close = sum(int((found.kind > 0).sum()) for found in maps), sum(int(found.close.sum()) for found in maps)
    failing = sum(int((found.kind > 1).sum()) for found in maps)
    seen = sum(int((found.visible & (found.kind > 1)).sum()) for found in maps)
    words = ["r, s: skills retired, and written, as a share of the same setting under a clean judge ($\\rho_{fp}$ = 0)."]
    words.append("Governed: r ≥ 1/2. Blind: r < 1/2 though s ≥ 1/2. Starved: both below 1/2.")
    words.append(f"Grey: even a clean judge retires fewer than {LEAST:g} skills per run.")
    if limits.size:
        ends = dict.fromkeys(f"{end:.2f}" for end in (limits.min(), limits.max()))
        words.append(
            f"Hatched: the eval falls by more than two standard errors of a difference of three seeds with sampled evals"
            f" ({' to '.join(ends)}): {seen} of {failing} blind or starved cells; the others fail silently."
        )
        words.append(f"The largest fall is {max(float(np.nanmax(found.fall)) for found in maps):.2f}.")
    words.append(f"{close} of {cells} cells lie within two standard errors of a boundary. Dashed: the edge given unlimited evidence.")
    if some:
        words.append("Not all columns are drawn.")
    return " ".join(words)
