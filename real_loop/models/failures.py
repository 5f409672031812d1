"""Read the failures of providers' packages: what was said, the HTTP status, the wait asked for, and what kind it was."""

from __future__ import annotations

import contextlib
import email.utils
import re
import time

from real_loop.models.errors import Fault, brief

TOO_LONG = re.compile(
    r"context[_ ](?:length|size|window|limit)|exceed_context_size|maximum context|(?:prompt|input) is too long|input length|too many tokens"
    r"|longer than the (?:model|context)",
    re.IGNORECASE,
)
NO_SCHEMA = re.compile(r"response_format|json_schema|output_format|structured|grammar|response schema", re.IGNORECASE)
NO_CREDIT = re.compile(r"insufficient_quota|credit balance|payment required", re.IGNORECASE)  # not "quota": limits by the minute say so too
BLOCKED = re.compile(r"account|organi[sz]ation|api key|billing|permission", re.IGNORECASE)
AGAIN = {408, 409, 425, 429}
_NAMES = (  # of exceptions anywhere in the chain, whatever library of HTTP a provider uses
    (("ConnectError", "ConnectTimeout", "ClientConnectorError", "gaierror", "ConnectionRefusedError"), "no connection"),
    (("APITimeoutError", "ReadTimeout", "WriteTimeout", "PoolTimeout", "TimeoutError"), "timeout"),
    (("RemoteProtocolError", "ReadError", "WriteError", "LocalProtocolError", "ConnectionResetError", "APIConnectionError"), "cut"),
)


def chain(error: BaseException) -> list[BaseException]:
    """Return an exception and what caused it, the outermost first."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        last = getattr(link, "last_attempt", None)  # inspect_ai's retry loop, at its one attempt
        link = last.exception() if last is not None else link.__cause__ or link.__context__
    return chain


def status(chain: list[BaseException]) -> int | None:
    """Return the HTTP status, by either name that providers' packages give it."""
    for link in chain:
        for name in ("status_code", "code"):
            value = getattr(link, name, None)
            if isinstance(value, int) and 100 <= value < 600:
                return value
    return None


def message(chain: list[BaseException]) -> str:
    """Return what the service said, without the request that inspect_ai adds."""
    for link in chain:
        body = getattr(link, "body", None)
        if isinstance(body, dict):
            inner = body.get("error", body)
            if isinstance(inner, dict) and inner.get("message"):
                marks = {str(inner[k]) for k in ("type", "code") if isinstance(inner.get(k), str)}
                return " ".join([str(inner["message"]), *(f"({mark})" for mark in sorted(marks))])
    for link in chain:
        if getattr(link, "provider_message", None):
            return str(link.provider_message)  # type: ignore[attr-defined]
    first = next((link for link in chain if not hasattr(link, "last_attempt")), chain[0])
    text = str(getattr(first, "message", "") or first)
    return f"{type(first).__name__}: {text}" if text else type(first).__name__


def without_status(chain: list[BaseException], said: str) -> Fault:
    """Return the kind of a failure that has no HTTP status: no connection, a cut one, or a body that is no answer."""
    names = {base.__name__ for link in chain for base in type(link).__mro__}
    for known, kind in _NAMES:
        if names.intersection(known):
            deepest = str(chain[-1]) or type(chain[-1]).__name__
            return Fault(kind, brief(f"{said} ({deepest})" if deepest not in said else said))
    return Fault("bad body", said)


def retry_after(chain: list[BaseException]) -> float | None:
    """Return the seconds the service asked to wait, of either form the header may have."""
    for link in chain:
        headers = getattr(getattr(link, "response", None), "headers", None)
        if headers is None:
            continue
        try:
            if headers.get("retry-after-ms"):
                return max(0.0, float(headers["retry-after-ms"]) / 1000)
            if not headers.get("retry-after"):
                continue
            return max(0.0, float(headers["retry-after"]))
        except ValueError:
            with contextlib.suppress(ValueError, TypeError):
                return max(0.0, email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    return None
