"""What logs say that a World is estimated from, as arrays: outcomes by task and skill, labels of failures, what was routed where.

Logs of one suite are pooled: a task that several runs share is one task, and an answer that two of them share is one trial. Patterns are
made one set of labels over all logs, as the library does it within one.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from real_loop.history import History, Row, known_patterns, snapshot
from real_loop.library import Skill
from real_loop.patterns import Patterns
from real_loop.roles import EVAL, TRAIN
from sim.errors import InputError
from sim.model import World, from_mapping
from sim.tables import LIMITS

MAX_TOPICS: Final = LIMITS["world.topics"]
SAME: Final = ("model", "roles", "writing", "prompts", "world")  # of an identity: what makes the roles of two runs the same


@dataclass(frozen=True)
class Probes:
    """Attempts of the bare model that the tasks were chosen by.

    Attributes
    ----------
    probes
        Attempts at each task.
    passes
        How many of them passed, by task, also of the tasks that were not taken.
    """

    probes: int
    passes: Mapping[str, int]


@dataclass(frozen=True)
class Counts:
    """N tasks (train and eval), S skills, P pairs of a task and a skill that it was given, D labels, C columns.

    The last column stands for the topics that no skill was written for, and column q below for ``topic_of[q]``, which has some: given a
    task's topic, what was routed and how it went depends on its column alone.

    Attributes
    ----------
    tasks
        Names, N of them; ``train`` says of each whether it is a train task.
    bare
        Passes and failures without a skill, shape (N, 2).
    probed
        Probes that passed and failed, shape (N, 2).
    others
        Tasks that were probed and are not among the N, by the number of probes that passed; empty without probes.
    probes, keep
        How many probes chose the tasks, and by which rule.
    mode
        How the router decides.
    labels
        Names of the D labels.
    labelled
        Failures by label, shape (N, D).
    rare
        Failures with other labels than these, which are too many for a World, shape (N,).
    unlabelled
        Failures that the critic named no pattern for.
    pair_task, pair_skill, pair_n, pair_passes
        Of each pair the task, the skill, trials and passes, shape (P,).
    skills
        Names of the S skills. ``column`` is the column of each, or -1 where its label is a rare one; ``phantom`` the share of phantom
        failures in the pool that it was written from.
    topic_of
        The label of each column but the last, shape (C - 1,).
    routes
        Routings of a task if its topic were that of a column, shape (N, C, 2 + 2 M): that took a skill of the topic; that had one at hand
        and did not; then by the number m of other skills, 0 to M - 1, those that took none (and had m), and those that took one.
    picks
        Picks of a skill of a task if its topic were that of a column, shape (N, C, 1 + M): the sum of the ranks by age (0 the oldest) among
        the skills of that topic, or among the others; then by the number m of those, 0 to M - 1, how many picks there were.
    """

    tasks: tuple[str, ...]
    train: np.ndarray
    bare: np.ndarray
    probed: np.ndarray
    others: np.ndarray
    probes: int
    keep: str
    mode: str
    labels: tuple[str, ...]
    labelled: np.ndarray
    rare: np.ndarray
    unlabelled: int
    pair_task: np.ndarray
    pair_skill: np.ndarray
    pair_n: np.ndarray
    pair_passes: np.ndarray
    skills: tuple[str, ...]
    column: np.ndarray
    phantom: np.ndarray
    topic_of: np.ndarray
    routes: np.ndarray
    picks: np.ndarray

    @property
    def own(self) -> np.ndarray:
        """The label that most failures of each task have, the first of equals; D for a task without a labelled failure. Shape (N,)."""
        return np.where(self.labelled.any(axis=1), self.labelled.argmax(axis=1), len(self.labels))

    @property
    def on_topic(self) -> np.ndarray:
        """Whether a pair's skill is of the label that most failures of its task have, bool, shape (P,). For counts shown, not estimates."""
        if not len(self.topic_of):
            return np.zeros(len(self.pair_n), bool)
        label = np.where(self.column >= 0, self.topic_of[self.column], -1)
        return np.asarray(label[self.pair_skill] == self.own[self.pair_task])


def gather(histories: Sequence[History], probes: Probes | None = None) -> Counts:
    """Return what logs say.

    Parameters
    ----------
    histories
        Of runs with the same tasks, model, roles and rules of writing; policy, reward, seed and run may differ.
    probes
        Of the split that chose the tasks, if known: else only the rule that the settings name.

    Raises
    ------
    InputError
        The logs do not belong together, or lack what a World cannot be estimated without.
    """
    if not histories:
        raise InputError("from", "no log", "one or more")
    belong(histories)
    trials = _Trials()
    for history in histories:
        trials.add(history)
    return trials.counts(histories[0], probes)


def belong(histories: Sequence[History]) -> None:
    """See that logs belong together.

    Raises
    ------
    InputError
        Two are of other tasks, models, roles or rules of writing.
    """
    first = histories[0]
    for other in histories[1:]:
        one, two = first.identity, other.identity
        todo = "estimate from each by itself"
        if (one["subset"]["suite"], one.get("suite_digest")) != (two["subset"]["suite"], two.get("suite_digest")):
            got = f"a log of {two['subset']['suite']} {str(two.get('suite_digest', ''))[:12]}".rstrip()
            raise InputError(str(other.path), got, f"one of {one['subset']['suite']}, as {first.path}", todo)
        if one["tasks"] != two["tasks"]:
            raise InputError(str(other.path), "a log of other tasks", f"one of the same split as {first.path}", todo)
        for name in SAME:
            if one.get(name) != two.get(name):
                raise InputError(str(other.path), f"a log of another {name.removesuffix('s')}", f"that of {first.path}", todo)


def phantom_share(history: History, number: int) -> float:
    """Return the share of phantom failures in the pool that a skill was written from."""
    source = history.skills[number].source
    return source.phantoms / source.amount if source is not None and source.amount else 0.0


class _Trials:
    """Trials of several logs, each once."""

    def __init__(self) -> None:
        self.tasks: dict[Any, int] = {}
        self.names: list[str] = []
        self.is_train: list[bool] = []
        self.bare: Counter[tuple[int, int]] = Counter()  # by task and outcome
        self.failures: list[tuple[int, str]] = []  # task, pattern
        self.unlabelled = 0
        self.skills: dict[tuple[int, int], int] = {}  # by log and number
        self.about: list[tuple[str, str, float]] = []  # name, pattern, share of phantoms
        self.pairs: Counter[tuple[int, int, int]] = Counter()  # by task, skill and outcome
        self.routings: list[tuple[int, int | None, tuple[int, ...]]] = []  # task, skill, shelf
        self.patterns: Patterns | None = None
        self.seen: set[Any] = set()
        self.logs = 0

    def add(self, history: History) -> None:
        """Take in a log."""
        if self.patterns is None:
            self.patterns = Patterns(history.settings.writing.similarity, known_patterns(history.identity))
        for number, past in history.skills.items():
            self.skills[self.logs, number] = len(self.about)
            name = past.skill.name if not self.logs else f"{past.skill.name} (log {self.logs + 1})"
            self.about.append((name, past.skill.cluster, phantom_share(history, number)))
        keys = _Keys(history)
        inject = history.settings.roles.mode != "withheld"
        for (t, phase), rows in sorted(history.trials.items(), key=lambda item: (item[0][0], item[0][1] != TRAIN)):
            shelf = history.shelves.get((t, phase), ())
            numbers = tuple(self.skills[self.logs, skill.number] for skill in shelf)
            for row in rows:
                task = self._task(history, phase, row)
                skill = None if row["skill"] is None else self.skills[self.logs, row["skill"]]
                if numbers and self._new(keys.route(row, shelf)):
                    self.routings.append((task, skill, numbers))
                if row["passed"] is None:
                    continue
                fresh = self._new(keys.solve(row))
                if fresh and skill is not None and inject:
                    self.pairs[task, skill, row["passed"]] += 1
                elif fresh:
                    self.bare[task, row["passed"]] += 1
                if (verdict := history.verdicts.get(row["id"])) is not None:
                    self._label(task, row, verdict, fresh)
        self.logs += 1

    def _new(self, key: Any) -> bool:
        if key in self.seen:
            return False
        self.seen.add(key)
        return True

    def _task(self, history: History, phase: str, row: Row) -> int:
        s = history.settings
        key = (phase, row["task"], *((s.seed, s.run) if s.scripted else ()))  # a scripted world draws its tasks anew in each run
        if key not in self.tasks:
            self.tasks[key] = len(self.tasks)
            self.names.append(row["task"])
            self.is_train.append(phase == TRAIN)
        return self.tasks[key]

    def _label(self, task: int, row: Row, verdict: Row, fresh: bool) -> None:
        """Take in what the critic said. Of a phantom failure it had nothing true to read, so that says nothing of topics."""
        assert self.patterns is not None
        if verdict["pattern"]:
            self.patterns.place(verdict["pattern"])
        if row["passed"] or not fresh:
            return
        if verdict["pattern"]:
            self.failures.append((task, verdict["pattern"]))
        else:
            self.unlabelled += 1

    # ------------------------------------------------------------ arrays

    def counts(self, first: History, probes: Probes | None) -> Counts:
        """Return all of it as arrays."""
        number = len(self.names)
        if not self.failures:
            raise InputError(str(first.path), "no failure with a label", "some: topics are estimated from them")
        bare = np.array([[self.bare[i, 1], self.bare[i, 0]] for i in range(number)], np.float64)
        if not bare.any() and probes is None:
            raise InputError(
                str(first.path), "no trial without a skill", "some, in a log or as probes", "give probes=FILE, the split with its probes"
            )
        asked, keep = _rule(first)
        probed, others = np.zeros((number, 2)), np.zeros(0)
        if probes is not None:
            asked = probes.probes
            if unknown := [name for name in self.names if name not in probes.passes]:
                raise InputError(
                    "probes", f"none of the task {unknown[0]}", f"those that chose the tasks of {first.path}", "give its split"
                )
            probed = np.array([[probes.passes[n], asked - probes.passes[n]] for n in self.names], np.float64)
            mine = set(self.names)
            others = np.bincount([k for name, k in probes.passes.items() if name not in mine], minlength=asked + 1).astype(np.float64)
        labels, place, topic = self._labels()
        labelled, rare = np.zeros((number, len(labels))), np.zeros(number)
        for task, pattern in self.failures:
            label = place.get(self._find(pattern))
            if label is None:
                rare[task] += 1
            else:
                labelled[task, label] += 1
        topic_of = np.array(sorted({t for t in topic if t >= 0}), np.int64)
        columns = {int(t): q for q, t in enumerate(topic_of)}
        column = np.array([columns.get(t, -1) for t in topic], np.int64)
        pairs = sorted({(task, skill) for task, skill, _ in self.pairs})
        passes = np.array([self.pairs[i, k, 1] for i, k in pairs], np.float64)
        n = passes + np.array([self.pairs[i, k, 0] for i, k in pairs], np.float64)
        routes, picks = self._routes(column, len(topic_of) + 1)
        return Counts(
            tasks=tuple(self.names),
            train=np.array(self.is_train),
            bare=bare,
            probed=probed,
            others=others,
            probes=asked,
            keep=keep,
            mode=first.settings.roles.mode,
            labels=tuple(labels),
            labelled=labelled,
            rare=rare,
            unlabelled=self.unlabelled,
            pair_task=np.array([i for i, _ in pairs], np.int64),
            pair_skill=np.array([k for _, k in pairs], np.int64),
            pair_n=n,
            pair_passes=passes,
            skills=tuple(name for name, _, _ in self.about),
            column=column,
            phantom=np.array([share for _, _, share in self.about]),
            topic_of=topic_of,
            routes=routes,
            picks=picks,
        )

    def _find(self, pattern: str) -> str:
        assert self.patterns is not None
        self.patterns.place(pattern)  # of a skill on the first shelf nobody has seen a failure
        return self.patterns.find(pattern)

    def _labels(self) -> tuple[list[str], dict[str, int], list[int]]:
        """Return the labels, their places, and the label of each skill. Those of skills come first if not all fit into a World."""
        of_skills = [self._find(pattern) for _, pattern, _ in self.about]
        seen = Counter(self._find(pattern) for _, pattern in self.failures)
        given = Counter(of_skills)
        order = sorted(seen.keys() | given.keys(), key=lambda name: (-min(given[name], 1), -seen[name], name))[:MAX_TOPICS]
        place = {name: i for i, name in enumerate(order)}
        return order, place, [place.get(name, -1) for name in of_skills]

    def _routes(self, column: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ``routes`` and ``picks`` of :class:`Counts`."""
        most = max((len(shelf) for _, _, shelf in self.routings), default=0) + 1
        routes, picks = np.zeros((len(self.names), columns, 2 + 2 * most)), np.zeros((len(self.names), columns, 1 + most))
        every = np.arange(columns)
        shelves: dict[tuple[int, ...], np.ndarray] = {}
        older: dict[tuple[tuple[int, ...], int], np.ndarray] = {}  # skills before one on its shelf, by column
        for task, skill, shelf in self.routings:
            if shelf not in shelves:
                known = column[list(shelf)]
                shelves[shelf] = np.bincount(known[known >= 0], minlength=columns)
            on = shelves[shelf]
            if skill is not None and (shelf, skill) not in older:
                known = column[list(shelf[: shelf.index(skill)])]
                older[shelf, skill] = np.bincount(known[known >= 0], minlength=columns)
            off = len(shelf) - on
            mine = every == column[skill] if skill is not None and column[skill] >= 0 else np.zeros(columns, bool)
            here = routes[task]
            here[mine, 0] += 1
            if skill is not None:
                before = older[shelf, skill]
                picks[task, :, 0] += np.where(mine, before, shelf.index(skill) - before)
                picks[task, every, 1 + np.where(mine, on, off)] += 1
            other = ~mine
            here[other & (on > 0), 1] += 1
            if skill is None:
                here[every, 2 + off] += 1
            else:
                here[every[other], 2 + most + off[other]] += 1
        return routes, picks


def _rule(history: History) -> tuple[int, str]:
    """Return how many probes chose the tasks, and by which rule."""
    if "world" in history.identity:
        difficulty = from_mapping(World, history.identity["world"], "world").difficulty
        return difficulty.probes, difficulty.keep
    subset = history.settings.subset
    return (0, "all") if subset.ids is not None else (subset.probes, subset.keep)


class _Keys:
    """What tells one trial from another: two that share all that was asked, the draw's seed included, are one."""

    def __init__(self, history: History) -> None:
        s = history.settings
        self.history, self.scripted, self.key = history, s.scripted is not None, (s.seed, s.run)
        self.requests: dict[int, bytes] = {}
        if not self.scripted:
            with snapshot(history.reader):
                for number, request in history.reader.db.execute("SELECT id, request FROM calls WHERE role IN ('router', 'solver')"):
                    self.requests[number] = hashlib.sha256(str(request).encode()).digest()

    def route(self, row: Row, shelf: tuple[Skill, ...]) -> Any:
        """Return the key of a routing."""
        if self.scripted:
            texts = tuple((skill.cluster, skill.insight) for skill in shelf)
            return ("route", *self.key, row["round"], row["phase"], row["position"], texts)
        if row["route_call"] is None:  # the most similar skill: the same whenever the shelf is
            return ("route", row["phase"], row["task"], tuple((skill.name, skill.insight) for skill in shelf))
        return ("route", self.requests.get(row["route_call"], (id(self.history), row["id"])))

    def solve(self, row: Row) -> Any:
        """Return the key of an attempt."""
        if self.scripted:
            skill = None if row["skill"] is None else self.history.skills[row["skill"]].skill
            text = None if skill is None else (skill.cluster, skill.insight)
            return ("solve", *self.key, row["round"], row["phase"], row["position"], text)
        return ("solve", self.requests.get(row["solve_call"], (id(self.history), row["id"])))


def verdicts(history: History) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return truth, verdict and task of the train trials of a log, each of shape (trials,)."""
    by_task: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for (_, phase), rows in history.trials.items():
        for row in rows if phase != EVAL else ():
            if row["passed"] is not None:
                by_task[row["task"]].append((bool(row["passed"]), bool(row["observed"])))
    flat = [(truth, seen, task) for task, pairs in by_task.items() for truth, seen in pairs]
    return np.array([f[0] for f in flat], bool), np.array([f[1] for f in flat], bool), np.array([f[2] for f in flat], str)
