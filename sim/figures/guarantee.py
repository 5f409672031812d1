"""How far the eval stays above, or falls below, the floor that RT eq. 4 promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sim import theory
from sim.figures import style
from sim.figures.axes import TAU, axis_label, edges, parameter, settings
from sim.figures.axes import split as fix
from sim.figures.one_skill import BETA, N_MIN, guarantee_axes

if TYPE_CHECKING:
    import xarray

VARIABLES: Final = ("lift", "floor_eval", "eval_by_round", "synthesised", "wrongly_retired")
DELTA: Final = 1e-3  # chance that the radius of a skill is broken, as in RT
MOST: Final = 0.5  # share of the skills written that counts as most of them
QUANTILES: Final = 2000  # of the pass rates of tasks
BROKEN: Final[dict[str, Any]] = {"linewidth": 1.8, "linestyle": "-"}
NEVER: Final[dict[str, Any]] = {"color": style.INK, "linewidth": 1.3, "linestyle": (0, (4, 2))}
NOTHING: Final[dict[str, Any]] = {"color": style.GREY, "linewidth": 1.1, "linestyle": (0, (1, 1.5))}


class Floors(NamedTuple):
    """How far evals are above floors, shape (p0, effect): negative where a floor is broken.

    Attributes
    ----------
    tail
        Mean of the last rounds, above the floor of RT eq. 4.
    last
        Last round, above the same.
    any_task
        Last round, above the floor for tasks of any difficulty.
    fall
        What eq. 4 lets the eval fall below that without skills.
    """

    tail: np.ndarray
    last: np.ndarray
    any_task: np.ndarray
    fall: float


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but the effect of skills and the tasks' mean pass rate."""
    return fix(data, _axes(data))


def floors(data: xarray.Dataset) -> Floors:
    """Compare a part with the floors."""
    from scipy.stats import beta

    x, y = _axes(data)
    data = data.transpose(y, x, ...)
    of: dict[str, Any] = {"tau": parameter(data, TAU), "n_min": parameter(data, N_MIN), "cap": parameter(data, "policy.cap")}
    fall = 1.0 - float(theory.floor_clean(1.0, delta=DELTA, scale="pass_rate", **of))  # the same for every p0
    chances = (np.arange(QUANTILES) + 0.5) / QUANTILES
    tasks = [beta.ppf(chances, *(parameter(data.isel({y: i}), path) for path in BETA)) for i in range(data.sizes[y])]
    any_task = theory.floor_tasks(tasks, delta=DELTA, rho_fp=0.0, rho_pf=0.0, scale="pass_rate", **of)
    last = data["eval_by_round"].isel(round=-1)
    return Floors(data["lift"].values + fall, (last - data["floor_eval"]).values + fall, last.values - any_task[:, None], fall)


def draw(data: xarray.Dataset) -> Figure:
    """Draw three maps over the effect of skills and the pass rate of tasks without them: the eval above a floor.

    Parameters
    ----------
    data
        ``lift``, ``floor_eval``, ``eval_by_round``, ``synthesised`` and ``wrongly_retired`` over the two axes.
    """
    x, y = _axes(data)
    data = data.transpose(y, x, ...)
    found = floors(data)
    effect, p0, maps = data[x].values, data[y].values, found[:3]
    written = data["synthesised"].values
    lost = np.divide(data["wrongly_retired"].values, written, out=np.zeros(written.shape), where=written > 0) > MOST
    window = parameter(data, "policy.window")
    figure, (panels,) = style.page(
        1,
        3,
        3.1,
        f"{data.attrs.get('sweep', 'result')}: what the promised floor is worth",
        settings(data),
        _caption(data, found, lost),
        xlabel=axis_label(data, x),
        legend=_legend(bool(lost.any())),
    )
    what = (f"last {window} rounds", "last round: all skills tested", "last round: all skills tested")
    titles = [f"{w}\nagainst {f}" for w, f in zip(what, ("RT eq. 4", "RT eq. 4", "the floor for any tasks"), strict=True)]
    scale = style.norm(maps, True)
    meshes = [style.heat(ax, effect, p0, z, scale, True, contour=False) for ax, z in zip(panels, maps, strict=True)]
    for ax, z, title in zip(panels, maps, titles, strict=True):
        ax.set_title(title, loc="left", fontsize=9)
        _mark(ax, effect, p0, z, lost, float(theory.pi_tau(parameter(data, TAU))))
        ax.tick_params(labelleft=ax is panels[0])
        style.plain_ticks(ax, 5)
    for ax in panels[:2]:
        ax.axhline(found.fall, **NOTHING)
    panels[0].set_ylabel(axis_label(data, y))
    widest = max(meshes, key=lambda mesh: float(np.abs(mesh.get_array()).max()))  # it decides whether the colour bar is pointed
    style.colour_bar(figure, widest, list(panels), "eval above (blue) or below (red) the floor\n(pass rate)")
    return figure


def _axes(data: xarray.Dataset) -> tuple[str, str]:
    found = guarantee_axes(data)
    assert found is not None, "the effect of skills and the mean pass rate of tasks are the axes"
    return found


def _mark(ax: Axes, effect: np.ndarray, p0: np.ndarray, z: np.ndarray, lost: np.ndarray, pi: float) -> None:
    """Draw where the promise breaks, where a skill stops being retired, and hatch where good skills are."""
    from scipy.special import logit

    low, *_, high = edges(p0, False)
    at = np.linspace(max(low, 1e-6), min(high, 1 - 1e-6), 200)
    ax.plot(logit(pi) - logit(at), at, scalex=False, scaley=False, **NEVER)
    ax.axvline(0, color=style.GREY, linewidth=0.7)
    # Out to the edges of the outermost cells.
    wide = [np.concatenate([e[:1], v, e[-1:]]) for v, e in ((effect, edges(effect, False)), (p0, edges(p0, False)))]
    if (z < 0).any() and (z > 0).any():
        ax.contour(*wide, np.pad(z, 1, mode="edge"), levels=[0.0], colors=[style.INK], linewidths=BROKEN["linewidth"])
    if lost.any():
        ax.contourf(*wide, np.pad(lost, 1, mode="edge").astype(float), levels=[0.5, 1.5], colors="none", hatches=["////"])


def _legend(lost: bool) -> list[Any]:
    handles: list[Any] = [
        Line2D([], [], color=style.INK, label="eval at the floor: below it on the red side", **BROKEN),
        Line2D([], [], label="eq. 4 promises nothing for harder tasks", **NOTHING),
        Line2D([], [], label=r"skill passes at $\pi_\tau$: kept to the right of it", **NEVER),
    ]
    if lost:
        handles.append(Patch(facecolor="none", edgecolor=style.INK, hatch="////", linewidth=0.5, label="helps, but is mostly retired"))
    return handles


def _caption(data: xarray.Dataset, found: Floors, lost: np.ndarray) -> str:
    x, y = _axes(data)
    p0 = data[y].values
    words = [f"Under a perfect judge RT eq. 4 promises that the eval falls by at most {found.fall:.3f} below that without a skill."]
    words.append("Pointed colour bar: some values lie beyond.")
    words.append(f"Left: {_broken(found.tail, p0)}.")
    if 2 * ((found.tail < 0) & (found.last >= 0)).sum() > (found.tail < 0).sum():
        words.append("Most of these by skills that were just written, and are used before they can be tested.")
    words.append(f"Middle: {_broken(found.last, p0)}; nothing is written in the last round, so that all skills have been tested.")
    if (found.last < 0).any():
        words.append(r"Those skills pass at about $\pi_\tau$ or more and are kept: the rule compares them with 1/2, not with p0.")
    if lost.any():
        most = f"p0 up to {p0[lost.any(axis=1)].max():g} and effects up to {data[x].values[lost.any(axis=0)].max():+g}"
        words.append(f"Hatched: skills that help, but most of those written are retired, for the same reason: {most}.")
    words.append(f"Right: {_broken(found.any_task, p0)}, with the floor that asks nothing of the tasks.")
    return " ".join(words)


def _broken(z: np.ndarray, p0: np.ndarray) -> str:
    """Return where and by how much a floor is broken, in words."""
    below = z < 0
    if not below.any():
        return f"kept in all {z.size} cells"
    return f"broken in {below.sum()} of {z.size} cells, all with p0 of {p0[below.any(axis=1)].min():g} or more, by up to {-z.min():.2f}"
