"""The retirement rule as a sequential test: exact chances at finite evidence, by dynamic programming and a ruin problem.

A skill whose observed outcomes are independent and pass at rate r is looked at again and again; at a look with n >= n_min
trials it is retired if s <= pi_tau n, s being the passes. Nothing here is sampled. Chances for many rates come from a
single table of paths, because every path to n trials with s passes has the chance r^s (1 - r)^(n - s).

The rule is the product's own (:func:`sim.curators.ratchet.retire_table`), ties and decimals of tau included.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sim.cadence import EVERY_TRIAL, MAX_TRIALS, Cadence, FirstTest, binomial, every, poisson
from sim.curators.ratchet import retire_table
from sim.errors import InputError
from sim.paths import first_passage, random_looks
from sim.ruin import ruin
from sim.theory import EDGE, corrected_tau, observed_rate, pi_tau

__all__ = [
    "EVERY_TRIAL",
    "Cadence",
    "Corrected",
    "Needed",
    "Operating",
    "TooMuchEvidenceError",
    "binomial",
    "corrected",
    "ever_retired",
    "every",
    "first_passage",
    "first_test",
    "library_retires",
    "most_passes",
    "operating",
    "poisson",
    "radius_broken",
    "smallest_n_min",
]

LEAST_CHANCE: Final = 1e-9  # that can be asked for: "ever" is right to about this much
MAX_RANDOM: Final = 1_000  # trials where their number is random: a table of trials by passes


# ---------------------------------------------------------------- a finite number of looks


class Operating(NamedTuple):
    """Exact chances of retirement over a finite number of looks.

    Attributes
    ----------
    rate
        Observed pass rates, shape (rates,).
    look
        Trials at each look if their number is fixed, else the number of the look, from 1; shape (looks,).
    retired
        P(retired at this look), shape (rates, looks).
    trials
        Numbers of trials, shape (numbers,).
    at_trials
        P(retired with this many trials), shape (rates, numbers).
    kept
        P(still on the shelf after the last look), shape (rates,).
    """

    rate: np.ndarray
    look: np.ndarray
    retired: np.ndarray
    trials: np.ndarray
    at_trials: np.ndarray
    kept: np.ndarray

    @property
    def retired_by(self) -> np.ndarray:
        """P(retired at this look or before), shape (rates, looks)."""
        return np.minimum(np.cumsum(self.retired, axis=1), 1.0)

    @property
    def mean_trials(self) -> np.ndarray:
        """Mean trials of a skill when retired, given that it is by the last look; nan where it never is. Shape (rates,)."""
        total = self.at_trials.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, self.at_trials @ self.trials / total, np.nan)


def _checked(rate: ArrayLike, tau: float, n_min: int, cadence: Cadence) -> np.ndarray:
    try:
        rate = np.atleast_1d(np.asarray(rate, np.float64))
    except (TypeError, ValueError):
        raise InputError("rate", repr(rate), "a number or a list of numbers") from None
    if not isinstance(cadence, Cadence):
        raise InputError("cadence", repr(cadence), "a Cadence: every(10), poisson(3.5) or binomial(60, 0.1)")
    if rate.ndim > 1:
        raise InputError("rate", f"shape {rate.shape}", "a number or a list of numbers")
    if not ((rate >= 0) & (rate <= 1)).all():
        raise InputError("rate", rate[~((rate >= 0) & (rate <= 1))][0], "a probability from 0 to 1")
    if isinstance(n_min, bool) or not isinstance(n_min, int | np.integer) or n_min < 1:
        raise InputError("n_min", repr(n_min), "a whole number of at least 1")
    pi_tau(tau)
    return rate


def most_passes(tau: float, n_min: int, n_max: int) -> np.ndarray:
    """Return the most passes at which the rule retires, for n = 0 .. n_max trials; -1 where it cannot. Shape (n_max + 1,)."""
    n = np.arange(n_max + 1)
    net = retire_table(tau, n_min, n_max).astype(np.int64)
    return np.where(n < n_min, -1, (n + net) // 2)


def operating(rate: ArrayLike, tau: float, n_min: int, looks: int, cadence: Cadence = EVERY_TRIAL) -> Operating:
    """Return the exact operating characteristic of the rule over a number of looks.

    Parameters
    ----------
    rate
        Observed pass rates, a number or shape (rates,).
    tau, n_min
        Of the rule. tau is read as the decimal it is written as.
    looks
        How often the rule looks: with a look after every trial, the number of trials.
    cadence
        When it looks (:func:`every`, :func:`poisson`, :func:`binomial`).

    Raises
    ------
    InputError
        A value is out of bounds, or the looks reach beyond MAX_TRIALS trials.
    """
    rate = _checked(rate, tau, n_min, cadence)
    if isinstance(looks, bool) or not isinstance(looks, int | np.integer) or looks < 1:
        raise InputError("looks", repr(looks), "a whole number of at least 1")
    last = looks * (cadence.fixed or cadence.mean)
    most = MAX_TRIALS if cadence.fixed else MAX_RANDOM
    if last > most or looks > MAX_TRIALS:
        why = "" if cadence.fixed else " where their number is random"
        raise InputError("looks", f"{looks}, {last:.0f} trials", f"at most {most} trials{why}")
    if cadence.fixed:
        n = cadence.fixed * np.arange(1, looks + 1)
        low = most_passes(tau, n_min, int(n[-1]))[n]
        retired, kept = first_passage(rate, n, low)
        return Operating(rate, n, retired, n, retired, kept)
    bound = functools.partial(most_passes, tau, n_min)
    retired, at_trials, kept = random_looks(rate, np.array(cadence.pmf), int(looks), bound)
    return Operating(rate, np.arange(1, looks + 1), retired, np.arange(at_trials.shape[1]), at_trials, kept)


# ---------------------------------------------------------------- any number of looks: the ruin problem


def ever_retired(rate: ArrayLike, tau: float, n_min: int, cadence: Cadence = EVERY_TRIAL) -> np.ndarray:
    """Return the chance that a skill is ever retired if it stays for good, shape (rates,).

    1 for rates at or below pi_tau. Above, it is the chance of failing the first test, or of a later ruin (:mod:`sim.ruin`). Right to
    1e-9 for a tau of two decimals and 1e-5 for three. Where tau is no fraction of denominator up to 5000, the lattice of the walk
    is that of a fraction close by, its drift kept, and the chance is right to 2e-3. Parameters as in :func:`operating`.

    Raises
    ------
    InputError
        A value is out of bounds.
    """
    rate = _checked(rate, tau, n_min, cadence)
    trials, chance = _within_reach(n_min, cadence)
    out = np.ones(len(rate))
    for i in np.flatnonzero(rate > pi_tau(tau) + EDGE):
        later = _Later(float(rate[i]), tau, cadence)
        out[i] = sum(c * later.retired(int(n)) for n, c in zip(trials, chance, strict=True))
    return np.minimum(out, 1.0)


class _Later:
    """The chance that a skill of one rate is ever retired, by the trials of its first test."""

    def __init__(self, rate: float, tau: float, cadence: Cadence) -> None:
        self.rate, self.tau, self.cadence, self.exact = rate, tau, cadence, Fraction(str(tau))
        self.known: dict[int, float] = {}
        wide = math.sqrt(max(1.0, cadence.mean))  # of a look, in trials: what the Fourier transform of the ruin problem has to resolve
        exact = self.exact.denominator <= max(100, 5000 / wide)
        near = self.exact if exact else self.exact.limit_denominator(max(100, int(1000 / wide)))
        if not exact and 1 - abs(self.exact) < 10 * abs(self.exact - near) + Fraction(1, 2000):
            raise InputError("tau", tau, "a margin not so close to 1 or -1, for the chance of ever being retired")
        up, down = near.denominator + near.numerator, near.denominator - near.numerator
        shared = math.gcd(up, down)
        self.up, self.down, self.off = up // shared, down // shared, float(self.exact - near) / 2

    @functools.cached_property
    def ruin(self) -> Callable[[np.ndarray], np.ndarray]:
        return ruin(min(self.rate + self.off, 1.0), self.up, self.down, self.cadence.pmf)

    def retired(self, n: int) -> float:
        """Return the chance for a first test after n trials."""
        if n not in self.known:
            self.known[n] = self._retired(n)
        return self.known[n]

    def _retired(self, n: int) -> float:
        from scipy.stats import binom

        low = int(most_passes(self.tau, 1, n)[-1])
        reach = 9.0 * math.sqrt(n * self.rate * (1.0 - self.rate)) + 40.0  # passes beyond have no chance to speak of
        s = np.arange(max(low + 1, math.floor(n * self.rate - reach)), min(n, math.ceil(n * self.rate + reach)) + 1)
        # The margin in whole units of the lattice: 2 v s - (v - u) n over 2 v, with tau = u / v, and 2 v / (up + down) units a pass.
        u, v = self.exact.numerator, self.exact.denominator
        height = -(-(2 * v * s.astype(object) - (v - u) * n) * (self.up + self.down) // (2 * v))
        return float(binom.cdf(low, n, self.rate) + binom.pmf(s, n, self.rate) @ self.ruin(height.astype(np.int64)))


def first_test(rate: ArrayLike, tau: float, n_min: int, cadence: Cadence = EVERY_TRIAL) -> np.ndarray:
    """Return the chance that a skill is retired at its first test, shape (rates,). Parameters as in :func:`operating`.

    Raises
    ------
    InputError
        A value is out of bounds.
    """
    from scipy.stats import binom

    rate = _checked(rate, tau, n_min, cadence)
    trials, chance = _within_reach(n_min, cadence)
    low = most_passes(tau, n_min, int(trials[-1]))
    return np.minimum(sum(c * binom.cdf(low[n], n, rate) for n, c in zip(trials, chance, strict=True)), 1.0)


def _within_reach(n_min: int, cadence: Cadence) -> tuple[np.ndarray, np.ndarray]:
    if n_min > MAX_TRIALS:
        raise InputError("n_min", n_min, f"at most {MAX_TRIALS} trials at the first test")
    return FirstTest(cadence, n_min).of(n_min)


# ---------------------------------------------------------------- a library of one skill


def library_retires(rate: ArrayLike, bare: ArrayLike, tau: float, n_min: int, rounds: int, cadence: Cadence, tasks: int) -> np.ndarray:
    """Return the chance that a library which holds one skill at a time has retired one by its last round, shape (rates,).

    This is what a simulated world of one topic and a cap of 1 does (``sim/conf/world/one_skill.yaml``): its first skill is written after
    the first round with an observed failure, but not in the last, and is looked at in every round that follows.

    Parameters
    ----------
    rate, bare
        Observed pass rates with the skill, and without; numbers or shape (rates,).
    tau, n_min, rounds
        Of the policy.
    cadence
        Trials of the skill in a round.
    tasks
        Train tasks in a round.

    Raises
    ------
    InputError
        A value is out of bounds.
    """
    if rounds < 2:
        return np.zeros(np.atleast_1d(rate).shape)
    by_look = operating(rate, tau, n_min, rounds - 1, cadence).retired_by
    quiet = np.broadcast_to(np.asarray(bare, np.float64), by_look.shape[:1])[:, None] ** tasks  # no failure seen in a round
    waited = np.arange(rounds - 1)
    return (quiet**waited * (1.0 - quiet) * by_look[:, ::-1]).sum(axis=1)


# ---------------------------------------------------------------- radii, exactly


def radius_broken(rate: float, n: ArrayLike, radius: ArrayLike) -> float:
    """Return the chance that the mean of outcomes is ever off by more than its radius, looked at after n[0] < n[1] < ... trials.

    Parameters
    ----------
    rate
        Observed pass rate.
    n, radius
        Trials at each look, and the radius then on the pass-rate scale; shape (looks,), or one radius for all.

    Raises
    ------
    InputError
        A value or a shape is not as said.
    """
    n, radius = np.asarray(n), np.asarray(radius, np.float64)
    if np.ndim(rate) or not 0.0 <= rate <= 1.0:
        raise InputError("rate", rate, "one probability from 0 to 1")
    if n.ndim != 1 or not len(n) or n[0] < 1 or (np.diff(n) < 1).any() or n[-1] > MAX_TRIALS:
        raise InputError("n", f"shape {n.shape}", f"whole numbers of trials, ascending, from 1 to {MAX_TRIALS}")
    if radius.shape not in ((), n.shape):
        raise InputError("radius", f"shape {radius.shape}", f"one number, or one for each of {len(n)} looks")
    low = np.ceil(n * (rate - radius) - 1e-9).astype(np.int64) - 1
    high = np.floor(n * (rate + radius) + 1e-9).astype(np.int64) + 1
    left, _ = first_passage([rate], n, low, high)
    return float(left.sum())


# ---------------------------------------------------------------- the other way round: what does it take?


class TooMuchEvidenceError(InputError):
    """No n_min up to MAX_TRIALS tells two skills apart so surely."""


class Needed(NamedTuple):
    """The evidence that a wanted test takes, and what it then does.

    Attributes
    ----------
    n_min
        Trials before a skill can be retired.
    wrongly_retired
        P(the good skill is retired).
    kept
        P(the bad skill is kept).
    """

    n_min: int
    wrongly_retired: float
    kept: float


def smallest_n_min(
    good: float, bad: float, tau: float, alpha: float, beta: float, *, within: int | None = None, cadence: Cadence = EVERY_TRIAL
) -> Needed:
    """Return the smallest n_min that loses a good skill with chance at most alpha and keeps a bad one with chance at most beta.

    Parameters
    ----------
    good, bad
        Observed pass rates of the two skills, bad <= pi_tau < good.
    tau
        Of the rule.
    alpha, beta
        Chances that are allowed.
    within
        Trials of a skill's life. By default the good skill may live for ever, and the bad one has to go at its first test.
    cadence
        When the rule looks; a fixed number of trials apart if ``within`` is given.

    Raises
    ------
    InputError
        A value is out of bounds, or no n_min does it (the line says why); :class:`TooMuchEvidenceError` if more than MAX_TRIALS would.
    """
    from scipy.stats import binom

    rates = _checked([good, bad], tau, 1, cadence)
    for what, value in (("alpha", alpha), ("beta", beta)):
        if not LEAST_CHANCE <= value < 1.0:
            raise InputError(what, value, f"a probability from {LEAST_CHANCE:g} on and below 1")
    threshold = float(pi_tau(tau))
    if not bad <= threshold < good:
        raise InputError("good and bad", f"observed pass rates {good:g} and {bad:g}", f"bad <= pi_tau = {threshold:g} < good", "change tau")
    if within is not None:
        if not cadence.fixed:
            raise InputError("cadence", cadence.name, "a fixed number of trials between looks, with within=")
        if isinstance(within, bool) or not isinstance(within, int | np.integer) or not cadence.fixed <= within <= MAX_TRIALS:
            raise InputError("within", repr(within), f"a whole number of trials from {cadence.fixed} to {MAX_TRIALS}")
        tested = _lives(rates, tau, int(within), cadence.fixed)
        found = _first_fit(tested[0], 1.0 - tested[1], alpha, beta, cadence)
        if found is None:
            raise InputError("within", f"{within} trials", "more", f"no n_min keeps both chances below alpha={alpha:g} and beta={beta:g}")
        return found
    n = np.arange(MAX_TRIALS + 1)
    low = most_passes(tau, 1, MAX_TRIALS)
    lost, kept = np.asarray(binom.cdf(low, n, good)), np.asarray(binom.sf(low, n, bad))
    found = _first_fit(lost, kept, alpha, beta, cadence, _Later(good, tau, cadence).retired)
    if found is None:
        got = f"observed pass rates {good:g} and {bad:g} around pi_tau = {threshold:g}"
        raise TooMuchEvidenceError("good and bad", got, f"rates that {MAX_TRIALS} trials can tell apart so well")
    return found


def _first_fit(
    lost: np.ndarray, kept: np.ndarray, alpha: float, beta: float, cadence: Cadence, ever: Callable[[int], float] | None = None
) -> Needed | None:
    """Return the first n_min that meets both chances.

    ``lost`` and ``kept`` are what they are for skills first tested after 0, 1, 2, ... trials; with ``ever``, ``lost`` counts the first
    test only and ``ever`` all of them.
    """
    tests = FirstTest(cadence, len(lost) - 1)
    wrongly, bad = tests.mean(lost), tests.mean(kept)
    fits = 1 + np.flatnonzero((wrongly[1:] <= alpha) & (bad[1:] <= beta))

    def chance(n_min: int) -> float:
        if ever is None:
            return float(wrongly[n_min])
        n, weight = tests.of(int(n_min))
        return float(sum(w * ever(int(k)) for k, w in zip(n, weight, strict=True)))

    # With a larger n_min the rule looks at a part of the same looks, so "ever" never grows: the first that fits is found by doubling, then
    # halving.
    first, reach = 0, 1
    if ever is not None:
        while reach < len(fits) and chance(fits[reach - 1]) > alpha:
            reach *= 2
        first = bisect.bisect_left(fits, True, reach // 2, min(reach, len(fits)), key=lambda n_min: chance(n_min) <= alpha)
    return Needed(int(fits[first]), chance(int(fits[first])), float(bad[fits[first]])) if first < len(fits) else None


def _lives(rates: np.ndarray, tau: float, within: int, every: int) -> np.ndarray:
    """Return P(retired by trial ``within``) for skills first tested after n trials, by backward induction; shape (rates, within + 1)."""
    from scipy.stats import binom

    low = most_passes(tau, 1, within)
    out = np.zeros((len(rates), within + 1))
    chance = np.zeros((len(rates), within + 1))  # of being retired from here on, by passes so far
    for n in range(within, 0, -1):
        if n % every == 0:
            chance[:, : low[n] + 1] = 1.0
            out[:, n] = [binom.pmf(np.arange(n + 1), n, r) @ c[: n + 1] for r, c in zip(rates, chance, strict=True)]
        chance = rates[:, None] * chance[:, 1:] + (1.0 - rates[:, None]) * chance[:, :-1]
    return out


class Corrected(NamedTuple):
    """The margin that restores a wanted test under a judge, and what it costs.

    Attributes
    ----------
    tau
        Of the corrected rule: its threshold is rho_fp + kappa pi_tau.
    needed
        The evidence it takes; None if more than MAX_TRIALS trials.
    needed_clean
        The evidence that the wanted test takes under a perfect judge; None likewise.
    """

    tau: float
    needed: Needed | None
    needed_clean: Needed | None


def corrected(
    good: float, bad: float, tau: float, rho_fp: float, rho_pf: float, alpha: float, beta: float, *, cadence: Cadence = EVERY_TRIAL
) -> Corrected:
    """Return the rule that tells two skills apart under a judge as tau does under a perfect one, and its price in trials.

    Parameters
    ----------
    good, bad
        *True* pass rates of the two skills, bad <= pi_tau < good.
    tau
        Margin wanted under a perfect judge.
    rho_fp, rho_pf
        Of the judge.
    alpha, beta, cadence
        As in :func:`smallest_n_min`.

    Raises
    ------
    InputError
        kappa is 0 or below, or a value is out of bounds.
    """
    after = float(corrected_tau(tau, rho_fp, rho_pf))
    seen = [float(observed_rate(p, rho_fp, rho_pf)) for p in (good, bad)]
    found: list[Needed | None] = []
    for rates, margin in ((seen, after), ([good, bad], tau)):
        try:
            found.append(smallest_n_min(rates[0], rates[1], margin, alpha, beta, cadence=cadence))
        except TooMuchEvidenceError:
            found.append(None)
    return Corrected(after, found[0], found[1])
