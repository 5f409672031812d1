"""``python -m real_loop.validate``: predict and compare. See ``python -m real_loop.validate --help``."""

from sim.__main__ import started

if __name__ == "__main__":
    started("real_loop.validate.main")
