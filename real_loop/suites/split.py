"""Which tasks a loop learns on and which it is measured on: chosen once from probes of the bare model, then kept in a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from real_loop.suites import Suite
from real_loop.suites.data import put
from sim.errors import InputError

KEEP: Final = ("any_fail", "mixed", "all")
_AGAIN: Final = "choose a split anew, with another file name"


@dataclass(frozen=True)
class Split:
    """Two halves of a suite and where they come from.

    Parameters
    ----------
    suite, digest
        Name of the suite and SHA-256 of its tasks.
    model, temperature
        What was probed, and how. Empty and 0 for tasks that were named by hand.
    seed
        Of the choice.
    probes
        Answers graded for each task.
    keep
        Tasks taken: "any_fail" (some probe failed), "mixed" (some failed, some passed), "all", or "ids" (named by hand).
    passes
        Probes that passed, by task.
    train, eval
        Ids of the tasks, in the order chosen.
    """

    suite: str
    digest: str
    model: str
    seed: int
    probes: int
    temperature: float
    keep: str
    passes: Mapping[str, int]
    train: tuple[str, ...]
    eval: tuple[str, ...]


def _shuffled(ids: Iterable[str], seed: int) -> list[str]:
    """Put ids into an order that depends on them and the seed alone."""
    return sorted(ids, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).digest())


def strata(suite: Suite) -> Mapping[str, str]:
    """Return what the halves of a suite's splits keep in proportion, by task: of reports the production a section is of (BC section 3)."""
    found = {task.id: getattr(task, "production", "") for task in suite.tasks}
    return found if any(found.values()) else {}


def _shares(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Divide ``n`` in proportion to sizes, by largest remainders; of equals, by name. None gets more than its size."""
    total = sum(sizes.values())
    out = {name: n * size // total for name, size in sizes.items()}
    left = sorted(sizes, key=lambda name: (-(n * sizes[name] % total), name))
    for name in left[: n - sum(out.values())]:
        out[name] += 1
    return out


def _stratified(chosen: Sequence[str], n_train: int, n_eval: int, of: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divide shuffled ids as evenly as whole tasks can be: each stratum has its share of both halves, within one task of each."""
    members: dict[str, list[str]] = {}
    for name in chosen:
        members.setdefault(of.get(name, ""), []).append(name)
    taken = _shares({stratum: len(ids) for stratum, ids in members.items()}, n_train + n_eval)
    first = _shares(taken, n_train)
    train = {name for stratum, ids in members.items() for name in ids[: first[stratum]]}
    evals = {name for stratum, ids in members.items() for name in ids[first[stratum] : taken[stratum]]}
    return tuple(name for name in chosen if name in train), tuple(name for name in chosen if name in evals)


def _halves(
    ids: Iterable[str], n_train: int, n_eval: int, seed: int, what: str, of: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    for name, number in (("n_train", n_train), ("n_eval", n_eval)):
        if number < 0:
            raise InputError(name, number, "0 or more")
    chosen = _shuffled(ids, seed)
    if len(chosen) < n_train + n_eval:
        todo = "ask for fewer"
        if len(chosen) > 1 and n_train and n_eval:
            fewer = min(max(1, len(chosen) * n_train // (n_train + n_eval)), len(chosen) - 1)
            todo += f", such as subset.n_train={fewer} subset.n_eval={len(chosen) - fewer}"
        raise InputError("split", f"{len(chosen)} {what}", f"{n_train} to train on and {n_eval} to evaluate on", todo)
    if of and chosen and n_train + n_eval:
        return _stratified(chosen, n_train, n_eval, of)
    return tuple(chosen[:n_train]), tuple(chosen[n_train : n_train + n_eval])


def choose(
    passes: Mapping[str, int], probes: int, keep: str, n_train: int, n_eval: int, seed: int, of: Mapping[str, str] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Choose tasks to train and to evaluate on, at random among those kept; the same everywhere, in whatever order they come.

    Parameters
    ----------
    passes
        Probes that passed, by task.
    probes
        Answers graded for each task.
    keep
        "any_fail", "mixed" or "all"; see `Split`.
    n_train, n_eval
        Tasks in each half.
    seed
        Another one, another choice.
    of
        Stratum of each task, if halves are to have their shares of all (`strata`).

    Raises
    ------
    InputError
        No such rule, impossible counts, or too few tasks kept.
    """
    if keep not in KEEP:
        raise InputError("keep", keep, " or ".join(KEEP))
    wrong = next((name for name, number in passes.items() if not 0 <= number <= probes), None)
    if wrong is not None:
        raise InputError(f"passes of {wrong}", passes[wrong], f"0 to {probes}")
    least = 1 if keep == "mixed" else 0
    most = probes if keep == "all" else probes - 1
    kept = [name for name, number in passes.items() if least <= number <= most]
    rule = {
        "all": "tasks",
        "any_fail": f"tasks that failed one of {probes} probes",
        "mixed": f"tasks that passed and failed among {probes} probes",
    }
    return _halves(kept, n_train, n_eval, seed, rule[keep], of or {})


def write(path: Path, split: Split) -> None:
    """Write a split as JSON, whole or not at all.

    Raises
    ------
    InputError
        It cannot be written there.
    """
    text = json.dumps({"halfblind_split": 1, **asdict(split)}, indent=1) + "\n"
    try:
        put(path, text.encode())
    except OSError as error:
        raise InputError(str(path), (error.strerror or str(error)).lower(), "to write there", "name another file") from None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name; UnicodeDecodeError is one too
        if isinstance(error, UnicodeDecodeError):
            raise InputError(str(path), "a file that is not text", "a split", "name another file") from None
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(str(path), reason, "a split that can be read", "name another file") from None


def _ids(path: Path, suite: Suite, train: tuple[str, ...], evaluate: tuple[str, ...]) -> None:
    known = {task.id for task in suite.tasks}
    unknown = [name for name in (*train, *evaluate) if name not in known]
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise InputError(str(path), f"the task {unknown[0]!r}{more}", f"tasks of {suite.name}", "correct the file")
    seen: set[str] = set()
    for name in (*train, *evaluate):
        if name in seen:
            where = "in both halves" if name in train and name in evaluate else "twice"
            raise InputError(str(path), f"{name} {where}", "each task once", "correct the file")
        seen.add(name)


def _split(path: Path, made: Any) -> Split:
    expected = "a split, as JSON"
    if not isinstance(made, dict) or made.get("halfblind_split") != 1:
        raise InputError(str(path), "something else", expected, _AGAIN)
    types: dict[str, type | tuple[type, ...]] = {"str": str, "int": int, "float": (int, float)}
    values: dict[str, Any] = {}
    for item in fields(Split):
        value = made.get(item.name)
        if item.name in ("train", "eval"):
            good = isinstance(value, list) and all(isinstance(name, str) for name in value)
            value = tuple(value) if good and isinstance(value, list) else value
        elif item.name == "passes":
            good = isinstance(value, dict) and all(type(number) is int for number in value.values())
        else:
            good = isinstance(value, types[str(item.type)]) and not isinstance(value, bool)
        if not good:
            got = f"{item.name} missing" if item.name not in made else f"{item.name} of another kind"
            raise InputError(str(path), got, expected, _AGAIN)
        values[item.name] = value
    return Split(**values)


def stored(path: Path) -> Split:
    """Read a split as it is, of whatever suite.

    Raises
    ------
    InputError
        It cannot be read, or is no split.
    """
    try:
        made = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), "a file that is not JSON", "a split, as JSON", _AGAIN) from None
    return _split(path, made)


def read(path: Path, suite: Suite, model: str | None = None) -> Split:
    """Read a split for a suite and a model (None: any).

    Raises
    ------
    InputError
        It cannot be read, or is one of other tasks or another model.
    """
    split = stored(path)
    if split.suite != suite.name:
        raise InputError(str(path), f"a split of {split.suite}", f"one of {suite.name}", f"say suite={split.suite}, or {_AGAIN}")
    if split.digest != suite.digest:
        raise InputError(
            str(path), f"a split of {suite.name} {split.digest[:12]}", f"one of {suite.digest[:12]}, the tasks at hand", _AGAIN
        )
    if model is not None and split.model not in ("", model):
        raise InputError(str(path), f"a split probed with {split.model}", f"one probed with {model}", f"use that model, or {_AGAIN}")
    _ids(path, suite, split.train, split.eval)
    return split


def from_ids(path: Path, suite: Suite, n_train: int, n_eval: int, seed: int) -> Split:
    """Make a split of the tasks named in a text file, an id on each line; empty lines and those that begin with # do not count.

    Raises
    ------
    InputError
        The file cannot be read, or names other tasks, one twice or too few.
    """
    names = tuple(line.strip() for line in _text(path).splitlines() if line.strip() and not line.lstrip().startswith("#"))
    _ids(path, suite, names, ())
    train, evaluate = _halves(names, n_train, n_eval, seed, f"tasks named in {path}", strata(suite))
    return Split(suite.name, suite.digest, "", seed, 0, 0.0, "ids", {}, train, evaluate)
