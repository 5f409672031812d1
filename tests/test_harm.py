"""Where harm peaks along the rate of hidden failures: shapes, the sweep, the figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sim.figures import axes
from sim.figures.harm import peak, peaks
from sim.store import open_result
from tests.conftest import Command


def test_shapes_of_harm_are_told_apart() -> None:
    """An inverted U, growth to the end, and nothing but noise; the peak and what cannot be told from it."""
    q = np.round(np.linspace(0, 1, 11), 1)
    se = np.full(11, 0.01)
    hump = peak(q, 0.3 - (q - 0.6) ** 2, se, 4.0)
    assert (hump.shape, hump.rate) == ("hump", 0.6)
    assert (hump.low, hump.high) == (0.5, 0.7)
    assert peak(q, q, se, 4.0).shape == "grows"
    assert peak(q, 0.03 * np.sin(7 * q), se, 4.0).shape == "none"


def test_the_harm_sweep_draws_and_finds_both_shapes(command: Command, tmp_path: Path) -> None:
    """Skills that hurt: harm recedes as writing starves. Skills that help: it grows to the whole lift."""
    args = ("+sweep=harm", "axes.n_train=[24,96]", "axes.effect.mean=[-1,1.5]", "axes.rho_fp.step=0.1", "runs=1500", "out=harm")
    assert command(*args, "figures=[harm]").code == 0
    assert (tmp_path / "harm" / "harm.png").exists()
    found = peaks(axes.prepare(open_result(tmp_path / "harm")))
    assert [[p.shape for p in row] for row in found] == [["hump", "grows"], ["hump", "grows"]]
    assert 0.2 < found[0][0].rate < found[1][0].rate < 1.0  # later where failures abound
    assert "harm" in command("+sweep=cliff", "runs=1", "axes.rho_fp=[0,1]", "figures=[harm]").error
