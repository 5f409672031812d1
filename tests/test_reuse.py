"""Answers taken over from other logs: the same run with fewer calls, and never another's answer."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from real_loop import history
from real_loop.config import load
from real_loop.log import Reader
from real_loop.measures import spending
from sim.errors import InputError
from tests.clever import Clever
from tests.misbehaving import Service, serving
from tests.test_real_loop import contents, play, pytestmark  # noqa: F401 - the marks hold here too


class Settled(Clever):
    """At temperature 0 its answers do not depend on the seed, as those of a real model."""

    def __call__(self, body: dict[str, Any]) -> str:
        return super().__call__({**body, "seed": 0} if not body.get("temperature") else body)


@pytest.fixture
def service() -> Any:
    pytest.importorskip("openai", reason="needs openai: pip install 'halfblind[real]'")
    with serving() as found:
        found.reply = Settled(spoil=0.1)
        yield found


def said(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a log says apart from what it cost."""
    found = contents(path)
    db = sqlite3.connect(path)
    names = {table: [c[1] for c in db.execute(f"PRAGMA table_info({table})")] for table in found}
    free = {"cost", "tokens"}
    kept = {table: [n for n in names[table] if n not in ("id", "part", "at", "seconds")] for table in found}
    return {
        table: sorted(repr([v for n, v in zip(kept[table], row, strict=True) if n not in free]) for row in rows)
        for table, rows in found.items()
        if table != "meta"
    }


def asked(service: Service, path: Path, *args: str) -> int:
    before = len(service.seen)
    play(service, path, *args)
    return len(service.seen) - before


def test_a_run_is_the_same_with_fewer_calls(service: Service, tmp_path: Path) -> None:
    """The clean run and a corrupted one share their first round at least; the shared ones cost nothing and need no budget."""
    clean, alone, shared = (tmp_path / name for name in ("clean", "alone", "shared"))
    total = asked(service, clean, "reward=clean")
    bias = ("reward=bias", "q=0.5")
    whole = asked(service, alone, *bias)
    fewer = asked(service, shared, *bias, f"reuse={clean}", f"budget.calls={whole - 12}")
    assert said(shared) == said(alone)
    assert 12 <= whole - fewer <= whole - 1  # the eight attempts and four evals of the first round are equal
    with_parts = Reader(shared)
    assert with_parts.one("SELECT count(*) FROM calls WHERE part = 0")[0] == whole - fewer
    assert sum(s.calls for s in spending(with_parts).values()) == fewer
    history.check(with_parts)
    again = asked(service, tmp_path / "again", "reward=clean", f"reuse={alone},{clean}")
    assert again == 0 < total
    assert asked(service, shared, *bias, f"reuse={clean}") == 0  # taken up: all is in its own log


def test_at_a_temperature_the_seed_counts(service: Service, tmp_path: Path) -> None:
    """Another run of one condition takes over no sampled answer, only those at temperature 0."""
    first, second = tmp_path / "first", tmp_path / "second"
    play(service, first)
    play(service, second, "seed=2", f"reuse={first}")
    taken = {(row["role"], row["round"]) for row in Reader(second).rows("calls") if row["part"] == 0}
    assert not {role for role, _ in taken} & {"solver", "synthesizer"}
    other = tmp_path / "other"
    play(service, other, "seed=2")
    assert said(other) == said(second)


def test_bad_sources_are_refused(service: Service, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no log there"):
        play(service, tmp_path / "a", f"reuse={tmp_path / 'nothing'}")
    play(service, tmp_path / "log")
    with pytest.raises(InputError, match="log of other models"):
        play(service, tmp_path / "b", f"reuse={tmp_path / 'log'}", "model=openai-api/small/other")
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()
    with pytest.raises(InputError, match="reuse"):
        load(["model=scripted/mbpp_hard100", f"reuse={tmp_path / 'log'}"])
