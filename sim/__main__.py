"""``python -m sim``: run a sweep. See ``python -m sim --help``."""

import signal
import sys


def run() -> None:
    """Run the command with the arguments of this process; a request to end is treated like Ctrl-C."""
    from sim.main import main

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in ("sim", "real_loop"):
            raise
        todo = "activate the environment first (. .venv/bin/activate), or make one with: make cliff"
        print(f"error: python: got one without {error.name}, expected halfblind's packages; {todo}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    run()
