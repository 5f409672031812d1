"""The stages of one round of one run and cell, as JAX array code; :mod:`sim.kernels.jax_kernel` maps them over runs and cells.

Each stage has its twin in :mod:`sim.reference`. What is arranged differently, and why:

- No stage branches or changes length: a cell is padded to the largest of its call, and masks say what is there.
- All trials of a round see the same shelf, so they are vectors over tasks; they are counted by one scattered addition per
  skill and one per topic.
- A skill is one word that sorts by topic, then birth. Within a round skills that leave are holes and skills that come stand
  behind the others; :func:`tidy` puts all in order once per round, and picking a skill is arithmetic again. It counts bits
  instead of sorting: what is left is in order, and few are new.
- Lever 2 compares fractions as whole numbers: :func:`chat_key` turns net / n into a number of as many bits as it takes, once
  per round, and the weakest is a minimum.
- Expected evals are kept as sums per topic, changed when a skill comes or goes.
- Only what can pass 2^32 has 64 bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sim import rng
from sim.curators import Rule
from sim.kernels import jax_rules as rules
from sim.tables import DIFFICULTY_BITS, EFFECT_BINS, EFFECT_BITS, EVAL_BITS, NO_SKILL, OFF_TOPIC, POOL_ONE, ROWS

I32, U32, I64, U64 = jnp.int32, jnp.uint32, jnp.int64, jnp.uint64
PROMISE: dict[str, Any] = {"mode": "promise_in_bounds", "wrap_negative_indices": False}  # indices are what they should be
LOW16 = np.uint32(0xFFFF)
NOBODY = np.uint32(0xFFFFFFFF)  # an empty slot: sorts behind every skill

# A skill: topic | birth number | sign of its effect, plus 1 | effect row. The limits of sim.tables keep births below 2^16.
TOPIC_AT, BORN_AT, SIGN_AT = 26, 10, 8
OWN_AT = 40  # where the number of a topic's skills stands above the sum of their rates, at most 128 of 2^32


class Sizes(NamedTuple):
    """What the compiled code depends on: the largest of each size among the cells, padded, and what any cell does."""

    n_train: int
    n_eval: int
    topics: int
    slots: int  # cap and per_round, together
    per_round: int
    rounds: int
    trial_bits: int  # of the most trials a skill can have
    start: bool  # whether any shelf starts with skills
    sampled: bool
    rollback: bool
    spread: bool
    ragged: bool  # whether cells differ in rounds
    favour: int = 0  # width of the tables of favourites, a power of two; 0: no cell has one
    by_weight: bool = False  # whether any cell draws mislabels by weight
    rule: Rule | None = None  # the curator of all cells; None: Ratchet, which has stages of its own


class Words(NamedTuple):
    """The random words of one round of one run; uint32."""

    route: jax.Array
    pick: jax.Array
    outcome: jax.Array
    flip: jax.Array
    cover: jax.Array
    spurious: jax.Array
    effect: jax.Array
    eval_route: Any  # None, as the next two, where no cell samples its eval
    eval_pick: Any
    eval_outcome: Any
    key: Any = None  # of the run, for a curator that draws words of its own


class Tasks(NamedTuple):
    """The tasks of one run, as one cell sees them."""

    topic: jax.Array  # uint32 (n_train,)
    bin: jax.Array  # uint32 (n_train,)
    flip_fail: jax.Array  # uint32 (n_train,) or ()
    flip_pass: jax.Array
    eval_topic: jax.Array  # uint32 (n_eval,): one past the last topic beyond the cell's own tasks
    eval_bin: jax.Array  # uint32 (n_eval,)
    none_sum: jax.Array  # int64 (topics,): eval pass rates of a topic with no skill
    off_gain: jax.Array  # int64 (topics,): what an off-topic skill adds to that


class Shelf(NamedTuple):
    """The skills of one run and cell. ``by_topic`` and ``size`` describe it whenever it is tidy."""

    skill: jax.Array  # uint32 (slots,)
    n: jax.Array  # int32 (slots,); what a hole has here and below means nothing
    net: jax.Array  # int32 (slots,)
    rates: jax.Array  # uint32 (slots,): summed pass rates of its topic's eval tasks under this skill
    own: jax.Array  # uint64 (topics,): number of skills << 40 | sum of their rates
    by_topic: jax.Array  # uint32 (topics,): number << 16 | first slot
    size: jax.Array  # int32 ()
    evidence: tuple[jax.Array, ...] = ()  # int64 (slots,) each: a curator's own, other than Ratchet's
    came: Any = None  # int32 (slots,): the round in which a skill was written; None unless the curator has a clock
    last: Any = None  # int32 (slots,): that of its last routed trial


def look_up(table: jax.Array, index: jax.Array) -> jax.Array:
    """Return entries of a flat table. XLA clamps an index outside, as in a round after a cell's last, which does not count."""
    return table.at[index.astype(I32)].get(**PROMISE)


def total(values: jax.Array, kind: Any = None) -> jax.Array:
    """Return a sum over the last axis that keeps its type: JAX would widen it."""
    return jnp.sum(values, axis=-1, dtype=kind or values.dtype)


def count(values: jax.Array, index: jax.Array, size: int) -> jax.Array:
    """Return ``values`` added up by index, shape (size,). What has the index ``size`` is not counted."""
    return jnp.zeros(size + 1, values.dtype).at[index.astype(I32)].add(values, **PROMISE)[:size]


def topic_of(skill: jax.Array) -> jax.Array:
    return skill >> TOPIC_AT


def row_of(skill: jax.Array) -> jax.Array:
    return skill & np.uint32(0xFF)


def born_of(skill: jax.Array) -> jax.Array:
    return (skill >> BORN_AT) & LOW16


# ---------------------------------------------------------------- random words


def threefry(key0: jax.Array, key1: jax.Array, counter0: jax.Array, counter1: jax.Array) -> tuple[jax.Array, jax.Array]:
    """:func:`sim.rng.threefry` on arrays."""
    keys = (key0, key1, key0 ^ key1 ^ np.uint32(rng.PARITY))
    x, y = counter0 + key0, counter1 + key1
    for group in range(5):
        for rotation in rng.ROTATIONS[4 * (group % 2) : 4 * (group % 2) + 4]:
            x = x + y
            y = (y << rotation | y >> (32 - rotation)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def draw(key: tuple[jax.Array, jax.Array], round_: jax.Array, numbers: dict[int, int]) -> list[tuple[jax.Array, jax.Array]]:
    """Return the words of some purposes, of each so many. They are drawn as one array: little code to compile."""
    counter = np.concatenate([np.uint32(purpose << rng.INDEX_BITS) | np.arange(n, dtype=np.uint32) for purpose, n in numbers.items()])
    first, second = threefry(*key, jnp.asarray(counter), round_.astype(U32))
    ends = np.cumsum(list(numbers.values()))
    return [(first[end - n : end], second[end - n : end]) for end, n in zip(ends, numbers.values(), strict=True)]


def draw_words(key: tuple[jax.Array, jax.Array], t: jax.Array, sizes: Sizes) -> Words:
    """Draw the words of a round. A curator's own depend on its shelf, and are drawn there."""
    numbers = {rng.ROUTE: sizes.n_train, rng.OUTCOME: sizes.n_train, rng.COVER: (sizes.topics + 1) // 2, rng.SYNTH: sizes.per_round}
    if sizes.sampled:
        numbers |= {rng.EVAL_ROUTE: sizes.n_eval, rng.EVAL_OUTCOME: sizes.n_eval}
    route, outcome, cover, synth, *sampled = draw(key, t, numbers)
    woven = jnp.stack(cover, axis=-1).reshape(-1)[: sizes.topics]
    own = key if sizes.rule is not None and sizes.rule.draws else None
    evals = (*sampled[0], sampled[1][0]) if sampled else (None, None, None)
    return Words(*route, *outcome, woven, *synth, *evals)._replace(key=own)


# ---------------------------------------------------------------- trials


def route(
    cell: Any, topic: jax.Array, word: jax.Array, pick_word: jax.Array, shelf: Shelf, tables: Any, sizes: Sizes
) -> tuple[jax.Array, ...]:
    """Return (an on-topic skill?, any skill?, its slot) for every task. Selects instead of branches."""
    by_topic = look_up(shelf.by_topic, topic)
    first, own = by_topic & LOW16, by_topic >> 16
    off, has = shelf.size.astype(U32) - own, own != 0
    on = has & (word < cell.recall)
    hit = word < look_up(tables.route_any, (cell.route_table * 2 + has) * tables.route_width + off.astype(I32))
    pick = ((pick_word & LOW16) * jnp.where(on, own, off)) >> 16
    before = pick < first  # an off-topic skill of an earlier topic; later ones lie behind this topic's own
    slot = pick + jnp.where(on, first, jnp.where(before, U32(0), own))
    if sizes.favour:
        chosen = favourite(cell, topic, jnp.where(on, own, off), on, first, pick_word & LOW16, shelf, tables, sizes)
        slot = jnp.where(cell.favour_table != 0, chosen, slot)
    return on, hit, slot


def favourite(
    cell: Any,
    topic: jax.Array,
    number: jax.Array,
    on: jax.Array,
    first: jax.Array,
    word: jax.Array,
    shelf: Shelf,
    tables: Any,
    sizes: Sizes,
) -> jax.Array:
    """Return the slot each task gets of its ``number`` candidates, where older ones are likelier."""
    row, rank, step = cuts_of(cell, number, sizes), jnp.zeros(len(topic), I32), sizes.favour // 2
    while step:  # how many cuts are at or below the word
        rank = jnp.where(word >= look_up(tables.favour, row + rank + (step - 1)), rank + step, rank)
        step //= 2
    slots = jnp.arange(sizes.slots, dtype=I32)
    there, mine = slots < shelf.size, topic_of(shelf.skill)
    born = shelf.skill << (32 - TOPIC_AT)  # compares like birth numbers
    age = total((born[None, :] < born[:, None]).astype(I32))
    order = jnp.zeros(sizes.slots, I32).at[age].set(slots, **PROMISE)
    others = age - place_in_topic(shelf, sizes)  # older skills of other topics
    passed = there & (mine == topic[:, None]) & (others <= rank[:, None])
    off = jnp.minimum(rank + total(passed.astype(I32)), sizes.slots - 1)
    return jnp.where(on, first + rank.astype(U32), look_up(order, off).astype(U32))


def cuts_of(cell: Any, number: jax.Array, sizes: Sizes) -> jax.Array:
    """Return where the table of favourites has the row of so many candidates."""
    return (cell.favour_table * sizes.favour + number.astype(I32)) * sizes.favour


def place_in_topic(shelf: Shelf, sizes: Sizes) -> jax.Array:
    """Return how many older skills of its topic a tidy shelf has before each slot; of a hole, anything."""
    topic = jnp.minimum(topic_of(shelf.skill), U32(sizes.topics - 1))
    return jnp.arange(sizes.slots, dtype=I32) - (look_up(shelf.by_topic, topic) & LOW16).astype(I32)


def solve(cell: Any, on: jax.Array, hit: jax.Array, slot: jax.Array, bin_: jax.Array, shelf: Shelf, tables: Any) -> jax.Array:
    """Return the threshold of a true pass for every task."""
    skill = look_up(shelf.skill, jnp.where(on, slot, U32(0)))
    row = jnp.where(on, row_of(skill), jnp.where(hit, U32(OFF_TOPIC), U32(NO_SKILL)))
    return look_up(tables.passes, pass_index(cell.pass_table, row, bin_))


def pass_index(kind: jax.Array, row: jax.Array, bin_: jax.Array) -> jax.Array:
    return kind.astype(U32) * np.uint32(ROWS << DIFFICULTY_BITS) + (row << DIFFICULTY_BITS | bin_)


def attempt(cell: Any, tasks: Tasks, words: Words, shelf: Shelf, tables: Any, sizes: Sizes) -> tuple[jax.Array, ...]:
    """Play the train tasks. Return per task (slot, observed pass << 16 | 1) and (topic it is booked on, flip << 16 | 1).

    What is not to be counted has a slot, or a topic, one past the last.
    """
    there = jnp.arange(sizes.n_train, dtype=I32) < cell.n_train
    on, hit, slot = route(cell, tasks.topic, words.route, words.pick, shelf, tables, sizes)
    passed = words.outcome < solve(cell, on, hit, slot, tasks.bin, shelf, tables)
    flipped = words.flip < jnp.where(passed, tasks.flip_pass, tasks.flip_fail)
    failed = passed == flipped
    any_topic = ((words.route & LOW16) * cell.topics.astype(U32)) >> 16
    if sizes.by_weight:
        is_cut = jnp.arange(sizes.topics, dtype=I32) < cell.topics - 1
        weighed = total((((words.route << 16)[:, None] >= tables.cuts[cell.task_table]) & is_cut).astype(U32))
        any_topic = jnp.where(cell.mislabel_by_weight != 0, weighed, any_topic)
    label = jnp.where((words.pick >> 16).astype(I32) < cell.mislabel, any_topic, tasks.topic)
    trial = jnp.where(failed, U32(1), U32(1 << 16 | 1))
    flip = jnp.where(flipped, U32(1 << 16 | 1), U32(1))
    hidden = total((flipped & ~failed & there).astype(I32))
    slot, label = jnp.where(hit & there, slot, U32(sizes.slots)), jnp.where(failed & there, label, U32(sizes.topics))
    return slot, trial, label, flip, hidden


def credit(shelf: Shelf, counts: jax.Array) -> Shelf:
    """Add a round's counts, observed passes << 16 | trials, to the evidence of the skills."""
    trials = (counts & LOW16).astype(I32)
    return shelf._replace(n=shelf.n + trials, net=shelf.net + 2 * (counts >> 16).astype(I32) - trials)


def keep(pool: jax.Array, memory: jax.Array) -> jax.Array:
    """Return the share ``memory`` (16 bits) of a pool, in 32-bit arithmetic."""
    share = memory.astype(U32)
    return (pool >> 16) * share + (((pool & LOW16) * share) >> 16)


# ---------------------------------------------------------------- the shelf


def number_before(there: jax.Array) -> jax.Array:
    """Return for each slot how many slots before it are true: bits counted below it, 32 slots at a time."""
    n = len(there)
    before = jnp.zeros(n, U32)
    for at in range(0, n, 32):
        bits = np.uint32(1) << np.arange(min(32, n - at), dtype=np.uint32)
        below = np.array([(1 << min(max(j - at, 0), 32)) - 1 for j in range(n)], np.uint32)
        before += jax.lax.population_count(total(jnp.where(there[at : at + 32], bits, U32(0))) & below)
    return before


def tidy(shelf: Shelf, sizes: Sizes) -> Shelf:
    """Close the holes and move each new skill, from behind the others, to its place by topic, then birth."""
    old = sizes.slots - sizes.per_round
    skill, there = shelf.skill, shelf.skill != NOBODY
    new = skill[old:]
    after_new = total((new[None, :] < skill[:, None]).astype(U32))
    place_new = total((skill[None, :old] < new[:, None]).astype(U32)) + after_new[old:]
    place = jnp.concatenate([number_before(there[:old]) + after_new[:old], place_new])
    return arrange(shelf, jnp.where(there, place, U32(sizes.slots)), sizes)


def arrange(shelf: Shelf, place: jax.Array, sizes: Sizes) -> Shelf:
    """Move each skill to its place, and note which topic's are where."""
    slots = jnp.arange(sizes.slots, dtype=I32)
    source = jnp.zeros(sizes.slots + 1, I32).at[place.astype(I32)].set(slots, **PROMISE)[:-1]
    filled = slots < shelf.size

    def move(values: jax.Array, empty: Any) -> jax.Array:
        return jnp.where(filled, look_up(values, source), empty)

    number = (shelf.own >> OWN_AT).astype(U32)
    own, clock = (move(values, I64(0)) for values in shelf.evidence), (shelf.came, shelf.last)
    return Shelf(
        move(shelf.skill, NOBODY), move(shelf.n, I32(0)), move(shelf.net, I32(0)), move(shelf.rates, U32(0)),
        shelf.own, number << 16 | (jnp.cumsum(number, dtype=U32) - number), shelf.size,
        tuple(own), *(None if values is None else move(values, I32(0)) for values in clock),
    )  # fmt: skip


def packed(there: jax.Array, rates: jax.Array) -> jax.Array:
    """Return what skills add to their topic's ``own``."""
    return jnp.where(there, np.uint64(1 << OWN_AT) | rates.astype(U64), np.uint64(0))


def retire(cell: Any, t: jax.Array, shelf: Shelf, tables: Any, sizes: Sizes) -> tuple[Shelf, jax.Array, jax.Array, jax.Array]:
    """Lever 1. Return the shelf with holes, how many skills left, their trials, how many of them had a positive effect."""
    if sizes.rule is None:
        leaves = shelf.net <= look_up(tables.retire, cell.retire_at + shelf.n)
    else:
        shelf = rules.look_back(sizes.rule, cell, t, shelf, tables)
        leaves = rules.leaves(sizes.rule, cell, t, shelf, tables)
    gone = (shelf.skill != NOBODY) & leaves
    positive = ((shelf.skill >> SIGN_AT) & np.uint32(3)) == 2
    left = total(gone.astype(I32))
    own = shelf.own - count(packed(gone, shelf.rates), jnp.where(gone, topic_of(shelf.skill), U32(len(shelf.own))), len(shelf.own))
    counts = left, total(jnp.where(gone, shelf.n, I32(0)), I64), total((gone & positive).astype(I32))
    return (shelf._replace(skill=jnp.where(gone, NOBODY, shelf.skill), own=own, size=shelf.size - left), *counts)


def chat_key(n: jax.Array, net: jax.Array, b: int) -> tuple[jax.Array, int]:
    """Return a whole number per skill that orders them as chat = net / n does, equal for equal fractions; and that of chat 0.

    Two different fractions with denominators below 2^b are at least 2^-2b apart, so (1 + chat) 2^(2b) rounded down tells
    them apart. It is divided out in two steps of b bits.
    """
    kind = U32 if 2 * b + 1 < 32 else U64
    tried = jnp.maximum(n, 1).astype(kind)
    share = jnp.where(n == 0, 1, n + net).astype(kind) << b
    high = jax.lax.div(share, tried)
    low = jax.lax.div((share - high * tried) << b, tried)
    return (high << b) + low, 1 << 2 * b


def new_skill(topic: jax.Array, born: jax.Array, row: jax.Array, sign: jax.Array) -> jax.Array:
    return topic.astype(U32) << TOPIC_AT | born.astype(U32) << BORN_AT | (sign + 1).astype(U32) << SIGN_AT | row.astype(U32)


def rates_of(cell: Any, topic: jax.Array, row: jax.Array, tasks: Tasks, tables: Any) -> jax.Array:
    """Return the summed pass rates of a topic's eval tasks under one row: below 2^32, since 4096 of 20 bits are."""
    rates = look_up(tables.passes, pass_index(cell.pass_table, row, tasks.eval_bin)) >> (32 - EVAL_BITS)
    return total(jnp.where(tasks.eval_topic == topic, rates, U32(0)))


def synthesise(
    cell: Any, t: jax.Array, tasks: Tasks, words: Words, state: Any, shelf: Shelf, tables: Any, sizes: Sizes
) -> tuple[Any, Shelf, jax.Array, jax.Array]:
    """Write skills for the largest unbarred pools; lever 2 makes room. Return state, shelf with holes, written, evicted."""
    topics, slots = jnp.arange(sizes.topics, dtype=U32), jnp.arange(sizes.slots, dtype=I32)
    covered = shelf.own >= np.uint64(1 << OWN_AT)
    cluster = jnp.where(covered & (words.cover < cell.cover_guard), U32(0), state.pool)
    may, rule = t < cell.rounds - 1, sizes.rule
    chat_zero: Any = 0
    if rule is None:
        key, chat_zero = chat_key(shelf.n, shelf.net, sizes.trial_bits)
    else:
        key = rules.strengths(rule, cell, t, shelf, words.key, tables)
    strongest = jnp.iinfo(key.dtype).max
    key = jnp.where(shelf.skill == NOBODY, jnp.array(strongest, key.dtype), key)

    def write(w: jax.Array, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        cluster, key, shelf, pool, phantom, births, written, evicted = carry
        failures = jnp.max(cluster)
        topic = jnp.min(jnp.where(cluster == failures, topics, NOBODY))
        go = may & (w < cell.per_round) & (failures.astype(I32) >= cell.min_pool)
        full = go & (shelf.size == cell.cap)
        if rule is not None and rule.refuses:
            go, full = go & ~full, jnp.zeros((), bool)
        new, zero = (None, chat_zero) if rule is None else rules.newcomer(rule, cell, t, births, words.key, tables)
        born = shelf.skill << (32 - TOPIC_AT)  # compares like birth numbers
        oldest = jnp.min(jnp.where(key == jnp.min(key), born, NOBODY))
        out = born == jnp.where(full, oldest, NOBODY)

        here = topics == topic
        spent = go & here
        phantoms = total(jnp.where(here, phantom, U32(0)))
        chance = (words.spurious[w] >> 16).astype(U64) * failures.astype(U64)
        spurious = chance < cell.phantom_cost.astype(U64) * phantoms.astype(U64)
        row = (words.effect[w] >> (32 - EFFECT_BITS)) + jnp.where(spurious, U32(EFFECT_BINS), U32(0))
        sign = look_up(tables.signs, cell.pass_table.astype(U32) * np.uint32(ROWS) + row)
        put = go & (slots == sizes.slots - sizes.per_round + w)
        rates = rates_of(cell, topic, row, tasks, tables)
        out_topic = total(jnp.where(out, topic_of(shelf.skill), U32(0)))
        own = shelf.own + packed(spent, rates) - jnp.where(topics == out_topic, total(packed(out, shelf.rates)), np.uint64(0))
        key = jnp.where(put, jnp.array(zero, key.dtype), jnp.where(out, jnp.array(strongest, key.dtype), key))
        one, gone = go.astype(I32), full.astype(I32)
        skill = jnp.where(put, new_skill(topic, births, row, sign), jnp.where(out, NOBODY, shelf.skill))
        shelf = shelf._replace(skill=skill, rates=jnp.where(put, rates, shelf.rates), own=own, size=shelf.size + one - gone)
        if new is not None:
            shelf = rules.settle(shelf, put, new, t)
        cluster, pool, phantom = (jnp.where(spent, U32(0), values) for values in (cluster, pool, phantom))
        return cluster, key, shelf, pool, phantom, births + one, written + one, evicted + gone

    carry = (cluster, key, shelf, state.pool, state.phantom, state.births, I32(0), I32(0))
    carry = jax.lax.fori_loop(0, sizes.per_round, write, carry)
    _, _, shelf, pool, phantom, births, written, evicted = carry
    return state._replace(pool=pool, phantom=phantom, births=births), shelf, written, evicted


def evaluate(cell: Any, shelf: Shelf, tasks: Tasks, tables: Any, sizes: Sizes) -> jax.Array:
    """Return the expected pass rate of a tidy shelf in 2^-20."""
    own, on_sum = (shelf.own >> OWN_AT).astype(I32), (shelf.own & np.uint64((1 << OWN_AT) - 1)).astype(I64)
    has = own != 0
    on_weight = jnp.where(has, cell.recall_weight, I64(0))
    at = (cell.route_table * 2 + has) * tables.route_width + shelf.size - own
    off_weight = look_up(tables.off_weight, at).astype(I64)
    by_topic = jax.lax.div(on_weight * on_sum, jnp.maximum(own, 1).astype(I64))  # nothing here is negative: div rounds down
    if sizes.favour:
        favoured = on_weight * favoured_mean(cell, own, shelf, tables, sizes)
        by_topic = jnp.where(cell.favour_table != 0, favoured, by_topic)
    by_topic += off_weight * tasks.off_gain + (np.int64(1 << EVAL_BITS) - on_weight) * tasks.none_sum
    return jax.lax.div(total(by_topic), cell.n_eval.astype(I64) << EVAL_BITS).astype(I32)


def favoured_mean(cell: Any, own: jax.Array, shelf: Shelf, tables: Any, sizes: Sizes) -> jax.Array:
    """Return each topic's summed eval pass rates, mean over its skills by their shares of the picks, rounded down; int64 (topics,)."""
    there = jnp.arange(sizes.slots, dtype=I32) < shelf.size
    topic, rank = jnp.where(there, topic_of(shelf.skill), U32(0)), jnp.where(there, place_in_topic(shelf, sizes), 0)
    row = cuts_of(cell, look_up(own, topic), sizes) + rank
    share = look_up(tables.favour, row) - jnp.where(rank > 0, look_up(tables.favour, row - (rank > 0)), U32(0))
    rates = share.astype(U64) * shelf.rates.astype(U64)
    return (count(rates, jnp.where(there, topic, U32(sizes.topics)), sizes.topics) >> 16).astype(I64)


def sample_eval(cell: Any, tasks: Tasks, words: Words, shelf: Shelf, tables: Any, sizes: Sizes) -> jax.Array:
    """Return how many eval tasks pass in one attempt each."""
    there = tasks.eval_topic < sizes.topics
    topic = jnp.where(there, tasks.eval_topic, U32(0))
    on, hit, slot = route(cell, topic, words.eval_route, words.eval_pick, shelf, tables, sizes)
    passed = words.eval_outcome < solve(cell, on, hit, slot, tasks.eval_bin, shelf, tables)
    return jnp.where(cell.sampled != 0, total((passed & there).astype(I32)), I32(0))


def roll_back(cell: Any, sampled: jax.Array, state: Any, shelf: Shelf) -> tuple[Any, Shelf, jax.Array, jax.Array, jax.Array]:
    """Note the best shelf; after ``patience`` flags in a row restore it. Return state, shelf, rolled back?, put back, dropped."""
    rolls = cell.rollback != 0
    better = sampled > state.best
    best = jnp.where(better, sampled, state.best)
    kept = jax.tree.map(lambda new, old: jnp.where(better, new, old), shelf, state.best_shelf)
    flags = jnp.where(best - sampled > cell.fall, state.flags + 1, I32(0))
    restore = rolls & (flags == cell.patience)
    both = (shelf.skill[None, :] == kept.skill[:, None]) & (shelf.skill != NOBODY)
    shared = jnp.sum(both, dtype=I32)
    put_back, dropped = (jnp.where(restore, s.size - shared, I32(0)) for s in (kept, shelf))
    shelf = jax.tree.map(lambda old, new: jnp.where(restore, old, new), kept, shelf)
    state = state._replace(best=best, best_shelf=kept, flags=jnp.where(restore, I32(0), flags))
    return state, shelf, restore.astype(I32), put_back, dropped


def forget(cell: Any, state: Any, failures: jax.Array) -> Any:
    """Let the pools fade, and add a round's failures, phantoms << 16 | all."""
    pool = keep(state.pool, cell.memory) + (failures & LOW16) * np.uint32(POOL_ONE)
    return state._replace(pool=pool, phantom=keep(state.phantom, cell.memory) + (failures >> 16) * np.uint32(POOL_ONE))
