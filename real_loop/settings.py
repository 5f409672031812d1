"""What a run of the real loop is made of, apart from the controller: declared, typed and checked like the simulator's parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sim.errors import InputError
from sim.model import KEEPS, ROUTER_MODES, UNITS, Policy
from sim.params import Group, group, param, rate

SUITES = ("mbppplus", "humanevalplus", "demo24", "report", "report_strict")
SCRIPTED = "scripted"  # the suite of scripted roles
ROLES = ("router", "solver", "critic", "synthesizer", "judge")


@dataclass(frozen=True)
class Subset(Group):
    """Which tasks: a suite, and how they were chosen and split."""

    PATH: ClassVar[str] = "subset"
    suite: str = param("benchmark the tasks are from", choices=(*SUITES, SCRIPTED))
    n_train: int = param("train tasks per round", "tasks", at_least=1, at_most=4096)
    n_eval: int = param("eval tasks per round", "tasks", at_least=1, at_most=4096)
    keep: str = param("which tasks the probes kept", choices=KEEPS)
    probes: int = param("probe attempts per task when the subset was chosen", "attempts", at_least=0, at_most=100)
    split_seed: int = param("seed of the choice and the split", at_least=0, at_most=2**32 - 1, default=1)
    pool: int | None = param("tasks to choose among, drawn by split_seed; null: the whole suite", "tasks", at_least=1, default=None)
    split: str | None = param("file of the split; null: the one for this subset and model", default=None)
    ids: str | None = param("file with the ids of the tasks to use, one per line, instead of probes", default=None)
    name: str = param("name of the subset", default="subset")


@dataclass(frozen=True)
class Writing(Group):
    """When and how skills are written (RT section 3 and appendix G)."""

    PATH: ClassVar[str] = "writing"
    min_cluster: int = param("failures needed for a cluster", "failures", at_least=1, at_most=65536)
    per_round: int = param("most skills written per round", "skills", at_least=0, at_most=64)
    memory: float = rate("share of unused failures that survives to the next round")
    cover_guard: float = rate("chance that a cluster covered by an active skill is skipped")
    similarity: float | None = rate("cosine from which two patterns are the same; null: only equal ones are", default=None)
    prior: str = param("the authoring prior: default, none, or a text file", default="default")
    rewrite_every: int = param("rounds after which the prior is rewritten from the log; 0 never", "rounds", at_least=0, default=0)


@dataclass(frozen=True)
class Reward(Group):
    """What reports the outcomes of train trials: a channel over the true grader, or a judge that is a model."""

    PATH: ClassVar[str] = "reward"
    kind: str = param("channel over the true grader, or judge", choices=("channel", "judge"))
    rho_fp: float = rate("P(observed pass given true fail): hidden failures", default=0.0)
    rho_pf: float = rate("P(observed fail given true pass): phantom failures", default=0.0)
    spread: float = param("intra-class correlation of the rates over units", "correlation", at_least=0.0, below=1.0, default=0.0)
    unit: str = param("what shares one error rate when spread > 0", choices=UNITS, default="task")
    prompt: str = param("what the judge is told: strict or lenient", choices=("strict", "lenient"), default="strict")


@dataclass(frozen=True)
class Role(Group):
    """How one role asks its model."""

    PATH: ClassVar[str] = "roles.ROLE"
    temperature: float = param("of sampling", at_least=0.0, at_most=2.0)
    max_tokens: int = param("of an answer", "tokens", at_least=1, at_most=100_000)
    model: str | None = param("model of this role; null: the one of all", default=None)
    base_url: str | None = param("server of this role's model", default=None)


@dataclass(frozen=True)
class Roles(Group):
    """The roles that ask a model, and how a skill comes to a task."""

    PATH: ClassVar[str] = "roles"
    mode: str = param(
        "adjudicate: the router decides; top_hit: the most similar skill; withheld: routed, not injected", choices=ROUTER_MODES
    )
    router: Role = group()
    solver: Role = group()
    critic: Role = group()
    synthesizer: Role = group()
    judge: Role = group()


@dataclass(frozen=True)
class Budget(Group):
    """What may be spent, over all parts of a run; null is no limit. Looked at before each call: those in flight still end."""

    PATH: ClassVar[str] = "budget"
    calls: int | None = param("model calls", "calls", at_least=0, default=None)
    tokens: int | None = param("tokens in and out", "tokens", at_least=0, default=None)
    cost: float | None = param("cost as providers report it", "USD", at_least=0, default=None)
    seconds: float | None = param("wall time", "s", at_least=0, default=None)
    price_in: float | None = param("price of what is read, where no provider names it", "USD per million tokens", at_least=0, default=None)
    price_out: float | None = param("the same for what it writes", "USD per million tokens", at_least=0, default=None)


@dataclass(frozen=True, kw_only=True)
class Settings(Group):
    """All of it."""

    PATH: ClassVar[str] = ""
    subset: Subset = group()
    policy: Policy = group()
    writing: Writing = group()
    reward: Reward = group()
    roles: Roles = group()
    budget: Budget = field(default_factory=Budget)
    model: str | None = param("of all roles: local/NAME, scripted/WORLD, or a provider's, such as openai/NAME", default=None)
    base_url: str | None = param("server of that model, when it is not the provider's own", default=None)
    evals: str = param("fresh: a new attempt each round; paired: the same attempt wherever the same is asked", choices=("fresh", "paired"))
    seed: int = param("key of all randomness of ours", at_least=0, at_most=2**32 - 1)
    run: int = param("number of the run", at_least=0, at_most=2**31 - 1)
    sandbox: str = param("what holds generated code: bubblewrap, or limits (which protects little)", choices=("bubblewrap", "limits"))
    concurrency: int = param("model calls in flight at once, where a provider allows many", "calls", at_least=1, at_most=1000)
    servers: int | None = param("servers of a local model; null: one for each core", at_least=1, at_most=256, default=None)
    patience: float = param("how long a failing service is asked again", "s", at_least=0, at_most=1e6)
    out: str | None = param("folder of the log and the figures", default=None)
    reuse: str | None = param("logs whose answers to the very same questions are taken over, separated by commas", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reward.kind == "channel" and self.reward.spread and self.reward.unit == "topic" and not self.scripted:
            raise InputError("reward.unit", "'topic'", "task: real tasks have no known topic")

    def model_of(self, role: str) -> str | None:
        """Name the model of a role."""
        own: Role = getattr(self.roles, role)
        return own.model or self.model

    @property
    def scripted(self) -> str | None:
        """Name of the world that scripted roles follow, if they do."""
        return self.model.removeprefix("scripted/") if self.model and self.model.startswith("scripted/") else None
