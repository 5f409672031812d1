"""Closed forms: what a judge's errors do to the retirement test, and the floors that the papers derive from it.

``python -m sim.theory`` prints them for a point (:mod:`sim.page`); exact chances at finite evidence are in
:mod:`sim.operating`. BC is "The Blind Curator" (arXiv 2607.07436), RT is "Ratchet: How Reliable Must an LLM Judge Be to
Retire a Skill?". All functions take numbers or arrays that broadcast, and return their common shape.

Two scales are in use, and mixing them up costs a factor of two. The *pass-rate* scale is that of p, pi_tau and evals; the
*chat* scale, of chat = 2 p - 1, is that of tau. Functions that return a radius or a floor take the scale by name.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from sim.errors import InputError

SCALES: Final = ("pass_rate", "chat")
EDGE: Final = 1e-12  # rates this close to an edge count as on it: decimals such as 0.15 are not exact in binary


def _all(what: str, values: ArrayLike, fits: Any, expected: str) -> None:
    """Raise InputError naming the first value that does not fit."""
    values, fits = np.broadcast_arrays(np.asarray(values), fits)
    if not fits.all():
        raise InputError(what, values[~fits][0], expected)


def _floats(what: str, values: ArrayLike) -> np.ndarray:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(what, repr(values), "a number or an array of numbers") from None


def _probability(what: str, values: ArrayLike) -> np.ndarray:
    values = _floats(what, values)
    _all(what, values, (values >= 0) & (values <= 1), "a probability from 0 to 1")
    return values


def _tau(tau: ArrayLike) -> np.ndarray:
    tau = _floats("tau", tau)
    _all("tau", tau, (tau > -1) & (tau < 1), "a number above -1 and below 1")
    return tau


def _delta(delta: ArrayLike) -> np.ndarray:
    delta = _floats("delta", delta)
    _all("delta", delta, (delta >= 1e-100) & (delta < 1), "a probability from 1e-100 on and below 1")
    return delta


def _trials(what: str, n: ArrayLike) -> np.ndarray:
    n = _floats(what, n)
    _all(what, n, (n >= 1) & np.isfinite(n), "at least 1")
    return n


def _scaled(scale: str, values: np.ndarray, factor: float = 2.0, shift: float = 0.0) -> Any:
    """Return a value of the pass-rate scale on the named scale."""
    if scale not in SCALES:
        raise InputError("scale", repr(scale), " or ".join(SCALES))
    return (values if scale == "pass_rate" else factor * values + shift)[()]


# ---------------------------------------------------------------- the channel


def kappa(rho_fp: ArrayLike, rho_pf: ArrayLike) -> Any:
    """Return what the channel leaves of a difference between pass rates: 1 - rho_fp - rho_pf (BC App. C.1, RT eq. 5).

    At 0 passes and failures look alike; below 0 they have changed places.

    Raises
    ------
    InputError
        A rate is no probability.
    """
    return (1.0 - _probability("rho_fp", rho_fp) - _probability("rho_pf", rho_pf))[()]


def _positive_kappa(rho_fp: ArrayLike, rho_pf: ArrayLike) -> np.ndarray:
    """Return kappa where it is above 0; elsewhere nothing can be read back from what is observed."""
    k = np.asarray(kappa(rho_fp, rho_pf))
    _all("kappa = 1 - rho_fp - rho_pf", np.round(k, 12), k > EDGE, "above 0: rho_fp + rho_pf below 1")
    return k


def observed_rate(p: ArrayLike, rho_fp: ArrayLike, rho_pf: ArrayLike) -> Any:
    """Return the observed pass rate of a true pass rate p: kappa p + rho_fp (BC App. C.1, RT eq. 6).

    Raises
    ------
    InputError
        A rate is no probability.
    """
    return kappa(rho_fp, rho_pf) * _probability("p", p) + np.asarray(rho_fp, np.float64)


def true_rate(observed: ArrayLike, rho_fp: ArrayLike, rho_pf: ArrayLike) -> Any:
    """Return the true pass rate behind an observed one, the inversion of RT eq. 6: (observed - rho_fp) / kappa.

    Outside [0, 1] where no true rate gives what is observed.

    Raises
    ------
    InputError
        kappa is 0 or below.
    """
    return (_floats("observed", observed) - _floats("rho_fp", rho_fp)) / _positive_kappa(rho_fp, rho_pf)


# ---------------------------------------------------------------- the retirement test


def pi_tau(tau: ArrayLike) -> Any:
    """Return the observed pass rate at and below which a skill is retired: (1 - tau) / 2 (BC App. C.1, RT section 4.1).

    Raises
    ------
    InputError
        tau is not above -1 and below 1.
    """
    return (1.0 - _tau(tau))[()] / 2.0


def p_star(tau: ArrayLike, rho_fp: ArrayLike, rho_pf: ArrayLike) -> Any:
    """Return the true pass rate at and below which a skill is retired, given unlimited evidence (RT section 4.1).

    (pi_tau - rho_fp) / kappa. Below 0 nothing is retired, above 1 everything. On the very edge, 0 or 1, the last test of a skill that is
    just there is a coin that falls in the end, if it lives long enough.

    Raises
    ------
    InputError
        kappa is 0 or below: a threshold on true rates does not exist.
    """
    return true_rate(pi_tau(tau), rho_fp, rho_pf)


def region(tau: ArrayLike, rho_fp: ArrayLike, rho_pf: ArrayLike) -> Any:
    """Return where a judge stands, given unlimited evidence: the name of the edge of the rectangle that fails.

    Each edge is about one rate alone (RT section 4.1), so every judge has a region, whatever its kappa.

    Returns
    -------
    str or numpy.ndarray
        ``governable``: rho_fp < pi_tau and rho_pf < 1 - pi_tau. ``blind``: rho_fp >= pi_tau, past the edge no skill is retired.
        ``indiscriminate``: rho_pf >= 1 - pi_tau, every skill is. ``inverted``: both edges fail, so kappa <= 0; below 0 skills that
        always pass are retired and those that never pass are kept. The papers leave this corner out.

    Raises
    ------
    InputError
        A value is out of bounds.
    """
    pi = pi_tau(tau)
    blind = _probability("rho_fp", rho_fp) >= pi - EDGE
    indiscriminate = _probability("rho_pf", rho_pf) >= 1.0 - pi - EDGE
    names = np.array([["governable", "indiscriminate"], ["blind", "inverted"]])
    found = names[blind.astype(int), indiscriminate.astype(int)]
    return str(found) if np.ndim(found) == 0 else found


def tau_eff(tau: ArrayLike, rho: ArrayLike) -> Any:
    """Return the margin that symmetric noise turns tau into, chat scale: tau / (1 - 2 rho) (BC App. C.1, RT section 4.1).

    At 1 or above it no skill is retired.

    Raises
    ------
    InputError
        rho is 1/2 or more.
    """
    return _tau(tau)[()] / _positive_kappa(rho, rho)


def evidence_inflation(rho_fp: ArrayLike, rho_pf: ArrayLike) -> Any:
    """Return by which factor more trials are needed to tell two true pass rates apart: kappa^-2.

    For symmetric noise the (1 - 2 rho)^-2 of BC App. C.1 and RT section 4.1. It leaves out the variance of an observed outcome,
    which changes by a factor of its own; :func:`sim.operating.smallest_n_min` gives the exact price.

    Raises
    ------
    InputError
        kappa is 0 or below: no number of trials is enough.
    """
    return (_positive_kappa(rho_fp, rho_pf) ** -2.0)[()]


def corrected_tau(tau: ArrayLike, rho_fp: ArrayLike, rho_pf: ArrayLike) -> Any:
    """Return the margin under which a corrupted judge retires the skills that tau retires under a perfect one.

    The threshold pi' = rho_fp + kappa pi_tau is where pi_tau lands in the channel, and tau' = 1 - 2 pi'. So a fixed threshold
    is what the cliff is about, not the judge: for every kappa > 0 some tau recovers the test. RT's introduction says that no
    correction available inside the rule does; it is true of tau held fixed. The price is evidence (:func:`evidence_inflation`), and
    the error of the rates that were put in. Rounded to 12 decimals, since the rule reads tau as a decimal.

    Raises
    ------
    InputError
        kappa is 0 or below.
    """
    _positive_kappa(rho_fp, rho_pf)
    return np.clip(np.round(1.0 - 2.0 * observed_rate(pi_tau(tau), rho_fp, rho_pf), 12), -1.0 + 1e-12, 1.0 - 1e-12)


# ---------------------------------------------------------------- radii


def hoeffding_radius(n: ArrayLike, delta: ArrayLike, *, scale: str) -> Any:
    """Return the radius that a mean of n trials keeps with probability at least 1 - delta, both sides.

    On the chat scale sqrt(2 ln(2/delta) / n), half of it on the pass-rate scale (Hoeffding 1963; RT App. F). RT's 0.39 for
    n_min = 100 and delta = 1e-3 is on the chat scale; its 0.44 for n_min = 20 is on the pass-rate scale: on the chat scale, that of
    the contribution "+0.44" it is compared with, it is 0.87.

    Which looks it is good for depends on what n is. With n = n_min, a constant, it holds **at all looks from n_min on at
    once**, at no cost: exp(lambda (mean_n - p)) is a submartingale backwards in n, so Doob's inequality bounds its largest value
    over n >= n_min by its expectation at n_min, the quantity that Hoeffding bounds. That is the reading of RT eq. 4. With n the
    trials so far, a radius that shrinks, it holds at one look chosen beforehand; over ever more looks it is broken surely
    (law of the iterated logarithm). For a radius that shrinks and holds at all looks see :func:`uniform_radius`.

    Both need trials that are independent draws at one rate.

    Raises
    ------
    InputError
        n is below 1, delta is not in (0, 1), or the scale is unknown.
    """
    return _scaled(scale, np.sqrt(np.log(2.0 / _delta(delta)) / (2.0 * _trials("n", n))))


def uniform_radius(n: ArrayLike, n_min: ArrayLike, delta: ArrayLike, *, scale: str) -> Any:
    """Return a radius that shrinks with the trials and holds at all of them at once with probability at least 1 - delta.

    Robbins' normal mixture (1970; Howard, Ramdas, McAuliffe and Sekhon 2021, "Time-uniform, nonparametric, nonasymptotic
    confidence sequences", section 3.2). With S the sum of n centred outcomes and V = n/4, exp(lambda S - lambda^2 V / 2) is a
    supermartingale for every lambda (an outcome in [0, 1] is 1/2-sub-Gaussian). Mixed over lambda ~ Normal(0, 1/r) it is
    sqrt(r / (V + r)) exp(S^2 / (2 (V + r))), which by Ville's inequality reaches 1/delta with probability at most delta. So
    |S| / n < sqrt((V + r) ln((V + r) / (r delta^2))) / n for all n at once. r is chosen to make it smallest at n_min, where it
    is 8 % wider than Hoeffding's for delta = 0.001 and 12 % for 0.05, whatever n_min.

    Raises
    ------
    InputError
        n or n_min is below 1, delta is not in (0, 1), or the scale is unknown.
    """
    from scipy.special import lambertw

    delta = _delta(delta)
    v = _trials("n", n) / 4.0
    r = _trials("n_min", n_min) / 4.0 / (-lambertw(-(delta**2) / math.e, -1).real - 1.0)
    return _scaled(scale, np.sqrt((v + r) * np.log((v + r) / (r * delta**2))) / (4.0 * v))


# ---------------------------------------------------------------- floors


def survivor_rate(tau: ArrayLike, radius: ArrayLike, rho_fp: ArrayLike, rho_pf: ArrayLike) -> Any:
    """Return the least true pass rate of a tested skill that survives, if its observed rate is within a radius of its mean.

    (pi_tau - radius - rho_fp) / kappa, at least 0 (proofs of BC Prop. 1' and RT Prop. 2); above 1 no tested skill survives.
    ``radius`` is on the pass-rate scale.

    It says nothing of skills with fewer than n_min trials, which the rule cannot retire. Where only bounds of the rates are known,
    put in the bound of rho_fp and **rho_pf = 0**: a larger rho_pf raises the rate of survivors. (RT App. F puts in the
    lower bound of kappa and calls it weaker; dividing by less makes the right-hand side larger. Where tau/2 + eps + rho_fp >= 0 its
    eq. 7 holds all the same, because its residual term is far too large.)

    Raises
    ------
    InputError
        kappa is 0 or below.
    """
    return np.maximum(true_rate(pi_tau(tau) - np.asarray(radius, np.float64), rho_fp, rho_pf), 0.0)


def _charge(skills: ArrayLike, delta: ArrayLike) -> Any:
    skills = _floats("cap", skills)
    _all("cap", skills, skills >= 1, "at least 1")
    return skills * _delta(delta)


def floor_clean(p0: ArrayLike, tau: ArrayLike, n_min: ArrayLike, cap: ArrayLike, delta: ArrayLike, *, scale: str) -> Any:
    """Return the floor that RT eq. 4 promises the eval under a perfect judge; below 0 (pass rate) it promises nothing.

    E[p0] - (tau + eps) / 2 - cap delta on the pass-rate scale, with eps the Hoeffding radius of n_min trials on the chat scale:
    E[p0] - 0.295 at RT's defaults.

    What it takes to hold (THEORY.md, "The papers' floors"): tasks with p0 <= 1/2 where a skill is routed, since chat compares a
    pass rate with 1/2 and not with p0; skills on the shelf that have their n_min trials; and ``cap`` replaced by the number of skills
    that were ever tested, since those on the shelf were selected by the very test.

    Parameters
    ----------
    p0
        Mean pass rate without skills.
    tau, n_min, cap
        Of the policy.
    delta
        Chance that one skill's mean is off by more than the radius.
    scale
        ``pass_rate`` or ``chat``.

    Raises
    ------
    InputError
        A value is out of bounds.
    """
    radius = hoeffding_radius(n_min, delta, scale="chat")
    floor = _probability("p0", p0) - (_tau(tau) + radius) / 2.0 - _charge(cap, delta)
    return _scaled(scale, np.asarray(floor), 2.0, -1.0)


def floor_printed(
    p0: ArrayLike, tau: ArrayLike, n_min: ArrayLike, cap: ArrayLike, delta: ArrayLike, rho_fp: ArrayLike, rho_pf: ArrayLike, *, scale: str
) -> Any:
    """Return the floor under a channel as RT eq. 7 and BC Prop. 1' print it.

    E[p0] - (tau/2 + eps + rho_fp) / kappa - (1 - kappa) / 2 - cap delta, eps on the pass-rate scale. Parameters as in
    :func:`floor_clean`. :func:`floor_channel` is the tight one.

    Raises
    ------
    InputError
        kappa is 0 or below, or a value is out of bounds.
    """
    k = _positive_kappa(rho_fp, rho_pf)
    radius = hoeffding_radius(n_min, delta, scale="pass_rate")
    fall = (_tau(tau) / 2.0 + radius + np.asarray(rho_fp, np.float64)) / k + (1.0 - k) / 2.0
    return _scaled(scale, np.asarray(_probability("p0", p0) - fall - _charge(cap, delta)), 2.0, -1.0)


def floor_channel(
    p0: ArrayLike, tau: ArrayLike, n_min: ArrayLike, cap: ArrayLike, delta: ArrayLike, rho_fp: ArrayLike, rho_pf: ArrayLike, *, scale: str
) -> Any:
    """Return the floor under a channel that the inversion gives, tighter than the printed one.

    A tested survivor passes at least at p_low = (pi_tau - eps - rho_fp) / kappa (:func:`survivor_rate`). Against tasks with
    p0 = 1/2, as the papers compare, it falls by at most

        1/2 - p_low = (tau/2 + eps + rho_fp) / kappa - (1 - kappa) / (2 kappa),

    since pi_tau = 1/2 - tau/2. So collecting the constant *gives back* (1 - kappa) / (2 kappa), where eq. 7 charges another
    (1 - kappa) / 2: printed, the floor is lower by (1 - kappa^2) / (2 kappa) where 0 <= p_low <= 1/2. At kappa = 1 both are eq. 4.
    p_low cannot be below 0, so the fall is at most 1/2; nor is a fall below 0 a promise to rise (eq. 4 and eq. 7 read so for
    tau < 0 and much evidence), since tasks without a skill do not. Parameters as in :func:`floor_clean`.

    Holds where routed tasks have p0 <= 1/2 on average, and otherwise under the conditions of :func:`floor_clean`.
    :func:`floor_tasks` does without p0 = 1/2.

    Raises
    ------
    InputError
        kappa is 0 or below, or a value is out of bounds.
    """
    low = survivor_rate(tau, hoeffding_radius(n_min, delta, scale="pass_rate"), rho_fp, rho_pf)
    return _scaled(scale, np.asarray(_probability("p0", p0) - np.maximum(0.5 - low, 0.0) - _charge(cap, delta)), 2.0, -1.0)


def floor_tasks(
    p0: ArrayLike, tau: ArrayLike, n_min: ArrayLike, cap: ArrayLike, delta: ArrayLike, rho_fp: ArrayLike, rho_pf: ArrayLike, *, scale: str
) -> Any:
    """Return a floor for tasks of any difficulty: the mean over tasks of min(p0, p_low), less cap delta.

    A task without a skill passes at p0; those with a tested survivor pass on average at p_low or more (:func:`survivor_rate`),
    and the worst router sends it just the tasks with p0 > p_low. As all floors it takes the tasks that a skill gets in the eval to be like
    those of its trials.

    Parameters
    ----------
    p0
        Pass rates without skills, one per task along the last axis.
    tau, n_min, cap, delta, rho_fp, rho_pf, scale
        As in :func:`floor_channel`; they broadcast over the other axes.

    Raises
    ------
    InputError
        kappa is 0 or below, or a value is out of bounds.
    """
    low = np.asarray(survivor_rate(tau, hoeffding_radius(n_min, delta, scale="pass_rate"), rho_fp, rho_pf))
    kept = np.minimum(np.atleast_1d(_probability("p0", p0)), low[..., None]).mean(axis=-1)
    return _scaled(scale, np.asarray(kept - _charge(cap, delta)), 2.0, -1.0)


def floor_mean(
    p0: ArrayLike, tau: ArrayLike, n_min: ArrayLike, cap: ArrayLike, delta: ArrayLike, rho_fp: ArrayLike, rho_pf: ArrayLike, *, scale: str
) -> Any:
    """Return the floor for tasks of which only the mean pass rate is known: p0 min(p_low, 1), less cap delta.

    The mean of min(p, p_low) over tasks (:func:`floor_tasks`) is least, at a given mean p0, where every task passes always or never.
    Parameters as in :func:`floor_channel`.

    Raises
    ------
    InputError
        kappa is 0 or below, or a value is out of bounds.
    """
    low = survivor_rate(tau, hoeffding_radius(n_min, delta, scale="pass_rate"), rho_fp, rho_pf)
    return _scaled(scale, np.asarray(_probability("p0", p0) * np.minimum(low, 1.0) - _charge(cap, delta)), 2.0, -1.0)


if __name__ == "__main__":
    import sys

    from sim.page import main

    sys.exit(main(sys.argv[1:]))
