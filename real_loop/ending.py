"""What is said at the end of a run."""

from __future__ import annotations

from pathlib import Path


def say(path: Path, out: Path, export: bool) -> None:
    """Print where the log is."""
    print(path)
