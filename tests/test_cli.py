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
from sim.config import CONF, groups, load
from sim.errors import InputError
from sim.model import parameters
from sim.sums import Layout
from sim.sweep import MAX_BLOCK_BYTES, MAX_BLOCK_CELLS, boxes, fit_box
from tests.conftest import Command, files, finish, same

Start = Callable[..., "subprocess.Popen[str]"]
SWEEPS = sorted((CONF / "sweep").glob("*.yaml"))


def results(folder: str) -> xarray.Dataset:
    with xarray.open_zarr(f"{folder}/result.zarr", consolidated=False, chunks=None) as data:
        return data.load()


# ---------------------------------------------------------------- bad input

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
    from sim.config import _resolve
    from sim.sweep import PARAMETERS

    monkeypatch.setitem(PARAMETERS, "world.synth.tau", PARAMETERS["policy.tau"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"axes\.tau: got a name of several parameters, expected one of policy\.tau, world\.synth\.tau"):
        _resolve("tau")


def test_advice_for_a_linked_axis_works(command: Command) -> None:
    line = command("+sweep=noise", "channel.rho_fp=0.1", "runs=1").error
    advice = re.search(r"(\S*axes\.rho\.values)=", line)
    assert advice
    narrow = ("world=report_main_71", "policy.tau=0.1")
    answer = command("+sweep=noise", *narrow, f"{advice[1]}=[0.1,0.2]", "runs=1", "out=a")
    assert answer.code == 0, answer
    assert results("a")["rho"].values.tolist() == [0.1, 0.2]


# ---------------------------------------------------------------- good input


@pytest.mark.parametrize("path", SWEEPS, ids=lambda p: p.stem)
def test_every_sweep_opens_with_its_command_and_runs(command: Command, path: Path) -> None:
    head = path.read_text().splitlines()[:2]
    written = [line.removeprefix("# ") for line in head if line.startswith("# python -m sim ")]
    assert written == [f"python -m sim +sweep={path.stem}"]
    answer = command(f"+sweep={path.stem}", "runs=2", "figures=[]")
    assert answer.code == 0, answer
    assert f"outputs/{path.stem}/default/result.zarr" in answer.out
    data = results(f"outputs/{path.stem}/default")
    assert (data["runs"] == 2).all()
    assert data.attrs["sweep"] == path.stem
    assert data["runs"].shape == load([f"+sweep={path.stem}"]).sweep.shape


@pytest.mark.parametrize("name", ["cliff", "plane", "evidence"])
def test_figures_of_a_sweep(command: Command, name: str) -> None:
    """With its own choice of figures, on a grid narrowed to a few cells."""
    few = {"cliff": ["world=report_main_71", "policy.tau=0.1"], "plane": [], "evidence": ["policy.n_min=8"]}[name]
    answer = command(f"+sweep={name}", *few, "runs=2", "out=a", "figures=null")
    assert answer.code == 0, answer
    assert "Traceback" not in answer.err
    drawn = [p for p in Path("a").iterdir() if p.suffix in (".png", ".svg", ".pdf")]
    assert drawn
    assert all(p.stat().st_size > 1000 for p in drawn)


def test_every_preset_runs(command: Command) -> None:
    found = groups()
    for group in ("world", "policy", "channel"):
        names = list(found[group])
        answer = command(f"+axes.{group}=[{','.join(names)}]", "runs=2", f"out={group}")
        assert answer.code == 0, answer
        data = results(group)
        assert data[group].values.tolist() == names
        assert data["retired"].shape == (len(found[group]),)
    one = command("world=mbpp_hard100", "+axes.policy=[bc]", "runs=2", "out=one")
    assert one.code == 0
    alone = results("one").isel(policy=0)
    assert float(alone["tail_eval"]) == float(results("world")["tail_eval"].sel(world="mbpp_hard100"))


AXES = {
    "world.n_train": [10, 20],
    "world.n_eval": [5, 20],
    "topics": [4, 13],
    "topic_skew": [0, 1.5],
    "difficulty.a": [0.5, 2],
    "world.difficulty.b": [0.5, 2],
    "probes": [3, 5],
    "effect.mean": [-1, 1],
    "effect.sd": [0.1, 1],
    "spurious_mean": [-1, 1],
    "spurious_sd": [0.1, 1],
    "off_topic": [0, 0.5],
    "recall": [0.2, 0.9],
    "false_match": [0, 0.5],
    "top_hit_recall": [0.1, 0.9],
    "mislabel": [0, 0.5],
    "min_cluster": [1, 4],
    "per_round": [1, 4],
    "memory": [0.1, 0.9],
    "cover_guard": [0, 1],
    "phantom_cost": [0, 1],
    "tau": [0, 0.5],
    "n_min": [8, 24],
    "cap": [2, 12],
    "rounds": [6, 12],
    "window": [2, 4],
    "margin": [0.05, 0.3],
    "patience": [1, 5],
    "rho_fp": [0, 0.4],
    "rho_pf": [0, 0.4],
    "spread": [0, 0.5],
    # not numbers
    "keep": ["any_fail", "mixed"],
    "router.mode": ["adjudicate", "top_hit", "withheld"],
    "sampled_eval": [False, True],
    "rollback.on": [False, True],
    "channel.unit": ["task", "topic"],
    "curator": ["ratchet"],
}


def test_the_list_of_axes_is_whole() -> None:
    from sim.config import _resolve

    assert {_resolve(name)[0] for name in AXES} == {p.path for p in parameters()}


def _listed(values: list[object]) -> str:
    return "[" + ",".join(str(v).lower() for v in values) + "]"


@pytest.mark.parametrize("name", AXES)
def test_any_parameter_can_be_an_axis(name: str) -> None:
    """The cells of the axis are those of the same values given one by one."""
    from sim.config import _resolve

    path = _resolve(name)[0]
    sweep = load([f"+axes.{name}={_listed(AXES[name])}"]).sweep
    assert sweep.axes[0].name == name
    assert sweep.axes[0].values == tuple(AXES[name])
    assert sweep.shape == (len(AXES[name]),)
    last = AXES[name][-1]
    single = load([f"{path}={str(last).lower()}"]).sweep
    assert sweep.cell((len(AXES[name]) - 1,)) == single.cell(())


@pytest.mark.parametrize("names", [("effect.mean", "rounds"), ("router.mode", "rollback.on", "spread")])
def test_several_axes_make_a_grid(command: Command, names: tuple[str, ...]) -> None:
    """Each cell of a grid holds the numbers of that cell alone."""
    from sim.config import _resolve

    assert command(*(f"+axes.{n}={_listed(AXES[n])}" for n in names), "runs=6", "out=grid").code == 0
    grid = results("grid")
    assert grid["retired"].dims == names
    for i, corner in enumerate((0, -1)):
        one = [f"{_resolve(n)[0]}={str(AXES[n][corner]).lower()}" for n in names]
        assert command(*one, "+axes.tau=[0.1]", "runs=6", f"out=one{i}").code == 0
        alone, cell = results(f"one{i}").isel(tau=0), grid.isel(dict.fromkeys(names, corner))
        for variable in ("tail_eval", "retired", "observed_failures", "delta_clean_se", "eval_by_round"):
            a, b = np.atleast_1d(alone[variable].values), np.atleast_1d(cell[variable].values)
            assert np.array_equal(a, b[: len(a)], equal_nan=True), variable


def test_linked_axes(command: Command) -> None:
    assert command("+axes.rho={set: [channel.rho_fp, channel.rho_pf], values: [0.1, 0.3]}", "runs=16", "out=a").code == 0
    a = results("a")
    for value in (0.1, 0.3):
        assert command(f"channel.rho_fp={value}", f"channel.rho_pf={value}", "+axes.tau=[0.1]", "runs=16", f"out=b{value}").code == 0
        b = results(f"b{value}").isel(tau=0)
        for name in a.data_vars:
            assert np.array_equal(a[name].sel(rho=value).values, b[name].values, equal_nan=True), name


def test_symmetric_noise_follows_an_axis_over_rho_fp() -> None:
    """``channel=noise`` says that channel.rho_fp sets both rates: as an axis too."""
    assert load(["channel=noise", "channel.rho_fp=0.2"]).sweep.cell(()).channel.rho_pf == 0.2
    sweep = load(["channel=noise", "+axes.rho_fp=[0.1,0.2]"]).sweep
    assert [sweep.cell((i,)).channel.rho_pf for i in range(2)] == [0.1, 0.2]


def test_a_key_narrows_the_axis_that_sets_it(command: Command) -> None:
    sweep = load(["+sweep=cliff", "policy.tau=0.2"]).sweep
    assert {a.name: a.values for a in sweep.axes if a.name != "rho_fp"}["tau"] == (0.2,)
    assert len(sweep.axes) == 3
    sweep = load(["+sweep=cliff", "world=report_band_58", "policy.tau=0.5", "channel.rho_fp=1"]).sweep
    assert [a.values for a in sweep.axes] == [("report_band_58",), (0.5,), (1.0,)]
    assert sweep.cell((0, 0, 0)).world.n_train == 35
    assert command("+sweep=cliff", "world=report_band_58", "policy.tau=0.5", "channel.rho_fp=1", "runs=2", "out=a").code == 0
    whole = load(["+sweep=cliff"]).sweep
    assert sweep.cell((0, 0, 0)) == whole.cell([a.values.index(v) for a, v in zip(whole.axes, ("report_band_58", 0.5, 1.0), strict=True)])


def test_group_axis_keeps_the_other_keys(command: Command) -> None:
    sweep = load(["+axes.world=[report_main_71,report_band_58]", "world.effect.mean=0.5", "+axes.policy=[bc,rt]", "policy.tau=0.3"]).sweep
    cells = [sweep.cell((i, j)) for i in range(2) for j in range(2)]
    assert {c.world.effect.mean for c in cells} == {0.5}
    assert {c.policy.tau for c in cells} == {0.3}
    assert [c.world.n_train for c in cells] == [43, 43, 35, 35]
    assert [c.policy.cap for c in cells] == [12, 50, 12, 50]


def test_ranges() -> None:
    def values(spec: str, name: str = "tau") -> tuple[float, ...]:
        return load([f"+axes.{name}={{{spec}}}"]).sweep.axes[0].values

    assert values("start: 0, stop: 0.3, step: 0.1") == (0.0, 0.1, 0.2, 0.3)
    assert values("start: 0.3, stop: 0, step: -0.1") == (0.3, 0.2, 0.1, 0.0)
    assert values("start: 0, stop: 0.25, step: 0.1") == (0.0, 0.1, 0.2)
    assert values("start: 0, stop: 0.3, num: 4") == (0.0, 0.1, 0.2, 0.3)
    assert values("start: 0.5, stop: 0.5, step: 1") == (0.5,)
    assert values("start: 0.001, stop: 0.1, num: 3, log: true") == (0.001, 0.01, 0.1)
    assert values("start: 8, stop: 64, step: 8", "n_min") == tuple(range(8, 65, 8))
    assert values("start: 1, stop: 100, num: 3, log: true", "n_min") == (1, 10, 100)


def test_default_folder_tells_settings_apart(command: Command) -> None:
    seen = set()
    changes = [], ["policy.tau=0.2"], ["policy.tau=0.25"], ["seed=2"], ["channel=bias"], ["+axes.tau=[0.1,0.2]"]
    for change in changes:
        seen.add(load(change).out)
        assert load([*change, "runs=5", "engine.threads=1", "figures=[]", "backend=reference", "max_runs=7"]).out == load(change).out
    assert len(seen) == len(changes)
    assert load(["policy.tau=0.2", "seed=2"]).out == load(["seed=2", "policy.tau=0.2"]).out
    long = [f"+axes.n_min=[{','.join(map(str, range(1, 200)))}]"]
    assert len(load(long).out.name) <= 120


@pytest.mark.parametrize("name", ["with space", "münchen", "a(1)", "a,b", "a=b", "a:b", "5", "-", "~x"])
def test_folder_of_any_name(command: Command, name: str) -> None:
    answer = command("+axes.tau=[0.1]", "runs=1", f"out=sub/{name}")
    assert answer.code == 0, answer
    assert Path("sub", name, "result.zarr").is_dir()


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


def test_quiet_without_a_terminal(process: Start, tmp_path: Path) -> None:
    answer = finish(process("+axes.tau=[0.0,0.2]", "+axes.world=[report_main_71,report_band_58]", "runs=4", "out=a"))
    assert answer.code == 0
    assert answer.err == ""
    assert "\x1b" not in answer.out
    assert answer.out.splitlines()[-1] == "a/result.zarr"
    assert "4 cells, 4 runs each" in answer.out


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


def test_same_store_from_any_working_folder(process: Start, command: Command, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    answer = finish(process("+axes.tau=[0.1,0.2]", "runs=4", f"out={tmp_path / 'a'}", cwd=tmp_path / "elsewhere"))
    assert answer.code == 0, answer
    assert command("+axes.tau=[0.1,0.2]", "runs=4", "out=b").code == 0
    same("a", "b")
    assert files("elsewhere") == {}


CLIFF = load(["+sweep=cliff"]).sweep


@pytest.mark.parametrize(
    ("override", "axis", "values"),
    [
        ("axes.rho_fp=[0,0.3]", "rho_fp", (0.0, 0.3)),
        ("++axes.rho_fp=[0,0.3]", "rho_fp", (0.0, 0.3)),
        ("+axes.rho_fp.values=[0,0.3]", "rho_fp", (0.0, 0.3)),
        ("axes.rho_fp={start: 0, stop: 1, num: 3}", "rho_fp", (0.0, 0.5, 1.0)),
        ("axes.rho_fp.step=0.5", "rho_fp", (0.0, 0.5, 1.0)),
        ("axes.tau={start: 0, stop: 0.4, num: 3}", "tau", (0.0, 0.2, 0.4)),
        ("axes.world=[mbpp_hard100]", "world", ("mbpp_hard100",)),
    ],
)
def test_axes_of_a_sweep_are_replaced(override: str, axis: str, values: tuple[object, ...]) -> None:
    changed = {a.name: a for a in load(["+sweep=cliff", override]).sweep.axes}
    assert changed[axis].values == values
    for other in CLIFF.axes:
        assert changed[other.name].paths == other.paths
        assert other.name == axis or changed[other.name].values == other.values


def test_replacing_values_keeps_what_a_linked_axis_sets() -> None:
    (rho,) = (a for a in load(["+sweep=noise", "axes.rho=[0.1,0.2]"]).sweep.axes if a.name == "rho")
    assert rho.paths == ("channel.rho_fp", "channel.rho_pf")
    assert rho.values == (0.1, 0.2)


def test_presets_of_ones_own(command: Command, tmp_path: Path) -> None:
    """A world and a sweep in a folder of the user's, as sim/conf/README.md shows."""
    mine = tmp_path / "my conf"
    (mine / "world").mkdir(parents=True)
    (mine / "sweep").mkdir()
    (mine / "world/mine.yaml").write_text(
        "defaults:\n  - /roles@_here_: first_fit\nn_train: 9\nn_eval: 5\ndifficulty: {a: 1.0, b: 1.0, probes: 0, keep: all}\n"
        "effect: {mean: 0.2}\n"
    )
    (mine / "sweep/mine.yaml").write_text("# @package _global_\nname: mine\naxes:\n  tau: [0.0, 0.2]\nruns: 4\n")
    assert command("+sweep=mine", "world=mine", "out=a", "--config-dir", str(mine)).code == 0
    data = results("a")
    assert data.sizes["tau"] == 2
    assert data.attrs["command"].endswith(f"--config-dir '{mine}'")
    assert "mine" in command("world=zz", f"--config-dir={mine}").error
    assert "folder" in command("world=mine", "--config-dir", str(tmp_path / "none")).error
    assert "--config-dir" in command("--config-dir").error
    (mine / "world/bad.yaml").write_text("n_train: [1\n")
    assert "bad.yaml" in command("world=bad", f"--config-dir={mine}").error
