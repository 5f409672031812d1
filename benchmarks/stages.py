"""``python -m benchmarks.stages``: what each stage of the numba kernel costs, from copies of the kernel that do it twice.

The copies run interleaved with the kernel itself; the difference is the stage. What is done a second time finds its data in the
nearest cache, so these are lower bounds. What they leave over is the rest: writing, evicting and removing skills, and waits. Each
copy is compiled anew: two minutes in all. CPU time of the thread, minimum of repeats.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from types import ModuleType

import numpy as np

from benchmarks.settings import SETTINGS, eight, trials
from sim.kernels import jit
from sim.kernels.layout import allocate, flat_tables, sizes_of
from sim.tables import derive

REPEATS = 15
TRIALS = 2e6
STAGES = {  # a line of numba_kernel.py, and what is done besides; nothing that changes the course of a run
    "draw words": ("draw_words(words, U32(t), key0, key1, sizes.sampled)", "draw_words(words, U32(t), key0, key1, sizes.sampled)"),
    "draw tasks": ("lay_out_tasks(tasks, draws, tables)", "draw_tasks(draws, key0, key1); lay_out_tasks(tasks, draws, tables)"),
    "route": ("attempt(c, cell, tasks, words, tables, scratch)", "send(c, cell, tasks, words, shelves, tables, scratch)"),
    "solve, observe": ("tally(cell, scratch)", "attempt(c, cell, tasks, words, tables, scratch)"),
    "count": ("tally(cell, scratch)", "wipe(scratch); tally(cell, scratch)"),
    "credit": ("record[c, ROUTED] += credit(c, cell, shelves, scratch)", "record[c, ROUTED] += credit(c, cell, shelves, scratch)"),
    "pool": ("record[c, HIDDEN_FAILURES] += hidden_failures(scratch)", "pool_again(c, cell, state, scratch)"),
    "retire: the test": ("record[c, RETIRE_TRIALS] += trials", "record[c, ROUTED] += retire(c, cell, state, shelves, tasks, tables)[0]"),
    "evaluate": ("now[S_ACTIVE] = shelves.size[c]", "now[S_EVAL] = evaluate(c, cell, state, shelves, tasks, tables)"),
    "book": ("book(c, t, cell, now, sampled, record)", "book(c, t, cell, now, sampled, record)"),
    "add series": ("add_series(c, t, run, scratch.now, sums)", "add_series(c, t, run, scratch.now, sums)"),
    "finish, add record": (
        "add_record(c, run, scratch.record, baseline[c], sums)",
        "add_record(c, run, scratch.record, baseline[c], sums)",
    ),
}
EXTRA = """
from sim.kernels.trials import keep, LOW16, SIXTEEN, POOL_ONE

@stage
def wipe(scratch):
    for j in range(len(scratch.slot_counts)):
        scratch.slot_counts[j] = U32(0)
    for k in range(len(scratch.topic_counts)):
        scratch.topic_counts[k] = U32(0)

@stage
def pool_again(c, cell, state, scratch):
    pool, phantom, counts, memory = state.pool[c], state.phantom[c], scratch.topic_counts, U32(cell.memory)
    for k in range(whole_vectors(cell.topics)):
        a = U32(keep(pool[k], memory) + U32(U32(counts[k] & LOW16) * U32(POOL_ONE)))
        b = U32(keep(phantom[k], memory) + U32(U32(counts[k] >> SIXTEEN) * U32(POOL_ONE)))
        scratch.cluster[k], counts[k] = U32(a ^ b), U32(0)
"""


def variant(stage: str | None) -> ModuleType:
    """Return a copy of the kernel's module in which a stage is done twice, or an unchanged one."""
    spec = importlib.util.find_spec("sim.kernels.numba_kernel")
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        lines = file.read().split("\n")
    if stage is not None:
        line, more = STAGES[stage]
        found = [i for i, text in enumerate(lines) if text.strip() == line]
        assert len(found) == 1, f"the line of {stage} is not there any more"
        indent = lines[found[0]][: -len(lines[found[0]].lstrip())]
        lines[found[0] : found[0] + 1] = [f"{indent}{line}", f"{indent}{more}"]
    module = ModuleType(f"kernel_{len(sys.modules)}")
    module.__file__ = spec.origin
    sys.modules[module.__name__] = module
    at = next(i for i, text in enumerate(lines) if text.startswith("@entry"))
    source = "\n".join([*lines[:at], *EXTRA.split("\n"), *lines[at:]])
    exec(compile(source, spec.origin, "exec"), module.__dict__)
    return module


def measure(setting: str, modules: dict[str, ModuleType]) -> dict[str, float]:
    """Return ns per trial of each variant, eight cells at a time."""
    cells = eight(*SETTINGS[setting])
    tables, baseline = derive(cells), np.zeros(len(cells), np.int32)
    runs = max(1, int(TRIALS / trials(cells)))
    buffers, flat, sizes = allocate(tables, 0), flat_tables(tables), sizes_of(tables.cells)
    best = dict.fromkeys(modules, np.inf)
    for repeat in range(REPEATS + 1):
        for name, module in modules.items():
            began = time.thread_time()
            module.simulate(flat, baseline, 1, 0, runs, sizes, *buffers)
            if repeat:  # the first compiles
                best[name] = min(best[name], (time.thread_time() - began) / (runs * trials(cells)) * 1e9)
    return best


def main() -> None:
    """Print a table: ns per trial by stage, and the share of the whole."""
    jit.__dict__["usable"] = lambda folder: False  # copies share file and line: a cache on disk would take one for another
    modules = {"": variant(None), **{stage: variant(stage) for stage in STAGES}}
    times = {setting: measure(setting, modules) for setting in SETTINGS}
    print(f"{'ns per trial, 8 cells':26}" + "".join(f"{setting:>14}" for setting in times))
    rest = {setting: found[""] for setting, found in times.items()}
    for stage in STAGES:
        part = {setting: max(found[stage] - found[""], 0.0) for setting, found in times.items()}
        rest = {setting: rest[setting] - part[setting] for setting in times}
        print(f"{stage:26}" + "".join(f"{part[s]:8.2f}{100 * part[s] / times[s]['']:4.0f} %" for s in times))
    print(f"{'rest: mostly synthesise':26}" + "".join(f"{rest[s]:8.2f}{100 * rest[s] / times[s]['']:4.0f} %" for s in times))
    print(f"{'whole':26}" + "".join(f"{times[s]['']:8.2f}      " for s in times))


if __name__ == "__main__":
    main()
