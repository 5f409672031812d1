"""The trials of a round: all tasks see the same shelf, so they are arithmetic on vectors, followed by counting.

First every task is routed, then attempted and observed, without a branch and without a look at another task: the compiler
does sixteen at a time. What depends on the shelf is looked up in between (:mod:`sim.kernels.lookup`). What they leave in scratch
is then counted per skill and per topic, one task after another, since two of them may meet in one counter.
"""

from __future__ import annotations

import numpy as np

from sim.kernels.jit import part, stage
from sim.kernels.layout import LOW8, LOW16, SIXTEEN, U32, whole_vectors
from sim.kernels.lookup import look_up
from sim.kernels.tasks import pass_index
from sim.kernels.words import LANES
from sim.tables import NO_SKILL, OFF_TOPIC, POOL_ONE

ONE_AND_HIGH = U32(1 << 16 | 1)
OWN_ROW = U32(0xFFFF)


@stage
def some_skill(packed, size, route_any):
    """Return where the flat table has P(some skill): first without an on-topic skill, by number of off-topic ones, then with one."""
    count = U32(packed >> SIXTEEN)
    return U32(U32(U32(size - count) + (U32(len(route_any) >> 1) if count != U32(0) else U32(0))) & LOW16)


@stage
def route(packed, size, word, pick_word, recall, some):
    """Return (an on-topic skill?, any skill?, its slot) for one task. Selects instead of branches.

    ``packed`` is the (count, first) of the task's topic, ``some`` the threshold of getting some skill.
    """
    first, count = U32(packed & LOW16), U32(packed >> SIXTEEN)
    off = U32(size - count)
    on = (count != U32(0)) & (word < recall)
    hit = word < some
    pick = U32(U32(U32(pick_word & LOW16) * (count if on else off)) >> SIXTEEN)
    before = pick < first  # an off-topic skill of an earlier topic; later ones lie behind this topic's own
    slot = U32(pick + (first if on else (U32(0) if before else count)))
    return on, hit, slot


@stage
def order_by_birth(c, shelves, order):
    """Note the slots of the shelf, oldest skill first: words compare like births."""
    skill, size = shelves.skill[c], shelves.size[c]
    for j in range(size):
        rank = 0
        for i in range(size):
            rank += skill[i] < skill[j]
        order[rank] = j


@stage
def favourite(on, first, count, size, pick_word, cuts, order):
    """Return the slot of the skill that a task gets among those on its topic, or among the others, where older ones are likelier."""
    candidates = count if on else size - count
    word, rank = U32(pick_word & LOW16), np.int64(0)
    while rank < candidates - 1 and word >= cuts[candidates, rank]:
        rank += 1
    if on:
        return first + rank
    at = np.int64(0)
    while True:
        slot = np.int64(order[at])
        if slot < first or slot >= first + count:
            if rank == 0:
                return slot
            rank -= 1
        at += 1


@part
def send_to_favourites(c, cell, topic, pick, shelves, tables, scratch):
    """Choose again, of the same skills, for tasks that get one, where the router has a favourite."""
    by_topic, size, cuts = shelves.by_topic[c], np.int64(shelves.size[c]), tables.favour[cell.favour_table]
    order_by_birth(c, shelves, scratch.order)
    for i in range(cell.n_train):
        if scratch.slot[i] < U32(size):
            packed = by_topic[topic[i]]
            first, count = np.int64(U32(packed & LOW16)), np.int64(U32(packed >> SIXTEEN))
            scratch.slot[i] = U32(favourite(scratch.row[i] == OWN_ROW, first, count, size, pick[i], cuts, scratch.order))


@part
def relabel(cell, words, cdf, scratch):
    """Draw the topics of mislabelled failures by the topics' weights."""
    mislabel, topics = U32(cell.mislabel), U32(cell.topics)
    for i in range(cell.n_train):
        if scratch.label[i] < topics and U32(words.pick[i] >> SIXTEEN) < mislabel:
            word, label = U32(words.route[i] << SIXTEEN), U32(0)
            for k in range(cell.topics - 1):
                label = U32(label + U32(word >= cdf[k]))
            scratch.label[i] = label


@stage
def send(c, cell, tasks, words, shelves, tables, scratch):
    """Route the train tasks of a round: leave in scratch the slot and the skill that each gets, and its row unless it is the skill's.

    Trials without a skill, and observed passes, are counted too, so that there is no branch. They go to a counter per
    lane: with a single one, each task would wait for the one before.
    """
    topic, by_topic, size, recall = tasks.train_topic[cell.task_table], shelves.by_topic[c], U32(shelves.size[c]), cell.recall
    route_any, n, no_skill = tables.route_any[cell.route_table], whole_vectors(cell.n_train), U32(len(scratch.slot_counts) - LANES)
    for k in range(whole_vectors(cell.topics)):
        scratch.some[k] = route_any[some_skill(by_topic[k], size, route_any)]
    look_up(scratch.task_packed, by_topic, topic, n, cell.topics)
    look_up(scratch.task_some, scratch.some, topic, n, cell.topics)
    for i in range(n):
        on, hit, slot = route(scratch.task_packed[i], size, words.route[i], words.pick[i], recall, scratch.task_some[i])
        scratch.slot[i] = U32((slot if hit else U32(no_skill + scratch.lane[i])) & LOW16)
        scratch.row[i] = OWN_ROW if on & hit else (U32(OFF_TOPIC) if hit else U32(NO_SKILL))
    if cell.favour_table:
        send_to_favourites(c, cell, topic, words.pick, shelves, tables, scratch)
    look_up(scratch.skill, shelves.skill[c], scratch.slot, n, shelves.size[c])


@stage
def attempt(c, cell, tasks, words, tables, scratch):
    """Play the train tasks of a round, and leave in scratch what is to be counted, and in which counter."""
    topics, train_topic, train_bin = U32(cell.topics), tasks.train_topic[cell.task_table], tasks.train_bin
    flip_fail, flip_pass, passes = tasks.flip_fail[c], tasks.flip_pass[c], tables.pass_threshold[cell.pass_table]
    mislabel, no_failure = U32(cell.mislabel), U32(len(scratch.topic_counts) - LANES)
    for i in range(whole_vectors(cell.n_train)):
        row = U32(scratch.skill[i] & LOW8) if scratch.row[i] == OWN_ROW else scratch.row[i]
        passed = words.outcome[i] < passes[pass_index(row, train_bin[i])]
        on_fail, on_pass = flip_fail[i], flip_pass[i]  # both loaded, so that no address depends on the outcome
        flipped = words.flip[i] < (on_pass if passed else on_fail)
        failed = passed == flipped
        random = U32(U32(U32(words.route[i] & LOW16) * topics) >> SIXTEEN)
        label = random if U32(words.pick[i] >> SIXTEEN) < mislabel else train_topic[i]

        scratch.trial[i] = U32(1) if failed else ONE_AND_HIGH
        scratch.label[i] = label if failed else U32(no_failure + scratch.lane[i])
        scratch.flip[i] = ONE_AND_HIGH if flipped else U32(1)
    if cell.mislabel_by_weight:
        relabel(cell, words, tables.topic_cdf[cell.task_table], scratch)


@stage
def tally(cell, scratch):
    """Count trials and observed passes per skill; failures, and how many of them are flips, per topic."""
    for i in range(cell.n_train):
        scratch.slot_counts[scratch.slot[i]] += scratch.trial[i]
        scratch.topic_counts[scratch.label[i]] += scratch.flip[i]


@stage
def credit(c, cell, shelves, scratch):
    """Add the counts of a round to the evidence of the skills, and clear them. Return how many trials had a skill."""
    n, net, slot_counts = shelves.n[c], shelves.net[c], scratch.slot_counts
    routed = 0
    for j in range(whole_vectors(shelves.size[c])):
        counts = slot_counts[j]
        slot_counts[j] = U32(0)
        trials = np.int32(U32(counts & LOW16))
        n[j] += trials
        net[j] += np.int32(np.int32(U32(U32(counts >> SIXTEEN) << U32(1))) - trials)
        routed += trials
    return routed


@stage
def keep(pool, memory):
    """Return the share ``memory`` (16 bits) of a pool, in 32-bit arithmetic."""
    return U32(U32(U32(pool >> SIXTEEN) * memory) + U32(U32(U32(pool & LOW16) * memory) >> SIXTEEN))


@stage
def pool_failures(c, cell, state, scratch):
    """Forget, and add the failures of a round to the pools. Return (observed failures, phantom failures)."""
    pool, phantom, topic_counts = state.pool[c], state.phantom[c], scratch.topic_counts
    memory = U32(cell.memory)
    failures = phantoms = U32(0)
    for k in range(whole_vectors(cell.topics)):
        failed, spurious = U32(topic_counts[k] & LOW16), U32(topic_counts[k] >> SIXTEEN)
        topic_counts[k] = U32(0)
        pool[k] = U32(keep(pool[k], memory) + U32(failed * U32(POOL_ONE)))
        phantom[k] = U32(keep(phantom[k], memory) + U32(spurious * U32(POOL_ONE)))
        failures = U32(failures + failed)
        phantoms = U32(phantoms + spurious)
    return np.int64(failures), np.int64(phantoms)


@stage
def hidden_failures(scratch):
    """Return how many observed passes were flips: what the counters beyond the topics say. Clear them."""
    hidden, topic_counts = U32(0), scratch.topic_counts
    for k in range(len(topic_counts) - LANES, len(topic_counts)):
        hidden = U32(hidden + U32(topic_counts[k] >> SIXTEEN))
        topic_counts[k] = U32(0)
    return np.int64(hidden)


@part
def sample_favourites(c, cell, tasks, words, shelves, tables, order):
    """As :func:`sample_eval`, where the router has a favourite: one task after another."""
    eval_topic, eval_bin, by_topic = tasks.eval_topic[cell.task_table], tasks.eval_bin, shelves.by_topic[c]
    passes, route_any = tables.pass_threshold[cell.pass_table], tables.route_any[cell.route_table]
    cuts, size = tables.favour[cell.favour_table], np.int64(shelves.size[c])
    order_by_birth(c, shelves, order)
    total = 0
    for i in range(cell.n_eval):
        packed, row = by_topic[eval_topic[i]], U32(NO_SKILL)
        some = route_any[some_skill(packed, U32(size), route_any)]
        on, hit, _ = route(packed, U32(size), words.eval_route[i], words.eval_pick[i], cell.recall, some)
        if hit:
            first, count = np.int64(U32(packed & LOW16)), np.int64(U32(packed >> SIXTEEN))
            slot = favourite(on, first, count, size, words.eval_pick[i], cuts, order)
            row = U32(shelves.skill[c, slot] & LOW8) if on else U32(OFF_TOPIC)
        total += words.eval_outcome[i] < passes[pass_index(row, eval_bin[i])]
    return np.int64(total)


@stage
def sample_eval(c, cell, tasks, words, shelves, tables, order):
    """Return how many eval tasks pass in one attempt each."""
    if cell.favour_table:
        return sample_favourites(c, cell, tasks, words, shelves, tables, order)
    eval_topic, eval_bin = tasks.eval_topic[cell.task_table], tasks.eval_bin
    size, skill, by_topic = U32(shelves.size[c]), shelves.skill[c], shelves.by_topic[c]
    passes, route_any = tables.pass_threshold[cell.pass_table], tables.route_any[cell.route_table]
    recall, n_eval = cell.recall, U32(cell.n_eval)
    no_slot = U32(len(skill) - LANES)
    total = U32(0)
    for i in range(whole_vectors(cell.n_eval)):
        topic = U32(eval_topic[i] & LOW8)
        packed = by_topic[topic]
        some = route_any[some_skill(packed, size, route_any)]
        on, hit, slot = route(packed, size, words.eval_route[i], words.eval_pick[i], recall, some)
        slot = U32((slot if hit else no_slot) & LOW16)
        row = U32(OFF_TOPIC) if hit & (not on) else U32(skill[slot] & LOW8)
        passed = words.eval_outcome[i] < passes[pass_index(row, eval_bin[i])]
        total = U32(total + U32(passed & (U32(i) < n_eval)))
    return np.int64(total)
