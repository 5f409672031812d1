"""What the tests of the command and of the store share: the command in this process or as a real one, and stores as bytes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zarr

import sim
from sim.main import main

ROOT = Path(sim.__file__).resolve().parents[1]


@dataclass(frozen=True)
class Answer:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line of bad input: nothing else may be said, and the status must be 2."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: "), self.err
        return lines[0]


Command = Callable[..., Answer]
Main = Callable[[Sequence[str]], int]


def drawn(args: tuple[str, ...]) -> list[str]:
    """Leave the figures out unless a test asks for them: they have tests of their own."""
    return list(args) if any(a.startswith(("figures", "-")) for a in args) else [*args, "figures=[]"]


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[Main], Command]:
    """Make a command of a ``main`` function: in this process, in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)

    def of(run: Main) -> Command:
        def call(*args: str) -> Answer:
            capfd.readouterr()
            code = run(args)
            said = capfd.readouterr()
            return Answer(code, said.out, said.err)

        return call

    return of


@pytest.fixture
def command(answers: Callable[[Main], Command]) -> Command:
    """``python -m sim``."""
    return answers(lambda args: main(drawn(tuple(args))))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A real ``python -m sim``; ended with the test if it still runs."""
    started = []

    def start(*args: str, cwd: Path | None = None, tile_trials: int = 0, **kwargs: Any) -> subprocess.Popen[str]:
        begin = ["-m", "sim"]
        if tile_trials:  # shorter tiles than a second: more of them, more instants to be killed at
            begin = ["-c", f"import sim.sweep; sim.sweep.TILE_TRIALS = {tile_trials}; from sim.__main__ import run; run()"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **kwargs.pop("env", {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **kwargs}
        child = subprocess.Popen([sys.executable, *begin, *drawn(args)], cwd=cwd or tmp_path, env=environment, **pipes)
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


def finish(child: subprocess.Popen[str], timeout: float = 60) -> Answer:
    """Wait for a real command."""
    out, err = child.communicate(timeout=timeout)
    return Answer(child.returncode, out, err)


def contents(folder: Path | str) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Return every array of the store in a folder, sums and results: type, shape and bytes."""
    root = zarr.open_group(Path(folder) / "result.zarr", mode="r", zarr_format=3, use_consolidated=False)
    out = {}
    for name, item in root.members(max_depth=None):
        if isinstance(item, zarr.Array):
            values = item[...]
            raw = values.tobytes() if values.dtype.kind in "iufb" else repr(values.tolist()).encode()
            out[name] = (str(values.dtype), values.shape, raw)
    assert "tiles/sums" in out
    return out


def same(a: Path | str, b: Path | str) -> None:
    """Two stores hold the same arrays, bit for bit."""
    one, two = contents(a), contents(b)
    assert set(one) == set(two)
    assert [name for name in one if one[name] != two[name]] == []


def files(folder: Path | str) -> dict[str, str]:
    """Return a hash of every file below a folder."""
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(Path(folder).rglob("*")) if p.is_file()}
