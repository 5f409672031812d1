"""Cases about one skill at a time: the retirement rule in the kernel against the exact operating curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from sim import theory
from sim.operating import Cadence, binomial, every, library_retires, operating, radius_broken
from sim.tables import difficulty_bins
from tests.verification.finding import Finding, joined, of_counts, of_means, series
from tests.verification.kernel import HOPELESS, NEAR_HALF, ONE_SKILL, Change, Played, cell, with_synth

RUNS = 20_000
RETIRED = "P(retired by the end)"


def operating_curves(change: Change | None = None) -> Finding:
    """P(retired by the end) of a skill that never passes, or always, for each error rate, tau, n_min and number of trials per round."""
    rates = np.linspace(0.0, 1.0, 21)
    found = []
    for tau, n_min, tasks, rounds in ((0.1, 24, 1, 60), (0.1, 12, 6, 9), (0.1, 48, 24, 6), (-0.3, 24, 6, 12), (0.5, 24, 8, 12)):
        for good in (False, True):
            world = replace(ONE_SKILL, n_train=tasks, effect=replace(ONE_SKILL.effect, mean=20.0 if good else -20.0))
            passes = float(expit(-8.0 + world.effect.mean))
            policy = replace(cell(world).policy, tau=tau, n_min=n_min, rounds=rounds)
            cells = [cell(world, 0.0 if good else q, q if good else 0.0, policy) for q in rates]
            played = Played(cells, RUNS, change)
            rho_fp, rho_pf = (0.0 * rates, rates) if good else (rates, 0.0 * rates)
            rate, bare = (theory.observed_rate(p, rho_fp, rho_pf) for p in (passes, HOPELESS))
            predicted = library_retires(rate, bare, tau, n_min, rounds, every(tasks), tasks)
            count = RUNS - played.histogram[:, 0]
            name = f"{'always' if good else 'never'} passes, tau {tau:g}, n_min {n_min}, {tasks} a round"
            found.append(series(name, rates, predicted, count / RUNS, of_counts(count, RUNS, predicted)))
    return joined(found, "rho_fp of skills that never pass, rho_pf of skills that always do", RETIRED)


def random_rounds(change: Change | None = None) -> Finding:
    """The same where a skill sees a random number of tasks in a round: recall below 1."""
    rates = np.linspace(0.0, 1.0, 21)
    found = []
    for recall, tasks, n_min in ((0.3, 20, 24), (0.7, 10, 48), (0.05, 60, 12)):
        world = replace(ONE_SKILL, n_train=tasks, router=replace(ONE_SKILL.router, recall=recall))
        policy = replace(cell(world).policy, n_min=n_min, rounds=10)
        played = Played([cell(world, q, 0.0, policy) for q in rates], RUNS, change)
        bare = theory.observed_rate(HOPELESS, rates, 0.0)
        predicted = library_retires(rates, bare, 0.1, n_min, 10, binomial(tasks, recall), tasks)
        count = RUNS - played.histogram[:, 0]
        name = f"recall {recall:g}, {tasks} tasks, n_min {n_min}"
        found.append(series(name, rates, predicted, count / RUNS, of_counts(count, RUNS, predicted)))
    return joined(found, "rho_fp", RETIRED)


def renewal(change: Change | None = None) -> Finding:
    """Skills retired, and their trials, where each is followed by another at once: the renewal equation."""
    rates = np.linspace(0.0, 0.7, 15)
    retired, trials = [], []
    for n_min, tasks, rounds in ((12, 6, 24), (24, 24, 12)):
        world = replace(ONE_SKILL, n_train=tasks)
        policy = replace(cell(world).policy, n_min=n_min, rounds=rounds)
        played = Played([cell(world, q, 0.0, policy) for q in rates], RUNS, change)
        means = _renewed(rates, n_min, tasks, rounds, every(tasks))
        for name, predicted, found in (("retired", means[0], retired), ("retire_trials", means[1], trials)):
            mean, se = played.mean(name)
            unit = 1.0 if name == "retired" else 1.0 / n_min
            label = "skills retired" if name == "retired" else "their trials, in n_min"
            p = of_means(mean, se, predicted, rare=1.0 / unit / RUNS)
            found.append(series(f"{label}, n_min {n_min}, {tasks} a round", rates, predicted * unit, mean * unit, p))
    return joined(retired + trials, "rho_fp", "per run")


def _renewed(rate: np.ndarray, n_min: int, tasks: int, rounds: int, cadence: Cadence) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected number of skills retired and their expected trials, shapes (rates,)."""
    at = operating(rate, 0.1, n_min, rounds - 1, cadence)
    many, trials = np.zeros((rounds, len(rate))), np.zeros((rounds, len(rate)))  # by looks that are left
    for looks in range(1, rounds):
        for j in range(looks):
            many[looks] += at.retired[:, j] * (1 + many[looks - 1 - j])
            trials[looks] += at.retired[:, j] * (at.look[j] + trials[looks - 1 - j])
    quiet = theory.observed_rate(HOPELESS, rate, 0.0) ** tasks
    waits = [quiet**d * (1 - quiet) for d in range(rounds - 1)]
    return tuple(sum(w * part[rounds - 1 - d] for d, w in enumerate(waits)) for part in (many, trials))  # type: ignore[return-value]


def floors(change: Change | None = None) -> Finding:
    """The tight floor under a channel, where its assumptions hold: p0 = 1/2, every skill tested. One-sided: the eval may be above.

    In the last round nothing is written, and with n_train >= n_min every skill on the shelf has had its test. Charged are all skills
    that were tested, one per round, not just the one on the shelf.
    """
    delta, tasks, rounds = 0.02, 120, 6
    found = []
    for mean, sd in ((-20.0, 0.0), (-1.0, 0.0), (-0.5, 1.0), (0.0, 2.0), (1.0, 0.5)):
        effect = replace(ONE_SKILL.effect, mean=mean, sd=sd)
        world = replace(with_synth(ONE_SKILL, min_cluster=1), n_train=tasks, n_eval=20, difficulty=NEAR_HALF, effect=effect)
        policy = replace(cell(world).policy, n_min=100, cap=1, rounds=rounds, window=1)
        judges = [(q, f) for q in (0.0, 0.1, 0.2, 0.3, 0.4) for f in (0.0, 0.1, 0.3)]
        played = Played([cell(world, q, f, policy) for q, f in judges], RUNS // 4, change)
        eval_, se = (part / 2**20 for part in played.mean("tail_eval"))
        rho_fp, rho_pf = np.array(judges).T
        p0 = float(difficulty_bins(NEAR_HALF).mean())
        floor = theory.floor_channel(p0, 0.1, 100, rounds - 1, delta, rho_fp, rho_pf, scale="pass_rate")
        p = norm.cdf((eval_ - floor) / np.maximum(se, 1e-6))
        found.append(series(f"effect {mean:g} +- {sd:g}", np.arange(len(judges)), floor, eval_, p))
    return joined(found, "judge", "eval of the last round, and floor")


def radii(change: Change | None = None) -> Finding:
    """How often a mean leaves its radius over many looks, simulated, against the exact chance; and the two that hold stay below delta."""
    rng, runs, delta = np.random.default_rng(8), 20_000, 0.05
    n_min, last = 24, 1000
    n = np.arange(n_min, last + 1)
    ways = {
        "Hoeffding at n_min, constant": np.broadcast_to(theory.hoeffding_radius(n_min, delta, scale="pass_rate"), n.shape),
        "Hoeffding, shrinking with the trials": theory.hoeffding_radius(n, delta, scale="pass_rate"),
        "mixture, shrinking with the trials": theory.uniform_radius(n, n_min, delta, scale="pass_rate"),
    }
    rates = np.array([0.1, 0.3, 0.5, 0.8])
    counts = {name: np.zeros(len(rates), int) for name in ways}
    for i, rate in enumerate(rates):
        for _ in range(10):
            passes = np.cumsum(rng.random((runs // 10, last)) < rate, axis=1, dtype=np.int32)[:, n_min - 1 :]
            for name, radius in ways.items():
                out = np.abs(passes - n * rate) > n * radius + 1e-9
                counts[name][i] += out.any(axis=1).sum()
    found = []
    for name, radius in ways.items():
        exact = np.array([radius_broken(float(rate), n, radius) for rate in rates])
        holds = (exact <= delta) | (name == "Hoeffding, shrinking with the trials")
        p = np.where(holds, of_counts(counts[name], runs, exact), 0.0)
        found.append(series(name, rates, exact, counts[name] / runs, p))
    return joined(found, "observed pass rate", f"P(ever broken), delta = {delta:g}")
