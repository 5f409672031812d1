"""Statistical tests of the kernel that do not look at bits, and broken kernels that must fail them.

All keys are fixed. Each gate is set so that a correct kernel with a random key would fail any of its comparisons with
probability below 1e-6 (Bonferroni over the comparisons, normal approximation).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from sim import sums
from sim.kernels import numba_kernel
from sim.tables import Tables, derive
from sim.variables import METRIC, METRICS
from tests import golden
from tests.worlds import HARD_133, NAMED, cell

FALSE_ALARM = 1e-6
RUNS, SEED = 20_000, 4


def gate(comparisons: int) -> float:
    return float(norm.isf(FALSE_ALARM / 2 / comparisons))


# ---------------------------------------------------------------- realised error rates against the channel's

RATES = [(0.05, 0.0), (0.2, 0.2), (0.45, 0.0), (0.7, 0.1), (0.01, 0.95)]


def rate_scores(tables: Tables) -> np.ndarray:
    """Return how many standard errors the realised rho_fp and rho_pf are from the cell's, shape (cells, 2).

    Given the true outcomes, flips are independent coins: the errors are binomial.
    """
    run = numba_kernel.run(tables, np.zeros(len(tables.cells), np.int32), SEED, 0, RUNS // 4)
    total = {m: run.metrics[:, METRIC[m], 0].astype(float) for m in METRICS}
    fails = total["observed_failures"] - total["phantom_failures"] + total["hidden_failures"]
    trials = RUNS // 4 * tables.cells["n_train"] * tables.cells["rounds"].astype(float)
    scores = []
    for flips, n, rho in (
        (total["hidden_failures"], fails, [r[0] for r in RATES]),
        (total["phantom_failures"], trials - fails, [r[1] for r in RATES]),
    ):
        rho = np.array(rho)
        with np.errstate(invalid="ignore"):
            scores.append(np.where(rho > 0, (flips - n * rho) / np.sqrt(n * rho * (1 - rho)), np.where(flips > 0, np.inf, 0.0)))
    return np.stack(scores, axis=-1)


def test_realised_rates_are_those_of_the_channel() -> None:
    scores = rate_scores(derive([cell(HARD_133, q, p) for q, p in RATES]))
    assert np.abs(scores).max() < gate(scores.size)


@pytest.mark.parametrize("field", ["flip_fail", "flip_pass"])
def test_a_flip_probability_off_by_two_percent_fails(field: str) -> None:
    tables = derive([cell(HARD_133, q, p) for q, p in RATES])
    tables.cells[field] = (tables.cells[field] * 0.98).astype(np.uint32)
    assert np.abs(rate_scores(tables)).max() > gate(2 * len(RATES))


# ---------------------------------------------------------------- every metric against the reference, other runs


def golden_scores() -> np.ndarray:
    """Return how many standard errors each metric's mean is from the reference's, shape (cells, metrics)."""
    means = golden.load("means")
    names = list(means["cells"])
    tables = derive([NAMED[name] for name in names])
    run = numba_kernel.run(tables, np.zeros(len(names), np.int32), SEED, 0, RUNS)
    layout = sums.Layout(12)
    parts = layout.unpack(layout.pack(RUNS, run.metrics, run.series, run.histogram))["metrics"]
    there = np.array([[means["cells"][name][m] for m in METRICS] for name in names])
    squares = sums.spread(np.int64(RUNS), parts[..., 0], parts[..., 1], parts[..., 2])
    mean, se = parts[..., 0] / RUNS, np.sqrt(squares / (RUNS - 1) / RUNS)
    error = np.hypot(se, there[..., 1])
    # A metric that never varied in the reference may vary by a rare event here: as if it had happened once.
    error = np.where(error > 0, np.maximum(error, 1 / means["runs"]), 1.0)
    return (mean - there[..., 0]) / error  # type: ignore[no-any-return]


def test_every_metric_has_the_mean_of_the_reference() -> None:
    scores = golden_scores()
    assert np.abs(scores).max() < gate(scores.size), np.argwhere(np.abs(scores) >= gate(scores.size))


MUTANT = """
from sim.curators import ratchet

def strongest(n, net, born, size):
    best = 0
    for j in range(1, size):
        if int(net[j]) * max(int(n[best]), 1) > int(net[best]) * max(int(n[j]), 1):
            best = j
    return best

ratchet.weakest = strongest
from tests.test_statistics import golden_scores
import numpy as np
print(np.abs(golden_scores()).max())
"""


@pytest.mark.slow
def test_evicting_the_strongest_fails(tmp_path: Path) -> None:
    """The same comparison in a process whose kernel was compiled with the wrong eviction."""
    root = Path(__file__).resolve().parent.parent
    env = os.environ | {"HALFBLIND_CACHE": str(tmp_path), "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", MUTANT], cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > gate(len(golden.MEAN_CELLS) * len(METRICS))


# ---------------------------------------------------------------- and the bits themselves


def test_bits_are_the_golden_ones() -> None:
    """Single runs as the reference gave them when the golden file was written, on whatever machine."""
    bits = golden.load("bits")
    assert bits["metrics"] == list(METRICS)
    for name, runs in bits["runs"].items():
        sums_ = numba_kernel.run(derive([NAMED[name]]), np.zeros(1, np.int32), golden.BIT_SEED, 0, len(runs), keep_records=True)
        assert sums_.records[0].tolist() == runs, name
