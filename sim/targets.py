"""What papers report, as targets of a fit: a CSV file in, typed targets out.

A line gives a subset, a channel, a metric, a value, a tolerance and a source. A value is a number, a range (0.7-1.0) or a bound
(>=-0.125). A channel is ``clean``, ``bias:Q``, ``noise:R``, ``strict_judge``; ``noise:0.1-0.4``, which means at 0.1, 0.2, 0.3 and 0.4,
each; or ``any``, which means in each channel that other fitted targets of the subset name. RT's lines name an ablation
there (``A2 top_hit``). What can be read but not fitted says why.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sim.errors import InputError
from sim.model import Channel
from sim.variables import VARIABLES

COLUMNS: Final = ("subset", "channel", "metric", "value", "tolerance", "source")
BC_SUBSETS: Final = ("report_main_71", "report_band_58", "report_hard_133", "mbpp_hard100", "report_weak_71")
RT_SUBSET: Final = "mbpp_100"
SUBSETS: Final = (*BC_SUBSETS, RT_SUBSET)  # which can be fitted
AUDIT: Final = "audit"
OTHERS: Final = {
    "swe_v_150": "a run with another solver, of which two numbers are reported",
    AUDIT: "a measurement of judges, not of a library",
}
METRICS: Final = tuple(name for name, v in VARIABLES.items() if not v.scale.endswith("sampled"))
# RT's, and the variables that stand for them: its peaks are of sampled evals, and a mean is all that is kept of trials at retirement.
RT_METRICS: Final = {"round0_eval": "floor_eval", "peak_eval": "peak_sampled", "retire_trials_median": "retire_trials"}
ANY: Final = "any"
STEP: Final = 0.1  # between the rates of a range of channels

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_VALUE = re.compile(rf"(?:(?P<sign>>=|<=|>|<)\s*)?(?P<low>{_NUMBER})(?:-(?P<high>{_NUMBER}))?")
_CHANNEL = re.compile(r"(?P<kind>bias|noise):(?P<low>\d*\.?\d+)(?:-(?P<high>\d*\.?\d+))?")
_ABLATION = re.compile(r"A\d+ \S.*")


@dataclass(frozen=True)
class Target:
    """One line of a targets file.

    Parameters
    ----------
    subset, channel, metric, reported
        As written.
    low, high
        The value: equal for a number, one of them infinite for a bound.
    tolerance
        The unit of deviations; not a number where there is none.
    source
        Where it is reported.
    line
        Of the file.
    channels
        The channels meant, by name, when they do not depend on other targets.
    not_fitted
        Why not; empty if it is fitted.
    """

    subset: str
    channel: str
    metric: str
    reported: str
    low: float
    high: float
    tolerance: float
    source: str
    line: int
    channels: tuple[str, ...]
    not_fitted: str

    @property
    def variable(self) -> str:
        """The variable of a result that it is compared with."""
        return RT_METRICS.get(self.metric, self.metric) if self.subset not in BC_SUBSETS else self.metric

    @property
    def is_bound(self) -> bool:
        return math.isinf(self.low) or math.isinf(self.high)

    def deviation(self, value: float) -> float:
        """Return how many tolerances a value is above (+) or below (-) what is reported: 0 inside a range or bound."""
        return (max(value - self.high, 0.0) - max(self.low - value, 0.0)) / self.tolerance


def channel(name: str) -> Channel:
    """Return the rates of a channel that :func:`read_targets` names."""
    kind, _, rate = name.partition(":")
    if kind in ("bias", "noise"):
        return Channel(float(rate), float(rate) if kind == "noise" else 0.0)
    return {"clean": Channel(0.0, 0.0), "strict_judge": Channel(0.01, 0.95)}[kind]


def read_targets(path: Path) -> list[Target]:
    """Read a targets file.

    Raises
    ------
    InputError
        The file cannot be read or has no targets; or, with the line, a subset, channel or metric is unknown, a number is not one, a
        field is missing, or a target is there twice.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [field.strip() for field in fields]) for fields in reader if any(f.strip() for f in fields)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"targets={path}", f"a file that cannot be read ({why})", "a CSV file with a header") from None
    header = lines[0][1] if lines else []
    expected = ", ".join(COLUMNS)
    if len(lines) < 2:
        raise InputError(str(path), "no targets", f"the header {expected} and a line per target")
    if missing := [name for name in COLUMNS if name not in header]:
        raise InputError(f"{path}, line {lines[0][0]}", f"no column {missing[0]}", f"columns {expected}")
    if len(header) != len(COLUMNS):
        raise InputError(f"{path}, line {lines[0][0]}", f"{len(header)} columns", f"columns {expected}")
    targets: list[Target] = []
    seen: dict[tuple[str, str | tuple[str, ...], str], int] = {}
    for number, fields in lines[1:]:
        where = f"{path}, line {number}"
        if len(fields) != len(header):
            raise InputError(where, f"{len(fields)} fields", f"{len(header)}, as in the header")
        target = _target(where, number, dict(zip(header, fields, strict=True)))
        key = (target.subset, target.channels or target.channel, target.metric)
        if key in seen:
            raise InputError(where, f"the target of line {seen[key]} once more", "each target once")
        seen[key] = number
        targets.append(target)
    return [_with_tolerance(target, targets) for target in targets]


def _target(where: str, line: int, row: dict[str, str]) -> Target:
    subset, metric = row["subset"], row["metric"]
    if subset not in (*SUBSETS, *OTHERS):
        raise InputError(f"{where}, subset", repr(subset), "one of " + ", ".join((*SUBSETS, *OTHERS)))
    known = METRICS if subset in BC_SUBSETS else tuple(dict.fromkeys((*METRICS, *RT_METRICS)))
    if subset != AUDIT and metric not in known:
        raise InputError(f"{where}, metric", repr(metric), "one of " + ", ".join(known))
    low, high = _value(where, row["value"])
    return Target(
        subset=subset,
        channel=row["channel"],
        metric=metric,
        reported=row["value"],
        low=low,
        high=high,
        tolerance=_tolerance(where, row["tolerance"]),
        source=row["source"],
        line=line,
        channels=_channels(where, row["channel"], subset),
        not_fitted=OTHERS.get(subset, ""),
    )


def _channels(where: str, text: str, subset: str) -> tuple[str, ...]:
    """Return the channels that a text means, by name; none for ``any``, and for what is not fitted."""
    expected = "clean, bias:Q, noise:R, noise:R-R, strict_judge or any, with rates from 0 to 1"
    if text in ("clean", "strict_judge") or (subset == RT_SUBSET and _ABLATION.fullmatch(text)):
        return (text,)
    if text == ANY or (subset == AUDIT and text):
        return ()
    found = _CHANNEL.fullmatch(text)
    low = float(found["low"]) if found else math.inf
    high = float(found["high"] or low) if found else math.inf
    if found is None or not 0.0 <= low <= high <= 1.0:
        raise InputError(f"{where}, channel", repr(text), expected)
    steps = [low + i * STEP for i in range(math.ceil((high - low) / STEP - 1e-9))]
    return tuple(f"{found['kind']}:{rate:.6g}" for rate in (*steps, high))


def _value(where: str, text: str) -> tuple[float, float]:
    found = _VALUE.fullmatch(text)
    low = float(found["low"]) if found else math.nan
    high = float(found["high"] or low) if found else math.nan
    if found is None or not low <= high or not math.isfinite(high - low) or (found["sign"] and found["high"]):
        raise InputError(f"{where}, value", repr(text), "a number, a range such as 0.7-1.0 or a bound such as >=-0.125")
    if found["sign"]:
        return (low, math.inf) if found["sign"].startswith(">") else (-math.inf, low)
    return low, high


def _tolerance(where: str, text: str) -> float:
    if not text:
        return math.nan
    if not re.fullmatch(_NUMBER, text) or not 0 < float(text) < math.inf:
        raise InputError(f"{where}, tolerance", repr(text), "a number above 0, or nothing")
    return float(text)


def _with_tolerance(target: Target, targets: list[Target]) -> Target:
    """Give a bound without a tolerance the smallest one of its metric in its subset; what is left without is not fitted."""
    if target.not_fitted or not math.isnan(target.tolerance):
        return target
    same = [t.tolerance for t in targets if (t.subset, t.metric) == (target.subset, target.metric) and t.tolerance > 0]
    if target.is_bound and same:
        return replace(target, tolerance=min(same))
    return replace(target, not_fitted="no tolerance")
