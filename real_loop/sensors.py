"""What another sensor would have reported of the train trials of a log: a channel over the true outcomes, or a judge's recorded verdicts.

A channel flips by the simulator's words (:class:`real_loop.rewards.Flips`), so that with one seed the labels flipped at a rate are among
those flipped at any higher one. A judge's verdicts come from a table, or from the log of a run that asked a judge about the same answers.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from real_loop.history import History, Row
from real_loop.log import Reader
from real_loop.rewards import Flips
from real_loop.roles import TRAIN
from real_loop.settings import Reward
from sim.errors import InputError

COVERED: Final = 0.9  # of the trials routed to a skill, that need a verdict: decisions go by how many there are
COLUMNS: Final = ("round", "task", "verdict")
SQLITE: Final = b"SQLite format 3\0"
MOST: Final = 500_000  # rows of a table

Reports: TypeAlias = Mapping[int, bool | None]  # by capsule: whether it is reported as a pass; None: nothing is


@dataclass(frozen=True)
class Sensor:
    """A sensor over the train trials of one log.

    Attributes
    ----------
    name
        In words.
    reports
        What it says, of every train trial that had an outcome.
    hidden, phantom
        Failures reported as passes, and passes reported as failures.
    trials, silent, unheard
        Trials that had an outcome; those without a report; and those of them that were routed to a skill.
    """

    name: str
    reports: Reports = field(repr=False)
    hidden: int
    phantom: int
    trials: int
    silent: int
    unheard: int


def trials(history: History) -> list[Row]:
    """Return the train trials of a log that had an outcome, in the order in which they were counted."""
    return [row for now in history.rounds for row in history.trials.get((now.round, TRAIN), []) if row["observed"] is not None]


def _sensor(name: str, history: History, reports: Reports) -> Sensor:
    rows = trials(history)
    said = Counter((reports[row["id"]], bool(row["passed"])) for row in rows)
    silent = [row for row in rows if reports[row["id"]] is None]
    unheard = sum(row["skill"] is not None for row in silent)
    return Sensor(name, reports, said[True, False], said[False, True], len(rows), len(silent), unheard)


def logged(history: History) -> Sensor:
    """Return the sensor that the run had: what the log says that it reported."""
    from real_loop.words import reward

    return _sensor(reward(history.identity), history, {row["id"]: bool(row["observed"]) for row in trials(history)})


def channel(history: History, reward: Reward, seed: int, run: int) -> Sensor:
    """Return a channel over the true outcomes.

    Parameters
    ----------
    history
        The log.
    reward
        Rates, and over what they are spread; of kind ``channel``.
    seed, run
        The key of the flips. That of the run itself flips as the run did.

    Raises
    ------
    InputError
        Rates spread over topics, which real tasks do not have.
    """
    from real_loop.roles.scripted import Script
    from real_loop.words import reward as worded

    topics: tuple[int, ...] = ()
    if reward.spread and reward.unit == "topic":
        if history.cell is None:
            raise InputError("reward.unit", "'topic'", "task: real tasks have no known topic")
        topics = Script(history.cell, history.settings.seed, history.settings.run).cast().topics
    flips = Flips(reward, seed, run, topics)
    reports = {
        row["id"]: bool(row["passed"]) != flips.flipped(row["round"], row["position"], bool(row["passed"])) for row in trials(history)
    }
    about = {"kind": "channel", "rho_fp": reward.rho_fp, "rho_pf": reward.rho_pf, "spread": reward.spread, "unit": reward.unit}
    return _sensor(worded({"reward": about}), history, reports)


# ---------------------------------------------------------------- recorded verdicts


def verdicts(history: History, file: str) -> Sensor:
    """Return a judge whose verdicts were recorded: in a table, or in the log of a run that asked it about the same answers.

    Parameters
    ----------
    history
        The log; its reader is open.
    file
        CSV in UTF-8 with the columns round, task and verdict (pass and fail, 1 and 0, or true and false; ``invalid`` where the judge gave
        none, which counts as fail, as in the loop); or a log, or the folder of a run: there a verdict belongs to task and answer, that of
        the same round before any other.

    Raises
    ------
    InputError
        It cannot be read, is about other tasks, or covers less than COVERED of the trials that were routed to a skill.
    """
    path = Path(file).expanduser()
    try:
        is_log = path.is_dir() or path.open("rb").read(len(SQLITE)) == SQLITE
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InputError(f"verdicts={file}", why, "a CSV file with the columns round, task, verdict; or a log") from None
    told = _judged(history, path) if is_log else _tabled(history, path)
    sensor = _sensor(f"verdicts of {path.name}", history, {row["id"]: told.get(row["id"]) for row in trials(history)})
    routed = sum(row["skill"] is not None for row in trials(history))
    covered = routed - sensor.unheard
    if covered < COVERED * routed or sensor.silent == sensor.trials > 0:
        got = f"verdicts on {covered} of {routed} trials with a skill, {sensor.trials - sensor.silent} of {sensor.trials} in all"
        raise InputError(f"verdicts={file}", got, f"at least {COVERED:.0%} of those with a skill", "let the judge see more of the answers")
    return sensor


def _tabled(history: History, path: Path) -> dict[int, bool]:
    from real_loop.audit.cases import ENCODINGS, FORMS, INVALID, LIKE

    rows = {(row["round"], row["task"]): row["id"] for row in trials(history)}
    tasks, told, ways = set(history.tasks[TRAIN]), dict[int, bool](), dict[str, int]()
    seen = dict[tuple[int, str], int]()
    for line, (when, task, word) in _read(path):
        where = f"{path}, line {line}"
        if not (when.isascii() and when.isdigit() and len(when) < 10):
            raise InputError(f"{where}, round", repr(when[:40]), "a round of the log, from 0 on")
        if task not in tasks:
            raise InputError(f"{where}, task", repr(task[:60]), f"a train task of the log, such as {history.tasks[TRAIN][0]}")
        if (at := (int(when), task)) in seen:
            raise InputError(where, f"a second verdict on round {when}, {task}, after line {seen[at]}", "one")
        seen[at], word = line, word.lower()
        way = next((name for name, words in ENCODINGS.items() if word in words), None)
        if way is None and word != INVALID:
            todo = f"write {LIKE[word]}" if word in LIKE else f"write {INVALID} where the judge gave none"
            raise InputError(f"{where}, verdict", repr(word[:40]), FORMS, todo)
        if way is not None:
            ways.setdefault(way, line)
        if len(ways) > 1:
            (one, first), (other, second) = ways.items()
            raise InputError(f"{path}, verdict", f"{one} in line {first} and {other} in line {second}", "one way in all rows")
        if at in rows:  # others were void, or come after the rounds that are read
            told[rows[at]] = way is not None and ENCODINGS[way][word]
    return told


def _read(path: Path) -> list[tuple[int, list[str]]]:
    """Return the lines of a table with their round, task and verdict. Further columns are passed over."""
    found, reader = list[tuple[int, list[str]]](), None
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header: list[int] = []
            reader = csv.reader(file, strict=True)
            for cells in reader:
                cells = [cell.strip() for cell in cells]
                if not any(cells):
                    continue
                if not header:
                    names = [cell.lower() for cell in cells]
                    for name in COLUMNS:
                        if names.count(name) != 1:
                            got = f"no column {name}" if name not in names else f"two columns {name}"
                            raise InputError(f"{path}, header", got, f"the columns {', '.join(COLUMNS)}, separated by commas")
                    header = [names.index(name) for name in COLUMNS]
                elif len(cells) <= max(header) or len(found) >= MOST:
                    got = f"{len(cells)} fields" if len(found) < MOST else f"more than {MOST:,} rows"
                    raise InputError(
                        f"{path}, line {reader.line_num}", got, "fewer rows" if len(found) >= MOST else f"{len(names)}, as above"
                    )
                else:
                    found.append((reader.line_num, [cells[i] for i in header]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        where = f"{path}, line {reader.line_num}" if isinstance(error, csv.Error) and reader else str(path)
        raise InputError(where, f"a file that cannot be read ({error})"[:200], "a CSV file in UTF-8 with a header, or a log") from None
    if not found:
        raise InputError(str(path), "no verdicts", f"a header, {', '.join(COLUMNS)}, and a row per verdict")
    return found


_ANSWERS: Final = "SELECT id, round, task, answer, observed FROM capsules WHERE phase = ? AND observed IS NOT NULL"


def _judged(history: History, path: Path) -> dict[int, bool]:
    with closing(Reader(path)) as other:
        identity = other.identity
        reward = identity.get("reward")
        if not isinstance(reward, dict) or reward.get("kind") != "judge":
            todo = "rates of a channel are given as reward=... with q, rho, or rho_fp and rho_pf"
            raise InputError(f"verdicts={path}", "a log whose run asked no judge", "one of reward=judge", todo)
        if identity.get("suite_digest") != history.identity.get("suite_digest"):
            raise InputError(f"verdicts={path}", "a log of other tasks", "one of the suite that the log is of")
        exact, any_round = dict[tuple[int, str, str], bool](), dict[tuple[str, str], bool]()
        for row in other.db.execute(f"{_ANSWERS} ORDER BY round, position", (TRAIN,)):
            exact[row["round"], row["task"], row["answer"]] = bool(row["observed"])
            any_round.setdefault((row["task"], row["answer"]), bool(row["observed"]))
    told = dict[int, bool]()
    for row in history.reader.db.execute(_ANSWERS, (TRAIN,)):
        key = row["task"], row["answer"]
        if key in any_round:
            told[row["id"]] = exact.get((row["round"], *key), any_round[key])
    return told
