"""What a paired lift says: numbers, a page of text, a figure. It reads attempts and asks nobody."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from real_loop.paired import EXACT, holm, lift
from real_loop.suites import violations_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PASSED: Final = "passed"  # reason of a grade that passed
LEVEL: Final = 0.05
NAMES: Final = {"library": "with the library", "withheld": "no skill", "against": "with the other library"}
NAMED: Final = 60  # tasks whose names can be read in the figure


@dataclass(frozen=True)
class Outcome:
    """One attempt. ``passed`` is None where the prompt was too long; ``violations`` where the suite does not count them."""

    passed: bool | None
    skill: int | None
    reason: str
    violations: tuple[str, ...] | None


Attempts: TypeAlias = Mapping[str, Mapping[str, Sequence[Outcome]]]  # by arm, the library's first: by task, the repeats


def outcome(row: Any, counts: bool) -> Outcome:
    """Return what a capsule of ``lift.sqlite`` says; ``counts``: whether its suite counts violations."""
    violations = tuple(violations_of(row["reason"]).elements()) if counts and row["passed"] is not None else None
    return Outcome(None if row["passed"] is None else bool(row["passed"]), row["skill"], row["reason"], violations)


def report(attempts: Attempts, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the comparison in numbers, fit for JSON.

    Parameters
    ----------
    attempts
        Two arms. A repeat counts where both have an outcome; a task without such a repeat is left out.
    about
        What was asked for: goes to the front as it is.

    Returns
    -------
    dict
        ``pass`` and ``violations`` (null where the suite counts none) hold a :class:`real_loop.paired.Lift` each, positive where the
        library is better. ``classes`` has one per class of violation (a mean count per attempt) or, for suites that count none, per
        reason of failing (share of attempts), with ``p_holm``: corrected for their number. ``by_task`` has the means of each task.
    """
    first, second = attempts
    kept = {
        task: [(a, b) for a, b in zip(attempts[first][task], attempts[second][task], strict=True) if None not in (a.passed, b.passed)]
        for task in attempts[first]
    }
    pairs = {task: found for task, found in kept.items() if found}
    void = sum(len(attempts[first][task]) - len(found) for task, found in kept.items())
    counts = all(o.violations is not None for found in pairs.values() for pair in found for o in pair)
    out: dict[str, Any] = {**about, "arms": [first, second], "void": void, "left_out": [t for t in kept if t not in pairs], "n": len(pairs)}

    def means(score: Callable[[Outcome], float]) -> tuple[list[float], list[float]]:
        a, b = ([float(np.mean([score(pair[k]) for pair in found])) for found in pairs.values()] for k in (0, 1))
        return a, b

    def compared(score: Callable[[Outcome], float], less: bool) -> dict[str, Any]:
        return asdict(lift(*means(score), less))

    out["routed"] = {arm: _share(attempts[arm], lambda o: o.skill is not None) for arm in (first, second) if arm != "withheld"}
    out["used"] = {arm: len({o.skill for found in attempts[arm].values() for o in found} - {None}) for arm in out["routed"]}
    if not pairs:
        return {**out, "pass": None, "violations": None, "kind": None, "classes": [], "by_task": []}
    out["pass"] = compared(lambda o: float(bool(o.passed)), False)
    out["violations"] = compared(lambda o: float(len(o.violations or ())), True) if counts else None
    out["kind"] = "violations" if counts else "reasons"
    flat = [o for found in pairs.values() for pair in found for o in pair]
    names = sorted({name for o in flat for name in (o.violations or () if counts else {o.reason} - {PASSED})})
    rows = []
    for name in names:
        score = (lambda o, n=name: float((o.violations or ()).count(n))) if counts else (lambda o, n=name: float(o.reason == n))
        rows.append({"class": name, **compared(score, True)})
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = p
    out["classes"] = rows
    a, b = means(lambda o: float(len(o.violations or ())) if counts else float(bool(o.passed)))
    out["by_task"] = [
        {"task": task, first: x, second: y, "repeats": len(found), "routed": float(np.mean([pair[0].skill is not None for pair in found]))}
        for (task, found), x, y in zip(pairs.items(), a, b, strict=True)
    ]
    return out


def _share(arm: Mapping[str, Sequence[Outcome]], says: Callable[[Outcome], bool]) -> float:
    return float(np.mean([says(o) for found in arm.values() for o in found]))


def write(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Write report.json and the figure; return the files.

    Raises
    ------
    InputError
        They cannot be written.
    """
    from sim.figures import style

    files = [style.replace(out / "report.json", (json.dumps(found, indent=1) + "\n").encode())]
    if found["n"]:
        with style.context():
            files += style.save(draw(found), out, "lift")
    return files


# ---------------------------------------------------------------- on the terminal


def say(found: Mapping[str, Any]) -> None:
    """Print the comparison."""
    from real_loop.words import console, shown, table

    first, second = found["arms"]
    out = console()
    out.print(shown(_title(found)))
    for words in _notes(found):
        out.print(shown(words), soft_wrap=True)
    if not found["n"]:
        return
    columns = ("", NAMES[first], NAMES[second], "difference", "95 %", "better", "same", "worse", "p")
    rows = [_row(_unit(name), found[name]) for name in ("pass", "violations") if found[name]]
    out.print()
    out.print(table(columns, rows, left=("",)))
    out.print(f"positive: {NAMES[first]} it is better. p: Wilcoxon's signed ranks, two-sided, {_how(found)}")
    if found["classes"]:
        what = "class of violation" if found["kind"] == "violations" else "reason of failing"
        rows = [[*_row(row["class"], row), f"{row['p_holm']:.3g}"] for row in found["classes"]]
        out.print()
        out.print(table((what, *columns[1:], "p (Holm)"), rows, left=(what,)))
        per = "violations" if found["kind"] == "violations" else "share"
        out.print(f"{per} per attempt; p (Holm): corrected for {len(rows)} of them")


def _title(found: Mapping[str, Any]) -> str:
    ended, rounds = found["rounds"]
    over = "" if ended == rounds else f" ({ended} of {rounds} rounds)"
    against = f" against {found['against']}" if found["against"] else ""
    return f"{found['log']}{over}{against}: {found['n']} tasks ({found['tasks']}), {found['repeats']} repeats in each arm"


def _notes(found: Mapping[str, Any]) -> list[str]:
    words = []
    sizes = dict(zip(found["arms"], found["skills"], strict=True))
    for arm, share in found["routed"].items():
        words.append(f"{NAMES[arm]}: {sizes[arm]} skills; {share:.0%} of attempts got one, {found['used'][arm]} of them in use")
    if found["tasks"] == "all":
        words.append("with the train tasks, from whose failures the skills were written: not held out")
    if found["void"]:
        words.append(f"{found['void']} pairs are left out, since a prompt was longer than the model's context")
    if found["left_out"]:
        words.append(f"tasks of which no pair is left: {', '.join(found['left_out'][:5])}{' ...' if len(found['left_out']) > 5 else ''}")
    return words if found["n"] else [*words, "no task is left to compare"]


def _unit(name: str) -> str:
    return "pass rate" if name == "pass" else "violations per attempt"


def _row(name: str, one: Mapping[str, Any]) -> list[str]:
    ends = "-" if one["low"] is None else f"[{one['low']:+z.3f}, {one['high']:+z.3f}]"
    same = one["n"] - one["better"] - one["worse"]
    numbers = [f"{one['first']:.3f}", f"{one['second']:.3f}", f"{one['mean']:+z.3f}", ends]
    return [name, *numbers, *(str(n) for n in (one["better"], same, one["worse"])), f"{one['p']:.3g}"]


def _how(found: Mapping[str, Any]) -> str:
    one = found["violations"] or found["pass"]
    zeros = one["n"] - one["better"] - one["worse"]
    exact = "exact" if one["exact"] else f"normal approximation (more than {EXACT} differences)"
    return f"{exact}; {zeros} of {one['n']} differences are zero and left out of it"


# ---------------------------------------------------------------- as a figure


def draw(found: Mapping[str, Any]) -> Figure:
    """Draw the tasks as pairs of dots, those the library helps most on top, and beside them the classes of what is wrong."""
    from sim.figures import style

    first, second = found["arms"]
    counted = found["violations"] is not None
    main = found["violations" if counted else "pass"]
    unit = _unit("violations" if counted else "pass")
    gained = f"fewer {unit}" if counted else f"in {unit}"
    height = float(np.clip(0.6 + 0.17 * found["n"], 3.2, 9.0))
    ends = "" if main["low"] is None else f" [{main['low']:+z.3f}, {main['high']:+z.3f}]"
    colours = {first: style.COLOURS[0], second: style.COLOURS[1]}
    from matplotlib.lines import Line2D

    ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 1.2, "markersize": 6.5}
    handles = [
        Line2D([], [], color=colours[arm], marker="o", linestyle="", label=NAMES[arm], **look)
        for arm, look in ((second, ring), (first, dict[str, Any]()))
    ]
    title = f"paired lift: {main['mean']:+z.3f}{ends} {gained}, p = {main['p']:.2g}"
    caption = "Left: means over repeats of each task, ring over dot where equal; those that get better on top. "
    caption += "Brackets: 95 % bootstrap over tasks. "
    caption += f"Difference positive where {NAMES[first]} it is better. p: Wilcoxon's signed ranks, {_how(found)}. "
    caption += "Right: bars are means in either arm, numbers p corrected for the number of classes (Holm)."
    under = f"{found['n']} tasks ({found['tasks']}), {found['repeats']} repeats"
    figure, panels = style.page(1, 2, height, title, under, caption, legend=handles, sharex=False)
    left, right = panels[0]
    _pairs(left, found, colours, counted)
    left.set_xlabel(unit)
    _classes(right, found, colours)
    return figure


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isprintable()).replace("$", r"\$")


def _pairs(ax: Axes, found: Mapping[str, Any], colours: Mapping[str, str], less: bool) -> None:
    from sim.figures import style

    first, second = found["arms"]
    sign = -1 if less else 1
    rows = sorted(found["by_task"], key=lambda row: (-sign * (row[first] - row[second]), row["task"]))
    for y, row in enumerate(rows):
        ax.plot((row[second], row[first]), (y, y), color="#bbbbbb", linewidth=1.2, zorder=1)
    places = np.arange(len(rows))
    ax.plot([row[first] for row in rows], places, "o", color=colours[first], markersize=4.5, zorder=2, clip_on=False)
    ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": colours[second], "markeredgewidth": 1.2, "markersize": 6.5}
    ax.plot([row[second] for row in rows], places, "o", zorder=3, clip_on=False, **ring)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    if len(rows) <= NAMED:
        ax.set_yticks(places, [_plain(row["task"])[:28] for row in rows], fontsize=6.5)
    else:
        ax.set_yticks([])
        ax.set_ylabel("tasks")
    if less:
        ax.set_xlim(left=0)
    else:
        ax.set_xlim(-0.02, 1.02)
    ax.grid(True, axis="x")
    ax.set_title("task by task", loc="left", color=style.INK)


def _classes(ax: Axes, found: Mapping[str, Any], colours: Mapping[str, str]) -> None:
    first, second = found["arms"]
    rows = sorted(found["classes"], key=lambda row: -max(row["first"], row["second"]))
    if not rows:
        ax.set_axis_off()
        ax.text(0, 0.98, "nothing failed in either arm", fontsize=9, va="top")
        return
    for k, (arm, name) in enumerate(((second, "second"), (first, "first"))):
        ax.barh(np.arange(len(rows)) + 0.19 * (2 * k - 1), [row[name] for row in rows], 0.36, color=colours[arm])
    far = max(max(row["first"], row["second"]) for row in rows) or 1.0
    for y, row in enumerate(rows):
        weight = "bold" if row["p_holm"] < LEVEL else "normal"
        words = f"{row['mean']:+z.3f}, p {row['p_holm']:.2g}"
        ax.text(max(row["first"], row["second"]) + 0.02 * far, y, words, va="center", fontsize=7.5, fontweight=weight)
    ax.set_xlim(0, 1.5 * far)
    ax.set_yticks(range(len(rows)), [_plain(row["class"]) for row in rows], fontsize=8)
    ax.set_ylim(max(len(rows), 4) - 0.4, -0.6)
    ax.set_xlabel("violations per attempt" if found["kind"] == "violations" else "share of attempts that fail so")
    ax.set_title("classes of violations" if found["kind"] == "violations" else "reasons of failing", loc="left")
