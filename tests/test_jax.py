"""The JAX kernel is the reference, to the bit, however runs are batched and on however many devices; and JAX stays as it was."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from sim import reference
from sim.kernels import backends, jax_kernel, jax_round, numba_kernel
from sim.kernels.backends import backend
from sim.model import Cell
from sim.sums import Layout, from_records
from sim.tables import derive
from sim.variables import METRICS, SERIES
from tests import strategies
from tests.conftest import ROOT, Command, same
from tests.worlds import MAIN_71, NAMED, cell, rolling

EVERYTHING = list(NAMED.values())  # one program for all, of cells that differ in every way but rounds
BATCH = 8


def sums(cells: Sequence[Cell], seed: int, first_run: int, n_runs: int, batch: int | None = BATCH, **how: Any) -> np.ndarray:
    tables = derive(cells)
    layout = Layout(int(tables.cells["rounds"].max()))
    baseline = np.zeros(len(cells), np.int32)
    return jax_kernel.run(layout, tables, baseline, seed, first_run, n_runs, batch=batch, **how)


def numba_sums(cells: Sequence[Cell], seed: int, first_run: int, n_runs: int) -> np.ndarray:
    tables = derive(cells)
    found = numba_kernel.run(tables, np.zeros(len(cells), np.int32), seed, first_run, n_runs)
    return Layout(int(tables.cells["rounds"].max())).pack(n_runs, found.metrics, found.series, found.histogram)


def assert_same(got: np.ndarray, expected: np.ndarray) -> None:
    """Two arrays of sums are equal; if not, say what differs: cells, metrics, series with their rounds."""
    rounds = (expected.shape[1] - 1 - 6 * len(METRICS) - 64) // (3 * len(SERIES))
    a, b = (Layout(rounds).unpack(vectors) for vectors in (got, expected))
    different = {
        "metrics": sorted({f"cell {c}: {METRICS[m]}" for c, m, _ in np.argwhere(a["metrics"] != b["metrics"])}),
        "series": sorted({f"cell {c}, round {t}: {SERIES[s]}" for c, t, s, _ in np.argwhere(a["series"] != b["series"])})[:10],
        "runs": np.argwhere(a["runs"] != b["runs"]).tolist(),
        "histogram": np.argwhere(a["histogram"] != b["histogram"]).tolist(),
    }
    assert not any(different.values()), different


@pytest.mark.slow
def test_the_papers_worlds_are_those_of_the_reference_run_by_run() -> None:
    """One run at a time: the sums are then the record itself."""
    tables = derive(EVERYTHING)
    baseline = np.zeros(len(EVERYTHING), np.int32)
    for run in (34, 2**32 - 1):
        records = reference.records(tables, 12, run, 1)
        assert_same(sums(EVERYTHING, 12, run, 1), from_records(Layout(12), *records, baseline))


def test_many_runs_are_those_of_numba() -> None:
    assert_same(sums(EVERYTHING, 5, 1000, 403), numba_sums(EVERYTHING, 5, 1000, 403))


def random_cells(number: int) -> list[Cell]:
    """Return cells drawn by hypothesis. They are compared in one call: a call for each would compile for each."""
    cells: list[Cell] = []

    @settings(max_examples=2 * number, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategies.cells)
    def collect(one: Cell) -> None:
        cells.append(one)

    collect()
    return list(dict.fromkeys(cells))[-number:]  # the first ones are the simplest


@pytest.mark.slow
def test_random_cells_of_all_sizes_share_a_call() -> None:
    cells = random_cells(100)
    for seed, first_run, n_runs in [(1, 0, 1), (2**32 - 1, 2**32 - 3, 2), (12, 34, 9)]:
        got, expected = (simulate(cells, seed, first_run, n_runs) for simulate in (sums, numba_sums))
        wrong = np.flatnonzero((got != expected).any(axis=1))
        assert not len(wrong), (seed, first_run, cells[wrong[0]])
        assert_same(got, expected)


@pytest.mark.slow
def test_the_widest_run_fits() -> None:
    """Topics 64, cap 128, 64 skills a round, 4096 tasks at once."""
    synth = replace(MAIN_71.synth, per_round=64, cover_guard=0.0)
    wide = cell(
        replace(MAIN_71, n_train=4096, n_eval=4096, topics=64, topic_skew=0.0, synth=synth), 0.1, 0.1, replace(rolling(), cap=128, rounds=4)
    )
    assert_same(sums([wide], 1, 0, 1, batch=1), numba_sums([wide], 1, 0, 1))


@pytest.mark.slow
def test_the_longest_runs_fit() -> None:
    """1000 rounds: skills of many trials that evict each other; and a pool that only grows, to its bound."""
    policy = replace(rolling(), cap=2, rounds=1000, window=1000)
    long = replace(MAIN_71, n_train=60, n_eval=2, topics=3, synth=replace(MAIN_71.synth, memory=1.0, min_cluster=400))
    stuck = replace(MAIN_71, topics=1, n_train=4096, n_eval=1, synth=replace(MAIN_71.synth, per_round=0, memory=1.0))
    cells = [cell(long, 0.1, 0.1, policy), cell(stuck, 0.0, 1.0, policy)]
    assert_same(sums(cells, 1, 0, 1, batch=1), numba_sums(cells, 1, 0, 1))


def test_batches_and_ranges_of_runs_are_the_whole() -> None:
    whole = sums(EVERYTHING, 3, 7, 45)
    one_batch_each = [sums(EVERYTHING, 3, 7 + first, min(BATCH, 45 - first)) for first in range(0, 45, BATCH)]
    np.testing.assert_array_equal(sum(one_batch_each), whole)
    ranges = [sums(EVERYTHING, 3, 7 + a, b - a) for a, b in [(0, 1), (1, 17), (17, 45)]]
    np.testing.assert_array_equal(sum(ranges), whole)
    assert not sums(EVERYTHING, 3, 7, 0).any()


@pytest.mark.parametrize("bits", [1, 2, 9, 15, 16, 22])
def test_chat_keys_compare_like_fractions(bits: int) -> None:
    """Random fractions, the closest there are, equal ones of different size, and an untried skill."""
    draw, top = np.random.default_rng(bits), 2**bits - 1
    n = np.concatenate([draw.integers(0, top + 1, 200), np.full(9, top), np.full(9, max(top - 1, 0)), [0, 0, 1]])
    n = np.concatenate([n, n // 2])
    near = draw.integers(-n, n + 1)
    net = np.where(np.arange(len(n)) % 3 == 0, n // 2, near)
    with jax.enable_x64(True):
        key, zero = jax_round.chat_key(np.int32(n), np.int32(net), bits)
        key = np.asarray(key).astype(object)
    tried = np.maximum(n, 1)
    left, right = np.int64(net)[:, None] * tried, np.int64(net) * tried[:, None]
    np.testing.assert_array_equal(key[:, None] < key, left < right)
    np.testing.assert_array_equal(key[:, None] == key, left == right)
    assert (key[n == 0] == zero).all()


def test_memory_decides_how_many_runs_are_in_flight() -> None:
    sizes, (cells, _, _) = jax_kernel.arguments(derive(EVERYTHING), np.zeros(len(EVERYTHING), np.int32))
    device, n = jax.local_devices()[0], len(cells.n_train)
    runs = [jax_kernel.batch_of(sizes, n, 10**6, memory, device) for memory in (1e-9, 0.01, 1.0, 1e6)]
    assert runs[0] == 1
    assert runs[0] < runs[1] < runs[2] < runs[3] == jax_kernel.MAX_BATCH
    assert runs[1] * jax_kernel.run_bytes(sizes, n) <= 0.01 * 2**30
    assert jax_kernel.batch_of(sizes, n, 3, 1.0, device) == jax_kernel.MIN_BATCH  # few runs need little


def test_the_estimate_of_memory_holds() -> None:
    """What the compiler sets aside for a batch is about what was estimated."""
    sizes, fixed = jax_kernel.arguments(derive(EVERYTHING), np.zeros(len(EVERYTHING), np.int32))
    devices = jax.local_devices()
    with jax.enable_x64(True):
        values = (np.uint32(1), *jax_kernel.shares(0, 1, len(devices)), *fixed)
        taken = jax_kernel.program(sizes, BATCH, devices, values).memory_analysis().temp_size_in_bytes
    assert 0.5 < taken / (BATCH * jax_kernel.run_bytes(sizes, len(fixed[1]))) < 1.5


DEVICES = """
import hashlib, jax
from tests.test_jax import PLAIN, sums
before = dict(jax.config.values)
assert len(jax.local_devices()) == 2
print([hashlib.sha256(sums(PLAIN, 3, 7, n).tobytes()).hexdigest() for n in (1, 45)])
assert dict(jax.config.values) == before
assert jax.numpy.arange(3.0).dtype == "float32" and jax.numpy.arange(3).dtype == "int32"
"""
PLAIN = [NAMED["clean"], NAMED["cliff"]]


def test_two_devices_and_the_users_settings() -> None:
    """Runs dealt to two devices, of which one may have none, add up to the same bits; and JAX is as it was."""
    env = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
    env |= {"PYTHONPATH": str(ROOT), "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run([sys.executable, "-c", DEVICES], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = [hashlib.sha256(numba_sums(PLAIN, 3, 7, n).tobytes()).hexdigest() for n in (1, 45)]
    assert done.stdout.strip() == str(expected)


def test_without_jax_one_line_says_what_to_do(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    error = command("backend=jax", "runs=1").error
    assert "backend: got 'jax'" in error
    assert "expected the package jax" in error
    assert "pip install 'halfblind[jax]'" in error


def test_importing_the_command_does_not_import_jax() -> None:
    code = "import sys, sim.main, sim.store, sim.config, sim.kernels.backends; print(json.dumps('jax' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", "import json; " + code], env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True)
    assert json.loads(done.stdout) is False


SMALL = ("+axes.rho_fp=[0,0.3]", "policy.rounds=4", "policy.window=2")


@pytest.mark.slow
def test_a_store_of_one_backend_is_continued_by_the_other(command: Command) -> None:
    assert command(*SMALL, "runs=40", "out=a").code == 0
    assert command(*SMALL, "runs=90", "out=a", "backend=jax").code == 0
    assert command(*SMALL, "runs=90", "out=b", "backend=jax", "backend.memory=0.001").code == 0
    assert command(*SMALL, "runs=90", "out=c").code == 0
    same("a", "c")
    same("b", "c")


@pytest.mark.parametrize("given", ["0", "-1", "inf", "true", "much"])
def test_bad_memory_is_one_line(command: Command, given: str) -> None:
    assert "backend.memory: got" in command("backend=jax", f"backend.memory={given}").error


def test_only_jax_has_memory(command: Command) -> None:
    assert command("+backend.memory=1").error.startswith("error: backend.memory: got an unknown key, expected name")


def test_jax_is_driven_by_one_thread() -> None:
    assert backend("jax").threads == 1
    assert backend("numba").threads is None


def test_a_program_is_kept_and_a_damaged_one_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a program that is compiled in no time."""
    compiled = []

    def traceable(*args: Any) -> Any:
        compiled.append(args)
        return jax.jit(lambda x: x + 1)

    monkeypatch.setattr(jax_kernel, "traceable", traceable)

    def answer(cache: str | Path = tmp_path) -> int:
        monkeypatch.setenv("HALFBLIND_CACHE", str(cache))
        monkeypatch.setattr(jax_kernel, "_programs", {})
        sizes = jax_kernel.sizes_of(derive(PLAIN).cells)
        return int(jax_kernel.program(sizes, 1, jax.local_devices(), (np.float32(1),))(np.float32(41)))

    assert (answer(), len(compiled)) == (42, 1)
    (file,) = (f for f in tmp_path.rglob("*") if f.is_file())
    assert (answer(), len(compiled)) == (42, 1)
    file.write_bytes(file.read_bytes()[:1000])
    assert (answer(), len(compiled)) == (42, 2)
    assert (answer(), len(compiled)) == (42, 2)
    assert (answer("/proc/nowhere"), len(compiled)) == (42, 3)


def test_a_jax_that_does_not_start(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jax.devices", lambda: (_ for _ in ()).throw(RuntimeError("no such platform")))
    assert "'jax', which does not start (RuntimeError: no such platform)" in command("backend=jax", "runs=2", "out=a").error
    assert not (tmp_path / "a").exists()


def test_a_device_without_room(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr("sim.kernels.jax_kernel.run", full)
    assert "backend.memory: got more than the device has" in command("backend=jax", "runs=2", "out=a").error
    assert "backend.memory: got 1e+308" in command("backend=jax", "backend.memory=1e308", "runs=2", "out=a").error
