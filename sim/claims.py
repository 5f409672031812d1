"""The questions that ``python -m sim.power`` is asked: two conditions, a world, a metric; and what the papers reported."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sim.errors import InputError
from sim.variables import VARIABLES

if TYPE_CHECKING:
    from sim.config import Settings
    from sim.model import Cell, Channel

WORLDS: Final = ("report_main_71", "report_band_58", "report_hard_133", "mbpp_hard100")
CONDITIONS: Final = ("noise:0.1", "noise:0.2", "noise:0.3", "noise:0.4", "bias:0.2", "bias:0.45", "bias:0.7", "strict_judge")
ASKED: Final = ("retired", "synthesised", "evicted", "tail_sampled", "tail_eval")

# What one run gives a number for: not differences to a baseline, nor means over the skills of all runs.
METRICS: Final = tuple(v.name for v in VARIABLES.values() if not v.paired and v.name != "retire_trials")
# Pass rates on the eval tasks: where all seeds share their tasks, they are taken against the eval with no skill.
EVALS: Final = ("tail_eval", "first_eval", "peak_eval", "tail_sampled", "first_sampled", "peak_sampled")

PAPER_SEEDS: Final = 3
# Differences to the clean loop in BC, by world, condition, metric; counts are the condition's minus the clean loop's. Section 6
# gives the eval under noise as a range "as rho grows": its ends.
REPORTED: Final[Mapping[tuple[str, str, str], tuple[float, str]]] = {
    ("report_main_71", "noise:0.1", "tail_sampled"): (0.018, "BC section 6"),
    ("report_main_71", "noise:0.4", "tail_sampled"): (0.060, "BC section 6"),
    ("report_main_71", "bias:0.2", "tail_sampled"): (-0.021, "BC section 6"),
    ("report_main_71", "bias:0.45", "tail_sampled"): (-0.065, "BC section 6"),
    ("report_main_71", "bias:0.7", "tail_sampled"): (0.039, "BC section 6"),
    ("report_main_71", "strict_judge", "tail_sampled"): (0.024, "BC section 6"),
    ("report_main_71", "bias:0.2", "retired"): (-1.3, "BC section 6: 0 and 1.3"),
    ("report_main_71", "bias:0.45", "retired"): (-1.0, "BC section 6: 0.3 and 1.3"),
    ("report_main_71", "bias:0.7", "retired"): (-1.3, "BC section 6: 0 and 1.3"),
    ("report_main_71", "strict_judge", "retired"): (9.0, "BC section 6: 10.3 and 1.3"),
    ("report_main_71", "bias:0.2", "synthesised"): (-2.3, "BC section 6: 19.7 and 22"),
    ("report_main_71", "bias:0.45", "synthesised"): (-6.3, "BC section 6: 15.7 and 22"),
    ("report_main_71", "bias:0.7", "synthesised"): (-7.0, "BC section 6: 15.0 and 22"),
    ("report_band_58", "bias:0.45", "retired"): (-7.0, "BC section 7: 0 and about 7"),
    ("report_band_58", "bias:0.7", "synthesised"): (-9.0, "BC section 8: 11 and 20"),
    ("report_band_58", "bias:0.7", "tail_sampled"): (-0.036, "BC section 8"),
}

MAX_CONDITIONS: Final = 64
MAX_ROWS: Final = 2000


@dataclass(frozen=True)
class Questions:
    """What is asked; the defaults are the papers' main claims.

    Lists are compared in all combinations. ``extra`` are keys of ``python -m sim``.
    """

    a: tuple[str, ...] = ("clean",)
    b: tuple[str, ...] = CONDITIONS
    world: tuple[str, ...] = WORLDS
    metric: tuple[str, ...] = ASKED
    seeds: tuple[int, ...] = (3,)
    power: float = 0.8
    alpha: float = 0.05
    runs: int = 10_000
    tasks: str = "same"
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.metric:
            if name not in METRICS:
                near = difflib.get_close_matches(name, METRICS, n=1)
                near = {"delta_clean": ["tail_eval"]}.get(name, near)
                expected = "a metric that a run has by itself: " + ", ".join(METRICS)
                raise InputError("metric", repr(name), expected, f"perhaps {near[0]}" if near else "")
        for seeds in self.seeds:
            if not 2 <= seeds <= 200:
                raise InputError("seeds", seeds, "a whole number from 2 to 200")
        for name in ("power", "alpha"):
            if not 1e-6 <= getattr(self, name) <= 1 - 1e-6:
                raise InputError(name, getattr(self, name), "a number from 0.000001 to 0.999999")
        if not 100 <= self.runs <= 1_000_000:
            raise InputError("runs", self.runs, "a whole number from 100 to 1000000")
        if self.tasks not in ("same", "fresh"):
            raise InputError("tasks", repr(self.tasks), "same or fresh")


KEYS: Final = {item.name: item for item in dataclasses.fields(Questions) if item.name != "extra"}
LISTS: Final = ("a", "b", "world", "metric", "seeds")
OVERRIDES: Final = ("policy", "seed", "engine.threads")


def read(args: Sequence[str]) -> Questions:
    """Read ``key=value`` arguments.

    Raises
    ------
    InputError
        A key is unknown or given twice, or a value is not what it should be.
    """
    given: dict[str, Any] = {}
    extra: dict[str, str] = {}
    for arg in args:
        key, equals, text = arg.partition("=")
        if not equals:
            raise InputError(arg or "''", "an argument without =", "key=value", "see python -m sim.power --help")
        if not text.strip():
            raise InputError(key, "nothing", "a value")
        if key in given or key in extra:
            raise InputError(key, f"a second value, {text}", "one value", f"several make a table: '{key}=[..., ...]'")
        if key in KEYS:
            given[key] = _value(key, text)
        elif key in OVERRIDES or key.startswith(("world.", "policy.", "channel.")):
            if key in ("channel.rho_fp", "channel.rho_pf"):
                raise InputError(key, text, "none: conditions set it", "use b=bias:0.3, or b=0.3/0.1 for both rates")
            extra[key] = arg
        else:
            near = {"channel": ["b"]}.get(key) or difflib.get_close_matches(key, [*KEYS, *OVERRIDES], n=2)
            raise InputError(key, "an unknown key", " or ".join(near) or "one listed by python -m sim.power --help")
    return Questions(**given, extra=tuple(extra.values()))


def _value(key: str, text: str) -> Any:
    text = text.strip()
    listed = text.startswith("[") and text.endswith("]")
    if listed and key not in LISTS:
        raise InputError(key, text, "one value")
    parts = [part.strip().strip("'\"") for part in (text[1:-1].split(",") if listed else [text])]
    if not all(parts):
        raise InputError(key, text, "values separated by commas" if listed else "a value")
    if len(set(parts)) < len(parts):
        raise InputError(key, text, "each value once")
    kind = {"seeds": int, "runs": int, "power": float, "alpha": float}.get(key, str)
    values = tuple(part if kind is str else _number(key, part, kind) for part in parts)
    return values if key in LISTS else values[0]


def _number(key: str, text: str, kind: type) -> Any:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (kind is int and not number.is_integer()):
        raise InputError(key, repr(text), "a whole number" if kind is int else "a number")
    return kind(number)


# ---------------------------------------------------------------- conditions


def condition(text: str, presets: Mapping[str, Channel]) -> tuple[str, Channel]:
    """Return the name and the channel of a condition: NAME, noise:RATE, bias:RATE or RHO_FP/RHO_PF.

    Parameters
    ----------
    text
        As written.
    presets
        Channels by the name of their preset.

    Raises
    ------
    InputError
        It is none of these, or a rate is out of bounds.
    """
    name, colon, rate = text.partition(":")
    if "/" in text:
        rates = [_rate(text, part) for part in text.split("/", 1)]
        return f"{rates[0]:g}/{rates[1]:g}", replace(presets["clean"], rho_fp=rates[0], rho_pf=rates[1])
    if name not in presets or (colon and name not in ("noise", "bias")):
        expected = "noise:RATE, bias:RATE, two rates RHO_FP/RHO_PF, or one of " + ", ".join(presets)
        raise InputError("condition", repr(text), expected)
    channel = presets[name]
    if colon:
        channel = replace(channel, rho_fp=_rate(text, rate))
        channel = replace(channel, rho_pf=channel.rho_fp) if name == "noise" else channel
    return f"{name}:{channel.rho_fp:g}" if name in ("noise", "bias") else name, channel


def _rate(text: str, part: str) -> float:
    try:
        rate = float(part)
    except ValueError:
        rate = math.nan
    if not 0 <= rate <= 1:
        raise InputError("condition", repr(text), "rates from 0 to 1")
    return rate


def channels(asked: Questions, more: Path | None) -> dict[str, tuple[str, Channel]]:
    """Return, for each condition as written, its name and its channel.

    Raises
    ------
    InputError
        A condition is not one, or there are too many.
    """
    from sim.config import groups, load

    own = [o for o in asked.extra if o.startswith("channel.")]
    texts = dict.fromkeys([*asked.a, *asked.b])
    if len(texts) > MAX_CONDITIONS:
        raise InputError("conditions", len(texts), f"at most {MAX_CONDITIONS}")
    names = list(groups(more)["channel"])
    # only what is asked for is read from files: each takes hydra some time
    wanted = {"clean"} | {name for text in texts if (name := text.partition(":")[0]) in names}
    presets = {name: load([f"channel={name}", *own], more).sweep.cell(()).channel if name in wanted else None for name in names}
    return {text: condition(text, presets) for text in texts}  # type: ignore[arg-type]


def settings(asked: Questions, world: str, more: Path | None) -> tuple[Settings, Cell]:
    """Return the settings for a world, and its cell under a clean judge.

    Raises
    ------
    InputError
        There is no such world, or a key cannot be used.
    """
    from sim.config import load

    sampled = any(name.endswith("sampled") for name in asked.metric)
    given = any(o.startswith("policy.sampled_eval=") for o in asked.extra)
    own = [o for o in asked.extra if not o.startswith("channel.")] + ["policy.sampled_eval=true"] * (sampled and not given)
    found = load([f"world={world}", *own], more)
    cell = found.sweep.cell(())
    if sampled and not (cell.policy.sampled_eval or cell.policy.rollback.on):
        name = next(name for name in asked.metric if name.endswith("sampled"))
        raise InputError("policy.sampled_eval", "false", f"true, for the metric {name}")
    return found, cell
