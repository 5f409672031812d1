"""What a run is made of: World, Policy, Channel. Frozen, typed, validated; nothing derived in them.

The words and their meaning are those of the specification (MODEL.md). Everything computed from
these numbers, thresholds and tables alike, comes from :func:`sim.tables.derive`.

Each parameter is declared once, with its meaning, unit and bounds. Config files, the store and the figures take
their texts from here (:func:`parameters`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, TypeVar, get_type_hints

from sim.errors import InputError

ROUTER_MODES = ("adjudicate", "top_hit", "withheld")
KEEPS = ("all", "any_fail", "mixed")
UNITS = ("task", "topic")
MAX_NUMBER = 1e300  # beyond, whole numbers cannot be compared with others any more


def _param(
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
    bounds = {"at_least": at_least, "at_most": at_most, "above": above, "below": below}
    metadata = {"doc": doc, "unit": unit, "choices": choices, "bounds": {k: v for k, v in bounds.items() if v is not None}}
    return field(default=default, metadata=metadata)


def _group() -> Any:
    return field()


def _rate(doc: str, **kwargs: Any) -> Any:
    return _param(doc, "probability", at_least=0.0, at_most=1.0, **kwargs)


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
    return {item.name: float if hints[item.name] == float | None else hints[item.name] for item in fields(group)}


class _Group:
    """A group of parameters that checks types and bounds when it is made."""

    PATH: ClassVar[str]

    def __post_init__(self) -> None:
        kinds = _kinds(type(self))
        for item in fields(self):  # type: ignore[arg-type]
            kind = kinds[item.name]
            if dataclasses.is_dataclass(kind):
                continue
            value = getattr(self, item.name)
            if value is None and item.default is None:
                continue
            if not _fits(kind, value, item.metadata):
                raise InputError(f"{self.PATH}.{item.name}", repr(value), _expected(kind, item.metadata))
            if kind is float:
                object.__setattr__(self, item.name, float(value))


# ---------------------------------------------------------------- World


@dataclass(frozen=True)
class Difficulty(_Group):
    """True no-skill pass rate of a task: Beta(a, b), conditioned on how probe attempts went."""

    PATH: ClassVar[str] = "world.difficulty"
    a: float = _param("first shape of the Beta of no-skill pass rates", above=0.0, at_most=1000.0)
    b: float = _param("second shape of the Beta of no-skill pass rates", above=0.0, at_most=1000.0)
    probes: int = _param("probe attempts per task when the subset was chosen", "attempts", at_least=0, at_most=1000)
    keep: str = _param("which tasks the probes kept", choices=KEEPS)

    def __post_init__(self) -> None:
        super().__post_init__()
        least = {"all": 0, "any_fail": 1, "mixed": 2}[self.keep]
        if self.probes < least:
            raise InputError(f"{self.PATH}.probes", self.probes, f"at least {least} with keep={self.keep}")


@dataclass(frozen=True)
class Effect(_Group):
    """What a skill does to the logit of the pass rate."""

    PATH: ClassVar[str] = "world.effect"
    mean: float = _param("mean on-topic effect of a skill", "logit", at_least=-20.0, at_most=20.0)
    sd: float = _param("standard deviation of the on-topic effect", "logit", at_least=0.0, at_most=20.0)
    spurious_mean: float = _param("mean effect of a skill written from phantom failures", "logit", at_least=-20.0, at_most=20.0)
    spurious_sd: float = _param("standard deviation of the spurious effect", "logit", at_least=0.0, at_most=20.0)
    off_topic: float = _param("loss when a skill is injected on another topic", "logit", at_least=0.0, at_most=20.0)


@dataclass(frozen=True)
class Router(_Group):
    """Which skill, if any, a task gets."""

    PATH: ClassVar[str] = "world.router"
    recall: float = _rate("chance that an on-topic skill on the shelf is noticed")
    false_match: float = _rate("chance that one given off-topic skill looks applicable")
    mode: str = _param("how the router decides", choices=ROUTER_MODES, default="adjudicate")
    top_hit_recall: float | None = _rate("recall by embedding similarity alone, in mode top_hit (null means recall)", default=None)


@dataclass(frozen=True)
class Critic(_Group):
    """How failures are labelled."""

    PATH: ClassVar[str] = "world.critic"
    mislabel: float = _rate("chance that a failure is labelled with a uniformly random topic")


@dataclass(frozen=True)
class Synth(_Group):
    """When and what the synthesiser writes."""

    PATH: ClassVar[str] = "world.synth"
    min_cluster: int = _param("failures needed for a cluster", "failures", at_least=1, at_most=65536)
    per_round: int = _param("most skills written per round", "skills", at_least=0)
    memory: float = _rate("share of unused failures that survives to the next round")
    cover_guard: float = _rate("chance that a topic covered by an active skill is skipped")
    phantom_cost: float = _rate("weight of phantom failures in making a skill spurious")


@dataclass(frozen=True)
class World(_Group):
    """What is true, and how the LLM roles behave."""

    PATH: ClassVar[str] = "world"
    n_train: int = _param("train tasks per round", "tasks", at_least=1)
    n_eval: int = _param("eval tasks per round", "tasks", at_least=1)
    topics: int = _param("latent failure patterns", "topics", at_least=1)
    topic_skew: float = _param("topic k has weight k^-skew", at_least=0.0, at_most=50.0)
    difficulty: Difficulty = _group()
    effect: Effect = _group()
    router: Router = _group()
    critic: Critic = _group()
    synth: Synth = _group()
    start: int = _param("skills on the shelf before the first round", "skills", at_least=0, default=0)


# ---------------------------------------------------------------- Policy


@dataclass(frozen=True)
class Rollback(_Group):
    """Restoring the best shelf after a sustained regression (RT section 3)."""

    PATH: ClassVar[str] = "policy.rollback"
    on: bool = _param("whether the shelf of the best round can be restored", default=False)
    margin: float = _param("fall below the best sampled eval that flags a round", "pass rate", at_least=0.0, at_most=1.0, default=0.1)
    patience: int = _param("flags in a row before the shelf is restored", "rounds", at_least=1, at_most=1000, default=5)


@dataclass(frozen=True)
class Policy(_Group):
    """The controller, and how long it is watched."""

    PATH: ClassVar[str] = "policy"
    tau: float = _param("retire at a mean signed outcome of -tau or less", above=-1.0, below=1.0)
    n_min: int = _param("trials a skill must have before it can be retired", "trials", at_least=1, at_most=2**31 - 1)
    cap: int = _param("most active skills", "skills", at_least=1)
    rounds: int = _param("rounds of a run", "rounds", at_least=1)
    window: int = _param("rounds in a tail or first mean", "rounds", at_least=1)
    curator: str = _param("the rule that retires and evicts", default="ratchet")
    sampled_eval: bool = _param("also report an eval of one attempt per task", default=False)
    rollback: Rollback = field(default_factory=Rollback)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window > self.rounds:
            raise InputError("policy.window", self.window, f"at most policy.rounds = {self.rounds}")


# ---------------------------------------------------------------- Channel


@dataclass(frozen=True)
class Channel(_Group):
    """How true outcomes become observed outcomes.

    ``rho_fp + rho_pf`` may reach or pass 1: the plane is drawn whole.
    """

    PATH: ClassVar[str] = "channel"
    rho_fp: float = _rate("P(observed pass given true fail): hidden failures")
    rho_pf: float = _rate("P(observed fail given true pass): phantom failures")
    spread: float = _param("intra-class correlation of the rates over units", "correlation", at_least=0.0, below=1.0, default=0.0)
    unit: str = _param("what shares one error rate when spread > 0", choices=UNITS, default="task")


@dataclass(frozen=True)
class Cell:
    """One point of a sweep: one value of every parameter."""

    world: World
    policy: Policy
    channel: Channel


# ---------------------------------------------------------------- by name


@dataclass(frozen=True)
class Parameter:
    """A leaf of the model: where it lives, what it means, what it is measured in."""

    path: str
    kind: type
    doc: str
    unit: str
    expected: str


def parameters(group: type = Cell, prefix: str = "") -> Iterator[Parameter]:
    """Yield every leaf parameter, as ``world.effect.mean`` and so on, in order of declaration."""
    for item in fields(group):
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
    known = {item.name: item for item in fields(group)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise InputError(f"{where}.{key}".lstrip("."), "an unknown key", "one of " + ", ".join(known))
    made: dict[str, Any] = {}
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
    return dataclasses.asdict(group)
