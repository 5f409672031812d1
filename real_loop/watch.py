"""Feed a process, read what it says up to a limit of bytes and time, and end it with all its group."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator

_TAIL = 4096  # bytes of standard error that are kept


@contextlib.contextmanager
def memory_file(content: bytes) -> Iterator[int]:
    """Give a descriptor to read these bytes from: no pipe to fill, no thread to fill it, and no writing to it afterwards."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("halfblind", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(handle, view) :]
        if hasattr(os, "memfd_create"):
            fcntl.fcntl(handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        os.lseek(handle, 0, os.SEEK_SET)
        yield handle
    finally:
        os.close(handle)


def watch(process: subprocess.Popen[bytes], deadline: float, most: int) -> tuple[bytes, bytes, str]:
    """Read what a process says until it ends, the deadline or too much; return both outputs and why it must be ended, if so."""
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.fileno(), process.stderr.fileno()
    said: dict[int, bytearray] = {out: bytearray(), err: bytearray()}
    poll = select.poll()
    for handle in said:
        os.set_blocking(handle, False)
        poll.register(handle, select.POLLIN)
    ended = -1
    with contextlib.suppress(AttributeError, OSError):
        ended = os.pidfd_open(process.pid)
        poll.register(ended, select.POLLIN)
    try:
        open_ends, gone = 2, False
        while open_ends or not gone:
            left = deadline - time.monotonic()
            if left <= 0:
                return bytes(said[out]), bytes(said[err]), "" if gone else "timeout"
            ready = poll.poll(1000 * (left if ended >= 0 else min(left, 0.02)) + 1)
            for handle, _ in ready:
                if handle == ended:
                    continue
                chunk = _read(handle)
                if chunk is None:
                    poll.unregister(handle)
                    open_ends -= 1
                    continue
                said[handle] += chunk
                if handle == err:
                    del said[err][:-_TAIL]
                elif len(said[out]) > most:
                    return bytes(said[out][:most]), bytes(said[err]), "output"
            if not gone and _has_ended(process.pid):
                gone = True
                if ended >= 0:
                    poll.unregister(ended)
                end(process)
                # Its namespace dies with it, and then the pipes close. A stray process without a namespace may hold them on.
                deadline = min(deadline, time.monotonic() + 0.5)
    finally:
        if ended >= 0:
            os.close(ended)
    return bytes(said[out]), bytes(said[err]), ""


def _read(handle: int) -> bytes | None:
    """Read what is there; None at the end."""
    try:
        return os.read(handle, 1 << 16) or None
    except BlockingIOError:
        return b""


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group, and collect it. With bubblewrap's end the kernel ends all that is in its namespace."""
    if process.returncode is None:  # so far nobody else can have its number
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
