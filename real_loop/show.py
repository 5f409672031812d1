"""The command ``python -m real_loop.show``: a run by round, its skills with counters and texts, the history of one skill or one round.

What is told of decisions is what the evidence says, played again (:mod:`real_loop.history`); works while a run is writing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from real_loop.history import History, Past, snapshot
from real_loop.library import DROPPED, EVICTED, FLAGGED, RESTORED, RETIRED, Change
from real_loop.log import Reader, wall_seconds
from real_loop.measures import Truth, spending, tallies, troubles, violations
from real_loop.roles import EVAL, TRAIN
from real_loop.words import by_round, console, legend, settings, shown, table, totals, warnings
from sim.curators import RATCHET
from sim.errors import InputError, RunError
from sim.lives import ON_SHELF
from sim.report import guarded

HELP: Final = """\
Show what is in the log of a run, also while the run writes it.

usage: python -m real_loop.show LOG [skill=N | round=N]

  python -m real_loop.show outputs/real_loop/demo24/default           rounds, skills with counters and texts, what went wrong
  python -m real_loop.show outputs/real_loop/demo24/default skill=3   one skill: what it was written from, its trials, what became of it
  python -m real_loop.show outputs/real_loop/demo24/default round=2   one round: trials, verdicts, decisions

LOG is the folder of a run, or the log in it. In all tables "seen" is what the reward channel reported of train trials, "true" what
the grader said, and chat the mean signed outcome, net / n, that the curator decides by. An eval is the true pass rate of one attempt per
eval task, ± the standard deviation of its posterior under Jeffreys' prior. Of reports, violations are those the checks found, by class.
"""
STATE: Final = {ON_SHELF: "active", RETIRED: "retired", EVICTED: "evicted", DROPPED: "dropped"}
COUNTED: Final = """\
seen, true: passes in its train trials of the round, as observed and truly; n, net, chat: of its train trials up to then;
eval: eval tasks of the round that it was routed to, and how many of them truly passed (passes/tasks)"""
TEXT: Final = {"applicability": "applies when", "insight": "insight", "pitfalls": "pitfalls", "postcondition": "check"}
FALLBACKS: Final = ("fallbacks of", "times", "reason")
REASONS: Final = 5  # that are told of each role
VIOLATIONS: Final = ("violations", "train", "eval")
SKILLS: Final = ("skill", "name", "state", "born", "left", "n", "net", "chat", "seen", "true", "cluster")


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 1 a log that contradicts itself."""
    return guarded(_main, args)


def _main(args: list[str]) -> int:
    if {"--help", "-h"} & set(args):
        print(HELP, end="")
        return 0
    logs, keys = [], dict[str, int]()
    for arg in args:
        key, equals, value = arg.partition("=")
        if arg.startswith("-"):
            raise InputError(arg, "an unknown option", "LOG [skill=N | round=N]")
        if equals and "/" not in key:
            if key not in ("skill", "round"):
                raise InputError(key, "an unknown key", "skill or round")
            if not value.isdecimal():
                raise InputError(key, repr(value), "a number, from 0 on")
            keys[key] = int(value)
        else:
            logs.append(arg)
    if len(logs) != 1:
        raise InputError("LOG", ", ".join(logs) or "none", "one folder of a run, or the log in it", "see python -m real_loop.show --help")
    if len(keys) > 1:
        raise InputError("skill and round", "both", "one of them")
    reader = Reader(logs[0])
    try:
        with snapshot(reader):
            history = History(reader)
            if "skill" in keys:
                skill(reader, history, keys["skill"])
            elif "round" in keys:
                one_round(reader, history, keys["round"])
            else:
                run(reader, history)
    finally:
        reader.close()
    return 0


def run(reader: Reader, history: History) -> None:
    """Print a run: settings, rounds, skills with counters and texts, what it took and what went wrong."""
    out, spent = console(), spending(reader)
    out.print(str(reader.path))
    for words in settings(history.identity):
        out.print(f"  {shown(words)}")
    out.print()
    if history.rounds:
        out.print(by_round(history.rounds, spent, out.width))
        out.print(legend(history.rounds))
    trouble = troubles(reader)
    out.print(totals(history, spent, trouble, wall_seconds(reader.db)))
    for line in warnings(trouble):
        out.print(shown(line), soft_wrap=True)
    out.print(doubts(history))
    if rows := [[role, str(n), why] for role, counts in trouble.reasons.items() for why, n in counts.most_common(REASONS)]:
        out.print()
        out.print(table(FALLBACKS, rows, left=("fallbacks of", "reason")))
        if left := sum(max(0, len(counts) - REASONS) for counts in trouble.reasons.values()):
            out.print(f"(and {left} rarer reasons)")
    if rows := by_class(history):
        out.print()
        out.print(table(VIOLATIONS, rows, left=("violations",)))
    if not history.skills:
        out.print("no skill was written" + ("" if history.finished else " yet"))
        return
    out.print()
    out.print(table(SKILLS, [counters(past) for past in history.skills.values()], left=("name", "state", "cluster")))
    for past in history.skills.values():
        out.print()
        text(past)


def doubts(history: History) -> str:
    """Return whether the log's decisions are those its evidence leads to."""
    try:
        history.check()
    except RunError as error:
        return f"NOT SOUND: {error}"
    return f"{len(history.changes)} decisions, each as the evidence says"


def by_class(history: History) -> list[list[str]]:
    """Return what VIOLATIONS say of each class of violation found in sections of reports, the commonest first."""
    counts: dict[str, Counter[str]] = {TRAIN: Counter(), EVAL: Counter()}
    for (_, phase), found in violations(history).items():
        counts[phase].update(found)
    total = counts[TRAIN] + counts[EVAL]
    return [[name, str(counts[TRAIN][name]), str(counts[EVAL][name])] for name in sorted(total, key=lambda name: (-total[name], name))]


def counters(past: Past) -> list[str]:
    """Return what SKILLS say of a skill."""
    seen, true, chat = (f"{x:.2f}" if past.n else "-" for x in (past.observed_rate, past.true_rate, past.net / max(past.n, 1)))
    s, last = past.skill, past.stretches[-1]
    born = "start" if s.born < 0 else str(s.born)
    left = "" if last.left is None else str(last.left)
    return [str(s.number), s.name, STATE[past.how], born, left, str(past.n), f"{past.net:+d}", chat, seen, true, s.cluster]


def text(past: Past) -> None:
    """Print the text of a skill."""
    out = console()
    out.print(shown(f"skill {past.skill.number}: {past.skill.name} ({STATE[past.how]})"))
    for name, label in TEXT.items():
        out.print(f"  {label + ':':14}" + shown(" ".join(getattr(past.skill, name).split())))


def skill(reader: Reader, history: History, number: int) -> None:
    """Print the history of one skill.

    Raises
    ------
    InputError
        There is no such skill.
    """
    if number not in history.skills:
        numbers = f"0 to {max(history.skills)}" if history.skills else "none: no skill was written yet"
        raise InputError("skill", number, numbers)
    out, past = console(), history.skills[number]
    text(past)
    truth = Truth.of(history.identity)
    if truth:
        out.print(f"  true effect:  {truth.effect(past.skill):+.3f} logit" + (", spurious" if truth.spurious(past.skill) else ""))
    out.print()
    out.print(_origin(past, history))
    rows = []
    n = net = 0
    happened = {t: [c for r, c in past.changes if r == t] for t, _ in past.changes}
    done = tallies(reader, number)
    for t in sorted({*done, *happened}):
        tally = done.get(t)
        if tally:
            n, net = n + tally.n, net + 2 * tally.observed - tally.n
        for change in happened.get(t, ()):
            if change.kind == RESTORED:
                n, net = change.reason["n"], change.reason["net"]
        seen, true = (f"{got}/{tally.n}" if tally and tally.n else "-" for got in ((tally.observed, tally.passed) if tally else (0, 0)))
        evals = f"{tally.eval_passed}/{tally.evals}" if tally and tally.evals else "-"
        chat = f"{net / n:+.3f}" if n else "-"
        rows.append([str(t), seen, true, str(n), f"{net:+d}", chat, evals, "; ".join(why(c, history) for c in happened.get(t, ()))])
    columns = ("round", "seen", "true", "n", "net", "chat", "eval", "what happened")
    out.print(table(columns, rows, left=("what happened",)))
    out.print(COUNTED)
    out.print(_state(past, history))


def _origin(past: Past, history: History) -> str:
    if past.source is None:
        return "the shelf began with it"
    c = past.source
    counts = Counter(c.patterns)
    phantom = f", {c.phantoms / c.amount:.0%} of them phantoms" if c.phantoms and c.amount else ""
    memory = history.library.writing.memory
    faded = f" (unused ones fade: each round keeps {memory:g} of them)" if c.amount < 256 * len(c.patterns) else ""
    lines = [f"written in round {past.skill.born} from {c.amount / 256:.1f} failures{faded} of the cluster {c.name!r}{phantom}:"]
    lines += [f"  {n:3} x {pattern}" for pattern, n in counts.most_common(12)]
    return shown("\n".join([*lines, f"  and {len(counts) - 12} more" if len(counts) > 12 else ""]).rstrip())


def _state(past: Past, history: History) -> str:
    if past.how != ON_SHELF:
        return f"{STATE[past.how]} in round {past.stretches[-1].left}"
    p = history.policy
    if p.curator != RATCHET:
        return f"active: net {past.net:+d} after {past.n} trials; the curator is {p.curator}: {history.library.rule.line}"
    most = history.library.table[past.n]
    if past.n < p.n_min:
        return f"active: {past.n} of the {p.n_min} trials that it has before it can be retired"
    return f"active: retired at a net of {most} or less with {past.n} trials, and has {past.net:+d}"


def why(change: Change, history: History) -> str:
    """Return a decision and the counters that made it, in words."""
    r, p = change.reason, history.policy
    if change.kind in (RETIRED, EVICTED) and p.curator != RATCHET:
        rest = {k: v for k, v in r.items() if k not in ("n", "net", "cap", "curator")}
        kept = f" ({', '.join(f'{k} {v}' for k, v in rest.items())})" if rest else ""
        what = "retired" if change.kind == RETIRED else f"evicted from a full shelf of {r['cap']}"
        return f"{what} by {p.curator}: net {r['net']:+d} after {r['n']} trials{kept}; {history.library.rule.line}"
    if change.kind == RETIRED:
        return f"retired: net {r['net']:+d} after {r['n']} trials, and {r['most']:+d} or less retires (tau {p.tau:g}, n_min {p.n_min})"
    if change.kind == EVICTED:
        return f"evicted: the weakest of a full shelf of {r['cap']}, net {r['net']:+d} after {r['n']} trials"
    if change.kind == DROPPED:
        return f"dropped by a rollback to the shelf of the best round ({r['best']} passes)"
    if change.kind == RESTORED:
        return f"{'put back' if r['back'] else 'set back'} by a rollback, with net {r['net']:+d} after {r['n']} trials"
    if change.kind == FLAGGED:
        return f"flagged: {r['passes']} passes, best {r['best']}; {r['flags']} in a row, {p.rollback.patience} roll back"
    return f"written from {r['failures']:.1f} failures"


def one_round(reader: Reader, history: History, number: int) -> None:
    """Print the trials, verdicts and decisions of one round.

    Raises
    ------
    InputError
        The run has not come to it.
    """
    if number >= len(history.rounds):
        raise InputError("round", number, f"0 to {len(history.rounds) - 1}" if history.rounds else "none: no trial is in the log yet")
    out = console()
    out.print(by_round([history.rounds[number]], spending(reader), out.width))
    columns = ("phase", "task", "skill", "true", "seen", "reason", "label", "pattern")
    query = """SELECT c.phase, c.task, c.skill, c.passed, c.observed, c.reason, v.label, v.pattern FROM capsules AS c
        LEFT JOIN verdicts AS v ON v.capsule = c.id WHERE c.round = ? ORDER BY c.phase DESC, c.position"""
    rows = [_trial(tuple(row)) for row in reader.db.execute(query, (number,))]
    out.print()
    out.print(table(columns, rows, left=("phase", "task", "true", "seen", "reason", "label", "pattern")))
    out.print()
    for t, _, change in history.changes:
        if t == number:
            out.print(shown(("" if change.skill is None else f"skill {change.skill} ") + why(change, history)))
    for row in reader.db.execute("SELECT role, phase, subject, why FROM fallbacks WHERE round = ? ORDER BY rowid", (number,)):
        out.print(shown(f"fallback of the {row['role']} at {row['subject']} ({row['phase']}): {row['why']}"))


def _trial(row: tuple[Any, ...]) -> list[str]:
    phase, task, number, passed, observed, reason, label, pattern = row
    outcome = {None: "", 0: "fail", 1: "pass"}
    return [
        phase,
        task,
        "-" if number is None else str(number),
        outcome[passed] or "void",
        outcome[observed],
        reason,
        label or "",
        pattern or "",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
