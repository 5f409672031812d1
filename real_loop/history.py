"""A log, read: the run played again from its evidence, and what became of each skill.

The evidence is what was asked of others: outcomes of trials, the critic's verdicts, the texts of skills. From it alone a fresh library
makes the curator's decisions again; that they are those in the log is what :func:`check` says, and that the evidence is what the roles
said (:mod:`real_loop.evidence`). Logs of unfinished runs are read as far
as they go, also while a run writes them. Numbers in the simulator's units are in :mod:`real_loop.measures`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, Final, TypeAlias

from real_loop.library import DROPPED, EVICTED, FLAGGED, RESTORED, RETIRED, WRITTEN, Change, Cluster, Library, Skill
from real_loop.log import Reader, damaged, reading
from real_loop.roles import EVAL, TRAIN
from real_loop.settings import Settings
from sim import curators
from sim.errors import InputError, RunError
from sim.lives import ON_SHELF, Stretch
from sim.model import Cell, Channel, World, from_mapping
from sim.tables import EFFECT_BINS, check_limits

Row: TypeAlias = dict[str, Any]
ADVICE: Final = "the log was changed, or other code wrote it"
_TRIAL: Final = "id, round, phase, task, position, skill, injected, route_call, solve_call, judge_call, passed, observed, reason, tokens"
_UNTOLD: Final = {"sandbox": "limits", "concurrency": 1, "patience": 0.0}  # settings that are no part of an identity


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
    settings, cell
        What the identity says; the cell of scripted roles, else None.
    trials
        Capsules by round and phase, in the order of tasks.
    shelves, ready
        Skills on the shelf when the trials of a round and phase were routed; clusters that skills were to be written from in a round.
    verdicts, texts
        The critic's verdicts, by capsule; rows of skills, by round.
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
        It is a log of something else: of probes; or damaged.
    RunError
        The evidence contradicts itself, so that it cannot be played.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader, self.path, self.identity = reader, reader.path, reader.identity
        if "policy" not in self.identity:
            raise InputError(str(self.path), "a log of no run", "one of python -m real_loop, with a library in it")
        self.settings, self.cell = understood(self.path, self.identity)
        s, self.policy, self._known = self.settings, self.settings.policy, known_patterns(self.identity)
        self.tasks: dict[str, list[str]] = self.identity["tasks"]
        self.library = Library(s.policy, s.writing, len(self.tasks[TRAIN]), s.seed, s.run, self._known)
        self.changes: list[tuple[int, int, Change]] = []
        self.pending = 0
        self.rounds: list[Round] = []
        self.skills: dict[int, Past] = {}
        self.doubts: list[RunError] = []
        self.shelves: dict[tuple[int, str], tuple[Skill, ...]] = {}
        self.ready: dict[int, list[Cluster]] = {}
        self._best_passes: dict[int, int] = {}
        with snapshot(reader):
            self._load(reader)
        try:
            self._play()
        except (KeyError, StopIteration, IndexError) as error:
            raise self.error("evidence", f"{type(error).__name__} ({error}) when played again", "trials of skills on the shelf") from error
        for entry in self.library.shelf:
            past = self._counted(entry.number, entry.n, entry.net)
            past.stretches.append(Stretch(past.came, None, ON_SHELF, entry.n, entry.net, past.passes))

    def _load(self, reader: Reader) -> None:
        self.trials: dict[tuple[int, str], list[Row]] = defaultdict(list)
        places = {(phase, task): i for phase in (TRAIN, EVAL) for i, task in enumerate(self.tasks[phase])}
        for row in map(dict, reader.db.execute(f"SELECT {_TRIAL} FROM capsules ORDER BY round, phase, position")):
            place = places.get((row["phase"], row["task"]))
            if place is None:
                self._doubt(f"{_at(row)}", "a trial", "none: the run has no such task")
                continue
            if row["position"] != place:
                self._doubt(f"{_at(row)}: position", row["position"], f"{place}, the place of its task")
            self._outcome(row)
            self.trials[row["round"], row["phase"]].append(row)
        for rows in self.trials.values():
            rows.sort(key=lambda row: places[row["phase"], row["task"]])
        self.verdicts = {row["capsule"]: row for row in reader.rows("verdicts", "id")}
        failed = {row["id"]: row for (_, phase), rows in self.trials.items() for row in rows if phase == TRAIN and row["observed"] == 0}
        for verdict in self.verdicts.values():
            capsule = failed.get(verdict["capsule"])
            if capsule is None or capsule["round"] != verdict["round"]:
                where = f"round {verdict['round']}, verdict on capsule {verdict['capsule']}"
                self._doubt(where, "one", "none, since it is no failure observed in that round")
        self.texts: dict[int, list[Row]] = defaultdict(list)
        for skill in reader.rows("skills", "number"):
            self.texts[skill["round"]].append(skill)
        self.logged = [(c["round"], c["step"], c["kind"], c["skill"], c["reason"]) for c in reader.rows("changes", "round, step")]
        self._ends = {row["round"]: row for row in reader.rows("rounds", "round")}

    def _outcome(self, row: Row) -> None:
        """Doubt an outcome that no trial can have."""
        passed, observed = row["passed"], row["observed"]
        for name in ("passed", "observed"):
            if row[name] not in (0, 1, None):
                self._doubt(f"{_at(row)}: {name}", row[name], "0, 1 or nothing")
        if row["phase"] == EVAL and observed is not None:
            self._doubt(f"{_at(row)}: observed", observed, "nothing: what an eval shows is not reported")
        if row["phase"] == TRAIN and (passed is None) != (observed is None):
            self._doubt(f"{_at(row)}: observed", observed, f"an outcome where there is a true one, and passed is {passed}")
        injected = int(row["skill"] is not None and self.settings.roles.mode != "withheld")
        if row["injected"] != injected:
            self._doubt(f"{_at(row)}: injected", row["injected"], str(injected))

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
        for text in self.texts.get(-1, ()):
            self._put(-1, text, None)
        t = 0
        while t < self.policy.rounds and self._round(t):
            t += 1
        late = {r for r, _ in self.trials} | set(self.texts) | set(self._ends)
        if late and max(late) > t:
            self._doubt(f"round {max(late)}", "rows of it", f"none, since round {t} is not whole")

    def _round(self, t: int) -> bool:
        """Play one round, in the loop's order; return whether the log has all of it."""
        train, evals = self.trials.get((t, TRAIN), []), self.trials.get((t, EVAL), [])
        texts, end = self.texts.get(t, []), self._ends.get(t)
        later = bool(texts or evals or end)
        if not train:
            return self._stops(t, "train trials", later)
        self.shelves[t, TRAIN] = tuple(entry.skill for entry in self.library.shelf)
        now = Round(t, active=len(self.library.shelf))
        self.rounds.append(now)
        if len(train) < len(self.tasks[TRAIN]):
            return self._stops(t, "train trials", later or any(row["id"] in self.verdicts for row in train))
        self.library.forget()
        self._count(now, train)
        if not self._failures(train):
            return self._stops(t, "verdicts", later)
        self._note(now, self.library.retire())
        self.ready[t] = self.library.ready(t) if t < self.policy.rounds - 1 else []
        ready = {cluster.name: cluster for cluster in self.ready[t]}
        sources = [text["cluster"] for text in texts]
        if sources != (order := [name for name in ready if name in sources]):
            self._doubt(f"round {t}", f"skills from {sources}", f"{order}, the largest cluster first, each once")
        for text in texts:
            if text["cluster"] not in ready:
                self._doubt(f"round {t}, skill {text['number']}", f"written from {text['cluster']!r}", f"one of {list(ready)}")
            self._note(now, self._put(t, text, ready.get(text["cluster"])))
        now.active = len(self.library.shelf)
        self.shelves[t, EVAL] = tuple(entry.skill for entry in self.library.shelf)
        if evals:
            self.pending = 0
        now.attempted, now.passes = sum(c["passed"] is not None for c in evals), sum(c["passed"] or 0 for c in evals)
        now.void += len(evals) - now.attempted
        if len(evals) < len(self.tasks[EVAL]):
            return self._stops(t, "eval tasks", end is not None)
        self._roll_back(now)
        now.active = len(self.library.shelf)
        if end is None:
            return False
        for name in ("passes", "attempted", "active"):
            if end[name] != getattr(now, name):
                self._doubt(f"round {t}: {name}", end[name], f"{getattr(now, name)}, as its trials say")
        self.pending, now.ended = 0, True
        return True

    def _stops(self, t: int, what: str, later: bool) -> bool:
        """Return that the log stops here, so that nothing can be there which comes later in a round."""
        if later:
            self._doubt(f"round {t}", "rows of later steps", f"none, since its {what} are not all there")
        return False

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
        failed = [capsule for capsule in train if capsule["observed"] == 0]
        for i, capsule in enumerate(failed):
            verdict = self.verdicts.get(capsule["id"])
            if verdict is None:
                later = any(other["id"] in self.verdicts for other in failed[i:])
                return self._stops(capsule["round"], f"verdicts up to {capsule['task']}", later)
            cluster = self.library.fail(verdict["pattern"], bool(capsule["passed"]))
            if cluster != verdict["cluster"]:
                self._doubt(f"round {capsule['round']}, {capsule['task']}: cluster", repr(verdict["cluster"]), repr(cluster))
        return True

    def _put(self, t: int, text: Row, source: Cluster | None) -> list[Change]:
        skill = Skill(born=t, **{f.name: text[f.name] for f in fields(Skill) if f.name != "born"})
        if skill.number != self.library.births:
            raise self.error(f"skill {skill.number}", "its number", f"{self.library.births}, the next one")
        if self.cell is not None:
            row = re.fullmatch(r"row (\d{1,9}): .*", skill.insight)
            if row is None or int(row[1]) >= 2 * EFFECT_BINS or skill.cluster not in self._known:
                got = f"{skill.insight[:40]!r} from {skill.cluster[:40]!r}"
                raise self.error(f"skill {skill.number}", got, "a skill of a scripted world: its topic, and its row of the pass table")
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

    def error(self, where: str, got: object, expected: str) -> RunError:
        return RunError(f"{self.path}: {where}", got, expected, ADVICE)

    def _doubt(self, where: str, got: object, expected: str) -> None:
        self.doubts.append(self.error(where, got, expected))

    def check(self) -> None:
        """Raise RunError at the first decision, sum or evidence that the log has otherwise than it must be."""
        again = [(t, step, c.kind, c.skill, json.dumps(c.reason, sort_keys=True)) for t, step, c in self.changes]
        for mine, logged in zip(again, self.logged, strict=False):
            if mine != logged:
                raise self.error(f"round {logged[0]}, change {logged[1]}", _said(logged), f"{_said(mine)}, as the evidence says")
        if len(again) - len(self.logged) > self.pending:
            t, step, *_ = missing = again[len(self.logged)]
            raise self.error(f"round {t}, change {step}", "nothing", _said(missing))
        if len(self.logged) > len(again):
            t, step, *_ = more = self.logged[len(again)]
            raise self.error(f"round {t}, change {step}", _said(more), "nothing, as the evidence says")
        if self.doubts:
            raise self.doubts[0]
        from real_loop.evidence import check as hold

        with snapshot(self.reader):
            hold(self)


def _at(row: Row) -> str:
    return f"round {row['round']}, {row['phase'][:20]} {row['task'][:60]}"


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
    """Hold a log's decisions to its evidence, and its evidence to what the roles said (:func:`real_loop.evidence.check`).

    Raises
    ------
    RunError
        At the first that differs. One that an unfinished run had no time to log is none.
    """
    History(reader).check()


def understood(path: Any, identity: Row) -> tuple[Settings, Cell | None]:
    """Return the settings that an identity tells of, and the cell that its scripted roles followed.

    Raises
    ------
    InputError
        It is damaged: settings are missing, or none that a run can have.
    """
    names = {item.name for item in fields(Settings)}
    try:
        settings = from_mapping(Settings, {**_UNTOLD, **{k: v for k, v in identity.items() if k in names}})
        world = from_mapping(World, identity["world"], "world") if "world" in identity else None
        curators.check(settings.policy)
        cell = None
        if world is not None:
            r = settings.reward
            cell = Cell(world, replace(settings.policy, sampled_eval=True), Channel(r.rho_fp, r.rho_pf, r.spread, r.unit))
            check_limits(cell)
    except InputError as error:
        if error.what == "policy.curator":
            todo = "read it where the run was made, with the curator as it was then"
            raise InputError(str(path), f"a log under a curator that is not here, {error.got}", "one that is", todo) from None
        raise damaged(path, f"identity: {error.what}: {error.got}") from None
    if (world is None) != (settings.scripted is None):
        raise damaged(path, "identity: a scripted model has a world, and no other model has one")
    tasks = identity.get("tasks")
    for phase in (TRAIN, EVAL):
        named = tasks.get(phase) if isinstance(tasks, dict) else None
        if not isinstance(named, list) or not named or not all(isinstance(t, str) for t in named) or len(set(named)) < len(named):
            raise damaged(path, f"identity: tasks.{phase} is no list of tasks, each once")
    return settings, cell


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
    with reading(reader.path):
        reader.db.execute("BEGIN")
        try:
            yield
        finally:
            reader.db.execute("COMMIT")
