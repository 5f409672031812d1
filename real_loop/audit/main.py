"""The command ``python -m real_loop.audit``: verdicts in; rates, a verdict and what would settle it out. See ``--help``."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sim.errors import InputError
from sim.main import config_dir
from sim.report import Progress, guarded

if TYPE_CHECKING:
    import numpy as np

    from real_loop.audit.cases import Cases
    from real_loop.audit.place import Side
    from real_loop.audit.rates import Rate, Rates
    from real_loop.audit.scores import Scores
    from sim.points import Point

HELP = """\
Audit a judge: error rates with honest intervals, its place on the plane of judges, a verdict, and what would settle an open one.

usage: python -m real_loop.audit from=FILE [key=value ...] [--json]
       python -m real_loop.audit subset=NAME judge=MODEL [key=value ...] [--json]

  python -m real_loop.audit from=verdicts.csv                  the controller of python -m sim: tau=0.1 n_min=24 cap=12
  python -m real_loop.audit from=verdicts.csv tau=0.2 n_min=48
  python -m real_loop.audit from=verdicts.csv policy=rt judge=strict --json

  python -m real_loop.audit subset=mbpp judge=local/qwen2.5-coder-1.5b n=100
                                                               ask a model about solutions and mutants of them that fail the tests
  python -m real_loop.audit subset=mbpp judge=openai/gpt-4o-mini cases=outputs/real_loop/mbpp/default budget.cost=1
                                                               ... about the answers in the log of a run
  python -m real_loop.audit subset=report_main_71 judge=local/qwen2.5-coder-1.5b manner=rating
                                                               ... about sections of reports, clean and with known defects
  python -m real_loop.audit subset=report judge=checks         what the checks find of such defects; no model is asked

What is asked of a model is in a log before it is used: the same command again goes on where it stopped, and asks nothing twice.

FILE is a CSV file, a row per verdict of a judge on a case of known truth:

  truth    whether the case truly passes: 0 and 1, pass and fail, or true and false, one way in all of a column
  verdict  what the judge said, likewise; invalid where it gave no verdict (counts as fail)
  score    larger is more likely a pass: a rating, or the log-odds of PASS; beside the verdict or instead of it
  class    optional: class of the defect
  task     optional: what errors may come together by; intervals take account of it
  case     optional: what was judged; rows of one judge and one case are repeated calls
  judge    optional: several judges in one file are audited one by one
  weight   optional: how much a row counts

The verdict is go, no-go: blind, no-go: indiscriminate, or undetermined; the exit status 0 for go, 3 for no-go, 4 for undetermined (of
several judges 3 if there is any no-go, else 4 if any is undetermined), 2 for bad input. Everything goes to out=FOLDER too: report.json,
report.txt, plane, classes and the curve of scores as PNG and SVG.

keys:
"""
KEYS: Final = {
    "from": "the CSV file",
    "judge": "audit this judge alone (all)",
    "confidence": "of the intervals, both sides together (0.95)",
    "out": "folder of the report (outputs/audit/ and the name of the file)",
    "figures": "yes or no (yes)",
    "policy": "preset that tau, n_min and cap come from (bc)",
    "world": "preset whose tasks are the skills'",
}
MEASURED: Final = ("rho_fp", "rho_pf")  # what the audit finds out


def help_text() -> str:
    """Return the page that --help prints."""
    from real_loop.audit.judged import Audit
    from sim.params import parameters

    lines = [f"  {name:10} {doc}" for name, doc in KEYS.items()]
    lines += [f"  {name:10} {doc}" for name, doc in _controller().items()]
    others = "subset.*, budget.*, roles.judge.*, base_url, seed, servers"
    lines += ["", f"keys of an audit that asks a model, beside {others} (python -m real_loop --help):"]
    for p in parameters(Audit):
        default = Audit.__dataclass_fields__[p.path].default
        lines.append(f"  {p.path:10} {p.doc}: {p.expected}" + (f" ({default})" if isinstance(default, str | int) else ""))
    return HELP + "\n".join(lines)


def _controller() -> dict[str, str]:
    """Return the keys of the controller and of what is wanted of it."""
    from sim.points import Point

    out = {}
    for item in dataclasses.fields(Point):
        default = "" if item.default in (dataclasses.MISSING, None, "") else f" ({item.default:g})"
        if item.name not in (*MEASURED, "name"):
            out[item.name] = item.metadata["doc"] + default
    return out


# ---------------------------------------------------------------- command line


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 go, 3 no-go, 4 undetermined, 2 bad input, 130 stopped."""
    return guarded(_main, args)


def _main(args: list[str]) -> int:
    more, args = config_dir(args)
    if {"--help", "-h"} & set(args):
        print(help_text())
        return 0
    flags = [a for a in args if a.startswith("-")]
    if unknown := [f for f in flags if f != "--json"]:
        raise InputError(unknown[0], "an unknown option", "--json, --config-dir or --help")
    given, asks = [a for a in args if not a.startswith("-")], list[str]()
    if any(a.startswith("subset=") for a in given):
        if any(a.startswith("from=") for a in given):
            raise InputError(
                "from", "a file and a subset", "one of the two", "from=FILE audits verdicts; subset=NAME judge=MODEL asks for them"
            )
        given, asks = _divided(given)
    own, point, difficulty = _asked(given, more)
    path, confidence, draw = Path(os.path.expanduser(own["from"])), _confidence(own.get("confidence")), _drawn(own.get("figures"))
    from real_loop.audit.cases import read

    if asks:
        from real_loop.audit import judged

        ended = judged.run(asks, more, args)
        if isinstance(ended, int):
            return ended
        path, own["out"] = ended[0], str(ended[1])
    with Progress("audit") as progress:
        progress.note(f"reading {path.name}")
        cases = picked(read(path), own.get("judge"))
        out = Path(os.path.expanduser(own["out"])) if "out" in own else _folder(path, own.get("judge"))
        settings: dict[str, Any] = {"confidence": confidence, "source": str(path), "difficulty": difficulty, "draw": draw}
        found = audited(cases, point, out, progress=progress, **settings)
    return told(found, as_json="--json" in flags)


def _folder(path: Path, judge: str | None) -> Path:
    """Return the folder of a report: named by the file, and by the judge if one was picked."""
    name = path.stem if judge is None else f"{path.stem}-{re.sub(r'[^A-Za-z0-9_.-]+', '_', judge)[:60]}"
    return Path("outputs") / "audit" / name


def _divided(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what says how verdicts are audited, and what says how they are asked for: their file is not known yet."""
    mine = {*KEYS, *_controller()} - {"from", "judge", "out"}
    audit = [a for a in args if a.partition("=")[0].removeprefix("policy.") in mine]
    return [*audit, "from=verdicts.csv"], [a for a in args if a not in audit]


def _asked(args: Sequence[str], more: Path | None) -> tuple[dict[str, str], Point, np.ndarray | None]:
    """Return the keys of the audit alone, the controller with rates of 0, and the difficulty of the tasks of a world."""
    from sim.points import read

    own: dict[str, str] = {}
    rest, known = list[str](), {*KEYS, *_controller()}
    for arg in args:
        key, equals, value = arg.partition("=")
        name = key.removeprefix("policy.")
        if not equals or not key:
            todo = f"did you mean from={arg}?" if arg.endswith(".csv") else "see python -m real_loop.audit --help"
            raise InputError(arg or "''", "an argument without =", "key=value", todo)
        if name.removeprefix("channel.") in MEASURED:
            raise InputError(key, value, "no rate: the audit measures it", "for rates that are known: python -m sim.theory")
        if name not in known:
            near = difflib.get_close_matches(name.replace("-", "_"), known, n=2)
            raise InputError(key, "an unknown key", " or ".join(near) or "one listed by python -m real_loop.audit --help")
        if name not in KEYS or name in ("policy", "world"):
            rest.append(arg)
        elif name in own:
            raise InputError(key, f"a second value, {value}", "one value")
        elif not value.strip():
            raise InputError(key, "nothing", "a value")
        else:
            own[name] = value.strip()
    if "from" not in own:
        raise InputError(
            "from", "nothing", "from=FILE, a CSV file of verdicts, or subset=NAME judge=MODEL", "see python -m real_loop.audit --help"
        )
    points, difficulty, _ = read([*rest, "rho_fp=0", "rho_pf=0"], more)
    if len(points) > 1:
        raise InputError("the controller", f"{len(points)} points", "one value for each key")
    return own, points[0], difficulty


def _confidence(text: str | None) -> float:
    expected = "a number from 0.5 to 0.9999"
    try:
        value = 0.95 if text is None else float(text)
    except ValueError:
        raise InputError("confidence", repr(text), expected) from None
    if not 0.5 <= value <= 0.9999:
        raise InputError("confidence", text, expected, "95 % is 0.95" if 1 < value <= 100 else "")
    return value


def _drawn(text: str | None) -> bool:
    if text not in (None, "yes", "no"):
        raise InputError("figures", repr(text), "yes or no")
    return text != "no"


def picked(cases: Cases, judge: str | None) -> Cases:
    """Return the verdicts of one judge, or all where none is named.

    Raises
    ------
    InputError
        There is no such judge.
    """
    if judge is None:
        return cases
    if judge not in cases.judges:
        there = [name for name in cases.judges if name]
        near = difflib.get_close_matches(judge, there, n=1)
        expected = ", ".join(there[:20]) + (" and more" if len(there) > 20 else "") if there else "no judge=: the file has no column judge"
        raise InputError("judge", repr(judge), expected, f"did you mean {near[0]}?" if near else "")
    return cases.of(cases.judge == judge)


def told(found: dict[str, Any], as_json: bool) -> int:
    """Print what was found, as a page or as JSON; return the exit status."""
    from real_loop.audit import place, words

    if as_json:
        print(json.dumps(found, indent=2, allow_nan=False))
    else:
        pages = len(found["judges"]) <= words.PAGES or not found["files"]
        print(words.report(found, pages))
        if not pages:
            print("\nA page for each judge is in report.txt; judge=NAME picks one.")
        for file in found["files"]:
            print(file)
    return place.status([judge["verdict"] for judge in found["judges"]])


# ---------------------------------------------------------------- the audit


def audited(
    cases: Cases,
    point: Point,
    out: Path | None,
    *,
    confidence: float = 0.95,
    source: str = "",
    difficulty: np.ndarray | None = None,
    draw: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Audit each judge of some verdicts, store the report, and return it as JSON values: None where there is no such number.

    Parameters
    ----------
    cases
        Verdicts, of one judge or several.
    point
        The controller and what is asked of it; its rates do not count.
    out
        Folder of the report; None stores nothing.
    confidence
        Of the intervals, both sides together.
    source
        Where the verdicts are from, to be said.
    difficulty
        As for :func:`sim.advice.assess`.
    draw
        Whether figures are stored too.
    progress
        A bar to move.

    Raises
    ------
    InputError
        The report cannot be stored.
    """
    from real_loop.audit import words

    if out is not None:  # before the work, not after it
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise InputError("out", f"{out} ({why})", "a folder that can be made and written to") from None
    progress = progress or Progress("audit")
    progress.start(len(cases.judges), unit="judges")
    judges, curves = [], dict[str, Any]()
    for name in cases.judges:
        judge, curves[name] = one(cases.of(cases.judge == name), point, confidence, difficulty, cases)
        judges.append(judge)
        progress.advance(1, True)
    controller = {k: v for k, v in dataclasses.asdict(point).items() if k not in (*MEASURED, "name")} | {"trials": point.horizon}
    found: dict[str, Any] = {"source": source, "rows": len(cases), "confidence": confidence, "controller": controller, "judges": judges}
    found["files"] = []
    if out is None:
        return found
    from sim.figures.style import replace

    for old in (*out.glob("plane.*"), *out.glob("classes.*"), *out.glob("curve*.*")):  # of another report: these would contradict
        if old.suffix in (".png", ".svg"):
            old.unlink(missing_ok=True)
    names = ["report.json", "report.txt"]
    replace(out / "report.txt", (words.report(found) + "\n").encode())
    if draw:
        from real_loop.audit import figures

        progress.note("drawing")
        names += [file.name for file in figures.draw(found, out, curves)]
    found["files"] = [str(out / name) for name in names]
    replace(out / "report.json", (json.dumps(found, indent=2, allow_nan=False) + "\n").encode())
    return found


def one(
    cases: Cases, point: Point, confidence: float, difficulty: np.ndarray | None = None, others: Cases | None = None
) -> tuple[dict[str, Any], Scores | None]:
    """Return the audit of one judge as JSON values, and the curve of its scores.

    Parameters are as for :func:`audited`; ``others`` are the verdicts of all judges. A judge that gives scores alone is audited as its
    score is thresholded, each task by a threshold that it had no part in choosing.
    """
    from real_loop.audit import changes, words

    found: dict[str, Any] = {
        "judge": cases.judges[0],
        "rows": len(cases),
        "tasks": len(set(cases.task.tolist())) if cases.clustered else None,
        "calls": len(cases) / len(set(cases.case.tolist())),
        "weighted": bool((cases.weight != cases.weight[0]).any()),
        "confidence": confidence,
        "n_min": point.n_min,
    }
    scores, unscored = changes.scored(cases, point, confidence)
    judged = changes.thresholded(cases, scores) if cases.verdict is None and scores is not None else cases
    found["by_score"] = judged is not cases
    placed, rates = _placed(judged, point, confidence, difficulty)
    found |= placed | changes.changes(cases, cases if others is None else others, scores, rates, point, confidence)
    return found | {"reasons": words.reasons(found, point), "notes": words.notes(found, unscored)}, scores


def _placed(cases: Cases, point: Point, confidence: float, difficulty: np.ndarray | None) -> tuple[dict[str, Any], Rates | None]:
    """Return rates, place and verdict of a judge, as JSON values, and the rates; without verdicts only that there are none."""
    from real_loop.audit import place
    from real_loop.audit.rates import by_class, measured
    from sim import advice, theory

    pi = float(theory.pi_tau(point.tau))
    if cases.verdict is None:
        nothing = dict.fromkeys(("rho_fp", "rho_pf", "kappa", "region", "curator", "theory", "invalid", "edges"))
        counts = {"true_fails": int((~cases.truth).sum()), "true_passes": int(cases.truth.sum())}
        return {"verdict": place.UNDETERMINED, **counts, **nothing, "pi_tau": pi, "classes": [], "resamples": 0}, None
    rates = measured(cases, confidence)
    verdict, fp, pf = place.verdict(rates, point.tau, confidence)
    judged = dataclasses.replace(point, rho_fp=rates.rho_fp.value or 0.0, rho_pf=rates.rho_pf.value or 0.0)
    known = rates.kappa is not None
    fate = place.curator(rates, point)
    found = {
        "verdict": verdict,
        "true_fails": rates.rho_fp.n,
        "true_passes": rates.rho_pf.n,
        "rho_fp": _rate(rates.rho_fp),
        "rho_pf": _rate(rates.rho_pf),
        "kappa": {"value": rates.kappa, "interval": rates.kappa_interval} if known else None,
        "resamples": rates.resamples,
        "pi_tau": pi,
        "region": theory.region(point.tau, judged.rho_fp, judged.rho_pf) if known else None,
        "edges": [_side(fp), _side(pf)],
        "curator": None if fate is None else {"trials": fate["trials"], **{k: fate[k]._asdict() for k in ("bad", "good")}},
        "classes": [
            {"class": group.cls, "truth": "pass" if group.truth else "fail", "flagged": group.flagged, **_rate(group.rate)}
            for group in by_class(cases, confidence)
        ],
        "invalid": _invalid(cases, point, confidence),
        "theory": advice.assess(judged, difficulty) if known else None,
    }
    return found, rates


def _rate(rate: Rate) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(rate).items()}


def _side(side: Side) -> dict[str, Any]:
    edge = {"name": side.edge.name, "rate": "rho_pf" if side.edge.truth else "rho_fp", "at": side.edge.at, "where": side.where}
    return edge | {"chance_past": side.past, "more_cases": side.more, "more_tasks": side.tasks, "least_cases": side.least}


def _invalid(cases: Cases, point: Point, confidence: float) -> dict[str, Any] | None:
    """Return how many rows had no verdict, and what the audit finds without them."""
    from real_loop.audit import place
    from real_loop.audit.rates import measured

    if cases.invalid is None or not cases.invalid.any():
        return None
    left_out = None
    if not cases.invalid.all():
        rates = measured(cases.of(~cases.invalid), confidence)
        verdict, _, _ = place.verdict(rates, point.tau, confidence)
        left_out = {"verdict": verdict, "rho_fp": _rate(rates.rho_fp), "rho_pf": _rate(rates.rho_pf)}
    among = {"true_fails": int((cases.invalid & ~cases.truth).sum()), "true_passes": int((cases.invalid & cases.truth).sum())}
    return {"rows": int(cases.invalid.sum()), **among, "left_out": left_out}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
