"""What to change about a judge or its controller: its scores, its repeated calls, other judges beside it, and the cures that follow.

Here the parts are put together and made plain: :mod:`real_loop.audit.curve`, :mod:`real_loop.audit.ensemble`,
:mod:`real_loop.audit.cures`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sim.errors import InputError

if TYPE_CHECKING:
    from real_loop.audit.cases import Cases
    from real_loop.audit.ensemble import Union
    from real_loop.audit.rates import Rates
    from real_loop.audit.scores import Scores
    from sim.points import Point

MOST_POINTS: Final = 400  # of a curve in the report
MOST_OTHERS: Final = 6  # judges that one is tried together with


def scored(cases: Cases, point: Point, confidence: float) -> tuple[Scores | None, str]:
    """Return what the scores of a judge say; None, with the reason, where there are none to go by."""
    from real_loop.audit.scores import scores

    if cases.score is None:
        return None, ""
    if cases.truth.all() or not cases.truth.any():
        return None, "Scores of one truth alone make no curve: it takes true fails and true passes."
    if np.ptp(cases.score) == 0:
        return None, "The score is the same for all cases: it tells nothing apart."
    try:
        return scores(cases, point, confidence=confidence), ""
    except InputError as error:
        return None, f"The scores make no curve: {error.what} is {error.got}, and would have to be {error.expected}."


def thresholded(cases: Cases, scores: Scores) -> Cases:
    """Return the cases with the verdicts of the threshold for the point's tau, each by the threshold chosen without its fold."""
    assert cases.score is not None
    chosen = scores.at_tau
    return replace(cases, verdict=np.asarray(cases.score >= chosen.by_fold[chosen.fold]), invalid=None)


def together(cases: Cases, judge: str, confidence: float) -> list[Union]:
    """Return a judge tried with each other judge of the same cases: passing what both pass, and what either does."""
    from real_loop.audit import ensemble

    if cases.verdict is None:
        return []
    own = set(cases.case[cases.judge == judge].tolist())
    others = [name for name in cases.judges if name != judge and own & set(cases.case[cases.judge == name].tolist())]
    others = sorted(others, key=lambda name: name != CHECKS)[:MOST_OTHERS]
    both = []
    for name in others:
        cost = (float(judge != CHECKS), float(name != CHECKS))
        both += [ensemble.union(cases, judge, name, both=way, calls=cost, confidence=confidence) for way in (True, False)]
    return both


CHECKS: Final = "checks"  # the judge that asks no model: it costs no call


def changes(cases: Cases, everything: Cases, scores: Scores | None, rates: Rates | None, point: Point, confidence: float) -> dict[str, Any]:
    """Return ``curve``, ``votes``, ``unions`` and ``cures`` of one judge as JSON values, None or empty where there is nothing to say.

    ``as_it_is`` is the judge at the tau of the point, with the n_min that takes.

    Parameters
    ----------
    cases, everything
        Its verdicts and scores as they are in the file; those of all judges.
    scores
        What :func:`scored` found.
    rates
        Of its verdicts; None where there are none.
    """
    from real_loop.audit import cures, ensemble
    from real_loop.audit.scores import plain, shown

    found: dict[str, Any] = {"curve": None, "votes": None, "unions": [], "as_it_is": None, "cures": None, "no_cures": []}

    def told(cure: cures.Cure) -> Any:
        values: Any = plain(cure)
        return {"label": cure.label, **values}

    if scores is not None:
        found["curve"] = _thin(plain(scores))
        for name, chosen in (("chosen", scores.chosen), ("at_tau", scores.at_tau)):  # JSON has no infinity
            all_or_none = "all cases" if chosen.threshold < 0 else "no case"
            finite = np.isfinite(chosen.threshold)
            found["curve"][name]["passes"] = f"what scores {shown(chosen.threshold)} or more" if finite else all_or_none
    ensembles: list[Any] = []
    if cases.verdict is not None:
        unions = together(everything, cases.judges[0], confidence)
        if len(cases) > len(np.unique(cases.case)):
            votes = ensemble.repeats(cases, confidence=confidence)
            found["votes"] = plain(votes)
            ensembles += votes.votes
        found["unions"] = [plain(pair) for pair in unions]
        ensembles += unions
    if rates is None or rates.rho_fp.value is None or rates.rho_pf.value is None:
        return found
    measured = (rates.rho_fp.value, rates.rho_pf.value)
    tried = cures.cures(measured, (rates.rho_fp.used, rates.rho_pf.used), point, ensembles, scores)
    helps, others = cures.listed(tried)
    as_it_is = next(cure for cure in tried if cure.kind == "n_min")
    found |= {"cures": [told(cure) for cure in helps], "no_cures": others}
    return found | {"as_it_is": told(as_it_is)}


def _thin(plain: Any) -> Any:
    """Leave out what is there for every row, and all but some points of a long curve."""
    for chosen in (plain["chosen"], plain["at_tau"]):
        del chosen["fold"]
    line, last = plain["curve"], len(plain["curve"]["threshold"]) - 1
    if last >= MOST_POINTS:
        kept = sorted({round(i * last / (MOST_POINTS - 1)) for i in range(MOST_POINTS)})
        for name in ("threshold", "rho_fp", "rho_pf"):
            line[name] = [line[name][i] for i in kept]
    return plain
