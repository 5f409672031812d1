"""``python -m real_loop.replay``: a finished log read again with another sensor or another policy: which skills would have been retired.

What is played are the logged trials in the logged order. A library with the policy asked for is fed what the sensor asked for would have
reported of them; skills come when they came in the log. A skill that the policy removes is gone from then on; one that it keeps though it
left the log has no trials any more, so it ends there, *censored*. So a skill is retired or not by its own logged trials, up to the moment
it left the log, whatever lever 1 makes of the others: that is what a replay can answer, and why there is one way of playing and not a
second one that stops where the two part. Lever 2 compares the skills of a shelf: it looks at those that are on both.

It cannot say what would have happened instead. A skill retired here but not there would have freed its tasks for others; one kept here
would have gone on getting trials; another shelf is routed otherwise; and failures seen otherwise would have written other skills. So
decisions are counted: a decision is a skill looked at by lever 1 in a round, or a skill put on the shelf (lever 2: who makes room).
All that lever 1 decides in a round is decided on the same trials. *On the path* are the decisions before the step in which one first
differs from the log's (that one's round and skill are told: up to there the curator would have done the same); *as it would have been*
are those of them that come before any failure is seen otherwise as well, from which other skills would have been written: what they
say, a run with this sensor and policy would have done. Rollbacks go by true evals, which no sensor touches: they happen as logged, and
put back counters as the replay had them.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, Final

from real_loop.history import History, snapshot
from real_loop.library import DROPPED, EVICTED, RESTORED, RETIRED, WRITTEN, Entry, Library
from real_loop.log import Reader
from real_loop.roles import EVAL, TRAIN
from real_loop.sensors import Sensor, channel, logged, verdicts
from real_loop.settings import Reward
from sim import curators
from sim.errors import InputError
from sim.lives import ON_SHELF, Stretch
from sim.model import Policy
from sim.params import from_mapping, to_mapping
from sim.report import Progress, folder, guarded

HELP: Final = """\
Read a finished log again with another sensor or another policy: which skills would have been retired, when, and which wrongly.

usage: python -m real_loop.replay LOG [reward=NAME rates | verdicts=FILE] [tau= n_min= cap= curator=] [out=FOLDER] [key=value ...]

  python -m real_loop.replay LOG                               as it was: the same retirements again, and which of them were wrong
  python -m real_loop.replay LOG reward=bias q=0,0.2,0.45,0.7  a row for each rate
  python -m real_loop.replay LOG n_min=12,24 tau=0,0.1,0.2     another policy; every combination
  python -m real_loop.replay LOG reward=general rho_fp=0.3 rho_pf=0.1 spread=0.2 unit=task seed=1,2,3
  python -m real_loop.replay LOG verdicts=judge.csv            what a judge said of the logged answers: columns round, task, verdict
  python -m real_loop.replay LOG verdicts=OTHER                the same, from the log of a run that asked a judge about these answers

LOG is the folder of a run, or the log in it. What is not given is as in the log.
  reward=clean | noise | bias | general    with rho=; q=; rho_fp= and rho_pf=; any with spread= and unit=task | topic
  seed=, run=                              key of the flips; by default the log's, with which its own channel flips as it did
  tau=, n_min=, cap=, curator=, policy.*   the policy, but for its rounds and its rollback, which the log's evals decide
  unfinished=yes                           of a run that is not over: as far as it goes
  out=FOLDER                               also write replay.md, replay.json and, unless figures=no, a figure

Trials after a decision that differs from the log's are counterfactual. Each skill is judged by its own logged trials up to the moment it
left the log (then it is censored), and the decisions that come before the first other one are counted.
"""
RATES: Final = ("q", "rho", "rho_fp", "rho_pf")
POLICY: Final = ("tau", "n_min", "cap", "curator")
OWN: Final = ("reward", *RATES, "spread", "unit", "seed", "run", "verdicts", *POLICY, "unfinished", "out", "figures")
ALIKE: Final = {"reward.spread": "spread", "reward.unit": "unit"} | {f"policy.{name}": name for name in POLICY}
MOST: Final = 500  # conditions
REFUSED: Final = "refused"  # by a full shelf
CENSORED: Final = "censored"  # kept here, while it left the log
FIXED: Final = ("rounds", "window", "sampled_eval", "rollback")


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 1 a log that contradicts itself, 130 stopped."""
    return guarded(_main, args)


# ---------------------------------------------------------------- playing


@dataclass(frozen=True)
class Divergence:
    """Where a replay parts from its log: a skill that one of them removes, or a round's failures seen otherwise (``skill`` is None)."""

    round: int
    skill: int | None
    what: str

    def __str__(self) -> str:
        return f"round {self.round}: {'' if self.skill is None else f'skill {self.skill} '}{self.what}"


@dataclass
class Replay:
    """A log, played again with a sensor and a policy.

    Attributes
    ----------
    sensor, policy
        With which.
    stretches
        Times on the shelf of each skill, by number; ``how`` may be CENSORED. ``n``, ``net`` and ``passes`` at the end are as replayed.
    decisions
        Of the log's curator: a skill looked at by lever 1 in a round, a skill put on the shelf.
    on_path
        Those before the step in which one first differs.
    as_run
        Those of them before any failure is seen otherwise, too: a run with this sensor and policy would have decided so.
    first, seen
        The first other decision, and the first round whose failures are seen otherwise; None where there is none.
    """

    sensor: Sensor
    policy: Policy
    stretches: dict[int, list[Stretch]] = field(default_factory=dict)
    decisions: int = 0
    on_path: int = 0
    as_run: int = 0
    first: Divergence | None = None
    seen: Divergence | None = None

    def ended(self, how: str) -> list[tuple[int, Stretch]]:
        """Return the stretches that ended so, with the numbers of their skills, in order of birth."""
        return [(number, s) for number, found in sorted(self.stretches.items()) for s in found if s.how == how]


def play(history: History, sensor: Sensor | None = None, policy: Policy | None = None) -> Replay:
    """Play a log with a sensor and a policy; by default with its own, which ends as the log did.

    Parameters
    ----------
    history
        The log. Of a run that is not over it is played as far as it goes.
    sensor
        Over its train trials (:mod:`real_loop.sensors`).
    policy
        With its rounds and its rollback.

    Raises
    ------
    InputError
        The curator does not exist, or cannot work with these parameters.
    """
    curators.check(policy or history.policy)
    return _Player(history, sensor or logged(history), policy or history.policy).played()


class _Player:
    """One replay under way. Its shelf is always a part of the logged one."""

    def __init__(self, history: History, sensor: Sensor, policy: Policy) -> None:
        s = history.settings
        self.history, self.reports, self.out = history, sensor.reports, Replay(sensor, policy)
        self.library = Library(policy, s.writing, len(history.tasks[TRAIN]), s.seed, s.run)
        self.library.patterns = history.library.patterns  # of what skills were written from: only looked up
        self.came, self.passes, self.best_passes = dict[int, int](), Counter[int](), dict[int, int]()
        self.retired, self.evicted = (
            defaultdict[int, set[int]](set),
            dict[int, set[int]](),
        )  # there: by round; by the skill put in their place
        out = set[int]()
        for t, _, change in history.changes:
            if change.skill is None:
                continue
            if change.kind == RETIRED:
                self.retired[t].add(change.skill)
            elif change.kind == EVICTED:
                out.add(change.skill)
            elif change.kind == WRITTEN:
                self.evicted[change.skill], out = out, set()

    def played(self) -> Replay:
        """Play all that the log has."""
        self._put(-1)
        for now in self.history.rounds:
            self.library.forget()  # a round begins; there are no pools here
            t, otherwise = now.round, self._count(now.round) if now.trials else 0
            decided = (t, EVAL) in self.history.shelves  # else the log stops before
            if decided:
                self._retire(t)
            if otherwise and self.out.seen is None:
                self.out.seen = Divergence(t, None, f"{otherwise} trials are seen otherwise")
            if decided:
                self._put(t)
            if now.ended or len(self.history.trials.get((t, EVAL), ())) == len(self.history.tasks[EVAL]):
                self._roll_back(t, now.passes, now.attempted)
        for entry in self.library.shelf:
            self._end(entry, None, ON_SHELF)
        return self.out

    def _count(self, t: int) -> int:
        """Count a round's trials; return how many are seen otherwise than they were."""
        shelf, otherwise = {entry.number for entry in self.library.shelf}, 0
        for row in self.history.trials[t, TRAIN]:
            if row["observed"] is None:
                continue
            said = self.reports[row["id"]]
            otherwise += (said is False) != (row["observed"] == 0)
            if said is not None and row["skill"] in shelf:
                self.library.count(row["skill"], said)
                self.passes[row["skill"]] += row["passed"]
        return otherwise

    def _retire(self, t: int) -> None:
        """Lever 1."""
        before = self._shelf()
        self.library.retire()
        here = before.keys() - self._shelf().keys()
        for number in sorted(here):
            self._end(before[number], t, RETIRED)
        self._decided(t, len(self.history.shelves[t, TRAIN]), here, self.retired[t], RETIRED)
        self._censor(t, self.retired[t])

    def _put(self, t: int) -> None:
        """Let the skills of a round come, and lever 2 make room for them."""
        for row in self.history.texts.get(t, ()):
            number, before = row["number"], self._shelf()
            self.out.stretches[number], self.came[number] = [], t
            if self.library.rule.refuses and len(before) >= self.library.policy.cap:
                self._decided(t, 1, {number}, set(), REFUSED)
                self._censor(t, self.evicted.get(number, set()))
                continue
            self.library.put(self.history.skills[number].skill)
            here = before.keys() - self._shelf().keys()
            for gone in here:
                self._end(before[gone], t, EVICTED)
            there = self.evicted.get(number, set())  # the log notes nobody's coming to the shelf that it began with
            self._decided(t, 1, here, there, EVICTED)
            self._censor(t, there)

    def _roll_back(self, t: int, passes: int, attempted: int) -> None:
        before = self._shelf()
        if attempted and Fraction(passes, attempted) > self.library.best:
            self.best_passes = {number: self.passes[number] for number in before}
        for change in self.library.roll_back(passes, attempted):
            if change.kind == DROPPED and change.skill is not None:
                self._end(before[change.skill], t, DROPPED)
            elif change.kind == RESTORED and change.skill is not None:
                self.passes[change.skill] = self.best_passes[change.skill]
                if change.skill not in before:
                    self.came[change.skill] = t

    # ------------------------------------------------------------ notes

    def _shelf(self) -> dict[int, Entry]:
        return {entry.number: entry for entry in self.library.shelf}

    def _end(self, entry: Entry, t: int | None, how: str) -> None:
        number = entry.number
        self.out.stretches[number].append(Stretch(self.came[number], t, how, entry.n, entry.net, self.passes[number]))

    def _censor(self, t: int, left: set[int]) -> None:
        """Let go who left the log."""
        for entry in self.library.shelf:
            if entry.number in left:
                self._end(entry, t, CENSORED)
        self.library.shelf = [entry for entry in self.library.shelf if entry.number not in left]

    def _decided(self, t: int, number: int, here: Collection[int], there: Collection[int], how: str) -> None:
        """Count the decisions of a step, and note whether it is as logged."""
        out = self.out
        out.decisions += number
        if out.first is not None:
            return
        if other := sorted(set(here) ^ set(there)):
            what = f"{how} here, kept there" if other[0] in here else f"{how} there, kept here"
            out.first = Divergence(t, other[0], what)
            return
        out.on_path += number
        out.as_run += number if out.seen is None else 0


def check(history: History) -> None:
    """See that a log, played with its own sensor and policy, ends as it did: each skill's times on the shelf, counters and all.

    Raises
    ------
    RunError
        It does not.
    """
    replay = play(history)
    for number, past in history.skills.items():
        if replay.stretches[number] != past.stretches:
            raise history.error(f"skill {number}", f"{replay.stretches[number]} when replayed", str(past.stretches))
    if replay.first is not None or replay.as_run != replay.decisions:
        raise history.error(str(replay.first), f"{replay.as_run} of {replay.decisions} decisions when replayed", "all of them")


# ---------------------------------------------------------------- the command


@dataclass(frozen=True)
class Condition:
    """What a row of the table is: the values asked for, and the sensor and the policy they make."""

    values: dict[str, Any]
    sensor: Sensor
    policy: Policy


def _main(args: list[str]) -> int:
    if {"--help", "-h"} & set(args):
        print(HELP, end="")
        return 0
    from real_loop import replay_report
    from real_loop.worth import probed, worth

    log, given = _given(args)
    with Progress("replay") as progress, closing(Reader(log)) as reader, snapshot(reader):
        progress.note("reading the log")
        history = History(reader)
        history.check()
        _played(history, given.pop("unfinished", False))
        check(history)
        out, figures = given.pop("out", None), given.pop("figures", True)
        if not isinstance(figures, bool):
            raise InputError("figures", repr(figures), "yes or no")
        if out is not None and not str(out).strip():
            raise InputError("out", "nothing", "a folder")
        place = folder(Path(out).expanduser()) if out is not None else None
        asked, found = conditions(history, given), []
        progress.start(len(asked), unit="conditions")
        for condition in asked:
            found.append((condition.values, play(history, condition.sensor, condition.policy)))
            progress.advance(1, True)
        probes = probed(history)
        report = replay_report.report(history, found, worth(history, probes[0] if probes else None), probes[1] if probes else None)
    replay_report.say(report)
    if place is not None:
        with Progress("replay") as progress:
            progress.note("writing")
            files = replay_report.write(report, place, figures)
        for file in files:
            print(file)
    return 0


def _played(history: History, unfinished: Any) -> None:
    if not isinstance(unfinished, bool):
        raise InputError("unfinished", repr(unfinished), "yes or no")
    if not history.finished and not unfinished:
        got = f"a run that is not over ({history.ended} of {history.policy.rounds} rounds)"
        raise InputError(str(history.path), got, "a finished run", "finish it, or read it as far as it goes: unfinished=yes")
    if not history.rounds:
        raise InputError(str(history.path), "a run without a trial", "at least one round", "go on with the run")


def _given(args: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the log and the values of the keys, by their short names."""
    from real_loop.config import read_args

    if flags := [a for a in args if a.startswith("-")]:
        raise InputError(flags[0], "an unknown option", "LOG and key=value", "see python -m real_loop.replay --help")
    logs = [a for a in args if "=" not in a or "/" in a.partition("=")[0]]
    if len(logs) != 1:
        raise InputError("LOG", ", ".join(logs) or "none", "one folder of a run, or the log in it", "see python -m real_loop.replay --help")
    given, rest = dict[str, Any](), [a for a in args if a not in logs]
    for key, value in [*read_args([a for a in rest if not a.startswith("verdicts=")]).items(), *(_texts(rest))]:
        name = ALIKE.get(key, key)
        if name not in OWN and not name.startswith("policy."):
            near = difflib.get_close_matches(name, OWN, n=1)
            raise InputError(key, "an unknown key", "one of " + ", ".join(OWN), f"did you mean {near[0]}?" if near else "")
        if name.startswith("policy.") and name.split(".")[1] in FIXED:
            todo = "its rounds are those of the log, and its rollback goes by the log's evals"
            raise InputError(key, "a key that a replay cannot change", "one of " + ", ".join(POLICY), todo)
        if name in given:
            raise InputError(key, "two values", "one, or several separated by commas")
        given[name] = value
    return logs[0], given


def _texts(args: list[str]) -> list[tuple[str, str]]:
    """Return what is a file's name as it is, though it may look like a number."""
    found = [("verdicts", a.partition("=")[2]) for a in args if a.startswith("verdicts=")]
    if any(not file for _, file in found):
        raise InputError("verdicts", "nothing", "a CSV file, or a log")
    return found


def _several(key: str, value: Any) -> list[Any]:
    """Return the values that are given for a key: ``0,0.2`` and ``[0, 0.2]`` are two."""
    import yaml

    values = value
    if isinstance(value, str):
        try:
            values = [yaml.safe_load(part) for part in value.split(",")]
        except yaml.YAMLError:
            raise InputError(key, repr(value), "values separated by commas") from None
    values = values if isinstance(values, list) else [values]
    if not values or None in values or any(values.count(v) > 1 for v in values):
        raise InputError(key, repr(value), "one value, or several different ones separated by commas")
    return values


def conditions(history: History, given: Mapping[str, Any]) -> list[Condition]:
    """Return every combination of the values given, as sensors and policies over a log; at least one.

    Parameters
    ----------
    history
        The log; its reader is open where verdicts are asked for.
    given
        Values, or several separated by commas, of ``reward`` (one), its rates, ``spread``, ``unit`` (one), ``seed``, ``run``, ``verdicts``
        (one), ``tau``, ``n_min``, ``cap``, ``curator`` and other keys as ``policy.NAME``.

    Raises
    ------
    InputError
        One of them is none, or two of them do not go together.
    """
    reward = _reward(given)
    swept = {key: _several(key, value) for key, value in given.items() if key not in ("reward", "unit", "verdicts")}
    if (number := prod(map(len, swept.values()))) > MOST:
        raise InputError(", ".join(swept), f"{number} combinations", f"at most {MOST}")
    own, heard = logged(history), verdicts(history, given["verdicts"]) if "verdicts" in given else None
    sensors, out = dict[str, Sensor](), list[Condition]()
    for values in (dict(zip(swept, row, strict=True)) for row in itertools.product(*swept.values())):
        policy = _policy(history, values)
        sensor = heard or own
        if reward is not None:
            flips = {key: value for key, value in values.items() if key in (*RATES, "spread", "seed", "run")}
            if repr(flips) not in sensors:
                sensors[repr(flips)] = _flipped(history, reward, flips, given.get("unit"))
            sensor = sensors[repr(flips)]
        shown = {key: given[key] for key in ("reward", "verdicts") if key in given}
        out.append(Condition({**shown, **values, **({"unit": given["unit"]} if "unit" in given else {})}, sensor, policy))
    return out


def _reward(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the preset of the channel that is asked for, after a look at what goes with it."""
    from real_loop.config import choices, read_yaml

    presets = {name: read_yaml(file) for name, file in choices("reward").items()}
    known = ", ".join(name for name, preset in presets.items() if preset.get("kind") == "channel")
    keys = [key for key in (*RATES, "spread", "unit", "seed", "run") if key in given]
    if "verdicts" in given and ("reward" in given or keys):
        raise InputError("verdicts", f"a file, and {('reward', *keys)[-1]}", "one sensor", "leave one of them out")
    if "reward" not in given:
        if keys:
            raise InputError(keys[0], repr(given[keys[0]]), "a reward with it", f"say reward=NAME, one of {known}")
        return None
    name = given["reward"]
    if name == "judge":
        raise InputError("reward", "judge", f"one of {known}", "a replay asks no model: give what a judge said, verdicts=FILE")
    if not isinstance(name, str) or presets.get(name, {}).get("kind") != "channel":
        raise InputError("reward", repr(name), f"one of {known}", "a reward at a time; its rates can have several values")
    used = re.findall(r"\$\{(\w+)\}", str(presets[name]))
    for rate in RATES:
        if rate in given and rate not in used:
            takes = f"{', '.join(used)}, which reward={name} takes" if used else f"no rate: reward={name} takes none"
            raise InputError(rate, repr(given[rate]), takes, "say reward=bias with q, noise with rho, or general with rho_fp and rho_pf")
    return presets[name]


def _flipped(history: History, preset: Mapping[str, Any], values: Mapping[str, Any], unit: Any) -> Sensor:
    from real_loop.config import CONF, read_yaml

    for rate in (rate for rate in RATES if rate in values):
        if isinstance(values[rate], bool) or not isinstance(values[rate], int | float) or not 0 <= values[rate] <= 1:
            raise InputError(rate, repr(values[rate]), "a probability, from 0 to 1")
    for key, most in (("seed", 2**32 - 1), ("run", 2**31 - 1)):
        if key in values and (isinstance(values[key], bool) or not isinstance(values[key], int) or not 0 <= values[key] <= most):
            raise InputError(key, repr(values[key]), f"a whole number from 0 to {most}")
    rates = {**read_yaml(CONF / "config.yaml"), **values}
    filled = {key: rates[value[2:-1]] if str(value).startswith("${") else value for key, value in preset.items()}
    filled |= {"spread": values["spread"]} if "spread" in values else {}
    filled |= {"unit": unit} if unit is not None else {}
    s = history.settings
    return channel(history, from_mapping(Reward, filled, "reward"), values.get("seed", s.seed), values.get("run", s.run))


def _policy(history: History, values: Mapping[str, Any]) -> Policy:
    from real_loop.config import flat, tree

    asked = {key.removeprefix("policy."): value for key, value in values.items() if key in POLICY or key.startswith("policy.")}
    own = flat(to_mapping(history.policy))
    if asked.get("curator", history.policy.curator) != history.policy.curator:  # the parameters of the log's rule go with it
        own = {key: value for key, value in own.items() if not key.startswith(f"{curators.find(history.policy.curator).key}.")}
    policy = curators.filled(from_mapping(Policy, tree({**own, **asked}), "policy"))
    curators.check(policy)
    return policy


if __name__ == "__main__":
    from sim.__main__ import started

    started("real_loop.replay")
