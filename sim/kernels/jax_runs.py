"""The runs of the JAX kernel: from drawing their tasks to sums over them, as array code; :mod:`sim.kernels.jax_kernel` calls it.

Runs are played in batches, all of a batch together. Loop order: batch, then round; a round is mapped over cells inside a map
over runs, so that random words and tasks are drawn once per run and serve all cells. Sums are taken on the device, round by
round: what comes back is one vector of sums, and no record of a run is kept. The batch loop runs on the device too, up to a
number of runs that is an argument: one compiled program plays any number of runs.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from sim import rng
from sim.kernels import jax_round as stages
from sim.kernels import jax_rules as rules
from sim.kernels.jax_round import I32, I64, NOBODY, SIGN_AT, U32, U64, Shelf, Sizes, Tasks, count, look_up, total
from sim.tables import CELL_DTYPE, DIFFICULTY_BITS, EFFECT_BITS, EVAL_BITS, NO_SKILL, OFF_TOPIC, RATE_BITS, ROWS
from sim.variables import HISTOGRAM_BINS, METRIC, METRICS, SERIES

Row: Any = namedtuple("Row", list(CELL_DTYPE.names))  # type: ignore[misc, arg-type]
COUNTED = (
    "tail_eval", "first_eval", "peak_eval", "floor_eval", "tail_sampled", "first_sampled", "peak_sampled", "synthesised", "retired",
    "evicted", "rollbacks", "restored", "dropped", "observed_failures", "hidden_failures", "phantom_failures", "routed",
    "wrongly_retired", "retire_trials",
)  # fmt: skip


Table: TypeAlias = Any  # NumPy's on the way in, JAX's inside


class Flat(NamedTuple):
    """The tables, what is looked up by index in one dimension."""

    passes: Table
    signs: Table
    route_any: Table
    off_weight: Table
    route_width: Table  # int32 (): numbers of off-topic skills that a route table goes through
    flip_rate: Table
    favour: Table  # uint32: by kind, number of candidates and rank, each Sizes.favour of them
    retire: Table
    cuts: Table  # uint32 (task tables, topics)
    n_cuts: Table  # int32 (task tables,)
    n_eval: Table  # int32 (task tables,)
    eval_task: Table  # int32 (eval tables,): the task table of an eval table
    eval_pass: Table  # int32 (eval tables,): and its pass table


class State(NamedTuple):
    """What one cell of one run remembers from round to round."""

    shelf: Shelf
    births: jax.Array
    pool: jax.Array
    phantom: jax.Array
    best: jax.Array | None
    best_shelf: Shelf | None
    flags: jax.Array | None
    record: dict[str, jax.Array]


# ---------------------------------------------------------------- before the first round


def lay_out_tasks(key: tuple[jax.Array, jax.Array], cells: Any, tables: Flat, sizes: Sizes) -> Tasks:
    """Draw the tasks of a run; fields have one row per kind of table, or one for all cells where there is one kind."""
    units = max(sizes.n_train, sizes.topics) if sizes.spread else 0
    numbers = {rng.TRAIN_DRAW: sizes.n_train, rng.EVAL_DRAW: sizes.n_eval, rng.RATE_DRAW: units}
    (topic_word, bin_word), (eval_word, eval_bin), rate_words = stages.draw(key, jnp.zeros((), U32), numbers)
    is_cut = jnp.arange(sizes.topics, dtype=I32) < tables.n_cuts[:, None]

    def topics(words: jax.Array) -> jax.Array:
        return total(((words[None, :, None] >= tables.cuts[:, None, :]) & is_cut[:, None, :]).astype(U32))

    train_topic, train_bin, eval_bin = topics(topic_word), bin_word >> (32 - DIFFICULTY_BITS), eval_bin >> (32 - DIFFICULTY_BITS)
    there = jnp.arange(sizes.n_eval, dtype=I32) < tables.n_eval[:, None]
    eval_topic = jnp.where(there, topics(eval_word), U32(sizes.topics))

    def sums(task_table: jax.Array, pass_table: jax.Array) -> tuple[jax.Array, jax.Array]:
        bare, off = (
            look_up(tables.passes, stages.pass_index(pass_table, U32(row), eval_bin)) >> (32 - EVAL_BITS) for row in (NO_SKILL, OFF_TOPIC)
        )
        by_topic = [count(rates, eval_topic[task_table], sizes.topics).astype(I64) for rates in (bare, off)]
        return by_topic[0], by_topic[1] - by_topic[0]

    none_sum, off_gain = jax.vmap(sums)(tables.eval_task, tables.eval_pass)
    fail, passed = jax.vmap(lambda cell: flip_rates(rate_words, cell, pick_kind(train_topic, cell.task_table), tables, sizes))(cells)
    return Tasks(train_topic, train_bin, fail, passed, eval_topic, eval_bin, none_sum, off_gain)


def flip_rates(words: Any, cell: Any, topic: jax.Array, tables: Flat, sizes: Sizes) -> tuple[jax.Array, jax.Array]:
    """Return the error rates of the train tasks of one cell; one pair for all of them where no cell has clustered errors."""
    if not sizes.spread:
        return cell.flip_fail, cell.flip_pass
    unit = jnp.where(cell.spread_by_task != 0, jnp.arange(sizes.n_train, dtype=U32), topic)
    clustered = (cell.spread_by_task + cell.spread_by_topic) != 0

    def rate(side: int, word: jax.Array, otherwise: jax.Array) -> jax.Array:
        quantile = (look_up(word, unit) >> (32 - RATE_BITS)).astype(I32)
        return jnp.where(clustered, look_up(tables.flip_rate, ((2 * cell.rate_table + side) << RATE_BITS) + quantile), otherwise)

    return rate(0, words[0], cell.flip_fail), rate(1, words[1], cell.flip_pass)


def pick_kind(rows: jax.Array, kind: jax.Array) -> jax.Array:
    """Return one row; where there is one only, it stays shared by all cells."""
    return rows[0] if len(rows) == 1 else rows[kind]


def seen_by(cell: Any, tasks: Tasks) -> Tasks:
    """Return the tasks as one cell sees them."""
    return tasks._replace(
        topic=pick_kind(tasks.topic, cell.task_table),
        eval_topic=pick_kind(tasks.eval_topic, cell.task_table),
        none_sum=pick_kind(tasks.none_sum, cell.eval_table),
        off_gain=pick_kind(tasks.off_gain, cell.eval_table),
    )


def start(cell: Any, tasks: Tasks, effect: jax.Array | None, tables: Flat, sizes: Sizes) -> State:
    """Empty pools, empty shelf; note the eval with no skill, then put what there is at the start on the shelf."""
    zero, slots, pool = I32(0), jnp.zeros(sizes.slots, I32), jnp.zeros(sizes.topics, U32)
    shelf = Shelf(jnp.full(sizes.slots, NOBODY), slots, slots, slots.astype(U32), pool.astype(U64), pool, zero)
    if sizes.rule is not None:
        shelf = rules.begin(sizes.rule, cell, shelf, tables)
    record = dict.fromkeys(COUNTED, zero) | {"retire_trials": I64(0), "floor_eval": stages.evaluate(cell, shelf, tasks, tables, sizes)}
    if effect is not None:
        born = jnp.arange(sizes.slots, dtype=I32)
        topic, row = (born % cell.topics).astype(U32), effect >> (32 - EFFECT_BITS)
        sign = look_up(tables.signs, cell.pass_table * ROWS + row.astype(I32))
        there = born < cell.start
        skills = jnp.where(there, stages.new_skill(topic, born, row, sign), NOBODY)
        rates = jax.vmap(lambda k, r: stages.rates_of(cell, k, r, tasks, tables))(topic, row)
        own = count(stages.packed(there, rates), jnp.where(there, topic, U32(sizes.topics)), sizes.topics)
        place = jnp.where(there, total((skills[None, :] < skills[:, None]).astype(U32)), U32(sizes.slots))
        shelf = stages.arrange(shelf._replace(skill=skills, rates=rates, own=own, size=cell.start), place, sizes)
    state = State(shelf, cell.start, pool, pool, None, None, None, record)
    return state._replace(best=I32(-1), best_shelf=shelf, flags=zero) if sizes.rollback else state


# ---------------------------------------------------------------- the rounds


def play_round(t: jax.Array, cell: Any, words: Any, tasks: Tasks, state: State, tables: Flat, sizes: Sizes) -> tuple[State, jax.Array]:
    """Play a round of one cell of one run. Return its state and what SERIES lists."""
    before, tasks, r = state, seen_by(cell, tasks), state.record
    slot, trial, label, flip, hidden = stages.attempt(cell, tasks, words, state.shelf, tables, sizes)
    by_slot, by_topic = count(trial, slot, sizes.slots), count(flip, label, sizes.topics)
    routed, failures, phantoms = total(by_slot & stages.LOW16), total(by_topic & stages.LOW16), total(by_topic >> 16)
    if sizes.rule is None:
        shelf = stages.credit(state.shelf, by_slot)
    else:
        shelf = rules.credit(sizes.rule, cell, t, state.shelf, slot, trial, by_slot, tables)
    state = stages.forget(cell, state, by_topic)
    shelf, retired, trials, wrongly = stages.retire(cell, t, shelf, tables, sizes)
    state, shelf, written, evicted = stages.synthesise(cell, t, tasks, words, state, shelf, tables, sizes)
    shelf = stages.tidy(shelf, sizes)

    now = stages.evaluate(cell, shelf, tasks, tables, sizes)
    sampled = stages.sample_eval(cell, tasks, words, shelf, tables, sizes) if sizes.sampled else I32(0)
    rolled = restored = dropped = I32(0)
    if sizes.rollback:
        state, shelf, rolled, restored, dropped = stages.roll_back(cell, sampled, state, shelf)
    first, last = t < cell.window, t >= cell.rounds - cell.window
    new = {
        "tail_eval": jnp.where(last, now, 0), "first_eval": jnp.where(first, now, 0),
        "tail_sampled": jnp.where(last, sampled, 0), "first_sampled": jnp.where(first, sampled, 0),
        "synthesised": written, "retired": retired, "evicted": evicted, "rollbacks": rolled, "restored": restored, "dropped": dropped,
        "observed_failures": failures.astype(I32), "hidden_failures": hidden, "phantom_failures": phantoms.astype(I32),
        "routed": routed.astype(I32), "wrongly_retired": wrongly, "retire_trials": trials,
    }  # fmt: skip
    record = r | {name: r[name] + value for name, value in new.items()}
    record |= {"peak_eval": jnp.maximum(r["peak_eval"], now), "peak_sampled": jnp.maximum(r["peak_sampled"], sampled)}
    state = state._replace(shelf=shelf, record=record)
    series = jnp.stack([now, shelf.size, retired, evicted, written, new["observed_failures"]])
    if sizes.ragged:
        on = t < cell.rounds
        state = jax.tree.map(lambda after, old: jnp.where(on, after, old), state, before)
        series = jnp.where(on, series, 0)
    return state, series


def finish(cell: Any, state: State) -> jax.Array:
    """Return the record of a run, int64, in the order of METRICS."""
    m = {name: value.astype(I64) for name, value in state.record.items()}
    signs = (state.shelf.skill >> SIGN_AT) & np.uint32(3)
    m["lift"] = m["tail_eval"] - cell.window * m["floor_eval"]
    m["rolling_gain"] = m["tail_eval"] - m["first_eval"]
    m["deprecated"] = m["retired"] + m["evicted"]
    m["flips"] = m["hidden_failures"] + m["phantom_failures"]
    m["active_final"] = state.shelf.size.astype(I64)
    m["harmful_final"] = total(((signs == 0) & (state.shelf.skill != NOBODY)).astype(I64))
    m["retire_trials_x_retired"] = m["retire_trials"] * m["retired"]
    return jnp.stack([m[name] for name in METRICS])


# ---------------------------------------------------------------- batches of runs


def squares(values: jax.Array) -> list[jax.Array]:
    """Return values, and the high and low 32 bits of their squares, each added up over runs."""
    square = values * values
    return [jnp.sum(part, axis=0) for part in (values, square >> 32, square & np.int64(0xFFFFFFFF))]


def play_batch(key0: jax.Array, first_run: jax.Array, there: jax.Array, cells: Any, baseline: Any, tables: Flat, sizes: Sizes) -> Any:
    """Play one batch of runs, of which those that are ``there`` count.

    Return sums of metrics and series, and the histogram; and the records of the runs, int64 (runs, cells, metrics).
    """
    runs = first_run + jnp.arange(len(there), dtype=U32)

    def begin(run: jax.Array) -> tuple[Tasks, State]:
        key = (key0, run)
        tasks = lay_out_tasks(key, cells, tables, sizes)
        effect = stages.draw(key, jnp.zeros((), U32), {rng.START: sizes.slots})[0][1] if sizes.start else None
        of_cell = jax.vmap(lambda cell, fail, passed: start(cell, seen_by(cell, tasks), effect, tables, sizes))
        return tasks, of_cell(cells, tasks.flip_fail, tasks.flip_pass)

    def round_of_run(t: jax.Array, words: stages.Words, tasks: Tasks, state: State) -> tuple[State, jax.Array]:
        def of_cell(cell: Any, fail: jax.Array, passed: jax.Array, state: State) -> tuple[State, jax.Array]:
            return play_round(t, cell, words, tasks._replace(flip_fail=fail, flip_pass=passed), state, tables, sizes)

        return jax.vmap(of_cell)(cells, tasks.flip_fail, tasks.flip_pass, state)

    def words_of(t: jax.Array) -> stages.Words:
        return jax.vmap(lambda run: stages.draw_words((key0, run), t, sizes))(runs)

    # A round's words are drawn in the round before and handed over by the loop. Drawn where they are used, the compiler would
    # draw them again for every cell: it rates arithmetic cheaper than memory, and sees through its own barriers.
    def step(carry: tuple[State, stages.Words], t: jax.Array) -> tuple[tuple[State, stages.Words], jax.Array]:
        state, words = carry
        state, series = jax.vmap(round_of_run, (None, 0, 0, 0))(t, words, tasks, state)
        series = jnp.where(there[:, None, None], series, 0).astype(I64)
        return (state, words_of(t + 1)), jnp.stack(squares(series), axis=-1)

    tasks, state = jax.vmap(begin)(runs)
    (state, _), series = jax.lax.scan(step, (state, words_of(I32(0))), jnp.arange(sizes.rounds, dtype=I32))
    record = jax.vmap(jax.vmap(finish), (None, 0))(cells, state)
    record = jnp.where(there[:, None, None], record, 0)
    metrics = jnp.stack(squares(record) + squares(record - record[:, baseline]), axis=-1)
    bins = jnp.minimum(record[:, :, METRIC["retired"]], HISTOGRAM_BINS - 1)
    hits = (bins[:, :, None] == jnp.arange(HISTOGRAM_BINS)) & there[:, None, None]
    return (metrics, jnp.moveaxis(series, 0, 1), jnp.sum(hits, axis=0, dtype=I64)), record


def play_runs(key0: Any, first_run: Any, n_runs: Any, cells: Any, baseline: Any, tables: Flat, sizes: Sizes, batch: int) -> Any:
    """Play ``n_runs`` runs in batches; return their sums."""
    n_cells = len(baseline)
    empty = (
        jnp.zeros((n_cells, len(METRICS), 6), I64),
        jnp.zeros((n_cells, sizes.rounds, len(SERIES), 3), I64),
        jnp.zeros((n_cells, HISTOGRAM_BINS), I64),
    )

    def more(carry: Any) -> jax.Array:
        return carry[0] < n_runs

    def one(carry: Any) -> Any:
        done, sums = carry
        there = jnp.arange(batch, dtype=I32) < n_runs - done
        new, _ = play_batch(key0, first_run + done.astype(U32), there, cells, baseline, tables, sizes)
        return done + batch, jax.tree.map(jnp.add, sums, new)

    return jax.lax.while_loop(more, one, (I32(0), empty))[1]


def play_few(key0: Any, first_run: Any, n_runs: Any, cells: Any, baseline: Any, tables: Flat, sizes: Sizes, batch: int) -> Any:
    """Play ``n_runs`` runs, at most one batch; return their sums, and their records by themselves."""
    sums, record = play_batch(key0, first_run, jnp.arange(batch, dtype=I32) < n_runs, cells, baseline, tables, sizes)
    return (*sums, record)
