"""Where compiled code is kept: a folder named after a hash of every source that is compiled, so that it can never be stale."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

COMPILED_SOURCES = ("kernels/*.py", "curators/contract.py", "curators/ratchet.py", "rng.py", "tables.py", "variables.py")


def cache_folder(compiler: str, version: str, rule: str = "") -> Path:
    """Return the folder of code compiled from exactly these sources by this version of a compiler.

    ``rule`` is the digest of a curator that has stages of its own made: it then has a folder of its own, and a change of it costs the
    others nothing.
    """
    package = Path(__file__).resolve().parent.parent
    sha = hashlib.sha256((version + rule).encode())
    for pattern in COMPILED_SOURCES:
        for path in sorted(package.glob(pattern)):
            sha.update(path.name.encode() + path.read_bytes())
    base = os.environ.get("HALFBLIND_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "halfblind")
    return Path(os.path.expanduser(base)) / compiler / sha.hexdigest()[:16]


def usable(folder: Path) -> bool:
    """Make the folder; return whether compiled code can be kept there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False
