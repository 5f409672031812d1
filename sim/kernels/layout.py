"""What the stages of the numba kernel pass around: named groups of arrays, and how they are laid out.

A loop over tasks, skills or topics runs in whole vectors of :data:`LANES`, past the end: every such axis is padded, and
what lies beyond the end is zero, or computed and never used. A loop over 43 tasks without padding would be two vectors and eleven
single steps, and those would take most of the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.kernels.jit import stage
from sim.kernels.lookup import TABLE
from sim.kernels.words import LANES, Draws, Words, padded
from sim.tables import NO_SKILL, Tables
from sim.variables import HISTOGRAM_BINS, METRIC_SUMS, METRICS, SERIES, SERIES_SUMS

U32 = np.uint32
LOW16 = U32(0xFFFF)
LOW8 = U32(0xFF)
EIGHT = U32(8)
SIXTEEN = U32(16)


class Tasks(NamedTuple):
    """The tasks of one run. Topics differ with the task table (kinds); bins are shared."""

    topics: np.ndarray  # int32 (kinds,): how many topics a task table has
    n_eval: np.ndarray  # int32 (kinds,): and how many eval tasks
    eval_cell: np.ndarray  # int32 (eval kinds,): a cell that uses this eval table
    train_topic: np.ndarray  # uint32 (kinds, n_train)
    train_bin: np.ndarray  # uint32 (n_train,)
    eval_topic: np.ndarray  # uint32 (kinds, n_eval)
    eval_bin: np.ndarray  # uint32 (n_eval,)
    sorted_bin: np.ndarray  # uint32 (kinds, n_eval): eval bins by topic
    topic_end: np.ndarray  # int32 (kinds, topics + 1): topic k is sorted_bin[end[k]:end[k + 1]]
    none_sum: np.ndarray  # int64 (eval kinds, topics): eval pass rates of a topic with no skill
    off_gain: np.ndarray  # int64 (eval kinds, topics): what an off-topic skill adds to that
    none_total: np.ndarray  # int64 (eval kinds,): none_sum over all topics
    flip_fail: np.ndarray  # uint32 (cells, n_train): error rates of a train task that truly fails
    flip_pass: np.ndarray  # uint32 (cells, n_train): and of one that passes


class Shelves(NamedTuple):
    """The skills of every cell, sorted by topic, then birth.

    A skill is one word, birth number << 16 | topic << 8 | effect row, so that words compare like birth numbers. The
    limits (:data:`sim.tables.LIMITS`, and 64 skills per round) keep births below 2^16, topics and rows below 2^8.
    """

    n: np.ndarray  # int32 (cells, cap)
    net: np.ndarray  # int32 (cells, cap)
    skill: np.ndarray  # uint32 (cells, cap + LANES): see above; from cap on, the row for no skill
    by_topic: np.ndarray  # uint32 (cells, topics padded to whole tables): count << 16 | first
    size: np.ndarray  # int32 (cells,)


class Evidence(NamedTuple):
    """What curators other than Ratchet look at besides ``n`` and ``net``, slot by slot as in :class:`Shelves`."""

    own: np.ndarray  # int64 (cells, cap, fields or 1): the rule's own evidence
    came: np.ndarray  # int32 (cells, cap): the round in which a skill was written; -1 before the first
    last: np.ndarray  # int32 (cells, cap): that of its last routed trial, or ``came``


class State(NamedTuple):
    """What else a cell remembers from round to round."""

    births: np.ndarray  # int32 (cells,)
    pool: np.ndarray  # uint32 (cells, topics)
    phantom: np.ndarray  # uint32 (cells, topics)
    on_sum: np.ndarray  # int64 (cells, topics): eval pass rates of a topic, summed over its skills
    on_gain: np.ndarray  # int64 (cells, topics): what they add to the expected eval
    best: np.ndarray  # int32 (cells,): best sampled eval
    flags: np.ndarray  # int32 (cells,)


class Scratch(NamedTuple):
    """Buffers of one round of one cell, and the records of one run."""

    lane: np.ndarray  # uint32 (n_train,): 0 .. LANES - 1, over and over
    some: np.ndarray  # uint32 (topics padded to whole tables,): threshold below which a task of the topic gets some skill
    task_some: np.ndarray  # uint32 (n_train,): the same by task
    task_packed: np.ndarray  # uint32 (n_train,): by_topic by task
    row: np.ndarray  # uint32 (n_train,): the row of the pass table; OWN_ROW: that of the skill
    skill: np.ndarray  # uint32 (n_train,): the skill in the slot of each trial
    slot: np.ndarray  # uint32 (n_train,): the skill of each trial; from cap on: none
    trial: np.ndarray  # uint32 (n_train,): observed pass << 16 | 1
    label: np.ndarray  # uint32 (n_train,): the topic a failure is booked on; from topics on: an observed pass
    flip: np.ndarray  # uint32 (n_train,): flipped << 16 | 1
    order: np.ndarray  # int32 (cap,): the slots of the shelf, oldest skill first; where a cell has a favourite
    slot_counts: np.ndarray  # uint32 (cap + LANES,): observed passes << 16 | trials; up to cap zero between rounds
    topic_counts: np.ndarray  # uint32 (topics + LANES,): flips << 16 | trials; all zero between rounds
    cluster: np.ndarray  # uint32 (topics,): the pools that may become a skill, else 0
    record: np.ndarray  # int64 (cells, metrics)
    now: np.ndarray  # int64 (series,)


class Sums(NamedTuple):
    """Sums over runs, int64 (:mod:`sim.sums`). ``records`` and ``series_records`` have length 0 where not wanted."""

    metrics: np.ndarray  # (cells, metrics, METRIC_SUMS)
    series: np.ndarray  # (cells, rounds, series, SERIES_SUMS)
    histogram: np.ndarray  # (cells, HISTOGRAM_BINS): runs by number of skills retired
    records: np.ndarray  # (cells, runs or 0, metrics)
    series_records: np.ndarray  # (cells, runs or 0, rounds, series)


class Sizes(NamedTuple):
    """The largest of each size among the cells."""

    n_train: int
    n_eval: int
    topics: int
    cap: int
    per_round: int
    rounds: int
    units: int  # things with an error rate of their own
    start: int  # skills on the shelf before the first round
    sampled: bool  # whether any cell samples its eval


whole_vectors = stage(padded)


def sizes_of(cells: np.ndarray) -> Sizes:
    """Return the largest sizes among these cells."""
    units = np.maximum(cells["n_train"] * cells["spread_by_task"], cells["topics"] * cells["spread_by_topic"])
    n_train, n_eval, topics, cap, per_round, rounds = (
        int(cells[name].max()) for name in ("n_train", "n_eval", "topics", "cap", "per_round", "rounds")
    )
    return Sizes(n_train, n_eval, topics, cap, per_round, rounds, int(units.max()), int(cells["start"].max()), bool(cells["sampled"].any()))


def allocate(tables: Tables, kept: int, series: bool = True) -> tuple[Draws, Tasks, Words, Shelves, Shelves, State, Scratch, Sums]:
    """Return every buffer a call of the kernel needs: draws, tasks, words, shelves, best shelves, state, scratch, sums.

    Parameters
    ----------
    tables
        What will be run.
    kept
        How many runs to keep by themselves.
    series
        Whether with their rounds.
    """
    cells = tables.cells
    sizes = sizes_of(cells)
    c, kinds, rounds = len(cells), len(tables.topic_cdf), sizes.rounds
    n_train, n_eval, topics, cap, per_round, units, first = (padded(n) for n in (*sizes[:5], sizes.units, sizes.start))
    half, whole = padded((sizes.topics + 1) // 2), -(-sizes.topics // TABLE) * TABLE

    def u32(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.uint32)

    def i32(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int32)

    def i64(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    kind_topics, kind_eval = i32(kinds), i32(kinds)
    kind_topics[cells["task_table"]], kind_eval[cells["task_table"]] = cells["topics"], cells["n_eval"]
    eval_cell = np.unique(cells["eval_table"], return_index=True)[1].astype(np.int32)
    e = len(eval_cell)

    draws = Draws(*(u32(n) for n in (n_train, n_train, n_eval, n_eval, units, units, first, first)))
    words = Words(*(u32(n) for n in (n_train,) * 4 + (n_eval,) * 4 + (half, half, 2 * half, per_round, per_round)))
    tasks = Tasks(
        kind_topics, kind_eval, eval_cell, u32(kinds, n_train), u32(n_train), u32(kinds, n_eval), u32(n_eval), u32(kinds, n_eval),
        i32(kinds, topics + 1), i64(e, topics), i64(e, topics), i64(e), u32(c, n_train), u32(c, n_train),
    )  # fmt: skip
    shelves, best = (Shelves(i32(c, cap), i32(c, cap), u32(c, cap + LANES), u32(c, whole), i32(c)) for _ in range(2))
    shelves.skill[:] = NO_SKILL  # and so it stays from cap on
    state = State(i32(c), u32(c, topics), u32(c, topics), i64(c, topics), i64(c, topics), i32(c), i32(c))
    lane = np.arange(n_train, dtype=np.uint32) % np.uint32(LANES)
    scratch = Scratch(
        lane, u32(whole), u32(n_train), u32(n_train), u32(n_train), u32(n_train), u32(n_train), u32(n_train), u32(n_train), u32(n_train),
        i32(cap),
        u32(cap + LANES), u32(topics + LANES), u32(topics),
        i64(c, len(METRICS)), i64(len(SERIES)),
    )  # fmt: skip
    sums = Sums(
        i64(c, len(METRICS), len(METRIC_SUMS)), i64(c, rounds, len(SERIES), len(SERIES_SUMS)), i64(c, HISTOGRAM_BINS),
        i64(c, kept, len(METRICS)), i64(c, kept if series else 0, rounds, len(SERIES)),
    )  # fmt: skip
    return draws, tasks, words, shelves, best, state, scratch, sums


def allocate_evidence(cells: int, cap: int, fields: int) -> tuple[Evidence, Evidence]:
    """Return the buffers of evidence for a curator with so many fields of its own: of the shelves, and of the best shelves."""
    room = padded(cap)

    def made() -> Evidence:
        return Evidence(np.zeros((cells, room, max(fields, 1)), np.int64), *(np.zeros((cells, room), np.int32) for _ in range(2)))

    return made(), made()


class Flat(NamedTuple):
    """Tables as compiled code takes them: two-step look-ups (row, then column) are one row per kind, so one 32-bit index finds a value."""

    cells: np.ndarray
    topic_cdf: np.ndarray
    pass_threshold: np.ndarray
    effect_sign: np.ndarray
    route_any: np.ndarray
    off_weight: np.ndarray
    flip_rate: np.ndarray
    favour: np.ndarray
    retire: np.ndarray


def flat_tables(tables: Tables) -> Flat:
    """Return tables for compiled code."""

    def flat(table: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(table).reshape(len(table), -1)

    made = tables._replace(pass_threshold=flat(tables.pass_threshold), route_any=flat(tables.route_any), off_weight=flat(tables.off_weight))
    return Flat(*(getattr(made, name) for name in Flat._fields))
