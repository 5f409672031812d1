"""The posterior of a World given what logs say (:class:`real_loop.estimate.counts.Counts`): one Gibbs sampler over all of it.

What is drawn in turn, given the rest:

- *topic* of each task, from the weights of topics, the labels of its failures, what it was routed, and how that went;
- *pass rate* of each task, on a grid of its logit, after the *shapes* of its Beta (Metropolis steps with the rates integrated out);
- *effect* of each skill, on a grid, after the *mean and spread* of effects (likewise); the loss off topic, on a grid;
- *router*: recall from its counts, false match on a grid, and so its favour, from the rank by age of what was taken among the skills that
  fit; *mislabel* on a grid, and whether mislabelled failures go to each topic alike or by the topics' weights;
- *number of topics and skew*: which label has which rank is drawn by swaps, ranks without a label come and go, skew is on a grid.

So the parameters come as one joint posterior, and what is uncertain in one place is so in all. How tasks were chosen is in it: with
probes of all tasks the choice depends on nothing else and needs no correction; with the rule alone each pass rate is weighed by the
chance that its probes kept the task.

No critic sees an eval task fail, so its topic is known from its routings alone. Those do not count for the router and the weights of
topics, only for effects: a cut, so that a router which is not as the model has it (one that picks at random, say) cannot explain itself
by topics that nothing else tells of.

Labels have no order, so the ranks of topics are unknown: the likelihood of what was seen is the sum over all ways to give D labels
ranks among K. A World's approximations (bins of effects and difficulties) are not repeated here; the clip of the logit is.

Priors are weak and proper (:data:`PRIORS`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from real_loop.estimate.counts import MAX_TOPICS, Counts
from sim.tables import LOGIT_CLIP

PATHS: Final = (
    "difficulty.a",
    "difficulty.b",
    "topics",
    "topic_skew",
    "critic.mislabel",
    "router.recall",
    "router.false_match",
    "router.favour",
    "effect.mean",
    "effect.sd",
    "effect.off_topic",
    "effect.spurious_mean",
    "effect.spurious_sd",
    "synth.phantom_cost",
    "critic.mislabel_to",  # 1: by weight, 0: uniform
)
PRIORS: Final = {
    "difficulty.a": "log-normal, median 1, sd of the logarithm 1.5",
    "difficulty.b": "log-normal, median 1, sd of the logarithm 1.5",
    "topics": f"in proportion to 1 / K, from 1 to {MAX_TOPICS}",
    "topic_skew": "half-normal, scale 2",
    "critic.mislabel": "uniform",
    "router.recall": "uniform",
    "router.false_match": "uniform",
    "router.favour": "uniform",
    "effect.mean": "normal, sd 1.5",
    "effect.sd": "half-normal, scale 1",
    "effect.off_topic": "half-normal, scale 1",
    "effect.spurious_mean": "normal, sd 1.5",
    "effect.spurious_sd": "half-normal, scale 1",
    "synth.phantom_cost": "uniform",
    "critic.mislabel_to": "either alike",
}
MOST_FAVOUR: Final = 0.999  # a World's is below 1
SHAPE_SD, SKEW_SCALE, MEAN_SD, SD_SCALE, OFF_SCALE = 1.5, 2.0, 1.5, 1.0, 1.0
SHAPE_MOST: Final = 1000.0  # the bound of a World
BURN, STEPS = 600, 3000

LOGIT: Final = np.linspace(-LOGIT_CLIP, LOGIT_CLIP, 81)
EFFECT_STEP, OFF_STEP, SKEW_STEP, RATE_STEP = 0.1, 0.05, 0.03, 1 / 400
EFFECT: Final = np.arange(-80, 81) * EFFECT_STEP
EDGES: Final = np.concatenate([[-np.inf], EFFECT[:-1] + EFFECT_STEP / 2, [np.inf]])
OFF: Final = np.arange(121) * OFF_STEP
SKEW: Final = (np.arange(200) + 0.5) * SKEW_STEP
RATE: Final = (np.arange(400) + 0.5) * RATE_STEP
RANK: Final = np.arange(1, MAX_TOPICS + 1)
A, B, K, S, U, R, F, V, M, SD, D, M2, SD2, C, W = range(len(PATHS))


def prior(n: int, seed: int) -> np.ndarray:
    """Return draws from the prior, shape (n, len(PATHS))."""
    rng = np.random.default_rng(seed)
    out = rng.random((n, len(PATHS)))  # the uniform ones stay
    shapes = np.exp(rng.normal(0, SHAPE_SD, (n, 2)))
    out[:, [A, B]] = np.minimum(shapes, SHAPE_MOST)
    out[:, K] = rng.choice(RANK, n, p=1 / RANK / (1 / RANK).sum())
    for column, scale in ((S, SKEW_SCALE), (SD, SD_SCALE), (D, OFF_SCALE), (SD2, SD_SCALE)):
        out[:, column] = np.abs(rng.normal(0, scale, n))
    for column in (M, M2):
        out[:, column] = rng.normal(0, MEAN_SD, n)
    out[:, W] = out[:, W] < 0.5
    return out


def sample(
    counts: Counts, steps: int | None = None, burn: int | None = None, seed: int = 1, watch: Callable[[], None] | None = None
) -> np.ndarray:
    """Return draws from the posterior, shape (steps, len(PATHS)), consecutive ones correlated.

    Parameters
    ----------
    counts
        What logs say.
    steps, burn
        Draws kept, and dropped before them; None: STEPS and BURN.
    seed
        The same one gives the same draws.
    watch
        Called after each step.
    """
    steps, burn = STEPS if steps is None else steps, BURN if burn is None else burn
    chain = Chain(counts, seed)
    out = np.empty((steps, len(PATHS)))
    for i in range(-burn, steps):
        chain.step(adapt=i < 0)
        if i >= 0:
            out[i] = chain.values()
        if watch is not None:
            watch()
    return out


def log1pexp(x: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(x)): minus the logarithm of the chance to fail at logit x."""
    return np.logaddexp(0.0, x)


class Walk:
    """Random-walk Metropolis on a few numbers, whose steps are shaped by where it has been while it adapts."""

    def __init__(self, start: np.ndarray, scale: float, rng: np.random.Generator) -> None:
        self.at, self.rng = start, rng
        self.root: np.ndarray = np.eye(len(start)) * scale
        self.size = 1.0
        self.past: list[np.ndarray] = []
        self.taken = self.tried = 0

    def move(self, log_density: Callable[[np.ndarray], float], tries: int, adapt: bool) -> None:
        """Make some steps. The density changes from call to call, as the rest of the state does."""
        here = log_density(self.at)
        for _ in range(tries):
            new = self.at + self.size * self.root @ self.rng.standard_normal(len(self.at))
            there = log_density(new)
            self.tried += 1
            if np.log(self.rng.random()) < there - here:
                self.at, here = new, there
                self.taken += 1
        if not adapt:
            return
        self.past.append(self.at)
        if len(self.past) % 50 == 0:
            self.size *= np.exp(self.taken / self.tried - 0.3)
            self.taken = self.tried = 0
            if len(self.past) >= 150:
                recent = np.array(self.past[len(self.past) // 3 :])
                spread = np.cov(recent.T) + 1e-6 * np.eye(len(self.at))
                if len(self.past) == 150:
                    self.size = 2.4 / len(self.at) ** 0.5
                self.root = np.linalg.cholesky(spread)


class Chain:
    """The state of the sampler. ``step`` draws all of it once."""

    def __init__(self, counts: Counts, seed: int) -> None:
        c, self.rng = counts, np.random.default_rng(seed)
        self.c, self.n, self.d, self.s = c, len(c.tasks), len(c.labels), len(c.skills)
        self.every, self.trained = np.arange(self.n), int(c.train.sum())
        # ---- tables that stay
        p, q = 1 / (1 + np.exp(-LOGIT)), 1 / (1 + np.exp(LOGIT))
        self.log_p, self.log_q = np.log(p), np.log(q)
        self.step_p = LOGIT[1] - LOGIT[0]
        m = c.probes
        kept = {"all": np.ones_like(p), "any_fail": -np.expm1(m * self.log_p), "mixed": -np.expm1(m * self.log_p) - q**m}[c.keep]
        self.kept = kept if c.keep != "all" and not len(c.others) and not c.probed.any() else np.ones_like(p)
        passes = c.bare[:, 0] + c.probed[:, 0] + np.bincount(c.pair_task, c.pair_passes, self.n)
        plain = (c.bare + c.probed).sum(axis=1)
        self.base = passes[:, None] * LOGIT - plain[:, None] * log1pexp(LOGIT) + np.log(np.maximum(self.kept, 1e-300))
        k = np.arange(len(c.others))
        self.probe_rates = np.exp(k[:, None] * self.log_p + (len(k) - 1 - k)[:, None] * self.log_q)
        self.cost_effect = log1pexp(LOGIT[:, None] + EFFECT)
        self.cost_off = log1pexp(LOGIT[:, None] - OFF)
        most = (c.routes.shape[2] - 2) // 2
        number = np.arange(most)
        self.log_none = number[:, None] * np.log1p(-RATE)
        self.log_some = np.log(np.maximum(-np.expm1(self.log_none), 1e-300))
        if c.mode == "top_hit":  # a skill is taken whatever they are
            self.log_none, self.log_some = np.zeros_like(self.log_none), np.zeros_like(self.log_some)
        shares = (1 - RATE) ** np.arange(most)[:, None]
        self.log_pick = np.concatenate([np.log1p(-RATE)[None, :], np.zeros((1, len(RATE))), -np.log(np.cumsum(shares, axis=0)[:-1])])
        self.power = RANK[:, None] ** -SKEW
        self.log_total = np.log(np.cumsum(self.power, axis=0))
        self.log_rank = np.log(RANK)
        self.column_of = np.full(self.d + 1, len(c.topic_of))  # of each label, and of no label
        self.column_of[c.topic_of] = np.arange(len(c.topic_of))
        self.failures = c.labelled.sum(axis=1) + c.rare
        # ---- where it begins
        self.topic = np.where(c.labelled.any(axis=1), c.labelled.argmax(axis=1), self.rng.integers(self.d, size=self.n))
        weight = np.bincount(self.topic, minlength=self.d)
        self.topics, self.rank = self.d, np.empty(self.d, np.int64)
        self.rank[np.argsort(-weight, kind="stable")] = np.arange(self.d)
        self.skew, self.mislabel, self.recall, self.false_match, self.off = 1.0, 0.3, 0.5, 60, 4
        self.favour, self.by_weight = 200, False
        self.of_label = c.labelled.sum(axis=0)
        self.effect = np.full(self.s, 80)  # places on their grids
        rate = (c.bare[:, 0] + c.probed[:, 0] + 0.5) / (plain + 1)
        self.place = np.clip(np.rint((np.log(rate / (1 - rate)) + LOGIT_CLIP) / self.step_p).astype(int), 0, len(LOGIT) - 1)
        self.shapes = Walk(np.zeros(2), 0.15, self.rng)
        self.mixed = bool((c.phantom > 0).any())  # some skills may be spurious
        self.sizes = Walk(np.array([0.0, np.log(0.5)] + ([0.0, np.log(0.5), 0.0] if self.mixed else [])), 0.2, self.rng)

    def step(self, adapt: bool) -> None:
        """Draw everything once."""
        self.draw_topics()
        self.draw_rates(adapt)
        self.draw_effects(adapt)
        self.draw_router()
        self.draw_labels()
        for _ in range(2):
            self.draw_number()
            self.draw_ranks()
        self.draw_skew()

    def values(self) -> np.ndarray:
        """Return the parameters, in the order of PATHS; numbers on a grid anywhere in their cell."""
        out = np.empty(len(PATHS))
        out[[A, B]] = np.exp(self.shapes.at)
        out[[K, S, U, R]] = self.topics, self.skew, self.mislabel, self.recall
        out[F] = self._within(RATE[self.false_match], RATE_STEP)
        out[V] = min(self._within(RATE[self.favour], RATE_STEP), MOST_FAVOUR)
        out[W] = self.by_weight
        out[M], out[SD] = self.sizes.at[0], np.exp(self.sizes.at[1])
        out[D] = abs(self._within(OFF[self.off], OFF_STEP))
        if self.mixed:
            out[M2], out[SD2], out[C] = self.sizes.at[2], np.exp(self.sizes.at[3]), 1 / (1 + np.exp(-self.sizes.at[4]))
        else:
            out[[M2, SD2, C]] = np.nan
        return out

    def _within(self, value: float, step: float) -> float:
        return float(value + (self.rng.random() - 0.5) * step)

    def _pick(self, log_weight: np.ndarray) -> np.ndarray:
        """Draw one place of each row in proportion to weights, shape (rows, places) -> (rows,)."""
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        total = np.cumsum(weight, axis=1)
        return (total < self.rng.random((len(total), 1)) * total[:, -1:]).sum(axis=1)

    def _pick_one(self, log_weight: np.ndarray) -> int:
        return int(self._pick(log_weight[None, :])[0])

    # ------------------------------------------------------------ topics of tasks

    def draw_topics(self) -> None:
        """Topics, given everything else of the tasks."""
        c, k = self.c, self.topics
        on, off = EFFECT[self.effect][c.pair_skill], -OFF[self.off]
        here = self.place[c.pair_task]
        cost = self.cost_effect[here, self.effect[c.pair_skill]] - self.cost_off[here, self.off]
        gain = c.pair_passes * (on - off) - c.pair_n * cost
        columns = len(c.topic_of) + 1
        known = c.column[c.pair_skill] >= 0
        cell = (c.pair_task * columns + c.column[c.pair_skill])[known]
        by_column = c.picks @ self.log_pick[:, self.favour] + np.bincount(cell, gain[known], self.n * columns).reshape(self.n, columns)
        with np.errstate(divide="ignore"):
            chances = np.log([self.recall, 1 - self.recall])
        chances = np.concatenate([np.maximum(chances, -1e6), self.log_none[:, self.false_match], self.log_some[:, self.false_match]])
        by_column += c.routes @ chances
        weight = RANK[:k] ** -self.skew
        free = np.ones(k, bool)
        free[self.rank] = False
        unseen = weight[free].sum()
        with np.errstate(divide="ignore"):
            log_weight = np.log(np.append(weight[self.rank], unseen))
            # how much likelier a label is where it is the topic's own
            true = np.log1p((1 - self.mislabel) / (self.mislabel * self._chance(k, self.rank, self.by_weight)))
        logs = by_column[:, self.column_of] + log_weight
        logs[:, : self.d] += true * c.labelled
        self.topic = self._pick(logs)
        right = np.append(c.labelled, np.zeros((self.n, 1)), axis=1)[self.every, self.topic]
        self.own = np.bincount(self.topic, right, self.d + 1)[: self.d]  # failures with their task's own label, by label
        self.other = self.of_label - self.own
        self.of_topic = np.bincount(self.topic[c.train], minlength=self.d + 1)
        column = self.column_of[self.topic]
        self.on_topic = known & (c.column[c.pair_skill] == column[c.pair_task])
        self.routed = c.routes[self.every, column][c.train].sum(axis=0)
        self.picked = c.picks[self.every, column][c.train].sum(axis=0)

    # ------------------------------------------------------------ pass rates and effects

    def _weights(self, log_shapes: np.ndarray) -> np.ndarray:
        """Return the Beta's weight at the places of the grid, not normalised; its ends stand for all beyond them."""
        a, b = np.exp(log_shapes)
        density = np.exp(a * self.log_p + b * self.log_q)
        weight = density * self.step_p
        weight[0] = density[0] * (self.step_p / 2 + 1 / a)
        weight[-1] = density[-1] * (self.step_p / 2 + 1 / b)
        return np.asarray(weight)

    def draw_rates(self, adapt: bool) -> None:
        """Shapes of the Beta, then the pass rate of each task."""
        c = self.c
        given = np.where(self.on_topic, c.pair_skill, self.s)
        trials = np.bincount(c.pair_task * (self.s + 1) + given, c.pair_n, self.n * (self.s + 1)).reshape(self.n, self.s + 1)
        logs = self.base - trials @ np.append(self.cost_effect[:, self.effect], self.cost_off[:, [self.off]], axis=1).T
        # base has the chance of being kept in each row; where it is 1 the constant is 1
        self.likely = np.exp(logs - logs.max(axis=1, keepdims=True))

        def log_density(log_shapes: np.ndarray) -> float:
            if np.any(np.abs(log_shapes) > np.log(SHAPE_MOST)):
                return -np.inf
            weight = self._weights(log_shapes)
            out = np.log(np.maximum(self.likely @ weight, 1e-300)).sum() - self.n * np.log(max(weight @ self.kept, 1e-300))
            if len(c.others):
                out += c.others @ np.log(np.maximum(self.probe_rates @ weight / weight.sum(), 1e-300))
            return float(out - (log_shapes @ log_shapes) / (2 * SHAPE_SD**2))

        self.shapes.move(log_density, 2, adapt)
        weight = self.likely * self._weights(self.shapes.at)
        total = np.cumsum(weight, axis=1)
        self.place = (total < self.rng.random((self.n, 1)) * total[:, -1:]).sum(axis=1)

    def draw_effects(self, adapt: bool) -> None:
        """Mean and spread of effects, then each skill's, and what is lost off topic."""
        c, on = self.c, self.on_topic
        at = self.place[c.pair_task]
        off_passes = c.pair_passes[~on].sum()
        off_trials = np.bincount(at[~on], c.pair_n[~on], len(LOGIT))
        prior = np.log(np.where(OFF > 0, 1.0, 0.5)) - OFF**2 / (2 * OFF_SCALE**2)  # half a cell at 0
        self.off = self._pick_one(prior - off_passes * OFF - off_trials @ self.cost_off)
        trials = np.bincount(c.pair_skill[on] * len(LOGIT) + at[on], c.pair_n[on], self.s * len(LOGIT)).reshape(self.s, len(LOGIT))
        passes = np.bincount(c.pair_skill[on], c.pair_passes[on], self.s)
        logs = passes[:, None] * EFFECT - trials @ self.cost_effect
        if self.s:
            logs -= logs.max(axis=1, keepdims=True)
        likely = np.exp(logs)

        def log_density(sizes: np.ndarray) -> float:
            if np.any(sizes[1::2] > 3) or np.any(sizes[1::2] < -7):
                return -np.inf
            out = np.log(np.maximum((likely * self._effects(sizes)).sum(axis=1), 1e-300)).sum()
            out -= (sizes[0] ** 2) / (2 * MEAN_SD**2) + np.exp(2 * sizes[1]) / (2 * SD_SCALE**2) - sizes[1]
            if self.mixed:
                out -= sizes[2] ** 2 / (2 * MEAN_SD**2) + np.exp(2 * sizes[3]) / (2 * SD_SCALE**2) - sizes[3]
                out -= 2 * np.logaddexp(0, -sizes[4]) + sizes[4]  # uniform in its chance
            return float(out)

        self.sizes.move(log_density, 2, adapt)
        if self.s:
            with np.errstate(divide="ignore"):
                self.effect = self._pick(logs + np.log(self._effects(self.sizes.at)))

    def _effects(self, sizes: np.ndarray) -> np.ndarray:
        """Return the chance of each cell of effects, by skill, shape (S, EFFECT); the same row for all where none can be spurious."""
        from scipy.special import ndtr

        def cells(mean: float, log_sd: float) -> np.ndarray:
            below = ndtr((EDGES - mean) * np.exp(-log_sd))
            return np.asarray(below[1:] - below[:-1])

        genuine = cells(sizes[0], sizes[1])[None, :]
        if not self.mixed:
            return np.asarray(genuine)
        share = (self.c.phantom / (1 + np.exp(-sizes[4])))[:, None]
        return np.asarray((1 - share) * genuine + share * cells(sizes[2], sizes[3])[None, :])

    # ------------------------------------------------------------ router and critic

    def draw_router(self) -> None:
        """Recall, false match and favour, from what was routed given the topics."""
        took, missed = self.routed[:2]
        self.recall = float(self.rng.beta(1 + took, 1 + missed))
        most = len(self.log_none)
        none, some = self.routed[2 : 2 + most], self.routed[2 + most :]
        self.false_match = self._pick_one(none @ self.log_none + some[1:] @ self.log_some[1:])
        self.favour = self._pick_one(self.picked @ self.log_pick)

    def draw_labels(self) -> None:
        """Mislabel, from the failures that have their task's own label and those that do not; then where the others go."""
        chance = self._chance(self.topics, self.rank, self.by_weight)[:, None]
        other = self.failures.sum() - self.own.sum()
        place = self._pick_one(other * np.log(RATE) + self.own @ np.log(1 - RATE + RATE * chance))
        self.mislabel = self._within(RATE[place], RATE_STEP)
        uniform, weight = (self._log_labels(self.topics, self.rank, by) for by in (False, True))
        self.by_weight = bool(self.rng.random() < 1 / (1 + np.exp(np.clip(uniform - weight, -700, 700))))

    def _chance(self, k: int, rank: np.ndarray, by_weight: bool) -> np.ndarray:
        """Return the chance that a mislabelled failure goes to each label, shape (D,)."""
        if not by_weight:
            return np.full(self.d, 1 / k)
        weight = RANK[:k] ** -self.skew
        return np.asarray(weight[rank] / weight.sum())

    def _log_labels(self, k: int, rank: np.ndarray, by_weight: bool) -> float:
        """Logarithm of the chance of all labels, but for what does not depend on where mislabelled failures go."""
        chance = self._chance(k, rank, by_weight)
        rare = self.failures.sum() - self.of_label.sum()  # of no topic of a World: each alike
        return float(self.other @ np.log(chance) + self.own @ np.log1p(self.mislabel * chance - self.mislabel) - rare * np.log(k))

    # ------------------------------------------------------------ weights of topics

    def _log_topics(self, k: int, rank: np.ndarray) -> float:
        """Logarithm of the density of everything that depends on how many topics there are and which label has which rank."""
        unseen = self.of_topic[self.d]
        weight = RANK[:k] ** -self.skew
        total = weight.sum()
        out = -np.log(k) - self.trained * np.log(total) - self.skew * (self.of_topic[: self.d] @ self.log_rank[rank])
        if unseen:
            free = total - weight[rank].sum()
            if k == self.d or free <= 0:
                return -np.inf
            out += unseen * np.log(free)
        return float(out + self._log_labels(k, rank, self.by_weight))

    def draw_number(self) -> None:
        """A rank without a label comes in somewhere, or one goes."""
        k, rank, d = self.topics, self.rank, self.d
        if self.rng.random() < 0.5:
            if k == MAX_TOPICS:
                return
            at = self.rng.integers(k + 1)
            new, of, back = rank + (rank >= at), k + 1, k + 1 - d
            k += 1
        else:
            if k == d:
                return
            free = np.setdiff1d(np.arange(k), rank, assume_unique=True)
            at = free[self.rng.integers(k - d)]
            new, of, back = rank - (rank > at), k - d, k
            k -= 1
        # there: one of ``of`` places; back: one of ``back``
        if np.log(self.rng.random()) < self._log_topics(k, new) - self._log_topics(self.topics, rank) + np.log(of / back):
            self.topics, self.rank = k, new

    def draw_ranks(self) -> None:
        """Pairs of ranks change their labels. Tasks of topics without a label are dealt to the ranks without one for this."""
        k = self.topics
        if k < 2:
            return
        label, count, own = np.full(k, -1), np.zeros(k), np.zeros(k)
        label[self.rank] = np.arange(self.d)
        count[self.rank] = self.of_topic[: self.d]
        if self.by_weight:
            count[self.rank] += self.other
            own[self.rank] = self.own
        weight = RANK[:k] ** -self.skew
        right = np.log1p(self.mislabel * weight / weight.sum() - self.mislabel)
        free = label < 0
        if unseen := self.of_topic[self.d]:
            count[free] = self.rng.multinomial(unseen, weight[free] / weight[free].sum())
        if self.rng.random() < 0.5:  # neighbours, or any two
            one = np.arange(self.rng.integers(2), k - 1, 2)
            two = one + 1
        else:
            order = self.rng.permutation(k)
            one, two = order[: k // 2], order[k // 2 : 2 * (k // 2)]
        change = -self.skew * (count[one] - count[two]) * (self.log_rank[two] - self.log_rank[one])
        change += (own[one] - own[two]) * (right[two] - right[one])
        yes = np.log(self.rng.random(len(one))) < change
        one, two = one[yes], two[yes]
        label[one], label[two] = label[two], label[one]
        seen = label >= 0
        self.rank[label[seen]] = np.flatnonzero(seen)

    def draw_skew(self) -> None:
        """Skew, given which label has which rank."""
        logs = -SKEW * (self.of_topic[: self.d] @ self.log_rank[self.rank]) - self.trained * self.log_total[self.topics - 1]
        logs -= SKEW**2 / (2 * SKEW_SCALE**2)
        if self.by_weight:
            log_chance = -SKEW * self.log_rank[self.rank][:, None] - self.log_total[self.topics - 1]
            logs += self.other @ log_chance + self.own @ np.log1p(self.mislabel * np.exp(log_chance) - self.mislabel)
        if unseen := self.of_topic[self.d]:
            free = np.ones(self.topics, bool)
            free[self.rank] = False
            logs += unseen * np.log(self.power[: self.topics][free].sum(axis=0))
        self.skew = self._within(SKEW[self._pick_one(logs)], SKEW_STEP)
