"""The rules by name: the package's own, those of a user's file or module, those that other packages offer. Loaded when asked for.

A rule is a module with the functions of :mod:`sim.curators.contract` (README.md here has a complete example); :class:`Rule` is what
is made of it, after :mod:`sim.curators.checking` has found nothing wrong.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from sim.errors import InputError
from sim.params import Group, Parameter, from_mapping, to_mapping, with_rest
from sim.params import parameters as _parameters

if TYPE_CHECKING:
    from sim.model import Policy

RATCHET: Final = "ratchet"
ENTRY_POINTS: Final = "halfblind.curators"
NAMES: Final = (
    RATCHET, "never", "fifo", "random", "lru", "lfu", "procmem", "macla", "insight-style", "expel", "evolver", "memgpt-style",
    "generative-agents-style", "memp", "reme", "swarm", "vrr-style", "beta", "thompson", "kl_ucb", "sprt", "eprocess", "cusum", "corrected",
)  # fmt: skip
EVICT, REFUSE = "evict", "refuse"


@dataclass(frozen=True)
class NoParameters(Group):
    """A rule without parameters."""

    PATH: ClassVar[str] = "policy.NAME"


def _nothing(parameters: Any, policy: Policy, n_max: int) -> np.ndarray:
    return np.zeros(1, np.int64)


def _no_evidence(table: Any) -> tuple[int, ...]:
    return ()


@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """A curator.

    Attributes
    ----------
    name, key
        As ``policy.curator`` names it; as ``policy.KEY.parameter`` does.
    line, source, needs
        The rule on one line; where it is from; what it needs beyond the observed outcomes of routed trials, else nothing.
    parameters
        The class of its parameters.
    fields
        Names of its own evidence.
    refuses
        Whether on a full shelf nothing is written and pools stay; else the weakest makes room.
    clock, draws
        Whether it looks at age and idle; whether its strength looks at a random word.
    tables, first, after_trial, after_round, leaves, strength
        Its functions (:mod:`sim.curators.contract`); None where it has none.
    digest
        Of all the source it is made of: rules with the same digest are the same.
    about
        Its docstring.
    own
        Whether it is no part of this package.
    """

    name: str
    key: str
    line: str
    source: str
    needs: str
    parameters: type[Group]
    fields: tuple[str, ...]
    refuses: bool
    clock: bool
    draws: bool
    tables: Callable[[Any, Policy, int], np.ndarray]
    first: Callable[[Any], tuple[int, ...]]
    after_trial: Callable[..., tuple[int, ...]] | None
    after_round: Callable[..., tuple[int, ...]] | None
    leaves: Callable[..., Any]
    strength: Callable[..., Any] | None
    digest: str
    about: str
    own: bool

    def __repr__(self) -> str:
        return f"{self.name} {self.digest}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def table(self, parameters: Group, policy: Policy, n_max: int) -> np.ndarray:
        """Return the table of a cell: int64, one-dimensional, made once.

        Raises
        ------
        InputError
            A parameter does not go with the policy; or the rule gives something else.
        """
        return _table(self, parameters, policy, n_max)


@lru_cache(maxsize=256)
def _table(rule: Rule, parameters: Group, policy: Policy, n_max: int) -> np.ndarray:
    made = np.asarray(rule.tables(parameters, policy, n_max))
    if made.ndim != 1 or not made.size or made.dtype.kind not in "iu":
        got = f"tables() that gives {made.dtype} of shape {made.shape}"
        raise InputError(f"curator {rule.name}", got, "whole numbers, one-dimensional, at least one")
    made = made.astype(np.int64)
    made.flags.writeable = False
    return made


# ---------------------------------------------------------------- from names to rules

_loaded: dict[str, Rule] = {}  # of other origin than this package, by key
_files: dict[tuple[str, str], Rule] = {}  # by path, and hash of what it said


def key_of(name: str) -> str:
    """Return what a curator is called in ``policy.KEY.parameter``: the last part of its name, as an identifier."""
    last = Path(name).stem if _is_file(name) else name.rpartition(".")[2]
    return last.replace("-", "_")


def _is_file(name: str) -> bool:
    return name.endswith(".py") or os.sep in name


@cache
def packaged(name: str) -> Rule:
    """Return a rule of this package."""
    return rule_of(name, importlib.import_module(f"sim.curators.{key_of(name)}"), own=False)


@cache
def _offered() -> dict[str, Any]:
    """Return the entry points of other packages, by name."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def names() -> list[str]:
    """Return the names of all curators that can be had without naming a file or a module."""
    return [*NAMES, *(name for name in _offered() if name not in NAMES)]


def find(name: str) -> Rule:
    """Return a curator.

    Parameters
    ----------
    name
        One of :func:`names`; or the import path of a module, as ``package.module``; or a Python file, as ``./my_rule.py``.

    Raises
    ------
    InputError
        There is none of this name, or it is not as a rule must be.
    """
    if name in NAMES:
        return packaged(name)
    if _is_file(name):
        return _told(_of_file(name))
    if name in _offered():
        return _told(_of_module(name, _offered()[name].load))
    if re.fullmatch(r"\w+(\.\w+)+", name):
        return _told(_of_module(name, lambda: importlib.import_module(name)))
    near = difflib.get_close_matches(name, names(), n=1, cutoff=0.5) or difflib.get_close_matches(name.replace("_", "-"), names(), n=1)
    todo = f"did you mean {near[0]}? " if near else ""
    todo += "one of your own is named by its file, ./my_rule.py, or as package.module"
    raise InputError("policy.curator", repr(name), "one of " + ", ".join(names()), todo)


def _told(rule: Rule) -> Rule:
    """Remember a rule that is not of this package, so that its parameters are known."""
    from sim.model import Policy

    if rule.key in map(key_of, NAMES) or rule.key in Policy.__dataclass_fields__:
        raise InputError("policy.curator", f"{rule.name!r}, whose parameters would be policy.{rule.key}", "a name of its own")
    _loaded[rule.key] = rule
    return rule


def _of_file(name: str) -> Rule:
    path = Path(os.path.expanduser(name))
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError("policy.curator", f"{name!r} ({error.strerror or error})", "a Python file that can be read") from error
    known = str(path.resolve()), hashlib.sha256(text).hexdigest()
    if known not in _files:
        spec = importlib.util.spec_from_file_location(f"halfblind_rule_{key_of(name)}_{known[1][:8]}", path)
        if spec is None or spec.loader is None:
            raise InputError("policy.curator", repr(name), "a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module  # where a dataclass looks for its types
        _files[known] = _of_module(name, lambda: _run(spec.loader, module))
    return _files[known]


def _run(loader: Any, module: ModuleType) -> ModuleType:
    loader.exec_module(module)
    return module


def _of_module(name: str, load: Callable[[], Any]) -> Rule:
    try:
        module = load()
    except (Exception, SystemExit) as error:  # whatever happens in a file of somebody else's
        got = f"{name!r}, which cannot be loaded ({type(error).__name__}: {' '.join(str(error).split())[:160]})"
        raise InputError("policy.curator", got, "a curator: " + ", ".join(names()), "or mend that module") from error
    if not isinstance(module, ModuleType):
        raise InputError("policy.curator", f"{name!r}, which is no module", "a module with the functions of a rule")
    return rule_of(name, module, own=True)


def rule_of(name: str, module: ModuleType, own: bool) -> Rule:
    """Return the rule that a module is.

    Raises
    ------
    InputError
        Something is missing, or not as it must be.
    """
    from sim.curators.checking import check_rule, source_digest

    def have(what: str, default: Any) -> Any:
        return getattr(module, what, default)

    key = key_of(name)
    if not key.isidentifier():
        raise InputError("policy.curator", repr(name), "a file or module whose name can be an identifier")
    rule = Rule(
        name, key, have("LINE", ""), have("SOURCE", ""), have("NEEDS", ""), have("Parameters", NoParameters), have("FIELDS", ()),
        have("FULL", EVICT) == REFUSE, have("CLOCK", False), have("DRAWS", False), have("tables", _nothing),
        have("first", _no_evidence), have("after_trial", None), have("after_round", None), have("leaves", None), have("strength", None),
        source_digest(module), module.__doc__ or "", own,
    )  # fmt: skip
    check_rule(rule, have("FULL", EVICT))
    return rule


# ---------------------------------------------------------------- parameters


def by_key(key: str) -> Rule | None:
    """Return the curator whose parameters are ``policy.KEY.parameter``, if it is one of this package or was named before."""
    for name in names():
        if key_of(name) == key:
            return find(name)
    return _loaded.get(key)


def parameter(path: str) -> Parameter | None:
    """Return a parameter of a curator by its path, ``policy.NAME.parameter``, or None."""
    found = re.fullmatch(r"policy\.(\w+)\.(\w+)", path)
    rule = by_key(found[1]) if found else None
    return next((p for p in _parameters(rule.parameters, f"policy.{rule.key}.") if p.path == path), None) if rule else None


def chosen(policy: Policy) -> tuple[Rule, Group]:
    """Return the curator of a policy, and its parameters.

    Raises
    ------
    InputError
        There is no such curator, or a parameter is unknown or out of bounds.
    """
    rule = find(policy.curator)
    return rule, _read(rule, dict(policy.own).get(rule.key, ()))


@lru_cache(maxsize=1024)
def _read(rule: Rule, values: tuple[tuple[str, Any], ...]) -> Group:
    for name, _ in values:
        check_parameter(rule, name)
    return from_mapping(rule.parameters, dict(values), f"policy.{rule.key}")


def check_parameter(rule: Rule, name: str) -> None:
    """Raise InputError unless a curator has a parameter of this name."""
    there = [p.path for p in _parameters(rule.parameters)]
    if name not in there:
        near = difflib.get_close_matches(name, there, n=1, cutoff=0.5)
        expected = "one of " + ", ".join(there) if there else f"none: {rule.name} has no parameters of its own"
        raise InputError(f"policy.{rule.key}.{name}", "an unknown parameter", expected, f"did you mean {near[0]}?" if near else "")


def check_own(given: Mapping[str, Iterable[str]], curators: Iterable[str]) -> None:
    """See that parameters of curators are such, and of those that are chosen.

    Parameters
    ----------
    given
        Names of parameters by the key of their curator.
    curators
        Names of those that some cell chooses.

    Raises
    ------
    InputError
        A key is of no curator, or of one that is not chosen; or a parameter is not one of it.
    """
    used = {rule.key: rule for rule in map(find, curators)}
    for key, parameters in given.items():
        rule = used.get(key) or by_key(key)
        name = next(iter(parameters), "")
        path = f"policy.{key}.{name}".rstrip(".")
        if rule is None:
            near = difflib.get_close_matches(key, ["rollback", *(key_of(n) for n in names())], n=1)
            expected = "a parameter of the chosen curator, " + ", ".join(used)
            raise InputError(path, "an unknown key", expected, f"did you mean {near[0]}?" if near else "see python -m sim.curators")
        for one in parameters:
            check_parameter(rule, one)
        if key not in used:
            got = f"a parameter of {rule.name}, which is not chosen"
            raise InputError(path, got, f"policy.curator={rule.name}", f"the curator is {', '.join(r.name for r in used.values())}")


def filled(policy: Policy) -> Policy:
    """Return a policy with all parameters of its curator, defaults too: what is recorded.

    Raises
    ------
    InputError
        There is no such curator, or it has parameters of another.
    """
    from dataclasses import replace

    check_own({key: [name for name, _ in values] for key, values in policy.own}, [policy.curator])
    rule, parameters = chosen(policy)
    told = to_mapping(parameters)
    return replace(policy, own=with_rest((), rule.key, told)) if told else policy


def check(policy: Policy) -> None:
    """See that a policy's curator exists and that its parameters go with the policy.

    Raises
    ------
    InputError
        They do not.
    """
    if policy.curator == RATCHET:
        return
    rule, parameters = chosen(policy)
    rule.table(parameters, policy, 1)
