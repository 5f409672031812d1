"""``python -m sim.calibrate``: fit the worlds of the presets to what papers report, and say what the reports leave open.

With ``from=LOG`` it estimates the world of a real run from its log instead (:mod:`real_loop.estimate`).

Targets are read by :mod:`sim.targets`, the loss is that of :mod:`sim.fit`, the search :mod:`sim.search`, the report
:mod:`sim.fitted`.
"""

from __future__ import annotations

import difflib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from sim import __version__
from sim.config import CONF
from sim.errors import InputError
from sim.fit import Problem
from sim.fitted import assess, print_ranges, print_targets, ranges, write_json, write_presets
from sim.free import all_parameters
from sim.report import Progress, guarded
from sim.search import Ledger, search, walk
from sim.sweep import check_runs
from sim.targets import BC_SUBSETS, SUBSETS, read_targets

PAPERS: Final = CONF / "targets" / "papers.csv"
BEST, FIT = "best.json", "fit.json"
MAX_EVALUATIONS: Final = 10**7

HELP = f"""\
Fit the worlds of the presets to what papers report, and say what the reports leave open.

usage: python -m sim.calibrate [key=value ...]

  python -m sim.calibrate                                   the papers' figures, a quarter of an hour on two cores
  python -m sim.calibrate evaluations=500 walk=0            a look
  python -m sim.calibrate start=outputs/calibrate/best.json continue from the best so far
  python -m sim.calibrate 'subsets=[mbpp_100]' out=outputs/rt    RT's run and its ablations
  python -m sim.calibrate 'subsets=[report_band_58]' 'fix=[router,synth.memory]' out=mine

keys:
  targets=FILE     CSV: subset,channel,metric,value,tolerance,source (the papers' figures)
  runs=N           libraries per cell in an evaluation (300)
  evaluations=N    parameter vectors that the search may try (8000)
  walk=N           steps of the walk that ranges come from, half of them kept (8000); 0 for none
  seed=N           key of all randomness (1)
  out=FOLDER       {BEST} while it runs, {FIT} and presets at the end (outputs/calibrate)
  start=FILE       {BEST} or {FIT} of an earlier fit: start from its parameters
  subsets=[...]    subsets to fit: {", ".join(BC_SUBSETS)} (all of these); or mbpp_100
  fix=[...]        parameters that keep their start value; a group (router) or a subset stands for all in it

free parameters and their bounds:
"""
MORE = """\
A parameter with the name of a subset in front is its own; the others are shared. The loss is the sum of squared deviations in
tolerances over targets, 0 inside a range or bound; a target of several channels counts once, where it is off most. All
vectors are tried on the same runs, the table is made on others. out/roles and out/world are presets: --config-dir takes them."""


@dataclass(frozen=True)
class Settings:
    """What the command is asked to do."""

    targets: Path = PAPERS
    runs: int = 300
    evaluations: int = 8000
    walk: int = 8000
    seed: int = 1
    out: Path = Path("outputs/calibrate")
    start: Path | None = None
    subsets: tuple[str, ...] = BC_SUBSETS
    fix: tuple[str, ...] = ()


# ---------------------------------------------------------------- command line


def help_text() -> str:
    """Return the page that --help prints."""
    lines = []
    for p in all_parameters():
        kind = ", whole" if p.whole else ", by its logarithm" if p.log else ""
        lines.append(f"  {p.name:32} {p.low:g} to {p.high:g}{kind}")
    return HELP + "\n".join([*lines, "", MORE])


def read(args: Sequence[str]) -> Settings:
    """Read the command line.

    Raises
    ------
    InputError
        A key is unknown or given twice, or a value is not what it should be.
    """
    known = list(Settings.__dataclass_fields__)
    given: dict[str, Any] = {}
    for arg in args:
        key, equals, text = arg.partition("=")
        if not equals:
            raise InputError(arg or "''", "an argument without =", "key=value", "see python -m sim.calibrate --help")
        if key not in known:
            if key in ("probes", "draws", "unfinished"):
                raise InputError(key, "a key that goes with from=LOG", "from= beside it", "see python -m sim.calibrate --help")
            near = difflib.get_close_matches(key, known, n=1) or known
            raise InputError(key, "an unknown key", " or ".join(near) if len(near) == 1 else "one of " + ", ".join(known))
        if not text.strip():
            raise InputError(key, "nothing", "a value")
        if key in given:
            raise InputError(key, f"a second value, {text}", "one value")
        given[key] = _value(key, text.strip())
    settings = Settings(**given)
    check_runs(settings.runs)
    if unknown := [s for s in settings.subsets if s not in SUBSETS]:
        raise InputError("subsets", repr(unknown[0]), "names among " + ", ".join(SUBSETS))
    return settings


def _value(key: str, text: str) -> Any:
    if key in ("targets", "out", "start"):
        return Path(os.path.expanduser(text))
    if key in ("subsets", "fix"):
        inside = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        names = tuple(name.strip() for name in inside.split(","))
        if key == "fix" and names == ("",):
            return ()
        if "" in names or not all(name.replace(".", "_").isidentifier() for name in names):
            raise InputError(key, text, f"names: {key}=[..., ...]")
        return names
    low, high = {"runs": (2, 10**6), "evaluations": (1, MAX_EVALUATIONS), "walk": (0, MAX_EVALUATIONS), "seed": (0, 2**32 - 1)}[key]
    if not text.isascii() or not text.isdigit() or not low <= int(text[:20]) <= high:
        raise InputError(key, text, f"a whole number from {low} to {high}")
    return int(text)


def read_start(path: Path) -> dict[str, float]:
    """Return the parameters that an earlier fit ended with.

    Raises
    ------
    InputError
        The file cannot be read, or has no parameters.
    """
    try:
        content = json.loads(path.read_text())
        parameters = content.get("found", content)["parameters"]
        return dict(parameters.items())
    except (OSError, UnicodeDecodeError, ValueError, KeyError, AttributeError, TypeError):
        raise InputError(f"start={path}", "a file that cannot be used", f"{BEST} or {FIT} of an earlier fit") from None


def _check_out(settings: Settings) -> None:
    out, start = settings.out, settings.start
    if out.exists() and not out.is_dir():
        raise InputError(f"out={out}", "a file", "a folder")
    if any((out / name).exists() for name in (BEST, FIT)) and (start is None or start.resolve().parent != out.resolve()):
        todo = f"continue with start={out / BEST}, or choose another out=..."
        raise InputError(f"out={out}", "a folder with a fit in it", "an empty or new one", todo)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out={out}", f"a folder that cannot be made ({error})", "a folder that can be written") from None


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 130 stopped."""
    return guarded(_main, args)


def _main(args: list[str]) -> int:
    if {"--help", "-h"} & set(args):
        from real_loop.estimate.command import HELP as FROM_LOGS

        print(f"{help_text()}\n\nOr estimate the world of a run of python -m real_loop from its log:\n\n{FROM_LOGS}", end="")
        return 0
    if flags := [a for a in args if a.startswith("-")]:
        raise InputError(flags[0], "an unknown option", "key=value or --help")
    if any(a.startswith("from=") for a in args):
        from real_loop.estimate import command  # the simulator knows no logs until it is asked about one

        return command.run(args, list(Settings.__dataclass_fields__))
    settings = read(args)
    everything = read_targets(settings.targets)
    start = read_start(settings.start) if settings.start else None
    problem = Problem(everything, settings.subsets, settings.fix, start, settings.seed)
    _check_out(settings)
    try:
        with Progress("calibrate") as progress:
            found = _fit(settings, problem, everything, progress)
    except KeyboardInterrupt:
        best = settings.out / BEST
        kept = f"the best so far is kept. Continue with: start={best}" if best.exists() else "nothing was evaluated yet"
        print(f"stopped; {kept}", file=sys.stderr)
        return 130
    print_targets(found)
    if "ranges" in found:
        print_ranges(found["ranges"])
    print(f"{found['evaluations']:,} evaluations, {settings.walk:,} steps, {settings.runs} runs each, in {found['seconds']:.0f} s")
    for path in (settings.out / FIT, settings.out / "roles", settings.out / "world"):
        print(path)
    return 0


# ---------------------------------------------------------------- the fit


def _fit(settings: Settings, problem: Problem, everything: Sequence[Any], progress: Progress) -> dict[str, Any]:
    """Search, report, walk; return all that was found, which is also in the folder."""
    progress.note("compiling the kernel (once for this version)")
    problem.predict(problem.start, 1)
    about = {"package": f"halfblind {__version__}", "runs": settings.runs, "seed": settings.seed, "file": settings.targets.name}
    began = time.perf_counter()

    def loss(unit: np.ndarray) -> float:
        return problem.loss(problem.values(unit), settings.runs)

    def improved(unit: np.ndarray, value: float) -> None:
        content = {**about, "loss": value, "evaluations": len(ledger.losses), "parameters": problem.values(unit)}
        write_json(settings.out / BEST, content)
        progress.start(settings.evaluations, f"loss {value:.2f}", "evaluations")
        progress.advance(len(ledger.losses) - 1, False)

    ledger = Ledger(loss, settings.evaluations, improved, lambda: progress.advance(1, True))
    progress.start(settings.evaluations, unit="evaluations")
    steps = np.array([p.step for p in problem.free])
    search(ledger, problem.unit(problem.start), steps, settings.seed, explore=settings.start is None)
    progress.note("the table")
    values = problem.values(ledger.best)
    found = {**about, "evaluations": len(ledger.losses), **assess(problem, everything, values, settings.runs)}
    found["seconds"] = round(time.perf_counter() - began, 1)
    write_json(settings.out / FIT, found)
    write_presets(problem, values, settings.out)
    if settings.walk > 1:
        progress.start(settings.walk, "ranges", "steps")
        walked = walk(ledger, settings.walk, settings.seed, lambda: progress.advance(1, True), loss)
        found["ranges"] = ranges(problem, walked, settings.runs, ledger.best_loss)
        found["seconds"] = round(time.perf_counter() - began, 1)
        write_json(settings.out / FIT, found)
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
