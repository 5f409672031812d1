"""``python -m real_loop.audit``: audit a judge. See ``python -m real_loop.audit --help``."""

from sim.__main__ import started

if __name__ == "__main__":
    started("real_loop.audit.main")
