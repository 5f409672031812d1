"""Measured judges: the table is facts, an axis takes its values from it, and the sweep and its figure show each of them."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

import pytest
import xarray
from scipy.stats import binomtest

from sim import figures, judges
from sim.config import CONF, load
from sim.errors import InputError
from sim.figures import axes
from sim.figures import judges as figure
from sim.main import main as simulate
from sim.store import open_result
from sim.theory import region
from tests.conftest import Command
from tests.test_figures import is_blank

ALL = judges.read_judges()
BY_NAME = {judge.name: judge for judge in ALL}
TAU = 0.1


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> xarray.Dataset:
    """The sweep with a few runs of half of its worlds."""
    out = tmp_path_factory.mktemp("judges")
    assert simulate(["+sweep=judges", "axes.world=[report_band_58,mbpp_hard100]", "runs=40", f"out={out}", "figures=[]"]) == 0
    return axes.prepare(open_result(out)).load()


# ---------------------------------------------------------------- the table


def test_intervals_of_the_papers_judge_are_those_that_rt_reports() -> None:
    """RT App. C: at 42 audited sections the exact interval of rho_pf spans 0.84 to 0.99, beyond the edge of 0.55."""
    judge = BY_NAME[judges.REPORTED]
    assert judge.counts == (2, 40)
    (_, high), (low, top) = judge.intervals
    assert (round(low, 2), round(top, 2)) == (0.84, 0.99)
    assert high < 0.45
    for one in (judge, *ALL[::13]):
        for (a, b), k, n in zip(one.intervals, one.counts, (one.n_fail, one.n_pass), strict=True):
            assert (a, b) == pytest.approx(tuple(binomtest(k, n).proportion_ci(0.95, method="exact")), abs=1e-9)
    assert region(TAU, judge.rho_fp, judge.rho_pf) == "indiscriminate"


def test_rows_are_facts_with_a_source() -> None:
    assert len(BY_NAME) == len(ALL) == 118
    for judge in ALL:
        assert judge.source
        assert judge.truth
        assert judge.set
        assert judge.family in judges.FAMILIES
        assert judge.read == 2026
        digits = 5.1e-3 if judge.name == judges.REPORTED else 5.1e-5  # of what is reported: a rate times its count is whole
        for (low, high), k, n, rate in zip(
            judge.intervals, judge.counts, (judge.n_fail, judge.n_pass), (judge.rho_fp, judge.rho_pf), strict=True
        ):
            assert low <= k / n <= high
            assert abs(k / n - rate) <= digits, judge.name


def test_known_rows() -> None:
    """As the issue and the records have them."""
    judge = BY_NAME["gpt-4-turbo CoderEval-python LLM-written"]
    assert (judge.counts, judge.n_fail, judge.n_pass, judge.invalid) == ((667, 30), 949, 337, 0)
    assert region(TAU, judge.rho_fp, judge.rho_pf) == "blind"
    pooled = BY_NAME["base tests MBPP pooled"]
    assert (round(pooled.rho_fp, 2), pooled.rho_pf) == (0.26, 0.0)


@pytest.mark.parametrize("what", ["base", "property"])
def test_pooled_rows_are_the_sums_of_their_parts(what: str) -> None:
    mine = [judge for judge in ALL if judge.name.startswith(f"{what} tests MBPP")]
    (pooled,) = (judge for judge in mine if judge.name.endswith("pooled"))
    parts = [judge for judge in mine if judge is not pooled]
    assert len(parts) == 22
    assert (pooled.n_fail, pooled.n_pass) == (sum(j.n_fail for j in parts), sum(j.n_pass for j in parts))
    assert pooled.counts == (sum(j.counts[0] for j in parts), sum(j.counts[1] for j in parts))


def test_parts_of_a_row_are_smaller() -> None:
    """The judge's own answers and those of models are parts of all candidates; those of people all pass."""
    checked = 0
    for judge in ALL:
        for kind in ("LLM-written", "self"):
            if part := BY_NAME.get(f"{judge.name} {kind}"):
                checked += 1
                assert part.n_pass < judge.n_pass
                assert all(a <= b for a, b in zip(part.counts, judge.counts, strict=True))
                assert (part.n_fail == judge.n_fail) == (kind == "LLM-written")
    assert checked == 32


def test_the_list_of_rt1b_is_a_marked_part() -> None:
    listed = judges.listed()
    assert [judge.shown for judge in listed] == list(range(1, 14))
    assert listed[0].name == judges.REPORTED
    assert {str(region(TAU, j.rho_fp, j.rho_pf)) for j in listed} == {"governable", "blind", "indiscriminate"}


@pytest.mark.parametrize("row", ["x,1.2,0,5,5,s", "x,0.2,0,0,5,s", "x,a,0,5,5,s", "x,0.2", "x,nan,0,5,5,s"])
def test_a_wrong_row_is_one_line(row: str, tmp_path: Path) -> None:
    file = tmp_path / "judges.csv"
    file.write_text(",".join(judges.COLUMNS) + "\n" + row + "\n")
    with pytest.raises(InputError, match=r"judges\.csv, line 2: got .*expected name, rho_fp"):
        judges.read_judges(file)
    with pytest.raises(InputError, match=r"a file that cannot be read"):
        judges.read_judges(tmp_path / "nowhere.csv")


# ---------------------------------------------------------------- an axis from a table


def test_the_sweep_has_every_row() -> None:
    """Read here by other means than the code's."""
    with (CONF / "channels.csv").open(newline="") as file:
        rows = {row["name"]: (float(row["rho_fp"]), float(row["rho_pf"])) for row in csv.DictReader(file)}
    axis = next(axis for axis in load(["+sweep=judges"]).sweep.axes if axis.name == "judge")
    assert axis.paths == ("channel.rho_fp", "channel.rho_pf")
    assert dict(zip(axis.values, axis.linked, strict=True)) == {"clean": (0.0, 0.0), **rows}


def test_some_judges_or_ones_own(tmp_path: Path) -> None:
    def axis(*args: str) -> dict[object, tuple[object, ...]]:
        found = next(axis for axis in load(["+sweep=judges", *args]).sweep.axes if axis.name == "judge")
        return dict(zip(found.values, found.linked, strict=True))

    assert axis("axes.judge=[clean,strict judge of reports]") == {"clean": (0.0, 0.0), "strict judge of reports": (0.01, 0.95)}
    mine = tmp_path / "mine.csv"
    mine.write_text("\ufeffname,note,rho_pf,rho_fp\nours v2,x,0.25,0.1\n")  # columns in any order, others beside them; as Excel writes
    assert axis(f"axes.judge.from={mine}") == {"ours v2": (0.1, 0.25)}
    (tmp_path / "rules.csv").write_text("name,tau,n_min\nslow,0.2,30\n")
    (rules,) = load([f"+axes.who={{set: [policy.tau, policy.n_min], from: {tmp_path / 'rules.csv'}}}"]).sweep.axes
    assert rules.linked == ((0.2, 30),)


@pytest.mark.parametrize(
    ("text", "axis", "said"),
    [
        ("name,rho_fp\na,0.1\n", "FROM, SET", "line 2: got ['a', '0.1'], expected columns name, rho_fp"),
        ("name,rho_fp,rho_pf\na,0.1,nan\n", "FROM, SET", "the latter of numbers"),
        ("name,rho_fp,rho_pf\na,0,0\na,0,1\n", "FROM, SET", "line 3: got 'a' a second time"),
        ("name,rho_fp,rho_pf\n", "FROM, SET", "got no row"),
        ("name,rho_fp,rho_pf\na,2,0\n", "FROM, SET", "rho_fp: got 2.0"),
        ("name,rho_fp,rho_pf\n\"a,b\",0,0\n", "FROM, SET", "names of letters, digits"),
        ("name,rho_fp,rho_pf\na,0,0\n", "FROM", "a table for an axis without set"),
        ("name,rho_fp,rho_pf\na,0,0\n", "FROM, SET, values: [0.1]", "a list of values beside a table"),
        ("name,rho_fp,rho_pf\na,0,0\n", "FROM, SET, values: {a: [0, 0]}", "which values has too"),
        (None, "FROM, SET", "a file that cannot be read"),
        (None, "from: 7, SET", "channels, or a CSV file"),
    ],
    ids=["column", "number", "twice", "empty", "bound", "name", "set", "list", "both", "file", "kind"],
)  # fmt: skip
def test_a_bad_table_is_one_line(command: Command, tmp_path: Path, text: str | None, axis: str, said: str) -> None:
    if text is not None:
        (tmp_path / "mine.csv").write_text(text)
    axis = axis.replace("FROM", "from: mine.csv").replace("SET", "set: [channel.rho_fp, channel.rho_pf]")
    assert said in command(f"+axes.judge={{{axis}}}", "runs=2").error


# ---------------------------------------------------------------- the figure


def test_past_the_cliff_nothing_is_retired(data: xarray.Dataset) -> None:
    """By region, in a world of skills that a clean judge retires: blind with an interval clear of the edge retires next to none."""
    part = data.sel(world="mbpp_hard100")
    clean = float(part["retired"].sel(judge="clean"))
    assert clean > 10
    by_region = defaultdict(list)
    for name, where in figure.regions(data).items():
        by_region[where].append(float(part["retired"].sel(judge=name)))
    assert set(by_region) >= {"governable", "blind", "indiscriminate"}
    assert max(by_region["blind"]) < 6
    assert sorted(by_region["blind"])[len(by_region["blind"]) // 2] < 0.1
    assert min(by_region["indiscriminate"]) > 0.9 * clean
    tested = [r for r, j in zip(part["retired"].values, part["judge"].values, strict=True) if str(j).startswith("property tests")]
    assert min(tested) > 0.8 * clean


def test_counts_by_region_are_those_of_all_judges(data: xarray.Dataset) -> None:
    tally = figure.counted(data)
    assert set(tally) == set(judges.FAMILIES)
    assert sum(sum(row[:-1]) for row in tally.values()) == 118
    for k, name in enumerate(figure.REGIONS):
        assert sum(row[k] for row in tally.values()) == sum(str(region(TAU, j.rho_fp, j.rho_pf)) == name for j in ALL)


def test_the_table_in_numbers(data: xarray.Dataset) -> None:
    text = figure.table(data)
    for judge in ALL:
        assert re.search(rf"^\| {re.escape(judge.name)} +\|", text, re.MULTILINE), judge.name
    (row,) = re.findall(r"^\| gpt-4-turbo CoderEval-java  .*$", text, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:4] == ["0.623 [0.59, 0.65] of 992", "0.1781 [0.15, 0.21] of 657", "blind"]
    now = data.sel(world="mbpp_hard100", judge="gpt-4-turbo CoderEval-java")
    assert cells[5].startswith(f"{float(now['retired']):.1f}, {float(now['harmful_final']):.1f}, {float(now['delta_clean']):+.4f} ± ")


@pytest.mark.filterwarnings("error")
def test_all_of_them_are_drawn(data: xarray.Dataset, tmp_path: Path) -> None:
    written = figures.draw(data, tmp_path, ["judges"])
    assert [p.name for p in written] == ["judges.png", "judges.svg", "judges.md"]
    assert not is_blank(written[0])
    assert "judges" not in figures.possible(data.isel(judge=0, drop=True))


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_judges_of_ones_own_are_drawn(tmp_path: Path) -> None:
    """In one world, of unknown counts, one of them with the name of a known judge and other rates; and without a common tau."""
    (tmp_path / "mine.csv").write_text("name,rho_fp,rho_pf\nours,0.3,0.1\nstrict judge of reports,0.5,0.5\n")
    axis = f"+axes.judge={{set: [channel.rho_fp, channel.rho_pf], from: {tmp_path / 'mine.csv'}}}"
    for name, more in (("one", []), ("taus", ["+axes.tau=[0.1,0.2]"])):
        assert simulate([axis, *more, "runs=4", "policy.rounds=4", f"out={tmp_path / name}", "figures=[judges]"]) == 0
        assert not is_blank(next((tmp_path / name).glob("judges*.png")))
    text = (tmp_path / "one" / "judges.md").read_text()
    assert f"## {figure.OWN}" in text
    assert re.search(r"^\| strict judge of reports +\| 0.5 +\| 0.5 +\| blind", text, re.MULTILINE)
