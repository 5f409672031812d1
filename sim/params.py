"""Declared parameters: a field of a frozen dataclass with its meaning, unit and bounds, checked when the group is made.

Config files, stores, figures and --help take their texts from these declarations.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from sim.errors import InputError

REST = {"rest": True}  # metadata of a field that takes the groups of keys which are not declared, for somebody else to read (Given)
MAX_NUMBER = 1e300  # beyond, whole numbers cannot be compared with others any more


def param(
    doc: str,
    unit: str = "1",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] | None = None,
    default: Any = MISSING,
) -> Any:
    """Declare a parameter: its meaning, its unit and its bounds; without a default it must be given."""
    bounds = {"at_least": at_least, "at_most": at_most, "above": above, "below": below}
    metadata = {"doc": doc, "unit": unit, "choices": choices, "bounds": {k: v for k, v in bounds.items() if v is not None}}
    return field(default=default, metadata=metadata)


def group() -> Any:
    """Declare a group of parameters within a group."""
    return field()


def rate(doc: str, **kwargs: Any) -> Any:
    """Declare a probability."""
    return param(doc, "probability", at_least=0.0, at_most=1.0, **kwargs)


_BOUND_WORDS = {"at_least": "at least", "at_most": "at most", "above": "above", "below": "below"}


def _expected(kind: type, metadata: Mapping[str, Any]) -> str:
    if metadata["choices"]:
        return "one of " + ", ".join(metadata["choices"])
    noun = {int: "a whole number", float: "a number", bool: "true or false", str: "a name"}[kind]
    bounds = [f"{_BOUND_WORDS[k]} {v if isinstance(v, int) else format(v, 'g')}" for k, v in metadata["bounds"].items()]
    return " ".join([noun, " and ".join(bounds)]).strip()


def _fits(kind: Any, value: Any, metadata: Mapping[str, Any]) -> bool:
    if isinstance(value, bool) or kind is bool:
        return kind is bool and isinstance(value, bool)
    if not isinstance(value, (int, float) if kind is float else kind):
        return False
    if kind in (int, float) and (abs(value) > MAX_NUMBER or value != value):
        return False
    bounds = metadata["bounds"]
    return (
        value >= bounds.get("at_least", value)
        and value <= bounds.get("at_most", value)
        and value > bounds.get("above", -math.inf if kind is not str else "")
        and value < bounds.get("below", math.inf if kind is not str else "\uffff")
        and (not metadata["choices"] or value in metadata["choices"])
    )


def _kinds(group: Any) -> dict[str, Any]:
    """Return the types of a group's fields by name; an optional number counts as a number."""
    return _read_kinds(group)


@cache
def _read_kinds(group: Any) -> dict[str, Any]:
    hints = get_type_hints(group)
    return {item.name: _present(hints[item.name]) for item in fields(group) if "rest" not in item.metadata}


def _present(kind: Any) -> Any:
    """Return the type of ``X | None`` when it is not None."""
    if get_origin(kind) in (UnionType, Union):
        kind = next(k for k in get_args(kind) if k is not NoneType)
    return kind


class Group:
    """A group of parameters that checks types and bounds when it is made."""

    PATH: ClassVar[str]

    def __post_init__(self) -> None:
        kinds = _kinds(type(self))
        for item in fields(self):  # type: ignore[arg-type]
            kind = kinds.get(item.name)
            if kind is None or dataclasses.is_dataclass(kind):
                continue
            value = getattr(self, item.name)
            if value is None and item.default is None:
                continue
            if not _fits(kind, value, item.metadata):
                raise InputError(f"{self.PATH}.{item.name}".lstrip("."), repr(value), _expected(kind, item.metadata))
            if kind is float:
                object.__setattr__(self, item.name, float(value))


# ---------------------------------------------------------------- by name


@dataclass(frozen=True)
class Parameter:
    """A leaf of the model: where it lives, what it means, what it is measured in."""

    path: str
    kind: type
    doc: str
    unit: str
    expected: str


def parameters(group: type, prefix: str = "") -> Iterator[Parameter]:
    """Yield every leaf parameter, as ``world.effect.mean`` and so on, in order of declaration."""
    for item in fields(group):
        if "rest" in item.metadata:
            continue
        path, kind = f"{prefix}{item.name}", _kinds(group)[item.name]
        if dataclasses.is_dataclass(kind):
            yield from parameters(kind, path + ".")  # type: ignore[arg-type]
        else:
            yield Parameter(path, kind, item.metadata["doc"], item.metadata["unit"], _expected(kind, item.metadata))


G = TypeVar("G")


def from_mapping(group: type[G], values: Any, path: str = "") -> G:
    """Build a parameter group from nested mappings, refusing unknown and missing keys.

    Raises
    ------
    InputError
        A key is unknown or missing, or a value is of the wrong type or out of bounds.
    """
    where = path or getattr(group, "PATH", "")
    if not isinstance(values, Mapping):
        raise InputError(where or "config", repr(values), "a group of keys")
    kinds = _kinds(group)
    known = {item.name: item for item in fields(group) if "rest" not in item.metadata}  # type: ignore[arg-type]
    open_ = rest_of(group)
    made: dict[str, Any] = {}
    for key, value in values.items():
        if key in known:
            continue
        if open_ is None or not isinstance(value, Mapping):
            raise InputError(f"{where}.{key}".lstrip("."), "an unknown key", "one of " + ", ".join(known))
        made[open_] = with_rest(made.get(open_, ()), key, value)
    for name, item in known.items():
        if name not in values:
            if item.default is MISSING and item.default_factory is MISSING:
                raise InputError(f"{where}.{name}".lstrip("."), "nothing", "a value")
            continue
        value = values[name]
        nested = dataclasses.is_dataclass(kinds[name])
        made[name] = from_mapping(kinds[name], value, f"{where}.{name}".lstrip(".")) if nested else value
    return group(**made)


def to_mapping(group: Any) -> dict[str, Any]:
    """Return the nested plain mapping that :func:`from_mapping` reads back."""
    out: dict[str, Any] = {}
    for item in fields(group):
        value = getattr(group, item.name)
        if "rest" in item.metadata:
            out |= {key: dict(values) for key, values in value}
        else:
            out[item.name] = to_mapping(value) if dataclasses.is_dataclass(value) else value
    return out


def with_defaults(group: Any, values: Any) -> Any:
    """Return values by name, groups in groups, with the defaults of parameters that are not among them."""
    if not isinstance(values, Mapping):
        return values
    out, kinds = dict(values), _kinds(group)
    for item in fields(group):
        if dataclasses.is_dataclass(kinds.get(item.name)) and item.name in out:
            out[item.name] = with_defaults(kinds[item.name], out[item.name])
        elif item.name in kinds and item.default is not MISSING:
            out.setdefault(item.name, item.default)
    return out


# ---------------------------------------------------------------- keys that somebody else reads

Given: TypeAlias = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
"""What a field with the metadata :data:`REST` holds: (group of keys, ((key, value), ...)), in the order of their names."""


def rest_of(group: Any) -> str | None:
    """Return the name of the field of a group that takes undeclared keys, if it has one."""
    return next((item.name for item in fields(group) if "rest" in item.metadata), None)


def with_rest(given: Given, key: str, values: Mapping[str, Any]) -> Given:
    """Return what is given, with some values of a group of keys added or replaced."""
    there = {name: dict(old) for name, old in given}
    there[key] = {**there.get(key, {}), **values}
    return tuple((name, tuple(sorted(new.items()))) for name, new in sorted(there.items()))
