"""``python -m benchmarks [--baseline] [PART ...]``: speed of the kernel beside other programs, how time grows, what a user waits for.

Parts: table, growth, command, effective; all of them by default, in about three minutes. ``--baseline`` keeps the ratios of this
run as those that later runs are compared with. See benchmarks/README.md.
"""

from __future__ import annotations

import sys
import time


def progress(what: str) -> None:
    """Show what is being done on the terminal, and nothing in a file."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


def main(args: list[str]) -> int:
    """Print the parts that are asked for."""
    from benchmarks import command, effective, growth, table

    keep = "--baseline" in args
    parts = {
        "table": lambda: table.report(keep, progress),
        "growth": lambda: growth.report(progress),
        "command": command.report,
        "effective": effective.report,
    }
    asked = [arg for arg in args if arg != "--baseline"] or (["table"] if keep else list(parts))
    if {"--help", "-h"} & set(args):
        print(f"usage: python -m benchmarks [--baseline] [{' | '.join(parts)} ...]; what each is: benchmarks/README.md")
        return 0
    if unknown := [arg for arg in asked if arg not in parts]:
        print(f"error: got {unknown[0]!r}, expected --baseline or some of {', '.join(parts)}", file=sys.stderr)
        return 2
    for part in asked:
        began = time.perf_counter()
        print(f"=== {part}", flush=True)
        parts[part]()
        print(f"({time.perf_counter() - began:.0f} s)\n", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
