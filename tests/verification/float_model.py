"""The process of MODEL.md once more, in floats and with NumPy's generator, to hold the kernel to.

Written from MODEL.md alone. Nothing of `sim` is used but the parameters: no tables, no thresholds, no counter-based random
words, and, unless `bins` is asked for, no bins of effects and difficulties. All runs advance together: every array has one
row per run. The numbers of the steps are those of MODEL.md, "One run".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import expit

from sim.model import Cell
from tests.verification.draws import draw_p0, draw_rates, draw_z

POOL_UNIT = 256  # pools count in 1/256ths
NO_SKILL = -1


@dataclass
class Shelf:
    """The skills of all runs, shape (runs, slots); what is in a slot that is not active means nothing."""

    active: np.ndarray
    birth: np.ndarray  # 0, 1, 2, ... in the order the run wrote them, never used twice
    topic: np.ndarray
    effect: np.ndarray
    n: np.ndarray
    net: np.ndarray

    @classmethod
    def empty(cls, runs: int, slots: int) -> Shelf:
        kinds = (bool, int, int, float, int, int)
        return cls(*(np.zeros((runs, slots), kind) for kind in kinds))

    def copy(self) -> Shelf:
        return Shelf(*(array.copy() for array in vars(self).values()))

    def set_rows(self, rows: np.ndarray, other: Shelf) -> None:
        for name, array in vars(self).items():
            array[rows] = getattr(other, name)[rows]


class FloatModel:
    """All runs of one cell."""

    def __init__(self, cell: Cell, runs: int, rng: np.random.Generator, bins: bool) -> None:
        self.world, self.policy, self.channel = world, policy, channel = cell.world, cell.policy, cell.channel
        self.runs, self.rng, self.bins = runs, rng, bins
        self.rows = np.arange(runs)
        # Tasks
        weight = np.arange(1, world.topics + 1, dtype=float) ** -world.topic_skew
        train, test = (runs, world.n_train), (runs, world.n_eval)
        self.train_topic = rng.choice(world.topics, size=train, p=weight / weight.sum())
        self.eval_topic = rng.choice(world.topics, size=test, p=weight / weight.sum())
        self.train_logit = draw_p0(world.difficulty, train, rng, bins)
        self.eval_logit = draw_p0(world.difficulty, test, rng, bins)
        # Error rates of each train task: its own, or those of its topic
        units = train if channel.unit == "task" else (runs, world.topics)
        fp, pf = (draw_rates(mean, channel.spread, units, rng) for mean in (channel.rho_fp, channel.rho_pf))
        own = np.broadcast_to(np.arange(world.n_train), train) if channel.unit == "task" else self.train_topic
        self.rho_fp, self.rho_pf = (np.take_along_axis(rate, own, axis=1) for rate in (fp, pf))
        # Shelf, pools, and the best round so far
        self.slots = max(1, min(policy.cap, world.start + policy.rounds * world.synth.per_round))
        self.shelf = Shelf.empty(runs, self.slots)
        self.births = np.zeros(runs, int)
        self.pool = np.zeros((runs, world.topics), int)
        self.phantoms = np.zeros((runs, world.topics), int)
        for i in range(world.start):
            self.put(self.rows, np.full(runs, i % world.topics), np.zeros(runs, bool))
        self.best = np.full(runs, -1)
        self.best_shelf = self.shelf.copy()
        self.flags = np.zeros(runs, int)
        # The largest net at which a skill of n trials is retired, for each n; -tau n in exact arithmetic
        tau = Fraction(str(policy.tau))
        self.retire_at = np.array([math.floor(-tau * n) for n in range(world.n_train * policy.rounds + 1)])
        # Results: totals per run, and series per round
        names = ("rollbacks", "restored", "dropped", "hidden", "phantom", "routed", "wrongly_retired", "retire_trials")
        self.total = {name: np.zeros(runs, int) for name in names}
        series = ("eval", "sampled", "active", "retired", "evicted", "synthesised", "observed_failures")
        self.series = {name: np.zeros((runs, policy.rounds)) for name in series}

    def play(self) -> None:
        for now in range(self.policy.rounds):
            self.now = now
            self.forget()
            for task in range(self.world.n_train):
                self.trial(task)
            self.count_trials()
            self.retire()
            if self.now < self.policy.rounds - 1:
                self.synthesise()
            self.series["eval"][:, self.now] = self.expected_eval()
            if self.policy.sampled_eval or self.policy.rollback.on:
                passed = self.sampled_eval()
                self.series["sampled"][:, self.now] = passed / self.world.n_eval
                if self.policy.rollback.on:
                    self.roll_back(passed)
            self.series["active"][:, self.now] = self.shelf.active.sum(axis=1)

    def happens(self, p: np.ndarray | float, shape: int | tuple[int, int] | None = None) -> np.ndarray:
        return self.rng.random(self.runs if shape is None else shape) < p

    def pick(self, candidates: np.ndarray) -> np.ndarray:
        """Return one candidate's slot per run, older ones more often if the router has a favourite; any slot if there are none."""
        share = self.shares(candidates)
        return (np.cumsum(share, axis=1) > self.rng.random(len(share))[:, None] * share.sum(axis=1, keepdims=True)).argmax(axis=1)

    def shares(self, candidates: np.ndarray) -> np.ndarray:
        """Return the chance that each candidate is the one taken, given that one is; 0 where there are none."""
        birth, weight = self.shelf.birth, candidates.astype(float)
        if self.world.router.favour:
            older = (candidates[:, None, :] & (birth[:, None, :] < birth[:, :, None])).sum(axis=2)
            weight *= (1 - self.world.router.favour) ** older
        total = weight.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(weight, total, out=np.zeros_like(weight), where=total > 0))

    # ---------------------------------------------------------------- 1

    def forget(self) -> None:
        memory = round(self.world.synth.memory * 2**16) / 2**16
        self.pool = np.floor(self.pool * memory).astype(int)
        self.phantoms = np.floor(self.phantoms * memory).astype(int)
        # What this round adds comes on top; the shelf that the trials see is not changed by them
        self.new_n, self.new_net = np.zeros((2, self.runs, self.slots), int)

    # ---------------------------------------------------------------- 2

    def candidates(self, topic: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return skills on the topic and on others, and the probability of taking one on it; failing that, one of the others."""
        router = self.world.router
        on = self.shelf.active & (self.shelf.topic == topic[:, None])
        off = self.shelf.active & ~on
        others = off.sum(axis=1)
        if router.mode == "top_hit":
            recall = router.recall if router.top_hit_recall is None else router.top_hit_recall
            p_off = np.where(others > 0, 1.0, 0.0)
        else:
            recall = router.recall
            p_off = 1 - (1 - router.false_match) ** others
        return on, off, np.where(on.any(axis=1), recall, 0.0), p_off

    def effect_of(self, slot: np.ndarray, topic: np.ndarray) -> np.ndarray:
        if self.world.router.mode == "withheld":
            return np.zeros(self.runs)
        own = self.shelf.topic[self.rows, slot] == topic
        effect = np.where(own, self.shelf.effect[self.rows, slot], -self.world.effect.off_topic)
        return np.where(slot == NO_SKILL, 0.0, effect)

    def attempt(self, topic: np.ndarray, p0_logit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Route and solve one task per run; return the slot taken, or NO_SKILL, and whether it passed."""
        on, off, p_on, p_off = self.candidates(topic)
        take_on = self.happens(p_on)
        take_off = ~take_on & self.happens(p_off)
        slot = np.where(take_on, self.pick(on), np.where(take_off, self.pick(off), NO_SKILL))
        return slot, self.happens(expit(p0_logit + self.effect_of(slot, topic)))

    def trial(self, task: int) -> None:
        topic = self.train_topic[:, task]
        slot, passed = self.attempt(topic, self.train_logit[:, task])
        phantom = passed & self.happens(self.rho_pf[:, task])
        hidden = ~passed & self.happens(self.rho_fp[:, task])
        observed = (passed & ~phantom) | hidden
        routed = np.flatnonzero(slot != NO_SKILL)
        self.new_n[routed, slot[routed]] += 1
        self.new_net[routed, slot[routed]] += np.where(observed[routed], 1, -1)
        weight = np.arange(1, self.world.topics + 1, dtype=float) ** -self.world.topic_skew
        by_weight = weight / weight.sum() if self.world.critic.mislabel_to == "weight" else None
        random_topic = self.rng.choice(self.world.topics, size=self.runs, p=by_weight)
        label = np.where(self.happens(self.world.critic.mislabel), random_topic, topic)
        self.pool[self.rows, label] += POOL_UNIT * ~observed
        self.phantoms[self.rows, label] += POOL_UNIT * phantom
        self.total["hidden"] += hidden
        self.total["phantom"] += phantom
        self.total["routed"] += slot != NO_SKILL
        self.series["observed_failures"][:, self.now] += ~observed

    def count_trials(self) -> None:
        self.shelf.n += self.new_n
        self.shelf.net += self.new_net

    # ---------------------------------------------------------------- 3

    def retire(self) -> None:
        shelf = self.shelf
        leaves = shelf.active & (shelf.n >= self.policy.n_min) & (shelf.net <= self.retire_at[shelf.n])
        self.series["retired"][:, self.now] = leaves.sum(axis=1)
        self.total["wrongly_retired"] += (leaves & (shelf.effect > 0)).sum(axis=1)
        self.total["retire_trials"] += np.where(leaves, shelf.n, 0).sum(axis=1)
        shelf.active &= ~leaves

    # ---------------------------------------------------------------- 4

    def synthesise(self) -> None:
        synth, shelf = self.world.synth, self.shelf
        covered = (shelf.active[:, :, None] & (shelf.topic[:, :, None] == np.arange(self.world.topics))).any(axis=1)
        barred = covered & self.happens(synth.cover_guard, covered.shape)
        for _ in range(synth.per_round):
            unbarred = np.where(barred, -1, self.pool)
            topic = unbarred.argmax(axis=1)  # the first of equals
            writes = np.flatnonzero(unbarred[self.rows, topic] >= synth.min_cluster * POOL_UNIT)
            self.evict(writes[shelf.active[writes].sum(axis=1) == self.policy.cap])
            self.write(writes, topic[writes])
            self.pool[writes, topic[writes]] = self.phantoms[writes, topic[writes]] = 0
            barred[writes, topic[writes]] = True
            self.series["synthesised"][writes, self.now] += 1

    def evict(self, full: np.ndarray) -> None:
        shelf = self.shelf
        chat = np.where(shelf.n[full] > 0, shelf.net[full] / np.maximum(shelf.n[full], 1), 0.0)
        weakest = chat == chat.min(axis=1, keepdims=True)
        oldest = np.where(weakest, shelf.birth[full], np.iinfo(int).max).argmin(axis=1)
        shelf.active[full, oldest] = False
        self.series["evicted"][full, self.now] += 1

    def write(self, runs: np.ndarray, topic: np.ndarray) -> None:
        phantom_share = self.phantoms[runs, topic] / self.pool[runs, topic]
        self.put(runs, topic, self.happens(self.world.synth.phantom_cost * phantom_share, len(runs)))

    def put(self, runs: np.ndarray, topic: np.ndarray, spurious: np.ndarray) -> None:
        shelf, effect = self.shelf, self.world.effect
        slot = shelf.active[runs].argmin(axis=1)  # a free one
        z = draw_z(len(runs), self.rng, self.bins)
        real_effect, spurious_effect = effect.mean + effect.sd * z, effect.spurious_mean + effect.spurious_sd * z
        shelf.effect[runs, slot] = np.where(spurious, spurious_effect, real_effect)
        shelf.topic[runs, slot], shelf.birth[runs, slot], shelf.active[runs, slot] = topic, self.births[runs], True
        shelf.n[runs, slot] = shelf.net[runs, slot] = 0
        self.births[runs] += 1

    # ---------------------------------------------------------------- 5

    def expected_eval(self) -> np.ndarray:
        passes = np.zeros(self.runs)
        for topic, p0_logit in zip(self.eval_topic.T, self.eval_logit.T, strict=True):
            on, _, p_on, p_off = self.candidates(topic)
            p_off = (1 - p_on) * p_off
            with_own = np.where(on, self.shares(on) * expit(p0_logit[:, None] + self.shelf.effect), 0.0).sum(axis=1)
            with_other, alone = expit(p0_logit - self.world.effect.off_topic), expit(p0_logit)
            if self.world.router.mode == "withheld":
                with_own = with_other = alone
            passes += p_on * with_own + p_off * with_other + (1 - p_on - p_off) * alone
        return passes / self.world.n_eval

    def sampled_eval(self) -> np.ndarray:
        tasks = zip(self.eval_topic.T, self.eval_logit.T, strict=True)
        return sum((self.attempt(topic, p0_logit)[1].astype(int) for topic, p0_logit in tasks), np.zeros(self.runs, int))

    # ---------------------------------------------------------------- 6

    def roll_back(self, passed: np.ndarray) -> None:
        rule = self.policy.rollback
        better = passed > self.best
        self.best[better] = passed[better]
        self.best_shelf.set_rows(better, self.shelf)
        flagged = self.best - passed > math.floor(Fraction(str(rule.margin)) * self.world.n_eval)
        self.flags = np.where(flagged, self.flags + 1, 0)
        back = np.flatnonzero(self.flags == rule.patience)
        then, now = self.best_shelf, self.shelf
        same = then.active[back][:, :, None] & now.active[back][:, None, :] & (then.birth[back][:, :, None] == now.birth[back][:, None, :])
        self.total["rollbacks"][back] += 1
        self.total["restored"][back] += (then.active[back] & ~same.any(axis=2)).sum(axis=1)
        self.total["dropped"][back] += (now.active[back] & ~same.any(axis=1)).sum(axis=1)
        self.shelf.set_rows(back, self.best_shelf)
        self.flags[back] = 0


def simulate(cell: Cell, runs: int, rng: np.random.Generator, bins: bool = False) -> dict[str, np.ndarray]:
    """Return every variable of `sim.variables`, per run, in its unit; the series have shape (runs, rounds).

    Left out is `delta_clean`, which is a difference of two cells, and what a cell without a sampled eval does not record.
    `retire_trials` is the sum over the run's retired skills. With `bins`, effects and difficulties take the 64 and 256
    mid-quantile values of MODEL.md, "Numbers".
    """
    model = FloatModel(cell, runs, rng, bins)
    model.play()
    series, total, window, rounds = model.series, model.total, cell.policy.window, cell.policy.rounds
    trials = cell.world.n_train * rounds
    out: dict[str, np.ndarray] = {f"{name}_by_round": values for name, values in series.items() if name != "sampled"}
    for kind in ("eval", "sampled") if cell.policy.sampled_eval or cell.policy.rollback.on else ("eval",):
        out[f"tail_{kind}"] = series[kind][:, -window:].mean(axis=1)
        out[f"first_{kind}"] = series[kind][:, :window].mean(axis=1)
        out[f"peak_{kind}"] = series[kind].max(axis=1)
    out["floor_eval"] = expit(model.eval_logit).mean(axis=1)
    out["lift"] = out["tail_eval"] - out["floor_eval"]
    out["rolling_gain"] = out["tail_eval"] - out["first_eval"]
    for name in ("synthesised", "retired", "evicted"):
        out[name] = series[name].sum(axis=1)
    out["deprecated"] = out["retired"] + out["evicted"]
    for name in ("rollbacks", "restored", "dropped", "wrongly_retired", "retire_trials"):
        out[name] = total[name]
    out["divergence"] = (total["hidden"] + total["phantom"]) / trials
    out["observed_failures"] = series["observed_failures"].mean(axis=1)
    out["hidden_failures"], out["phantom_failures"] = total["hidden"] / rounds, total["phantom"] / rounds
    out["routed"] = total["routed"] / trials
    out["active_final"] = series["active"][:, -1]
    out["harmful_final"] = (model.shelf.active & (model.shelf.effect < 0)).sum(axis=1)
    return out
