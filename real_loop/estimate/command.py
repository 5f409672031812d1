"""``python -m sim.calibrate from=LOG``: read logs, estimate their World, say and store what was found, as a preset too."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

from sim import __version__
from sim.errors import InputError
from sim.report import WIDE, Progress

FILE: Final = "estimate.json"
KEYS: Final = ("from", "probes", "out", "draws", "seed", "unfinished")
MAX_DRAWS: Final = 100_000
HELP: Final = """\
usage: python -m sim.calibrate from=LOG[,LOG...] [probes=FILE] [key=value ...]

  python -m sim.calibrate from=outputs/real_loop/mbpp_hard100/default       the world of a run of real roles, with intervals
  python -m sim.calibrate from=RUN1,RUN2 probes=SPLIT.json                  of several runs, and the split that chose their tasks

keys:
  from=LOG,...     folders of runs of python -m real_loop, or logs, of one suite, split and set of roles; any rewards
  probes=FILE      the split that chose the tasks, with its probes (that of the runs, if it is found; none: without)
  out=FOLDER       estimate.json and the preset world/NAME.yaml (outputs/estimate/NAME)
  draws=N          joint draws kept (400)
  seed=N           of the sampler (1)
  unfinished=yes   also read a log that is not finished, as far as it goes
"""


@dataclass(frozen=True)
class Asked:
    """What the command is asked to do."""

    logs: tuple[Path, ...]
    probes: Path | None = None
    out: Path | None = None
    draws: int = 400
    seed: int = 1
    unfinished: bool = False


def read(args: Sequence[str], others: Sequence[str]) -> Asked:
    """Read the command line.

    Parameters
    ----------
    args
        Of the command, ``from=`` among them.
    others
        Keys that fit to papers takes, which have no place here.

    Raises
    ------
    InputError
        A key is unknown, given twice or of a fit to papers, or a value is not what it should be.
    """
    given: dict[str, Any] = {}
    for arg in args:
        key, equals, text = arg.partition("=")
        if not equals:
            raise InputError(arg or "''", "an argument without =", "key=value", "see python -m sim.calibrate --help")
        if key not in KEYS and key in others:
            raise InputError(key, "a key of a fit to papers, with from=", "one of " + ", ".join(KEYS))
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1) or KEYS
            raise InputError(key, "an unknown key", near[0] if len(near) == 1 else "one of " + ", ".join(KEYS))
        if key in given:
            raise InputError(key, f"a second value, {text}", "one value")
        if not text.strip():
            raise InputError(key, "nothing", "a value")
        given[key] = _value(key, text.strip())
    logs = given.pop("from")
    return Asked(logs, **given)


def _value(key: str, text: str) -> Any:
    if key == "from":
        names = text.split(",")
        if "" in names:
            raise InputError(key, text, "logs with a comma between them")
        return tuple(Path(os.path.expanduser(name)) for name in names)
    if key in ("probes", "out"):
        return Path(os.path.expanduser(text))
    if key == "unfinished":
        if text not in ("yes", "no"):
            raise InputError(key, text, "yes or no")
        return text == "yes"
    low, high = {"draws": (2, MAX_DRAWS), "seed": (0, 2**32 - 1)}[key]
    if not text.isascii() or not text.isdigit() or not low <= int(text[:20]) <= high:
        raise InputError(key, text, f"a whole number from {low} to {high}")
    return int(text)


def run(args: Sequence[str], others: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    from real_loop.estimate import estimate
    from real_loop.estimate.counts import gather

    asked = read(args, others)
    histories = opened(asked)
    probes, file = probes_of(histories, asked.probes)
    name = preset_name(histories[0])
    out = asked.out if asked.out is not None else Path("outputs") / "estimate" / name
    about = {
        "package": f"halfblind {__version__}",
        "logs": [str(h.path.resolve()) for h in histories],
        "rounds": [h.ended for h in histories],
        "probes": str(file.resolve()) if file is not None else None,
        "seed": asked.seed,
        "draws": asked.draws,
    }
    gather(histories, probes)  # what is wrong with the logs is said before a folder is made
    _check_out(out, about)
    with Progress("estimating") as progress:

        def watch(steps: int) -> Callable[[], None]:
            progress.start(steps, unit="steps")
            return lambda: progress.advance(1, True)

        found = estimate(histories, probes, asked.draws, asked.seed, watch=watch)
    written = write(found, out, name, about)
    say(found, histories)
    for path in written:
        print(path)
    print(f"python -m sim --config-dir {out} world={name}")
    return 0


def opened(asked: Asked) -> list[Any]:
    """Read the logs.

    Raises
    ------
    InputError
        One cannot be read, is there twice, contradicts itself, or is not finished and need not be.
    """
    from real_loop.estimate.counts import belong
    from real_loop.history import History
    from real_loop.log import Reader

    histories: list[Any] = []
    for path in asked.logs:
        reader = Reader(path)
        if any(os.path.samefile(reader.path, h.path) for h in histories):
            raise InputError("from", f"{path} twice", "each log once")
        histories.append(History(reader))
    belong(histories)
    for path, history in zip(asked.logs, histories, strict=True):
        history.check()
        if not history.finished and not asked.unfinished:
            got = f"an unfinished log, {history.ended} of {history.policy.rounds} rounds"
            raise InputError(str(path), got, "a finished one", "continue the run, or say unfinished=yes to read as far as it goes")
    return histories


def probes_of(histories: Sequence[Any], given: Path | None) -> tuple[Any, Path | None]:
    """Return the probes that the tasks were chosen by, and their file: the one given, or that of the split the runs used; None if none.

    Raises
    ------
    InputError
        The file given cannot be read, or is one of other tasks or another model than the logs.
    """
    from real_loop.estimate import Probes
    from real_loop.worth import probed

    if given is not None:
        return (None, None) if str(given) == "none" else (read_probes(given, histories), given)
    found = probed(histories[0])
    if found is None:
        return None, None
    passes, file = found
    return Probes(max(m for _, m in passes.values()), {task: k for task, (k, _) in passes.items()}), file


def read_probes(path: Path, histories: Sequence[Any]) -> Any:
    """Return the probes in a split.

    Raises
    ------
    InputError
        It cannot be read, or is one of other tasks or another model than the logs.
    """
    from real_loop.estimate import Probes
    from real_loop.suites.split import stored
    from real_loop.tasks import solver_model

    split, first = stored(path), histories[0]
    suite, digest = first.settings.subset.suite, first.identity.get("suite_digest", "")
    if (split.suite, split.digest) != (suite, digest):
        wanted = f"one of {suite} {digest[:12]}".rstrip() + ", as the logs"
        raise InputError(str(path), f"a split of {split.suite} {split.digest[:12]}", wanted)
    if not split.probes or not split.passes:
        raise InputError(str(path), "a split without probes", "one that python -m real_loop.probe made")
    model = solver_model(first.settings)
    if split.model != model:
        raise InputError(str(path), f"probes of {split.model}", f"those of {model}, as the logs")
    return Probes(split.probes, split.passes)


def preset_name(history: Any) -> str:
    """Return the name of the preset: that of the subset, or of the scripted world."""
    name = history.settings.scripted or history.settings.subset.name
    return "estimated_" + re.sub(r"\W+", "_", name)


def _check_out(out: Path, about: dict[str, Any]) -> None:
    """Refuse a folder that has something else in it. The same estimate again may take the place of the first."""
    if out.exists() and not out.is_dir():
        raise InputError(f"out={out}", "a file", "a folder")
    try:
        there = json.loads((out / FILE).read_text())
    except FileNotFoundError:
        there = None
    except (OSError, ValueError):
        there = {}
    if there is not None and (not isinstance(there, dict) or any(there.get(key) != value for key, value in about.items())):
        raise InputError(f"out={out}", "a folder with another estimate in it", "an empty or new one", "choose another out=...")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out={out}", f"a folder that cannot be made ({error})", "a folder that can be written") from None


# ---------------------------------------------------------------- what was found


def write(found: Any, out: Path, name: str, about: dict[str, Any]) -> list[Path]:
    """Write ``estimate.json`` and the preset; return their paths."""
    from dataclasses import asdict

    from sim.fitted import write_json, write_text
    from sim.params import to_mapping

    content = {
        **about,
        "confidence": 0.9,
        "parameters": [asdict(p) for p in found.parameters],
        "fixed": {path: {"value": value, "why": why} for path, (value, why) in found.fixed.items()},
        "channels": [asdict(c) for c in found.channels],
        "world": to_mapping(found.world()),
        "joint": {"paths": [p.path for p in found.parameters], "values": found.draws.tolist()},
    }
    preset = out / "world" / f"{name}.yaml"
    write_text(preset, preset_text(found, about))
    write_json(out / FILE, content)
    return [out / FILE, preset]


def preset_text(found: Any, about: dict[str, Any]) -> str:
    """Return the World of the medians as a preset of ``python -m sim``."""
    from sim.fitted import yaml_lines
    from sim.model import World, parameters

    world, texts = found.world(), {}
    for path in (p.path for p in parameters(World)):
        value: Any = reduce(getattr, path.split("."), world)
        texts[path] = "null" if value is None else value if isinstance(value, str) else f"{value:g}"
    logs = ", ".join(Path(path).parent.name for path in about["logs"])
    head = [
        f"# As estimated from {len(about['logs'])} log{'s' * (len(about['logs']) > 1)} ({logs}): medians; intervals are in {FILE}.",
        "# Fixed: " + ", ".join(path for path in found.fixed if path not in ("n_train", "n_eval")) + ".",
    ]
    return "\n".join([*head, *yaml_lines(texts)]) + "\n"


def say(found: Any, histories: Sequence[Any]) -> None:
    """Print parameters with intervals, what is fixed and why, and judges."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    rounds = sum(h.ended for h in histories)
    title = f"{len(histories)} log{'s' * (len(histories) > 1)}, {rounds} rounds"
    if any(not h.finished for h in histories):
        title += ", not all finished"
    rows = [(title, found.parameters), *((f"{judged.judge}, {judged.log}", judged.parameters) for judged in found.channels)]
    for heading, parameters in rows:
        out = Table(title=heading, title_justify="left", header_style="bold")
        for column in ("parameter", "value", "90 %", "from"):
            out.add_column(column, justify="left" if column in ("parameter", "from") else "right")
        for p in parameters:
            out.add_row(p.path, f"{p.value:.3g}", f"{p.low:.3g} to {p.high:.3g}", p.how)
        console.print(out)
    why: dict[str, list[str]] = {}
    for path, (value, reason) in found.fixed.items():
        why.setdefault(reason, []).append(f"{path} {'null' if value is None else value}")
    print("fixed:")
    for reason, paths in why.items():
        print(f"  {', '.join(paths)} ({reason})")
