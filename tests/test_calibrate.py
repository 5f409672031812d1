"""``python -m sim.calibrate``: reading targets, the same numbers as a sweep, finding a world again, stopping and going on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim.calibrate import PAPERS, main
from sim.config import load
from sim.errors import InputError
from sim.fit import Condition, Problem, Simulator
from sim.fitted import write_presets
from sim.free import all_parameters, changes, free_parameters, presets
from sim.search import Ledger, independent, search, walk
from sim.targets import BC_SUBSETS, SUBSETS, channel, read_targets
from tests.conftest import ROOT, Command, Main
from tests.stores import results

HEADER = "subset,channel,metric,value,tolerance,source\n"
BAND = "report_band_58"
MOVED = ("router.false_match", "synth.min_cluster", f"{BAND}.effect.mean")
KEPT = tuple(p.name for p in free_parameters([BAND]) if p.name not in MOVED)

Calibrate = Command


@pytest.fixture
def calibrate(answers: Callable[[Main], Command]) -> Calibrate:
    return answers(main)


def written(folder: Path, *lines: str) -> Path:
    path = folder / "targets.csv"
    path.write_text(HEADER + "".join(line + "\n" for line in lines))
    return path


# ---------------------------------------------------------------- targets


def test_the_papers_targets() -> None:
    targets = read_targets(PAPERS)
    fitted = [t for t in targets if not t.not_fitted]
    assert len(targets) == 50
    assert {t.subset for t in fitted} == set(SUBSETS)
    assert not [t for t in targets if t.not_fitted]
    assert all(t.tolerance > 0 and t.source for t in fitted)


def test_values_and_channels(tmp_path: Path) -> None:
    lines = [
        f"{BAND},noise:0.1-0.4,retired,0.7-1.0,0.4,somewhere",
        f"{BAND},bias:0.45,lift,-0.065,0.04,",
        "",
        f"{BAND},any,lift,>=-0.125,,",
        f"{BAND},clean,retired,-2--1,1e-1,",
        f"{BAND},clean,synthesised,9,,",
        "mbpp_100,A4 n_min 20 tau 0,active_final,2,,",
        'audit,strict judge,rho_pf,0.95,,"n=42, exact"',
    ]
    ranged, number, bound, negative, loose, other, audit = read_targets(written(tmp_path, *lines))
    assert ranged.channels == ("noise:0.1", "noise:0.2", "noise:0.3", "noise:0.4")
    assert [ranged.deviation(x) for x in (0.3, 0.7, 0.9, 1.8)] == pytest.approx([-1, 0, 0, 2])
    assert number.deviation(-0.105) == pytest.approx(-1)
    assert channel(number.channels[0]).rho_fp == 0.45
    assert channel(number.channels[0]).rho_pf == 0
    assert bound.channels == ()
    assert bound.line == 5
    assert [bound.deviation(x) for x in (-0.2, -0.125, 3.0)] == pytest.approx([-0.075 / 0.04, 0, 0])  # the tolerance of line 3
    assert (negative.low, negative.high) == (-2, -1)
    assert loose.not_fitted == "no tolerance"
    assert other.not_fitted
    assert audit.not_fitted


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("report_band_59,clean,retired,1,1,", "line 2, subset: got 'report_band_59'"),
        (f"{BAND},clean,retried,1,1,", "line 2, metric: got 'retried'"),
        (f"{BAND},clean,tail_sampled,1,1,", "line 2, metric"),
        (f"{BAND},A1 withheld,retired,1,1,", "line 2, channel"),
        (f"{BAND},bias:1.5,retired,1,1,", "line 2, channel"),
        (f"{BAND},noise:0.4-0.1,retired,1,1,", "line 2, channel"),
        (f"{BAND},,retired,1,1,", "line 2, channel"),
        (f"{BAND},clean,retired,seven,1,", "line 2, value: got 'seven'"),
        (f"{BAND},clean,retired,2-1,1,", "line 2, value"),
        (f"{BAND},clean,retired,>1-2,1,", "line 2, value"),
        (f"{BAND},clean,retired,1e999,1,", "line 2, value"),
        (f"{BAND},clean,retired,,1,", "line 2, value"),
        (f"{BAND},clean,retired,1,0,", "line 2, tolerance: got '0'"),
        (f"{BAND},clean,retired,1,nan,", "line 2, tolerance"),
        (f"{BAND},clean,retired,1,1", "line 2: got 5 fields"),
        (f"{BAND},clean,retired,1,1,\n{BAND},clean,retired,2,1,", "line 3: got the target of line 2"),
    ],
)
def test_bad_lines(calibrate: Calibrate, tmp_path: Path, line: str, words: str) -> None:
    path = written(tmp_path, line)
    error = calibrate(f"targets={path}").error
    assert str(path) in error
    assert words in error
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no targets"),
        (HEADER, "no targets"),
        (HEADER.replace(",tolerance", "") + f"{BAND},clean,retired,1,\n", "line 1: got no column tolerance"),
        (HEADER.replace("\n", ",more\n") + f"{BAND},clean,retired,1,1,,\n", "line 1: got 7 columns"),
        (HEADER + "mbpp_100,clean,retired,1,1,\n", "none that can be fitted"),
        (HEADER + f"{BAND},any,lift,1,1,\n", "line 2: got any channel"),
        ("\0", ""),
    ],
)
def test_bad_files(calibrate: Calibrate, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert words in calibrate("targets=t.csv").error


# ---------------------------------------------------------------- predictions


def test_predictions_are_those_of_a_sweep(command: Command, tmp_path: Path) -> None:
    assert command("+axes.world=[report_main_71,report_band_58]", "+axes.rho_fp=[0,0.45]", "runs=50", "seed=3", "out=s").code == 0
    data = results(tmp_path / "s")
    problem = Problem(read_targets(PAPERS), seed=3)
    predicted = problem.predict(problem.start, 50)
    seen = 0
    for c, mean, se in zip(problem.conditions, predicted.mean, predicted.se, strict=True):
        if c.channel in ("clean", "bias:0.45") and c.subset in data.world:
            cell = data.sel(world=c.subset, rho_fp=channel(c.channel).rho_fp)
            assert (mean, se) == (cell[c.metric], cell[c.metric + "_se"]), c
            seen += 1
    assert seen > 10


def test_runs_continue_and_a_clean_judge_makes_no_difference() -> None:
    worlds, policy = presets()
    simulator = Simulator([Condition(BAND, "clean", "delta_clean"), Condition(BAND, "bias:0.3", "retired")], policy, 1)
    whole, first, rest = (simulator.predict(worlds, n, start).mean for n, start in ((30, 0), (10, 0), (20, 10)))
    assert whole[0] == 0
    assert whole[1] == pytest.approx((first[1] + 2 * rest[1]) / 3)


def test_a_target_of_several_channels_counts_where_it_is_worst(tmp_path: Path) -> None:
    path = written(tmp_path, f"{BAND},noise:0.1-0.3,retired,2-3,0.5,", f"{BAND},clean,retired,9,1,", f"{BAND},any,lift,>=0,1,")
    problem = Problem(read_targets(path))
    assert [c.channel for c in problem.conditions if c.metric == "lift"] == ["noise:0.1", "noise:0.2", "noise:0.3", "clean"]
    mean = np.array([2.0, 4.0, 1.5, 9.5, 0.1, -0.3, 0.0, np.nan])
    assert problem.target_deviations(mean) == pytest.approx([2.0, 0.5, 100.0])


def test_parameters_there_and_back() -> None:
    for p in all_parameters():
        for value in (p.low, p.high, p.low + round(0.4 * (p.high - p.low))):
            assert p.value(p.unit(value)) == pytest.approx(value)
        assert p.value(0.0) == p.low
        assert p.value(1.0) == p.high


# ---------------------------------------------------------------- search and walk


def test_search_and_walk_on_a_valley() -> None:
    centre, whole = np.array([0.3, 0.6, 0.52, 0.5]), np.array([0.0, 0.0, 0.0, 0.1])

    def loss(unit: np.ndarray) -> float:
        off = (unit - centre) / np.array([0.05, 0.05, 0.05, 1.0])
        return float(off[0] ** 2 + off[1] ** 2 + 25 * (off[2] - off[1]) ** 2 + np.abs(np.floor(unit[3] * 10) - 8))

    kept: list[float] = []
    ledger = Ledger(loss, 1500, lambda _, value: kept.append(value), lambda: None)
    search(ledger, np.full(4, 0.9), whole, 1, explore=True)
    assert len(ledger.losses) == 1500
    assert ledger.best_loss == kept[-1] < 1e-3
    assert kept == sorted(kept, reverse=True)
    walked = walk(ledger, 8000, 1, lambda: None, loss)
    assert walked.vectors[:, :2].std(axis=0) == pytest.approx(0.05, rel=0.25)
    assert walked.vectors.mean(axis=0)[:2] == pytest.approx([0.3, 0.6], abs=0.03)
    assert 50 < independent(walked.vectors) < 4000


def test_independent_steps_count_in_full() -> None:
    steps = np.random.default_rng(1).normal(size=(4000, 2))
    assert independent(steps) == pytest.approx(4000, rel=0.2)
    assert independent(np.repeat(steps, 10, axis=0)) == pytest.approx(4000, rel=0.3)
    assert independent(np.zeros((50, 1))) == pytest.approx(0.5, abs=0.1)


# ---------------------------------------------------------------- the command


def recovery(folder: Path, runs: int, seed: int) -> tuple[Path, dict[str, float]]:
    """Write exact targets of a world that is not the preset; return them and its moved parameters."""
    truth = {"router.false_match": 0.6, "synth.min_cluster": 4, f"{BAND}.effect.mean": 0.4}
    asked = [
        (name, metric) for name in ("clean", "bias:0.45", "noise:0.2") for metric in ("retired", "synthesised", "tail_eval", "active_final")
    ]
    problem = Problem(read_targets(written(folder, *(f"{BAND},{name},{metric},0,1," for name, metric in asked))), seed=seed)
    means = problem.predict({**problem.start, **truth}, runs).mean
    lines = [
        f"{BAND},{name},{metric},{mean:.6f},{0.01 if 'eval' in metric else 0.3}," for (name, metric), mean in zip(asked, means, strict=True)
    ]
    return written(folder, *lines), truth


def test_a_world_is_found_again(calibrate: Calibrate, tmp_path: Path) -> None:
    targets, truth = recovery(tmp_path, 100, seed=4)
    said = calibrate(f"targets={targets}", "runs=100", "seed=4", "evaluations=450", "walk=60", f"fix=[{','.join(KEPT)}]", "out=fit")
    assert said.code == 0, said.err
    assert "12 within two" in said.out
    fit = json.loads((tmp_path / "fit/fit.json").read_text())
    best = json.loads((tmp_path / "fit/best.json").read_text())
    assert best["loss"] < 0.01
    assert best["parameters"] == fit["found"]["parameters"]
    for name, value in truth.items():
        assert fit["found"]["parameters"][name] == pytest.approx(value, abs=0.02)
    assert fit["presets"]["within_two"] < 12
    assert set(fit["ranges"]["parameters"]) == set(MOVED)
    assert "fewer than 20 independent vectors" in said.out
    # the presets it wrote are the world it found
    cell = load([f"world=fitted_{BAND}", "policy=bc"], tmp_path / "fit").sweep.cell(())
    problem = Problem(read_targets(targets), seed=4)
    assert cell.world == problem.worlds(best["parameters"])[BAND]
    # a folder with a fit in it is continued, not overwritten
    again = (f"targets={targets}", "runs=100", "seed=4", "evaluations=1", "walk=0", f"fix=[{','.join(KEPT)}]", "out=fit")
    assert "a folder with a fit in it" in calibrate(*again).error
    assert calibrate(*again, "start=fit/fit.json").code == 0
    assert json.loads((tmp_path / "fit/best.json").read_text())["loss"] == best["loss"]


def test_rt_s_run_is_fitted_with_its_ablations(calibrate: Calibrate, tmp_path: Path) -> None:
    assert changes("A4 n_min 20 tau 0") == {"policy.n_min": 20, "policy.tau": 0}
    assert changes("A1 withheld") == {"world.router.mode": "withheld"}
    lines = [
        "mbpp_100,clean,peak_eval,0.658,0.042,RT s5",
        "mbpp_100,A1 withheld,rolling_gain,0.002,0.005,",
        "mbpp_100,A7 cap 100,active_final,80,9,",
    ]
    targets = written(tmp_path, *lines)
    assert calibrate(f"targets={targets}", "subsets=[mbpp_100]", "runs=10", "evaluations=3", "walk=0", "out=fit").code == 0
    found = json.loads((tmp_path / "fit/fit.json").read_text())["found"]
    shown = [t["channels"][t["channel"]]["predicted"] for t in found["targets"]]
    assert shown[1] == pytest.approx(0, abs=1e-5)  # what is withheld gains nothing
    assert shown[2] > 50
    world = load(["world=fitted_mbpp_100"], tmp_path / "fit").sweep.cell(()).world
    assert world == Problem(read_targets(targets), ["mbpp_100"]).worlds(found["parameters"])["mbpp_100"]
    written(tmp_path, *lines, "mbpp_100,A9 other,rolling_gain,0,1,")
    assert (
        "targets, line 5, channel: got 'A9 other', expected clean or one of A1 withheld"
        in calibrate(f"targets={targets}", "subsets=mbpp_100").error
    )


def test_presets_of_all_subsets(tmp_path: Path) -> None:
    problem = Problem(read_targets(PAPERS))
    write_presets(problem, problem.start, tmp_path)
    known, _ = presets()
    for subset in BC_SUBSETS:
        found = load([f"world=fitted_{subset}"], tmp_path).sweep.cell(()).world
        assert found == replace(known[subset])


@pytest.mark.slow
def test_ctrl_c_keeps_the_best(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    args = [sys.executable, "-m", "sim.calibrate", "runs=20", "subsets=[report_band_58]", "walk=0", "out=fit"]
    child = subprocess.Popen(
        [*args, "evaluations=1000000"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    best = tmp_path / "fit/best.json"
    try:
        end = time.monotonic() + 60
        while not best.exists() and time.monotonic() < end and child.poll() is None:
            time.sleep(0.05)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
    assert (child.returncode, out) == (130, "")
    assert err.strip() == "stopped; the best so far is kept. Continue with: start=fit/best.json"
    kept = json.loads(best.read_text())
    assert main([*args[3:-1], f"out={tmp_path / 'fit'}", f"start={best}", "evaluations=1"]) == 0
    assert json.loads((tmp_path / "fit/fit.json").read_text())["found"]["parameters"] == kept["parameters"]
    assert json.loads(best.read_text())["loss"] == kept["loss"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run=5"], "run: got an unknown key, expected runs"),
        (["runs"], "an argument without ="),
        (["runs="], "runs: got nothing"),
        (["runs=5", "runs=6"], "a second value"),
        (["runs=0"], "a whole number from 2"),
        (["evaluations=1e3"], "evaluations: got 1e3"),
        (["walk=-1"], "walk: got -1"),
        (["seed=4294967296"], "seed: got 4294967296"),
        (["--yaml"], "an unknown option"),
        (["subsets=[swe_v_150]"], "subsets: got 'swe_v_150'"),
        (["subsets=[mbpp_100,report_band_58]"], "mbpp_100 shares no parameter with the others"),
        (["subsets=[,]"], "subsets: got [,]"),
        (["fix=[router.recal]"], "fix: got 'router.recal'"),
        ([f"fix=[{','.join(p.name for p in free_parameters(BC_SUBSETS))}]"], "fix: got every parameter"),
        (["targets=none.csv"], "targets=none.csv: got a file that cannot be read (no such file"),
        (["start=none.json"], "start=none.json"),
        (["start=bad.json"], "start=bad.json"),
        (["start=unknown.json"], "start: got 'colour'"),
        (["start=far.json"], "start, router.recall: got 2"),
        (["start=other.json"], "start: got parameters of other subsets, expected those of report_main_71"),
        (["start=half.json"], "start, topics: got 2.5, expected a whole number"),
        (["out=bad.json"], "out=bad.json: got a file"),
    ],
)
def test_bad_keys(calibrate: Calibrate, tmp_path: Path, args: list[str], words: str) -> None:
    (tmp_path / "bad.json").write_text("[1]")
    for name, key, value in (
        ("unknown", "colour", 1),
        ("far", "router.recall", 2),
        ("half", "topics", 2.5),
        ("other", "mbpp_100.effect.mean", 1),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps({"parameters": {key: value}}))
    assert words in calibrate(*args).error
    assert not (tmp_path / "outputs").exists()


def test_help_names_every_parameter(calibrate: Calibrate) -> None:
    said = calibrate("--help")
    assert said.code == 0
    assert all(p.name in said.out for p in all_parameters())


def test_a_folder_that_cannot_be_written(calibrate: Calibrate, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "a folder that cannot be made" in calibrate("out=file/fit").error


def test_unknown_channels_have_no_rates() -> None:
    with pytest.raises(InputError):
        load(["targets=papers"])
