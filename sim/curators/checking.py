"""Whether a module is a rule: its functions are there, take what they are given, hold no branch and no float, and give whole numbers.

A branch would be right in Python and numba, and impossible in JAX; a float could differ between machines. Both are seen in the
bytecode, so that a rule is refused by all backends alike, before anything runs.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from sim.curators.contract import Skill, Trial
from sim.errors import InputError
from sim.params import Group
from sim.params import parameters as _parameters

if TYPE_CHECKING:
    from sim.curators.registry import Rule

ARGUMENTS: Final = {"tables": 3, "first": 1, "after_trial": 3, "after_round": 3, "leaves": 3, "strength": 4}
COMPILED: Final = ("first", "after_trial", "after_round", "leaves", "strength")
MOST_FIELDS: Final = 16
N_MAX: Final = 40  # of the table that functions are tried with
_JUMPS: Final = frozenset((*dis.hasjrel, *dis.hasjabs, *getattr(dis, "hasjump", ())))


def check_rule(rule: Rule, full: object) -> None:
    """See that a rule is one.

    Raises
    ------
    InputError
        Naming what is missing or wrong.
    """
    if not isinstance(rule.line, str) or not rule.line.strip() or "\n" in rule.line:
        raise _wrong(rule, "no LINE", 'LINE = "the rule on one line"')
    if full not in ("evict", "refuse"):
        raise _wrong(rule, f"FULL = {full!r}", '"evict" or "refuse"')
    if not isinstance(rule.fields, tuple) or not all(isinstance(f, str) and f.isidentifier() for f in rule.fields):
        raise _wrong(rule, f"FIELDS = {rule.fields!r}", "a tuple of names")
    if len(rule.fields) > MOST_FIELDS or {"n", "net", "cap"} & set(rule.fields):
        raise _wrong(rule, f"FIELDS = {rule.fields!r}", f"at most {MOST_FIELDS}, none of them n, net or cap")
    if not isinstance(rule.parameters, type) or not issubclass(rule.parameters, Group):
        raise _wrong(rule, "Parameters that is no group", "a frozen dataclass, a sim.params.Group")
    if missing := [what for what, need in (("leaves", True), ("strength", not rule.refuses)) if need and getattr(rule, what) is None]:
        raise _wrong(rule, f"no function {missing[0]}", f"{missing[0]}({', '.join(_words(missing[0]))})")
    if rule.fields and rule.after_trial is None and rule.after_round is None:
        raise _wrong(rule, "FIELDS and no function that changes them", "after_trial or after_round")
    for what, number in ARGUMENTS.items():
        if (function := getattr(rule, what)) is not None:
            _check_function(rule, what, function, number)
    try:
        parameters = rule.parameters()
    except (TypeError, InputError) as error:
        raise _wrong(rule, f"Parameters without a default ({error})", "a default for each") from None
    _try(rule, parameters)


def _wrong(rule: Rule, got: str, expected: str, todo: str = "see sim/curators/README.md") -> InputError:
    return InputError(f"curator {rule.name}", got, expected, todo)


def _words(what: str) -> tuple[str, ...]:
    return {
        "tables": ("parameters", "policy", "n_max"),
        "first": ("table",),
        "after_trial": ("skill", "trial", "table"),
        "after_round": ("skill", "t", "table"),
        "leaves": ("skill", "t", "table"),
        "strength": ("skill", "t", "word", "table"),
    }[what]


def _check_function(rule: Rule, what: str, function: Any, number: int) -> None:
    if not isinstance(function, FunctionType) or function.__closure__:
        raise _wrong(rule, f"{what} that is no plain function", f"def {what}({', '.join(_words(what))})")
    signature = inspect.signature(function)
    if len(signature.parameters) != number or any(p.kind not in (0, 1) for p in signature.parameters.values()):
        raise _wrong(rule, f"{what}{str(signature).split(' -> ')[0]}", f"{what}({', '.join(_words(what))})")
    if what in COMPILED:
        for part in reachable(function):
            for wrong, line in _faults(part.__code__):
                raise _wrong(rule, f"{wrong} in {part.__name__}, line {line}", "comparisons, & | and pick(c, a, b), of whole numbers")


def reachable(function: FunctionType) -> Iterator[FunctionType]:
    """Yield a function, and the plain functions that it calls by their names, each once."""
    seen: dict[int, FunctionType] = {}

    def walk(one: FunctionType) -> None:
        if id(one) in seen:
            return
        seen[id(one)] = one
        for name in one.__code__.co_names:
            if isinstance(value := one.__globals__.get(name), FunctionType):
                walk(value)

    walk(function)
    yield from seen.values()


def _faults(code: CodeType) -> Iterator[tuple[str, int]]:
    """Yield what compiled and traced code cannot have, and where."""
    line = code.co_firstlineno
    for step in dis.get_instructions(code):
        line = (step.positions.lineno if step.positions else None) or line
        if step.opcode in _JUMPS:
            yield "a branch or a loop", line
        elif step.opname.startswith("BINARY") and step.argrepr in ("/", "/="):
            yield "a true division", line
        elif step.opname.startswith("LOAD_CONST"):
            values = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            yield from ((f"the float {value}", line) for value in values if isinstance(value, float))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield "a function or a loop within", inner.co_firstlineno


def _try(rule: Rule, parameters: Group) -> None:
    """Call the functions with a few skills, and see what comes back."""
    from sim.model import Policy

    policy = Policy(tau=0.1, n_min=4, cap=6, rounds=12, window=4)
    table = rule.table(parameters, policy, N_MAX).tolist()
    evidence = _call(rule, "first", table)
    for n in range(N_MAX):
        for trial in (0, 1):
            before = Skill(n + 1, trial * 2 - 1 if n == 0 else n // 3, n % 12, n % 5, n, evidence)
            if rule.after_trial is not None:
                evidence = _call(rule, "after_trial", before, Trial(trial, n % 12, n % 2), table)
        skill = Skill(n, -(n // 2) * (n % 2), n % 12, n % 5, n, evidence)
        if rule.after_round is not None:
            evidence = _call(rule, "after_round", skill, n % 12, table)
        _call(rule, "leaves", skill, n % 12, table)
        if rule.strength is not None:
            _call(rule, "strength", skill, n % 12, n * 0x9E3779B1 % 2**32, table)


def _call(rule: Rule, what: str, *args: Any) -> Any:
    function: Callable[..., Any] = getattr(rule, what)
    try:
        found = function(*args)
    except Exception as error:  # whatever a function of somebody else's does
        shown = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise _wrong(rule, f"{what} that ends with {shown}", "a result for any skill, untried ones too") from error
    if what in ("leaves", "strength"):
        if not isinstance(found, int):
            raise _wrong(rule, f"{found!r} from {what}", "True or False" if what == "leaves" else "a whole number")
        return found
    if not isinstance(found, tuple) or len(found) != len(rule.fields):
        given = f"{len(found)} numbers" if isinstance(found, tuple) else repr(found)
        raise _wrong(rule, f"{given} from {what}", f"a tuple of {len(rule.fields)}, as FIELDS has")
    if not all(isinstance(x, int) for x in found):
        raise _wrong(rule, f"{found!r} from {what}", "whole numbers")
    return tuple(int(x) for x in found)


def source_digest(module: ModuleType) -> str:
    """Return a hash of the source of a rule, and of what its functions call from elsewhere."""
    files, constants = {getattr(module, "__file__", None) or ""}, set()
    for what in COMPILED:
        for function in reachable(getattr(module, what)) if isinstance(getattr(module, what, None), FunctionType) else ():
            files.add(function.__code__.co_filename)
            for name in function.__code__.co_names:
                if isinstance(value := function.__globals__.get(name), int | str | float | tuple):
                    constants.add(f"{name}={value!r}")
    sha = hashlib.sha256()
    for file in sorted(files):
        path = Path(file)
        sha.update(path.read_bytes() if path.is_file() else file.encode())
    sha.update("\n".join(sorted(constants)).encode())
    return sha.hexdigest()[:16]


def defaults(rule: Rule) -> list[tuple[str, Any, str, str]]:
    """Return (name, default, meaning, what it may be) for each parameter of a rule."""
    made = rule.parameters()
    return [(p.path, getattr(made, p.path), p.doc, p.expected) for p in _parameters(rule.parameters)]
