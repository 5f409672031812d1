"""Asking models: what reaches the wire, failing services, budgets, keys. Nothing leaves this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import socket
import time
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest

from real_loop.models import (
    Budget,
    BudgetReached,
    Client,
    Overflow,
    Patience,
    Reply,
    Request,
    ServiceError,
    Spent,
    failures,
    notices,
    open_client,
    redact,
)
from real_loop.models.errors import brief
from sim.errors import InputError, RunError
from tests.misbehaving import TEXT, Service, free_port, serving

KEY = "sk-test-0123456789abcdef"
QUICK = Patience(timeout=10, tries=4, absent=8, total=60, first=0.02, longest=0.2)
ASK = Request("be brief", "say something", 0.5, 20, 7)
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["good", "bad"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}

pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),  # inspect_ai's own
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),  # off in a run too
]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_BASE_URL", "_API_KEY", "_AUTH_TOKEN")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SMALL_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@pytest.fixture(scope="module")
def provider() -> Iterator[None]:
    pytest.importorskip("inspect_ai", reason="needs inspect_ai: pip install 'halfblind[real]'")
    pytest.importorskip("openai", reason="needs openai: pip install 'halfblind[real]'")
    with pytest.MonkeyPatch.context() as patch:
        # It draws each failure in colours for its own log, 0.15 s a time.
        patch.setattr("inspect_ai.model._model.format_traceback", lambda *_: ("", ""), raising=False)
        yield


async def ask(service: Service, request: Request = ASK, spec: str = "openai-api/small/tiny", times: int = 1, **kwargs: Any) -> list[Any]:
    """Ask a service so many times at once; return replies and errors."""
    url = service.url if spec.startswith("openai") else service.url.removesuffix("/v1")
    client: Client = await open_client(spec, base_url=url, **{"patience": QUICK, **kwargs})
    try:
        return list(await asyncio.gather(*(client.generate(request) for _ in range(times)), return_exceptions=True))
    finally:
        await client.close()


def one(service: Service, request: Request = ASK, **kwargs: Any) -> Reply:
    (reply,) = run(ask(service, request, **kwargs))
    if isinstance(reply, BaseException):
        raise reply
    assert isinstance(reply, Reply)
    return reply


# What reaches the wire


@pytest.mark.parametrize("spec", ["openai-api/small/tiny", "openai/tiny"])
def test_wire_openai(provider: None, spec: str, capfd: pytest.CaptureFixture[str]) -> None:
    with serving() as service:
        reply = one(service, replace(ASK, schema=SCHEMA, schema_name="grade"), spec=spec)
    assert (reply.text, reply.stop_reason, reply.input_tokens, reply.output_tokens, reply.cost) == (TEXT, "stop", 11, 4, None)
    assert reply.model == ("small" if spec.startswith("openai-api") else spec)
    assert reply.seconds > 0
    assert capfd.readouterr() == ("", "")
    (seen,) = service.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert (seen.body["model"], seen.body["temperature"], seen.body["max_tokens"], seen.body["seed"]) == ("tiny", 0.5, 20, 7)
    assert [m["role"] for m in seen.body["messages"]] == ["system", "user"]
    assert seen.body["messages"][1]["content"] == "say something"
    shape = seen.body["response_format"]
    assert (shape["type"], shape["json_schema"]["name"], shape["json_schema"]["schema"]) == ("json_schema", "grade", SCHEMA)
    assert not seen.body.get("stream")


def test_wire_anthropic(provider: None) -> None:
    pytest.importorskip("anthropic", reason="needs anthropic: pip install 'halfblind[real]'")
    with serving() as service:
        reply = one(service, spec="anthropic/claude-haiku-4-5", price=(1.0, 5.0))
    assert (reply.text, reply.stop_reason, reply.input_tokens, reply.output_tokens) == (TEXT, "stop", 12, 5)
    assert reply.cost == pytest.approx((12 + 5 * 5) / 1e6)
    (seen,) = service.seen
    assert seen.path == "/v1/messages"
    assert KEY in (seen.headers.get("x-api-key"), seen.headers.get("authorization", "").removeprefix("Bearer "))
    assert any("temperature" in line for line in notices())  # its service takes none; said, though not on the terminal
    assert (seen.body["model"], seen.body["max_tokens"]) == ("claude-haiku-4-5", 20)
    assert "be brief" in json.dumps(seen.body["system"])
    assert "say something" in json.dumps(seen.body["messages"])


def test_a_server_of_ones_own_needs_no_key(provider: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SMALL_API_KEY")
    with serving() as service:
        assert one(service).text == TEXT


def test_loopback_passes_by_a_proxy(provider: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    with serving() as service:
        assert one(service).text == TEXT
        assert one(service, spec="anthropic/claude-haiku-4-5").text == TEXT


def test_mock(provider: None) -> None:
    async def work() -> Reply:
        client = await open_client("mockllm/model")
        return await client.generate(ASK)

    assert run(work()).text.startswith("Default output")


# Services that fail


TRANSIENT = ["429", "500", "502", "503", "529", "half", "reset", "not json", "html"]
MALFORMED = ["no choices", "empty choices", "error in 200", "a list", "a word", "null", "choices of words", "no message", "no text"]


@pytest.mark.parametrize("spec", ["openai-api/small/tiny", "anthropic/claude-haiku-4-5"])
def test_one_failure_is_retried(provider: None, spec: str) -> None:
    """Each failure costs one attempt, exactly: no package retries behind our back. None of them becomes an answer."""
    known = {"429": "rate limit", "half": "cut", "reset": "cut"}
    wrong = [*TRANSIENT, *MALFORMED] if spec.startswith("openai") else ["529", "half", "not json", "html", "null"]

    async def work(service: Service) -> None:
        budget = Budget()
        url = service.url if spec.startswith("openai") else service.url.removesuffix("/v1")
        client = await open_client(spec, base_url=url, budget=budget, patience=QUICK)
        for number, what in enumerate(wrong, 1):
            before = dict(budget.spent.faults)
            service.script.append(what)
            assert (await client.generate(ASK)).text == TEXT, what
            after = budget.spent.faults
            (kind,) = [k for k in after if after[k] != before.get(k, 0)]
            assert kind == known.get(what, "server error" if what[0] == "5" else "bad body"), what
            assert after[kind] == before.get(kind, 0) + 1, what
            assert budget.spent.calls == number
            assert len(service.seen) == 2 * number, what
        await client.close()

    with serving() as service:
        run(work(service))


def test_attempt_that_hangs(provider: None) -> None:
    async def work(service: Service) -> dict[str, int]:
        budget = Budget()
        client = await open_client("openai-api/small/tiny", base_url=service.url, budget=budget, patience=replace(QUICK, timeout=0.8))
        assert (await client.generate(ASK)).text == TEXT
        service.script.append("hang")
        assert (await client.generate(ASK)).text == TEXT
        return budget.spent.faults

    with serving() as service:
        assert run(work(service))["timeout"] >= 1


@pytest.mark.parametrize("what", ["500", "half", "no choices"])
def test_failure_without_end_is_no_answer(provider: None, what: str) -> None:
    budget = Budget()
    with serving(then=what) as service, pytest.raises(ServiceError) as caught:
        one(service, budget=budget)
    assert isinstance(caught.value, RunError)
    assert caught.value.status == 1
    assert "run the same command again" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(service.seen) == QUICK.tries == sum(budget.spent.faults.values())
    assert budget.spent.calls == 0


def test_retry_after_is_honoured(provider: None) -> None:
    with serving(["429"]) as service:
        one(service)
    assert service.seen[1].at - service.seen[0].at >= 0.4


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [({"retry-after": "3"}, 3, 3), ({"retry-after-ms": "250"}, 0.25, 0.25), ({"retry-after": "soon"}, None, None), ({}, None, None)],
)
def test_retry_after(header: dict[str, str], least: float | None, most: float | None) -> None:
    error = RuntimeError()
    error.response = SimpleNamespace(headers=header)  # type: ignore[attr-defined]
    assert failures.retry_after([RuntimeError(), error]) == least == most
    error.response = SimpleNamespace(headers={"retry-after": formatdate(time.time() + 60)})  # type: ignore[attr-defined]
    assert 55 <= (failures.retry_after([error]) or 0) <= 60


def test_retry_after_beyond_patience(provider: None) -> None:
    with serving(["429 long"]) as service, pytest.raises(ServiceError, match="asking to wait 86400 s"):
        one(service)
    assert len(service.seen) == 1


def test_no_credit_is_not_retried(provider: None) -> None:
    with serving(["429 quota"]) as service, pytest.raises(ServiceError, match="credit"):
        one(service)
    assert len(service.seen) == 1


def test_service_that_starts_late(provider: None) -> None:
    said: list[str] = []
    budget = Budget()
    with serving(late=0.5) as service:
        assert one(service, budget=budget, note=said.append).text == TEXT
    assert set(budget.spent.faults) == {"no connection"}
    assert any("no connection" in s and "again in" in s for s in said)
    assert said[-1] == ""


def test_service_that_never_starts(provider: None) -> None:
    service, budget = Service(port=free_port()), Budget()
    with pytest.raises(ServiceError, match=rf"127\.0\.0\.1:{service.port}/v1: got .* no connection"):
        one(service, budget=budget, patience=replace(QUICK, absent=0.3))
    assert budget.spent.faults["no connection"] >= 2


def test_name_that_is_not_known(provider: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    async def work() -> None:
        client = await open_client("openai-api/small/tiny", base_url="http://no-such-host.invalid/v1", patience=replace(QUICK, absent=0.1))
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        await client.generate(ASK)

    with pytest.raises(ServiceError, match="no connection"):
        run(work())


def test_nothing_is_lost(provider: None) -> None:
    """Many calls at once to a service that fails in all ways: each gets its answer, each failure is counted."""
    script = ["500", "half", "429", "ok", "not json", "no choices", "ok", "reset", "ok", "503"]
    budget = Budget(calls=12)
    with serving(script) as service:
        replies = run(ask(service, times=12, budget=budget, patience=replace(QUICK, tries=12)))
    assert [r.text if isinstance(r, Reply) else r for r in replies] == [TEXT] * 12
    assert budget.spent.calls == 12
    assert sum(budget.spent.faults.values()) == 7
    assert len(service.seen) == 12 + 7


# What another attempt cannot mend


@pytest.mark.parametrize(
    ("what", "spec"),
    [
        ("long openai", "openai-api/small/tiny"),
        ("long openai", "openai/tiny"),
        ("long llama", "openai-api/small/tiny"),
        ("long llama", "openai/tiny"),
        ("long anthropic", "anthropic/claude-haiku-4-5"),
    ],
)
def test_prompt_too_long(provider: None, what: str, spec: str) -> None:
    budget = Budget()
    with serving([what]) as service, pytest.raises(Overflow) as caught:
        one(service, spec=spec, budget=budget)
    assert len(service.seen) == 1
    assert budget.spent.calls == 0
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("what", "spec"),
    [
        ("401", "openai-api/small/tiny"),
        ("403", "openai-api/small/tiny"),
        ("403", "openai/tiny"),
        ("403 blocked", "openai-api/small/tiny"),
        ("404", "openai-api/small/tiny"),
        ("400", "openai/tiny"),
        ("401 anthropic", "anthropic/claude-haiku-4-5"),
    ],
)
def test_the_users_mistake(
    provider: None, what: str, spec: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line, status 2, at once; the key in neither message, chain, notes, log nor terminal."""
    caplog.set_level(logging.DEBUG)
    with serving([what]) as service, pytest.raises(InputError) as caught:
        one(service, spec=spec)
    assert len(service.seen) == 1
    error = caught.value
    assert error.status == 2
    assert "\n" not in str(error)
    assert error.__context__ is None
    assert error.__cause__ is None
    said = capfd.readouterr()
    everything = f"{error!r} {error} {error.args} {vars(error)} {caplog.text} {said.out} {said.err}"
    assert KEY not in everything
    assert said.out == said.err == ""


def test_content_filter(provider: None) -> None:
    with serving(["refused", "400 filter", "cut short"]) as service:
        for expected in (("", "content_filter"), ("", "content_filter"), ("the beginn", "max_tokens")):
            reply = one(service)
            assert (reply.text, reply.stop_reason) == expected


def test_service_without_schemas(provider: None) -> None:
    with serving(["400 schema"]) as service:
        assert one(service, replace(ASK, schema=SCHEMA)).text == TEXT
    assert ["response_format" in seen.body for seen in service.seen] == [True, False]


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("nobody/model", "nobody"),
        ("gpt", "PROVIDER/NAME"),
        ("openai/gpt-4o", "OPENAI_API_KEY"),
        ("openai-api/tiny", "service prefix"),
        ("local/nothing", "qwen2.5-coder-1.5b"),
    ],
)
def test_models_that_cannot_be_opened(provider: None, spec: str, match: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(InputError, match=match) as caught:
        run(open_client(spec))
    assert caught.value.status == 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"servers": 0}, {"base_url": "localhost:80"}, {"price": (-1, 0)}])
def test_bad_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        run(open_client("openai-api/small/tiny", **wrong))
    with pytest.raises(InputError, match="seed"):
        replace(ASK, seed=2**32 - 1)


# Budgets


@pytest.mark.parametrize(("limit", "calls"), [({"calls": 2}, 2), ({"tokens": 31}, 3), ({"cost": 2e-5}, 2), ({"calls": 0}, 0)])
def test_limits(provider: None, limit: dict[str, Any], calls: int) -> None:
    async def work(service: Service) -> Budget:
        budget = Budget(**limit)
        client = await open_client("openai-api/small/tiny", base_url=service.url, budget=budget, price=(0.0, 2.5))
        for _ in range(calls):
            await client.generate(ASK)
        with pytest.raises(BudgetReached) as caught:
            await client.generate(ASK)
        assert caught.value.which == next(iter(limit))
        return budget

    with serving() as service:
        assert run(work(service)).spent.calls == calls
    assert len(service.seen) == calls


def test_budget_is_checked_before_each_attempt(provider: None) -> None:
    budget = Budget(seconds=0.25)
    with serving(then="500") as service, pytest.raises(BudgetReached) as caught:
        one(service, budget=budget, patience=replace(QUICK, tries=1000, first=0.1, longest=0.1))
    assert caught.value.which == "seconds"
    assert 1 <= len(service.seen) <= 4
    assert budget.spent.faults["server error"] == len(service.seen)


def test_calls_at_once_do_not_pass_the_limit_together(provider: None) -> None:
    budget = Budget(calls=3)
    with serving(["500", "slow", "slow"], then="slow") as service:
        replies = run(ask(service, times=8, budget=budget))
    assert sum(isinstance(r, Reply) for r in replies) == 3 == budget.spent.calls
    assert sum(isinstance(r, BudgetReached) for r in replies) == 5


def test_budget_goes_on_where_it_was() -> None:
    first = Budget(calls=5, seconds=100)
    first.add(Reply("x", "stop", 3, 4, 0.5, 1.0, "m"))
    first.fault("cut")
    stored = json.loads(json.dumps(first.spent.as_dict()))
    second = Budget(calls=2, seconds=100, spent=Spent(**{**stored, "seconds": 99.9}))
    second.check()
    time.sleep(0.11)
    with pytest.raises(BudgetReached, match="seconds") as caught:
        second.check()
    assert pickle.loads(pickle.dumps(caught.value)).which == "seconds"
    assert "run the same command again" in str(caught.value)
    assert (second.spent.calls, second.spent.tokens, second.spent.cost, second.spent.faults) == (1, 7, 0.5, {"cut": 1})


def test_cost_limit_without_price() -> None:
    budget = Budget(cost=1.0)
    budget.add(Reply("x", "stop", 3, 4, None, 1.0, "m"))
    with pytest.raises(InputError, match="price"):
        budget.check()


@pytest.mark.parametrize("limit", [-1, True, float("nan"), "many"])
def test_limits_that_are_none(limit: Any) -> None:
    with pytest.raises(InputError, match=r"budget\.calls"):
        Budget(calls=limit)


# Keys


def test_redact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_API_KEY", "hunter2hunter2")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hf_abcdefghijkl")
    monkeypatch.setenv("MAX_TOKENS", "4096")
    text = f"key hunter2hunter2 and hf_abcdefgh, hf_abcdefghijkl; {KEY}; sk-ant-zzz***yyy; Bearer abcdefgh12345; "
    text += "http://me:pass@host/; 4096 tokens"
    clean = redact(text)
    for secret in ("hunter2", "hf_abc", "ijkl", "0123", "zzz", "yyy", "abcdefgh12345", "me:pass"):
        assert secret not in clean
    assert "4096 tokens" in clean
    assert KEY not in brief(f"x {KEY}\n y")
