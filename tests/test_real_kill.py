"""The real loop as a real process, killed for real: it goes on, asks nothing twice that was answered, and ends as if undisturbed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import real_loop
from real_loop.models import catalogue
from tests.clever import Clever
from tests.misbehaving import Service, serving
from tests.test_real_loop import MORE, SMALL, contents

ROOT = Path(real_loop.__file__).resolve().parents[1]
pytestmark = pytest.mark.slow


def started(args: Sequence[str], out: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SMALL_API_KEY": "sk-a-key-for-tests"}
    command = [sys.executable, "-m", "real_loop", *args, f"out={out}"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finished(args: Sequence[str], out: Path, code: int = 0) -> str:
    child = started(args, out)
    _, said = child.communicate(timeout=900)
    assert child.returncode == code, said.decode()
    return said.decode()


def killed(child: subprocess.Popen[bytes], when: Callable[[], bool], how: int = signal.SIGKILL) -> int:
    """Send a signal once something is true, or let the process end before that; return how it ended."""
    until = time.monotonic() + 120
    while child.poll() is None and not when() and time.monotonic() < until:
        time.sleep(0.002)
    if child.poll() is None:
        os.kill(child.pid, how)
    child.communicate(timeout=60)
    return child.returncode


def answered(service: Service, more: int) -> Callable[[], bool]:
    """Tell when so many more requests have come."""
    before = len(service.seen)
    return lambda: len(service.seen) >= before + more


def test_killed_again_and_again(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="needs openai: pip install 'halfblind[real]'")
    clever, draw = Clever(spoil=0.2), random.Random(3)
    with serving(then="slow") as service:
        service.reply = clever
        args = [*SMALL, *MORE, f"base_url={service.url}", "concurrency=3"]
        finished(args, tmp_path / "whole")
        total = len(contents(tmp_path / "whole" / "log.sqlite")["calls"])
        assert len(service.seen) == total
        assert service.most_together == 3
        service.seen.clear()
        deaths = 0
        for how in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            wait = draw.uniform(0, 0.2)
            code = killed(started(args, tmp_path / "parts"), answered(service, draw.randrange(1, total // 7)), how)
            deaths += code == -signal.SIGKILL
            assert code in (-how, 130), code
            time.sleep(wait)
        assert deaths == 4
        finished(args, tmp_path / "parts")
        assert total <= len(service.seen) <= total + 3 * deaths  # of those in flight at a kill nothing was known
    assert contents(tmp_path / "parts" / "log.sqlite") == contents(tmp_path / "whole" / "log.sqlite")


def test_two_runs_at_once_in_one_folder(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="needs openai: pip install 'halfblind[real]'")
    with serving(then="slow") as service:
        service.reply = Clever()
        args = [*SMALL, *MORE, f"base_url={service.url}", "concurrency=1"]
        first = started(args, tmp_path / "a")
        while not service.seen:
            time.sleep(0.05)
        assert "another run is writing to" in finished(args, tmp_path / "a", 2)
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
        assert first.returncode == 130


def test_killed_with_a_real_model(tmp_path: Path) -> None:
    """Local answers depend on seed and prompt alone, so a run that was killed ends with the very log of one that was not."""
    pytest.importorskip("xllamacpp", reason="needs xllamacpp: pip install 'halfblind[local]'")
    model = "smollm2-135m"
    file = catalogue.folder() / catalogue.CATALOGUE[model].file
    if not file.is_file():
        pytest.skip(f"needs weights: {file}")
    small = ["subset.n_train=3", "subset.n_eval=2", "policy.rounds=2", "policy.window=1", "writing.min_cluster=1", "sandbox=limits"]
    args = ["subset=demo24", f"model=local/{model}", *small, "roles.solver.max_tokens=60", "roles.synthesizer.max_tokens=120"]
    finished(args, tmp_path / "whole")
    for wait in (6.0, 9.0):
        began = time.monotonic()
        killed(started(args, tmp_path / "parts"), lambda: time.monotonic() > began + wait)  # noqa: B023 - used at once
    finished(args, tmp_path / "parts")
    assert contents(tmp_path / "parts" / "log.sqlite") == contents(tmp_path / "whole" / "log.sqlite")
