"""Fixed cells for tests that need one: the papers' worlds, as the presets give them."""

from __future__ import annotations

from dataclasses import replace

from sim.model import Cell, Channel, Critic, Difficulty, Effect, Policy, Rollback, Router, Synth, World

ROLES = {
    "topics": 13,
    "topic_skew": 1.87,
    "router": Router(0.34, 0.34),
    "critic": Critic(0.25),
    "synth": Synth(min_cluster=2, per_round=2, memory=0.94, cover_guard=0.39, phantom_cost=0.44),
}
MAIN_71 = World(43, 28, difficulty=Difficulty(2.78, 0.82, 3, "any_fail"), effect=Effect(-0.84, 0.59, 0.0, 0.59, 0.05), **ROLES)  # type: ignore[arg-type]
HARD_133 = World(80, 53, difficulty=Difficulty(0.431, 0.914, 3, "any_fail"), effect=Effect(1.24, 0.59, 0.0, 0.59, 0.05), **ROLES)  # type: ignore[arg-type]
BC = Policy(tau=0.1, n_min=24, cap=12, rounds=12, window=4)
CLEAN = Channel(0.0, 0.0)


def cell(world: World = MAIN_71, rho_fp: float = 0.0, rho_pf: float = 0.0, policy: Policy = BC, **channel: object) -> Cell:
    return Cell(world, policy, Channel(rho_fp, rho_pf, **channel))  # type: ignore[arg-type]


def rolling(policy: Policy = BC) -> Policy:
    """Return a policy that rolls back often."""
    return replace(policy, rollback=Rollback(True, 0.05, 2))


NAMED = {
    "clean": cell(),
    "cliff": cell(rho_fp=0.45),
    "strict judge": cell(HARD_133, 0.01, 0.95),
    "past the line": cell(rho_fp=0.8, rho_pf=0.7),
    "all rates one": cell(rho_fp=1.0, rho_pf=1.0),
    "spread by task": cell(HARD_133, 0.3, 0.1, spread=0.4, unit="task"),
    "spread by topic": cell(HARD_133, 0.3, 0.1, spread=0.4, unit="topic"),
    "rollback": cell(HARD_133, 0.2, policy=rolling()),
    "top hit": cell(replace(MAIN_71, router=replace(MAIN_71.router, mode="top_hit", top_hit_recall=0.9))),
    "withheld": cell(replace(MAIN_71, router=replace(MAIN_71.router, mode="withheld"))),
    "one slot": cell(policy=replace(rolling(), cap=1, n_min=1, tau=-0.9)),
    "one topic": cell(replace(MAIN_71, topics=1)),
    "a shelf to start from": cell(replace(HARD_133, start=12)),
}
