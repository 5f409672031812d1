"""From parameters to integers: every threshold and lookup table a run needs, computed once, on the host.

A probability becomes a uint32 threshold: an event of probability p happens when a random word is below
floor(p * 2^32), at most 2^32 - 1. So p = 1 happens with probability 1 - 2^-32; p = 0 never happens. Probabilities that
share a word with something else have 16 bits (mislabel, picks, phantom_cost, memory).

Effects and difficulties are mid-quantile bins, and the pass probability is a table over them. After this, a run
compares integers and adds integers, which is why all backends give the same bits.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial, reduce
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.recfunctions import repack_fields

from sim import curators
from sim.curators import ratchet
from sim.errors import InputError
from sim.model import Cell, Channel, Difficulty, World

EFFECT_BITS: Final = 6
DIFFICULTY_BITS: Final = 8
RATE_BITS: Final = 12
EFFECT_BINS: Final = 1 << EFFECT_BITS
DIFFICULTY_BINS: Final = 1 << DIFFICULTY_BITS
RATE_BINS: Final = 1 << RATE_BITS
OFF_TOPIC: Final = 2 * EFFECT_BINS  # row of the pass table for a skill injected on another topic
NO_SKILL: Final = OFF_TOPIC + 1  # row for the bare model; rows before: genuine, then spurious effects
ROWS: Final = NO_SKILL + 1

EVAL_BITS: Final = 20  # an eval is a whole number of 2^-20 pass rate
POOL_ONE: Final = 256  # one failure in a pool
LOGIT_CLIP: Final = 8.0
ONE16: Final = 1 << 16

# Limits of the kernels: packed fields and the counter layout are sized by them.
LIMITS: Final = {
    "world.n_train": 4096,
    "world.n_eval": 4096,
    "world.topics": 64,
    "world.synth.per_round": 64,
    "policy.cap": 128,
    "policy.rounds": 1000,
}

CELL_DTYPE: Final = np.dtype(
    [
        # counts
        *((name, np.int32) for name in ("n_train", "n_eval", "topics", "per_round", "cap", "rounds", "window", "min_pool", "start")),
        # thresholds
        *((name, np.uint32) for name in ("recall", "cover_guard", "flip_fail", "flip_pass")),
        # 16-bit thresholds
        *((name, np.int32) for name in ("mislabel", "memory", "phantom_cost")),
        # eval: weight of the on-topic route, in 2^-20
        ("recall_weight", np.int64),
        # options
        *((name, np.int32) for name in ("spread_by_task", "spread_by_topic", "sampled", "rollback", "fall", "patience")),
        # which table of each kind
        *((name, np.int32) for name in ("task_table", "pass_table", "eval_table", "route_table", "rate_table", "retire_at")),
        # options that came later: 0 is what was before them
        *((name, np.int32) for name in ("favour_table", "mislabel_by_weight")),
    ]
)
LATER: Final = ("favour_table", "mislabel_by_weight")


class Tables(NamedTuple):
    """Everything a kernel reads. Tables are shared between cells that need the same one.

    Attributes
    ----------
    cells
        CELL_DTYPE, shape (cells,): scalars per cell, and which table of each kind it uses.
    topic_cdf
        uint32, shape (task tables, topics): a word w means topic #{k < K - 1 : w >= cdf[k]}. One row per topic
        distribution and number of eval tasks.
    pass_threshold
        uint32, shape (kinds, ROWS, DIFFICULTY_BINS): P(true pass) by effect row and difficulty bin.
    effect_sign
        int32, shape (kinds, ROWS): sign of the on-topic effect of a row.
    route_any
        uint32, shape (kinds, 2, cap + 1): P(some skill is routed), by whether an on-topic skill exists and by the
        number of off-topic ones.
    off_weight
        int64, shape (kinds, 2, cap + 1): P(an off-topic skill is routed) in 2^-20, for the expected eval.
    flip_rate
        uint32, shape (kinds, 2, RATE_BINS): rho_fp and rho_pf over the quantile bins of a unit (spread > 0).
    favour
        uint32, shape (kinds, cap + 1, cap): a 16-bit word w means the candidate of rank #{r < m - 1 : w >= favour[kind, m, r]}, of m.
        Kind 0 is a placeholder for cells without a favourite.
    retire
        Flat: the curators' tables one after another, each from its cell's ``retire_at`` on. int32 if all cells have Ratchet, else int64.
    rules
        The curator of each cell; empty if all have Ratchet.
    """

    cells: np.ndarray
    topic_cdf: np.ndarray
    pass_threshold: np.ndarray
    effect_sign: np.ndarray
    route_any: np.ndarray
    off_weight: np.ndarray
    flip_rate: np.ndarray
    favour: np.ndarray
    retire: np.ndarray
    rules: tuple[curators.Rule, ...] = ()

    def digest(self) -> str:
        """Return a hash of all values: equal tables give equal results, given the curators' code.

        Options that came later count where some cell uses them: stores that were made before them are still continued.
        """
        sha = hashlib.sha256()
        later = [name for name in LATER if self.cells[name].any()]
        known = [name for name in CELL_DTYPE.names or () if name not in LATER or name in later]
        for name, array in self._replace(cells=repack_fields(self.cells[known]))._asdict().items():
            if name == "rules":
                sha.update(" ".join(rule.name for rule in self.rules).encode())
                continue
            if name == "favour" and "favour_table" not in later:
                continue
            sha.update(f"{name}{array.dtype}{array.shape}".encode())
            sha.update(np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()

    def rule(self, cell: int) -> curators.Rule:
        """Return the curator of a cell."""
        return self.rules[cell] if self.rules else curators.find(curators.RATCHET)

    def only_rule(self) -> curators.Rule | None:
        """Return the curator of all cells, None if it is Ratchet.

        Raises
        ------
        InputError
            There are several.
        """
        if len(found := set(self.rules)) > 1:
            names = ", ".join(sorted(rule.name for rule in found))
            raise InputError("policy.curator", f"several ({names})", "one for all cells here", "python -m sim compares curators")
        return self.rules[0] if self.rules else None

    def only(self, cells: np.ndarray) -> Tables:
        """Return the tables of some of the cells, which have one curator; ``cells`` are their numbers."""
        rows = self.cells[cells].copy()
        rows["eval_table"] = np.unique(rows["eval_table"], return_inverse=True)[1]  # kernels count them from 0
        parts, at = {}, 0
        for row, cell in zip(rows, cells, strict=True):
            start = int(row["retire_at"])
            if start not in parts:
                parts[start] = at, self.retire_of(int(cell))
                at += len(parts[start][1])
            row["retire_at"] = parts[start][0]
        plain = self.rule(int(cells[0])).name == curators.RATCHET
        retire = np.concatenate([part for _, part in parts.values()]).astype(np.int32 if plain else np.int64)
        return self._replace(cells=rows, retire=retire, rules=() if plain else tuple(self.rules[int(c)] for c in cells))

    def retire_of(self, cell: int) -> np.ndarray:
        """Return the table of a cell's curator."""
        starts = self.cells["retire_at"]
        start = starts[cell]
        return self.retire[start : np.min(starts[starts > start], initial=len(self.retire))]


def threshold(p: float | np.ndarray) -> np.ndarray:
    """Return the uint32 threshold of a probability: floor(p * 2^32), at most 2^32 - 1."""
    return np.minimum(np.floor(np.asarray(p, np.float64) * 2.0**32), 2.0**32 - 1).astype(np.uint32)


def check_limits(cell: Cell) -> None:
    """Refuse a cell that is larger than the kernels' fields.

    Raises
    ------
    InputError
        Naming the limit that is passed; or what is wrong with the curator; or the shelf starts with more skills than it holds.
    """
    for path, limit in LIMITS.items():
        value: Any = reduce(getattr, path.split("."), cell)
        if value > limit:
            raise InputError(path, value, f"at most {limit}, the kernels' limit")
    if cell.world.start > cell.policy.cap:
        raise InputError("world.start", cell.world.start, f"at most policy.cap = {cell.policy.cap}")
    curators.check(cell.policy)


def topic_cdf(world: World) -> np.ndarray:
    """Return cumulative topic thresholds: uint32, shape (topics,). Topic k (from 1) has weight k^-topic_skew."""
    weight = np.arange(1, world.topics + 1, dtype=np.float64) ** -world.topic_skew
    return threshold(np.cumsum(weight) / weight.sum())


def difficulty_quantiles(difficulty: Difficulty, at: np.ndarray) -> np.ndarray:
    """Return quantiles of the no-skill pass rate among the tasks that the probes kept.

    With m probes, P(kept | p) is 1 (``all``), 1 - p^m (``any_fail``), or 1 - p^m - (1-p)^m (``mixed``). Each term times a
    Beta density is another Beta density, so the distribution function is a signed mixture of incomplete beta functions.

    Parameters
    ----------
    difficulty
        Shapes, number of probes and which tasks were kept.
    at
        Probabilities in (0, 1), any shape.

    Returns
    -------
    numpy.ndarray
        Pass rates in [0, 1], shape of ``at``.
    """
    from scipy.special import betainc, betaln

    a, b, m = difficulty.a, difficulty.b, difficulty.probes
    parts = [(1.0, a, b)]
    if difficulty.keep != "all":
        parts.append((-np.exp(betaln(a + m, b) - betaln(a, b)), a + m, b))
    if difficulty.keep == "mixed":
        parts.append((-np.exp(betaln(a, b + m) - betaln(a, b)), a, b + m))
    total = sum(weight for weight, _, _ in parts)
    if not total > 1e-12:
        raise InputError("world.difficulty", f"a={a}, b={b}, probes={m}", "tasks of which the probes keep a share above 1e-12")
    low, high = np.zeros_like(at), np.ones_like(at)
    for _ in range(60):  # bisection: robust at the ends, where densities can be infinite
        middle = (low + high) / 2
        below = sum(weight * betainc(s, t, middle) for weight, s, t in parts) / total < at
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


@lru_cache(maxsize=256)
def difficulty_bins(difficulty: Difficulty) -> np.ndarray:
    """Return the no-skill pass rates of the difficulty bins, each as likely as the others; shape (DIFFICULTY_BINS,)."""
    return difficulty_quantiles(difficulty, (np.arange(DIFFICULTY_BINS) + 0.5) / DIFFICULTY_BINS)


def effects(world: World) -> np.ndarray:
    """Return what each row of the pass table adds to the logit, shape (ROWS,): genuine effects, spurious ones, off topic, no skill."""
    from scipy.special import ndtri

    z = ndtri((np.arange(EFFECT_BINS) + 0.5) / EFFECT_BINS)
    effect = world.effect
    return np.concatenate(
        [effect.mean + effect.sd * z, effect.spurious_mean + effect.spurious_sd * z, [-effect.off_topic, 0.0]],
    )


def pass_table(world: World) -> tuple[np.ndarray, np.ndarray]:
    """Return pass thresholds, uint32 (ROWS, DIFFICULTY_BINS), and effect signs, int32 (ROWS,).

    p = logistic(logit p0 + effect), logit p0 clipped to +-8. In router mode ``withheld`` nothing is injected, so every row
    is the bare model's; the signs stay, since a skill is what it is.
    """
    from scipy.special import expit, logit

    base = np.clip(logit(difficulty_bins(world.difficulty)), -LOGIT_CLIP, LOGIT_CLIP)
    rows = effects(world)
    injected = np.zeros_like(rows) if world.router.mode == "withheld" else rows
    return threshold(expit(base[None, :] + injected[:, None])), np.sign(rows).astype(np.int32)


def recall(world: World) -> float:
    """Return the chance that an on-topic skill is noticed in this router mode."""
    router = world.router
    return router.top_hit_recall if router.mode == "top_hit" and router.top_hit_recall is not None else router.recall


@lru_cache(maxsize=256)
def favour_table(favour: float, cap: int) -> np.ndarray:
    """Return which of m candidates, oldest first, a 16-bit word takes: uint32, shape (cap + 1, cap).

    Row m holds 2^16 times the chance of rank r or an older one, rounded up: a word at or above it means a younger one. Rank r has weight
    (1 - favour)^r, favour read as the decimal it was written as, in whole numbers; so favour = 0 picks as ``word * m >> 16`` does.
    """
    share = 1 - Fraction(repr(favour))
    old, young = share.denominator, share.numerator
    weight = [old ** (cap - 1 - r) * young**r for r in range(cap)]
    sums = [0, *accumulate(weight)]
    out = np.full((cap + 1, cap), ONE16, np.uint32)
    for m in range(1, cap + 1):
        out[m, :m] = [-(-ONE16 * below // sums[m]) for below in sums[1 : m + 1]]
    return out


def off_probability(world: World, cap: int) -> np.ndarray:
    """Return P(an off-topic skill is routed), shape (2, cap + 1): by on-topic skill present, and number of off-topic ones."""
    number = np.arange(cap + 1)
    match = 1.0 - (1.0 - world.router.false_match) ** number
    if world.router.mode == "top_hit":
        match = (number > 0).astype(np.float64)
    return np.array([[1.0], [1.0 - recall(world)]]) * match


def flip_rates(channel: Channel) -> np.ndarray:
    """Return error-rate thresholds over the quantile bins of a unit, uint32 (2, RATE_BINS): rho_fp, then rho_pf.

    The rate of a unit is Beta distributed with the given mean and intra-class correlation s: a + b = (1 - s) / s. A bin
    holds its conditional mean, so that the mean over bins is the given rate.
    """
    from scipy.special import betainc, betaincinv

    out = np.empty((2, RATE_BINS), np.float64)
    edges = np.arange(RATE_BINS + 1) / RATE_BINS
    for row, mean in zip(out, (channel.rho_fp, channel.rho_pf), strict=True):
        size = 0.0 if channel.spread == 0.0 else (1.0 - channel.spread) / channel.spread
        if channel.spread == 0.0 or not 2.0**-40 <= mean <= 1.0 - 2.0**-40:  # beyond, every bin's threshold is the mean's
            row[:] = mean
            continue
        a, b = mean * size, (1.0 - mean) * size
        cut, rest = betaincinv(a, b, edges), betaincinv(b, a, 1.0 - edges)
        # E[X; X below an edge], from whichever end of (0, 1) is near: a U-shaped Beta has quantiles that round to 1.
        low = mean * betainc(a + 1.0, b, cut)
        high = edges - (1.0 - mean) * (1.0 - betainc(b + 1.0, a, rest))
        row[:] = np.clip(np.diff(np.where(cut < 0.5, low, high)) * RATE_BINS, 0.0, 1.0)
    return threshold(out)


class _Shared:
    """Tables of one kind, each kept once."""

    def __init__(self) -> None:
        self.index: dict[Hashable, int] = {}
        self.values: list[Any] = []

    def put(self, key: Hashable, make: Callable[[], Any]) -> int:
        if key not in self.index:
            self.index[key] = len(self.values)
            self.values.append(make())
        return self.index[key]


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Stack arrays whose last axes differ in length, filling with zeros."""
    width = max(row.shape[-1] for row in rows)
    return np.stack([np.pad(row, [(0, 0)] * (row.ndim - 1) + [(0, width - row.shape[-1])]) for row in rows])


def _stacked(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Stack tables of different sizes, filling with zeros."""
    shape = np.max([table.shape for table in tables], axis=0)
    return np.stack([np.pad(table, [(0, int(n - k)) for n, k in zip(shape, table.shape, strict=True)]) for table in tables])


def derive(cells: Sequence[Cell]) -> Tables:
    """Compute the tables for these cells.

    Parameters
    ----------
    cells
        At least one.

    Raises
    ------
    InputError
        A cell is beyond the kernels' limits.
    """
    rows = np.zeros(len(cells), CELL_DTYPE)
    topics, passes, evals, routes, rates, favours, retire = (_Shared() for _ in range(7))
    favours.put(None, lambda: np.zeros((1, 1), np.uint32))
    starts, rules = [0], []
    for row, cell in zip(rows, cells, strict=True):
        check_limits(cell)
        world, policy, channel = cell.world, cell.policy, cell.channel
        row["n_train"], row["n_eval"], row["topics"] = world.n_train, world.n_eval, world.topics
        row["per_round"], row["min_pool"] = world.synth.per_round, world.synth.min_cluster * POOL_ONE
        row["cap"], row["rounds"], row["window"] = policy.cap, policy.rounds, policy.window
        row["start"] = world.start
        row["recall"], row["cover_guard"] = threshold(recall(world)), threshold(world.synth.cover_guard)
        row["flip_fail"], row["flip_pass"] = threshold(channel.rho_fp), threshold(channel.rho_pf)
        row["mislabel"] = round(world.critic.mislabel * ONE16)
        row["memory"], row["phantom_cost"] = round(world.synth.memory * ONE16), round(world.synth.phantom_cost * ONE16)
        row["recall_weight"] = round(recall(world) * 2**EVAL_BITS)
        row["spread_by_task"] = channel.spread > 0 and channel.unit == "task"
        row["spread_by_topic"] = channel.spread > 0 and channel.unit == "topic"
        row["rollback"], row["patience"] = policy.rollback.on, policy.rollback.patience
        row["sampled"] = policy.sampled_eval or policy.rollback.on
        # more than margin below the best: best - passes > margin * n_eval, whole numbers on the left
        row["fall"] = math.floor(Fraction(repr(policy.rollback.margin)) * world.n_eval)

        row["task_table"] = topics.put((world.topics, world.topic_skew, world.n_eval), partial(topic_cdf, world))
        row["pass_table"] = passes.put((world.difficulty, world.effect, world.router.mode == "withheld"), partial(pass_table, world))
        row["eval_table"] = evals.put((int(row["task_table"]), int(row["pass_table"])), lambda: None)
        row["route_table"] = routes.put((replace(world.router, favour=0.0), policy.cap), partial(_route_tables, world, policy.cap))
        clustered = (channel.rho_fp, channel.rho_pf, channel.spread) if channel.spread > 0 else None
        row["rate_table"] = rates.put(clustered, partial(flip_rates, channel))
        if (favour := world.router.favour) > 0:
            row["favour_table"] = favours.put((favour, policy.cap), partial(favour_table, favour, policy.cap))
        row["mislabel_by_weight"] = world.critic.mislabel_to == "weight"
        n_max = world.n_train * policy.rounds
        rule, own = curators.chosen(policy)
        rules.append(rule)
        if rule.name == curators.RATCHET:
            index = retire.put((policy.tau, policy.n_min, n_max), partial(ratchet.retire_table, policy.tau, policy.n_min, n_max))
        else:
            index = retire.put((rule, own, policy, n_max), partial(rule.table, own, policy, n_max))
        if index == len(starts) - 1:
            starts.append(starts[-1] + len(retire.values[index]))
        row["retire_at"] = starts[index]
    return Tables(
        cells=rows,
        topic_cdf=_padded(topics.values),
        pass_threshold=np.stack([table for table, _ in passes.values]),
        effect_sign=np.stack([sign for _, sign in passes.values]),
        route_any=_padded([any_ for any_, _ in routes.values]),
        off_weight=_padded([weight for _, weight in routes.values]),
        flip_rate=np.stack(rates.values),
        favour=_stacked(favours.values),
        retire=np.concatenate(retire.values),
        rules=() if all(rule.name == curators.RATCHET for rule in rules) else tuple(rules),
    )


def _route_tables(world: World, cap: int) -> tuple[np.ndarray, np.ndarray]:
    off = off_probability(world, cap)
    on = np.array([[0.0], [recall(world)]])
    weight = np.minimum(np.round(off * 2**EVAL_BITS), 2**EVAL_BITS - np.round(on * 2**EVAL_BITS)).astype(np.int64)
    return threshold(on + off), weight
