"""What a run is made of: World, Policy, Channel. Frozen, typed, validated; nothing derived in them.

The words and their meaning are those of the specification (MODEL.md). Everything computed from
these numbers, thresholds and tables alike, comes from :func:`sim.tables.derive`.

Each parameter is declared once, with its meaning, unit and bounds (:mod:`sim.params`). Config files, the store and the figures
take their texts from here (:func:`parameters`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sim.errors import InputError
from sim.params import REST, Given, Group, Parameter, from_mapping, group, param, rate, to_mapping
from sim.params import parameters as _parameters

__all__ = [
    "Cell",
    "Channel",
    "Critic",
    "Difficulty",
    "Effect",
    "Parameter",
    "Policy",
    "Rollback",
    "Router",
    "Synth",
    "World",
    "from_mapping",
    "parameters",
    "recorded",
    "to_mapping",
]

ROUTER_MODES = ("adjudicate", "top_hit", "withheld")
KEEPS = ("all", "any_fail", "mixed")
UNITS = ("task", "topic")
MISLABEL_TO = ("uniform", "weight")


# ---------------------------------------------------------------- World


@dataclass(frozen=True)
class Difficulty(Group):
    """True no-skill pass rate of a task: Beta(a, b), conditioned on how probe attempts went."""

    PATH: ClassVar[str] = "world.difficulty"
    a: float = param("first shape of the Beta of no-skill pass rates", above=0.0, at_most=1000.0)
    b: float = param("second shape of the Beta of no-skill pass rates", above=0.0, at_most=1000.0)
    probes: int = param("probe attempts per task when the subset was chosen", "attempts", at_least=0, at_most=1000)
    keep: str = param("which tasks the probes kept", choices=KEEPS)

    def __post_init__(self) -> None:
        super().__post_init__()
        least = {"all": 0, "any_fail": 1, "mixed": 2}[self.keep]
        if self.probes < least:
            raise InputError(f"{self.PATH}.probes", self.probes, f"at least {least} with keep={self.keep}")


@dataclass(frozen=True)
class Effect(Group):
    """What a skill does to the logit of the pass rate."""

    PATH: ClassVar[str] = "world.effect"
    mean: float = param("mean on-topic effect of a skill", "logit", at_least=-20.0, at_most=20.0)
    sd: float = param("standard deviation of the on-topic effect", "logit", at_least=0.0, at_most=20.0)
    spurious_mean: float = param("mean effect of a skill written from phantom failures", "logit", at_least=-20.0, at_most=20.0)
    spurious_sd: float = param("standard deviation of the spurious effect", "logit", at_least=0.0, at_most=20.0)
    off_topic: float = param("loss when a skill is injected on another topic", "logit", at_least=0.0, at_most=20.0)


@dataclass(frozen=True)
class Router(Group):
    """Which skill, if any, a task gets."""

    PATH: ClassVar[str] = "world.router"
    recall: float = rate("chance that an on-topic skill on the shelf is noticed")
    false_match: float = rate("chance that one given off-topic skill looks applicable")
    mode: str = param("how the router decides", choices=ROUTER_MODES, default="adjudicate")
    top_hit_recall: float | None = rate("recall by embedding similarity alone, in mode top_hit (null means recall)", default=None)
    favour: float = param("of skills that fit, the one of rank r by age has weight (1 - favour)^r", at_least=0.0, below=1.0, default=0.0)


@dataclass(frozen=True)
class Critic(Group):
    """How failures are labelled."""

    PATH: ClassVar[str] = "world.critic"
    mislabel: float = rate("chance that a failure is labelled with a random topic")
    mislabel_to: str = param("how that topic is drawn: each alike, or by the topics' weights", choices=MISLABEL_TO, default="uniform")


@dataclass(frozen=True)
class Synth(Group):
    """When and what the synthesiser writes."""

    PATH: ClassVar[str] = "world.synth"
    min_cluster: int = param("failures needed for a cluster", "failures", at_least=1, at_most=65536)
    per_round: int = param("most skills written per round", "skills", at_least=0)
    memory: float = rate("share of unused failures that survives to the next round")
    cover_guard: float = rate("chance that a topic covered by an active skill is skipped")
    phantom_cost: float = rate("weight of phantom failures in making a skill spurious")


@dataclass(frozen=True)
class World(Group):
    """What is true, and how the LLM roles behave."""

    PATH: ClassVar[str] = "world"
    n_train: int = param("train tasks per round", "tasks", at_least=1)
    n_eval: int = param("eval tasks per round", "tasks", at_least=1)
    topics: int = param("latent failure patterns", "topics", at_least=1)
    topic_skew: float = param("topic k has weight k^-skew", at_least=0.0, at_most=50.0)
    difficulty: Difficulty = group()
    effect: Effect = group()
    router: Router = group()
    critic: Critic = group()
    synth: Synth = group()
    start: int = param("skills on the shelf before the first round", "skills", at_least=0, default=0)


# ---------------------------------------------------------------- Policy


@dataclass(frozen=True)
class Rollback(Group):
    """Restoring the best shelf after a sustained regression (RT section 3)."""

    PATH: ClassVar[str] = "policy.rollback"
    on: bool = param("whether the shelf of the best round can be restored", default=False)
    margin: float = param("fall below the best sampled eval that flags a round", "pass rate", at_least=0.0, at_most=1.0, default=0.1)
    patience: int = param("flags in a row before the shelf is restored", "rounds", at_least=1, at_most=1000, default=5)


@dataclass(frozen=True)
class Policy(Group):
    """The controller, and how long it is watched.

    What rules other than the papers' have of their own is in ``own``, as ``policy.NAME.parameter``: :mod:`sim.curators` reads it.
    """

    PATH: ClassVar[str] = "policy"
    tau: float = param("retire at a mean signed outcome of -tau or less", above=-1.0, below=1.0)
    n_min: int = param("trials a skill must have before it can be retired", "trials", at_least=1, at_most=2**31 - 1)
    cap: int = param("most active skills", "skills", at_least=1)
    rounds: int = param("rounds of a run", "rounds", at_least=1)
    window: int = param("rounds in a tail or first mean", "rounds", at_least=1)
    curator: str = param("the rule that retires and evicts", default="ratchet")
    sampled_eval: bool = param("also report an eval of one attempt per task", default=False)
    rollback: Rollback = field(default_factory=Rollback)
    own: Given = field(default=(), metadata=REST)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window > self.rounds:
            raise InputError("policy.window", self.window, f"at most policy.rounds = {self.rounds}")


# ---------------------------------------------------------------- Channel


@dataclass(frozen=True)
class Channel(Group):
    """How true outcomes become observed outcomes.

    ``rho_fp + rho_pf`` may reach or pass 1: the plane is drawn whole.
    """

    PATH: ClassVar[str] = "channel"
    rho_fp: float = rate("P(observed pass given true fail): hidden failures")
    rho_pf: float = rate("P(observed fail given true pass): phantom failures")
    spread: float = param("intra-class correlation of the rates over units", "correlation", at_least=0.0, below=1.0, default=0.0)
    unit: str = param("what shares one error rate when spread > 0", choices=UNITS, default="task")


@dataclass(frozen=True)
class Cell:
    """One point of a sweep: one value of every parameter."""

    world: World
    policy: Policy
    channel: Channel


def recorded(world: World) -> dict[str, Any]:
    """Return the plain mapping of a world that a log keeps. Options that came after logs were made are in it where they are used."""
    told = to_mapping(world)
    if not world.router.favour:
        del told["router"]["favour"]
    if world.critic.mislabel_to == MISLABEL_TO[0]:
        del told["critic"]["mislabel_to"]
    return told


def parameters(group: type = Cell, prefix: str = "") -> Iterator[Parameter]:
    """Yield every leaf parameter of a cell, as ``world.effect.mean`` and so on, in order of declaration."""
    return _parameters(group, prefix)
