"""The door of the real loop: command line and config files in, checked settings out."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from real_loop.settings import ROLES, SCRIPTED, Settings
from real_loop.suites import REPORTS
from sim import curators
from sim.config import CONF as SIM_CONF
from sim.config import load as load_sim
from sim.errors import InputError
from sim.model import Cell, Channel, World
from sim.params import from_mapping, parameters, to_mapping
from sim.tables import check_limits

CONF: Final = Path(__file__).resolve().parent / "conf"
GROUPS: Final = {"subset": CONF, "policy": SIM_CONF, "reward": CONF, "ablation": CONF}
RATES: Final = ("q", "rho", "rho_fp", "rho_pf")
# What changes how a run is made, but not which run it is: not part of its folder's name nor of its log's identity.
FREE: Final = ("budget", "sandbox", "concurrency", "servers", "patience", "out", "base_url", "reuse")


@dataclass(frozen=True)
class Plan:
    """What a command is asked to do: settings, the cell that scripted roles follow, the folder, and the names of the presets."""

    settings: Settings
    cell: Cell | None
    out: Path
    presets: dict[str, str]


def choices(group: str, more: Path | None = None) -> dict[str, Path]:
    """Return the presets of a group and their files."""
    found = {f.stem: f for f in sorted((GROUPS[group] / group).glob("*.yaml"))}
    if more is not None:
        found |= {f.stem: f for f in sorted((more / group).glob("*.yaml"))}
    return found


def load(overrides: Sequence[str], more: Path | None = None) -> Plan:
    """Read the command line: ``key=value`` arguments, and a folder of presets of the user's own.

    Raises
    ------
    InputError
        Anything in it is wrong; nothing was asked or written then.
    """
    from omegaconf import OmegaConf

    if more is not None and not more.is_dir():
        raise InputError("--config-dir", str(more), "a folder with subset/, policy/ or other groups in it")
    given = read_args(overrides)
    base = read_yaml(CONF / "config.yaml")
    presets = {group: str(given.get(group, base[group])) for group in GROUPS}
    world = _scripted(given, more)
    layers: list[Any] = [{k: v for k, v in base.items() if k not in GROUPS}]
    for group, name in presets.items():
        files = choices(group, more)
        if name not in files:
            raise InputError(group, repr(name), "one of " + ", ".join(files), "" if more else "your own are found with --config-dir FOLDER")
        if group != "ablation" and files[name].parent.parent not in (CONF, SIM_CONF):  # one's own may leave out what is as usual
            layers.append({group: read_yaml(GROUPS[group] / group / f"{base[group]}.yaml")})
        read = read_yaml(files[name])
        if group == "subset" and given.get("subset.suite", read.get("suite")) in REPORTS:
            layers.append(read_yaml(CONF / "reports.yaml"))
        layers.append(read if group == "ablation" else {group: read})
        if group == "reward":
            _check_rates(given, name, read)
    if world is not None:
        layers.append(_of_world(world, given))
    layers.append(tree({k: v for k, v in given.items() if k not in GROUPS}))
    try:
        merged = OmegaConf.merge(*(OmegaConf.create(layer) for layer in layers))
        values = OmegaConf.to_container(merged, resolve=True)
    except Exception as error:  # omegaconf raises many types
        raise InputError("config", " ".join(str(error).split())[:200], "a config that can be put together") from error
    assert isinstance(values, dict)
    values = {str(k): v for k, v in values.items() if k not in RATES}
    if isinstance(values.get("subset"), dict) and world is None:
        values["subset"]["name"] = presets["subset"]
    if isinstance(values.get("policy"), dict) and "policy.window" not in given:
        _shorten(values["policy"])
    try:
        settings = from_mapping(Settings, values)
    except InputError as error:
        raise _nearer(error) from None
    settings = replace(settings, policy=curators.filled(settings.policy))
    curators.check(settings.policy)
    for key, model in (("model", settings.model), *((f"roles.{r}.model", getattr(settings.roles, r).model) for r in ROLES)):
        if model is not None and not re.fullmatch(r"[^/\s]+/\S+", model):
            raise InputError(key, repr(model), "local/NAME, scripted/WORLD, or PROVIDER/NAME as in openai/gpt-4o-mini")
    if world is not None:
        _check_scripted(settings, given)
    cell = None
    if world is not None:
        cell = _cell(settings, world)
        check_limits(cell)
    out = _folder(settings, presets, given)
    return Plan(settings, cell, out, presets)


def read_args(overrides: Sequence[str]) -> dict[str, Any]:
    """Return ``key=value`` arguments as values by key.

    Raises
    ------
    InputError
        One cannot be read, or is there twice.
    """
    import yaml

    given: dict[str, Any] = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][\w.]*", key):
            raise InputError(override or "''", "an argument that cannot be read", "key=value", "see python -m real_loop --help")
        if key in given:
            raise InputError(key, "two values", "one")
        try:
            given[key] = text if key in ("out", "reuse") else yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError):  # a date that is none, a number of thousands of digits
            raise InputError(override, "a value that cannot be read", "a number, a name, true, false or null") from None
        if key in GROUPS and not isinstance(given[key], str):
            raise InputError(key, repr(given[key]), "one of " + ", ".join(choices(key)))
        if isinstance(given[key], str) and "${" in given[key]:
            raise InputError(override, "a value that refers to another", "the value itself")
    return given


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by their dotted keys."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        out.update(flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value})
    return out


def read_yaml(file: Path) -> dict[str, Any]:
    """Read a file of settings.

    Raises
    ------
    InputError
        It is no mapping in YAML.
    """
    import yaml

    try:
        values = yaml.safe_load(file.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(str(file), " ".join(str(error).split())[:150], "YAML", "mend the file") from error
    if not isinstance(values, dict):
        raise InputError(str(file), repr(values)[:50], "a mapping of keys to values", "mend the file")
    return values


def tree(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted keys as nested mappings; InputError where two keys contradict."""
    out: dict[str, Any] = {}
    for key, value in flat.items():
        _put(out, key, key.split("."), value)
    return out


def _put(tree: dict[str, Any], key: str, path: Sequence[str], value: Any) -> None:
    """Put a value at its place. What is given twice, by a key and by a mapping around it, is refused."""
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            _put(tree, f"{key}.{name}", [*path, str(name)], part)
        return
    *way, last = path
    node = tree
    for part in way:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise InputError(key, "a key within a value", "one of the two")
    if last in node:
        raise InputError(key, "two values", "one")
    node[last] = value


def _shorten(policy: dict[str, Any]) -> None:
    """Let a run that is shorter than the preset's window be all window."""
    rounds, window = policy.get("rounds"), policy.get("window")
    if isinstance(rounds, int) and isinstance(window, int) and 1 <= rounds < window:
        policy["window"] = rounds


def _check_rates(given: Mapping[str, Any], name: str, preset: Mapping[str, Any]) -> None:
    used = set(re.findall(r"\$\{(\w+)\}", str(preset)))
    for rate in RATES:
        if rate in given and rate not in used:
            takes = f"{', '.join(sorted(used))}, which reward={name} takes" if used else f"no rate: reward={name} takes none"
            raise InputError(rate, repr(given[rate]), takes, "say reward=bias with q, noise with rho, or general with rho_fp and rho_pf")


def _nearer(error: InputError) -> InputError:
    """Say of an unknown key which known one is meant."""
    if error.got != "an unknown key":
        return error
    known = [p.path for p in parameters(Settings)] + [*GROUPS, *RATES]
    short = {path.rsplit(".", 1)[-1]: path for path in known}
    close = difflib.get_close_matches(error.what.rsplit(".", 1)[-1], [*short, *known], n=3, cutoff=0.6)
    near = " or ".join(dict.fromkeys(short.get(m, m) for m in close)) or "one listed by python -m real_loop --help"
    return InputError(error.what, "an unknown key", near)


# ---------------------------------------------------------------- scripted worlds


def _scripted(given: Mapping[str, Any], more: Path | None) -> World | None:
    model = given.get("model")
    if not isinstance(model, str) or not model.startswith("scripted/"):
        return None
    if "subset" in given or any(key.startswith("subset.") for key in given):
        raise InputError("subset", "a subset with a scripted model", "none: the world brings its own tasks", "leave it out")
    name = model.removeprefix("scripted/")
    try:
        return load_sim([f"world={name}"], more).sweep.cell(()).world
    except InputError as error:
        raise InputError("model", repr(model), "scripted/WORLD, a world " + error.expected) from None


def _of_world(world: World, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a world brings, but for those that an ablation named on the command line changes."""
    synth = world.synth
    writing = {"min_cluster": synth.min_cluster, "per_round": synth.per_round, "memory": synth.memory, "cover_guard": synth.cover_guard}
    subset = {"suite": SCRIPTED, "n_train": world.n_train, "n_eval": world.n_eval, "keep": "all", "probes": 0, "name": SCRIPTED}
    roles = {"mode": world.router.mode}
    if given.get("ablation") == "A6":
        del writing["cover_guard"]
    if given.get("ablation") in ("A1", "A2"):
        del roles["mode"]
    return {"writing": {**writing, "similarity": None}, "roles": roles, "subset": subset}


def _check_scripted(settings: Settings, given: Mapping[str, Any]) -> None:
    """Refuse what scripted roles would pass over in silence."""
    idle = {"A3": "authoring prior", "A5": "texts to compare", "A8": "authoring prior"}
    if (name := given.get("ablation")) in idle:
        raise InputError("ablation", f"{name} with a scripted model", "A1, A2, A4, A6 or A7", f"scripted roles have no {idle[str(name)]}")
    if settings.writing.prior != "default" or settings.writing.rewrite_every or settings.writing.similarity is not None:
        raise InputError("writing", "a prior or a similarity with a scripted model", "neither", "scripted roles write and compare no texts")
    if settings.reuse is not None:
        raise InputError("reuse", "logs with a scripted model", "none", "scripted roles ask nothing")
    if any(key.startswith("budget") for key in given):
        raise InputError("budget", "a budget with a scripted model", "none", "scripted roles ask no model")


def _cell(settings: Settings, world: World) -> Cell:
    """Return what the simulator would play: the world with what the settings change of it."""
    w, reward = settings.writing, settings.reward
    synth = replace(world.synth, min_cluster=w.min_cluster, per_round=w.per_round, memory=w.memory, cover_guard=w.cover_guard)
    world = replace(world, synth=synth, router=replace(world.router, mode=settings.roles.mode))
    if reward.kind == "judge":
        raise InputError(
            "reward", "a judge with a scripted model", "clean, noise, bias or general", "scripted roles write no text to judge"
        )
    channel = Channel(reward.rho_fp, reward.rho_pf, reward.spread, reward.unit)
    return Cell(world, replace(settings.policy, sampled_eval=True), channel)


# ---------------------------------------------------------------- names


def _folder(settings: Settings, presets: Mapping[str, str], given: Mapping[str, Any]) -> Path:
    if settings.out is not None:
        if not settings.out.strip() or "://" in settings.out:
            raise InputError("out", repr(settings.out), "a folder of this machine")
        return Path(os.path.expanduser(settings.out))
    name = settings.model.replace("/", "_") if settings.scripted and settings.model else presets["subset"]
    left_out = {*FREE, "subset", *(("model",) if settings.scripted else ())}
    kept = sorted(f"{k}={v}" for k, v in given.items() if k.split(".")[0] not in left_out and not k.endswith(".base_url"))
    slug = re.sub(r"[^\w.=,+-]+", "_", ",".join(kept)) or "default"
    if len(slug) > 100:
        slug = f"{slug[:80]}-{hashlib.sha256(','.join(kept).encode()).hexdigest()[:12]}"
    return Path("outputs") / "real_loop" / name / slug


def identity(settings: Settings) -> dict[str, Any]:
    """Return what makes a run what it is, as a plain mapping: not where a model is served, which may move and may hold secrets."""
    told = {k: v for k, v in to_mapping(settings).items() if k not in FREE}
    told["roles"] = {k: _without(v, "base_url") for k, v in told["roles"].items()}
    return told


def _without(value: Any, key: str) -> Any:
    return {k: v for k, v in value.items() if k != key} if isinstance(value, dict) else value
