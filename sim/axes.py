"""Axes of a sweep as they are written: names, lists, ranges and linked tables, in files and on the command line.

Every mistake a user can make here ends as an :class:`~sim.errors.InputError`.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sim.errors import InputError
from sim.sweep import GROUPS, PARAMETERS, Axis

MAX_AXIS = 100_000
RANGE_KEYS = ("start", "stop", "step", "num", "log")
AXIS_KEYS = ("set", "values", "from", *RANGE_KEYS, "label")
NOUNS = {int: "whole numbers", float: "numbers", str: "names", bool: "true or false"}


def resolve(name: str) -> tuple[str, ...]:
    """Return the parameter, or the group, that an axis of this name sets."""
    if name in GROUPS:
        return (name,)
    for path in (name, f"policy.{name}"):
        if "." in name and path in PARAMETERS:
            return (path,)  # of a curator too, as NAME.parameter
    found = [path for path in PARAMETERS if path == name or path.endswith("." + name)]
    if len(found) == 1:
        return (found[0],)
    if found:
        raise InputError(f"axes.{name}", "a name of several parameters", "one of " + ", ".join(found))
    close = difflib.get_close_matches(name, [p.rsplit(".", 1)[-1] for p in PARAMETERS], n=3, cutoff=0.5)
    raise InputError(f"axes.{name}", "no such parameter", " or ".join(dict.fromkeys(close)) or "a parameter", "or name it under set: [...]")


def meant(name: str) -> str | None:
    """Return the parameter or group of this name, if there is exactly one."""
    try:
        return resolve(name)[0]
    except InputError:
        return None


def _decimal(where: str, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise InputError(where, repr(value), "a number")
    return Decimal(str(value))


def value_range(where: str, spec: Mapping[str, Any], whole: bool) -> tuple[Any, ...]:
    """Return the values of {start, stop, step} (both ends included) or {start, stop, num[, log]}, as exact decimals."""
    missing = [k for k in ("start", "stop") if k not in spec]
    if missing or ("step" in spec) == ("num" in spec):
        raise InputError(where, f"keys {', '.join(spec)}", "values: [...], or start, stop and step, or start, stop and num (and log)")
    start, stop = _decimal(f"{where}.start", spec["start"]), _decimal(f"{where}.stop", spec["stop"])
    if not isinstance(spec.get("log", False), bool):
        raise InputError(f"{where}.log", repr(spec["log"]), "true or false")
    if "step" in spec:
        step = _decimal(f"{where}.step", spec["step"])
        if step == 0 or (stop - start) / step < 0:
            raise InputError(where, f"start {start}, stop {stop}, step {step}: no values", "a step that leads from start to stop")
        number = int((stop - start) / step) + 1
        exact = [start + i * step for i in range(min(number, MAX_AXIS + 1))]
    else:
        number = spec["num"]
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise InputError(f"{where}.num", repr(number), "a whole number of at least 1")
        if spec.get("log") and (start <= 0 or stop <= 0):
            raise InputError(where, f"start {start}, stop {stop}", "both above 0 with log")
        parts = [Decimal(i) / max(number - 1, 1) for i in range(min(number, MAX_AXIS + 1))]
        exact = [start * (stop / start) ** p if spec.get("log") else start + (stop - start) * p for p in parts]
        exact = [round(value, 12) for value in exact]
    if number > MAX_AXIS:
        raise InputError(where, f"{number} values", f"at most {MAX_AXIS}")
    if whole:
        return tuple(dict.fromkeys(round(value) if "num" in spec else _whole(where, value) for value in exact))
    return tuple(float(value) + 0.0 for value in exact)  # + 0.0: no negative zero


def _whole(where: str, value: Decimal) -> int:
    if value != int(value):
        raise InputError(where, str(value), "whole numbers")
    return int(value)


def read_axis(name: str, spec: Any) -> Axis:
    """Return an axis from what is written for it: a list, or a mapping with the keys AXIS_KEYS.

    Raises
    ------
    InputError
        Its name or what it sets is no parameter, or its values are none for it.
    """
    where = f"axes.{name}"
    if isinstance(spec, Mapping) and (unknown := [k for k in spec if k not in AXIS_KEYS]):
        raise InputError(f"{where}.{unknown[0]}", "an unknown key", "one of " + ", ".join(AXIS_KEYS))
    if isinstance(spec, Mapping) and "values" in spec and (both := [k for k in RANGE_KEYS if k in spec]):
        raise InputError(where, f"values and {both[0]}", "values: [...], or start, stop and step, or start, stop and num (and log)")
    if isinstance(spec, Mapping) and "set" in spec:
        chosen = [spec["set"]] if isinstance(spec["set"], str) else spec["set"]
        if not chosen or not isinstance(chosen, list):
            raise InputError(f"{where}.set", repr(spec["set"]), "a list of parameters")
        paths = tuple(path for one in chosen for path in resolve(str(one)))
    else:
        paths = resolve(name)
    label = spec.get("label", "") if isinstance(spec, Mapping) else ""
    if not isinstance(label, str) or "$" in label:  # matplotlib takes what follows a $ for mathematics
        raise InputError(f"{where}.label", repr(label), "a text without $")
    if isinstance(spec, Mapping) and isinstance(spec.get("values"), Mapping):
        axis = _linked(name, paths, spec["values"], label)
    else:
        axis = Axis(name, paths, _values(where, paths, spec), label=label)
    if not axis.values:
        raise InputError(where, "no values", "at least one")
    if len(set(map(repr, axis.values))) < len(axis.values):
        raise InputError(where, "the same value twice", "distinct values")
    return axis


def _values(where: str, paths: Sequence[str], spec: Any) -> tuple[Any, ...]:
    """Return the values of an axis whose parameters are all set to them, from a list or a range."""
    kinds = {PARAMETERS[path].kind if path in PARAMETERS else str for path in paths}
    if len(kinds) > 1 or (len(paths) > 1 and set(paths) & set(GROUPS)):
        raise InputError(f"{where}.set", ", ".join(paths), "parameters of one kind")
    kind = kinds.pop()
    if isinstance(spec, Mapping) and "values" not in spec:
        if kind not in (int, float):
            raise InputError(where, "a range", f"a list: {paths[0]} is no number")
        return value_range(where, spec, kind is int)
    given = spec["values"] if isinstance(spec, Mapping) else spec
    if not isinstance(given, list):
        raise InputError(where, repr(given), "a list of values, or a range")
    return tuple(_typed(where, value, kind) for value in given)


def _typed(where: str, value: Any, kind: type) -> Any:
    """Return a value of a parameter of this kind; whole numbers do for any number."""
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value) + 0.0  # no negative zero
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(where, repr(value), NOUNS[kind])
    return value


def _linked(name: str, paths: tuple[str, ...], table: Mapping[Any, Any], label: str) -> Axis:
    """Return an axis that sets each of its parameters to a value of its own, from {value: [what each is set to]}."""
    where = f"axes.{name}"
    if groups := [path for path in paths if path in GROUPS]:
        raise InputError(f"{where}.values", f"values mapped to settings of {groups[0]}", "a list of presets", "link parameters, not groups")
    for value, row in table.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 2**53
        if not number and not (isinstance(value, str) and re.fullmatch(r"[\w .+-]+", value)):
            raise InputError(f"{where}.values", repr(value), "numbers, or names of letters, digits, dots and dashes")
        if not isinstance(row, list) or len(row) != len(paths):
            raise InputError(f"{where}.values", f"{value}: {row!r}", f"a list of {len(paths)}: {', '.join(paths)}")
    if len({isinstance(value, str) for value in table}) > 1:
        raise InputError(f"{where}.values", "numbers and names", "only numbers, or only names")
    rows = [
        tuple(_typed(f"{where}.values, {path} at {value}", one, PARAMETERS[path].kind) for path, one in zip(paths, row, strict=True))
        for value, row in table.items()
    ]
    whole = all(isinstance(value, int) for value in table)
    values = tuple(value if whole or isinstance(value, str) else value + 0.0 for value in table)
    axis = Axis(name, paths, values, tuple(rows), label)
    if axis.own:
        column = tuple(row[paths.index(axis.own)] for row in rows)
        for value, one in zip(values, column, strict=True):
            if value != one:
                raise InputError(f"{where}.values", f"{axis.own} = {one!r} at {value}", "the value itself", "or give the axis another name")
        axis = replace(axis, values=column)
    return axis


def axis_specs(specs: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten {effect: {mean: [...]}} to {effect.mean: [...]}."""
    if specs is None:
        return {}
    if not isinstance(specs, Mapping):
        raise InputError("axes", repr(specs), "a mapping of names to values")
    out = {}
    for name, spec in specs.items():
        nested = isinstance(spec, Mapping) and not set(AXIS_KEYS) & set(spec) and spec
        out.update(axis_specs(spec, f"{prefix}{name}.") if nested else {f"{prefix}{name}": spec})
    return out


def override_axes(specs: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Replace or narrow axes as the command line says; hydra would merge a list into a range.

    ``axes.NAME=[...]`` and ``axes.NAME={start: ...}`` replace the values of an axis and keep what it sets; ``axes.NAME.step=...``
    changes one thing. Values win over a range, num over step and step over num, whichever comes last. A list for a linked axis
    chooses among its values.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    specs = {name: from_table(name, {"values": spec} if isinstance(spec, list) else spec) for name, spec in specs.items()}
    for override in overrides:
        parsed = OverridesParser.create().parse_override(override)
        check_once(parsed.key_or_group, re.sub(r":(?!\s)", ": ", override.partition("=")[2]))
        name = parsed.key_or_group.removeprefix("axes.")
        value: Any = parsed.value()
        head, _, leaf = name.rpartition(".")
        if leaf in AXIS_KEYS and head:
            name, value = head, {leaf: value}
        new = dict(value) if isinstance(value, Mapping) else {"values": value}
        old = specs.get(name, {})
        if not isinstance(old, Mapping):
            raise InputError(f"axes.{name}", repr(old), "a list of values, or a range")
        if isinstance(old.get("values"), Mapping) and "set" not in new:
            new = _among(f"axes.{name}", old["values"], new)
        clear = {
            "from": ("values", *RANGE_KEYS),
            "set": ("label",),
            "values": RANGE_KEYS,
            "step": ("num", "log"),
            "num": ("step",),
            "start": ("values",),
        }
        gone = {key for leaf in new for key in clear.get(leaf, ())} | ({"values"} if {"stop", "step", "num"} & set(new) else set())
        specs[name] = from_table(name, {**{k: v for k, v in old.items() if k not in gone}, **new})
    return specs


def from_table(name: str, spec: Any) -> Any:
    """Return what is written for an axis with the rows of the table that it names among its values (:func:`sim.judges.settings`).

    Raises
    ------
    InputError
        The table is not of that form, or the axis has nothing that its rows could set.
    """
    if not isinstance(spec, Mapping) or "from" not in spec:
        return spec
    from sim.judges import settings

    where = f"axes.{name}.from"
    if not isinstance(spec["from"], str):
        raise InputError(where, repr(spec["from"]), "channels, or a CSV file")
    chosen, given = spec.get("set"), spec.get("values")
    if not isinstance(chosen, list) or not chosen:
        raise InputError(where, "a table for an axis without set", f"axes.{name}.set: a list of parameters, a column each")
    if given is not None and not isinstance(given, Mapping):
        raise InputError(where, "a list of values beside a table", "values: {NAME: [what each is set to]}", "or leave out one of the two")
    paths = [path for one in chosen for path in resolve(str(one))]
    rows = settings(where, spec["from"], tuple(path.rpartition(".")[2] for path in paths))
    for value in given or ():
        if value in rows:
            raise InputError(where, f"a row {value!r}, which values has too", "each name once")
    return {**{k: v for k, v in spec.items() if k != "from"}, "values": {**(given or {}), **rows}}


def _among(where: str, table: Mapping[Any, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return changes of a linked axis with a list of its values replaced by that part of its table."""
    known, values = f"some of its values: {', '.join(map(str, table))}", new.get("values")
    todo = f"or map new ones to what they set: {where}.values={{VALUE: [...]}}"
    if set(RANGE_KEYS) & set(new):
        raise InputError(where, "a range", known, todo)
    if values is None or isinstance(values, Mapping):
        return new
    if not isinstance(values, list):
        raise InputError(where, repr(values), f"a list of {known}", todo)
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float | str) or value not in table:
            raise InputError(where, repr(value), known, todo)
        if value in values[:i]:
            raise InputError(where, "the same value twice", "distinct values")
    return {**new, "values": {value: row for chosen in values for value, row in table.items() if value == chosen}}


def check_once(where: str, text: str) -> None:
    """Refuse a mapping with the same key twice, such as 0.1 and 0.10: of those, parsers keep one in silence."""
    import yaml

    try:
        nodes = [yaml.compose(text)]
    except yaml.YAMLError:
        return  # not YAML but hydra's own grammar, which has read it
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key in (key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                value: float | str = key
                with contextlib.suppress(ValueError):
                    value = float(key)
                if value in seen:
                    raise InputError(where, f"{key} twice", "distinct values")
                seen.add(value)
            nodes += [inner for _, inner in node.value]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value


def with_followers(axis: Axis, follows: Mapping[str, str]) -> Axis:
    """Let an axis also set what follows its parameters in a preset, such as rho_pf in channel=noise."""
    more = {path: axis.paths.index(leader) for path, leader in follows.items() if leader in axis.paths}
    linked = tuple(row + tuple(row[i] for i in more.values()) for row in axis.linked)
    return replace(axis, paths=(*axis.paths, *more), linked=linked)


def written(axis: Axis) -> dict[str, Any]:
    """Return an axis as a sweep file has it."""
    values = {value: list(row) for value, row in zip(axis.values, axis.linked, strict=True)} if axis.linked else list(axis.values)
    return {"set": list(axis.paths), "values": values, **({"label": axis.label} if axis.label else {})}
