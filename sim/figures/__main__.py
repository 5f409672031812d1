"""The command ``python -m sim.figures``: a stored result in, figures out."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sim.errors import InputError
from sim.places import NAME, is_url, local, public
from sim.report import Progress, guarded

HELP = """\
Draw figures of stored results as PNG and SVG, and write the tables that some have as Markdown.

usage: python -m sim.figures PATH [PATH ...] [figures=NAME] [figures=[NAME, ...]] [out=FOLDER]

  python -m sim.figures outputs/cliff/default
  python -m sim.figures outputs/cliff/default figures=[lines,rounds] out=pictures

PATH is an output folder or the result.zarr in it. The files go to that folder, or to out=FOLDER; with several paths, to a
folder each in it. PATH may be a URL such as s3://bucket/name, with an out=FOLDER. By default the figures are chosen by the axes
of the result.

figures:
"""


def help_text() -> str:
    """Return the page that --help prints."""
    from sim.figures import REGISTRY

    return HELP + "\n".join(f"  {name:9} {about}" for name, about in REGISTRY.items())


def main(args: Sequence[str]) -> int:
    """Run the command; return its exit status: 0 done, 2 bad input, 130 stopped."""
    return guarded(_main, args)


def parse(args: Sequence[str]) -> tuple[list[Path | str], list[str] | None, Path | None]:
    """Read the command line: paths of results, names of figures, output folder.

    Raises
    ------
    InputError
        An option or key is unknown, a value is missing, or there is no path.
    """
    paths: list[Path | str] = []
    names: list[str] | None = None
    out: Path | None = None
    for arg in args:
        key, equals, value = arg.partition("=")
        if arg.startswith("-"):
            raise InputError(arg, "an unknown option", "--help, or PATH [PATH ...] [figures=[NAME, ...]] [out=FOLDER]")
        if equals and key in ("figures", "out") and not value.strip("[] "):
            raise InputError(key, "nothing", "a name or [NAME, ...]" if key == "figures" else "a folder")
        if equals and key == "figures":
            names = [*(names or []), *(n.strip(" \"'") for n in value.strip("[] ").split(",") if n.strip(" \"'"))]
        elif equals and key == "out":
            if is_url(value):
                raise InputError("out", value, "a folder: pictures go to one", "read results from URLs, draw to a folder")
            out = local(value) or Path(os.path.expanduser(value))
        elif equals and "/" not in key and not Path(arg).exists():
            raise InputError(key, "an unknown key", "figures or out")
        else:
            paths.append(arg if is_url(arg) else local(arg) or Path(os.path.expanduser(arg)))
    if not paths:
        raise InputError("PATH", "none", "the folder of a result", "see python -m sim.figures --help")
    return paths, names, out


def _main(args: list[str]) -> int:
    if {"--help", "-h"} & set(args):
        print(help_text())
        return 0
    from sim import figures

    paths, names, out = parse(args)
    figures.check(names)
    from sim.store import find, open_result

    folders: list[Path] = []
    for path in paths:
        data = open_result(path)
        if isinstance(path, str) and out is None:
            raise InputError("out", f"no folder for the figures of {public(path)}", "out=FOLDER")
        home = Path(public(path).partition("://")[2].removesuffix(NAME)) if isinstance(path, str) else find(path).resolve().parent
        folder = home if out is None else out if len(paths) == 1 else out / "-".join(home.parts[-2:]).strip("/")
        if folder in folders:
            raise InputError("PATH", f"two results whose figures go to {folder}", "results in folders of different names")
        folders.append(folder)
        with Progress("drawing"):
            drawn = figures.draw(data, folder, names)
        for written in drawn:
            print(written)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
