"""The sandbox against code that means harm: it must be stopped, see nothing of this machine and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from real_loop import sandbox, seccomp
from real_loop.sandbox import Sandbox
from sim.errors import InputError, RunError
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def box() -> Sandbox:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return sandbox.find()


@pytest.fixture
def unfiltered(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """The sandbox without its filter of system calls: what namespaces alone hold."""
    monkeypatch.setattr(seccomp, "program", lambda machine="": None)
    return box


def processes(marker: str) -> list[int]:
    """Processes of this machine with a word in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line.split(b"\0"):
                found.append(int(entry.name))
    return found


def gone(marker: str) -> bool:
    """Whether they end within a second."""
    for _ in range(100):
        if not processes(marker):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        ("print('a'); import sys; print(sys.stdin.read())", "ok", b"a\ninput\n"),
        ("import sys; print(sys.argv, sys.path[:1] == ['']); sys.exit(0)", "ok", b"['program'] False\n"),
        ("raise SystemExit(3)", "exit", b""),
        ("1 / 0", "exit", b""),
        ("while True: pass", "timeout", b""),
        (
            "import signal\nfor n in range(1, 32):\n  try: signal.signal(n, signal.SIG_IGN)\n  except OSError: pass\nwhile 1: pass",
            "timeout",
            b"",
        ),
        ("x = bytearray(10**10)", "memory", b""),
        ("x = []\nwhile True: x.append(bytes(10**6))", "memory", b""),
        ("import os; os.abort()", "signal", b""),
        ("import os; os._exit(0)", "ok", b""),
    ],
)
def test_outcomes(box: Sandbox, program: str, status: str, said: bytes) -> None:
    outcome = box.run(program, b"input", seconds=1, memory_mb=256)
    assert (outcome.status, outcome.stdout) == (status, said)
    assert outcome.seconds < 15


def test_stderr_is_kept_in_part(box: Sandbox) -> None:
    assert box.run("1 / 0", seconds=2).stderr.strip().endswith("ZeroDivisionError: division by zero")
    assert len(box.run("import sys; sys.stderr.write('x' * 10**6)", seconds=2).stderr) == 4096


def test_a_sleeper_is_ended_by_the_wall_clock(box: Sandbox) -> None:
    outcome = box.run("import time; print('began', flush=True); time.sleep(100)", seconds=1, wall=1)
    assert (outcome.status, outcome.stdout) == ("timeout", b"began\n")
    assert outcome.seconds < 10


def test_printing_without_end_fills_nothing(box: Sandbox) -> None:
    outcome = box.run("while True: print('x' * 10**6)", seconds=30, output_bytes=10_000)
    assert (outcome.status, len(outcome.stdout)) == ("output", 10_000)
    assert outcome.seconds < 15


def test_nothing_of_the_environment_is_seen(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    assert b"hunter2" not in box.run("import os; print(dict(os.environ), os.getuid())", seconds=2).stdout
    said = box.run("print(open('/proc/self/environ', 'rb').read())", seconds=2)
    assert said.status == "exit"
    assert "No such file" in said.stderr


def test_nothing_of_the_file_system_is_seen(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    hidden = [
        secret,
        ROOT / "README.md",
        Path(sandbox.__file__),
        Path("/etc/passwd"),
        Path("/proc/1"),
        Path("/sys"),
        Path("/var"),
        Path("/run"),
    ]
    program = f"import os\nprint([p for p in {list(map(str, hidden))!r} if os.path.exists(p)], os.listdir('/tmp'))"
    assert box.run(program, seconds=2).stdout == b"[] []\n"


def test_nothing_outside_is_written(box: Sandbox, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    program = f"""
for place in ({str(tmp_path)!r}, "/", "/usr", "/dev", "/home", "/etc", "/root", "."):
    try:
        open(place + "/mark", "w").write("x")
        print(place)
    except OSError:
        pass
"""
    assert box.run(program, seconds=2).stdout == b".\n"  # its own /tmp
    assert not list(tmp_path.iterdir())
    assert not Path("/tmp/mark").exists()


def test_its_folder_is_small(box: Sandbox) -> None:
    program = """
def fill(name, piece):
    total = 0
    try:
        with open(name, "wb", buffering=0) as file:
            for _ in range(1000):
                total += file.write(piece)
    except OSError:
        pass
    return total
print(sum(fill(f"/tmp/{i}", bytes(1 << 20)) for i in range(5)) <= 16 << 20)
"""
    assert box.run(program, seconds=5).stdout == b"True\n"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


CONNECT = """
import socket
with socket.socket() as s:
    s.settimeout(1)
    s.connect(("127.0.0.1", {port}))
print("reached")
"""


def reached(box: Sandbox, server: socket.socket) -> bool:
    outcome = box.run(CONNECT.format(port=server.getsockname()[1]), seconds=2)
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return outcome.stdout != b""
    return True


def test_no_network(box: Sandbox, listener: socket.socket) -> None:
    assert not reached(box, listener)


def test_no_network_even_without_the_filter(unfiltered: Sandbox, listener: socket.socket) -> None:
    assert not reached(unfiltered, listener)


@pytest.mark.skipif(seccomp.program() is None, reason="no filter for this machine")
@pytest.mark.parametrize(
    "call",
    [
        "os.fork()",
        "os.posix_spawn('/usr/bin/env', ['env'], {})",
        "__import__('subprocess').run(['/usr/bin/env'])",
        "__import__('socket').socket(40)",
        "os.memfd_create('x')",
    ],
)
def test_the_filter_denies(box: Sandbox, call: str) -> None:
    outcome = box.run(f"import os\n{call}\nprint('done')", seconds=2)
    assert (outcome.status, outcome.stdout) == ("exit", b"")
    assert "Operation not permitted" in outcome.stderr


def test_threads_are_allowed(box: Sandbox) -> None:
    program = "import threading\nt = threading.Thread(target=print, args=('in',))\nt.start()\nt.join()"
    assert box.run(program, seconds=2).stdout == b"in\n"


def test_a_fork_bomb_is_nothing(box: Sandbox) -> None:
    outcome = box.run("import os\nwhile True: os.fork()", seconds=1, memory_mb=771)
    assert outcome.status == "exit"
    assert gone(str(771 << 20))


def test_no_child_outlives_its_run(unfiltered: Sandbox) -> None:
    daemon = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(64):
            try: os.close(fd)
            except OSError: pass
        while True: time.sleep(1)
    os._exit(0)
os.wait()
print("left", flush=True)
"""
    assert unfiltered.run(daemon, seconds=2, memory_mb=772).stdout == b"left\n"
    assert gone(str(772 << 20))
    assert unfiltered.run(daemon + "time.sleep(100)", seconds=2, wall=1, memory_mb=773).status == "timeout"
    assert gone(str(773 << 20))


@pytest.mark.parametrize("target", ["os.getppid()", "-1", "1", "0", "this process", "its parent"])
def test_nobody_else_is_killed(box: Sandbox, target: str) -> None:
    target = {"this process": str(os.getpid()), "its parent": str(os.getppid())}.get(target, target)
    outcome = box.run(f"import os, signal\nos.kill({target}, signal.SIGKILL)\nprint('alive')", seconds=2)
    assert outcome.status in ("ok", "exit", "signal")  # and this process is there to say so


def test_an_interrupt_ends_it_too(box: Sandbox) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            box.run("import time; time.sleep(100)", seconds=5, memory_mb=774)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert gone(str(774 << 20))


def test_many_at_once(box: Sandbox) -> None:
    handles = len(os.listdir("/proc/self/fd"))
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda n: box.run(f"print({n}, input())", b"x" * n, seconds=5).stdout, range(1, 41)))
    assert outcomes == [f"{n} {'x' * n}\n".encode() for n in range(1, 41)]
    assert len(os.listdir("/proc/self/fd")) == handles


def test_long_programs_and_inputs(box: Sandbox) -> None:
    program = "import sys\n" + "x = 1\n" * 50_000 + "print(len(sys.stdin.buffer.read()))"
    assert box.run(program, bytes(3_000_000), seconds=5).stdout == b"3000000\n"


def test_limits_alone() -> None:
    box = sandbox.find("limits")
    assert "network" in box.unprotected
    assert box.run("import os; print(input(), sorted(os.environ))", b"a", seconds=2).stdout.startswith(b"a ['HOME', ")
    assert box.run("while True: pass", seconds=1).status == "timeout"
    assert box.run("x = bytearray(10**10)", seconds=1).status == "memory"
    assert box.run("while True: print('x' * 10**6)", seconds=5).status == "output"


def test_modes_are_named() -> None:
    with pytest.raises(InputError, match="sandbox: got jail, expected bubblewrap or limits"):
        sandbox.find("jail")


def test_without_bubblewrap_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"no bwrap.*install bubblewrap.*sandbox=limits, which does not protect"):
        sandbox.find()
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: no permission to make namespaces' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(InputError, match=r"does not work .bwrap: no permission to make namespaces") as error:
        sandbox.find()
    assert "\n" not in str(error.value)


def test_a_sandbox_that_does_not_start_is_no_verdict(box: Sandbox) -> None:
    broken = Sandbox("bubblewrap", "", (*box.command[:1], "--ro-bind", "/nowhere", "/nowhere", *box.command[1:]))
    with pytest.raises(RunError, match="nowhere"):
        broken.run("pass", seconds=1)


def test_filters_exist_for_known_machines() -> None:
    for machine in ("x86_64", "aarch64"):
        rules = seccomp.program(machine)
        assert rules is not None
        assert len(rules) % 8 == 0
    assert seccomp.program("mips") is None
