"""A log, read: the run played again from its evidence, and what became of each skill.

The evidence is what was asked of others: outcomes of trials, the critic's verdicts, the texts of skills. From it alone a fresh library
makes the curator's decisions again; that they are those in the log is what :func:`check` says. Logs of unfinished runs are read as far
as they go, also while a run writes them. Numbers in the simulator's units are in :mod:`real_loop.measures`.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Final, TypeAlias

from real_loop.library import DROPPED, EVICTED, FLAGGED, RESTORED, RETIRED, WRITTEN, Change, Cluster, Library, Skill
from real_loop.log import Reader
from real_loop.roles import EVAL, TRAIN
from real_loop.settings import Writing
from sim.errors import InputError, RunError
from sim.lives import ON_SHELF, Stretch
from sim.model import Policy, World, from_mapping

Row: TypeAlias = dict[str, Any]
TODO: Final = "the log was changed, or other code wrote it"
_TRIAL: Final = "id, round, phase, task, position, skill, injected, passed, observed, reason"


@dataclass
class Round:
    """What happened in one round. ``ended`` is False for the one that an unfinished log stops in.

    Attributes
    ----------
    trials, routed
        Train trials that had an outcome, and those of them with a skill.
    observed_failures, hidden_failures, phantom_failures
        Trials observed as failures; failures observed as passes; passes observed as failures.
    passes, attempted
        Eval tasks that passed, of those that had an outcome.
    void
        Trials and eval tasks without an outcome.
    synthesised, retired, evicted, restored, dropped
        Skills; restored are those put back by a rollback that were not on the shelf.
    rolled_back
        Whether the best shelf was restored.
    active
        Skills on the shelf at its end.
    """

    round: int
    trials: int = 0
    routed: int = 0
    observed_failures: int = 0
    hidden_failures: int = 0
    phantom_failures: int = 0
    passes: int = 0
    attempted: int = 0
    void: int = 0
    synthesised: int = 0
    retired: int = 0
    evicted: int = 0
    restored: int = 0
    dropped: int = 0
    rolled_back: bool = False
    active: int = 0
    ended: bool = False


@dataclass
class Past:
    """What became of one skill.

    Attributes
    ----------
    skill
        Its text.
    source
        The cluster of failures that it was written from; None if the shelf began with it.
    changes
        What happened to it: round and change, in order. A skill that a rollback put back has a change of that kind.
    stretches
        Its times on the shelf; the last one is open if it is there.
    n, net, passes
        Counters now, or when it left: trials, observed passes minus failures, true passes.
    """

    skill: Skill
    source: Cluster | None
    came: int
    n: int = 0
    net: int = 0
    passes: int = 0
    changes: list[tuple[int, Change]] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def how(self) -> str:
        """How it ended, one of :data:`sim.lives.HOW`."""
        return self.stretches[-1].how

    @property
    def observed_rate(self) -> float:
        """Share of its trials observed as passes; nan before the first."""
        return (1 + self.net / self.n) / 2 if self.n else float("nan")

    @property
    def true_rate(self) -> float:
        """Share of its trials that truly passed; nan before the first."""
        return self.passes / self.n if self.n else float("nan")


class History:
    """A log, played again.

    Parameters
    ----------
    reader
        The log.

    Attributes
    ----------
    changes
        Decisions of a fresh library that was fed the evidence: round, step in it, change.
    logged
        The same as the log has them, reasons as JSON.
    pending
        How many of the last decisions the log may lack, since the run was stopped before them.
    rounds
        What happened in each round; the last one may have only begun.
    skills
        What became of each skill, by number.

    Raises
    ------
    InputError
        It is a log of something else: of probes.
    RunError
        The evidence contradicts itself, so that it cannot be played.
    """

    def __init__(self, reader: Reader) -> None:
        self.path, self.identity = reader.path, reader.identity
        if "policy" not in self.identity:
            raise InputError(str(self.path), "a log of no run", "one of python -m real_loop, with a library in it")
        self.policy = from_mapping(Policy, self.identity["policy"], "policy")
        self.tasks: dict[str, list[str]] = self.identity["tasks"]
        self.library = Library(
            self.policy,
            from_mapping(Writing, self.identity["writing"], "writing"),
            len(self.tasks["train"]),
            self.identity["seed"],
            self.identity["run"],
            known_patterns(self.identity),
        )
        self.changes: list[tuple[int, int, Change]] = []
        self.pending = 0
        self.rounds: list[Round] = []
        self.skills: dict[int, Past] = {}
        self.doubts: list[RunError] = []
        self._best_passes: dict[int, int] = {}
        with snapshot(reader):
            self._load(reader)
        try:
            self._play()
        except (KeyError, StopIteration, IndexError) as error:
            raise self._error("evidence", f"{type(error).__name__} ({error}) when played again", "trials of skills on the shelf") from error
        for entry in self.library.shelf:
            past = self._counted(entry.number, entry.n, entry.net)
            past.stretches.append(Stretch(past.came, None, ON_SHELF, entry.n, entry.net, past.passes))

    def _load(self, reader: Reader) -> None:
        self.trials: dict[tuple[int, str], list[Row]] = defaultdict(list)
        for row in reader.db.execute(f"SELECT {_TRIAL} FROM capsules ORDER BY round, phase, position"):
            self.trials[row["round"], row["phase"]].append(dict(row))
        self._verdicts = {row["capsule"]: row for row in reader.rows("verdicts", "id")}
        self._texts: dict[int, list[Row]] = defaultdict(list)
        for skill in reader.rows("skills", "number"):
            self._texts[skill["round"]].append(skill)
        self.logged = [(c["round"], c["step"], c["kind"], c["skill"], c["reason"]) for c in reader.rows("changes", "round, step")]
        self._ends = {row["round"]: row for row in reader.rows("rounds", "round")}

    @property
    def ended(self) -> int:
        """Rounds that are over."""
        return sum(now.ended for now in self.rounds)

    @property
    def finished(self) -> bool:
        """Whether all rounds are over."""
        return self.ended == self.policy.rounds

    # ------------------------------------------------------------ playing

    def _play(self) -> None:
        for text in self._texts.get(-1, ()):
            self._put(-1, text, None)
        t = 0
        while t < self.policy.rounds and self._round(t):
            t += 1
        late = {r for r, _ in self.trials} | set(self._texts) | set(self._ends)
        if late and max(late) > t:
            self._doubt(f"round {max(late)}", "rows of it", f"none, since round {t} is not whole")

    def _round(self, t: int) -> bool:
        """Play one round, in the loop's order; return whether the log has all of it."""
        train, evals = self.trials.get((t, TRAIN), []), self.trials.get((t, EVAL), [])
        if not train:
            return False
        now = Round(t, active=len(self.library.shelf))
        self.rounds.append(now)
        if len(train) < len(self.tasks["train"]):
            return False
        self.library.forget()
        self._count(now, train)
        if not self._failures(train):
            return False
        self._note(now, self.library.retire())
        ready = {cluster.name: cluster for cluster in (self.library.ready(t) if t < self.policy.rounds - 1 else ())}
        for text in self._texts.get(t, ()):
            if text["cluster"] not in ready:
                self._doubt(f"round {t}, skill {text['number']}", f"written from {text['cluster']!r}", f"one of {list(ready)}")
            self._note(now, self._put(t, text, ready.get(text["cluster"])))
        now.active = len(self.library.shelf)
        if evals:
            self.pending = 0
        now.attempted, now.passes = sum(c["passed"] is not None for c in evals), sum(c["passed"] or 0 for c in evals)
        now.void += len(evals) - now.attempted
        if len(evals) < len(self.tasks["eval"]):
            return False
        self._roll_back(now)
        now.active = len(self.library.shelf)
        if (end := self._ends.get(t)) is None:
            return False
        for name in ("passes", "attempted", "active"):
            if end[name] != getattr(now, name):
                self._doubt(f"round {t}: {name}", end[name], f"{getattr(now, name)}, as its trials say")
        self.pending, now.ended = 0, True
        return True

    def _count(self, now: Round, train: list[Row]) -> None:
        for capsule in train:
            if capsule["observed"] is None:
                now.void += 1
                continue
            passed, observed = bool(capsule["passed"]), bool(capsule["observed"])
            now.trials += 1
            now.observed_failures += not observed
            now.hidden_failures += observed and not passed
            now.phantom_failures += passed and not observed
            if capsule["skill"] is not None:
                now.routed += 1
                self.library.count(capsule["skill"], observed)
                self.skills[capsule["skill"]].passes += passed

    def _failures(self, train: list[Row]) -> bool:
        """Put observed failures into pools; return whether all have their verdict."""
        for capsule in train:
            if capsule["observed"] != 0:
                continue
            verdict = self._verdicts.get(capsule["id"])
            if verdict is None:
                return False
            cluster = self.library.fail(verdict["pattern"], bool(capsule["passed"]))
            if cluster != verdict["cluster"]:
                self._doubt(f"round {capsule['round']}, {capsule['task']}: cluster", repr(verdict["cluster"]), repr(cluster))
        return True

    def _put(self, t: int, text: Row, source: Cluster | None) -> list[Change]:
        skill = Skill(born=t, **{f.name: text[f.name] for f in fields(Skill) if f.name != "born"})
        if skill.number != self.library.births:
            raise self._error(f"skill {skill.number}", "its number", f"{self.library.births}, the next one")
        self.skills[skill.number] = Past(skill, source, t)
        return self.library.put(skill)

    def _note(self, now: Round, changes: list[Change]) -> None:
        """Take down what the library decided, and who came and left by it."""
        step = self.changes[-1][1] + 1 if self.changes and self.changes[-1][0] == now.round else 0
        for i, change in enumerate(changes):
            self.changes.append((now.round, step + i, change))
            if change.skill is not None:
                self.skills[change.skill].changes.append((now.round, change))
            if change.kind in (RETIRED, EVICTED):
                self._left(now, change, change.reason["n"], change.reason["net"])
            now.retired += change.kind == RETIRED
            now.evicted += change.kind == EVICTED
            now.synthesised += change.kind == WRITTEN
        self.pending = len(changes)

    def _roll_back(self, now: Round) -> None:
        before = {e.number: e for e in self.library.shelf}
        if now.attempted and Fraction(now.passes, now.attempted) > self.library.best:
            self._best_passes = {number: self.skills[number].passes for number in before}
        changes = self.library.roll_back(now.passes, now.attempted)
        self._note(now, changes)
        for change in changes:
            now.rolled_back |= change.kind == FLAGGED and change.reason["flags"] == self.policy.rollback.patience
            if change.skill is None:
                continue
            if change.kind == DROPPED:
                now.dropped += 1
                self._left(now, change, before[change.skill].n, before[change.skill].net)
            elif change.kind == RESTORED:
                past = self.skills[change.skill]
                past.passes = self._best_passes[change.skill]
                if change.reason["back"]:
                    now.restored += 1
                    past.came = now.round

    def _left(self, now: Round, change: Change, n: int, net: int) -> None:
        assert change.skill is not None
        past = self._counted(change.skill, n, net)
        past.stretches.append(Stretch(past.came, now.round, change.kind, n, net, past.passes))

    def _counted(self, number: int, n: int, net: int) -> Past:
        past = self.skills[number]
        past.n, past.net = n, net
        return past

    # ------------------------------------------------------------ doubts

    def _error(self, where: str, got: object, expected: str) -> RunError:
        return RunError(f"{self.path}: {where}", got, expected, TODO)

    def _doubt(self, where: str, got: object, expected: str) -> None:
        self.doubts.append(self._error(where, got, expected))

    def check(self) -> None:
        """Raise RunError at the first decision, or sum, that the log has otherwise than its evidence says."""
        again = [(t, step, c.kind, c.skill, json.dumps(c.reason, sort_keys=True)) for t, step, c in self.changes]
        for mine, logged in zip(again, self.logged, strict=False):
            if mine != logged:
                raise self._error(f"round {logged[0]}, change {logged[1]}", _said(logged), f"{_said(mine)}, as the evidence says")
        if len(again) - len(self.logged) > self.pending:
            t, step, *_ = missing = again[len(self.logged)]
            raise self._error(f"round {t}, change {step}", "nothing", _said(missing))
        if len(self.logged) > len(again):
            t, step, *_ = more = self.logged[len(again)]
            raise self._error(f"round {t}, change {step}", _said(more), "nothing, as the evidence says")
        if self.doubts:
            raise self.doubts[0]


def _said(change: tuple[Any, ...]) -> str:
    _, _, kind, skill, reason = change
    return f"{kind}{'' if skill is None else f' skill {skill}'} {reason}"


# ---------------------------------------------------------------- functions of a log


def recompute(reader: Reader) -> list[tuple[int, int, Change]]:
    """Return the decisions that a fresh library makes of a log's evidence: round, step in it, and change.

    Raises
    ------
    RunError
        The evidence contradicts itself.
    """
    return History(reader).changes


def check(reader: Reader) -> None:
    """Hold a log's decisions to its evidence.

    Raises
    ------
    RunError
        At the first that differs. One that an unfinished run had no time to log is none.
    """
    History(reader).check()


def known_patterns(identity: Row) -> tuple[str, ...]:
    """Return the patterns that a run of this identity knew beforehand: the topics of a scripted world."""
    from real_loop.roles.scripted import topic_name

    return tuple(map(topic_name, range(from_mapping(World, identity["world"], "world").topics))) if "world" in identity else ()


@contextmanager
def snapshot(reader: Reader) -> Iterator[None]:
    """Read a log as it is at one moment, whatever is written meanwhile. May be within another one."""
    if reader.db.in_transaction:
        yield
        return
    try:
        reader.db.execute("BEGIN")
        try:
            yield
        finally:
            reader.db.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        raise InputError(str(reader.path), f"a file that cannot be read as a log ({error})", "an evidence log (SQLite)") from error
