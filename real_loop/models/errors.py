"""What can go wrong with a model: the service fails, the prompt is too long; and no key in any message."""

from __future__ import annotations

import os
import re

from sim.errors import RunError

_KEY_LIKE = re.compile(r"(?:^|_)(?:\w*KEYS?|\w*TOKENS?|\w*SECRETS?|\w*PASSWORD|\w*PASSWD|\w*CREDENTIALS?|AUTH)$", re.IGNORECASE)
_SHAPES = (
    re.compile(r"\b(?:sk|gsk|hf|xai|pplx|nvapi)[-_][\w*-]{6,}"),  # of OpenAI, Anthropic and others, also masked in the middle
    re.compile(r"\bAIza[\w-]{10,}"),
    re.compile(r"(?:(?<=bearer )|(?<=basic )|(?<=api-key: ))[\w.~+/*=-]{6,}", re.IGNORECASE),
    re.compile(r"(?<=://)[^/@\s]+(?=@)"),  # who asks, in an address
    re.compile(r"(?<=[?&])[\w-]*(?:key|token|secret|password|auth)[\w-]*=[^&\s'\"]+", re.IGNORECASE),
)
SHORTEST = 6  # characters: a shorter value is no key, and replacing it would eat words


def redact(text: str) -> str:
    """Return a text without keys: values of key-like environment variables, and what looks like a key."""
    values = {v.strip() for name, v in os.environ.items() if _KEY_LIKE.search(name) and len(v.strip()) >= SHORTEST}
    for value in sorted(values, key=len, reverse=True):  # one key may be the beginning of another
        text = text.replace(value, "[key]")
    for shape in _SHAPES:
        text = shape.sub("[key]", text)
    return text


def brief(text: object, limit: int = 200) -> str:
    """Return a text on one line, without keys, cut to a number of characters: fit for a message."""
    line = redact(" ".join(str(text).split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."


class ServiceError(RunError):
    """The service of a model failed and kept failing. It says nothing about the task: run the same command again."""


class Overflow(RunError):  # noqa: N818 - an outcome, not a mistake
    """The prompt is longer than the context of the model. The same prompt would be refused again: not retried."""


class Fault(Exception):  # noqa: N818 - never seen by a caller
    """One failed attempt, worth another one.

    Parameters
    ----------
    kind
        A word or two, counted by: ``no connection``, ``cut``, ``timeout``, ``rate limit``, ``server error``, ``bad body``,
        ``crash``.
    detail
        One line for the user, without keys.
    retry_after
        Seconds the service asked to wait, if it did.
    """

    def __init__(self, kind: str, detail: str, retry_after: float | None = None) -> None:
        self.kind, self.detail, self.retry_after = kind, detail, retry_after
        super().__init__(f"{kind}: {detail}")
