"""The program that runs inside the sandbox: calls an answer's function on the inputs, and writes down what it returns.

It imports nothing of this project and knows no expected value, so whoever takes it over (it shares the process with the
answer) can at most report values of their own making. It reads one marshalled tuple from standard input and writes one
line per call to standard output, each beginning with a random word: ``WORD r VALUE``, ``WORD e ERROR`` (the last one) or, at
the end, ``WORD z [SECONDS, MEBIBYTES]``. `real_loop.suites.wire` reads the values.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

_DEPTH = 200
_ITEMS = 10_000  # taken from an iterator
_EXACT = 1 << 53


class _TooMuchError(Exception):
    """A value too long or too deep to be written."""


def _encoder(most: int) -> Callable[[object], str]:
    """Make the function that writes a value as JSON: plain values as they are, all else as ``[tag, ...]``."""
    from _json import encode_basestring_ascii as quote  # the json package would take longer to import than most answers to run

    plain = (int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict)
    tags: dict[type, str] = {list: "l", tuple: "t", set: "s", frozenset: "f"}
    nothing: dict[str, int] = {}
    view = type(nothing.keys())
    modules = sys.modules

    def foreign(kind: type, module: str, name: str) -> bool:
        return module in modules and kind is getattr(modules[module], name, None)

    def encode(top: object) -> str:
        parts: list[str] = []
        length = 0

        def put(text: str) -> None:
            nonlocal length
            length += len(text)
            if length > most:
                raise _TooMuchError
            parts.append(text)

        def many(tag: str, items: Any, depth: int) -> None:
            put(f'["{tag}"')
            for item in items:
                put(",")
                walk(item, depth + 1)
            put("]")

        def pairs(tag: str, value: Any, depth: int) -> None:
            put(f'["{tag}"')
            for key, item in dict.items(value):
                put(",")
                walk(key, depth + 1)
                put(",")
                walk(item, depth + 1)
            put("]")

        def walk(value: Any, depth: int) -> None:
            if depth > _DEPTH:
                raise _TooMuchError
            kind = type(value)
            if value is None:
                put("null")
            elif value is True:
                put("true")
            elif value is False:
                put("false")
            elif kind is int:
                put(int.__repr__(value) if -_EXACT < value < _EXACT else f'["i","{value:x}"]')
            elif kind is float:
                put(float.__repr__(value) if value - value == 0 else f'["r","{value!r}"]')
            elif kind is str:
                if len(value) > most:
                    raise _TooMuchError
                put(quote(value))
            elif kind in tags:
                many(tags[kind], value, depth)
            elif kind is dict:
                pairs("d", value, depth)
            elif kind is complex:
                many("c", (value.real, value.imag), depth)
            elif kind is bytes or kind is bytearray:
                put(f'["{"b" if kind is bytes else "B"}","{value.hex()}"]')
            elif kind is range:
                many("R", (value.start, value.stop, value.step), depth)
            elif foreign(kind, "collections", "Counter"):
                pairs("C", value, depth)
            elif foreign(kind, "collections", "OrderedDict"):
                pairs("O", value, depth)
            elif foreign(kind, "collections", "deque"):
                many("q", value, depth)
            elif foreign(kind, "decimal", "Decimal"):
                put(f'["D",{quote(str(value))}]')
            elif foreign(kind, "fractions", "Fraction"):
                many("F", (value.numerator, value.denominator), depth)
            elif kind is view:
                many("k", value, depth)
            elif isinstance(value, plain):
                put('["u",')
                walk(_bare(value), depth + 1)
                put("]")
            elif hasattr(kind, "__next__") or (kind.__module__ == "builtins" and hasattr(kind, "__iter__")):
                items: list[Any] = []
                for item in value:
                    items.append(item)
                    if len(items) > _ITEMS:
                        raise _TooMuchError
                many("g", items, depth)
            else:
                put(f'["x",{quote(str(kind.__name__)[:100])}]')

        walk(top, 0)
        return "".join(parts)

    return encode


def _digest(value: Any) -> str:
    """Return a digest of a value too long to be written, in the format of a value. Types count; the order of a set does not."""
    from _blake2 import blake2b

    total = blake2b(digest_size=32)
    kind = type(value)
    parts = [value]
    if kind is list or kind is tuple:
        parts = [value[i : i + 10_000] for i in range(0, len(value), 10_000)]
    for part in parts:
        total.update(marshal.dumps(part, 2))  # this version knows no references, so equal values give equal bytes
    return f'["h","{kind.__name__} {total.hexdigest()}"]'


def _bare(value: Any) -> Any:
    """Return the plain value inside one of a subclass, whatever its methods say."""
    if isinstance(value, int):
        return int.__add__(value, 0)
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if isinstance(value, complex):
        return complex.__add__(value, 0)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes.__getitem__(value, slice(None))
    for base in (bytearray, list, tuple, set, frozenset):
        if isinstance(value, base):
            return base(base.__iter__(value))  # type: ignore[arg-type,misc]
    return dict(dict.items(value))


def _described(error: BaseException, code: str) -> tuple[str, str, int, str]:
    """Return the name of an error, what it says, and the line of the answer it came from (0: none)."""
    line = getattr(error, "lineno", 0) or 0 if isinstance(error, SyntaxError) else 0
    trace = error.__traceback__
    while trace is not None and not isinstance(error, SyntaxError):
        if trace.tb_frame.f_code.co_filename == "<answer>":
            line = trace.tb_lineno
        trace = trace.tb_next
    try:
        text = (str(error.msg) if isinstance(error, SyntaxError) else str(error))[:300]
    except BaseException:
        text = ""
    lines = code.splitlines()
    source = lines[line - 1].strip()[:120] if 0 < line <= len(lines) else ""
    return str(type(error).__name__)[:100], text, line, source


def main() -> None:
    """Read the order, run the answer, report, and end at once: no thread and no exit handler of the answer is waited for."""
    from resource import RUSAGE_SELF, getrusage

    write, leave, load, clock = os.write, os._exit, marshal.loads, time.process_time
    pieces: list[bytes] = []
    while piece := os.read(0, 1 << 20):
        pieces.append(piece)
    word, prefix, code, entry, tests, most, large = load(b"".join(pieces))
    encode, small = _encoder(most), _encoder(5000)
    null = os.open("/dev/null", os.O_RDWR)
    out = os.dup(1)
    os.dup2(null, 0)
    os.dup2(null, 1)

    def send(kind: str, text: str) -> None:
        data = f"{word} {kind} {text}\n".encode("ascii")
        while data:
            data = data[write(out, data) :]

    step = "syntax"  # what an error now is one of
    try:
        module = ModuleType("answer")
        sys.modules["answer"] = module
        space = module.__dict__
        if prefix:
            exec(compile(prefix, "<prompt>", "exec"), space)
            space.pop(entry, None)  # the stub that the prompt shows is no answer
        compiled = compile(code, "<answer>", "exec", dont_inherit=True)
        step = "load"
        exec(compiled, space)
        if entry not in space:
            send("e", small(("no_entry", "", "", 0, "")))
            leave(0)
        function = space[entry]
        step = "error"
        for packed in tests:
            value = function(*load(packed))
            try:
                text = encode(value)
            except _TooMuchError:
                if not large:
                    send("e", small(("output", "", "", 0, "")))
                    leave(0)
                text = _digest(value)
            send("r", text)
        send("z", small((clock(), getrusage(RUSAGE_SELF).ru_maxrss / 1024)))
    except BaseException as error:  # SystemExit too: whoever leaves early has not answered
        kind = "memory" if isinstance(error, MemoryError) else step
        send("e", small((kind, *_described(error, code))))
    finally:
        leave(0)


if __name__ == "__main__":
    main()
