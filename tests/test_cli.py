"""The command line: every mistake is one line, every sweep runs, every parameter can be an axis."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray

import sim
from sim.config import CONF, load
from sim.errors import InputError
from sim.main import main
from sim.model import parameters
from sim.sums import Layout
from sim.sweep import MAX_BLOCK_BYTES, MAX_BLOCK_CELLS, boxes, fit_box
from tests.conftest import Command, Main, files, finish, same

Start = Callable[..., "subprocess.Popen[str]"]
SWEEPS = sorted((CONF / "sweep").glob("*.yaml"))


def results(folder: str) -> xarray.Dataset:
    with xarray.open_zarr(f"{folder}/result.zarr", consolidated=False, chunks=None) as data:
        return data.load()


# ---------------------------------------------------------------- bad input

LINKED = "+axes.x={set: [tau, cap], values: {0.1: [0.1, 2], 0.5: [0.2, 3]}}"
# argument(s), words the line must hold: the name of what is wrong, what was got, what is expected
BAD: list[tuple[str | list[str], list[str]]] = [
    # unknown things
    ("foo=1", ["foo", "unknown key"]),
    ("policy.foo=1", ["policy.foo", "unknown key"]),
    ("policy.tua=0.1", ["policy.tua", "policy.tau"]),
    ("+world.effect.foo=1", ["world.effect.foo", "unknown key", "spurious_sd"]),
    ("world=nope", ["world", "'nope'", "report_main_71"]),
    ("channel=nope", ["channel", "'nope'", "strict_judge"]),
    ("backend=nope", ["backend", "'nope'", "numba"]),
    ("engine.name=nope", ["engine", "'nope'", "local"]),
    ("+sweep=nope", ["sweep", "'nope'", "cliff"]),
    ("sweep=cliff", ["sweep", "+sweep=cliff"]),
    ("policy.curator=nope", ["policy.curator", "'nope'", "ratchet"]),
    ("figures=[nope]", ["figures", "nope"]),
    ("figures=3", ["figures", "3"]),
    ("--nope", ["--nope", "unknown option", "--help"]),
    ("--runs=3", ["--runs=3", "unknown option"]),
    # wrong types
    ("policy.tau=x", ["policy.tau", "'x'", "a number"]),
    ("policy.tau=true", ["policy.tau", "True", "a number"]),
    ("policy.tau=null", ["policy.tau", "None", "a number"]),
    ("policy.tau='0.1'", ["policy.tau", "'0.1'"]),
    ("policy.cap=1.0", ["policy.cap", "1.0", "whole"]),
    ("policy.sampled_eval=1", ["policy.sampled_eval", "1", "true or false"]),
    ("world=null", ["world"]),
    ("world=[]", ["world"]),
    ("world=", ["world", "report_main_71"]),
    ("world.effect=3", ["world.effect", "3"]),
    # bounds
    ("policy.tau=1", ["policy.tau", "got 1", "below 1"]),
    ("policy.tau=-1.0", ["policy.tau", "-1.0", "above -1"]),
    ("policy.tau=nan", ["policy.tau", "nan"]),
    ("+axes.tau=[0.1,1]", ["tau", "1.0", "below 1"]),
    ("+axes.tau=[-1,0]", ["tau", "-1.0", "above -1"]),
    ("+axes.tau=[0.1,nan]", ["tau", "nan"]),
    ("+axes.tau={start: 0, stop: 1, step: 0.25}", ["tau", "1.0"]),
    ("channel.rho_fp=1.1", ["channel.rho_fp", "1.1", "at most 1"]),
    ("channel.rho_pf=-0.1", ["channel.rho_pf", "-0.1", "at least 0"]),
    ("channel.spread=1", ["channel.spread", "below 1"]),
    ("policy.n_min=0", ["policy.n_min", "0", "at least 1"]),
    ("policy.cap=0", ["policy.cap", "0", "at least 1"]),
    ("policy.cap=129", ["policy.cap", "129", "128"]),
    ("+axes.cap=[128,129]", ["cap", "129", "128"]),
    ("world.n_train=4097", ["world.n_train", "4097", "4096"]),
    ("policy.window=13", ["policy.window", "13", "policy.rounds = 12"]),
    ("world.difficulty.probes=0", ["world.difficulty.probes", "0", "at least 1"]),
    (["world.difficulty.keep=mixed", "world.difficulty.probes=1"], ["world.difficulty.probes", "at least 2"]),
    (["+sweep=cliff", "policy.tau=2"], ["policy.tau", "2"]),
    # axes
    ("+axes.tau=[]", ["axes.tau", "no values"]),
    ("+axes.tau=[0.1,0.10]", ["axes.tau", "twice"]),
    ("+axes.tau=[0.0,-0.0]", ["axes.tau", "twice"]),
    ("+axes.world=[report_main_71,report_main_71]", ["axes.world", "twice"]),
    ("+axes.world=[nope]", ["world", "'nope'", "report_main_71"]),
    ("+axes.nope=[1]", ["axes.nope", "no such parameter"]),
    (["+axes.tau=[0.1]", "+axes.policy.tau=[0.2]"], ["policy.tau", "one axis per parameter"]),
    ("+axes.x={set: [tau, tau], values: [0.1]}", ["axes.x", "policy.tau"]),
    ("+axes.x={set: [tau, cap], values: [1]}", ["axes.x.set", "one kind"]),
    ("+axes.x={set: [world, tau], values: [a]}", ["axes.x.set"]),
    ("+axes.tau=3", ["axes.tau", "3", "a list"]),
    ("+axes.tau={}", ["axes.tau", "start"]),
    ("+axes.tau=[a]", ["axes.tau", "'a'", "numbers"]),
    ("+axes.tau=[1,true]", ["axes.tau", "True"]),
    ("+axes.tau={values: [0.1], foo: 1}", ["axes.tau", "foo"]),
    ("+axes.tau={start: 0, stop: 0.5, step: 0}", ["axes.tau", "no values"]),
    ("+axes.tau={start: 0, stop: 0.5, step: -0.1}", ["axes.tau", "no values"]),
    ("+axes.tau={start: 0, stop: 0.5}", ["axes.tau", "step"]),
    ("+axes.tau={start: 0, stop: 0.5, num: 0}", ["axes.tau.num", "0"]),
    ("+axes.tau={start: 0, stop: 0.5, num: 9, log: true}", ["axes.tau", "log"]),
    ("+axes.tau={start: 0, stop: 0.5, num: 10000000}", ["axes.tau", "10000000"]),
    ("+axes.tau={start: 0, stop: '1e5000', step: 1}", ["axes.tau"]),
    ("+axes.n_min={start: 1, stop: 3, step: 0.5}", ["axes.n_min", "1.5", "whole"]),
    ("axes=3", ["axes"]),
    ("+axes.round={set: tau, values: [0.1]}", ["axes.round"]),
    ("+axes.tiles={set: tau, values: [0.1, 0.2]}", ["axes.tiles"]),
    ("+axes.retired={set: tau, values: [0.1, 0.2]}", ["axes.retired"]),
    (["+sweep=noise", "channel.rho_fp=0.1"], ["channel.rho_fp", "rho"]),
    # axes that set each parameter to a value of its own
    ("+axes.x={set: [tau, cap], values: {}}", ["axes.x", "no values"]),
    ("+axes.x={set: [tau, cap], values: {1: [0.1]}}", ["axes.x", "1: [0.1]", "a list of 2", "policy.tau, policy.cap"]),
    ("+axes.x={set: [tau, cap], values: {1: [0.1, 2, 3]}}", ["axes.x", "a list of 2"]),
    ("+axes.x={set: tau, values: {1: 0.1}}", ["axes.x", "1: 0.1", "a list of 1"]),
    ("+axes.x={set: [tau, cap], values: {1: [0.1, 2.0]}}", ["axes.x", "policy.cap at 1", "2.0", "whole numbers"]),
    ("+axes.x={set: [tau, cap], values: {1: [0.1, true]}}", ["axes.x", "policy.cap at 1", "True", "whole numbers"]),
    ("+axes.x={set: [tau, cap], values: {1: [true, 2]}}", ["axes.x", "policy.tau at 1", "True", "numbers"]),
    ("+axes.x={set: [tau, cap], values: {1: [a, 2]}}", ["axes.x", "policy.tau at 1", "'a'", "numbers"]),
    ("+axes.x={set: [tau, keep], values: {1: [0.1, 2]}}", ["axes.x", "world.difficulty.keep at 1", "names"]),
    ("+axes.x={set: [tau, cap], values: {1: [1, 2]}}", ["policy.tau", "1", "below 1"]),
    ("+axes.x={set: [tau, cap], values: {1: [0.1, 2], a: [0.2, 3]}}", ["axes.x", "numbers and names"]),
    ("+axes.x={set: [tau, cap], values: {1: [0.1, 2], 1.0: [0.2, 3]}}", ["axes.x", "1.0 twice", "distinct"]),
    ("+axes.x={set:[tau,cap],values:{a:[0.1,2],a:[0.2,3]}}", ["axes.x", "a twice", "distinct"]),
    ("+axes.x={set: [tau, cap], values: {true: [0.1, 2]}}", ["axes.x", "True", "numbers, or names"]),
    ("+axes.x={set: [tau, cap], values: {nan: [0.1, 2]}}", ["axes.x", "nan", "numbers, or names"]),
    ("+axes.x={set: [tau, cap], values: {99999999999999999999: [0.1, 2]}}", ["axes.x", "99999999999999999999"]),
    ("+axes.x={set: [tau, cap], values: {a$b: [0.1, 2]}}", ["axes.x", "'a$b'", "names"]),
    ("+axes.x={set: [tau, tau], values: {1: [0.1, 0.2]}}", ["axes.x", "policy.tau", "one axis per parameter"]),
    ("+axes.tau={set: [tau, cap], values: {0.1: [0.2, 2]}}", ["axes.tau", "policy.tau = 0.2 at 0.1", "the value itself"]),
    ("+axes.cap={set: [tau, rounds], values: {1: [0.1, 12]}}", ["axes.cap", "one that sets policy.cap"]),
    ("+axes.world={values: {a: [mbpp_hard100]}}", ["axes.world", "a list of presets"]),
    ("+axes.x={set: [world, tau], values: {a: [mbpp_hard100, 0.1]}}", ["axes.x", "world", "not groups"]),
    ("+axes.tau={values: [0.1], label: 3}", ["axes.tau.label", "3", "a text"]),
    ("+axes.tau={values: [0.1], label: '$x'}", ["axes.tau.label", "'$x'", "without $"]),
    ([LINKED, "axes.x=[0.3]"], ["axes.x", "0.3", "some of its values: 0.1, 0.5"]),
    ([LINKED, "axes.x=[true]"], ["axes.x", "True", "some of its values"]),
    ([LINKED, "axes.x=[[0.1]]"], ["axes.x", "[0.1]", "some of its values"]),
    ([LINKED, "axes.x=[0.1,0.1]"], ["axes.x", "twice"]),
    ([LINKED, "axes.x=[]"], ["axes.x", "no values"]),
    ([LINKED, "axes.x=0.1"], ["axes.x", "0.1", "a list of some of its values"]),
    ([LINKED, "axes.x={start: 0, stop: 1, num: 3}"], ["axes.x", "a range", "some of its values"]),
    ([LINKED, "axes.x.step=0.1"], ["axes.x", "a range"]),
    ([LINKED, "axes.x={0.1: [0.1, 2]}"], ["axes.x.0.1", "unknown key"]),
    ([LINKED, "policy.tau=0.1"], ["policy.tau", "none: the axis x sets it", "+axes.x.values=[...]"]),
    (["+axes.x={set: tau, values: {1: [0.1]}}", "policy.tau=0.1"], ["policy.tau", "the axis x sets it"]),
    (f"+axes.tau=[1{'0' * 310}]", ["axes.tau", "numbers"]),
    # budget
    ("runs=0", ["runs", "0", "from 1"]),
    ("runs=-1", ["runs", "-1"]),
    ("runs=1.5", ["runs", "1.5", "whole"]),
    ("runs=x", ["runs", "'x'"]),
    ("runs=99999999999999", ["runs", "99999999999999"]),
    (["runs=10", "max_runs=5", "target_se={retired: 0.1}"], ["max_runs", "5"]),
    ("seed=4294967296", ["seed", "4294967296"]),
    ("seed=1.5", ["seed", "1.5"]),
    ("engine.threads=0", ["engine.threads", "0"]),
    ("engine.threads=x", ["engine.threads", "'x'"]),
    ("target_se=3", ["target_se", "3"]),
    ("target_se={nope: 1}", ["target_se.nope", "retired"]),
    ("target_se={retired: 0}", ["target_se.retired", "0"]),
    ("target_se={retired: inf}", ["target_se.retired", "inf"]),
    ("target_se={tail_sampled: 0.1}", ["target_se.tail_sampled", "sampled_eval"]),
    ("out=", ["out", "a folder"]),
    ("name=..", ["name", ".."]),
    # baseline
    ("baseline=null", ["baseline"]),
    ("+baseline.policy.window=2", ["baseline.policy.window"]),
    ("baseline=3", ["baseline", "3"]),
    ("+baseline.foo=1", ["baseline.foo"]),
    ("baseline.channel.rho_fp=2", ["channel.rho_fp", "2"]),
    # overrides that cannot be read, or take away what is needed
    ("[", ["[", "key=value"]),
    ("{a", ["{a", "key=value"]),
    ("=", ["="]),
    ("", ["key=value"]),
    ("a=b=c", ["a=b=c"]),
    ("a b", ["a b", "key=value"]),
    ("a b=c", ["a b=c"]),
    ("é=1", ["é=1"]),
    ("policy.tau=[", ["policy.tau=["]),
    ("policy.tau=0.1,0.2", ["policy.tau", "0.1,0.2"]),
    ("policy.tau=${nope}", ["nope"]),
    ("policy.tau=${policy.tau}", ["policy.tau"]),
    ("policy.tau", ["policy.tau", "="]),
    ("~runs=10000", ["runs"]),
    ("~world=report_main_71", ["world"]),
    ("~policy.tau=0.1", ["policy.tau", "taken away"]),
    ("+policy.tau=0.1", ["policy.tau", "leave out the +"]),
    ("+hydra.foo=1", ["hydra"]),
    (["+sweep=cliff", "+sweep=plane"], ["sweep"]),
]


@pytest.mark.parametrize(("given", "words"), BAD)
def test_bad_input_is_one_line_and_writes_nothing(command: Command, given: str | list[str], words: list[str]) -> None:
    arguments = [given] if isinstance(given, str) else given
    small = () if any(a.lstrip("+~").startswith(("runs", "-")) for a in arguments) else ("runs=1",)
    answer = command(*arguments, *small)
    assert list(Path().iterdir()) == []
    line = answer.error
    assert re.search(r"got .*, expected ", line), line
    for word in words:
        assert word in line, (word, line)
    assert len(line) < 700


def test_bad_input_of_a_real_process(process: Start, tmp_path: Path) -> None:
    line = finish(process("policy.tau=2")).error
    assert line.startswith("error: policy.tau: got 2, expected a number above -1 and below 1")
    assert list(tmp_path.iterdir()) == []


def test_ambiguous_name_of_an_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two parameters share their last name today; should they, an axis must say which."""
    from sim.axes import resolve
    from sim.sweep import PARAMETERS

    monkeypatch.setitem(PARAMETERS, "world.synth.tau", PARAMETERS["policy.tau"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"axes\.tau: got a name of several parameters, expected one of policy\.tau, world\.synth\.tau"):
        resolve("tau")


def test_advice_for_a_linked_axis_works(command: Command) -> None:
    line = command("+sweep=noise", "channel.rho_fp=0.1", "runs=1").error
    advice = re.search(r"(\S*axes\.rho\.values)=", line)
    assert advice
    narrow = ("world=report_main_71", "policy.tau=0.1")
    answer = command("+sweep=noise", *narrow, f"{advice[1]}=[0.1,0.2]", "runs=1", "out=a")
    assert answer.code == 0, answer
    assert results("a")["rho"].values.tolist() == [0.1, 0.2]


# ---------------------------------------------------------------- the page, the printed config, the terminal


def test_help_from_another_folder(process: Start, tmp_path: Path) -> None:
    answer = finish(process("--help", cwd=tmp_path))
    assert answer.code == 0
    assert answer.err == ""
    for word in ("usage:", "+sweep=NAME", "target_se", "policy.tau", "report_main_71", "cliff"):
        assert word in answer.out
    assert all(p.path in answer.out for p in parameters())
    assert list(tmp_path.iterdir()) == []


def test_version_and_config(command: Command) -> None:
    import yaml

    assert command("--version").out == f"halfblind {sim.__version__}\n"
    answer = command("--cfg", "+sweep=cliff", "policy.tau=0.2")
    assert answer.code == 0
    printed = yaml.safe_load(answer.out)
    assert printed["policy"]["tau"] == 0.2
    assert printed["name"] == "cliff"
    assert list(Path().iterdir()) == []


@pytest.mark.slow
def test_quiet_without_a_terminal(process: Start, tmp_path: Path) -> None:
    answer = finish(process("+axes.tau=[0.0,0.2]", "+axes.world=[report_main_71,report_band_58]", "runs=4", "out=a"))
    assert answer.code == 0
    assert answer.err == ""
    assert "\x1b" not in answer.out
    assert answer.out.splitlines()[-1] == "a/result.zarr"
    assert "4 cells, 4 runs each" in answer.out


@pytest.mark.slow
def test_output_in_an_ascii_locale(process: Start) -> None:
    answer = finish(process("+axes.tau=[0.0,0.2]", "runs=4", "out=a", env={"PYTHONIOENCODING": "ascii"}))
    assert answer.code == 0, answer


def test_pipe_that_closes_early(process: Start) -> None:
    import os

    reader, writer = os.pipe()
    os.close(reader)
    child = process("--help", stdout=writer)
    os.close(writer)
    _, err = child.communicate(timeout=30)
    assert err == ""
    assert child.returncode == 141


@pytest.mark.slow
def test_broken_folder_for_compiled_code(process: Start) -> None:
    """Nowhere to keep compiled code: an answer in one line, or none the worse for it."""
    answer = finish(process("+axes.tau=[0.1]", "runs=1", "out=a", "backend=numba", env={"HALFBLIND_CACHE": "/proc/nowhere"}), timeout=120)
    assert "Traceback" not in answer.err
    assert answer.code in (0, 2)
    beside = list(Path(sim.__file__).parent.glob("kernels/__pycache__/*.nb[ic]"))
    for path in beside:
        path.unlink()
    assert beside == [], "code cached next to the sources goes stale when another file changes"


# ---------------------------------------------------------------- large grids


def test_a_million_cells_are_planned_without_building_them() -> None:
    import tracemalloc

    began = time.process_time()
    tracemalloc.start()
    sweep = load([f"+axes.{n}={{start: 0, stop: 0.99, step: 0.01}}" for n in ("tau", "rho_fp", "rho_pf")]).sweep
    assert sweep.size == 10**6
    sweep.check()
    assert sweep.n_blocks > 10**4
    first = next(sweep.blocks())
    tables, baseline = sweep.tables(first)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60e6
    assert len(baseline) == len(tables.cells)
    assert time.process_time() - began < 5
    assert np.prod(sweep.block_shape) <= MAX_BLOCK_CELLS
    assert np.prod(sweep.block_shape) * sweep.layout.size * 8 <= MAX_BLOCK_BYTES
    assert sweep.lanes == 1
    assert sum(int(np.prod(b.shape)) for b in sweep.blocks()) == 10**6


@pytest.mark.parametrize("shape", [(), (1,), (7,), (64,), (65,), (100, 100, 100), (3, 1, 41), (5, 129), (2, 2, 2, 2, 2, 2, 2)])
@pytest.mark.parametrize("room", [1, 5, 64])
def test_boxes_cover_the_grid_once(shape: tuple[int, ...], room: int) -> None:
    box = fit_box(shape, room)
    assert np.prod(box) <= room
    if np.prod(shape) <= 1000:
        count = np.zeros(shape, int)
        for one in boxes(shape, box):
            count[one.slices] += 1
            assert np.prod(one.shape) <= room
        assert (count == 1).all()


def test_blocks_of_long_runs_are_bounded_in_bytes() -> None:
    sweep = load(["policy.rounds=1000", "policy.window=10", "+axes.rho_fp={start: 0, stop: 1, step: 0.01}"]).sweep
    assert sweep.layout == Layout(1000)
    assert np.prod(sweep.block_shape) * sweep.layout.size * 8 <= MAX_BLOCK_BYTES
    assert sweep.tile_runs >= 1


@pytest.mark.parametrize("lanes_of", [[], ["+axes.tau=[0,0.1,0.2]"], ["+sweep=plane"]])
def test_tiles_hold_every_run_once(lanes_of: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.sweep.MAX_TILE_RUNS", 8)
    sweep = load(lanes_of).sweep
    for before, after in ((0, 1), (0, 1000), (37, 1000), (8, 9), (1000, 1000)):
        seen: list[int] = []
        for lane in range(sweep.lanes):
            for first, n in sweep.tiles(lane, sweep.lane_runs(lane, before), after):
                assert 1 <= n <= sweep.tile_runs
                seen += range(first, first + n)
        assert sorted(seen) == list(range(before, after))


def test_repeated_load_is_pure() -> None:
    a, b = load(["+sweep=cliff"]), load(["+sweep=cliff"])
    assert a == b


@pytest.mark.slow
def test_same_store_from_any_working_folder(process: Start, command: Command, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    answer = finish(process("+axes.tau=[0.1,0.2]", "runs=4", f"out={tmp_path / 'a'}", cwd=tmp_path / "elsewhere"))
    assert answer.code == 0, answer
    assert command("+axes.tau=[0.1,0.2]", "runs=4", "out=b").code == 0
    same("a", "b")
    assert files("elsewhere") == {}


@pytest.mark.slow
def test_a_narrowed_sweep_draws_what_still_fits(answers: Callable[[Main], Command], tmp_path: Path) -> None:
    draws = answers(main)
    said = draws("+sweep=paper", "axes.world=[report_main_71]", "runs=20", "out=p")
    assert said.code == 0
    assert "left out: bc1, bc4, bc6;" in said.err
    assert {path.stem for path in (tmp_path / "p").glob("*.png")} == {"paper", "bc3", "bc8"}
    assert draws("+sweep=paper", "axes.world=[report_main_71]", "runs=20", "out=p", "figures=[bc1]").code == 2


def test_a_sweep_without_a_name_has_that_of_its_file(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine/sweep").mkdir(parents=True)
    (tmp_path / "mine/sweep/lab.yaml").write_text("# @package _global_\naxes: {rho_fp: [0, 0.3]}\nruns: 2\n")
    assert command("+sweep=lab", "--config-dir", "mine").code == 0
    assert (tmp_path / "outputs/lab/default/result.zarr").exists()
