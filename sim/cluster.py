"""What ``engine=dask`` is asked for: read and checked, and shown without secrets. Nothing of Dask is imported here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sim.errors import InputError
from sim.places import public

SHOWN = ("class", "cores", "memory", "processes", "queue", "walltime", "interface")  # of a cluster: the rest may hold secrets
HIDDEN = "(not shown)"
KEYS = {"local": ("threads",), "dask": ("workers", "threads", "address", "cluster", "jobs")}


@dataclass(frozen=True)
class Cluster:
    """Where Dask's workers are: processes of this machine, those of a scheduler, or jobs of a queue.

    Parameters
    ----------
    workers, threads
        Processes on this machine, None for one per core, and tiles at a time in each.
    address
        Of a scheduler that runs already.
    jobs, cluster
        How many jobs to ask a queue for, and how: ``class`` names a cluster of dask-jobqueue, the rest are its arguments.
    """

    workers: int | None = None
    threads: int | None = None
    address: str | None = None
    cluster: Mapping[str, Any] | None = None
    jobs: int | None = None

    @property
    def here(self) -> bool:
        """Whether the workers are on this machine, and so share its compiled code."""
        return self.address is None and self.cluster is None

    def shown(self) -> dict[str, Any]:
        """Return it as written into results and printed."""
        cluster = None if self.cluster is None else {k: v if k in SHOWN else HIDDEN for k, v in self.cluster.items()}
        return {"name": "dask", **asdict(self), "address": self.address and public(self.address), "cluster": cluster}


def _count(values: Mapping[str, Any], key: str, most: int, otherwise: str) -> int | None:
    value = values.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most):
        raise InputError(f"engine.{key}", repr(value), f"a whole number from 1 to {most}, or null for {otherwise}")
    return value


def read(values: Any) -> tuple[int | None, Cluster | None]:
    """Return the threads of the engine ``local``, and what ``engine=dask`` is asked for.

    Raises
    ------
    InputError
        A key is unknown, of another engine or missing, or a value is out of bounds.
    """
    name = values.get("name") if isinstance(values, Mapping) else None
    if not isinstance(name, str):
        raise InputError("engine", repr(values), " or ".join(KEYS))
    if name not in KEYS:
        raise InputError("engine.name", repr(name), " or ".join(KEYS))
    if unknown := [key for key in values if key not in ("name", *KEYS[name])]:
        todo = "add engine=dask" if unknown[0] in KEYS["dask"] else ""
        raise InputError(f"engine.{unknown[0]}", "an unknown key", ", ".join(("name", *KEYS[name])), todo)
    threads = _count(values, "threads", 1024, "all cores" if name == "local" else "one")
    if name == "local":
        return threads, None
    address, cluster = values.get("address"), values.get("cluster")
    if address is not None and (not isinstance(address, str) or not re.match(r"tcp://[^\s/]+:\d+$", address)):
        raise InputError("engine.address", repr(public(str(address))), "a scheduler's address, such as tcp://host:8786")
    if cluster is not None and (not isinstance(cluster, Mapping) or not isinstance(cluster.get("class"), str)):
        got = "a description without class" if isinstance(cluster, Mapping) else repr(cluster)
        raise InputError("engine.cluster", got, "one such as {class: SLURMCluster, cores: 16, memory: 32GB, processes: 16}")
    asked = Cluster(_count(values, "workers", 4096, "one per core"), threads, address, cluster, _count(values, "jobs", 10**5, "one"))
    where = [key for key in ("address", "cluster", "workers") if values.get(key) is not None]
    if len(where) > 1:
        raise InputError(f"engine.{where[1]}", f"a value together with engine.{where[0]}", "one of address, cluster and workers")
    if threads is not None and where and where[0] != "workers":
        raise InputError("engine.threads", "a value", f"none: the workers of engine.{where[0]} have threads of their own")
    if asked.jobs is not None and cluster is None:
        raise InputError("engine.jobs", "a value", "none without engine.cluster")
    return None, asked


def shown_overrides(overrides: Sequence[str]) -> list[str]:
    """Return arguments as they may be written down: addresses without who asks, descriptions of clusters left out."""
    shown = []
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~")
        if key == "engine.cluster" or (key.startswith("engine.cluster.") and key.rpartition(".")[2] not in SHOWN):
            shown.append(f"{key}={HIDDEN}")
        else:
            shown.append(public(override) if key in ("out", "engine.address") else override)
    return shown
