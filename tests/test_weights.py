"""Weights: found, downloaded, gone on with, checked once, refused when they are others. The hub is one of this machine."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from real_loop.models import catalogue, local, open_client
from sim.errors import InputError
from tests.misbehaving import Listener, free_port


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str | None]]:
    """Serve a small file as the weights of ``tiny``; return the ranges asked for."""
    content = b"GGUF" + bytes(range(256)) * 9000
    weights = catalogue.Weights("tiny", "tiny.gguf", len(content), hashlib.sha256(content).hexdigest(), "some/repo", "Tiny.gguf")
    monkeypatch.setitem(catalogue.CATALOGUE, "tiny", weights)
    monkeypatch.setattr(local, "needed", lambda: None)
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HALFBLIND_MODELS", str(tmp_path / "models"))
    asked: list[str | None] = []

    def start(cut: int | None = None, ranges: bool = True, wrong: bool = False) -> list[str | None]:
        class Hub(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                return None

            def do_GET(self) -> None:
                asked.append(self.headers.get("Range"))
                assert self.path == "/some/repo/resolve/main/Tiny.gguf"
                begin = int(asked[-1].removeprefix("bytes=").removesuffix("-")) if asked[-1] and ranges else 0
                body = (content[:-1] + b"?")[begin:] if wrong else content[begin:]
                self.send_response(206 if begin else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body if cut is None or len(asked) > 1 else body[:cut])

        listener = Listener(("127.0.0.1", 0), Hub)
        threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{listener.server_address[1]}")
        return asked

    return start


def test_download(hub: Callable[..., list[str | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hub()
    path = catalogue.find("tiny")
    assert path == tmp_path / "models" / "tiny.gguf"
    catalogue.find("tiny")
    assert asked == [None]
    monkeypatch.setattr(catalogue, "_digest", lambda *_: pytest.fail("checked twice"))
    catalogue.find("tiny")
    os.utime(path, (1, 1))
    monkeypatch.setattr(catalogue, "_digest", lambda *_: "another")
    with pytest.raises(InputError, match=r"sha256 another, expected sha256 .* delete"):
        catalogue.find("tiny")


@pytest.mark.parametrize("ranges", [True, False])
def test_download_goes_on(hub: Callable[..., list[str | None]], ranges: bool) -> None:
    asked = hub(cut=1_500_000, ranges=ranges)
    with pytest.raises(InputError, match="scripted/mbpp_hard100") as caught:
        catalogue.find("tiny")
    assert "HALFBLIND_MODELS" in str(caught.value)
    assert "PROVIDER/NAME" in str(caught.value)
    catalogue.find("tiny")
    assert asked[0] is None
    assert int((asked[1] or "").removeprefix("bytes=").removesuffix("-")) > 1_000_000


def test_download_of_something_else(hub: Callable[..., list[str | None]], tmp_path: Path) -> None:
    hub(wrong=True)
    with pytest.raises(InputError, match="sha256"):
        catalogue.find("tiny")
    assert list((tmp_path / "models").iterdir()) == []


def test_no_hub(hub: Callable[..., list[str | None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(InputError) as caught:
        asyncio.run(open_client("local/tiny"))
    for way in ("HALFBLIND_MODELS", "model=PROVIDER/NAME", "model=scripted/mbpp_hard100"):
        assert way in str(caught.value)


def test_wrong_files(hub: Callable[..., list[str | None]], tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf").write_bytes(b"GGUF")
    with pytest.raises(InputError, match=r"got 4 bytes, expected 2304004 bytes; delete"):
        catalogue.find("tiny")
    with pytest.raises(InputError, match="expected a file"):
        catalogue.find(str(tmp_path / "none.gguf"))
    (tmp_path / "own.gguf").write_bytes(b"PK..")
    with pytest.raises(InputError, match="GGUF file"):
        catalogue.find(str(tmp_path / "own.gguf"))
