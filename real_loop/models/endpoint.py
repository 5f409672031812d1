"""One address of one model, talked to through inspect_ai: each attempt gives a reply, or says what kind of failure it was."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib.metadata
import io
import logging
import math
import os
import re
import sys
import time
import urllib.parse
import warnings
from typing import TYPE_CHECKING, Any

from real_loop.models import failures
from real_loop.models.errors import Fault, Overflow, ServiceError, brief, redact
from sim.errors import InputError

if TYPE_CHECKING:
    from real_loop.models.client import Reply, Request

CONNECTS_IN = 60.0  # seconds
MOST_NOTICES = 100
PLENTY = 10_000  # connections: how many calls are made at once is not inspect_ai's to decide


class _Notices(logging.Handler):
    """Keeps what inspect_ai warns of, each once, instead of letting it onto the terminal."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.lines) < MOST_NOTICES:
            self.lines[brief(record.getMessage())] = None


_NOTICES = _Notices()


def notices() -> list[str]:
    """Return what providers' modules warned of so far: that a model takes no temperature or seed, for one."""
    return list(_NOTICES.lines)


def _quiet() -> None:
    logger = logging.getLogger("inspect_ai")
    if _NOTICES not in logger.handlers:
        logger.addHandler(_NOTICES)
        logger.propagate = False
        warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)  # said of bodies that are no answer


class Endpoint:
    """A model of inspect_ai at one address.

    Parameters
    ----------
    spec
        ``PROVIDER/NAME`` as inspect_ai takes it.
    base_url
        Address of the service; None is the provider's own.
    api_key
        The key; None takes it from the environment, by the name the provider gives it.
    body
        Sent with every request beside the rest, to OpenAI-compatible servers.
    price
        USD per million tokens read and written; None takes what inspect_ai knows.
    raw_schema
        Whether the server takes any JSON schema. Else only the keywords inspect_ai passes on are sent: no bounds, lengths or
        patterns.
    label
        What the model is called in messages and replies, when not as in ``spec``.

    Raises
    ------
    InputError
        When inspect_ai is not installed, does not know the provider, or finds no key.
    """

    def __init__(
        self,
        spec: str,
        base_url: str | None = None,
        api_key: str | None = None,
        body: dict[str, Any] | None = None,
        price: tuple[float, float] | None = None,
        raw_schema: bool = False,
        label: str | None = None,
    ) -> None:
        self.spec, self.body, self.price, self.raw_schema = spec, body or {}, price, raw_schema
        self.label = label
        self.schemas = self.logprobs = True  # until the service says it takes none
        self.title = f"model={label or spec}" + (f" at {brief(base_url)}" if base_url else "")
        self.model = self._model(base_url, api_key)

    def _model(self, base_url: str | None, api_key: str | None) -> Any:
        try:
            from inspect_ai.model import GenerateConfig, get_model
        except ImportError as error:
            todo = "pip install 'halfblind[real]'"
            raise InputError(self.title, brief(error), "the package inspect_ai", todo) from None
        _quiet()
        provider = self.spec.split("/")[0]
        arguments: dict[str, Any] = {}
        if base_url is not None and _loopback(base_url):
            arguments.update(_without_proxy(provider))
        if provider == "mockllm":
            arguments["custom_outputs"] = _mock
        config = GenerateConfig(max_retries=0, max_connections=PLENTY, adaptive_connections=False, cache=False)
        problem, hook = "", sys.excepthook
        with contextlib.redirect_stdout(io.StringIO()):  # it greets where its hooks are installed
            try:
                model = get_model(self.spec, config=config, base_url=base_url, api_key=api_key, memoize=False, **arguments)
            except Exception as error:
                # A missing key, package or provider. The message may be marked up for a terminal.
                problem = re.sub(r"\[/?[a-z ]+\]", "", str(getattr(error, "message", "") or error)).strip(" .").removeprefix("ERROR: ")
        sys.excepthook = hook
        if problem:
            todo = "the name is PROVIDER/NAME as inspect_ai takes it; keys come from the environment"
            raise InputError(self.title, brief(problem), "a model that can be opened", todo)
        client: Any = getattr(model.api, "client", None)
        if isinstance(getattr(client, "max_retries", None), int):
            client.max_retries = 0  # the packages of the providers retry on their own: neither counted nor in a budget
        if type(client).__module__.split(".")[0] == "openai":
            from openai import Timeout

            client.timeout = Timeout(None, connect=CONNECTS_IN)  # ten minutes for reading by default, but ours may be longer
        return model

    def about(self) -> dict[str, Any]:
        """Return what a store should say of the model: names and versions."""
        base_url = getattr(self.model.api, "base_url", None)
        version = importlib.metadata.version("inspect_ai")
        return {"model": self.label or self.spec, "base_url": redact(base_url) if base_url else None, "inspect_ai": version}

    async def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(Exception):
            await self.model.api.aclose()

    async def attempt(self, request: Request, timeout: float) -> Reply:
        """Make one attempt.

        Parameters
        ----------
        request
            What to ask.
        timeout
            Seconds.

        Raises
        ------
        Fault
            When the service failed in a way another attempt may mend.
        Overflow
            When the prompt is too long.
        ServiceError
            When the service will not answer before something is paid.
        InputError
            When the service knows no such key or model, or does not take the request.
        """
        problem: BaseException | None = None
        output: Any = None
        begin = time.monotonic()
        # In a context of its own: inspect_ai keeps each call in a transcript there, which would grow for as long as we run.
        task = asyncio.create_task(self.model.generate(*self._arguments(request)), context=contextvars.Context())
        try:
            output = await asyncio.wait_for(task, timeout)
        except TimeoutError as error:
            late = time.monotonic() - begin >= timeout
            problem = Fault("timeout", f"no answer within {timeout:g} s") if late else error
        except Exception as error:
            problem = error
        # Raised out here, so that no exception with headers or bodies in it hangs on to ours.
        if problem is not None:
            raise self._meaning(problem, request)
        return self._reply(output, time.monotonic() - begin)

    def _arguments(self, request: Request) -> tuple[Any, Any, Any, Any]:
        from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig, ResponseSchema

        body = dict(self.body)
        schema = None
        if request.schema is not None and self.schemas:
            if self.raw_schema:
                shape = {"name": request.schema_name, "schema": request.schema}
                body["response_format"] = {"type": "json_schema", "json_schema": shape}
            else:
                schema = ResponseSchema.model_validate({"name": request.schema_name, "json_schema": request.schema, "strict": True})
        first = request.top_logprobs if self.logprobs else None
        config = GenerateConfig(
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            seed=request.seed,
            response_schema=schema,
            logprobs=True if first else None,
            top_logprobs=first,
            extra_body=body or None,
            reasoning_summary="none",  # else some models are first asked, uncounted, whether they give summaries
        )
        messages: list[Any] = [ChatMessageSystem(content=request.system)] if request.system else []
        return [*messages, ChatMessageUser(content=request.user)], [], None, config

    def _reply(self, output: Any, seconds: float) -> Reply:
        from real_loop.models.client import Reply

        usage, choices = output.usage, output.choices
        if not choices:
            raise Fault("bad body", "an answer with nothing in it")
        reason = str(output.stop_reason)
        if usage is None and reason == "model_length":  # the service's message about the prompt, not the model's text
            raise self._overflow(output.completion)
        if usage is None and reason == "content_filter" and failures.BLOCKED.search(output.completion):
            raise self._denied(output.completion)
        text = "" if reason == "content_filter" else output.completion
        if not text and usage is None and reason != "content_filter":
            raise Fault("bad body", "an answer without text")
        read = written = 0
        cost = None
        if usage is not None:
            cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
            read, written, cost = usage.input_tokens + cached, usage.output_tokens, usage.total_cost
        if self.price is not None:
            cost = (read * self.price[0] + written * self.price[1]) / 1e6
        return Reply(text, reason, read, written, cost, seconds, self.label or str(output.model), _top(choices[0]))

    def _overflow(self, said: object) -> Overflow:
        return Overflow(self.title, brief(said), "a prompt that fits into the context of the model")

    def _denied(self, said: object) -> InputError:
        todo = "set the key of this provider in the environment, and check that it may use this model"
        return InputError(self.title, brief(said), "a key the service accepts", todo)

    def _meaning(self, error: BaseException, request: Request) -> Exception:
        """Say what a failure means: worth another attempt, the request's fault, or the user's."""
        chain = failures.chain(error)
        for link in chain:
            if isinstance(link, Fault | InputError):
                return link
        status, whole = failures.status(chain), failures.message(chain)
        said = brief(whole)
        if type(chain[0]).__name__ == "PrerequisiteError":
            return InputError(self.title, said, "a request this model takes")
        if status is None or 200 <= status < 300:
            return failures.without_status(chain, said)
        if status == 402 or (status in (400, 403, 429) and failures.NO_CREDIT.search(whole)):
            what = f"{status}, {said}"
            return ServiceError(self.title, what, "credit with the service", "then run the same command again: nothing is lost")
        if status in failures.AGAIN or status >= 500:
            kind = "rate limit" if status == 429 else "timeout" if status == 408 else "server error"
            return Fault(kind, f"{status}, {said}", failures.retry_after(chain))
        if status in (401, 403):
            return self._denied(f"{status}, {said}")
        if status == 404:
            return InputError(self.title, f"404, {said}", "a model the service has", "check the name and the base URL")
        if status == 413 or failures.TOO_LONG.search(whole):
            return self._overflow(said)
        if request.schema is not None and self.schemas and failures.NO_SCHEMA.search(whole):
            self.schemas = False  # the prompt describes the schema too
            return Fault("no schema", f"{status}, {said}")
        if request.top_logprobs and self.logprobs and "logprob" in whole.lower():
            self.logprobs = False
            return Fault("no logprobs", f"{status}, {said}")
        return InputError(self.title, f"{status}, {said}", "a request this model takes")


def _top(choice: Any) -> tuple[tuple[str, float], ...] | None:
    """Return the most likely first tokens of an answer, as far as they were told: their texts and log probabilities."""
    told = getattr(choice.logprobs, "content", None) if choice.logprobs is not None else None
    if not told:
        return None
    found = [(str(each.token), float(each.logprob)) for each in told[0].top_logprobs or ()]
    found = [(token, value) for token, value in found if math.isfinite(value)]
    return tuple(sorted(found, key=lambda each: -each[1])) or None


def _mock(*_: Any) -> Any:
    """Answer as ``mockllm`` does by default, but with a usage: it would else download a tokenizer to count with."""
    from inspect_ai.model import ModelOutput, ModelUsage

    output = ModelOutput.from_content("mockllm", "Default output from mockllm/model")
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def _loopback(base_url: str) -> bool:
    return urllib.parse.urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1")


def _without_proxy(provider: str) -> dict[str, Any]:
    """Return the arguments that keep calls to this machine away from a proxy the environment may name."""
    if not any(os.environ.get(name) for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")):
        return {}
    if provider in ("openai", "openai-api"):
        import openai

        return {"http_client": openai.DefaultAsyncHttpxClient(trust_env=False)}
    if provider == "anthropic":
        import anthropic

        return {"http_client": anthropic.DefaultAsyncHttpxClient(trust_env=False)}
    return {}
