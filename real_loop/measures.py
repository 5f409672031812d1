"""The numbers of a run, by the simulator's names and in its units, so that the two can be laid side by side.

What the simulator knows and a log does not is missing: expected evals, and without a scripted world what a skill truly does. An eval
here is of one attempt per task (``tail_sampled``), its rate that of the tasks that had an outcome, and its error the standard deviation
of the posterior under Jeffreys' prior (:func:`error`). Of an unfinished run the numbers are those so far, and nan where rounds are
missing that they are a mean of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from real_loop.history import History, Round, snapshot
from real_loop.library import RETIRED, Skill
from real_loop.log import Log, Reader
from real_loop.roles import TRAIN
from real_loop.suites import violations_of
from sim.lives import ON_SHELF, Life
from sim.model import World, from_mapping

NAN: Final = float("nan")
# Of a round beside the simulator's series.
MORE: Final = ("passes", "attempted", "routed", "trials", "hidden_failures", "phantom_failures", "restored", "dropped", "void")


class Truth:
    """What the skills of a scripted world truly do: their texts say it."""

    def __init__(self, world: World) -> None:
        from sim.tables import effects

        self._sizes = effects(world)

    @classmethod
    def of(cls, identity: Mapping[str, Any]) -> Truth | None:
        """Return what is known of a run's skills; None unless its roles were scripted."""
        return cls(from_mapping(World, identity["world"], "world")) if "world" in identity else None

    def effect(self, skill: Skill) -> float:
        """Return the on-topic effect, logit."""
        from real_loop.roles.scripted import known

        return float(self._sizes[known(skill).row])

    def spurious(self, skill: Skill) -> bool:
        """Whether it was written from phantom failures."""
        from real_loop.roles.scripted import known
        from sim.tables import EFFECT_BINS

        return known(skill).row >= EFFECT_BINS


def lives(log: Reader | History) -> list[Life]:
    """Return the life of each skill, in order of birth, in the simulator's form.

    ``topic`` is the place of its cluster among all patterns seen. What a skill truly does is known of scripted roles only: else
    ``effect`` is nan and ``spurious`` False.

    Raises
    ------
    RunError
        The evidence of the log contradicts itself.
    """
    history = _read(log)
    truth = Truth.of(history.identity)
    found = []
    for number, past in sorted(history.skills.items()):
        effect, spurious = (truth.effect(past.skill), truth.spurious(past.skill)) if truth else (NAN, False)
        order = history.library.patterns.order(past.skill.cluster)
        found.append(Life(number, order, effect, spurious, tuple(past.stretches)))
    return found


def series(log: Reader | History) -> dict[str, np.ndarray]:
    """Return numbers by round, of the rounds that are over.

    Returns
    -------
    dict
        Arrays of shape (rounds,): ``round``; the simulator's ``eval`` (pass rate over the tasks that had an outcome; nan if none had),
        ``active``, ``retired``, ``evicted``, ``synthesised``, ``observed_failures``; ``eval_se`` (:func:`error`); the counts in MORE.
    """
    rounds = [now for now in _read(log).rounds if now.ended]
    plain = ("round", "active", "retired", "evicted", "synthesised", "observed_failures", *MORE)
    out: dict[str, np.ndarray] = {name: np.array([getattr(now, name) for now in rounds], np.int64) for name in plain}
    out["eval"] = out["passes"] / np.where(out["attempted"] > 0, out["attempted"], np.nan)
    out["eval_se"] = np.array([error(now.passes, now.attempted) for now in rounds])
    return out


def error(passes: int, of: int) -> float:
    """Return the error of a pass rate: the standard deviation of its posterior under Jeffreys' prior; nan of no task.

    Unlike the binomial standard error it is not zero where none or all passed: 0.06 of 10 tasks.
    """
    if not of:
        return NAN
    p = (passes + 0.5) / (of + 1)
    return float((p * (1 - p) / (of + 2)) ** 0.5)


def metrics(log: Reader | History) -> dict[str, float]:
    """Return the run's variables, by the names and in the units of :data:`sim.variables.VARIABLES`.

    ``harmful_final`` and ``wrongly_retired`` are there for scripted roles only.
    """
    history = _read(log)
    rounds, policy = history.rounds, history.policy
    counted = [now for now in rounds if now.trials]
    trials = sum(now.trials for now in counted)
    flips = sum(now.hidden_failures + now.phantom_failures for now in counted)
    over = [now for now in rounds if now.ended]
    retired = [change.reason["n"] for _, _, change in history.changes if change.kind == RETIRED]
    out = {
        "tail_sampled": _rate([now for now in over if now.round >= policy.rounds - policy.window], policy.window),
        "first_sampled": _rate([now for now in over if now.round < policy.window], policy.window),
        "peak_sampled": max((_rate([now], 1) for now in over if now.attempted), default=NAN),
        "synthesised": _sum(rounds, "synthesised"),
        "retired": _sum(rounds, "retired"),
        "evicted": _sum(rounds, "evicted"),
        "deprecated": _sum(rounds, "retired") + _sum(rounds, "evicted"),
        "rollbacks": _sum(rounds, "rolled_back"),
        "restored": _sum(rounds, "restored"),
        "dropped": _sum(rounds, "dropped"),
        "divergence": flips / trials if trials else NAN,
        "observed_failures": _per(counted, "observed_failures"),
        "hidden_failures": _per(counted, "hidden_failures"),
        "phantom_failures": _per(counted, "phantom_failures"),
        "routed": _sum(counted, "routed") / trials if trials else NAN,
        "active_final": float(len(history.library.shelf)),
        "retire_trials": sum(retired) / len(retired) if retired else NAN,
    }
    if Truth.of(history.identity):
        found = lives(history)
        out["harmful_final"] = float(sum(life.how == ON_SHELF and life.effect < 0 for life in found))
        # Once more for a skill that was put back and retired again.
        out["wrongly_retired"] = float(sum(life.effect > 0 for life in found for s in life.stretches if s.how == RETIRED))
    return out


def violations(log: Reader | History) -> dict[tuple[int, str], Counter[str]]:
    """Return how many violations of each class the sections of a round and phase had; nothing of suites that do not count them."""
    found = dict[tuple[int, str], Counter[str]]()
    for at, rows in sorted(_read(log).trials.items()):
        for row in rows:
            if counts := violations_of(row["reason"]):
                found.setdefault(at, Counter()).update(counts)
    return found


def _read(log: Reader | History) -> History:
    return log if isinstance(log, History) else History(log)


def _sum(rounds: Sequence[Round], name: str) -> float:
    return float(sum(getattr(now, name) for now in rounds))


def _per(rounds: Sequence[Round], name: str) -> float:
    return _sum(rounds, name) / len(rounds) if rounds else NAN


def _rate(rounds: Sequence[Round], wanted: int) -> float:
    attempted = sum(now.attempted for now in rounds)
    return sum(now.passes for now in rounds) / attempted if attempted and len(rounds) == wanted else NAN


# ---------------------------------------------------------------- what it took


@dataclass(frozen=True)
class Spending:
    """Calls, tokens in and out, USD and how many calls have no known cost, seconds of calls; of a round, or in all."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.cost + other.cost,
            self.unpriced + other.unpriced,
            self.seconds + other.seconds,
        )

    @property
    def price(self) -> str:
        """The cost as text: nothing was asked, it is known, or a part of it is."""
        if self.unpriced == self.calls:
            return "?" if self.calls else "-"
        return f"{self.cost:.4g}" + ("+?" if self.unpriced else "")


def spending(reader: Reader | Log) -> dict[int, Spending]:
    """Return what was spent in each round."""
    query = """SELECT round, sum(stop_reason != 'overflow'), sum(input_tokens + output_tokens), coalesce(sum(cost), 0),
        sum(cost IS NULL), sum(seconds)
        FROM calls WHERE part > 0 GROUP BY round"""
    return {row[0]: Spending(*tuple(row)[1:]) for row in reader.db.execute(query)}


@dataclass(frozen=True)
class Troubles:
    """What did not go as asked.

    Attributes
    ----------
    fallbacks, faults
        Counts by role, and by kind.
    void
        Trials and eval tasks without an outcome.
    reasons
        Of the fallbacks, counted, by role.
    asked
        How often each role was asked something, whatever tries that took.
    """

    fallbacks: dict[str, int]
    faults: dict[str, int]
    void: int
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        def told(what: str, counts: dict[str, int]) -> str:
            return f"{sum(counts.values())} {what}" + (f" ({', '.join(f'{k} {n}' for k, n in counts.items())})" if counts else "")

        return f"{told('fallbacks', self.fallbacks)}, {told('faults', self.faults)}, {self.void} void trials"


def troubles(reader: Reader) -> Troubles:
    """Count fallbacks with their reasons, faults and void trials."""
    faults = {row[0]: row[1] for row in reader.db.execute("SELECT kind, count(*) FROM faults GROUP BY kind ORDER BY kind")}
    reasons = dict[str, Counter[str]]()
    for role, why, n in reader.db.execute("SELECT role, why, count(*) FROM fallbacks GROUP BY role, why ORDER BY role, min(rowid)"):
        # What was answered instead differs each time.
        reasons.setdefault(role, Counter())[re.sub(r" is .*, not one of .*", " is none of those asked for", why, flags=re.DOTALL)] += n
    fallbacks = {role: counts.total() for role, counts in reasons.items()}
    asked = {role: max(int(reader.one(query)[0]), fallbacks.get(role, 0)) for role, query in _ASKED.items()}
    void = int(reader.one("SELECT count(*) FROM capsules WHERE passed IS NULL")[0])
    return Troubles(fallbacks, faults, void, reasons, asked)


# Paired evals take over calls of earlier rounds: so not by calls, where the log has what came of them.
_ASKED: Final = {
    "router": "SELECT count(route_call) FROM capsules",
    "solver": "SELECT count(solve_call) FROM capsules",
    "critic": "SELECT count(call) FROM verdicts",
    "synthesizer": "SELECT count(*) FROM calls WHERE role = 'synthesizer' AND attempt = 0",
    "judge": "SELECT count(judge_call) FROM capsules",
}


@dataclass(frozen=True)
class Tally:
    """Trials of one skill in one round: with an outcome, observed passes, true passes; eval tasks and those passed."""

    n: int = 0
    observed: int = 0
    passed: int = 0
    evals: int = 0
    eval_passed: int = 0


def tallies(reader: Reader, number: int) -> dict[int, Tally]:
    """Return the trials of a skill, by round."""
    query = """SELECT round, sum(phase = ? AND observed IS NOT NULL), sum(CASE WHEN phase = ? THEN observed ELSE 0 END),
        sum(CASE WHEN phase = ? AND observed IS NOT NULL THEN passed ELSE 0 END), sum(phase != ? AND passed IS NOT NULL),
        sum(CASE WHEN phase != ? THEN passed ELSE 0 END) FROM capsules WHERE skill = ? GROUP BY round ORDER BY round"""
    with snapshot(reader):
        rows = list(reader.db.execute(query, (*(TRAIN,) * 5, number)))
    return {row[0]: Tally(*(int(value or 0) for value in tuple(row)[1:])) for row in rows}
