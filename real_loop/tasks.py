"""Which tasks a run works on: the suite, and its split into train and eval."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final, TypeAlias

from real_loop import sandbox, suites
from real_loop.settings import Settings
from real_loop.suites import Suite, Task, split
from sim.errors import InputError

Chosen: TypeAlias = tuple[Suite, tuple[Task, ...], tuple[Task, ...]]
SHIPPED: Final = Path(__file__).resolve().parent / "conf" / "splits"
OWN: Final = Path("outputs") / "splits"


def solver_model(settings: Settings) -> str:
    """Return the model whose failures chose the tasks."""
    return str(settings.model_of("solver"))


def split_name(subset: str, model: str) -> str:
    """Return the file name of the split of a subset for a model."""
    return f"{subset}-{re.sub(r'[^A-Za-z0-9.-]+', '_', model.removeprefix('local/'))}.json"


def opened(settings: Settings, warn: bool = False) -> Suite:
    """Load the suite, with a sandbox if its answers are programs; where one protects little that may be said.

    Raises
    ------
    InputError
        There is no sandbox, or no data.
    """
    name = settings.subset.suite
    if name not in suites.CODE:
        return suites.load(name, None)
    box = sandbox.find(settings.sandbox)
    if warn and box.unprotected:
        print(f"sandbox={settings.sandbox}: {box.unprotected}", file=sys.stderr)
    return suites.load(name, box)


def pool(settings: Settings, suite: Suite) -> list[str]:
    """Return the ids of the tasks to choose among, in the suite's order."""
    ids, subset = [task.id for task in suite.tasks], settings.subset
    if subset.pool is None:
        return ids
    drawn, _ = split.choose(dict.fromkeys(ids, 0), 0, "all", min(subset.pool, len(ids)), 0, subset.split_seed, split.strata(suite))
    return [name for name in ids if name in set(drawn)]


def chosen(settings: Settings) -> Chosen:
    """Return the suite, the train tasks and the eval tasks.

    Raises
    ------
    InputError
        There is no sandbox, no data, no split for this model, or it does not fit.
    """
    subset, model = settings.subset, solver_model(settings)
    suite = opened(settings, warn=True)
    if subset.ids is not None:
        named = split.from_ids(Path(os.path.expanduser(subset.ids)), suite, subset.n_train, subset.n_eval, subset.split_seed)
        train, evals = named.train, named.eval
    elif subset.split is None and subset.keep == "all":
        passes = dict.fromkeys(pool(settings, suite), 0)
        train, evals = split.choose(passes, 0, "all", subset.n_train, subset.n_eval, subset.split_seed, split.strata(suite))
    else:
        name = split_name(subset.name, model)
        places = [Path(os.path.expanduser(subset.split))] if subset.split is not None else [OWN / name, SHIPPED / name]
        path = next((p for p in places if p.exists()), None)
        if path is None and subset.split is not None:
            raise InputError("subset.split", f"no file {subset.split}", "a split file", "python -m real_loop.probe makes one")
        if path is None:
            url = " base_url=..." if settings.roles.solver.base_url or settings.base_url else ""
            probe = f"python -m real_loop.probe subset={subset.name} model={model}{url}"
            todo = f"probe it first: {probe}; or give subset.split=FILE or subset.ids=FILE"
            raise InputError("subset", f"no split of {subset.name} for {model}", "a split file", todo)
        found = split.read(path, suite, model)
        for key, asked, ids in (("n_train", subset.n_train, found.train), ("n_eval", subset.n_eval, found.eval)):
            if asked > len(ids):
                raise InputError(f"subset.{key}", asked, f"at most the {len(ids)} of {path}", "ask for fewer, or probe for a larger split")
        train, evals = found.train[: subset.n_train], found.eval[: subset.n_eval]
    by_id = {task.id: task for task in suite.tasks}
    return suite, tuple(by_id[i] for i in train), tuple(by_id[i] for i in evals)
