"""The points that ``python -m sim.theory`` is asked about: a judge, a controller, and what is wanted of them."""

from __future__ import annotations

import csv
import dataclasses
import difflib
import itertools
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.cadence import LEAST_MEAN, MAX_TRIALS
from sim.errors import InputError
from sim.params import MAX_NUMBER

if TYPE_CHECKING:
    import numpy as np

    from sim.cadence import Cadence
    from sim.model import Cell

MAX_POINTS = 100_000


def _key(doc: str, default: Any = dataclasses.MISSING) -> Any:
    return dataclasses.field(default=default, metadata={"doc": doc})


@dataclass(frozen=True)
class Point:
    """A judge, a controller, and what is asked of them."""

    rho_fp: float = _key("P(observed pass given true fail)")
    rho_pf: float = _key("P(observed fail given true pass)")
    tau: float = _key("retire at a mean signed outcome of -tau or less")
    n_min: int = _key("trials a skill must have before it can be retired")
    cap: int = _key("most active skills")
    name: str = _key("a name for the point, for the table", "")
    wanted: float | None = _key("margin wanted under a perfect judge, if tau is not that but already corrected (tau)", None)
    p0: float = _key("mean pass rate without skills", 0.5)
    good: float = _key("true pass rate of a skill that should stay", 0.6)
    bad: float = _key("true pass rate of a skill that should go; 0 is a useless one, which never passes", 0.0)
    trials: int | None = _key("trials of a skill after which chances are given (2 n_min)", None)
    every: int = _key("trials of a skill between two looks of the rule", 1)
    per_round: float | None = _key("mean trials of a skill per round, if they are Poisson and the rule looks once a round (none)", None)
    delta: float = _key("chance that one skill's mean is off by more than the radius", 0.001)
    skills: int | None = _key("skills tested in all, which the tight floors are charged for (cap)", None)
    alpha: float = _key("chance of losing the good skill that is acceptable", 0.05)
    beta: float = _key("chance of keeping the bad skill that is acceptable", 0.05)

    @property
    def horizon(self) -> int:
        """Trials after which the chances are given."""
        wanted = 2 * self.n_min if self.trials is None else self.trials
        return wanted if self.per_round else max(1, wanted // self.every) * self.every

    @property
    def charged(self) -> int:
        """Skills that the tight floors are charged for."""
        return self.cap if self.skills is None else self.skills

    @property
    def cadence(self) -> Cadence:
        """When the rule looks."""
        from sim.cadence import every, poisson

        return every(self.every) if self.per_round is None else poisson(self.per_round)

    @property
    def looks(self) -> int:
        """Looks within the horizon."""
        return math.ceil(self.horizon / self.per_round) if self.per_round else self.horizon // self.every


# ---------------------------------------------------------------- reading


def read(args: Sequence[str], more: Path | None = None) -> tuple[list[Point], np.ndarray | None, bool]:
    """Read the command line.

    Returns
    -------
    points
        At least one.
    difficulty
        Pass rates without skills of the tasks of the world that was named, or None; shape (tasks,).
    table
        Whether several points were asked for.

    Raises
    ------
    InputError
        Anything is wrong.
    """
    from sim.config import load

    keys = {item.name for item in fields(Point)}
    own: dict[str, str] = {}
    presets: dict[str, str] = {}
    source = None
    for arg in args:
        key, equals, value = arg.partition("=")
        name = key.removeprefix("policy.").removeprefix("channel.")
        if not equals or not key:
            raise InputError(arg or "''", "an argument without =", "key=value", "see python -m sim.theory --help")
        if not value.strip():
            raise InputError(key, "nothing", "a value")
        if name in own or key in presets or (key == "points" and source is not None):
            raise InputError(key, f"a second value, {value}", "one value", "several make a table: " + f"'{name}=[..., ...]'")
        if key == "points":
            source = Path(os.path.expanduser(value))
        elif name in keys:
            own[name] = value
        elif key in ("world", "policy", "channel") or (key.startswith("world.difficulty.") and any(a.startswith("world=") for a in args)):
            presets[key] = value
        else:
            raise _unknown(key, keys)
    cell = load([f"{key}={value}" for key, value in presets.items()], more).sweep.cell(())
    if cell.channel.spread > 0:
        got, todo = f"{presets['channel']}, whose rates cluster", "simulate it: python -m sim"
        raise InputError("channel", got, "rates that are the same for all tasks", todo)
    difficulty = None
    if "world" in presets:
        from sim.tables import difficulty_bins

        difficulty = difficulty_bins(cell.world.difficulty)
        if "p0" in own:
            raise InputError("p0", own["p0"], "none beside world=, which sets it")
    given = {name: _values(name, text) for name, text in own.items()}
    rows = _rows(source, keys - ({"p0"} if difficulty is not None else set()), set(given)) if source else [("", {})]
    points = []
    for where, row in rows:
        for values in itertools.product(*given.values()):
            points.append(_point(where, cell, difficulty, {**row, **dict(zip(given, values, strict=True))}))
            if len(points) > MAX_POINTS:
                raise InputError("points", f"more than {MAX_POINTS}", "fewer points")
    return points, difficulty, source is not None or any(text.strip()[:1] in "[{" for text in own.values())


def _unknown(key: str, keys: set[str]) -> InputError:
    near = {"q": ["rho_fp"], "rho": ["rho_fp", "rho_pf"]}.get(key) or difflib.get_close_matches(key.replace("-", "_"), keys, n=2)
    return InputError(key, "an unknown key", " or ".join(near) or "one listed by python -m sim.theory --help")


def _values(name: str, text: str) -> tuple[Any, ...]:
    """Return the values a key is given: one, a list, or a range as for axes."""
    import yaml

    from sim.axes import RANGE_KEYS, value_range

    if name == "name" and not text.startswith("["):
        return (text.strip(),)
    try:
        value = yaml.safe_load(re.sub(r"(?<=[\w}]):(?=\S)", ": ", text))
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, OverflowError):  # of words that YAML takes for dates, numbers, tags
        value = object()
    if isinstance(value, dict) and value and all(key in RANGE_KEYS for key in value):
        return value_range(name, value, _kind(name) is int)
    if not isinstance(value, int | float | str | list):
        raise InputError(name, text[:60], "a number, a list of numbers, or {start: ..., stop: ..., step: ...}")
    values = tuple(value) if isinstance(value, list) else (value,)
    if not values:
        raise InputError(name, "no values", "at least one")
    return tuple(_number(name, v) for v in values)


def _kind(name: str) -> type:
    return {"n_min": int, "cap": int, "trials": int, "every": int, "skills": int, "name": str}.get(name, float)


def _number(name: str, value: Any) -> Any:
    kind = _kind(name)
    if kind is str:
        return str(value)
    if isinstance(value, str):  # YAML reads 1e-3 as text
        value = _read(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    expected = "a whole number" if kind is int else "a number"
    if isinstance(value, bool) or not isinstance(value, int | float) or not isinstance(value, int | kind):
        raise InputError(name, repr(value)[:60], expected)
    if abs(value) > MAX_NUMBER:
        raise InputError(name, "too large a number", expected)
    return kind(value)


def _read(text: str) -> float | str:
    """Return the number that a text is, or the text."""
    try:
        return float(text)
    except ValueError:
        return text


def _rows(source: Path, keys: set[str], given: set[str]) -> list[tuple[str, dict[str, Any]]]:
    """Read points from a CSV file: a header of keys, then a row per point; an empty field is the default. With where each was."""
    try:
        with source.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, line) for line in reader if any(field.strip() for field in line)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"points={source}", f"a file that cannot be read ({why})", "a CSV file with a header of keys") from None
    header = [name.strip() for name in lines[0][1]] if lines else []
    if len(lines) < 2:
        raise InputError(str(source), "no rows", "a header of keys and a row per point, separated by commas")
    if unknown := [name for name in header if name not in keys]:
        raise InputError(f"{source}, header", repr(unknown[0][:60]), f"keys separated by commas: {', '.join(sorted(keys))}")
    if twice := [name for name in header if name in given]:
        raise InputError(f"{source}, header", f"{twice[0]}, which the command line gives too", "each key once")
    if len(set(header)) < len(header):
        raise InputError(f"{source}, header", "the same key twice", "each key once")
    rows = []
    for number, line in lines[1:]:
        if len(line) != len(header):
            raise InputError(f"{source}, line {number}", f"{len(line)} fields", f"{len(header)}, as in the header")
        row = {}
        for name, field in zip(header, line, strict=True):
            if field.strip():
                try:
                    row[name] = _number(name, field.strip())
                except InputError as error:
                    raise InputError(f"{source}, line {number}, {name}", repr(field[:60]), error.expected) from None
        rows.append((f"{source}, line {number}, ", row))
    return rows


def _point(where: str, cell: Cell, difficulty: np.ndarray | None, values: dict[str, Any]) -> Point:
    """Return a point, checked: what is not given comes from the presets."""
    try:
        policy = replace(cell.policy, **{k: values[k] for k in ("tau", "n_min", "cap") if k in values})
        channel = replace(cell.channel, **{k: values[k] for k in ("rho_fp", "rho_pf") if k in values})
        known = {"tau": policy.tau, "n_min": policy.n_min, "cap": policy.cap, "rho_fp": channel.rho_fp, "rho_pf": channel.rho_pf}
        if difficulty is not None:
            known["p0"] = float(difficulty.mean())
        point = Point(**{**known, **values})
        _check(point)
    except InputError as error:
        what = error.what.removeprefix("policy.").removeprefix("channel.")
        raise InputError(where + what, error.got, error.expected, error.todo) from None
    return point


def _check(point: Point) -> None:
    from sim.operating import LEAST_CHANCE

    for name in ("p0", "good", "bad"):
        if not 0 <= getattr(point, name) <= 1:
            raise InputError(name, getattr(point, name), "a probability from 0 to 1")
    for name, least in (("delta", 1e-100), ("alpha", LEAST_CHANCE), ("beta", LEAST_CHANCE)):
        if not least <= getattr(point, name) < 1:
            raise InputError(name, getattr(point, name), f"a probability from {least:g} on and below 1")
    for name in ("trials", "every", "skills", "cap"):
        if getattr(point, name) is not None and not 1 <= getattr(point, name) < 2**31:
            raise InputError(name, getattr(point, name), "at least 1 and below 2^31")
    if point.wanted is not None and not -1 < point.wanted < 1:
        raise InputError("wanted", point.wanted, "a number above -1 and below 1")
    if point.bad >= point.good:
        raise InputError("bad", f"{point.bad:g}", f"less than good = {point.good:g}")
    if point.per_round is not None and point.every != 1:
        raise InputError("per_round", f"{point.per_round:g} with every = {point.every}", "one of the two")
    if point.per_round is not None and not LEAST_MEAN <= point.per_round <= MAX_TRIALS:
        raise InputError("per_round", point.per_round, f"a number from {LEAST_MEAN} to {MAX_TRIALS}")
    if point.every > MAX_TRIALS:
        raise InputError("every", point.every, f"at most {MAX_TRIALS}")
    if point.trials is not None and point.trials < point.every:
        raise InputError("trials", point.trials, f"at least every = {point.every}")
