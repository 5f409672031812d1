"""Mutants of programs: one change each, nothing that gives them away, in an order that depends on the seed alone."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from real_loop.audit.mutants import CLASSES, Mutant, mutants, normal
from real_loop.suites.data import tasks_of

RICH = '''
from math import gcd  # a comment

def clamp(xs: list[int], lo: int = 0, hi=10) -> list:
    """Keep 3 of them."""
    out = []
    for i in range(1, len(xs)):
        if xs[i] < lo and (not xs[i] == 7):
            out.append(max(lo, xs[i] - 1))
        elif xs[i] > hi:
            out.append(hi)
        else:
            out.append(xs[i])
    while lo > 99:
        lo -= 1
    print(f"{hi:3d} of 10")
    if out:
        return out
    return hi - lo
'''


def changed(code: str) -> list[tuple[str, str, str]]:
    return [(m.cls, m.before, m.after) for m in mutants(code, 1)]


def test_all_of_a_small_program() -> None:
    body = {(cls, after) for cls, _, after in changed("def f(a, b):\n    return a < b\n")}
    assert body == {("comparison", "return a > b"), ("bound", "return a <= b"), ("returned", "return not a < b")}
    body = {(cls, after) for cls, _, after in changed("def f(a):\n    if a:\n        return a[1:]\n    return -1\n")}
    assert body == {
        ("condition", "if not a:"),
        ("branch", ""),  # the condition with all it holds
        ("branch", "return a[1:]"),  # what it holds, whatever the condition
        ("bound", "return a[0:]"),
        ("bound", "return a[2:]"),
        ("returned", "return a"),
        ("constant", "return -2"),
        ("constant", "return -0"),
    }


def test_operators_and_arguments() -> None:
    found = {after for _, _, after in changed("def f(a, b):\n    return divmod(a - b, 2)\n")}
    assert {"return divmod(a + b, 2)", "return divmod(b - a, 2)", "return divmod(2, a - b)", "return divmod(a - b, 3)"} <= found
    found = {after for _, _, after in changed("def f(a, b):\n    return [x for x in a if x in b or x is None]\n")}
    assert {
        "return [x for x in a if x in b and x is None]",
        "return [x for x in a]",
        "return [x for x in a if x in b or x is not None]",
    } <= found
    assert {after for _, _, after in changed("def f(a):\n    return range(len(a) - 1)\n")} >= {
        "return range(len(a) - 2)",
        "return range(len(a))",
    }


def differs(mutant: Mutant, original: str) -> None:
    """One block of lines differs, where and as the mutant says."""
    old, new = original.split("\n"), mutant.code.split("\n")
    before, after = ([line for line in text.split("\n") if line] for text in (mutant.before, mutant.after))
    at = mutant.line - 1
    assert old[:at] == new[:at]
    assert [line.strip() for line in old[at : at + len(before)]] == before
    assert [line.strip() for line in new[at : at + len(after)]] == after
    rest = old[at + len(before) :]
    assert rest == new[at + len(after) :]


def test_one_change_in_the_same_form() -> None:
    original = normal(RICH)
    found = list(mutants(RICH, 5))
    assert {m.cls for m in found} == set(CLASSES)
    assert len({m.code for m in found}) == len(found)
    for mutant in found:
        assert normal(mutant.code) == mutant.code != original
        differs(mutant, original)
        for kept in ("from math import gcd", "Keep 3 of them.", "xs: list[int], lo: int", "-> list:", ":3d", " of 10"):
            assert kept in mutant.code
    assert "a comment" not in original


def test_every_solution_of_the_small_suite() -> None:
    for task in tasks_of("demo24")[1]:
        original = normal(task.canonical)
        for mutant in mutants(task.canonical, 1, task.id):
            differs(mutant, original)
            assert normal(mutant.code) == mutant.code


def test_order_depends_on_seed_and_name_alone() -> None:
    first = [m.code for m in mutants(RICH, 1, "a")]
    assert [m.code for m in mutants(RICH + "\n# another comment\n", 1, "a")] == first
    for other in ([m.code for m in mutants(RICH, 2, "a")], [m.code for m in mutants(RICH, 1, "b")]):
        assert other != first
        assert sorted(other) == sorted(first)


def test_no_class_is_drawn_for_its_many_places() -> None:
    """The first mutant is of each class alike, however many there are of it. False alarm: 1e-6."""
    code = "def f(a, b):\n    return [1, 2, 3, 4, 5, 6, 7] if a < b else b\n"
    there = Counter(m.cls for m in mutants(code, 0))
    assert there["constant"] == 14
    assert there["comparison"] == 1
    counts = Counter(next(mutants(code, seed)).cls for seed in range(200))
    assert chisquare([counts[cls] for cls in there]).pvalue > 1e-6


@pytest.mark.parametrize(
    "code", ["def f(:", "x = 'a\0b'", "(" * 3000 + ")" * 3000, "x = 1\n" * 5000], ids=["syntax", "nul", "deep", "long"]
)
def test_what_is_no_program(code: str) -> None:
    with pytest.raises(ValueError, match="program"):
        normal(code)
    with pytest.raises(ValueError, match="program"):
        list(mutants(code, 1))


NAMES = st.sampled_from(["a", "b", "xs"])
EXPRESSIONS = st.recursive(
    NAMES | st.integers(0, 9).map(str) | st.sampled_from(["True", "'yes'", "''", "1.5"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "<", "<=", "==", "and", "or", "in"]), inner).map(
            lambda t: f"({' '.join(t)})"
        ),
        inner.map("(not {})".format),
        st.tuples(NAMES, inner).map(lambda t: f"{t[0]}[{t[1]}:]"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=25)
@given(EXPRESSIONS, st.integers(0, 99))
def test_any_program(expression: str, seed: int) -> None:
    code = f"def f(a, b, xs):\n    if {expression}:\n        return {expression}\n    return a\n"
    for mutant in islice(mutants(code, seed), 30):
        assert normal(mutant.code) == mutant.code != normal(code)
        differs(mutant, normal(code))
