"""``sim.power``: known cases of the t-tests, resampling against the normal theory, and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sim import claims, power
from sim.errors import InputError
from sim.power import compare, draw_picks, group_sums, least_seeds, paired_power, paired_rejects, place, welch_power, welch_rejects
from sim.seeds import against_no_skill, main
from tests.conftest import ROOT, Answer, Command, Main

RNG = np.random.default_rng(7)
FEW = ("runs=300", "world=report_main_71")


# ---------------------------------------------------------------- normal values


@pytest.mark.parametrize(("d", "n"), [(0.8, 26), (0.5, 64), (0.2, 394)])
def test_seeds_for_known_effects(d: float, n: int) -> None:
    assert least_seeds(lambda m: welch_power(d, 1.0, 1.0, m, 0.05), 0.8) == n
    assert welch_power(d, 1.0, 1.0, n - 1, 0.05) < 0.8 <= welch_power(d, 1.0, 1.0, n, 0.05)


@pytest.mark.parametrize(("d", "n"), [(0.8, 15), (0.5, 34), (0.2, 199)])
def test_pairs_for_known_effects(d: float, n: int) -> None:
    assert least_seeds(lambda m: paired_power(d, 1.0, m, 0.05), 0.8) == n


def test_the_order_of_conditions_does_not_matter() -> None:
    assert welch_power(0.7, 1.0, 2.0, 9, 0.01) == pytest.approx(welch_power(-0.7, 2.0, 1.0, 9, 0.01))


def test_without_an_effect_the_power_is_alpha() -> None:
    for n in (2, 3, 40):
        assert welch_power(0.0, 1.0, 1.0, n, 0.05) == pytest.approx(0.05)
        assert paired_power(0.0, 1.0, n, 0.01) == pytest.approx(0.01)


def test_every_effect_has_a_power() -> None:
    """scipy has no number for some far tails."""
    for df, alpha in ((2, 0.05), (3, 1e-6), (30, 0.05), (10_000, 0.999)):
        powers = [welch_power(float(d), 1.0, 1.0, df, alpha) for d in np.geomspace(1e-6, 1e6, 150)]
        assert np.isfinite(powers).all()
        assert (np.diff(powers) > -1e-9).all()
        assert powers[-1] == pytest.approx(1.0)


def test_huge_effects_have_power_one() -> None:
    for d in (1e2, 1e4, 1e8):
        assert welch_power(d, 1.0, 1.0, 2, 0.05) == pytest.approx(1.0, abs=1e-3)
        assert welch_power(d, 0.0, 1.0, 3, 0.05) == pytest.approx(1.0)


@pytest.mark.parametrize("target", [0.5, 0.8, 0.99])
@pytest.mark.parametrize("start", [2, 65])
def test_the_search_finds_the_least(target: float, start: int) -> None:
    for need in (start, start + 1, 100, 131, 9999, 10_000):
        assert least_seeds(lambda n, need=need: float(n >= need), target, start) == need  # type: ignore[misc]
    assert least_seeds(lambda n: 0.0, target, start) is None
    assert least_seeds(lambda n: float(n > 10_000), target, start) is None


# ---------------------------------------------------------------- resampling


@pytest.mark.filterwarnings("ignore:Precision loss")  # groups of two that drew one run twice
def test_the_tests_are_those_of_scipy() -> None:
    values = RNG.gamma(2.0, size=(2, 60))
    picks_a, picks_b = draw_picks(60, 9, 300, RNG), draw_picks(60, 9, 300, RNG)
    for n in (2, 3, 9):
        a, b = values[0][picks_a[:n]], values[1][picks_b[:n]] + 0.5
        sums_a, sums_b = group_sums(values[0], picks_a), group_sums(values[1] + 0.5, picks_b)
        assert (welch_rejects(sums_a, sums_b, n, 0.05) == (stats.ttest_ind(a, b, equal_var=False).pvalue < 0.05)).all()
        assert (paired_rejects(group_sums(values[1] - 1.5, picks_b), n, 0.05) == (stats.ttest_1samp(b - 2.0, 0).pvalue < 0.05)).all()


def test_normal_values_give_the_normal_power() -> None:
    a = RNG.normal(size=20_000)
    b = RNG.normal(size=20_000) + 0.8
    for n in (10, 26):
        found = compare(a, b, n)
        assert found.power == pytest.approx(found.power_normal, abs=4 * 0.005)
        assert found.power_paired == pytest.approx(paired_power(found.difference, found.sd_paired, n, 0.05), abs=0.02)
    assert found.needed.by == "resampling"
    assert abs((found.needed.n or 0) - 26) <= 2  # of 20 000 values and 10 000 groups


def test_false_alarms_are_alpha() -> None:
    a, b = RNG.normal(size=(2, 20_000))
    found = compare(a, b - b.mean() + a.mean(), 30)
    error = (0.05 * 0.95 / power.GROUPS) ** 0.5
    assert found.power == pytest.approx(0.05, abs=4 * error)
    assert found.power_paired == pytest.approx(0.05, abs=4 * error)
    assert found.false_alarms == (pytest.approx(0.05, abs=4 * error), pytest.approx(0.05, abs=4 * error))
    assert found.needed.by == "unresolved"
    three = compare(a, b - b.mean() + a.mean(), 3)
    assert 0.02 < three.false_alarms[0] < 0.05  # Welch's test is careful with three values


def test_a_far_need_is_normal_and_farther_is_beyond() -> None:
    a = RNG.normal(size=20_000)
    b = RNG.permutation(a)
    far = compare(a, b + 0.2)
    assert far.needed.by == "normal"
    assert far.needed.n == least_seeds(lambda n: welch_power(far.difference, far.sd_a, far.sd_b, n, 0.05), 0.8)
    assert compare(a, a + 0.02 + 1e-3 * b).needed == power.Needed(None, "beyond")
    assert compare(a, a + 0.02 + 1e-3 * b).needed_paired.n == 2


def test_what_is_enough_is_the_least() -> None:
    a, b = RNG.poisson(1.0, 5000), RNG.poisson(3.0, 5000)
    n = compare(a, b).needed.n
    assert n is not None
    assert compare(a, b, n).power >= 0.8 > compare(a, b, n - 1).power


# ---------------------------------------------------------------- no spread


def test_two_constants() -> None:
    found = compare(np.full(100, 22.0), np.full(100, 21.0))
    assert (found.power, found.power_normal, found.no_spread) == (1.0, 1.0, 1.0)
    assert found.needed == power.Needed(2, "resampling")
    same = compare(np.full(100, 0.1), np.full(100, 0.1))
    assert (same.power, same.power_normal, same.needed.by) == (0.0, 0.0, "unresolved")


def test_one_constant_against_counts() -> None:
    counts = RNG.poisson(0.8, 5000)
    found = compare(counts, np.zeros(5000))
    assert found.sd_b == 0
    assert 0 < found.power < 0.2
    assert found.no_spread == pytest.approx(sum((counts == k).mean() ** 3 for k in range(9)), abs=0.02)
    assert found.false_alarms[1] == 0


def test_rounding_is_no_spread() -> None:
    values = np.full(50, 0.1) + 0.2
    sums = group_sums(values, draw_picks(50, 64, 100, RNG))
    for n in (2, 3, 64):
        assert (sums.mean_and_error(n)[1] == 0).all()


# ---------------------------------------------------------------- a reported difference


def test_a_reported_difference_is_placed() -> None:
    a, b = RNG.normal(size=(2, 20_000))
    placed = place(1.96 * (2 / 3) ** 0.5, a, b)
    assert placed.z == pytest.approx(1.96, abs=0.05)
    assert placed.chance == pytest.approx(0.05, abs=0.01)
    assert place(1.0, a, np.zeros(20_000)).chance == place(1.0, a, b).chance  # without an effect b is spread like a
    assert place(-1.0, np.zeros(100), np.zeros(100)) == power.Placed(None, pytest.approx(0.0, abs=1e-3))


def test_the_draw_of_tasks_is_taken_off() -> None:
    names = ("tail_eval", "retired", "floor_eval")
    values = np.arange(6.0).reshape(3, 1, 2)
    found = against_no_skill(values, names)
    assert found["tail_eval"].tolist() == [[-4.0, -4.0]]
    assert found["retired"].tolist() == [[2.0, 3.0]]


# ---------------------------------------------------------------- functions that refuse


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: welch_power(1.0, 1.0, 1.0, 1, 0.05), "seeds"),
        (lambda: welch_power(1.0, -1.0, 1.0, 3, 0.05), "sd"),
        (lambda: paired_power(1.0, 1.0, 3, 1.0), "alpha"),
        (lambda: compare(np.zeros(3), np.zeros(4)), "runs"),
        (lambda: compare(np.zeros(3), np.zeros(3), target=1.0), "power"),
    ],
)
def test_bad_numbers(call: Callable[[], object], what: str) -> None:
    with pytest.raises(InputError, match=f"^{what}: got"):
        call()


# ---------------------------------------------------------------- the command


@pytest.fixture
def seeds(answers: Callable[[Main], Command], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr(power, "GROUPS", 1000)
    return answers(main)


def strict(text: str) -> list[dict[str, object]]:
    def refuse(name: str) -> None:
        raise ValueError(name)

    found: list[dict[str, object]] = json.loads(text, parse_constant=refuse)
    return found


def test_a_table(seeds: Command) -> None:
    said = seeds(*FEW, "b=[bias:0.45, strict_judge]", "metric=[retired,tail_sampled]")
    assert said.code == 0, said.err
    for text in ("report_main_71, against clean", "strict_judge", "3 seeds", "80 %", "-0.065", "fits to what the papers report"):
        assert text in said.out
    assert said.err == ""


def test_json_is_strict_and_reproducible(seeds: Command) -> None:
    args = (*FEW, "b=[0/0,strict_judge]", "metric=retired", "seeds=[3,5]", "--json")
    said = seeds(*args)
    rows = strict(said.out)
    assert len(rows) == 4
    assert [row["seeds"] for row in rows[:2]] == [3, 5]
    nothing = next(row for row in rows if row["b"] == "0/0")
    assert nothing["difference"] == nothing["se"] == 0
    assert nothing["needed"] == {"n": None, "by": "unresolved"}
    judge = next(row for row in rows if row["b"] == "strict_judge")
    assert judge["reported"] == 9.0
    assert seeds(*args, "engine.threads=1").out == said.out


def test_evals_have_less_spread_on_shared_tasks(seeds: Command) -> None:
    asked = (*FEW, "b=bias:0.45", "metric=[retired,tail_sampled]", "--json")
    same, fresh = strict(seeds(*asked).out), strict(seeds(*asked, "tasks=fresh").out)
    assert same[0] == fresh[0]
    assert same[1]["difference"] == pytest.approx(fresh[1]["difference"])
    assert float(str(same[1]["sd_a"])) < 0.9 * float(str(fresh[1]["sd_a"]))


def test_keys_of_the_simulator_reach_it(seeds: Command) -> None:
    asked = (*FEW, "b=bias:0.45", "metric=synthesised", "--json")
    plain, changed = strict(seeds(*asked).out), strict(seeds(*asked, "policy.rounds=4", "world.n_train=20").out)
    assert plain != changed


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("metric=retierd",), "perhaps retired"),
        (("metric=delta_clean",), "perhaps tail_eval"),
        (("b=bais:0.3",), "condition: got 'bais:0.3', expected noise:RATE"),
        (("b=bias:1.3",), "rates from 0 to 1"),
        (("b=clean:0.3",), "condition"),
        (("b=0.3/x",), "rates from 0 to 1"),
        (("b=clean",), "b: got clean, expected a condition other than a"),
        (("world=main_71",), "world: got 'main_71', expected one of"),
        (("wrld=x",), "expected world"),
        (("channel=noise",), "channel: got an unknown key, expected b"),
        (("channel.rho_fp=0.1",), "conditions set it"),
        (("world.nope=1",), "world.nope"),
        (("policy.tau=2",), "policy.tau"),
        (("policy.sampled_eval=false",), "policy.sampled_eval"),
        (("seeds=1",), "seeds: got 1"),
        (("seeds=2.5",), "a whole number"),
        (("power=1",), "power: got 1"),
        (("alpha=0",), "alpha: got 0"),
        (("alpha=nan",), "alpha: got 'nan'"),
        (("runs=[100,200]",), "one value"),
        (("runs=5",), "runs: got 5"),
        (("runs=",), "runs: got nothing"),
        (("tasks=mine",), "same or fresh"),
        (("metric=[retired,]",), "values separated by commas"),
        (("metric=[retired,retired]",), "each value once"),
        (("metric=retired", "metric=evicted"), "a second value"),
        (("retired",), "an argument without ="),
        (("--jsn",), "an unknown option"),
    ],
)
def test_bad_input_is_one_line(seeds: Command, args: tuple[str, ...], says: str) -> None:
    assert says in seeds(*args).error


def test_help_names_every_key(seeds: Command) -> None:
    said = seeds("--help")
    assert said.code == 0
    for name in claims.KEYS:
        assert f"\n  {name} " in said.out


def test_reported_differences_belong_to_rows_of_the_default_table() -> None:
    for world, condition, metric in claims.REPORTED:
        assert world in claims.WORLDS
        assert condition in claims.CONDITIONS
        assert metric in claims.ASKED


def test_ctrl_c_is_one_word(seeds: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from sim.kernels import numba_kernel

    played = []

    def stop(tables: object, baseline: object, seed: int, first: int, n: int, keep_records: bool) -> None:
        played.append(n)
        time.sleep(0.02)
        raise KeyboardInterrupt

    monkeypatch.setattr(numba_kernel, "run", stop)
    monkeypatch.setattr("sim.main.compile_kernel", lambda *_: None)
    assert seeds("runs=1000000", "engine.threads=1") == Answer(130, "", "stopped\n")
    assert len(played) < 500  # of 4000: the rest was given up


def test_the_module_is_the_command(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-m", "sim.power", "metric=x"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert found.stderr.startswith("error: metric: got 'x'")
