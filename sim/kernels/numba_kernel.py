"""The numba kernel: the run of :mod:`sim.reference`, step by step, for many runs and cells.

Loop order: run, then round, then cell. The random words of a round are drawn once and serve all cells. Within a round
all trials see the same shelf, so the trials are one loop over tasks without a data-dependent branch.

Each stage below has its twin of the same name in the reference. What is arranged differently, for speed:

- The shelf is sorted by topic, then birth, with (first, count) per topic packed in one word: picking a skill is
  arithmetic. Birth numbers are kept for ties.
- Outcomes of a round are gathered per slot and per topic, two 16-bit counts in a word, then merged.
- The expected eval is kept as sums per topic, updated when a skill comes or goes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.curators import ratchet
from sim.kernels.jit import entry, stage
from sim.kernels.words import Draws, Words, draw_tasks, draw_words
from sim.tables import DIFFICULTY_BITS, EFFECT_BINS, EFFECT_BITS, EVAL_BITS, NO_SKILL, OFF_TOPIC, POOL_ONE, RATE_BITS, Tables
from sim.variables import HISTOGRAM_BINS, METRIC_SUMS, METRICS, SERIES, SERIES_SUMS

U32 = np.uint32
LOW16 = U32(0xFFFF)
SIXTEEN = U32(16)
ONE_SKILL = U32(1 << 16)  # one more skill of a topic, in the packed (count, first)
EVAL_SHIFT = 32 - EVAL_BITS
EVAL_ONE = 1 << EVAL_BITS

retires = stage(ratchet.retires)
weakest = stage(ratchet.weakest)

# Positions in the record of a run, as constants that the compiler sees.
(
    TAIL_EVAL, FIRST_EVAL, PEAK_EVAL, FLOOR_EVAL, LIFT, ROLLING_GAIN, TAIL_SAMPLED, FIRST_SAMPLED, PEAK_SAMPLED, SYNTHESISED, RETIRED,
    EVICTED, DEPRECATED, ROLLBACKS, RESTORED, DROPPED, FLIPS, OBSERVED_FAILURES, HIDDEN_FAILURES, PHANTOM_FAILURES, ROUTED,
    ACTIVE_FINAL, HARMFUL_FINAL, WRONGLY_RETIRED, RETIRE_TRIALS, RETIRE_TRIALS_X_RETIRED,
) = range(len(METRICS))  # fmt: skip
S_EVAL, S_ACTIVE, S_RETIRED, S_EVICTED, S_SYNTHESISED, S_OBSERVED_FAILURES = range(len(SERIES))


class Tasks(NamedTuple):
    """The tasks of one run. Topics differ with the task table (first axis); bins are shared."""

    topics: np.ndarray  # int32 (kinds,): how many topics a task table has
    n_eval: np.ndarray  # int32 (kinds,): and how many eval tasks
    eval_cell: np.ndarray  # int32 (eval kinds,): a cell that uses this eval table
    train_topic: np.ndarray  # uint32 (kinds, n_train)
    train_bin: np.ndarray  # uint32 (n_train,)
    eval_topic: np.ndarray  # uint32 (kinds, n_eval)
    eval_bin: np.ndarray  # uint32 (n_eval,)
    sorted_bin: np.ndarray  # uint32 (kinds, n_eval): eval bins by topic
    topic_end: np.ndarray  # int32 (kinds, topics + 1): topic k is sorted_bin[end[k]:end[k + 1]]
    rate_fail: np.ndarray  # uint32 (units,): bin of rho_fp
    rate_pass: np.ndarray  # uint32 (units,): bin of rho_pf
    off_sum: np.ndarray  # int64 (eval kinds, topics): eval pass rates of a topic with an off-topic skill
    none_sum: np.ndarray  # int64 (eval kinds, topics): and with none


class Shelves(NamedTuple):
    """The skills of every cell, sorted by topic, then birth."""

    n: np.ndarray  # int32 (cells, cap)
    net: np.ndarray  # int32 (cells, cap)
    row: np.ndarray  # int32 (cells, cap + 1)
    topic: np.ndarray  # int32 (cells, cap)
    born: np.ndarray  # int32 (cells, cap)
    by_topic: np.ndarray  # uint32 (cells, topics): count << 16 | first
    size: np.ndarray  # int32 (cells,)


class State(NamedTuple):
    """What else a cell remembers from round to round."""

    births: np.ndarray  # int32 (cells,)
    pool: np.ndarray  # uint32 (cells, topics)
    phantom: np.ndarray  # uint32 (cells, topics)
    on_sum: np.ndarray  # int64 (cells, topics): eval pass rates of a topic, summed over its skills
    on_term: np.ndarray  # int64 (cells, topics): their share of the expected eval
    best: np.ndarray  # int32 (cells,): best sampled eval
    flags: np.ndarray  # int32 (cells,)


class Scratch(NamedTuple):
    """Buffers of one round."""

    slot_counts: np.ndarray  # uint32 (cap + 1,): observed passes << 16 | trials
    topic_counts: np.ndarray  # uint32 (topics,): phantom failures << 16 | observed failures
    barred: np.ndarray  # uint8 (topics,)
    record: np.ndarray  # int64 (cells, metrics)
    now: np.ndarray  # int64 (series,)


# ---------------------------------------------------------------- one round of one cell


@stage
def forget(c, cell, state):
    memory = U32(cell.memory)
    for k in range(cell.topics):
        for pool in (state.pool, state.phantom):
            p = pool[c, k]
            pool[c, k] = U32(U32(U32(p >> SIXTEEN) * memory) + U32(U32(U32(p & LOW16) * memory) >> SIXTEEN))


@stage
def route(packed, size, cap, word, pick_word, recall, any_off, any_on):
    """Return (on topic?, slot) of one task; slot ``cap`` means none. Selects instead of branches."""
    first, count = U32(packed & LOW16), U32(packed >> SIXTEEN)
    off = U32(size - count)
    has = count != U32(0)
    on = has & (word < recall)
    hit = word < (any_on[off] if has else any_off[off])
    pick = U32(U32(U32(pick_word & LOW16) * (count if on else off)) >> SIXTEEN)
    slot = U32(pick + first) if on else (pick if pick < first else U32(pick + count))
    return on, (slot if hit else cap)


@stage
def trials(c, cell, kind, tasks, words, shelves, tables, scratch, record):
    size, cap, topics = U32(shelves.size[c]), U32(cell.cap), U32(cell.topics)
    recall, flip_fail, flip_pass, mislabel = cell.recall, cell.flip_fail, cell.flip_pass, U32(cell.mislabel)
    passes, any_route, rates = cell.pass_table, cell.route_table, cell.rate_table
    for j in range(cell.cap + 1):
        scratch.slot_counts[j] = U32(0)
    for k in range(cell.topics):
        scratch.topic_counts[k] = U32(0)
    hidden = U32(0)
    for i in range(cell.n_train):
        topic = tasks.train_topic[kind, i]
        word, pick_word = words.route[i], words.pick[i]
        packed = shelves.by_topic[c, topic]
        first, count = U32(packed & LOW16), U32(packed >> SIXTEEN)
        off = U32(size - count)
        has = count != U32(0)
        on = has & (word < recall)
        hit = word < tables.route_any[any_route, U32(has), off]
        pick = U32(U32(U32(pick_word & LOW16) * (count if on else off)) >> SIXTEEN)
        slot = U32(pick + first) if on else (pick if pick < first else U32(pick + count))
        slot = slot if hit else cap
        row = U32(shelves.row[c, slot]) if on else (U32(OFF_TOPIC) if hit else U32(NO_SKILL))

        passed = words.outcome[i] < tables.pass_threshold[passes, row, tasks.train_bin[i]]
        if cell.spread_by_task or cell.spread_by_topic:
            unit = U32(i) if cell.spread_by_task else topic
            flip_fail = tables.flip_rate[rates, 0, tasks.rate_fail[unit]]
            flip_pass = tables.flip_rate[rates, 1, tasks.rate_pass[unit]]
        flipped = words.flip[i] < (flip_pass if passed else flip_fail)
        observed = U32(passed ^ flipped)
        failed = U32(observed ^ U32(1))

        hidden = U32(hidden + U32(observed & U32(flipped)))
        label = U32(U32(U32(word & LOW16) * topics) >> SIXTEEN) if U32(pick_word >> SIXTEEN) < mislabel else topic
        scratch.slot_counts[slot] += U32(U32(1) + U32(observed << SIXTEEN))
        scratch.topic_counts[label] += U32(failed + U32(U32(failed & U32(passed)) << SIXTEEN))
    record[c, HIDDEN_FAILURES] += hidden
    record[c, FLIPS] += hidden


@stage
def count(c, cell, state, shelves, scratch, record):
    """Merge the outcomes of a round into the evidence and the pools; return the observed failures."""
    routed = 0
    for j in range(shelves.size[c]):
        counts = scratch.slot_counts[j]
        n = np.int32(U32(counts & LOW16))
        shelves.n[c, j] += n
        shelves.net[c, j] += np.int32(2 * np.int32(U32(counts >> SIXTEEN)) - n)
        routed += n
    failures = 0
    phantoms = 0
    for k in range(cell.topics):
        counts = scratch.topic_counts[k]
        failed, phantom = U32(counts & LOW16), U32(counts >> SIXTEEN)
        state.pool[c, k] = U32(state.pool[c, k] + U32(failed * U32(POOL_ONE)))
        state.phantom[c, k] = U32(state.phantom[c, k] + U32(phantom * U32(POOL_ONE)))
        failures += failed
        phantoms += phantom
    record[c, ROUTED] += routed
    record[c, PHANTOM_FAILURES] += phantoms
    record[c, FLIPS] += phantoms
    return failures


@stage
def settle(c, cell, topic, state, shelves):
    """Recompute a topic's share of the expected eval after its skills changed."""
    skills = np.int64(U32(shelves.by_topic[c, topic] >> SIXTEEN))
    state.on_term[c, topic] = cell.recall_weight * state.on_sum[c, topic] // max(skills, 1)


@stage
def eval_sum(kind, topic, row, passes, tasks, tables):
    """Return the summed pass rates of a topic's eval tasks under one row."""
    total = 0
    for i in range(tasks.topic_end[kind, topic], tasks.topic_end[kind, topic + 1]):
        total += np.int64(tables.pass_threshold[passes, row, tasks.sorted_bin[kind, i]] >> U32(EVAL_SHIFT))
    return total


@stage
def remove(c, cell, kind, slot, state, shelves, tasks, tables):
    topic = shelves.topic[c, slot]
    state.on_sum[c, topic] -= eval_sum(kind, topic, shelves.row[c, slot], cell.pass_table, tasks, tables)
    shelves.size[c] -= 1
    for j in range(slot, shelves.size[c]):
        shelves.n[c, j] = shelves.n[c, j + 1]
        shelves.net[c, j] = shelves.net[c, j + 1]
        shelves.row[c, j] = shelves.row[c, j + 1]
        shelves.topic[c, j] = shelves.topic[c, j + 1]
        shelves.born[c, j] = shelves.born[c, j + 1]
    shelves.by_topic[c, topic] = U32(shelves.by_topic[c, topic] - ONE_SKILL)
    for k in range(topic + 1, cell.topics):
        shelves.by_topic[c, k] = U32(shelves.by_topic[c, k] - U32(1))
    settle(c, cell, topic, state, shelves)


@stage
def insert(c, cell, kind, topic, row, state, shelves, tasks, tables):
    packed = shelves.by_topic[c, topic]
    slot = np.int64(U32(packed & LOW16)) + np.int64(U32(packed >> SIXTEEN))
    for j in range(shelves.size[c], slot, -1):
        shelves.n[c, j] = shelves.n[c, j - 1]
        shelves.net[c, j] = shelves.net[c, j - 1]
        shelves.row[c, j] = shelves.row[c, j - 1]
        shelves.topic[c, j] = shelves.topic[c, j - 1]
        shelves.born[c, j] = shelves.born[c, j - 1]
    shelves.n[c, slot], shelves.net[c, slot], shelves.row[c, slot] = 0, 0, row
    shelves.topic[c, slot], shelves.born[c, slot] = topic, state.births[c]
    shelves.size[c] += 1
    state.births[c] += 1
    shelves.by_topic[c, topic] = U32(packed + ONE_SKILL)
    for k in range(topic + 1, cell.topics):
        shelves.by_topic[c, k] = U32(shelves.by_topic[c, k] + U32(1))
    state.on_sum[c, topic] += eval_sum(kind, topic, row, cell.pass_table, tasks, tables)
    settle(c, cell, topic, state, shelves)


@stage
def retire(c, cell, kind, state, shelves, tasks, tables, record):
    """Lever 1. Return how many skills left."""
    left = 0
    slot = 0
    while slot < shelves.size[c]:
        n, net = shelves.n[c, slot], shelves.net[c, slot]
        if retires(n, net, tables.retire[cell.retire_at :]):
            record[c, RETIRE_TRIALS] += n
            record[c, WRONGLY_RETIRED] += tables.effect_sign[cell.pass_table, shelves.row[c, slot]] > 0
            remove(c, cell, kind, slot, state, shelves, tasks, tables)
            left += 1
        else:
            slot += 1
    return left


@stage
def ready_topic(c, cell, state, scratch):
    """Return the unbarred topic with the largest pool of at least ``min_cluster`` failures, or -1."""
    best, topic = U32(cell.min_pool - 1), -1
    for k in range(cell.topics):
        if scratch.barred[k] == 0 and state.pool[c, k] > best:
            best, topic = state.pool[c, k], k
    return topic


@stage
def synthesise(c, cell, kind, words, state, shelves, tasks, tables, scratch):
    """Write skills; lever 2 makes room. Return (written, evicted)."""
    for k in range(cell.topics):
        word = words.cover_odd[k // 2] if k % 2 else words.cover_even[k // 2]
        scratch.barred[k] = (shelves.by_topic[c, k] >= ONE_SKILL) & (word < cell.cover_guard)
    written = 0
    evicted = 0
    for slot in range(cell.per_round):
        topic = ready_topic(c, cell, state, scratch)
        if topic < 0:
            break
        if shelves.size[c] == cell.cap:
            worst = weakest(shelves.n[c], shelves.net[c], shelves.born[c], shelves.size[c])
            remove(c, cell, kind, worst, state, shelves, tasks, tables)
            evicted += 1
        chance = np.int64(U32(words.spurious[slot] >> SIXTEEN)) * np.int64(state.pool[c, topic])
        spurious = chance < np.int64(cell.phantom_cost) * np.int64(state.phantom[c, topic])
        row = np.int64(U32(words.effect[slot] >> U32(32 - EFFECT_BITS))) + (EFFECT_BINS if spurious else 0)
        insert(c, cell, kind, topic, row, state, shelves, tasks, tables)
        state.pool[c, topic] = state.phantom[c, topic] = U32(0)
        scratch.barred[topic] = 1
        written += 1
    return written, evicted


@stage
def evaluate(c, cell, eval_kind, state, shelves, tasks, tables):
    """Return the expected pass rate of the shelf in 2^-20."""
    total = 0
    for k in range(cell.topics):
        skills = np.int64(U32(shelves.by_topic[c, k] >> SIXTEEN))
        has = skills > 0
        on_weight = cell.recall_weight if has else 0
        off_weight = tables.off_weight[cell.route_table, np.int64(has), shelves.size[c] - skills]
        total += state.on_term[c, k] + off_weight * tasks.off_sum[eval_kind, k]
        total += (EVAL_ONE - on_weight - off_weight) * tasks.none_sum[eval_kind, k]
    return total // (np.int64(cell.n_eval) << EVAL_BITS)


@stage
def sample_eval(c, cell, kind, words, shelves, tasks, tables):
    """Return how many eval tasks pass in one attempt each."""
    size, cap = U32(shelves.size[c]), U32(cell.cap)
    passes = 0
    for i in range(cell.n_eval):
        packed = shelves.by_topic[c, tasks.eval_topic[kind, i]]
        word = words.eval_route[i]
        first, count_ = U32(packed & LOW16), U32(packed >> SIXTEEN)
        off = U32(size - count_)
        has = count_ != U32(0)
        on = has & (word < cell.recall)
        hit = word < tables.route_any[cell.route_table, U32(has), off]
        pick = U32(U32(U32(words.eval_pick[i] & LOW16) * (count_ if on else off)) >> SIXTEEN)
        slot = U32(pick + first) if on else cap
        row = U32(shelves.row[c, slot]) if on else (U32(OFF_TOPIC) if hit else U32(NO_SKILL))
        passes += words.eval_outcome[i] < tables.pass_threshold[cell.pass_table, row, tasks.eval_bin[i]]
    return passes


@stage
def copy_shelf(c, source, target):
    for j in range(source.size[c]):
        target.n[c, j], target.net[c, j], target.row[c, j] = source.n[c, j], source.net[c, j], source.row[c, j]
        target.topic[c, j], target.born[c, j] = source.topic[c, j], source.born[c, j]
    for k in range(source.by_topic.shape[1]):
        target.by_topic[c, k] = source.by_topic[c, k]
    target.size[c] = source.size[c]


@stage
def shared_skills(c, a, b):
    """Return how many skills two shelves have in common."""
    both = 0
    for i in range(a.size[c]):
        for j in range(b.size[c]):
            both += a.born[c, i] == b.born[c, j]
    return both


@stage
def roll_back(c, cell, kind, sampled, state, shelves, best, tasks, tables, record):
    """Note the best shelf; restore it after ``patience`` flags in a row. Return whether the shelf changed."""
    if sampled > state.best[c]:
        state.best[c] = sampled
        copy_shelf(c, shelves, best)
    state.flags[c] = state.flags[c] + 1 if state.best[c] - sampled > cell.fall else 0
    if state.flags[c] != cell.patience:
        return
    both = shared_skills(c, shelves, best)
    record[c, ROLLBACKS] += 1
    record[c, RESTORED] += best.size[c] - both
    record[c, DROPPED] += shelves.size[c] - both
    copy_shelf(c, best, shelves)
    state.flags[c] = 0
    for k in range(cell.topics):
        state.on_sum[c, k] = 0
    for j in range(shelves.size[c]):
        topic = shelves.topic[c, j]
        state.on_sum[c, topic] += eval_sum(kind, topic, shelves.row[c, j], cell.pass_table, tasks, tables)
    for k in range(cell.topics):
        settle(c, cell, k, state, shelves)


# ---------------------------------------------------------------- a run


@stage
def lay_out_tasks(tasks, draws, tables, n_train, n_eval, units):
    """Turn words into the tasks of a run, for every topic table."""
    for i in range(n_train):
        tasks.train_bin[i] = U32(draws.train_bin[i] >> U32(32 - DIFFICULTY_BITS))
    for i in range(n_eval):
        tasks.eval_bin[i] = U32(draws.eval_bin[i] >> U32(32 - DIFFICULTY_BITS))
    for u in range(units):
        tasks.rate_fail[u] = U32(draws.rate_fail[u] >> U32(32 - RATE_BITS))
        tasks.rate_pass[u] = U32(draws.rate_pass[u] >> U32(32 - RATE_BITS))
    for kind in range(tables.topic_cdf.shape[0]):
        topics = tasks.topics[kind]
        for i in range(n_train):
            tasks.train_topic[kind, i] = U32(0)
        for i in range(n_eval):
            tasks.eval_topic[kind, i] = U32(0)
        for k in range(topics - 1):
            cut = tables.topic_cdf[kind, k]
            for i in range(n_train):
                tasks.train_topic[kind, i] += U32(draws.train_topic[i] >= cut)
            for i in range(n_eval):
                tasks.eval_topic[kind, i] += U32(draws.eval_topic[i] >= cut)
        sort_eval(kind, topics, tasks)


@stage
def sort_eval(kind, topics, tasks):
    """List the difficulty bins of a kind's eval tasks by topic (counting sort)."""
    for k in range(topics + 1):
        tasks.topic_end[kind, k] = 0
    for i in range(tasks.n_eval[kind]):
        tasks.topic_end[kind, tasks.eval_topic[kind, i] + U32(1)] += 1
    for k in range(topics):
        tasks.topic_end[kind, k + 1] += tasks.topic_end[kind, k]
    # topic_end[k] is now the first place of topic k; filling moves it to one past the last, the first of topic k + 1
    for i in range(tasks.n_eval[kind]):
        k = tasks.eval_topic[kind, i]
        tasks.sorted_bin[kind, tasks.topic_end[kind, k]] = tasks.eval_bin[i]
        tasks.topic_end[kind, k] += 1
    for k in range(topics, 0, -1):
        tasks.topic_end[kind, k] = tasks.topic_end[kind, k - 1]
    tasks.topic_end[kind, 0] = 0


@stage
def start(c, cell, tables, tasks, shelves, state, record):
    """Empty shelf, empty pools; note the eval with no skill."""
    shelves.size[c] = state.births[c] = state.flags[c] = 0
    state.best[c] = -1
    for k in range(cell.topics):
        shelves.by_topic[c, k] = state.pool[c, k] = state.phantom[c, k] = U32(0)
        state.on_sum[c, k] = state.on_term[c, k] = 0
    for m in range(len(METRICS)):
        record[c, m] = 0
    record[c, FLOOR_EVAL] = evaluate(c, cell, cell.eval_table, state, shelves, tasks, tables)


@stage
def play_round(c, t, cell, tables, tasks, words, shelves, best, state, scratch, record, now):
    kind = cell.task_table
    forget(c, cell, state)
    trials(c, cell, kind, tasks, words, shelves, tables, scratch, record)
    now[S_OBSERVED_FAILURES] = count(c, cell, state, shelves, scratch, record)
    now[S_RETIRED] = retire(c, cell, kind, state, shelves, tasks, tables, record)
    now[S_SYNTHESISED], now[S_EVICTED] = 0, 0
    if t < cell.rounds - 1:
        now[S_SYNTHESISED], now[S_EVICTED] = synthesise(c, cell, kind, words, state, shelves, tasks, tables, scratch)
    now[S_EVAL] = evaluate(c, cell, cell.eval_table, state, shelves, tasks, tables)
    sampled = sample_eval(c, cell, kind, words, shelves, tasks, tables) if cell.sampled else 0
    if cell.rollback:
        roll_back(c, cell, kind, sampled, state, shelves, best, tasks, tables, record)
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
    record[c, ACTIVE_FINAL] = shelves.size[c]
    for j in range(shelves.size[c]):
        record[c, HARMFUL_FINAL] += tables.effect_sign[cell.pass_table, shelves.row[c, j]] < 0
    record[c, RETIRE_TRIALS_X_RETIRED] = record[c, RETIRE_TRIALS] * record[c, RETIRED]


@stage
def sum_evals(tables, tasks):
    """Note each topic's summed eval pass rates with an off-topic skill and with none."""
    for eval_kind in range(len(tasks.eval_cell)):
        cell = tables.cells[tasks.eval_cell[eval_kind]]
        for k in range(cell.topics):
            tasks.off_sum[eval_kind, k] = eval_sum(cell.task_table, k, OFF_TOPIC, cell.pass_table, tasks, tables)
            tasks.none_sum[eval_kind, k] = eval_sum(cell.task_table, k, NO_SKILL, cell.pass_table, tasks, tables)


# ---------------------------------------------------------------- many runs


class Sums(NamedTuple):
    """Sums over runs, int64 (:mod:`sim.sums`). ``records`` and ``series_records`` have length 0 where not wanted."""

    metrics: np.ndarray  # (cells, metrics, METRIC_SUMS)
    series: np.ndarray  # (cells, rounds, series, SERIES_SUMS)
    histogram: np.ndarray  # (cells, HISTOGRAM_BINS): runs by number of skills retired
    records: np.ndarray  # (cells, runs or 0, metrics)
    series_records: np.ndarray  # (cells, runs or 0, rounds, series)


@stage
def add_series(c, t, run, now, sums):
    for s in range(len(SERIES)):
        sums.series[c, t, s, 0] += now[s]
        square = now[s] * now[s]
        sums.series[c, t, s, 1] += square >> 32
        sums.series[c, t, s, 2] += square & 0xFFFFFFFF
        if sums.series_records.shape[1]:
            sums.series_records[c, run, t, s] = now[s]


@stage
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

    ``baseline`` gives, for each cell, the cell it is compared with. ``sizes`` are the largest n_train, n_eval, topics,
    per_round, rounds and number of rate units of the cells, and whether any of them samples its eval.
    """
    n_train, n_eval, topics, per_round, rounds, units, sampled = sizes
    key0 = U32(seed)
    record, now = scratch.record, scratch.now
    for run in range(n_runs):
        key1 = U32(first_run + run)
        draw_tasks(draws, key0, key1, n_train, n_eval, units)
        lay_out_tasks(tasks, draws, tables, n_train, n_eval, units)
        sum_evals(tables, tasks)
        for c in range(len(tables.cells)):
            start(c, tables.cells[c], tables, tasks, shelves, state, record)
        for t in range(rounds):
            draw_words(words, U32(t), key0, key1, n_train, n_eval, topics, per_round, sampled)
            for c in range(len(tables.cells)):
                if t < tables.cells[c].rounds:
                    play_round(c, t, tables.cells[c], tables, tasks, words, shelves, best, state, scratch, record, now)
                    add_series(c, t, run, now, sums)
        for c in range(len(tables.cells)):
            finish(c, tables.cells[c], tables, shelves, record)
        for c in range(len(tables.cells)):
            add_record(c, run, record, baseline[c], sums)


def run(tables: Tables, baseline: np.ndarray, seed: int, first_run: int, n_runs: int, keep_records: bool = False) -> Sums:
    """Simulate every cell on a range of runs.

    Parameters
    ----------
    tables
        From :func:`sim.tables.derive`.
    baseline
        int32, shape (cells,): the cell each cell is compared with, run by run.
    seed, first_run, n_runs
        The runs: all randomness is keyed by (seed, run number).
    keep_records
        Also return every run by itself, as the reference does.

    Returns
    -------
    Sums
    """
    cells = tables.cells
    c, kinds = len(cells), len(tables.topic_cdf)
    n_train, n_eval, topics, cap = (int(cells[name].max()) for name in ("n_train", "n_eval", "topics", "cap"))
    per_round, rounds = int(cells["per_round"].max()), int(cells["rounds"].max())
    units = max(int((cells["n_train"] * cells["spread_by_task"]).max()), int((cells["topics"] * cells["spread_by_topic"]).max()))
    u32, i32, i64 = (lambda *shape, dtype=dtype: np.zeros(shape, dtype) for dtype in (np.uint32, np.int32, np.int64))

    def at_kind(name: str) -> np.ndarray:
        out = i32(kinds)
        out[cells["task_table"]] = cells[name]
        return out

    eval_cell = np.unique(cells["eval_table"], return_index=True)[1].astype(np.int32)
    tasks = Tasks(
        at_kind("topics"), at_kind("n_eval"), eval_cell, u32(kinds, n_train), u32(n_train), u32(kinds, n_eval), u32(n_eval),
        u32(kinds, n_eval), i32(kinds, topics + 1), u32(units), u32(units), i64(len(eval_cell), topics), i64(len(eval_cell), topics),
    )  # fmt: skip
    shelves, best = (Shelves(i32(c, cap), i32(c, cap), i32(c, cap + 1), i32(c, cap), i32(c, cap), u32(c, topics), i32(c)) for _ in range(2))
    state = State(i32(c), u32(c, topics), u32(c, topics), i64(c, topics), i64(c, topics), i32(c), i32(c))
    scratch = Scratch(u32(cap + 1), u32(topics), np.zeros(topics, np.uint8), i64(c, len(METRICS)), i64(len(SERIES)))
    half = (topics + 1) // 2
    words = Words(*(u32(n) for n in (n_train,) * 4 + (n_eval,) * 4 + (half,) * 2 + (per_round,) * 2))
    draws = Draws(*(u32(n) for n in (n_train, n_train, n_eval, n_eval, units, units)))
    kept = n_runs if keep_records else 0
    sums = Sums(
        i64(c, len(METRICS), len(METRIC_SUMS)), i64(c, rounds, len(SERIES), len(SERIES_SUMS)), i64(c, HISTOGRAM_BINS),
        i64(c, kept, len(METRICS)), i64(c, kept, rounds, len(SERIES)),
    )  # fmt: skip
    sizes = (n_train, n_eval, topics, per_round, rounds, units, bool(cells["sampled"].any()))
    simulate(tables, baseline, seed, first_run, n_runs, sizes, draws, tasks, words, shelves, best, state, scratch, sums)
    return sums
