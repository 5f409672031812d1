"""A log played again: the same decisions, the simulator's numbers, and a changed log noticed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from real_loop import ending, export, history, measures, show
from real_loop.calls import Calls
from real_loop.config import Plan, load
from real_loop.log import Log, Reader, plain, wall_seconds
from real_loop.models import Overflow
from real_loop.run import scripted
from sim.config import CONF
from sim.errors import InputError, RunError
from sim.lives import lives
from sim.main import main as simulate
from sim.reference import Run
from sim.store import open_result
from sim.sums import scale
from sim.tables import derive
from sim.variables import SERIES, VARIABLES
from tests import talking
from tests.conftest import Command

SMALL = ("policy.rounds=8", "policy.window=3", "policy.n_min=6")
RUNS = {
    "clean": ("model=scripted/mbpp_hard100", *SMALL),
    "bias and rollbacks": (
        "model=scripted/report_band_58", "reward=bias", "q=0.3", "policy.rollback.on=true", "policy.rollback.patience=1",
        "policy.rollback.margin=0.0", *SMALL, "seed=5", "run=3",
    ),
    "noise and a small cap": ("model=scripted/report_main_71", "reward=noise", "rho=0.4", "policy.cap=3", *SMALL),
    "a shelf to begin with": ("model=scripted/stocked", "reward=bias", "q=0.2", *SMALL, "policy.rollback.on=true", "policy.cap=5"),
}  # fmt: skip
Played = Callable[[str], tuple[Plan, Path]]


class Unseen:
    """Nobody looks on."""

    def attach(self, calls: Calls) -> None: ...

    def began(self, round_: int, phase: str, total: int) -> None: ...

    def did(self) -> None: ...

    def ended(self, round_: int, counts: dict[str, int]) -> None: ...


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
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
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a run with texts, in which some prompts were too long."""
    path, count = tmp_path_factory.mktemp("spoken") / "log.sqlite", iter(range(10_000))

    def stop(asked: int) -> None:
        if next(count) % 9 == 4:
            raise Overflow("the prompt", "too long", "a shorter one")

    _, log = talking.play(":memory:", Unseen(), "reward=noise", "rho=0.2", "writing.rewrite_every=1", stop=stop)
    with contextlib.closing(sqlite3.connect(path)) as file:
        log.db.backup(file)
    log.close()
    return path


@pytest.mark.parametrize("name", RUNS)
def test_same_decisions_and_numbers(played: Played, name: str) -> None:
    plan, path = played(name)
    reader = Reader(path)
    history.check(reader)
    again = history.recompute(reader)
    assert len(again) == reader.one("SELECT count(*) FROM changes")[0]
    assert plan.cell is not None
    s = plan.settings
    assert measures.lives(reader) == lives(plan.cell, s.seed, s.run)
    tables = derive([plan.cell])
    run = Run(tables, 0, s.seed, s.run).play()
    found = measures.metrics(reader)
    assert {"tail_sampled", "hidden_failures", "wrongly_retired", "harmful_final", "restored", "divergence"} <= set(found)
    for metric, value in found.items():
        variable = VARIABLES[metric]
        want = run.metrics[variable.source] * float(scale(variable.scale, tables.cells[0]))
        if metric == "retire_trials":
            want = want / run.metrics["retired"] if run.metrics["retired"] else float("nan")
        assert value == pytest.approx(want, rel=1e-12, nan_ok=True), metric
    by_round = measures.series(reader)
    for series in SERIES[1:]:  # the first is the expected eval, which no log knows
        assert by_round[series].tolist() == [now[series] for now in run.series], series
    assert by_round["attempted"].tolist() == [plan.cell.world.n_eval] * s.policy.rounds


def test_the_runs_hold_what_they_are_for(played: Played) -> None:
    kinds = {name: {c.kind for _, _, c in history.recompute(Reader(played(name)[1]))} for name in RUNS}
    assert {"restored", "dropped", "flagged"} <= kinds["bias and rollbacks"]
    assert "evicted" in kinds["noise and a small cap"]
    assert "retired" in kinds["clean"]
    assert history.History(Reader(played("a shelf to begin with")[1])).skills[0].source is None


def opened(path: Path, to: Path, name: str = "copy.sqlite") -> sqlite3.Connection:
    """A copy of a log that can be changed."""
    source = sqlite3.connect(path)
    copy = sqlite3.connect(to / name, isolation_level=None)
    copy.execute("PRAGMA synchronous=OFF")
    source.backup(copy)
    source.close()
    for (trigger,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        copy.execute(f"DROP TRIGGER {trigger}")
    return copy


CHANGES = {
    "an outcome of a skill's trial": (
        "UPDATE capsules SET observed = 1, passed = 1 WHERE id = "
        "(SELECT max(c.id) FROM capsules AS c JOIN changes AS x ON x.skill = c.skill AND x.kind = 'retired' AND x.round = c.round "
        "WHERE c.phase = 'train' AND observed = 0)"
    ),
    "an eval": "UPDATE capsules SET passed = 1 - passed WHERE phase = 'eval' AND id % 50 = 0",
    "a decision": """UPDATE changes SET reason = replace(reason, '"n": ', '"n": 1') WHERE kind = 'retired'""",
    "a decision taken out": "DELETE FROM changes WHERE rowid = (SELECT max(rowid) FROM changes WHERE kind = 'retired')",
    "a decision put in": "INSERT INTO changes VALUES (7, 90, 'retired', 0, '{}', 1, 0)",
    "the cluster of a failure": "UPDATE verdicts SET pattern = 'topic 09' WHERE round = 0 AND pattern = 'topic 00'",
    "the cluster of a skill": "UPDATE skills SET cluster = 'topic 12' WHERE number = 0",
    "a verdict taken out": "DELETE FROM verdicts WHERE id = 60",
    "the sums of a round": "UPDATE rounds SET active = active + 1 WHERE round = 3",
    "a round's end taken out": "DELETE FROM rounds WHERE round = 3",
    "a trial of another skill": "UPDATE capsules SET skill = 99 WHERE skill = 1 AND phase = 'train'",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_log_is_noticed(played: Played, tmp_path: Path, what: str) -> None:
    db = opened(played("clean")[1], tmp_path)
    assert db.execute(CHANGES[what]).rowcount > 0
    db.close()
    reader = Reader(tmp_path / "copy.sqlite")
    with pytest.raises(RunError, match="the log was changed"):
        history.check(reader)


def changed_identity(db: sqlite3.Connection, change: Callable[[dict[str, Any]], Any]) -> None:
    told = json.loads(db.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()[0])
    change(told)
    db.execute("UPDATE meta SET value = ? WHERE key = 'identity'", (json.dumps(told),))


COPY = "(round, phase, task, position, injected, prompt, answer, passed, observed, reason, trace, tokens, seconds, part, at) SELECT round"
MORE = "position, 0, prompt, answer, passed, observed, reason, trace, tokens, seconds, part, at FROM capsules WHERE"
FIRST = "(SELECT min(id) FROM capsules WHERE phase = 'train' AND round = 2 AND skill IS NULL AND passed = "
# Of a log of texts: what a channel's flips, the tasks and the answers of the calls give away.
FORGED = {
    "observed failures passed in truth": ("UPDATE capsules SET passed = 1, reason = 'passed' WHERE observed = 0", "got 0, expected 1"),
    "observed passes failed in truth": ("UPDATE capsules SET passed = 0, reason = 'wrong' WHERE observed = 1", "got 1, expected 0"),
    "trials of tasks that there are not": (
        f"INSERT INTO capsules {COPY}, phase, 'more ' || task, {MORE} phase = 'train' AND round = 2", "the run has no such task"
    ),
    "void evals of tasks that there are not": (
        f"INSERT INTO capsules {COPY}, phase, 'more', 99, 0, '', '', NULL, NULL, '', '', 0, 0, 1, 0 FROM capsules WHERE id = 3",
        "the run has no such task",
    ),
    "trials of another phase": (f"INSERT INTO capsules {COPY}, 'probe', task, {MORE} id = 3", "the run has no such task"),
    "an unrouted pass made void": (
        f"UPDATE capsules SET passed = NULL, observed = NULL, reason = 'void' WHERE id = {FIRST} 1 AND observed = 1)", "got no outcome"
    ),
    "an eval made void": (
        "UPDATE capsules SET passed = NULL WHERE id = (SELECT max(id) FROM capsules WHERE phase = 'eval' AND passed = 0)", "got no outcome"
    ),
    "positions": ("UPDATE capsules SET position = 0", "the place of its task"),
    "observed 5": ("UPDATE capsules SET observed = 5 WHERE observed = 1 AND skill IS NULL", "observed: got 5, expected 0, 1 or nothing"),
    "passed 2": ("UPDATE capsules SET passed = 2 WHERE passed = 1", "passed: got 2, expected 0, 1 or nothing"),
    "an eval observed": ("UPDATE capsules SET observed = 1 WHERE phase = 'eval' AND round = 2", "what an eval shows is not reported"),
    "an eval with a skill that is not there": ("UPDATE capsules SET skill = 90, injected = 1 WHERE phase = 'eval'", "a skill on the shelf"),
    "another skill than the router said": (
        "UPDATE capsules SET skill = NULL, injected = 0 WHERE phase = 'eval' AND round = 1 AND skill IS NOT NULL", "as the router said"
    ),
    "an answer": ("UPDATE capsules SET answer = 'fails!' WHERE phase = 'eval' AND answer = 'fails'", "another one, as the call says"),
    "a reason": ("UPDATE capsules SET reason = 'passed' WHERE reason = 'wrong' AND phase = 'eval'", "what its reason says"),
    "the call of a trial": ("UPDATE capsules SET solve_call = solve_call + 1 WHERE round = 1", "got "),
    "a label": ("UPDATE verdicts SET label = 'hurt' WHERE label = 'inapplicable'", "as the critic said"),
    "a skill's text": ("UPDATE skills SET insight = 'do nothing'", "insight: got 'do nothing', expected 'Look at"),
    "a verdict on a pass": (
        "INSERT INTO verdicts (round, capsule, label, pattern, cluster, part, at) SELECT round, id, 'hurt', '', '', 1, 0 FROM capsules "
        "WHERE phase = 'train' AND observed = 1 AND round = 3", "is no failure observed in that round"
    ),
    "a prior": ("UPDATE priors SET text = 'x'", "what the synthesizer wrote"),
    "a skill at the start": ("UPDATE skills SET round = -1 WHERE number = 0", "got "),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_forged_evidence_is_noticed(spoken: Path, tmp_path: Path, what: str) -> None:
    db = opened(spoken, tmp_path)
    statement, said = FORGED[what]
    assert db.execute(statement).rowcount > 0
    # The sums by round follow, so that they give nothing away.
    for name, of in (("passes", "passed = 1"), ("attempted", "passed IS NOT NULL")):
        db.execute(f"UPDATE rounds SET {name} = (SELECT count(*) FROM capsules c WHERE c.round = rounds.round AND phase = 'eval' AND {of})")
    db.close()
    with pytest.raises(RunError, match="the log was changed") as caught:
        history.check(Reader(tmp_path / "copy.sqlite"))
    assert said in str(caught.value)


@pytest.mark.parametrize("log", ["noise and a small cap", "spoken"])
@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.update(seed=77),
        lambda told: told.update(run=9),
        lambda told: told["reward"].update(rho_fp=0.9),
        lambda told: told["reward"].update(rho_pf=0.0),
        lambda told: told["reward"].update(spread=0.9),
        lambda told: told["tasks"]["train"].reverse(),
        lambda told: told["tasks"]["eval"].pop(),
        lambda told: told["policy"].update(tau=-0.9),
    ],
)
def test_other_settings_are_noticed(played: Played, spoken: Path, tmp_path: Path, log: str, change: Callable[..., Any]) -> None:
    db = opened(spoken if log == "spoken" else played(log)[1], tmp_path)
    changed_identity(db, change)
    db.close()
    with pytest.raises(RunError, match="the log was changed"):
        history.check(Reader(tmp_path / "copy.sqlite"))


FALSE_SCRIPTS = {
    "an unrouted trial": f"UPDATE capsules SET passed = 1, observed = 1, reason = 'passed', answer = 'passes' WHERE id = {FIRST} 0)",
    "an eval": "UPDATE capsules SET passed = 1 - passed WHERE phase = 'eval' AND round = 2 AND position < 9",
    "void": f"UPDATE capsules SET passed = NULL, observed = NULL WHERE id = {FIRST} 1)",
    "an effect": "UPDATE skills SET insight = replace(insight, 'logit', 'logits') WHERE number = 2",
    "an answer": "UPDATE capsules SET answer = 'both' WHERE id = 5",
}


@pytest.mark.parametrize("what", FALSE_SCRIPTS)
def test_scripted_roles_are_asked_again(played: Played, tmp_path: Path, what: str) -> None:
    db = opened(played("clean")[1], tmp_path)
    assert db.execute(FALSE_SCRIPTS[what]).rowcount > 0
    db.execute("DELETE FROM verdicts WHERE capsule IN (SELECT id FROM capsules WHERE observed = 1)")
    db.execute("UPDATE rounds SET passes = (SELECT sum(passed) FROM capsules AS c WHERE c.round = rounds.round AND phase = 'eval')")
    db.close()
    with pytest.raises(RunError, match="the log was changed"):
        history.check(Reader(tmp_path / "copy.sqlite"))


# ---------------------------------------------------------------- damage

DAMAGE = {
    "no identity": "DELETE FROM meta WHERE key = 'identity'",
    "an identity that is no JSON": "UPDATE meta SET value = '{' WHERE key = 'identity'",
    "an identity that is a list": "UPDATE meta SET value = '[1]' WHERE key = 'identity'",
    "an identity that is deep": f"UPDATE meta SET value = '{'[' * 100_000}' WHERE key = 'identity'",
    "a version that is no JSON": "UPDATE meta SET value = 'one' WHERE key = 'schema_version'",
    "no version": "DELETE FROM meta WHERE key = 'schema_version'",
    "a reason that is no JSON": "UPDATE changes SET reason = 'because' WHERE kind = 'written'",
    "about that is no JSON": "UPDATE parts SET about = ''",
    "a request that is no JSON": "UPDATE calls SET request = 'please'",
    "a blob for a text": "UPDATE capsules SET reason = x'00ff' WHERE id = 3",
    "a blob for an answer": "UPDATE calls SET answer = x'00ff' WHERE id = 3",
    "a text that is no UTF-8": "UPDATE capsules SET reason = CAST(x'ff' AS TEXT) WHERE id = 3",
    "a text for a number": "UPDATE capsules SET passed = 'yes' WHERE id = 3",
    "an endless number": "UPDATE capsules SET seconds = 9e999 WHERE id = 3",
    "other columns": "ALTER TABLE rounds RENAME COLUMN active TO inactive",
    "a table less": "DROP TABLE priors",
    "texts of another world": "UPDATE skills SET insight = 'be careful'",
    "a row of no table": "UPDATE skills SET insight = 'row 999999: none'",
    "a cluster of no world": "UPDATE skills SET cluster = 'topic'",
}  # fmt: skip
HALF = {
    "tasks": lambda told: told.pop("tasks"),
    "tasks of a phase": lambda told: told["tasks"].pop("eval"),
    "tasks that are none": lambda told: told["tasks"].update(train=7),
    "policy": lambda told: told.update(policy=3),
    "no policy": lambda told: told.pop("policy"),
    "a curator": lambda told: told["policy"].update(curator="nobody"),
    "a rate": lambda told: told["reward"].update(rho_fp="much"),
    "roles": lambda told: told.pop("roles"),
    "subset": lambda told: told.pop("subset"),
    "writing": lambda told: told.update(writing=[]),
    "world": lambda told: told.pop("world", None) or told.update(world={}),
    "seed": lambda told: told.pop("seed"),
}


@pytest.mark.parametrize("log", ["clean", "spoken"])
@pytest.mark.parametrize("what", [*DAMAGE, *HALF])
def test_damage_is_one_line(
    played: Played, spoken: Path, tmp_path: Path, answers: Callable[..., Command], what: str, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads, and a run that would go on: nobody ends with a traceback."""
    monkeypatch.setattr(ending, "_drawn", lambda *_: [])
    path = spoken if log == "spoken" else played(log)[1]
    identity = Reader(path).identity
    db = opened(path, tmp_path)
    if what in DAMAGE:
        if db.execute(DAMAGE[what]).rowcount == 0:
            pytest.skip("such a log has none of this")
    else:
        changed_identity(db, HALF[what])
    db.close()
    copy = tmp_path / "copy.sqlite"
    for main in (show.main, export.main):
        answer = answers(main)(str(copy))
        assert "Traceback" not in answer.err
        assert len(answer.err.splitlines()) == bool(answer.code), answer.err
    said = []
    for work in (lambda: history.check(Reader(copy)), lambda: Log(copy, identity).close(), lambda: ending.say(copy, tmp_path, False)):
        try:
            work()
        except InputError as error:
            said.append(str(error))
    assert said or what in ("about that is no JSON", "an endless number")


@pytest.mark.parametrize("name", ["clean", "bias and rollbacks"])
def test_a_log_that_stops_anywhere(played: Played, tmp_path: Path, name: str) -> None:
    """Rows are committed one by one: a log that ends after any of them is whole as far as it goes."""
    _, path = played(name)
    whole = history.recompute(Reader(path))
    # The order of rows over all tables is that of their times.
    tables = ("capsules", "verdicts", "skills", "changes", "rounds")
    db = opened(path, tmp_path)
    rows = [(at, table, row) for table in tables for row, at in db.execute(f"SELECT rowid, at FROM {table}")]
    rows.sort(reverse=True)
    seen = set()
    # Every row around decisions, and one of twenty of the many trials and verdicts.
    for i, (_, table, row) in enumerate(rows):
        db.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
        if table in ("skills", "changes", "rounds") or i % 20 == 0:
            past = history.History(Reader(tmp_path / "copy.sqlite"))
            past.check()
            assert past.changes == whole[: len(past.changes)]
            assert len(past.changes) - len(past.logged) <= past.pending
            seen.add((past.ended, len(past.logged)))
    assert len(seen) > 20
    db.close()


def test_void_trials_and_failed_writes(spoken: Path) -> None:
    """A trial without an outcome counts for nothing; of a ready cluster of which nothing usable was written, the failures stay."""
    reader = Reader(spoken)
    past = history.History(reader)
    past.check()
    assert past.finished
    void = sum(now.void for now in past.rounds)
    assert void == measures.troubles(reader).void > 4
    assert (
        measures.series(past)["attempted"].sum()
        == 40 - reader.one("SELECT count(*) FROM capsules WHERE phase = 'eval' AND passed IS NULL")[0]
    )
    unwritten = [c for t, ready in past.ready.items() for c in ready if c.name not in {text["cluster"] for text in past.texts.get(t, ())}]
    assert unwritten
    assert past.skills[0].source is not None
    assert past.skills[0].source.patterns


def test_read_while_written(played: Played, tmp_path: Path) -> None:
    """What is read is one moment of the log, and a reader is in nobody's way."""
    shutil.copy(played("clean")[1], tmp_path / "log.sqlite")
    identity = Reader(tmp_path).identity
    log, reader = Log(tmp_path / "log.sqlite", identity), Reader(tmp_path)
    with history.snapshot(reader):
        before = reader.one("SELECT count(*) FROM faults")[0]
        log.add("faults", {"kind": "timeout", "text": "x"})
        assert reader.one("SELECT count(*) FROM faults")[0] == before
    assert measures.troubles(reader).faults == {"timeout": 1}
    log.close()


# ---------------------------------------------------------------- writing


def test_texts_that_utf_8_cannot_hold(tmp_path: Path) -> None:
    assert plain("a\ud800b\udfff \U0001f600") == "a?b? \U0001f600"
    log = Log(tmp_path / "log.sqlite", {"a": "\ud800"})
    row = {"round": 0, "text": "so \ud800", "call": None}
    assert log.settle("priors", ("round",), row) == log.settle("priors", ("round",), row)
    assert log.one("SELECT text FROM priors WHERE text = ?", ("so \ud800",))["text"] == "so ?"
    assert [row["text"] for row in log.all("SELECT text FROM priors")] == ["so ?"]
    log.close()


def test_a_clock_that_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part, times in enumerate(((1000.0, 1060.0), (900.0, 800.0), (2000.0, 2005.0))):
        clock = iter(times)
        monkeypatch.setattr("real_loop.log.time.time", lambda clock=clock: next(clock))
        log = Log(tmp_path / "log.sqlite", {})
        log.add("faults", {"kind": "timeout", "text": str(part)})
        log.close()
    assert wall_seconds(Reader(tmp_path).db) == 65


def test_what_was_spent(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.sqlite", {})
    assert log.spent() == (0, 0, 0.0, 0)
    for attempt, (reason, cost) in enumerate((("stop", 0.5), ("stop", None), ("overflow", 0.0))):
        row = dict.fromkeys(("phase", "role", "subject", "model", "request", "answer"), "")
        numbers = {"round": 0, "attempt": attempt, "input_tokens": 2, "output_tokens": 3 if cost else 0, "seconds": 1.0}
        log.add("calls", {**row, **numbers, "stop_reason": reason, "cost": cost})
    assert log.spent() == (2, 7, 0.5, 1)
    log.close()


def test_a_log_that_others_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "log.sqlite", {})
    log.db.execute("PRAGMA busy_timeout=10")
    other = sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RunError, match=r"database is locked.*what was kept before is in it.*run the same command again"):
        log.add("faults", {"kind": "timeout", "text": ""})
    connect = sqlite3.connect
    monkeypatch.setattr("sqlite3.connect", lambda *args, **kwargs: connect(*args, **{**kwargs, "timeout": 0.01}))
    with pytest.raises(RunError, match=r"database is locked.*run the same command again"):
        Log(tmp_path / "log.sqlite", {})
    other.execute("ROLLBACK")
    log.add("faults", {"kind": "timeout", "text": ""})
    log.close()
    with pytest.raises(RunError, match="closed database"):
        log.one("SELECT 1")


def test_a_full_disk(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.sqlite", {})
    log.db.execute(f"PRAGMA max_page_count={log.one('PRAGMA page_count')[0]}")
    with pytest.raises(RunError, match="database or disk is full") as caught:
        log.add("faults", {"kind": "timeout", "text": "x" * 100_000})
    assert caught.value.status == 1
    log.close()


@pytest.mark.parametrize("how", ["gone", "folder gone", "another"])
def test_a_log_that_is_taken_away(tmp_path: Path, how: str) -> None:
    (tmp_path / "run").mkdir()
    log = Log(tmp_path / "run" / "log.sqlite", {})
    log.there()
    log.add("faults", {"kind": "timeout", "text": ""})
    log.there()
    if how == "folder gone":
        (tmp_path / "run").rename(tmp_path / "away")
    elif how == "gone":
        (tmp_path / "run" / "log.sqlite").unlink()
    else:
        shutil.copy(tmp_path / "run" / "log.sqlite", tmp_path / "other")
        (tmp_path / "other").replace(tmp_path / "run" / "log.sqlite")
    with pytest.raises(RunError, match="in the place of" if how == "another" else "a log that is gone"):
        log.there()
    log.close()
    memory = Log(":memory:", {})
    memory.there()
    memory.close()


def test_folders_of_an_export(spoken: Path, answers: Callable[..., Command]) -> None:
    command = answers(export.main)
    for out in (".", f"../{Path.cwd().name}", str(Path.cwd())):
        assert "the folder that you are in" in command(str(spoken), f"out={out}").error
    assert "which holds other things" in command(str(spoken), "out=/").error
    assert "no log there" in command("~nosuchuser/run").error
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.slow
def test_two_hundred_runs_agree_with_the_simulator(tmp_path: Path) -> None:
    """Every variable both know, over 200 scripted runs and 40,000 other simulated ones: within 4 standard errors.

    The 19 comparisons of the right cell raise a false alarm with probability 1.2e-3. A simulator with another q has to be told apart.
    """
    world = ["policy.rollback.on=true", "policy.rollback.patience=2", "policy.rollback.margin=0.05", "policy.cap=4"]
    measured: dict[str, list[float]] = {}
    for number in range(200):
        plan = load(["model=scripted/report_band_58", "reward=bias", "q=0.3", *world, f"run={number}", "seed=5"])
        path = tmp_path / f"{number}.sqlite"
        asyncio.run(scripted(plan, path, Unseen()))
        for name, value in measures.metrics(Reader(path)).items():
            measured.setdefault(name, []).append(value)
    names = set(measured) & set(VARIABLES) - {"retire_trials"}  # a mean over skills, not over runs
    assert len(names) == 18
    farthest = {}
    for q in (0.3, 0.5):
        args = ["world=report_band_58", "channel=bias", f"channel.rho_fp={q}", "policy.sampled_eval=true", *world]
        assert simulate([*args, "runs=40000", "seed=77", f"out={tmp_path / str(q)}", "figures=[]"]) == 0
        data = open_result(tmp_path / str(q))
        z = {}
        for name in names:
            values = np.array(measured[name])
            error = np.hypot(values.std(ddof=1) / len(values) ** 0.5, float(data[f"{name}_se"]))
            z[name] = abs(values.mean() - float(data[name])) / error if error else float(values.mean() != float(data[name])) * 99
        farthest[q] = max(z.values())
        assert q != 0.3 or farthest[q] < 4, z
    assert farthest[0.5] > 8
