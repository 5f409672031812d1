"""Random worlds in which kernel and float model are compared: small, and between them every feature of MODEL.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim.model import KEEPS, MISLABEL_TO, ROUTER_MODES, Cell, Channel, Critic, Difficulty, Effect, Policy, Rollback, Router, Synth, World

# What has few values is dealt out: each value to its share of the worlds, in random order.
DEALT: dict[str, Sequence[Any]] = {
    "mode": (*ROUTER_MODES, "adjudicate", "top_hit"),
    "own_top_hit_recall": (True, False),
    "keep": KEEPS,
    "spread": ("none", "task", "topic"),
    "small_cap": (True, False),
    "low_tau": (True, False),
    "helpful": (True, True, False),
    "min_cluster": (1, 2, 3, 4),
    "per_round": (*(1, 2, 3) * 6, 2, 0),
    "rounds": range(3, 13),
    "sampled_eval": (True, False, False),
    "rollback": (True, False),
    "rho_fp": ("low", "zero", "low", "any"),
    "rho_pf": ("low", "zero", "low", "any"),
    "start": (False, False, True),
}


FAVOURS = (0.0, 0.5, 0.0, 0.9)


def _number(rng: np.random.Generator, low: float, high: float) -> float:
    """Return a number of two decimals, as one would write it in a config file."""
    return round(float(rng.uniform(low, high)), 2)


def _share(rng: np.random.Generator, high: float = 1.0) -> float:
    """Return a probability up to ``high``; one in eight times 0, one in eight times ``high``."""
    return min(max(0.0, _number(rng, -high / 6, high * 7 / 6)), high)


def _whole(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def _rate(rng: np.random.Generator, kind: str) -> float:
    return {"zero": 0.0, "low": _number(rng, 0.01, 0.3), "any": _number(rng, 0.0, 1.0)}[kind]


def random_cell(rng: np.random.Generator, dealt: dict[str, Any]) -> Cell:
    """Return a random cell with these values of what is dealt out."""
    rounds = dealt["rounds"]
    world = World(
        n_train=_whole(rng, 5, 60),
        n_eval=_whole(rng, 5, 40),
        topics=_whole(rng, 1, 15),
        topic_skew=_share(rng, 2.0),
        difficulty=Difficulty(_number(rng, 0.3, 3.0), _number(rng, 0.3, 3.0), _whole(rng, 2, 5), dealt["keep"]),
        effect=Effect(
            mean=_number(rng, 0.2, 2.0) if dealt["helpful"] else _number(rng, -1.2, -0.1),
            sd=_number(rng, 0.3, 1.2),
            spurious_mean=_number(rng, -1.5, 0.5),
            spurious_sd=_number(rng, 0.2, 1.0),
            off_topic=_share(rng),
        ),
        router=Router(
            recall=_number(rng, 0.2, 1.0),
            false_match=_share(rng, 0.4),
            mode=dealt["mode"],
            top_hit_recall=_number(rng, 0.2, 1.0) if dealt["own_top_hit_recall"] else None,
        ),
        critic=Critic(_share(rng, 0.5)),
        synth=Synth(dealt["min_cluster"], dealt["per_round"], memory=_share(rng), cover_guard=_share(rng), phantom_cost=_share(rng)),
    )
    policy = Policy(
        tau=_number(rng, -0.6, -0.01) if dealt["low_tau"] else _number(rng, 0.0, 0.4),
        n_min=_whole(rng, 1, 12),
        cap=_whole(rng, 1, 3) if dealt["small_cap"] else _whole(rng, 4, 16),
        rounds=rounds,
        window=_whole(rng, 1, rounds),
        sampled_eval=dealt["sampled_eval"],
        rollback=Rollback(dealt["rollback"], _share(rng, 0.1), _whole(rng, 1, 3)),
    )
    if dealt["start"]:
        world = replace(world, start=_whole(rng, 1, policy.cap))
    spread = 0.0 if dealt["spread"] == "none" else _number(rng, 0.05, 0.8)
    unit = "topic" if dealt["spread"] == "topic" else "task"
    return Cell(world, policy, Channel(_rate(rng, dealt["rho_fp"]), _rate(rng, dealt["rho_pf"]), spread, unit))


def random_cells(n: int = 20, seed: int = 20260707) -> list[Cell]:
    """Return n random cells, always the same ones for a seed."""
    rng = np.random.default_rng(seed)
    order = {name: rng.permutation(np.arange(n) % len(values)) for name, values in DEALT.items()}
    cells = [random_cell(rng, {name: values[order[name][i]] for name, values in DEALT.items()}) for i in range(n)]
    more = np.random.default_rng(seed + 1)
    return [
        replace(cell, world=_favoured(cell.world, float(favour), MISLABEL_TO[to]))
        for cell, favour, to in zip(cells, more.permutation(np.resize(FAVOURS, n)), more.permutation(np.arange(n) % 2), strict=True)
    ]


def _favoured(world: World, favour: float, to: str) -> World:
    return replace(world, router=replace(world.router, favour=favour), critic=replace(world.critic, mislabel_to=to))
