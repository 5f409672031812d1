"""Figures of a result: which there are, which fit, and drawing them to files.

Each figure is a module with ``VARIABLES`` (what it reads), ``split`` (a result into parts of one file each), ``draw`` (a part
into a matplotlib figure) and perhaps ``table`` (a part into Markdown). They, and matplotlib, are imported only to draw.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim.errors import InputError

if TYPE_CHECKING:
    import xarray

REGISTRY: Final = {
    "lines": "variables along an axis of numbers, a line per value of another, a column per preset",
    "plane": "phase diagram of judges: rho_fp against rho_pf",
    "grid": "heat maps over two axes of numbers",
    "rounds": "the life of a library, round by round",
    "dots": "means with error bars for axes of names",
    "operating": "simulation against exact theory, for a library of one useless skill",
    "sharpness": "the cliff turns into a step as n_min grows, and how fast",
    "guarantee": "the eval against the floor that RT eq. 4 promises",
    "paper": "BC's table: simulated, scatter of three seeds, reported",
    "ratchet": "RT's run and its ablations: simulated, scatter of three seeds, reported",
    "collapse": "two stable states: shelves that start narrow and broad, under rules from eager to patient",
    "rt1b": "RT's figure 1b: the governable rectangle, and measured judges and the papers' channels on it",
    "judges": "measured judges on the plane, and what becomes of retirement and eval under each",
    "rt2": "RT's figure 2: the eval over rounds, the life of each skill, the growth of the library",
    "rt3a": "RT's figure 3a: observed against true pass rates, exact for each judge, and simulated skills on it",
    "regimes": "which settings are governed, blind or starved, against the same under a clean judge",
    "harm": "the rate of hidden failures that harms most, over the effect of skills and another axis",
    "bc1": "BC figure 1: the loop under an honest judge and under one that passes failures, with its numbers",
    "bc3": "BC figure 3: starving input and retirement along the rate of bias; damage against labels flipped",
    "bc4": "BC figure 4: retirement, writing and eval along the rate of bias, for three subsets",
    "bc6": "BC figure 6: retirement against labels flipped, noise and bias; what deprecation consists of",
    "bc8": "BC figure 8: skills deprecated, round by round, under each reward channel",
}
LONG: Final = 5  # values that make an axis worth a side of a heat map
FEW: Final = 6  # cells whose lives can be told apart in one figure


def check(names: Sequence[str] | None) -> None:
    """Check names of figures without importing what draws them.

    Raises
    ------
    InputError
        A name is unknown.
    """
    for name in names or ():
        if name not in REGISTRY:
            raise InputError("figures", name, f"one of {', '.join(REGISTRY)}")


def possible(data: xarray.Dataset) -> tuple[str, ...]:
    """Return the figures that can be drawn of a result at all."""
    from sim.figures import axes, one_skill, reported

    data = axes.prepare(data)
    numbers = axes.numeric(data)
    exact = one_skill.useless(data)
    fits = {
        "lines": len(numbers) >= 1,
        "plane": bool(axes.setting(data, axes.FP) and axes.setting(data, axes.PF)),
        "grid": len(numbers) >= 2,
        "rounds": True,
        "dots": len(axes.axes(data)) >= 1,
        "operating": exact,
        "sharpness": exact and one_skill.same_times(data),
        "guarantee": one_skill.guarantee_axes(data) is not None,
        "paper": reported.has_table(data),
        "ratchet": reported.has_ablations(data),
        "collapse": bool(axes.setting(data, "policy.n_min") and axes.setting(data, "world.start")),
        "rt1b": bool(axes.setting(data, axes.FP) and axes.setting(data, axes.PF)),
        "judges": axes.has_judges(data),
        "rt2": axes.can_be_played(data),
        "rt3a": axes.can_be_played(data) and axes.channel_axis(data) is not None and axes.parameter(data, "channel.spread") in (0.0, None),
        "regimes": axes.from_clean(data) and len(numbers) >= 2,
        "harm": axes.harm_axes(data) is not None,
        **{name: reported.has_figure(data, name) for name in reported.NEEDS},
    }
    return tuple(name for name in REGISTRY if fits[name])


def choose(data: xarray.Dataset) -> tuple[str, ...]:
    """Choose figures by the axes of a result; axes of one value do not count.

    No axes: ``rounds``. Axes rho_fp and rho_pf: ``plane``. Two axes of numbers with 5 values or more: ``grid``. Any axis of
    numbers: ``lines``. Only names: ``dots``. A single axis of at most 6 values gets ``rounds`` too.
    """
    from sim.figures import axes

    data = axes.prepare(data)
    fits, all_axes = possible(data), axes.axes(data)
    if not all_axes:
        return ("rounds",)
    if "plane" in fits:
        return ("plane",)
    if sum(data.sizes[d] >= LONG for d in axes.numeric(data)) >= 2:
        return ("grid",)
    first = "lines" if "lines" in fits else "dots"
    return (first, "rounds") if len(all_axes) == 1 and data.sizes[all_axes[0]] <= FEW else (first,)


def fitting(data: xarray.Dataset, names: Sequence[str]) -> tuple[str, ...] | None:
    """Return those of these figures that can be drawn of a result; None, which means chosen by the axes, if there is none."""
    from sim.figures import axes

    fits = possible(axes.prepare(data))
    return tuple(name for name in names if name in fits) or None


def draw(data: xarray.Dataset, folder: Path, names: Sequence[str] | None) -> list[Path]:
    """Draw figures of a result as PNG and SVG, and write the tables some have. The same result gives the same bytes.

    Parameters
    ----------
    data
        As :func:`sim.store.open_result` returns it.
    folder
        Where the files go; made if missing.
    names
        Of the figures; by default those that fit (:func:`choose`).

    Returns
    -------
    list
        The files written.

    Raises
    ------
    InputError
        A name is unknown or does not fit the axes, the result cannot be read, or the files cannot be written.
    """
    from sim.figures import axes

    check(names)
    data = axes.prepare(data)
    fits = possible(data)
    chosen = tuple(dict.fromkeys(names)) if names is not None else choose(data)
    for name in chosen:
        if name not in fits:
            has = ", ".join(axes.axes(data)) or "none"
            todo = "sim/figures/README.md says which results each needs"
            raise InputError("figures", f"{name} for a result with axes: {has}", f"one of {', '.join(fits)}", todo)
    written = []
    for name in chosen:
        from sim.figures import style

        module = importlib.import_module(f"sim.figures.{name}")
        for suffix, part in module.split(data).items():
            part, stem = _load(part, module.VARIABLES), f"{name}-{suffix}" if suffix else name
            with style.context():
                written += style.save(module.draw(part), folder, stem)
            if hasattr(module, "table"):
                written.append(style.replace(folder / f"{stem}.md", module.table(part).encode()))
    return written


def _load(data: xarray.Dataset, variables: Sequence[str]) -> xarray.Dataset:
    """Read the variables a figure needs, with their standard errors where there are some."""
    import numpy as np

    wanted = [v for name in ("runs", *variables) for v in (name, f"{name}_se") if v in data]
    try:
        read = data[wanted].load()
    except Exception as error:  # zarr and its codecs raise many types for bytes that are not what they should be
        where = str(data.encoding.get("source", "the result"))
        got = f"{type(error).__name__}: {str(error)[:120]}"
        raise InputError(where, got, "a result that can be read", "move it away and run the sweep again") from error
    return read.map(lambda values: values.where(np.isfinite(values)), keep_attrs=True)
