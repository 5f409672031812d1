"""The door: command line and config files in, plain typed values out. No config object goes beyond this module.

Hydra finds and merges the files of ``sim/conf``; what it returns is checked key by key. Every mistake a user can make here
ends as an :class:`~sim.errors.InputError`.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sim import curators
from sim.axes import axis_specs, check_once, meant, override_axes, read_axis, with_followers, written
from sim.cluster import KEYS, Cluster, read
from sim.errors import InputError
from sim.model import Policy, World
from sim.params import from_mapping, to_mapping, with_defaults
from sim.places import is_url, local, public
from sim.sweep import GROUPS, PARAMETERS, Axis, Sweep, check_runs
from sim.variables import RESERVED, VARIABLES

CONF = Path(__file__).resolve().parent / "conf"
POINT = "point"  # name of what no sweep file names

# What changes how a result is computed, but not which result: not part of the default folder's name.
BUDGET = ("runs", "target_se", "max_runs", "backend", "engine", "out", "figures", "sweep", "name")


@dataclass(frozen=True)
class Settings:
    """What a command is asked to do."""

    sweep: Sweep
    runs: int
    target_se: dict[str, float]
    max_runs: int
    backend: str
    memory: float | None
    threads: int | None
    cluster: Cluster | None  # for engine=dask
    out: Path | str  # a folder, or the URL of one
    pictures: Path  # where figures go: that folder, or with a URL the default one
    figures: tuple[str, ...] | None
    figures_asked: bool  # on the command line, not by the sweep
    resolved: dict[str, Any]


# ---------------------------------------------------------------- hydra


def groups(more: Path | None = None) -> dict[str, dict[str, Path]]:
    """Return the choices of every config group and their files, with those of a folder of the user's own.

    Raises
    ------
    InputError
        There is no such folder, or a file in it has the name of a preset that exists: hydra would pass it over in silence.
    """
    out = {folder.name: {f.stem: f for f in sorted(folder.glob("*.yaml"))} for folder in sorted(CONF.iterdir()) if folder.is_dir()}
    out = {group: files for group, files in out.items() if files}
    if more is not None and not more.is_dir():
        raise InputError("--config-dir", str(more), "a folder with world/, sweep/ or other groups in it")
    for group, files in out.items():
        for file in sorted((more / group).glob("*.yaml")) if more is not None else ():
            if file.stem in files:
                raise InputError(str(file), "the name of a preset that exists", "another name", "rename the file")
            files[file.stem] = file
    return out


def _compose(overrides: Sequence[str], more: Path | None) -> tuple[dict[str, Any], dict[str, str], set[str]]:
    """Return the merged config as plain nested mappings, which parameters follow which others, and which ones axes follow.

    The config has the names of the presets it was made of under ``presets``. A parameter follows another when its value is
    written as ``${...}``.

    Raises
    ------
    InputError
        A file, key or value is not what it should be.
    """
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    OmegaConf.register_new_resolver("sum", _sum, replace=True)  # ${sum:${world.effect.mean},0.5}
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            searched = [f"hydra.searchpath=['file://{more.resolve()}']"] if more else []
            # ++ sets a parameter that has a default, and so may not be in a preset; or one of a curator
            forced = [f"++{o}" if (key := o.split("=", 1)[0]) in PARAMETERS or _of_curator(key) else o for o in overrides]
            config = compose("config", overrides=[*forced, *searched], return_hydra_config=True)
        presets = OmegaConf.to_container(config.hydra.runtime.choices)
        OmegaConf.set_struct(config, False)
        del config["hydra"]
        raw = OmegaConf.to_container(config, resolve=False)
        values = OmegaConf.to_container(config, resolve=True)
    except Exception as error:  # hydra, omegaconf, yaml and antlr raise many types, ValueError among them
        raise _explain(error, overrides, more) from error
    assert isinstance(values, dict)
    assert isinstance(raw, dict)
    assert isinstance(presets, dict)
    follows = {}
    for path, value in _paths(raw).items():  # type: ignore[arg-type]
        if found := re.fullmatch(r"\$\{(\.?)([\w.]+)\}", str(value)):
            follows[path] = path.rpartition(".")[0] + "." + found[2] if found[1] else found[2]
    followed = set(re.findall(r"\$\{([\w.]+)\}", json.dumps(raw.get("axes"))))  # type: ignore[call-overload]
    return {**values, "presets": {group: presets.get(group) for group in GROUPS}}, follows, followed  # type: ignore[dict-item]


def _of_curator(key: str) -> bool:
    """Whether a key looks like one of a curator's parameters: policy.NAME.parameter, and no group of the policy's own."""
    group, _, parameter = key.removeprefix("policy.").partition(".")
    return key.startswith("policy.") and group.isidentifier() and parameter.isidentifier() and group not in Policy.__dataclass_fields__


def _load_curators(policy: Any, specs: Mapping[str, Any]) -> None:
    """Find the curators that are named, so that their parameters are known: those of one's own are not before."""
    named = [policy.get("curator")] if isinstance(policy, Mapping) else []
    for name, spec in specs.items():
        sets = spec.get("set", name) if isinstance(spec, Mapping) else name
        sets = [str(one).rpartition(".")[2] for one in (sets if isinstance(sets, list) else [sets])]
        values = spec.get("values", ()) if isinstance(spec, Mapping) else spec
        if "curator" in sets and isinstance(values, list):
            named += values
        elif "curator" in sets and isinstance(values, Mapping):
            named += [row[sets.index("curator")] for row in values.values() if isinstance(row, list) and len(row) == len(sets)]
    for one in named:
        if isinstance(one, str):
            curators.find(one)


def _with_defaults(policy: Any, names: Sequence[str]) -> Any:
    """Return the policy of a preset with all parameters of the curators that may be chosen: what is recorded."""
    if not isinstance(policy, Mapping):
        return policy
    more = {}
    for rule in map(curators.find, names):
        given = policy.get(rule.key, {})
        if told := to_mapping(from_mapping(rule.parameters, given, f"policy.{rule.key}")):
            more[rule.key] = told
    return {**policy, **more}


def _check_curators(sweep: Sweep) -> None:
    """See that curators exist, and that what is set of their parameters is of those which are chosen."""
    given: dict[str, list[str]] = {}
    axes = [path for axis in sweep.axes for path in axis.paths]
    for path in dict.fromkeys([*(p for base in sweep.bases.values() for p in _paths({"policy": base["policy"]})), *axes, *sweep.baseline]):
        if _of_curator(path):
            given.setdefault(path.split(".")[1], []).append(path.split(".")[2])
    curators.check_own(given, sweep.curators)


def _sum(*terms: float) -> float:
    return float(f"{sum(terms):.12g}")


def _explain(error: Exception, overrides: Sequence[str], more: Path | None) -> InputError:
    """Turn hydra's words into got, expected, what to do."""
    text = str(error)
    if mark := getattr(error, "problem_mark", None):
        got = f"{getattr(error, 'problem', 'a mistake')} in line {mark.line + 1}"
        return InputError(str(getattr(mark, "name", "config file")), got, "YAML", "mend the file")
    if found := re.search(r"Could not find '([\w/]+)/([^'/]+)'", text):
        group, name = found.groups()
        return InputError(group, repr(name), "one of " + ", ".join(groups(more).get(group, [])))
    if found := re.search(r"Could not (?:override|append|delete)[^']*'([^']+)'", text):
        key = found.group(1)
        if "is at" in text or "already" in text:
            return InputError(key, "a + before a key that exists", f"{key}=...", "leave out the +")
        return _unknown(key)
    if found := re.search(r"(?:Key|key) '([^']+)' (?:is not in struct|not in)", text):
        full = re.search(r"full_key: (\S+)", text)
        return _unknown(full.group(1) if full else found.group(1))
    first = " ".join(text.split())[:200]
    for override in overrides:
        if override in text or "${" in override:
            return InputError(override, f"an argument that cannot be used ({first})", "key=value", "quote it for the shell if needed")
    return InputError("config", first, "a config that can be put together", "see python -m sim --help")


def _check_overrides(overrides: Sequence[str], more: Path | None) -> None:
    """Refuse arguments that hydra cannot read, or whose preset does not exist, by name."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parser, choices = OverridesParser.create(), groups(more)
    for override in overrides:
        try:
            parsed = parser.parse_override(override)
        except Exception as error:  # hydra's grammar raises its own and antlr's
            todo = "quote it for the shell; a value with odd letters needs quotes of its own inside those"
            raise InputError(override, "an argument that cannot be read", "key=value", todo) from error
        key, value = parsed.key_or_group, override.split("=", 1)[1]
        if parsed.is_sweep_override():
            raise InputError(override, "several values", "one", f"several make an axis: '+axes.{key.rpartition('.')[2]}=[{value}]'")
        if parsed.is_delete():
            raise InputError(override, "a key taken away", "key=value", "every key has a value")
        if key.split(".")[0] == "hydra":
            raise InputError(key, "a setting of hydra", "a key of halfblind", "see python -m sim --help")
        if key.split(".")[0] in ("presets", "roles", "changed"):
            raise _unknown(key)
        if key in choices:
            if value not in choices[key]:
                todo = "" if more else "your own are found with --config-dir FOLDER"
                raise InputError(key, repr(value), "one of " + ", ".join(choices[key]), todo)
            if key == "sweep" and not parsed.is_add():
                raise InputError(override, "a sweep without a +", f"+sweep={value}")


def _unknown(key: str) -> InputError:
    engine = [f"engine.{key}" for key in KEYS["dask"]]
    keys = ("runs", "seed", "backend", "backend.memory", "out", "max_runs", "target_se", "axes", "sweep", "figures")
    known = [*PARAMETERS, *engine, *GROUPS, *keys]
    short = {path.rsplit(".", 1)[-1]: path for path in PARAMETERS}
    close = [short.get(m, m) for m in difflib.get_close_matches(key.rsplit(".", 1)[-1], [*short, *known], n=3, cutoff=0.6)]
    if key.startswith("target_se."):
        return InputError(key, "a key of target_se", f"target_se={{{key.partition('.')[2]}: ERROR}}")
    near = " or ".join(dict.fromkeys(m for m in close if m != key)) or "one listed by python -m sim --help"
    return InputError(key, "an unknown key", near)


def _explicit(overrides: Sequence[str]) -> set[str]:
    """Return the keys that were given on the command line."""
    return {o.lstrip("+~").split("=", 1)[0].split("@")[0] for o in overrides}


# ---------------------------------------------------------------- settings


def _paths(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in values.items():
        out.update(_paths(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value})
    return out


def _narrowed(axis: Axis, explicit: set[str], values: Mapping[str, Any], chosen: Mapping[str, str]) -> Axis:
    """Let a key given on the command line fix an axis that would set it alone."""
    given = [path for path in axis.paths if path in explicit]
    if not given:
        return axis
    if len(axis.paths) > 1 or axis.linked:
        raise InputError(given[0], "a value", f"none: the axis {axis.name} sets it", f"narrow the axis with +axes.{axis.name}.values=[...]")
    if axis.is_group:
        return replace(axis, values=(chosen[axis.paths[0]],))
    value = _paths(values)[axis.paths[0]]
    kind = PARAMETERS[axis.paths[0]].kind
    return replace(axis, values=(float(value) if kind is float and isinstance(value, int) else value,))


def _target_se(values: Any) -> dict[str, float]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise InputError("target_se", repr(values), "a mapping of variables to errors, such as {retired: 0.01}")
    for name, value in values.items():
        if name not in VARIABLES:
            raise InputError(f"target_se.{name}", "an unknown variable", "one of " + ", ".join(VARIABLES))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise InputError(f"target_se.{name}", repr(value), "a number above 0")
    return {name: float(value) for name, value in values.items()}


def _folder(name: str, overrides: Sequence[str]) -> Path:
    """Return the default folder: one for each sweep and set of changed settings."""
    kept = sorted(o.lstrip("+") for o in overrides if o.lstrip("+~").split("=")[0].split(".")[0] not in BUDGET)
    slug = re.sub(r"[^\w.=,+-]+", "_", ",".join(kept)) or "default"
    if len(slug) > 100:
        slug = f"{slug[:80]}-{hashlib.sha256(','.join(kept).encode()).hexdigest()[:12]}"
    return Path("outputs") / name / slug


def _is_axis(override: str) -> bool:
    return override.lstrip("+").startswith("axes.")


def load(overrides: Sequence[str], more: Path | None = None) -> Settings:
    """Read the command line: hydra overrides, and a folder of config files of the user's own.

    Raises
    ------
    InputError
        Anything in it is wrong; nothing has been computed or written then.
    """
    for override in overrides:
        if "=" not in override:
            raise InputError(override or "''", "an argument without =", "key=value", "see python -m sim --help")
    # A folder's name may hold anything, so it does not go through hydra's grammar.
    folders: list[str | None] = [None if o == "out=null" else o.partition("=")[2] for o in overrides if o.startswith("out=")]
    overrides = [o for o in overrides if not o.startswith("out=")]
    _check_overrides(overrides, more)
    plain = [o for o in overrides if not _is_axis(o)]
    values, follows, followed = _compose(plain, more)
    explicit = _explicit(plain)
    known = {*GROUPS, "backend", "engine", "name", "axes", "baseline", "runs", "target_se", "max_runs", "seed", "out", "figures", "presets"}
    if "sweep" in values:
        raise InputError("sweep", "a file whose keys are not at the top", "# @package _global_ as its first line")
    if unknown := [key for key in values if key not in known]:
        raise _unknown(unknown[0])
    if missing := [key for key in known if key not in values]:
        raise InputError(missing[0], "nothing", "a value")

    choices = groups(more)
    chosen = {o.lstrip("+").split("=", 1)[0]: o.split("=", 1)[1] for o in overrides if o.lstrip("+").split("=", 1)[0] in choices}
    if "sweep" in chosen:
        check_once(f"sweep={chosen['sweep']}", choices["sweep"][chosen["sweep"]].read_text())
    specs = override_axes(axis_specs(values["axes"]), [o for o in overrides if _is_axis(o)])
    _load_curators(values["policy"], specs)
    axes = tuple(_narrowed(read_axis(name, spec), explicit - followed, values, chosen) for name, spec in specs.items())
    for axis in axes:
        if axis.is_group and (one := next((path for path in sorted(followed) if path.startswith(axis.paths[0] + ".")), "")):
            raise InputError(f"axes.{axis.name}", f"an axis of {axis.paths[0]}s, while another axis follows {one}", "one of them")
    taken: dict[str, str] = {}
    for axis in axes:
        for path in axis.paths:
            if path in taken:
                raise InputError(f"axes.{axis.name}", f"{path}, which axis {taken[path]} sets too", "one axis per parameter")
            taken[path] = axis.name
        if axis.name in RESERVED:
            raise InputError(f"axes.{axis.name}", "a name that results use", "another name")
        if not re.fullmatch(r"[A-Za-z_][\w.-]*", axis.name):
            raise InputError(f"axes.{axis.name}", "an axis of this name", "letters, digits, dots and dashes, a letter first")
        if (own := meant(axis.name)) and own not in axis.paths:
            raise InputError(f"axes.{axis.name}", f"an axis of this name that sets {', '.join(axis.paths)}", f"one that sets {own}")
    axes = tuple(with_followers(axis, {path: leader for path, leader in follows.items() if path not in taken}) for axis in axes)

    group_axes = [axis for axis in axes if axis.is_group]
    bases = {}
    for names in itertools.product(*(axis.values for axis in group_axes)):
        extra = [f"{axis.paths[0]}={name}" for axis, name in zip(group_axes, names, strict=True)]
        for axis, name in zip(group_axes, names, strict=True):
            if name not in choices[axis.paths[0]]:
                raise InputError(axis.paths[0], repr(name), "one of " + ", ".join(choices[axis.paths[0]]))
        merged = _compose([o for o in plain if o.split("=")[0] not in taken] + extra, more)[0] if extra else values
        bases[names] = {group: merged[group] for group in GROUPS}

    if not isinstance(values["baseline"], Mapping):
        raise InputError("baseline", repr(values["baseline"]), "a mapping of parameters to values")
    baseline = _paths(values["baseline"])
    for path, value in baseline.items():
        if path not in PARAMETERS:
            raise InputError(f"baseline.{path}", "no such parameter", "a parameter of world, policy or channel")
        if path == "policy.window":
            raise InputError("baseline.policy.window", repr(value), "the window of the cell itself", "leave it out: tails are compared")
        if PARAMETERS[path].kind is float and isinstance(value, int) and not isinstance(value, bool):
            baseline[path] = float(value)

    check_runs(values["runs"])
    check_runs(values["max_runs"], "max_runs")
    seed = values["seed"]
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        raise InputError("seed", repr(seed), "a whole number from 0 to 2^32 - 1")
    name = values["name"]
    if name == POINT and "sweep" in chosen and "name" not in explicit:
        name = chosen["sweep"]  # a sweep file that gives none
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*", name):
        raise InputError("name", repr(name), "letters, digits, dots and dashes, a letter or digit first")
    threads, cluster = read(values["engine"])
    sweep = Sweep(name, axes, bases, baseline, seed)
    _check_curators(sweep)
    if sweep.curators != [curators.RATCHET]:
        bases = {names: {**base, "policy": _with_defaults(base["policy"], sweep.curators)} for names, base in bases.items()}
        values["policy"] = _with_defaults(values["policy"], sweep.curators)
        sweep = replace(sweep, bases=bases)
    sweep.check()
    target_se = _target_se(values["target_se"])
    if target_se and values["max_runs"] < values["runs"]:
        raise InputError("max_runs", values["max_runs"], f"at least runs = {values['runs']}")
    if any(v.endswith("sampled") for v in target_se) and not all(
        cell.policy.sampled_eval or cell.policy.rollback.on for cell in sweep.some()
    ):
        name = next(v for v in target_se if v.endswith("sampled"))
        raise InputError(f"target_se.{name}", "a variable that is not recorded", "one that is", "set policy.sampled_eval=true")
    out = folders[-1] if folders else values["out"]
    if out is not None and (not isinstance(out, str) or out == ""):
        raise InputError("out", repr(out), "a folder")
    pictures = _folder(name, overrides)
    if out is not None:
        out = out if is_url(out) else local(out) or Path(os.path.expanduser(out))
        pictures = pictures if isinstance(out, str) else out
    return Settings(
        sweep=sweep,
        runs=values["runs"],
        target_se=target_se,
        max_runs=values["max_runs"],
        backend=_named(values["backend"], "backend"),
        memory=_memory(values["backend"]),
        threads=threads,
        cluster=cluster,
        out=out or pictures,
        pictures=pictures,
        figures=_figures(values["figures"]),
        figures_asked="figures" in explicit,
        resolved={
            **values,
            "world": with_defaults(World, values["world"]),
            "out": values["out"] and public(str(values["out"])),
            "engine": cluster.shown() if cluster else values["engine"],
            "axes": {axis.name: written(axis) for axis in axes},
            "changed": [o for o in plain if o.split("=")[0].split(".")[0] in GROUPS and "." in o.split("=")[0]],
        },
    )


def _named(values: Any, group: str) -> str:
    if not isinstance(values, Mapping) or not isinstance(values.get("name"), str):
        raise InputError(group, repr(values), "one of " + ", ".join(groups()[group]))
    known = ["name", "memory"] if values["name"] == "jax" else ["name"]
    if unknown := [key for key in values if key not in known]:
        raise InputError(f"{group}.{unknown[0]}", "an unknown key", ", ".join(known))
    return str(values["name"])


def _memory(values: Any) -> float | None:
    memory = values.get("memory")
    if memory is not None and (isinstance(memory, bool) or not isinstance(memory, (int, float)) or not 0 < memory <= 1e6):
        raise InputError("backend.memory", repr(memory), "GiB above 0 and at most 1e6, or null for what suits the device")
    return None if memory is None else float(memory)


def _figures(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise InputError("figures", repr(value), "names of figures, or null to choose by the axes")
    return tuple(names)
