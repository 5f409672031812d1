"""Write a log out for other programs: every table as JSON lines, and the run's numbers as a dataset with the simulator's variables."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from real_loop.history import History, snapshot
from real_loop.log import TABLES, Reader, damaged, found, parsed, plain
from real_loop.measures import lives, metrics, series, spending, violations
from real_loop.roles import EVAL
from real_loop.suites import REPORTS
from sim.errors import InputError
from sim.report import guarded

if TYPE_CHECKING:
    import xarray

HELP: Final = """\
Write a log out for other programs.

usage: python -m real_loop.export LOG [out=FOLDER]

LOG is the folder of a run, or the log in it; out is FOLDER/export by default, and is replaced whole if it is there. It gets

  TABLE.jsonl   every table of the log, a row a line, in the order of the run; keys of services are left out of all texts
  run.zarr      the run's numbers by the simulator's names: xarray.open_zarr("run.zarr", consolidated=False)
"""
NAME: Final = "run.zarr"
SEAM: Final = "\n\0\n"  # between texts; no key reaches over it
ORDER: Final = {
    "parts": "part", "meta": "key", "calls": "round, phase, role, subject, attempt", "skills": "number",
    "capsules": "round, phase DESC, position", "verdicts": "round, (SELECT position FROM capsules WHERE id = capsule)",
    "changes": "round, step", "priors": "round", "fallbacks": "round, phase, role, subject", "rounds": "round", "faults": "id",
}  # fmt: skip
PARSED: Final = {"parts": ("about",), "meta": ("value",), "calls": ("request",), "changes": ("reason",)}  # JSON in the log
# Long name and unit of what a log has by round beside the simulator's series.
BY_ROUND: Final = {
    "passes": ("eval tasks passed", "tasks"),
    "attempted": ("eval tasks with an outcome", "tasks"),
    "trials": ("train trials with an outcome", "trials"),
    "routed": ("train trials with a skill and an outcome", "trials"),
    "hidden_failures": ("failures observed as passes", "per round"),
    "phantom_failures": ("passes observed as failures", "per round"),
    "restored": ("skills put back by a rollback", "skills per round"),
    "dropped": ("skills removed by a rollback", "skills per round"),
    "void": ("trials and eval tasks without an outcome", "trials"),
}
OF_SKILLS: Final = {
    "skill_born": ("round in which the skill was written, -1 if the shelf began with it", "rounds"),
    "skill_left": ("round in which it left for the last time", "rounds"),
    "skill_how": ("how it ended", "1"),
    "skill_cluster": ("cluster of failures it was written from", "1"),
    "skill_n": ("trials at its end", "trials"),
    "skill_net": ("observed passes minus observed failures at its end", "trials"),
    "skill_passes": ("true passes at its end", "trials"),
    "skill_effect": ("on-topic effect, known of scripted skills", "logit"),
}


def clean(value: Any) -> Any:
    """Return a value without keys of services in any text of it."""
    from real_loop.models.errors import redact

    texts = list(_texts(value))
    done = redact(SEAM.join(texts)).split(SEAM)  # at once: to look for keys takes long to begin
    if len(done) != len(texts):
        done = [redact(text) for text in texts]
    return _with(value, iter(done))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _with(value: Any, texts: Iterator[str]) -> Any:
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, dict):
        return {next(texts): _with(item, texts) for item in value.values()}
    return [_with(item, texts) for item in value] if isinstance(value, list) else value


def rows(reader: Reader, table: str) -> list[dict[str, Any]]:
    """Return a table's rows in the order of the run, JSON in them read, and without keys of services.

    Raises
    ------
    InputError
        What should be JSON is none: the log is damaged.
    """
    found = list(reader.rows(table, ORDER[table]))
    for name in PARSED.get(table, ()):
        for row in found:
            row[name] = parsed(reader.path, row[name], f"{table}.{name}")
    return list(clean(found))


def _lines(reader: Reader, table: str) -> str:
    try:
        return "".join(plain(json.dumps(row, ensure_ascii=False, allow_nan=False)) + "\n" for row in rows(reader, table))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise damaged(reader.path, f"{table} has what JSON cannot say: {error}") from None


def dataset(reader: Reader, history: History | None = None) -> xarray.Dataset:
    """Return the run's numbers: the simulator's variables of one run, by its names, and the skills.

    ``round`` has the rounds that are over. ``eval_by_round`` is of one attempt per task where the simulator has the expectation, with
    the standard deviation of its posterior under Jeffreys' prior, ``eval_by_round_se``; other standard errors are nan, as of any
    single run.
    """
    import xarray

    from real_loop.words import reward
    from sim import __version__
    from sim.main import commit
    from sim.variables import SERIES_VARIABLES, VARIABLES

    history = history or History(reader)
    by_round, spent = series(history), spending(reader)
    variables: dict[str, Any] = {"runs": ((), 1, {"long_name": "runs", "units": "runs"})}
    nothing = np.full(len(by_round["round"]), np.nan)

    def put(name: str, dims: tuple[str, ...], values: Any, long_name: str, units: str) -> None:
        variables[name] = (dims, values, {"long_name": long_name, "units": units})

    for name, value in metrics(history).items():
        put(name, (), value, VARIABLES[name].long_name, VARIABLES[name].units)
    for variable in SERIES_VARIABLES.values():
        long_name = variable.long_name + (", one attempt per task" if variable.source == "eval" else "")
        se = by_round["eval_se"] if variable.source == "eval" else nothing
        put(variable.name, ("round",), by_round[variable.source].astype(float), long_name, variable.units)
        what = "standard deviation of the posterior under Jeffreys' prior" if variable.source == "eval" else "standard error of the mean"
        put(f"{variable.name}_se", ("round",), se, f"{what}: {long_name}", variable.units)
    for name, (long_name, units) in BY_ROUND.items():
        put(f"{name}_by_round", ("round",), by_round[name], long_name, units)
    if history.settings.subset.suite in REPORTS:
        found = violations(history)
        of_evals = [found[t, EVAL].total() if (t, EVAL) in found else 0 for t in by_round["round"].tolist()]
        put("violations_by_round", ("round",), np.array(of_evals, np.int64), "violations in the sections of eval tasks", "violations")
    for name, unit in (("calls", "calls"), ("tokens", "tokens"), ("cost", "USD"), ("seconds", "s")):
        numbers = [float(getattr(spent[t], name)) if t in spent else 0.0 for t in by_round["round"].tolist()]
        put(f"{name}_by_round", ("round",), np.array(numbers), "model calls" if name == "calls" else f"{name} of model calls", unit)
    for name, values in _of_skills(history).items():
        put(name, ("skill",), values, *OF_SKILLS[name])
    identity = clean(history.identity)
    config = {"presets": {"world": identity["subset"]["name"]}, "policy": identity["policy"], "channel": identity["reward"]}
    if "world" in identity:
        config |= {"presets": {"world": identity["model"]}, "world": identity["world"]}
    attrs = {
        "package": f"halfblind {__version__}",
        "commit": commit(),
        "identity": json.dumps(identity, sort_keys=True),
        "config": json.dumps(config, sort_keys=True),
        "reward": reward(identity),
        "complete": int(history.finished),
    }
    coords = {
        "round": ("round", by_round["round"], {"long_name": "round", "units": "rounds"}),
        "skill": ("skill", np.array(sorted(history.skills), np.int64), {"long_name": "skill, in order of birth", "units": "1"}),
    }
    return xarray.Dataset(variables, coords, attrs)


def _of_skills(history: History) -> dict[str, np.ndarray]:
    found = lives(history)
    text = np.dtypes.StringDType()
    return {
        "skill_born": np.array([life.born_round for life in found], np.int64),
        "skill_left": np.array([np.nan if life.left_round is None else life.left_round for life in found], float),
        "skill_how": np.array([life.how for life in found], text),
        "skill_cluster": np.array([clean(history.skills[life.number].skill.cluster) for life in found], text),
        "skill_n": np.array([life.n for life in found], np.int64),
        "skill_net": np.array([life.net for life in found], np.int64),
        "skill_passes": np.array([life.passes for life in found], np.int64),
        "skill_effect": np.array([life.effect for life in found], float),
    }


def write(log: Path | str, out: Path) -> list[Path]:
    """Write a log out into a folder, whole or not at all; return what is in it.

    Raises
    ------
    InputError
        It is no log, the folder is there and is none of an export or the one that one is in, or it cannot be written.
    RunError
        The log contradicts itself.
    """
    names = [*(f"{table}.jsonl" for table in TABLES), NAME]
    place = Path(os.path.realpath(out))
    reader = Reader(log)
    partial, old = (place.parent / f".{place.name}.{os.getpid()}.{what}" for what in ("partial", "old"))
    try:
        if place.exists() and not (place.is_dir() and {p.name for p in place.iterdir()} <= set(names)):
            raise InputError("out", f"{out}, which holds other things", "a folder that is not there, or one of an earlier export")
        if place.exists() and place.samefile(os.curdir):
            raise InputError("out", f"{out}, the folder that you are in", "another one, since it is replaced whole")
        partial.mkdir(parents=True)
        with snapshot(reader):
            for table in TABLES:
                (partial / f"{table}.jsonl").write_text(_lines(reader, table), encoding="utf-8")
            dataset(reader).to_zarr(partial / NAME, mode="w", consolidated=False, zarr_format=3)
        if place.exists():
            os.replace(place, old)
        os.replace(partial, place)
    except OSError as error:
        why = (os.strerror(error.errno) if error.errno else str(error)).lower()
        raise InputError(str(out), why, "a folder that can be written", "free some space, or give another out=FOLDER") from error
    finally:
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)
        reader.close()
    return [out / name for name in names]


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 1 a log that contradicts itself."""
    return guarded(_main, args)


def _main(args: list[str]) -> int:
    if {"--help", "-h"} & set(args):
        print(HELP, end="")
        return 0
    logs, out = [], None
    for arg in args:
        key, equals, value = arg.partition("=")
        if arg.startswith("-"):
            raise InputError(arg, "an unknown option", "LOG [out=FOLDER]")
        if equals and key == "out":
            if not value.strip() or "://" in value:
                raise InputError("out", repr(value), "a folder of this machine")
            out = Path(os.path.expanduser(value))
        else:
            logs.append(arg)
    if len(logs) != 1:
        raise InputError("LOG", ", ".join(logs) or "none", "one folder of a run, or the log in it", "see python -m real_loop.export --help")
    log = found(logs[0])
    folder = out or log.parent / "export"
    write(log, folder)
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
