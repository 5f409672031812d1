"""Error rates of a judge with intervals that are honest about few cases, errors that come together, and weights.

Three intervals of a rate, and what each is worth:

- *exact*: Clopper and Pearson (1934). Never too narrow where cases are independent.
- *bootstrap*: percentiles over resampled tasks (Davison and Hinkley 1997, section 3.8). Takes any dependence within a task, but knows
  only the errors it has seen: with few tasks, or few errors, it is too narrow, and at a rate of 0 or 1 it says nothing.
- *clustered*: Clopper and Pearson on n over the design effect, for the degrees of freedom that so many tasks leave (Korn and Graubard
  1998, "Confidence intervals for proportions with small expected number of positive counts estimated from survey data"). Where the
  design effect cannot be measured (fewer than FEW tasks, or a rate of 0 or 1) each task counts as one case: as if all errors of a task
  came together, the worst there is.

Decisions take the widest of them on each side, ``used``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from real_loop.audit.cases import Cases

FEW: Final = 10  # tasks below which their scatter is not measured well enough to rely on
RESAMPLES: Final = 10_000
LEAST_RESAMPLES: Final = 2_000
WORK: Final = 1.2e7  # resamples times tasks that are drawn one by one, about a second
CELLS: Final = 2_000_000  # numbers in memory at once
SPARSE: Final = 0.1  # of the resamples, that may leave a statistic undefined


class Interval(NamedTuple):
    """Two ends, low <= high."""

    low: float
    high: float


@dataclass(frozen=True)
class Rate:
    """A rate of errors among cases of one truth.

    Attributes
    ----------
    n, k
        Cases, and errors among them.
    value
        The (weighted) share of errors; None without cases.
    tasks
        Tasks with such a case.
    exact, bootstrap, clustered
        Intervals (see the module); None where they say nothing.
    used
        The widest on each side; 0 to 1 without cases.
    icc, icc_interval
        Intra-class correlation of errors within tasks, and its bootstrap interval; None where it cannot be measured.
    design_effect
        By which factor clusters and weights inflate the variance, at least 1.
    n_effective
        Independent cases that would say as much.
    by_task
        Whether each task counts as one case in ``clustered``, since the correlation cannot be measured.
    """

    n: int
    k: int
    value: float | None
    tasks: int
    exact: Interval | None
    bootstrap: Interval | None
    clustered: Interval | None
    used: Interval
    icc: float | None
    icc_interval: Interval | None
    design_effect: float
    n_effective: float
    by_task: bool


@dataclass(frozen=True)
class Rates:
    """Both rates of a judge.

    Attributes
    ----------
    rho_fp
        P(observed pass | true fail), the rate of hidden failures.
    rho_pf
        P(observed fail | true pass), the rate of phantom failures.
    kappa, kappa_interval
        1 - rho_fp - rho_pf, and its interval; None where a rate is unknown.
    resamples
        Of the bootstrap; 0 where there was none.
    """

    rho_fp: Rate
    rho_pf: Rate
    kappa: float | None
    kappa_interval: Interval | None
    resamples: int


# ---------------------------------------------------------------- one rate


def exact(k: float, n: float, confidence: float) -> Interval:
    """Return the Clopper-Pearson interval of k of n, by beta quantiles, so that counts need not be whole (effective ones are not).

    Parameters
    ----------
    k, n
        0 <= k <= n, n > 0.
    confidence
        Of both sides together.
    """
    from scipy.stats import beta

    tail = (1.0 - confidence) / 2.0
    low = float(beta.ppf(tail, k, n - k + 1.0)) if k > 0 else 0.0
    high = float(beta.isf(tail, k + 1.0, n - k)) if k < n else 1.0
    return Interval(low, high)


def icc(n: np.ndarray, errors: np.ndarray) -> float | None:
    """Return the intra-class correlation of errors within tasks: the estimator of analysis of variance (Ridout et al. 1999, eq. 2).

    Parameters
    ----------
    n, errors
        Cases and errors of each task, shape (tasks,).

    Returns
    -------
    float or None
        None with fewer than two tasks, no task of two cases, or no error or nothing but errors.
    """
    n, errors = np.asarray(n, np.float64), np.asarray(errors, np.float64)
    n, errors = n[n > 0], errors[n > 0]
    sums = np.array([len(n), n.sum(), errors.sum(), (errors**2 / n).sum(), (n**2).sum()])
    value = float(_icc(sums))
    return None if np.isnan(value) else value


def _icc(sums: np.ndarray) -> np.ndarray:
    """Return the estimator from sums over tasks along the last axis: 1, n, e, e^2/n, n^2; nan where it is undefined."""
    tasks, n, e, squares, sizes = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        between = (squares - e**2 / n) / (tasks - 1.0)
        within = (e - squares) / (n - tasks)
        size = (n - sizes / n) / (tasks - 1.0)
        value = (between - within) / (between + (size - 1.0) * within)
    defined = (tasks > 1) & (n > tasks) & (e > 1e-9) & (e < n - 1e-9)
    return np.where(defined, value, np.nan)


class _Tasks(NamedTuple):
    """Sums of one truth by task, shape (tasks,): weights, weighted errors, cases, errors."""

    weight: np.ndarray
    wrong: np.ndarray
    n: np.ndarray
    errors: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        """Columns whose sums over tasks make the rate and its correlation, shape (tasks, 7)."""
        n, e = self.n, self.errors
        squares = np.divide(e**2, n, out=np.zeros(len(n)), where=n > 0)
        return np.stack([self.weight, self.wrong, (n > 0).astype(float), n, e, squares, n**2], axis=1)


def _tasks(code: np.ndarray, tasks: int, wrong: np.ndarray, weight: np.ndarray, of: np.ndarray) -> _Tasks:
    """Return the sums of the rows ``of``, whose tasks have the numbers ``code``."""
    code, wrong, weight = code[of], wrong[of], weight[of]
    return _Tasks(*(np.bincount(code, x, minlength=tasks) for x in (weight, weight * wrong, np.ones(len(code)), wrong)))


def _rate(
    by: _Tasks, weight: np.ndarray, confidence: float, bootstrap: Interval | None, icc_interval: Interval | None, clustered: bool
) -> Rate:
    """Return a rate from its sums by task and the weights of its cases."""
    n, k, tasks, total = int(by.n.sum()), int(by.errors.sum()), int((by.n > 0).sum()), float(by.weight.sum())
    if not total > 0:
        return Rate(n, k, None, tasks, None, None, None, Interval(0.0, 1.0), None, None, 1.0, 0.0, False)
    value = min(max(float(by.wrong.sum()) / total, 0.0), 1.0)
    independent = float(total**2 / (weight**2).sum())  # Kish's effective number
    plain = exact(value * independent, independent, confidence) if independent < n - 1e-9 else exact(k, n, confidence)
    repeated = clustered and n > tasks
    correlation = icc(by.n, by.errors) if repeated else None
    counted = repeated and (correlation is None or tasks < FEW or value in (0.0, 1.0))
    effective, wide = independent, None
    if counted:
        effective = min(independent, float(tasks))
    elif repeated and correlation is not None:
        size = float((by.n**2).sum() / n)
        effect = max(1.0, 1.0 + (size - 1.0) * correlation)
        effective = max(min(independent / effect * _freedom(n, tasks, confidence), independent), 1.0)
    if repeated:
        wide = exact(value * effective, effective, confidence)
    bootstrap = bootstrap if clustered and tasks >= FEW and value not in (0.0, 1.0) else None
    ends = [interval for interval in (plain, bootstrap, wide) if interval is not None]
    used = Interval(min(i.low for i in ends), max(i.high for i in ends))
    return Rate(n, k, value, tasks, plain, bootstrap, wide, used, correlation, icc_interval, n / effective, effective, counted)


def _freedom(n: int, tasks: int, confidence: float) -> float:
    """Return the factor of Korn and Graubard for a design effect measured on so many tasks, below 1."""
    from scipy.stats import t

    tail = (1.0 - confidence) / 2.0
    return float((t.isf(tail, n - 1) / t.isf(tail, tasks - 1)) ** 2)


# ---------------------------------------------------------------- both


def measured(cases: Cases, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0) -> Rates:
    """Return the error rates of one judge from its verdicts.

    Parameters
    ----------
    cases
        Of one judge, with verdicts.
    confidence
        Of the intervals, both sides together.
    resamples
        Of the bootstrap, fewer where tasks are very many and weighted; none if 0.
    seed
        Of the bootstrap: the same cases give the same intervals.
    """
    assert cases.verdict is not None, "scores alone have no rates"
    _, code = np.unique(cases.task, return_inverse=True)
    tasks = int(code.max()) + 1 if len(code) else 0
    fails, passes = ~cases.truth, cases.truth
    both = [_tasks(code, tasks, wrong, cases.weight, of) for wrong, of in ((cases.verdict, fails), (~cases.verdict, passes))]
    drawn = _resampled(both, resamples, seed) if cases.clustered and resamples and tasks else np.empty((0, 14))
    intervals = [_percentiles(_share(drawn[:, 7 * i : 7 * i + 7]), confidence) for i in (0, 1)]
    correlations = [_percentiles(_icc(drawn[:, 7 * i + 2 : 7 * i + 7]), confidence) for i in (0, 1)]
    rho_fp, rho_pf = (
        _rate(by, cases.weight[of], confidence, interval, correlation, cases.clustered)
        for by, of, interval, correlation in zip(both, (fails, passes), intervals, correlations, strict=True)
    )
    kappa = None if rho_fp.value is None or rho_pf.value is None else 1.0 - rho_fp.value - rho_pf.value
    by_task = _percentiles(1.0 - _share(drawn[:, :7]) - _share(drawn[:, 7:]), confidence) if rho_fp.bootstrap and rho_pf.bootstrap else None
    return Rates(rho_fp, rho_pf, kappa, _kappa_interval(rho_fp, rho_pf, by_task), len(drawn))


def _resampled(both: list[_Tasks], resamples: int, seed: int) -> np.ndarray:
    """Return the sums of both truths over resampled tasks, shape (resamples, 14).

    Tasks that are alike are drawn together: how often a kind comes is multinomial. So many independent rows are two kinds or four.
    """
    kinds, counts = np.unique(np.concatenate([by.columns for by in both], axis=1), axis=0, return_counts=True)
    tasks, rng = int(counts.sum()), np.random.default_rng(seed)
    by_kind = 2 * len(kinds) < tasks  # a binomial costs about two draws
    number = int(min(resamples, max(LEAST_RESAMPLES, WORK / min(2 * len(kinds), tasks))))
    step = max(1, CELLS // tasks)
    kind = np.repeat(np.arange(len(kinds)), counts)
    sums = []
    for i in range(0, number, step):
        size = min(step, number - i)
        if by_kind:
            drawn = rng.multinomial(tasks, counts / tasks, size)
        else:
            places = kind[rng.integers(tasks, size=(size, tasks))] + len(kinds) * np.arange(size)[:, None]
            drawn = np.bincount(places.ravel(), minlength=size * len(kinds)).reshape(size, len(kinds))
        sums.append(drawn @ kinds)
    return np.concatenate(sums)


def _share(sums: np.ndarray) -> np.ndarray:
    """Return weighted rates from sums over tasks; nan where a resample has no such case."""
    return np.divide(sums[:, 1], sums[:, 0], out=np.full(len(sums), np.nan), where=sums[:, 0] > 0)


def _percentiles(values: np.ndarray, confidence: float) -> Interval | None:
    """Return the interval between percentiles; None where too many values are undefined, or all are alike."""
    known = values[np.isfinite(values)]
    if len(known) < max(2, (1.0 - SPARSE) * len(values)) or np.ptp(known) < 1e-12:
        return None
    low, high = np.quantile(known, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    return Interval(float(low), float(high))


def _kappa_interval(rho_fp: Rate, rho_pf: Rate, by_task: Interval | None) -> Interval | None:
    """Return the interval of 1 - rho_fp - rho_pf from those of the two rates (Zou and Donner 2008), or the bootstrap's where wider."""
    if rho_fp.value is None or rho_pf.value is None:
        return None
    value, rates = 1.0 - rho_fp.value - rho_pf.value, ((rho_fp.value, rho_fp.used), (rho_pf.value, rho_pf.used))
    low = value - sum((used.high - x) ** 2 for x, used in rates) ** 0.5
    high = value + sum((x - used.low) ** 2 for x, used in rates) ** 0.5
    if by_task is not None:
        low, high = min(low, by_task.low), max(high, by_task.high)
    return Interval(max(low, -1.0), min(high, 1.0))


# ---------------------------------------------------------------- by class


class Group(NamedTuple):
    """Cases of one class and one truth.

    Attributes
    ----------
    cls, truth
        Which. The class is "" where none is given.
    flagged
        How many the judge fails.
    rate
        Of errors: of passes among true fails, of fails among true passes.
    """

    cls: str
    truth: bool
    flagged: int
    rate: Rate


def by_class(cases: Cases, confidence: float = 0.95) -> list[Group]:
    """Return the rates of each class of true fails, then of true passes, in the order in which classes come.

    Intervals are the exact and the clustered ones: classes are small.
    """
    assert cases.verdict is not None, "scores alone have no rates"
    found = []
    for truth in (False, True):
        for cls in dict.fromkeys(cases.cls[cases.truth == truth].tolist()):
            part = cases.of((cases.truth == truth) & (cases.cls == cls))
            assert part.verdict is not None
            rates = measured(part, confidence, resamples=0)
            found.append(Group(cls, truth, int((~part.verdict).sum()), rates.rho_pf if truth else rates.rho_fp))
    return found
