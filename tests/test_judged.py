"""Judges that are models behind real HTTP, asked about cases of known truth; what they said is audited, and nothing is asked twice."""

from __future__ import annotations

import asyncio
import csv
import json
import lzma
import math
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import real_loop
from real_loop.audit import main
from real_loop.audit.asked import JSON, WORD, Words, in_a_word, log_odds
from real_loop.audit.coded import fenced, from_solutions
from real_loop.audit.mutants import normal
from real_loop.audit.rated import direction, drops, interval
from real_loop.calls import _logged
from real_loop.log import Log
from real_loop.models import Request
from real_loop.roles.trade import CODING
from real_loop.suites import code_of
from real_loop.suites.data import tasks_of
from sim.errors import RunError
from tests.conftest import Command
from tests.misbehaving import Service, serving

ROOT = Path(real_loop.__file__).resolve().parents[1]
GALLERY = ROOT / "outputs" / "gallery" / "mbpp_hard100.sqlite.xz"
DEMO = ("subset=demo24", "sandbox=limits", "judge=openai/small", "patience=0", "figures=no")
REPORT = ("subset=report", "judge=openai/small", "patience=0", "figures=no")
pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),  # inspect_ai's own
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]
SOLUTIONS = [normal(task.canonical) for task in tasks_of("demo24")[1]]


def right(body: dict[str, Any]) -> bool:
    """Tell whether the answer in a prompt is a solution, to the letter."""
    return any(f"\nAnswer:\n{code}\n" in body["messages"][-1]["content"] for code in SOLUTIONS)


def oracle(body: dict[str, Any]) -> str:
    """Know the truth of programs; find reports better the longer they are."""
    user = body["messages"][-1]["content"]
    if "from 1 to 10" in user:
        return json.dumps({"rating": 1 + len(user) % 10})
    if WORD in user:
        return "PASS" if right(body) else "FAIL"
    return json.dumps({"verdict": "PASS" if right(body) else "FAIL"})


def tops(body: dict[str, Any]) -> list[tuple[str, float]]:
    """Be unsure: 0.7 against 0.2, over two tokens each."""
    chances = (0.6, 0.1, 0.15, 0.05) if right(body) else (0.15, 0.05, 0.6, 0.1)
    words = zip(("P", " pass", "FAIL", "F"), chances, strict=True)
    return [*sorted(((token, math.log(p)) for token, p in words), key=lambda each: -each[1]), ("The", -9.0)]


@pytest.fixture
def audit(answers: Callable[..., Command], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("SMALL_API_KEY", "sk-a-key-for-tests")
    return answers(main.main)


@pytest.fixture
def service() -> Iterator[Service]:
    pytest.importorskip("openai", reason="needs openai: pip install 'halfblind[real]'")
    with serving() as running:
        running.reply, running.tops = oracle, tops
        yield running


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------- what is asked


def test_log_odds() -> None:
    top = [("P", math.log(0.6)), ("F", math.log(0.2)), (" pass", math.log(0.05)), ("Fa", math.log(0.05)), (" ", -1.0), ("Pa$s", -0.1)]
    assert log_odds(top) == (pytest.approx(math.log(0.65 / 0.25)), 0)
    assert log_odds([("PASSED", -0.5), ("x", -6.0)]) == (pytest.approx(5.5), 1)  # at most as likely as the least one told
    assert log_odds([("FAIL", -0.5), ("x", -6.0)]) == (pytest.approx(-5.5), 1)
    assert log_odds([("The", -0.5), ("", -6.0)]) == (0.0, 2)
    assert log_odds([("P", -800.0), ("F", 0.0)])[0] == pytest.approx(-690.8, abs=0.1)


@pytest.mark.parametrize("manner", ["strict", "lenient"])
def test_the_prompt_for_log_odds_is_that_for_a_verdict_but_for_its_end(manner: str) -> None:
    text = CODING.prompt(f"judge_{manner}", task=f"a task. {JSON} no", answer="x")
    before, asked = in_a_word(text), text.rindex(JSON)
    assert before == text[:asked] + WORD
    assert not text[asked:].removeprefix(JSON).strip().count("\n")  # the last sentence


def test_requests_of_the_loop_are_logged_as_they_were(tmp_path: Path) -> None:
    """Each request of a run of another day, made anew, is what its log says, byte for byte."""
    path = tmp_path / "log.sqlite"
    path.write_bytes(lzma.decompress(GALLERY.read_bytes()))
    with closing(sqlite3.connect(path)) as db:
        texts = [text for (text,) in db.execute("SELECT request FROM calls")]
    assert len(texts) > 500
    assert all(_logged(Request(**json.loads(text))) == text for text in texts)
    assert json.loads(_logged(Request("", "x", 0.0, 1, 1, top_logprobs=20)))["top_logprobs"] == 20


# ---------------------------------------------------------------- cases


def test_mutants_fail_and_solutions_pass_on_their_tests() -> None:
    """Told by calling them here, not by the suite: these programs are our own."""
    digest, tasks = tasks_of("demo24")
    assert digest

    def outcome(code: str, task: Any) -> list[str]:
        space: dict[str, Any] = {}
        exec(task.prefix + "\n" + code, space)
        found = []
        for args in (*task.base, *task.plus):
            try:
                found.append(repr(space[task.entry_point](*json.loads(json.dumps(args)))))
            except Exception as error:
                found.append(type(error).__name__)
        return found

    async def grade(task: Any, answer: str) -> tuple[bool, str, float]:
        await asyncio.sleep(0)
        code = code_of(answer, task.entry_point)
        graded.append(code)
        if "while" in code and code not in SOLUTIONS:
            return False, "timeout", 0.0  # may never end
        return outcome(code, task) == outcome(task.canonical, task), "wrong", 0.0

    graded: list[str] = []
    with closing(Log(":memory:", {})) as log:
        made = asyncio.run(from_solutions(tasks, 10, 1, log, grade))
        first, again = len(graded), asyncio.run(from_solutions(tasks, 12, 1, log, grade))
        known = len(graded)
        assert known > first
        with pytest.raises(RunError, match="another program, expected the one as logged"):  # not another's grades
            asyncio.run(from_solutions(tasks, 10, 2, log, grade))
    assert again.cases[:20] == made.cases  # more of them begin with fewer
    assert len(graded[:known]) == len(set(graded[:known]))  # nothing is graded twice
    by_id = {task.id: task for task in tasks}
    for good, bad in zip(made.cases[::2], made.cases[1::2], strict=True):
        assert (good.truth, bad.truth, good.task) == (True, False, bad.task)
        assert bad.origin == good.id
        assert good.text == fenced(normal(by_id[good.task].canonical))
        assert bad.text != good.text
        assert bad.before in "\n".join(line.strip() for line in good.text.split("\n"))
        assert bad.after in "\n".join(line.strip() for line in bad.text.split("\n"))


def test_a_judge_that_knows(audit: Command, service: Service, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = [*DEMO, f"base_url={service.url}", "n=4", f"out={out}"]
    answer = audit(*args)
    assert answer.code in (0, 4), answer.err
    found = rows(out / "verdicts.csv")
    assert len(found) == 16  # four of either kind, strict and lenient
    assert all(row["truth"] == row["verdict"] for row in found)
    for row in found:
        assert float(row["score"]) == pytest.approx(math.log(3.5) * (1 if row["truth"] == "pass" else -1), rel=1e-5)
        assert (row["class"] == "") == (row["truth"] == "pass")
    assert len(service.seen) == 32
    told = json.loads((out / "report.json").read_text())
    assert [judge["judge"] for judge in told["judges"]] == ["openai/small strict", "openai/small lenient"]
    assert [judge["rho_fp"]["value"] for judge in told["judges"]] == [0.0, 0.0]
    # The very requests of the loop's judge, and nothing in them that tells what is what.
    for seen in service.seen:
        system, user = (message["content"] for message in seen.body["messages"])
        assert system == CODING.system
        assert not re.search("mutant|canonical|Demo/|" + "|".join(c["class"] for c in found if c["class"] not in ("", "constant")), user)
        if "logprobs" in seen.body:
            assert (seen.body["max_tokens"], seen.body["top_logprobs"]) == (1, 20)
    orders = [
        [right(seen.body) for seen in service.seen if part in seen.body["messages"][-1]["content"] and "logprobs" not in seen.body]
        for part in ("strict reviewer", "friendly reviewer")
    ]
    assert [sum(order) for order in orders] == [4, 4]
    assert orders[0] not in ([True] * 4 + [False] * 4, [False] * 4 + [True] * 4, [True, False] * 4)  # shuffled
    before = (out / "verdicts.csv").read_bytes()
    assert audit(*args).code == answer.code
    assert len(service.seen) == 32
    assert (out / "verdicts.csv").read_bytes() == before
    assert audit(*[a if a != "n=4" else "n=5" for a in args]).code in (0, 4)
    assert len(service.seen) == 40  # the one more of either kind, asked two things in two manners


def test_the_loops_own_judge(audit: Command, service: Service, tmp_path: Path) -> None:
    """What is asked for a verdict is what `roles.prompted.Judge` asks, down to the schema."""
    assert audit(*DEMO, f"base_url={service.url}", "n=1", "manner=strict", "scores=false", f"out={tmp_path / 'out'}").code in (3, 4)
    with closing(sqlite3.connect(tmp_path / "out" / "log.sqlite")) as db:
        request, subject = db.execute("SELECT request, subject FROM calls").fetchone()
    case = next(c for c in map(json.loads, (tmp_path / "out" / "verdicts_cases.jsonl").read_text().splitlines()) if c["id"] == subject)
    task = next(task for task in tasks_of("demo24")[1] if task.id == case["task"])
    code = code_of(case["text"], task.entry_point)
    wanted = CODING.prompt("judge_strict", task=task.prompt, answer=code)
    told = json.loads(request)
    assert (told["user"], told["system"], told["temperature"], told["max_tokens"]) == (wanted, CODING.system, 0.0, 40)
    assert told["schema"]["properties"] == {"verdict": {"type": "string", "enum": ["PASS", "FAIL"]}}
    assert Words(CODING, "code_rating").text("strict", task, type("", (), {"text": case["text"]})()) == wanted


def test_malformed_answers_fail_and_are_told(audit: Command, service: Service, tmp_path: Path) -> None:
    service.reply = lambda body: "Certainly!" if right(body) else oracle(body)
    answer = audit(*DEMO, f"base_url={service.url}", "n=3", "manner=strict", "scores=false", f"out={tmp_path / 'out'}")
    assert "openai/small strict: 3 of 6 answers could not be read; they count as FAIL" in answer.err
    assert [row["verdict"] for row in rows(tmp_path / "out" / "verdicts.csv") if row["truth"] == "pass"] == ["invalid"] * 3
    told = json.loads((tmp_path / "out" / "report.json").read_text())["judges"][0]
    assert (told["rho_fp"]["value"], told["rho_pf"]["value"]) == (0.0, 1.0)


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_without_log_probabilities(audit: Command, service: Service, tmp_path: Path, how: str) -> None:
    if how == "refused":
        service.then = "no logprobs"
    service.tops = None
    args = [*DEMO, f"base_url={service.url}", "n=3", "manner=lenient", "concurrency=1", f"out={tmp_path / 'out'}"]
    answer = audit(*[a if not a.startswith("patience") else "patience=20" for a in args])
    assert answer.code in (0, 4), answer.err
    assert "the service tells no log probabilities: verdicts alone" in answer.err
    assert "score" not in rows(tmp_path / "out" / "verdicts.csv")[0]
    assert sum("logprobs" in seen.body for seen in service.seen) == 1  # not asked for again and again


def test_budget_and_going_on(audit: Command, service: Service, tmp_path: Path) -> None:
    args = [*DEMO, f"base_url={service.url}", "n=3", f"out={tmp_path / 'out'}", "concurrency=1"]
    ended = audit(*args, "budget.calls=5")
    assert ended.code == 1
    assert "raise budget.calls" in ended.err
    assert len(service.seen) == 5
    assert not (tmp_path / "out" / "verdicts.csv").exists()
    assert audit(*args).code in (0, 4)
    assert len(service.seen) == 24
    other = audit(*args, "seed=2")
    assert other.code == 2
    assert "audit.seed: got 2, expected 1, as the log began with" in other.err


def test_votes(audit: Command, service: Service, tmp_path: Path) -> None:
    assert audit(*DEMO, f"base_url={service.url}", "n=2", "manner=strict", "calls=3", f"out={tmp_path / 'out'}").code in (0, 4)
    found = rows(tmp_path / "out" / "verdicts.csv")
    assert len(found) == 12
    assert len({row["case"] for row in found}) == 4
    assert {seen.body["temperature"] for seen in service.seen} == {0.7}
    assert len({seen.body["seed"] for seen in service.seen}) == 12


# ---------------------------------------------------------------- answers of a log


def logged(path: Path, model: str = "openai/small") -> Path:
    """Write a log as a run's: three answers to each of ten tasks, of which the first passes."""
    with closing(Log(path, {"probe": {"model": model}})) as log:
        for round_ in range(3):
            for i, task in enumerate(tasks_of("demo24")[1][:10]):
                code = normal(task.canonical) if round_ == 0 else f"def {task.entry_point}(*args):\n    return {round_}"
                log.add("capsules", {
                    "round": round_, "phase": "probe", "task": task.id, "position": i, "skill": None, "injected": 0,
                    "route_call": None, "solve_call": None, "prompt": "", "answer": f"Here:\n```python\n{code}\n```",
                    "passed": int(round_ == 0), "observed": None, "reason": "passed" if round_ == 0 else "wrong", "trace": "",
                    "judge_call": None, "tokens": 0, "cost": None, "seconds": 0.0,
                })  # fmt: skip
    return path


def test_answers_of_a_log(audit: Command, service: Service, tmp_path: Path) -> None:
    source = logged(tmp_path / "probe.sqlite")
    args = [*DEMO, f"base_url={service.url}", "manner=strict", "scores=false", f"cases={source}", f"out={tmp_path / 'out'}"]
    answer = audit(*args, "n=8", "per_task=1")
    assert "8 cases that truly pass and 8 that truly fail" in answer.err
    assert "self-judging: openai/small wrote what it judges" in answer.err
    found = rows(tmp_path / "out" / "verdicts.csv")
    fails = [row["task"] for row in found if row["truth"] == "fail"]
    assert len(fails) == len(set(fails)) == 8
    assert all(row["verdict"] == row["truth"] for row in found)
    assert json.loads((tmp_path / "out" / "verdicts_asked.json").read_text())["self_judging"] is True
    other = logged(tmp_path / "other.sqlite", "local/another")
    args = [*DEMO, f"base_url={service.url}", "manner=strict", "scores=false", f"cases={other}", "n=50", f"out={tmp_path / 'more'}"]
    answer = audit(*args)
    assert "self-judging" not in answer.err
    assert "10 cases that truly pass and 10 that truly fail" in answer.err
    assert "n=50 was asked for: there are no more" in answer.err


# ---------------------------------------------------------------- reports


def test_the_checks_alone(audit: Command, tmp_path: Path) -> None:
    from real_loop.audit.defects import VISIBLE
    from real_loop.suites.report import load_report

    answer = audit("subset=report", "judge=checks", "figures=no", f"out={tmp_path / 'out'}")
    told = json.loads((tmp_path / "out" / "verdicts_asked.json").read_text())["classes"]
    sections = len(load_report(1).tasks)
    assert told["clean"] == {"checks": [0, sections]}, answer.err
    assert all(told[cls]["checks"][0] == told[cls]["checks"][1] > 0 for cls in VISIBLE)
    assert told["claim_negation"]["checks"][0] == 0
    k, n = told["number_swap"]["checks"]
    assert k <= 0.05 * n
    assert "was asked for" not in answer.err


def test_checks_and_a_judge_together(audit: Command, service: Service, tmp_path: Path) -> None:
    """This judge flags what has an even number of letters: the union flags what either flags, case by case."""
    service.reply = lambda body: json.dumps({"verdict": "FAIL" if len(body["messages"][-1]["content"]) % 2 == 0 else "PASS"})
    audit(*REPORT, f"base_url={service.url}", "n=3", "manner=strict", "scores=false", f"out={tmp_path / 'out'}")
    found = rows(tmp_path / "out" / "verdicts.csv")
    by_case: dict[str, dict[str, bool]] = {}
    for row in found:
        by_case.setdefault(row["case"], {})[row["judge"]] = row["verdict"] == "fail"
    assert {frozenset(each) for each in by_case.values()} == {frozenset(("checks", "openai/small strict"))}
    told = json.loads((tmp_path / "out" / "verdicts_asked.json").read_text())["classes"]
    flagged = {row["case"]: any(by_case[row["case"]].values()) for row in found}
    for cls in told:
        cases = {row["case"] for row in found if (row["class"] or "clean") == cls}
        assert told[cls]["openai/small strict or checks"] == [sum(flagged[case] for case in cases), len(cases)]
    shown = service.seen[0].body["messages"]
    assert "reports" in shown[0]["content"]
    assert "Slice:" in shown[1]["content"]


def test_ratings(audit: Command, service: Service, tmp_path: Path) -> None:
    answer = audit(*REPORT, f"base_url={service.url}", "n=4", "manner=rating", f"out={tmp_path / 'out'}")
    found = rows(tmp_path / "out" / "ratings.csv")
    assert "verdict" not in found[0]
    cases = {c["id"]: c for c in map(json.loads, (tmp_path / "out" / "ratings_cases.jsonl").read_text().splitlines())}
    score = {row["case"]: float(row["score"]) for row in found}
    assert set(score) == set(cases)
    told = json.loads((tmp_path / "out" / "ratings_asked.json").read_text())
    for drop in told["drops"]:
        d = [score[c["origin"]] - score[c["id"]] for c in cases.values() if c["cls"] == drop["cls"]]
        assert (drop["n"], drop["mean"]) == (len(d), pytest.approx(sum(d) / len(d)))
    assert "direction:" in answer.err


def test_sections_that_a_model_composes(audit: Command, service: Service, tmp_path: Path) -> None:
    """The composer leaves the TL;DR out at every first try: what is not clean is no case, and it is asked again."""
    from real_loop.suites.report import load_report
    from real_loop.suites.report.compose import compose

    tasks, tried = load_report(1).tasks, list[str]()

    def reply(body: dict[str, Any]) -> str:
        user = body["messages"][-1]["content"]
        if "reviewer" in user:
            return json.dumps({"verdict": "PASS"})
        task = next(task for task in tasks if task.prompt in user)
        tried.append(task.id)
        return "Nothing." if tried.count(task.id) == 1 else compose(task.slice)

    service.reply = reply
    args = [*REPORT, f"base_url={service.url}", "composer=openai/small", "n=2", "manner=lenient", "scores=false", f"out={tmp_path / 'out'}"]
    answer = audit(*args)
    assert "self-judging: openai/small wrote what it judges" in answer.err
    told = json.loads((tmp_path / "out" / "verdicts_asked.json").read_text())
    assert told["writers"] == ["openai/small"]
    assert told["classes"]["clean"]["openai/small lenient"] == [0, 2]
    assert sorted(map(tried.count, set(tried))) == [2, 2]
    seen = len(service.seen)
    assert audit(*args).code == answer.code
    assert len(service.seen) == seen


def test_drops_and_direction() -> None:
    rating = {"a": 9.0, "b": 8.0, "c": 7.0, "d": 6.0, "e": 5.0, "a1": 8.0, "b1": 6.0, "c1": 4.0, "d1": 2.0, "e1": 0.0, "a2": 9.0}
    pairs = [("swap", x, f"{x}1") for x in "abcde"] + [("tldr", "a", "a2"), ("tldr", "b", "missing")]
    swap, tldr = drops(rating, pairs)
    assert (swap.n, swap.mean, swap.median, swap.lower, swap.p) == (5, 3.0, 3.0, 5, pytest.approx(1 / 32))  # all 5 signs the same
    assert (tldr.n, tldr.equal, tldr.p) == (1, 1, 1.0)
    assert direction([1, 2, 3], [1, 2, 3]).rho is None
    assert direction([5, 5, 5, 5], [1, 2, 3, 4]).rho is None
    found = direction([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 1, 2])
    assert found.rho == pytest.approx(1 - 6 * (25 + 9 + 1 + 1 + 16 + 16) / (6 * 35))
    assert (found.low, found.high) == interval(found.rho, 6)
    assert interval(0.19, 143) == (pytest.approx(0.03, abs=0.006), pytest.approx(0.34, abs=0.006))  # BC App. E


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["subset=demo24"], "judge: got nothing"),
        (["judge=openai/small"], "from: got nothing"),
        ([*DEMO, "n=0"], "n: got 0"),
        ([*DEMO, "manner=harsh"], "manner: got 'harsh'"),
        ([*DEMO, "calls=3", "scores=true"], "scores: got true with calls=3"),
        ([*DEMO, "calls=3", "roles.judge.temperature=0"], "roles.judge.temperature: got 0"),
        ([*DEMO, "model=openai/other"], "model: got a setting that an audit does not have"),
        ([*DEMO, "reward=judge"], "reward: got a setting"),
        ([*DEMO, "cases=nothing.sqlite"], "nothing.sqlite: got no log there"),
        (["subset=demo24", "sandbox=limits", "judge=checks"], "judge: got 'checks'"),
        ([*REPORT, "cases=some.sqlite"], "cases: got 'some.sqlite'"),
        ([*DEMO, "composer=local/smollm2-135m"], "composer: got 'local/smollm2-135m'"),
        (["subset=demo24", "judge=scripted/one_skill"], "judge"),
        (["subset=demo24", "judge=small"], "PROVIDER/NAME"),
        ([*DEMO, "tau=2"], "tau"),
        ([*DEMO, "nn=2"], "nn"),
    ],
)
def test_bad_input(audit: Command, tmp_path: Path, args: list[str], line: str) -> None:
    answer = audit(*args)
    assert answer.code == 2, answer
    said = [text for text in answer.err.splitlines() if not text.startswith("sandbox=limits: ")]
    assert len(said) == 1, answer.err
    assert line in said[0]
    assert not list(tmp_path.rglob("log.sqlite"))


# ---------------------------------------------------------------- killed


@pytest.mark.slow
def test_killed_and_gone_on_with(service: Service, tmp_path: Path) -> None:
    """Killed in the middle, stopped once more, and gone on with: the verdicts of an audit that nobody disturbed."""
    service.then = "slow"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SMALL_API_KEY": "sk-a-key-for-tests"}

    def started(out: str) -> subprocess.Popen[bytes]:
        args = [*DEMO, f"base_url={service.url}", "n=4", "concurrency=2", f"out={tmp_path / out}"]
        return subprocess.Popen([sys.executable, "-m", "real_loop.audit", *args], env=environment, stdout=-3, stderr=subprocess.PIPE)

    def ended(child: subprocess.Popen[bytes]) -> tuple[int, str]:
        _, said = child.communicate(timeout=300)
        return child.returncode, said.decode()

    code, said = ended(started("whole"))
    assert code in (0, 4), said
    total = len(service.seen)
    assert total == 32
    service.seen.clear()
    for how, expected in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        child, before = started("parts"), len(service.seen)
        until = time.monotonic() + 120
        while len(service.seen) < before + 7 and child.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        child.send_signal(how)
        code, said = ended(child)
        assert code == expected, said
        assert "Traceback" not in said
    assert "Continue with: python -m real_loop.audit subset=demo24" in said
    code, said = ended(started("parts"))
    assert code in (0, 4), said
    assert total <= len(service.seen) <= total + 2  # of those in flight at the kill nothing was known
    assert (tmp_path / "parts" / "verdicts.csv").read_bytes() == (tmp_path / "whole" / "verdicts.csv").read_bytes()


def test_one_section_that_differs_shows_no_direction() -> None:
    """One of ten by accident has both the warning and the other rating: chance 1 in 10, and no interval of no width."""
    found = direction([8.0] * 9 + [9.0], [0] * 9 + [1])
    assert (found.rho, found.low, found.high) == (pytest.approx(1.0), None, None)
    assert found.p == pytest.approx(0.1, abs=0.02)  # 9999 permutations: 6 standard errors


def test_checks_rate_nothing(audit: Command) -> None:
    assert "checks rate nothing" in audit("subset=report", "judge=checks", "manner=rating").error
    assert audit("subset=report", "judge=nope").error.startswith("error: judge: got 'nope'")
