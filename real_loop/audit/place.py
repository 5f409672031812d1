"""Where a judge stands on the plane of judges, the verdict that follows, and what it would take to settle an open one.

The edges are those of :func:`sim.theory.region`: at rho_fp >= pi_tau the curator is blind, at rho_pf >= 1 - pi_tau indiscriminate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from real_loop.audit.rates import Interval, Rate, Rates, exact
from sim import theory
from sim.points import Point

GO: Final = "go"
NO_GO: Final = "no-go"
UNDETERMINED: Final = "undetermined"
BLIND: Final = "blind"
INDISCRIMINATE: Final = "indiscriminate"
CHANCE: Final = 0.8  # that so many more cases settle it
MOST: Final = 1_000_000  # more cases that are worth telling
INSIDE: Final = "inside"  # of an edge, as far as an interval says
PAST: Final = "past"
OPEN: Final = "open"


class Edge(NamedTuple):
    """One edge of the governable rectangle.

    Attributes
    ----------
    name
        What a judge past it is.
    at
        The rate from which it is.
    truth
        Of the cases that its rate is measured on.
    """

    name: str
    at: float
    truth: bool


def edges(tau: float) -> tuple[Edge, Edge]:
    """Return the edge for rho_fp and the one for rho_pf."""
    pi = float(theory.pi_tau(tau))
    return Edge(BLIND, pi, False), Edge(INDISCRIMINATE, 1.0 - pi, True)


@dataclass(frozen=True)
class Side:
    """What is known of one rate and its edge.

    Attributes
    ----------
    edge
        The edge.
    where
        INSIDE if the whole interval is short of the edge, PAST if it is wholly beyond, else OPEN.
    past
        Chance to be past the edge; None without cases.
    more
        How many more cases of its truth would settle it with chance CHANCE, were the rate the one seen; 0 if it is settled; None if the
        rate is too near the edge, or unknown.
    tasks
        In how many tasks, of the size there is; None where tasks were not given.
    least
        Without any case: how many at least could settle it, all of them judged rightly.
    """

    edge: Edge
    where: str
    past: float | None
    more: int | None
    tasks: int | None
    least: int | None


def side(rate: Rate, edge: Edge, confidence: float) -> Side:
    """Return what is known of a rate and its edge.

    The chance to be past the edge is that of the posterior under Jeffreys' prior, Beta(1/2, 1/2), its counts deflated to those of
    independent cases.
    """
    if rate.value is None:
        return Side(edge, OPEN, None, None, None, _least(edge.at, confidence))
    where = OPEN
    if rate.used.high < edge.at - theory.EDGE:
        where = INSIDE
    elif rate.used.low >= edge.at - theory.EDGE:
        where = PAST
    more = 0 if where != OPEN else needed(rate, edge.at, confidence)
    size = rate.n / rate.tasks
    tasks = None if more is None or size == 1.0 else math.ceil(more / size)
    return Side(edge, where, float(posterior(rate).sf(edge.at)), more, tasks, None)


def posterior(rate: Rate) -> Any:
    """Return the posterior of a rate under Jeffreys' prior, a frozen beta distribution of SciPy; the prior where nothing is known."""
    from scipy.stats import beta

    k = 0.0 if rate.value is None else rate.value * rate.n_effective
    return beta(k + 0.5, max(rate.n_effective - k, 0.0) + 0.5)


# ---------------------------------------------------------------- the verdict


def verdict(rates: Rates, tau: float, confidence: float) -> tuple[str, Side, Side]:
    """Return the verdict on a judge, and what is known of each rate.

    ``go`` if both intervals are short of their edges; ``no-go: blind``, ``no-go: indiscriminate``, ``no-go: blind and indiscriminate``
    if an interval is wholly past its edge; else ``undetermined``, as it is wherever a rate that decides has no cases. Of judges that are
    not governable at most (1 - confidence) / 2 are let go, whichever edge they are on, and likewise the other way round.
    """
    first, second = (side(rate, edge, confidence) for rate, edge in zip((rates.rho_fp, rates.rho_pf), edges(tau), strict=True))
    past = [one.edge.name for one in (first, second) if one.where == PAST]
    if past:
        return f"{NO_GO}: {' and '.join(past)}", first, second
    return (GO if first.where == second.where == INSIDE else UNDETERMINED), first, second


def status(verdicts: list[str]) -> int:
    """Return the exit status: 0 all go, 3 some no-go, else 4."""
    if any(one.startswith(NO_GO) for one in verdicts):
        return 3
    return 0 if all(one == GO for one in verdicts) else 4


# ---------------------------------------------------------------- what would settle it


def _least(edge: float, confidence: float) -> int:
    """Return the least number of cases without an error whose exact interval is short of an edge."""
    return math.floor(math.log((1.0 - confidence) / 2.0) / math.log1p(-edge)) + 1


def _blocks() -> Iterator[np.ndarray]:
    """Return the numbers from 1 to MOST, ever more at once."""
    last = 0
    while last < MOST:
        size = min(max(256, last // 2), MOST - last)
        yield np.arange(last + 1, last + size + 1)
        last += size


def needed(rate: Rate, edge: float, confidence: float) -> int | None:
    """Return the smallest number of more cases after which the interval excludes the edge with chance CHANCE.

    The exact interval of all cases together, those there are and those to come; errors among the latter are binomial at the rate seen.
    Where the interval in use is wider than the exact one, by clusters, weights or few tasks, all counts are those of as many independent
    cases as have an exact interval that reaches as far towards the edge, and what comes is scaled back.

    Returns
    -------
    int or None
        None if the rate seen is on the edge, or so near that MOST cases are not enough.
    """
    from scipy.stats import binom

    assert rate.value is not None, "without cases there is no rate to go by"
    value, tail, short = rate.value, (1.0 - confidence) / 2.0, rate.value < edge
    if abs(value - edge) < theory.EDGE:
        return None
    effective = _reaching(rate, short, confidence)
    scale, now = rate.n / effective, math.floor(effective + 1e-9)
    seen = value * now
    # No number can do it where even MOST would not by the normal approximation: saves the search.
    reach = (binom.ppf(0.999, MOST, edge) / MOST - edge) / 3.0
    if abs(value - edge) < reach:
        return None
    for more in _blocks():
        total = now + more
        if short:  # the upper end is below the edge where P(errors or fewer | edge) < tail
            chance = binom.cdf(np.floor(binom.ppf(tail, total, edge) - 1.0 - seen + 1e-9), more, value)
        else:
            chance = binom.sf(np.ceil(binom.isf(tail, total, edge) + 1.0 - seen - 1e-9) - 1.0, more, value)
        enough = np.flatnonzero(chance >= CHANCE)
        if len(enough):
            found = math.ceil(int(more[enough[0]]) * scale - 1e-9)
            return found if found <= MOST else None
    return None


def _reaching(rate: Rate, high: bool, confidence: float) -> float:
    """Return the number of cases whose exact interval reaches as far as the one in use, up (``high``) or down."""
    from scipy.optimize import brentq

    assert rate.value is not None
    value, end = rate.value, rate.used.high if high else rate.used.low

    def off(n: float) -> float:
        found: Interval = exact(value * n, n, confidence)
        return (found.high if high else found.low) - end

    if abs(off(rate.n)) < 1e-9:
        return float(rate.n)
    least = 1e-3
    return least if off(least) * off(rate.n) > 0 else float(brentq(off, least, rate.n))


# ---------------------------------------------------------------- the curator


class Fate(NamedTuple):
    """Chances of a skill of one true pass rate to be retired by the horizon: at the rates seen, and over the ends of their intervals."""

    true: float
    seen: float
    low: float
    high: float


def curator(rates: Rates, point: Point) -> dict[str, Any] | None:
    """Return what the curator would do with this judge, exactly: the fate of the useless skill and of the good one.

    Returns
    -------
    dict or None
        ``trials``, the horizon; ``bad`` and ``good``, a :class:`Fate` each. None where a rate is unknown, or the horizon too long to be
        worked out.
    """
    from sim.errors import InputError
    from sim.operating import operating

    a, b = rates.rho_fp, rates.rho_pf
    if a.value is None or b.value is None:
        return None
    at = [(a.value, b.value), *((x, y) for x in a.used for y in b.used)]
    seen = [float(theory.observed_rate(true, x, y)) for true in (point.bad, point.good) for x, y in at]
    try:
        chances = operating(np.clip(seen, 0.0, 1.0), point.tau, point.n_min, point.looks, point.cadence).retired_by[:, -1]
    except InputError:  # too many trials
        return None
    fates = [
        Fate(true, float(c[0]), float(c.min()), float(c.max()))
        for true, c in zip((point.bad, point.good), np.split(chances, 2), strict=True)
    ]
    return {"trials": point.horizon, "bad": fates[0], "good": fates[1]}
