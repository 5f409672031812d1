"""Does a value agree with the expected one? The rules of EvalPlus 0.3.1, in code of our own.

Equal in Python's sense is right. Otherwise, where floats are expected (a float, or a list or tuple of nothing else) or
the task has a tolerance, values of the same type may differ by ``atol + 1e-7 |expected|``. The 1e-6 that floats are given stays
for the rest of the same list of tests, as there. Some tasks have rules of their own. One thing is stricter than there: lists
compared with a tolerance must have the same shape (NumPy would stretch one to fit).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

_RTOL: Final = 1e-7
FLOATS: Final = 1e-6

# Rules by entry point. MBPP+: outputs whose order is open; those of which only "is there one" is asked (a match object, say);
# and tasks with more than one reading.
AS_SETS: Final = frozenset(
    (
        "similar_elements",
        "find_char_long",
        "common_in_nested_lists",
        "extract_singly",
        "larg_nnum",
        "intersection_array",
        "find_dissimilar",
        "Diff",
    )
)
NOT_NONE: Final = frozenset(("check_str", "text_match_three", "text_starta_endb"))
MBPP_RULES: Final = {
    **dict.fromkeys(AS_SETS, "set"),
    **dict.fromkeys(NOT_NONE, "not_none"),
    "are_equivalent": "any",
    "sum_div": "or_zero",
    "surface_Area": "pyramid",
    "digit_distance_nums": "digits",
}
HUMANEVAL_RULES: Final = {"find_zero": "root"}


def _pyramid(base_edge: Any, height: Any) -> int:
    """Surface of a square pyramid whose height is that of the apex (the canonical solution takes it for the slant)."""
    return round(base_edge**2 + 2 * base_edge * math.sqrt((base_edge / 2) ** 2 + height**2))


def _digits(first: Any, second: Any) -> int:
    """Sum of the differences digit by digit from the right, the shorter number padded with zeros."""
    one, two = str(first), str(second)
    wide = max(len(one), len(two))
    return sum(abs(int(a) - int(b)) for a, b in zip(one.zfill(wide), two.zfill(wide), strict=True))


def _exact(rule: str, args: tuple[Any, ...], got: Any, want: Any, atol: float) -> bool:
    equal = bool(got == want)
    if rule == "set":
        return set(got) == set(want)
    if rule == "not_none":
        there = want if isinstance(want, bool) else want is not None
        return bool((got if isinstance(got, bool) else got is not None) == there)
    other: dict[str, Callable[[], bool]] = {
        "any": lambda: True,
        "or_zero": lambda: bool(got == 0),
        "pyramid": lambda: abs(got - _pyramid(*args)) <= atol,
        "digits": lambda: bool(got == _digits(*args)),
    }
    return equal or (rule in other and other[rule]())


def _floats(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(item, float) for item in value)
    return isinstance(value, float)


def _close(got: Any, want: Any, atol: float) -> bool:
    if isinstance(want, (list, tuple)):
        return isinstance(got, (list, tuple)) and len(got) == len(want) and all(_close(a, b, atol) for a, b in zip(got, want, strict=True))
    if not isinstance(got, (int, float, complex)) or not isinstance(want, (int, float, complex)):
        return False
    if got == want:
        return True  # infinities too
    return math.isfinite(abs(want)) and abs(got - want) <= atol + _RTOL * abs(want)


def agree(rule: str, args: tuple[Any, ...], got: Any, want: Any, atol: float, same_type: bool) -> bool:
    """Say whether a value passes.

    Parameters
    ----------
    rule
        Name of a special comparison, or empty.
    args
        The arguments of the call, as they were before it.
    got, want
        What the answer and what the canonical solution returned.
    atol
        Absolute tolerance so far; see `tolerance`.
    same_type
        Whether ``got`` has the very type it seems to have, and not a subclass.
    """
    try:
        if rule == "root":
            (coefficients,) = args
            return abs(sum(c * math.pow(got, i) for i, c in enumerate(coefficients))) <= atol
        if _exact(rule, args, got, want, atol):
            return True
        atol = tolerance(atol, want)
        return atol > 0 and same_type and type(got) is type(want) and _close(got, want, atol)
    except (TypeError, ValueError, ArithmeticError, RecursionError):
        return False


def tolerance(atol: float, want: Any) -> float:
    """Return the tolerance for this expected value, which is also that for those after it."""
    return FLOATS if atol == 0 and _floats(want) else atol
