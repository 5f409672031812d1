"""An audit in words: the page of a judge and the table of several, from the JSON values of :func:`real_loop.audit.main.audited`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from real_loop.audit import place
from real_loop.audit.rates import FEW

if TYPE_CHECKING:
    from sim.points import Point

WIDE: Final = 100  # columns
MOST: Final = 40  # classes on a page
NAME: Final = 28  # letters of a name in a table
MOST_CURES: Final = 5  # on a page
PAGES: Final = 4  # judges up to which each has its page on the terminal
ENOUGH: Final = 30  # cases of each truth below which no change is told that is not sure
ERRORS: Final = {"rho_fp": "hidden failures", "rho_pf": "phantom failures"}
CASES: Final = {"rho_fp": "true fails", "rho_pf": "true passes"}


# ---------------------------------------------------------------- pieces


def short(name: str, letters: int = NAME) -> str:
    """Return a name cut in the middle to fit a column: names that are alike at first often differ at the end."""
    if len(name) <= letters:
        return name
    last = letters // 3
    return f"{name[: letters - last - 1]}…{name[-last:]}"


def chance(value: float | None) -> str:
    """Return a chance to four decimals; a dash if there is none."""
    if value is None:
        return "-"
    return "<0.0001" if value < 0.00005 else ">0.9999" if value > 0.99995 else f"{value:.4f}"


def interval(ends: Sequence[float] | None) -> str:
    """Return an interval to three decimals; a dash if there is none."""
    return "-" if ends is None else f"{ends[0] + 0.0:.3f} to {ends[1]:.3f}"


def percent(confidence: float) -> str:
    """Return a confidence as percent."""
    return f"{100 * confidence:g} %"


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return rows as lines with aligned columns, the first ones to the left and others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [f"{cell:<{w}}" if i < left else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        lines.append(("  " + "   ".join(cells)).rstrip())
    return lines


def _wrapped(sentence: str, bullet: str = "  - ") -> list[str]:
    return textwrap.wrap(sentence, WIDE, initial_indent=bullet, subsequent_indent="    ", break_long_words=False)


def _seen(rate: dict[str, Any]) -> str:
    return f"{rate['value']:.3f}, {interval(rate['used'])}"


# ---------------------------------------------------------------- why


def reasons(found: dict[str, Any], point: Point) -> list[str]:
    """Return why the verdict is what it is, a sentence or two for each rate that decides, and what to heed all the same."""
    if found["rho_fp"] is None:
        return ["The file has scores alone, and no threshold: a judge that gives no verdicts has no rates yet."]
    out = []
    if found["invalid"] and found["invalid"]["left_out"] is None:
        out.append(
            "It gave no verdict that can be read, in any row: all count as fail, as in the loop. Look at its prompt and answers first."
        )
    if found["by_score"]:
        chosen = found["curve"]["at_tau"]
        out.append(
            f"It gives scores alone, and is audited as passing {chosen['passes']}: the rates are those on {chosen['unit']}s that had no "
            "part in the choice."
        )
    for side in found["edges"]:
        rate, name, verdict = found[side["rate"]], side["rate"], found["verdict"]
        if verdict == place.UNDETERMINED and side["where"] == place.INSIDE:
            continue
        if verdict.startswith(place.NO_GO) and side["where"] != place.PAST:
            continue
        out.append(_reason(side, rate, name))
    if sum(side["where"] == place.PAST for side in found["edges"]) == 2:  # each edge has its fate, and they exclude each other
        out = [sentence.partition(" With such a judge")[0] for sentence in out]
        out.append("Past both edges the curator retires by accident, or the better skill first.")
    if found["verdict"] == place.GO:
        out.append(found["theory"]["advice"][0])
    if blind := blind_to(found):
        out.append(f"Blind to {blind}: skills that fail in such ways alone are not retired.")
    return out


def blind_to(found: dict[str, Any]) -> str:
    """Return the classes of defects whose intervals are past the blind edge, as a list; empty where there are none."""
    groups = (g for g in found["classes"] if g["class"] and g["truth"] == "fail" and g["value"] is not None)
    names = [short(g["class"]) for g in groups if g["used"][0] >= found["pi_tau"]]
    return ", ".join(names[:MOST]) + (", and more" if len(names) > MOST else "")


def headline(found: dict[str, Any]) -> str:
    """Return the verdict, and for a judge that can govern, from which n_min on."""
    verdict, here = found["verdict"].upper(), found["as_it_is"]
    if found["verdict"] != place.GO or here is None:
        return verdict
    if here["n_min"] is None:
        return f"{verdict}, but these two skills want another tau: see what to change"
    return verdict if here["n_min"] <= found["n_min"] else f"{verdict}, with n_min of at least {here['n_min']} (it is {found['n_min']})"


def _reason(side: dict[str, Any], rate: dict[str, Any], name: str) -> str:
    edge, at = f"{side['at']:.3g}", f"{name} = "
    fp = name == "rho_fp"
    does = "keeps a useless skill, but for luck in its first trials" if fp else "retires every skill in the end, good or bad"
    if rate["value"] is None:
        counted = f"no {CASES[name]}" if not rate["n"] else f"no {CASES[name]} of any weight"
        what = f"There are {counted}, so {name} is unknown."
        return (
            what if side["where"] == place.PAST else f"{what} No verdict without: label at least {side['least_cases']}, better many more."
        )
    errors = f"{'passes' if name == 'rho_fp' else 'fails'} {rate['k']} of {rate['n']} {CASES[name]}"
    if side["where"] == place.PAST:
        return f"It {errors}: {at}{_seen(rate)}, all of it past {edge}. With such a judge the curator {does}."
    if side["where"] == place.INSIDE:
        return f"It {errors}: {at}{_seen(rate)}, short of {edge}."
    return f"It {errors}: {at}{_seen(rate)}, on both sides of {edge}. Past it the curator {does}."


def settling(found: dict[str, Any]) -> list[str]:
    """Return what would settle an open verdict."""
    if found["verdict"] != place.UNDETERMINED or not found["edges"]:
        return []
    out, sure = [], f"{place.CHANCE:.0%}".replace("%", " %")
    for side in found["edges"]:
        cases = CASES[side["rate"]]
        if side["where"] != place.OPEN:
            continue
        if side["least_cases"] is not None:
            out.append(f"{side['rate']}: at least {side['least_cases']} {cases}, if all of them are judged rightly")
        elif side["more_cases"] is None:
            near = f"{found[side['rate']]['value']:.3f} is on the edge, {side['at']:.3g}, or too near it"
            out.append(f"{side['rate']}: no number of cases to speak of, since {near}. Change tau or the judge")
        else:
            tasks = "" if side["more_tasks"] is None else f", in {side['more_tasks']:,} more tasks"
            calls = "" if found["calls"] <= 1 else f" (verdicts: {found['calls']:.3g} on each case, as here)"
            past = found[side["rate"]]["value"] > side["at"]
            way = f"which makes it {place.NO_GO}: {side['name']}" if past else "which puts it inside"
            head = f"{side['rate']}: {side['more_cases']:,} more {cases}{calls}{tasks}"
            out.append(f"{head}, for a chance of {sure} if the rate is the one seen, {way}")
    return out


def notes(found: dict[str, Any], unscored: str = "") -> list[str]:
    """Return what to know about the numbers: missing verdicts, weights, few tasks, what the bootstrap cannot say, scores of no use."""
    out = [unscored] if unscored else []
    if found["rho_fp"] is None:
        return out
    if lost := found["invalid"]:
        left = lost["left_out"]
    if lost and left is not None:
        without = [f"{name} = {left[name]['value']:.3f}" for name in ERRORS if left[name]["value"] is not None]
        among = f"{lost['true_fails']} of true fails, {lost['true_passes']} of true passes"
        were = "1 verdict is invalid" if lost["rows"] == 1 else f"{lost['rows']} verdicts are invalid"
        told = f"{', '.join(without) or 'no verdicts'}; the verdict would be {left['verdict']}"
        out.append(f"{were} ({among}) and counted as fail, as in the loop. Without: {told}.")
    single: list[str] = []
    for name in ERRORS:
        rate = found[name]
        if rate["value"] is None:
            continue
        if rate["by_task"]:
            why = f"only {rate['tasks']} tasks have {CASES[name]}" if rate["tasks"] < FEW else f"all of {name} is {rate['value']:g}"
            why = f"{name} shows no scatter between tasks" if rate["tasks"] >= FEW and 0 < rate["value"] < 1 else why
            out.append(f"How errors come together by task cannot be measured ({why}), so each task counts as one case in the interval.")
        elif found["tasks"] is not None and rate["n"] == rate["tasks"]:
            single.append(CASES[name])
    if single and found["tasks"] != found["rows"]:
        out.append(f"No task has two {' or two '.join(single)}, so tasks make no difference to those intervals.")
    if len({group["class"] for group in found["classes"] if group["truth"] == "fail"}) > 1:
        out.append("rho_fp is over the classes in the shares they have here; a loop may meet them in others: see each class.")
    if found["weighted"]:
        each = [f"{found[n]['n_effective']:.0f} {CASES[n]}" for n in ERRORS if found[n]["value"] is not None]
        out.append(f"Rows are weighted: intervals count as many as the weights are worth, {' and '.join(each)}.")
    return out


# ---------------------------------------------------------------- a page


def page(found: dict[str, Any]) -> str:
    """Return the page of a judge: the verdict and why, rates, classes, the curator, what would settle it, what to change."""
    name = found["judge"] or "the judge"
    lines = [f"{short(name, WIDE - 40)}: {headline(found)}"]
    for sentence in found["reasons"]:
        lines += _wrapped(sentence)
    if open_ := settling(found):
        lines += ["", "what would settle it"]
        for sentence in open_:
            lines += _wrapped(sentence)
    if found["rho_fp"] is not None:
        lines += ["", *_rates(found)]
        lines += _together(found)
        lines += _classes(found)
        lines += _curator(found)
    lines += _changes(found)
    if found["notes"]:
        lines.append("")
        for sentence in found["notes"]:
            lines += _wrapped(sentence)
    return "\n".join(lines)


def _rates(found: dict[str, Any]) -> list[str]:
    rows = [["", "errors", "rate", f"{percent(found['confidence'])} interval", "edge", "chance to be past it"]]
    for side in found["edges"]:
        rate = found[side["rate"]]
        value = "unknown" if rate["value"] is None else f"{rate['value']:.3f}"
        about = f"{side['rate']}, {ERRORS[side['rate']]}"
        used = interval(rate["used"]) if rate["value"] is not None else "-"
        rows.append([about, f"{rate['k']} of {rate['n']}", value, used, f"{side['at']:.3g} {side['name']}", chance(side["chance_past"])])
    kappa = found["kappa"]
    if kappa is not None:
        rows.append(["kappa = 1 - rho_fp - rho_pf", "", f"{kappa['value']:.3f}", interval(kappa["interval"]), "", ""])
    return columns(rows)


def _together(found: dict[str, Any]) -> list[str]:
    """Return the intervals one by one where cases are not independent or not alike."""
    if found["tasks"] is None or found["tasks"] == found["rows"]:
        return []
    rows = [["", "tasks", "exact", "bootstrap of tasks", "clustered", "correlation", "design effect"]]
    for name in ERRORS:
        rate = found[name]
        if rate["value"] is None:
            continue
        correlation = "-"
        if rate["icc"] is not None:
            ends = rate["icc_interval"]
            correlation = f"{rate['icc']:.2f}" + ("" if ends is None else f" ({ends[0]:.2f} to {ends[1]:.2f})")
        intervals = [interval(rate[kind]) for kind in ("exact", "bootstrap", "clustered")]
        rows.append([name, str(rate["tasks"]), *intervals, correlation, f"{rate['design_effect']:.2f}"])
    return ["", *columns(rows)] if len(rows) > 1 else []


def _classes(found: dict[str, Any]) -> list[str]:
    groups = found["classes"]
    if all(not group["class"] for group in groups):
        return []
    rows = [["class", "truth", "flagged", "rate", f"{percent(found['confidence'])} interval"]]
    for group in groups[:MOST]:
        name = short(group["class"] or "(none)")
        if group["value"] is None:
            rows.append([name, group["truth"], f"{group['flagged']} of {group['n']}", "-", "-"])
            continue
        fail = group["truth"] == "fail"
        value, (low, high) = (1 - group["value"], (1 - group["used"][1], 1 - group["used"][0])) if fail else (group["value"], group["used"])
        rows.append([name, group["truth"], f"{group['flagged']} of {group['n']}", f"{value + 0.0:.3f}", interval((low, high))])
    more = [f"  ({len(groups) - MOST} more classes are in report.json)"] if len(groups) > MOST else []
    return ["", *columns(rows, left=2), *more]


def _curator(found: dict[str, Any]) -> list[str]:
    fate = found["curator"]
    if fate is None:
        return []
    what = {"bad": f"{'the bad' if fate['bad']['true'] else 'a useless'} skill is retired", "good": "a good skill is lost"}
    rows = [[f"by {fate['trials']} trials", "true rate", "chance", "over the intervals"]]
    for key, words in what.items():
        one = fate[key]
        rows.append([words, f"{one['true']:g}", f"{one['seen']:.3f}", f"{one['low']:.3f} to {one['high']:.3f}"])
    return ["", *columns(rows)]


# ---------------------------------------------------------------- what to change


def _changes(found: dict[str, Any]) -> list[str]:
    """Return what the scores, the repeated calls and the other judges say, and which changes help."""
    lines = []
    sections = [
        ("what its scores say", found["curve"]["words"] if found["curve"] else []),
        ("what repeated calls say", found["votes"]["words"] if found["votes"] else []),
        ("together with another judge", _pairs(found)),
    ]
    for title, sentences in sections:
        if sentences:
            lines += ["", title, *(line for sentence in sentences for line in _wrapped(sentence))]
    return lines + _cures(found)


def _cures(found: dict[str, Any]) -> list[str]:
    """Return what to change: a line for each change that helps, or why there is none."""
    if found["cures"] is None:
        return []
    lines, helps = ["", "what to change"], found["cures"][:MOST_CURES]
    if found["kappa"]["value"] <= 0:
        wrong = found["kappa"]["interval"] is not None and found["kappa"]["interval"][1] < 0
        why = "passes and failures look the wrong way round (is a column turned round?)" if wrong else "passes and failures look alike"
        return lines + _wrapped(f"kappa is {found['kappa']['value']:.3f}: {why}. No tau or n_min helps; use another judge.")
    if not helps:
        return lines + _wrapped("Nothing tried here makes it fit; use another judge. " + " ".join(found["no_cures"][:2]))
    if all(cure["n_min_sure"] is None for cure in helps):
        lines += _wrapped("At the ends of the intervals no change is sure to do: label more cases, or use another judge.")
        if min(found[name]["n_effective"] for name in ERRORS) < ENOUGH:
            return lines
        lines += _wrapped("At the rates seen:")
    rows = [["", "rho_fp", "rho_pf", "tau", "least n_min", "calls", "good lost", "bad kept", "n_min, surely"]]
    for cure in helps:
        sure = "none" if cure["n_min_sure"] is None else f"{cure['n_min_sure']:,}"
        chances = [chance(cure["lost"]), chance(cure["kept"])]
        rates = [f"{cure['rho_fp']:.3f}", f"{cure['rho_pf']:.3f}"]
        rows.append([short(cure["label"], 44), *rates, f"{cure['tau']:g}", f"{cure['n_min']:,}", f"{cure['calls']:g}", *chances, sure])
    note = "At the least n_min: the good skill is ever lost, the bad one passes its first test. Surely: at the ends of the intervals too."
    left = len(found["no_cures"]) + len(found["cures"]) - len(helps)
    more = _wrapped(f"({left} more that help less or not at all are in report.json, with the reason.)", "  ") if left else []
    return lines + columns(rows) + textwrap.wrap(note, WIDE, initial_indent="  ", subsequent_indent="  ") + more


def _pairs(found: dict[str, Any]) -> list[str]:
    """Return what is known of the judge together with another, where that helps."""
    helps = [cure["label"] for cure in found["cures"] or [] if cure["kind"] == "union"]
    out = []
    for pair in found["unions"]:
        way = "both pass" if pair["both"] else "either passes"
        if f"{' and '.join(pair['judges'])} together, pass if {way}" not in helps:
            continue
        told = []
        for name in ERRORS:
            part = pair[name]
            alike = "" if part["correlation"] is None else f", errors correlate at {part['correlation']:.2f}"
            told.append(f"{name} {part['value']:.3f} (independence would give {part['independent']:.3f}{alike})")
        out.append(f"Passing what {way}, {short(pair['judges'][0])} and {short(pair['judges'][1])}: {'; '.join(told)}.")
    return out


# ---------------------------------------------------------------- all of it


def report(found: dict[str, Any], pages: bool = True) -> str:
    """Return the whole report: what was audited, a table of several judges, and a page for each if they are asked for."""
    c, judges = found["controller"], found["judges"]
    rows = "1 row" if found["rows"] == 1 else f"{found['rows']:,} rows"
    head = f"{found['source'] or 'verdicts'}: {rows}; tau = {c['tau']:g}, n_min = {c['n_min']}, cap = {c['cap']}"
    lines = ["halfblind audit", *textwrap.wrap(head, WIDE), ""]
    if len(judges) > 1:
        lines += [*table(judges), ""]
    for judge in judges if pages else []:
        lines += [page(judge), ""]
    return "\n".join(lines[:-1])


def table(judges: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line per judge: verdict, rates, kappa."""
    rows = [["judge", "verdict", "rho_fp", "true fails", "rho_pf", "true passes", "kappa"]]
    for judge in judges:
        row = [short(judge["judge"] or "the judge"), judge["verdict"]]
        for name, cases in (("rho_fp", "true_fails"), ("rho_pf", "true_passes")):
            known = judge[name] is not None and judge[name]["value"] is not None
            row += [f"{judge[name]['value']:.3f}" if known else "-", f"{judge[cases]:,}"]
        rows.append([*row, f"{judge['kappa']['value']:.3f}" if judge["kappa"] else "-"])
    return columns(rows, left=2)
