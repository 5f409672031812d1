"""What a command can ask for: every preset, sweep and parameter, axes of all kinds, presets of one's own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray

from sim.config import CONF, groups, load
from sim.model import parameters
from tests.conftest import Command

Start = Callable[..., "subprocess.Popen[str]"]
SWEEPS = sorted((CONF / "sweep").glob("*.yaml"))


def results(folder: str) -> xarray.Dataset:
    with xarray.open_zarr(f"{folder}/result.zarr", consolidated=False, chunks=None) as data:
        return data.load()


# ---------------------------------------------------------------- good input


LONG = ("abundance", "cliff", "guarantee")


@pytest.mark.parametrize("path", [pytest.param(p, marks=pytest.mark.slow) if p.stem in LONG else p for p in SWEEPS], ids=lambda p: p.stem)
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
    "start": [0, 6],
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
    "favour": [0, 0.5],
    # not numbers
    "keep": ["any_fail", "mixed"],
    "router.mode": ["adjudicate", "top_hit", "withheld"],
    "sampled_eval": [False, True],
    "rollback.on": [False, True],
    "channel.unit": ["task", "topic"],
    "curator": ["ratchet"],
    "mislabel_to": ["uniform", "weight"],
}


def test_the_list_of_axes_is_whole() -> None:
    from sim.axes import resolve

    assert {resolve(name)[0] for name in AXES} == {p.path for p in parameters()}


def _listed(values: list[object]) -> str:
    return "[" + ",".join(str(v).lower() for v in values) + "]"


@pytest.mark.parametrize("name", AXES)
def test_any_parameter_can_be_an_axis(name: str) -> None:
    """The cells of the axis are those of the same values given one by one."""
    from sim.axes import resolve

    path = resolve(name)[0]
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
    from sim.axes import resolve

    assert command(*(f"+axes.{n}={_listed(AXES[n])}" for n in names), "runs=6", "out=grid").code == 0
    grid = results("grid")
    assert grid["retired"].dims == names
    for i, corner in enumerate((0, -1)):
        one = [f"{resolve(n)[0]}={str(AXES[n][corner]).lower()}" for n in names]
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


P0 = "+axes.p0={set: [difficulty.a, difficulty.b], values: {0.1: [2, 18], 0.5: [10, 10], 0.9: [18, 2]}}"
N_MIN = "+axes.n_min={set: [policy.n_min, world.n_train], values: {24: [24, 6], 100: [100, 25]}}"


@pytest.mark.slow
def test_each_parameter_of_an_axis_can_have_its_own_values(command: Command) -> None:
    """The cells hold the bits of the same points run one by one."""
    assert command(P0, N_MIN, "runs=16", "out=grid").code == 0
    grid = results("grid")
    assert grid["retired"].dims == ("p0", "n_min")
    assert grid["p0"].values.tolist() == [0.1, 0.5, 0.9]
    assert grid["n_min"].values.tolist() == [24, 100]
    for p0, a, b in ((0.1, 2, 18), (0.9, 18, 2)):
        for n_min, n_train in ((24, 6), (100, 25)):
            point = (f"world.difficulty.a={a}", f"world.difficulty.b={b}", f"policy.n_min={n_min}", f"world.n_train={n_train}")
            assert command(*point, "runs=16", f"out={p0}-{n_min}").code == 0
            alone, cell = results(f"{p0}-{n_min}"), grid.sel(p0=p0, n_min=n_min)
            for name in alone.data_vars:
                assert np.array_equal(alone[name].values, cell[name].values, equal_nan=True), name
    assert float(grid["tail_eval"].sel(p0=0.9).min()) > float(grid["tail_eval"].sel(p0=0.1).max())


def test_what_a_linked_axis_holds() -> None:
    p0, n_min = load([P0, N_MIN]).sweep.axes
    assert p0.settings(2) == {"world.difficulty.a": 18.0, "world.difficulty.b": 2.0}
    assert all(type(value) is float for row in p0.linked for value in row)
    assert (p0.long_name, p0.unit) == ("sets world.difficulty.a, world.difficulty.b", "")
    assert n_min.settings(0) == {"policy.n_min": 24, "world.n_train": 6}
    assert (n_min.long_name, n_min.unit) == ("policy.n_min: trials a skill must have before it can be retired", "trials")
    (tau,) = load(["+axes.tau={set: [tau, router.mode], values: {0: [0, top_hit], 0.5: [0.5, withheld]}}"]).sweep.axes
    assert [repr(value) for value in tau.values] == ["0.0", "0.5"]  # of the type of the parameter it is named after
    (tasks,) = load(["+axes.tasks={set: [keep, probes], values: {any: [any_fail, 1], hard one: [mixed, 2]}}"]).sweep.axes
    assert tasks.values == ("any", "hard one")
    one = load(["+axes.x={set: tau, values: {1: [0.1], 2.5: [0.2]}}"]).sweep
    assert one.axes[0].values == (1.0, 2.5)
    assert [one.cell((i,)).policy.tau for i in range(2)] == [0.1, 0.2]


def test_size_of_a_run_follows_a_linked_axis() -> None:
    sweep = load(["+axes.size={set: [n_train, rounds], values: {a: [6, 30], b: [40, 8], c: [10, 10]}}", "world.n_eval=5"]).sweep
    assert sweep.largest == (30, 30 * 45)
    assert [sweep.cell((i,)).policy.rounds for i in range(3)] == [30, 8, 10]


def test_a_parameter_that_follows_a_linked_one_takes_its_values() -> None:
    sweep = load(["channel=noise", "+axes.judge={set: [tau, rho_fp], values: {good: [0.1, 0.05], bad: [0.3, 0.4]}}"]).sweep
    assert sweep.axes[0].paths == ("policy.tau", "channel.rho_fp", "channel.rho_pf")
    assert [(c.policy.tau, c.channel.rho_pf) for c in map(sweep.cell, [(0,), (1,)])] == [(0.1, 0.05), (0.3, 0.4)]


@pytest.mark.parametrize(
    ("override", "values", "rows"),
    [
        ("axes.p0=[0.9,0.1]", (0.9, 0.1), ((18.0, 2.0), (2.0, 18.0))),
        ("+axes.p0.values=[0.5]", (0.5,), ((10.0, 10.0),)),
        ("axes.p0.values={0.2: [4, 16]}", (0.2,), ((4.0, 16.0),)),
        ("axes.p0={set: [tau], values: [0.1, 0.2]}", (0.1, 0.2), ()),
        ("axes.p0={set: [tau], start: 0, stop: 0.2, step: 0.1}", (0.0, 0.1, 0.2), ()),
    ],
)
def test_a_list_chooses_among_the_values_of_a_linked_axis(override: str, values: tuple[float, ...], rows: tuple[object, ...]) -> None:
    (axis,) = load([P0, override]).sweep.axes
    assert (axis.values, axis.linked) == (values, rows)


def test_a_range_gives_way_to_linked_values() -> None:
    axes = {axis.name: axis for axis in load(["+sweep=noise", "axes.rho.values={0.1: [0.1, 0.2]}"]).sweep.axes}
    assert axes["rho"].settings(0) == {"channel.rho_fp": 0.1, "channel.rho_pf": 0.2}


@pytest.mark.slow
def test_a_sweep_file_with_a_linked_axis(command: Command, tmp_path: Path) -> None:
    """With a label; what --cfg prints as its axes gives the same sweep."""
    import yaml

    folder = tmp_path / "conf/sweep"
    folder.mkdir(parents=True)
    head = "# @package _global_\nname: mine\n"
    axis = "axes:\n  p0: {{set: [difficulty.a, difficulty.b], values: {{{}}}, label: mean no-skill pass rate}}\n"
    (folder / "mine.yaml").write_text(head + axis.format("0.1: [2, 18], 0.5: [10, 10]"))
    assert command("+sweep=mine", "runs=2", "out=a", "--config-dir", "conf").code == 0
    assert results("a")["p0"].attrs["long_name"] == "mean no-skill pass rate"
    printed = yaml.safe_load(command("--cfg", "+sweep=mine", "--config-dir", "conf").out)
    (folder / "again.yaml").write_text(head + yaml.safe_dump({"axes": printed["axes"]}))
    assert load(["+sweep=again"], tmp_path / "conf").sweep == load(["+sweep=mine"], tmp_path / "conf").sweep
    for twice in ("0.1: [2, 18], 0.10: [3, 17]", "1: [2, 18], 1.0: [3, 17]", "a: [2, 18], a: [3, 17]"):
        (folder / "mine.yaml").write_text(head + axis.format(twice))
        line = command("+sweep=mine", "--config-dir", "conf").error
        assert "twice" in line or "duplicate" in line


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


@pytest.mark.slow
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
    (mine / "world/mbpp_hard100.yaml").write_text("n_train: 9\n")
    assert "name of a preset that exists" in command("world=mine", f"--config-dir={mine}").error
    (mine / "world/mbpp_hard100.yaml").unlink()
    (mine / "world/bad.yaml").write_text("n_train: [1\n")
    assert "bad.yaml" in command("world=bad", f"--config-dir={mine}").error
