"""``python -m sim``: run a sweep. See ``python -m sim --help``."""

import importlib
import signal
import sys


def started(module: str) -> None:
    """Run the ``main`` of a module with the arguments of this process; a request to end is treated like Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(importlib.import_module(module).main(sys.argv[1:]))
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in ("sim", "real_loop"):
            raise
        todo = "activate the environment first (. .venv/bin/activate), or make one with: make cliff"
        print(f"error: python: got one without {error.name}, expected halfblind's packages; {todo}", file=sys.stderr)
        sys.exit(2)


def run() -> None:
    """Run ``python -m sim``."""
    started("sim.main")


if __name__ == "__main__":
    run()
