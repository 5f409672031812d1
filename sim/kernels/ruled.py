"""The numba kernel for any curator: its stages are made for one rule, from the rule's own functions, and compiled when first used.

Ratchet has stages of its own (:mod:`sim.kernels.shelf`, :mod:`sim.kernels.trials`), which count. Here the same round is played with a
rule's functions in the place of Ratchet's, and beside the shelf stands what they look at (:class:`sim.kernels.layout.Evidence`). A rule
without ``after_trial`` counts as fast as Ratchet does; with it, trials are taken one after another.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from sim import rng
from sim.curators import Rule, Trial
from sim.curators import Skill as Seen
from sim.errors import InputError
from sim.kernels import numba_kernel as plain
from sim.kernels import shelf
from sim.kernels.jit import entry_of, stage, stage_of
from sim.kernels.layout import LOW16, SIXTEEN, U32, allocate_evidence
from sim.kernels.shelf import evaluate, insert, largest, make_room, new_row, remove, skill_row, unbarred
from sim.kernels.tasks import lay_out_tasks
from sim.kernels.trials import attempt, credit, hidden_failures, pool_failures, sample_eval, send, tally
from sim.kernels.words import draw_tasks, draw_words, one_word

AT_ONE = np.int32(-1)  # the round in which the first shelf was written


def play(rule: Rule, cells: int, cap: int, given: tuple[Any, ...]) -> None:
    """Run the kernel of a curator on what Ratchet's takes.

    Raises
    ------
    InputError
        numba cannot compile the rule.
    """
    from numba.core.errors import NumbaError

    kernel = simulate_with(rule)
    try:
        kernel(*given, *allocate_evidence(cells, cap, len(rule.fields)))
    except NumbaError as error:
        said = [line for line in str(error).splitlines() if line.strip() and not line.startswith(("Failed", "During", "\x1b"))]
        got = f"what numba cannot compile ({' '.join(' '.join(said[:2]).split())[:200]})"
        raise InputError(f"curator {rule.name}", got, "whole numbers, & | and pick(c, a, b)", "see sim/curators/README.md") from error


def _made(source: str, name: str) -> Any:
    """Return a stage from source: how many numbers a rule keeps decides its lines."""
    space: dict[str, Any] = {}
    exec(source, space)
    return stage(space[name])


@functools.cache
def simulate_with(rule: Rule) -> Any:
    """Return the entry of the kernel for a rule, not compiled yet."""
    fields = range(len(rule.fields))
    load = _made(f"def load(own, c, j):\n    return ({''.join(f'own[c, j, {k}], ' for k in fields)})\n", "load")
    store = _made("\n".join(["def store(own, c, j, new):", *(f"    own[c, j, {k}] = new[{k}]" for k in fields), "    return\n"]), "store")
    known: dict[Any, Any] = {}
    first, leaves = stage_of(rule.first, known), stage_of(rule.leaves, known)  # type: ignore[arg-type]
    sequential, rounds, refuses, clock, draws = (
        rule.after_trial is not None,
        rule.after_round is not None,
        rule.refuses,
        rule.clock,
        rule.draws,
    )
    after_trial = stage_of(rule.after_trial, known) if rule.after_trial else None  # type: ignore[arg-type]
    after_round = stage_of(rule.after_round, known) if rule.after_round else None  # type: ignore[arg-type]
    strength = stage_of(rule.strength, known) if rule.strength else None  # type: ignore[arg-type]

    @stage
    def seen(c, j, t, shelves, evidence):
        """Return what the rule may look at."""
        age = idle = np.int64(0)
        if clock:
            age, idle = np.int64(t) - evidence.came[c, j], np.int64(t) - evidence.last[c, j]
        born = np.int64(U32(shelves.skill[c, j] >> SIXTEEN))
        return Seen(np.int64(shelves.n[c, j]), np.int64(shelves.net[c, j]), age, idle, born, load(evidence.own, c, j))

    if sequential:

        @stage
        def learn(c, t, cell, shelves, evidence, scratch, table):
            """Count and judge trials in the order of tasks. Return how many had a skill."""
            n, net, size = shelves.n[c], shelves.net[c], U32(shelves.size[c])
            full = np.int64(shelves.size[c] == cell.cap)
            routed = 0
            for i in range(cell.n_train):
                scratch.topic_counts[scratch.label[i]] += scratch.flip[i]
                if scratch.slot[i] < size:
                    j = np.int64(scratch.slot[i])
                    observed = np.int64(U32(scratch.trial[i] >> SIXTEEN))
                    n[j] += 1
                    net[j] += 2 * observed - 1
                    evidence.last[c, j] = t
                    trial = Trial(observed, np.int64(t), full, np.int64(0), np.int64(0), np.int64(0), np.int64(0))
                    store(evidence.own, c, j, after_trial(seen(c, j, t, shelves, evidence), trial, table))
                    routed += 1
            return routed

    else:

        @stage
        def learn(c, t, cell, shelves, evidence, scratch, table):
            """Count trials, all at once. Return how many had a skill."""
            tally(cell, scratch)
            if clock:
                for j in range(shelves.size[c]):
                    if U32(scratch.slot_counts[j] & LOW16) != U32(0):
                        evidence.last[c, j] = t
            return credit(c, cell, shelves, scratch)

    if rounds:

        @stage
        def look_back(c, t, shelves, evidence, table):
            for j in range(shelves.size[c]):
                store(evidence.own, c, j, after_round(seen(c, j, t, shelves, evidence), np.int64(t), table))

    else:

        @stage
        def look_back(c, t, shelves, evidence, table):
            pass

    @stage
    def take_out(c, cell, slot, state, shelves, evidence, tasks, tables):
        """Remove a skill, and close the gap beside it."""
        for j in range(slot, shelves.size[c] - 1):
            store(evidence.own, c, j, load(evidence.own, c, j + 1))
            evidence.came[c, j], evidence.last[c, j] = evidence.came[c, j + 1], evidence.last[c, j + 1]
        remove(c, cell, slot, state, shelves, tasks, tables)

    @stage
    def put_in(c, t, cell, topic, row, state, shelves, evidence, tasks, tables, table):
        """Put a new skill on the shelf, and make room beside it."""
        size, packed = shelves.size[c], shelves.by_topic[c, topic]
        slot = np.int64(U32(packed & LOW16)) + np.int64(U32(packed >> SIXTEEN))
        make_room(evidence.came[c], slot, size)
        make_room(evidence.last[c], slot, size)
        for j in range(size, slot, -1):
            store(evidence.own, c, j, load(evidence.own, c, j - 1))
        evidence.came[c, slot] = evidence.last[c, slot] = t
        store(evidence.own, c, slot, first(table))
        insert(c, cell, topic, row, state, shelves, tasks, tables)

    @stage
    def retire(c, t, cell, state, shelves, evidence, tasks, tables, table):
        """Lever 1. Return (how many skills left, their trials, how many of them had a positive effect)."""
        sign = tables.effect_sign[cell.pass_table]
        left = trials = wrongly = slot = np.int64(0)
        while slot < shelves.size[c]:
            if leaves(seen(c, slot, t, shelves, evidence), np.int64(t), table):
                left += 1
                trials += shelves.n[c, slot]
                wrongly += sign[skill_row(shelves.skill[c, slot])] > 0
                take_out(c, cell, slot, state, shelves, evidence, tasks, tables)
            else:
                slot += 1
        return left, trials, wrongly

    if refuses:

        @stage
        def makes_room(c, t, cell, state, shelves, evidence, tasks, tables, table, key0, key1):
            return False

    else:

        @stage
        def value(c, j, t, shelves, evidence, table, key0, key1):
            skill = seen(c, j, t, shelves, evidence)
            word = np.int64(0)
            if draws:
                word = np.int64(one_word(U32(rng.CURATOR), U32(skill.born), U32(t), key0, key1))
            return np.int64(strength(skill, np.int64(t), word, table))

        @stage
        def makes_room(c, t, cell, state, shelves, evidence, tasks, tables, table, key0, key1):
            """Lever 2."""
            worst, low = np.int64(0), value(c, np.int64(0), t, shelves, evidence, table, key0, key1)
            for j in range(1, shelves.size[c]):
                own = value(c, np.int64(j), t, shelves, evidence, table, key0, key1)
                if own < low or (own == low and shelves.skill[c, j] < shelves.skill[c, worst]):
                    worst, low = np.int64(j), own
            take_out(c, cell, worst, state, shelves, evidence, tasks, tables)
            return True

    @stage
    def synthesise(c, t, cell, words, state, shelves, evidence, tasks, tables, scratch, table, key0, key1):
        """Write skills for the largest unbarred pools; lever 2 makes room, or refuses. Return (written, evicted)."""
        cluster, pool = scratch.cluster, state.pool[c]
        unbarred(c, cell, words, state, shelves, scratch)
        written = evicted = 0
        while written < cell.per_round:
            failures, topic = largest(cluster, cell.topics)
            if failures < cell.min_pool:
                break
            if shelves.size[c] == cell.cap:
                if not makes_room(c, t, cell, state, shelves, evidence, tasks, tables, table, key0, key1):
                    break
                evicted += 1
            row = new_row(c, cell, topic, failures, written, words, state)
            put_in(c, t, cell, topic, row, state, shelves, evidence, tasks, tables, table)
            cluster[topic] = pool[topic] = state.phantom[c, topic] = U32(0)
            written += 1
        return written, evicted

    @stage
    def copy_evidence(c, size, source, target):
        for j in range(size):
            store(target.own, c, j, load(source.own, c, j))
            target.came[c, j], target.last[c, j] = source.came[c, j], source.last[c, j]

    @stage
    def roll_back(c, cell, sampled, state, shelves, best, evidence, best_evidence, tasks, tables):
        """As Ratchet's, with the evidence."""
        if sampled > state.best[c]:
            copy_evidence(c, shelves.size[c], evidence, best_evidence)
        restored, put_back, dropped = shelf.roll_back(c, cell, sampled, state, shelves, best, tasks, tables)
        if restored:
            copy_evidence(c, shelves.size[c], best_evidence, evidence)
        return restored, put_back, dropped

    @stage
    def start(c, cell, draws, tables, tasks, shelves, state, evidence, record, table):
        plain.start(c, cell, draws, tables, tasks, shelves, state, record)
        for j in range(shelves.size[c]):
            evidence.came[c, j] = evidence.last[c, j] = AT_ONE
            store(evidence.own, c, j, first(table))

    @stage
    def play_round(c, t, cell, tables, tasks, words, shelves, best, state, scratch, evidence, best_evidence, key0, key1):
        record, now, table = scratch.record, scratch.now, tables.retire[cell.retire_at :]
        send(c, cell, tasks, words, shelves, tables, scratch)
        attempt(c, cell, tasks, words, tables, scratch)
        record[c, plain.ROUTED] += learn(c, t, cell, shelves, evidence, scratch, table)
        now[plain.S_OBSERVED_FAILURES], phantoms = pool_failures(c, cell, state, scratch)
        record[c, plain.HIDDEN_FAILURES] += hidden_failures(scratch)
        record[c, plain.PHANTOM_FAILURES] += phantoms

        look_back(c, t, shelves, evidence, table)
        now[plain.S_RETIRED], trials, wrongly = retire(c, t, cell, state, shelves, evidence, tasks, tables, table)
        record[c, plain.RETIRE_TRIALS] += trials
        record[c, plain.WRONGLY_RETIRED] += wrongly
        now[plain.S_SYNTHESISED], now[plain.S_EVICTED] = 0, 0
        if t < cell.rounds - 1:
            now[plain.S_SYNTHESISED], now[plain.S_EVICTED] = synthesise(
                c, t, cell, words, state, shelves, evidence, tasks, tables, scratch, table, key0, key1
            )

        now[plain.S_EVAL] = evaluate(c, cell, state, shelves, tasks, tables)
        sampled = sample_eval(c, cell, tasks, words, shelves, tables, scratch.order) if cell.sampled else 0
        if cell.rollback:
            restored, put_back, dropped = roll_back(c, cell, sampled, state, shelves, best, evidence, best_evidence, tasks, tables)
            record[c, plain.ROLLBACKS] += restored
            record[c, plain.RESTORED] += put_back
            record[c, plain.DROPPED] += dropped
        now[plain.S_ACTIVE] = shelves.size[c]
        plain.book(c, t, cell, now, sampled, record)

    def simulate(
        tables, baseline, seed, first_run, n_runs, sizes, draws, tasks, words, shelves, best, state, scratch, sums, evidence, best_evidence
    ):
        key0 = U32(seed)
        for run in range(n_runs):
            key1 = U32(first_run + run)
            draw_tasks(draws, key0, key1)
            lay_out_tasks(tasks, draws, tables)
            for c in range(len(tables.cells)):
                cell = tables.cells[c]
                start(c, cell, draws, tables, tasks, shelves, state, evidence, scratch.record, tables.retire[cell.retire_at :])
            for t in range(sizes.rounds):
                draw_words(words, U32(t), key0, key1, sizes.sampled)
                for c in range(len(tables.cells)):
                    if t < tables.cells[c].rounds:
                        play_round(
                            c, t, tables.cells[c], tables, tasks, words, shelves, best, state, scratch, evidence, best_evidence, key0, key1
                        )
                        plain.add_series(c, t, run, scratch.now, sums)
            for c in range(len(tables.cells)):
                plain.finish(c, tables.cells[c], tables, shelves, scratch.record)
            for c in range(len(tables.cells)):
                plain.add_record(c, run, scratch.record, baseline[c], sums)

    return entry_of(rule.digest, simulate)
