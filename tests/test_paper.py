"""BC's table: what is reported is found, how far it is away, and the figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.figures.paper import COLUMNS, distance, reported
from tests.conftest import Command


def test_what_is_reported_is_found_by_channel() -> None:
    known = reported()
    assert known["report_main_71", "bias:0.45", "synthesised"] == (15.7, 15.7)
    assert known["report_main_71", "noise:0.3", "retired"] == (0.7, 1.0)  # a range of channels holds in each
    assert all(metric in COLUMNS and low <= high for (_, _, metric), (low, high) in known.items())
    assert len(known) > 30


def test_distance_is_signed_and_zero_inside_a_range() -> None:
    assert distance(1.0, 0.5, (2.0, 3.0), "retired") == 2.0  # reported above
    assert distance(4.0, 0.5, (2.0, 3.0), "retired") == -2.0
    assert distance(2.5, 0.5, (2.0, 3.0), "retired") == 0.0
    assert distance(0.0, 0.0, (0.3, 0.3), "retired") == pytest.approx(3.0)  # no spread at all: as what can be read off a table


def test_the_sweep_draws_its_table(command: Command, tmp_path: Path) -> None:
    said = command("+sweep=paper", "runs=20", "out=paper", "figures=[paper]")
    assert said.code == 0, said.err
    assert (tmp_path / "paper" / "paper.png").exists()
    assert "paper" in command("+sweep=paper", "runs=20", "policy.sampled_eval=false", "out=other", "figures=[paper]").error
