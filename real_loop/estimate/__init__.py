"""A World of the simulator estimated from finished logs, each parameter with an interval; what a log cannot tell is fixed and named.

:mod:`~real_loop.estimate.counts` reads logs, :mod:`~real_loop.estimate.posterior` samples; here draws become parameters and Worlds.
The command is ``python -m sim.calibrate from=LOG`` (:mod:`~real_loop.estimate.command`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from real_loop.estimate.counts import Counts, Probes, gather, verdicts
from sim.errors import InputError
from sim.model import Channel, World

if TYPE_CHECKING:
    from real_loop.audit.rates import Rate
    from real_loop.history import History

__all__ = ["CONFIDENCE", "Estimated", "Judged", "Parameter", "Probes", "estimate", "shortest"]

CONFIDENCE: Final = 0.9
DIGITS: Final = 4  # of what is written down
SLACK: Final = 0.05  # by which an interval that reaches from a bound may be longer than the shortest
LOOSE: Final = 0.8  # an interval that is not narrower than this share of the prior's says little
PRIOR_DRAWS: Final = 20_000
# As first fitted to the figures that papers report (sim/conf/roles/first_fit.yaml): for what no log here tells.
USUAL: Final = {
    "router.recall": 0.34,
    "router.false_match": 0.34,
    "effect.mean": 0.0,
    "effect.sd": 0.59,
    "effect.off_topic": 0.05,
    "effect.spurious_mean": 0.0,
    "effect.spurious_sd": 0.59,
    "synth.phantom_cost": 0.44,
}
SPURIOUS: Final = ("effect.spurious_mean", "effect.spurious_sd", "synth.phantom_cost")
# Ends that a parameter may lie on: there an interval that leaves out the same share on both sides would never hold the truth.
BOUNDS: Final = {
    "topics": (1.0, np.inf),
    "topic_skew": (0.0, np.inf),
    "critic.mislabel": (0.0, 1.0),
    "router.recall": (0.0, 1.0),
    "router.top_hit_recall": (0.0, 1.0),
    "router.false_match": (0.0, 1.0),
    "router.favour": (0.0, 1.0),
    "effect.sd": (0.0, np.inf),
    "effect.off_topic": (0.0, np.inf),
    "effect.spurious_sd": (0.0, np.inf),
    "synth.phantom_cost": (0.0, 1.0),
}


@dataclass(frozen=True)
class Parameter:
    """An estimated parameter.

    Attributes
    ----------
    path
        Below ``world.``, or the whole of one that begins with ``channel.``.
    value
        Median of its posterior.
    low, high
        90 % interval: the shortest one where the parameter has an end it may lie on, else with 5 % on each side.
    how
        From which counts, in one line.
    """

    path: str
    value: float
    low: float
    high: float
    how: str


@dataclass(frozen=True)
class Judged:
    """A judge's rates of error on the train trials of one log, with 90 % intervals: ``channel.rho_fp``, ``channel.rho_pf`` and the
    intra-class correlation of errors by task, ``channel.spread``.
    """

    log: str
    judge: str
    parameters: tuple[Parameter, ...]

    def channel(self) -> Channel:
        """Return the simulator's channel with these rates."""
        rho_fp, rho_pf, spread = (p.value for p in self.parameters)
        return Channel(rho_fp, rho_pf, min(spread, 0.99), "task")


@dataclass(frozen=True)
class Estimated:
    """What was estimated.

    Attributes
    ----------
    parameters
        With intervals.
    fixed
        Values of the other parameters of the World by path, and why they are these.
    channels
        Of logs whose rewards a judge gave.
    draws
        Joint draws from the posterior, shape (draws, parameters), in the order of ``parameters``.
    """

    parameters: tuple[Parameter, ...]
    fixed: dict[str, tuple[Any, str]]
    channels: tuple[Judged, ...]
    draws: np.ndarray = field(repr=False, compare=False)

    def world(self) -> World:
        """Return the World of the medians."""
        return self._world([p.value for p in self.parameters])

    def worlds(self, n: int, seed: int) -> list[World]:
        """Return Worlds of n joint draws, none twice while there are enough."""
        order = np.random.default_rng(seed).permutation(len(self.draws))
        return [self._world(self.draws[order[i % len(order)]]) for i in range(n)]

    def _world(self, values: Sequence[float] | np.ndarray) -> World:
        from real_loop.config import tree
        from sim.params import from_mapping

        flat: dict[str, Any] = {path: value for path, (value, _) in self.fixed.items()}
        flat |= {p.path: float(v) for p, v in zip(self.parameters, values, strict=True)}
        flat["topics"] = round(flat["topics"])
        return from_mapping(World, tree(flat), "world")


def estimate(
    histories: Sequence[History],
    probes: Probes | None = None,
    draws: int = 400,
    seed: int = 1,
    steps: int | None = None,
    watch: Callable[[int], Callable[[], None]] | None = None,
) -> Estimated:
    """Return the World that logs tell of.

    Parameters
    ----------
    histories
        Of clean runs with the same tasks, model, roles and rules of writing, or of other rewards as well: trials count as they truly
        ended, and skills written from phantom failures tell what those cost.
    probes
        Of the split that chose the tasks. Without them the rule that chose is used alone.
    draws
        Joint draws kept.
    seed
        Of the sampler: the same one gives the same numbers.
    steps
        Of the sampler; ``None``: enough for two digits of an interval's ends.
    watch
        Given the number of steps; returns what is called after each.

    Raises
    ------
    InputError
        The logs are of different suites, splits or roles, or lack what a World cannot be estimated without: a failure, trials without
        a skill.
    """
    from real_loop.estimate import posterior

    if draws < 2:
        raise InputError("draws", draws, "2 or more")
    counts = gather(histories, probes)
    steps = max(posterior.STEPS if steps is None else steps, draws)
    told = watch(steps + posterior.BURN) if watch is not None else None
    walked = posterior.sample(counts, steps, seed=seed, watch=told)
    fixed, columns = _fixed(histories[0], counts), []
    to = _mislabel_to(walked[:, posterior.W])
    fixed["critic.mislabel_to"] = to[0], to[1]
    walked = walked[to[2]]
    prior = posterior.prior(PRIOR_DRAWS, seed)
    found = []
    for i, path in enumerate(posterior.PATHS):
        name = "router.top_hit_recall" if counts.mode == "top_hit" and path == "router.recall" else path
        if name in fixed or path == "critic.mislabel_to":
            continue
        low, high = interval(walked[:, i], *BOUNDS.get(name, ()))
        before = interval(prior[:, i], *BOUNDS.get(name, ()))
        how = _how(counts, path)
        if high - low > LOOSE * (before[1] - before[0]):
            how += "; hardly more than the prior says"
        found.append(_parameter(name, float(np.median(walked[:, i])), low, high, how))
        columns.append(i)
    rows = np.linspace(0, len(walked) - 1, draws).round().astype(int)
    kept = np.vectorize(_digits, otypes=[float])(walked[rows][:, columns])
    channels = tuple(_judged(h) for h in histories if h.settings.reward.kind == "judge")
    return Estimated(tuple(found), fixed, channels, kept)


def _mislabel_to(by_weight: np.ndarray) -> tuple[str, str, np.ndarray]:
    """Return where mislabelled failures go, why this is said, and which draws have it: what more than half of them have."""
    weight = by_weight > 0
    share = float(weight.mean())
    to, mine = ("weight", weight) if share >= 0.5 else ("uniform", ~weight)
    return to, f"the likelier one: {max(share, 1 - share):.0%} of draws have it, where both are possible", mine


def interval(values: np.ndarray, *bounds: float) -> tuple[float, float]:
    """Return the 90 % interval of draws: the shortest one if the parameter has bounds it may lie on, else between two quantiles."""
    if bounds:
        return shortest(values, *bounds)
    low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def shortest(values: np.ndarray, least: float = -np.inf, most: float = np.inf) -> tuple[float, float]:
    """Return the shortest interval that holds 90 % of draws. Its ends are draws, or bounds of the parameter.

    One that reaches from a bound is as good as any other of its length, so that a truth on a bound can be held; and it is taken if
    another is shorter by :data:`SLACK` at most: of a density that falls from the bound, some draws are always the closest by chance.
    """
    order = np.sort(values)
    number = int(np.ceil(CONFIDENCE * len(order)))
    low, high = order[: len(order) - number + 1].copy(), order[number - 1 :].copy()
    low[0] = least if np.isfinite(least) else low[0]
    high[-1] = most if np.isfinite(most) else high[-1]
    length = high - low
    best = int(np.argmin(length))
    for end in (0, -1):
        if np.isfinite((least, most)[end]) and length[end] <= (1 + SLACK) * length[best]:
            best = end
    return float(low[best]), float(high[best])


def _digits(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _parameter(path: str, value: float, low: float, high: float, how: str) -> Parameter:
    return Parameter(path, _digits(value), _digits(low), _digits(high), how)


# ---------------------------------------------------------------- what is fixed


def _fixed(history: History, c: Counts) -> dict[str, tuple[Any, str]]:
    """Return the parameters that the log says or cannot say, each with its reason."""
    setting, s = "a setting of the run", history.settings
    fixed: dict[str, tuple[Any, str]] = {
        "n_train": (len(history.tasks["train"]), "the tasks of the run"),
        "n_eval": (len(history.tasks["eval"]), "the tasks of the run"),
        "start": (len(history.texts.get(-1, ())), "skills on the shelf before the first round"),
        "difficulty.probes": (c.probes, "how the tasks were chosen"),
        "difficulty.keep": (c.keep, "how the tasks were chosen"),
        "router.mode": (s.roles.mode, setting),
    }
    for name in ("min_cluster", "per_round", "memory", "cover_guard"):
        fixed[f"synth.{name}"] = (getattr(s.writing, name), setting)
    if c.mode == "top_hit":
        for name in ("router.recall", "router.false_match"):
            fixed[name] = (USUAL[name], "the most similar skill is taken, whether it is noticed or not; as fitted to papers")
        if not c.routes.any():
            fixed["router.top_hit_recall"] = (None, "no skill was on the shelf")
    else:
        fixed["router.top_hit_recall"] = (None, "the router decides")
        if not c.routes.any():
            for name in ("router.recall", "router.false_match"):
                fixed[name] = (USUAL[name], "no skill was on the shelf; as fitted to papers")
    if not len(c.pair_n):
        why = "routed skills were withheld" if c.mode == "withheld" else "no skill was given to a task"
        for name in ("effect.mean", "effect.sd", "effect.off_topic"):
            fixed[name] = (USUAL[name], f"{why}; as fitted to papers")
    if not c.picks[:, :, 3:].any():
        fixed["router.favour"] = (0.0, "never were there two skills to choose from")
    if not (c.phantom > 0).any():
        for name in SPURIOUS:
            fixed[name] = (USUAL[name], "no skill was written from phantom failures, as in any clean run; as fitted to papers")
    return fixed


# ---------------------------------------------------------------- from which counts


def _how(c: Counts, path: str) -> str:
    """Say in one line what a parameter was estimated from; topics of tasks are those of most failures, for this line alone."""
    own, d = c.own, len(c.labels)
    if path.startswith("difficulty."):
        trials, passed = int(c.bare.sum()), int(c.bare[:, 0].sum())
        if len(c.others):
            probed = c.probes * int((c.probed.sum(axis=1) > 0).sum() + c.others.sum())
            more = f"and {probed} probes of {probed // c.probes}"
        elif c.keep == "all":
            more = "not chosen by probes"
        else:
            more = f"chosen by {c.probes} probes ({c.keep}) that the log does not have"
        return f"{trials} trials without a skill, {passed} passed, of {len(c.tasks)} tasks; {more}"
    if path in ("topics", "topic_skew"):
        if path == "topics":
            rare = f", {int(c.rare.sum())} with rarer ones" if c.rare.any() else ""
            none = f", {c.unlabelled} without" if c.unlabelled else ""
            return f"{d} labels on {int(c.labelled.sum())} failures{rare}{none}"
        sizes = np.sort(np.bincount(own, minlength=d + 1)[:d])[::-1]
        more = " ..." if (sizes > 0).sum() > 6 else ""
        return f"train tasks by their most frequent label: {' '.join(str(n) for n in sizes[sizes > 0][:6])}{more}"
    if path == "critic.mislabel":
        total = int(c.labelled.sum() + c.rare.sum())
        return f"{total - int(c.labelled.max(axis=1).sum())} of {total} failures have another label than most of their task"
    if path.startswith("router."):
        known = own < d
        column = np.full(d + 1, len(c.topic_of))
        column[c.topic_of] = np.arange(len(c.topic_of))
        routed = c.routes[np.flatnonzero(known), column[own[known]]].sum(axis=0)
        took, missed = int(routed[0]), int(routed[1])
        if path == "router.favour":
            picked = c.picks[np.flatnonzero(known), column[own[known]]].sum(axis=0)
            m = np.arange(len(picked) - 1)
            among = max(int(picked[3:].sum()), 1)
            mean, even = picked[0] / among, float(picked[3:] @ (m[2:] - 1) / 2) / among
            return f"tasks with a label: {among} picks of several that fit, mean rank by age {mean:.2f} ({even:.2f} if each alike)"
        if path == "router.recall":
            return f"tasks with a label: {took} of {took + missed} routings with a skill of it on the shelf took it"
        most = (len(routed) - 2) // 2
        declined, others = int(routed[3 : 2 + most].sum()), int(routed[2 + most :].sum())
        return f"tasks with a label: {others} of {declined + others} routings that took none of it took another skill"
    on = c.on_topic
    if path == "effect.off_topic":
        trials, passed = int(c.pair_n[~on].sum()), int(c.pair_passes[~on].sum())
        return f"{trials} trials with a skill of another label than most of their task or none known, {passed} passed"
    if path in SPURIOUS:
        return f"{int((c.phantom > 0).sum())} of {len(c.skills)} skills were written from pools with phantom failures"
    trials, passed = int(c.pair_n[on].sum()), int(c.pair_passes[on].sum())
    return f"{len(np.unique(c.pair_skill[on]))} skills, {trials} trials on their own label, {passed} passed"


# ---------------------------------------------------------------- judges


def _judged(history: History) -> Judged:
    from real_loop.audit.cases import Cases
    from real_loop.audit.rates import measured

    truth, verdict, task = verdicts(history)
    n = len(truth)
    each, blank = np.arange(n).astype(str), np.full(n, "")
    cases = Cases(truth, verdict, None, blank, task, each, blank, np.ones(n), clustered=True)
    rates = measured(cases, CONFIDENCE)
    found = [
        _rate("channel.rho_fp", rates.rho_fp, "true failures observed as passes"),
        _rate("channel.rho_pf", rates.rho_pf, "true passes observed as failures"),
        _spread(rates.rho_fp, rates.rho_pf),
    ]
    role = history.settings.roles.judge
    return Judged(str(history.path), f"{role.model or history.settings.model} ({history.settings.reward.prompt})", tuple(found))


def _rate(path: str, rate: Rate, what: str) -> Parameter:
    value = rate.value if rate.value is not None else 0.5
    return _parameter(path, value, rate.used.low, rate.used.high, f"{rate.k} of {rate.n} {what}, {rate.tasks} tasks")


def _spread(*rates: Rate) -> Parameter:
    """Return the correlation of errors by task: the mean of both rates' own, by their cases, as the simulator knows one."""
    known = [r for r in rates if r.icc is not None]
    if not known:
        return Parameter("channel.spread", 0.0, 0.0, 1.0, "too few errors, or tasks with several: nothing is known")
    weight = np.array([r.n for r in known], np.float64) / sum(r.n for r in known)
    ends = [r.icc_interval or (0.0, 1.0) for r in known]
    values = [[r.icc for r in known], [e[0] for e in ends], [e[1] for e in ends]]
    value, low, high = (float(np.clip(np.array(v, np.float64) @ weight, 0.0, 1.0)) for v in values)
    return _parameter("channel.spread", value, low, high, "intra-class correlation of errors by task")
