"""The ruin problem behind "ever retired": how deep a random walk with an upward drift ever goes.

The walk goes up with each pass of a skill and down with each failure, so that retirement is ruin. It is looked at now and then, and
its lowest point has a distribution in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

MAX_POINTS: Final = 2**20  # of the Fourier transform


def ruin(rate: float, up: int, down: int, pmf: Sequence[float]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function of heights above 0: the chance that the walk is ever seen at 0 or below.

    Parameters
    ----------
    rate
        Chance of a step up.
    up, down
        Sizes of a step up and of a step down, whole numbers without a common factor.
    pmf
        Chances of 0, 1, 2, ... steps between two looks.

    Notes
    -----
    With P the transform E z^(-step) of the walk from look to look, the depth of its lowest point has the transform (Spitzer 1956;
    Feller II, ch. XII and XVIII)

        E z^depth = exp(-(L(z) - L(1))),  L the part of log(1 - P(z)) with positive powers of z.

    1 - P has a zero at 1 and one at Z > 1, the larger root of rate z^-up + (1 - rate) z^down = 1, which may be close by. They are divided
    out: the factor 1 - z/Z belongs to L as it is and makes the depth a geometric variable plus a short correction. The powers of what is
    left come from a Fourier transform over a circle between the two zeros.
    """
    from scipy.signal import lfilter

    if rate == 1.0:
        return lambda heights: np.zeros(len(heights))
    if rate * up <= (1.0 - rate) * down:
        return lambda heights: np.ones(len(heights))
    looks = np.array(pmf)
    looks[0] = 0.0  # a look at which nothing has happened is none
    looks /= looks.sum()
    steps = np.flatnonzero(looks)
    span = math.gcd(up + down, *steps.tolist())
    zero = span * _lundberg(rate, up, down)  # log Z, in units of the lattice that the walk at its looks lives on
    points = min(MAX_POINTS, 1 << max(12, (16 * (up + down) * math.ceil(looks @ np.arange(len(looks))) // span).bit_length()))
    while True:
        correction = _correction(rate, up, down, looks, span, zero, points)
        if abs(correction[points // 4 :].sum()) < 1e-12 or points >= MAX_POINTS:  # beyond a quarter only rounding errors are left
            break
        points *= 4
    shrink = math.exp(-zero)
    tail = np.append(np.cumsum(correction[::-1])[::-1], 0.0)  # P(correction >= x)
    geometric = lfilter([0.0, shrink], [1.0, -shrink], np.append(correction, 0.0))  # P(correction < x, sum >= x)
    chance = np.clip(tail + geometric, 0.0, 1.0)

    def chance_of_ruin(heights: np.ndarray) -> np.ndarray:
        x = np.maximum(-(-np.asarray(heights) // span), 1)
        inside = np.minimum(x, len(chance) - 1)
        return chance[inside] * np.exp(-zero * (x - inside))

    return chance_of_ruin


def _lundberg(rate: float, up: int, down: int) -> float:
    """Return log Z > 0 with rate Z^-up + (1 - rate) Z^down = 1."""
    from scipy.optimize import brentq

    def excess(log_z: float) -> float:
        return rate * math.expm1(-up * log_z) + (1.0 - rate) * math.expm1(down * log_z)

    # excess falls from 0 to its minimum, then rises through the root
    low = math.log(rate * up / ((1.0 - rate) * down)) / (up + down)
    high = 2.0 * low
    while excess(high) <= 0.0:
        high *= 2.0
    return float(brentq(excess, low, high, xtol=1e-16, rtol=1e-14))


def _correction(rate: float, up: int, down: int, looks: np.ndarray, span: int, zero: float, points: int) -> np.ndarray:
    """Return the signed weights on depths 0, 1, 2, ... that, added to the geometric variable, make the depth of the lowest point."""
    log_radius = zero / 2.0
    k = np.arange(points)
    angle = 2.0 * np.pi * (k + 0.5) / points  # never 0, where the factors that are divided out may vanish
    log_z = (log_radius + 1j * angle) / span
    trial = rate * np.exp(-up * log_z) + (1.0 - rate) * np.exp(down * log_z)
    many = len(looks) - 1
    seen = trial**many if looks[many] == 1.0 else np.polynomial.polynomial.polyval(trial, looks)
    z = np.exp(log_radius + 1j * angle)
    left = (1.0 - seen) / ((1.0 - 1.0 / z) * (1.0 - z * math.exp(-zero)))
    log_left = np.log(np.abs(left)) + 1j * np.unwrap(np.angle(left))
    powers = (np.fft.fft(log_left) * np.exp(-1j * np.pi * k / points)).real / points
    powers = np.where(k < points // 2, powers * np.exp(-log_radius * k), 0.0)
    powers[0] = 0.0
    return np.fft.ifft(np.exp(-(np.fft.fft(powers) - powers.sum()))).real
