"""All that theory says about a point, and the advice that follows for an operator."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from sim import theory
from sim.errors import InputError
from sim.points import Point

if TYPE_CHECKING:
    import numpy as np

OFF: Final = 0.05  # by which rho_fp may be off, to see what that does


def assess(point: Point, difficulty: np.ndarray | None = None) -> dict[str, Any]:
    """Return all that theory says about a point, as JSON values; None where there is no such number.

    Parameters
    ----------
    point
        The judge, the controller and what is asked.
    difficulty
        Pass rates without skills, shape (tasks,); only their mean, p0, is known by default.

    Returns
    -------
    dict
        ``point``; ``region``, ``kappa``, ``pi_tau``, ``p_star``, ``tau_eff``, ``evidence_inflation``; ``radius`` and
        ``shrinking_radius`` and the ``floors`` on both scales; ``survivor_rate``; ``chances`` of retirement for several true pass rates;
        ``needed``, the smallest n_min at this tau; ``corrected``, the tau that restores the wanted test, with its n_min; ``advice``.
    """
    judge = (point.rho_fp, point.rho_pf)
    k = float(theory.kappa(*judge))
    fits = k > theory.EDGE
    radius = theory.hoeffding_radius(point.n_min, point.delta, scale="pass_rate")
    found = {
        "point": dataclasses.asdict(point) | {"trials": point.horizon, "skills": point.charged},
        "region": theory.region(point.tau, *judge),
        "kappa": round(k, 12),
        "pi_tau": float(theory.pi_tau(point.tau)),
        "p_star": float(theory.p_star(point.tau, *judge)) if fits else None,
        "tau_eff": float(theory.tau_eff(point.tau, point.rho_fp)) if fits and point.rho_fp == point.rho_pf else None,
        "evidence_inflation": float(theory.evidence_inflation(*judge)) if fits else None,
        "radius": _both(theory.hoeffding_radius, point.n_min, point.delta),
        "shrinking_radius": _both(theory.uniform_radius, max(point.horizon, point.n_min), point.n_min, point.delta),
        "survivor_rate": float(theory.survivor_rate(point.tau, radius, *judge)) if fits else None,
        "floors": _floors(point, difficulty, fits),
        "chances": _chances(point),
        "needed": _needed(point, point.tau, *judge) if fits else None,
        "corrected": _corrected(point) if fits else None,
    }
    return found | {"advice": advice(point, found)}


def _both(make: Any, *args: Any) -> dict[str, float]:
    return {scale: float(make(*args, scale=scale)) for scale in theory.SCALES}


def _floors(point: Point, difficulty: np.ndarray | None, fits: bool) -> dict[str, dict[str, float] | None]:
    """Return the floors: as the papers print them, charged for the cap; and tight ones, charged for all skills tested."""
    judge = (point.rho_fp, point.rho_pf)
    printed = (point.tau, point.n_min, point.cap, point.delta)
    tight = (point.tau, point.n_min, point.charged, point.delta)
    tasks = (theory.floor_mean, point.p0) if difficulty is None else (theory.floor_tasks, difficulty)
    return {
        "clean": _both(theory.floor_clean, point.p0, *printed),
        "printed": _both(theory.floor_printed, point.p0, *printed, *judge) if fits else None,
        "channel": _both(theory.floor_channel, point.p0, *tight, *judge) if fits and point.p0 <= 0.5 else None,
        "tasks": _both(*tasks, *tight, *judge) if fits else None,
    }


def _chances(point: Point) -> list[dict[str, float]] | None:
    """Return the chances of retirement for skills of several true pass rates; None if so many trials are not worked out."""
    from sim.cadence import MAX_TRIALS
    from sim.operating import MAX_RANDOM

    cadence = point.cadence
    most = MAX_TRIALS if cadence.fixed else MAX_RANDOM
    if max(point.looks * cadence.mean, point.n_min + len(cadence.pmf)) > most or point.looks > MAX_TRIALS:
        return None
    try:
        return _chance_rows(point)
    except InputError:  # a margin so close to 1 or -1 that "ever" is not worked out
        return None


def _chance_rows(point: Point) -> list[dict[str, float]]:
    from sim.operating import ever_retired, first_test, operating

    cadence = point.cadence
    true = sorted({0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0, point.bad, point.good})
    observed = theory.observed_rate(true, point.rho_fp, point.rho_pf).clip(0.0, 1.0)
    first = first_test(observed, point.tau, point.n_min, cadence)
    by = operating(observed, point.tau, point.n_min, point.looks, cadence).retired_by[:, -1]
    ever = ever_retired(observed, point.tau, point.n_min, cadence)
    names = ("true", "observed", "first_test", "by_trials", "ever")
    return [dict(zip(names, map(float, row), strict=True)) for row in zip(true, observed, first, by, ever, strict=True)]


def _needed(point: Point, tau: float, rho_fp: float, rho_pf: float) -> dict[str, float] | None:
    """Return the smallest n_min that does what is wanted under a judge, or None if there is none."""
    from sim.operating import smallest_n_min

    good, bad = (float(theory.observed_rate(p, rho_fp, rho_pf)) for p in (point.good, point.bad))
    try:
        return smallest_n_min(good, bad, tau, point.alpha, point.beta, cadence=point.cadence)._asdict()
    except InputError:
        return None


def _corrected(point: Point) -> dict[str, Any]:
    """Return the margin that restores the wanted test, its price in trials, and what an error of rho_fp would do to it."""
    wanted = point.tau if point.wanted is None else point.wanted
    tau = float(theory.corrected_tau(wanted, point.rho_fp, point.rho_pf))
    higher = min(point.rho_fp + OFF, 1.0)
    still = float(theory.kappa(higher, point.rho_pf)) > theory.EDGE
    return {
        "wanted": wanted,
        "tau": tau,
        "needed": _needed(point, tau, point.rho_fp, point.rho_pf),
        "needed_clean": _needed(point, wanted, 0.0, 0.0),
        "p_star_if_off": float(theory.p_star(tau, higher, point.rho_pf)) if still else None,
    }


# ---------------------------------------------------------------- in words


def chance(found: dict[str, Any], true: float, column: str) -> float | None:
    """Return a chance of retirement from what was found, for a skill of this true pass rate."""
    rows = [row for row in found["chances"] or [] if row["true"] == true]
    return rows[0][column] if rows else None


def number(value: float | None) -> str:
    """Return a number with up to three decimals, - if there is none."""
    if value is None:
        return "-"
    return f"{value + 0.0:.3f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:.4g}"


def _small(value: float) -> str:
    return "below 0.0001" if value < 1e-4 else f"{value:.2g}"


def advice(point: Point, found: dict[str, Any]) -> list[str]:
    """Return what follows for an operator, a sentence or two each, the most urgent first."""
    return [_verdict(point, found), *_about_evidence(point, found), *_about_correction(point, found), *_about_floors(point, found)]


def _verdict(point: Point, found: dict[str, Any]) -> str:
    pi, p_star = number(found["pi_tau"]), number(found["p_star"])
    never, always = number(point.rho_fp), number(1.0 - point.rho_pf)
    if found["kappa"] <= theory.EDGE:
        return (
            f"{found['region'].capitalize()}: this judge says nothing, or the opposite, since kappa is 0 or below. No threshold helps; use "
            "another judge, or below 0 this one's verdicts the other way round."
        )
    return {
        "governable": f"Governable: given many trials, a skill is retired if its true pass rate is at most {p_star}, else kept.",
        "blind": f"Blind: even a skill that never passes is seen to pass at rate {never}, no less than pi_tau = {pi}. More trials do "
        "not help.",
        "indiscriminate": f"Indiscriminate: even a skill that always passes is seen to pass at rate {always}, no more than "
        f"pi_tau = {pi}. In the end every skill is retired.",
    }[found["region"]]


def _about_evidence(point: Point, found: dict[str, Any]) -> list[str]:
    """Say whether the test does what is wanted of it, and if not, whether more trials would."""
    if found["p_star"] is None:
        return []
    needed, good, bad = found["needed"], f"the good skill (true rate {point.good:g})", f"the bad one ({point.bad:g})"
    retired, lost = chance(found, point.bad, "by_trials"), chance(found, point.good, "ever")
    if retired is not None and lost is not None and 1.0 - retired <= point.beta and lost <= point.alpha:
        said = f"n_min = {point.n_min} is enough for these two: {good} is ever lost with chance {_small(lost)}, {bad} is still there after "
        return [f"{said}{point.horizon} trials with chance {_small(1.0 - retired)}. Nearer ones take more: say which with good=, bad=."]
    if needed is not None:
        gone, kept = _small(needed["wrongly_retired"]), _small(needed["kept"])
        said = f"Use n_min = {needed['n_min']}: then {good} is ever lost with chance {gone}, and {bad} passes its first test with "
        return [f"{said}chance {kept}. At most {point.alpha:g} and {point.beta:g} were asked for."]
    seen = {p: float(theory.observed_rate(p, point.rho_fp, point.rho_pf)) for p in (point.good, point.bad)}
    if seen[point.good] <= found["pi_tau"]:
        return [f"At this tau {good} is retired in the end, whatever n_min: it is seen to pass at rate {number(seen[point.good])}."]
    if seen[point.bad] > found["pi_tau"]:
        return [f"At this tau no n_min gets rid of {bad}: it is seen to pass at rate {number(seen[point.bad])}. Change tau or the judge."]
    return [f"No n_min up to 10000 tells {good} and {bad} apart so surely at this tau."]


def _about_correction(point: Point, found: dict[str, Any]) -> list[str]:
    """Say which tau restores the test that is wanted, at what price, and what an error of the rates would do."""
    corrected = found["corrected"]
    if corrected is None or not (point.rho_fp or point.rho_pf):
        return []
    wanted, tau = corrected["wanted"], corrected["tau"]
    if f"{point.tau:g}" == f"{tau:g}":
        out = f"tau = {tau:g} is corrected: it retires under this judge what {wanted:g} retires under a perfect one."
    else:
        out = f"To retire under this judge what tau = {wanted:g} retires under a perfect one, use tau = {tau:g}"
        if not corrected["needed_clean"]:
            out += "; even that does not tell the good skill from the bad one."
        elif corrected["needed"]:
            out += f" and n_min = {corrected['needed']['n_min']}, where a perfect judge takes {corrected['needed_clean']['n_min']}."
        else:
            out += ", but no n_min up to 10000 is enough then: this judge leaves too little of the difference."
    if corrected["p_star_if_off"] is not None:
        limit, meant = corrected["p_star_if_off"], number(float(theory.pi_tau(wanted)))
        what = f"at true rates up to {number(limit)} instead of {meant}" if limit > 0 else f"nothing, instead of what is at {meant} or less"
        out += f" It is as good as the rates: were rho_fp {OFF:g} higher, it would retire {what}."
    return [out]


def _about_floors(point: Point, found: dict[str, Any]) -> list[str]:
    out = []
    p_star, tasks = found["p_star"], found["floors"]["tasks"]
    if p_star is not None and 0.0 < p_star < point.p0 - 0.06:
        out.append(f"Tasks pass at {point.p0:.3g} without skills: given many trials, one that drags them to just above {p_star:.3g} stays.")
    if p_star is not None and point.p0 + 0.06 < p_star:
        reach = min(p_star, 1.0)
        out.append(f"Tasks pass at {point.p0:.3g} without skills: one that lifts them to no more than {reach:.3g} is retired in the end.")
    if tasks is None:
        out.append("Without kappa above 0 there is no floor.")
    elif point.p0 == 0:
        out.append("No floor is needed: tasks never pass without skills.")
    elif tasks["pass_rate"] <= 0:
        why = f"{point.charged} skills at delta = {point.delta:g}" if found["survivor_rate"] > 0 else f"n_min = {point.n_min}"
        out.append(f"No floor for tasks of any difficulty promises anything with {why}.")
    else:
        stay = f"tested skills that stay pass at {number(found['survivor_rate'])} or more"
        why = "no tested skill stays" if found["survivor_rate"] > 1 else stay
        out.append(
            f"While all skills on the shelf are tested, and no more than {point.charged} ever were (skills=), the expected eval is at "
            f"least {tasks['pass_rate']:.3g}, since {why}. Skills younger than n_min are under no floor."
        )
    return out
