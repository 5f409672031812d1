"""One run in plain Python: the specification. Slow and obvious; the kernels must agree with it to the bit.

The steps are those of the model (MODEL.md): forget, trials (route, solve, observe, count), retire,
synthesise, evaluate, roll back. All numbers are whole; the tables come from :func:`sim.tables.derive`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from sim import rng
from sim.curators import Skill as Seen
from sim.curators import Trial
from sim.tables import DIFFICULTY_BITS, EFFECT_BINS, EFFECT_BITS, EVAL_BITS, NO_SKILL, OFF_TOPIC, ONE16, POOL_ONE, RATE_BITS, Tables
from sim.variables import METRICS, SERIES


@dataclass
class Skill:
    """A skill on the shelf: what it is (topic, effect row), its evidence, and its true passes, which nobody in the loop sees.

    The evidence is n and net, the rounds in which it was written and last routed to, and what its curator keeps of its own.
    """

    topic: int
    row: int
    born: int
    came: int = 0
    last: int = 0
    own: tuple[int, ...] = ()
    n: int = 0
    net: int = 0
    passes: int = 0


@dataclass(frozen=True)
class Task:
    """A task of this run: its topic, its difficulty bin, and the rates at which its outcomes are flipped."""

    topic: int
    bin: int
    flip_fail: int = 0
    flip_pass: int = 0


class Run:
    """One life of one library.

    Parameters
    ----------
    tables
        From :func:`sim.tables.derive`.
    cell
        Which of its cells.
    seed, run
        The key of all randomness.
    """

    def __init__(self, tables: Tables, cell: int, seed: int, run: int) -> None:
        self.seed, self.run = seed, run
        c = self.c = {name: int(tables.cells[cell][name]) for name in tables.cells.dtype.names or ()}
        self.topic_cdf = tables.topic_cdf[c["task_table"]].tolist()
        self.passes = tables.pass_threshold[c["pass_table"]].tolist()
        self.sign = tables.effect_sign[c["pass_table"]].tolist()
        self.route_any = tables.route_any[c["route_table"]].tolist()
        self.off_weight = tables.off_weight[c["route_table"]].tolist()
        self.flip_rate = tables.flip_rate[c["rate_table"]].tolist()
        self.favour = tables.favour[c["favour_table"]].tolist()
        self.rule, self.rule_table = tables.rule(cell), tables.retire_of(cell).tolist()

        self.shelf: list[Skill] = []  # in order of birth
        self.births = 0
        self.t = -1  # the round
        self.pool = [0] * c["topics"]  # unused failures per topic, in 1/256ths
        self.phantoms = [0] * c["topics"]  # the part of them that truly passed
        self.best, self.best_shelf, self.flags = -1, list[Skill](), 0
        self.metrics = dict.fromkeys(METRICS, 0)
        self.series: list[dict[str, int]] = []

        self.train = [self.draw_task(rng.TRAIN_DRAW, i) for i in range(c["n_train"])]
        self.eval = [self.draw_task(rng.EVAL_DRAW, i) for i in range(c["n_eval"])]
        for i in range(c["start"]):
            self.put(i % c["topics"], self.words(0, rng.START, i)[1] >> (32 - EFFECT_BITS))

    def words(self, round_: int, purpose: int, index: int) -> tuple[int, int]:
        return rng.words(self.seed, self.run, round_, purpose, index)

    def draw_task(self, purpose: int, index: int) -> Task:
        topic_word, bin_word = self.words(0, purpose, index)
        topic = self.topic_of(topic_word)
        fail, passed = self.c["flip_fail"], self.c["flip_pass"]
        if self.c["spread_by_task"] or self.c["spread_by_topic"]:
            a, b = self.words(0, rng.RATE_DRAW, index if self.c["spread_by_task"] else topic)
            fail, passed = self.flip_rate[0][a >> (32 - RATE_BITS)], self.flip_rate[1][b >> (32 - RATE_BITS)]
        return Task(topic, bin_word >> (32 - DIFFICULTY_BITS), fail, passed)

    def topic_of(self, word: int) -> int:
        """Return the topic that a word draws, by the weights."""
        return sum(word >= cut for cut in self.topic_cdf[: self.c["topics"] - 1])

    # ------------------------------------------------------------ the rounds

    def play(self) -> Run:
        """Play all rounds, then fill in the metrics of the whole run."""
        for t in range(self.c["rounds"]):
            self.t, self.now = t, dict.fromkeys(SERIES, 0)
            self.forget()
            self.trials(t)
            self.retire()
            if t < self.c["rounds"] - 1:
                self.synthesise(t)
            self.now["eval"] = self.evaluate()
            sampled = self.sample_eval(t) if self.c["sampled"] else 0
            self.note_sampled(t, sampled)
            if self.c["rollback"]:
                self.roll_back(sampled)
            self.now["active"] = len(self.shelf)
            self.series.append(self.now)
        self.finish()
        return self

    def forget(self) -> None:
        """Step 1: each topic's pool of unused failures, and the phantom part of it, keep the share ``memory``."""
        self.pool = [p * self.c["memory"] // ONE16 for p in self.pool]
        self.phantoms = [p * self.c["memory"] // ONE16 for p in self.phantoms]

    def trials(self, t: int) -> None:
        """Step 2: each train task is routed, attempted, observed and counted. All of them see the same shelf."""
        full = len(self.shelf) == self.c["cap"]
        for i, task in enumerate(self.train):
            route_word, pick_word = self.words(t, rng.ROUTE, i)
            outcome_word, flip_word = self.words(t, rng.OUTCOME, i)
            skill = self.route(task, route_word, pick_word)
            passed = outcome_word < self.pass_threshold(task, skill)
            flipped = flip_word < (task.flip_pass if passed else task.flip_fail)
            observed = passed != flipped

            self.metrics["flips"] += flipped
            self.metrics["hidden_failures"] += flipped and not passed
            self.metrics["phantom_failures"] += flipped and passed
            if skill is not None:
                self.metrics["routed"] += 1
                skill.n += 1
                skill.net += 1 if observed else -1
                skill.passes += passed
                skill.last = t
                if self.rule.after_trial:
                    skill.own = self.rule.after_trial(self.seen(skill), Trial(int(observed), t, int(full)), self.rule_table)
            if not observed:
                self.now["observed_failures"] += 1
                label = self.label(task, route_word, pick_word)
                self.pool[label] += POOL_ONE
                self.phantoms[label] += POOL_ONE if passed else 0

    def route(self, task: Task, route_word: int, pick_word: int) -> Skill | None:
        """Return the skill a task gets, or None. One word decides among on-topic, off-topic and none."""
        on = [s for s in self.shelf if s.topic == task.topic]
        off = [s for s in self.shelf if s.topic != task.topic]
        if on and route_word < self.c["recall"]:
            return on[self.rank(len(on), pick_word)]
        if route_word < self.route_any[bool(on)][len(off)]:
            if not self.c["favour_table"]:
                off.sort(key=lambda s: s.topic)  # then by birth
            return off[self.rank(len(off), pick_word)]
        return None

    def rank(self, candidates: int, pick_word: int) -> int:
        """Return which of so many skills is taken: each alike, or mostly the oldest ones."""
        word = pick_word & 0xFFFF
        if not self.c["favour_table"]:
            return word * candidates >> 16
        return sum(word >= cut for cut in self.favour[candidates][: candidates - 1])

    def label(self, task: Task, route_word: int, pick_word: int) -> int:
        """Return the topic that a failure of a task is booked on."""
        if pick_word >> 16 >= self.c["mislabel"]:
            return task.topic
        word = route_word & 0xFFFF
        return self.topic_of(word << 16) if self.c["mislabel_by_weight"] else word * self.c["topics"] >> 16

    def pass_threshold(self, task: Task, skill: Skill | None) -> int:
        if skill is None:
            return self.passes[NO_SKILL][task.bin]
        return self.passes[skill.row if skill.topic == task.topic else OFF_TOPIC][task.bin]

    def seen(self, skill: Skill) -> Seen:
        """Return what the curator may look at."""
        age, idle = (self.t - skill.came, self.t - skill.last) if self.rule.clock else (0, 0)
        return Seen(skill.n, skill.net, age, idle, skill.born, skill.own)

    def retire(self) -> None:
        """Step 3, lever 1: every skill whose evidence says so leaves."""
        kept = []
        for skill in self.shelf:
            if self.rule.after_round:
                skill.own = self.rule.after_round(self.seen(skill), self.t, self.rule_table)
            if not self.rule.leaves(self.seen(skill), self.t, self.rule_table):
                kept.append(skill)
                continue
            self.now["retired"] += 1
            self.metrics["retire_trials"] += skill.n
            self.metrics["wrongly_retired"] += self.sign[skill.row] > 0
        self.shelf = kept

    def synthesise(self, t: int) -> None:
        """Step 4: write skills for the largest unbarred pools; on a full shelf each evicts the weakest (lever 2)."""
        covered = {s.topic for s in self.shelf}
        barred = {k for k in covered if self.words(t, rng.COVER, k // 2)[k % 2] < self.c["cover_guard"]}
        for slot in range(self.c["per_round"]):
            ready = [k for k in range(self.c["topics"]) if k not in barred and self.pool[k] >= self.c["min_pool"]]
            if not ready:
                break
            topic = max(ready, key=lambda k: (self.pool[k], -k))
            if len(self.shelf) == self.c["cap"]:
                if self.rule.refuses:
                    break
                self.evict()
            spurious_word, effect_word = self.words(t, rng.SYNTH, slot)
            spurious = (spurious_word >> 16) * self.pool[topic] < self.c["phantom_cost"] * self.phantoms[topic]
            row = (effect_word >> (32 - EFFECT_BITS)) + (EFFECT_BINS if spurious else 0)
            self.put(topic, row)
            self.now["synthesised"] += 1
            self.pool[topic] = self.phantoms[topic] = 0
            barred.add(topic)

    def put(self, topic: int, row: int) -> None:
        self.shelf.append(Skill(topic, row, self.births, self.t, self.t, self.rule.first(self.rule_table)))
        self.births += 1

    def evict(self) -> None:
        """Lever 2: the weakest skill makes room."""
        self.shelf.remove(min(self.shelf, key=lambda skill: (self.strength(skill), skill.born)))
        self.now["evicted"] += 1

    def strength(self, skill: Skill) -> int:
        """Return what lever 2 compares; of some curators it depends on a random word."""
        assert self.rule.strength is not None
        word = self.words(self.t, rng.CURATOR, skill.born)[0] if self.rule.draws else 0
        return int(self.rule.strength(self.seen(skill), self.t, word, self.rule_table))

    def evaluate(self) -> int:
        """Step 5: the expected pass rate over routing and outcome, in 2^-20, rounded down.

        A topic's tasks see the on-topic skills in equal shares of ``recall``; the share is rounded down per topic. With a favourite
        the shares are those of the picks, and the mean over skills is rounded down first.
        """
        one, shift = 1 << EVAL_BITS, 32 - EVAL_BITS
        total = 0
        for topic in range(self.c["topics"]):
            bins = [task.bin for task in self.eval if task.topic == topic]
            on = [s.row for s in self.shelf if s.topic == topic]
            off_weight = self.off_weight[bool(on)][len(self.shelf) - len(on)]
            on_weight = self.c["recall_weight"] if on else 0
            sums = [sum(self.passes[row][b] >> shift for b in bins) for row in on]
            if self.c["favour_table"]:
                cuts = [0, *self.favour[len(on)][: len(on)]]
                total += on_weight * (sum((b - a) * s for (a, b), s in zip(pairwise(cuts), sums, strict=True)) >> 16)
            else:
                total += on_weight * sum(sums) // max(len(on), 1)
            total += off_weight * sum(self.passes[OFF_TOPIC][b] >> shift for b in bins)
            total += (one - on_weight - off_weight) * sum(self.passes[NO_SKILL][b] >> shift for b in bins)
        return total // (self.c["n_eval"] << EVAL_BITS)

    def sample_eval(self, t: int) -> int:
        """Return how many eval tasks pass in one attempt each."""
        passes = 0
        for i, task in enumerate(self.eval):
            skill = self.route(task, *self.words(t, rng.EVAL_ROUTE, i))
            passes += self.words(t, rng.EVAL_OUTCOME, i)[0] < self.pass_threshold(task, skill)
        return passes

    def roll_back(self, sampled: int) -> None:
        """Step 6: flag a round more than ``margin`` below the best; after ``patience`` flags restore the best shelf."""
        if sampled > self.best:
            self.best, self.best_shelf = sampled, [replace(s) for s in self.shelf]
        self.flags = self.flags + 1 if self.best - sampled > self.c["fall"] else 0
        if self.flags == self.c["patience"]:
            here, there = {s.born for s in self.shelf}, {s.born for s in self.best_shelf}
            self.metrics["rollbacks"] += 1
            self.metrics["restored"] += len(there - here)
            self.metrics["dropped"] += len(here - there)
            self.shelf = [replace(s) for s in self.best_shelf]
            self.flags = 0

    # ------------------------------------------------------------ the books

    def note_sampled(self, t: int, sampled: int) -> None:
        m = self.metrics
        m["first_sampled"] += sampled if t < self.c["window"] else 0
        m["tail_sampled"] += sampled if t >= self.c["rounds"] - self.c["window"] else 0
        m["peak_sampled"] = max(m["peak_sampled"], sampled)

    def finish(self) -> None:
        m, window = self.metrics, self.c["window"]
        evals = [now["eval"] for now in self.series]
        m["tail_eval"], m["first_eval"], m["peak_eval"] = sum(evals[-window:]), sum(evals[:window]), max(evals)
        final, self.shelf = self.shelf, []
        m["floor_eval"] = self.evaluate()
        self.shelf = final
        m["lift"] = m["tail_eval"] - window * m["floor_eval"]
        m["rolling_gain"] = m["tail_eval"] - m["first_eval"]
        for name in ("synthesised", "retired", "evicted", "observed_failures"):
            m[name] = sum(now[name] for now in self.series)
        m["deprecated"] = m["retired"] + m["evicted"]
        m["active_final"] = len(self.shelf)
        m["harmful_final"] = sum(self.sign[s.row] < 0 for s in self.shelf)
        m["retire_trials_x_retired"] = m["retire_trials"] * m["retired"]


def records(tables: Tables, seed: int, first_run: int, n_runs: int, baseline: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Play every cell on these runs.

    Returns
    -------
    metrics
        int64, shape (cells, runs, metrics).
    series
        int64, shape (cells, runs, rounds, series); zero beyond a cell's own rounds.
    """
    cells = len(tables.cells)
    rounds = int(tables.cells["rounds"].max())
    metrics = np.zeros((cells, n_runs, len(METRICS)), np.int64)
    series = np.zeros((cells, n_runs, rounds, len(SERIES)), np.int64)
    for c in range(cells):
        for i in range(n_runs):
            run = Run(tables, c, seed, first_run + i).play()
            metrics[c, i] = [run.metrics[name] for name in METRICS]
            series[c, i, : len(run.series)] = [[now[name] for name in SERIES] for now in run.series]
    return metrics, series
