"""Every result variable, declared once: what a run records, in which unit, and how a figure labels it.

A run records whole numbers only: the metrics and the series below. A sweep adds them up (:class:`Moments`), and the
variables are read off those sums with the scale that turns a whole number into the named unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# What one run records, in this order. Evals are in 2^-20 pass rate; tail and first are sums over the window.
METRICS: Final = (
    "tail_eval",
    "first_eval",
    "peak_eval",
    "floor_eval",
    "lift",
    "rolling_gain",
    "tail_sampled",
    "first_sampled",
    "peak_sampled",
    "synthesised",
    "retired",
    "evicted",
    "deprecated",
    "rollbacks",
    "restored",
    "dropped",
    "flips",
    "observed_failures",
    "hidden_failures",
    "phantom_failures",
    "routed",
    "active_final",
    "harmful_final",
    "wrongly_retired",
    "retire_trials",
    "retire_trials_x_retired",
)
METRIC: Final = {name: i for i, name in enumerate(METRICS)}

# What one run records per round, in this order.
SERIES: Final = ("eval", "active", "retired", "evicted", "synthesised", "observed_failures")

# Sums kept per metric, over runs: of the value x and of d = x - (x in the baseline cell), with squares split into high
# and low 32 bits, so that they stay exact in int64 for any number of runs below 2^31.
METRIC_SUMS: Final = ("x", "xx_high", "xx_low", "d", "dd_high", "dd_low")
SERIES_SUMS: Final = ("x", "xx_high", "xx_low")

# Runs that retired 0, 1, 2, ... skills; the last bin holds this many or more.
HISTOGRAM_BINS: Final = 64


@dataclass(frozen=True)
class Variable:
    """One column of the results.

    Parameters
    ----------
    name, long_name, units
        As stored and plotted.
    scale
        What one unit of the recorded whole number is worth, by name (:func:`sim.sums.scale`).
    metric
        The metric it is read from, when that has another name.
    paired
        Whether it is the difference to the baseline cell, run by run.
    """

    name: str
    long_name: str
    units: str
    scale: str
    metric: str = ""
    paired: bool = False

    @property
    def source(self) -> str:
        """The metric this is read from."""
        return self.metric or self.name


VARIABLES: Final = {
    v.name: v
    for v in (
        Variable("tail_eval", "eval of the last rounds", "pass rate", "window"),
        Variable("first_eval", "eval of the first rounds", "pass rate", "window"),
        Variable("peak_eval", "eval of the best round", "pass rate", "eval"),
        Variable("floor_eval", "eval with no skill", "pass rate", "eval"),
        Variable("delta_clean", "eval of the last rounds, against a perfect judge", "pass rate", "window", metric="tail_eval", paired=True),
        Variable("lift", "eval of the last rounds, against no skill", "pass rate", "window"),
        Variable("rolling_gain", "eval of the last rounds, against the first", "pass rate", "window"),
        Variable("tail_sampled", "tail eval, one attempt per task", "pass rate", "window_sampled"),
        Variable("first_sampled", "first eval, one attempt per task", "pass rate", "window_sampled"),
        Variable("peak_sampled", "best round, one attempt per task", "pass rate", "sampled"),
        Variable("synthesised", "skills written", "skills per run", "one"),
        Variable("retired", "skills retired", "skills per run", "one"),
        Variable("evicted", "skills evicted from a full shelf", "skills per run", "one"),
        Variable("deprecated", "skills retired or evicted", "skills per run", "one"),
        Variable("rollbacks", "rollbacks", "per run", "one"),
        Variable("restored", "skills put back by rollbacks", "skills per run", "one"),
        Variable("dropped", "skills removed by rollbacks", "skills per run", "one"),
        Variable("divergence", "labels flipped", "fraction of train trials", "per_trial", metric="flips"),
        Variable("observed_failures", "observed failures", "per round", "per_round"),
        Variable("hidden_failures", "failures observed as passes", "per round", "per_round"),
        Variable("phantom_failures", "passes observed as failures", "per round", "per_round"),
        Variable("routed", "trials with a skill", "fraction of train trials", "per_trial"),
        Variable("active_final", "skills on the shelf at the end", "skills", "one"),
        Variable("harmful_final", "of these, with a negative on-topic effect", "skills", "one"),
        Variable("wrongly_retired", "skills retired though their on-topic effect is positive", "skills per run", "one"),
        Variable("retire_trials", "trials of a skill when retired", "trials", "one"),
    )
}

SERIES_VARIABLES: Final = {
    v.name: v
    for v in (
        Variable("eval_by_round", "eval", "pass rate", "eval", metric="eval"),
        Variable("active_by_round", "skills on the shelf", "skills", "one", metric="active"),
        Variable("retired_by_round", "skills retired", "skills per round", "one", metric="retired"),
        Variable("evicted_by_round", "skills evicted", "skills per round", "one", metric="evicted"),
        Variable("synthesised_by_round", "skills written", "skills per round", "one", metric="synthesised"),
        Variable("observed_failures_by_round", "observed failures", "per round", "one", metric="observed_failures"),
    )
}

SUFFIXES: Final = ("", "_sd", "_se")  # mean, standard deviation of a run, standard error of the mean

# Names that an axis cannot have: a store uses them.
RESERVED: Final = frozenset(
    [v + suffix for v in (*VARIABLES, *SERIES_VARIABLES) for suffix in SUFFIXES]
    + ["runs", "retired_histogram", "round", "retired_count", "lane", "sum", "tiles", "zarr.json"]
)
