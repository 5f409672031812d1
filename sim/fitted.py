"""What a calibration found: the table, the ranges, JSON, and presets ready to use."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Final

import numpy as np

from sim.errors import InputError
from sim.fit import Condition, Prediction, Problem, Simulator
from sim.model import World, parameters
from sim.report import WIDE
from sim.search import Walk, independent
from sim.targets import Target

FRESH: Final = 8  # the final predictions take so many times the runs of the search, all of them others
SAMPLE: Final = 64  # vectors of a walk that predictions are ranged over
BAND: Final = (5.0, 50.0, 95.0)  # percentiles of a range
FEW: Final = 20  # independent vectors below which ranges are not believed
LOOSE: Final = 0.5  # a parameter whose range fills more than this share of what no target at all would leave is not pinned down
ROLES: Final = "fitted"
OWN: Final = ("n_train", "n_eval", "effect.mean", "start")  # of a world, not of its roles; and its difficulty
UNFITTED: Final = (("bias:0.3", "retired"), ("bias:0.3", "delta_clean"), ("bias:0.3", "wrongly_retired"), ("clean", "lift"))


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step, so that it is whole at any instant.

    Raises
    ------
    InputError
        It cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text)
        os.replace(partial, path)
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise InputError(str(path), f"a file that cannot be written ({why})", "a place with room") from None


def write_json(path: Path, content: Any) -> None:
    """Write JSON, whole at any instant; InputError if that is not possible."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def _plain(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _band(values: np.ndarray) -> list[float | None]:
    return [_plain(v) for v in np.percentile(values, BAND)]


# ---------------------------------------------------------------- predictions


def _predictions(problem: Problem, predicted: Prediction) -> list[dict[str, Any]]:
    """Return each target with all its conditions, the worst one named."""
    off, worst = problem.deviations(predicted.mean), problem.worst(predicted.mean)
    out: list[dict[str, Any]] = []
    for i, target in enumerate(problem.targets):
        channels = {
            c.channel: {"predicted": _plain(predicted.mean[j]), "se": _plain(predicted.se[j]), "deviation": _plain(off[j])}
            for j, (owner, c) in enumerate(problem.rows)
            if owner == i
        }
        out.append({**_named(target), "worst": problem.conditions[worst[i]].channel, "channels": channels})
    return out


def _named(target: Target) -> dict[str, Any]:
    about = {name: getattr(target, name) for name in ("line", "subset", "channel", "metric", "reported", "source")}
    return {**about, "tolerance": _plain(target.tolerance)}


def _summary(problem: Problem, predicted: Prediction) -> dict[str, Any]:
    off = np.abs(problem.target_deviations(predicted.mean))
    return {"within_one": int((off <= 1).sum()), "within_two": int((off <= 2).sum()), "loss": _plain((off**2).sum())}


def assess(problem: Problem, everything: Sequence[Target], values: Mapping[str, float], runs: int) -> dict[str, Any]:
    """Return what there is to say of a fit, as JSON values; predictions are of runs that the search did not use.

    Parameters
    ----------
    problem
        What was fitted.
    everything
        All targets of the file.
    values
        The parameters found.
    runs
        Of the search.
    """
    found, first = (problem.predict(v, FRESH * runs, first_run=runs) for v in (values, problem.presets))
    return {
        "targets": len(problem.targets),
        "found": {**_summary(problem, found), "parameters": dict(values), "targets": _predictions(problem, found)},
        "presets": {**_summary(problem, first), "parameters": dict(problem.presets), "targets": _predictions(problem, first)},
        "free": {p.name: {"low": p.low, "high": p.high} for p in problem.free},
        "not_fitted": [{**_named(t), "why": t.not_fitted or "its subset was left out"} for t in everything if t not in problem.targets],
    }


# ---------------------------------------------------------------- ranges


def ranges(problem: Problem, walked: Walk, runs: int, best: float) -> dict[str, Any]:
    """Return the ranges of parameters and predictions over the vectors that fit, as JSON values.

    Parameters
    ----------
    problem
        What was fitted.
    walked
        Vectors that fit.
    runs
        Of the search: the predictions use the same.
    best
        The least loss found.
    """
    parameters = {}
    for k, p in enumerate(problem.free):
        units = np.percentile(walked.vectors[:, k], BAND)
        share = (units[2] - units[0]) / ((BAND[2] - BAND[0]) / 100)
        parameters[p.name] = {"band": [p.value(float(u)) for u in units], "share": _plain(share), "pinned": bool(share <= LOOSE)}
    rows = np.unique(np.linspace(0, len(walked.vectors) - 1, SAMPLE).round().astype(int))
    others = [Condition(s, name, metric) for s in problem.subsets for name, metric in UNFITTED]
    asked = [c for c in others if c not in problem.conditions]
    simulator = Simulator([*problem.conditions, *asked], problem.policy, problem.seed)
    means = np.array([simulator.predict(problem.worlds(problem.values(walked.vectors[i])), runs).mean for i in rows])
    bands = [{**vars(c), "band": _band(means[:, j])} for j, c in enumerate(simulator.conditions)]
    return {
        "kept": len(walked.vectors),
        "accepted": _plain(walked.accepted),
        "independent": _plain(independent(walked.vectors)),
        "loss": _band(walked.losses),
        "least_loss": _plain(min(best, float(walked.losses.min()))),
        "percentiles": list(BAND),
        "parameters": parameters,
        "fitted": bands[: len(problem.conditions)],
        "not_fitted": bands[len(problem.conditions) :],
    }


# ---------------------------------------------------------------- presets


def yaml_lines(texts: Mapping[str, str]) -> list[str]:
    """Return YAML lines of values by path; those of a group in one line."""
    groups: dict[str, list[str]] = {}
    for path, text in texts.items():
        group, _, leaf = path.rpartition(".")
        groups.setdefault(group, []).append(f"{leaf}: {text}")
    return [line for group, items in groups.items() for line in ([f"{group}: {{{', '.join(items)}}}"] if group else items)]


def presets(problem: Problem, values: Mapping[str, float]) -> dict[str, str]:
    """Return presets with these parameters: text by file, for a folder that ``--config-dir`` takes."""
    first = problem.worlds(values)[problem.subsets[0]]
    shared = {}
    for path in (p.path for p in parameters(World) if p.path not in OWN and not p.path.startswith("difficulty.")):
        value: Any = reduce(getattr, path.split("."), first)
        shared[path] = "null" if value is None else value if isinstance(value, str) else f"{value:g}"
    out = {f"roles/{ROLES}.yaml": "\n".join(["# Router, critic and synthesiser as calibrated.", *yaml_lines(shared)]) + "\n"}
    for subset in problem.subsets:
        world = problem.worlds(values)[subset]
        d = world.difficulty
        lines = [
            f"# {subset} as calibrated.",
            "defaults:",
            f"  - /roles@_here_: {ROLES}",
            f"n_train: {world.n_train}",
            f"n_eval: {world.n_eval}",
            f"difficulty: {{a: {d.a:g}, b: {d.b:g}, probes: {d.probes}, keep: {d.keep}}}",
            f"effect: {{mean: {world.effect.mean:g}}}",
        ]
        out[f"world/{ROLES}_{subset}.yaml"] = "\n".join(lines) + "\n"
    return out


def write_presets(problem: Problem, values: Mapping[str, float], folder: Path) -> None:
    """Write the presets below a folder; InputError if that is not possible."""
    for name, text in presets(problem, values).items():
        write_text(folder / name, text)


# ---------------------------------------------------------------- terminal


def _mark(deviation: float) -> str:
    return "" if abs(deviation) <= 1 else "*" if abs(deviation) <= 2 else "**"


def print_targets(found: Mapping[str, Any]) -> None:
    """Print a row per target: what is reported, what the presets and the fit predict, how far off."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    out = Table(title="targets, and what the presets and the fit predict", title_justify="left", header_style="bold")
    for name in ("subset", "channel", "metric", "reported", "tolerance", "presets", "off", "found", "off", ""):
        out.add_column(name, justify="left" if name in ("subset", "channel", "metric", "") else "right")
    for before, after in zip(found["presets"]["targets"], found["found"]["targets"], strict=True):
        here, there = before["channels"][before["worst"]], after["channels"][after["worst"]]
        where = after["channel"] if len(after["channels"]) == 1 else f"{after['channel']} ({after['worst']})"
        tolerance = f"{after['tolerance']:g}"
        numbers = [f"{_shown(here)}", f"{here['deviation']:+.2f}", f"{_shown(there)}", f"{there['deviation']:+.2f}"]
        out.add_row(after["subset"], where, after["metric"], after["reported"], tolerance, *numbers, _mark(there["deviation"]))
    console.print(out)
    n = found["targets"]
    for name in ("presets", "found"):
        s = found[name]
        print(f"{name}: {s['within_one']} of {n} targets within one tolerance, {s['within_two']} within two, loss {s['loss']:.2f}")
    print("off: deviation in tolerances, 0 inside a range or bound; * beyond one, ** beyond two; of several channels the worst")
    why: dict[str, list[str]] = {}
    for row in found["not_fitted"]:
        why.setdefault(f"{row['subset']} ({row['why']})", []).append(str(row["line"]))
    for name, lines in why.items():
        print(f"not fitted: {name}, line{'s' * (len(lines) > 1)} {', '.join(lines)}")


def _shown(cell: Mapping[str, Any]) -> str:
    return "-" if cell["predicted"] is None else f"{cell['predicted']:.3f} ± {cell['se'] or 0:.3f}"


def print_ranges(found: Mapping[str, Any]) -> None:
    """Print how far parameters and predictions can move while the targets are met about as well."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    out = Table(title="ranges over vectors that fit (5, 50, 95 %)", title_justify="left", header_style="bold")
    for name in ("parameter", "5 %", "50 %", "95 %", "share of its bounds", ""):
        out.add_column(name, justify="left" if name in ("parameter", "") else "right")
    for name, row in found["parameters"].items():
        out.add_row(name, *(f"{v:g}" for v in row["band"]), f"{row['share']:.2f}", "" if row["pinned"] else "not pinned down")
    console.print(out)
    out = Table(title="the same of predictions at conditions that were not fitted", title_justify="left", header_style="bold")
    for name in ("subset", "channel", "metric", "5 %", "50 %", "95 %"):
        out.add_column(name, justify="right" if "%" in name else "left")
    for row in found["not_fitted"]:
        out.add_row(row["subset"], row["channel"], row["metric"], *("-" if v is None else f"{v:.3f}" for v in row["band"]))
    console.print(out)
    low, middle, high = found["loss"]
    taken, worth = f"{found['accepted']:.0%} of steps taken", f"worth about {found['independent']:.0f} independent ones"
    print(f"{found['kept']} vectors of a walk in proportion to exp(-loss / 2), {taken}, {worth}")
    print(f"their loss: {low:.1f}, {middle:.1f}, {high:.1f}; the least found: {found['least_loss']:.2f}")
    if found["independent"] < FEW:
        print(f"fewer than {FEW} independent vectors: the ranges are too narrow; make the walk longer")
        return
    loose = [name for name, row in found["parameters"].items() if not row["pinned"]]
    print("the targets do not pin down: " + (", ".join(loose) or "nothing: they leave no parameter open"))
