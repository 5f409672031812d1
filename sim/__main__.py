"""``python -m sim``: run a sweep. See ``python -m sim --help``."""

import sys

from sim.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
