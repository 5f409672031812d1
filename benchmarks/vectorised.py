"""The model as most people would write it in NumPy: arrays over runs, one cell after another, a generator of NumPy's.

The tables of :func:`sim.tables.derive` and the model are those of the kernels; the random numbers are not, and the eval is sampled.
So only means agree. No rollback, no clustered errors, no first shelf.
"""

from __future__ import annotations

import numpy as np

from sim.tables import DIFFICULTY_BINS, EFFECT_BINS, NO_SKILL, OFF_TOPIC, ONE16, POOL_ONE, Tables

TWO32 = 2.0**32
BATCH = 512  # runs at a time: larger arrays leave the caches
EMPTY = np.iinfo(np.int16).max  # topic of an empty place on the shelf


class _Runs:
    """A batch of runs of one cell."""

    def __init__(self, tables: Tables, cell: int, runs: int, rng: np.random.Generator) -> None:
        c = self.c = {name: int(tables.cells[cell][name]) for name in tables.cells.dtype.names or ()}
        self.rng, self.runs, self.topics = rng, runs, c["topics"]
        self.passes = tables.pass_threshold[c["pass_table"]] / TWO32
        self.some = tables.route_any[c["route_table"]] / TWO32
        self.cdf = tables.topic_cdf[c["task_table"]][: self.topics - 1] / TWO32
        self.retire_at = tables.retire[c["retire_at"] : c["retire_at"] + c["n_train"] * c["rounds"] + 1]
        self.train, self.eval = self.draw(c["n_train"]), self.draw(c["n_eval"])
        self.topic = np.full((runs, c["cap"]), EMPTY, np.int16)
        self.row, self.n, self.net, self.born = (np.zeros((runs, c["cap"]), np.int64) for _ in range(4))
        self.pool, self.phantom = np.zeros((runs, self.topics)), np.zeros((runs, self.topics))
        self.births = 0
        self.out = {name: np.zeros(runs) for name in ("tail_eval", "retired", "evicted", "synthesised", "observed_failures")}

    def draw(self, tasks: int) -> tuple[np.ndarray, np.ndarray]:
        shape = (self.runs, tasks)
        return np.searchsorted(self.cdf, self.rng.random(shape), side="right"), self.rng.integers(0, DIFFICULTY_BINS, shape)

    def keys(self, topic: np.ndarray) -> np.ndarray:
        """Return topics as numbers that differ between runs, for counting."""
        return topic + np.arange(self.runs)[:, None] * self.topics

    def count(self, topic: np.ndarray, which: np.ndarray) -> np.ndarray:
        return np.bincount(self.keys(topic)[which], minlength=self.runs * self.topics).reshape(self.runs, self.topics)

    def attempt(self, tasks: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the place of the skill that each task gets, or -1, and whether it passes."""
        topic, difficulty = tasks
        active = self.topic != EMPTY
        on_shelf = self.count(np.where(active, self.topic, 0), active)
        order = np.argsort(self.topic, axis=1, kind="stable")
        count = np.take_along_axis(on_shelf, topic, 1)
        first = np.take_along_axis(np.cumsum(on_shelf, axis=1) - on_shelf, topic, 1)
        off = active.sum(1)[:, None] - count
        u, v = self.rng.random(topic.shape), self.rng.random(topic.shape)
        on = (count > 0) & (u < self.c["recall"] / TWO32)
        hit = on | (u < self.some[(count > 0).astype(int), off])
        pick = (v * np.where(on, count, off)).astype(np.int64)
        pick = np.where(on, pick + first, pick + np.where(pick >= first, count, 0))
        place = np.take_along_axis(order, np.where(hit, pick, 0), 1)
        row = np.where(on, np.take_along_axis(self.row, place, 1), np.where(hit, OFF_TOPIC, NO_SKILL))
        return np.where(hit, place, -1), self.rng.random(topic.shape) < self.passes[row, difficulty]

    def learn(self) -> None:
        """Trials: evidence of the skills, pools of failures."""
        c, topic, shape = self.c, self.train[0], self.train[0].shape
        place, passed = self.attempt(self.train)
        seen = passed ^ (self.rng.random(shape) < np.where(passed, c["flip_pass"], c["flip_fail"]) / TWO32)
        hit = place >= 0
        at = (place + np.arange(self.runs)[:, None] * c["cap"])[hit]
        size = self.n.size
        self.n += np.bincount(at, minlength=size).reshape(self.n.shape)
        self.net += np.bincount(at, weights=2.0 * seen[hit] - 1.0, minlength=size).reshape(self.n.shape).astype(np.int64)
        mistaken = self.rng.random(shape) < c["mislabel"] / ONE16
        label = np.where(mistaken, self.rng.integers(0, self.topics, shape), topic)
        self.pool = self.pool * (c["memory"] / ONE16) + self.count(label, ~seen)
        self.phantom = self.phantom * (c["memory"] / ONE16) + self.count(label, ~seen & passed)
        self.out["observed_failures"] += (~seen).sum(1)

    def retire(self) -> None:
        leaves = (self.topic != EMPTY) & (self.net <= self.retire_at[self.n])
        self.out["retired"] += leaves.sum(1)
        self.topic[leaves] = EMPTY

    def write(self) -> None:
        c, every = self.c, np.arange(self.runs)
        active = self.topic != EMPTY
        covered = self.count(np.where(active, self.topic, 0), active) > 0
        barred = covered & (self.rng.random(covered.shape) < c["cover_guard"] / TWO32)
        for _ in range(c["per_round"]):
            cluster = np.where(barred, -1.0, self.pool)
            best = cluster.argmax(1)
            who = every[cluster[every, best] >= c["min_pool"] / POOL_ONE]
            topic = best[who]
            active = self.topic[who] != EMPTY
            full = active.all(1)
            chat = self.net[who] / np.maximum(self.n[who], 1)
            oldest = np.where(chat == chat.min(1, keepdims=True), self.born[who], np.iinfo(np.int64).max).argmin(1)
            place = np.where(full, oldest, active.argmin(1))
            spurious = self.rng.random(len(who)) * self.pool[who, topic] < c["phantom_cost"] / ONE16 * self.phantom[who, topic]
            self.topic[who, place] = topic
            self.row[who, place] = self.rng.integers(0, EFFECT_BINS, len(who)) + EFFECT_BINS * spurious
            self.n[who, place] = self.net[who, place] = 0
            self.births += 1
            self.born[who, place] = self.births
            self.pool[who, topic] = self.phantom[who, topic] = 0.0
            barred[who, topic] = True
            self.out["synthesised"][who] += 1
            self.out["evicted"][who] += full

    def play(self) -> dict[str, np.ndarray]:
        c = self.c
        for t in range(c["rounds"]):
            self.learn()
            self.retire()
            if t < c["rounds"] - 1:
                self.write()
            passed = self.attempt(self.eval)[1]
            if t >= c["rounds"] - c["window"]:
                self.out["tail_eval"] += passed.mean(1) / c["window"]
        return self.out


def run(tables: Tables, seed: int, n_runs: int) -> list[dict[str, np.ndarray]]:
    """Return, for each cell, some metrics of every run; evals as pass rates.

    Raises
    ------
    ValueError
        A cell has what this program does not.
    """
    if any(tables.cells[name].any() for name in ("rollback", "spread_by_task", "spread_by_topic", "start")):
        raise ValueError("no rollback, clustered errors or first shelf here")
    rng = np.random.default_rng(seed)
    out = []
    for cell in range(len(tables.cells)):
        parts = [_Runs(tables, cell, min(BATCH, n_runs - at), rng).play() for at in range(0, n_runs, BATCH)]
        out.append({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    return out
