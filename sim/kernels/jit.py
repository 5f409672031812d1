"""The one owner of the compiler flags, and of the cache of compiled code.

Three decorators: ``stage`` for the parts of the hot loop, always inlined into their caller; ``part`` for larger pieces
that are called, and so compiled once however often they are used; ``entry`` for what Python calls. Hot code allocates
nothing, so it is compiled without reference counting. ``entry`` releases the interpreter lock: threads run tiles side
by side, and no threading layer is involved.

numba's own cache looks at the file of the function it caches, not at the files of the functions called, and would keep
a stale answer when one of those changes. So the cache folder is named after a hash of every source that is compiled.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba.core import config
from numba.core.compiler import Compiler

from sim.kernels.cache import cache_folder, usable


def cache_dir(rule: str = "") -> Path:
    """Return the folder of compiled code for exactly these sources, this numba, and a curator that has stages of its own made."""
    return cache_folder("numba", numba.__version__, rule)


@contextlib.contextmanager
def _cache_at(folder: Path) -> Iterator[None]:
    """Let functions decorated in this block cache in ``folder``, without changing numba for anyone else."""
    numba_config: Any = config
    before = numba_config.CACHE_DIR
    numba_config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba_config.CACHE_DIR = before


class _DistinctArrays(Compiler):  # type: ignore[misc]
    """numba's compiler, with a flag that ``njit`` does not offer: no two arrays among the arguments share memory.

    So a store to one array cannot change another, and loops that read through an index (gathers) can be done sixteen
    steps at a time. It changes speed, never results, as long as it is true: give every array its own memory, and
    return no array from a compiled function (that, too, is promised). Without the flag the code is right, and slower.
    """

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals_: Any) -> None:
        flags.noalias = True
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals_)


_njit: Any = numba.njit  # its stubs do not know every option
_FLAGS: dict[str, Any] = {"error_model": "numpy", "boundscheck": False, "_nrt": False, "pipeline_class": _DistinctArrays}
# Nothing outside compiled code calls a stage or a part: wrappers for Python and C callers took a third of the compile time.
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_FLAGS}


def stage(function: Callable[..., Any]) -> Any:
    """Compile a part of the hot loop: inlined, no reference counting."""
    return _njit(forceinline=True, **_INNER)(function)


def part(function: Callable[..., Any]) -> Any:
    """Compile a piece that is called: worth it with few arguments (an array counts as seven) and much to do."""
    return _njit(**_INNER)(function)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, at its first call: cached on disk, runs without the interpreter lock."""
    return _at_first_call(function, "")


def entry_of(rule: str, function: Callable[..., Any]) -> Any:
    """Compile the entry of a kernel that was made for one curator, as :func:`entry` does, with a folder by the curator's digest.

    What such a function closes over, the curator's compiled functions, differs from process to process in its bytes, but not in
    what it does: that is said by the folder.
    """
    return _at_first_call(function, rule)


def _at_first_call(function: Callable[..., Any], rule: str) -> Any:
    made: list[Any] = []
    lock = threading.Lock()

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        with lock:
            if not made:
                made.append(_compiled(function, rule))
        return made[0](*args)

    return call


def _compiled(function: Callable[..., Any], rule: str) -> Any:
    folder = cache_dir(rule)
    keep = usable(folder)  # if not, nothing is kept: numba would fall back to a folder that can go stale
    with _cache_at(folder):
        dispatcher = _njit(nogil=True, cache=keep, no_cfunc_wrapper=True, **_FLAGS)(function)
    if keep:
        _forgive(dispatcher._cache)
        if rule:
            dispatcher._cache._index_key = lambda sig, codegen: (sig, codegen.magic_tuple(), rule)
    return dispatcher


def stage_of(function: FunctionType, known: dict[FunctionType, Any] | None = None) -> Any:
    """Compile a plain function of somebody else's as a stage, with the plain functions that it calls by name."""
    known = {} if known is None else known
    if function not in known:
        called = {name: value for name in function.__code__.co_names if isinstance(value := function.__globals__.get(name), FunctionType)}
        globals_ = function.__globals__ | {name: stage_of(value, known) for name, value in called.items()}
        known[function] = stage(FunctionType(function.__code__, globals_, function.__name__))
    return known[function]


def _forgive(cache: Any) -> None:
    """Let a cache that is damaged or cannot be written cost time, not the run: compile, and drop the damaged index."""
    load, save = cache.load_overload, cache.save_overload

    def load_overload(sig: Any, target_context: Any) -> Any:
        try:
            return load(sig, target_context)
        except Exception:  # whatever unpickling damaged bytes brings
            with contextlib.suppress(OSError):
                os.unlink(cache._cache_file._index_path)
            return None

    def save_overload(sig: Any, data: Any) -> None:
        with contextlib.suppress(Exception):
            save(sig, data)

    cache.load_overload, cache.save_overload = load_overload, save_overload
