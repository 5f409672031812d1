"""A model service on 127.0.0.1 that misbehaves on command: real HTTP, for both the OpenAI and the Anthropic way of asking."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEXT = "a good answer"


@dataclass
class Seen:
    """One request as it came over the wire."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float


def completion(text: str | None = TEXT, **changes: Any) -> dict[str, Any]:
    """Return an answer in the form of OpenAI."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "small", "choices": [choice], "usage": usage}
    return {**body, **changes}


def message(text: str = TEXT) -> dict[str, Any]:
    """Return an answer in the form of Anthropic."""
    usage = {"input_tokens": 12, "output_tokens": 5}
    content = [{"type": "text", "text": text}]
    start = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "content": content}
    return {**start, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}


@dataclass
class Service:
    """What the service will do, one thing for each request and then ``then``; and what it was asked."""

    script: list[str] = field(default_factory=list)
    then: str = "ok"
    port: int = 0
    seen: list[Seen] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    reply: Callable[[dict[str, Any]], str] | None = None  # the text of a good answer, by the body of the request
    tops: Callable[[dict[str, Any]], list[tuple[str, float]]] | None = None  # likeliest first tokens, where they are asked for
    too_long: str = ""  # a prompt with this in it is longer than the model's context
    lock: threading.Lock = field(default_factory=threading.Lock)
    together: int = 0
    most_together: int = 0

    @property
    def url(self) -> str:
        """Base URL in the way of OpenAI."""
        return f"http://127.0.0.1:{self.port}/v1"


# status, body, headers
ERRORS: dict[str, tuple[int, Any, dict[str, str]]] = {
    "429": (429, {"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}, {"Retry-After": "0.4"}),
    "429 long": (429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, {"Retry-After": "86400"}),
    "429 quota": (429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}, {}),
    "500": (500, {"error": {"message": "oh dear", "type": "server_error"}}, {}),
    "502": (502, "<html>bad gateway</html>", {}),
    "503": (503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, {}),
    "401": (
        401,
        {"error": {"message": "Incorrect API key provided: {key}", "type": "invalid_request_error", "code": "invalid_api_key"}},
        {},
    ),
    "403": (403, {"error": {"message": "account {key} is not allowed", "type": "permission_error"}}, {}),
    "403 blocked": (403, {"error": {"message": "Your account {key} was blocked", "type": "invalid_request_error"}}, {}),
    "404": (404, {"error": {"message": "The model `small` does not exist", "code": "model_not_found"}}, {}),
    "400": (400, {"error": {"message": "top_p is not for this model", "type": "invalid_request_error"}}, {}),
    "400 schema": (400, {"error": {"message": "response_format is not supported", "type": "invalid_request_error"}}, {}),
    "no logprobs": (400, {"error": {"message": "logprobs is not supported with this model", "type": "invalid_request_error"}}, {}),
    "400 filter": (400, {"error": {"message": "The prompt was filtered", "code": "content_filter", "type": "invalid_request_error"}}, {}),
    "long openai": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
        {},
    ),
    "long llama": (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 5000,
                "n_ctx": 4096,
            }
        },
        {},
    ),
    "long anthropic": (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 250000 tokens > 200000 maximum"}},
        {},
    ),
    "529": (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, {}),
    "401 anthropic": (401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key {key}"}}, {}),
}
BODIES: dict[str, Any] = {
    "no choices": {"id": "x", "object": "chat.completion", "model": "small"},
    "empty choices": completion(choices=[]),
    "error in 200": {"error": {"message": "upstream failed", "code": 502}},
    "a list": ["what", "is", "this"],
    "a word": "hello",
    "null": None,
    "choices of words": completion(choices=["yes"]),
    "no message": completion(choices=[{"index": 0, "finish_reason": "stop"}]),
    "no text": completion(None, usage=None),
    "refused": completion(
        "I ca", choices=[{"index": 0, "message": {"role": "assistant", "content": "I ca"}, "finish_reason": "content_filter"}]
    ),
    "cut short": completion(
        "the beginn", choices=[{"index": 0, "message": {"role": "assistant", "content": "the beginn"}, "finish_reason": "length"}]
    ),
}


class Handler(BaseHTTPRequestHandler):
    """Does as the script of the service says."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one piece: 40 ms less for each answer
    service: Service

    def log_message(self, *_: Any) -> None:  # silent
        return None

    def do_POST(self) -> None:
        service = self.service
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with service.lock:
            service.seen.append(Seen(self.path, {k.lower(): v for k, v in self.headers.items()}, body, time.monotonic()))
            what = service.script.pop(0) if service.script else service.then
            if service.too_long and service.too_long in json.dumps(body):
                what = "long llama"
            service.together += 1
            service.most_together = max(service.most_together, service.together)
        try:
            self.do(what, body)
        finally:
            with service.lock:
                service.together -= 1

    def do(self, what: str, body: dict[str, Any]) -> None:
        text = self.service.reply(body) if self.service.reply else TEXT
        good = self.service.answers.get("ok", message(text) if "/messages" in self.path else completion(text))
        if self.service.tops and body.get("logprobs"):
            tops = [{"token": token, "logprob": value, "bytes": None} for token, value in self.service.tops(body)[: body["top_logprobs"]]]
            good["choices"][0]["logprobs"] = {"content": [{**tops[0], "top_logprobs": tops}]}
        if what == "no logprobs" and not body.get("logprobs"):
            what = "ok"
        if what == "ok":
            self.say(200, good)
        elif what == "slow":
            time.sleep(0.15)
            self.say(200, good)
        elif what == "hang":
            time.sleep(3)
            self.close_connection = True
        elif what == "half":
            whole = json.dumps(good).encode()
            self.head(200, len(whole))
            self.wfile.write(whole[: len(whole) // 2])
            self.wfile.flush()
            self.close_connection = True
        elif what == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
        elif what == "not json":
            self.say(200, '{"choices": [{"message": {"content": "half an answ')
        elif what == "html":
            self.say(200, "<html>a portal</html>", {"Content-Type": "text/html"})
        elif what in ERRORS:
            status, said, headers = ERRORS[what]
            key = self.headers.get("Authorization", "").removeprefix("Bearer ") or self.headers.get("x-api-key", "")
            text = (said if isinstance(said, str) else json.dumps(said)).replace("{key}", key)
            self.say(status, text, headers)
        else:
            self.say(200, BODIES[what])

    def head(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(length), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def say(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        text = body.encode() if isinstance(body, str) and body != "hello" else json.dumps(body).encode()
        self.head(status, len(text), headers)
        self.wfile.write(text)


class Listener(ThreadingHTTPServer):
    """Says nothing about connections its clients gave up."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        return None


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def serving(script: Sequence[str] = (), then: str = "ok", late: float = 0.0) -> Iterator[Service]:
    """Serve on a free port. With ``late`` seconds nobody listens there for so long."""
    service = Service(list(script), then, free_port())
    handler = type("Bound", (Handler,), {"service": service})
    started: list[Listener] = []

    def start() -> None:
        listener = Listener(("127.0.0.1", service.port), handler)
        started.append(listener)
        threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()

    run: Callable[[], None] = start
    timer = threading.Timer(late, run)
    if late:
        timer.start()
    else:
        start()
    try:
        yield service
    finally:
        timer.cancel()
        if late:
            timer.join()
        for listener in started:
            listener.shutdown()
            listener.server_close()
