"""``python -m real_loop`` and ``python -m real_loop.probe`` as commands: what goes wrong is one line, and nothing is left behind."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from real_loop import main, probe
from real_loop.models import catalogue
from real_loop.sandbox import find
from real_loop.suites import load as load_suite
from real_loop.suites import split
from tests.clever import Clever
from tests.conftest import Answer, Command
from tests.misbehaving import free_port, serving

pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),  # inspect_ai's own
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]
DEMO = ("subset=demo24", "sandbox=limits", "subset.n_train=3", "subset.n_eval=2")


@pytest.fixture
def loop(answers: Callable[..., Command], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.setenv("HALFBLIND_MODELS", str(tmp_path / "no weights here"))
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")  # a model hub that cannot be reached
    return answers(main.main)


def said(answer: Answer) -> str:
    """Return the one line of bad input, after what sandbox=limits has to say."""
    assert answer.code == 2, answer
    lines = [line for line in answer.err.splitlines() if not line.startswith("sandbox=limits: ")]
    assert len(lines) == 1, answer.err
    return lines[0]


def test_scripted(loop: Command, tmp_path: Path) -> None:
    answer = loop("model=scripted/report_band_58", "policy.rounds=4", "--export")
    assert answer.code == 0, answer.err
    folder = tmp_path / "outputs/real_loop/scripted_report_band_58/policy.rounds=4"
    assert {p.name for p in folder.iterdir()} >= {"log.sqlite", "figures", "export"}
    again = loop("model=scripted/report_band_58", "policy.rounds=4")
    assert again.code == 0
    assert again.out.splitlines()[:6] == answer.out.splitlines()[:6]
    assert "policy.rounds: got 5, expected 4" in said(loop("model=scripted/report_band_58", "policy.rounds=5", f"out={folder}"))


def test_help_and_settings(loop: Command) -> None:
    page = loop("--help").out
    assert all(f"ablation=A{i} " in page for i in range(1, 9))
    assert "roles.critic.temperature" in page
    assert "rho_fp: 0.25" in loop("--cfg", "reward=bias", "q=0.25").out
    assert "n_min: 20" in loop("--cfg", "ablation=A4").out
    assert "n_min: 30" in loop("--cfg", "ablation=A4", "policy.n_min=30").out


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["subset=demo"], "subset: got 'demo', expected one of demo24"),
        ([*DEMO, "model=local/qwen"], "qwen2.5-coder-0.5b"),
        ([*DEMO, "model=local/smollm2-135m"], "model=scripted/mbpp_hard100"),
        ([*DEMO, "model=nobody/nothing"], "nobody"),
        ([*DEMO, "model=gpt"], "PROVIDER/NAME"),
        ([*DEMO[:2], "subset.n_train=30"], "24 tasks"),
        ([*DEMO, "subset.ids=nothing.txt"], "nothing.txt"),
        ([*DEMO, "writing.prior=nothing.txt"], "writing.prior: got 'nothing.txt'"),
        ([*DEMO, "roles.critic.model=scripted/one_skill"], "roles.critic.model"),
        (["model=scripted/one_skill", "policy.curator=best"], "policy.curator"),
        (["--exports"], "--exports: got an unknown option"),
    ],
)
def test_bad_input(loop: Command, args: list[str], line: str) -> None:
    assert line in said(loop(*args))


def test_weights_that_are_others(loop: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp", reason="needs xllamacpp: pip install 'halfblind[local]'")
    weights = catalogue.CATALOGUE["smollm2-135m"]
    monkeypatch.setenv("HALFBLIND_MODELS", str(tmp_path))
    with open(tmp_path / weights.file, "wb") as file:
        file.truncate(weights.size)
    line = said(loop(*DEMO, "model=local/smollm2-135m"))
    assert weights.sha256[:12] in line


def test_data_that_cannot_be_read(loop: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mbpp.jsonl.gz").write_bytes(b"\x1f\x8b not really")
    monkeypatch.setenv("MBPP_OVERRIDE_PATH", str(tmp_path / "mbpp.jsonl.gz"))
    assert "mbpp.jsonl.gz" in said(loop("subset=mbpp", "sandbox=limits"))


def test_splits(loop: Command, tmp_path: Path) -> None:
    """A subset that probes choose needs a split, and one of this model and this suite."""
    chosen = ("subset=demo24", "subset.keep=any_fail", "subset.probes=2", "subset.n_train=3", "subset.n_eval=2", "sandbox=limits")
    assert "python -m real_loop.probe subset=demo24 model=mockllm/a" in said(loop(*chosen, "model=mockllm/a"))
    suite = load_suite("demo24", find("limits"))
    ids = tuple(task.id for task in suite.tasks)
    made = split.Split("demo24", suite.digest, "mockllm/b", 1, 2, 0.7, "any_fail", dict.fromkeys(ids, 1), ids[:3], ids[3:5])
    split.write(tmp_path / "b.json", made)
    assert "one probed with mockllm/a" in said(loop(*chosen, "model=mockllm/a", f"subset.split={tmp_path / 'b.json'}"))
    (tmp_path / "c.json").write_text("{")
    assert "not JSON" in said(loop(*chosen, "model=mockllm/a", f"subset.split={tmp_path / 'c.json'}"))
    assert not (tmp_path / "outputs").exists()


def test_probing(answers: Callable[..., Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts are logged; a probe that its budget stopped goes on; the split is what its passes say."""
    pytest.importorskip("openai", reason="needs openai: pip install 'halfblind[real]'")
    monkeypatch.setenv("SMALL_API_KEY", "sk-a-key-for-tests")
    ask = answers(probe.main)
    with serving() as service:
        service.reply = Clever()
        args = ["subset=demo24", "subset.keep=any_fail", "subset.probes=2", "subset.n_train=4", "subset.n_eval=2", "sandbox=limits"]
        args += ["model=openai-api/small/tiny", f"base_url={service.url}", "out=mine.json"]
        stopped = ask(*args, "budget.calls=10")
        assert stopped.code == 1
        assert "budget.calls" in stopped.err
        done = ask(*args)
        assert done.code == 0, done.err
        assert len(service.seen) == 48
        assert ask(*args).out == done.out
        assert len(service.seen) == 48
    found = json.loads((tmp_path / "mine.json").read_text())
    rows = sqlite3.connect(tmp_path / "mine.probes.sqlite").execute("SELECT task, sum(passed) FROM capsules GROUP BY task").fetchall()
    assert found["passes"] == dict(rows)
    assert all(found["passes"][name] < 2 for name in (*found["train"], *found["eval"]))
    assert os.stat(tmp_path / "mine.json").st_mode & 0o077 == 0o666 & ~_umask() & 0o077
    assert "keeps all tasks" in ask("subset=demo24").error
    assert "scripted roles bring their own" in ask("model=scripted/one_skill").error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
