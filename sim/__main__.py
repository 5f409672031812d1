"""``python -m sim``: run a sweep. See ``python -m sim --help``."""

import sys

from sim.main import main


def run() -> None:
    """Run the command with the arguments of this process."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
