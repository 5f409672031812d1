"""The evidence log: one SQLite file, append-only by trigger, that a run can be taken up from after any kill.

Each row is committed before it is used. A run that is taken up plays from its first round again and finds here what it had asked
and decided; nothing is asked twice. What it decides again must be what the log says, or it stops. Rows are never changed or removed:
the shelf at any moment is what the changes up to it say.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from sim.errors import InputError, RunError

SCHEMA_VERSION: Final = 1

# Columns after a bar are not compared when a run is taken up: when it was, and how long it took.
TABLES: Final = {
    "parts": "part INTEGER PRIMARY KEY, started REAL NOT NULL, about TEXT NOT NULL",
    "meta": "key TEXT PRIMARY KEY, value TEXT NOT NULL",
    "calls": """id INTEGER PRIMARY KEY, round INTEGER NOT NULL, phase TEXT NOT NULL, role TEXT NOT NULL, subject TEXT NOT NULL,
        attempt INTEGER NOT NULL, model TEXT NOT NULL, request TEXT NOT NULL, answer TEXT NOT NULL, stop_reason TEXT NOT NULL,
        input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost REAL, seconds REAL NOT NULL, part INTEGER NOT NULL,
        at REAL NOT NULL, UNIQUE (round, phase, role, subject, attempt)""",
    "skills": """number INTEGER PRIMARY KEY, round INTEGER NOT NULL, cluster TEXT NOT NULL, name TEXT NOT NULL,
        applicability TEXT NOT NULL, insight TEXT NOT NULL, pitfalls TEXT NOT NULL, postcondition TEXT NOT NULL,
        call INTEGER REFERENCES calls, part INTEGER NOT NULL, at REAL NOT NULL""",
    "capsules": """id INTEGER PRIMARY KEY, round INTEGER NOT NULL, phase TEXT NOT NULL, task TEXT NOT NULL, position INTEGER NOT NULL,
        skill INTEGER REFERENCES skills, injected INTEGER NOT NULL, route_call INTEGER REFERENCES calls,
        solve_call INTEGER REFERENCES calls, prompt TEXT NOT NULL, answer TEXT NOT NULL, passed INTEGER, observed INTEGER,
        reason TEXT NOT NULL, trace TEXT NOT NULL, judge_call INTEGER REFERENCES calls, tokens INTEGER NOT NULL, cost REAL,
        seconds REAL NOT NULL, part INTEGER NOT NULL, at REAL NOT NULL, UNIQUE (round, phase, task)""",
    "verdicts": """id INTEGER PRIMARY KEY, round INTEGER NOT NULL, capsule INTEGER NOT NULL UNIQUE REFERENCES capsules,
        call INTEGER REFERENCES calls, label TEXT NOT NULL, pattern TEXT NOT NULL, cluster TEXT NOT NULL, part INTEGER NOT NULL,
        at REAL NOT NULL""",
    "changes": """round INTEGER NOT NULL, step INTEGER NOT NULL, kind TEXT NOT NULL, skill INTEGER REFERENCES skills,
        reason TEXT NOT NULL, part INTEGER NOT NULL, at REAL NOT NULL, PRIMARY KEY (round, step)""",
    "priors": "round INTEGER PRIMARY KEY, text TEXT NOT NULL, call INTEGER REFERENCES calls, part INTEGER NOT NULL, at REAL NOT NULL",
    "fallbacks": """round INTEGER NOT NULL, phase TEXT NOT NULL, role TEXT NOT NULL, subject TEXT NOT NULL, why TEXT NOT NULL,
        part INTEGER NOT NULL, at REAL NOT NULL, PRIMARY KEY (round, phase, role, subject)""",
    "rounds": """round INTEGER PRIMARY KEY, passes INTEGER NOT NULL, attempted INTEGER NOT NULL, active INTEGER NOT NULL,
        part INTEGER NOT NULL, at REAL NOT NULL""",
    "faults": "id INTEGER PRIMARY KEY, kind TEXT NOT NULL, text TEXT NOT NULL, part INTEGER NOT NULL, at REAL NOT NULL",
}
_LOOSE: Final = frozenset(("id", "part", "at", "seconds"))  # not compared when a run is taken up
_HOLDS: Final = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'"}  # what a column may hold
# What may be otherwise the next time: somebody holds the file, or there is no room. All else is wrong with the file itself.
_PASSING: Final = frozenset((
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT
))  # fmt: skip


def plain(text: str) -> str:
    """Return a text that can be kept: what is no letter of Unicode (half of a surrogate pair) becomes a question mark."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _kept(value: Any) -> Any:
    return plain(value) if isinstance(value, str) else value


def _never(table: str) -> str:
    return "".join(
        f"CREATE TRIGGER {table}_no_{what.lower()} BEFORE {what} ON {table} BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;"
        for what in ("UPDATE", "DELETE")
    )


class Log:
    """A log that is being written.

    Parameters
    ----------
    path
        The file, or ``:memory:``.
    identity
        What makes the run what it is (nested plain mapping). A log of another identity is refused.
    about
        What is worth knowing of this part of the run, and may differ from part to part.
    paid
        Whether rows are worth waiting for the disk. Else a kill still loses nothing, but a power cut may lose the last rows.

    Raises
    ------
    InputError
        The file is no log, or one of another configuration or version, or damaged.
    RunError
        It cannot be written now. So says every method: what was kept before is in it.
    """

    def __init__(self, path: Path | str, identity: Mapping[str, Any], about: Mapping[str, Any] | None = None, paid: bool = True) -> None:
        self.path = path
        self.db = _connected(path)
        try:
            self._begin(identity, about or {}, paid)
        except BaseException:
            self.db.close()
            raise

    def _begin(self, identity: Mapping[str, Any], about: Mapping[str, Any], paid: bool) -> None:
        with reading(self.path):
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute(f"PRAGMA synchronous={'FULL' if paid else 'NORMAL'}")
            if _tables(self.db):
                _sound(self.db, self.path)
            else:
                self._create(identity)
            _compare(self.db, self.path, identity)
            self.part = 1 + int(self.db.execute("SELECT count(*) FROM parts").fetchone()[0])
            self.spent_before = wall_seconds(self.db)
            row = (self.part, time.time(), json.dumps(about, sort_keys=True))
            self.db.execute("INSERT INTO parts VALUES (?, ?, ?)", row)
        self._place = None if str(self.path) == ":memory:" else os.path.abspath(self.path)
        self._file = _same(self._place)

    def _create(self, identity: Mapping[str, Any]) -> None:
        script = "".join(f"CREATE TABLE {name} ({columns});{_never(name)}" for name, columns in TABLES.items())
        script += "CREATE INDEX calls_subject ON calls (subject, role);"
        version = json.dumps(SCHEMA_VERSION)
        meta = f"INSERT INTO meta VALUES ('schema_version', '{version}'), ('identity', {_quoted(json.dumps(identity, sort_keys=True))});"
        self.db.executescript(f"BEGIN IMMEDIATE;{script}{meta}COMMIT;")

    def close(self) -> None:
        """Close the file."""
        with self._writing():
            self.db.close()

    def there(self) -> None:
        """See that what is written can be found: the file is still the one that it was.

        Raises
        ------
        RunError
            It was removed, or another was put in its place: what is written now, nobody would read.
        """
        if self._place is None:
            return
        now = _same(self._place)
        if now is None or now != self._file:
            got = "a log that is gone" if now is None else "another file in the place of the log"
            raise RunError(str(self.path), got, "the one that this run writes", "put it back, and run the same command again")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            got = f"a log that cannot be used now ({error})"
            todo = "what was kept before is in it: see that nobody else holds it and the disk has room, then run the same command again"
            raise RunError(str(self.path), got, "to keep a row", todo) from error

    # ------------------------------------------------------------ rows

    def one(self, query: str, values: tuple[Any, ...] = ()) -> Any:
        """Return the first row of a query, or None."""
        with self._writing():
            return self.db.execute(query, tuple(map(_kept, values))).fetchone()

    def all(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return all rows of a query."""
        with self._writing():
            return self.db.execute(query, tuple(map(_kept, values))).fetchall()

    def add(self, table: str, row: Mapping[str, Any]) -> int:
        """Commit a row; return its number. ``part``, unless it is given, and ``at`` are filled in."""
        full = {"part": self.part, **row, "at": time.time()}
        names = ", ".join(full)
        marks = ", ".join("?" * len(full))
        with self._writing():
            done = self.db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(map(_kept, full.values())))
        return int(done.lastrowid or 0)

    def settle(self, table: str, key: tuple[str, ...], row: Mapping[str, Any]) -> int:
        """Commit a row, or find that the log has it; return its number.

        Raises
        ------
        RunError
            The log has a row with this key that says something else: other code, or other data, wrote it.
        """
        where = " AND ".join(f"{name} = ?" for name in key)
        there = self.one(f"SELECT rowid AS row_number, * FROM {table} WHERE {where}", tuple(row[name] for name in key))
        if there is None:
            return self.add(table, row)
        for name, value in row.items():
            if name not in _LOOSE and there[name] != _kept(value):
                at = ", ".join(f"{k} {row[k]}" for k in key)
                raise RunError(
                    f"{self.path}: {table}, {at}: {name}",
                    repr(value)[:80],
                    f"{there[name]!r}"[:80] + " as logged",
                    "the log was written by other code or with other data; start anew with another out=",
                )
        return int(there["row_number"])

    def call(self, key: tuple[int, str, str, str, int]) -> Any:
        """Return the logged call with this (round, phase, role, subject, attempt), or None."""
        return self.one("SELECT * FROM calls WHERE round = ? AND phase = ? AND role = ? AND subject = ? AND attempt = ?", key)

    def capsule(self, round_: int, phase: str, task: str) -> Any:
        """Return the logged capsule of a trial, or None."""
        return self.one("SELECT * FROM capsules WHERE round = ? AND phase = ? AND task = ?", (round_, phase, task))

    # ------------------------------------------------------------ sums

    def wall_seconds(self) -> float:
        """Return how long all parts took, each up to its last row."""
        with self._writing():
            return wall_seconds(self.db)

    def spent(self) -> tuple[int, int, float, int]:
        """Return calls that were answered, tokens, cost (USD), and how many of the calls have no known cost, so far.

        What was taken over from other logs (part 0) was not spent here.
        """
        query = "SELECT count(*), coalesce(sum(input_tokens + output_tokens), 0), coalesce(sum(cost), 0), coalesce(sum(cost IS NULL), 0) "
        row = self.one(
            query + "FROM calls WHERE part > 0 AND stop_reason != 'overflow'"
        )  # real_loop.calls.OVERFLOW: refused before it was asked
        return int(row[0]), int(row[1]), float(row[2]), int(row[3])


def wall_seconds(db: sqlite3.Connection) -> float:
    """Return how long all parts of a log took, each up to its last row; nothing for one that a clock set back makes end too early."""
    last = " UNION ALL ".join(f"SELECT part, at FROM {t}" for t in TABLES if t not in ("parts", "meta"))
    took = f"SELECT max(0, max(at) - p.started) AS t FROM ({last}) AS x JOIN parts AS p USING (part) GROUP BY part"
    return float(db.execute(f"SELECT coalesce(sum(t), 0) FROM ({took})").fetchone()[0])


def check(path: Path | str, identity: Mapping[str, Any]) -> None:
    """See that a log, if there is one, is of this run; nothing is written.

    Raises
    ------
    InputError
        It is no log, or of another configuration or version, or damaged.
    RunError
        It cannot be read now.
    """
    if Path(path).is_file() and Path(path).stat().st_size:
        with closing(Reader(path)) as reader, reading(path):
            _compare(reader.db, path, identity)


def _compare(db: sqlite3.Connection, path: Path | str, identity: Mapping[str, Any]) -> None:
    have, want = dict(_leaves(_identity(db, path))), dict(_leaves(json.loads(json.dumps(identity))))
    for key in [*want, *have]:
        if have.get(key) != want.get(key):
            got, expected = (str(side.get(key, "nothing"))[:80] for side in (want, have))
            todo = "give the same settings, or another out="
            raise InputError(f"{path}: {key}", got, f"{expected}, as the log began with", todo)


# ---------------------------------------------------------------- reading


class Reader:
    """A log that is only read: while a run writes it, or after.

    Raises
    ------
    InputError
        There is no such file, or it is no log of this version, or damaged.
    RunError
        It cannot be read now.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = found(path)
        self.db = _connected(self.path, read_only=True)
        try:
            with reading(self.path):
                _sound(self.db, self.path)
                self.identity = _identity(self.db, self.path)
        except BaseException:
            self.db.close()
            raise

    def one(self, query: str, values: tuple[Any, ...] = ()) -> Any:
        """Return the first row of a query, or None."""
        return self.db.execute(query, values).fetchone()

    def rows(self, table: str, order: str = "rowid") -> Iterator[dict[str, Any]]:
        """Yield the rows of a table."""
        for row in self.db.execute(f"SELECT * FROM {table} ORDER BY {order}"):
            yield dict(row)

    def close(self) -> None:
        """Close the file."""
        self.db.close()


def found(path: Path | str) -> Path:
    """Return the log file that a path means: itself, or ``log.sqlite`` in the folder."""
    path = Path(os.path.expanduser(path))
    file = path / "log.sqlite" if os.path.isdir(path) else path
    if not os.path.isfile(file):
        raise InputError(str(path), "no log there", "a log.sqlite, or the folder of a run", "python -m real_loop makes one")
    return file


def _connected(path: Path | str, read_only: bool = False) -> sqlite3.Connection:
    try:
        if read_only:
            # A log in write-ahead mode that nobody has open leaves no such file: then it can be read where nothing can be written.
            place = Path(path).resolve()
            still = not os.access(place.parent, os.W_OK) and not os.path.exists(f"{place}-wal")
            db = sqlite3.connect(f"{place.as_uri()}?mode=ro{'&immutable=1' * still}", uri=True, isolation_level=None, timeout=30)
        else:
            db = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error
    db.row_factory = sqlite3.Row
    return db


def _same(path: str | None) -> tuple[int, int] | None:
    """Return what tells a file from every other one; None if there is none."""
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found else None


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Say in one line what SQLite has against a file that is read."""
    try:
        yield
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path | str, error: sqlite3.Error) -> InputError:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING:
        todo = "nothing in it was changed; see that nobody else holds it and the disk has room, then run the same command again"
        return RunError(str(path), f"a log that cannot be used now ({error})", "one that can", todo)
    return InputError(str(path), f"a file that cannot be read as a log ({error})", "an evidence log (SQLite)", "give another one")


def damaged(path: Path | str, what: str) -> InputError:
    """Return the error of a log that does not hold what a log holds."""
    todo = "other programs wrote to it: take a copy made before, or begin anew in another folder"
    return InputError(str(path), f"a damaged log ({what})", "an evidence log as python -m real_loop writes it", todo)


def parsed(path: Path | str, text: Any, what: str) -> Any:
    """Return what JSON in a log says.

    Raises
    ------
    InputError
        It is none.
    """
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise damaged(path, f"{what} is no JSON") from None


def _tables(db: sqlite3.Connection) -> set[str]:
    return {row["name"] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _sound(db: sqlite3.Connection, path: Path | str) -> None:
    """See that a database is a log of this version, and that its columns hold what they are for: numbers, or texts."""
    if not set(TABLES) <= _tables(db):
        raise InputError(str(path), "a database that is no evidence log", "a log of python -m real_loop", "give another one")
    row = db.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    version = parsed(path, row[0], "its schema_version") if row else "unknown"
    if version != SCHEMA_VERSION:
        raise InputError(str(path), f"a log of version {str(version)[:40]}", f"version {SCHEMA_VERSION}", "give another one")
    for table, declared in TABLES.items():
        bad = {
            name: f"typeof({name}) NOT IN ({_HOLDS[kind]}" + ("" if must else ", 'null'") + ")"
            for name, kind, must in re.findall(r"(\w+) (INTEGER|REAL|TEXT)( PRIMARY KEY| NOT NULL|)", declared)
        }
        sums = ", ".join(f"sum({test})" for test in bad.values())
        for name, count in zip(bad, db.execute(f"SELECT {sums} FROM {table}").fetchone(), strict=True):
            if count:
                raise damaged(path, f"{table}.{name} holds what it cannot hold in {count} rows")


def _identity(db: sqlite3.Connection, path: Path | str) -> dict[str, Any]:
    row = db.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()
    if row is None:
        raise damaged(path, "it has no identity")
    told = parsed(path, row[0], "its identity")
    if not isinstance(told, dict):
        raise damaged(path, "its identity is no mapping")
    return told


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
