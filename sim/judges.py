"""Measured judges: the error rates of real judges and checks, as public records have them (``sim/conf/channels.csv``).

Facts only: rates, counts, what counted as true, and the source. No text that was judged is in it. The records carry no date of their
own; ``read`` is the year in which the rates were counted from them.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sim.errors import InputError

COLUMNS: Final = ("name", "rho_fp", "rho_pf", "n_fail", "n_pass", "source")  # that any table of judges has
MORE: Final = ("invalid", "family", "set", "truth", "read", "shown")  # that the package's has beside them
FAMILIES: Final = ("LLM judge", "self-judging", "agent", "tests")
REPORTED: Final = "strict judge of reports"  # the papers' own: rates as reported, to two decimals
CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class Judge:
    """A measured judge.

    Attributes
    ----------
    name, source
        What it is and where the rates come from.
    rho_fp, rho_pf
        As reported: P(observed pass given true fail) and P(observed fail given true pass).
    n_fail, n_pass
        True failures and true passes that they were measured on.
    invalid
        Answers that could not be read and count nowhere; None where that is not told.
    family
        One of FAMILIES, or empty.
    set
        What was judged.
    truth
        What said whether a case truly passes.
    read
        Year in which the rates were counted from the records; None where that is not told.
    shown
        Place in the list of figure ``rt1b``; 0: not in it.
    """

    name: str
    rho_fp: float
    rho_pf: float
    n_fail: int
    n_pass: int
    source: str
    invalid: int | None = None
    family: str = ""
    set: str = ""
    truth: str = ""
    read: int | None = None
    shown: int = 0

    @property
    def counts(self) -> tuple[int, int]:
        """Hidden failures and phantom failures: the whole numbers nearest to the reported rates."""
        return round(self.rho_fp * self.n_fail), round(self.rho_pf * self.n_pass)

    @property
    def intervals(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Exact binomial (Clopper and Pearson) 95 % intervals of rho_fp and of rho_pf, from the counts."""
        from scipy.special import betaincinv

        found, tail = [], (1 - CONFIDENCE) / 2
        for k, n in zip(self.counts, (self.n_fail, self.n_pass), strict=True):
            low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
            found.append((low, float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0))
        return found[0], found[1]


def read_judges(path: Path | None = None) -> list[Judge]:
    """Read measured judges from a CSV file with the columns COLUMNS, and any of MORE; those of the package by default.

    Raises
    ------
    InputError
        The file cannot be read, or a row is not of that form.
    """
    path = path or table_path("channels")
    judges = []
    for number, row in _rows(path):
        try:
            rates, counts = [float(row[k]) for k in COLUMNS[1:3]], [int(row[k]) for k in COLUMNS[3:5]]
            whole = {k: int(row[k]) for k in ("invalid", "read", "shown") if row.get(k)}
            if not (all(0 <= rate <= 1 for rate in rates) and min(counts) >= 1 and min(whole.values(), default=0) >= 0):
                raise ValueError
            words = {k: row.get(k) or "" for k in ("family", "set", "truth")}
            judges.append(Judge(row["name"], rates[0], rates[1], counts[0], counts[1], row["source"], **whole, **words))  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError):
            wanted = ", ".join(COLUMNS) + ": rates from 0 to 1, whole numbers of at least 1"
            raise InputError(f"{path}, line {number}", str(list(row.values()))[:80], wanted) from None
    return judges


def listed() -> list[Judge]:
    """Return the measured judges that figure ``rt1b`` shows, in its order."""
    return sorted((judge for judge in read_judges() if judge.shown), key=lambda judge: judge.shown)


def table_path(name: str) -> Path:
    """Return the file that a name of a table means: one of the package's by its stem, else a CSV file of one's own."""
    from sim.config import CONF

    own = CONF / f"{name}.csv"
    return own if own.is_file() else Path(name).expanduser()


def settings(where: str, name: str, keys: tuple[str, ...]) -> dict[str, list[int | float]]:
    """Return what an axis takes from a table: by the name of a row, the numbers in these columns.

    Parameters
    ----------
    where
        What asks for it, as a user knows it.
    name
        Of a table (:func:`table_path`) with a column ``name``.
    keys
        Columns of numbers.

    Raises
    ------
    InputError
        There is no such table, it lacks a column, a cell is no number, or two rows have one name.
    """
    path = table_path(name)
    found: dict[str, list[int | float]] = {}
    for number, row in _rows(path):
        try:
            values = [_number(row[key]) for key in keys]
            label = row["name"].strip()
        except (KeyError, TypeError, ValueError, AttributeError):
            wanted = f"columns name, {', '.join(keys)}, the latter of numbers"
            raise InputError(f"{where}, {path}, line {number}", str(list(row.values()))[:80], wanted) from None
        if label in found:
            raise InputError(f"{where}, {path}, line {number}", f"{label[:60]!r} a second time", "each name once")
        found[label] = values
    if not found:
        raise InputError(f"{where}, {path}", "no row", "a row for each value of the axis")
    return found


def _number(text: str) -> int | float:
    """Return a number, whole if it is written so; ValueError if it is none."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a CSV file with the numbers of their lines."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(enumerate(csv.DictReader(file), 2))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"a file that cannot be read ({error})", "a CSV file of judges") from None
