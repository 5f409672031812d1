"""What replays of a log say: numbers, a page of text, a figure. It reads replays and plays none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from real_loop.history import History, Past
from real_loop.library import DROPPED, EVICTED, RETIRED
from real_loop.replay import CENSORED, Replay
from real_loop.worth import CONFIDENCE, Worth
from sim.lives import ON_SHELF, Stretch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOGGED: Final = "as logged"
DETAILED: Final = 6  # conditions whose skills are listed in the page
PANELS: Final = 4  # conditions that are drawn
NAMED: Final = 45  # skills whose names can be read in the figure
LONGEST: Final = 30  # letters of a name there
WHITE: Final[dict[str, Any]] = {"markerfacecolor": "white", "markeredgecolor": "#5f5f5f"}  # crosses of the log
STATE: Final = {ON_SHELF: "active", RETIRED: "retired", EVICTED: "evicted", DROPPED: "dropped", CENSORED: "censored"}
HELPS: Final = {True: "helps", False: "hurts", None: "?"}
USELESS: Final = "useless"
WRONG: Final = {True: "yes", False: "no", None: "?"}
COUNTS: Final = ("retired", "as logged", "wrong", "?", "evicted", "censored", "active")
COLUMNS: Final = ("sensor and policy", "hidden", "phantom", *COUNTS, "on the path", "as a run", "first other decision")
SKILLS: Final = ("skill", "name", "in the log", "replayed", "n", "net", "seen", "true", "without it", "difference", "worth", "wrong")
CAN: Final = """\
hidden, phantom: trials seen wrongly. retired, evicted: as replayed; as logged: those retired in the same round of the log; wrong: though
the skill helps; ?: retired, and the log cannot tell; censored: kept here up to where they left the log; active: at the end, here and there.
on the path: decisions before the step in which one first differs from the log's, of all. as a run: those of them before any failure is
seen otherwise, too, from which other skills would be written: so a run with this sensor and policy would have decided."""
CANNOT: Final = """\
Not said: what would have happened instead. Trials after a decision that differs are counterfactual: a skill retired here only would have
freed its tasks, one kept here only has no more trials (censored), another shelf is routed otherwise, other failures write other skills."""


def report(
    history: History, replays: Sequence[tuple[dict[str, Any], Replay]], worths: Mapping[int, Worth], probes: Path | None
) -> dict[str, Any]:
    """Return replays in numbers, fit for JSON.

    Parameters
    ----------
    history
        The log.
    replays
        What was asked for, and what came of it.
    worths
        What each skill is worth, by number.
    probes
        The file of probes that this goes by, too.

    Returns
    -------
    dict
        ``log``, ``settings`` (in words), ``rounds`` (played, of), ``known`` (whether worths are the truth of a scripted world),
        ``skills`` (worth of each), and ``conditions``: counts, decisions and the fate of each skill.
    """
    from real_loop.words import settings

    return {
        "log": str(history.path),
        "settings": settings(history.identity),
        "rounds": [history.ended, history.policy.rounds],
        "known": "world" in history.identity,
        "probes": None if probes is None else str(probes),
        "logged": {"retired": sum(s.how == RETIRED for past in history.skills.values() for s in past.stretches)},
        "skills": [_skill(past, worths[number]) for number, past in sorted(history.skills.items())],
        "conditions": [_condition(history, values, replay, worths) for values, replay in replays],
    }


def _skill(past: Past, worth: Worth) -> dict[str, Any]:
    s, known = past.skill, worth.n > 0
    return {
        "skill": s.number, "name": s.name, "cluster": s.cluster, "born": s.born, "worth": _worth(worth), "effect": worth.effect,
        "n": worth.n, "rate": worth.rate if known else None, "without": worth.without if known else None,
        "low": worth.low, "high": worth.high, "logged": [_stretch(stretch) for stretch in past.stretches],
    }  # fmt: skip


def _worth(worth: Worth) -> str:
    return USELESS if worth.effect == 0 else HELPS[worth.helps]


def _stretch(s: Stretch) -> dict[str, Any]:
    rates = {"seen": (1 + s.net / s.n) / 2, "true": s.passes / s.n} if s.n else {"seen": None, "true": None}
    return {"came": s.came, "left": s.left, "how": s.how, "n": s.n, "net": s.net, **rates}


def _condition(history: History, values: dict[str, Any], replay: Replay, worths: Mapping[int, Worth]) -> dict[str, Any]:
    retired, policy = replay.ended(RETIRED), replay.policy
    there = {(number, s.left) for number, past in history.skills.items() for s in past.stretches if s.how == RETIRED}
    wrong = [worths[number].helps for number, _ in retired]
    how = {name: len(replay.ended(name)) for name in (EVICTED, DROPPED, CENSORED)}
    return {
        "asked": values, "sensor": replay.sensor.name,
        "policy": {"tau": policy.tau, "n_min": policy.n_min, "cap": policy.cap, "curator": policy.curator},
        "trials": replay.sensor.trials, "silent": replay.sensor.silent, "hidden": replay.sensor.hidden, "phantom": replay.sensor.phantom,
        "retired": len(retired), "as_logged": sum((number, s.left) in there for number, s in retired),
        "wrong": wrong.count(True), "unknown": wrong.count(None), **how, "active": len(replay.ended(ON_SHELF)),
        "decisions": replay.decisions, "on_path": replay.on_path, "as_run": replay.as_run,
        "first": None if replay.first is None else {**vars(replay.first), "said": str(replay.first)},
        "seen_otherwise": None if replay.seen is None else replay.seen.round,
        "skills": [
            {"skill": number, "wrong": _wrong(found, worths[number]), "stretches": [_stretch(s) for s in found]}
            for number, found in sorted(replay.stretches.items())
        ],
    }  # fmt: skip


def _wrong(found: Sequence[Stretch], worth: Worth) -> str | None:
    """Return whether a retirement is wrong; None where there is none."""
    return WRONG[worth.helps] if any(s.how == RETIRED for s in found) else None


def write(found: Mapping[str, Any], out: Path, figures: bool) -> list[Path]:
    """Write replay.md, replay.json and a figure; return the files.

    Raises
    ------
    InputError
        They cannot be written.
    """
    from sim.figures import style

    files = [
        style.replace(out / "replay.md", _page(found).encode()),
        style.replace(out / "replay.json", (json.dumps(found, indent=1) + "\n").encode()),
    ]
    if figures and found["skills"]:
        with style.context():
            files += [file for file in style.save(draw(found), out, "replay") if file.suffix == ".png"]
    return files


# ---------------------------------------------------------------- as text


def say(found: Mapping[str, Any]) -> None:
    """Print replays: a row each; of one alone also its skills."""
    from real_loop.words import console, shown, table

    out, many = console(), found["conditions"]
    out.print(shown(found["log"]))
    for words in [*found["settings"], *_notes(found)]:
        out.print(f"  {shown(words)}", soft_wrap=True)
    out.print()
    columns, rows = _columns(found)
    out.print(table(columns, rows, left=(columns[0], columns[-1])))
    out.print(CAN)
    if len(many) == 1 and found["skills"]:
        out.print()
        out.print(table(SKILLS, _skills(found, many[0]), left=("name", "in the log", "replayed", "worth", "wrong")))
        out.print(_legend(found))
    out.print(CANNOT)


def label(condition: Mapping[str, Any]) -> str:
    """Return what was asked for, as it was asked."""
    return " ".join(f"{key}={value}" for key, value in condition["asked"].items()) or LOGGED


def _notes(found: Mapping[str, Any]) -> list[str]:
    ended, rounds = found["rounds"]
    words = [] if ended == rounds else [f"not over: {ended} of {rounds} rounds"]
    silent = next((c for c in found["conditions"] if c["silent"]), None)
    if silent:
        words.append(
            f"{silent['sensor']}: {silent['trials'] - silent['silent']} of {silent['trials']} trials have one; the others count nowhere"
        )
    if not found["skills"]:
        return [*words, "no skill was written"]
    return [*words, f"of {len(found['skills'])} skills of the log {found['logged']['retired']} were retired"]


def _columns(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the table of conditions, without columns that say nothing."""
    rows = [_row(condition) for condition in found["conditions"]]
    idle = [i for i, name in enumerate(COLUMNS) if name in ("?", "evicted") and all(row[i] == "0" for row in rows)]
    return [c for i, c in enumerate(COLUMNS) if i not in idle], [[c for i, c in enumerate(row) if i not in idle] for row in rows]


def _row(c: Mapping[str, Any]) -> list[str]:
    counts = [str(c[name]) for name in ("retired", "as_logged", "wrong", "unknown", EVICTED, CENSORED, "active")]
    share = f"{c['on_path']}/{c['decisions']}" + (f" ({c['on_path'] / c['decisions']:.0%})" if c["decisions"] else "")
    return [label(c), str(c["hidden"]), str(c["phantom"]), *counts, share, str(c["as_run"]), c["first"]["said"] if c["first"] else "none"]


def _skills(found: Mapping[str, Any], condition: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for skill, fate in zip(found["skills"], condition["skills"], strict=True):
        last = fate["stretches"][-1] if fate["stretches"] else None
        here = [str(last["n"]), f"{last['net']:+d}", _rate(last["seen"]), _rate(last["true"])] if last else ["-"] * 4
        difference = f"[{skill['low']:+.2f}, {skill['high']:+.2f}]" if skill["n"] else "-"
        worth = skill["worth"] if skill["effect"] is None else f"{skill['worth']} ({skill['effect']:+.2f})"
        rows.append([
            str(skill["skill"]), skill["name"], _said(skill["logged"]), _said(fate["stretches"]), *here, _rate(skill["without"]),
            difference, worth, fate["wrong"] or "",
        ])  # fmt: skip
    return rows


def _said(stretches: Sequence[Mapping[str, Any]]) -> str:
    """Return how a skill ended, and when; with more than one stretch, that it came back."""
    if not stretches:
        return "refused"
    last = stretches[-1]
    again = f" (back {len(stretches) - 1} x)" if len(stretches) > 1 else ""
    return STATE[last["how"]] + ("" if last["left"] is None else f" {last['left']}") + again


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _legend(found: Mapping[str, Any]) -> str:
    sources = "trials of the log without a skill" + (f" and the probes of {Path(found['probes']).name}" if found["probes"] else "")
    words = "in the log, replayed: how it ended, and the round; n, net, seen, true: as replayed, up to then. without it: "
    words += f"pass rate of the\nsame tasks without it, by {sources}; difference: what it adds, {CONFIDENCE:.0%} interval."
    scripted = "the effect on its topic (logit), which scripted roles tell" if found["known"] else "? where the interval includes zero"
    return f"{words}\nworth: {scripted}."


def _page(found: Mapping[str, Any]) -> str:
    """Return the page replay.md."""
    from real_loop.words import shown

    columns, rows = _columns(found)
    lines = ["# Replay", "", f"`{found['log']}`", "", *(f"- {shown(words)}" for words in [*found["settings"], *_notes(found)]), ""]
    lines += [*_markdown(columns, rows), "", CAN, "", CANNOT]
    for condition in found["conditions"][:DETAILED] if found["skills"] else []:
        lines += [
            "",
            f"## {label(condition)}",
            "",
            f"{condition['sensor']}; {_policy(condition)}",
            "",
            *_markdown(SKILLS, _skills(found, condition)),
        ]
    if found["skills"]:
        lines += ["", _legend(found)]
    if len(found["conditions"]) > DETAILED:
        lines += ["", f"The skills of {len(found['conditions']) - DETAILED} further conditions are in replay.json."]
    return "\n".join(lines) + "\n"


def _policy(condition: Mapping[str, Any]) -> str:
    p = condition["policy"]
    rule = "" if p["curator"] == "ratchet" else f", curator {p['curator']}"
    return f"tau = {p['tau']:g}, n_min = {p['n_min']}, cap = {p['cap']}{rule}"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    from real_loop.words import shown

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(" ".join(shown(cell).split()).replace("|", r"\|") for cell in cells) + " |"

    return [line(columns), "|" + "---|" * len(columns), *map(line, rows)]


# ---------------------------------------------------------------- as a figure


def draw(found: Mapping[str, Any]) -> Figure:
    """Draw the skills as bars over rounds: in grey when they were on the logged shelf, over it as replayed, a panel for each condition."""
    import numpy as np
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from sim.figures import style
    from sim.figures.axes import spread

    every, skills = found["conditions"], found["skills"]
    drawn = [every[i] for i in spread(len(every), PANELS)]
    ended = found["rounds"][0]
    end = max([ended, *(s["left"] + 1 for k in skills for s in k["logged"] if s["left"] is not None), 1])
    colours = {"helps": style.COLOURS[0], "hurts": style.COLOURS[1], "?": style.COLOURS[4], USELESS: style.GREY}
    caption = "Grey: on the shelf in the log. Bars over it: as replayed, by what the skill is worth; they end where the log ends. "
    caption += "Crosses: retirements, as replayed in black, in the log in white. Trials after a decision that differs are counterfactual."
    caption += " Dashed: the first that does." if any(c["first"] for c in drawn) else ""
    caption += f" {len(every) - len(drawn)} more in replay.json." if len(drawn) < len(every) else ""
    worth = "true effect" if found["known"] else f"by the log, {CONFIDENCE:.0%}"
    handles: list[Any] = [
        Patch(color=colour, label=f"{name if name != '?' else 'cannot tell'} ({worth})")
        for name, colour in colours.items()
        if any(k["worth"] == name for k in skills)
    ]
    handles += [
        Line2D([], [], color="#c9c9c9", linewidth=7, label="in the log"),
        Line2D([], [], linestyle="none", marker="X", color=style.INK, markersize=6, label="retired, replayed"),
        Line2D([], [], linestyle="none", marker="X", **WHITE, markersize=6, label="retired, logged"),
    ]
    height = float(np.clip(0.9 + 0.16 * len(skills), 2.6, 8.0))
    retired = ", ".join(str(c["retired"]) for c in drawn)
    title = f"replay: {found['logged']['retired']} skills retired in the log, {retired} replayed"
    # Only at an ordinary blank is a line broken.
    under = "  ·  ".join(_plain(words).replace(" ", "\N{NO-BREAK SPACE}") for words in [*found["settings"], *_notes(found)[:-1]])
    figure, panels = style.page(1, len(drawn), height, title, under, caption, xlabel="round", legend=handles, sharex=False)
    asked = [c["asked"] for c in every]
    told = [key for key in asked[0] if any(a[key] != asked[0][key] for a in asked)]
    for ax, condition in zip(panels[0], drawn, strict=True):
        _panel(ax, found, condition, colours, end, max(1.0, min(6.5, 60 * height / max(len(skills), 8))))
        room = 130 // len(drawn)
        said = _plain(" ".join(f"{key}={condition['asked'][key]}" for key in told) or label(condition))
        said = said if len(said) <= room else said[: room - 1] + "…"
        unclear = f", {condition['unknown']} unclear" if condition["unknown"] else ""
        ax.set_title(f"{said}\n{condition['retired']} retired: {condition['wrong']} wrongly{unclear}", loc="left", fontsize=8.5)
    for ax in panels[0][1:]:
        ax.set_yticks([])
    first = panels[0][0]
    if len(skills) <= NAMED:
        names = [_plain(k["name"]) for k in skills]
        first.set_yticks(
            [k["skill"] for k in skills],
            [f"#{k['skill']}  {n[: LONGEST - 1] + '…' if len(n) > LONGEST else n}" for k, n in zip(skills, names, strict=True)],
            fontsize=6.5,
        )
    else:
        first.set_ylabel("skill, in order of birth")
    return figure


def _panel(ax: Axes, found: Mapping[str, Any], condition: Mapping[str, Any], colours: Mapping[str, str], end: int, width: float) -> None:
    from matplotlib.ticker import MaxNLocator

    from sim.figures import style

    look: dict[str, Any] = {"marker": "X", "markersize": max(2.5, width), "linestyle": "none", "clip_on": False}
    for skill, fate in zip(found["skills"], condition["skills"], strict=True):
        y = skill["skill"]
        for s in skill["logged"]:
            stop = end - 0.5 if s["left"] is None else s["left"]
            ax.plot((s["came"], stop), (y, y), color="#c9c9c9", linewidth=width, solid_capstyle="butt", zorder=2)
            if s["how"] == RETIRED:
                ax.plot(stop, y, markeredgewidth=0.8, zorder=4, **WHITE, **look)
        for s in fate["stretches"]:
            stop = end - 0.5 if s["left"] is None else s["left"]
            ax.plot((s["came"], stop), (y, y), color=colours[skill["worth"]], linewidth=0.5 * width, solid_capstyle="butt", zorder=3)
            if s["how"] == RETIRED:
                ax.plot(stop, y, color=style.INK, markeredgewidth=0.3, zorder=5, **look)
    if condition["first"]:
        ax.axvline(condition["first"]["round"], color=style.GREY, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
    ax.set_ylim(-0.8, max(len(found["skills"]), 3) - 0.2)
    ax.set_xlim(min([-0.5, *(s["came"] - 0.3 for k in found["skills"] for s in k["logged"])]), end - 0.4)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.grid(True, axis="x")


def _plain(text: str) -> str:
    from real_loop.words import shown

    return shown(text).replace("$", r"\$")
