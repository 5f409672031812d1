"""Local models: llama.cpp servers as child processes, one call at a time each, replaced when they die."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from real_loop.models.errors import Fault, brief
from sim.errors import InputError

BINARY = "HALFBLIND_LLAMA_SERVER"  # names a llama-server to run instead of the one in xllamacpp
CONTEXT = 4096  # tokens of prompt and answer together
STARTS_IN = 300.0  # seconds for a server to load its weights: a gigabyte from a slow disk
SHARE = 0.8  # of the memory left, for servers when nobody says how many
ENDS_IN = 3.0  # seconds between asking a server to end and making it


class Server:
    """One llama.cpp server in a process of its own.

    Parameters
    ----------
    weights
        A GGUF file.
    context
        Tokens of prompt and answer together.
    threads
        Threads it computes with.
    """

    def __init__(self, weights: Path, context: int = CONTEXT, threads: int = 1) -> None:
        self.weights, self.context, self.threads = weights, context, threads
        self.process: subprocess.Popen[bytes] | None = None
        self.address = ""
        self.said: IO[bytes] | None = None
        self.closed = False  # for good: a start under way in another thread must not outlive it

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the process and wait until it has loaded its weights.

        Raises
        ------
        Fault
            When it ends before that (``crash``), or takes longer than ``STARTS_IN`` seconds (``timeout``).
        """
        self.stop()
        words = [str(self.weights), "--context", str(self.context), "--threads", str(self.threads)]
        command = [sys.executable, "-m", "real_loop.models.server", *words]
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        keep = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_TOKEN", "_SECRET"))}
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - closed in stop
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            env={**keep, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C reaches the parent only; and the group can be ended as a whole
        )
        if self.closed:
            self.stop()
            raise Fault("crash", "closed while it started")
        line = self._line()
        try:
            self.address = json.loads(line)["address"]
        except (ValueError, KeyError, TypeError):
            status = self.process.poll()
            ended = status is not None
            last = self._last_words() + (f", status {status}" if status else "")
            self.stop()
            raise Fault("crash" if ended else "timeout", f"llama.cpp did not start with {self.weights}: {last}") from None

    def _line(self) -> bytes:
        """Read the line with the address; empty when there is none."""
        process, end, text = self.process, time.monotonic() + STARTS_IN, b""
        if process is None or process.stdout is None:
            return text
        with contextlib.suppress(OSError, ValueError):  # closed by another thread
            while not text.endswith(b"\n") and time.monotonic() < end:
                if select.select([process.stdout], [], [], 0.2)[0]:
                    block = os.read(process.stdout.fileno(), 4096)
                    if not block:
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            process.wait(ENDS_IN)
                        break
                    text += block
        return text

    def _last_words(self) -> str:
        if self.said is None:
            return "nothing said"
        self.said.seek(0)
        lines = [line for line in self.said.read().decode(errors="replace").splitlines() if line.strip()]
        return brief(" / ".join(lines[-2:]) or "nothing said", 300)

    def close(self) -> None:
        """End the process for good."""
        self.closed = True
        self.stop()

    def stop(self) -> None:
        """End the process, and whatever it started. Does nothing when it has ended."""
        process, self.process, self.address = self.process, None, ""
        if process is not None:
            for pipe in (process.stdin, process.stdout):  # the end of standard input is the sign to end
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDS_IN if process.returncode is None else 0)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self.said is not None:
            self.said.close()
            self.said = None


def how_many(weights: Path) -> int:
    """Return a number of servers: one for each core, as far as the memory goes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        left = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return cores
    # Measured: the weights are shared, 0.2 GB more for each server. Some builds copy a part of them into another order.
    each = weights.stat().st_size // 2 + (300 << 20)
    return max(1, min(cores, int(SHARE * left) // each))


def about(weights: Path, number: int, context: int) -> dict[str, Any]:
    """Return what a store should say of local servers."""
    binary = os.environ.get(BINARY)
    version = f"binary {Path(binary).name}" if binary else f"xllamacpp {importlib.metadata.version('xllamacpp')}"
    return {"weights": weights.name, "bytes": weights.stat().st_size, "servers": number, "context": context, "llama.cpp": version}


def needed() -> None:
    """Raise InputError when nothing is there to run a local model with."""
    binary = os.environ.get(BINARY)
    if binary and shutil.which(binary) is None:
        raise InputError(BINARY, binary, "a llama-server binary that can be run", "correct the path, or unset it to use xllamacpp")
    if not binary and importlib.util.find_spec("xllamacpp") is None:
        todo = f"pip install 'halfblind[local]', or set {BINARY} to a llama-server binary"
        raise InputError("model=local/...", "no xllamacpp package", "llama.cpp to run it", todo)


async def start(weights: Path, number: int, context: int = CONTEXT) -> list[Server]:
    """Start servers of one thread each, at once.

    Raises
    ------
    InputError
        When they do not start.
    """
    servers = [Server(weights, context) for _ in range(number)]
    try:
        results: list[Any] = await asyncio.gather(*(asyncio.to_thread(s.start) for s in servers), return_exceptions=True)
    except BaseException:  # cancelled
        for server in servers:
            server.close()
        raise
    failed = next((r for r in results if isinstance(r, BaseException)), None)
    if failed is not None:
        for server in servers:
            server.close()
        if isinstance(failed, Fault):
            todo = "check the file, the memory left and, if set, HALFBLIND_LLAMA_SERVER"
            raise InputError("model", f"local: {failed.detail}", "weights that llama.cpp can load", todo)
        raise failed
    return servers
