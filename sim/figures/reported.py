"""What the papers report and how far three seeds scatter: shared by the figures that set one against the other. Nothing here draws.

A condition is known by the rates it sets, not by its name. The loop without skills is one of them: a judge that passes every
failure (rho_fp = 1) leaves nothing to write a skill from, so each eval there is one of the bare model, sampled as any other.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from sim.figures import axes
from sim.model import to_mapping

if TYPE_CHECKING:
    import xarray

    from sim.targets import Target

SEEDS: Final = 3  # of the papers
AGREES: Final = 2.0  # standard errors of a mean of three seeds
EVALS: Final = ("tail_sampled", "delta_clean", "rolling_gain", "tail_eval", "peak_sampled", "floor_eval")
SMALLEST: Final = {**dict.fromkeys(EVALS, 0.01), "divergence": 0.005}  # errors of what was read off a table; else 0.1
FITTED: Final = "fitted_"  # begins the names of worlds that python -m sim.calibrate writes
NO_SKILL: Final = "no_skill"
CLEAN_SD: Final = "clean_tail_sampled_sd"
DEFAULT: Final = "default"  # RT's run with nothing changed
CHANNELS: Final = {  # BC's reward channels, named as a targets file does: rho_fp and rho_pf
    "clean": (0.0, 0.0),
    "noise:0.1": (0.1, 0.1),
    "noise:0.2": (0.2, 0.2),
    "noise:0.3": (0.3, 0.3),
    "noise:0.4": (0.4, 0.4),
    "bias:0.2": (0.2, 0.0),
    "bias:0.45": (0.45, 0.0),
    "bias:0.7": (0.7, 0.0),
    "strict_judge": (0.01, 0.95),
    NO_SKILL: (1.0, 0.0),
}
Ends = tuple[float, float]  # of a reported range, which may be a point

MAIN, BAND, HARD, CODE = "report_main_71", "report_band_58", "report_hard_133", "mbpp_hard100"
RT: Final = "mbpp_100"
_BIAS = ("clean", "bias:0.2", "bias:0.45", "bias:0.7")
_NOISE = ("noise:0.1", "noise:0.2", "noise:0.3", "noise:0.4")
NEEDS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {  # worlds and channels of BC's figures, by our name for them
    "bc1": ((BAND,), ("clean", "bias:0.45")),
    "bc3": ((MAIN,), (*_BIAS, *_NOISE)),
    "bc4": ((BAND, HARD, CODE), _BIAS),
    "bc6": ((MAIN, BAND), (*_BIAS, *_NOISE)),
    "bc8": ((MAIN,), ("clean",)),
}
SAMPLED: Final = ("bc3", "bc4")  # show how sampled evals scatter

# ---------------------------------------------------------------- what a result has


def channel(rho_fp: float, rho_pf: float) -> str:
    """Return the name that a targets file has for these rates, empty if none."""
    known = {rates: name for name, rates in CHANNELS.items()}
    if name := known.get((rho_fp, rho_pf)):
        return name
    return f"bias:{rho_fp:.6g}" if rho_pf == 0 else f"noise:{rho_fp:.6g}" if rho_fp == rho_pf else ""


def channels(data: xarray.Dataset) -> dict[str, str]:
    """Return the conditions of a result by channel; none if no axis ``condition`` sets both rates and nothing else."""
    if "condition" not in axes.named(data) or set(paths := axes.sets(data, "condition")) != {axes.FP, axes.PF}:
        return {}
    fp, pf = paths.index(axes.FP), paths.index(axes.PF)
    rates = {str(name): values for name, values in axes.linked(data, "condition").items()}
    there = [str(name) for name in data["condition"].values]
    named = {name: channel(float(rates[name][fp]), float(rates[name][pf])) for name in there if name in rates}
    return {found: name for name, found in named.items() if found}


def worlds(data: xarray.Dataset) -> tuple[str, ...]:
    """Return the worlds of a result: of its axis, or the one that all cells share."""
    if "world" in data.coords:
        return tuple(str(name) for name in np.atleast_1d(data["world"].values))
    presets = (data.attrs.get("config") or {}).get("presets") or {}
    return (str(presets["world"]),) if presets.get("world") else ()


def subset(world: str) -> str:
    """Return the subset of BC that a world stands for: of its own name, or fitted_ and that of the subset; empty if none."""
    from sim.targets import BC_SUBSETS

    name = world.removeprefix(FITTED)
    return name if name in BC_SUBSETS else ""


def world_of(data: xarray.Dataset, name: str) -> str:
    """Return the world of a result with this name, or else the one that stands for this subset; empty if there is none."""
    there = worlds(data)
    return name if name in there else next((world for world in there if subset(world) == name), "")


def fits(data: xarray.Dataset, need_worlds: Sequence[str], need_channels: Sequence[str]) -> bool:
    """Whether a result has all these worlds, or ones that stand for these subsets, and all these channels."""
    return all(world_of(data, name) for name in need_worlds) and set(need_channels) <= set(channels(data))


def is_sampled(data: xarray.Dataset) -> bool:
    """Whether evals of one attempt per task were recorded."""
    return bool(axes.parameter(data, "policy.sampled_eval") or axes.parameter(data, "policy.rollback.on"))


def has_table(data: xarray.Dataset) -> bool:
    """Whether a result has BC's table: worlds, a clean judge among its channels, and sampled evals."""
    return is_sampled(data) and fits(data, (), ("clean",)) and bool(worlds(data))


def has_ablations(data: xarray.Dataset) -> bool:
    """Whether a result has RT's run, in a world that stands for its tasks, at least one of its ablations, by name, and sampled evals."""
    if "condition" not in axes.named(data):
        return False
    there = {str(name) for name in data["condition"].values}
    if not is_run_as(data, "rt", ("rounds", "window")) or any(axes.parameter(data, path) != 0 for path in (axes.FP, axes.PF)):
        return False
    if {world.removeprefix(FITTED) for world in worlds(data)} != {RT}:
        return False
    known = {name for name, _ in ablations()} - {DEFAULT}
    return DEFAULT in there and bool(there & known) and is_sampled(data)


def has_figure(data: xarray.Dataset, name: str) -> bool:
    """Whether a result has what this one of BC's figures needs."""
    return fits(data, *NEEDS[name]) and (name not in SAMPLED or is_sampled(data))


def of_world(data: xarray.Dataset, *names: str) -> xarray.Dataset:
    """Return the part of one world, or of several in this order."""
    if "world" not in data.dims:
        return data
    found = [world_of(data, name) for name in names]
    return data.sel(world=found[0] if len(found) == 1 else found)


def cell(data: xarray.Dataset, world: str, name: str) -> xarray.Dataset:
    """Return the cell of a world and a channel."""
    part = data.sel(world=world_of(data, world)) if "world" in data.dims else data
    found = part.sel(condition=channels(data)[name])
    if "clean" in channels(data) and "tail_sampled_sd" in part:  # of the loop it is compared with
        found = found.assign({CLEAN_SD: part["tail_sampled_sd"].sel(condition=channels(data)["clean"]).drop_vars("condition")})
    return found


def along(data: xarray.Dataset, kind: str, end: bool = False) -> dict[str, float]:
    """Return the channels of a kind, ``bias`` or ``noise``, from clean on, with their rates ascending.

    Parameters
    ----------
    data
        The result.
    kind
        Of the channels.
    end
        Whether the loop without skills, where the rate of bias is 1, belongs to them.
    """
    found = {name: float(name.partition(":")[2]) for name in channels(data) if name.startswith(kind + ":")}
    found |= {"clean": 0.0} | ({NO_SKILL: 1.0} if end and NO_SKILL in channels(data) else {})
    return dict(sorted(found.items(), key=lambda item: item[1]))


def values(data: xarray.Dataset, world: str, names: Sequence[str], variable: str) -> np.ndarray:
    """Return a variable of a world, shape (channels, ...)."""
    return np.array([cell(data, world, name)[variable].values for name in names])


# ---------------------------------------------------------------- what is reported


@functools.cache
def _targets() -> list[Target]:
    from sim.config import CONF
    from sim.targets import read_targets

    return read_targets(CONF / "targets" / "papers.csv")


@functools.cache
def ablations() -> dict[tuple[str, str], Ends]:
    """Return what RT reports: by row of its table of ablations and variable, the ends of a range; one end of a bound is infinite."""
    from sim.targets import RT_SUBSET

    rt = [target for target in _targets() if target.subset == RT_SUBSET]
    return {(DEFAULT if t.channel == "clean" else t.channel, t.variable): (t.low, t.high) for t in rt}


@functools.cache
def reported() -> dict[tuple[str, str, str], Ends]:
    """Return what BC reports: by world, channel and variable, the ends of a range that may be a point.

    The eval is a sampled one there. Without skills it is the reported floor, and its difference to the clean loop the reported
    lift with its sign changed.
    """
    from sim.targets import BC_SUBSETS

    found: dict[tuple[str, str, str], Ends] = {}
    for target in _targets():
        if target.not_fitted or target.is_bound or target.subset not in BC_SUBSETS:
            continue
        for name in target.channels:
            key, ends = (name, target.metric), (target.low, target.high)
            if target.metric == "tail_eval":
                key = (name, "tail_sampled")
            elif target.metric == "floor_eval":
                key = (NO_SKILL, "tail_sampled")
            elif (name, target.metric) == ("clean", "lift"):
                key, ends = (NO_SKILL, "delta_clean"), (-target.high, -target.low)
            found[(target.subset, *key)] = ends
    return found


def is_run_as(data: xarray.Dataset, policy: str, paths: Sequence[str]) -> bool:
    """Whether a result was run under a paper's controller, as far as these parameters go."""
    from sim.free import presets

    wanted = to_mapping(presets(policy)[1])
    return all(axes.parameter(data, f"policy.{path}") == wanted[path] for path in paths)


def run_sd(part: xarray.Dataset, variable: str) -> float:
    """Return the standard deviation of one run's value; for delta_clean of the difference of two independent runs' sampled evals."""
    if variable == "delta_clean":
        return float(np.hypot(part["tail_sampled_sd"], part[CLEAN_SD]))
    if variable == "retire_trials":  # a ratio of sums: what is known is the error of the mean
        return float(np.sqrt(part["runs"]) * part[f"{variable}_se"])
    return float(part[f"{variable}_sd"])


def three_seed_error(part: xarray.Dataset, variable: str) -> float:
    """Return the standard error of a mean of three seeds; of a difference of two such means for delta_clean."""
    return run_sd(part, variable) / float(np.sqrt(SEEDS))


def distance(mean: float, error: float, ends: Ends, variable: str) -> float:
    """Return how far a reported value or range is from a simulated mean, in standard errors of three seeds; 0 inside the range."""
    off = max(ends[0] - mean, 0.0) - max(mean - ends[1], 0.0)
    return off / max(error, SMALLEST.get(variable, 0.1))


def agrees(z: float) -> bool:
    """Whether a reported value this many standard errors away counts as in agreement: 2 do, what rounding adds is forgiven."""
    return abs(z) <= AGREES + 1e-9


def compare(part: xarray.Dataset, key: tuple[str, str, str]) -> tuple[Ends, float] | None:
    """Return what is reported of a cell, by world, channel and variable, and how far it is away; None if nothing is."""
    ends = reported().get((subset(key[0]), *key[1:]))
    if ends is None or not is_run_as(part, "bc", ("tau", "n_min", "cap", "rounds", "window")):
        return None
    return ends, distance(float(part[key[2]]), three_seed_error(part, key[2]), ends, key[2])


def summary(off: Sequence[float]) -> str:
    """Return in words how many of these distances agree."""
    near = sum(agrees(z) for z in off)
    return f"{near} of {len(off)} reported values lie within {AGREES:g} standard errors of a mean of three seeds"


# ---------------------------------------------------------------- in numbers


def written(there: tuple[Ends, float] | None) -> str:
    """Return what is reported, whether it agrees, and how far it is away; empty if nothing is."""
    if there is None:
        return ""
    (low, high), z = there
    bound = f"< {high:g}" if np.isinf(low) else f"> {low:g}" if np.isinf(high) else ""
    return f"{bound or (f'{low:g}' if low == high else f'{low:g} to {high:g}')} {'✓' if agrees(z) else '✗'} {z:+z.2f}"


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells, the first of them the header, as lines of a Markdown table with columns of one width."""
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(lines[0]))]
    out = ["| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |" for line in lines]
    return [out[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *out[1:]]


def plain(words: str) -> str:
    """Return words without the marks of mathematics."""
    return re.sub(r"[$\\{}]", "", words)
