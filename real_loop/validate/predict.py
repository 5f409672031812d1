"""What a fitted simulator says of runs that are made on given tasks: many joint draws of all of them, parameters uncertain.

A draw is a world from the fit, a difficulty and a topic for each task, and then every run simulated in that world on those tasks, with
random numbers of its own and the reward that it had. So what the runs share (world and tasks) moves their predictions together, and
what each of them has by itself does not. The simulator is the reference (:mod:`sim.reference`), which a log's tasks are put into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from real_loop.history import History
from real_loop.measures import metrics, series
from real_loop.roles import EVAL, TRAIN
from sim import rng
from sim.model import Cell, Channel, World
from sim.reference import Run, Task
from sim.tables import DIFFICULTY_BINS, Tables, derive, difficulty_bins

FINAL: Final = ("synthesised", "retired", "evicted", "active_final", "observed_failures", "divergence", "routed", "tail_sampled")
BY_ROUND: Final = ("eval", "active", "retired", "evicted", "synthesised", "observed_failures", "routed")
threefry: Callable[..., tuple[np.ndarray, np.ndarray]] = rng.threefry  # type: ignore[assignment]  # what it does it does to arrays too
_CUMULATED: Final = (
    "retired",
    "evicted",
    "synthesised",
)  # by round these are counts so far: when it happens matters less than that it does


class Worlds(Protocol):
    """A fit: joint draws of the parameters (:class:`real_loop.estimate.Estimated`)."""

    def worlds(self, n: int, seed: int) -> list[World]: ...


class Probed(Protocol):
    """Attempts of the bare model that the tasks were chosen by (:class:`real_loop.estimate.Probes`)."""

    @property
    def probes(self) -> int: ...
    @property
    def passes(self) -> Mapping[str, int]: ...


@dataclass(frozen=True)
class Values:
    """What one run shows, real or simulated: by name, and by name and round, shape (rounds,)."""

    final: dict[str, float]
    by_round: dict[str, np.ndarray]


def real(history: History) -> Values:
    """Return what a log shows."""
    numbers, rounds = metrics(history), series(history)
    by_round = {name: rounds[name].astype(float) for name in BY_ROUND}
    by_round["routed"] = rounds["routed"] / np.maximum(rounds["trials"], 1)
    return Values({name: numbers[name] for name in FINAL}, _cumulated(by_round))


def _cumulated(by_round: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.cumsum(values) if name in _CUMULATED else values for name, values in by_round.items()}


# ---------------------------------------------------------------- one simulated run


@dataclass(frozen=True)
class Given:
    """The tasks of a draw: topic and difficulty bin of each, whole numbers, shapes (n_train,) and (n_eval,)."""

    train: tuple[np.ndarray, np.ndarray]
    evals: tuple[np.ndarray, np.ndarray]


class OnTasks(Run):
    """A run of the reference on given tasks.

    Parameters
    ----------
    tables, seed, run
        As of :class:`sim.reference.Run`, of one cell.
    given
        The tasks.
    paired
        Whether each eval task is attempted with the same random numbers in every round (``evals=paired``).
    """

    def __init__(self, tables: Tables, seed: int, run: int, given: Given, paired: bool) -> None:
        self._given, self._paired = given, paired
        self.sampled: list[int] = []
        self.routed: list[int] = []
        self._drawn: dict[int, list[list[tuple[int, int]]]] = {}
        super().__init__(tables, 0, seed, run)
        c = self.c
        for purpose, n in (
            (rng.ROUTE, c["n_train"]),
            (rng.OUTCOME, c["n_train"]),
            (rng.EVAL_ROUTE, c["n_eval"]),
            (rng.EVAL_OUTCOME, c["n_eval"]),
        ):
            t, index = np.meshgrid(np.arange(c["rounds"]), np.arange(n), indexing="ij")
            first, second = threefry(seed, run, purpose << rng.INDEX_BITS | index, t)
            self._drawn[purpose] = [list(zip(a, b, strict=True)) for a, b in zip(first.tolist(), second.tolist(), strict=True)]

    def words(self, round_: int, purpose: int, index: int) -> tuple[int, int]:
        """Return a word of the run. Those of trials are drawn all at once, which takes a third of the time."""
        if self._paired and purpose in (rng.EVAL_ROUTE, rng.EVAL_OUTCOME):
            round_ = 0
        return self._drawn[purpose][round_][index] if purpose in self._drawn else super().words(round_, purpose, index)

    def draw_task(self, purpose: int, index: int) -> Task:
        topics, bins = self._given.train if purpose == rng.TRAIN_DRAW else self._given.evals
        return replace(super().draw_task(purpose, index), topic=int(topics[index]), bin=int(bins[index]))

    def note_sampled(self, t: int, sampled: int) -> None:
        super().note_sampled(t, sampled)
        self.sampled.append(sampled)
        self.routed.append(self.metrics["routed"] - sum(self.routed))

    def values(self) -> Values:
        """Return what the run shows, in the units of :func:`real`."""
        m, c = self.metrics, self.c
        trials = c["n_train"] * c["rounds"]
        final = {name: float(m[name]) for name in ("synthesised", "retired", "evicted", "active_final")}
        final |= {
            "observed_failures": m["observed_failures"] / c["rounds"],
            "divergence": m["flips"] / trials,
            "routed": m["routed"] / trials,
            "tail_sampled": m["tail_sampled"] / (c["window"] * c["n_eval"]),
        }
        by_round = {name: np.array([now[name] for now in self.series], float) for name in BY_ROUND if name not in ("eval", "routed")}
        by_round["eval"], by_round["routed"] = np.array(self.sampled) / c["n_eval"], np.array(self.routed) / c["n_train"]
        return Values(final, _cumulated(by_round))


# ---------------------------------------------------------------- tasks


def bare(histories: Sequence[History]) -> dict[str, tuple[int, int]]:
    """Return passes and failures of each task without a skill, as the true grader saw them. An answer that logs share counts once."""
    seen: dict[tuple[object, ...], tuple[str, int]] = {}
    for history in histories:
        s = history.settings
        for rows in history.trials.values():
            for row in rows:
                if not row["injected"] and row["passed"] is not None:
                    once = () if s.evals == "paired" and row["phase"] == EVAL else (row["round"],)
                    seen[s.seed, s.run, row["phase"], row["task"], *once] = row["task"], row["passed"]
    found: dict[str, tuple[int, int]] = {}
    for task, passed in seen.values():
        passes, failures = found.get(task, (0, 0))
        found[task] = passes + passed, failures + 1 - passed
    return found


class Difficulty:
    """How hard the tasks of a suite can be, given what the bare model did on them.

    Parameters
    ----------
    tasks
        Names of train and eval tasks.
    seen
        Passes and failures without a skill (:func:`bare`).
    probes
        What the tasks were chosen by, if it is known; its trials count too.
    """

    def __init__(self, tasks: Mapping[str, Sequence[str]], seen: Mapping[str, tuple[int, int]], probes: Probed | None) -> None:
        self.sizes = {phase: len(tasks[phase]) for phase in (TRAIN, EVAL)}
        names = [*tasks[TRAIN], *tasks[EVAL]]
        counts = np.array([seen.get(name, (0, 0)) for name in names], float)
        self.probed = np.array([probes is not None and name in probes.passes for name in names])
        for i, name in enumerate(names):
            if probes is not None and self.probed[i]:
                counts[i] += probes.passes[name], probes.probes - probes.passes[name]
        self.counts = counts

    def draw(self, world: World, draw: np.random.Generator) -> Given:
        """Draw a difficulty bin and a topic for each task of this world.

        A bin is as likely as its pass rate makes what was seen. Where a task's own probes are among that, the chance of being
        kept by them is divided out of the bins, which have it.
        """
        p = difficulty_bins(world.difficulty)
        log = self.counts[:, :1] * np.log(np.maximum(p, 1e-300)) + self.counts[:, 1:] * np.log(np.maximum(1 - p, 1e-300))
        log[self.probed] -= np.log(np.maximum(kept(world, p), 1e-300))
        weight = np.cumsum(np.exp(log - log.max(axis=1, keepdims=True)), axis=1)
        bins = (weight < draw.random((len(weight), 1)) * weight[:, -1:]).sum(axis=1).clip(0, DIFFICULTY_BINS - 1)
        chance = np.arange(1, world.topics + 1, dtype=float) ** -world.topic_skew
        topics = draw.choice(world.topics, len(bins), p=chance / chance.sum())
        n = self.sizes[TRAIN]
        return Given((topics[:n], bins[:n]), (topics[n:], bins[n:]))


def kept(world: World, p: np.ndarray) -> np.ndarray:
    """Return the chance that the probes keep a task of this pass rate (:func:`sim.tables.difficulty_quantiles`)."""
    d = world.difficulty
    if d.keep == "all":
        return np.ones_like(p)
    out: np.ndarray = 1 - p**d.probes
    return out - (1 - p) ** d.probes if d.keep == "mixed" else out


# ---------------------------------------------------------------- joint draws


@dataclass(frozen=True)
class Planned:
    """A run to predict.

    Attributes
    ----------
    cell
        Its policy and channel; its world is put in draw by draw.
    fit
        Which fit its worlds come from.
    paired
        Whether its evals are.
    channel
        Draws its error rates, where they are measured and so uncertain; None: those of the cell.
    """

    cell: Cell
    fit: int
    paired: bool
    channel: Callable[[np.random.Generator], Channel] | None = None


def predict(
    plans: Sequence[Planned],
    fits: Sequence[Worlds],
    difficulty: Difficulty | Sequence[Difficulty],
    draws: int,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> list[list[Values]]:
    """Simulate all runs in each of ``draws`` draws.

    Parameters
    ----------
    difficulty
        Of the tasks, as each fit saw them; or one for all.
    advance
        Called after each draw.

    Returns
    -------
    list
        By draw, then by run.
    """
    by_fit = [difficulty] * len(fits) if isinstance(difficulty, Difficulty) else list(difficulty)
    worlds = [fit.worlds(draws, seed + i) for i, fit in enumerate(fits)]
    random = np.random.default_rng([seed, 8])
    out = []
    for d in range(draws):
        given = [tasks.draw(worlds[f][d], np.random.default_rng([seed, d])) for f, tasks in enumerate(by_fit)]
        row = []
        for i, plan in enumerate(plans):
            channel = plan.cell.channel if plan.channel is None else plan.channel(random)
            world = replace(worlds[plan.fit][d], n_train=len(given[0].train[0]), n_eval=len(given[0].evals[0]))
            cell = Cell(world, replace(plan.cell.policy, sampled_eval=True), channel)
            played = OnTasks(derive([cell]), seed, d * len(plans) + i, given[plan.fit], plan.paired)
            played.play()
            row.append(played.values())
        out.append(row)
        advance()
    return out
