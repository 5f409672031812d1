"""What changes the shelf: retiring, writing and evicting skills, rolling back; and the expected eval of what is on it."""

from __future__ import annotations

import numpy as np

from sim.curators import ratchet
from sim.kernels.jit import part, stage
from sim.kernels.layout import EIGHT, LOW8, LOW16, SIXTEEN, U32, whole_vectors
from sim.kernels.lookup import move
from sim.kernels.tasks import sum_rates
from sim.tables import EFFECT_BINS, EFFECT_BITS, EVAL_BITS

U64 = np.uint64
ONE_SKILL = U32(1 << 16)  # one more skill of a topic, in the packed (count, first)
NEW, GONE = np.int64(1), np.int64(-1)
FEW = 8

retires = stage(ratchet.retires)
weakest = stage(ratchet.weakest)


@stage
def skill_topic(skill):
    return np.int64(U32(U32(skill >> EIGHT) & LOW8))


@stage
def skill_row(skill):
    return np.int64(U32(skill & LOW8))


@stage
def change(c, cell, topic, row, by, state, shelves, tasks, tables):
    """Account for a skill that is NEW or GONE (``by``): the places of later topics, and the topic's eval."""
    by_topic, kind = shelves.by_topic[c], cell.task_table
    for k in range(whole_vectors(cell.topics)):
        by_topic[k] = U32(by_topic[k] + U32(U32(k > topic) * U32(by)))
    by_topic[topic] = U32(by_topic[topic] + U32(ONE_SKILL * U32(by)))
    shelves.size[c] += by
    state.on_sum[c, topic] += by * sum_rates(tasks, kind, topic, row, tables.pass_threshold[cell.pass_table])
    settle(c, cell, topic, state, shelves, tasks)


@stage
def settle(c, cell, topic, state, shelves, tasks):
    """Recompute what a topic's skills add to the expected eval."""
    skills = np.int64(U32(shelves.by_topic[c, topic] >> SIXTEEN))
    with_skills = cell.recall_weight * state.on_sum[c, topic] // max(skills, 1)
    without = cell.recall_weight * tasks.none_sum[cell.eval_table, topic]
    state.on_gain[c, topic] = with_skills - without if skills > 0 else 0


@stage
def remove(c, cell, slot, state, shelves, tasks, tables):
    """Close the gap in each array by itself: the compiler makes a block move of it."""
    n, net, skill, last = shelves.n[c], shelves.net[c], shelves.skill[c], shelves.size[c] - 1
    gone = skill[slot]
    for j in range(slot, last):
        n[j] = n[j + 1]
    for j in range(slot, last):
        net[j] = net[j + 1]
    for j in range(slot, last):
        skill[j] = skill[j + 1]
    change(c, cell, skill_topic(gone), skill_row(gone), GONE, state, shelves, tasks, tables)


@stage
def make_room(values, slot, size):
    """Move what stands from a slot on by a place. A loop that runs backwards stays a loop, a call takes longer for a few."""
    if size - slot > FEW:
        move(values, slot + 1, slot, size - slot)
    else:
        for j in range(size, slot, -1):
            values[j] = values[j - 1]


@stage
def insert(c, cell, topic, row, state, shelves, tasks, tables):
    """Put a new skill behind the others of its topic."""
    n, net, skill, size = shelves.n[c], shelves.net[c], shelves.skill[c], shelves.size[c]
    packed = shelves.by_topic[c, topic]
    slot = np.int64(U32(packed & LOW16)) + np.int64(U32(packed >> SIXTEEN))
    make_room(n, slot, size)
    make_room(net, slot, size)
    make_room(skill, slot, size)
    n[slot] = net[slot] = 0
    skill[slot] = U32(state.births[c] << 16 | topic << 8 | row)
    state.births[c] += 1
    change(c, cell, topic, row, NEW, state, shelves, tasks, tables)


@stage
def retire(c, cell, state, shelves, tasks, tables):
    """Lever 1. Return (how many skills left, their trials, how many of them had a positive effect)."""
    table, sign = tables.retire[cell.retire_at :], tables.effect_sign[cell.pass_table]
    left = trials = wrongly = slot = np.int64(0)
    while slot < shelves.size[c]:
        if retires(U32(shelves.n[c, slot]), shelves.net[c, slot], table):
            left += 1
            trials += shelves.n[c, slot]
            wrongly += sign[skill_row(shelves.skill[c, slot])] > 0
            remove(c, cell, slot, state, shelves, tasks, tables)
        else:
            slot += 1
    return left, trials, wrongly


@stage
def largest(cluster, topics):
    """Return (size, topic) of the largest pool; of equals, the first topic. Size and topic are compared as one key."""
    best = U64(0)
    for k in range(whole_vectors(topics)):
        key = U64(U64(U64(cluster[k]) << U64(8)) | U64(255 - k))
        best = key if key > best else best
    return np.int64(best >> U64(8)), np.int64(U64(255) - (best & U64(255)))


@stage
def unbarred(c, cell, words, state, shelves, scratch):
    """Leave in scratch the pools that may become a skill: a covered topic's is barred with probability ``cover_guard``."""
    cluster, pool, by_topic = scratch.cluster, state.pool[c], shelves.by_topic[c]
    for k in range(whole_vectors(cell.topics)):
        barred = (by_topic[k] >= ONE_SKILL) & (words.cover[k] < cell.cover_guard)
        cluster[k] = U32(0) if barred else pool[k]


@stage
def new_row(c, cell, topic, failures, written, words, state):
    """Return the effect row of a skill that is written from a topic's failures, as the so-many-th of its round."""
    chance = np.int64(U32(words.spurious[written] >> SIXTEEN)) * failures
    spurious = chance < np.int64(cell.phantom_cost) * np.int64(state.phantom[c, topic])
    return np.int64(U32(words.effect[written] >> U32(32 - EFFECT_BITS))) + (EFFECT_BINS if spurious else 0)


@stage
def synthesise(c, cell, words, state, shelves, tasks, tables, scratch):
    """Write skills for the largest unbarred pools; lever 2 makes room. Return (written, evicted)."""
    cluster, pool = scratch.cluster, state.pool[c]
    unbarred(c, cell, words, state, shelves, scratch)
    written = evicted = 0
    while written < cell.per_round:
        failures, topic = largest(cluster, cell.topics)  # in 1/256ths
        if failures < cell.min_pool:
            break
        if shelves.size[c] == cell.cap:
            worst = weakest(shelves.n[c], shelves.net[c], shelves.skill[c], shelves.size[c])  # words compare like births
            remove(c, cell, worst, state, shelves, tasks, tables)
            evicted += 1
        row = new_row(c, cell, topic, failures, written, words, state)
        insert(c, cell, topic, row, state, shelves, tasks, tables)
        cluster[topic] = pool[topic] = state.phantom[c, topic] = U32(0)
        written += 1
    return written, evicted


@part
def settle_favourites(c, cell, state, shelves, tasks, tables):
    """Recompute what all topics' skills add to the expected eval, where older ones are taken more often."""
    passes, cuts, on_gain = tables.pass_threshold[cell.pass_table], tables.favour[cell.favour_table], state.on_gain[c]
    for k in range(cell.topics):
        packed = shelves.by_topic[c, k]
        first, skills = np.int64(U32(packed & LOW16)), np.int64(U32(packed >> SIXTEEN))
        total = below = np.int64(0)
        for rank in range(skills):
            cut = np.int64(cuts[skills, rank])
            total += (cut - below) * sum_rates(tasks, cell.task_table, k, skill_row(shelves.skill[c, first + rank]), passes)
            below = cut
        on_gain[k] = cell.recall_weight * ((total >> 16) - tasks.none_sum[cell.eval_table, k]) if skills > 0 else 0


@stage
def evaluate(c, cell, state, shelves, tasks, tables):
    """Return the expected pass rate of the shelf in 2^-20: that of no skill, plus what skills add on and off topic."""
    if cell.favour_table:
        settle_favourites(c, cell, state, shelves, tasks, tables)
    by_topic, on_gain, off_gain = shelves.by_topic[c], state.on_gain[c], tasks.off_gain[cell.eval_table]
    off_weight, size = tables.off_weight[cell.route_table], U32(shelves.size[c])
    total = tasks.none_total[cell.eval_table] << EVAL_BITS
    for k in range(whole_vectors(cell.topics)):
        skills = U32(by_topic[k] >> SIXTEEN)
        at = U32(U32(size - skills) + (U32(len(off_weight) >> 1) if skills != U32(0) else U32(0)))
        total += on_gain[k] + off_weight[U32(at & LOW16)] * off_gain[k]
    return total // (np.int64(cell.n_eval) << EVAL_BITS)


# ---------------------------------------------------------------- rolling back


@stage
def copy_shelf(c, source, target):
    for j in range(whole_vectors(source.size[c])):
        target.n[c, j], target.net[c, j], target.skill[c, j] = source.n[c, j], source.net[c, j], source.skill[c, j]
    for k in range(source.by_topic.shape[1]):
        target.by_topic[c, k] = source.by_topic[c, k]
    target.size[c] = source.size[c]


@stage
def shared_skills(c, a, b):
    """Return how many skills two shelves have in common: birth numbers are unique, so equal words are one skill."""
    both = 0
    for i in range(a.size[c]):
        for j in range(b.size[c]):
            both += a.skill[c, i] == b.skill[c, j]
    return both


@stage
def roll_back(c, cell, sampled, state, shelves, best, tasks, tables):
    """Note the best shelf; after ``patience`` flags in a row restore it. Return (restored?, skills put back, dropped)."""
    if sampled > state.best[c]:
        state.best[c] = sampled
        copy_shelf(c, shelves, best)
    state.flags[c] = state.flags[c] + 1 if state.best[c] - sampled > cell.fall else 0
    if state.flags[c] != cell.patience:
        return 0, 0, 0
    state.flags[c] = 0
    both = shared_skills(c, shelves, best)
    put_back, dropped = best.size[c] - both, shelves.size[c] - both
    copy_shelf(c, best, shelves)
    passes = tables.pass_threshold[cell.pass_table]
    for k in range(whole_vectors(cell.topics)):
        state.on_sum[c, k] = 0
    for j in range(shelves.size[c]):
        topic, row = skill_topic(shelves.skill[c, j]), skill_row(shelves.skill[c, j])
        state.on_sum[c, topic] += sum_rates(tasks, cell.task_table, topic, row, passes)
    for k in range(whole_vectors(cell.topics)):
        settle(c, cell, k, state, shelves, tasks)
    return 1, put_back, dropped
