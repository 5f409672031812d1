"""Cases about the other steps of a round: failures and pools, writing, routing, eviction, rollback, and the eval."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from scipy.special import betaln, expit
from scipy.stats import binom, multinomial, norm

from sim import theory
from sim.model import Cell, Difficulty, Effect, Policy, Rollback, Router, World
from tests.verification.finding import Finding, joined, of_counts, of_means, series
from tests.verification.kernel import HOPELESS, NEAR_HALF, NEVER, ONE_SKILL, POLICY, Change, Played, cell, with_synth
from tests.worlds import HARD_133, MAIN_71

RUNS = 20_000
CHANNELS = ((0.0, 0.0), (0.05, 0.0), (0.45, 0.0), (0.3, 0.3), (0.01, 0.95), (0.7, 0.6))


# ---------------------------------------------------------------- no skills: failures and flips


def mean_p0(difficulty: Difficulty) -> float:
    """Return the mean pass rate of the tasks that the probes kept, from moments of the Beta distribution."""

    def moment(i: int, j: int) -> float:
        return float(np.exp(betaln(difficulty.a + i, difficulty.b + j) - betaln(difficulty.a, difficulty.b)))

    m = difficulty.probes
    kept, passes = 1.0, moment(1, 0)
    if difficulty.keep != "all":
        kept, passes = kept - moment(m, 0), passes - moment(m + 1, 0)
    if difficulty.keep == "mixed":
        kept, passes = kept - moment(0, m), passes - moment(1, m)
    return passes / kept


def failures(change: Change | None = None) -> Finding:
    """Observed, hidden and phantom failures per round, labels flipped and the floor, where no skill is ever written."""
    found = []
    mixed = replace(MAIN_71, difficulty=Difficulty(0.431, 0.914, 3, "mixed"))
    everything = replace(MAIN_71, difficulty=Difficulty(1.5, 0.7, 0, "all"))
    for tasks in (MAIN_71, HARD_133, mixed, everything):
        world, p0 = with_synth(tasks, per_round=0), mean_p0(tasks.difficulty)
        judges = [(*rates, {}) for rates in CHANNELS] + [(0.3, 0.1, {"spread": 0.4, "unit": unit}) for unit in ("task", "topic")]
        played = Played([cell(world, q, f, **more) for q, f, more in judges], RUNS // 2, change)
        rho_fp, rho_pf = np.array([j[:2] for j in judges]).T
        n = world.n_train
        expected = {
            "observed_failures": n * (1 - theory.observed_rate(p0, rho_fp, rho_pf)) * 12,
            "hidden_failures": n * (1 - p0) * rho_fp * 12,
            "phantom_failures": n * p0 * rho_pf * 12,
            "flips": n * ((1 - p0) * rho_fp + p0 * rho_pf) * 12,
            "floor_eval": np.full(len(judges), p0 * 2**20),
        }
        for metric, predicted in expected.items():
            mean, se = played.mean(metric)
            unit = 12 * n if metric != "floor_eval" else 2**20
            p = of_means(mean / unit, se / unit, predicted / unit)
            x = np.arange(len(judges)) + 10 * len(found) % 40
            label = {"flips": "divergence", "floor_eval": "floor"}.get(metric, metric)
            found.append(series(label, x, predicted / unit, mean / unit, p))
    return joined(found, "judge and world", "fraction of trials")


def clustered_rates(change: Change | None = None) -> Finding:
    """The variance between runs of hidden failures, where error rates cluster: beta-binomial by task or by topic."""
    rounds, q, n = 6, 0.3, 40
    found = []
    for topics in (1, 5):
        world = replace(with_synth(ONE_SKILL, per_round=0), n_train=n, topics=topics)
        policy = replace(POLICY, rounds=rounds)
        pairs = n + n * (n - 1) / topics  # of tasks of one topic, each with itself too
        for spread, unit in ((0.0, "task"), (0.2, "task"), (0.6, "task"), (0.2, "topic"), (0.6, "topic")):
            played = Played([cell(world, q, 0.0, policy, spread=spread, unit=unit)], RUNS, change, records=True)
            hidden = played.per_run("hidden_failures")[0].astype(float)
            together = n if unit == "task" else pairs  # pairs of tasks that share a rate
            alike = rounds**2 * together - rounds * n  # pairs of different trials that do
            fails = 1 - HOPELESS
            variance = rounds * n * fails * q * (1 - fails * q) + spread * q * (1 - q) * fails**2 * alike
            squares = (hidden - hidden.mean()) ** 2
            se = squares.std() / np.sqrt(RUNS)
            name = f"spread {spread:g} by {unit}, {topics} topics"
            found.append(series(name, len(found), variance, squares.mean(), 2 * norm.sf(abs(squares.mean() - variance) / se)))
    return joined(found, "case", "variance of hidden failures")


# ---------------------------------------------------------------- pools and writing


def writing(change: Change | None = None) -> Finding:
    """Skills written where they are never routed: one round's failures against thresholds, and pools that remember."""
    rounds, runs = 8, RUNS
    found = []
    blind_router = Router(recall=0.0, false_match=0.0)
    policy = replace(POLICY, rounds=rounds, n_min=NEVER)
    for min_cluster, mislabel, skew in itertools.product((1, 2, 3, 5), (0.0, 0.5), (0.0, 1.0)):
        base = replace(with_synth(ONE_SKILL, min_cluster=min_cluster, memory=0.0, cover_guard=0.0), n_train=12, router=blind_router)
        world = replace(base, topics=3, topic_skew=skew, critic=replace(base.critic, mislabel=mislabel))
        share = np.arange(1, 4.0) ** -skew
        share = (1 - mislabel) * share / share.sum() + mislabel / 3
        rates = np.array([0.0, 0.3, 0.6, 0.9])
        fails = (1 - HOPELESS) * (1 - rates)
        for per_round, chance in (
            (3, [binom.sf(min_cluster - 1, 12, f * share).sum() for f in fails]),
            (1, [1 - _all_below(12, f * share, min_cluster) for f in fails]),
        ):
            cells = [cell(with_synth(world, per_round=per_round), float(q), 0.0, policy) for q in rates]
            mean, se = Played(cells, runs // 4, change).mean("synthesised")
            predicted = (rounds - 1) * np.array(chance)
            p = of_means(mean, se, predicted, rare=4 / runs)
            found.append(series(f"mislabel {mislabel:g}, skew {skew:g}, {per_round} a round", rates + min_cluster, predicted, mean, p))
    for memory, guard in itertools.product((0.5, 0.94, 1.0), (0.0, 0.4, 1.0)):
        world = replace(with_synth(ONE_SKILL, min_cluster=4, memory=memory, cover_guard=guard), n_train=3, router=blind_router)
        rates = np.array([0.0, 0.3, 0.6, 0.9])
        mean, se = Played([cell(world, float(q), 0.0, policy) for q in rates], runs // 2, change).mean("synthesised")
        predicted = np.array([_written_from_pool(3, (1 - HOPELESS) * (1 - q), memory, guard, 4, rounds) for q in rates])
        p = of_means(mean, se, predicted, rare=2 / runs)
        found.append(series(f"one topic, cover guard {guard:g}", rates + 6 + memory, predicted, mean, p))
    return joined(found, "min_cluster + rho_fp", "skills written")


def _all_below(n: int, share: np.ndarray, bound: int) -> float:
    """Return P(every topic has fewer than ``bound`` failures)."""
    counts = [c for c in itertools.product(range(bound), repeat=3) if sum(c) <= n]
    weights = [*share, 1 - share.sum()]
    return float(sum(multinomial.pmf([*c, n - sum(c)], n, weights) for c in counts))


def _written_from_pool(tasks: int, fail: float, memory: float, guard: float, min_cluster: int, rounds: int) -> float:
    """Return the expected number of skills written from the pool of one topic, a Markov chain of pools in 1/256ths."""
    keep = round(memory * 65536)
    states = {(0, False): 1.0}  # pool, and whether a skill covers the topic
    written = 0.0
    for _ in range(rounds - 1):
        after: dict[tuple[int, bool], float] = {}
        for ((pool, covered), chance), f in itertools.product(states.items(), range(tasks + 1)):
            part = chance * float(binom.pmf(f, tasks, fail))
            pool_now = pool * keep // 65536 + 256 * f
            ready = 0.0 if pool_now < 256 * min_cluster else 1.0 - guard if covered else 1.0
            written += part * ready
            for state, weight in (((0, True), ready), ((pool_now, covered), 1.0 - ready)):
                if weight:
                    after[state] = after.get(state, 0.0) + part * weight
        states = after
    return written


# ---------------------------------------------------------------- routing


def routing(change: Change | None = None) -> Finding:
    """Shares of trials with a skill, and what they do, once every topic has one: all modes of the router."""
    rounds, found = 6, []
    policy = replace(POLICY, rounds=rounds, window=2, cap=16, n_min=NEVER)
    for topics, (recall, match) in itertools.product((1, 2, 6), ((0.34, 0.34), (0.8, 0.05), (0.1, 0.9))):
        routers = {
            "adjudicate": Router(recall, match),
            "top_hit": Router(recall, match, "top_hit", 0.7),
            "withheld": Router(recall, match, "withheld"),
        }
        for mode, router in routers.items():
            world = replace(
                with_synth(ONE_SKILL, per_round=16),
                n_train=200,
                n_eval=200,
                topics=topics,
                router=router,
                effect=Effect(9.0, 0.0, 9.0, 0.0, 20.0),
            )
            on = 0.7 if mode == "top_hit" else recall
            off = (1 - on) * ((topics > 1) if mode == "top_hit" else 1 - (1 - match) ** (topics - 1))
            passes = HOPELESS if mode == "withheld" else on * expit(1.0) + (1 - on - off) * HOPELESS + (off * expit(-28.0))
            played = Played([cell(world, 0.0, 0.0, policy)], RUNS // 4, change)
            share = (rounds - 1) / rounds  # of rounds that have the skills
            for name, unit, predicted in (
                ("routed", 200 * rounds, share * (on + off)),
                ("observed_failures", 200 * rounds, share * (1 - passes) + (1 - share) * (1 - HOPELESS)),
                ("tail_eval", 2 * 2**20, passes),
            ):
                mean, se = played.mean(name)
                p = of_means(mean / unit, se / unit, np.array([predicted]))
                found.append(series(name, len(found), predicted, mean / unit, p))
    return joined(found, "world, router and variable", "fraction")


# ---------------------------------------------------------------- eviction


def eviction(change: Change | None = None) -> Finding:
    """Who is evicted. Of good and bad skills, a bad one: the number of bad ones left is a Markov chain. Of equals, the oldest."""
    rounds, found = 10, []
    for cap in (1, 2, 3, 5):
        world = replace(
            with_synth(ONE_SKILL, cover_guard=0.0), n_train=800 * cap, difficulty=NEAR_HALF, effect=Effect(0.0, 20.0, 0.0, 20.0, 0.0)
        )
        policy = replace(POLICY, rounds=rounds, cap=cap, n_min=NEVER)
        played = Played([cell(world, 0.1, 0.1, policy)], 3000, change, records=True)
        bad = np.bincount(played.per_run("harmful_final")[0], minlength=cap + 1)[: cap + 1]
        predicted = _bad_skills(cap, rounds)
        found.append(series(f"cap {cap}", np.arange(cap + 1), predicted, bad / 3000, of_counts(bad, 3000, predicted)))
    # Skills that never pass are all alike; with the oldest gone first none lives for its test.
    world = replace(with_synth(ONE_SKILL, cover_guard=0.0), n_train=40)
    policy = replace(POLICY, rounds=40, cap=4, n_min=160)
    retired = Played([cell(world, policy=policy)], 500, change).total("retired").astype(float)
    found.append(series("equals: retired, at -1", -1, 0.0, retired / 500, (retired == 0) * 1.0))
    return joined(found, "harmful_final", "P(so many)")


def _bad_skills(cap: int, rounds: int) -> np.ndarray:
    """Return the distribution of the number of bad skills at the end: each new one is good or bad alike, the worst makes room."""
    good = {(0, 0): 1.0}  # size, good ones
    for _ in range(rounds - 1):
        after: dict[tuple[int, int], float] = {}
        for (size, g), chance in good.items():
            left = (size, g) if size < cap else (size - 1, g - (g == size))
            for new in (0, 1):
                state = (left[0] + 1, left[1] + new)
                after[state] = after.get(state, 0.0) + chance / 2
        good = after
    out = np.zeros(cap + 1)
    for (size, g), chance in good.items():
        out[size - g] += chance
    return out


# ---------------------------------------------------------------- rollback, and the two evals


def rollbacks(change: Change | None = None) -> Finding:
    """Rollbacks where the sampled eval is a coin: a Markov chain of the best eval so far and the flags in a row."""
    found = []
    for patience, margin, n_eval in itertools.product((1, 2, 4), (0.0, 0.1, 0.2), (20,)):
        world = replace(with_synth(ONE_SKILL, per_round=0), n_eval=n_eval, difficulty=NEAR_HALF)
        policies = [replace(POLICY, rounds=r, rollback=Rollback(True, margin, patience)) for r in (4, 8, 16, 32)]
        played = Played([cell(world, policy=policy) for policy in policies], RUNS, change)
        mean, se = played.mean("rollbacks")
        predicted = np.array([_rolled_back(policy, n_eval) for policy in policies])
        p = of_means(mean, se, predicted, rare=1 / RUNS)
        found.append(series(f"patience {patience}, margin {margin:g}", [4, 8, 16, 32], predicted, mean, p))
    return joined(found, "rounds", "rollbacks per run")


def _rolled_back(policy: Policy, n_eval: int) -> float:
    """Return the expected number of rollbacks, averaged over the little that the mean difficulty of the eval tasks varies."""
    fall = round(policy.rollback.margin * n_eval)
    sd = np.sqrt(0.25 / 2001 / n_eval)
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    total = 0.0
    for node, weight in zip(0.5 + sd * nodes, weights / weights.sum(), strict=True):
        pmf = binom.pmf(np.arange(n_eval + 1), n_eval, node)
        states = {(-1, 0): 1.0}
        for _ in range(policy.rounds):
            after: dict[tuple[int, int], float] = {}
            for ((best, flags), chance), x in itertools.product(states.items(), range(n_eval + 1)):
                now_best = max(best, x)
                now_flags = flags + 1 if now_best - x > fall else 0
                if now_flags == policy.rollback.patience:
                    total += weight * chance * pmf[x]
                    now_flags = 0
                after[now_best, now_flags] = after.get((now_best, now_flags), 0.0) + chance * pmf[x]
            states = after
    return total


def sampled_eval(change: Change | None = None) -> Finding:
    """The expected eval against one attempt per task, run by run, in worlds with skills of all kinds."""
    worlds: tuple[World, ...] = (
        MAIN_71,
        HARD_133,
        replace(MAIN_71, effect=Effect(1.0, 2.0, -1.0, 2.0, 1.0)),
        replace(MAIN_71, router=Router(0.3, 0.2, "top_hit", 0.8), effect=Effect(1.0, 2.0, -1.0, 2.0, 1.0)),
        replace(MAIN_71, topics=1, router=Router(0.9, 0.2), effect=Effect(-1.0, 2.0, -1.0, 2.0, 1.0)),
        replace(MAIN_71, topics=40, topic_skew=0.3, effect=Effect(-1.0, 2.0, -1.0, 2.0, 2.0)),
    )
    found = []
    for x, world in enumerate(worlds):
        cells: list[Cell] = [cell(world, q, f, replace(POLICY, sampled_eval=True)) for q, f in CHANNELS]
        played = Played(cells, RUNS // 4, change, records=True)
        for sampled, exact, unit in (("tail_sampled", "tail_eval", 4), ("first_sampled", "first_eval", 4)):
            one = played.per_run(sampled) / (unit * world.n_eval)
            other = played.per_run(exact) / (unit * 2.0**20)
            difference = one - other
            se = difference.std(axis=1, ddof=1) / np.sqrt(difference.shape[1])
            p = of_means(one.mean(axis=1), se, other.mean(axis=1))
            at = x + np.linspace(0.0, 0.8, len(CHANNELS))
            found.append(series(sampled, at, other.mean(axis=1), one.mean(axis=1), p))
    return joined(found, "world and judge", "pass rate")
