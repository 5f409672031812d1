"""The one owner of the compiler flags, and of the cache of compiled code.

Two decorators: ``stage`` for the parts of the hot loop, always inlined into their caller, and ``entry`` for what Python
calls. Hot code allocates nothing, so it is compiled without reference counting. ``entry`` releases the interpreter lock:
threads run tiles side by side, and no threading layer is involved.

numba's own cache looks at the file of the function it caches, not at the files of the functions called, and would keep
a stale answer when one of those changes. So the cache folder is named after a hash of every source that is compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core import config

COMPILED_SOURCES = ("kernels/*.py", "curators/*.py", "rng.py", "tables.py", "variables.py")


def cache_dir() -> Path:
    """Return the folder of compiled code for exactly these sources and this numba."""
    package = Path(__file__).resolve().parent.parent
    sha = hashlib.sha256(numba.__version__.encode())
    for pattern in COMPILED_SOURCES:
        for path in sorted(package.glob(pattern)):
            sha.update(path.name.encode() + path.read_bytes())
    base = os.environ.get("HALFBLIND_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "halfblind")
    return Path(base).expanduser() / "numba" / sha.hexdigest()[:16]


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


_njit: Any = numba.njit  # its stubs do not know _nrt
_FLAGS: dict[str, Any] = {"error_model": "numpy", "boundscheck": False}


def stage(function: Callable[..., Any]) -> Any:
    """Compile a part of the hot loop: inlined, no reference counting."""
    return _njit(_nrt=False, forceinline=True, **_FLAGS)(function)


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls: cached on disk, runs without the interpreter lock."""
    with _cache_at(cache_dir()):
        return _njit(nogil=True, cache=True, _nrt=False, **_FLAGS)(function)
