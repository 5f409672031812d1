"""Cases about everything at once: the kernel against an independent model in floats, on every variable of 20 random worlds."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from sim.model import Effect
from tests.verification.compare import Means, compare, kernel_means, model_means
from tests.verification.finding import Finding, joined, of_counts, series
from tests.verification.kernel import HOPELESS, NEAR_HALF, NEVER, NO_HOPE, ONE_SKILL, POLICY, Change, Played, cell, with_synth
from tests.verification.worlds import random_cells

BY_SIGN = ("harmful_final", "wrongly_retired")  # go by the sign of an effect, which 64 bins do not cut where a normal distribution does


@functools.cache
def _model(bins: bool, runs: int) -> list[Means]:
    return model_means(random_cells(), runs, bins=bins)


def _found(bins: bool, model_runs: int, kernel_runs: int, change: Change | None) -> Finding:
    found = []
    for c in compare(kernel_means(random_cells(), kernel_runs, change=change), _model(bins, model_runs)):
        if not bins and c.variable in BY_SIGN:
            continue
        ratio = c.kernel / c.model if c.model else float(c.kernel == 0)
        found.append(series("series by round" if "[" in c.variable else "whole runs", c.world, 1.0, ratio, c.p))
    return joined(found, "world", "kernel / float model")


def float_model(change: Change | None = None) -> Finding:
    """Every variable and series of 20 random worlds against the float model with the bins of MODEL.md."""
    return _found(True, 20_000, 100_000, change)


def float_model_without_bins(change: Change | None = None) -> Finding:
    """The same with effects and difficulties drawn from their continuous distributions; without what goes by an effect's sign."""
    return _found(False, 4_000, 50_000, change)


def spurious_skills(change: Change | None = None) -> Finding:
    """Skills written from phantom failures only are spurious with chance phantom_cost: counted by the sign of their effect."""
    runs, found = 20_000, []
    costs = np.array([0.0, 0.1, 0.44, 0.9, 1.0])
    always = replace(NO_HOPE, a=1000.0, b=0.001)
    for difficulty, p0, rho_pf in ((NO_HOPE, HOPELESS, 0.0), (NEAR_HALF, 0.5, 1 / 3), (always, 1 - HOPELESS, 0.5)):
        effect = Effect(3.0, 0.0, -3.0, 0.0, 0.0)
        world = replace(ONE_SKILL, n_train=12, difficulty=difficulty, effect=effect, router=replace(ONE_SKILL.router, recall=0.0))
        policy = replace(POLICY, rounds=2, window=1, n_min=NEVER)
        played = Played([cell(with_synth(world, phantom_cost=float(cost)), 0.0, rho_pf, policy) for cost in costs], runs, change)
        fails = 1 - p0 + p0 * rho_pf
        expected = (1 - (1 - fails) ** 12) * costs * p0 * rho_pf / fails
        count = played.total("harmful_final")
        found.append(
            series(f"{p0 * rho_pf / fails:.2g} of failures are phantoms", costs, expected, count / runs, of_counts(count, runs, expected))
        )
    return joined(found, "phantom_cost", "P(spurious)")
