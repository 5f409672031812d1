"""Single mutations of a program that passes: true fails for the audit of a judge of code.

A mutant differs from its original in one place. Both are written by ``ast.unparse``, so that neither comments nor the form of the text
tell a judge which of the two it is shown. That a mutant fails is for the true tests to say (`real_loop.audit.coded`): many do not.
"""

from __future__ import annotations

import ast
import copy
import difflib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

CLASSES: Final = ("arithmetic", "comparison", "logic", "condition", "branch", "bound", "constant", "arguments", "returned")
_LONGEST: Final = 20_000  # characters of a program: longer ones are refused
_ARITHMETIC: Final[dict[type[ast.operator], tuple[type[ast.operator], ...]]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.FloorDiv),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Mult, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitOr,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
_COMPARISON: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.Gt,),
    ast.LtE: (ast.GtE,),
    ast.Gt: (ast.Lt,),
    ast.GtE: (ast.LtE,),
    ast.Eq: (ast.NotEq, ast.LtE),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_EDGE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_ONE_WAY: Final = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift)

Edit: TypeAlias = Callable[[ast.AST], None]  # changes a node, and none below it


@dataclass(frozen=True)
class Mutant:
    """A changed program.

    Parameters
    ----------
    code
        The whole of it.
    cls
        One of `CLASSES`.
    line
        Where it begins to differ from the original as ``normal`` writes it; the first line is 1.
    before, after
        The lines that differ, of the original and of the mutant, without their indent.
    """

    code: str
    cls: str
    line: int
    before: str
    after: str


def normal(code: str) -> str:
    """Return a program as ``ast.unparse`` writes it: without comments, in one form.

    Raises
    ------
    ValueError
        It is no Python, or too long or too deep to be read.
    """
    return ast.unparse(_tree(code))


def _tree(code: str) -> ast.Module:
    if len(code) > _LONGEST:
        raise ValueError(f"a program longer than {_LONGEST} characters")
    try:
        return ast.parse(code)
    except (SyntaxError, RecursionError, MemoryError) as error:  # ValueError too: a NUL in it
        raise ValueError(f"no program that can be read: {error}") from None


def mutants(code: str, seed: int, name: str = "") -> Iterator[Mutant]:
    """Yield every single mutation of a program once: a class at random, then one of that class, and so on until none is left.

    A class is as likely as any other, however many places it applies to: else most mutants would be changed constants.

    Parameters
    ----------
    code
        The program.
    seed, name
        What the order depends on: the same everywhere for the same two.

    Raises
    ------
    ValueError
        See `normal`.
    """
    original = normal(code)
    by_class: dict[str, list[Mutant]] = {}
    seen = {original}
    for cls, text in _changed(_tree(original)):
        if text not in seen and _sound(text):
            seen.add(text)
            by_class.setdefault(cls, []).append(_described(cls, original, text))
    for each in by_class.values():
        each.sort(key=lambda mutant: _draw(seed, name, mutant.code))
    step = 0
    while by_class:
        cls = min(by_class, key=lambda c: _draw(seed, name, str(step), c))
        yield by_class[cls].pop()
        if not by_class[cls]:
            del by_class[cls]
        step += 1


def _draw(seed: int, *words: str) -> bytes:
    return hashlib.sha256("\0".join((str(seed), *words)).encode("utf-8", "replace")).digest()


def _described(cls: str, original: str, text: str) -> Mutant:
    old, new = original.split("\n"), text.split("\n")
    steps = [s for s in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if s[0] != "equal"]
    _, first, _, other, _ = steps[0]
    _, _, last, _, until = steps[-1]
    before, after = ("\n".join(line.strip() for line in lines) for lines in (old[first:last], new[other:until]))
    return Mutant(text, cls, min(first, other) + 1, before, after)


def _sound(text: str) -> bool:
    """Tell whether a mutant is a program, and in the one form: what reads back as something else is none."""
    try:
        return normal(text) == text
    except ValueError:
        return False


def _changed(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield a program with one change, for each there is, and the class of the change."""
    fixed = _fixed(tree)
    bounds = _bounds(tree)
    names = _names(tree)
    for node in list(ast.walk(tree)):
        if id(node) in fixed:
            continue
        for cls, edit in list(_edits(node, id(node) in bounds, names)):
            kind, held = node.__class__, dict(node.__dict__)
            edit(node)  # this node alone: all others are shared with what it was
            text = ast.unparse(tree)
            node.__class__ = kind
            node.__dict__.clear()
            node.__dict__.update(held)
            yield cls, text


def _fixed(tree: ast.Module) -> set[int]:
    """Return the ids of nodes that stay as they are: docstrings, annotations, imports, and texts within format strings."""
    fixed: set[int] = set()
    for node in ast.walk(tree):
        kept: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            kept.append(node)
        if isinstance(node, ast.JoinedStr):
            kept += [value for value in node.values if isinstance(value, ast.Constant)]
            kept += [value.format_spec for value in node.values if isinstance(value, ast.FormattedValue) and value.format_spec]
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            kept.append(node.annotation)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            kept += [*node.decorator_list, *([node.returns] if node.returns else [])]
        for part in kept:
            fixed.update(map(id, ast.walk(part)))
    return fixed


def _bounds(tree: ast.Module) -> set[int]:
    """Return the ids of expressions that say where something begins or ends: of ranges, slices and indices."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            found.update(map(id, node.args[:2]))
        elif isinstance(node, ast.Slice):
            found.update(id(part) for part in (node.lower, node.upper) if part is not None)
        elif isinstance(node, ast.Subscript) and _whole(node.slice):
            found.add(id(node.slice))
    return found


def _whole(node: ast.AST) -> bool:
    """Tell whether an index is a number as far as the text says: a key of a mapping is none."""
    if isinstance(node, ast.UnaryOp):
        return _whole(node.operand)
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and (_whole(node.left) or _whole(node.right))


def _names(tree: ast.Module) -> tuple[str, ...]:
    """Return the names that a function takes or assigns, in order."""
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            found[node.arg] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
    return tuple(found)


def _put(field: str, make: Callable[[ast.AST], object]) -> Edit:
    def edit(node: ast.AST) -> None:
        setattr(node, field, make(node))

    return edit


def _become(make: Callable[[ast.AST], ast.AST]) -> Edit:
    """Let a node become another one, in its place."""

    def edit(node: ast.AST) -> None:
        new = make(copy.copy(node))
        node.__class__ = new.__class__  # a parent holds this very object
        node.__dict__.clear()
        node.__dict__.update(new.__dict__)

    return edit


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


def _moved(node: ast.AST, by: int) -> ast.AST:
    """Return an expression plus or minus one; a number as another number."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _number(node.value + by)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        below = node.operand.value
        if type(below) is int:
            return _number(by - below)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.right, ast.Constant):
        value = node.right.value
        if type(value) is int:
            value += by if isinstance(node.op, ast.Add) else -by
            return node.left if value == 0 else ast.BinOp(node.left, node.op, _number(value))
    return ast.BinOp(node, ast.Add() if by > 0 else ast.Sub(), ast.Constant(1))  # type: ignore[arg-type]


def _number(value: float) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def _edits(node: ast.AST, bound: bool, names: tuple[str, ...]) -> Iterator[tuple[str, Edit]]:
    """Yield what may be changed at a node."""
    if bound and isinstance(node, ast.Constant | ast.UnaryOp | ast.BinOp | ast.Name | ast.Call | ast.Attribute | ast.Subscript):
        yield from (("bound", _become(lambda n, by=by: _moved(n, by))) for by in (-1, 1))  # type: ignore[misc]
    elif isinstance(node, ast.Constant):
        yield from (("constant", _put("value", lambda _, v=value: v)) for value in _constants(node.value))  # type: ignore[misc]
    if isinstance(node, ast.BinOp | ast.AugAssign):
        yield from (("arithmetic", _put("op", lambda _, o=other: o())) for other in _ARITHMETIC.get(type(node.op), ()))  # type: ignore[misc]
        if isinstance(node, ast.BinOp) and isinstance(node.op, _ONE_WAY):
            yield "arguments", _become(lambda n: ast.BinOp(n.right, n.op, n.left))  # type: ignore[attr-defined]
    elif isinstance(node, ast.Compare):
        yield from _compared(node)
    elif isinstance(node, ast.BoolOp):
        yield "logic", _put("op", lambda n: ast.Or() if isinstance(n.op, ast.And) else ast.And())  # type: ignore[attr-defined]
    elif isinstance(node, ast.Call):
        plain = not any(isinstance(arg, ast.Starred) for arg in node.args)
        for i in range(len(node.args) - 1 if plain else 0):
            yield "arguments", _put("args", lambda n, i=i: [*n.args[:i], n.args[i + 1], n.args[i], *n.args[i + 2 :]])  # type: ignore[misc]
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from (("returned", _put("value", make)) for make in _returned(node.value, names))
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "condition", _put("test", lambda n: _negated(n.test))  # type: ignore[attr-defined]
    elif isinstance(node, ast.comprehension):
        for i in range(len(node.ifs)):
            yield "condition", _put("ifs", lambda n, i=i: [*n.ifs[:i], _negated(n.ifs[i]), *n.ifs[i + 1 :]])  # type: ignore[misc]
            yield "branch", _put("ifs", lambda n, i=i: [*n.ifs[:i], *n.ifs[i + 1 :]])  # type: ignore[misc]
    yield from _branches(node)


def _compared(node: ast.Compare) -> Iterator[tuple[str, Edit]]:
    for i, op in enumerate(node.ops):
        others = [("comparison", other) for other in _COMPARISON.get(type(op), ())]
        if type(op) in _EDGE:
            others.append(("bound", _EDGE[type(op)]))
        for cls, other in others:
            yield cls, _put("ops", lambda n, i=i, o=other: [*n.ops[:i], o(), *n.ops[i + 1 :]])  # type: ignore[misc]


def _constants(value: object) -> tuple[object, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1, value - 1) if value > 0 else (value + 1,)  # below zero it is no constant but a sign and one
    if isinstance(value, float):
        return (value + 1.0, value / 2) if value else (1.0,)
    if isinstance(value, str):
        return (value[:-1], value.swapcase()) if value else (" ",)
    return ()


def _returned(value: ast.expr, names: tuple[str, ...]) -> Iterator[Callable[[ast.AST], object]]:
    """Yield makers of another value to return: of the same kind as far as the text says, since None would give itself away."""
    if isinstance(value, ast.Compare | ast.BoolOp) or (isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)):
        yield lambda n: _negated(n.value)  # type: ignore[attr-defined]
    elif isinstance(value, ast.BinOp):
        yield lambda n: n.value.left  # type: ignore[attr-defined]
        yield lambda n: n.value.right  # type: ignore[attr-defined]
    elif isinstance(value, ast.Name):
        for name in names:
            if name != value.id:
                yield lambda _, name=name: ast.Name(name, ast.Load())  # type: ignore[misc]
    elif isinstance(value, ast.Tuple) and len(value.elts) > 1:
        yield lambda n: ast.Tuple([*n.value.elts[1:], n.value.elts[0]], ast.Load())  # type: ignore[attr-defined]
    elif isinstance(value, ast.Call) and value.args and not isinstance(value.args[0], ast.Starred | ast.GeneratorExp):
        yield lambda n: n.value.args[0]  # type: ignore[attr-defined]
    elif isinstance(value, ast.Subscript):
        yield lambda n: n.value.value  # type: ignore[attr-defined]


def _branches(node: ast.AST) -> Iterator[tuple[str, Edit]]:
    """Yield what drops an ``if`` from a block: with all it holds, or but for one side of it; and an ``else``."""
    for field in ("body", "orelse"):
        block = getattr(node, field, None)
        if not isinstance(block, list):
            continue
        for i, statement in enumerate(block):
            if not isinstance(statement, ast.If):
                continue
            for side in ("", "body", "orelse"):
                if not side or getattr(statement, side):
                    yield "branch", _dropped(field, i, side)
            if statement.orelse:
                yield "branch", _put(field, lambda n, f=field, i=i: _without_else(getattr(n, f), i))  # type: ignore[misc]
    if isinstance(node, ast.For | ast.While | ast.Try) and node.orelse:
        yield "branch", _put("orelse", lambda _: [])
    if isinstance(node, ast.IfExp):
        yield "branch", _become(lambda n: n.body)  # type: ignore[attr-defined]
        yield "branch", _become(lambda n: n.orelse)  # type: ignore[attr-defined]


def _dropped(field: str, i: int, side: str) -> Edit:
    def edit(node: ast.AST) -> None:
        block = getattr(node, field)
        rest = [*block[:i], *(getattr(block[i], side) if side else []), *block[i + 1 :]]
        setattr(node, field, rest or ([ast.Pass()] if field == "body" else []))

    return edit


def _without_else(block: list[ast.stmt], i: int) -> list[ast.stmt]:
    chosen = copy.copy(block[i])
    assert isinstance(chosen, ast.If)
    chosen.orelse = []
    return [*block[:i], chosen, *block[i + 1 :]]
