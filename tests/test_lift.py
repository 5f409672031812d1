"""Paired lift: its statistics against independent arithmetic, and a run's library measured with a model behind HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import binom, wilcoxon

from real_loop import lift, lift_report, paired
from real_loop.lift_report import Outcome
from real_loop.models import Budget, Reply, Request
from real_loop.sandbox import Sandbox
from real_loop.suites import CodeSuite, Grade, Task, code_of
from tests.clever import Clever
from tests.conftest import Answer, Command
from tests.misbehaving import Service, serving
from tests.test_figures import is_blank
from tests.test_real_loop import play

# ---------------------------------------------------------------- statistics


@pytest.mark.parametrize("n", [1, 2, 5, 12, 40])
def test_signed_ranks_without_ties_are_scipys(n: int) -> None:
    d = np.random.default_rng(n).normal(0.3, 1, n)
    assert paired.signed_rank(d) == (pytest.approx(wilcoxon(d, method="exact").pvalue), True)
    assert paired.signed_rank(np.concatenate([d, np.zeros(7)])) == paired.signed_rank(d)  # zeros are left out


@pytest.mark.parametrize("seed", range(6))
def test_signed_ranks_with_ties_count_every_sign(seed: int) -> None:
    """Every way to give signs, one by one, to means of three repeats; half of them off by rounding, which must not break a tie."""
    rng = np.random.default_rng(seed)
    d = rng.integers(-3, 4, 9) / 3 + rng.choice([0, 1e-13], 9)
    d = np.where(np.abs(d) < 1e-9, 0, d)
    kept = np.round(d[d != 0] * 3).astype(int)
    sizes = sorted(abs(kept))
    ranks = np.array([np.mean([i + 1 for i, s in enumerate(sizes) if s == abs(x)]) for x in kept])
    sums = np.array([sum(r for r, s in zip(ranks, signs, strict=True) if s) for signs in itertools.product((0, 1), repeat=len(kept))])
    w = ranks[kept > 0].sum()
    expected = min(1.0, 2 * min((sums <= w + 1e-9).mean(), (sums >= w - 1e-9).mean())) if len(kept) else 1.0
    assert paired.signed_rank(d)[0] == pytest.approx(expected)


def test_many_differences_are_approximated() -> None:
    d = np.random.default_rng(0).normal(0.1, 1, 300)
    p, exact = paired.signed_rank(d)
    assert not exact
    assert p == pytest.approx(wilcoxon(d).pvalue)
    assert paired.signed_rank(np.zeros(4)) == (1.0, True)


def test_the_test_holds_its_level() -> None:
    """Of 2,000 sets of tied differences without an effect at most 5 % are called significant: a binomial count, so that a right test
    fails here once in 10,000."""
    rng = np.random.default_rng(7)
    found = sum(paired.signed_rank(rng.integers(0, 4, 15) - rng.integers(0, 4, 15))[0] <= 0.05 for _ in range(2000))
    assert found <= binom.ppf(0.9999, 2000, 0.05)
    assert found >= 40  # and it is not one that never says so


def test_holm_by_hand() -> None:
    assert paired.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert paired.holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert paired.holm([]) == []


def test_a_lift_by_hand() -> None:
    one = paired.lift([1.0, 2 / 3, 0.0, 1 / 3], [0.0, 1 / 3, 0.0, 2 / 3])
    assert (one.first, one.second, one.mean) == pytest.approx((0.5, 0.25, 0.25))
    assert (one.n, one.better, one.worse, one.exact) == (4, 2, 1, True)
    assert one.p == pytest.approx(0.75)  # |d| = 1, 1/3, 1/3: ranks 3, 1.5, 1.5; W+ = 4.5 or more in 3 of 8 ways
    less = paired.lift([1.0, 2 / 3, 0.0, 1 / 3], [0.0, 1 / 3, 0.0, 2 / 3], less_is_better=True)
    assert (less.mean, less.better, less.worse) == (-one.mean, one.worse, one.better)
    assert paired.lift([0.1 + 0.2], [0.3]) == paired.Lift(0.1 + 0.2, 0.3, 0.0, None, None, 1, 0, 0, 1.0, True)


def test_intervals_cover() -> None:
    """Of 200 intervals of a mean of 40 at least 85 % have it inside (a right 95 % interval fails that less than once in a million)."""
    rng = np.random.default_rng(3)
    inside = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired, "RESAMPLES", 400)
        for _ in range(200):
            low, high = paired.interval(rng.exponential(1, 40) - 1)
            assert low is not None
            assert high is not None
            inside += low <= 0 <= high
    assert 170 <= inside < 200


# ---------------------------------------------------------------- the report


def outcomes(*violations: str) -> list[Outcome]:
    """One attempt per text: its violations, by their first letters; ? has no outcome."""
    names = {"o": "orphan_citation", "b": "bare_number"}
    return [Outcome(None if v == "?" else not v, 1 if "o" not in v else None, "", tuple(names.get(c, c) for c in v)) for v in violations]


ABOUT = {"log": "a/log.sqlite", "against": None, "rounds": [12, 12], "skills": [4, 0], "tasks": "eval", "repeats": 2}


def test_violations_by_class() -> None:
    attempts = {
        "library": {"s1": outcomes("b", ""), "s2": outcomes("?", "bb"), "s3": outcomes("?", "?")},
        "withheld": {"s1": outcomes("bo", "o"), "s2": outcomes("b", "bbo"), "s3": outcomes("o", "b")},
    }
    found = lift_report.report(attempts, ABOUT)
    assert (found["n"], found["void"], found["left_out"]) == (2, 3, ["s3"])
    assert found["violations"]["first"] == pytest.approx((0.5 + 2) / 2)
    assert found["violations"]["second"] == pytest.approx((1.5 + 3) / 2)
    assert found["violations"]["mean"] == pytest.approx(1.0)  # fewer with the library: positive
    assert found["pass"]["mean"] == pytest.approx(0.25)
    rows = {row["class"]: row for row in found["classes"]}
    assert rows["bare_number"]["mean"] == 0
    assert rows["orphan_citation"]["mean"] == pytest.approx(1.0)
    assert rows["orphan_citation"]["p_holm"] == 1.0
    assert [(t["task"], t["library"], t["withheld"], t["repeats"]) for t in found["by_task"]] == [("s1", 0.5, 1.5, 2), ("s2", 2, 3, 1)]
    assert json.loads(json.dumps(found)) == found


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("texts", [("b", ""), ("?", "?"), ("", "")], ids=["some", "void", "clean"])
def test_a_report_is_said_and_drawn(texts: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attempts = {"library": {"s$1": outcomes(*texts)}, "withheld": {"s$1": outcomes(*texts)}}
    found = lift_report.report(attempts, {**ABOUT, "tasks": "all"})
    files = lift_report.write(found, tmp_path)
    lift_report.say(found)
    said = capsys.readouterr().out
    assert "not held out" in said
    if texts == ("?", "?"):
        assert [f.name for f in files] == ["report.json"]
        assert "no task is left to compare" in said
    else:
        assert [f.name for f in files] == ["report.json", "lift.png", "lift.svg"]
        assert not is_blank(files[1])
        assert "1 of 1 differences are zero" in said


# ---------------------------------------------------------------- a model behind HTTP


class Simple(Clever):
    """Always routes to a skill, and solves more often with one: half of the tasks it would have failed."""

    helps = True

    def solver(self, user: str, draw: bytes) -> str:
        if not self.helps and "Guidance" in user:
            return "I do not know."
        return super().solver(user, draw)


class Direct:
    """A client that asks it without HTTP in between, which has tests of its own."""

    name, slots = "fake", 4

    def __init__(self, model: Simple, budget: Budget) -> None:
        self.model, self.budget = model, budget

    async def generate(self, request: Request) -> Reply:
        with self.budget.call():
            await asyncio.sleep(0)
            text = self.model({"messages": [{"content": request.user}], "seed": request.seed})
            reply = Reply(text, "stop", 10, 5, 0.001, 0.25, "fake-1")
        self.budget.add(reply)
        return reply

    def about(self) -> dict[str, Any]:
        return {"model": "fake-1"}

    async def close(self) -> None: ...


@pytest.fixture(scope="module")
def simple() -> Iterator[Simple]:
    model = Simple()

    def graded(suite: CodeSuite, task: Task, answer: str) -> Grade:
        passed = code_of(answer, task.entry_point).strip() == task.canonical.strip()
        return Grade(passed, "", 0.0, "passed" if passed else "wrong" if "return None" in answer else "no_code")

    async def opened(spec: str, *, budget: Budget, **_: Any) -> Direct:
        return Direct(model, budget)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CodeSuite, "grade", graded)  # the sandbox has tests of its own, and takes its time
        patch.setattr("real_loop.run.open_client", opened)
        yield model


@pytest.fixture(scope="module")
def run(simple: Simple, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    return made(tmp_path_factory.mktemp("run"))


def made(folder: Path, *args: str) -> Path:
    """Play a short run into a new folder; return its log."""
    folder.mkdir(exist_ok=True)
    path = folder / "log.sqlite"
    given = {"subset.n_train": "10", "subset.n_eval": "12", "policy.n_min": "50", "policy.rounds": "2", **dict(a.split("=") for a in args)}
    play(Service(), path, *(f"{key}={value}" for key, value in given.items()))
    return path


@pytest.fixture
def ask(answers: Callable[..., Command], simple: Simple) -> Iterator[Command]:
    command = answers(lift.main)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("real_loop.sandbox.find", lambda _: Sandbox("limits", "", ()))  # of which there is nothing to say
        patch.setattr(lift_report, "draw", lambda report: Figure())
        yield lambda *args: command(*args, "sandbox=limits")
    simple.helps = True


def found(answer: Answer) -> dict[str, Any]:
    assert answer.code == 0, answer.err
    return dict(json.loads(answer.out))


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    db = sqlite3.connect(path)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def test_a_library_that_helps_is_seen(ask: Command, run: Path, simple: Simple, tmp_path: Path) -> None:
    """Guidance lifts a pass from 1/3 to 2/3 in this model. With 12 tasks of 8 repeats the difference has a standard error of about 0.06;
    all is seeded, so the outcome is the same each time."""
    before = run.read_bytes()
    report = found(ask(str(run), "repeats=8", "out=there", "--json"))
    assert run.read_bytes() == before
    assert report["skills"][0] >= 1
    assert report["routed"]["library"] > 0.3
    assert report["violations"] is None
    one = report["pass"]
    assert one["low"] > 0.05
    assert one["p"] < 0.02
    assert {row["class"] for row in report["classes"]} == {"wrong", "no_code"}
    assert sum(row["mean"] for row in report["classes"]) == pytest.approx(one["mean"])  # what does not pass fails for a reason
    # independent arithmetic, from the log
    there = tmp_path / "there" / "lift.sqlite"
    passes = dict(rows(there, "SELECT phase, avg(passed) FROM capsules GROUP BY phase"))
    assert one["mean"] == pytest.approx(passes["library"] - passes["withheld"])
    assert json.loads((tmp_path / "there" / "report.json").read_text()) == report
    simple.helps = False
    worse = found(ask(str(run), "repeats=8", "out=worse", "--json"))["pass"]
    assert worse["high"] < -0.05


def test_arms_differ_where_a_skill_was_routed_and_nowhere_else(ask: Command, run: Path, tmp_path: Path) -> None:
    found(ask(str(run), "out=there", "--json"))
    query = """SELECT a.skill, a.solve_call = b.solve_call, a.answer = b.answer, a.passed = b.passed, a.prompt = b.prompt
        FROM capsules AS a JOIN capsules AS b ON a.round = b.round AND a.task = b.task WHERE a.phase = 'library' AND b.phase = 'withheld'"""
    pairs = rows(tmp_path / "there" / "lift.sqlite", query)
    assert len(pairs) == 36
    declined = [pair for pair in pairs if pair[0] is None]
    assert 0 < len(declined) < 36
    assert all(pair[1:] == (1, 1, 1, 1) for pair in declined)
    assert all(pair[4] == 0 for pair in pairs if pair[0] is not None)


def test_an_empty_library_is_exactly_zero(ask: Command, tmp_path: Path, simple: Simple) -> None:
    """It would be also where a service gives the same request another answer each time: it is asked once."""
    made(tmp_path / "empty", "writing.per_round=0", "policy.rounds=1")
    asked = len(simple.asked)
    report = found(ask(str(tmp_path / "empty"), "--json"))
    assert len(simple.asked) - asked == 36  # the solver, once per task and repeat, and no router
    assert report["skills"] == [0, 0]
    assert report["routed"] == {"library": 0.0}
    assert (report["pass"]["mean"], report["pass"]["low"], report["pass"]["high"], report["pass"]["p"]) == (0, 0, 0, 1)
    assert (tmp_path / "empty" / "lift" / "lift.sqlite").is_file()


def test_it_goes_on_where_it_stopped(ask: Command, run: Path, simple: Simple, tmp_path: Path) -> None:
    whole = found(ask(str(run), "out=whole", "--json"))
    stopped = ask(str(run), "out=parts", "budget.calls=15")
    assert stopped.code == 1
    assert "budget.calls" in stopped.err
    assert rows(tmp_path / "parts" / "lift.sqlite", "SELECT count(*) FROM calls")[0][0] >= 15
    assert found(ask(str(run), "out=parts", "--json")) == whole
    asked = len(simple.asked)
    assert found(ask(str(run), "out=parts", "--json")) == whole
    assert len(simple.asked) == asked
    more = found(ask(str(run), "out=parts", "repeats=4", "tasks=all", "--json"))  # adds to what is there
    assert (more["n"], more["repeats"]) == (22, 4)
    assert rows(tmp_path / "parts" / "lift.sqlite", "SELECT count(*) FROM capsules")[0][0] == 2 * 22 * 4
    assert found(ask(str(run), "out=parts", "--json")) == whole


def test_two_libraries(ask: Command, run: Path, tmp_path: Path) -> None:
    """A library against itself is the same prompt everywhere; against another one it is not; other tasks are refused."""
    itself = found(ask(str(run), f"against={run}", "out=itself", "--json"))
    assert itself["arms"] == ["library", "against"]
    assert (itself["pass"]["mean"], itself["pass"]["p"]) == (0, 1)
    made(tmp_path / "two", "seed=3")
    other = found(ask(str(run), f"against={tmp_path / 'two'}", "out=other", "--json"))
    assert set(other["routed"]) == {"library", "against"}
    assert other["pass"]["better"] + other["pass"]["worse"] > 0
    assert "lift.against: got" in (line := ask(str(run), f"against={run}", "out=other").error)
    assert "as the log began with" in line
    made(tmp_path / "three", "subset.n_eval=5", "policy.rounds=1")
    assert "a run with other tasks" in ask(str(run), f"against={tmp_path / 'three'}").error


def test_a_run_that_is_not_over(ask: Command, tmp_path: Path) -> None:
    """The shelf is the one after the last whole round, not what the next one had come to: that had written skills already."""
    path = made(tmp_path / "cut", "policy.rounds=3")
    active = rows(path, "SELECT active FROM rounds WHERE round = 0")[0][0]
    assert rows(path, "SELECT count(*) FROM skills WHERE round = 1")[0][0]
    db = sqlite3.connect(path)
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        db.execute(f"DROP TRIGGER {name}")
    for table in ("verdicts", "capsules", "changes", "skills", "rounds"):
        db.execute(f"DELETE FROM {table} WHERE round = 2")
    db.execute("DELETE FROM rounds WHERE round = 1")
    db.execute("DELETE FROM changes WHERE round = 1 AND kind IN ('flagged', 'dropped', 'restored')")
    db.execute("DELETE FROM capsules WHERE round = 1 AND phase = 'eval' AND position > 3")
    db.commit()
    db.close()
    assert "a run that is not over (1 of 3 rounds)" in ask(str(path)).error
    library = lift.frozen(str(path), True)
    assert library.ended == 1
    assert {skill.born for skill in library.shelf} == {0}
    assert len(library.shelf) == active
    assert found(ask(str(path), "unfinished=yes", "repeats=1", "--json"))["rounds"] == [1, 3]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "LOG: got none"),
        (("nowhere",), "no log there"),
        (("LOG", "repeats=0"), "repeats: got 0"),
        (("LOG", "repeats=x"), "repeats: got 'x'"),
        (("LOG", "tasks=train"), "tasks: got 'train'"),
        (("LOG", "unfinished=maybe"), "unfinished: got 'maybe'"),
        (("LOG", "model=openai/x"), "model: got a key that is not asked for here"),
        (("LOG", "roles.solver.temperature=0"), "roles.solver.temperature: got a key"),
        (("LOG", "budget.calls=-1"), "budget.calls"),
        (("LOG", "--fast"), "--fast: got an unknown option"),
        (("LOG", "against=nowhere"), "nowhere: got no log there"),
    ],
    ids=["none", "nowhere", "zero", "word", "train", "maybe", "model", "temperature", "budget", "flag", "against"],
)
def test_bad_input_is_one_line(ask: Command, run: Path, args: tuple[str, ...], said: str) -> None:
    assert said in ask(*(str(run) if arg == "LOG" else arg for arg in args)).error


def test_logs_that_are_refused(ask: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from real_loop import figures
    from real_loop.main import main as real_loop

    monkeypatch.setattr(figures, "draw", lambda history, folder: [])
    assert real_loop(["model=scripted/one_skill", "policy.rounds=2", "out=scripted"]) == 0
    assert "a run of scripted roles" in ask("scripted").error
    found(ask(str(run), "out=there", "repeats=1", "--json"))
    assert "a log of no run" in ask(str(tmp_path / "there" / "lift.sqlite")).error
    monkeypatch.setattr("real_loop.roles.trade.Trade.digest", lambda self: "other")
    assert "a run with other prompts" in ask(str(run)).error


def test_kept_violations_are_read_back() -> None:
    row = {"passed": 0, "skill": None, "reason": "bare_number:2", "trace": ""}
    assert lift_report.outcome(row, True) == Outcome(False, None, "bare_number:2", ("bare_number", "bare_number"))
    assert lift_report.outcome({**row, "reason": "passed", "passed": 1}, True).violations == ()
    assert lift_report.outcome({**row, "reason": "wrong"}, False).violations is None


@pytest.mark.slow
def test_a_model_behind_http(answers: Callable[..., Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real client, the real grader."""
    pytest.importorskip("inspect_ai", reason="needs inspect_ai: pip install 'halfblind[real]'")
    pytest.importorskip("openai", reason="needs openai: pip install 'halfblind[real]'")
    monkeypatch.setattr("inspect_ai.model._model.format_traceback", lambda *_: ("", ""), raising=False)
    monkeypatch.setenv("SMALL_API_KEY", "sk-a-key-for-tests")
    with serving() as service:
        service.reply = Simple()
        play(service, tmp_path / "log.sqlite", "policy.rounds=1")
        asked = len(service.seen)
        report = found(answers(lift.main)(str(tmp_path), f"base_url={service.url}", "sandbox=limits", "repeats=1", "--json"))
        assert (report["n"], report["void"]) == (4, 0)
        assert len(service.seen) - asked <= 4 * 3


def test_ctrl_c_keeps_what_was_attempted(run: Path, simple: Simple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = len(simple.asked)

    def spoken(model: Simple, body: dict[str, Any]) -> str:
        if len(simple.asked) == asked + 20:
            os.kill(os.getpid(), signal.SIGINT)
        return Clever.__call__(model, body)

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(Simple, "__call__", spoken)
        assert lift.main([str(run), "out=there", "sandbox=limits"]) == 130
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(number, handler)
    assert 20 <= rows(tmp_path / "there" / "lift.sqlite", "SELECT count(*) FROM calls")[0][0] < 60
    assert lift.main([str(run), "out=there", "sandbox=limits"]) == 0
