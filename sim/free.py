"""What a calibration may move: the parameters of worlds, and which subsets share them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from sim.errors import InputError
from sim.model import Policy, World
from sim.targets import BC_SUBSETS, RT_SUBSET, SUBSETS, channel

Values: TypeAlias = Mapping[str, float]
"""Parameters by name: a path below ``world``, with the subset in front where each subset has its own."""

DIGITS: Final = 4  # of a parameter: what is written down is what was evaluated


@dataclass(frozen=True)
class Free:
    """A parameter that a calibration may move, between two bounds.

    The search sees all parameters as numbers from 0 to 1 (:meth:`unit`, :meth:`value`).

    Parameters
    ----------
    path
        Below ``world``.
    low, high
        Bounds of the search.
    subset
        Whose parameter it is; empty if all subsets share it.
    whole, log
        Whether it is a whole number; whether the search sees its logarithm.
    """

    path: str
    low: float
    high: float
    subset: str = ""
    whole: bool = False
    log: bool = False

    @property
    def name(self) -> str:
        return f"{self.subset}.{self.path}" if self.subset else self.path

    @property
    def step(self) -> float:
        """Width of one whole number; 0 if any number will do."""
        return 1.0 / (self.high - self.low + 1) if self.whole else 0.0

    def value(self, unit: float) -> float:
        if self.whole:
            return min(int(self.low + unit / self.step), int(self.high))
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        here = low + unit * (high - low)
        return float(f"{math.exp(here) if self.log else here:.{DIGITS}g}")

    def unit(self, value: float) -> float:
        if self.whole:
            return (value - self.low + 0.5) * self.step
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


TOPICS: Final = (Free("topics", 2, 40, whole=True), Free("topic_skew", 0.0, 3.0))
SKILLS: Final = (Free("effect.sd", 0.0, 2.0), Free("effect.off_topic", 0.0, 3.0))
SPURIOUS: Final = (Free("effect.spurious_mean", -2.0, 2.0), Free("effect.spurious_sd", 0.0, 2.0), Free("synth.phantom_cost", 0.0, 1.0))
ROUTER: Final = (Free("router.recall", 0.0, 1.0), Free("router.false_match", 0.0, 1.0))
LABELS: Final = (Free("critic.mislabel", 0.0, 1.0),)
CLUSTER: Final = (Free("synth.min_cluster", 1, 6, whole=True),)
WRITING: Final = (Free("synth.memory", 0.0, 1.0), Free("synth.cover_guard", 0.0, 1.0))
# Probe selection fixes the shapes of band-58 and hard-133.
SHAPED: Final = ("report_main_71", "mbpp_hard100", "report_weak_71", RT_SUBSET)


@dataclass(frozen=True)
class Family:
    """The subsets of one paper: fitted together, under one controller, with roles that they share.

    Parameters
    ----------
    subsets
        By name; a world each.
    policy
        The preset of their controller.
    shared
        The parameters of the roles.
    """

    subsets: tuple[str, ...]
    policy: str
    shared: tuple[Free, ...]


# RT's judge is perfect, so phantom failures tell nothing there; App. G gives min_cluster.
FAMILIES: Final = (
    Family(BC_SUBSETS, "bc", (*TOPICS, *SKILLS, *SPURIOUS, *ROUTER, *LABELS, *CLUSTER, *WRITING)),
    Family(
        (RT_SUBSET,),
        "rt",
        (*TOPICS, *SKILLS, *ROUTER, Free("router.top_hit_recall", 0.0, 1.0), *LABELS, Free("synth.per_round", 1, 4, whole=True), *WRITING),
    ),
)


def family(subsets: Sequence[str]) -> Family:
    """Return the family of these subsets.

    Raises
    ------
    InputError
        They are of two papers, which share no parameter.
    """
    found = [f for f in FAMILIES if set(subsets) & set(f.subsets)]
    if len(found) != 1:
        todo = f"{RT_SUBSET} shares no parameter with the others: fit it by itself"
        raise InputError("subsets", ", ".join(subsets), "subsets of one paper", todo)
    return found[0]


def free_parameters(subsets: Sequence[str]) -> tuple[Free, ...]:
    """Return the parameters of these subsets: those they share, then each one's own."""
    own = []
    for subset in subsets:
        own.append(Free("effect.mean", -3.0, 3.0, subset))
        if subset in SHAPED:
            own += [Free(f"difficulty.{shape}", 0.1, 20.0, subset, log=True) for shape in "ab"]
    return (*family(subsets).shared, *own)


def all_parameters() -> tuple[Free, ...]:
    """Return the parameters of all subsets, each name once."""
    everything = [p for f in FAMILIES for p in free_parameters(f.subsets)]
    return tuple({p.name: p for p in everything}.values())


@cache
def presets(policy: str = "bc") -> tuple[dict[str, World], Policy]:
    """Return the world of each subset as the presets have it, and the controller of this name."""
    from sim.config import load

    cells = {subset: load([f"world={subset}", f"policy={policy}"]).sweep.cell(()) for subset in SUBSETS}
    return {subset: cell.world for subset, cell in cells.items()}, cells[SUBSETS[0]].policy


@cache
def ablations() -> dict[str, dict[str, Any]]:
    """Return what RT's ablations change, by name and path: how each row of the sweep ``ratchet`` differs from its first."""
    from sim.config import load

    (axis,) = load(["+sweep=ratchet"]).sweep.axes
    rows = {str(name): axis.settings(i) for i, name in enumerate(axis.values)}
    first = next(iter(rows.values()))
    return {name: {path: value for path, value in row.items() if value != first[path]} for name, row in rows.items()}


def changes(name: str, line: int = 0) -> Mapping[str, Any]:
    """Return what a condition of a targets file changes in a cell, by path: the channel, or what RT ablates.

    Raises
    ------
    InputError
        There is no such ablation; ``line`` says where it is asked for.
    """
    if not name.startswith("A"):
        rates = channel(name)
        return {"channel.rho_fp": rates.rho_fp, "channel.rho_pf": rates.rho_pf}
    if name not in ablations():
        known = ", ".join(row for row in ablations() if row.startswith("A"))
        raise InputError(f"targets, line {line}, channel", repr(name), f"clean or one of {known}")
    return ablations()[name]
