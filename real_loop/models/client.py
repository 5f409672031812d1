"""Ask a model: the request, the reply, and clients that keep trying while a service fails, within a budget."""

from __future__ import annotations

import asyncio
import math
import os
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from real_loop.models import catalogue, local
from real_loop.models.budget import Budget
from real_loop.models.endpoint import Endpoint
from real_loop.models.errors import Fault, redact
from real_loop.models.patience import Note, Patience, persist, silent
from sim.errors import InputError

LOCAL_PREFIX = "local/"
MOCK_PREFIX = "mockllm/"
NO_KEY = "none"  # sent to a server of one's own that asks for no key
REMOTE_SLOTS = 16
LARGEST_SEED = 2**32 - 1  # to llama.cpp this one means: any seed


@dataclass(frozen=True)
class Request:
    """What to ask: a system and a user message, and how to sample.

    Parameters
    ----------
    system, user
        The messages; an empty system message is left out.
    temperature
        As the provider takes it; some models have one of their own and ignore it.
    max_tokens
        The longest answer.
    seed
        Same seed, same answer, where the provider can (local models do).
    schema
        A JSON schema the answer must follow. Say it in the prompt as well: not every provider enforces it.
    schema_name
        Letters, digits, ``_`` and ``-``.
    top_logprobs
        How many of the most likely first tokens to report, with their log probabilities; None asks for none. At most 20 with most
        services; one that takes no such request is asked without it.
    """

    system: str
    user: str
    temperature: float
    max_tokens: int
    seed: int
    schema: dict[str, Any] | None = None
    schema_name: str = "answer"
    top_logprobs: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seed < LARGEST_SEED:
            raise InputError("seed", self.seed, f"a number from 0 to {LARGEST_SEED - 1}")


@dataclass(frozen=True)
class Reply:
    """What the model said, never what a failing service said.

    Parameters
    ----------
    text
        Empty when a content filter stopped it.
    stop_reason
        ``stop``, ``max_tokens``, ``model_length`` (the context was full), ``content_filter`` (refused) or ``unknown``.
    input_tokens, output_tokens
        As counted by the provider; 0 when it did not say.
    cost
        USD; None when nobody knows.
    seconds
        Of the attempt that was answered.
    model
        As the provider calls it.
    top
        The most likely first tokens and their log probabilities (nats), most likely first; None when they were not asked for, or the
        service does not tell.
    """

    text: str
    stop_reason: str
    input_tokens: int
    output_tokens: int
    cost: float | None
    seconds: float
    model: str
    top: tuple[tuple[str, float], ...] | None = None


class Client(Protocol):
    """A model that can be asked."""

    name: str
    slots: int  # calls that may be in flight at once usefully

    async def generate(self, request: Request) -> Reply:
        """Ask. Raises ServiceError, Overflow, BudgetReached or InputError; see :func:`open_client`."""
        ...

    def about(self) -> dict[str, Any]:
        """Return what a store should say of the model: names and versions, no keys."""
        ...

    async def close(self) -> None:
        """End servers and connections."""
        ...


class RemoteClient:
    """A model behind one address: a provider's service, or a server somebody else runs."""

    def __init__(self, endpoint: Endpoint, slots: int, patience: Patience, budget: Budget, note: Note) -> None:
        self.endpoint, self.name, self.slots = endpoint, endpoint.label or endpoint.spec, slots
        self.patience, self.budget, self.note = patience, budget, note

    async def generate(self, request: Request) -> Reply:
        """Ask the model."""
        return await persist(
            lambda: self.endpoint.attempt(request, self.patience.timeout), self.endpoint.title, self.patience, self.budget, self.note
        )

    def about(self) -> dict[str, Any]:
        """Return names and versions."""
        return self.endpoint.about()

    async def close(self) -> None:
        """Close the connections."""
        await self.endpoint.close()


class LocalClient:
    """A pool of llama.cpp servers, each with one call at a time."""

    def __init__(self, name: str, servers: list[local.Server], patience: Patience, budget: Budget, note: Note) -> None:
        self.name, self.servers, self.slots = name, servers, len(servers)
        self.patience, self.budget, self.note = patience, budget, note
        self.endpoints: dict[int, tuple[str, Endpoint]] = {}
        self.free: asyncio.Queue[int] = asyncio.Queue()
        for index in range(len(servers)):
            self.free.put_nowait(index)

    async def generate(self, request: Request) -> Reply:
        """Ask the first server that is free."""
        index = await self.free.get()
        try:
            return await persist(lambda: self._attempt(index, request), f"model={self.name}", self.patience, self.budget, self.note)
        finally:
            self.free.put_nowait(index)

    async def _attempt(self, index: int, request: Request) -> Reply:
        server = self.servers[index]
        if not server.alive:
            await asyncio.to_thread(server.start)
        address, endpoint = self.endpoints.get(index, ("", None))
        if endpoint is None or address != server.address:
            if endpoint is not None:
                await endpoint.close()
            # A cached prefix changes the arithmetic, and so what is sampled: an answer would depend on those before it.
            body = {"cache_prompt": False}
            spec = f"openai-api/local/{self.name.removeprefix(LOCAL_PREFIX)}"
            endpoint = Endpoint(spec, f"{server.address}/v1", NO_KEY, body, price=(0.0, 0.0), raw_schema=True, label=self.name)
            self.endpoints[index] = (server.address, endpoint)
        fault: Fault | None = None
        try:
            return await endpoint.attempt(request, self.patience.timeout)
        except Fault as error:
            fault = error
        if fault.kind == "timeout":
            server.stop()  # it may hang, and would otherwise go on computing: the next attempt starts another
        elif fault.kind in ("cut", "no connection"):
            await asyncio.sleep(0.1)  # until the end of the process can be seen
            if not server.alive:
                fault = Fault("crash", "the llama.cpp server ended; another one is started")
        raise fault

    def about(self) -> dict[str, Any]:
        """Return names, sizes and versions."""
        return {"model": self.name, **local.about(self.servers[0].weights, self.slots, self.servers[0].context)}

    async def close(self) -> None:
        """End the servers."""
        for _, endpoint in self.endpoints.values():
            await endpoint.close()
        await asyncio.gather(*(asyncio.to_thread(server.close) for server in self.servers))


def _address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port beyond 65535, a bracket that is not closed
        return False


async def open_client(
    spec: str,
    *,
    base_url: str | None = None,
    servers: int | None = None,
    context: int = local.CONTEXT,
    price: tuple[float, float] | None = None,
    budget: Budget | None = None,
    patience: Patience | None = None,
    note: Note = silent,
) -> Client:
    """Open a model. Nothing is asked of it yet; ``local/...`` starts its servers.

    Parameters
    ----------
    spec
        ``PROVIDER/NAME`` as inspect_ai takes it, ``local/NAME`` of the catalogue, or ``local/PATH.gguf``.
    base_url
        Address of a service other than the provider's own.
    servers
        Calls at once: for local models the number of one-thread servers, by default one for each core, as far as the
        memory goes.
    context
        Tokens of prompt and answer together, for local models.
    price
        USD per million tokens read and written, where the cost is to be limited and the provider's price is not known.
    budget
        Checked before each attempt; replies and failed attempts are counted in it by the client.
    patience
        How long to bear with a failing service.
    note
        Called with one line about what is being waited for, and with an empty one when that is over.

    Raises
    ------
    InputError
        At a model that cannot be opened. Calls raise it when the service does not take key, model or request.
        Calls raise ServiceError when the service kept failing, Overflow at a prompt too long for the context, and
        BudgetReached.
    """
    if servers is not None and (isinstance(servers, bool) or not isinstance(servers, int) or servers < 1):
        raise InputError("servers", servers, "a number from 1 on")
    if "/" not in spec:
        raise InputError("model", spec, "PROVIDER/NAME, local/NAME or local/PATH.gguf")
    if price is not None and not all(math.isfinite(p) and p >= 0 for p in price):
        raise InputError("price", price, "two numbers from 0 on: USD per million tokens read and written")
    patience, budget = patience or Patience(), budget or Budget()
    if spec.startswith(LOCAL_PREFIX):
        if base_url is not None:
            raise InputError(
                "base_url", redact(base_url), f"none with {spec}", "use openai-api/SERVICE/NAME for a server that runs already"
            )
        local.needed()
        weights = await asyncio.to_thread(catalogue.find, spec.removeprefix(LOCAL_PREFIX))
        count = servers or local.how_many(weights)
        note(f"starting {count} llama.cpp server{'s' if count > 1 else ''}")
        running = await local.start(weights, count, context)
        note("")
        return LocalClient(spec, running, patience, budget, note)
    key = None
    if base_url is not None and not _address(base_url):
        raise InputError("base_url", redact(base_url), "an address as in http://127.0.0.1:8080/v1")
    if base_url is not None and spec.startswith(("openai/", "openai-api/")):
        parts = spec.split("/")
        variable = "OPENAI" if parts[0] == "openai" else parts[1].upper().replace("-", "_")
        key = None if os.environ.get(f"{variable}_API_KEY") else NO_KEY
    label = None
    if base_url is not None and spec.startswith("openai/") and not spec.startswith(("openai/azure/", "openai/bedrock/")):
        # Its own models are guessed at by name: an unknown one would be asked as the newest, without a temperature.
        label, spec = spec, f"openai-api/{spec}"
    if spec.startswith(MOCK_PREFIX) and price is None:
        price = (0.0, 0.0)
    endpoint = Endpoint(spec, base_url, key, price=price, label=label)
    return RemoteClient(endpoint, servers or REMOTE_SLOTS, patience, budget, note)
