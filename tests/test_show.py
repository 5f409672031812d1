"""What is seen of a run: while it plays, at its end, afterwards, and by other programs."""

from __future__ import annotations

import io
import json
import re
import shutil
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import xarray
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from real_loop import config, ending, export, figures, history, measures, show, view, words
from real_loop.calls import Calls
from real_loop.log import TABLES, Log, Reader
from real_loop.main import main as run
from real_loop.view import View
from sim.figures import possible, rounds, style
from sim.figures.axes import prepare
from sim.variables import SERIES_VARIABLES, VARIABLES
from tests import talking
from tests.conftest import Answer, Command

NOISE = ("reward=noise", "rho=0.2")


class Unseen(View):
    """Sees and says nothing."""

    def __init__(self) -> None:
        super().__init__(4, "unseen")

    def attach(self, calls: Calls) -> None: ...

    def ended(self, round_: int, counts: dict[str, int]) -> None: ...


def kept(log: Log, path: Path) -> Path:
    """Keep a log that was played in memory."""
    with closing(log), closing(sqlite3.connect(path)) as file:
        log.db.backup(file)
    return path


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a run with texts."""
    _, log = talking.play(":memory:", Unseen(), *NOISE)
    log.add("faults", {"kind": "timeout", "text": "timeout (no answer in 60 s); again in 2 s"})
    return kept(log, tmp_path_factory.mktemp("talked") / "log.sqlite")


@pytest.fixture(scope="module")
def ratchet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a scripted run with rollbacks that put retired skills back."""
    out = tmp_path_factory.mktemp("ratchet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "draw", lambda history, folder: [])
        assert run(["model=scripted/mbpp_hard100", "policy=rt", "policy.rounds=45", f"out={out}"]) == 0
    return out / "log.sqlite"


@pytest.fixture
def shown(answers: Callable[..., Command]) -> Command:
    return answers(show.main)


# ---------------------------------------------------------------- show


def test_show_a_run(shown: Command, talked: Path) -> None:
    answer = shown(str(talked))
    assert (answer.code, answer.err) == (0, "")
    assert shown(str(talked.parent)).out == answer.out  # the folder will do
    reader = Reader(talked)
    past = history.History(reader)
    for word in ("openai/fake", "14 train and 10 eval tasks", "rho_fp = 0.2, rho_pf = 0.2", "tau = 0.1, n_min = 3"):
        assert word in answer.out
    assert f"{len(past.changes)} decisions, each as the evidence says" in answer.out
    assert "1 faults (timeout 1)" in answer.out
    assert re.search(r"\d+ fallbacks \(critic \d+, router \d+", answer.out)
    assert "\x1b" not in answer.out  # a model's text does nothing to the terminal
    assert "[bold]" in answer.out
    for number, skill in past.skills.items():
        row = next(line for line in answer.out.splitlines() if re.match(rf" *{number}  Cost", line))
        state = "active" if skill.how == "on_shelf" else skill.how
        assert f"  {state}  " in row
        assert f" {skill.n} " in row
        assert skill.skill.cluster in row
    spent = sum(measures.spending(reader).values(), measures.Spending())
    assert f"{spent.calls:,} calls, {spent.tokens:,} tokens, {spent.cost:.4g} USD" in answer.out


def test_show_a_skill(shown: Command, talked: Path) -> None:
    reader = Reader(talked)
    past = history.History(reader)
    gone = next(p for p in past.skills.values() if p.how == "retired")
    answer = shown(str(talked), f"skill={gone.skill.number}")
    assert answer.code == 0
    assert gone.skill.insight in answer.out
    assert gone.source is not None
    assert f"failures of the cluster '{gone.source.name}'" in answer.out
    for pattern in gone.source.patterns:
        assert f" x {pattern}" in answer.out
    assert f"retired: net {gone.net:+d} after {gone.n} trials" in answer.out
    tallies = measures.tallies(reader, gone.skill.number)
    assert sum(t.n for t in tallies.values()) == gone.n
    assert sum(t.passed for t in tallies.values()) == gone.passes
    assert sum(2 * t.observed - t.n for t in tallies.values()) == gone.net
    for round_, t in tallies.items():
        assert not t.n or re.search(rf"^ *{round_}  +{t.observed}/{t.n} +{t.passed}/{t.n} ", answer.out, re.MULTILINE)


def test_show_a_round(shown: Command, talked: Path) -> None:
    answer = shown(str(talked), "round=1")
    assert answer.code == 0
    assert len(re.findall(r"^(train|eval) +Demo/", answer.out, re.MULTILINE)) == 24
    assert "written from" in answer.out
    assert "off by one at the end of the list" in answer.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "LOG: got none, expected one folder of a run"),
        (("nowhere",), "nowhere: got no log there"),
        (("LOG", "LOG"), "LOG: got "),
        (("LOG", "skill=99"), "skill: got 99, expected 0 to "),
        (("LOG", "skill=x"), "skill: got 'x', expected a number"),
        (("LOG", "round=4"), "round: got 4, expected 0 to 3"),
        (("LOG", "round=1", "skill=1"), "got both, expected one of them"),
        (("LOG", "tasks=1"), "tasks: got an unknown key"),
        (("LOG", "--all"), "--all: got an unknown option"),
        (("other.sqlite",), "got a file that cannot be read as a log"),
        (("empty.sqlite",), "got a database that is no evidence log"),
        (("probes.sqlite",), "got a log of no run"),
    ],
)
def test_errors_of_show(shown: Command, talked: Path, args: tuple[str, ...], said: str) -> None:
    Path("other.sqlite").write_bytes(b"something else " * 100)
    Path("empty.sqlite").touch()
    Log("probes.sqlite", {"probe": {"suite": "demo24"}}).close()
    assert said in shown(*(str(talked) if a == "LOG" else a for a in args)).error


def test_show_a_log_that_was_changed(shown: Command, talked: Path) -> None:
    with closing(sqlite3.connect(talked)) as source, closing(sqlite3.connect("log.sqlite", isolation_level=None)) as copy:
        source.backup(copy)
        copy.execute("DROP TRIGGER rounds_no_update")
        copy.execute("UPDATE rounds SET passes = 0 WHERE round = 2")
    answer = shown("log.sqlite")
    assert answer.code == 0
    assert "NOT SOUND: log.sqlite: round 2: passes: got 0" in answer.out


def test_show_while_a_run_writes(shown: Command, tmp_path: Path) -> None:
    """At any moment there is something to see, and it is what is there."""
    seen: list[Answer] = []

    def look(asked: int) -> None:
        if asked in (0, 30, 80):
            said = io.StringIO()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "stdout", said)
                seen.append(Answer(show.main([str(tmp_path)]), said.getvalue(), ""))
        if asked == 90:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        talking.play(tmp_path / "log.sqlite", Unseen(), stop=look)
    assert [answer.code for answer in seen] == [0, 0, 0]
    assert "no skill was written yet" in seen[0].out
    assert "0 of 4 rounds" in seen[0].out
    assert "1 of 4 rounds; " in seen[2].out
    assert re.search(r"^ +1\+ ", seen[2].out, re.MULTILINE)


def test_what_show_counts_is_explained(shown: Command, ratchet: Path) -> None:
    said = shown(str(ratchet), "skill=9").out
    assert re.search(r"from \d\.\d failures \(unused ones fade: each round keeps 0\.94 of them\) of the cluster", said)
    assert "eval: eval tasks of the round that it was routed to" in said
    assert not [line for line in said.splitlines() if line != line.rstrip()]
    assert not [line for line in shown(str(ratchet)).out.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize(("passes", "of", "error"), [(0, 10, 0.0601), (10, 10, 0.0601), (5, 10, 0.1443), (1, 1, 0.25), (0, 40, 0.0168)])
def test_the_error_of_an_eval_is_never_zero(passes: int, of: int, error: float) -> None:
    from scipy.stats import beta

    assert measures.error(passes, of) == pytest.approx(beta(passes + 0.5, of - passes + 0.5).std()) == pytest.approx(error, abs=5e-4)
    assert words.rate(passes, of) == f"{passes / of:.3f} ± {measures.error(passes, of):.3f}"


def test_the_error_of_no_eval() -> None:
    assert np.isnan(measures.error(0, 0))
    assert words.rate(0, 0) == "-"


def test_fallbacks_are_told_with_their_reasons(shown: Command, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, log = talking.play(":memory:", Unseen())
    again = [f"\"label\" is '{i}', not one of helped, hurt, neutral, inapplicable" for i in range(40)]
    for i, why in enumerate([*again, "no JSON object in it"]):
        log.add("fallbacks", {"round": 3, "phase": "eval", "role": "critic", "subject": f"x{i}", "why": why})
    kept(log, tmp_path / "log.sqlite")
    trouble = measures.troubles(Reader(tmp_path))
    assert trouble.reasons["critic"].most_common(1) == [('"label" is none of those asked for', 40)]
    (line,) = (line for line in words.warnings(trouble) if line.startswith("critic"))
    asked = Reader(tmp_path).one("SELECT count(*) FROM verdicts WHERE call IS NOT NULL")[0]
    assert line.startswith(
        f"critic: {trouble.fallbacks['critic']} of {max(asked, trouble.fallbacks['critic'])} answers could not be used, "
    )
    assert 'since: "label" is none of those asked for; ' in line
    assert line.endswith("roles.critic.model=...")
    assert ending.say(tmp_path / "log.sqlite", tmp_path, export=False, draw=False) == 0
    assert line in capfd.readouterr().out.splitlines()
    out = shown(str(tmp_path)).out
    assert line in out.splitlines()
    assert re.search(r'^critic +40  "label" is none of those asked for$', out, re.MULTILINE)
    few = measures.Troubles({"critic": 3}, {}, 0, {"critic": Counter({"no JSON": 3})}, {"critic": 30})
    assert words.warnings(few) == []


def test_settings_that_are_not_the_default_are_named(ratchet: Path) -> None:
    plan, log = talking.play(
        ":memory:", Unseen(), "writing.prior=none", "writing.similarity=null", "writing.cover_guard=0", "evals=paired",
        "roles.critic.max_tokens=90",
    )  # fmt: skip
    log.close()
    identity = json.loads(json.dumps(config.identity(plan.settings)))
    said = "min_cluster = 2, cover_guard = 0, similarity null, prior none, evals paired, critic.max_tokens = 90"
    assert ", ".join(words.unusual(identity)) == said
    assert said in words.settings({**identity, "tasks": {"train": [], "eval": []}})
    assert words.unusual(Reader(ratchet).identity) == []  # the world's own


# ---------------------------------------------------------------- figures


def legend(ax: Axes) -> set[str]:
    """Return what a legend says."""
    box = ax.get_legend()
    assert box is not None
    return {text.get_text() for text in box.get_texts()}


def test_the_trajectory_shows_what_came_and_went(ratchet: Path, talked: Path) -> None:
    past = history.History(Reader(ratchet))
    with style.context():
        figure = figures.trajectory(past)
    first, second, third, fourth = figure.axes
    data = measures.series(past)
    up = [bar.get_height() for bar in third.containers[0]]
    down = [-bar.get_height() for bars in third.containers[1:] for bar in bars]
    assert sum(up) == data["synthesised"].sum()
    assert sum(down) == data["retired"].sum() + data["evicted"].sum() > 0
    assert len(up) == 23
    assert third.get_title("left").endswith("sums over 2 rounds")
    labels = {label for ax in figure.axes for label in legend(ax)}
    m = measures.metrics(past)
    assert f"mean of the first and the last 10 rounds: {m['first_sampled']:.3f} and {m['tail_sampled']:.3f}" in labels
    assert "as observed, and true: no label was flipped" in labels
    assert "true" not in labels
    assert not first.texts
    for ax in (second, fourth):
        assert ax.get_ylim()[0] < 0  # a point at 0 is whole
    with style.context():
        short = figures.trajectory(history.History(Reader(talked)))
    assert len(short.axes[2].containers[0]) == 4
    assert {"true", "as observed"} <= legend(short.axes[3])


def test_evals_of_zero_have_an_axis(talked: Path) -> None:
    past = history.History(Reader(talked))
    for now in past.rounds:
        now.passes = 0
    with style.context():
        first = figures.trajectory(past).axes[0]
    low, high = first.get_ylim()
    assert low < 0
    assert high > 0.2
    (segments,) = (c.get_segments() for c in first.collections if isinstance(c, LineCollection))
    assert min(y for segment in segments for _, y in segment) == 0


def test_lives_are_numbered_and_returns_marked(ratchet: Path, talked: Path) -> None:
    past = history.History(Reader(ratchet))
    assert any(len(life.stretches) > 1 for life in measures.lives(past))
    with style.context():
        ax, bar = figures.of_skills(past).axes
    assert "put back by a rollback (restored)" in legend(ax)
    assert bar.get_ylim()[0] >= -1
    assert "\N{MINUS SIGN}0.1 (-tau)" in {text.get_text() for text in bar.get_yticklabels()}
    with style.context():
        figure = figures.of_skills(history.History(Reader(talked)))
    assert figure.axes[0].get_yticklabels()[0].get_text().startswith("#0  Cost")
    assert "restored" not in " ".join(legend(figure.axes[0]))
    assert "min_cluster = 2  ·  seed 1, run 0" in figure.texts[1].get_text().replace("\n", "  ·  ")


# ---------------------------------------------------------------- export


KEY = "and such that go on"  # words of the texts


@pytest.fixture(scope="module")
def exported(talked: Path) -> Path:
    """A folder that the log was written out to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOME_API_KEY", KEY)
        export.write(talked, talked.parent / "out")
    return talked.parent / "out"


@pytest.fixture(scope="module")
def data(exported: Path) -> xarray.Dataset:
    """The dataset in it."""
    return xarray.open_zarr(exported / export.NAME, consolidated=False, chunks=None).load()


def test_export(talked: Path, exported: Path, data: xarray.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    out, reader = exported, Reader(talked)
    monkeypatch.setenv("SOME_API_KEY", KEY)
    for table in TABLES:
        lines = [json.loads(line) for line in (out / f"{table}.jsonl").read_text().splitlines()]
        parsed = export.PARSED.get(table, ())
        rows = [{k: json.loads(v) if k in parsed else v for k, v in row.items()} for row in reader.rows(table)]
        assert sorted(map(json.dumps, lines)) == sorted(json.dumps(export.clean(row)) for row in rows)
        assert len(lines) == reader.one(f"SELECT count(*) FROM {table}")[0]
    order = [(r["round"], r["phase"], r["position"]) for r in map(json.loads, (out / "capsules.jsonl").read_text().splitlines())]
    assert order == sorted(order, key=lambda x: (x[0], x[1] != "train", x[2]))
    for name, value in measures.metrics(reader).items():
        assert float(data[name]) == pytest.approx(value, nan_ok=True)
        assert data[name].attrs == {"long_name": VARIABLES[name].long_name, "units": VARIABLES[name].units}
    by_round = measures.series(reader)
    for name, variable in SERIES_VARIABLES.items():
        assert np.array_equal(data[name].values, by_round[variable.source])
        assert data[name].attrs["units"] == variable.units
    assert json.loads(data.attrs["identity"]) == reader.identity
    assert data.attrs["package"].startswith("halfblind ")
    assert int(data["calls_by_round"].sum()) == reader.one("SELECT count(*) FROM calls")[0]
    assert [life.n for life in measures.lives(reader)] == data["skill_n"].values.tolist()
    assert np.isnan(data["skill_effect"].values).all()


def test_the_simulator_s_figures_read_it(data: xarray.Dataset) -> None:
    data = data.assign_attrs({name: json.loads(data.attrs[name]) for name in ("identity", "config")})
    assert possible(prepare(data)) == ("rounds",)
    figure = rounds.draw(data)
    assert "n_min = 3" in figure.texts[1].get_text()


def test_no_key_is_exported(talked: Path, exported: Path) -> None:
    assert b"sk-secretsecret1" in talked.read_bytes()
    assert KEY.encode() in talked.read_bytes()
    everything = b"".join(path.read_bytes() for path in exported.rglob("*") if path.is_file())
    assert b"secretsecret" not in everything
    assert KEY.encode() not in everything
    assert b"Look at the last element twice; [key]" in everything


def test_export_again_and_elsewhere(answers: Callable[..., Command], talked: Path, exported: Path) -> None:
    command = answers(export.main)
    shutil.copytree(exported, "there")
    Path("there/rounds.jsonl").write_text("old")
    assert command(str(talked), "out=there").out == "there\n"
    assert "old" not in Path("there/rounds.jsonl").read_text()
    assert sorted(p.name for p in Path("there").iterdir()) == sorted([*(f"{t}.jsonl" for t in TABLES), "run.zarr"])
    assert [p.name for p in Path().iterdir()] == ["there"]
    Path("there/mine.txt").touch()
    assert "which holds other things" in command(str(talked), "out=there").error
    assert "LOG: got none" in command("out=there").error
    assert "no log there" in command("there").error
    Path("file").touch()
    assert "expected a folder" in command(str(talked), "out=file").error
    assert "file/in: got not a directory" in command(str(talked), "out=file/in").error


# ---------------------------------------------------------------- while it plays


class Terminal(io.StringIO):
    """A terminal, as far as rich can tell."""

    def isatty(self) -> bool:
        return True

    @property
    def seen(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


def test_a_terminal_sees_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm-256color"), ("COLUMNS", "130"), ("LINES", "40")):
        monkeypatch.setenv(name, value)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)

    with View(4, "mine [bold]") as view:

        def stop(asked: int) -> None:
            if asked == 100:
                view.note("timeout (\x1b[31mslow); again in 2 s")
            if asked % 20 == 0:
                assert view.live is not None
                view.live.refresh()

        talking.play(":memory:", view, *NOISE, stop=stop)[1].close()
        assert view.left() == 0
    for word in (
        "mine [bold]",
        "round 1 (of 4): train trials",
        "failures criticised",
        "eval tasks",
        "waiting: timeout (�[31mslow)",
        " left",
    ):
        assert word in screen.seen
    assert re.search(r"\d+ calls, [\d,]+ tokens, 0\.\d+ USD, \d+ fallbacks, 0 faults, 0:00:0\d passed", screen.seen)
    assert re.search(r"^ +3 +0\.\d+ ± 0\.\d+ +\d+ +\d+ +\d+ +\d+ +\d+ +\d+ +\d+ +0\.\d+", screen.seen, re.MULTILINE)


def test_the_table_at_the_end_fits_the_terminal(talked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm-256color"), ("COLUMNS", "80"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    assert ending.say(talked, talked.parent, export=False, draw=False) == 0
    assert screen.seen.startswith("round   eval  active  ")
    assert len(re.findall(r"^ +\d  0\.\d{3} +\d", screen.seen, re.MULTILINE)) == 4


@pytest.mark.parametrize("width", [200, 94, 88, 80, 60, 30])
def test_the_table_fits_the_terminal(width: int) -> None:
    rows = [[str(i), "0.175 ± 0.060", "12", "3", "2", "2", "43", "255", "61.1k", price] for i, price in enumerate(("0.2551", "1.23+?"))]
    columns, cells = words.fitted(view.COLUMNS, rows, width)
    assert sum(max(map(len, c)) + 2 for c in zip(columns, *cells, strict=True)) - 2 <= width
    assert columns[:3] == ["round", "eval", "active"]
    assert len(columns) == (10 if width >= 80 else len(columns))
    assert cells[0][1] == ("0.175 ± 0.060" if width >= 88 else "0.175")
    assert ("seen failing" in columns) == (width >= 94)
    assert rows[0][1] == "0.175 ± 0.060"


def test_elsewhere_it_is_said_what_goes_on(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "SILENT", 0.2)

    def ask(asked: int) -> None:
        if asked == 20:
            time.sleep(0.5)

    with View(4, "slow") as watch:
        watch.note("starting 2 servers")
        watch.note("")
        watch.note("")
        talking.play(":memory:", watch, stop=ask)[1].close()
    first, second, *lines = capfd.readouterr().err.splitlines()
    assert first == "waiting: starting 2 servers"
    assert second == "no longer waiting: starting 2 servers (over after 0:00:00)"
    going = [line for line in lines if re.match(r"round 0: \d+ of \d+ ", line)]
    assert 1 <= len(going) <= 4
    assert re.search(r"\d of \d+ [a-z ]+; \d+ calls, [\d,]+ tokens, 0\.\d+ USD, \d+ fallbacks, 0 faults, 0:00:0\d passed", going[0])


def test_a_cost_that_nobody_knows_is_said_alike_while_it_plays() -> None:
    with View(4, "free") as watch:
        _, log = talking.play(":memory:", watch)
        assert watch.calls is not None
        watch.calls.budget.spent.unpriced = watch.calls.budget.spent.calls
        assert " tokens, ? USD, " in watch._totals()
    log.close()


def test_elsewhere_a_line_per_round_and_little_of_what_was_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def stop(asked: int) -> None:
        if asked == 130:
            raise KeyboardInterrupt

    path = tmp_path / "log.sqlite"
    with View(4, "first") as view:
        view.note("timeout (slow); again in 2 s")
        view.note("timeout (slow); again in 3 s")
        with pytest.raises(KeyboardInterrupt):
            talking.play(path, view, *NOISE, stop=stop)
    waiting, *lines = capfd.readouterr().err.splitlines()
    assert waiting == "waiting: timeout (slow); again in 2 s"
    assert [line.partition(":")[0] for line in lines] == ["round 0", "round 1"]
    assert re.fullmatch(
        r"round 1: eval 0\.\d+ ± 0\.\d+, \d active, \d retired, \d evicted, \d written; \d+ calls, \d+ tokens, 0\.\d+ USD; "
        r"0:00:\d\d passed, about 0:00:\d\d left",
        lines[1],
    )
    with View(4, "again") as view:
        assert view.left() is None
        talking.play(path, view, *NOISE)[1].close()
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["rounds 0 to 1 were in the log already", "round 2", "round 3"]
    with View(4, "once more") as view:
        talking.play(path, view, *NOISE)[1].close()
    assert capfd.readouterr().err.splitlines() == ["rounds 0 to 3 were in the log already"]
    history.check(Reader(path))


# ---------------------------------------------------------------- at the end


def test_the_end(talked: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    monkeypatch.setattr(export, "write", lambda log, out: written.append(out))  # it has tests of its own
    assert ending.say(talked, tmp_path, export=True) == 0
    said = capfd.readouterr()
    assert said.err == ""
    assert "4 of 4 rounds; " in said.out
    assert "1 faults (timeout 1), 0 void trials" in said.out
    assert said.out.splitlines()[-1] == str(talked)
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {"trajectory.png", "trajectory.svg", "lives.png", "lives.svg"}
    assert (tmp_path / "figures" / "lives.png").read_bytes()[:4] == b"\x89PNG"
    assert written == [tmp_path / "export"]


def test_the_end_of_what_hardly_began(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert ending.say(tmp_path / "log.sqlite", tmp_path, export=True) == 0  # no log yet
    assert capfd.readouterr().out == ""

    for last, rows in ((2, 0), (14, 1)):  # four calls at once, 14 train trials in a round

        def stop(asked: int, last: int = last) -> None:
            if asked == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            talking.play(tmp_path / "log.sqlite", Unseen(), stop=stop)
        assert ending.say(tmp_path / "log.sqlite", tmp_path, export=False) == 0
        said = capfd.readouterr()
        assert "0 of 4 rounds; " in said.out
        assert said.out.count("+ not over") == rows
    assert not (tmp_path / "figures").exists()


def test_the_end_where_nothing_can_be_written(talked: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "figures").touch()
    assert ending.say(talked, tmp_path, export=False) == 2
    said = capfd.readouterr()
    assert said.err.startswith("error: ")
    assert len(said.err.splitlines()) == 1
    assert said.out.splitlines()[-1] == str(talked)
