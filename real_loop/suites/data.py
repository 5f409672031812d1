"""Find, check, download and read the task files: EvalPlus's MBPP+ and HumanEval+, and our own demo24."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from real_loop.suites.compare import HUMANEVAL_RULES, MBPP_RULES
from real_loop.suites.task import CodeTask
from sim.errors import InputError, RunError
from sim.report import Progress

_MOST: Final = 256 << 20  # bytes of any task file, decompressed


@dataclass(frozen=True)
class Release:
    """A task file as EvalPlus releases it.

    Parameters
    ----------
    name, file
        Of the suite, and of the file (gzip JSON lines).
    url
        Where the release is.
    size
        In bytes, compressed.
    digest
        SHA-256 of the decompressed lines: the same file compressed anew is as good.
    override
        Environment variable naming another file, as EvalPlus has it.
    """

    name: str
    file: str
    url: str
    size: int
    digest: str
    override: str


_RELEASES: Final = "https://github.com/evalplus"
RELEASES: Final = {
    "mbppplus": Release(
        "mbppplus",
        "MbppPlus.jsonl.gz",
        f"{_RELEASES}/mbppplus_release/releases/download/v0.2.0/MbppPlus.jsonl.gz",
        336032,
        "b54e762755248ca411b523c917fa9f93c07b5ff2966bf60b3917b853926a3dad",
        "MBPP_OVERRIDE_PATH",
    ),
    "humanevalplus": Release(
        "humanevalplus",
        "HumanEvalPlus.jsonl.gz",
        f"{_RELEASES}/humanevalplus_release/releases/download/v0.1.10/HumanEvalPlus.jsonl.gz",
        925932,
        "42526ec0e7d5f3ee0b06d6ced98f8c8bae3d76519151bfb3d36f79010645bd7f",
        "HUMANEVAL_OVERRIDE_PATH",
    ),
}


def cache() -> Path:
    """Return the folder for what can be made or fetched again; it need not exist."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.cache"))) / "halfblind"


def _data() -> Path:
    given = os.environ.get("HALFBLIND_DATA", "")
    return Path(os.path.expanduser(given)) if given else cache() / "data"


def _ways(release: Release) -> str:
    return f"put {release.file} (from {release.url}) into {_data()}, or name it in {release.override}"


def found(release: Release) -> Path | None:
    """Return where a release is on this machine, or None. The variable of the release is not looked at."""
    checkout = Path(__file__).resolve().parents[3] / "shared" / "data"
    for folder in (_data(), _data() / release.name, checkout / release.name):
        if (folder / release.file).is_file():
            return folder / release.file
    return None


def _unpacked(path: str, raw: bytes, todo: str) -> bytes:
    """Return the lines of a task file, compressed or not."""
    if raw[:2] != b"\x1f\x8b":
        if raw[:1] == b"{":
            return raw
        raise InputError(path, "a file that is neither gzip nor JSON lines", "a task file", todo)
    try:
        unpack = zlib.decompressobj(wbits=31)
        lines = unpack.decompress(raw, _MOST)
        if not unpack.eof:
            raise EOFError
    except (zlib.error, EOFError):
        raise InputError(path, "a gzip file that is damaged or cut off", "a whole one", todo) from None
    return lines


def _read(path: Path, todo: str) -> bytes:
    try:
        return _unpacked(str(path), path.read_bytes(), todo)
    except OSError as error:
        raise InputError(str(path), (error.strerror or str(error)).lower(), "a file that can be read", todo) from None


def _checked(path: str, lines: bytes, release: Release, todo: str) -> bytes:
    digest = hashlib.sha256(lines).hexdigest()
    if digest != release.digest:
        raise InputError(path, f"tasks with SHA-256 {digest[:12]}", f"those of the release, {release.digest[:12]}", todo)
    return lines


def fetch(release: Release, folder: Path) -> Path:
    """Download a release into a folder, which is made, and return where it is. Written under another name, then renamed.

    Raises
    ------
    RunError
        It cannot be had, or is not what was expected.
    """
    ways = f"try again, or {_ways(release)}"
    raw = bytearray()
    try:
        with urllib.request.urlopen(release.url, timeout=30) as answer, Progress(f"download {release.file}") as progress:
            progress.start(release.size, unit="B")
            while chunk := answer.read(1 << 16):
                raw += chunk
                progress.advance(len(chunk), new=True)
                if len(raw) > release.size:
                    break
    except (urllib.error.URLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise RunError(release.url, f"no download ({why})", "to reach it", ways) from None
    if len(raw) != release.size:
        raise RunError(release.url, f"{len(raw)} bytes or more", f"{release.size}", ways)
    _checked(release.url, _unpacked(release.url, bytes(raw), ways), release, ways)
    target = folder / release.file
    try:
        put(target, bytes(raw))
    except OSError as error:
        raise InputError(str(target), (error.strerror or "").lower(), "to write there", "set HALFBLIND_DATA to another folder") from None
    return target


def put(target: Path, content: bytes) -> None:
    """Write a file whole or not at all; its folder is made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def lines_of(name: str) -> tuple[str, bytes]:
    """Return where the tasks of a suite are and their JSON lines, downloaded if they have to be.

    The file that an override names is taken as it is; all others must be the release.
    """
    if name == "demo24":
        file = resources.files("real_loop.suites").joinpath("demo24.jsonl")
        return "demo24.jsonl", file.read_bytes()
    release = RELEASES[name]
    given = os.environ.get(release.override, "")
    if given:
        return given, _read(Path(os.path.expanduser(given)), f"correct {release.override}, or unset it")
    path = found(release) or fetch(release, _data())
    todo = f"delete it, and it is downloaded anew; or {_ways(release)}"
    return str(path), _checked(str(path), _read(path, todo), release, todo)


# MBPP+ as JSON has lists where its functions take tuples. Which argument becomes what, by the number of the task.
def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _each(values: Any) -> list[Any]:
    return [tuple(value) for value in values]


_Convert = Callable[[list[Any]], Any]
_CONVERT: Final[dict[tuple[int, ...], _Convert]] = {
    # every argument a tuple
    (2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809): _each,
    # every argument a list of tuples
    (63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780): lambda args: [_each(arg) for arg in args],
    # every argument a tuple of tuples
    (259, 401, 445): lambda args: [tuple(_each(arg)) for arg in args],
    # all the way down
    (580, 615, 791): lambda args: [_tuples(arg) for arg in args],
    # of the first argument the items, of the second one itself, of the first one itself
    (75, 413, 444, 753): lambda args: [_each(args[0]), *args[1:]],
    (106, 750): lambda args: [args[0], tuple(args[1]), *args[2:]],
    (250, 307, 405, 446, 617, 720, 763, 808): lambda args: [tuple(args[0]), *args[1:]],
    # an empty item is a dictionary, every other one a set
    (115,): lambda args: [[set(item) if isinstance(item, list) and item else {} for item in args[0]]],
    (124,): lambda args: [float(args[0]), complex(args[1])],
    (252,): lambda args: [complex(args[0])],
    (278,): lambda args: [tuple(tuple(item) if isinstance(item, list) else item for item in args[0])],
    (722,): lambda args: [{key: tuple(value) for key, value in args[0].items()}, *args[1:]],
}
_BY_NUMBER: Final = {number: convert for numbers, convert in _CONVERT.items() for number in numbers}


def _arguments(name: str, task: str, tests: Any) -> tuple[tuple[Any, ...], ...]:
    convert = _BY_NUMBER.get(int(task.rpartition("/")[2])) if name == "mbppplus" else None
    return tuple(tuple(convert(args) if convert else args) for args in tests)


def _task(name: str, row: dict[str, Any]) -> CodeTask:
    prompt, entry = str(row["prompt"]), str(row["entry_point"])
    tests = (_arguments(name, row["task_id"], row["base_input"]), _arguments(name, row["task_id"], row["plus_input"]))
    if name == "humanevalplus":
        code = prompt + row["canonical_solution"]
        return CodeTask(row["task_id"], prompt, entry, prompt, code, *tests, float(row["atol"]), HUMANEVAL_RULES.get(entry, ""))
    prompt = prompt.strip().removeprefix('"""').removesuffix('"""').strip()
    rule = MBPP_RULES.get(entry, "") if name == "mbppplus" else ""
    return CodeTask(row["task_id"], prompt, entry, "", str(row["canonical_solution"]), *tests, float(row["atol"]), rule)


def tasks_of(name: str) -> tuple[str, tuple[CodeTask, ...]]:
    """Return the SHA-256 of a suite's lines and its tasks, in the order of the file.

    Raises
    ------
    InputError
        The file cannot be read, or is not one of tasks.
    RunError
        It had to be downloaded and could not be.
    """
    where, lines = lines_of(name)
    tasks: dict[str, CodeTask] = {}
    for number, line in enumerate(lines.splitlines(), 1):
        if not line.strip():
            continue
        try:
            task = _task(name, json.loads(line))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            missing = f"without {error}" if isinstance(error, KeyError) else "that is no task"
            raise InputError(where, f"line {number} {missing}", "a task in JSON on each line", "get the file anew") from None
        if task.id in tasks:
            raise InputError(where, f"{task.id} twice", "each task once", "get the file anew")
        tasks[task.id] = task
    if not tasks:
        raise InputError(where, "no task", "a task in JSON on each line", "get the file anew")
    return hashlib.sha256(lines).hexdigest(), tuple(tasks.values())
