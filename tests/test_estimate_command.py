"""``python -m sim.calibrate from=LOG``: the preset that it writes, logs that do not belong together, probes, and bad input."""

# ruff: noqa: F811 - fixtures of test_estimate.py, by their names
from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from real_loop.estimate import Probes
from real_loop.estimate.counts import gather
from real_loop.history import History
from real_loop.log import Reader
from real_loop.tasks import SHIPPED
from sim.calibrate import main as calibrate
from sim.config import load as load_sim
from sim.errors import InputError
from tests.conftest import ROOT, Command
from tests.test_estimate import ESTIMATED, clean, folder, noisy, played, short, spoken, value_of  # noqa: F401
from tests.test_history import changed_identity, opened


@pytest.fixture
def command(answers: Callable[..., Command]) -> Command:
    return answers(calibrate)


def test_the_command_and_its_preset(command: Command, clean: History, tmp_path: Path) -> None:
    said = command(f"from={clean.path.parent}", "out=mine", "draws=30")
    assert said.code == 0, said.err
    assert all(path in said.out for path in (*ESTIMATED, "n_train 60", "no skill was written from phantom"))
    stored = json.loads((tmp_path / "mine" / "estimate.json").read_text())
    assert np.array(stored["joint"]["values"]).shape == (30, 11)
    world = load_sim(["world=estimated_mbpp_hard100"], tmp_path / "mine").sweep.cell(()).world
    assert value_of(world, "effect.mean") == next(p["value"] for p in stored["parameters"] if p["path"] == "effect.mean")
    assert stored["world"]["difficulty"] == {"a": world.difficulty.a, "b": world.difficulty.b, "probes": 3, "keep": "any_fail"}
    assert command(f"from={clean.path}", "out=mine", "draws=30").code == 0, "the same again"
    assert "a folder with another estimate in it" in command(f"from={clean.path}", "out=mine", "draws=31").error
    assert "from=LOG" in command("--help").out


def test_unfinished_logs(command: Command, clean: History, tmp_path: Path) -> None:
    db = opened(clean.path, tmp_path, "part.sqlite")
    for table, where in {
        "rounds": "round >= 4", "changes": "round >= 4", "verdicts": "round >= 4", "skills": "round >= 4", "capsules": "round >= 4"
    }.items():  # fmt: skip
        db.execute(f"DELETE FROM {table} WHERE {where}")
    db.close()
    assert "an unfinished log, 4 of 6 rounds" in command("from=part.sqlite", "out=part").error
    said = command("from=part.sqlite", "out=part", "unfinished=yes")
    assert said.code == 0, said.err
    assert "4 rounds, not all finished" in said.out


def changed(history: History, to: Path, name: str, change: Callable[[dict[str, Any]], Any]) -> str:
    db = opened(history.path, to, name)
    changed_identity(db, change)
    db.close()
    return name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda i: i["subset"].update(suite="demo24"), "got a log of demo24"),
        (lambda i: i["tasks"]["train"].reverse(), "a log of other tasks"),
        (lambda i: i["writing"].update(memory=0.5), "a log of another writing"),
        (lambda i: i["world"].update(topic_skew=0.5), "a log of another world"),
    ],
)
def test_logs_that_do_not_belong_together(
    command: Command, clean: History, tmp_path: Path, change: Callable[[dict[str, Any]], Any], words: str
) -> None:
    other = changed(clean, tmp_path, "other.sqlite", change)
    assert words in command(f"from={clean.path},{other}").error
    assert not (tmp_path / "outputs").exists()


def without(history: History, to: Path, name: str, *queries: str) -> Path:
    db = opened(history.path, to, name)
    for query in queries:
        db.execute(query)
    db.close()
    return to / name


def test_a_log_with_nothing_to_estimate_from(clean: History, tmp_path: Path) -> None:
    history = History(Reader(clean.path))
    for rows in history.trials.values():
        rows[:] = [row for row in rows if row["skill"] is not None]
    with pytest.raises(InputError, match="no trial without a skill"):
        gather([history])
    history = History(Reader(clean.path))
    history.verdicts = {}
    with pytest.raises(InputError, match="no failure with a label"):
        gather([history])


def split_file(path: Path, **more: Any) -> Path:
    shipped = json.loads((SHIPPED / "mbpp_hard100-qwen2.5-coder-0.5b.json").read_text())
    path.write_text(json.dumps({**shipped, **more}))
    return path


def test_probes(spoken: History, folder: Path, answers: Callable[..., Command], tmp_path: Path) -> None:
    names = [*spoken.tasks["train"], *spoken.tasks["eval"]]
    passes = {name: i % 4 for i, name in enumerate([*names, "Demo/98", "Demo/99"])}
    c = gather([spoken], Probes(3, passes))
    assert c.probed.sum(axis=1).tolist() == [3.0] * len(c.tasks)
    assert c.others.sum() == 2
    with pytest.raises(InputError, match="none of "):
        gather([spoken], Probes(3, dict.fromkeys(names[1:], 1)))
    shutil.copy(spoken.path, tmp_path / "spoken.sqlite")
    said = answers(calibrate)
    digest = ""
    split_file(tmp_path / "other.json")
    assert "a split of mbppplus" in said("from=spoken.sqlite", "probes=other.json").error
    split_file(tmp_path / "model.json", suite="demo24", digest=digest)
    assert "probes of local/qwen2.5-coder-0.5b, expected those of openai/fake" in said("from=spoken.sqlite", "probes=model.json").error
    split_file(tmp_path / "none.json", suite="demo24", digest=digest, probes=0)
    assert "a split without probes" in said("from=spoken.sqlite", "probes=none.json").error


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["from=none"], "none: got no log there"),
        (["from="], "from: got nothing"),
        (["from=a,,b"], "from: got a,,b"),
        (["from=LOG,LOG"], "twice"),
        (["from=LOG", "from=LOG"], "a second value"),
        (["from=LOG", "runs=5"], "runs: got a key of a fit to papers, with from=, expected one of from"),
        (["from=LOG", "subsets=[mbpp_100]"], "subsets: got a key of a fit to papers"),
        (["from=LOG", "drws=5"], "drws: got an unknown key, expected draws"),
        (["from=LOG", "draws=1"], "draws: got 1, expected a whole number from 2"),
        (["from=LOG", "seed=-1"], "seed: got -1"),
        (["from=LOG", "unfinished=maybe"], "unfinished: got maybe, expected yes or no"),
        (["from=LOG", "probes=none.json"], "none.json: got no such file"),
        (["from=LOG", "out=LOG"], "a file, expected a folder"),
        (["from=LOG", "draws"], "an argument without ="),
        (["draws=5"], "draws: got a key that goes with from=LOG"),
        (["probes=x"], "probes: got a key that goes with from=LOG"),
    ],
)
def test_bad_keys(command: Command, clean: History, tmp_path: Path, args: list[str], words: str) -> None:
    assert words in command(*(arg.replace("LOG", str(clean.path)) if arg.count("LOG") else arg for arg in args)).error
    assert not (tmp_path / "outputs").exists()


def test_the_simulator_knows_no_logs_until_it_is_asked() -> None:
    code = "import sim.calibrate, sys; sys.exit(any(name.startswith('real_loop') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, check=False).returncode == 0
