"""Local models: servers as child processes, replaced when they die, none left over. Once with a script in the place of llama.cpp,
and, where weights are found, with the real thing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from real_loop.models import Budget, Overflow, Patience, Request, catalogue, open_client
from real_loop.models.local import BINARY
from sim.errors import InputError
from tests.conftest import ROOT

REAL = os.environ.get(BINARY)
QUICK = Patience(timeout=60, tries=4, absent=8, total=120, first=0.02, longest=0.2)
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["good", "bad"]}, "grade": {"type": "integer", "minimum": 3, "maximum": 5}},
    "required": ["verdict", "grade"],
    "additionalProperties": False,
}
ASK = Request("be brief", "Grade the word bread.", 1.0, 60, 7, SCHEMA)

SCRIPT = """\
#!{python}
import json, os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

if "--help" in sys.argv:
    sys.exit(print("--cache-ram N  --no-webui"))
option = dict(zip(sys.argv[1:], sys.argv[2:]))
assert option["-np"] == option["-t"] == option["-tb"] == "1" and option["--cache-ram"] == "0" and option["--host"] == "127.0.0.1"
if os.path.getsize(option["-m"]) == 5:
    sys.exit("llama.cpp: these are no weights")
busy = 0

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def say(self, body):
        text = json.dumps(body).encode()
        self.send_response(200); self.send_header("Content-Type", "application/json"); self.send_header("Content-Length", str(len(text)))
        self.end_headers(); self.wfile.write(text)
    def do_GET(self):
        self.say({{"data": [{{"id": option["--alias"]}}]}})
    def do_POST(self):
        global busy
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = body["messages"][-1]["content"]
        assert body["cache_prompt"] is False and busy == 0
        busy += 1
        time.sleep(0.05)
        if said.startswith("die ") and not os.path.exists(said[4:]):
            open(said[4:], "w").close()
            os.kill(os.getpid(), 9)
        if said.startswith("hang ") and not os.path.exists(said[5:]):
            open(said[5:], "w").close()
            time.sleep(60)
        text = json.dumps({{"verdict": "good", "grade": 3 + body["seed"] % 3}}) if "response_format" in body else str(os.getpid())
        choice = {{"index": 0, "message": {{"role": "assistant", "content": text}}, "finish_reason": "stop"}}
        busy -= 1
        self.say({{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice],
                  "usage": {{"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}}})

ThreadingHTTPServer(("127.0.0.1", int(option["--port"])), Handler).serve_forever()
"""
PARENT = """\
import asyncio, sys
from real_loop.models import open_client
async def main():
    client = await open_client(sys.argv[1], servers=2)
    print(" ".join(str(s.process.pid) for s in client.servers), flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        await client.close()
asyncio.run(main())
"""

pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes the way of Linux"),
]


@pytest.fixture(params=["script", pytest.param("xllamacpp", marks=pytest.mark.slow), pytest.param("binary", marks=pytest.mark.slow)])
def spec(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name a local model: one of a script, of the package, and of the binary named in the environment."""
    pytest.importorskip("inspect_ai", reason="needs inspect_ai: pip install 'halfblind[real]'")
    weights = catalogue.folder() / catalogue.CATALOGUE["smollm2-135m"].file
    before = set(children())
    if request.param == "script":
        (tmp_path / "llama-server").write_text(SCRIPT.format(python=sys.executable))
        (tmp_path / "llama-server").chmod(0o755)
        (tmp_path / "any.gguf").write_bytes(b"GGUF" + bytes(96))
        monkeypatch.setenv(BINARY, str(tmp_path / "llama-server"))
        yield f"local/{tmp_path / 'any.gguf'}"
    else:
        if not weights.is_file():
            pytest.skip(f"needs the weights of smollm2-135m at {weights}")
        if request.param == "xllamacpp":
            pytest.importorskip("xllamacpp", reason="needs xllamacpp: pip install 'halfblind[local]'")
            monkeypatch.delenv(BINARY, raising=False)
        elif not REAL:
            pytest.skip(f"needs a llama-server, named in {BINARY}")
        yield "local/smollm2-135m"
    assert gone(set(children()) - before)


def processes() -> dict[int, tuple[int, str]]:
    """Return the parent and the command of each process, of those that run."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                _, _, rest = (folder / "stat").read_text().rpartition(")")
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            state, parent = rest.split()[:2]
            if state != "Z":
                found[int(folder.name)] = (int(parent), words)
    return found


def children(of: int | None = None) -> list[int]:
    """Return the processes below one, its own children and theirs."""
    table, found, todo = processes(), [], [of or os.getpid()]
    while todo:
        parent = todo.pop()
        below = [pid for pid, (above, _) in table.items() if above == parent]
        found += below
        todo += below
    return found


def gone(pids: set[int], seconds: float = 6.0) -> bool:
    """Tell whether all these processes end within some seconds."""
    end = time.monotonic() + seconds
    while pids & set(processes()) and time.monotonic() < end:
        time.sleep(0.05)
    return not pids & set(processes())


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_two_servers(spec: str) -> None:
    """Answers have the form asked for, bounds included, and are the same whatever was asked before and of whichever server."""

    async def work() -> None:
        budget = Budget()
        client = await open_client(spec, servers=2, budget=budget, patience=QUICK)
        assert client.slots == 2
        assert client.about()["servers"] == 2
        asks = [replace(ASK, seed=s, user=f"Grade the word {w}.") for s, w in enumerate(["bread", "war", "love", "sky"])]
        first = await asyncio.gather(*(client.generate(a) for a in asks))
        again = await asyncio.gather(*(client.generate(a) for a in reversed(asks)))
        assert [r.text for r in first] == [r.text for r in reversed(again)]
        for reply in first:
            answer = json.loads(reply.text)
            assert answer["verdict"] in ("good", "bad")
            assert 3 <= answer["grade"] <= 5
            assert (reply.cost, reply.model) == (0.0, spec)
            assert reply.output_tokens > 0
        assert len({r.text for r in first}) > 1
        assert budget.spent.faults == {}
        await client.close()

    run(work())


def test_killed_server_is_replaced(spec: str) -> None:
    async def work() -> None:
        budget = Budget()
        client = await open_client(spec, servers=1, budget=budget, patience=QUICK)
        before = (await client.generate(ASK)).text
        (server,) = client.servers  # type: ignore[attr-defined]
        old = server.process.pid
        victims = {old, *children(old)}
        os.kill(old, signal.SIGKILL)
        assert gone(victims)
        assert (await client.generate(ASK)).text == before
        assert server.process.pid != old
        long = asyncio.create_task(client.generate(replace(ASK, user="Tell me a story.", max_tokens=120, schema=None)))
        await asyncio.sleep(0.3 if "smollm2" in spec else 0.02)
        os.kill(server.process.pid, signal.SIGKILL)
        assert (await long).text
        assert (await client.generate(ASK)).text == before
        assert set(budget.spent.faults) <= {"crash"}
        assert budget.spent.calls == 4
        await client.close()

    run(work())


def no_process_is_left(spec: str, sign: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, spec], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    try:
        assert parent.stdout is not None
        servers = {int(word) for word in parent.stdout.readline().split()}
        below = set(children(parent.pid))
        assert len(servers) == 2
        assert servers <= below
        parent.send_signal(sign)
        parent.wait(20)
        assert gone(below)
    finally:
        parent.kill()
        parent.communicate()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_no_process_is_left(spec: str, sign: signal.Signals) -> None:
    """However the run ends: killed, stopped by Ctrl-C, terminated."""
    no_process_is_left(spec, sign)


def test_prompt_too_long(spec: str) -> None:
    if "smollm2" not in spec:
        pytest.skip("a matter of the real server")

    async def work() -> None:
        client = await open_client(spec, servers=1, context=256, patience=QUICK)
        try:
            await client.generate(replace(ASK, user="bread and butter " * 300))
        finally:
            await client.close()

    with pytest.raises(Overflow):
        run(work())


@pytest.fixture
def script(spec: str) -> str:
    if "smollm2" in spec:
        pytest.skip("a matter of the script")
    return spec


@pytest.mark.parametrize(("what", "kind"), [("die", "crash"), ("hang", "timeout")])
def test_call_is_repeated(script: str, tmp_path: Path, what: str, kind: str) -> None:
    """A server that dies or hangs in the middle of a call costs another start, and the call is made again."""

    async def work() -> None:
        budget = Budget()
        client = await open_client(script, servers=1, budget=budget, patience=replace(QUICK, timeout=2))
        old = (await client.generate(replace(ASK, schema=None))).text
        reply = await client.generate(replace(ASK, user=f"{what} {tmp_path / 'once'}", schema=None))
        assert reply.text != old  # of another process
        assert budget.spent.faults == {kind: 1}
        assert budget.spent.calls == 2
        await client.close()

    run(work())


def test_weights_that_do_not_load(script: str, tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF!")
    with pytest.raises(InputError, match=r"these are no weights") as caught:
        run(open_client(f"local/{tmp_path / 'bad.gguf'}", servers=2))
    assert "\n" not in str(caught.value)


def test_cancelled_while_it_starts(script: str) -> None:
    async def work() -> None:
        opening = asyncio.create_task(open_client(script, servers=2))
        await asyncio.sleep(0.15)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    run(work())


def test_nothing_to_run_it_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "any.gguf").write_bytes(b"GGUF")
    spec = f"local/{tmp_path / 'any.gguf'}"
    monkeypatch.setenv(BINARY, str(tmp_path / "none"))
    with pytest.raises(InputError, match=BINARY):
        run(open_client(spec))
    monkeypatch.delenv(BINARY)
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    with pytest.raises(InputError, match=r"pip install 'halfblind\[local\]'"):
        run(open_client(spec))


def test_keys_are_not_handed_down(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789")

    async def work() -> None:
        client = await open_client(script, servers=1)
        for pid in children():
            assert b"sk-0123456789" not in Path(f"/proc/{pid}/environ").read_bytes()
        await client.close()

    run(work())
