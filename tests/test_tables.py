"""Tables against the definitions they stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from sim import tables
from sim.errors import InputError
from sim.model import Channel, Difficulty
from tests.worlds import CLEAN, MAIN_71, cell


def test_thresholds() -> None:
    assert tables.threshold(np.array([0.0, 0.5, 1.0])).tolist() == [0, 2**31, 2**32 - 1]


@pytest.mark.parametrize("keep", ["all", "any_fail", "mixed"])
@pytest.mark.parametrize(("a", "b"), [(0.431, 0.914), (2.78, 0.82)])
def test_difficulty_is_the_beta_conditioned_on_its_probes(a: float, b: float, keep: str) -> None:
    """Quantiles against numerical integration of the density times the chance of being kept."""
    m = 3
    kept = {"all": lambda p: 1.0, "any_fail": lambda p: 1 - p**m, "mixed": lambda p: 1 - p**m - (1 - p) ** m}[keep]
    density = stats.beta(a, b).pdf
    at = np.array([0.1, 0.5, 0.9])
    quantiles = tables.difficulty_quantiles(Difficulty(a, b, m, keep), at)
    total = integrate.quad(lambda p: density(p) * kept(p), 0, 1, limit=200)[0]
    below = [integrate.quad(lambda p: density(p) * kept(p), 0, q, limit=200)[0] / total for q in quantiles]
    np.testing.assert_allclose(below, at, atol=1e-6)


def test_probe_selection_predicts_the_floors_it_should() -> None:
    """The mean no-skill pass rates that the Beta of the 155 report tasks implies for its subsets."""
    for keep, floor in (("mixed", 0.428), ("any_fail", 0.242)):
        middle = tables.difficulty_quantiles(Difficulty(0.431, 0.914, 3, keep), (np.arange(256) + 0.5) / 256)
        assert middle.mean() == pytest.approx(floor, abs=0.001)


def test_topics_have_their_weights() -> None:
    cdf = tables.topic_cdf(MAIN_71).astype(float) / 2**32
    weight = np.arange(1, 14) ** -1.87
    np.testing.assert_allclose(np.diff(cdf, prepend=0), weight / weight.sum(), atol=1e-9)


def test_pass_table_is_the_logistic_of_difficulty_and_effect() -> None:
    passes, sign = tables.pass_table(MAIN_71)
    p0 = passes[tables.NO_SKILL] / 2**32
    row = 17
    effect = MAIN_71.effect.mean + MAIN_71.effect.sd * stats.norm.ppf((row + 0.5) / 64)
    expected = 1 / (1 + np.exp(-(np.log(p0 / (1 - p0)) + effect)))
    np.testing.assert_allclose(passes[row] / 2**32, expected, atol=1e-7)
    assert sign[row] == -1
    assert (np.diff(passes.astype(np.int64), axis=1) >= 0).all()
    assert (np.diff(passes[:64].astype(np.int64), axis=0) >= 0).all()


def test_off_topic_match() -> None:
    off = tables.off_probability(MAIN_71, 12)
    match = 1 - (1 - 0.34) ** np.arange(13)
    np.testing.assert_allclose(off, [match, (1 - 0.34) * match])
    always = tables.off_probability(replace(MAIN_71, router=replace(MAIN_71.router, mode="top_hit", top_hit_recall=0.5)), 2)
    np.testing.assert_allclose(always, [[0, 1, 1], [0, 0.5, 0.5]])


@pytest.mark.parametrize("spread", [0.05, 0.4, 0.9])
@pytest.mark.parametrize("mean", [0.02, 0.3, 0.5])
def test_clustered_rates_keep_their_mean_and_correlation(mean: float, spread: float) -> None:
    rates = tables.flip_rates(Channel(mean, 1 - mean, spread))[0] / 2**32
    assert rates.mean() == pytest.approx(mean, abs=1e-6)
    # Var = s m (1 - m); bins lose a little of it.
    assert rates.var() == pytest.approx(spread * mean * (1 - mean), rel=0.03)


@pytest.mark.parametrize("mean", [5e-324, 1e-13, 1e-9, 1 - 1e-9, 1 - 1e-13])
def test_clustered_rates_at_the_ends_are_finite(mean: float) -> None:
    for spread in (0.01, 0.95):
        rates = tables.flip_rates(Channel(mean, 0.0, spread))[0] / 2**32
        assert rates.mean() == pytest.approx(mean, abs=1e-8)
        assert (np.diff(rates) >= 0).all()


def test_limits_are_named() -> None:
    for world, name in (
        (replace(MAIN_71, topics=65), "topics"),
        (replace(MAIN_71, n_train=4097), "n_train"),
        (replace(MAIN_71, n_eval=4097), "n_eval"),
    ):
        with pytest.raises(InputError, match=rf"world\.{name}: got \d+, expected at most"):
            tables.derive([cell(world)])
    for change in ({"cap": 129}, {"rounds": 1001}):
        (name,) = change
        with pytest.raises(InputError, match=rf"policy\.{name}: got \d+, expected at most"):
            tables.derive([cell(policy=replace(cell().policy, **change))])


def test_tables_are_shared_and_told_apart() -> None:
    same = tables.derive([cell(rho_fp=q) for q in (0.0, 0.5)])
    assert len(same.pass_threshold) == len(same.topic_cdf) == len(same.route_any) == 1
    assert len(same.retire) == 43 * 12 + 1
    assert same.digest() == tables.derive([cell(rho_fp=q) for q in (0.0, 0.5)]).digest()
    assert same.digest() != tables.derive([cell(rho_fp=q) for q in (0.0, 0.51)]).digest()
    assert CLEAN.spread == 0
