"""A log read again with another sensor or policy: its own retirements, those of real runs, independent arithmetic, and bad input."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from real_loop import replay, sensors, worth
from real_loop.config import Plan, load
from real_loop.history import History
from real_loop.library import EVICTED, RETIRED, Library
from real_loop.log import Reader
from real_loop.replay import CENSORED, Replay, main, play
from real_loop.roles.scripted import Script, known
from real_loop.run import scripted
from real_loop.sensors import channel, logged, trials, verdicts
from real_loop.settings import Reward
from sim import curators
from sim.config import CONF
from sim.errors import InputError, RunError
from sim.rng import OUTCOME, words
from tests import talking
from tests.conftest import Command
from tests.test_history import Unseen, changed_identity, opened

SMALL = ("policy.rounds=8", "policy.window=3", "policy.n_min=12")
SHORT = ("policy.rounds=3", "policy.window=3", "policy.n_min=3")
BACK = ("policy.rollback.on=true", "policy.rollback.patience=1", "policy.rollback.margin=0.0")
TOPIC = ("reward.spread=0.3", "reward.unit=topic")
RUNS = {
    "clean": ("model=scripted/mbpp_hard100", *SMALL),
    "bias": ("model=scripted/mbpp_hard100", "reward=bias", "q=0.3", *SMALL),
    "rollbacks": ("model=scripted/report_band_58", "reward=bias", "q=0.3", *BACK, *SMALL, "seed=5", "run=3"),
    "small cap": ("model=scripted/report_main_71", "reward=noise", "rho=0.4", "policy.cap=3", *SMALL),
    "by topic": ("model=scripted/mbpp_hard100", "reward=general", "rho_fp=0.2", "rho_pf=0.3", *TOPIC, *SMALL),
    "by task": ("model=scripted/stocked", "reward=bias", "q=0.3", "reward.spread=0.2", *BACK, *SMALL),
    "stocked": ("model=scripted/stocked", *SHORT),
    "n_min 18": ("model=scripted/mbpp_hard100", "policy.n_min=18", *SMALL[:2]),
    "tau 0.3": ("model=scripted/mbpp_hard100", "policy.tau=0.3", *SMALL),
    "cap 2": ("model=scripted/mbpp_hard100", "policy.cap=2", "policy.n_min=18", *SMALL[:2]),
    "stocked, biased": ("model=scripted/stocked", "reward=bias", "q=0.5", *SHORT),
}  # fmt: skip
OWN = ("clean", "bias", "rollbacks", "small cap", "by topic", "by task")
Logs = Callable[[str], tuple[Plan, Path]]
Histories = Callable[[str], History]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """Logs of scripted runs, each played once."""
    folder, done = tmp_path_factory.mktemp("logs"), dict[str, tuple[Plan, Path]]()
    (folder / "world").mkdir()
    world = (CONF / "world" / "report_band_58.yaml").read_text()
    (folder / "world" / "stocked.yaml").write_text(world + "\nstart: 4\n")

    def of(name: str) -> tuple[Plan, Path]:
        if name not in done:
            plan, path = load(RUNS[name], folder), folder / f"{len(done)}.sqlite"
            asyncio.run(scripted(plan, path, Unseen()))
            done[name] = plan, path
        return done[name]

    return of


@pytest.fixture(scope="module")
def histories(logs: Logs) -> Histories:
    read: dict[str, History] = {}
    return lambda name: read.setdefault(name, History(Reader(logs(name)[1])))


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a run with texts and a noisy reward."""
    path = tmp_path_factory.mktemp("spoken") / "log.sqlite"
    _, log = talking.play(":memory:", Unseen(), "reward=noise", "rho=0.2")
    with contextlib.closing(sqlite3.connect(path)) as file:
        log.db.backup(file)
    log.close()
    return path


@pytest.fixture(scope="module")
def judged(spoken: Path) -> Path:
    """The same as if a judge had reported what the noise did."""
    db = opened(spoken, spoken.parent, "judged.sqlite")
    changed_identity(db, lambda told: told["reward"].update(kind="judge"))
    db.close()
    return spoken.parent / "judged.sqlite"


def gone(history: History, how: str) -> list[tuple[int, int, int, int]]:
    """What the log's own table of changes says: round, skill, n and net, in order."""
    rows = history.reader.db.execute("SELECT round, skill, reason FROM changes WHERE kind = ? ORDER BY skill, round", (how,))
    return [(t, skill, json.loads(reason)["n"], json.loads(reason)["net"]) for t, skill, reason in map(tuple, rows)]


def left(found: Replay, how: str) -> list[tuple[int | None, int, int, int]]:
    return [(s.left, number, s.n, s.net) for number, s in found.ended(how)]


# ---------------------------------------------------------------- a log with its own sensor and policy


@pytest.mark.parametrize("name", OWN)
def test_a_log_replays_itself(histories: Histories, name: str) -> None:
    history = histories(name)
    found = play(history)
    for how in (RETIRED, EVICTED):
        assert left(found, how) == gone(history, how), how
    assert found.stretches == {number: past.stretches for number, past in history.skills.items()}
    assert found.first is found.seen is None
    assert 0 < found.decisions == found.on_path == found.as_run
    replay.check(history)
    s = history.settings
    assert play(history, channel(history, s.reward, s.seed, s.run)).stretches == found.stretches, "the log's flips, drawn again"


def test_the_logs_hold_what_they_are_for(histories: Histories) -> None:
    assert len(gone(histories("clean"), RETIRED)) > 5
    assert gone(histories("small cap"), EVICTED)
    assert sum(len(past.stretches) > 1 for past in histories("by task").skills.values()) > 1
    assert histories("by task").skills[0].source is None


@pytest.mark.parametrize("which", ["spoken", "judged"])
def test_logs_with_texts(request: pytest.FixtureRequest, which: str) -> None:
    history = History(Reader(request.getfixturevalue(which)))
    assert sum(past.n > 0 for past in history.skills.values()) > 1
    replay.check(history)


@pytest.mark.parametrize("what", ["n_min", "flips", "order"])
def test_a_broken_replay_is_noticed(histories: Histories, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    history = histories("bias")
    if what == "n_min":
        monkeypatch.setattr(replay, "Library", lambda policy, *more: Library(replace(policy, n_min=policy.n_min + 1), *more))
    elif what == "flips":
        monkeypatch.setattr(replay, "logged", lambda h: channel(h, h.settings.reward, h.settings.seed + 1, h.settings.run))
    else:
        monkeypatch.setattr(replay._Player, "_censor", lambda *_: None)
        monkeypatch.setattr(Library, "retire", lambda self: [])
    with pytest.raises(RunError, match="when replayed"):
        replay.check(history)


# ---------------------------------------------------------------- another sensor or policy


def by_hand(history: History, q: float, n_min: int, tau: str) -> dict[int, tuple[int, int, int]]:
    """Round, n and net at which each skill of a log without rollbacks and evictions is retired: fractions, words and SQL alone."""
    s, found, at = history.settings, dict[int, tuple[int, int, int]](), dict[int, tuple[int, int]]()
    gone: dict[int, int] = dict(map(tuple, history.reader.db.execute("SELECT skill, round FROM changes WHERE kind = 'retired'")))
    query = (
        "SELECT round, position, skill, passed FROM capsules WHERE phase = 'train' AND round = ? AND skill IS NOT NULL ORDER BY position"
    )
    for t in range(s.policy.rounds):
        for t_, position, skill, passed in map(tuple, history.reader.db.execute(query, (t,))):
            seen = passed or words(s.seed, s.run, t_, OUTCOME, position)[1] < round(q * 2**32)
            n, net = at.get(skill, (0, 0))
            at[skill] = n + 1, net + (1 if seen else -1)
        for skill, (n, net) in at.items():
            if skill not in found and gone.get(skill, t) >= t and n >= n_min and Fraction(net, n) <= -Fraction(tau):
                found[skill] = t, n, net
    return found


@pytest.mark.parametrize(("q", "n_min", "tau"), [(0, 6, "0.1"), (0.2, 6, "0.1"), (0.2, 15, "0.1"), (0.45, 6, "0"), (0, 3, "-0.2")])
def test_as_by_hand(histories: Histories, q: float, n_min: int, tau: str) -> None:
    history = histories("clean")
    assert not gone(history, EVICTED)
    s = history.settings
    policy = replace(s.policy, n_min=n_min, tau=float(tau), cap=64)
    found = play(history, channel(history, Reward("channel", rho_fp=q), s.seed, s.run), policy)
    want = by_hand(history, q, n_min, tau)
    assert {number: (s.left, s.n, s.net) for number, s in found.ended(RETIRED)} == want
    assert want
    others = {number for number, _ in found.ended(CENSORED)}
    assert others == {skill for _, skill, *_ in gone(history, RETIRED)} - set(want)


@pytest.mark.parametrize(
    ("name", "other"), [("clean", "n_min 18"), ("clean", "tau 0.3"), ("n_min 18", "cap 2"), ("n_min 18", "clean"), ("cap 2", "n_min 18")]
)
def test_on_the_path_a_replay_is_the_run(histories: Histories, name: str, other: str) -> None:
    """Up to the first other decision, and with it, a run with that policy decided so."""
    history, ran = histories(name), histories(other)
    found = play(history, policy=ran.policy)
    first = found.first
    assert first is not None
    assert 0 < found.on_path == found.as_run < found.decisions

    def upto(removed: list[tuple[int | None, int, int, int]], t: int) -> list[tuple[int | None, int, int, int]]:
        return [row for row in removed if row[0] is not None and row[0] < t]

    for how in (RETIRED, EVICTED):
        assert upto(left(found, how), first.round) == upto(list(gone(ran, how)), first.round), how
    how = first.what.split()[0]
    here = [row for row in left(found, how) if row[:2] == (first.round, first.skill)]
    assert here == [row for row in gone(ran, how) if row[:2] == (first.round, first.skill)]
    assert bool(here) == ("here, kept there" in first.what)


def test_before_failures_are_seen_otherwise_a_replay_is_the_run(histories: Histories) -> None:
    history, ran = histories("stocked"), histories("stocked, biased")
    s = ran.settings
    found = play(history, channel(history, s.reward, s.seed, s.run))
    assert found.seen is not None
    assert found.seen.round == 0  # lever 1 of round 0 decides on trials of the shelf that both began with
    assert [row for row in left(found, RETIRED) if row[0] == 0] == [row for row in gone(ran, RETIRED) if row[0] == 0]
    assert [row for row in gone(history, RETIRED) if row[0] == 0] != [row for row in gone(ran, RETIRED) if row[0] == 0]
    assert found.on_path >= found.as_run


@pytest.mark.parametrize("name", ["clean", "rollbacks", "by topic"])
def test_common_flips_are_nested_and_retirements_monotone(histories: Histories, name: str) -> None:
    history = histories(name)
    s, policy = history.settings, replace(history.policy, cap=64)
    sensors = [channel(history, Reward("channel", rho_fp=q), s.seed, s.run) for q in (0, 0.1, 0.3, 0.45, 0.7, 1)]
    assert sensors[0].hidden == 0
    assert sensors[-1].hidden == sum(not row["passed"] for row in trials(history))
    last: dict[int, int] | None = None
    for milder, worse in pairwise(sensors):
        assert all(worse.reports[i] for i, said in milder.reports.items() if said)
        assert milder.hidden < worse.hidden
    for sensor in sensors:
        stretches = play(history, sensor, policy).stretches.items()
        first = {number: next((s.left for s in found if s.how == RETIRED), None) for number, found in stretches}
        now = {number: t for number, t in first.items() if t is not None}
        if last is not None:
            assert all(number in last and last[number] <= t for number, t in now.items())
        last = now
    assert not last, "at q = 1 nothing is retired"


def test_a_smaller_cap_evicts_the_weakest(histories: Histories) -> None:
    history = histories("clean")
    found = play(history, policy=replace(history.policy, cap=1))
    ends = {number: s for number, (s,) in found.stretches.items()}
    assert left(found, EVICTED)
    for number, stretch in ends.items():  # on a shelf of one each newcomer takes the place of who is there
        later = [s.came for n, s in ends.items() if n > number]
        if stretch.how == EVICTED:
            assert stretch.left == min(later)
    assert found.first is not None
    assert found.first.what == "evicted here, kept there"


# ---------------------------------------------------------------- recorded verdicts


def table(path: Path, history: History, said: Callable[[dict[str, Any]], str], header: str = "round,task,verdict,why") -> str:
    lines = [f"{row['round']},{row['task']},{said(row)},x" for row in trials(history)]
    path.write_text("\n".join([header, *(line for line in lines if ",," not in line)]) + "\n")
    return str(path)


def test_verdicts_of_a_table(histories: Histories, tmp_path: Path) -> None:
    history = histories("bias")
    seen = verdicts(history, table(tmp_path / "a.csv", history, lambda row: "pass" if row["observed"] else "FAIL"))
    assert (seen.reports, seen.silent) == (logged(history).reports, 0)
    none = verdicts(history, table(tmp_path / "b.csv", history, lambda row: "1" if row["observed"] else "invalid"))
    assert none.reports == seen.reports, "an invalid verdict is a fail"
    some = verdicts(history, table(tmp_path / "c.csv", history, lambda row: str(row["observed"]) if row["id"] % 25 else ""))
    assert some.silent == sum(row["id"] % 25 == 0 for row in trials(history)) > some.unheard > 0
    counted = sum(s.n for found in play(history, some, replace(history.policy, n_min=9999)).stretches.values() for s in found)
    assert counted == sum(row["skill"] is not None for row in trials(history)) - some.unheard


def test_verdicts_of_a_log(spoken: Path, judged: Path, tmp_path: Path) -> None:
    """Task and answer make the verdict, that of the same round first."""
    history = History(Reader(spoken))
    assert verdicts(history, str(judged)).reports == logged(history).reports
    db = opened(judged, tmp_path)
    db.execute("UPDATE capsules SET observed = (id % 3 > 0) WHERE phase = 'train' AND observed IS NOT NULL")
    db.execute("UPDATE capsules SET answer = 'something else' WHERE phase = 'train' AND (round = 1 OR position % 4 = 0)")
    said = db.execute("SELECT id, round, task, answer, observed FROM capsules WHERE phase = 'train' ORDER BY round").fetchall()
    db.close()
    with pytest.raises(InputError, match="at least 90% of those with a skill"):
        verdicts(history, str(tmp_path / "copy.sqlite"))
    found = sensors._judged(history, tmp_path / "copy.sqlite")
    before = {(task, answer): bool(seen) for _, _, task, answer, seen in reversed(said)}
    answers = dict(map(tuple, history.reader.db.execute("SELECT id, answer FROM capsules WHERE phase = 'train'")))
    for number, _, task, answer, seen in said:
        there = answer == answers[number]
        assert found.get(number) == (bool(seen) if there else before.get((task, answers[number])))
    assert {found.get(number) for number, t, *_ in said if t == 1} >= {None, True, False}
    with pytest.raises(InputError, match="asked no judge"):
        verdicts(history, str(spoken))


BAD_TABLES = {
    "no column": ("round,task\n0,train-0000\n", "no column verdict"),
    "no rows": ("round,task,verdict\n", "no verdicts"),
    "other tasks": ("round,task,verdict\n0,Mbpp/2,pass\n", "line 2, task: got 'Mbpp/2'"),
    "two ways": ("round,task,verdict\n0,train-0000,pass\n0,train-0001,1\n", "one way in all rows"),
    "no verdict": ("round,task,verdict\n0,train-0000,yes\n", "write pass"),
    "twice": ("round,task,verdict\n0,train-0000,pass\n0,train-0000,pass\n", "a second verdict"),
    "a round": ("round,task,verdict\nfirst,train-0000,pass\n", "line 2, round: got 'first'"),
    "short": ("round,task,verdict\n0,train-0000\n", "got 2 fields"),
    "few": ("round,task,verdict\n1,train-0000,pass\n", "at least 90% of those with a skill"),
    "bytes": (b"round,task,verdict\n0,train-0000,\xff\n", "cannot be read"),
}


@pytest.mark.parametrize("what", BAD_TABLES)
def test_bad_verdicts(histories: Histories, tmp_path: Path, what: str) -> None:
    text, expected = BAD_TABLES[what]
    (tmp_path / "v.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as error:
        verdicts(histories("clean"), str(tmp_path / "v.csv"))
    assert expected in str(error.value)


# ---------------------------------------------------------------- what a skill is worth


def test_worth_of_much_evidence() -> None:
    """With thousands of trials it is the plain difference, and its interval the root of the sum of squares of both."""
    counts = {"a": (2000, 10_000), "b": (6000, 10_000)}
    weights = worth._weights(list(counts.values()))
    found = worth._one(150, {"a": 100, "b": 300}, counts, weights)
    assert found.without == pytest.approx(0.25 * 0.2 + 0.75 * 0.6, abs=2e-3)
    arm = 1.96 * (0.375 * 0.625 / 400) ** 0.5
    assert (found.low, found.high) == pytest.approx((0.375 - 0.5 - arm, 0.375 - 0.5 + arm), abs=4e-3)
    assert found.helps is False
    assert worth._one(0, {}, counts, weights).helps is None
    assert worth._one(2, {"c": 3}, {}, worth._weights([])).helps is None


@pytest.mark.parametrize("name", ["clean", "bias", "n_min 18", "by task", "by topic"])
def test_intervals_of_worth_hold_the_truth(histories: Histories, name: str) -> None:
    """Intervals of 95 % miss at most 3 of up to 14 skills. Were each missed with chance 0.05, 1 of 240 logs would fail."""
    history = histories(name)
    script, found = Script(history.cell, history.settings.seed, history.settings.run), worth.by_log(history)  # type: ignore[arg-type]
    held = list[bool]()
    for number, past in history.skills.items():
        mine = [row for row in trials(history) if row["skill"] == number]
        if len(mine) < 6:
            continue
        tasks = [script.world.train[row["position"]] for row in mine]
        gain = [script.world.pass_threshold(t, known(past.skill)) - script.world.pass_threshold(t, None) for t in tasks]
        held.append(found[number].low <= sum(gain) / len(gain) / 2**32 <= found[number].high)
    assert 5 < len(held) <= 16
    assert held.count(False) <= 3


def test_truth_where_it_is_known(histories: Histories) -> None:
    history = histories("clean")
    found = worth.worth(history)
    assert all(w.effect is not None and w.helps == (w.effect > 0) for w in found.values())
    assert worth.probed(history) is None


# ---------------------------------------------------------------- the command


@pytest.fixture
def command(answers: Callable[[Any], Command]) -> Command:
    return answers(main)


def test_the_command(command: Command, logs: Logs) -> None:
    said = command(str(logs("clean")[1]))
    assert (said.code, said.err) == (0, "")
    assert "as logged" in said.out
    assert "(100%)" in said.out
    swept = command(str(logs("clean")[1]), "reward=bias", "q=0,0.7", "policy.n_min=12,18", "out=there")
    assert swept.code == 0
    found = json.loads(Path("there/replay.json").read_text())
    rows = {(c["asked"]["q"], c["asked"]["n_min"]): c for c in found["conditions"]}
    assert len(rows) == 4
    assert rows[0, 12]["retired"] == rows[0, 12]["as_logged"] == found["logged"]["retired"]
    assert rows[0.7, 18]["retired"] <= rows[0, 18]["retired"]
    assert all(0 <= c["wrong"] <= c["retired"] for c in rows.values())
    page = Path("there/replay.md").read_text()
    assert "reward=bias q=0.7 n_min=18" in page
    assert "counterfactual" in page
    assert Path("there/replay.png").stat().st_size > 10_000
    assert command(str(logs("clean")[1]), "out=bare", "figures=no").code == 0
    assert sorted(f.name for f in Path("bare").iterdir()) == ["replay.json", "replay.md"]


def test_logs_of_texts_and_unfinished_ones(command: Command, spoken: Path, judged: Path, tmp_path: Path) -> None:
    assert "? where the interval includes zero" in command(str(spoken)).out
    assert command(str(spoken), f"verdicts={judged}").code == 0
    db = opened(spoken, tmp_path)
    last = db.execute("SELECT max(round) FROM rounds").fetchone()[0]
    db.execute("DELETE FROM rounds WHERE round = ?", (last,))
    db.execute("DELETE FROM capsules WHERE round = ? AND phase = 'eval'", (last,))
    db.close()
    log = str(tmp_path / "copy.sqlite")
    assert "unfinished=yes" in command(log).error
    assert f"not over: {last} of {last + 1} rounds" in command(log, "unfinished=yes").out


BAD = {
    "no log": (["nowhere"], "no log there"),
    "two logs": (["LOG", "LOG"], "one folder of a run"),
    "an option": (["LOG", "--fast"], "an unknown option"),
    "an unknown key": (["LOG", "nmin=3"], "did you mean n_min?"),
    "an unknown curator": (["LOG", "curator=nobody"], "policy.curator: got 'nobody', expected one of ratchet"),
    "an unknown reward": (["LOG", "reward=nice"], "expected one of bias, clean, general, noise"),
    "a judge": (["LOG", "reward=judge"], "verdicts=FILE"),
    "a rate out of bounds": (["LOG", "reward=bias", "q=0.2,1.5"], "q: got 1.5, expected a probability"),
    "another's rate": (["LOG", "reward=bias", "rho=0.2"], "q, which reward=bias takes"),
    "a rate alone": (["LOG", "q=0.2"], "a reward with it"),
    "spread": (["LOG", "reward=noise", "spread=1"], "reward.spread: got 1"),
    "unit": (["LOG", "reward=noise", "spread=0.1", "unit=word"], "reward.unit"),
    "a seed": (["LOG", "reward=noise", "seed=-1"], "seed: got -1"),
    "n_min": (["LOG", "n_min=0"], "policy.n_min: got 0"),
    "tau": (["LOG", "tau=1"], "policy.tau: got 1"),
    "an empty value": (["LOG", "n_min=12,"], "one value, or several different ones"),
    "twice": (["LOG", "n_min=3", "policy.n_min=4"], "n_min: got two values"),
    "rounds": (["LOG", "policy.rounds=3"], "cannot change"),
    "rollback": (["LOG", "policy.rollback.on=true"], "cannot change"),
    "a policy key": (["LOG", "policy.nobody=3"], "an unknown key"),
    "verdicts and a reward": (["LOG", "reward=clean", "verdicts=x.csv"], "one sensor"),
    "no file": (["LOG", "verdicts=x.csv"], "no such file"),
    "very many": (["LOG", "n_min=" + ",".join(map(str, range(1, 40))), "cap=" + ",".join(map(str, range(1, 40)))], "at most 500"),
    "figures": (["LOG", "figures=maybe"], "figures: got 'maybe'"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input(command: Command, logs: Logs, what: str) -> None:
    args, expected = BAD[what]
    log = str(logs("clean")[1])
    assert expected in command(*(log if arg == "LOG" else arg for arg in args)).error


def test_a_log_of_probes(command: Command, logs: Logs, tmp_path: Path) -> None:
    db = opened(logs("clean")[1], tmp_path)
    changed_identity(db, lambda told: told.pop("policy"))
    db.close()
    assert "a log of no run" in command(str(tmp_path / "copy.sqlite")).error


def test_a_changed_log_is_no_evidence(command: Command, logs: Logs, tmp_path: Path) -> None:
    db = opened(logs("clean")[1], tmp_path)
    db.execute("UPDATE capsules SET observed = 1 - observed WHERE id = (SELECT max(id) FROM capsules WHERE phase = 'train')")
    db.close()
    said = command(str(tmp_path / "copy.sqlite"))
    assert said.code == 1
    assert "the log was changed" in said.err


QUICK = ("expel", "never", "swarm", "thompson")  # sequential, refusing, by rounds, drawing words; the others with make verify


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in sorted(set(curators.names()) - {"ratchet"})]
)
def test_any_curator_replays_its_own_log_and_another(logs: Logs, tmp_path: Path, name: str) -> None:
    """A run under a curator, played again, ends as it did; and the rule can be put on a log of Ratchet's, up to a first difference."""
    args = ("model=scripted/report_band_58", "policy.rounds=5", "policy.window=2", "policy.cap=3", "reward=noise", "rho=0.2")
    asyncio.run(scripted(load([*args, f"policy.curator={name}"]), tmp_path / "own.sqlite", Unseen()))
    replay.check(History(Reader(tmp_path / "own.sqlite")))
    theirs = History(Reader(logs("clean")[1]))
    found = play(theirs, None, curators.filled(replace(theirs.policy, curator=name)))
    assert 0 < found.on_path <= found.decisions
    assert (found.first is None) == (found.on_path == found.decisions)
