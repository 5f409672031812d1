"""``python -m real_loop.audit``: rates and intervals against independent arithmetic, verdicts, what settles them, and bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from real_loop.audit import figures, place, words
from real_loop.audit.cases import Cases, read, write
from real_loop.audit.main import audited, main
from real_loop.audit.rates import Rate, by_class, exact, icc, measured
from sim import theory
from sim.errors import InputError
from sim.operating import operating
from sim.points import Point
from tests.conftest import Command, Main

POINT = Point(rho_fp=0.0, rho_pf=0.0, tau=0.1, n_min=24, cap=12)


def cases_of(
    truth: Any, verdict: Any, *, task: Any = None, weight: Any = None, cls: Any = None, judge: Any = None, invalid: Any = None
) -> Cases:
    n = len(truth)
    each = np.array([f"line {i}" for i in range(n)])
    names = each if task is None else np.array([f"t{t}" for t in task])
    none = np.full(n, "")
    return Cases(
        np.asarray(truth, bool), np.asarray(verdict, bool), None, none if cls is None else np.array(cls), names, each,
        none if judge is None else np.array(judge), np.ones(n) if weight is None else np.asarray(weight, float), task is not None,
        None if invalid is None else np.asarray(invalid, bool),
    )  # fmt: skip


def counts(k: int, n: int, k2: int, n2: int) -> Cases:
    """k of n true fails passed, k2 of n2 true passes failed."""
    return cases_of([0] * n + [1] * n2, [i < k for i in range(n)] + [i >= k2 for i in range(n2)])


def clustered(rng: np.random.Generator, p: float, correlation: float, tasks: int, size: int) -> Cases:
    """True fails whose errors are beta-binomial within tasks."""
    rate = np.full(tasks, p)
    if correlation > 0:
        scale = (1 - correlation) / correlation
        rate = rng.beta(p * scale, (1 - p) * scale, tasks)
    task = np.repeat(np.arange(tasks), size)
    return cases_of(np.zeros(len(task)), rng.random(len(task)) < rate[task], task=task)


def found_of(cases: Cases, point: Point = POINT) -> dict[str, Any]:
    return audited(cases, point, None)["judges"][0]


# ---------------------------------------------------------------- rates


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 30), (30, 30), (2, 210), (40, 42), (7, 23)])
def test_the_exact_interval_is_that_of_scipy(k: int, n: int) -> None:
    for confidence in (0.8, 0.95, 0.999):
        wanted = stats.binomtest(k, n).proportion_ci(confidence, method="exact")
        assert exact(k, n, confidence) == pytest.approx((wanted.low, wanted.high), abs=1e-10)


def test_the_exact_interval_covers_at_every_rate() -> None:
    """Summed over all outcomes: no sampling, so no false alarm."""
    for n in (1, 5, 12, 40):
        ends = [exact(k, n, 0.95) for k in range(n + 1)]
        for p in np.linspace(0.003, 0.997, 60):
            inside = np.array([low <= p <= high for low, high in ends])
            assert stats.binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= 0.95 - 1e-12


def test_correlation_within_tasks() -> None:
    assert icc([5, 5, 5, 5], [5, 0, 0, 5]) == pytest.approx(1.0)
    assert icc([4, 4, 4], [2, 2, 2]) == pytest.approx(-1 / 3)  # as unlike as they can be: -1 / (size - 1)
    for nothing in (([5, 5], [0, 0]), ([5, 5], [5, 5]), ([1, 1, 1], [1, 0, 1]), ([6], [3])):
        assert icc(*nothing) is None
    rng = np.random.default_rng(0)  # against the textbook's sums of squares, row by row
    n = rng.integers(1, 7, 25)
    rows = [(rng.random(size) < rng.random()).astype(float) for size in n]
    every = np.concatenate(rows)
    between = sum(len(r) * (r.mean() - every.mean()) ** 2 for r in rows) / (len(rows) - 1)
    within = sum(((r - r.mean()) ** 2).sum() for r in rows) / (len(every) - len(rows))
    size = (len(every) - (n**2).sum() / len(every)) / (len(rows) - 1)
    assert icc(n, np.array([r.sum() for r in rows])) == pytest.approx((between - within) / (between + (size - 1) * within))


def test_rates_are_told_apart_by_truth() -> None:
    """Errors of one kind do not count as the other: the broken variant would swap 3 of 10 and 4 of 20."""
    rates = measured(counts(3, 10, 4, 20))
    assert (rates.rho_fp.k, rates.rho_fp.n, rates.rho_pf.k, rates.rho_pf.n) == (3, 10, 4, 20)
    assert rates.kappa == pytest.approx(1 - 0.3 - 0.2)
    low, high = rates.kappa_interval or (1, 0)
    assert 1 - rates.rho_fp.used.high - rates.rho_pf.used.high < low < 0.5 < high < 1 - rates.rho_fp.used.low - rates.rho_pf.used.low


def test_copies_of_a_case_are_worth_one() -> None:
    """Each of 40 cases five times over, as one task: as many independent cases as there are tasks, or fewer for what is measured."""
    rng = np.random.default_rng(1)
    wrong = rng.random(40) < 0.3
    rate = measured(cases_of(np.zeros(200), np.repeat(wrong, 5), task=np.repeat(np.arange(40), 5))).rho_fp
    assert rate.icc == pytest.approx(1.0)
    assert 36 < rate.n_effective <= 40
    single = exact(int(wrong.sum()), 40, 0.95)
    assert rate.used.low <= single.low + 1e-9
    assert rate.used.high >= single.high - 1e-9
    apart = measured(cases_of(np.zeros(200), np.repeat(wrong, 5))).rho_fp
    assert (apart.used.high - apart.used.low) < 0.6 * (rate.used.high - rate.used.low)


def test_the_bootstrap_has_the_spread_of_tasks() -> None:
    """Its width is that of the variance between task totals, to 5 %: 20,000 resamples, whose quantiles are off by 2 % at most."""
    cases = clustered(np.random.default_rng(2), 0.4, 0.5, 150, 6)
    rate = measured(cases, resamples=20_000).rho_fp
    share = np.asarray(cases.verdict).reshape(150, 6).mean(axis=1)
    assert rate.bootstrap is not None
    assert rate.bootstrap.high - rate.bootstrap.low == pytest.approx(2 * 1.96 * share.std() / 150**0.5, rel=0.05)


def test_each_rate_has_its_own_bootstrap() -> None:
    rng = np.random.default_rng(11)
    truth, verdict = np.tile([0, 0, 1], 200), rng.random(600) < np.tile([0.1, 0.1, 0.4], 200)
    rates = measured(cases_of(truth, verdict, task=np.repeat(np.arange(200), 3)))
    for rate in (rates.rho_fp, rates.rho_pf):
        assert rate.bootstrap is not None
        assert rate.bootstrap.low < (rate.value or 0) < rate.bootstrap.high
        assert rate.bootstrap == pytest.approx(rate.exact, abs=0.02)


def test_tasks_drawn_by_kind_and_one_by_one_agree() -> None:
    """Weights a billionth apart make every task a kind of its own: the same intervals but for the scatter of 10,000 resamples."""
    alike = clustered(np.random.default_rng(3), 0.3, 0.3, 100, 4)
    apart = cases_of(alike.truth, alike.verdict, task=np.repeat(np.arange(100), 4), weight=1 + 1e-9 * np.arange(400))
    one, other = (measured(c).rho_fp for c in (alike, apart))
    assert other.bootstrap == pytest.approx(one.bootstrap, abs=0.008)
    assert other.icc_interval == pytest.approx(one.icc_interval, abs=0.02)
    assert other.used == pytest.approx(one.used, abs=0.008)


def test_the_same_cases_give_the_same_numbers_in_any_order() -> None:
    cases = clustered(np.random.default_rng(4), 0.3, 0.3, 60, 4)
    shuffled = cases.of(np.random.default_rng(5).permutation(len(cases)))
    assert measured(shuffled) == measured(cases)


def test_few_tasks_and_no_errors_count_tasks() -> None:
    few = measured(clustered(np.random.default_rng(6), 0.4, 0.2, 6, 30)).rho_fp
    assert few.by_task
    assert few.bootstrap is None
    assert few.used == exact(6 * (few.value or 0), 6, 0.95)
    none = measured(cases_of(np.zeros(200), np.zeros(200), task=np.repeat(np.arange(40), 5))).rho_fp
    assert none.by_task
    assert none.used == pytest.approx((0.0, 1 - 0.025 ** (1 / 40)))


def test_weights() -> None:
    rng = np.random.default_rng(7)
    wrong, weight = rng.random(300) < 0.3, rng.integers(1, 9, 300).astype(float)
    one, scaled = (measured(cases_of(np.zeros(300), wrong, weight=weight * by)).rho_fp for by in (1.0, 7.5))
    assert one.value == pytest.approx(weight[wrong].sum() / weight.sum())
    assert one.n_effective == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert scaled.used == pytest.approx(one.used)
    assert measured(cases_of(np.zeros(300), wrong, weight=np.full(300, 3.0))).rho_fp.used == exact(int(wrong.sum()), 300, 0.95)
    left_out = measured(cases_of(np.zeros(300), wrong, weight=np.where(np.arange(300) < 100, 1.0, 0.0))).rho_fp
    assert left_out.used == pytest.approx(exact(int(wrong[:100].sum()), 100, 0.95))


def test_classes() -> None:
    cls = ["swap"] * 10 + ["orphan"] * 5 + [""] * 8
    groups = by_class(cases_of([0] * 15 + [1] * 8, [1] * 9 + [0] * 6 + [1] * 6 + [0] * 2, cls=cls))
    assert [(g.cls, g.truth, g.flagged, g.rate.n) for g in groups] == [("swap", False, 1, 10), ("orphan", False, 5, 5), ("", True, 2, 8)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "correlation", "tasks", "size"),
    [
        (0.2, 0.0, 40, 5),
        (0.2, 0.2, 40, 5),
        (0.05, 0.8, 40, 5),
        (0.02, 0.5, 40, 5),
        (0.1, 0.3, 15, 8),
        (0.4, 0.5, 6, 10),
        (0.45, 0.1, 100, 3),
    ],
)
def test_the_interval_in_use_covers(p: float, correlation: float, tasks: int, size: int) -> None:
    """1,000 simulated files each: below the count that coverage of 0.94 falls short of once in a million files (per case)."""
    rng, number = np.random.default_rng(8), 1000
    rates = [measured(clustered(rng, p, correlation, tasks, size), resamples=400).rho_fp for _ in range(number)]
    hit = sum(r.used.low <= p <= r.used.high for r in rates)
    assert hit >= stats.binom.ppf(1e-6, number, 0.94)
    if (p, correlation) == (0.02, 0.5):  # what the others are for
        assert sum(r.exact is not None and r.exact.low <= p <= r.exact.high for r in rates) < 0.85 * number


# ---------------------------------------------------------------- the verdict


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ((2, 210, 40, 42), "no-go: indiscriminate"),
        ((5, 100, 20, 100), "go"),
        ((80, 100, 2, 100), "no-go: blind"),
        ((80, 100, 90, 100), "no-go: blind and indiscriminate"),
        ((40, 100, 10, 100), "undetermined"),
        ((1, 3, 0, 4), "undetermined"),
        ((0, 0, 0, 500), "undetermined"),
        ((0, 500, 0, 0), "undetermined"),
        ((0, 0, 40, 42), "no-go: indiscriminate"),
        ((90, 100, 0, 0), "no-go: blind"),
        ((34, 100, 44, 100), "go"),  # by a hair: the upper ends are 0.4415 and 0.5428
        ((35, 100, 44, 100), "undetermined"),  # 0.4518
        ((34, 100, 45, 100), "undetermined"),  # 0.5527
    ],
)
def test_verdicts(errors: tuple[int, int, int, int], verdict: str) -> None:
    assert place.verdict(measured(counts(*errors)), 0.1, 0.95)[0] == verdict


def test_a_verdict_moves_with_tau_and_confidence() -> None:
    rates = measured(counts(38, 100, 5, 100))
    at = {tau: place.verdict(rates, tau, 0.95)[0] for tau in (-0.2, 0.1, 0.5)}
    assert at == {-0.2: "go", 0.1: "undetermined", 0.5: "no-go: blind"}
    assert place.verdict(measured(counts(38, 100, 5, 100), 0.8), 0.1, 0.8)[0] == "go"


def test_tasks_can_undo_a_verdict() -> None:
    """The same rows: 30 of 100 errors, all of them in 3 of 10 tasks."""
    truth, verdict = [0] * 100 + [1] * 100, [i < 30 for i in range(100)] + [1] * 100
    assert found_of(cases_of(truth, verdict))["verdict"] == "go"
    together = found_of(cases_of(truth, verdict, task=[i // 10 for i in range(100)] + list(range(100, 200))))
    assert together["verdict"] == "undetermined"
    assert together["edges"][0]["more_tasks"] >= 10


def test_the_chance_to_be_past_an_edge() -> None:
    """Against the integral of the likelihood and Jeffreys' prior."""
    one = place.side(measured(counts(40, 100, 0, 0)).rho_fp, place.edges(0.1)[0], 0.95)
    x = (np.arange(200_000) + 0.5) / 200_000
    density = stats.binom.pmf(40, 100, x) / np.sqrt(x * (1 - x))
    assert one.past == pytest.approx(density[x > 0.45].sum() / density.sum(), abs=1e-4)


def _settled(k: int, n: int, more: int, edge: float) -> float:
    """The chance by brute force: every outcome of the cases to come, its exact interval by beta quantiles."""
    j, total = np.arange(more + 1), n + more
    low, high = stats.beta.ppf(0.025, k + j, total - k - j + 1), stats.beta.isf(0.025, k + j + 1, total - k - j)
    settled = np.where(k + j < total, high, 1.0) < edge if k / n < edge else low > edge
    return float(stats.binom.pmf(j, more, k / n)[settled].sum())


@pytest.mark.parametrize(("k", "n", "edge"), [(3, 10, 0.55), (6, 20, 0.45), (3, 10, 0.45), (15, 20, 0.55), (0, 1, 0.45)])
def test_what_would_settle_it(k: int, n: int, edge: float) -> None:
    more = place.needed(measured(counts(k, n, 0, 0)).rho_fp, edge, 0.95)
    assert more is not None
    assert _settled(k, n, more, edge) >= 0.8
    assert max(_settled(k, n, m, edge) for m in range(1, more)) < 0.8


def test_nothing_settles_a_rate_on_the_edge() -> None:
    assert place.needed(measured(counts(45, 100, 0, 0)).rho_fp, 0.45, 0.95) is None
    assert place.needed(measured(counts(4499, 10_000, 0, 0)).rho_fp, 0.45, 0.95) is None
    found = found_of(counts(45, 100, 0, 100))
    assert any("no number of cases" in line for line in words.settling(found))


def test_clusters_take_more_cases() -> None:
    rng = np.random.default_rng(9)
    cases = clustered(rng, 0.35, 0.5, 30, 5)
    alone = cases_of(cases.truth, cases.verdict)
    one, other = (place.side(measured(c).rho_fp, place.edges(0.1)[0], 0.95) for c in (alone, cases))
    assert (one.more or 0) < (other.more or 0)
    assert other.tasks == -(-(other.more or 0) // 5)


def test_without_cases_the_least_that_could_settle_it() -> None:
    side = place.side(measured(counts(0, 0, 1, 2)).rho_fp, place.edges(0.1)[0], 0.95)
    assert (side.past, side.more, side.where) == (None, None, place.OPEN)
    assert side.least is not None
    assert exact(0, side.least, 0.95).high < 0.45 <= exact(0, side.least - 1, 0.95).high


def test_the_curator() -> None:
    rates = measured(counts(20, 100, 10, 100))
    fate = place.curator(rates, POINT)
    assert fate is not None
    a, b = rates.rho_fp.used, rates.rho_pf.used
    corners = [float(theory.observed_rate(0.6, x, y)) for x in a for y in b]
    wanted = operating([float(theory.observed_rate(0.6, 0.2, 0.1)), *corners], 0.1, 24, 48).retired_by[:, -1]
    assert fate["good"] == pytest.approx((0.6, wanted[0], wanted.min(), wanted.max()))
    assert fate["bad"].low <= fate["bad"].seen <= fate["bad"].high
    assert place.curator(measured(counts(0, 0, 1, 3)), POINT) is None


# ---------------------------------------------------------------- the file


def test_written_and_read_again(tmp_path: Path) -> None:
    cases = Cases(
        np.array([True, False, False]), np.array([True, False, False]), np.array([0.1, -3.0, 1 / 3]), np.array(["", "a, b", 'say "x"']),
        np.array(["t", "u", "u"]), np.array(["1", "2", "3"]), np.array(["j", "j", "k"]), np.array([1.0, 0.3, 2.0]), True,
        np.array([False, False, True]),
    )  # fmt: skip
    write(tmp_path / "x.csv", cases)
    again = read(tmp_path / "x.csv")
    for name, value in vars(cases).items():
        assert np.array_equal(getattr(again, name), value), name


@pytest.mark.parametrize(
    "text", ["truth,verdict\n1,0\n0,1\n", "\ufeffVerdict, TRUTH\nFail,true\n\npass,False\n", "verdict,truth\r\nfalse,pass\r\nTRUE,fail\r\n"]
)
def test_ways_of_writing(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.csv").write_bytes(text.encode())
    cases = read(tmp_path / "x.csv")
    assert cases.truth.tolist() == [True, False]
    assert cases.verdict is not None
    assert cases.verdict.tolist() == [False, True]
    assert (cases.clustered, cases.judges, cases.weight.tolist()) == (False, [""], [1, 1])


def test_repeated_calls_cluster_by_case(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("truth,verdict,case\n1,1,a\n1,0,a\n0,0,b\n")
    cases = read(tmp_path / "x.csv")
    assert cases.clustered
    assert cases.task.tolist() == ["a", "a", "b"]


# What is in the file, then what the line must say.
BAD = {
    "unknown column": ("truth,verdct\n1,1\n", "did you mean verdict?"),
    "a comma too many": ("truth,verdict,\n1,1,\n", "take out the comma"),
    "yes and no": ("truth,verdict\n1,yes\n", "write pass"),
    "twice a column": ("truth,verdict,truth\n1,1,1\n", "two columns truth"),
    "no truth": ("verdict\n1\n", "no column truth"),
    "no verdict": ("truth,class\n1,a\n", "no column verdict or score"),
    "mixed truth": ("truth,verdict\n1,1\nfail,1\n", "1 in line 2 and fail in line 3"),
    "mixed verdicts": ("truth,verdict\n1,pass\n1,true\n0,invalid\n", "pass in line 2 and true in line 3"),
    "not a truth": ("truth,verdict\n1,1\n2,1\n", "line 3, truth: got '2'"),
    "empty verdict": ("truth,verdict\n1,1\n0,\n", "write invalid where the judge gave none"),
    "invalid truth": ("truth,verdict\ninvalid,1\n", "line 2, truth: got 'invalid'"),
    "a weight next to nothing": ("truth,verdict,weight\n1,1,1e-170\n", "from 1e-9 to 1e9"),
    "ragged": ("truth,verdict\n1,1\n0,1,1\n", "line 3: got 3 fields, expected 2"),
    "no rows": ("truth,verdict\n", "no rows"),
    "empty": ("", "no rows"),
    "score nan": ("truth,score\n1,0.5\n0,nan\n", "line 3, score: got 'nan'"),
    "score text": ("truth,score\n1,high\n", "line 2, score: got 'high'"),
    "score empty": ("truth,score\n1,\n", "line 2, score: got an empty cell"),
    "weight below 0": ("truth,verdict,weight\n1,1,-1\n", "line 2, weight: got '-1'"),
    "no weight": ("truth,verdict,weight\n1,1,0\n", "0 in every row"),
    "truths of a case": ("truth,verdict,case\n1,1,a\n0,1,a\n", "a true pass in line 2 and a true fail in line 3"),
    "tasks of a case": ("truth,verdict,case,task\n1,1,a,t\n1,1,a,u\n", "of task t in line 2 and of task u in line 3"),
    "empty task": ("truth,verdict,task\n1,1,\n", "line 2, task: got an empty cell"),
    "control letters": ("truth,verdict,judge\n1,1,\x1b[2J\n", "line 2, judge"),
    "open quote": ('truth,verdict\n1,"1\n', "cannot be read (line"),
    "huge field": ("truth,verdict\n1," + "x" * 200_000 + "\n", "cannot be read (line 2"),
}


@pytest.fixture
def audit(answers: Callable[[Main], Command]) -> Command:
    return answers(lambda args: main([*args, "figures=no"]))


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path: Path, name: str) -> None:
    text, said = BAD[name]
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match=re.escape(said)):
        read(tmp_path / "x.csv")


def test_a_bad_file_is_one_line(audit: Command, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("truth,verdct\n1,1\n")
    assert "did you mean verdict?" in audit("from=x.csv").error
    assert not (tmp_path / "outputs").exists()


def test_files_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"truth,verdict\n" + b"1,1\n" * 50_000 + b"1,\xff\n")
    for path, said in (("nothing.csv", "no such file"), (".", "is a directory"), ("x.csv", "line 50002 is not UTF-8")):
        with pytest.raises(InputError, match=said):
            read(tmp_path / path)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "expected from=FILE"),
        (("x.csv",), "did you mean from=x.csv?"),
        (("from=x.csv", "taus=0.1"), "tau"),
        (("from=x.csv", "rho_fp=0.1"), "the audit measures it"),
        (("from=x.csv", "tau=2"), "tau: got 2"),
        (("from=x.csv", "tau=[0.1,0.2]"), "one value for each key"),
        (("from=x.csv", "confidence=95"), "95 % is 0.95"),
        (("from=x.csv", "confidence=sure"), "confidence: got 'sure'"),
        (("from=x.csv", "judge=a"), "no column judge"),
        (("from=x.csv", "from=y.csv"), "a second value"),
        (("from=x.csv", "judge="), "judge: got nothing"),
        (("from=x.csv", "--jsn"), "an unknown option"),
        (("from=x.csv", "policy=nope"), "policy"),
        (("from=x.csv", "out=/proc/nope"), "a folder that can be made"),
    ],
)
def test_bad_arguments(audit: Command, tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    (tmp_path / "x.csv").write_text("truth,verdict\n1,1\n")
    assert said in audit(*args).error


# ---------------------------------------------------------------- the command


def rows(path: Path, *judges: tuple[str, int, int, int, int]) -> None:
    lines = ["truth,verdict,judge"]
    for name, k, n, k2, n2 in judges:
        lines += [f"fail,{'pass' if i < k else 'fail'},{name}" for i in range(n)]
        lines += [f"pass,{'fail' if i < k2 else 'pass'},{name}" for i in range(n2)]
    path.write_text("\n".join(lines) + "\n")


def strict(text: str) -> Any:
    def refused(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refused)


def test_the_strict_judge_of_reports(audit: Command, tmp_path: Path) -> None:
    rows(tmp_path / "v.csv", ("strict", 2, 210, 40, 42))
    said = audit("from=v.csv", "tau=0.1", "n_min=24", "cap=12", "--json")
    assert (said.code, said.err) == (3, "")
    judge = strict(said.out)["judges"][0]
    assert judge["verdict"] == "no-go: indiscriminate"
    assert [round(x, 3) for x in judge["rho_fp"]["used"]] == [0.001, 0.034]
    assert [round(x, 2) for x in judge["rho_pf"]["used"]] == [0.84, 0.99]
    assert judge["edges"][1]["chance_past"] > 0.9999
    page = audit("from=v.csv", "out=here")
    assert page.code == 3
    assert page.out.splitlines()[3] == "strict: NO-GO: INDISCRIMINATE"
    for text in ("40 of 42 true passes", "0.001 to 0.034", "0.838 to 0.994"):
        assert text in " ".join(page.out.split())
    stored = tmp_path / "outputs" / "audit" / "v"
    assert strict((stored / "report.json").read_text())["judges"][0] == judge
    assert (tmp_path / "here" / "report.txt").read_text() in page.out
    assert max(map(len, page.out.splitlines())) <= 130


def test_statuses(audit: Command, tmp_path: Path) -> None:
    good, bad, unknown = ("good", 5, 100, 5, 100), ("bad", 90, 100, 5, 100), ("new", 1, 3, 1, 3)
    rows(tmp_path / "v.csv", good, unknown, bad)
    every = audit("from=v.csv", "--json")
    assert every.code == 3
    for judge, code in (("good", 0), ("new", 4)):
        one = audit("from=v.csv", f"judge={judge}", "--json")
        assert one.code == code
        assert strict(one.out)["judges"][0] in strict(every.out)["judges"]
    assert "did you mean good?" in audit("from=v.csv", "judge=goood").error
    for verdicts, code in ((["go", "go"], 0), (["go", "undetermined"], 4), (["undetermined", "no-go: blind", "go"], 3)):
        assert place.status(verdicts) == code


@pytest.mark.parametrize("text", ["1,1\n", "0,1\n", "0,0\n1,1\n", "0,invalid\n1,1\n1,invalid\n"])
def test_few_rows(audit: Command, tmp_path: Path, text: str) -> None:
    """Never a verdict from no data, always strict JSON."""
    (tmp_path / "v.csv").write_text("truth,verdict\n" + text)
    said = audit("from=v.csv", "--json")
    assert said.code == 4
    found = strict(said.out)
    assert found["judges"][0]["reasons"]
    assert "UNDETERMINED" in words.report(found)


def test_invalid_verdicts(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("truth,verdict\n" + "1,invalid\n" * 10 + "1,1\n" * 30 + "0,0\n" * 20)
    judge = found_of(read(tmp_path / "v.csv"))
    assert (judge["rho_pf"]["k"], judge["rho_pf"]["n"]) == (10, 40)
    assert judge["invalid"]["left_out"]["rho_pf"]["k"] == 0
    assert (judge["verdict"], judge["invalid"]["left_out"]["verdict"]) == ("go", "go")
    assert "10 verdicts are invalid (0 of true fails, 10 of true passes)" in " ".join(words.page(judge).split())


def test_a_class_that_is_never_seen() -> None:
    cases = cases_of([0] * 60 + [1] * 40, [0] * 30 + [1] * 30 + [1] * 40, cls=["orphan"] * 30 + ["swap"] * 30 + [""] * 40)
    assert "Blind to swap:" in words.page(found_of(cases))


def test_help(audit: Command) -> None:
    said = audit("--help")
    assert said.code == 0
    for key in ("from", "judge", "confidence", "tau", "n_min", "good", "undetermined"):
        assert key in said.out


# ---------------------------------------------------------------- figures


def test_figures(tmp_path: Path) -> None:
    names = ["$a_b$"] * 100 + ["none fail"] * 20
    cases = cases_of([0] * 60 + [1] * 60, [0] * 50 + [1] * 60 + [0] * 10, judge=names, cls=["x"] * 30 + ["y"] * 30 + [""] * 60)
    found = audited(cases, POINT, tmp_path / "one")
    assert {Path(f).name for f in found["files"]} >= {"plane.png", "plane.svg", "classes.png", "classes.svg", "report.json"}
    assert all(Path(f).stat().st_size > 100 for f in found["files"])
    assert strict((tmp_path / "one" / "report.json").read_text()) == json.loads(json.dumps(found))


@pytest.mark.parametrize("errors", [(30, 100, 10, 40), (0, 50, 5, 5), (1, 2, 0, 3)])
def test_the_region_holds_the_posterior(errors: tuple[int, int, int, int]) -> None:
    """40,000 draws: the share inside is within 0.006 of 0.95, five standard errors, but for the cells of the grid."""
    rates = measured(counts(*errors))
    sides: list[dict[str, Any]] = [vars(rates.rho_fp), vars(rates.rho_pf)]
    x, y, inside = figures._region(sides[0], sides[1], 0.95)
    rng = np.random.default_rng(10)

    def drawn(rate: Rate, centres: np.ndarray) -> np.ndarray:
        return np.abs(place.posterior(rate).rvs(40_000, random_state=rng)[:, None] - centres).argmin(axis=1)

    share = (inside[drawn(rates.rho_pf, y), drawn(rates.rho_fp, x)] >= 1).mean()
    assert share == pytest.approx(0.95, abs=0.01)
