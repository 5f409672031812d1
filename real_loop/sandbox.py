"""Run untrusted Python: each program in a fresh process, cut off from files, network and other processes, within limits.

Bubblewrap gives the process namespaces of its own and a file system with nothing but the interpreter, its library and a small
private /tmp; a filter of system calls (`real_loop.seccomp`) forbids new processes and sockets; limits bound CPU, memory and
what it writes. The mode ``limits`` has the limits alone, for machines without bubblewrap: it keeps honest mistakes in bounds
and protects from nothing else.
"""

from __future__ import annotations

import contextlib
import marshal
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from real_loop import seccomp
from real_loop.watch import end, memory_file, watch
from sim.errors import InputError, RunError

MODES = ("bubblewrap", "limits")
LIMITS_ONLY = (
    "which does not protect: the code can use the network, read and write your files, start processes, end yours "
    "and outlive its run; only CPU time, memory per process and output are limited"
)
_TMP_BYTES = 16 << 20  # of the private /tmp, and of any one file
_THREADS = 64
_FILES = 64
_READY = b"\x06"  # first byte on standard output: the limits are in place, what follows is the program's

# The first thing that runs inside: limits itself, then takes the program from the head of its standard input, and the rest of
# that is the program's own. The number of processes is limited here and not before: bubblewrap itself has to start some.
_START = """
import marshal, os, resource, sys
strict, cpu, memory, processes, size, files, length = map(int, sys.argv[1:])
for what, limit in (("CPU", cpu), ("AS", memory), ("NPROC", processes), ("FSIZE", size), ("NOFILE", files), ("CORE", 0)):
    try:
        resource.setrlimit(getattr(resource, "RLIMIT_" + what), (limit, limit + (what == "CPU")))
    except (ValueError, OSError):
        if strict:
            raise
text = b""
while len(text) < length:
    text += os.read(0, length - len(text))
sys.argv[:] = ["program"]
os.write(1, b"\\x06")
exec(marshal.loads(text[1:]) if text[:1] == b"c" else compile(text[1:], "<program>", "exec"), {"__name__": "__main__"})
"""
# Nothing of the host's environment. One hash seed for all: the order of a set of strings must not decide whether code passes.
_ENVIRONMENT = {"PATH": "/usr/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}
_PYTHON = ("-P", "-s", "-S", "-B", "-c", _START)  # -I would ignore the hash seed; of what it keeps away, nothing is here


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Parameters
    ----------
    status
        "ok" (exit status 0), "exit" (another one), "signal", "timeout" (CPU or wall clock), "memory" (ended by MemoryError)
        or "output" (more than was allowed).
    returncode
        The exit status; minus the signal's number where a signal ended it.
    stdout
        What it printed, at most as much as was allowed.
    stderr
        The end of what it said on standard error.
    seconds
        Wall clock, start and end of the process included.
    """

    status: str
    returncode: int
    stdout: bytes
    stderr: str
    seconds: float


@dataclass(frozen=True)
class Sandbox:
    """A way to run untrusted Python; made by `find`. Safe to use from many threads at once.

    Parameters
    ----------
    mode
        "bubblewrap" or "limits".
    unprotected
        What this sandbox does not protect from, as a text to show; empty when there is nothing to say.
    command
        The command line up to the interpreter's own arguments.
    """

    mode: str
    unprotected: str
    command: tuple[str, ...]

    def run(
        self,
        program: str | CodeType,
        stdin: bytes = b"",
        *,
        seconds: float,
        wall: float | None = None,
        memory_mb: int = 1024,
        output_bytes: int = 1 << 20,
    ) -> Outcome:
        """Run a program, and wait for its end and that of all it started.

        Parameters
        ----------
        program
            Source, or code already compiled by this interpreter (then it must be trusted: compiling happens here).
        stdin
            What it finds on standard input.
        seconds
            Limit on CPU time, rounded up to whole seconds. A machine busy with other things does not use it up.
        wall
            Limit on the wall clock in seconds; by default two and a half times the CPU limit plus ten seconds.
        memory_mb
            Limit on the address space, in MiB.
        output_bytes
            Limit on standard output; a program that goes beyond it is ended.

        Raises
        ------
        RunError
            The sandbox itself could not start, twice.
        """
        cpu = max(1, math.ceil(seconds))
        text = b"c" + marshal.dumps(program) if isinstance(program, CodeType) else b"s" + program.encode("utf-8", "surrogatepass")
        strict = self.mode == "bubblewrap"
        processes = _THREADS if strict else 0  # limits: counted over all processes of the user, so none may be added
        numbers = (int(strict), cpu, memory_mb << 20, processes, _TMP_BYTES, _FILES, len(text))
        arguments = [*_PYTHON, *map(str, numbers)]
        limit = 2.5 * cpu + 10 if wall is None else wall
        for last in (False, True):
            outcome = self._once(arguments, text + stdin, cpu, limit, output_bytes)
            if outcome.stdout[:1] == _READY:
                break
            if last or outcome.status == "timeout":
                why = " ".join(outcome.stderr.split())[-300:] or f"{outcome.status} {outcome.returncode}"
                raise RunError("sandbox", why, "a process of its own to start", "try again, with fewer at once if the machine is full")
            time.sleep(0.2)
        return Outcome(outcome.status, outcome.returncode, outcome.stdout[1 : 1 + output_bytes], outcome.stderr, outcome.seconds)

    def _once(self, arguments: list[str], stdin: bytes, cpu: int, wall: float, output_bytes: int) -> Outcome:
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            command, folder = list(self.command), "/"
            inherited: tuple[int, ...] = ()
            if self.mode == "bubblewrap":
                rules = seccomp.program()
                if rules is not None:
                    filters = stack.enter_context(memory_file(rules))
                    inherited = (filters,)
                    command[1:1] = ["--seccomp", str(filters)]
            else:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="halfblind-", ignore_cleanup_errors=True))
            given = stack.enter_context(memory_file(stdin))
            try:
                process = subprocess.Popen(
                    [*command, *arguments],
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=_ENVIRONMENT,
                    cwd=folder,
                    pass_fds=inherited,
                    start_new_session=True,
                    bufsize=0,
                )
            except OSError as error:
                return Outcome("exit", 126, b"", str(error), time.monotonic() - began)
            try:
                out, err, why = watch(process, began + wall, output_bytes + len(_READY))
            finally:  # whatever happens, an interrupt too: nothing of it is left
                end(process)
                for pipe in (process.stdout, process.stderr):
                    if pipe is not None:
                        pipe.close()
        took = time.monotonic() - began
        code = process.returncode
        code = 128 - code if self.mode == "bubblewrap" and code > 128 else code  # how bubblewrap passes on a signal
        said = err.decode("utf-8", "replace")
        if why:
            return Outcome(why, code, out, said, took)
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and took >= cpu):
            return Outcome("timeout", code, out, said, took)
        if code < 0:
            return Outcome("signal", code, out, said, took)
        if code and said.rstrip().rpartition("\n")[2].startswith("MemoryError"):
            return Outcome("memory", code, out, said, took)
        return Outcome("exit" if code else "ok", code, out, said, took)


def _bubblewrap(program: str, python: Path) -> tuple[str, ...]:
    """Return the command line that starts the interpreter in namespaces of its own."""
    command = [program, "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"]
    command += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    command += ["--size", str(_TMP_BYTES), "--tmpfs", "/tmp", "--ro-bind", "/usr", "/usr"]  # first: the interpreter may be below /tmp
    for name in ("lib", "lib64", "lib32", "bin"):
        path = Path("/", name)
        if path.is_symlink():
            command += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    home = Path(sys.base_prefix).resolve()
    for folder in {python.parent, home / "lib", home / "lib64"}:
        if not folder.is_relative_to("/usr") and folder.is_dir() and folder not in (Path("/bin"), Path("/lib"), Path("/lib64")):
            command += ["--ro-bind", str(folder), str(folder)]
    # Installed packages may hold tasks with their solutions, halfblind's own among them.
    for packages in sorted({*home.glob("lib*/python3*/*-packages"), *Path("/usr").glob("lib/python3*/*-packages")}):
        if packages.is_dir():
            command += ["--tmpfs", str(packages)]
    if home.is_relative_to("/nix/store"):
        command += ["--ro-bind", "/nix/store", "/nix/store"]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for device in ("/dev/null", "/dev/zero", "/dev/urandom"):
        command += ["--dev-bind", device, device]
    # The root is a file system in memory too: closed, or it could be filled. No /proc: nothing here needs it.
    command += ["--remount-ro", "/", "--chdir", "/tmp", "--", str(python)]
    return tuple(command)


def find(mode: str = "bubblewrap") -> Sandbox:
    """Find a sandbox that works here: a trivial program is run in it first.

    Raises
    ------
    InputError
        No such mode, or bubblewrap is not here or does not work.
    """
    if mode not in MODES:
        raise InputError("sandbox", mode, " or ".join(MODES))
    python = Path(sys.executable).resolve()
    if mode == "limits":
        return Sandbox(mode, LIMITS_ONLY, (str(python),))
    todo = f"install bubblewrap 0.8 or newer (apt install bubblewrap), or say sandbox=limits, {LIMITS_ONLY}"
    program = shutil.which("bwrap")
    if program is None:
        raise InputError("sandbox", "no bwrap on this machine", "bubblewrap", todo)
    missing = "" if seccomp.program() is not None else "new processes, up to 64, as no filter of system calls is known for this machine"
    sandbox = Sandbox(mode, missing, _bubblewrap(program, python))
    try:
        outcome = sandbox.run("print('works')", seconds=10)
    except RunError as error:
        raise InputError("sandbox", f"a bwrap that does not work ({error.got})", "bubblewrap", todo) from None
    if outcome.stdout != b"works\n":
        raise InputError("sandbox", f"a bwrap that does not work ({outcome.stderr.strip()[-200:]})", "bubblewrap", todo)
    return sandbox
