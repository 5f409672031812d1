"""The settings that are timed: S1 is a run of BC's size, S2 of RT's, W a wide one."""

from __future__ import annotations

from sim.model import Cell, Channel, Critic, Difficulty, Effect, Policy, Router, Synth, World


def _world(n_train: int, n_eval: int) -> World:
    return World(
        n_train,
        n_eval,
        topics=24,
        topic_skew=0.5,
        difficulty=Difficulty(2.0, 1.5, 0, "all"),
        effect=Effect(0.3, 1.0, 0.0, 1.0, 0.3),
        router=Router(0.8, 0.05),
        critic=Critic(0.1),
        synth=Synth(min_cluster=3, per_round=2, memory=0.5, cover_guard=0.7, phantom_cost=0.5),
    )


SETTINGS = {
    "S1": (_world(43, 28), Policy(tau=0.1, n_min=24, cap=12, rounds=12, window=4)),
    "S2": (_world(60, 40), Policy(tau=0.1, n_min=24, cap=50, rounds=100, window=10)),
    "W": (_world(400, 200), Policy(tau=0.1, n_min=24, cap=128, rounds=100, window=10)),
}


def eight(world: World, policy: Policy) -> list[Cell]:
    """Return eight cells along q."""
    return [Cell(world, policy, Channel(q, 0.0)) for q in (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7)]


def trials(cells: list[Cell]) -> int:
    """Return the train and eval trials of one run of all cells."""
    return sum((c.world.n_train + c.world.n_eval) * c.policy.rounds for c in cells)
