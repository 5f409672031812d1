"""What the float model draws: difficulties and effects, in floats or in the bins of MODEL.md, "Numbers", and error rates."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, expit, logit
from scipy.stats import beta, norm

from sim.model import Difficulty

EFFECT_BINS, DIFFICULTY_BINS, CLIP = 64, 256, 8


def draw_z(size: int, rng: np.random.Generator, bins: bool) -> np.ndarray:
    """Draw standard normal numbers."""
    return rng.choice(norm.ppf((np.arange(EFFECT_BINS) + 0.5) / EFFECT_BINS), size) if bins else rng.normal(size=size)


def draw_p0(difficulty: Difficulty, shape: tuple[int, int], rng: np.random.Generator, bins: bool) -> np.ndarray:
    """Draw no-skill logits: a task is drawn anew until its probes turn out as the subset wants them."""
    d = difficulty
    if bins:
        return rng.choice(difficulty_bins(d.a, d.b, d.probes, d.keep), size=shape)
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < math.prod(shape):
        p = rng.beta(d.a, d.b, size=2 * math.prod(shape))
        passes = rng.binomial(d.probes, p)
        keep = {"all": passes >= 0, "any_fail": passes < d.probes, "mixed": (passes > 0) & (passes < d.probes)}[d.keep]
        kept.append(p[keep])
    p = np.concatenate(kept)[: math.prod(shape)].reshape(shape)
    with np.errstate(divide="ignore"):
        return np.clip(logit(p), -CLIP, CLIP)


@cache
def difficulty_bins(a: float, b: float, m: int, keep: str) -> np.ndarray:
    """Return the mid-quantile logits of the conditioned Beta, its distribution function solved for each quantile."""
    all_pass = math.exp(betaln(a + m, b) - betaln(a, b)) if keep != "all" else 0.0  # E[p^m]
    all_fail = math.exp(betaln(a, b + m) - betaln(a, b)) if keep == "mixed" else 0.0

    def cdf(x: float) -> float:
        p = expit(x)
        kept = beta.cdf(p, a, b) - all_pass * beta.cdf(p, a + m, b) - all_fail * beta.cdf(p, a, b + m)
        return float(kept / (1 - all_pass - all_fail))

    def quantile(u: float) -> float:
        if cdf(-CLIP) >= u:
            return -CLIP
        return CLIP if cdf(CLIP) <= u else brentq(lambda x: cdf(x) - u, -CLIP, CLIP)

    return np.array([quantile((k + 0.5) / DIFFICULTY_BINS) for k in range(DIFFICULTY_BINS)])


def draw_rates(mean: float, spread: float, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Draw one error rate per unit: Beta with this mean and, over units, this intra-class correlation."""
    if spread == 0 or mean in (0, 1):
        return np.full(shape, mean)
    size = (1 - spread) / spread  # a + b: the correlation is 1 / (a + b + 1)
    return rng.beta(mean * size, (1 - mean) * size, size=shape)
