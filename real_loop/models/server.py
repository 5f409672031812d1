"""One llama.cpp server in a process of its own: ``python -m real_loop.models.server WEIGHTS --context N --threads N``.

Listens on 127.0.0.1, prints its address as one line of JSON when it is ready, and ends when its standard input ends or its
parent is gone: so none is left over, however the parent ended. HALFBLIND_LLAMA_SERVER names a llama-server binary to run
instead of the one in the xllamacpp package.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from real_loop.models.local import BINARY

LOOK = 0.5  # seconds between looks at the parent


def watch(parent: int, end: Callable[[], None]) -> None:
    """End this process once standard input has ended, or the parent is another one than at the start."""
    while True:
        ready, _, _ = select.select([0], [], [], LOOK)
        if (ready and not os.read(0, 4096)) or os.getppid() != parent:
            end()
            os._exit(0)


def announce(out: int, address: str) -> None:
    """Tell the parent where to reach the server."""
    os.write(out, (json.dumps({"address": address, "pid": os.getpid()}) + "\n").encode())


def in_process(arguments: argparse.Namespace, out: int) -> None:
    """Serve from the xllamacpp package. One slot: with several, what an answer is depends on what is computed beside it."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = arguments.weights
    params.n_ctx = arguments.context
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.ui = False
    params.verbosity = 0
    params.n_threads_http = 2
    params.cache_ram_mib = 0  # prompts kept in memory: 8 GiB by default, and of no use without prompt caching
    params.warmup = False
    server = xllamacpp.Server(params)
    announce(out, server.listening_address)
    threading.Event().wait()


def with_binary(binary: str, arguments: argparse.Namespace, out: int, parent: int) -> None:
    """Serve with a llama-server binary: the same settings, by those of its options this version knows."""
    known = subprocess.run([binary, "--help"], capture_output=True, text=True, timeout=60, check=False).stdout
    options = [("--cache-ram", ["--cache-ram", "0"]), ("--no-webui", ["--no-webui"]), ("--no-slots", ["--no-slots"])]
    optional = [word for name, words in options if name in known for word in words]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    name = f"halfblind-{os.getpid()}"  # asked for below: a stranger may have taken the port in between
    threads = str(arguments.threads)
    words = ["-m", arguments.weights, "-c", str(arguments.context), "-np", "1", "-t", threads, "-tb", threads, "--no-warmup"]
    words += ["--host", "127.0.0.1", "--port", str(port), "--alias", name, "--threads-http", "2", *optional]
    child = subprocess.Popen([binary, *words], stdin=subprocess.DEVNULL, stdout=2, preexec_fn=die_with_parent)
    threading.Thread(target=watch, args=(parent, child.kill), daemon=True).start()
    address = f"http://127.0.0.1:{port}"
    while child.poll() is None:
        if ready(address, name):
            announce(out, address)
            break
        time.sleep(0.1)
    sys.exit(child.wait() and 1)


def ready(address: str, name: str) -> bool:
    """Tell whether the server with this name has loaded its weights."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by way of a proxy
    try:
        with opener.open(address + "/health", timeout=2) as health, opener.open(address + "/v1/models", timeout=2) as models:
            return health.status == 200 and name in models.read().decode()
    except (OSError, ValueError):
        return False


def die_with_parent() -> None:
    """Ask Linux to end this process with its parent: the binary does not look at its standard input itself."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> None:
    """Run one server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("weights")
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    parent = os.getppid()
    out = os.dup(1)
    os.dup2(2, 1)  # llama.cpp prints to standard output too, which is for the address alone
    os.set_inheritable(out, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this one
    binary = os.environ.get(BINARY)
    if binary:
        with_binary(binary, arguments, out, parent)
    else:
        threading.Thread(target=watch, args=(parent, _nothing), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            in_process(arguments, out)


def _nothing(*_: Any) -> None:
    return None


if __name__ == "__main__":
    main()
