"""Broken kernels must fail: wrong tables in this process, wrong source in a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sim.tables import NO_SKILL, Tables
from tests.verification.test_verification import CASES, GATE

ROOT = Path(__file__).resolve().parents[2]


# ---------------------------------------------------------------- wrong tables


def _cells(tables: Tables, **fields: float) -> Tables:
    """Return tables with some scalars of their cells multiplied, at most to the largest value of their kind."""
    cells = tables.cells.copy()
    for name, factor in fields.items():
        cells[name] = np.minimum(cells[name] * factor, np.iinfo(cells[name].dtype).max).astype(cells[name].dtype)
    return tables._replace(cells=cells)


def _plus(tables: Tables, **fields: int) -> Tables:
    cells = tables.cells.copy()
    for name, more in fields.items():
        cells[name] += more
    return tables._replace(cells=cells)


def _shifted(values: np.ndarray, by: int) -> np.ndarray:
    return np.where(values > -(2**30), values + by, values).astype(values.dtype)


def _later(values: np.ndarray) -> np.ndarray:
    """Return a retire table whose skills need one trial more."""
    out = values.copy()
    out[np.flatnonzero(values > -(2**30))[:1]] = -(2**31)
    return out


def _scaled(values: np.ndarray, factor: float) -> np.ndarray:
    return (values * factor).astype(values.dtype)


def _with_row(thresholds: np.ndarray, row: int, factor: float) -> np.ndarray:
    out = thresholds.copy()
    out[:, row] = np.minimum(out[:, row] * factor, 2**32 - 1)
    return out


TABLES = {
    "net threshold one too high": ("operating_curves", lambda t: t._replace(retire=_shifted(t.retire, 1))),
    "net threshold one too low": ("random_rounds", lambda t: t._replace(retire=_shifted(t.retire, -1))),
    "n_min one too high": ("renewal", lambda t: t._replace(retire=_later(t.retire))),
    "nothing retired": ("floors", lambda t: t._replace(retire=np.full_like(t.retire, -(2**31)))),
    "2 % fewer hidden failures": ("failures", lambda t: _cells(t, flip_fail=0.98)),
    "2 % fewer phantom failures": ("failures", lambda t: _cells(t, flip_pass=0.98)),
    "pass rates 1 % lower": ("failures", lambda t: t._replace(pass_threshold=_scaled(t.pass_threshold, 0.99))),
    "rates by task that do not cluster": ("clustered_rates", lambda t: _cells(t, spread_by_task=0, spread_by_topic=0)),
    "a cluster needs one failure more": ("writing", lambda t: _plus(t, min_pool=256)),
    "memory 3 % shorter": ("writing", lambda t: _cells(t, memory=0.97)),
    "mislabel a tenth lower": ("writing", lambda t: _cells(t, mislabel=0.9)),
    "cover guard a tenth lower": ("writing", lambda t: _cells(t, cover_guard=0.9)),
    "topics 3 % off": ("writing", lambda t: t._replace(topic_cdf=_scaled(t.topic_cdf, 0.97))),
    "recall 5 % lower": ("routing", lambda t: _cells(t, recall=0.95)),
    "some skill 2 % less often": ("routing", lambda t: t._replace(route_any=_scaled(t.route_any, 0.98))),
    "eval with 5 % less recall": ("sampled_eval", lambda t: _cells(t, recall_weight=0.95)),
    "eval with 5 % fewer off-topic skills": ("sampled_eval", lambda t: t._replace(off_weight=_scaled(t.off_weight, 0.95))),
    "one pass more to fall": ("rollbacks", lambda t: _plus(t, fall=1)),
    "a flag more": ("rollbacks", lambda t: _plus(t, patience=1)),
    "cap one larger": ("eviction", lambda t: _plus(t, cap=1)),
    "phantoms cost 5 % less": ("spurious_skills", lambda t: _cells(t, phantom_cost=0.95)),
    "tasks without a skill pass more": (
        "float_model_without_bins",
        lambda t: t._replace(
            pass_threshold=np.where(np.arange(NO_SKILL + 1)[:, None] == NO_SKILL, t.pass_threshold, t.pass_threshold // 100 * 99)
        ),
    ),
    "one skill fewer per round": ("float_model_without_bins", lambda t: _plus(t, per_round=-1)),
}


@pytest.mark.parametrize("name", TABLES)
def test_wrong_tables_fail(name: str) -> None:
    case, change = TABLES[name]
    assert CASES[case](change).worst < GATE


# ---------------------------------------------------------------- wrong source

RATCHET, SHELF, TRIALS, KERNEL = "sim/curators/ratchet.py", "sim/kernels/shelf.py", "sim/kernels/trials.py", "sim/kernels/numba_kernel.py"
LARGEST, SMALLEST = "best = key if key > best else best", "best = key if (key < best) | (best == U64(0)) else best"
SOURCES = {
    "the strongest is evicted": (RATCHET, "if left < right or", "if left > right or", "eviction"),
    "of equals the youngest is evicted": (RATCHET, "born[j] < born[worst]", "born[j] > born[worst]", "eviction"),
    "at exactly -tau a skill stays": (RATCHET, "return net <= table[n]", "return net < table[n]", "renewal"),
    "the smallest pool is written from": (SHELF, LARGEST, SMALLEST, "writing"),
    "a new skill starts with credit": (SHELF, "n[slot] = net[slot] = 0", "n[slot], net[slot] = 0, 2", "renewal"),
    "errors of passes and failures swapped": (TRIALS, "on_pass if passed else on_fail", "on_fail if passed else on_pass", "failures"),
    "a pass adds nothing to net": (TRIALS, "U32(1))) - trials)", "U32(0))) - trials)", "renewal"),
    "written in the last round too": (KERNEL, "if t < cell.rounds - 1:", "if t < cell.rounds:", "writing"),
    "the first shelf counts topics down": (KERNEL, "i % cell.topics", "cell.topics - 1 - i % cell.topics", "float_model_without_bins"),
    "the tail is the first rounds": (KERNEL, "if t >= cell.rounds - cell.window:", "if t < cell.window:", "float_model_without_bins"),
}

PLAY = "import sys; from tests.verification.test_verification import CASES; print(CASES[sys.argv[1]]().worst)"


@pytest.mark.parametrize("name", SOURCES)
def test_wrong_source_fails(name: str, tmp_path: Path) -> None:
    file, old, new, case = SOURCES[name]
    for folder in ("sim", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    source = (tmp_path / file).read_text()
    assert source.count(old) == 1, "the line this test breaks is not there any more"
    (tmp_path / file).write_text(source.replace(old, new))
    env = os.environ | {"HALFBLIND_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PLAY, case], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < GATE
