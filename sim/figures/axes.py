"""What figures read off a result: which axes it has, what they set, which parameters are fixed, and how all that is labelled.

Nothing here draws. The axes of a result are the dimensions of its variable ``runs``; an axis of one value is no axis but a
fixed value, kept as a scalar coordinate. A part of a result is again a result, with fewer axes and more fixed values.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import xarray

    from sim.model import Cell

FP: Final = "channel.rho_fp"
PF: Final = "channel.rho_pf"
TAU: Final = "policy.tau"
MAX_PARTS: Final = 6  # files of one figure
SYMBOLS: Final = {FP: r"$\rho_{fp}$", PF: r"$\rho_{pf}$", TAU: r"$\tau$"}
_GROUPS: Final = ("world", "policy", "channel")
_PATHS: Final = {"rho_fp": (FP,), "rho_pf": (PF,), "rho": (FP, PF), "tau": (TAU,)}  # of coordinates that do not say


# ---------------------------------------------------------------- axes


def prepare(data: xarray.Dataset) -> xarray.Dataset:
    """Return a result whose axes all have two or more values, numbers ascending and each once."""
    single = [d for d in _all(data) if data.sizes[d] == 1]
    data = data.squeeze(single)
    for name in numeric(data):
        values, first = np.unique(data[name].values, return_index=True)
        if len(values) == 1:
            data = data.isel({name: int(first[0])})
        elif list(first) != list(range(data.sizes[name])):
            data = data.isel({name: first})
    return data


def _all(data: xarray.Dataset) -> tuple[str, ...]:
    return tuple(str(d) for d in data["runs"].dims)


def axes(data: xarray.Dataset) -> tuple[str, ...]:
    """Return the axes of two or more values, in the order of the dimensions."""
    return tuple(d for d in _all(data) if data.sizes[d] > 1)


def numeric(data: xarray.Dataset) -> tuple[str, ...]:
    """Return the axes of numbers."""
    return tuple(d for d in axes(data) if data[d].dtype.kind in "fiu")


def named(data: xarray.Dataset) -> tuple[str, ...]:
    """Return the axes of names: presets, modes, on and off."""
    return tuple(d for d in axes(data) if data[d].dtype.kind not in "fiu")


def sets(data: xarray.Dataset, name: str) -> tuple[str, ...]:
    """Return the paths of the parameters that an axis sets."""
    there = data[name].attrs.get("sets") or _PATHS.get(name, (name,))
    return (there,) if isinstance(there, str) else tuple(str(path) for path in there)


def linked(data: xarray.Dataset, name: str) -> Mapping[str, Sequence[Any]]:
    """Return what an axis sets its parameters to, in the order of :func:`sets`, for each value as text; empty if to the value itself."""
    there: Mapping[str, Sequence[Any]] = data[name].attrs.get("linked") or {}
    return there


def shown(data: xarray.Dataset, name: str) -> tuple[str, ...]:
    """Return the parameters whose values are those of an axis: all it sets, but of linked ones only the one it is named after."""
    paths = sets(data, name)
    return tuple(path for path in paths if path == name or path.endswith("." + name)) if linked(data, name) else paths


def is_just(data: xarray.Dataset, name: str, *paths: str) -> bool:
    """Whether an axis sets these parameters to its own values, and no others."""
    return not linked(data, name) and set(sets(data, name)) == set(paths)


def setting(data: xarray.Dataset, *paths: str) -> str | None:
    """Return the axis of numbers that sets these parameters to its own values, and no others, if there is one."""
    return next((d for d in numeric(data) if is_just(data, d, *paths)), None)


def rate_axis(data: xarray.Dataset) -> str | None:
    """Return the axis along which the judge gets worse: rho_fp if there is one, then both rates, then rho_pf."""
    return setting(data, FP) or setting(data, FP, PF) or setting(data, PF)


def channel_axis(data: xarray.Dataset) -> str | None:
    """Return an axis along which the judge changes and nothing else: of names before numbers."""
    return next((d for d in (*named(data), *numeric(data)) if set(sets(data, d)) <= {FP, PF, "channel"}), None)


def has_judges(data: xarray.Dataset) -> bool:
    """Whether a result has an axis ``judge`` of names, each with its two error rates and nothing else."""
    return "judge" in named(data) and set(sets(data, "judge")) == {FP, PF} and bool(linked(data, "judge"))


def from_clean(data: xarray.Dataset) -> bool:
    """Whether rho_fp is an axis from 0 on and the only error of the judge, so that each setting is there with a clean judge too."""
    x = setting(data, FP)
    return x is not None and float(data[x].min()) == 0.0 and parameter(data, PF) == 0.0 and parameter(data, "channel.spread") in (0.0, None)


def harm_axes(data: xarray.Dataset) -> tuple[str, str, str] | None:
    """Return the axes rho_fp (:func:`from_clean`), mean effect of skills, and the longest other one of numbers; None if one is missing."""
    x, effect = setting(data, FP), setting(data, "world.effect.mean")
    others = [d for d in numeric(data) if d not in (x, effect)]
    if x is None or effect is None or not others or not from_clean(data):
        return None
    return x, effect, max(others, key=lambda d: data.sizes[d])


# ---------------------------------------------------------------- parts


def spread(n: int, room: int) -> list[int]:
    """Return at most ``room`` indices below ``n``: all, or both ends and some between."""
    if n <= room:
        return list(range(n))
    return [0] if room <= 1 else [round(i * (n - 1) / (room - 1)) for i in range(room)]


def split(data: xarray.Dataset, keep: Iterable[str]) -> dict[str, xarray.Dataset]:
    """Fix every axis that is not kept.

    Returns
    -------
    dict
        Up to MAX_PARTS parts, spread evenly, by a name fit for a file: the fixed values, empty if none had to be fixed. A
        part that stands for more says so in its attribute ``part`` (``6 of 20``).
    """
    fixed = [d for d in axes(data) if d not in set(keep)]
    combinations = list(itertools.product(*(range(data.sizes[d]) for d in fixed)))
    chosen = spread(len(combinations), MAX_PARTS)
    parts = {}
    for i in chosen:
        part = data.isel(dict(zip(fixed, combinations[i], strict=True)))
        if len(chosen) < len(combinations):
            part = part.assign_attrs(part=f"{len(chosen)} of {len(combinations)}")
        words = [(f"{d}-" if d in numeric(data) else "") + text(part[d].item()) for d in fixed]
        name = re.sub(r"[^A-Za-z0-9_.+-]+", "_", "-".join(words))
        parts[name if name not in parts else f"{name}-{i}"] = part
    return parts


def each(data: xarray.Dataset, axis: str | None, room: int) -> list[xarray.Dataset]:
    """Return the parts along an axis, at most ``room`` of them spread evenly; the whole without an axis."""
    return [data] if axis is None else [data.isel({axis: i}) for i in spread(data.sizes[axis], room)]


# ---------------------------------------------------------------- fixed values


def _dig(values: Any, path: str) -> Any:
    for word in path.split("."):
        if not isinstance(values, Mapping) or word not in values:
            return None
        values = values[word]
    return values


def parameter(data: xarray.Dataset, path: str) -> Any:
    """Return the value that all cells of this part have in common for a parameter, or None if they differ or none is known."""
    for name in map(str, data.coords):
        if path in (paths := sets(data, name)):
            if table := linked(data, name):
                column = [table[str(value)][paths.index(path)] for value in np.atleast_1d(data[name].values).tolist()]
                return column[0] if all(value == column[0] for value in column) else None
            return data[name].item() if data[name].ndim == 0 else None
    known = data.attrs.get("identity") or {}
    presets = [d for d, axis in (known.get("axes") or {}).items() if (axis.get("sets") or [""])[0] in _GROUPS and d in data.coords]
    found = []
    for key, base in (known.get("cells") or {}).items():
        words = dict(zip(presets, str(key).split("/"), strict=False))
        if all(data[d].ndim or text(data[d].item()) == word for d, word in words.items()):
            found.append(_dig(base, path))
    found = found or [_dig(data.attrs.get("config") or {}, path)]
    return found[0] if all(value == found[0] for value in found) else None


def can_be_played(data: xarray.Dataset) -> bool:
    """Whether a result knows the sweep it is of, so that single runs of it can be played again."""
    known = data.attrs.get("identity") or {}
    return {"seed", "order of axes", "axes", "cells", "baseline"} <= set(known)


def played_cell(data: xarray.Dataset) -> tuple[Cell, int]:
    """Return the parameters of a part without axes, and the seed of its runs."""
    from sim.store import sweep_of

    sweep = sweep_of(data.attrs["identity"])
    return sweep.cell([axis.values.index(data[axis.name].item()) for axis in sweep.axes]), sweep.seed


def pi_tau(data: xarray.Dataset) -> float | None:
    """Return the observed pass rate at which skills are retired, (1 - tau) / 2, if one holds for all cells of this part."""
    tau = parameter(data, TAU)
    if isinstance(tau, bool) or not isinstance(tau, int | float) or parameter(data, "policy.curator") not in ("ratchet", None):
        return None
    return (1.0 - float(tau)) / 2.0


def threshold(data: xarray.Dataset, x: str) -> float | None:
    """Return where along an axis of one error rate the governable rectangle ends, or None if that is unknown or not on the axis.

    The rectangle is rho_fp < pi_tau and rho_pf < 1 - pi_tau. Along both rates at once it ends too, where tau / (1 - 2 rho)
    reaches 1, but there evidence is so diluted that no run is long enough to see it: nothing is marked.
    """
    pi, hidden = pi_tau(data), is_just(data, x, FP)
    if pi is None or not (hidden or is_just(data, x, PF)):
        return None
    end = pi if hidden else 1.0 - pi
    return end if float(data[x].min()) <= end <= float(data[x].max()) else None


# ---------------------------------------------------------------- words


def text(value: Any) -> str:
    """Return a value of an axis as a reader would write it."""
    if isinstance(value, bool | np.bool_):
        return "on" if value else "off"
    return f"{value:.4g}" if isinstance(value, int | float | np.number) else str(value)


def symbol(data: xarray.Dataset, name: str) -> str:
    """Return the short name of an axis for labels, as mathematics where the field has a letter for it."""
    paths = shown(data, name)
    return " = ".join(SYMBOLS[path] for path in paths) if paths and all(path in SYMBOLS for path in paths) else name


def axis_label(data: xarray.Dataset, name: str, width: int = 120) -> str:
    """Return a label that names an axis, says what it is, and its unit, in lines of about ``width`` letters."""
    return "\n".join(textwrap.wrap(_axis_label(data, name), width))


def _axis_label(data: xarray.Dataset, name: str) -> str:
    attrs = data[name].attrs
    short, unit = symbol(data, name), str(attrs.get("units", ""))
    paths, about = shown(data, name), str(attrs.get("long_name", ""))
    if len(paths) > 1 and about in ("", " = ".join(paths)):
        both = "failures observed as passes, and passes observed as failures (probability)"
        return f"{short}: {both if set(paths) == {FP, PF} else ' = '.join(paths)}"
    about = re.sub(r"^\w+(\.\w+)+: ", "", about) if about != name else ""
    unit = f" ({unit})" if unit not in ("", "1") and unit not in about and not about.startswith("P(") else ""
    return (f"{short}: {about}" if about else short) + unit


def variable_label(data: xarray.Dataset, name: str) -> tuple[str, str]:
    """Return what a variable is, and its unit."""
    attrs = data[name].attrs
    return str(attrs.get("long_name", name)), str(attrs.get("units", ""))


def runs(data: xarray.Dataset) -> str:
    """Return how many runs each cell has, in words."""
    counts = data["runs"].values
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,} runs per cell" if low == high else f"{low:,} to {high:,} runs per cell"


def settings(data: xarray.Dataset) -> str:
    """Return the subtitle: runs per cell and the main fixed values."""
    world = (_dig(data.attrs.get("config") or {}, "presets.world") or "") if "world" not in data.coords else ""
    words = [word for word in (str(world), runs(data)) if word]
    said = set()
    for name in data.coords:
        if data[name].ndim == 0 and str(name) not in ("round", "retired_count"):
            words.append(f"{symbol(data, str(name))} = {text(data[name].item())}")
            said |= set(shown(data, str(name)))
    main = ((TAU, SYMBOLS[TAU]), ("policy.n_min", "n_min"), ("policy.cap", "cap"), ("policy.rounds", "rounds"))
    for path, short in (*main, (FP, SYMBOLS[FP]), (PF, SYMBOLS[PF])):
        value = parameter(data, path)
        if value is not None and path not in said and (value or path not in (FP, PF)):
            words.append(f"{short} = {text(value)}")
    told = {path for path, _ in main} | {FP, PF}
    changed = [word for word in (_dig(data.attrs.get("config") or {}, "changed") or []) if word.partition("=")[0].lstrip("+") not in told]
    if changed:
        words.append("changed: " + ", ".join(word.removeprefix("world.") for word in changed[:4]) + (" ..." if len(changed) > 4 else ""))
    if data.attrs.get("part"):
        words.append(f"drawn: {data.attrs['part']} combinations")
    return "  ·  ".join(words)


# ---------------------------------------------------------------- numbers


def is_geometric(values: Sequence[float] | np.ndarray) -> bool:
    """Whether values of an axis are spaced more evenly on a log scale than on a linear one, and reach far."""
    v = np.asarray(values, float)
    if len(v) < 3 or v[0] <= 0 or v[-1] < 8 * v[0]:
        return False
    steps, ratios = np.diff(v), np.diff(np.log(v))
    return bool(ratios.std() / ratios.mean() < steps.std() / steps.mean())


def edges(values: Sequence[float] | np.ndarray, log: bool) -> np.ndarray:
    """Return the edges of cells around ascending values: halfway between them, on a log scale if asked. Shape (n + 1,)."""
    v = np.log(np.asarray(values, float)) if log else np.asarray(values, float)
    middle = (v[1:] + v[:-1]) / 2
    all_edges = np.concatenate([[v[0] - (middle[0] - v[0])], middle, [v[-1] + (v[-1] - middle[-1])]])
    return np.exp(all_edges) if log else all_edges


def finite_range(arrays: Iterable[np.ndarray]) -> tuple[float, float] | None:
    """Return the smallest and largest finite value, or None if there is none."""
    values = np.concatenate([np.ravel(np.asarray(x, float)) for x in arrays])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else None
