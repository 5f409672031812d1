"""What a worker must have in common with the command that gives it work: version, model, sources.

Two programs with the same stamp turn the same tile into the same bits, and understand each other.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import NamedTuple

from sim import __version__

SOURCES = ("*.py", "kernels/*.py", "curators/*.py")


class Stamp(NamedTuple):
    """Version of the package, of the model and of the layout of stores, and a hash of the sources."""

    version: str
    model: int
    schema: int
    sources: str

    def __str__(self) -> str:
        return f"halfblind {self.version} (model {self.model}, store {self.schema}, sources {self.sources})"


@functools.cache
def stamp() -> Stamp:
    """Return the stamp of this package, as it is installed here."""
    from sim.store import MODEL_VERSION, SCHEMA_VERSION

    package = Path(__file__).resolve().parent
    sha = hashlib.sha256()
    for pattern in SOURCES:
        for path in sorted(package.glob(pattern)):
            sha.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return Stamp(__version__, MODEL_VERSION, SCHEMA_VERSION, sha.hexdigest()[:12])
