"""The real loop: scripted roles are the simulator to the bit; with a model behind real HTTP nothing is lost, whatever happens."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from real_loop import run
from real_loop.calls import Calls
from real_loop.config import load
from real_loop.log import TABLES, Log
from real_loop.models import BudgetReached, ServiceError
from real_loop.rewards import Flips
from real_loop.tasks import chosen
from sim.errors import InputError, RunError
from sim.lives import Replay
from sim.tables import derive
from tests.clever import Clever
from tests.misbehaving import Service, serving

pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),  # inspect_ai's own
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]


class Watching:
    """Keeps what is told at the end of each round."""

    def __init__(self) -> None:
        self.rows: list[dict[str, int]] = []

    def began(self, round_: int, phase: str, total: int) -> None: ...
    def did(self) -> None: ...
    def attach(self, calls: Calls) -> None: ...
    def ended(self, round_: int, counts: dict[str, int]) -> None:
        self.rows.append(counts)


# ---------------------------------------------------------------- scripted roles

WORLDS = (
    ["model=scripted/report_band_58"],
    ["model=scripted/mbpp_hard100", "reward=bias", "q=0.3"],
    ["model=scripted/report_main_71", "reward=general", "rho_fp=0.2", "rho_pf=0.4", "reward.spread=0.3", "reward.unit=topic"],
    ["model=scripted/report_hard_133", "reward=noise", "reward.spread=0.2", "ablation=A1"],
    ["model=scripted/mbpp_100", "policy=rt", "policy.rounds=14", "ablation=A4"],
    [
        "model=scripted/report_weak_71",
        "policy.rollback.on=true",
        "policy.rollback.patience=2",
        "policy.rollback.margin=0.02",
        "policy.cap=3",
    ],
)


@pytest.mark.parametrize("args", WORLDS, ids=[w[0].split("/")[1] for w in WORLDS])
def test_scripted_roles_are_the_simulator(args: list[str]) -> None:
    """Same seed, same run: every round of the loop is that of the reference."""
    for number in range(2):
        plan, watching = load([*args, f"run={number}", "seed=5"]), Watching()
        asyncio.run(run.scripted(plan, ":memory:", watching))
        assert plan.cell is not None
        played = Replay(derive([plan.cell]), 0, 5, number)
        played.play()
        mine = [(r["passes"], r["active"], r["retired"], r["evicted"], r["written"], r["observed_failures"]) for r in watching.rows]
        names = ("active", "retired", "evicted", "synthesised", "observed_failures")
        assert mine == [(s, *(now[n] for n in names)) for s, now in zip(played.sampled, played.series, strict=True)]


def test_scripted_roles_with_a_favourite_and_labels_by_weight() -> None:
    """As above, in a world with what real logs speak for."""
    plan, watching = load(["model=scripted/mbpp_hard100", "seed=5"]), Watching()
    assert plan.cell is not None
    world = plan.cell.world
    world = replace(
        world, router=replace(world.router, recall=0.8, favour=0.7), critic=replace(world.critic, mislabel=0.5, mislabel_to="weight")
    )
    plan = replace(plan, cell=replace(plan.cell, world=world))
    asyncio.run(run.scripted(plan, ":memory:", watching))
    assert plan.cell is not None
    played = Replay(derive([plan.cell]), 0, 5, plan.settings.run)
    played.play()
    assert [r["passes"] for r in watching.rows] == played.sampled
    for name, mine in (("active", "active"), ("retired", "retired"), ("synthesised", "written"), ("observed_failures",) * 2):
        assert [r[mine] for r in watching.rows] == [now[name] for now in played.series], name


def test_another_seed_is_another_run() -> None:
    rows = []
    for seed in (1, 2):
        watching = Watching()
        asyncio.run(run.scripted(load(["model=scripted/report_band_58", f"seed={seed}", "policy.rounds=4"]), ":memory:", watching))
        rows.append(watching.rows)
    assert rows[0] != rows[1]


# ---------------------------------------------------------------- a model behind HTTP


@pytest.fixture(scope="module")
def clever() -> Iterator[Clever]:
    pytest.importorskip("inspect_ai", reason="needs inspect_ai: pip install 'halfblind[real]'")
    pytest.importorskip("openai", reason="needs openai: pip install 'halfblind[real]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inspect_ai.model._model.format_traceback", lambda *_: ("", ""), raising=False)
        patch.setenv("SMALL_API_KEY", "sk-a-key-for-tests")
        yield Clever(spoil=0.2)


SMALL = ("subset=demo24", "policy.rounds=3", "policy.window=1", "policy.n_min=2", "policy.cap=3", "writing.min_cluster=2")
MORE = ("subset.n_train=8", "subset.n_eval=4", "sandbox=limits", "model=openai-api/small/tiny", "patience=3")


def play(service: Service, path: Path, *args: str) -> list[dict[str, int]]:
    given = dict(arg.split("=", 1) for arg in (*SMALL, *MORE, f"base_url={service.url}", *args))
    plan, watching = load([f"{key}={value}" for key, value in given.items()]), Watching()
    asyncio.run(run.prompted(plan, path, watching, chosen(plan.settings), lambda _: None))
    return watching.rows


def contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a log says, apart from when it was, how long it took, and the order in which calls came back."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    calls = {r["id"]: (r["round"], r["phase"], r["role"], r["subject"], r["attempt"]) for r in db.execute("SELECT * FROM calls")}
    capsules = {r["id"]: (r["round"], r["phase"], r["task"]) for r in db.execute("SELECT * FROM capsules")}
    out = {}
    for table in TABLES:
        if table in ("parts", "faults"):
            continue
        rows = []
        for row in db.execute(f"SELECT * FROM {table}"):
            values = {k: row[k] for k in row.keys() if k not in ("id", "part", "at", "seconds")}  # noqa: SIM118 - sqlite3.Row
            for key in values.keys() & {"call", "route_call", "solve_call", "judge_call"}:
                values[key] = calls.get(values[key])
            if "capsule" in values:
                values["capsule"] = capsules[values["capsule"]]
            rows.append(tuple(values.values()))
        out[table] = sorted(rows, key=repr)
    db.close()
    return out


@pytest.fixture(scope="module")
def undisturbed(clever: Clever, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a run whose model never failed."""
    path = tmp_path_factory.mktemp("undisturbed") / "log.sqlite"
    with serving() as service:
        service.reply = clever
        play(service, path)
    return path


def test_a_run(undisturbed: Path) -> None:
    said = contents(undisturbed)
    assert len(said["capsules"]) == 3 * (8 + 4)
    assert len(said["rounds"]) == 3
    assert {row[2] for row in said["calls"]} == {"router", "solver", "critic", "synthesizer"}
    assert said["skills"]
    assert {row[4] for row in said["calls"]} == {0, 1}  # a fifth of the structured answers is spoilt at first
    kinds = {row[2] for row in said["changes"]}
    assert "written" in kinds
    db = sqlite3.connect(undisturbed)
    for table in TABLES:
        if db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:
            for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET part = 9" if table != "meta" else "UPDATE meta SET value = ''"):
                with pytest.raises(sqlite3.DatabaseError, match="append-only"):
                    db.execute(statement)


def test_the_same_command_again_asks_nothing(undisturbed: Path, clever: Clever) -> None:
    before = contents(undisturbed)
    with serving() as service:  # at another port: where a model is served is not which model it is
        service.reply = clever
        assert len(play(service, undisturbed)) == 3
        assert service.seen == []
    assert contents(undisturbed) == before


def test_a_service_that_fails(undisturbed: Path, clever: Clever, tmp_path: Path) -> None:
    """No failure of the service is a failed task, and none is lost: the log is that of a run without them."""
    script = ["ok", "429", "500", "half", "ok", "not json", "no choices", "reset", "html", "ok", "503", "null", "error in 200", "no text"]
    with serving(script) as service:
        service.reply = clever
        play(service, tmp_path / "log.sqlite")
    assert contents(tmp_path / "log.sqlite") == contents(undisturbed)
    db = sqlite3.connect(tmp_path / "log.sqlite")
    assert db.execute("SELECT count(*) FROM faults").fetchone()[0] == sum(what != "ok" for what in script)


def test_a_service_that_is_gone(undisturbed: Path, clever: Clever, tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with serving(["ok"] * 9, then="500") as service:
        service.reply = clever
        with pytest.raises(ServiceError, match="run the same command again"):
            play(service, path, "patience=0.5")
    assert 0 < len(contents(path)["calls"]) <= 9
    with serving() as service:
        service.reply = clever
        play(service, path)
    assert contents(path) == contents(undisturbed)


@pytest.mark.parametrize("step", [1, 23])
def test_budgets(undisturbed: Path, clever: Clever, tmp_path: Path, step: int) -> None:
    """A run in parts, each ended by its budget, asks each thing once and ends as one that was not stopped."""
    path, total = tmp_path / "log.sqlite", len(contents(undisturbed)["calls"])
    limits = range(step, total, step) if step > 1 else (1, 2, 3, total - 1)
    with serving() as service:
        service.reply = clever
        for limit in limits:
            with pytest.raises(BudgetReached):
                play(service, path, f"budget.calls={limit}")
            assert len(contents(path)["calls"]) == limit
        play(service, path, f"budget.calls={total}")
        assert len(service.seen) == total
    assert contents(path) == contents(undisturbed)


def test_a_prompt_that_is_too_long(clever: Clever, tmp_path: Path) -> None:
    """It is a defined outcome of each role: the router declines, the trial is void and counts nowhere."""
    with serving(["long llama", "long openai"], then="ok") as service:
        service.reply = clever
        play(service, tmp_path / "log.sqlite", "policy.rounds=1", "policy.window=1")
    said = sqlite3.connect(tmp_path / "log.sqlite")
    assert said.execute("SELECT count(*) FROM capsules WHERE passed IS NULL AND observed IS NULL").fetchone()[0] == 2
    assert said.execute("SELECT count(*) FROM fallbacks WHERE role = 'solver'").fetchone()[0] == 2
    assert said.execute("SELECT attempted FROM rounds").fetchone()[0] <= 4


def test_malformed_twice_is_a_fallback(clever: Clever, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        return clever(body) if clever.role(body["messages"][-1]["content"]) == "solver" else "I would rather not."

    with serving() as service:
        service.reply = reply
        play(service, tmp_path / "log.sqlite", "policy.rounds=2")
    said = contents(tmp_path / "log.sqlite")
    assert said["skills"] == []
    assert {row[1:3] for row in said["verdicts"]} == {(row[1], row[2]) for row in said["verdicts"]}
    db = sqlite3.connect(tmp_path / "log.sqlite")
    assert set(db.execute("SELECT label, pattern FROM verdicts")) == {("neutral", "")}
    attempts = db.execute("SELECT attempt, count(*) FROM calls WHERE role = 'critic' GROUP BY attempt").fetchall()
    assert len({n for _, n in attempts}) == 1
    assert [a for a, _ in attempts] == [0, 1]


@pytest.mark.parametrize("args", [["reward=judge"], ["reward=judge", "reward.prompt=lenient"]])
def test_a_judge(clever: Clever, tmp_path: Path, args: list[str]) -> None:
    """What it says is what the loop sees; the true grader says what it always did."""
    with serving() as service:
        service.reply = clever
        play(service, tmp_path / "log.sqlite", "policy.rounds=2", *args)
        asked = [s.body for s in service.seen if clever.role(s.body["messages"][-1]["content"]) == "judge"]
    assert {body["temperature"] for body in asked} == {0.0}
    assert all(("strict" in b["messages"][-1]["content"]) == (len(args) == 1) for b in asked)
    db = sqlite3.connect(tmp_path / "log.sqlite")
    pairs = set(db.execute("SELECT passed, observed FROM capsules WHERE phase = 'train'"))
    assert pairs == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert set(db.execute("SELECT observed FROM capsules WHERE phase = 'eval'")) == {(None,)}


def test_corruption_touches_the_training_reward_alone(undisturbed: Path, clever: Clever, tmp_path: Path) -> None:
    """At q = 1 every failure passes: nothing is written; the flips are those of the simulator's words, asked again or not."""
    with serving() as service:
        service.reply = clever
        play(service, tmp_path / "log.sqlite", "reward=bias", "q=1.0")
    db = sqlite3.connect(tmp_path / "log.sqlite")
    assert set(db.execute("SELECT observed FROM capsules WHERE phase = 'train'")) == {(1,)}
    assert db.execute("SELECT count(*) FROM skills").fetchone()[0] == 0
    first = "SELECT task, passed FROM capsules WHERE round = 0 AND phase = 'train'"
    assert set(db.execute(first)) == set(sqlite3.connect(undisturbed).execute(first))


def test_flips_are_those_of_the_simulator() -> None:
    plan = load(["model=scripted/mbpp_hard100", "reward=general", "rho_fp=0.3", "rho_pf=0.6", "seed=9", "run=4"])
    flips = Flips(plan.settings.reward, 9, 4)
    number = 20_000
    for passed, rate in ((False, 0.3), (True, 0.6)):
        share = sum(flips.flipped(t, i, passed) for t in range(number // 100) for i in range(100)) / number
        assert abs(share - rate) < 5 * (rate * (1 - rate) / number) ** 0.5  # false alarm: 6e-7
    alike = [flips.flipped(t, 3, False) for t in range(50)]
    assert alike == [Flips(plan.settings.reward, 9, 4).flipped(t, 3, False) for t in range(50)]


@pytest.mark.parametrize("name", [pytest.param(f"A{i}", marks=[pytest.mark.slow] if 4 <= i <= 7 else []) for i in range(1, 9)])
def test_ablations(clever: Clever, tmp_path: Path, name: str) -> None:
    with serving() as service:
        service.reply = clever
        play(
            service, tmp_path / "log.sqlite", f"ablation={name}", *(["writing.rewrite_every=1", "policy.rounds=5"] if name == "A8" else [])
        )
    db = sqlite3.connect(tmp_path / "log.sqlite")
    assert db.execute("SELECT count(*) FROM skills").fetchone()[0] > 0
    routed, injected = db.execute("SELECT count(skill), sum(injected) FROM capsules").fetchone()
    routers = db.execute("SELECT count(*) FROM calls WHERE role = 'router'").fetchone()[0]
    guidance = db.execute("SELECT count(*) FROM calls WHERE role = 'solver' AND request LIKE '%Guidance%'").fetchone()[0]
    assert injected == guidance == (0 if name == "A1" else routed)
    assert (routers == 0) == (name == "A2")
    if name == "A3":
        assert not db.execute("SELECT count(*) FROM calls WHERE role = 'synthesizer' AND request LIKE '%reusable pattern%'").fetchone()[0]
    if name == "A8":
        priors = [text for (text,) in db.execute("SELECT text FROM priors")]
        assert priors
        assert all(text.startswith("A better guide") for text in priors)
        assert db.execute("SELECT count(*) FROM calls WHERE role = 'synthesizer' AND request LIKE '%A better guide%'").fetchone()[0]


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["subset=mbpp_hard"], "subset: got 'mbpp_hard', expected one of .*demo24"),
        (["model=scripted/nowhere"], "model: got 'scripted/nowhere', expected scripted/WORLD"),
        (["model=scripted/one_skill", "subset=demo24"], "the world brings its own tasks"),
        (["policy.taus=0.1"], "policy.taus: got an unknown key, expected policy.tau"),
        (["policy.tau=two"], "policy.tau: got 'two'"),
        (["q=2", "reward=bias"], "reward.rho_fp: got 2"),
        (["budget.calls=-1"], "budget.calls: got -1"),
        (["reward=judge", "model=scripted/one_skill"], "scripted roles write no text"),
        (["out=s3://bucket/x"], "out: got"),
        (["reward.spread=0.2", "reward.unit=topic"], "reward.unit"),
        (["tau"], "an argument that cannot be read"),
        (["seed=1", "seed=2"], "seed: got two values"),
        (["model=scripted/one_skill", "policy.rounds=5000"], "policy.rounds"),
    ],
)
def test_bad_settings(args: list[str], match: str) -> None:
    with pytest.raises(InputError, match=match):
        load(args)


def test_logs_that_are_not_taken_up(tmp_path: Path) -> None:
    told = {"policy": {"tau": 0.1}, "seed": 1}
    log = Log(tmp_path / "a.sqlite", told)
    log.settle("rounds", ("round",), {"round": 0, "passes": 3, "attempted": 4, "active": 0})
    with pytest.raises(RunError, match="rounds, round 0: passes: got 2, expected 3 as logged"):
        log.settle("rounds", ("round",), {"round": 0, "passes": 2, "attempted": 4, "active": 0})
    log.close()
    with pytest.raises(InputError, match=r"policy.tau: got 0.2, expected 0.1, as the log began with"):
        Log(tmp_path / "a.sqlite", {"policy": {"tau": 0.2}, "seed": 1})
    (tmp_path / "b.sqlite").write_text("no database at all, but a text that is long enough to be taken for one" * 20)
    with pytest.raises(InputError, match="cannot be read as a log"):
        Log(tmp_path / "b.sqlite", told)
    other = sqlite3.connect(tmp_path / "c.sqlite")
    other.execute("CREATE TABLE meta (key, value)")
    other.close()
    with pytest.raises(InputError, match="no evidence log"):
        Log(tmp_path / "c.sqlite", told)


# ---------------------------------------------------------------- answers built to break


DEEP = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize("critic", ['{"pattern": "bad \\ud800 thing", "label": "neutral"}', DEEP, '{"pattern": 7}', "\x1b[2J\x00", ""])
def test_no_answer_ends_a_run(clever: Clever, tmp_path: Path, critic: str) -> None:
    """Whatever a model says is logged, read or fallen back from; the run goes on, and again from its log."""

    def reply(body: dict[str, Any]) -> str:
        role = clever.role(body["messages"][-1]["content"])
        if role == "critic":
            return critic
        return "```python\ndef f(*a): raise ValueError('\ud800')\n```" if role == "solver" else clever(body)

    with serving() as service:
        service.reply = reply
        play(service, tmp_path / "log.sqlite", "policy.rounds=2")
        before, asked = contents(tmp_path / "log.sqlite"), len(service.seen)
        play(service, tmp_path / "log.sqlite", "policy.rounds=2")
        assert len(service.seen) == asked
    assert contents(tmp_path / "log.sqlite") == before


def test_a_cluster_of_any_name(clever: Clever, tmp_path: Path) -> None:
    """The name of a cluster is no name of ours: a pattern called prior is not taken for the rewriting of the prior."""

    def reply(body: dict[str, Any]) -> str:
        user = body["messages"][-1]["content"]
        return '{"pattern": "prior", "label": "neutral"}' if clever.role(user) == "critic" else clever(body)

    with serving() as service:
        service.reply = reply
        play(service, tmp_path / "log.sqlite", "ablation=A8", "writing.rewrite_every=1", "policy.rounds=4", "writing.cover_guard=0.0")
    db = sqlite3.connect(tmp_path / "log.sqlite")
    assert db.execute("SELECT count(*) FROM priors").fetchone()[0] == 2
    assert db.execute("SELECT count(*) FROM skills WHERE cluster = 'prior'").fetchone()[0] > 1


def test_a_round_without_outcomes_is_no_fall(clever: Clever, tmp_path: Path) -> None:
    """Prompts with guidance are too long for this model: evals of later rounds are void, and no reason to roll back."""

    def reply(body: dict[str, Any]) -> str:
        return clever(body)

    with serving() as service:
        service.reply = reply
        service.too_long = "Guidance"
        args = ["policy.rollback.on=true", "policy.rollback.patience=1", "policy.rollback.margin=0.0", "ablation=A2", "policy.rounds=4"]
        play(service, tmp_path / "log.sqlite", *args)
    db = sqlite3.connect(tmp_path / "log.sqlite")
    assert db.execute("SELECT min(attempted) FROM rounds").fetchone()[0] == 0
    assert not db.execute("SELECT count(*) FROM changes WHERE kind = 'flagged'").fetchone()[0]


def test_what_a_trial_cost(undisturbed: Path) -> None:
    """A capsule's tokens are those of all its calls, retries too."""
    db = sqlite3.connect(undisturbed)
    calls = "SELECT sum(input_tokens + output_tokens) FROM calls WHERE role IN ('router', 'solver', 'judge')"
    assert db.execute("SELECT sum(tokens) FROM capsules").fetchone() == db.execute(calls).fetchone()
    assert db.execute("SELECT count(*) FROM calls WHERE attempt = 1 AND role = 'router'").fetchone()[0]


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["q=0.3"], "q: got 0.3, expected no rate: reward=clean takes none"),
        (["reward=bias", "rho_pf=0.2"], "rho_pf: got 0.2, expected q, which reward=bias takes"),
        (["reward=noise", "q=0.3"], "q: got 0.3, expected rho"),
        (["reward=bias", "q=banana"], "reward.rho_fp: got 'banana'"),
        (["model=scripted/one_skill", "budget.seconds=1"], "scripted roles ask no model"),
        (["model=scripted/one_skill", "ablation=A8"], "no authoring prior"),
        (["model=scripted/one_skill", "writing.prior=none"], "write and compare no texts"),
        (["model=nope"], "model: got 'nope', expected local/NAME"),
        (["seed=2024-13-45"], "a value that cannot be read"),
        (["seed=" + "9" * 5000], "a value that cannot be read"),
        (["seed=" + "[" * 3000], "a value that cannot be read"),
        (["writing.per_round=5", "writing={per_round: 1}"], "writing.per_round: got two values"),
        (["subset={}"], "subset"),
        (["roles=null"], "roles"),
    ],
)
def test_what_would_be_passed_over_is_refused(args: list[str], match: str) -> None:
    with pytest.raises(InputError, match=match):
        load(args)


def test_settings_that_are_put_together() -> None:
    assert load(["policy.rounds=2"]).settings.policy.window == 2
    assert load(["writing.per_round=5", "writing={min_cluster: 1}"]).settings.writing.per_round == 5
    assert "hunter2" not in str(load(["model=openai/x", "base_url=http://user:hunter2@127.0.0.1/v1"]).out)


def test_presets_of_ones_own(tmp_path: Path) -> None:
    """What they leave out is as usual."""
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "eager.yaml").write_text("tau: 0.0\nn_min: 5\n")
    (tmp_path / "reward").mkdir()
    (tmp_path / "reward" / "half.yaml").write_text("rho_fp: ${q}\nrho_pf: 0.1\n")
    settings = load(["policy=eager", "reward=half", "q=0.2"], tmp_path).settings
    assert (settings.policy.n_min, settings.policy.cap) == (5, 12)
    assert (settings.reward.rho_fp, settings.reward.rho_pf) == (0.2, 0.1)
