"""The retirement rule as a sequential test: exact chances at finite evidence, by dynamic programming and a ruin problem.

A skill whose observed outcomes are independent and pass at rate r is looked at again and again; at a look with n >= n_min
trials it is retired if s <= pi_tau n, s being the passes. Nothing here is sampled. Chances for many rates come from a
single table of paths, because every path to n trials with s passes has the chance r^s (1 - r)^(n - s).

The rule is the product's own (:func:`sim.curators.ratchet.retire_table`), ties and decimals of tau included.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sim.cadence import EVERY_TRIAL, MAX_TRIALS, TINY, Cadence, FirstTest, binomial, every, poisson
from sim.curators.ratchet import retire_table
from sim.errors import InputError
from sim.ruin import ruin
from sim.theory import EDGE, pi_tau

__all__ = [
    "EVERY_TRIAL",
    "Cadence",
    "Needed",
    "Operating",
    "binomial",
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

MAX_RANDOM: Final = 1_000  # trials where their number is random: a table of trials by passes
FAINT: Final = 1e-200  # chances of paths below this are dropped before they reach the smallest floats, which do not shrink any more


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
    return _random_rounds(rate, tau, n_min, int(looks), cadence)


def _bases(rate: np.ndarray, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Return base rates, and which of them each rate belongs to: a path's chance is worked out there, and reweighted for the rate.

    A base is so near in logit that what is likely at the rate is not below exp(-100) there, far above FAINT.
    """
    from scipy.special import expit, logit

    apart = min(6.0, 2.0 * math.sqrt(800.0 / trials))
    with np.errstate(divide="ignore"):
        steps, group = np.unique(np.round(np.clip(logit(rate), -6, 6) / apart), return_inverse=True)
    return expit(steps * apart), group


def _reweighted(rate: np.ndarray, base: float, n: np.ndarray, s: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the chances at other rates of paths that have this chance at the base, shape (rates, paths)."""
    from scipy.special import xlog1py, xlogy

    r = rate[:, None]
    with np.errstate(divide="ignore"):
        log = np.log(weight) - s * math.log(base) - (n - s) * math.log1p(-base)
        return np.exp(log + xlogy(s, r) + xlog1py(n - s, -r))


def first_passage(rate: ArrayLike, n: ArrayLike, low: ArrayLike, high: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return when a count of passes first leaves the open interval (low, high), looked at after n[0] < n[1] < ... trials.

    Parameters
    ----------
    rate
        Shape (rates,).
    n
        Trials at each look, shape (looks,).
    low, high
        The count has left if it is at most ``low`` or at least ``high``; shape (looks,). No upper end by default.

    Returns
    -------
    left
        P(left at this look for the first time), shape (rates, looks).
    stayed
        P(still inside after the last look), shape (rates,).
    """
    rate, n, low = np.atleast_1d(np.asarray(rate, np.float64)), np.asarray(n), np.asarray(low)
    high = n + 1 if high is None else np.asarray(high)
    bases, group = _bases(rate, int(n[-1]))
    inside, first = np.ones((len(bases), 1)), 0  # chances of first, first + 1, ... passes, at each base
    gone: list[tuple[np.ndarray, np.ndarray]] = []  # passes and chances of those that leave, look by look
    for trial in range(1, int(n[-1]) + 1):
        step = np.zeros((len(bases), inside.shape[1] + 1))
        step[:, :-1] = (1.0 - bases)[:, None] * inside
        step[:, 1:] += bases[:, None] * inside
        inside = step
        if trial % 32 == 0:
            inside[inside < FAINT] = 0.0
        if trial != n[len(gone)]:
            continue
        s = first + np.arange(inside.shape[1])
        out = (s <= low[len(gone)]) | (s >= high[len(gone)])
        gone.append((s[out], inside[:, out]))
        kept = np.flatnonzero(~out)
        first, inside = (int(s[kept[0]]), inside[:, kept[0] : kept[-1] + 1]) if len(kept) else (first, inside[:, :0])
    look = np.repeat(np.arange(len(n)), [len(s) for s, _ in gone])
    s_out, chances = np.concatenate([s for s, _ in gone]), np.concatenate([c for _, c in gone], axis=1)
    left, stayed = np.zeros((len(rate), len(n))), np.zeros(len(rate))
    for i, base in enumerate(bases):
        mine = np.flatnonzero(group == i)
        for j, row in zip(mine, _reweighted(rate[mine], base, n[look], s_out, chances[i]), strict=True):
            left[j] = np.bincount(look, row, len(n))
        stayed[mine] = _reweighted(rate[mine], base, n[-1], first + np.arange(inside.shape[1]), inside[i]).sum(axis=1)
    return left, stayed


def _random_rounds(rate: np.ndarray, tau: float, n_min: int, looks: int, cadence: Cadence) -> Operating:
    """The operating characteristic where the number of trials between looks is random: the state is (trials, passes)."""
    pmf = np.array(cadence.pmf)
    sums = np.ones(1)  # of the number of trials by a look, if nothing were retired
    for _ in range(looks):
        sums = np.convolve(sums, pmf)
        sums = sums[: int(np.flatnonzero(sums > TINY)[-1]) + 1]
    n_max = len(sums) - 1
    low = most_passes(tau, n_min, n_max)
    retired, kept, at_trials = np.zeros((len(rate), looks)), np.zeros(len(rate)), np.zeros((len(rate), n_max + 1))
    trials, passes = np.indices((n_max + 1, n_max + 1), dtype=np.int32)
    bases, groups = _bases(rate, n_max)
    for i_base, base in enumerate(bases):
        group = np.flatnonzero(groups == i_base)
        alive, first, end = np.zeros((n_max + 1, n_max + 1)), 0, 1  # [trials, passes]; only trials first .. end - 1 have a chance
        alive[0, 0] = 1.0
        for look in range(looks):
            end = min(end + len(pmf) - 1, n_max + 1)
            here = (slice(first, end), slice(0, end))
            step = alive[here]
            after = pmf[0] * step
            for chance in pmf[1:]:
                moved = np.zeros_like(step)
                moved[1:] = (1.0 - base) * step[:-1]
                moved[1:, 1:] += base * step[:-1, :-1]
                step = moved
                after += chance * step
            n, s = trials[here], passes[here]
            out = (s <= low[n]) & (after > 0)
            if out.any():
                chances = _reweighted(rate[group], base, n[out], s[out], after[out])
                retired[group, look] = chances.sum(axis=1)
                for i, row in zip(group, chances, strict=True):
                    at_trials[i] += np.bincount(n[out], row, n_max + 1)
                after[out] = 0.0
            after[after < FAINT] = 0.0
            alive[here] = after
            likely = first + np.flatnonzero(after.sum(axis=1) > TINY)
            alive[first : likely[0] if len(likely) else end] = 0.0
            if not len(likely):
                break
            first, end = int(likely[0]), int(likely[-1]) + 1
            alive[end:] = 0.0
        there = alive > 0
        kept[group] = _reweighted(rate[group], base, trials[there], passes[there], alive[there]).sum(axis=1)
    return Operating(rate, np.arange(1, looks + 1), retired, np.arange(n_max + 1), at_trials, kept)


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
        if abs(near) == 1:  # one of the steps would be 0
            near = near * Fraction(near.denominator * 5000 - 1, near.denominator * 5000)
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
        s = np.arange(low + 1, n + 1)
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
    return np.asarray(sum(c * binom.cdf(low[n], n, rate) for n, c in zip(trials, chance, strict=True)))


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
        A value is out of bounds, or no n_min does it (the line says why).
    """
    from scipy.stats import binom

    rates = _checked([good, bad], tau, 1, cadence)
    for what, value in (("alpha", alpha), ("beta", beta)):
        if not 0.0 < value < 1.0:
            raise InputError(what, value, "a probability above 0 and below 1")
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
        raise InputError("good and bad", got, f"rates that {MAX_TRIALS} trials can tell apart so well")
    return found


def _first_fit(
    lost: np.ndarray, kept: np.ndarray, alpha: float, beta: float, cadence: Cadence, ever: Callable[[int], float] | None = None
) -> Needed | None:
    """Return the first n_min that meets both chances.

    ``lost`` and ``kept`` are what they are for skills first tested after 0, 1, 2, ... trials; with ``ever``, ``lost`` counts the first
    test only and ``ever`` all of them.
    """
    tests = FirstTest(cadence, len(lost) - 1)
    for n_min in range(1, len(lost)):
        n, chance = tests.of(n_min)
        if n[-1] >= len(lost):
            break
        wrongly, bad = float(chance @ lost[n]), float(chance @ kept[n])
        if wrongly <= alpha and bad <= beta:
            if ever is not None:
                wrongly = float(sum(c * ever(int(k)) for k, c in zip(n, chance, strict=True)))
            if wrongly <= alpha:
                return Needed(n_min, wrongly, bad)
    return None


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
