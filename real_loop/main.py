"""The command ``python -m real_loop``: settings in, one run played with real roles, its log, table and figures out."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sim import __version__
from sim.errors import InputError, RunError
from sim.main import about, config_dir
from sim.report import guarded

if TYPE_CHECKING:
    from real_loop.config import Plan

HELP = """\
Run a skill library with real LLM roles and a true grader (unit tests of programs, checks of the form of reports), under a fallible
reward; the controller is the simulator's.

usage: python -m real_loop [key=value ...] [--config-dir FOLDER]

  python -m real_loop model=scripted/mbpp_hard100             no model: roles that follow a world of the simulator
  python -m real_loop subset=demo24 model=local/qwen2.5-coder-0.5b
  python -m real_loop subset=mbpp_hard100                     local/qwen2.5-coder-1.5b, a perfect grader
  python -m real_loop reward=bias q=0.45 model=anthropic/claude-haiku-4-5 budget.cost=5
  python -m real_loop subset=report model=anthropic/claude-haiku-4-5 budget.cost=5        sections of reports instead of programs
  python -m real_loop model=openai-api/mine/NAME base_url=http://127.0.0.1:8080/v1
  python -m real_loop.probe subset=mbpp_hard100               choose the tasks: those a model fails at least once in three
  python -m real_loop.show outputs/real_loop/...              skills with their counters and texts, and a skill's history
  python -m real_loop.export outputs/real_loop/...            JSON lines, and a dataset with the simulator's variables

Everything is in the log before it is used. The same command again continues where it stopped, after any kill, and asks nothing twice.

options:
  --help       this page
  --cfg        print the settings that a command would use, and stop
  --export     also write the log as JSON lines and as a dataset with the simulator's variables
  --version    print the version
  --config-dir FOLDER
               also look for presets in FOLDER/subset/*.yaml, FOLDER/policy/*.yaml and so on

presets:
"""


def help_text(more: Path | None = None) -> str:
    """Return the page that --help prints."""
    from real_loop.config import CONF, GROUPS, choices
    from real_loop.config import flat as _flat
    from real_loop.config import read_yaml as _yaml
    from real_loop.settings import Settings
    from sim.params import parameters

    base = _flat(_yaml(CONF / "config.yaml"))
    lines = []
    for group in GROUPS:
        lines += [f"  {f'{group}={name}':28} {about(file)}" for name, file in choices(group, more).items()]
    lines += ["", "settings, with their defaults:"]
    for rate, of in {"q": "bias", "rho": "noise", "rho_fp": "general", "rho_pf": "general"}.items():
        lines.append(f"  {rate:32} of reward={of}: a probability ({base[rate]})")
    for p in parameters(Settings):
        unit = "" if p.unit in ("1", "probability") or p.expected.startswith("one of") else f" [{p.unit}]"
        default = f" ({base[p.path]})" if base.get(p.path) is not None else ""
        lines.append(f"  {p.path:32} {p.doc}{unit}: {p.expected}{default}")
    return HELP + "\n".join(lines)


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 1 ended before its time, 130 stopped."""
    return guarded(_main, args)


def _main(args: list[str]) -> int:
    more, args = config_dir(args)
    flags = [a for a in args if a.startswith("-")]
    overrides = [a for a in args if not a.startswith("-")]
    if unknown := [f for f in flags if f not in ("--help", "-h", "--cfg", "--version", "--export")]:
        raise InputError(unknown[0], "an unknown option", "--help, --cfg, --export, --version or --config-dir")
    if {"--help", "-h"} & set(flags):
        print(help_text(more))
        return 0
    if "--version" in flags:
        print(f"halfblind {__version__}")
        return 0
    from real_loop.config import load

    plan = load(overrides, more)
    if "--cfg" in flags:
        import yaml

        from real_loop.models import redact
        from sim.params import to_mapping

        print(redact(yaml.safe_dump(to_mapping(plan.settings), sort_keys=False, default_flow_style=False)), end="")
        return 0
    given = [*shown(overrides), *(["--config-dir", str(more)] if more else []), *(["--export"] if "--export" in flags else [])]
    return play(plan, shlex.join(["python", "-m", "real_loop", *given]), export="--export" in flags)


def shown(overrides: Sequence[str]) -> list[str]:
    """Return arguments as they may be printed: without keys."""
    from real_loop.models import redact

    return [redact(override) for override in overrides]


def play(plan: Plan, command: str, export: bool = False) -> int:
    """Play a run or what is left of it; say how it went."""
    from real_loop import ending, run
    from real_loop.tasks import chosen
    from real_loop.view import View

    path = plan.out / "log.sqlite"
    tasks = chosen(plan.settings) if plan.cell is None else None
    release = held(plan.out)
    ended: RunError | None = None
    try:
        with View(plan.settings.policy.rounds, plan.out.name) as view:
            if tasks is None:
                asyncio.run(run.scripted(plan, path, view))
            else:
                asyncio.run(run.prompted(plan, path, view, tasks, view.note))
    except RunError as error:
        ended = error
    except KeyboardInterrupt:
        ending.say(path, plan.out, export=False, draw=False)
        print(f"stopped; everything so far is in the log. Continue with: {command}", file=sys.stderr)
        return 130
    finally:
        release()
    try:
        status = ending.say(path, plan.out, export)
    except InputError:
        if ended is None:
            raise
        status = ended.status  # a log that is gone, or another's: that is what ended the run
    if ended is not None:
        raise ended
    return status


def held(folder: Path) -> Callable[[], None]:
    """Make a folder and hold it against a second run; return what ends that.

    Raises
    ------
    InputError
        It cannot be made, or another run holds it.
    """
    from sim.places import Folder

    try:
        return Folder(folder).hold()
    except OSError as error:
        raise InputError(
            "out", f"{folder} ({(error.strerror or str(error)).lower()})", "a folder that can be made and written to"
        ) from None
