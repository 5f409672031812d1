"""The contract: every rule says what it is and gives the same whole numbers in Python, numba and JAX; what is wrong is said in a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from real_loop import run
from real_loop.config import load as load_real
from real_loop.history import History
from real_loop.log import Reader
from sim import curators, reference
from sim.config import load
from sim.curators import NAMES, Rule, Skill, Trial
from sim.curators.__main__ import main as list_curators
from sim.curators.checking import defaults
from sim.errors import InputError
from sim.kernels.backends import BACKENDS, by_rule
from sim.lives import Replay
from sim.model import Policy, from_mapping, to_mapping
from sim.store import identity, sweep_of
from sim.sums import Layout, from_records
from sim.sweep import Sweep
from sim.tables import derive
from tests.conftest import Answer, Command, same
from tests.test_real_loop import Watching

POLICY = Policy(tau=0.1, n_min=6, cap=6, rounds=12, window=4)
N_MAX = 60
README = Path(curators.__file__).with_name("README.md")


# ---------------------------------------------------------------- every rule


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_says_what_it_is(name: str) -> None:
    rule = curators.find(name)
    assert rule.line
    assert rule.source
    assert "\n" not in rule.line
    assert rule.about.strip().splitlines()[0].endswith(".")
    assert f"policy.{rule.key}" == rule.parameters.PATH or not defaults(rule)
    for path, value, doc, _ in defaults(rule):
        assert doc
        assert curators.parameter(f"policy.{rule.key}.{path}") is not None
        again = curators.chosen(from_mapping(Policy, {**to_mapping(POLICY), "curator": name, rule.key: {path: value}}))[1]
        assert again == rule.parameters()


State = tuple[Skill, Trial, int]


def history(rule: Rule, table: list[int], outcomes: list[int], seed: int) -> list[State]:
    """Return what a skill is seen as after each of some outcomes, the trial, and the round."""
    draw, own, net, states = np.random.default_rng(seed), tuple(map(int, rule.first(table))), 0, []
    for i, observed in enumerate(outcomes):
        t, net = i * POLICY.rounds // len(outcomes), net + 2 * observed - 1
        skill = Skill(i + 1, net, t + 1, int(draw.integers(0, t + 1)), int(draw.integers(0, 900)), own)
        trial = Trial(observed, t, int(draw.integers(0, 2)))
        states.append((skill, trial, t))
        if rule.after_trial is not None:
            own = tuple(map(int, rule.after_trial(skill, trial, table)))
    return states


def answers_of(rule: Rule, state: State, word: int, table: list[int]) -> list[int]:
    """Return what plain Python gives: new evidence, leaves, strength."""
    skill, trial, t = state
    own = rule.after_trial(skill, trial, table) if rule.after_trial else ()
    return [*map(int, own), int(rule.leaves(skill, t, table)), int(rule.strength(skill, t, word, table)) if rule.strength else 0]


def walked(name: str) -> tuple[Rule, np.ndarray, list[State], list[int], np.ndarray]:
    rule, parameters = curators.chosen(from_mapping(Policy, {**to_mapping(POLICY), "curator": name}))
    table = rule.table(parameters, POLICY, N_MAX)
    draw, states = np.random.default_rng(len(name)), []
    for share in (0.1, 0.5, 0.9):
        states += history(rule, table.tolist(), (draw.random(N_MAX) < share).astype(int).tolist(), 7)
    words = draw.integers(0, 2**32, len(states)).tolist()
    return rule, table, states, words, np.array([answers_of(rule, s, w, table.tolist()) for s, w in zip(states, words, strict=True)])


def traced(rule: Rule, table: np.ndarray, states: list[State], words: list[int]) -> np.ndarray:
    """Return the same from JAX: all states at once."""
    import jax
    import jax.numpy as jnp

    from sim.kernels.jax_rules import number

    with jax.enable_x64(True):
        values = jnp.asarray(table)

        def one(skill: Any, trial: Any, t: Any, word: Any) -> Any:
            own = rule.after_trial(skill, trial, values) if rule.after_trial else ()
            strength = rule.strength(skill, t, word, values) if rule.strength else 0
            return [number(x) for x in (*own, rule.leaves(skill, t, values), strength)]

        skills = Skill(*(np.array([s[k] for s, _, _ in states]) for k in range(5)), tuple(np.array([s.own for s, _, _ in states]).T))  # type: ignore[arg-type]
        trials = Trial(*(np.array([t[k] for _, t, _ in states]) for k in range(7)))
        found = jax.vmap(one)(skills, trials, np.array([t for _, _, t in states]), np.array(words))
        return np.stack([np.broadcast_to(np.asarray(x), len(states)) for x in found], axis=-1)


@pytest.mark.parametrize("name", NAMES)
def test_python_and_jax_give_the_same(name: str) -> None:
    rule, table, states, words, expected = walked(name)
    np.testing.assert_array_equal(traced(rule, table, states, words), expected)


def compiled(rule: Rule, table: np.ndarray, states: list[State], words: list[int]) -> np.ndarray:
    """Return the same from numba: the stages that the kernel is made of."""
    import numba

    from sim.kernels.jit import stage_of

    leaves, strength, fields = stage_of(rule.leaves), rule.strength and stage_of(rule.strength), len(rule.fields)  # type: ignore[arg-type]
    after = rule.after_trial and stage_of(rule.after_trial)  # type: ignore[arg-type]
    call = {
        "leaves": numba.njit(lambda skill, trial, t, word, table: leaves(skill, t, table)),
        "strength": numba.njit(lambda skill, trial, t, word, table: strength(skill, t, word, table)),
        "after": numba.njit(lambda skill, trial, t, word, table: after(skill, trial, table)),
    }
    rows = []
    for (skill, trial, t), word in zip(states, words, strict=True):
        own = call["after"](skill, trial, t, word, table) if after else ()
        args = skill, trial, t, word, table
        rows.append([*own, call["leaves"](*args), call["strength"](*args) if strength else 0])
        assert len(own) == fields
    return np.array(rows, np.int64)


@pytest.mark.parametrize(
    "name", ["expel", "procmem", *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES if n not in ("expel", "procmem"))]
)
def test_python_and_numba_give_the_same(name: str) -> None:
    rule, table, states, words, expected = walked(name)
    np.testing.assert_array_equal(compiled(rule, table, states, words), expected)


def test_a_changed_rule_is_noticed() -> None:
    """The walk tells a rule from one with a smaller than in the place of a smaller or equal."""
    rule, table, states, words, expected = walked("ratchet")
    broken = [int(s.net < table[s.n]) for s, _, _ in states]
    assert broken != expected[:, 0].tolist()
    assert (traced(rule, table - 1, states, words)[:, 0] != expected[:, 0]).any()


def test_the_list(answers: Callable[..., Command]) -> None:
    call = answers(list_curators)
    said = call().out
    for name in NAMES:
        rule = curators.find(name)
        assert f"{name:24} {rule.line}" in said
        one = call(name).out
        assert rule.about.strip() in one
        assert all(f"policy.{rule.key}.{path}={value}" in one for path, value, _, _ in defaults(rule))
    assert "did you mean eprocess?" in call("eproces").error
    assert "--help" in call("a", "b").error


# ---------------------------------------------------------------- on the command line


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["policy.curator=ratched"], ["policy.curator", "'ratched'", "did you mean ratchet?"]),
        (["policy.curator=vrr_style"], ["did you mean vrr-style?"]),
        (["policy.curator=expel", "policy.expel.brith=3"], ["policy.expel.brith", "birth, agree", "did you mean birth?"]),
        (["policy.curator=expel", "policy.expel.birth=0"], ["policy.expel.birth", "at least 1"]),
        (["policy.curator=expel", "policy.expel.birth=2.5"], ["policy.expel.birth", "whole number"]),
        (["policy.curator=fifo", "policy.fifo.size=3"], ["policy.fifo.size", "no parameters"]),
        (["policy.expel.birth=3"], ["which is not chosen", "policy.curator=expel", "the curator is ratchet"]),
        (["policy.expell.birth=3"], ["policy.expell.birth", "did you mean expel?"]),
        (["policy.rolback.on=true"], ["policy.rolback.on", "did you mean rollback?"]),
        (["policy.curator=sprt", "policy.sprt.gap=0.46"], ["policy.sprt.gap", "below 0.45"]),
        (["policy.curator=corrected", "policy.corrected.rho_fp=0.6", "policy.corrected.rho_pf=0.5"], ["kappa above 0"]),
        (["policy.curator=./none.py"], ["./none.py", "No such file"]),
        (["policy.curator=no.such.module"], ["cannot be loaded", "No module named"]),
        (["+axes.sprt.gap=[0.1,0.2]"], ["policy.sprt.gap", "which is not chosen"]),
        (["+axes.curator=[ratchet,nobody]"], ["policy.curator", "'nobody'"]),
    ],
    ids=lambda value: value[-1].partition("=")[0] if isinstance(value, list) and "=" in value[0] else None,
)
def test_bad_input(command: Command, args: list[str], words: list[str]) -> None:
    error = command(*args).error
    assert all(word in error for word in words), error


def swept(*args: str) -> Sweep:
    return load(["world.n_train=20", "world.n_eval=6", "policy.rounds=5", "policy.cap=3", *args]).sweep


def test_parameters_reach_the_cells_and_are_recorded() -> None:
    sweep = swept("+axes.curator=[ratchet,expel,cusum]", "policy.expel.birth=4", "+axes.cusum.h=[2,3]")
    assert sweep.shape == (3, 2)
    seen = [[curators.chosen(sweep.cell((i, j)).policy) for j in range(2)] for i in range(3)]
    assert [row[0][0].name for row in seen] == ["ratchet", "expel", "cusum"]
    assert [p.birth for _, p in seen[1]] == [4, 4]  # type: ignore[attr-defined]
    assert [p.h for _, p in seen[2]] == [2.0, 3.0]  # type: ignore[attr-defined]
    told = identity(sweep)
    assert told["cells"]["all"]["policy"]["expel"] == {"birth": 4, "agree": 1, "disagree": 1, "disagree_full": 3}  # with the defaults
    assert told["cells"]["all"]["policy"]["cusum"]["gap"] == 0.15
    again = sweep_of(told)
    assert [again.cell(i) for i in np.ndindex(3, 2)] == [sweep.cell(i) for i in np.ndindex(3, 2)]


def test_nothing_changes_for_ratchet() -> None:
    """What a store of Ratchet says it is, and what is sure not to be in it. The hash of tables was taken before there were others."""
    told = identity(load(["+sweep=cliff"]).sweep)
    assert "rules" not in told
    assert set(told["cells"]["report_main_71"]["policy"]) == {
        "tau",
        "n_min",
        "cap",
        "rounds",
        "window",
        "curator",
        "sampled_eval",
        "rollback",
    }
    assert told["tables"] == "f0c03989d6e1a2da"
    assert "own" not in to_mapping(POLICY)


# ---------------------------------------------------------------- whole runs

CELLS = (
    ("world.n_train=24", "world.topics=5", "world.router.recall=0.7", "channel.rho_fp=0.2", "channel.rho_pf=0.1", "policy.cap=3"),
    (
        "world.n_train=18",
        "world.topics=4",
        "world.start=3",
        "channel.rho_fp=0.3",
        "channel.spread=0.3",
        "channel.unit=topic",
        "world.router.favour=0.7",
        "world.critic.mislabel_to=weight",
        "policy.cap=5",
    ),
)
OF_ALL = (
    "world.n_eval=6",
    "policy.rounds=9",
    "policy.n_min=4",
    "policy.rollback.on=true",
    "policy.rollback.patience=2",
    "policy.rollback.margin=0.05",
)


def runs_of(name: str) -> tuple[Any, Layout, np.ndarray]:
    cells = [load([*OF_ALL, *args, f"policy.curator={name}"]).sweep.cell(()) for args in CELLS]
    tables = derive(cells)
    return tables, Layout(9), np.array([1, 1], np.int32)


def assert_backend_is_the_reference(name: str, backend: str, runs: int = 4) -> None:
    tables, layout, baseline = runs_of(name)
    expected = from_records(layout, *reference.records(tables, 12, 34, runs), baseline)
    np.testing.assert_array_equal(BACKENDS[backend].simulate(layout, tables, baseline, 12, 34, runs), expected)


FAST = ("expel", "lru")


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES if n not in FAST)])
def test_numba_is_the_reference(name: str) -> None:
    assert_backend_is_the_reference(name, "numba")


@pytest.mark.parametrize("name", ["expel", *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES if n != "expel")])
def test_jax_is_the_reference(name: str) -> None:
    assert_backend_is_the_reference(name, "jax")


@pytest.mark.slow
def test_the_general_kernel_plays_ratchet_as_its_own_does() -> None:
    """The functions of the contract are Ratchet too: in the kernel that is made from a rule, the same sums."""
    from sim.kernels import numba_kernel, ruled
    from sim.kernels.layout import allocate, flat_tables, sizes_of

    tables, _, baseline = runs_of("ratchet")
    own = numba_kernel.run(tables, baseline, 1, 2, 40)
    wide = tables._replace(retire=tables.retire.astype(np.int64))
    buffers = allocate(wide, 0)
    ruled.play(curators.find("ratchet"), 2, 5, (flat_tables(wide), baseline, 1, 2, 40, sizes_of(wide.cells), *buffers))
    for a, b in zip(own, buffers[-1], strict=True):
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------- several curators in a sweep


def test_differences_between_curators_are_added_up_run_by_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells compared with ones of another curator, in any order, in one chunk of runs or in many: the sums of the reference."""
    cells = [load([*OF_ALL, *args, f"policy.curator={n}"]).sweep.cell(()) for n in ("expel", "ratchet", "lru") for args in CELLS]
    tables, layout, baseline = derive(cells), Layout(9), np.array([2, 2, 5, 3, 0, 1], np.int32)
    assert tables.only(np.array([2, 3])).rules == ()
    expected = BACKENDS["reference"].simulate(layout, tables, baseline, 3, 9, 11)

    def played(layout: Layout, part: Any, own: np.ndarray, seed: int, first: int, n: int, keep: bool) -> tuple[np.ndarray, np.ndarray]:
        metrics, series = reference.records(part, seed, first, n)
        return from_records(layout, metrics, series, own), metrics

    for kept in (2**25, 8 * 26 * 6 * 4):
        monkeypatch.setattr("sim.kernels.backends.KEPT_BYTES", kept)
        np.testing.assert_array_equal(by_rule(played, layout, tables, baseline, 3, 9, 11), expected)
        np.testing.assert_array_equal(BACKENDS["numba"].simulate(layout, tables, baseline, 3, 9, 11), expected)


@pytest.mark.slow
def test_jax_and_dask_with_several_curators(command: Command) -> None:
    sweep = ["+axes.curator=[ratchet,expel]", "+axes.rho_fp=[0,0.4]", "+baseline.policy.curator=ratchet", "runs=60", "policy.rounds=5"]
    for how in (
        ["out=numba"],
        ["backend=jax", "out=jax"],
        ["backend=reference", "out=reference"],
        ["engine=dask", "engine.workers=1", "out=dask"],
    ):
        assert command(*sweep, *how).code == 0
    for other in ("jax", "reference", "dask"):
        same("numba", other)


# ---------------------------------------------------------------- a rule of one's own

CHANNEL = ("channel.rho_fp=0.2", "channel.rho_pf=0.1")


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example of the README, in a file."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "patient.py"
    path.write_text(README.read_text().split("```python\n")[1].split("```")[0])
    return path


def test_a_rule_of_ones_own_runs(patient: Path, command: Command) -> None:
    """In numba and the reference, to the same bits; the store knows its source, and an edit is another configuration."""
    own = ["policy.curator=./patient.py", "policy.patient.most_fails=3", "policy.rounds=6", "runs=30", *CHANNEL]
    assert command(*own, "out=a").code == 0
    assert command(*own, "backend=reference", "out=b").code == 0
    same("a", "b")
    patient.write_text(patient.read_text().replace(">= table[0]", "> table[0]"))
    assert "rules" in command(*own, "out=a", "runs=40").error


@pytest.mark.slow
def test_a_rule_of_ones_own_runs_in_jax(patient: Path, command: Command) -> None:
    own = ["policy.curator=./patient.py", "policy.patient.most_fails=3", "policy.rounds=6", "runs=30", *CHANNEL]
    assert command(*own, "out=a").code == 0
    assert command(*own, "backend=jax", "out=b").code == 0
    same("a", "b")


def looped(path: Path, *args: str) -> tuple[list[Any], Any]:
    """Play a scripted real loop, and the simulator's reference; return the rows of both."""
    noise = [
        "reward=general",
        "rho_fp=0.2",
        "rho_pf=0.2",
        "policy.rollback.on=true",
        "policy.rollback.patience=1",
        "policy.rollback.margin=0.02",
    ]
    plan = load_real(["model=scripted/report_band_58", *noise, "policy.cap=3", "policy.rounds=6", "policy.n_min=5", "seed=5", *args])
    watching = Watching()
    asyncio.run(run.scripted(plan, path, watching))
    assert plan.cell is not None
    played = Replay(derive([plan.cell]), 0, 5, 0)
    played.play()
    names = ("active", "retired", "evicted", "synthesised", "observed_failures")
    theirs = [(s, *(now[n] for n in names)) for s, now in zip(played.sampled, played.series, strict=True)]
    return [(r["passes"], r["active"], r["retired"], r["evicted"], r["written"], r["observed_failures"]) for r in watching.rows], theirs


@pytest.mark.parametrize("name", ["expel", "never", "lru", "random", *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES)])
def test_a_scripted_loop_is_the_simulator_and_its_log_says_why(tmp_path: Path, name: str) -> None:
    mine, theirs = looped(tmp_path / "log.sqlite", f"policy.curator={name}")
    assert mine == theirs
    history = History(Reader(tmp_path / "log.sqlite"))
    history.check()
    assert history.policy.curator == name
    for _, _, change in history.changes:
        if change.kind in ("retired", "evicted"):
            assert set(history.library.rule.fields) <= set(change.reason)


def test_a_rule_of_ones_own_in_a_scripted_loop(patient: Path, tmp_path: Path) -> None:
    mine, theirs = looped(tmp_path / "log.sqlite", f"policy.curator={patient}", "policy.patient.most_fails=3")
    assert mine == theirs
    assert sum(row[2] for row in mine) > 0
    history = History(Reader(tmp_path / "log.sqlite"))
    history.check()
    assert history.identity["policy"]["patient"] == {"most_fails": 3}
    with pytest.raises(InputError, match="not chosen"):
        load_real(["model=scripted/report_band_58", "policy.expel.birth=3"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def leaves(", "def leave(", "no function leaves"),
        ("def strength(", "def strengths(", "no function strength"),
        ("leaves(skill, t, table)", "leaves(skill, table)", "leaves(skill, t, table)"),
        ("    return (0,)", "    return (0, 0)", "2 numbers from first"),
        ("    return (0,)", "    return (0.0,)", "the float 0.0"),
        ("return chat(skill.n, skill.net)", "return skill.net / (skill.n + 1)", "a true division in strength"),
        ("return chat(skill.n, skill.net)", "return 5 // skill.n", "ends with ZeroDivisionError"),
        ("    return skill.own[0] >= table[0]", "    return True if skill.own[0] >= table[0] else False", "a branch or a loop in leaves"),
        ("    return skill.own[0] >= table[0]", "    return 3 < skill.own[0] < 9 and t > 2", "a branch or a loop in leaves"),
        ("np.array([parameters.most_fails])", "np.array([0.5])", "tables() that gives float64"),
        ('LINE = "', 'LIME = "', "no LINE"),
        ('FIELDS = ("fails",)', 'FIELDS = ("n",)', "FIELDS"),
        (", default=6", "", "Parameters"),
        ("import numpy as np", "import numpy as np\nraise RuntimeError('no')", "RuntimeError: no"),
        ("def leaves", "def leaves leaves", "SyntaxError"),
        ("def leaves", "raise SystemExit(0)\n\n\ndef leaves", "SystemExit"),
    ],
    ids=[
        "leaves",
        "strength",
        "arguments",
        "fields",
        "float",
        "division",
        "untried",
        "if",
        "chain",
        "table",
        "line",
        "names",
        "default",
        "raises",
        "syntax",
        "exit",
    ],
)
def test_what_is_wrong_with_a_rule_is_said(patient: Path, command: Command, old: str, new: str, words: str) -> None:
    text = patient.read_text()
    assert old in text
    patient.write_text(text.replace(old, new, 1))
    answer: Answer = command("policy.curator=./patient.py", "policy.rounds=4")
    assert words in answer.error, answer.error


def test_a_rule_can_be_a_module_or_an_entry_point(patient: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = patient.parent / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "patient.py").write_text(patient.read_text())
    monkeypatch.syspath_prepend(str(patient.parent))
    by_path = curators.find("mine.patient")
    assert (by_path.key, by_path.own) == ("patient", True)
    info = patient.parent / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[halfblind.curators]\nvery-patient = mine.patient\n")
    from sim.curators import registry

    registry._offered.cache_clear()
    try:
        assert "very-patient" in curators.names()
        assert curators.find("very-patient").digest == by_path.digest
        assert curators.chosen(from_mapping(Policy, {**to_mapping(POLICY), "curator": "very-patient"}))[0].key == "very_patient"
    finally:
        monkeypatch.undo()
        registry._offered.cache_clear()


TIRED = '''
"""Tired: a skill leaves when it is idle, or old; a full shelf takes no other."""

from sim.curators import pick

LINE = "retire after 2 idle rounds in a row, or 3 in all"
FIELDS = ("idle_rounds", "rounds")
FULL = "refuse"
CLOCK = True


def first(table):
    return (0, 0)


def after_round(skill, t, table):
    rested, rounds = skill.own
    return pick(skill.idle > 0, rested + 1, 0), rounds + (skill.age > 0)


def leaves(skill, t, table):
    return (skill.own[0] >= 2) | (skill.own[1] >= 3)
'''


@pytest.mark.parametrize("backend", ["loop", *(pytest.param(b, marks=pytest.mark.slow) for b in ("numba", "jax"))])
def test_a_rule_that_looks_back_at_each_round(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rule of the package has ``after_round``, nor own evidence with a shelf that refuses: this one has."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tired.py").write_text(TIRED)
    if backend == "loop":
        mine, theirs = looped(tmp_path / "log.sqlite", "policy.curator=./tired.py")
        assert mine == theirs
        assert sum(row[2] for row in mine) > 0
    else:
        assert_backend_is_the_reference("./tired.py", backend)
