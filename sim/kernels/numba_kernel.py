"""The numba kernel: the run of :mod:`sim.reference`, step by step, for many runs and cells.

Loop order: run, then round, then cell. The random words of a round are drawn once and serve all cells.

Each stage has its twin in the reference. What is arranged differently, for speed:

- Within a round all trials see the same shelf, so they are vectors over tasks (:mod:`sim.kernels.trials`).
- The shelf is sorted by topic, then birth, with (first, count) per topic packed in one word: picking a skill is
  arithmetic. Birth numbers are kept for ties (:mod:`sim.kernels.shelf`).
- The expected eval is kept as sums per topic, updated when a skill comes or goes.
- Loops over tasks, skills and topics are whole vectors, and nothing is allocated in a run (:mod:`sim.kernels.layout`).
"""

from __future__ import annotations

import numpy as np

from sim.kernels.jit import entry, part, stage
from sim.kernels.layout import U32, Sums, allocate, flat_tables, sizes_of, whole_vectors
from sim.kernels.shelf import evaluate, insert, retire, roll_back, skill_row, synthesise
from sim.kernels.tasks import lay_out_tasks
from sim.kernels.trials import attempt, credit, hidden_failures, pool_failures, sample_eval, send, tally
from sim.kernels.words import draw_tasks, draw_words
from sim.tables import EFFECT_BITS, Tables
from sim.variables import HISTOGRAM_BINS, METRICS, SERIES

# Positions in the record of a run, as constants that the compiler sees.
(
    TAIL_EVAL, FIRST_EVAL, PEAK_EVAL, FLOOR_EVAL, LIFT, ROLLING_GAIN, TAIL_SAMPLED, FIRST_SAMPLED, PEAK_SAMPLED, SYNTHESISED, RETIRED,
    EVICTED, DEPRECATED, ROLLBACKS, RESTORED, DROPPED, FLIPS, OBSERVED_FAILURES, HIDDEN_FAILURES, PHANTOM_FAILURES, ROUTED,
    ACTIVE_FINAL, HARMFUL_FINAL, WRONGLY_RETIRED, RETIRE_TRIALS, RETIRE_TRIALS_X_RETIRED,
) = range(len(METRICS))  # fmt: skip
S_EVAL, S_ACTIVE, S_RETIRED, S_EVICTED, S_SYNTHESISED, S_OBSERVED_FAILURES = range(len(SERIES))


@stage
def start(c, cell, draws, tables, tasks, shelves, state, record):
    """Empty pools, empty shelf; note the eval with no skill, then put what there is at the start on the shelf."""
    shelves.size[c] = state.births[c] = state.flags[c] = 0
    state.best[c] = -1
    for k in range(whole_vectors(cell.topics)):
        shelves.by_topic[c, k] = state.pool[c, k] = state.phantom[c, k] = U32(0)
        state.on_sum[c, k] = state.on_gain[c, k] = 0
    for m in range(len(METRICS)):
        record[c, m] = 0
    record[c, FLOOR_EVAL] = evaluate(c, cell, state, shelves, tasks, tables)
    for i in range(cell.start):
        row = np.int64(U32(draws.start_effect[i] >> U32(32 - EFFECT_BITS)))
        insert(c, cell, i % cell.topics, row, state, shelves, tasks, tables)


@stage
def play_round(c, t, cell, tables, tasks, words, shelves, best, state, scratch):
    record, now = scratch.record, scratch.now
    send(c, cell, tasks, words, shelves, tables, scratch)
    attempt(c, cell, tasks, words, tables, scratch)
    tally(cell, scratch)
    record[c, ROUTED] += credit(c, cell, shelves, scratch)
    now[S_OBSERVED_FAILURES], phantoms = pool_failures(c, cell, state, scratch)
    record[c, HIDDEN_FAILURES] += hidden_failures(scratch)
    record[c, PHANTOM_FAILURES] += phantoms

    now[S_RETIRED], trials, wrongly = retire(c, cell, state, shelves, tasks, tables)
    record[c, RETIRE_TRIALS] += trials
    record[c, WRONGLY_RETIRED] += wrongly
    now[S_SYNTHESISED], now[S_EVICTED] = 0, 0
    if t < cell.rounds - 1:
        now[S_SYNTHESISED], now[S_EVICTED] = synthesise(c, cell, words, state, shelves, tasks, tables, scratch)

    now[S_EVAL] = evaluate(c, cell, state, shelves, tasks, tables)
    sampled = sample_eval(c, cell, tasks, words, shelves, tables, scratch.order) if cell.sampled else 0
    if cell.rollback:
        restored, put_back, dropped = roll_back(c, cell, sampled, state, shelves, best, tasks, tables)
        record[c, ROLLBACKS] += restored
        record[c, RESTORED] += put_back
        record[c, DROPPED] += dropped
    now[S_ACTIVE] = shelves.size[c]
    book(c, t, cell, now, sampled, record)


@stage
def book(c, t, cell, now, sampled, record):
    """Add a round to the record of its run."""
    record[c, PEAK_EVAL] = max(record[c, PEAK_EVAL], now[S_EVAL])
    record[c, PEAK_SAMPLED] = max(record[c, PEAK_SAMPLED], sampled)
    if t < cell.window:
        record[c, FIRST_EVAL] += now[S_EVAL]
        record[c, FIRST_SAMPLED] += sampled
    if t >= cell.rounds - cell.window:
        record[c, TAIL_EVAL] += now[S_EVAL]
        record[c, TAIL_SAMPLED] += sampled
    record[c, SYNTHESISED] += now[S_SYNTHESISED]
    record[c, RETIRED] += now[S_RETIRED]
    record[c, EVICTED] += now[S_EVICTED]
    record[c, OBSERVED_FAILURES] += now[S_OBSERVED_FAILURES]


@stage
def finish(c, cell, tables, shelves, record):
    """Fill in what follows from the rest, and the state of the final shelf."""
    record[c, LIFT] = record[c, TAIL_EVAL] - cell.window * record[c, FLOOR_EVAL]
    record[c, ROLLING_GAIN] = record[c, TAIL_EVAL] - record[c, FIRST_EVAL]
    record[c, DEPRECATED] = record[c, RETIRED] + record[c, EVICTED]
    record[c, FLIPS] = record[c, HIDDEN_FAILURES] + record[c, PHANTOM_FAILURES]
    record[c, ACTIVE_FINAL] = shelves.size[c]
    for j in range(shelves.size[c]):
        record[c, HARMFUL_FINAL] += tables.effect_sign[cell.pass_table, skill_row(shelves.skill[c, j])] < 0
    record[c, RETIRE_TRIALS_X_RETIRED] = record[c, RETIRE_TRIALS] * record[c, RETIRED]


@stage
def add_series(c, t, run, now, sums):
    for s in range(len(SERIES)):
        sums.series[c, t, s, 0] += now[s]
        square = now[s] * now[s]
        sums.series[c, t, s, 1] += square >> 32
        sums.series[c, t, s, 2] += square & 0xFFFFFFFF
        if sums.series_records.shape[1]:
            sums.series_records[c, run, t, s] = now[s]


@part
def add_record(c, run, record, baseline, sums):
    for m in range(len(METRICS)):
        x = record[c, m]
        d = x - record[baseline, m]
        sums.metrics[c, m, 0] += x
        sums.metrics[c, m, 1] += (x * x) >> 32
        sums.metrics[c, m, 2] += (x * x) & 0xFFFFFFFF
        sums.metrics[c, m, 3] += d
        sums.metrics[c, m, 4] += (d * d) >> 32
        sums.metrics[c, m, 5] += (d * d) & 0xFFFFFFFF
        if sums.records.shape[1]:
            sums.records[c, run, m] = x
    sums.histogram[c, min(record[c, RETIRED], HISTOGRAM_BINS - 1)] += 1


@entry
def simulate(tables, baseline, seed, first_run, n_runs, sizes, draws, tasks, words, shelves, best, state, scratch, sums):
    """Play all cells on runs first_run .. first_run + n_runs - 1 and add them to ``sums``.

    ``baseline`` gives, for each cell, the cell it is compared with. The tables are flat, and the other groups of arrays
    those of :mod:`sim.kernels.layout`, used by one call at a time.
    """
    key0 = U32(seed)
    for run in range(n_runs):
        key1 = U32(first_run + run)
        draw_tasks(draws, key0, key1)
        lay_out_tasks(tasks, draws, tables)
        for c in range(len(tables.cells)):
            start(c, tables.cells[c], draws, tables, tasks, shelves, state, scratch.record)
        for t in range(sizes.rounds):
            draw_words(words, U32(t), key0, key1, sizes.sampled)
            for c in range(len(tables.cells)):
                if t < tables.cells[c].rounds:
                    play_round(c, t, tables.cells[c], tables, tasks, words, shelves, best, state, scratch)
                    add_series(c, t, run, scratch.now, sums)
        for c in range(len(tables.cells)):
            finish(c, tables.cells[c], tables, shelves, scratch.record)
        for c in range(len(tables.cells)):
            add_record(c, run, scratch.record, baseline[c], sums)


def run(
    tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int, keep_records: bool = False, keep_series: bool = True
) -> Sums:
    """Simulate every cell on a range of runs.

    Parameters
    ----------
    tables
        From :func:`sim.tables.derive`, of cells with one curator.
    baseline
        int32, shape (cells,): the cell each cell is compared with, run by run.
    seed, first_run, n_runs
        The runs: all randomness is keyed by (seed, run number).
    keep_records, keep_series
        Also return every run by itself, as the reference does; and with its rounds.

    Returns
    -------
    Sums
    """
    buffers = allocate(tables, n_runs if keep_records else 0, keep_series)
    given = (flat_tables(tables), baseline, seed, first_run, n_runs, sizes_of(tables.cells), *buffers)
    rule = tables.only_rule()
    if rule is None:
        simulate(*given)
    else:
        from sim.kernels.ruled import play

        play(rule, len(tables.cells), int(tables.cells["cap"].max()), given)
    return buffers[-1]
