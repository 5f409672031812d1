"""What to change so that a judge can curate, and what it costs: tau, n_min, a threshold on its score, votes, a second judge.

Each cure is priced by what it takes to lose the good skill with a chance of at most alpha, ever, and to keep the bad one past its first
test with at most beta (:func:`sim.operating.smallest_n_min`): trials of a skill times calls of judges per trial. Rates are taken as they
were measured; what the ends of their intervals would do is said beside. Margins are in hundredths, as an operator writes them: that moves
a threshold by at most a quarter of a percent of observed passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from real_loop.audit.curve import Chosen, cadence_of
from real_loop.audit.ensemble import RULES, Union, Vote
from real_loop.audit.rates import Interval
from real_loop.audit.scores import Scores, shown
from sim import theory
from sim.errors import InputError
from sim.theory import EDGE, kappa, observed_rate, pi_tau, region

if TYPE_CHECKING:
    from sim.operating import Needed
    from sim.points import Point


HUNDREDTH: Final = 100
_NAMES: Final = {
    "n_min": "this judge as it is",
    "tau": "the corrected tau",
    "rectangle": "the nearest tau whose rectangle holds the judge",
    "threshold": "a threshold on the score",
    "vote": "a vote",
    "union": "two judges together",
}
Pair = tuple[float, float]


@dataclass(frozen=True)
class Cure:
    """One change, and what the curator is like after it.

    Attributes
    ----------
    kind
        "n_min" (this judge at this tau), "tau" (the corrected one), "rectangle" (the nearest tau whose rectangle surely holds the judge),
        "threshold", "vote" or "union".
    helps
        Whether it does what is asked, and no other cure is as good (see :func:`_beaten`).
    sentence
        What to do, or why it does not help.
    rho_fp, rho_pf, intervals
        Effective rates and their intervals.
    kappa, region
        At these rates; region at ``tau``.
    sure
        Whether both intervals are wholly inside the rectangle of ``tau``.
    tau
        The margin to use.
    n_min
        The smallest that does what is asked at the rates measured; None where none up to 10,000 does.
    n_min_sure
        The same at the worst ends of both intervals together; None where none does.
    calls
        Of judges, per trial.
    cost
        n_min times calls; None likewise.
    lost, kept
        Chances at n_min: the good skill is ever lost; the bad one passes its first test.
    lost_worst, kept_worst
        The same with n_min as it is, were the rates at the worst ends of their intervals for each.
    n_min_clean
        What a perfect judge takes at the tau that is wanted; None where none does.
    tau_low, tau_high
        Of a corrected tau: what it would be at the ends of the intervals.
    """

    kind: str
    helps: bool
    sentence: str
    rho_fp: float
    rho_pf: float
    intervals: tuple[Interval, Interval]
    kappa: float
    region: str
    sure: bool
    tau: float
    n_min: int | None
    n_min_sure: int | None
    calls: float
    cost: float | None
    lost: float | None
    kept: float | None
    lost_worst: float | None
    kept_worst: float | None
    n_min_clean: int | None
    tau_low: float | None = None
    tau_high: float | None = None

    @property
    def label(self) -> str:
        """What to do, in short."""
        return self.sentence.split(": rho_fp ")[0].split(" (")[0]


class _Judge(NamedTuple):
    """Rates to be priced."""

    rates: Pair
    intervals: tuple[Interval, Interval]
    calls: float = 1.0


def _seen(p: float, rates: Pair) -> float:
    return min(max(float(observed_rate(p, *rates)), 0.0), 1.0)


def _needed(good: float, bad: float, tau: float, point: Point) -> Needed | None:
    """Return the evidence it takes to tell two observed rates apart; None where none does."""
    from sim.operating import smallest_n_min

    try:
        return smallest_n_min(good, bad, tau, point.alpha, point.beta, cadence=cadence_of(point))
    except InputError:
        return None


def _wanted(point: Point) -> float:
    return point.tau if point.wanted is None else point.wanted


def corrected(wanted: float, rates: Pair) -> float | None:
    """Return the corrected tau (:func:`sim.theory.corrected_tau`) in hundredths, -0.99 to 0.99; None where kappa is 0 or below."""
    if kappa(*rates) <= EDGE:
        return None
    return min(max(round(float(theory.corrected_tau(wanted, *rates)) * HUNDREDTH) / HUNDREDTH, -0.99), 0.99)


def nearest_tau(tau: float, rho_fp: float, rho_pf: float) -> float | None:
    """Return the tau nearest to this one whose rectangle holds these rates, in hundredths where the rectangle has room for that.

    Inside means rho_fp < (1 - tau) / 2 and rho_pf < (1 + tau) / 2, so 2 rho_pf - 1 < tau < 1 - 2 rho_fp. None where rho_fp + rho_pf >= 1.
    """
    low, high = 2.0 * rho_pf - 1.0, 1.0 - 2.0 * rho_fp
    if low >= high - 4 * EDGE:
        return None
    if low < tau - EDGE and tau + EDGE < high:
        return tau
    for steps in (100, 1_000, 10_000, 100_000):
        near = math.ceil(high * steps - 1e-9) - 1 if tau >= high - EDGE else math.floor(low * steps + 1e-9) + 1
        if low * steps + 1e-9 < near < high * steps - 1e-9:
            return near / steps
    return None


# ---------------------------------------------------------------- pricing


def _priced(kind: str, judge: _Judge, tau: float, point: Point, clean: int | None) -> Cure:
    """Return a judge at a tau with its price; ``helps`` says only whether it does what is asked."""
    good, bad = (_seen(p, judge.rates) for p in (point.good, point.bad))
    needed = _needed(good, bad, tau, point) if kappa(*judge.rates) > EDGE else None
    fp, pf = judge.intervals
    pi = float(pi_tau(tau))
    return Cure(
        kind,
        needed is not None,
        "",
        *judge.rates,
        judge.intervals,
        float(kappa(*judge.rates)),
        str(region(tau, *judge.rates)),
        fp.high < pi - EDGE and pf.high < 1.0 - pi - EDGE,
        tau,
        None if needed is None else needed.n_min,
        None,
        judge.calls,
        None if needed is None else needed.n_min * judge.calls,
        None if needed is None else needed.wrongly_retired,
        None if needed is None else needed.kept,
        None,
        None,
        clean,
    )


def _at_the_ends(cure: Cure, point: Point) -> Cure:
    """Return a cure with what it does at the worst ends of its intervals, said in its sentence."""
    from sim.operating import ever_retired, first_test

    if not cure.helps or cure.n_min is None:
        return cure
    fp, pf = cure.intervals
    good, bad, cadence = _seen(point.good, (fp.low, pf.high)), _seen(point.bad, (fp.high, pf.low)), cadence_of(point)
    needed = _needed(good, bad, cure.tau, point)
    lost, kept = ever_retired([good], cure.tau, cure.n_min, cadence)[0], 1.0 - first_test([bad], cure.tau, cure.n_min, cadence)[0]
    cure = replace(cure, n_min_sure=None if needed is None else needed.n_min, lost_worst=float(lost), kept_worst=float(kept))
    return replace(cure, sentence=cure.sentence + _surely(cure, point))


def _cheaper(kind: str, judge: _Judge, point: Point, clean: int | None) -> Cure:
    """Return a judge at the tau of the point or at the corrected one, whichever takes fewer trials; at the former if none does."""
    here = _priced(kind, judge, point.tau, point, clean)
    tau = corrected(_wanted(point), judge.rates)
    if tau is None or tau == point.tau:
        return here
    there = _priced(kind, judge, tau, point, clean)
    return there if there.n_min is not None and (here.n_min is None or there.n_min < here.n_min) else here


# ---------------------------------------------------------------- all cures


def cures(
    rates: Pair,
    intervals: tuple[Interval, Interval] | tuple[Pair, Pair],
    point: Point,
    ensembles: Sequence[Vote | Union] | None = None,
    curve: Scores | None = None,
) -> list[Cure]:
    """Return what can be changed: first what helps, the surest first, then what does not, with the reason in its sentence.

    Parameters
    ----------
    rates, intervals
        (rho_fp, rho_pf) of the judge, and their intervals (low, high).
    point
        The controller, the two skills, alpha and beta; its rates are not used.
    ensembles
        Votes of repeated calls, and unions with other judges; those whose rates are unknown are left out.
    curve
        What is known of its scores.

    Raises
    ------
    InputError
        A rate is no probability.
    """
    alone = _Judge(rates, _intervals(intervals))
    clean = _needed(point.good, point.bad, _wanted(point), point)
    perfect = None if clean is None else clean.n_min
    base = _priced("n_min", alone, point.tau, point, perfect)
    base = replace(base, sentence=_about_n_min(base, point))
    found = [base, _by_tau(alone, base, point, perfect), _by_rectangle(alone, base, point, perfect)]
    if curve is not None:
        found += [_by_threshold(chosen, point, perfect) for chosen in _different(curve)]
    for item in ensembles or ():
        found += _by_ensemble(item, point, perfect)
    found = [_at_the_ends(cure, point) for cure in found]
    found = [_beaten(cure, found) for cure in found]
    return sorted(found, key=lambda c: (not c.helps, *_prices(c)))


def _beaten(cure: Cure, others: Sequence[Cure]) -> Cure:
    """Return a cure, with the reason if another is as good: no more cost where it is worst, and no more at the rates seen.

    What needs no change but n_min comes before all that is no surer, whatever it costs at the rates seen: a judge that errs more may take
    fewer trials, and is the worse for it. Of two alike the first stays.
    """
    if not cure.helps:
        return cure
    mine, before = _prices(cure), True
    for other in others:
        if other is cure:
            before = False
            continue
        theirs = _prices(other)
        as_good = theirs[0] <= mine[0] and (theirs[1] <= mine[1] or (other.kind == "n_min" and theirs[0] < math.inf))
        if other.helps and as_good and (theirs != mine or before):
            sure = "" if other.n_min_sure is None else f", {other.n_min_sure} to be sure"
            calls = "" if cure.calls == 1 else f" of {cure.calls:g} calls"
            own = f"it takes {cure.n_min} trials{calls}" + ("" if cure.n_min_sure is None else f", {cure.n_min_sure} to be sure")
            why = f"{own}, and {_NAMES[other.kind]} at tau = {other.tau:g} {other.n_min}{sure}"
            return replace(cure, helps=False, sentence=f"{cure.label}: {why}.")
    return cure


def _prices(cure: Cure) -> tuple[float, float]:
    """Return trials times calls at the worst ends of the intervals, and at the rates seen; infinite where nothing is enough."""
    sure = math.inf if cure.n_min_sure is None else cure.n_min_sure * cure.calls
    return sure, math.inf if cure.cost is None else cure.cost


def _intervals(given: tuple[Interval, Interval] | tuple[Pair, Pair]) -> tuple[Interval, Interval]:
    for what, (low, high) in zip(("rho_fp", "rho_pf"), given, strict=True):
        if not 0.0 <= low <= high <= 1.0:
            raise InputError(f"interval of {what}", f"{low:g} to {high:g}", "two probabilities, the lower first")
    return Interval(*given[0]), Interval(*given[1])


def _different(curve: Scores) -> list[Chosen]:
    return [curve.at_tau] if curve.at_tau.threshold == curve.chosen.threshold else [curve.at_tau, curve.chosen]


def _no_kappa(kind: str) -> str:
    return f"{kind}: kappa is 0 or below, so passes and failures look alike or the wrong way round; nothing inside the rule helps."


def _settled(cure: Cure, what: str, how: str, point: Point) -> Cure:
    """Return a cure with its sentence; it helps if it does what is asked."""
    if cure.kappa <= EDGE:
        return replace(cure, helps=False, sentence=_no_kappa(what))
    if cure.n_min is None or cure.cost is None:
        return replace(cure, helps=False, sentence=f"{what}: {_why_not(cure, point)}.")
    return replace(cure, helps=True, sentence=f"{how}: {_price(cure)}")


def _price(cure: Cure) -> str:
    calls = "" if cure.calls == 1 else f", {cure.calls:g} calls a trial, {cure.cost:g} in all"
    clean = "" if cure.n_min_clean is None else f" (a perfect judge takes {cure.n_min_clean})"
    return f"rho_fp {cure.rho_fp:.3f}, rho_pf {cure.rho_pf:.3f}, tau = {cure.tau:g}, n_min = {cure.n_min}{clean}{calls}"


def _surely(cure: Cure, point: Point) -> str:
    if cure.lost_worst is None or cure.kept_worst is None:
        return "."
    if cure.lost_worst <= point.alpha and cure.kept_worst <= point.beta:
        return "; it holds at the ends of the intervals too."
    ends = f"loses the good skill with chance {cure.lost_worst:.2g} or keeps the bad one with {cure.kept_worst:.2g}"
    more = "no n_min is sure to do there" if cure.n_min_sure is None else f"n_min = {cure.n_min_sure} is sure to do"
    return f"; at the ends of the intervals it {ends}, and {more}."


def _why_not(cure: Cure, point: Point) -> str:
    """Return why no n_min does what is asked at this tau."""
    good, bad = (_seen(p, (cure.rho_fp, cure.rho_pf)) for p in (point.good, point.bad))
    pi = float(pi_tau(cure.tau))
    if bad > pi:
        return (
            f"the bad skill (true rate {point.bad:g}) is seen to pass at rate {bad:.3f}, above pi_tau = {pi:g}, so no n_min gets rid of it"
        )
    if good <= pi:
        return f"the good skill (true rate {point.good:g}) is seen to pass at rate {good:.3f}, no more than pi_tau = {pi:g}, so it is lost"
    return f"no n_min up to 10000 tells passes at rates {good:.3f} and {bad:.3f} apart so surely"


def _about_n_min(base: Cure, point: Point) -> str:
    if base.kappa <= EDGE:
        return _no_kappa("n_min")
    if base.n_min is None:
        return f"n_min at tau = {point.tau:g}: {_why_not(base, point)}."
    if base.n_min <= point.n_min:
        return f"n_min = {point.n_min} is enough at tau = {point.tau:g}: {_price(base)} would do"
    return f"Raise n_min from {point.n_min} to {base.n_min} at tau = {point.tau:g}: {_price(base)}"


def _by_tau(alone: _Judge, base: Cure, point: Point, clean: int | None) -> Cure:
    """Return the corrected tau; where rounding it makes it fail, a hundredth beside it."""
    wanted = _wanted(point)
    tau = corrected(wanted, alone.rates)
    if tau is None:
        return replace(base, kind="tau", helps=False, sentence=_no_kappa("Corrected tau"))
    beside = [round(tau + step, 2) for step in (0.0, 0.01, -0.01) if -1.0 < tau + step < 1.0]
    tried = (_priced("tau", alone, value, point, clean) for value in beside)
    cure = next((c for c in tried if c.n_min is not None), None) or _priced("tau", alone, tau, point, clean)
    (fp_low, fp_high), (pf_low, pf_high) = alone.intervals
    ends = corrected(wanted, (fp_high, pf_low)), corrected(wanted, (fp_low, pf_high))
    cure = replace(cure, tau_low=ends[0], tau_high=ends[1])
    if cure.tau == point.tau:
        return replace(cure, helps=False, sentence=f"Corrected tau: it is tau = {point.tau:g}, as now.")
    told = "" if None in ends else f" ({ends[0]:g} to {ends[1]:g} at the ends of the intervals)"
    return _settled(cure, f"Corrected tau = {cure.tau:g}", f"Correct tau from {point.tau:g} to {cure.tau:g}{told}", point)


def _by_rectangle(alone: _Judge, base: Cure, point: Point, clean: int | None) -> Cure:
    (_, fp), (_, pf) = alone.intervals
    what = "Nearest tau whose rectangle surely holds the judge"
    if base.kappa <= EDGE:
        return replace(base, kind="rectangle", helps=False, sentence=_no_kappa(what))
    tau = nearest_tau(point.tau, fp, pf)
    if tau is None:
        why = f"there is none, the upper ends of the intervals sum to {fp + pf:.3f}: label more cases"
        return replace(base, kind="rectangle", helps=False, sentence=f"{what}: {why}.")
    if tau == point.tau:
        return replace(base, kind="rectangle", helps=False, sentence=f"{what}: it is tau = {point.tau:g}, as now.")
    cure = _priced("rectangle", alone, tau, point, clean)
    how = f"Move the edges: tau from {point.tau:g} to {tau:g} (the nearest that both intervals are short of)"
    return _settled(cure, f"{what}, {tau:g}", how, point)


def _by_threshold(chosen: Chosen, point: Point, clean: int | None) -> Cure:
    fp, pf = chosen.held_out.rho_fp, chosen.held_out.rho_pf
    assert fp.value is not None
    assert pf.value is not None
    judge = _Judge((fp.value, pf.value), (fp.used, pf.used))
    cure = _priced("threshold", judge, point.tau, point, clean) if chosen.fixed else _cheaper("threshold", judge, point, clean)
    name = shown(chosen.threshold)
    return _settled(cure, f"Threshold {name} on the score", f"Pass scores from {name} on (rates held out)", point)


def _by_ensemble(item: Vote | Union, point: Point, clean: int | None) -> list[Cure]:
    """Return the cure that a vote or a union is; nothing for one call, or where a rate is unknown."""
    if (
        item.rho_fp is None
        or item.rho_pf is None
        or item.rho_fp.value is None
        or item.rho_pf.value is None
        or item.calls == 1 == len_of(item)
    ):
        return []
    judge = _Judge((item.rho_fp.value, item.rho_pf.value), (item.rho_fp.interval, item.rho_pf.interval), float(item.calls))
    if isinstance(item, Vote):
        kind, what = "vote", f"{item.calls:g} calls, {RULES[item.rule]}"
    else:
        kind, what = "union", f"{' and '.join(item.judges)} together, pass if {'both pass' if item.both else 'either passes'}"
    return [_settled(_cheaper(kind, judge, point, clean), what, what, point)]


def len_of(item: Vote | Union) -> int:
    """Return how many verdicts an ensemble is made of."""
    return 2 if isinstance(item, Union) else item.calls


def listed(found: Sequence[Cure]) -> tuple[list[Cure], list[str]]:
    """Return the cures that help, and for each other one line that says why not."""
    return [c for c in found if c.helps], [c.sentence for c in found if not c.helps]
