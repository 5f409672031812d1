"""What a comparison says: tables and sentences on the terminal, a page in Markdown, all numbers as JSON, figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from real_loop.paired import holm
from real_loop.validate.compare import LEVEL
from real_loop.validate.conditions import Plan, Seen, shared
from real_loop.validate.criticism import CHECKS, Checked
from real_loop.validate.judged import Held, numbers, sentence, table

if TYPE_CHECKING:
    from real_loop.estimate import Estimated
    from real_loop.validate.figures import Cliff

FILES: Final = ("validate.md", "validate.json")
HEADS: Final = ("variable", "reward", "real runs", "predicted (90 %)", "p", "")


@dataclass(frozen=True)
class Found:
    """All that a page says: the logs, how they were predicted, variables, checks of assumptions, and the fit to all clean runs."""

    logs: Sequence[Seen]
    plan: Plan
    held: Sequence[Held]
    checks: Sequence[Checked]
    fit: Estimated


def say(found: Found) -> None:
    """Print the table and the sentences."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    title = f"{len(found.logs)} runs, {sum(found.plan.held_out)} of them predicted"
    out = Table(title=title, title_justify="left", header_style="bold")
    for name in HEADS:
        out.add_column(name, justify="left" if name in ("variable", "reward", "") else "right")
    for row in table(found.held, found.logs, found.plan):
        out.add_row(*row)
    console.print(out)
    for line in [*sentences(found), *broken(found.logs, found.checks)]:
        console.print(line, soft_wrap=True)


def sentences(found: Found) -> list[str]:
    """Say of every variable whether it was predicted; or once that nothing was."""
    if not any(found.plan.held_out):
        return ["Nothing was predicted: the world is fitted to the only log. Give another clean run, or runs under other rewards."]
    return list(map(sentence, found.held))


def broken(logs: Sequence[Seen], checks: Sequence[Checked]) -> list[str]:
    """Say which assumptions of the model the logs speak against: a p below 5 % shared by all checks (Holm)."""
    said = []
    for found, adjusted in zip(checks, holm([c.p for c in checks]), strict=True):
        if adjusted < LEVEL:
            check = CHECKS[found.name]
            what = check.large if found.score > 0 else check.small
            pairs = zip(found.logs, found.real, found.bands[1], strict=True)
            where = ", ".join(f"{logs[i].name} {real:.2f} ({band:.2f})" for i, real, band in pairs)
            said.append(f"Does not hold: {check.assumption}. {what[0].upper()}{what[1:]} (p = {found.p:.2g}): {where}.")
    return said or [f"No assumption of the model is found to break ({len(checks)} checks)."]


def page(found: Found) -> str:
    """Return everything in Markdown."""

    def lines(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
        return ["| " + " | ".join(map(str, row)) + " |" for row in (heads, ["---"] * len(heads), *rows)] + [""]

    logs, plan, held, fit = found.logs, found.plan, found.held, found.fit
    text = ["# Does the simulator predict the real loop?", ""]
    calls = {name: (made, taken) for name, made, taken in shared(logs)}
    text += lines(
        ("run", "reward", "seed", "calls", "of these taken over", "role"),
        [
            (log.name, log.condition, log.history.settings.seed, *calls[log.name], "predicted" if out else "fitted to")
            for log, out in zip(logs, plan.held_out, strict=True)
        ],
    )
    text += ["## Predicted and real", "", "p: two-sided, of each real run by itself.", ""]
    text += lines(HEADS, table(held, logs, plan))
    text += ["## In one sentence each", "", *[f"- {line}" for line in sentences(found)], ""]
    text += [
        "Tests add squared normal scores over the runs that were predicted; joint draws, which share world and tasks as the runs do, say "
        "how large that sum is by chance. With Holm's correction the chance that any variable is called not predicted though all are "
        "predicted rightly is 5 %.",
        "",
        "## Which assumption breaks",
        "",
        *[f"- {line}" for line in broken(logs, found.checks)],
        "",
    ]
    rows = []
    for c in found.checks:
        for i, real, low, middle, high in zip(c.logs, c.real, *c.bands, strict=True):
            band = f"{middle:.2f} ({low:.2f} to {high:.2f})"
            rows.append((c.name, CHECKS[c.name].assumption, f"{c.p:.2g}", logs[i].name, f"{real:.2f}", band))
    text += lines(("check", "assumption", "p, all runs", "run", "real", "simulated (90 %)"), rows)
    text += ["## The fitted world", ""]
    text += lines(
        ("parameter", "value", "90 %", "from"),
        [(p.path, _short(p.value), f"{_short(p.low)} to {_short(p.high)}", p.how) for p in fit.parameters],
    )
    text += lines(("fixed", "value", "why"), [(path, _short(value), why) for path, (value, why) in fit.fixed.items()])
    return "\n".join(text)


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def write(out: Path, found: Found, cliff: Cliff | None, draw: bool) -> list[Path]:
    """Write page, numbers and, unless not wanted, figures into a folder; return the files.

    Raises
    ------
    InputError
        They cannot be written.
    """
    from sim.figures.style import replace as put

    content = {
        **numbers(found.held, found.logs, found.plan),
        "parameters": [vars(p) for p in found.fit.parameters],
        "fixed": found.fit.fixed,
    }
    content["checks"] = [
        {"name": c.name, "logs": c.logs, "real": c.real.tolist(), "bands": c.bands.tolist(), "p": c.p, "score": c.score}
        for c in found.checks
    ]
    written = [put(out / FILES[0], page(found).encode()), put(out / FILES[1], (json.dumps(content, indent=1) + "\n").encode())]
    if draw:
        from real_loop.validate import figures

        written += figures.draw(found.held, found.logs, found.plan.held_out, cliff, out)
    return written
