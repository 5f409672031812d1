"""Results at URLs: the same as in a folder, continued, refused and read as there; and nothing secret written down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import s3fs
import xarray
import zarr

from sim.config import load
from sim.errors import InputError
from sim.figures.__main__ import main as figures_main
from sim.places import Remote, is_url, local, place, public
from sim.store import Store, open_result
from sim.sweep import Block
from tests.conftest import Command, contents
from tests.s3 import Bucket
from tests.stores import GRID


@pytest.fixture
def memory() -> Iterator[str]:
    """A URL in this process."""
    kept = fsspec.filesystem("memory")
    kept.store.clear()
    yield "memory://here/a"
    kept.store.clear()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An object store on loopback, and an environment in which s3:// means it."""
    served = Bucket()
    settings = {
        "AWS_ENDPOINT_URL": served.endpoint, "AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1",
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    yield served
    s3fs.S3FileSystem.clear_instance_cache()
    served.close()


def arrays(url: str) -> dict[str, Any]:
    """Return every array of the store at a URL, as :func:`tests.conftest.contents` does of a folder."""
    root = zarr.open_group(Remote(url).zarr(), mode="r", use_consolidated=False)
    out = {}
    for name, item in root.members(max_depth=None):
        if isinstance(item, zarr.Array):
            values = np.asarray(item[...])
            raw = values.tobytes() if values.dtype.kind in "iufb" else repr(values.tolist()).encode()
            out[name] = (str(values.dtype), values.shape, raw)
    return out


def test_a_sweep_at_a_url(command: Command, memory: str) -> None:
    """The same arrays as in a folder; continued, and nothing to do the third time. Pictures are in the default folder."""
    assert command(*GRID, "runs=16", "out=folder").code == 0
    assert command(*GRID, "runs=8", f"out={memory}").code == 0
    answer = command(*GRID, "runs=16", f"out={memory}", "figures=[lines]")
    assert answer.code == 0, answer
    assert arrays(memory) == contents("folder")
    written = answer.out.splitlines()[-3:]
    assert written[0] == "memory://here/a/result.zarr"
    assert re.fullmatch(r"outputs/point/.*/lines\.(png|svg)", written[1])
    assert Path(written[1]).is_file()
    assert "nothing left" in command(*GRID, "runs=16", f"out={memory}").out
    assert not list(Path().glob("memory*"))
    xarray.testing.assert_identical(open_result(memory).drop_attrs(), open_result("folder").drop_attrs())
    xarray.testing.assert_identical(open_result(f"{memory}/result.zarr").drop_attrs(), open_result("folder").drop_attrs())


def test_another_configuration_is_refused(command: Command, memory: str) -> None:
    assert command(*GRID, "runs=8", f"out={memory}").code == 0
    before = dict(fsspec.filesystem("memory").store)
    line = command(*GRID, "runs=8", "policy.n_min=30", f"out={memory}").error
    assert "policy.n_min" in line
    assert "memory://here/a/result.zarr" in line
    assert fsspec.filesystem("memory").store == before


@pytest.mark.parametrize("victim", ["zarr.json", "tiles/sums/zarr.json", "tiles/sums/c/0/0/0/0"])
@pytest.mark.parametrize("how", ["gone", "cut"])
def test_damage(command: Command, memory: str, victim: str, how: str) -> None:
    assert command(*GRID, "runs=8", f"out={memory}").code == 0
    kept = fsspec.filesystem("memory")
    whole = kept.cat_file(f"/here/a/result.zarr/{victim}")
    kept.rm(f"/here/a/result.zarr/{victim}")
    if how == "cut":
        kept.pipe_file(f"/here/a/result.zarr/{victim}", whole[: len(whole) // 2])
    answer = command(*GRID, "runs=9", f"out={memory}")
    if how == "gone" and "/c/" in victim:
        assert answer.code == 0, "a tile that is missing is played again"
    else:
        assert "result.zarr" in answer.error


def test_killed_while_the_store_is_made(command: Command, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its root comes last: before that there is no store, and the next command makes it."""
    kept = type(fsspec.filesystem("memory"))
    pipe = kept.pipe_file

    def killed(self: Any, path: str, *args: Any, **kwargs: Any) -> None:
        if path.endswith("result.zarr/zarr.json"):
            raise KeyboardInterrupt
        pipe(self, path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(kept, "pipe_file", killed)
        assert command(*GRID, "runs=8", f"out={memory}").code == 130
    with pytest.raises(InputError, match="no result"):
        open_result(memory)
    assert command(*GRID, "runs=8", f"out={memory}").code == 0
    assert command(*GRID, "runs=8", "out=b").code == 0
    assert arrays(memory) == contents("b")


def test_a_store_that_is_removed_while_the_sweep_runs(memory: str) -> None:
    store = Store(memory, load(list(GRID)).sweep)
    fsspec.filesystem("memory").rm("/here", recursive=True)
    with pytest.raises(InputError, match="moved or removed"):
        store.write(0, Block((0, 0), (2, 5)), np.ones((10, store.sweep.layout.size), np.int64))


def test_figures_of_a_url(command: Command, memory: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command(*GRID, "runs=8", f"out={memory}").code == 0
    assert figures_main([memory]) == 2
    assert "out=FOLDER" in capfd.readouterr().err
    assert figures_main([memory, "out=drawn", "figures=lines"]) == 0
    assert Path("drawn/lines.png").is_file()
    assert figures_main(["memory://here/nothing", "out=drawn"]) == 2
    assert "no result" in capfd.readouterr().err


def test_file_urls_are_folders(command: Command, tmp_path: Path) -> None:
    assert command(*GRID, "runs=8", f"out=file://{tmp_path}/a%20b").code == 0
    assert Path("a b/.lock").exists()
    assert "nothing left" in command(*GRID, "runs=8", "out=a b").out
    assert open_result(f"file://{tmp_path}/a%20b").attrs["complete"] == 1


def test_a_url_that_cannot_be_used(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    line = command(*GRID, "runs=8", "out=nope://here/a").error
    assert "nope://here/a" in line
    assert "fsspec" in line

    def missing(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    assert "pip install 'halfblind[s3]'" in command(*GRID, "runs=8", "out=s3://bucket/a").error


# ---------------------------------------------------------------- an object store


def test_an_object_store_that_refuses(command: Command, bucket: Bucket) -> None:
    bucket.broken = True
    line = command(*GRID, "runs=8", "out=s3://b/a").error
    assert "s3://b/a" in line
    assert "credentials" in line


# ---------------------------------------------------------------- secrets


def test_nothing_secret_is_written(command: Command, memory: str) -> None:
    url = memory.replace("://", "://me:secret@") + "?token=secret"
    answer = command(*GRID, "runs=8", f"out={url}")
    assert answer.code == 0, answer
    assert "secret" not in answer.out + answer.err
    root = next(v for k, v in fsspec.filesystem("memory").store.items() if k.endswith("result.zarr/zarr.json"))
    attributes = json.loads(root.getvalue())["attributes"]
    assert "secret" not in json.dumps(attributes)
    assert "out=memory://here/a " in attributes["command"] + " "


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://me:secret@bucket/a?token=secret#x", "s3://bucket/a"),
        ("tcp://h:1", "tcp://h:1"),
        ("got 'ftp://me:a@b@h/x?y' there", "got 'ftp://h/x' there"),
        ("out=https://me@h/x", "out=https://h/x"),
        ("what? no", "what? no"),
    ],
)
def test_public(text: str, shown: str) -> None:
    assert public(text) == shown


def test_which_is_which() -> None:
    assert [is_url(x) for x in ("s3://a", "memory://a", "file:///a", "a/b", "a:b", Path("s3://a"))] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert local("file:///a%20b") == Path("/a b")
    assert local("s3://a") is None
    assert place("file:///a").name == "/a"


def test_pictures_go_to_folders(command: Command, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command(*GRID, "runs=8", "out=a").code == 0
    assert figures_main(["a", "out=s3://b/c"]) == 2
    assert "out: got s3://b/c, expected a folder" in capfd.readouterr().err
    assert figures_main(["a", f"out=file://{tmp_path}/pictures"]) == 0
    assert any((tmp_path / "pictures").glob("*.png"))
