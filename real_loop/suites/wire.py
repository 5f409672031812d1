"""Read the values that the sandboxed side wrote (`real_loop.suites.harness`). What arrives here is not to be trusted.

Only plain values can come of it, whatever was written: no class of the answer's, no method of its. `decode` raises
`WireError` for all that it cannot read, and for sets and dictionaries built to make hashing slow.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

_MANY = 1000
_LONGEST = 1_000_000  # of a range: a set may be made of it


class WireError(ValueError):
    """What arrived is not the text of a value."""


class Opaque:
    """A value of a kind that does not travel. Equal to nothing, but not None."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name} object>"


class Items(Opaque):
    """What an iterator gave. Equal to nothing, but a set can be made of it."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__("iterator")
        self.items = items

    def __iter__(self) -> Any:
        return iter(self.items)


@dataclass(frozen=True)
class Digest:
    """Stands for a value too long to travel; equal where the values are, in types too."""

    text: str

    def __repr__(self) -> str:
        return f"<a long {self.text.partition(' ')[0]}>"


def _hashable(items: Iterable[Hashable]) -> list[Any]:
    """Return the items as a list; refuse many that share few hashes, which would take time by the square."""
    found = list(items)
    if len(found) > _MANY and len({hash(x) for x in found}) < len(found) // 2:
        raise WireError("hashes collide")
    return found


def _pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(_hashable(items[::2]), items[1::2], strict=True))


def _whole(numbers: list[Any]) -> list[int]:
    if not all(type(n) is int for n in numbers):
        raise WireError("not whole numbers")
    return numbers


def _range(numbers: list[Any]) -> range:
    made = range(*_whole(numbers))
    if len(made) > _LONGEST:
        raise WireError("a range that is too long")
    return made


_BUILD: dict[str, Callable[[list[Any]], Any]] = {
    "l": list,
    "t": tuple,
    "s": lambda items: set(_hashable(items)),
    "f": lambda items: frozenset(_hashable(items)),
    "k": lambda items: dict.fromkeys(_hashable(items)).keys(),
    "d": lambda items: dict(_pairs(items)),
    "O": lambda items: OrderedDict(_pairs(items)),
    "C": lambda items: Counter(dict(_pairs(items))),
    "q": deque,
    "g": Items,
    "i": lambda items: int(items[0], 16),
    "r": lambda items: float(items[0]),
    "c": lambda items: complex(*items),
    "b": lambda items: bytes.fromhex(items[0]),
    "B": lambda items: bytearray.fromhex(items[0]),
    "R": _range,
    "D": lambda items: Decimal(items[0]),
    "F": lambda items: Fraction(*_whole(items)),
    "h": lambda items: Digest(str(items[0])),
    "x": lambda items: Opaque(str(items[0])),
    "u": lambda items: items[0],
}


def _value(written: Any) -> Any:
    if not isinstance(written, list):
        if isinstance(written, dict):
            raise WireError("not the text of a value")
        return written
    build = _BUILD.get(written[0]) if written and isinstance(written[0], str) else None
    if build is None:
        raise WireError("no such kind of value")
    return build([_value(item) for item in written[1:]])


def decode(text: str) -> tuple[Any, bool]:
    """Return a value, and whether its type is the very one (False: a subclass, of which the plain value is left).

    Raises
    ------
    WireError
        The text is not one of a value.
    """
    try:
        written = json.loads(text)
        return _value(written), not (isinstance(written, list) and written[:1] == ["u"])
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, MemoryError) as error:
        raise WireError(str(error)[:100]) from None
