"""All hypothesis strategies: random parameters, extremes included, small enough for the plain-Python reference."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from sim.model import Cell, Channel, Critic, Difficulty, Effect, Policy, Rollback, Router, Synth, World

# Extremes are as likely as anything between.
rates = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))
logits = st.floats(-3.0, 3.0)
taus = st.one_of(st.sampled_from([-0.9, -0.1, 0.0, 0.1, 0.3, 0.7, 0.99]), st.integers(-99, 99).map(lambda k: k / 100))


@st.composite
def difficulties(draw: st.DrawFn) -> Difficulty:
    keep = draw(st.sampled_from(["all", "any_fail", "mixed"]))
    return Difficulty(draw(st.floats(0.2, 4.0)), draw(st.floats(0.2, 4.0)), draw(st.integers(2, 4)), keep)


effects = st.builds(Effect, logits, st.floats(0.0, 2.0), logits, st.floats(0.0, 2.0), st.floats(0.0, 2.0))
favours = st.one_of(st.just(0.0), st.sampled_from([0.6, 0.9, 0.999999]), st.floats(0.0, 0.99))
routers = st.builds(
    Router,
    recall=rates,
    false_match=rates,
    mode=st.sampled_from(["adjudicate", "top_hit", "withheld"]),
    top_hit_recall=st.none() | rates,
    favour=favours,
)
synths = st.builds(Synth, st.integers(1, 4), st.integers(0, 3), rates, rates, rates)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    topics = draw(st.one_of(st.integers(1, 6), st.sampled_from([13, 64])))
    return World(
        n_train=draw(st.one_of(st.integers(1, 20), st.just(70))),
        n_eval=draw(st.integers(1, 8)),
        topics=topics,
        topic_skew=draw(st.floats(0.0, 3.0)),
        difficulty=draw(difficulties()),
        effect=draw(effects),
        router=draw(routers),
        critic=Critic(draw(rates), draw(st.sampled_from(["uniform", "weight"]))),
        synth=draw(synths),
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    rounds = draw(st.integers(1, 9))
    return Policy(
        tau=draw(taus),
        n_min=draw(st.sampled_from([1, 2, 5, 24])),
        cap=draw(st.sampled_from([1, 2, 3, 12])),
        rounds=rounds,
        window=draw(st.integers(1, rounds)),
        sampled_eval=draw(st.booleans()),
        rollback=Rollback(draw(st.booleans()), draw(st.sampled_from([0.0, 0.1, 0.3])), draw(st.integers(1, 2))),
    )


channels = st.builds(Channel, rates, rates, spread=st.one_of(st.just(0.0), st.floats(0.01, 0.95)), unit=st.sampled_from(["task", "topic"]))


@st.composite
def _cells(draw: st.DrawFn) -> Cell:
    policy = draw(policies())
    start = draw(st.just(0) | st.integers(1, policy.cap))
    return Cell(replace(draw(worlds()), start=start), policy, draw(channels))


cells = _cells()
seeds = st.integers(0, 2**32 - 1)
