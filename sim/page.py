"""``python -m sim.theory``: a judge and a controller in, one page of theory and advice out; or a table for many of them.

What is on the page comes from :mod:`sim.advice`, and there from :mod:`sim.theory` (closed forms) and :mod:`sim.operating` (exact
chances).
"""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from sim.advice import assess, chance, number
from sim.errors import InputError
from sim.points import Point, read
from sim.report import WIDE, Progress, guarded

HELP = """\
Theory of a judge and a controller: region, thresholds, floors, exact chances of retirement, advice.

usage: python -m sim.theory [key=value ...] [--json]

  python -m sim.theory tau=0.1 rho_fp=0.3                   one page
  python -m sim.theory policy=rt channel=strict_judge       presets, as for python -m sim
  python -m sim.theory world=mbpp_hard100 rho_fp=0.2        floors for the tasks of a world
  python -m sim.theory 'rho_fp=[0,0.2,0.4]' 'tau=[0.1,0.3]' a table of points
  python -m sim.theory points=judges.csv --json             a row per point; the first line names the keys

keys; tau, n_min and cap come from policy= (bc), rho_fp and rho_pf from channel= (clean) if not given:
"""
MORE = """\
A list for any of them, or {start: 0, stop: 0.4, step: 0.1}, makes a table of all combinations. An empty field of a CSV file is the
default. world= gives the difficulty of the tasks; policy=, channel= and --config-dir are those of python -m sim.

--json prints one object, or a list for a table: region, thresholds, radii, floors (pass_rate and chat), chances per true pass rate
(first_test, by_trials, ever), needed (the smallest n_min at this tau), corrected (the tau that restores the wanted test, and its
n_min), advice; null where there is no such number. THEORY.md says what is behind the numbers."""


# ---------------------------------------------------------------- command line


def help_text() -> str:
    """Return the page that --help prints."""
    from sim.model import Channel, Policy, parameters

    bounds = {p.path: p.expected for group in (Policy, Channel) for p in parameters(group)}
    lines = []
    for item in dataclasses.fields(Point):
        default = "" if item.default in (dataclasses.MISSING, None, "") else f" ({item.default:g})"
        expected = f": {bounds[item.name]}" if item.name in bounds else ""
        lines.append(f"  {item.name:10} {item.metadata['doc']}{default}{expected}")
    return HELP + "\n".join([*lines, "", MORE])


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 130 stopped."""
    return guarded(_main, args)


def _main(args: list[str]) -> int:
    from sim.main import config_dir

    if {"--help", "-h"} & set(args):
        print(help_text())
        return 0
    more, args = config_dir(args)
    flags = [a for a in args if a.startswith("-")]
    if unknown := [f for f in flags if f != "--json"]:
        raise InputError(unknown[0], "an unknown option", "--json, --config-dir or --help")
    points, difficulty, table = read([a for a in args if not a.startswith("-")], more)
    with Progress("theory") as progress:
        progress.start(len(points), unit="points")
        found = []
        for point in points:
            found.append(assess(point, difficulty))
            progress.advance(1, True)
    if "--json" in flags:
        print(json.dumps(found if table else found[0], indent=2, allow_nan=False))
    elif table:
        print_table(points, found)
    else:
        print(page(points[0], found[0]))
    return 0


# ---------------------------------------------------------------- one page

FLOORS = {
    "clean": "a perfect judge, as printed (RT eq. 4) *",
    "printed": "this judge, as printed (RT eq. 7, BC Prop. 1') *",
    "channel": "this judge, tight *",
    "tasks": "this judge, tight; tasks of any difficulty",
}


def _asked(values: dict[str, Any]) -> str:
    kept = {name: value for name, value in values.items() if value not in (None, "")}
    return ", ".join(f"{name} = {value if isinstance(value, str) else format(value, 'g')}" for name, value in kept.items())


def page(point: Point, found: dict[str, Any]) -> str:
    """Return the page of a point."""
    survivors = found["survivor_rate"]
    rows = [
        ("region", found["region"], ""),
        ("kappa", number(found["kappa"]), "what the judge leaves of a difference between pass rates"),
        ("pi_tau", number(found["pi_tau"]), "observed pass rate at and below which a skill is retired"),
        ("p_star", number(found["p_star"]), "the same as a true pass rate, given many trials"),
        ("tau_eff", number(found["tau_eff"]), "margin that symmetric noise makes of tau"),
        ("evidence", "x " + number(found["evidence_inflation"]), "trials it takes to see the same difference (kappa^-2)"),
        (
            "survivors",
            "none" if (survivors or 0) > 1 else number(survivors),
            "least true rate of a tested skill that stays",
        ),
    ]
    lines = ["halfblind theory", *textwrap.wrap(_asked(found["point"]), 100), ""]
    for sentence in found["advice"]:
        lines += textwrap.wrap(sentence, 96, initial_indent="  - ", subsequent_indent="    ")
    lines += ["", *(f"{name:10} {value:>12}   {about}".rstrip() for name, value, about in rows if value not in ("-", "x -"))]
    lines += ["", *_chance_lines(point, found), "", f"{'':56}{'pass rate':>10}{'chat':>10}"]
    radii = {
        f"radius of a mean, at all looks from n_min = {point.n_min} on": found["radius"],
        f"  one that shrinks, at all looks, after {max(point.horizon, point.n_min)} trials": found["shrinking_radius"],
    }
    lines += [f"{name:56}{both['pass_rate']:10.3f}{both['chat']:10.3f}" for name, both in radii.items()]
    lines.append("floor of the expected eval, while all skills are tested, under")
    for name, about in FLOORS.items():
        both = found["floors"][name]
        empty = both is None or both["pass_rate"] <= 0
        numbers = f"{'none':>10}{'none':>10}" if empty else f"{both['pass_rate']:10.3f}{both['chat']:10.3f}"
        lines.append(f"  {about:54}{numbers}")
    lines.append("* holds only if tasks pass at 1/2 or less where skills are used" + (": here they do not" if point.p0 > 0.5 else ""))
    return "\n".join(lines)


def _chance_lines(point: Point, found: dict[str, Any]) -> list[str]:
    if found["chances"] is None:
        return ["exact chances are worked out for up to 10000 trials (1000 with per_round=) and margins not too close to 1 or -1"]
    by = f"by {point.looks} rounds" if point.per_round else f"by {point.looks * point.every} trials"
    lines = [
        f"exact chance of retirement, looked at {point.cadence.name}",
        f"  {'true rate':12}{'observed':>10}{'first test':>14}{by:>16}{'ever':>10}",
    ]
    for row in found["chances"]:
        name = " bad" if row["true"] == point.bad else " good" if row["true"] == point.good else ""
        numbers = f"{row['first_test']:14.4f}{row['by_trials']:16.4f}{row['ever']:10.4f}"
        lines.append(f"  {number(row['true']) + name:12}{number(row['observed']):>10}{numbers}")
    return lines


# ---------------------------------------------------------------- a table


def print_table(points: Sequence[Point], found: Sequence[dict[str, Any]]) -> None:
    """Print a row per point: what differs between points, and the main numbers."""
    from rich.console import Console
    from rich.table import Table

    names = [item.name for item in dataclasses.fields(Point)]
    shown = [name for name in names if len({getattr(p, name) for p in points}) > 1]
    title = _asked({name: getattr(points[0], name) for name in names if name not in (*shown, "alpha", "beta")})
    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, markup=False, emoji=False)
    out = Table(title=title, title_justify="left", header_style="bold")
    for name in (*shown, "region", "p_star", "kept bad", "lost good", "ever lost", "n_min", "tau'", "n_min'", "floor"):
        out.add_column(name, justify="left" if name in ("region", "name") else "right")
    for point, f in zip(points, found, strict=True):
        kept, lost, ever = (chance(f, p, c) for p, c in ((point.bad, "by_trials"), (point.good, "by_trials"), (point.good, "ever")))
        floor, corrected = f["floors"]["tasks"], f["corrected"]
        out.add_row(
            *(value if isinstance(value := getattr(point, name), str) else number(value) for name in shown),
            f["region"],
            number(f["p_star"]),
            *(_rounded(value) for value in (None if kept is None else 1.0 - kept, lost, ever)),
            _least(f["needed"]),
            f"{corrected['tau']:g}" if corrected else "-",
            _least(corrected["needed"] if corrected else None),
            "-" if floor is None or floor["pass_rate"] <= 0 else number(floor["pass_rate"]),
        )
    console.print(out)
    print("kept bad, lost good: by the trials asked for (2 n_min by default); n_min: the least for alpha and beta at this tau")
    print("tau': retires under this judge what tau, or wanted, does under a perfect one; n_min': the least there; floor: for any tasks")


def _rounded(value: float | None) -> str:
    return "<0.001" if value is not None and 0 < value < 0.001 else number(value)


def _least(needed: dict[str, float] | None) -> str:
    return str(needed["n_min"]) if needed else "-"
