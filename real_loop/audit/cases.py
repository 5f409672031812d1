"""The verdicts that an audit is made from: rows of a CSV file, each one verdict of one judge on one case of known truth."""

from __future__ import annotations

import csv
import difflib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from sim.errors import InputError

COLUMNS: Final = ("truth", "verdict", "score", "class", "task", "case", "judge", "weight")
NAMES: Final = ("class", "task", "case", "judge")  # columns of texts
# How a column may write pass and fail; one way in all its rows.
ENCODINGS: Final[Mapping[str, Mapping[str, bool]]] = {
    "0/1": {"0": False, "1": True},
    "pass/fail": {"fail": False, "pass": True},
    "true/false": {"false": False, "true": True},
}
INVALID: Final = "invalid"  # what a verdict is where the judge gave none
LIKE: Final = {"yes": "pass", "no": "fail", "y": "pass", "n": "fail", "1.0": "1", "0.0": "0", "passed": "pass", "failed": "fail"}
MAX_ROWS: Final = 500_000
MAX_HEADER: Final = 10_000  # letters that are looked at for what separates columns
LONGEST: Final = 200  # letters of a name
FORMS: Final = "0 and 1, pass and fail, or true and false"


@dataclass(frozen=True)
class Cases:
    """Verdicts of judges, one a row.

    Attributes
    ----------
    truth
        Whether the case truly passes, bool, shape (n,).
    verdict
        Whether the judge passes it, bool, shape (n,); None where there are scores alone.
    score
        Larger means more likely a pass, shape (n,); nan in the rows of a judge that gives none; None where there are verdicts alone.
    cls
        Class of the defect, or of the case; "" where there is none. Shape (n,).
    task
        What errors may cluster by, shape (n,). Where none is given it is the case, and each row its own where that is not given either.
    case
        What was judged, shape (n,): rows of one case and one judge are repeated calls. Each row its own where not given.
    judge
        Shape (n,); "" where not given.
    weight
        At least 0, shape (n,); 1 where not given.
    clustered
        Whether ``task`` says more than that each row is its own: tasks were given, or cases of several rows.
    invalid
        Where the judge gave no verdict, bool, shape (n,): there ``verdict`` is fail, as in the loop. None where there are none.
    """

    truth: np.ndarray
    verdict: np.ndarray | None
    score: np.ndarray | None
    cls: np.ndarray
    task: np.ndarray
    case: np.ndarray
    judge: np.ndarray
    weight: np.ndarray
    clustered: bool
    invalid: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def judges(self) -> list[str]:
        """Names of the judges, in the order in which they come."""
        return list(dict.fromkeys(self.judge.tolist()))

    def of(self, rows: np.ndarray) -> Cases:
        """Return some of the rows: a mask or indices, shape (n,) or (rows,). Rows that have no score among them have None."""
        score = None if self.score is None else self.score[rows]
        return replace(
            self,
            truth=self.truth[rows],
            verdict=None if self.verdict is None else self.verdict[rows],
            score=None if score is None or np.isnan(score).all() else score,
            cls=self.cls[rows],
            task=self.task[rows],
            case=self.case[rows],
            judge=self.judge[rows],
            weight=self.weight[rows],
            invalid=None if self.invalid is None else self.invalid[rows],
        )


# ---------------------------------------------------------------- reading


def read(path: Path) -> Cases:
    """Read verdicts from a CSV file: UTF-8, separated by commas (or semicolons, or tabs), a first line with the columns (COLUMNS).

    ``truth`` and a ``verdict`` or a ``score`` must be there; beside verdicts a judge may have no scores, in any of its rows. Truth and
    verdicts are 0 and 1, pass and fail, or true and false, one way in all of a column. Where a judge gave no verdict it is ``invalid``,
    which counts as fail. Lines without anything are skipped.

    Raises
    ------
    InputError
        The file cannot be read, or anything in it is not as said; with the line.
    """
    lines, header, rows = _table(path)
    text = dict(zip(header, zip(*rows, strict=True), strict=True))
    n = len(rows)

    def names(column: str) -> np.ndarray | None:
        return _names(path, lines, column, text[column]) if column in text else None

    truth, _ = _passes(path, lines, "truth", text["truth"])
    verdict, invalid = _passes(path, lines, "verdict", text["verdict"]) if "verdict" in text else (None, None)
    judge, score = names("judge"), None
    if "score" in text:
        without = _without(text["score"], judge) if verdict is not None else set[int]()
        score = _numbers(path, lines, "score", text["score"], "a finite number", math.isfinite, without)
    weight = np.ones(n)
    if "weight" in text:
        weight = _numbers(path, lines, "weight", text["weight"], "0, or a number from 1e-9 to 1e9", lambda w: w == 0 or 1e-9 <= w <= 1e9)
        if not weight.any():
            raise InputError(f"{path}, weight", "0 in every row", "some weight above 0")
    each = np.array([f"line {line}" for line in lines])
    case, task = names("case"), names("task")
    if case is not None:
        _agree(path, lines, case, truth, "truth", lambda value: "a true pass" if value else "a true fail")
        if task is not None:
            _agree(path, lines, case, task, "task", lambda value: f"of task {value}")
    grouped = task if task is not None else case
    cls = names("class")
    return Cases(
        truth=truth,
        verdict=verdict,
        score=score,
        cls=np.full(n, "") if cls is None else cls,
        task=each if grouped is None else grouped,
        case=each if case is None else case,
        judge=np.full(n, "") if judge is None else judge,
        weight=weight,
        clustered=grouped is not None and (task is not None or len(np.unique(grouped)) < n),
        invalid=invalid,
    )


def _separator(line: str) -> str:
    """Return what stands between the columns of a header: a semicolon or a tab where there is no comma, as some spreadsheets write."""
    return next((sign for sign in (",", ";", "\t") if sign in line), ",")


def _table(path: Path) -> tuple[list[int], list[str], list[list[str]]]:
    """Return the numbers of the lines, the names of the columns and the fields, all of the same number."""
    lines, rows, line = list[int](), list[list[str]](), 1
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            sign = _separator(file.readline(MAX_HEADER))
            file.seek(0)
            reader = csv.reader(file, strict=True, delimiter=sign)
            for fields in reader:
                start, line = line, reader.line_num + 1
                if not any(field.strip() for field in fields):
                    continue
                if not rows:
                    header = _header(path, fields)
                elif len(fields) != len(header):
                    got = f"{len(fields)} fields"
                    raise InputError(f"{path}, line {start}", got, f"{len(header)}, as in the header", "put texts with commas in quotes")
                elif len(rows) > MAX_ROWS:
                    raise InputError(str(path), f"more than {MAX_ROWS:,} rows", "fewer", "audit a random part of the tasks")
                lines.append(start)
                rows.append(fields)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else f"line {line}: {error}"
        why = f"line {_undecodable(path)} is not UTF-8" if isinstance(error, UnicodeDecodeError) else why
        raise InputError(f"from={path}", f"a file that cannot be read ({why})", "a CSV file in UTF-8 with a header") from None
    if len(rows) < 2:
        raise InputError(str(path), "no rows", "a header and a row per verdict, separated by commas")
    return lines[1:], header, rows[1:]


def _undecodable(path: Path) -> int:
    """Return the first line that is not UTF-8: text is decoded in blocks, so that the reader is not there yet."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1


def _header(path: Path, fields: Sequence[str]) -> list[str]:
    header = [name.strip().lower() for name in fields]
    known = f"the columns {', '.join(COLUMNS)}, separated by commas"
    for name in header:
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, n=1, cutoff=0.5)
            todo = f"did you mean {near[0]}?" if near else "leave other columns out"
            todo = "take out the comma at its end" if not name and name is header[-1] else todo
            raise InputError(f"{path}, header", f"an unknown column, {name[:60]!r}", known, todo)
        if header.count(name) > 1:
            raise InputError(f"{path}, header", f"two columns {name}", "each column once")
    if "truth" not in header:
        raise InputError(f"{path}, header", "no column truth", "truth, and a verdict or a score", "truth is whether the case truly passes")
    if "verdict" not in header and "score" not in header:
        raise InputError(f"{path}, header", "no column verdict or score", "at least one of them")
    return header


def _first(values: Sequence[str], wanted: str) -> int:
    """Return the place of the first cell that reads so, whatever its case and the spaces around it."""
    return next(i for i, value in enumerate(values) if value.strip().lower() == wanted)


def _passes(path: Path, lines: Sequence[int], column: str, values: Sequence[str]) -> tuple[np.ndarray, np.ndarray | None]:
    """Return which cells say pass, and which are invalid, None where there are none; shapes (n,)."""
    seen = {value: value.strip().lower() for value in set(values)}
    plain = sorted(set(seen.values()), key=lambda word: _first(values, word))
    may_be_invalid = column == "verdict"
    used: dict[str, str] = {}  # the ways met, and the first word of each
    for word in plain:
        at = f"{path}, line {lines[_first(values, word)]}, {column}"
        if may_be_invalid and word == INVALID:
            continue
        way = next((name for name, words in ENCODINGS.items() if word in words), None)
        if way is None:
            todo = f"write {INVALID} where the judge gave none" if may_be_invalid else "leave out cases of unknown truth"
            todo = f"write {LIKE[word]}" if word in LIKE else todo
            raise InputError(at, repr(word[:60]) if word else "an empty cell", FORMS, todo)
        used.setdefault(way, word)
    if len(used) > 1:
        (one, first), (other, second) = list(used.items())[:2]
        where = [f"{word} in line {lines[_first(values, word)]}" for word in (first, second)]
        raise InputError(f"{path}, {column}", f"two ways of writing, {' and '.join(where)}", f"one in all rows, {one} or {other}")
    meaning = {word: said for words in ENCODINGS.values() for word, said in words.items()}
    passes = np.array([meaning.get(seen[value], False) for value in values], bool)
    invalid = np.array([seen[value] == INVALID for value in values], bool)
    return passes, invalid if invalid.any() else None


def _without(scores: Sequence[str], judge: np.ndarray | None) -> set[int]:
    """Return the rows of judges that have no score in any row, where others have."""
    if judge is None:
        return set()
    scored = {str(judge[i]) for i, text in enumerate(scores) if text.strip()}
    return {i for i in range(len(scores)) if str(judge[i]) not in scored} if scored else set()


def _numbers(
    path: Path,
    lines: Sequence[int],
    column: str,
    values: Sequence[str],
    expected: str,
    fits: Callable[[float], bool],
    without: Collection[int] = (),
) -> np.ndarray:
    """Return a column as numbers; nan in the rows ``without`` one."""
    out = np.full(len(values), math.nan)
    for i, value in enumerate(values):
        if i in without:
            continue
        try:
            out[i] = float(value)
        except ValueError:
            out[i] = math.nan
        if not fits(out[i]):
            none = "a row without a score can only be left out, or all scores of its judge"
            todo = none if column == "score" and not value.strip() else ""
            raise InputError(f"{path}, line {lines[i]}, {column}", repr(value[:60]) if value.strip() else "an empty cell", expected, todo)
    return out


def _names(path: Path, lines: Sequence[int], column: str, values: Sequence[str]) -> np.ndarray:
    """Return texts without spaces around them. Only a class may be empty: there is no defect."""
    short = {value: value.strip() for value in set(values)}
    for value, name in short.items():
        if len(name) > LONGEST or not name.isprintable() or (not name and column != "class"):
            got = "an empty cell" if not name else f"{name[:60]!r}{' and more' if len(name) > 60 else ''}"
            todo = "leave the column out if it is unknown" if not name else ""
            raise InputError(
                f"{path}, line {lines[values.index(value)]}, {column}", got, f"a name of up to {LONGEST} printable letters", todo
            )
    return np.array([short[value] for value in values])


def _agree(path: Path, lines: Sequence[int], case: np.ndarray, values: np.ndarray, what: str, said: Callable[[object], str]) -> None:
    """Refuse a case that its rows say different things of."""
    _, first, group = np.unique(case, return_index=True, return_inverse=True)
    off = np.flatnonzero(values != values[first][group])
    if len(off):
        i, j = int(off[0]), int(first[group[off[0]]])
        got = f"{case[i]!s}, which is {said(values[j])} in line {lines[j]} and {said(values[i])} in line {lines[i]}"
        raise InputError(f"{path}, case", got, f"one {what} per case", "rows of one case are verdicts on the same thing")


# ---------------------------------------------------------------- writing


def write(path: Path, cases: Cases) -> None:
    """Write verdicts as :func:`read` takes them; columns that say nothing are left out, and tasks that are no more than cases.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    import io

    from sim.figures.style import replace as written

    columns: dict[str, list[str]] = {"truth": _words(cases.truth)}
    if cases.verdict is not None:
        said = _words(cases.verdict)
        columns["verdict"] = (
            said if cases.invalid is None else [INVALID if no else word for no, word in zip(cases.invalid, said, strict=True)]
        )
    if cases.score is not None:
        columns["score"] = ["" if math.isnan(x) else repr(float(x)) for x in cases.score]
    for name, values in (("class", cases.cls), ("judge", cases.judge)):
        if (values != "").any():
            columns[name] = values.tolist()
    if cases.clustered and (cases.task != cases.case).any():
        columns["task"] = cases.task.tolist()
    if len(np.unique(cases.case)) < len(cases) or cases.clustered:
        columns["case"] = cases.case.tolist()
    if (cases.weight != 1.0).any():
        columns["weight"] = [repr(float(x)) for x in cases.weight]
    buffer = io.StringIO()
    out = csv.writer(buffer, lineterminator="\n")
    out.writerow(columns)
    out.writerows(zip(*columns.values(), strict=True))
    written(path, buffer.getvalue().encode())


def _words(passes: np.ndarray) -> list[str]:
    return ["pass" if value else "fail" for value in passes]
