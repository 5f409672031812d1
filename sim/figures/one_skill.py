"""What is known exactly of a library that holds one skill at a time, as in world/one_skill; whether a result is of one.

Nothing here draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from sim.cadence import every
from sim.figures.axes import FP, PF, TAU, axes, each, is_just, linked, numeric, parameter, sets, setting
from sim.figures.axes import split as fix
from sim.operating import library_retires
from sim.theory import observed_rate

if TYPE_CHECKING:
    import xarray

N_MIN: Final = "policy.n_min"
EFFECT: Final = "world.effect.mean"
BETA: Final = ("world.difficulty.a", "world.difficulty.b")
SURE: Final = 1e-12  # chances this close to 0 or 1 are no test of a simulation that agrees
_HOLDS_ONE: Final = {
    "world.topics": 1,
    "world.difficulty.probes": 0,
    "world.effect.sd": 0,
    "world.router.recall": 1,
    "world.router.false_match": 0,
    "world.router.mode": "adjudicate",
    "world.synth.min_cluster": 1,
    "world.synth.memory": 1,
    "world.synth.cover_guard": 1,
    "world.synth.phantom_cost": 0,
    "policy.curator": "ratchet",
    "policy.rollback.on": False,
    "channel.spread": 0,
}


# ---------------------------------------------------------------- which results fit


def holds_one(data: xarray.Dataset) -> bool:
    """Whether all libraries of a result hold one skill at a time, each like any other, and send it every task."""
    return all(parameter(data, path) == value for path, value in _HOLDS_ONE.items()) and (parameter(data, "world.synth.per_round") or 0) > 0


def useless(data: xarray.Dataset) -> bool:
    """Whether in addition neither tasks nor skills ever pass, and the result has an axis of rho_fp: its chances are known."""
    a, b = (parameter(data, path) for path in BETA)
    effect = parameter(data, EFFECT)
    if not (a and b and effect is not None and holds_one(data) and setting(data, FP)):
        return False
    # Pass rates of tasks are clipped to logit 8, so that a skill with this effect passes less than once in 10^5 trials.
    return bool(a / (a + b) < 1e-4 and effect <= -20)


def lines_axis(data: xarray.Dataset) -> str | None:
    """Return the axis whose values are drawn as lines: one that sets n_min, or else the shortest but rho_fp."""
    left = [d for d in axes(data) if d != setting(data, FP)]
    return min(left, key=lambda d: (N_MIN not in sets(data, d), data.sizes[d]), default=None)


def split(data: xarray.Dataset) -> dict[str, xarray.Dataset]:
    """Fix all axes but rho_fp and that of the lines."""
    return fix(data, [d for d in (setting(data, FP), lines_axis(data)) if d])


def same_times(data: xarray.Dataset) -> bool:
    """Whether the skills of every file's lines are looked at after the same multiples of n_min trials."""
    for part in split(data).values():
        axis = lines_axis(part)
        found = {Library.read(line).times for line in each(part, axis, data["runs"].size)}
        if len(found) != 1 or not found.pop():
            return False
    return True


def guarantee_axes(data: xarray.Dataset) -> tuple[str, str] | None:
    """Return the axes of the effect of skills and of tasks' mean pass rate, for a result to compare with RT eq. 4; else None.

    The judge is perfect, and a skill has its n_min trials after one round.
    """
    x = setting(data, EFFECT)
    y = next((d for d in numeric(data) if _is_mean(data, d)), None)
    if x is None or y is None or not holds_one(data) or parameter(data, FP) != 0 or parameter(data, PF) != 0:
        return None
    for part in fix(data, [x, y]).values():
        n_train, n_min, tau, cap = (parameter(part, path) for path in ("world.n_train", N_MIN, TAU, "policy.cap"))
        if None in (n_train, n_min, tau, cap) or n_train < n_min:
            return None
    return x, y


def _is_mean(data: xarray.Dataset, axis: str) -> bool:
    """Whether an axis sets a and b of the Beta distribution, and is its mean."""
    paths, table = sets(data, axis), linked(data, axis)
    if set(paths) != set(BETA) or not table or is_just(data, axis, *BETA):
        return False
    a, b = (paths.index(path) for path in BETA)
    return all(abs(row[a] / (row[a] + row[b]) - float(value)) < 1e-9 for value, row in table.items())


# ---------------------------------------------------------------- what is known


@dataclass(frozen=True)
class Library:
    """The parameters that decide when a useless skill is retired.

    Parameters
    ----------
    tau, n_min, rounds
        Of the policy.
    n_train
        Tasks, all of which the skill gets, in a round.
    rho_pf
        Of the channel.
    bare
        True pass rate of tasks without a skill: not quite 0.
    """

    tau: float
    n_min: int
    rounds: int
    n_train: int
    rho_pf: float
    bare: float = 0.0

    @classmethod
    def read(cls, part: xarray.Dataset) -> Library:
        """Return the library of a part that has an axis of rho_fp at most."""
        tau, n_min, rounds, n_train, rho_pf = (parameter(part, p) for p in (TAU, N_MIN, "policy.rounds", "world.n_train", PF))
        bare = float(part["floor_eval"].mean()) if "floor_eval" in part else 0.0
        return cls(float(tau), int(n_min), int(rounds), int(n_train), float(rho_pf), bare)

    @property
    def times(self) -> tuple[Fraction, ...]:
        """The looks at which it can be retired, in units of n_min trials, if it was written in the first round."""
        looks = (Fraction(k * self.n_train, self.n_min) for k in range(1, self.rounds))
        return tuple(time for time in looks if time >= 1)

    def retires(self, rho_fp: np.ndarray) -> np.ndarray:
        """Return the exact chance that a skill has been retired by the last round, shape (rates,)."""
        bare = observed_rate(self.bare, rho_fp, self.rho_pf)
        return library_retires(rho_fp, bare, self.tau, self.n_min, self.rounds, every(self.n_train), self.n_train)


def retired_runs(part: xarray.Dataset) -> np.ndarray:
    """Return in how many runs a skill was retired, shape (rates,)."""
    return np.round(part["runs"].values - part["retired_histogram"].isel(retired_count=0).values)


def scores(count: np.ndarray, runs: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Return how far counts are from what their exact chance lets expect, in standard errors, shape (rates,).

    The normal score of the two-sided binomial tail: the difference over its standard error where counts are large, and right also
    where they are not. nan where the chance is 0 or 1 and the count agrees.
    """
    from scipy.stats import binom, norm

    chance = np.clip(chance, 0.0, 1.0)
    below, above = binom.cdf(count, runs, chance), binom.sf(count - 1, runs, chance)
    score = np.where(below < above, -1.0, 1.0) * norm.isf(np.minimum(np.minimum(below, above), 0.5))
    agrees = ((chance < SURE) & (count == 0)) | ((chance > 1 - SURE) & (count == runs))
    return np.where(agrees, np.nan, score)


def largest(points: int, false_alarm: float) -> float:
    """Return the score that none of so many points passes, but for a chance of at most ``false_alarm`` (Bonferroni)."""
    from scipy.stats import norm

    return float(norm.isf(false_alarm / 2 / max(points, 1)))


def limit(z: np.ndarray, times: tuple[Fraction, ...]) -> np.ndarray:
    """Return P(retired) in the limit of large n_min, at observed rates pi_tau + z sqrt(pi_tau (1 - pi_tau) / n_min); shape (z,).

    The net outcome becomes Brownian motion of drift z, and it is retired if it is at 0 or below when looked at. Its density among
    the survivors is carried from look to look at drift 0; Girsanov's factor exp(z x - z^2 t / 2) turns it into that at drift z.
    """
    t = np.array([float(time) for time in times])
    reach = 12.0 * np.sqrt(t[-1])
    nodes, weights = np.polynomial.legendre.leggauss(400)
    x, w = reach * (nodes + 1) / 2, reach * weights / 2
    density = np.exp(-(x**2) / (2 * t[0])) / np.sqrt(2 * np.pi * t[0])
    for step in np.diff(t):
        move = np.exp(-((x[:, None] - x) ** 2) / (2 * step)) / np.sqrt(2 * np.pi * step)
        density = move @ (w * density)
    return np.asarray(1.0 - np.exp(np.outer(z, x) - (z**2 * t[-1] / 2)[:, None]) @ (w * density))
