"""``python -m sim.theory``: a judge and a controller in, one page of theory and advice out; or a table for many of them.

What is on the page comes from :mod:`sim.theory` (closed forms) and :mod:`sim.operating` (exact chances).
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sim import theory
from sim.errors import InputError
from sim.points import Point, read
from sim.report import WIDE, Progress, guarded

if TYPE_CHECKING:
    import numpy as np

HELP = """\
Theory of a judge and a controller: region, thresholds, floors, exact chances of retirement, advice.

usage: python -m sim.theory [key=value ...] [--json]

  python -m sim.theory tau=0.1 rho_fp=0.3                   one page
  python -m sim.theory policy=rt channel=strict_judge       presets, as for python -m sim
  python -m sim.theory world=mbpp_hard100 rho_fp=0.2        floors for the tasks of a world
  python -m sim.theory 'rho_fp=[0,0.2,0.4]' 'tau=[0.1,0.3]' a table of points
  python -m sim.theory points=judges.csv --json             a row per point, columns named by these keys

keys:
"""


# ---------------------------------------------------------------- command line


def help_text() -> str:
    """Return the page that --help prints."""
    lines = []
    for item in dataclasses.fields(Point):
        default = "" if item.default in (dataclasses.MISSING, None) else f": {item.default:g}"
        lines.append(f"  {item.name:10} {item.metadata['doc']}{default}")
    more = (
        "A list of values for any of them makes a table. Other keys (world=, policy=, channel=, --config-dir) are those of python -m sim."
    )
    return HELP + "\n".join(lines) + "\n\n" + more


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
        _print_table(points, found)
    else:
        print(page(points[0], found[0]))
    return 0


# ---------------------------------------------------------------- what holds at a point


def assess(point: Point, difficulty: np.ndarray | None = None) -> dict[str, Any]:
    """Return all that theory says about a point, as JSON values; None where there is no such number.

    Parameters
    ----------
    point
        The judge, the controller and what is asked.
    difficulty
        Pass rates without skills, shape (tasks,); all p0 by default.

    Returns
    -------
    dict
        The keys of the page. Rates are probabilities, radii and floors are given on both scales, trials are counts.
    """
    judge = (point.rho_fp, point.rho_pf)
    k = float(theory.kappa(*judge))
    fits = k > theory.EDGE
    noise = point.rho_fp == point.rho_pf and fits
    found = {
        "point": dataclasses.asdict(point) | {"trials": point.horizon},
        "region": theory.region(point.tau, *judge),
        "kappa": round(k, 12),
        "pi_tau": float(theory.pi_tau(point.tau)),
        "p_star": float(theory.p_star(point.tau, *judge)) if fits else None,
        "tau_eff": float(theory.tau_eff(point.tau, point.rho_fp)) if noise else None,
        "evidence_inflation": float(theory.evidence_inflation(*judge)) if fits else None,
        "radius": _both(theory.hoeffding_radius, point.n_min, point.delta),
        "shrinking_radius": _both(theory.uniform_radius, max(point.horizon, point.n_min), point.n_min, point.delta),
        "survivor_rate": None,
        "floors": _floors(point, difficulty, fits),
        "chances": _chances(point),
        "corrected": _corrected(point) if fits else None,
        "needed": _needed(point, point.tau, *judge) if fits else None,
    }
    if fits:
        radius = theory.hoeffding_radius(point.n_min, point.delta, scale="pass_rate")
        found["survivor_rate"] = float(theory.survivor_rate(point.tau, radius, *judge))
    found["advice"] = advice(point, found)
    return found


def _both(make: Any, *args: Any) -> dict[str, float]:
    return {scale: float(make(*args, scale=scale)) for scale in theory.SCALES}


def _floors(point: Point, difficulty: np.ndarray | None, fits: bool) -> dict[str, dict[str, float] | None]:
    policy = (point.tau, point.n_min, point.cap, point.delta)
    judge = (point.rho_fp, point.rho_pf)
    tasks = [point.p0] if difficulty is None else difficulty
    return {
        "clean": _both(theory.floor_clean, point.p0, *policy),
        "printed": _both(theory.floor_printed, point.p0, *policy, *judge) if fits else None,
        "channel": _both(theory.floor_channel, point.p0, *policy, *judge) if fits else None,
        "tasks": _both(theory.floor_tasks, tasks, *policy, *judge) if fits else None,
    }


def _chances(point: Point) -> list[dict[str, float]] | None:
    """Return the chances of retirement for skills of several true pass rates; None if so many trials are not worked out."""
    from sim.cadence import MAX_TRIALS
    from sim.operating import MAX_RANDOM, ever_retired, operating

    most = MAX_TRIALS if point.cadence.fixed else MAX_RANDOM
    if max(point.looks * point.cadence.mean, point.n_min + len(point.cadence.pmf)) > most:
        return None
    true = sorted({0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0, point.bad, point.good})
    observed = theory.observed_rate(true, point.rho_fp, point.rho_pf).clip(0.0, 1.0)
    first = operating(observed, point.tau, point.n_min, 1, _first_look(point)).retired_by[:, -1]
    by = operating(observed, point.tau, point.n_min, point.looks, point.cadence).retired_by[:, -1]
    ever = ever_retired(observed, point.tau, point.n_min, point.cadence)
    names = ("true", "observed", "first_test", "by_trials", "ever")
    return [dict(zip(names, map(float, row), strict=True)) for row in zip(true, observed, first, by, ever, strict=True)]


def _first_look(point: Point) -> Any:
    """Return a single look after the trials of a first test; with random rounds, after n_min trials."""
    from sim.cadence import every

    return every(-(-point.n_min // point.cadence.fixed) * point.cadence.fixed if point.cadence.fixed else point.n_min)


def _needed(point: Point, tau: float, rho_fp: float, rho_pf: float) -> dict[str, float] | None:
    """Return the smallest n_min that does what is wanted under a judge, or None if there is none."""
    from sim.operating import smallest_n_min

    good, bad = (float(theory.observed_rate(p, rho_fp, rho_pf)) for p in (point.good, point.bad))
    try:
        return smallest_n_min(good, bad, tau, point.alpha, point.beta, cadence=point.cadence)._asdict()
    except InputError:
        return None


def _corrected(point: Point) -> dict[str, Any]:
    """Return the margin that restores the test of a perfect judge, and its price in trials."""
    tau = float(theory.corrected_tau(point.tau, point.rho_fp, point.rho_pf))
    return {"tau": tau, "needed": _needed(point, tau, point.rho_fp, point.rho_pf), "needed_clean": _needed(point, point.tau, 0.0, 0.0)}


# ---------------------------------------------------------------- advice


def chance(found: dict[str, Any], true: float, column: str) -> float | None:
    """Return a chance of retirement from what was found, for a skill of this true pass rate."""
    rows = [row for row in found["chances"] or [] if row["true"] == true]
    return rows[0][column] if rows else None


def advice(point: Point, found: dict[str, Any]) -> list[str]:
    """Return what follows for an operator, one sentence or two each, the most urgent first."""
    out = [_verdict(point, found)]
    corrected, needed = found["corrected"], found["needed"]
    retired, lost = chance(found, point.bad, "by_trials"), chance(found, point.good, "ever")
    good, bad = f"the good skill (true rate {point.good:g})", f"the bad one ({point.bad:g})"
    if retired is not None and lost is not None and 1.0 - retired <= point.beta and lost <= point.alpha:
        out.append(
            f"This test does what is wanted: {good} is ever lost with chance {lost:.2g}, {bad} kept with chance {1.0 - retired:.2g}."
        )
    elif needed is not None:
        out.append(
            f"n_min = {needed['n_min']} is the least that ever loses {good} with chance {point.alpha:g} or less and keeps {bad} past its "
            f"first test with chance {point.beta:g} or less."
        )
    else:
        out.append(f"No n_min up to 10000 tells a skill of true rate {point.good:g} from one of {point.bad:g} at this tau and judge.")
    if corrected is not None and (point.rho_fp or point.rho_pf):
        price = ""
        if corrected["needed"] and corrected["needed_clean"]:
            price = f" It takes n_min = {corrected['needed']['n_min']}, where a perfect judge takes {corrected['needed_clean']['n_min']}."
        elif not corrected["needed_clean"]:
            price = " Even that does not tell these two skills apart."
        out.append(
            f"tau = {corrected['tau']:g} retires under this judge what tau = {point.tau:g} retires under a perfect one.{price} "
            "It is as good as the measured rates are."
        )
    out += _about_floors(point, found)
    return out


def _verdict(point: Point, found: dict[str, Any]) -> str:
    pi = found["pi_tau"]
    return {
        "governable": f"Governable: with enough trials a skill is retired if its true pass rate is at most {_number(found['p_star'])}.",
        "blind": f"Blind: even a skill that never passes is seen to pass at rate {point.rho_fp:g}, and only pi_tau = {pi:g} or less is "
        "retired. More trials do not help.",
        "indiscriminate": f"Indiscriminate: even a skill that always passes is seen to pass at rate {1.0 - point.rho_pf:g}, and "
        f"pi_tau = {pi:g} or less is retired. In the end every skill is.",
        "inverted": "Inverted: this judge says nothing, or the opposite: kappa is 0 or below, so skills that pass more are retired sooner. "
        "No threshold helps; use another judge.",
    }[found["region"]]


def _about_floors(point: Point, found: dict[str, Any]) -> list[str]:
    out = []
    p_star = found["p_star"]
    if p_star is not None and 0.0 < p_star < point.p0 - 0.05:
        out.append(f"Tasks pass at {point.p0:.3g} without skills: one that drags them to just above {p_star:.3g} is never retired.")
    if p_star is not None and p_star < 1.0 and p_star > point.p0 + 0.05:
        out.append(f"Tasks pass at {point.p0:.3g} without skills: one that lifts them, but not above {p_star:.3g}, is retired in the end.")
    floors = found["floors"]
    best = floors["tasks"] or {"pass_rate": 0.0}
    if best["pass_rate"] <= 0:
        out.append("No floor promises anything at this n_min and delta. Skills younger than n_min are under no floor at all.")
    else:
        out.append(
            f"Once all skills are tested the eval stays above {best['pass_rate']:.3g}. Skills younger than n_min are under no floor."
        )
    return out


# ---------------------------------------------------------------- terminal


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value + 0.0:.3f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:.4g}"


def _survivors(rate: float | None) -> str:
    return "none" if rate is not None and rate > 1 else _number(rate)


FLOORS = {
    "clean": "a perfect judge (RT eq. 4)",
    "printed": "this judge, as printed (RT eq. 7, BC Prop. 1')",
    "channel": "this judge, tight; routed tasks with p0 <= 1/2",
    "tasks": "this judge, tasks of any difficulty",
}


def page(point: Point, found: dict[str, Any]) -> str:
    """Return the page of a point."""
    import textwrap

    asked = [f"{name} = {value:g}" for name, value in found["point"].items() if value is not None and name not in ("alpha", "beta")]
    rows = [
        ("region", found["region"], ""),
        ("kappa", _number(found["kappa"]), "what the judge leaves of a difference between pass rates"),
        ("pi_tau", _number(found["pi_tau"]), "observed pass rate at which a skill is retired"),
        ("p_star", _number(found["p_star"]), "true pass rate at which it is, given unlimited evidence"),
        ("tau_eff", _number(found["tau_eff"]), "margin that symmetric noise makes of tau"),
        ("evidence", "x " + _number(found["evidence_inflation"]), "trials it takes to see the same difference (kappa^-2)"),
        ("survivors", _survivors(found["survivor_rate"]), "least true pass rate of a tested skill that stays, with chance 1 - delta"),
    ]
    lines = ["halfblind theory", *textwrap.wrap(", ".join(asked), 100), ""]
    lines += [f"{name:10} {value:>12}   {about}".rstrip() for name, value, about in rows if value not in ("-", "x -")]
    lines += ["", f"{'':56}{'pass rate':>10}{'chat':>10}"]
    radii = {f"radius at all looks from n_min = {point.n_min} on": found["radius"]}
    after = max(point.horizon, point.n_min)
    radii[f"  shrinking, at all looks, after {after} trials"] = found["shrinking_radius"]
    for name, both in radii.items():
        lines.append(f"{name:56}{both['pass_rate']:10.3f}{both['chat']:10.3f}")
    lines.append("floor of the eval under")
    for name, about in FLOORS.items():
        both = found["floors"][name]
        numbers = "      none" * 2 if both is None else f"{both['pass_rate']:10.3f}{both['chat']:10.3f}"
        empty = "   promises nothing" if both is not None and both["pass_rate"] <= 0 else ""
        lines.append(f"  {about:54}{numbers}{empty}")
    lines += ["", *_chance_lines(point, found), "", "advice"]
    for sentence in found["advice"]:
        lines += textwrap.wrap(sentence, 96, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def _chance_lines(point: Point, found: dict[str, Any]) -> list[str]:
    if found["chances"] is None:
        return ["exact chances of retirement are worked out for up to 10000 trials (1000 with per_round=)"]
    by = f"by {point.looks} rounds" if point.per_round else f"by {point.looks * point.every}"
    lines = [
        f"exact chance of retirement, looked at {point.cadence.name}",
        f"  {'true rate':12}{'observed':>10}{'first test':>14}{by:>14}{'ever':>10}",
    ]
    for row in found["chances"]:
        name = " bad" if row["true"] == point.bad else " good" if row["true"] == point.good else ""
        numbers = f"{row['first_test']:14.4f}{row['by_trials']:14.4f}{row['ever']:10.4f}"
        lines.append(f"  {_number(row['true']) + name:12}{_number(row['observed']):>10}{numbers}")
    return lines


def _print_table(points: Sequence[Point], found: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    names = [item.name for item in dataclasses.fields(Point)]
    shown = [name for name in names if len({getattr(p, name) for p in points}) > 1]
    fixed = [f"{n} = {getattr(points[0], n):g}" for n in names if n not in (*shown, "alpha", "beta") and getattr(points[0], n) is not None]
    heads = ("region", "p_star", "kept bad", "lost good", "ever lost", "floor", "corrected tau", "n_min needed")
    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    out = Table(title=", ".join(fixed), title_justify="left", header_style="bold")
    for name in (*shown, *heads):
        out.add_column(name, justify="left" if name == "region" else "right")
    for point, f in zip(points, found, strict=True):
        kept, lost, ever = chance(f, point.bad, "by_trials"), chance(f, point.good, "by_trials"), chance(f, point.good, "ever")
        floor, corrected = f["floors"]["tasks"], f["corrected"]
        out.add_row(
            *(_number(getattr(point, name)) for name in shown),
            f["region"],
            _number(f["p_star"]),
            _number(None if kept is None else 1.0 - kept),
            _number(lost),
            _number(ever),
            _number(max(floor["pass_rate"], 0.0) if floor else None),
            _number(corrected["tau"] if corrected else None),
            str(f["needed"]["n_min"]) if f["needed"] else "-",
        )
    console.print(out)
    print("kept bad, lost good: within the trials asked for; floor: of the eval once all skills are tested, tasks of any difficulty")
    print("corrected tau: retires under this judge what tau does under a perfect one; n_min needed: for alpha and beta, at this tau")
