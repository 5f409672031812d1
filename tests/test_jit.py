"""Compiled code: nothing at import, never stale, and a cache that is damaged or full costs time, not the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A small entry of its own: compiling the whole kernel anew would take most of the time of the suite.
ENTRY = """
import numpy as np
from sim.kernels.jit import cache_dir
from sim.kernels.words import block
a, b = np.zeros((2, 4), np.uint32)
block(a, b, 3, 1, 7, 9)
print(a.tolist(), cache_dir().name)
"""


def run(code: str, cache: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"HALFBLIND_CACHE": str(cache), "PYTHONPATH": str(root), "HOME": str(cache.parent)}
    return subprocess.run([sys.executable, "-c", code], cwd=root, env=env, capture_output=True, text=True, check=False)


def test_importing_makes_no_folder_and_says_nothing(tmp_path: Path) -> None:
    code = "import sim, sim.model, sim.curators, sim.main, sim.store, sim.config, sim.kernels.numba_kernel, real_loop"
    done = run(code, tmp_path / "cache")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", ["index cut", "index garbage", "code cut"])
def test_a_damaged_cache_is_compiled_anew_and_mended(tmp_path: Path, how: str) -> None:
    cache = tmp_path / "cache"
    first = run(ENTRY, cache)
    assert first.returncode == 0, first.stderr
    kind, damage = how.split()
    for path in cache.rglob("*.nbi" if kind == "index" else "*.nbc"):
        path.write_bytes(path.read_bytes()[:20] if damage == "cut" else b"\x80garbage")
    again = run(ENTRY, cache)
    assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
    third = run(ENTRY, cache)
    assert (third.returncode, third.stdout) == (0, first.stdout), third.stderr
    assert list(cache.rglob("*.nbi"))


def test_a_cache_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(ENTRY, tmp_path / "file" / "cache")
    assert done.returncode == 0, done.stderr
    assert not list((ROOT / "sim").rglob("*.nbi")), "numba must not fall back to a folder that can go stale"


@pytest.mark.slow
def test_an_edit_in_a_called_file_is_never_answered_from_the_cache(tmp_path: Path) -> None:
    """numba by itself looks only at the file of the entry; the rotation that is changed here is in another."""
    root = tmp_path / "copy"
    shutil.copytree(ROOT / "sim", root / "sim", ignore=shutil.ignore_patterns("__pycache__"))
    cache = tmp_path / "cache"
    before = run(ENTRY, cache, root)
    assert before.returncode == 0, before.stderr
    source = root / "sim/rng.py"
    source.write_text(source.read_text().replace("ROTATIONS: Final = (13,", "ROTATIONS: Final = (14,"))
    after = run(ENTRY, cache, root)
    assert after.returncode == 0, after.stderr
    assert after.stdout.split("]")[0] != before.stdout.split("]")[0]
