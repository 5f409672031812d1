"""Golden files: what the plain-Python reference gives. ``python -m tests.golden`` (make golden) writes them anew.

``bits.json`` pins single runs exactly: a change there is a change of the model, and needs a new MODEL_VERSION in
sim/store.py. ``means.json`` holds means and standard errors over many runs, for tests that do not look at bits.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from sim import reference
from sim.store import MODEL_VERSION
from sim.tables import derive
from sim.variables import METRICS
from tests.worlds import NAMED

FOLDER = Path(__file__).parent / "golden"
BIT_SEED, MEAN_SEED = 20, 21
MEAN_RUNS, PIECE = 3000, 250
MEAN_CELLS = ("clean", "cliff", "strict judge", "spread by task", "rollback", "top hit")


def load(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())  # type: ignore[no-any-return]


def _bits(name: str) -> list[list[int]]:
    return reference.records(derive([NAMED[name]]), BIT_SEED, 0, 2)[0][0].tolist()  # type: ignore[no-any-return]


def _records(job: tuple[str, int]) -> np.ndarray:
    name, first = job
    return reference.records(derive([NAMED[name]]), MEAN_SEED, first, PIECE)[0][0]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    bits = {"model_version": MODEL_VERSION, "metrics": list(METRICS), "runs": {name: _bits(name) for name in NAMED}}
    (FOLDER / "bits.json").write_text(json.dumps(bits, indent=1) + "\n")
    means: dict[str, Any] = {"runs": MEAN_RUNS, "cells": {}}
    with ProcessPoolExecutor() as pool:
        for name in MEAN_CELLS:
            all_ = np.concatenate(list(pool.map(_records, [(name, first) for first in range(0, MEAN_RUNS, PIECE)])))
            se = all_.std(axis=0, ddof=1) / np.sqrt(len(all_))
            means["cells"][name] = {m: [float(all_[:, i].mean()), float(se[i])] for i, m in enumerate(METRICS)}
            print(f"{name}: {len(all_)} runs")
    (FOLDER / "means.json").write_text(json.dumps(means, indent=1) + "\n")


if __name__ == "__main__":
    main()
