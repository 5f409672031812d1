"""The tasks of a run: topic, difficulty and error rates, drawn once and the same in every round."""

from __future__ import annotations

import numpy as np

from sim.kernels.jit import part, stage
from sim.kernels.layout import LOW16, U32, whole_vectors
from sim.tables import DIFFICULTY_BITS, EVAL_BITS, NO_SKILL, OFF_TOPIC, RATE_BITS

EVAL_SHIFT = 32 - EVAL_BITS
BIN_SHIFT = U32(32 - DIFFICULTY_BITS)
RATE_SHIFT = U32(32 - RATE_BITS)
BARE, OFF = U32(NO_SKILL), U32(OFF_TOPIC)


@stage
def pass_index(row, difficulty_bin):
    """Return where an effect row and a difficulty bin meet in a flat pass table. The mask shows that it is small."""
    return U32(U32(U32(row << U32(DIFFICULTY_BITS)) | difficulty_bin) & LOW16)


@stage
def eval_rate(passes, row, difficulty_bin):
    """Return the pass rate of an eval task in 2^-20."""
    return np.int64(U32(passes[pass_index(row, difficulty_bin)] >> U32(EVAL_SHIFT)))


@stage
def sum_rates(tasks, kind, topic, row, passes):
    """Return the summed pass rates of a topic's eval tasks under one row."""
    total = 0
    for i in range(tasks.topic_end[kind, topic], tasks.topic_end[kind, topic + 1]):
        total += eval_rate(passes, U32(row), tasks.sorted_bin[kind, i])
    return total


@part
def lay_out_tasks(tasks, draws, tables):
    """Turn words into the tasks of a run, for every topic table."""
    for i in range(len(tasks.train_bin)):
        tasks.train_bin[i] = U32(draws.train_bin[i] >> BIN_SHIFT)
    for i in range(len(tasks.eval_bin)):
        tasks.eval_bin[i] = U32(draws.eval_bin[i] >> BIN_SHIFT)
    for kind in range(len(tasks.topics)):
        draw_topics(tasks.train_topic[kind], draws.train_topic, tables.topic_cdf[kind], tasks.topics[kind])
        draw_topics(tasks.eval_topic[kind], draws.eval_topic, tables.topic_cdf[kind], tasks.topics[kind])
        sort_eval(tasks, kind)
    for eval_kind in range(len(tasks.eval_cell)):
        sum_evals(tasks, eval_kind, tables.cells[tasks.eval_cell[eval_kind]], tables)
    for c in range(len(tables.cells)):
        lay_out_rates(tasks, c, tables.cells[c], draws, tables)


@stage
def draw_topics(topic, words, cdf, topics):
    """Count, for each task, the cuts at or below its word."""
    for i in range(len(topic)):
        topic[i] = U32(0)
    for k in range(topics - 1):
        cut = cdf[k]
        for i in range(len(topic)):
            topic[i] = U32(topic[i] + U32(words[i] >= cut))


@stage
def sort_eval(tasks, kind):
    """List the difficulty bins of a kind's eval tasks by topic (counting sort)."""
    end, topics = tasks.topic_end[kind], tasks.topics[kind]
    for k in range(topics + 1):
        end[k] = 0
    for i in range(tasks.n_eval[kind]):
        end[tasks.eval_topic[kind, i] + U32(1)] += 1
    for k in range(topics):
        end[k + 1] += end[k]
    # end[k] is now the first place of topic k; filling moves it to one past the last, the first of topic k + 1
    for i in range(tasks.n_eval[kind]):
        k = tasks.eval_topic[kind, i]
        tasks.sorted_bin[kind, end[k]] = tasks.eval_bin[i]
        end[k] += 1
    for k in range(topics, 0, -1):
        end[k] = end[k - 1]
    end[0] = 0


@stage
def sum_evals(tasks, eval_kind, cell, tables):
    """Note each topic's summed eval pass rates with no skill, and what an off-topic skill adds."""
    none_sum, off_gain = tasks.none_sum[eval_kind], tasks.off_gain[eval_kind]
    passes, total = tables.pass_threshold[cell.pass_table], 0
    for k in range(cell.topics):
        none_sum[k] = off_gain[k] = 0
    for i in range(cell.n_eval):
        topic = tasks.eval_topic[cell.task_table, i]
        none = eval_rate(passes, BARE, tasks.eval_bin[i])
        none_sum[topic] += none
        off_gain[topic] += eval_rate(passes, OFF, tasks.eval_bin[i]) - none
        total += none
    tasks.none_total[eval_kind] = total


@stage
def lay_out_rates(tasks, c, cell, draws, tables):
    """Note the error rates of each train task of a cell."""
    flip_fail, flip_pass = tasks.flip_fail[c], tasks.flip_pass[c]
    if cell.spread_by_task or cell.spread_by_topic:
        for i in range(cell.n_train):
            unit = U32(i) if cell.spread_by_task else tasks.train_topic[cell.task_table, i]
            flip_fail[i] = tables.flip_rate[cell.rate_table, 0, U32(draws.rate_fail[unit] >> RATE_SHIFT)]
            flip_pass[i] = tables.flip_rate[cell.rate_table, 1, U32(draws.rate_pass[unit] >> RATE_SHIFT)]
    else:
        for i in range(whole_vectors(cell.n_train)):
            flip_fail[i], flip_pass[i] = cell.flip_fail, cell.flip_pass
