"""The library as the curator sees it: shelf, counters and unused failures, moved by arithmetic alone.

No model is asked here. The loop tells a library what was observed and what was written; the library says which skills leave and
which failures a skill is to be written from. Fed from a log instead, it makes the same decisions again
(:func:`real_loop.history.recompute`). The arithmetic is that of the simulator (:mod:`sim.reference`), to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from real_loop.patterns import Patterns
from real_loop.settings import Writing
from sim import curators, rng
from sim.curators import Skill as Seen
from sim.curators import Trial
from sim.model import Policy
from sim.tables import ONE16, POOL_ONE, threshold

WRITTEN: Final = "written"
RETIRED: Final = "retired"
EVICTED: Final = "evicted"
RESTORED: Final = "restored"
DROPPED: Final = "dropped"
FLAGGED: Final = "flagged"


@dataclass(frozen=True)
class Skill:
    """A skill's text. Its number is its place in order of birth."""

    number: int
    born: int
    cluster: str
    name: str
    applicability: str
    insight: str
    pitfalls: str
    postcondition: str


@dataclass
class Entry:
    """A skill on the shelf and its evidence.

    Attributes
    ----------
    n, net
        Trials routed to it, observed passes minus observed failures.
    came, last
        Rounds in which it was put on the shelf (-1: before the first), and of its last routed trial, or ``came``.
    own
        What its curator keeps of its own.
    """

    skill: Skill
    n: int = 0
    net: int = 0
    came: int = -1
    last: int = -1
    own: tuple[int, ...] = ()

    @property
    def number(self) -> int:
        """In order of birth."""
        return self.skill.number


@dataclass
class Pool:
    """Unused failures of one cluster, in 1/256ths, and the part of them that truly passed; their pattern strings."""

    amount: int = 0
    phantoms: int = 0
    patterns: list[tuple[int, str]] = field(default_factory=list)  # with the number of the failure: oldest first


@dataclass(frozen=True)
class Change:
    """A change of state: what happened to which skill, and the counters that made it happen."""

    kind: str
    skill: int | None
    reason: dict[str, Any]


@dataclass(frozen=True)
class Cluster:
    """What a skill is to be written from.

    Attributes
    ----------
    name, order
        The pattern that stands for the cluster, and its place among all clusters seen.
    patterns
        Strings of its unused failures, oldest first.
    amount, phantoms
        How many there are, in 1/256ths, and the part that truly passed. No model is shown the latter.
    """

    name: str
    order: int
    patterns: tuple[str, ...]
    amount: int
    phantoms: int


class Library:
    """Shelf, pools and snapshot of one run.

    Parameters
    ----------
    policy
        The controller.
    writing
        When a skill is written.
    n_train
        Train tasks per round.
    seed, run
        Key of the draws of the cover guard.
    known
        Patterns known beforehand: their clusters come first, in this order.
    """

    def __init__(self, policy: Policy, writing: Writing, n_train: int, seed: int, run: int, known: Sequence[str] = ()) -> None:
        self.policy, self.writing, self.seed, self.run = policy, writing, seed, run
        self.rule, parameters = curators.chosen(policy)
        self.table = self.rule.table(parameters, policy, n_train * policy.rounds).tolist()
        self.margin = Fraction(repr(policy.rollback.margin))
        self.memory = round(writing.memory * ONE16)
        self.guard = int(threshold(writing.cover_guard))
        self.patterns = Patterns(writing.similarity, known)
        self.shelf: list[Entry] = []  # in order of birth
        self.births = self.failures = 0
        self.t = -1  # the round
        self.full = False  # whether the shelf was at its beginning
        self.pools: dict[str, Pool] = {}
        self.best, self.best_shelf, self.flags = Fraction(-1), list[Entry](), 0

    def forget(self) -> None:
        """Begin a round: every pool keeps the share ``memory`` of its unused failures."""
        self.t += 1
        self.full = len(self.shelf) == self.policy.cap
        for pool in self.pools.values():
            pool.amount = pool.amount * self.memory // ONE16
            pool.phantoms = pool.phantoms * self.memory // ONE16
            keep = -(-pool.amount // POOL_ONE)
            pool.patterns = pool.patterns[len(pool.patterns) - keep :] if keep else []

    def entry(self, number: int) -> Entry:
        """Return a skill on the shelf."""
        return next(e for e in self.shelf if e.number == number)

    def count(self, number: int, observed: bool) -> None:
        """Count a trial that was routed to a skill. Trials are counted in the order of tasks."""
        entry = self.entry(number)
        entry.n += 1
        entry.net += 1 if observed else -1
        entry.last = self.t
        if self.rule.after_trial:
            entry.own = _whole(self.rule.after_trial(self._seen(entry), Trial(int(observed), self.t, int(self.full)), self.table))

    def _seen(self, entry: Entry) -> Seen:
        """Return what the curator may look at."""
        age, idle = (self.t - entry.came, self.t - entry.last) if self.rule.clock else (0, 0)
        return Seen(entry.n, entry.net, age, idle, entry.number, entry.own)

    def _strength(self, entry: Entry) -> int:
        """Return what lever 2 compares."""
        assert self.rule.strength is not None
        word = rng.words(self.seed, self.run, self.t, rng.CURATOR, entry.number)[0] if self.rule.draws else 0
        return int(self.rule.strength(self._seen(entry), self.t, word, self.table))

    def _evidence(self, entry: Entry) -> dict[str, int]:
        """Return the evidence of a skill by name."""
        return {"n": entry.n, "net": entry.net, **dict(zip(self.rule.fields, entry.own, strict=True))}

    def fail(self, pattern: str, phantom: bool) -> str:
        """Put an observed failure into the pool of its cluster; return the cluster's name, empty for an empty pattern.

        A pattern that is like two clusters makes one of them, and of their pools.
        """
        if not pattern:
            return ""
        name, absorbed = self.patterns.place(pattern)
        pool = self.pools.setdefault(name, Pool())
        for other in absorbed:
            if gone := self.pools.pop(other, None):
                pool.amount, pool.phantoms = pool.amount + gone.amount, pool.phantoms + gone.phantoms
                pool.patterns = sorted([*gone.patterns, *pool.patterns])
        pool.amount += POOL_ONE
        pool.phantoms += POOL_ONE if phantom else 0
        pool.patterns.append((self.failures, pattern))
        self.failures += 1
        return name

    def retire(self) -> list[Change]:
        """Lever 1: every skill whose evidence says so leaves."""
        if self.rule.after_round:
            for e in self.shelf:
                e.own = _whole(self.rule.after_round(self._seen(e), self.t, self.table))
        leaving = [e for e in self.shelf if self.rule.leaves(self._seen(e), self.t, self.table)]
        self.shelf = [e for e in self.shelf if e not in leaving]
        return [Change(RETIRED, e.number, {**self._evidence(e), **self._by(e)}) for e in leaving]

    def _by(self, entry: Entry) -> dict[str, Any]:
        """Return by which rule a skill leaves: of Ratchet the net that it takes, else the curator's name."""
        return {"most": self.table[entry.n]} if self.rule.name == curators.RATCHET else {"curator": self.rule.name}

    def ready(self, t: int) -> list[Cluster]:
        """Return the clusters that skills are to be written from in round ``t``, largest first.

        A cluster that an active skill covers is barred with probability ``cover_guard``.
        """
        covered = {self.patterns.find(e.skill.cluster) for e in self.shelf}
        least = self.writing.min_cluster * POOL_ONE
        found = []
        for name, pool in self.pools.items():
            order = self.patterns.order(name)
            if pool.amount >= least and not (name in covered and self._guarded(t, order)):
                found.append(Cluster(name, order, tuple(text for _, text in pool.patterns), pool.amount, pool.phantoms))
        found.sort(key=lambda c: (-c.amount, c.order))
        room = self.policy.cap - len(self.shelf) if self.rule.refuses else len(found)
        return found[: min(self.writing.per_round, room)]

    def _guarded(self, t: int, order: int) -> bool:
        return rng.words(self.seed, self.run, t, rng.COVER, order // 2)[order % 2] < self.guard

    def put(self, skill: Skill) -> list[Change]:
        """Put a new skill on the shelf. On a full shelf the weakest makes room first (lever 2). Its cluster's pool empties."""
        changes = []
        if len(self.shelf) == self.policy.cap:
            out = min(self.shelf, key=lambda e: (self._strength(e), e.number))
            self.shelf.remove(out)
            changes.append(Change(EVICTED, out.number, {**self._evidence(out), "cap": self.policy.cap}))
        self.shelf.append(Entry(skill, came=self.t, last=self.t, own=_whole(self.rule.first(self.table))))
        self.births += 1
        pool = self.pools.get(self.patterns.find(skill.cluster))
        changes.append(Change(WRITTEN, skill.number, {"cluster": skill.cluster, "failures": pool.amount / POOL_ONE if pool else 0}))
        if pool:
            pool.amount = pool.phantoms = 0
            pool.patterns = []
        return changes

    def roll_back(self, passes: int, attempted: int) -> list[Change]:
        """Flag a round whose eval is more than ``margin`` below the best; after ``patience`` flags in a row restore the best shelf.

        An eval is the share of passes among the tasks that had an outcome; a round in which none had tells nothing.
        """
        if not self.policy.rollback.on or not attempted:
            return []
        rate = Fraction(passes, attempted)
        if rate > self.best:
            self.best, self.best_shelf = rate, [replace(e) for e in self.shelf]
        if self.best - rate <= self.margin:
            self.flags = 0
            return []
        self.flags += 1
        changes = [Change(FLAGGED, None, {"eval": float(rate), "best": float(self.best), "flags": self.flags})]
        if self.flags == self.policy.rollback.patience:
            here, there = {e.number for e in self.shelf}, {e.number for e in self.best_shelf}
            changes += [Change(DROPPED, number, {"best": float(self.best)}) for number in sorted(here - there)]
            changes += [Change(RESTORED, e.number, {"n": e.n, "net": e.net, "back": e.number not in here}) for e in self.best_shelf]
            self.shelf = [replace(e) for e in self.best_shelf]
            self.flags = 0
        return changes


def _whole(own: Sequence[int]) -> tuple[int, ...]:
    """Return evidence as plain whole numbers: a truth is 0 or 1."""
    return tuple(map(int, own))
