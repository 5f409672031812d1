"""``python -m real_loop``: one run with real roles. See ``python -m real_loop --help``."""

from sim.__main__ import started

if __name__ == "__main__":
    started("real_loop.main")
