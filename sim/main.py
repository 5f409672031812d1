"""The command ``python -m sim``: settings in, sweep played, results stored, table and figures out."""

from __future__ import annotations

import functools
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim import __version__
from sim.errors import InputError

if TYPE_CHECKING:
    from sim.config import Settings
    from sim.store import Store

HELP = """\
Simulate self-evolving skill libraries under a fallible judge.

usage: python -m sim [+sweep=NAME] [key=value ...]

  python -m sim                                     one point: the default world, policy and channel
  python -m sim +sweep=cliff                        a sweep: table, figures and result.zarr in outputs/cliff/default
  python -m sim +sweep=plane world=report_band_58 runs=100000
  python -m sim channel.rho_fp=0.3 policy.tau=0.2   another point
  python -m sim '+axes.rho_fp=[0,0.2,0.4]' '+axes.n_min={start:8,stop:64,step:8}'
  python -m sim +sweep=cliff 'target_se={retired: 0.01}'
  python -m sim.figures outputs/cliff/default       draw a stored result again

The same command again continues where it stopped; more runs= adds to what is there.

options:
  --help       this page
  --cfg        print the config that a command would use, and stop
  --version    print the version

keys:
"""


def help_text() -> str:
    """Return the page that --help prints."""
    from sim.config import groups
    from sim.model import parameters

    lines = [f"  {group + '=...':12} {', '.join(names)}" for group, names in groups().items() if group != "roles"]
    lines += [
        "  runs=N       libraries per cell",
        "  seed=N       key of all randomness",
        "  out=FOLDER   where the results go",
        "  target_se={VARIABLE: ERROR}, max_runs=N    add runs until each standard error is below its target",
        "  engine.threads=N",
        "  figures=[NAME, ...]",
        "",
        "parameters (each can be an axis):",
    ]
    lines += [f"  {p.path:30} {p.doc} [{p.unit}]" for p in parameters()]
    return HELP + "\n".join(lines)


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 130 stopped."""
    try:
        return _main(list(args))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141


def _main(args: list[str]) -> int:
    flags = [a for a in args if a.startswith("-")]
    overrides = [a for a in args if not a.startswith("-")]
    if unknown := [f for f in flags if f not in ("--help", "-h", "--cfg", "--version")]:
        raise InputError(unknown[0], "an unknown option", "--help, --cfg or --version")
    if {"--help", "-h"} & set(flags):
        print(help_text())
        return 0
    if "--version" in flags:
        print(f"halfblind {__version__}")
        return 0
    from sim.config import load

    settings = load(overrides)
    if "--cfg" in flags:
        import yaml

        print(yaml.safe_dump(settings.resolved, sort_keys=False, default_flow_style=False), end="")
        return 0
    return run(settings, overrides)


def run(settings: Settings, overrides: Sequence[str]) -> int:
    """Play a sweep, store its results, print the table, draw the figures."""
    from sim import figures, report
    from sim.kernels.backends import backend
    from sim.store import Store, open_result

    simulate = backend(settings.backend)
    figures.check(settings.figures)
    command = " ".join(["python -m sim", *(_quoted(o) for o in overrides)])
    store = Store(settings.out, settings.sweep)
    try:
        with report.Progress(settings.sweep.name) as progress:
            try:
                began = time.perf_counter()
                fresh = _play(settings, store, simulate, progress)
                seconds = time.perf_counter() - began
            except KeyboardInterrupt:
                print(f"stopped; finished tiles are kept. Continue with: {command}", file=sys.stderr)
                return 130
        if fresh or not store.complete:
            store.finish(_provenance(settings, command, seconds, fresh))
    finally:
        store.close()
    data = open_result(settings.out)
    report.table(data)
    drawn = figures.draw(data, settings.out, settings.figures)
    report.paths([settings.out / "result.zarr", *drawn], fresh, seconds)
    return 0


def _play(settings: Settings, store: Store, simulate: Any, progress: Any) -> int:
    """Play what is missing; return how many libraries were simulated."""
    from sim.engines import Local, play, streams, wanted_runs

    sweep, engine = settings.sweep, Local(settings.threads)
    fresh = 0

    def advance(libraries: int, new: bool) -> None:
        nonlocal fresh
        fresh += libraries if new else 0
        progress.advance(libraries, new)

    if settings.backend == "numba":
        progress.note("compiling the kernel (once for this version)")
        _compile(settings, simulate)
    do = functools.partial(_stream, play, sweep, store, simulate, advance)
    wanted: Callable[[Any], int] = lambda block: settings.runs  # noqa: E731
    progress.start(sweep.size * settings.runs)
    engine.run(streams(sweep, wanted), do)
    while settings.target_se:
        before = fresh
        wanted = wanted_runs(sweep, store, settings.runs, settings.target_se, settings.max_runs)
        progress.start(None, "more runs for target_se")
        engine.run(streams(sweep, wanted), do)
        if fresh == before:
            break
    return fresh


def _stream(play: Any, sweep: Any, store: Store, simulate: Any, advance: Any, stream: Any, stop: Any) -> None:
    play(sweep, store, simulate, stream, advance, stop)


def _compile(settings: Settings, simulate: Any) -> None:
    """Have the kernel compiled, or loaded from its cache, before the clock of the progress bar starts."""
    sweep = settings.sweep
    block = next(sweep.blocks())
    simulate(sweep.layout, *sweep.tables(block), sweep.seed, 0, 1)


def _quoted(override: str) -> str:
    import shlex

    return shlex.quote(override)


def _provenance(settings: Settings, command: str, seconds: float, fresh: int) -> dict[str, Any]:
    from sim.store import now

    return {
        "package": f"halfblind {__version__}",
        "commit": _commit(),
        "command": command,
        "config": settings.resolved,
        "seed": settings.sweep.seed,
        "backend": settings.backend,
        "engine": "local",
        "finished": now(),
        "wall_seconds": round(seconds, 3),
        "runs_per_second": round(fresh / seconds) if seconds > 0 else 0,
    }


def _commit() -> str:
    """Return the commit of the checkout this package runs from, or nothing when it runs from elsewhere."""
    here = Path(__file__).resolve().parent
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=here, capture_output=True, text=True, timeout=5, check=True
        )
        top = subprocess.run(["git", "rev-parse", "--show-toplevel"], cwd=here, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if Path(top.stdout.strip()) == here.parent else ""
