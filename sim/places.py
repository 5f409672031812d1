"""Where results are kept: a local folder, or a URL that fsspec knows.

Both replace a file in one step: a folder by renaming, an object store by itself. What else :mod:`sim.store` needs of the two
differs and is here: holding a place against a second run, making a store whole or not at all, and noticing that it has gone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from sim.errors import InputError

NAME = "result.zarr"
_URL = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_UNCACHED = {"use_listings_cache": False}  # other processes write there too


def is_url(out: object) -> bool:
    """Whether this names something that is not on a file system of this machine."""
    found = _URL.match(out) if isinstance(out, str) else None
    return bool(found) and not local(str(out))


def local(url: str) -> Path | None:
    """Return the path in a ``file://`` URL; None when it is of another kind."""
    found = re.match(r"(?:file|local)://", url, re.IGNORECASE)
    return Path(unquote(url[found.end() :]) or "/") if found else None


def public(text: str) -> str:
    """Return a text without what may be secret in the URLs in it: who asks, and what comes after a question mark."""
    text = re.sub(r"(?<=://)[^/\s'\"]*@", "", text)
    return re.sub(r"(://[^\s?#'\"]*)[?#][^\s'\"]*", r"\1", text)


# ---------------------------------------------------------------- a folder


class Folder:
    """A folder of this machine, or of a file system that it shares with others. The store in it may have a name of its own."""

    remote = False

    def __init__(self, path: Path, store: Path | None = None) -> None:
        self.path, self.name = path, str(path)
        self.store = store or path / NAME
        self.store_name = str(self.store)

    def hold(self) -> Callable[[], None]:
        """Make the folder if it is missing, and keep other processes from writing to it; return what ends that.

        Raises
        ------
        InputError
            Another process holds it.
        OSError
            It cannot be made.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = open(self.path / ".lock", "a+")  # noqa: SIM115 - held until it is closed
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                lock.close()
                got, todo = "a folder that another run is writing to", "wait for it, or choose another out=..."
                raise InputError(self.name, got, "a free one", todo) from error
            # else a file system without locks: two processes would waste work but do no harm
        return lock.close

    def there(self) -> bool:
        """Whether anything is where the store belongs."""
        return self.store.exists()

    def make(self, build: Callable[[Any], None]) -> None:
        """Have an empty store built under another name, then rename it: a store exists whole or not at all."""
        fresh = self.store.with_name(f"{NAME}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        build(fresh)
        os.rename(fresh, self.store)

    def zarr(self) -> Any:
        """Return what zarr takes for the store."""
        return self.store

    def mark(self) -> Hashable:
        """Return what tells this store from another in its place; None when there is none."""
        try:
            status = os.stat(self.store)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def tidy(self) -> None:
        """Remove what writers that were killed left half done. Only while the place is held."""
        for leftover in self.store.glob("tiles/sums/c/**/*.partial"):
            leftover.unlink(missing_ok=True)


# ---------------------------------------------------------------- a URL


class Remote:
    """A folder by its URL, such as ``s3://bucket/name``.

    Object stores have no locks. Two runs of the same sweep at once do the same work twice and no harm: each object is one whole
    state of its tiles. Another sweep is refused as in a folder.

    Raises
    ------
    InputError
        fsspec, or what it needs for this kind of URL, is missing or does not know it.
    """

    remote = True

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.name = public(self.url)
        self.store_name = f"{self.name}/{NAME}"
        self.fs, self.root = _filesystem(f"{self.url}/{NAME}")

    def hold(self) -> Callable[[], None]:
        """Do nothing: see above."""
        return lambda: None

    def there(self) -> bool:
        """Whether a store begins there, or tiles are left of one."""
        return bool(self.fs.exists(f"{self.root}/zarr.json") or self.fs.exists(f"{self.root}/tiles/sums/c"))

    def make(self, build: Callable[[Any], None]) -> None:
        """Have an empty store built in memory, then written, its root last: a store exists whole or not at all."""
        from zarr.storage import MemoryStore

        made: dict[str, Any] = {}
        build(MemoryStore(made))
        for key in sorted(made, key=lambda key: (key == "zarr.json", key)):
            self.fs.pipe_file(f"{self.root}/{key}", made[key].to_bytes())

    def zarr(self) -> Any:
        """Return what zarr takes for the store."""
        from zarr.storage import FsspecStore

        return FsspecStore.from_url(f"{self.url}/{NAME}", storage_options=_UNCACHED)

    def mark(self) -> Hashable:
        """Return what tells a store of this sweep from another in its place; None when there is none."""
        try:
            root = json.loads(self.fs.cat_file(f"{self.root}/zarr.json"))
        except FileNotFoundError:
            return None
        return hashlib.sha256(str(root["attributes"]["identity"]).encode()).hexdigest()

    def tidy(self) -> None:
        """Do nothing: an object is written whole or not at all."""


def _filesystem(url: str) -> tuple[Any, str]:
    what = public(url).removesuffix(f"/{NAME}")
    try:
        from fsspec.core import url_to_fs

        fs, root = url_to_fs(url, **_UNCACHED)
    except ImportError as error:
        scheme = url.partition(":")[0]
        todo = "pip install 'halfblind[s3]'" if scheme in ("s3", "s3a") else "install the package that fsspec needs for it"
        raise InputError(what, f"a {scheme} address without its package ({error})", "an address that can be written to", todo) from error
    except ValueError as error:
        raise InputError(what, f"an address that cannot be used ({public(str(error))})", "a folder, or a URL that fsspec knows") from error
    return fs, root


Place: TypeAlias = Folder | Remote


def place(out: Path | str) -> Place:
    """Return the place that an output folder, by path or URL, is.

    Raises
    ------
    InputError
        The URL cannot be used.
    """
    if isinstance(out, str) and is_url(out):
        return Remote(out)
    return Folder((isinstance(out, str) and local(out)) or Path(out))


# ---------------------------------------------------------------- errors


_NO_FOLDER = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP,
    errno.EINVAL,
)  # fmt: skip
_BYTES = ("builtins", "json", "zarr", "numcodecs", "google_crc32c", "xarray", "numpy")  # whose errors are about bytes that were read


@contextlib.contextmanager
def explained(name: object, doing: str, reading: bool = True, remote: bool = False) -> Iterator[None]:
    """Turn what can go wrong with files into one line that says what to do; when ``reading``, wrong bytes as well.

    ``remote`` takes whatever else comes as trouble of the address, its credentials or the network.
    """
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            todo = "free some and run the same command again: finished tiles are kept"
            raise InputError(str(name), "no space left", f"room for {doing}", todo) from error
        if error.errno in _NO_FOLDER and not remote:
            why = os.strerror(error.errno or 0).lower()
            raise InputError(str(name), why, f"a folder to use for {doing}", "choose another with out=...") from error
        if remote:
            raise _unreachable(name, doing, error) from error
        raise InputError(str(name), f"{type(error).__name__}: {error}", doing, "try again") from error
    except Exception as error:  # zarr and its codecs raise many types for bytes that are not what they should be
        if remote and not (type(error).__module__.split(".")[0] in _BYTES and reading):
            raise _unreachable(name, doing, error) from error
        if not reading:
            raise
        got = f"a damaged store ({type(error).__name__}: {str(error)[:120]})"
        todo = "move it away and run the command again, or choose another out=..."
        raise InputError(str(name), got, f"a store fit for {doing}", todo) from error


def _unreachable(name: object, doing: str, error: Exception) -> InputError:
    todo = "see to the address, its credentials and the network, then run the same command again: finished tiles are kept"
    return InputError(str(name), f"{type(error).__name__}: {public(str(error))[:200]}", f"a place to use for {doing}", todo)
