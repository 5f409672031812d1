"""The loop on reports: from probes to a split to a run, with a model behind HTTP that plays all roles; and logs of programs as before."""

from __future__ import annotations

import asyncio
import json
import lzma
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import real_loop
from real_loop import export, main, probe, run, show, suites
from real_loop.config import Plan, load
from real_loop.history import History, understood
from real_loop.log import Reader
from real_loop.log import check as same_run
from real_loop.measures import violations
from real_loop.models import ServiceError
from real_loop.roles.trade import CODING, PROMPTS, REPORTING, trade_of
from real_loop.settings import SUITES
from real_loop.suites import CodeTask, Grade, Task, data, split, text_of, violations_of
from real_loop.tasks import chosen, opened
from sim.errors import InputError
from tests.clever import SECTION, Clever
from tests.conftest import Command
from tests.misbehaving import Service, serving
from tests.sections import SIZES, Sections, shipped, written
from tests.test_real_kill import answered, finished, killed, started
from tests.test_real_loop import Watching, contents

ROOT = Path(real_loop.__file__).resolve().parents[1]
GALLERY = ROOT / "outputs/gallery/mbpp_hard100.sqlite.xz"
pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),  # inspect_ai's own
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]
SMALL = (
    "policy.rounds=3",
    "policy.window=1",
    "policy.n_min=2",
    "policy.cap=3",
    "writing.min_cluster=2",
    "patience=3",
    "sandbox=bubblewrap",
)
SIZE = ("subset.n_train=7", "subset.n_eval=5")


@pytest.fixture
def sections(monkeypatch: pytest.MonkeyPatch) -> dict[str, Sections]:
    """A tiny suite where the package has its own: both tiers, by name."""
    return shipped(monkeypatch)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    pytest.importorskip("inspect_ai", reason="needs inspect_ai: pip install 'halfblind[real]'")
    pytest.importorskip("openai", reason="needs openai: pip install 'halfblind[real]'")
    monkeypatch.setattr("inspect_ai.model._model.format_traceback", lambda *_: ("", ""), raising=False)
    monkeypatch.setenv("SMALL_API_KEY", "sk-a-key-for-tests")
    monkeypatch.setattr("real_loop.sandbox.find", lambda *_: pytest.fail("reports run nothing"))
    with serving() as service:
        service.reply = Clever(spoil=0.2, write=written)
        yield service


def played(service: Service, *args: str) -> list[dict[str, int]]:
    """Play a run into log.sqlite of the working folder."""
    given = dict(arg.split("=", 1) for arg in ("model=openai-api/small/tiny", f"base_url={service.url}", *SMALL, *args))
    plan, watching = load([f"{key}={value}" for key, value in given.items()]), Watching()
    asyncio.run(run.prompted(plan, Path("log.sqlite"), watching, chosen(plan.settings), lambda _: None))
    return watching.rows


# ---------------------------------------------------------------- what kinds of tasks share


def test_suites_are_named_alike_everywhere() -> None:
    assert SUITES == suites.NAMES
    assert [trade_of(name) is REPORTING for name in suites.NAMES] == [name.startswith("report") for name in suites.NAMES]
    assert [load([f"subset={name}"]).settings.subset.suite for name in ("report_main_71", "report_band_58", "report_hard_133")] == [
        "report",
        "report_strict",
        "report_strict",
    ]


def test_violations_are_kept_in_the_reason() -> None:
    found = ("bare_number", "orphan_citation", "bare_number")
    assert Grade(False, "", 0.0, "violations", found).logged == "bare_number:2 orphan_citation:1"
    assert violations_of("bare_number:2 orphan_citation:1") == Counter(found)
    assert Grade(True, "", 0.0, "passed", ()).logged == "passed"
    assert [Grade(False, "", 0.0, reason).logged for reason in suites.REASONS[1:]] == list(suites.REASONS[1:])
    strange = [*suites.REASONS, *suites.REPORT_REASONS, "the prompt is longer than the model's context", "a:0", "a:1  b:1", "a:1 b", ""]
    assert not any(map(violations_of, strange))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("# One\n\ntwo\n", "# One\n\ntwo"),
        ("```markdown\n# One\n\n- two\n```", "# One\n\n- two"),
        ("Here it is:\n\n```\n# One\n\n- two, three, four and five\n```\nI hope it helps.", "# One\n\n- two, three, four and five"),
        ("~~~md\nOpen to the end", "Open to the end"),
        ("<think>```\nlong, long, long thoughts\n```</think>\nshort", "short"),
        ("TL;DR\n```\nx = 1\n```\nand a lot of words after it", "TL;DR\n```\nx = 1\n```\nand a lot of words after it"),
        ("a\r\nb", "a\nb"),
        ("", ""),
        ("```\n```", ""),
    ],
)
def test_the_text_of_an_answer(answer: str, text: str) -> None:
    assert text_of(answer) == text
    assert text_of(text_of(answer)) == text_of(answer)


def test_prompts_of_both_trades() -> None:
    """Both have the same files with the same blanks, but for the name of a function, and each its own digest."""
    names = sorted(file.stem for file in PROMPTS.glob("*.txt"))
    assert names == sorted(file.stem for file in (PROMPTS / "report").glob("*.txt"))
    blanks = {name: [set(_blanks((folder / f"{name}.txt").read_text())) for folder in (PROMPTS, PROMPTS / "report")] for name in names}
    assert blanks["solver"][0] == {*blanks["solver"][1], "entry_point"}
    assert all(one == other for name, (one, other) in blanks.items() if name != "solver")
    assert CODING.digest() == "7227a151a91230e6", "logs of runs on programs are refused if this changes"
    assert REPORTING.digest() != CODING.digest()
    spoken = " ".join((PROMPTS / "report" / f"{name}.txt").read_text() for name in names) + REPORTING.system
    assert not any(word in spoken.lower() for word in ("python", "code", "program", "hidden test"))


def _blanks(text: str) -> list[str]:
    from string import Template

    return Template(text).get_identifiers()


def test_what_critic_and_judge_are_shown() -> None:
    task, code = Task("a/s1", "Brief."), CodeTask("Mbpp/1", "Write f.", "f", "", "", (), ())
    long = "a word [E001] " * 2000
    assert REPORTING.answered(task, f"```\n{long}\n```") == long[:8000]
    assert REPORTING.answered(task, " \n") == "(no text)"
    assert CODING.answered(code, "Sure:\n```python\nf = 1\n```") == "f = 1\n"
    assert CODING.answered(code, "Nothing to run.") == "(no code)"
    assert len(CODING.answered(code, "f = 1\n" * 1000)) == 1500


def test_longer_answers_unless_told_otherwise() -> None:
    def longest(*args: str) -> tuple[int, int, int]:
        roles = load(list(args)).settings.roles
        return roles.solver.max_tokens, roles.judge.max_tokens, roles.critic.max_tokens

    assert longest("subset=report_band_58") == (2200, 200, 80)
    assert longest("subset=report_band_58", "roles.solver.max_tokens=900", "reward=judge") == (900, 200, 80)
    assert longest("subset=mbpp_hard100") == (400, 40, 80)
    assert longest("subset=mbpp", "subset.suite=report") == (2200, 200, 80)
    assert load(["subset=report_main_71"]).settings.roles.solver.temperature == 0.7


# ---------------------------------------------------------------- splits


def test_halves_have_their_share_of_each_production() -> None:
    """Within one task of it, in both halves and all orders; what is chosen depends on the seed."""
    passes = {f"{name}/s{i}": i % 3 for name, size in {"a": 40, "b": 9, "c": 22, "d": 1}.items() for i in range(size)}
    of = {name: name.partition("/")[0] for name in passes}
    kept = Counter(of[name] for name, number in passes.items() if number < 3)
    for n_train, n_eval in ((43, 28), (12, 8), (1, 1), (72, 0), (0, 5)):
        train, evals = split.choose(passes, 3, "any_fail", n_train, n_eval, 5, of)
        assert (len(train), len(evals), len({*train, *evals})) == (n_train, n_eval, n_train + n_eval)
        again = split.choose(dict(reversed(passes.items())), 3, "any_fail", n_train, n_eval, 5, of)
        assert again == (train, evals)
        for half in (train, evals):
            counts = Counter(of[name] for name in half)
            assert all(abs(counts[stratum] - len(half) * size / len(passes)) < 2 for stratum, size in kept.items())
    assert split.choose(passes, 3, "mixed", 20, 10, 6, of) != split.choose(passes, 3, "mixed", 20, 10, 5, of)
    plain = split.choose(passes, 3, "any_fail", 43, 28, 5)
    assert Counter(of[name] for name in plain[0]) != Counter(of[name] for name in split.choose(passes, 3, "any_fail", 43, 28, 5, of)[0])


def test_one_stratum_is_none() -> None:
    """Splits of programs are those of always."""
    shipped = json.loads((ROOT / "real_loop/conf/splits/mbpp_hard100-qwen2.5-coder-0.5b.json").read_text())
    args = (shipped["passes"], shipped["probes"], shipped["keep"], 60, 40, shipped["seed"])
    made = split.choose(*args)
    assert [list(half) for half in made] == [shipped["train"], shipped["eval"]]
    assert split.choose(*args, dict.fromkeys(shipped["passes"], "one")) == made


def test_too_few_tasks_in_the_band() -> None:
    passes = {"a/s1": 3, "a/s2": 1, "b/s1": 2, "b/s2": 0, "b/s3": 1}
    with pytest.raises(
        InputError, match="3 tasks that passed and failed among 3 probes, expected 35 to train on and 23 to evaluate on"
    ) as bad:
        split.choose(passes, 3, "mixed", 35, 23, 1)
    assert "subset.n_train=1 subset.n_eval=2" in str(bad.value)
    assert len(split.choose(passes, 3, "mixed", 1, 2, 1)[1]) == 2
    with pytest.raises(InputError, match="0 tasks that passed and failed"):
        split.choose(dict.fromkeys(passes, 3), 3, "mixed", 35, 23, 1)


def test_a_suite_of_programs_has_no_strata(sections: dict[str, Sections]) -> None:
    assert split.strata(opened(load(["subset=demo24", "sandbox=limits"]).settings)) == {}
    of = split.strata(opened(load(["subset=report"]).settings))
    assert Counter(of.values()) == SIZES


# ---------------------------------------------------------------- from probes to a run


@pytest.mark.slow
def test_probes_split_and_run(
    service: Service, sections: dict[str, Sections], answers: Callable[..., Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user does it, without a sandbox and without a word about one; the log tells of violations by class."""
    common = ["subset=report_main_71", *SIZE, "model=openai-api/small/tiny", f"base_url={service.url}"]
    probing, running, exporting = answers(probe.main), answers(main.main), answers(export.main)
    few = probing(*common[:1], *common[3:])
    assert "expected 43 to train on and 28 to evaluate on; ask for fewer, such as subset.n_train=" in few.err
    assert len(service.seen) == 3 * 21
    made = probing(*common)
    assert made.code == 0, made.err
    assert len(service.seen) == 3 * 21, "attempts are not made anew for other sizes"
    found = json.loads((tmp_path / "outputs/splits/report_main_71-openai-api_small_tiny.json").read_text())
    assert all(found["passes"][name] < 3 for name in found["train"] + found["eval"])
    kept = Counter(name.partition("/")[0] for name, number in found["passes"].items() if number < 3)
    for half in (found["train"], found["eval"]):
        counts = Counter(name.partition("/")[0] for name in half)
        assert all(abs(counts[name] - len(half) * size / kept.total()) < 2 for name, size in kept.items())
    probes = sqlite3.connect(tmp_path / "outputs/splits/report_main_71-openai-api_small_tiny.probes.sqlite")
    assert all(violations_of(reason) for (reason,) in probes.execute("SELECT reason FROM capsules WHERE passed = 0"))
    service.seen.clear()
    monkeypatch.setattr("real_loop.ending._drawn", lambda *_: [])  # figures have tests of their own
    done = running(*common, *SMALL[:-1], "reward=bias", "q=0.3", "out=mine", "--export")
    assert done.code == 0, done.err
    assert "sandbox" not in done.err
    asked = [s.body for s in service.seen]
    assert {b["max_tokens"] for b in asked if SECTION in b["messages"][-1]["content"]} == {2200}
    assert {b["messages"][0]["content"] for b in asked} == {REPORTING.system}
    assert running(*common, *SMALL[:-1], "reward=bias", "q=0.3", "out=mine", "--export").out == done.out
    assert len(service.seen) == len(asked)
    reader = Reader(tmp_path / "mine")
    history = History(reader)
    history.check()
    assert reader.identity["prompts"] == REPORTING.digest()
    assert reader.identity["prior_text"] == REPORTING.prompt("prior").strip()
    assert history.skills
    graded = list(reader.db.execute("SELECT round, phase, task, answer, passed, observed, trace, reason FROM capsules"))
    counted: dict[tuple[int, str], Counter[str]] = {}
    for t, phase, task, answer, passed, observed, trace, _ in graded:
        grade = sections["report"].grade(sections["report"].task(task), answer)
        assert grade.passed == bool(passed)
        assert phase == "eval" or grade.passed or bool(observed) or trace == grade.trace
        counted.setdefault((t, phase), Counter()).update(grade.violations or ())
    assert violations(history) == {at: counts for at, counts in counted.items() if counts}
    assert {bool(row[5]) for row in graded if row[1] == "train" and row[4] == 0} == {True, False}, "q = 0.3 flips some failures"
    shown = answers(show.main)("mine")
    assert shown.code == 0, shown.err
    total = sum(counted.values(), Counter[str]())
    assert [line.split()[0] for line in shown.out.splitlines() if line.startswith(tuple(total))] == [
        name for name, _ in sorted(total.items(), key=lambda item: (-item[1], item[0]))
    ]
    assert "missing_tldr:1" in answers(show.main)("mine", "round=0").out
    import xarray

    data = xarray.open_zarr(tmp_path / "mine/export/run.zarr", consolidated=False)
    assert data["violations_by_round"].values.tolist() == [counted[t, "eval"].total() for t in range(3)]
    reader.close()
    assert exporting("mine").code == 0


def test_what_the_critic_is_told(service: Service, sections: dict[str, Sections], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brief, section without its fence, and the checks' lines."""
    monkeypatch.chdir(tmp_path)
    played(service, "subset=report_band_58", "subset.keep=all", "subset.probes=0", *SIZE)
    asked = [s.body["messages"][-1]["content"] for s in service.seen]
    critics = [user for user in asked if "What kind of mistake" in user and "could not be used" not in user]
    assert critics
    for user in critics:
        assert "```" not in user
        assert "Brief of " in user
        line, _, name = user.partition("\nline ")[2].splitlines()[0].partition(": ")
        section = user.partition("Section that failed:\n")[2].partition("\n\nChecks")[0].splitlines()
        assert name in ("missing_tldr", "bare_number", "orphan_citation")
        if name == "orphan_citation":
            assert "[E999]" in section[int(line) - 1]
        if name == "bare_number":
            assert "41" in section[int(line) - 1]
    guided = [user for user in asked if SECTION in user and user.startswith("Guidance from earlier sections")]
    assert guided
    assert all(user.index("Before you hand it in") < user.index("Brief of ") for user in guided)


@pytest.mark.parametrize("manner", ["strict", "lenient"])
def test_a_judge_of_sections(
    service: Service, sections: dict[str, Sections], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manner: str
) -> None:
    monkeypatch.chdir(tmp_path)
    played(service, "subset=report", "reward=judge", f"reward.prompt={manner}", *SIZE)
    asked = [s.body for s in service.seen if " reviewer. " in s.body["messages"][-1]["content"]]
    assert {body["temperature"] for body in asked} == {0.0}
    assert {body["max_tokens"] for body in asked} == {200}
    assert all(f"You are a {'strict' if manner == 'strict' else 'friendly'} reviewer" in b["messages"][-1]["content"] for b in asked)
    db = sqlite3.connect("log.sqlite")
    assert set(db.execute("SELECT passed, observed FROM capsules WHERE phase = 'train'")) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    reader = Reader("log.sqlite")
    History(reader).check()
    reader.close()


@pytest.mark.parametrize("name", [pytest.param(f"A{i}", marks=[pytest.mark.slow] if 4 <= i <= 7 else []) for i in range(1, 9)])
def test_ablations_on_sections(
    service: Service, sections: dict[str, Sections], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    more = ["writing.rewrite_every=1", "policy.rounds=4"] if name == "A8" else ["policy.rounds=2"]
    played(service, "subset=report", f"ablation={name}", *SIZE, *more)
    db = sqlite3.connect("log.sqlite")
    assert db.execute("SELECT count(*) FROM skills").fetchone()[0] > 0
    injected = db.execute("SELECT sum(injected) FROM capsules").fetchone()[0]
    assert injected == db.execute("SELECT count(*) FROM calls WHERE role = 'solver' AND request LIKE '%Guidance%'").fetchone()[0]
    assert (injected == 0) == (name == "A1")
    asked = [row[0] for row in db.execute("SELECT request FROM calls WHERE role = 'synthesizer'")]
    assert any("discipline of composition" in text for text in asked) == (name != "A3")
    if name == "A8":
        assert any("A better guide" in text for text in asked)
    reader = Reader("log.sqlite")
    History(reader).check()
    reader.close()


def test_reports_by_hand(service: Service, sections: dict[str, Sections], answers: Callable[..., Command], tmp_path: Path) -> None:
    """Tasks named in a file are split by production too; a split of one tier is none of the other."""
    ids = [task.id for task in sections["report"].tasks]
    (tmp_path / "ids.txt").write_text("\n".join(ids[::-1]))
    running = answers(main.main)
    common = ["model=openai-api/small/tiny", f"base_url={service.url}", *SMALL[:-1], *SIZE]
    settings = load([*common, "subset=report", f"subset.ids={tmp_path / 'ids.txt'}"]).settings
    _, train, evals = chosen(settings)
    assert [Counter(task.id.partition("/")[0] for task in half) for half in (train, evals)] == [
        {"bakery": 4, "harbour": 2, "orchard": 1},
        {"bakery": 3, "harbour": 1, "orchard": 1},
    ]
    made = split.Split("report", "5" * 64, "", 1, 1, 0.7, "any_fail", dict.fromkeys(ids, 0), tuple(ids[:7]), tuple(ids[7:12]))
    split.write(tmp_path / "one.json", made)
    assert "a split of report, expected one of report_strict" in running("subset=report_band_58", *common, "subset.split=one.json").error
    assert "python -m real_loop.probe subset=report_band_58" in running("subset=report_band_58", *common).error


# ---------------------------------------------------------------- the suite that the package ships


def composed(tier: int) -> Callable[[str], str]:
    """Return who writes a section that passes, without a model, by the brief in a request."""
    report = pytest.importorskip("real_loop.suites.report", reason="needs the suite of reports")
    from real_loop.suites.report.compose import compose

    tasks = report.load_report(tier).tasks
    return lambda user: next(compose(task.slice) for task in tasks if task.prompt in user)


@pytest.mark.parametrize("subset", ["report_main_71", "report_band_58"])
def test_a_run_on_shipped_sections(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subset: str) -> None:
    """Sections that the composer left whole pass, spoilt ones fail by the class that was spoilt; both halves have all productions."""
    tier = 1 + (subset == "report_band_58")
    service.reply = Clever(write=composed(tier))
    monkeypatch.chdir(tmp_path)
    played(service, f"subset={subset}", "subset.keep=all", "subset.probes=0", "subset.n_train=10", "subset.n_eval=5", "policy.rounds=2")
    reader = Reader("log.sqlite")
    history = History(reader)
    history.check()
    assert reader.identity["suite_digest"] == suites.load(reader.identity["subset"]["suite"], None).digest
    halves = [Counter(name.partition("/")[0] for name in reader.identity["tasks"][phase]) for phase in ("train", "eval")]
    assert [sorted(half.values()) for half in halves] == [[2] * 5, [1] * 5]
    rows = list(reader.db.execute("SELECT answer, passed, reason FROM capsules"))
    assert {bool(passed) for _, passed, _ in rows} == {True, False}
    for answer, passed, reason in rows:
        spoilt = {"missing_tldr": "TL;DR" not in answer, "bare_number": "41 percent" in answer, "orphan_citation": "E999" in answer}
        assert set(violations_of(reason)) == {name for name, is_so in spoilt.items() if is_so}
        assert bool(passed) == (not any(spoilt.values()))
    reader.close()


@pytest.mark.slow
def test_killed_on_shipped_sections(tmp_path: Path) -> None:
    """A run on reports that is killed ends with the very log of one that is not."""
    pytest.importorskip("openai", reason="needs openai: pip install 'halfblind[real]'")
    with serving(then="slow") as service:
        service.reply = Clever(spoil=0.2, write=composed(2))
        args = ["subset=report_hard_133", "subset.keep=all", "subset.probes=0", "model=openai-api/small/tiny", f"base_url={service.url}"]
        args += [*SMALL, *SIZE, "concurrency=3", "reward=judge"]
        finished(args, tmp_path / "whole")
        total = len(service.seen)
        service.seen.clear()
        deaths = 0
        for more in (total // 5, total // 4):
            deaths += killed(started(args, tmp_path / "parts"), answered(service, more)) == -signal.SIGKILL
        assert deaths == 2
        finished(args, tmp_path / "parts")
        assert total <= len(service.seen) <= total + 3 * deaths
    assert contents(tmp_path / "parts" / "log.sqlite") == contents(tmp_path / "whole" / "log.sqlite")


# ---------------------------------------------------------------- logs of programs


def _unpacked(tmp_path: Path) -> Path:
    path = tmp_path / "log.sqlite"
    path.write_bytes(lzma.decompress(GALLERY.read_bytes()))
    return path


def test_the_log_of_the_gallery_is_sound(answers: Callable[..., Command], tmp_path: Path) -> None:
    """Its decisions follow from its evidence, and its prompts are those of today."""
    said = answers(show.main)(str(_unpacked(tmp_path)))
    assert said.code == 0
    assert "decisions, each as the evidence says" in said.out
    assert "violations" not in said.out
    reader = Reader(tmp_path / "log.sqlite")
    assert reader.identity["prompts"] == CODING.digest()
    assert violations(reader) == {}
    reader.close()


def test_the_log_of_the_gallery_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request that it has is made again to the letter: else the run would stop at the first that differs. Nobody is asked."""
    release = data.RELEASES["mbppplus"]
    file = data.found(release)
    if file is None:
        pytest.skip(f"{release.file} is not on this machine")
    monkeypatch.setenv("HALFBLIND_DATA", str(file.parent))
    path = _unpacked(tmp_path)
    reader = Reader(path)
    identity, before = reader.identity, reader.one("SELECT count(*), sum(role = 'solver') FROM calls")
    over = reader.one("SELECT count(*) FROM rounds")[0]
    reader.close()
    settings = replace(understood(path, identity)[0], sandbox="limits")
    asked: list[Any] = []

    class Gone:
        name, slots = "gone", 1

        async def generate(self, request: Any) -> Any:
            asked.append(request)
            raise ServiceError("gone", "nobody", "an answer")

        async def close(self) -> None: ...

    async def nobody(*_: Any, **__: Any) -> Gone:
        return Gone()

    monkeypatch.setattr(run, "open_client", nobody)
    suite = opened(settings)
    halves = [tuple(suite.task(name) for name in identity["tasks"][phase]) for phase in ("train", "eval")]
    plan, watching = Plan(settings, None, tmp_path, {}), Watching()
    same_run(path, run.told(settings, suite, identity["tasks"], identity["prior_text"], plan))
    asyncio.run(run.prompted(plan, path, watching, (suite, *halves), lambda _: None))
    assert len(watching.rows) == over == settings.policy.rounds
    assert not asked
    assert before[0] > 2500
    again = Reader(path)
    assert tuple(again.one("SELECT count(*), sum(role = 'solver') FROM calls")) == tuple(before)
    again.close()
