"""Tables against the definitions they stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from sim import tables
from sim.errors import InputError
from sim.model import Cell, Channel, Difficulty, Rollback, from_mapping, parameters, to_mapping
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
@pytest.mark.parametrize("mean", [0.005, 0.02, 0.3, 0.5])
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


OTHER = {  # for each parameter a value unlike those of `cell()`
    "world.n_train": 44, "world.n_eval": 29, "world.topics": 12, "world.topic_skew": 1.0, "world.difficulty.a": 2.0,
    "world.difficulty.b": 0.9, "world.difficulty.probes": 4, "world.difficulty.keep": "mixed", "world.effect.mean": 0.1,
    "world.effect.sd": 0.7, "world.effect.spurious_mean": 0.2, "world.effect.spurious_sd": 0.3, "world.effect.off_topic": 0.4,
    "world.router.recall": 0.5, "world.router.false_match": 0.2, "world.router.mode": "top_hit", "world.router.top_hit_recall": 0.8,
    "world.router.favour": 0.5, "world.critic.mislabel_to": "weight",
    "world.critic.mislabel": 0.1, "world.synth.min_cluster": 3, "world.synth.per_round": 1, "world.synth.memory": 0.5,
    "world.synth.cover_guard": 0.2, "world.synth.phantom_cost": 0.1, "world.start": 3,
    "policy.tau": 0.2, "policy.n_min": 25, "policy.cap": 11,
    "policy.rounds": 13, "policy.window": 3, "policy.sampled_eval": True, "policy.rollback.on": True, "policy.rollback.margin": 0.29,
    "policy.rollback.patience": 4, "channel.rho_fp": 0.3, "channel.rho_pf": 0.2, "channel.spread": 0.3, "channel.unit": "topic",
}  # fmt: skip


def seen(derived: tables.Tables, row: int) -> dict[str, object]:
    """Return all that a kernel can read for one cell, whatever table it is kept in."""
    c = derived.cells[row]
    n_max = int(c["n_train"]) * int(c["rounds"])
    out: dict[str, object] = {n: c[n].item() for n in derived.cells.dtype.names or () if not n.endswith(("_table", "retire_at"))}
    out["topic_cdf"] = derived.topic_cdf[c["task_table"], : c["topics"]].tolist()
    out["passes"] = derived.pass_threshold[c["pass_table"]].tobytes()
    out["sign"] = derived.effect_sign[c["pass_table"]].tobytes()
    for name in ("route_any", "off_weight"):
        out[name] = getattr(derived, name)[c["route_table"], :, : c["cap"] + 1].tolist()
    if c["spread_by_task"] or c["spread_by_topic"]:
        out["rates"] = derived.flip_rate[c["rate_table"]].tobytes()
    out["favour"] = derived.favour[c["favour_table"], : c["cap"] + 1, : c["cap"]].tolist() if c["favour_table"] else None
    out["retire"] = derived.retire[c["retire_at"] : c["retire_at"] + n_max + 1].tobytes()
    return out


@pytest.mark.parametrize("path", [p.path for p in parameters()])
@pytest.mark.parametrize("base", [{}, {"channel.spread": 0.2}, {"world.router.mode": "top_hit"}, {"policy.rollback.on": True}])
def test_sharing_tables_changes_nothing(path: str, base: dict[str, object]) -> None:
    """Two cells derived together see what each sees alone, whichever parameter tells them apart."""
    if path not in OTHER:
        assert path == "policy.curator"
        return
    mapping = to_mapping(cell(rho_fp=0.1))
    for key, value in base.items():
        put(mapping, key, value)
    one = from_mapping(Cell, mapping)
    put(mapping, path, OTHER[path])
    two = from_mapping(Cell, mapping)
    together = tables.derive([one, two])
    for row, alone in enumerate((one, two)):
        assert seen(together, row) == seen(tables.derive([alone]), 0)
    inert = {"channel.unit": "channel.spread", "world.router.top_hit_recall": "world.router.mode"}
    moot = {"world.router.false_match": "world.router.mode", "policy.sampled_eval": "policy.rollback.on"}
    matters = one != two and (path not in inert or inert[path] in base) and moot.get(path) not in base
    assert (seen(together, 0) != seen(together, 1)) == matters


def put(mapping: dict[str, object], path: str, value: object) -> None:
    *groups, leaf = path.split(".")
    for group in groups:
        mapping = mapping[group]  # type: ignore[assignment]
    mapping[leaf] = value


def test_the_margin_of_a_rollback_is_exact() -> None:
    """0.29 * 100 is 28.999... in floats; a fall of 29 passes is not more than the margin, one of 30 is."""
    rolling = replace(cell().policy, rollback=Rollback(True, 0.29, 1))
    assert tables.derive([cell(replace(MAIN_71, n_eval=100), policy=rolling)]).cells["fall"].tolist() == [29]
