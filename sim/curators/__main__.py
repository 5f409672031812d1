"""``python -m sim.curators``: the rules on a line each; with a name, all of one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

HELP = """\
The curators: which skills leave the shelf.

usage: python -m sim.curators [NAME]

  python -m sim.curators                  every rule on a line, its source, what it needs, its parameters
  python -m sim.curators sprt             all of one: formula, parameters with their bounds
  python -m sim.curators ./my_rule.py     of one's own: whether it is as a rule must be

A rule is chosen by policy.curator=NAME, its parameters are policy.NAME.parameter. sim/curators/README.md has an example of one's own.
"""


def summary() -> str:
    """Return all rules, a few lines each."""
    from sim.curators import find, names
    from sim.curators.checking import defaults

    lines = []
    for name in names():
        rule = find(name)
        own = ", ".join(f"{parameter}={value}" for parameter, value, _, _ in defaults(rule))
        lines.append(f"{name:24} {rule.line}")
        lines.append(f"{'':24} from {rule.source or 'unknown'}{f'; needs {rule.needs}' if rule.needs else ''}")
        if own:
            lines.append(f"{'':24} policy.{rule.key}: {own}")
    return "\n".join(lines)


def whole(name: str) -> str:
    """Return all about one rule."""
    from sim.curators import find
    from sim.curators.checking import defaults

    rule = find(name)
    lines = [f"{rule.name}: {rule.line}", "", rule.about.strip(), ""]
    lines.append(f"source: {rule.source or 'not told'}")
    lines.append(f"needs: {rule.needs or 'nothing beyond the observed outcomes of routed trials'}")
    lines.append(f"evidence of its own: {', '.join(rule.fields) or 'none'}")
    lines.append("full shelf: " + ("nothing new is written" if rule.refuses else "the weakest makes room"))
    lines.append("parameters:" if defaults(rule) else "parameters: none of its own")
    lines += [f"  policy.{rule.key}.{path}={value}   {doc}: {expected}" for path, value, doc, expected in defaults(rule)]
    return "\n".join(lines)


def _main(args: list[str]) -> int:
    from sim.errors import InputError

    if {"--help", "-h"} & set(args):
        print(HELP, end="")
    elif any(arg.startswith("-") for arg in args) or len(args) > 1:
        raise InputError(" ".join(args), "arguments that cannot be used", "none, or one curator", "see python -m sim.curators --help")
    else:
        print(whole(args[0]) if args else summary())
    return 0


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    from sim.report import guarded

    return guarded(_main, args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
