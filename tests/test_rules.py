"""Every curator against arithmetic of its own kind: closed forms, exact chances, or a few lines that do not share its code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sim import curators
from sim.curators import NEVER, Skill, Trial, chat, least, most, pick
from sim.curators.registry import Rule
from sim.errors import InputError
from sim.model import Policy
from sim.params import from_mapping

POLICY = Policy(tau=0.1, n_min=6, cap=6, rounds=30, window=4)


def made(name: str, n_max: int = 400, policy: Policy = POLICY, **parameters: Any) -> tuple[Rule, list[int]]:
    """Return a rule and its table."""
    rule = curators.find(name)
    return rule, rule.table(from_mapping(rule.parameters, parameters), policy, n_max).tolist()


def skill(n: int = 0, net: int = 0, age: int = 0, idle: int = 0, born: int = 0, own: tuple[int, ...] = ()) -> Skill:
    return Skill(n, net, age, idle, born, own)


def counts(n_max: int) -> Iterator[tuple[int, int, int]]:
    """Yield every (n, s, net)."""
    yield from ((n, s, 2 * s - n) for n in range(n_max + 1) for s in range(n + 1))


def gone(rule: Rule, table: list[int], n: int, net: int, t: int = 29) -> bool:
    return bool(rule.leaves(skill(n, net), t, table))


def fate(rule: Rule, table: list[int], p: float, trials: int, full: int = 0) -> np.ndarray:
    """Return the exact chance that a skill with observed pass rate p would have left, after each trial: looked at once per trial."""
    alive = {(0, rule.first(table)): 1.0}  # by net and own evidence
    out, left = np.zeros(trials + 1), 0.0
    for n in range(1, trials + 1):
        after: dict[Any, float] = {}
        for (net, own), chance in alive.items():
            for observed, share in ((1, p), (0, 1 - p)):
                now = net + 2 * observed - 1
                new = own
                if rule.after_trial is not None:
                    new = tuple(map(int, rule.after_trial(skill(n, now, own=own), Trial(observed, 0, full), table)))
                if rule.leaves(skill(n, now, own=new), 0, table):
                    left += chance * share
                else:
                    after[now, new] = after.get((now, new), 0.0) + chance * share
        alive, out[n] = after, left
    return out


# ---------------------------------------------------------------- the arithmetic


def test_helpers() -> None:
    assert [pick(c, 7, -2) for c in (True, False, 1, 0)] == [7, -2, 7, -2]
    pairs = [(a, b) for a in (-3, 0, 5) for b in (-3, 0, 5)]
    assert [least(a, b) for a, b in pairs] == [min(p) for p in pairs]
    assert [most(a, b) for a, b in pairs] == [max(p) for p in pairs]


def test_chat_orders_fractions() -> None:
    """Small fractions, and neighbours of the largest there are."""
    top = 4_096_000
    some = [(n, net) for n in range(12) for net in range(-n, n + 1)] + [(top, 3), (top - 1, 3), (top, -top), (top - 1, 1 - top), (top, top)]
    exact = [Fraction(net, n) if n else Fraction(0) for n, net in some]
    keys = [chat(n, net) for n, net in some]
    for a, x in zip(exact, keys, strict=True):
        assert [a < b for b in exact] == [x < y for y in keys]
    assert 0 <= min(keys) <= max(keys) <= 2**45


# ---------------------------------------------------------------- usage and recency


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("fifo", [0, 1, 2, 3]),
        ("memgpt-style", [0, 1, 2, 3]),
        ("lru", [1, 3, 0, 2]),  # idle 2, 5, 0, 3
        ("lfu", [2, 0, 3, 1]),  # n 4, 9, 0, 4
    ],
)
def test_who_leaves_first_by_hand(name: str, order: list[int]) -> None:
    """Births 0 to 3; evidence of passes plays no part."""
    rule, table = made(name)
    assert rule.strength is not None
    for sign in (1, -1):
        shelf = [skill(n, sign * n, 6, idle, born) for born, (n, idle) in enumerate([(4, 2), (9, 5), (0, 0), (4, 3)])]
        leaving = sorted(shelf, key=lambda s: (rule.strength(s, 9, 0, table), s.born))  # type: ignore[misc]
        assert [s.born for s in leaving] == order
        assert not any(rule.leaves(s, 9, table) for s in shelf)


def test_random_is_its_word_and_never_refuses() -> None:
    rule, table = made("random")
    assert rule.strength is not None
    assert rule.draws
    assert [rule.strength(skill(5, 1), 0, word, table) for word in (0, 7, 2**32 - 1)] == [0, 7, 2**32 - 1]
    assert curators.find("never").refuses


def test_macla_by_its_formula() -> None:
    rule, table = made("macla", horizon=4)
    assert rule.strength is not None
    for n, s, net in counts(14):
        for idle in range(7):
            score = 0.5 * (1 + s) / (3 + n) + 0.3 * min(1, n / 10) + 0.2 * (1 - min(1, idle / 4))
            assert rule.strength(skill(n, net, 9, idle), 0, 0, table) == pytest.approx(score * 2**32, abs=4)


def test_generative_agents_by_its_formula() -> None:
    rule, table = made("generative-agents-style")
    assert rule.strength is not None
    for n, s, net in counts(9):
        for idle in (0, 1, 29):
            score = 0.5 * 0.99**idle + 2 * (s + 1) / (n + 2)
            assert rule.strength(skill(n, net, 9, idle), 0, 0, table) == pytest.approx(score * 2**32, abs=3)


def test_procmem_takes_the_worst_candidate_then_the_lowest_tier() -> None:
    rule, table = made("procmem")
    assert rule.strength is not None

    def lcb(s: Skill, t: int) -> float:
        n = max(s.n, 1)
        return s.net / n - 0.2 * math.sqrt(math.log(2 + t) / n)

    rng = np.random.default_rng(1)
    for _ in range(200):
        t, shelf = int(rng.integers(30)), []
        for born in range(6):
            n = int(rng.choice([0, 3, 12, 40, 90, 200]))
            shelf.append(skill(n, int(rng.integers(-n, n + 1)), int(rng.integers(6)), 0, born))
        candidates = [s for s in shelf if s.n >= 10 and s.age > 2 and lcb(s, t) < -0.001]
        tier = min((s.n >= 10) + (s.n >= 80) for s in shelf)
        lowest = candidates or [s for s in shelf if (s.n >= 10) + (s.n >= 80) == tier]
        worst = min(lcb(s, t) for s in lowest)
        first = min(shelf, key=lambda s: (rule.strength(s, t, 0, table), s.born))  # type: ignore[misc]
        assert first in lowest
        assert lcb(first, t) == pytest.approx(worst, abs=1e-5)


# ---------------------------------------------------------------- absolute thresholds

ABSOLUTE: dict[str, Callable[[int, int], bool]] = {
    "ratchet": lambda n, s: n >= 6 and Fraction(2 * s - n) <= -Fraction(1, 10) * n,
    "memp": lambda n, s: n >= 3 and 2 * s < n,
    "reme": lambda n, s: n >= 5 and 2 * s < n,
    "evolver": lambda n, s: Fraction(s + 1, n + 2) < Fraction(3, 10),
    "beta": lambda n, s: bool(n >= 6 and stats.beta.cdf(0.45, s + 1, n - s + 1) > 0.95),
    "corrected": lambda n, s: n >= 6 and s <= Fraction(9, 20) * n,
}


@pytest.mark.parametrize("name", ABSOLUTE)
def test_lever_one_is_its_threshold(name: str) -> None:
    rule, table = made(name, 60)
    assert {(n, s) for n, s, net in counts(60) if gone(rule, table, n, net)} == {(n, s) for n, s, _ in counts(60) if ABSOLUTE[name](n, s)}


def test_kl_ucb_is_the_bound_below_pi() -> None:
    rule, table = made("kl_ucb", 60)
    level = math.log(20)

    def kl(p: float, q: float) -> float:
        return sum(a * math.log(a / b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0)

    def upper(p: float, n: int) -> float:
        low, high = p, 1.0 - 1e-15
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if n * kl(p, middle) <= level else (low, middle)
        return low

    for n, s, net in counts(60):
        assert gone(rule, table, n, net) == (n > 0 and s < n and upper(s / n, n) < 0.45), (n, s)


@pytest.mark.parametrize(("q", "r"), [(0.0, 0.0), (0.3, 0.1), (0.6, 0.0)])
def test_corrected_is_ratchet_seen_through_the_channel(q: float, r: float) -> None:
    rule, table = made("corrected", 200, rho_fp=q, rho_pf=r)
    cut = Fraction(str(q)) + (1 - Fraction(str(q)) - Fraction(str(r))) * Fraction(9, 20)
    for n in (6, 50, 200):
        assert [gone(rule, table, n, 2 * s - n) for s in range(n + 1)] == [s <= cut * n for s in range(n + 1)]
    if q == r == 0:
        assert table == made("ratchet", 200)[1]
    with pytest.raises(InputError, match="kappa above 0"):
        made("corrected", rho_fp=0.7, rho_pf=0.3)


def test_looks_every_so_many_rounds() -> None:
    for name, every in (("evolver", 10), ("swarm", 3)):
        rule, table = made(name)
        bad = skill(40, -40, own=(0,) * len(rule.fields))
        assert [t for t in range(30) if rule.leaves(bad, t, table)] == list(range(every - 1, 30, every))


def test_swarm_follows_a_float() -> None:
    rule, table = made("swarm")
    assert rule.after_trial is not None
    rng, own, ema, s = np.random.default_rng(2), rule.first(table), 0.5, 0
    for n in range(1, 200):
        observed = int(rng.random() < 0.3)
        s, ema = s + observed, 0.7 * ema + 0.3 * observed
        own = rule.after_trial(skill(n, 2 * s - n, own=own), Trial(observed, 0, 0), table)
        assert own[0] == pytest.approx(ema * 2**30, abs=8)
        if abs(score := 0.5 * s / n + 0.5 * ema - 0.2) > 1e-6:
            assert bool(rule.leaves(skill(n, 2 * s - n, own=own), 2, table)) == (n >= 3 and score < 0)


def test_insight_looks_back_as_far_as_its_window() -> None:
    rule, table = made("insight-style", window=5)
    assert rule.after_trial is not None
    seen: list[int] = []
    own = rule.first(table)
    for observed in np.random.default_rng(3).integers(0, 2, 300).tolist():
        seen.append(observed)
        n, net = len(seen), 2 * sum(seen) - len(seen)
        own = rule.after_trial(skill(n, net, own=own), Trial(observed, 0, 0), table)
        assert own[1] == sum(seen[-5:])
        assert bool(rule.leaves(skill(n, net, own=own), 0, table)) == (n >= 5 and sum(seen[-5:]) / 5 < 0.45)


# ---------------------------------------------------------------- exact chances


@pytest.mark.parametrize("p", [0.6, 0.75])
def test_expel_is_gamblers_ruin(p: float) -> None:
    """From 2, up with chance p and down else: ruined ever with ((1 - p) / p)^2. On a full shelf a fail counts three."""
    rule, table = made("expel")
    assert fate(rule, table, p, 250)[-1] == pytest.approx(((1 - p) / p) ** 2, abs=2e-3 if p < 0.7 else 1e-9)
    short = fate(rule, table, p, 3, full=1)
    assert short[1] == pytest.approx(1 - p)  # 2 - 3 < 0
    assert short[2] == pytest.approx((1 - p) + p * (1 - p))  # 3 - 3 = 0
    assert short[3] == pytest.approx(short[2])  # 4 - 3 = 1 stays


def test_importance_stays_at_zero_until_the_rounds_end() -> None:
    rule, table = made("expel")
    assert rule.after_trial is not None
    assert rule.after_trial(skill(own=(0,)), Trial(1, 0, 0), table) == (0,)


@pytest.mark.parametrize("gap", [0.2, 0.3])
def test_sprt_keeps_its_error_rates(gap: float) -> None:
    """Exactly: a good skill is ever retired with at most alpha / (1 - beta), and overshoot costs less than half of it; a bad one always."""
    rule, table = made("sprt", 120, gap=gap, alpha=0.1, beta=0.2)
    good, bad = fate(rule, table, 0.45 + gap, 120)[-1], fate(rule, table, 0.45 - gap, 120)[-1]
    assert 0.5 * 0.1 / 0.8 < good <= 0.1 / 0.8
    assert bad > 0.999


def test_eprocess_keeps_its_level_under_the_null() -> None:
    """At pi_tau exactly, the worst case: ever retired by 200 trials with at most delta; at the alternative almost surely."""
    rule, table = made("eprocess", 200, delta=0.1)
    null = fate(rule, table, 0.45, 200)
    assert 0.05 < null[-1] <= 0.1
    assert fate(rule, table, 0.25, 200)[-1] > 0.999
    assert fate(rule, table, 0.5, 200)[-1] < null[-1]


def test_a_crossing_is_remembered() -> None:
    for name in ("sprt", "eprocess"):
        rule, table = made(name)
        assert rule.after_trial is not None
        n = next(n for n in range(1, 400) if table[n] > NEVER)
        own = rule.after_trial(skill(n, table[n], own=(0,)), Trial(0, 0, 0), table)
        assert rule.leaves(skill(n, table[n], own=own), 0, table)
        own = rule.after_trial(skill(n + 1, table[n] + 1, own=own), Trial(1, 0, 0), table)
        assert table[n] + 1 > table[n + 1]
        assert rule.leaves(skill(n + 1, table[n] + 1, own=own), 0, table)


def test_cusum_has_the_run_length_of_a_walk() -> None:
    """With pi_tau = 1/2 a pass and a fail weigh alike: a walk held at 0 is at k for the first time after k (k + 1) trials on average."""
    even = replace(POLICY, tau=0.0)
    step = math.log(0.6 / 0.4)
    for k in (1, 2, 3):
        rule, table = made("cusum", policy=even, gap=0.1, h=(k - 0.5) * step)
        survival = 1 - fate(rule, table, 0.5, 250)
        assert survival.sum() == pytest.approx(k * (k + 1), abs=1e-6)


def test_vrr_without_a_channel_is_a_likelihood_ratio() -> None:
    """With equal priors and no errors its posterior reaches 1 - delta where Wald's ratio at alpha = beta = delta does."""
    assert made("vrr-style", 300, delta=0.07, gap=0.12)[1] == made("sprt", 300, alpha=0.07, beta=0.07, gap=0.12)[1]
    noisy = made("vrr-style", 300, rho_fp=0.3, rho_pf=0.2)[1]
    good, bad = 0.3 + 0.5 * 0.6, 0.3 + 0.5 * 0.3
    for n, s, net in counts(40):
        weights = [q**s * (1 - q) ** (n - s) for q in (bad, good)]
        if n and abs(weights[0] / sum(weights) - 0.95) > 1e-9:
            assert (net <= noisy[n]) == (weights[0] / sum(weights) >= 0.95), (n, s)


def test_thompson_draws_from_about_the_posterior() -> None:
    """The distribution of what is drawn, against Beta(s + 1, f + 1): as far apart as the docstring says."""
    rule, table = made("thompson", 400)
    assert rule.strength is not None
    words = (np.arange(4096) << 20).tolist()
    for n in (0, 1, 3, 8, 30, 400):
        for s in sorted({0, -(-n // 4), n // 2, n}):
            worst = 0.0545 if n < 8 or s in (0, n) else 0.0125 if n < 100 else 0.0045
            drawn = np.array([rule.strength(skill(n, 2 * s - n), 0, word, table) for word in words]) / 2**24
            exact = stats.beta.cdf(np.sin(np.clip(drawn, 0, math.pi / 2)) ** 2, s + 1, n - s + 1)
            inside = (drawn > 0) & (drawn < math.pi / 2)
            assert np.abs(exact - (np.arange(4096) + 0.5) / 4096)[inside].max() <= worst, (n, s)


# ---------------------------------------------------------------- ranks

BY_RATE = ("ratchet", "memp", "evolver", "macla", "generative-agents-style", "procmem", "thompson")


@pytest.mark.parametrize("name", BY_RATE)
def test_ranks_do_not_mind_the_channel(name: str) -> None:
    """Of skills that differ in their observed rate alone, order is that of the rate: so it stays, whatever kappa > 0 makes of it."""
    rule, table = made(name)
    assert rule.strength is not None
    for n in (3, 20, 100):
        values = [rule.strength(skill(n, 2 * s - n, 5, 1), 9, 2**31, table) for s in range(n + 1)]
        assert values == sorted(values)
        assert len(set(values)) == n + 1
