"""The command ``python -m sim``: settings in, sweep played, results stored, table and figures out."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim import __version__
from sim.errors import InputError
from sim.report import guarded

if TYPE_CHECKING:
    from sim.config import Settings
    from sim.kernels.backends import Backend
    from sim.report import Progress
    from sim.store import Store

HELP = """\
Simulate self-evolving skill libraries under a fallible judge.

usage: python -m sim [+sweep=NAME] [key=value ...] [--config-dir FOLDER]

  python -m sim                                     one point: the default world, policy and channel
  python -m sim +sweep=cliff                        a sweep: table, figures and result.zarr in outputs/cliff/default
  python -m sim +sweep=plane world=report_band_58 runs=100000
  python -m sim channel.rho_fp=0.3 policy.tau=0.2   another point
  python -m sim '+axes.rho_fp=[0,0.2,0.4]' '+axes.n_min={start:8,stop:64,step:8}'
  python -m sim +sweep=cliff 'target_se={retired: 0.05}'
  python -m sim.figures outputs/cliff/default       draw a stored result again

The same command again continues where it stopped; more runs= adds to what is there.

options:
  --help       this page
  --cfg        print the config that a command would use, and stop
  --version    print the version
  --config-dir FOLDER
               also look for presets in FOLDER/world/*.yaml, FOLDER/sweep/*.yaml and so on

presets:
"""


def about(file: Path) -> str:
    """Return the first sentence of a preset's opening comment."""
    comments = []
    for line in file.read_text(errors="replace").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith(("# @", "# python ")):
            comments.append(line.lstrip("# "))
    return re.split(r"(?<=[.:]) ", " ".join(comments))[0].rstrip(":")


def help_text(more: Path | None = None) -> str:
    """Return the page that --help prints."""
    from sim.config import groups
    from sim.model import parameters

    lines = []
    for group, files in groups(more).items():
        if group != "roles":
            key = "+sweep" if group == "sweep" else group
            lines += [f"  {f'{key}={name}':24} {about(file)}" for name, file in files.items()]
    lines += [
        "",
        "settings:",
        "  runs=N       libraries per cell",
        "  seed=N       key of all randomness",
        "  out=FOLDER   where the results go; also a URL such as s3://bucket/name",
        "  target_se={VARIABLE: ERROR}, max_runs=N    add runs until each standard error is below its target",
        "  engine.threads=N                   threads of this process",
        "  engine=dask engine.workers=N       processes of this machine",
        "  engine=dask engine.address=tcp://HOST:PORT    the workers of a Dask scheduler",
        "  engine=dask 'engine.cluster={class: SLURMCluster, ...}' engine.jobs=N    jobs of a queue, by dask-jobqueue",
        "  backend.memory=GIB                 of runs in flight on each device, with backend=jax",
        "  figures=[NAME, ...]",
        "  policy.curator=NAME policy.NAME.parameter=VALUE    another rule than the papers': python -m sim.curators lists them",
        "",
        "parameters (each can be an axis):",
    ]
    for p in parameters():
        unit = "" if p.unit in ("1", "probability") or p.expected.startswith("one of") else f" [{p.unit}]"
        lines.append(f"  {p.path:30} {p.doc}{unit}: {p.expected}")
    return HELP + "\n".join(lines)


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 1 tiles failed or workers lost, 130 stopped."""
    return guarded(_main, args)


def config_dir(args: list[str]) -> tuple[Path | None, list[str]]:
    """Take ``--config-dir FOLDER`` out of the arguments; return the folder, if any, and the others."""
    for i, arg in enumerate(args):
        if arg == "--config-dir" or arg.startswith("--config-dir="):
            _, _, folder = arg.partition("=")
            given = args[i : i + 1] if folder else args[i : i + 2]
            if not folder and len(given) < 2:
                raise InputError("--config-dir", "nothing", "a folder")
            return Path(os.path.expanduser(folder or given[1])), args[:i] + args[i + len(given) :]
    return None, args


def _main(args: list[str]) -> int:
    more, args = config_dir(args)
    flags = [a for a in args if a.startswith("-")]
    overrides = [a for a in args if not a.startswith("-")]
    if unknown := [f for f in flags if f not in ("--help", "-h", "--cfg", "--version")]:
        raise InputError(unknown[0], "an unknown option", "--help, --cfg, --version or --config-dir")
    if {"--help", "-h"} & set(flags):
        print(help_text(more))
        return 0
    if "--version" in flags:
        print(f"halfblind {__version__}")
        return 0
    from sim.cluster import shown_overrides
    from sim.config import load

    settings = load(overrides, more)
    if "--cfg" in flags:
        import yaml

        print(yaml.safe_dump(settings.resolved, sort_keys=False, default_flow_style=False), end="")
        return 0
    return run(settings, shlex.join(["python", "-m", "sim", *shown_overrides(overrides), *(["--config-dir", str(more)] if more else [])]))


def run(settings: Settings, command: str) -> int:
    """Play a sweep, store its results, print the table, draw the figures."""
    from sim import figures, report
    from sim.kernels.backends import backend
    from sim.store import Store

    how = backend(settings.backend, settings.memory)
    figures.check(settings.figures)
    store = Store(settings.out, settings.sweep)
    try:
        with report.Progress(settings.sweep.name) as progress:
            fresh, seconds, where = _play(settings, store, how, progress)
            data = _results(settings.out, store, fresh, _provenance(settings, command, seconds, fresh, where), progress)
            if int(data["runs"].min()) < settings.runs:
                todo = "run the same command again"
                raise InputError(store.path, "fewer runs than were played", f"{settings.runs} in every cell", todo)
            progress.note("drawing")
            drawn = _drawn(settings, data)
    except KeyboardInterrupt:
        print(f"stopped; finished tiles are kept. Continue with: {command}", file=sys.stderr)
        return 130
    finally:
        store.close()
    report.table(data)
    report.paths([store.path, *drawn], fresh, seconds)
    return 0


def _drawn(settings: Settings, data: Any) -> list[Path]:
    from sim import figures

    names = settings.figures
    if names and not settings.figures_asked:  # a sweep that was narrowed may not have all that its figures need
        names = figures.fitting(data, names)
        if left := [name for name in settings.figures or () if name not in (names or ())]:
            print(f"left out: {', '.join(left)}; sim/figures/README.md says which results each needs", file=sys.stderr)
    try:
        return figures.draw(data, settings.pictures, names)
    except InputError as error:
        error.add_note("the results are kept")
        raise


def _results(out: Path | str, store: Store, fresh: int, provenance: dict[str, Any], progress: Progress) -> Any:
    """Return the results, worked out from the sums when they are new, unfinished or damaged."""
    from sim.store import open_result

    if not fresh and store.complete:
        try:
            return open_result(out)
        except InputError:
            pass  # the sums are whole, or playing would have failed
    progress.start(store.sweep.size, "writing results", "cells")
    store.finish(provenance, lambda cells: progress.advance(cells, True))
    return open_result(out)


def _play(settings: Settings, store: Store, how: Backend, progress: Progress) -> tuple[int, float, dict[str, Any]]:
    """Play what is missing; return how many libraries were simulated, the seconds that took, and where it was."""
    from sim.engines import Ladder, opened, streams

    sweep = settings.sweep
    counts = {True: 0, False: 0}
    lock = threading.Lock()

    def advance(libraries: int, new: bool) -> None:
        with lock:
            counts[new] += libraries
        progress.advance(libraries, new)

    if how.prepare is not None and (settings.cluster is None or settings.cluster.here):
        progress.note("compiling the kernel (once for this version)")
        compile_kernel(settings, how, progress)
    if settings.cluster is not None:
        progress.note("looking for workers")
    with opened(settings, store, how, advance) as (run, about):
        began = time.perf_counter()
        progress.start(sweep.size * settings.runs)
        run(streams(sweep, lambda block: settings.runs))
        while settings.target_se:
            progress.start(None, "more runs for target_se")
            ladder = Ladder(sweep, store, settings.runs, settings.target_se, settings.max_runs)
            run(streams(sweep, ladder))
            if not ladder.raised:
                break
        return counts[True], time.perf_counter() - began, about()


def compile_kernel(settings: Settings, how: Backend, progress: Progress) -> None:
    """Have the kernel compiled, or loaded from its cache, before the clock of the progress bar starts.

    It happens on a thread of its own, because compilers do not survive a KeyboardInterrupt. When one comes, nothing has been
    computed yet, and the process ends without waiting for the compiler.
    """
    sweep = settings.sweep
    block = next(sweep.blocks())
    prepare = how.prepare or (lambda *_: None)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            prepare(sweep.layout, *sweep.tables(block), min(sweep.tile_runs, settings.runs))
        except BaseException as error:  # handed to the caller below
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.05)
    except KeyboardInterrupt:
        progress.__exit__()
        print("stopped before anything was simulated", file=sys.stderr, flush=True)
        os._exit(130)
    if errors:
        raise errors[0]


def _provenance(settings: Settings, command: str, seconds: float, fresh: int, where: dict[str, Any]) -> dict[str, Any]:
    from sim.store import now

    return {
        "package": f"halfblind {__version__}",
        "commit": commit(),
        "command": command,
        "config": settings.resolved,
        "seed": settings.sweep.seed,
        "backend": settings.backend,
        "engine": settings.resolved["engine"]["name"],
        "engine_where": json.dumps(where),
        "finished": now(),
        "wall_seconds": round(seconds, 3),
        "runs_per_second": round(fresh / seconds) if seconds > 0 else 0,
    }


def commit() -> str:
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
