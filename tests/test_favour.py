"""A router with a favourite, and mislabelled failures that go where failures go: exact shares, limits, and the same bits everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sim import reference
from sim.kernels import jax_kernel, numba_kernel
from sim.model import World, recorded, to_mapping
from sim.reference import Run, Skill, Task
from sim.sums import Layout
from sim.tables import derive, favour_table
from tests.worlds import HARD_133, MAIN_71, cell, rolling

WORDS = np.arange(1 << 16)


def favoured(world: World = MAIN_71, favour: float = 0.0, mislabel_to: str = "uniform", **router: float) -> World:
    return replace(world, router=replace(world.router, favour=favour, **router), critic=replace(world.critic, mislabel_to=mislabel_to))


CELLS = [
    cell(favoured(HARD_133, 0.6, "weight"), 0.2, policy=rolling()),
    cell(HARD_133, 0.2, policy=rolling()),  # in one call with the others
    cell(favoured(MAIN_71, 0.9, recall=0.9), policy=replace(rolling(), cap=5)),
    cell(favoured(replace(HARD_133, start=12), 0.97), 0.3, 0.1),
    cell(favoured(MAIN_71, 0.0, "weight"), 0.1),
    cell(favoured(replace(MAIN_71, topics=1), 0.3, "weight"), policy=rolling()),
    cell(favoured(replace(HARD_133, router=replace(HARD_133.router, mode="top_hit")), 0.8), policy=rolling()),
    cell(favoured(MAIN_71, 0.999999, "weight"), policy=replace(rolling(), cap=1)),
]  # fmt: skip


# ---------------------------------------------------------------- bits


def test_numba_is_the_reference() -> None:
    tables = derive(CELLS)
    metrics, series = reference.records(tables, 12, 34, 2)
    found = numba_kernel.run(tables, np.zeros(len(CELLS), np.int32), 12, 34, 2, keep_records=True)
    np.testing.assert_array_equal(found.records, metrics)
    np.testing.assert_array_equal(found.series_records, series)


def test_jax_is_numba() -> None:
    tables, baseline, layout = derive(CELLS), np.zeros(len(CELLS), np.int32), Layout(12)
    sums = numba_kernel.run(tables, baseline, 5, 1000, 203)
    expected = layout.pack(203, sums.metrics, sums.series, sums.histogram)
    np.testing.assert_array_equal(jax_kernel.run(layout, tables, baseline, 5, 1000, 203, batch=64), expected)


def test_the_order_of_birth_matters() -> None:
    """Candidates by topic, then birth, as they were before there was a favourite: another run. So would a kernel that did this be seen."""

    class ByTopic(Run):
        def route(self, task: Task, route_word: int, pick_word: int) -> Skill | None:
            self.shelf.sort(key=lambda s: (s.topic, s.born))
            found = super().route(task, route_word, pick_word)
            self.shelf.sort(key=lambda s: s.born)
            return found

    tables = derive(CELLS[:1])
    assert Run(tables, 0, 1, 1).play().series != ByTopic(tables, 0, 1, 1).play().series


# ---------------------------------------------------------------- picks


@pytest.mark.parametrize("favour", [0.1, 0.5, 0.9, 0.999])
def test_shares_are_geometric(favour: float) -> None:
    """Over all 2^16 words, within one word per candidate."""
    table = favour_table(favour, 12)
    for m in range(1, 13):
        rank = (WORDS[:, None] >= table[m, : m - 1]).sum(axis=1)
        weight = (1 - favour) ** np.arange(m)
        np.testing.assert_allclose(np.bincount(rank, minlength=m) / 2**16, weight / weight.sum(), atol=2**-16)


def test_limits() -> None:
    """Without a favour the cuts pick as the plain rule does; near 1 always the oldest; one candidate is taken anyway."""
    even, only = favour_table(0.0, 128), favour_table(1 - 1e-9, 128)
    for m in (1, 2, 3, 7, 64, 127, 128):
        assert ((WORDS[:, None] >= even[m, : m - 1]).sum(axis=1) == WORDS * m >> 16).all()
        assert not (WORDS[:, None] >= only[m, : m - 1]).any()
    alone = [cell(favoured(favour=f), policy=replace(cell().policy, cap=1)) for f in (0.0, 0.7)]
    found = numba_kernel.run(derive(alone), np.zeros(2, np.int32), 1, 0, 30, keep_records=True)
    evals = [0, *range(1, 5)]  # those may be rounded otherwise, by less than 2^-20 a topic
    rest = [m for m in range(found.records.shape[2]) if m not in evals and m not in (5,)]
    np.testing.assert_array_equal(found.records[0][:, rest], found.records[1][:, rest])
    np.testing.assert_allclose(found.records[0], found.records[1], atol=13 * 12)


def shelved(world: World, *topics: int) -> Run:
    """A run with a shelf of skills of these topics, in order of birth, each with an effect of its own."""
    run = Run(derive([cell(world, policy=replace(cell().policy, sampled_eval=True))]), 0, 3, 4)
    run.shelf = [Skill(topic, 5 + 11 * (i % 5), i) for i, topic in enumerate(topics)]
    return run


def test_older_skills_that_fit_are_taken_first() -> None:
    """On a topic its own, else those of other topics, both in order of birth whatever their topics."""
    run = shelved(favoured(favour=0.5, recall=0.5, false_match=1.0), 4, 2, 0, 2, 1, 2)
    for route_word, born in ((0, (1, 3, 5)), (2**31 + 5, (0, 2, 4))):
        counts = Counter(s.born for w in range(0, 1 << 16, 16) if (s := run.route(Task(2, 0), route_word, w)) is not None)
        shares = np.array([counts[b] for b in born]) / 4096
        assert sum(shares) == 1
        np.testing.assert_allclose(shares, np.array([4, 2, 1]) / 7, atol=1e-3)


def expected_and_sampled(run: Run, change: Callable[[Run], None] = lambda run: None, times: int = 700) -> float:
    """How far the expected eval is from the mean of many sampled ones, in standard errors."""
    samples = np.array([run.sample_eval(t) for t in range(times)]) / run.c["n_eval"]
    change(run)
    return float((run.evaluate() / 2**20 - samples.mean()) / (samples.std(ddof=1) / times**0.5))


def test_the_expected_eval_is_the_mean_of_sampled_ones() -> None:
    """False alarm: 1e-6 (4.9 standard errors). An eval with equal shares is noticed."""
    world = favoured(replace(MAIN_71, topics=2, topic_skew=0.0, effect=replace(MAIN_71.effect, mean=0.0, sd=2.0)), 0.7, recall=0.9)

    def equal(run: Run) -> None:
        run.c["favour_table"] = 0

    topics = (1, 0, 0, 1, 0, 0, 1)
    assert abs(expected_and_sampled(shelved(world, *topics))) < 4.9
    assert abs(expected_and_sampled(shelved(world, *topics), equal)) > 6


def test_a_favourite_is_tried_and_the_rest_are_not() -> None:
    """Fewer skills come to n_min, so fewer are retired: by far more than chance over 200 runs each (false alarm below 1e-9)."""
    harmful = replace(HARD_133, effect=replace(HARD_133.effect, mean=-1.0))
    cells = [cell(favoured(harmful, f)) for f in (0.0, 0.9)]
    found = numba_kernel.run(derive(cells), np.zeros(2, np.int32), 1, 0, 200, keep_records=True).records
    retired, active = found[..., 10].astype(float), found[..., 21].astype(float)
    assert (retired[0] - retired[1]).mean() > 6.5 * (retired[0] - retired[1]).std() / 200**0.5
    assert active[1].mean() > active[0].mean()


# ---------------------------------------------------------------- labels


def test_labels_by_weight() -> None:
    """Over all words of a mislabelled failure: each topic as often as its weight, its own too; uniform: each alike."""
    for mislabel_to, skew in (("weight", 1.5), ("uniform", 0.0)):
        run = Run(derive([cell(favoured(replace(MAIN_71, topics=4, topic_skew=1.5), 0.0, mislabel_to))]), 0, 1, 1)
        counts = np.bincount([run.label(Task(2, 0), (7 << 16) + w, 0) for w in range(1 << 16)], minlength=4)
        weight = np.arange(1, 5) ** -skew
        np.testing.assert_allclose(counts / 2**16, weight / weight.sum(), atol=2**-15)
        assert run.label(Task(2, 0), 0, 0xFFFF << 16) == 2, "most failures have their own label"


# ---------------------------------------------------------------- what was before


def test_defaults_leave_no_trace() -> None:
    """Tables, stores and logs of cells without the options are what they were before there were any."""
    plain, used = derive([cell()]), derive([cell(favoured(favour=0.5))])
    assert plain.digest() != used.digest() != derive([cell(favoured(favour=0.5, mislabel_to="weight"))]).digest()
    more = plain._replace(favour=np.ones((3, 4, 5), np.uint32))
    assert more.digest() == plain.digest()
    assert "favour" not in recorded(MAIN_71)["router"]
    assert "mislabel_to" not in recorded(MAIN_71)["critic"]
    assert recorded(favoured(favour=0.5, mislabel_to="weight")) == to_mapping(favoured(favour=0.5, mislabel_to="weight"))
