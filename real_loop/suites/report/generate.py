"""The generator of evidence slices: from a world's items to cards with claims, quotes and sources. Seeded, and the same everywhere.

A card is one item seen from one side (`_SHAPES`): the year, the budget, a peer, a place, a quarter, a forecast, a rumour, what someone
said, or how it is counted. Each claim with a direction has one word for it, of the pairs that `real_loop.audit.defects` turns round.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from real_loop.suites.report.slices import Card, Slice, Xref
from real_loop.suites.report.worlds import NAMES, YEAR, Draws, Item, Section, World, number, world

SEED: Final = 7436
# Without May: it reads like a hedge.
_MONTHS = ("January", "February", "March", "April", "June", "July", "August", "September", "October", "November", "December")
# Up and down: past, participle-like past, infinitive, -ing form.
_PAST = (("rose", "fell"), ("grew", "shrank"), ("climbed", "slid"), ("increased", "decreased"), ("advanced", "retreated"))
_LASTING = ("lengthened", "shortened")
_GAPS = ("widened", "narrowed")
_PERFECT = (("increased", "decreased"), ("climbed", "dropped"), ("advanced", "retreated"))
_PLAIN = (("rise", "fall"), ("climb", "drop"), ("increase", "decrease"), ("grow", "shrink"))
_GOING = (("rising", "falling"), ("climbing", "dropping"), ("growing", "shrinking"), ("increasing", "decreasing"))
# Claims by kind of card. At most three words in a row are the same in all slices.
_SHAPES: Final[dict[str, tuple[str, ...]]] = {
    "year": (
        "{S} {past} {change} to {value} in {y}, {c}",
        "{C}, {s} {past} from {prior} to {value}",
        "In {y} {s} reached {value}, {change} {higher} than the year before",
        "At {value}, {s} ended {y} {higher} than the {prior} of {py}",
        "{S}, {prior} in {py}, {past} to {value} {c}",
        "From {prior}, {s} {past} by {change} and closed the year at {value}",
        "{y} brought {s} to {value}, {up} {change} on {py}, {c}",
        "{C}, {y} closed with {s} at {value}, {above} the {prior} counted in {py}",
        "{S} {past} for a second year, to {value} from {prior}, {c}",
        "{S} came in at {value} for {y}: {change} {higher}, {c}",
        "Measured over the whole of {y}, {s} {past} {change}, reaching {value}",
        "It was a year in which {s} {past} {change}, {c}; the figure now stands at {value}",
        "{value} for {s}, {above} last year's {prior}: so reads the {y} table, {c}",
        "Between {py} and {y} {s} {past} from {prior} to {value}, {c}",
    ),
    "budget": (
        "{S} finished {y} {above} the budgeted {other}, at {value}",
        "The board had planned for {other}; {s} came to {value}, {higher} than that, {c}",
        "Against a target of {other}, {s} stood at {value}, {above} plan",
        "{value} was the outturn for {s}, {above} the {other} written into the budget",
        "{C}, {s} ended {above} the planned {other}, at {value}",
    ),
    "peer": (
        "{peer} reports {other} for {s}; the {value} here sits {higher}",
        "With {value}, {s} lay {above} the {other} of {peer}",
        "Side by side with {peer} at {other}, {s} came out {higher}, at {value}",
        "{S} stood at {value}, {higher} than {peer} with {other}, {c}",
    ),
    "place": (
        "{Place} {s} {past} {change} over the year, {c}",
        "{S} {past} most {place}, by {change}",
        "A breakdown shows {s} {change} {higher} {place}, {c}",
        "{C}, {s} {past} by {change} {place}",
    ),
    "quarter": (
        "Over the final quarter {s} {past} {change}, {c}",
        "By {month} {s} had {perfect} {change} since the summer",
        "From {month} onwards {s} {past} by {change}, {c}",
        "The last three months alone saw {s} {change} {higher} than a year ago",
    ),
    "forecast": (
        "{Weak} puts {s} at {other} for {ny}, {higher} than today",
        "{Weak} has {s} {going} to {other} by the end of {ny}",
        "{S} will {plain} to {other} in {ny}, according to {weak}",
        "{other} is where {weak} sees {s} in {ny}, {above} the present level",
        "Anyone who trusts {weak} should expect {s} to {plain} to {other}, {c}",
        "Next year's {s}, going by {weak}: {other}, {higher} than the {value} of {y}",
        "{C}, {s} can only {plain}, {weak} argues, to {other} within twelve months",
        "For {ny} {weak} pencils in {other} under {s}, {above} what {y} showed",
        "Should {weak} be right, {s} will close {ny} at {other}, {higher} than the {value} of this year",
    ),
    "rumour": (
        "{Weak} claims that {s} really {past} {change} in {month}, {c}",
        "{S} {past} {change} in the weeks after the books were closed, says {weak}",
        "Numbers passed on by {weak} have {s} {higher} than published, at {other}",
        "What {weak} calls the true figure for {s}, {other}, lies {above} the official one",
        "Since {month}, if one believes {weak}, {s} {past} {change}",
        "{C}, {s} {past} by {change} between {month} and the year's end; the only witness is {weak}",
        "{other}, not {value}: {weak} sets {s} {above} the printed figure",
        "Word from {weak} is that {s} had {perfect} {change} before {month} was over",
    ),
    "person": (
        "{Who} told the board that {s} {past} in {n} of the twelve months, {c}",
        "{Who} expects {s} to {plain} {change} in {ny}, {c}",
        "Asked about {s}, {who} named {other} for {month}, {higher} than the yearly {value}",
        "{Who} put it to staff in {month}: {s} {past} {change}, {c}",
    ),
    "method": (
        "For {s} the same count was used in {py} and {y}, so that {prior} and {value} compare",
        "The {value} given for {s} was checked by the auditors in {month}, {c}",
        "No change of definition touched {s} between {py} and {y}; the figures are {prior} and {value}",
        "Auditors signed off {value} for {s} on {n} {month}",
    ),
}
_QUOTES: Final[dict[str, tuple[str, ...]]] = {
    "year": (
        "{s}: {value} ({py}: {prior})",
        "we closed {y} at {value}, after {prior} the year before",
        "{prior} in {py}, {value} in {y}; {c}",
        "the table gives {value} for {s} and {prior} for {py}",
        "a move from {prior} to {value}, {c}",
        "{sign}{change}, to {value}",
        "{value} this time, where {py} had shown {prior}",
    ),
    "budget": (
        "budget {other}, outturn {value}",
        "the plan assumed {other} and we ended at {value}, {c}",
        "{s} (plan {other}): {value}",
    ),
    "peer": ("{peer}: {other}; own figure: {value}", "{other} at {peer} against our {value}", "ours {value}, theirs {other}, {c}"),
    "place": ("{place}: {sign}{change}", "{sign}{change} {place}, {c}", "we counted {sign}{change} {place}"),
    "quarter": ("{month} to December: {sign}{change}", "{sign}{change} on the quarter, {c}", "late-year reading for {s}: {sign}{change}"),
    "forecast": (
        "our guess for {ny} is {other}, against {value} now",
        "{ny}: {other} (today {value})",
        "from {value} we see it at {other} within the year",
        "{other} next year, mark our words; it is {value} today",
        "put {other} in your diary ({value} at present)",
        "{ny}? {other}, {c}",
        "{other} by next winter, and {value} is history",
    ),
    "rumour": (
        "a friend in the office says {sign}{change}, not what was printed",
        "the real one is {other}, whatever they publish ({value})",
        "{sign}{change} since, {c}",
        "{other}! And they print {value}",
        "heard it twice: {sign}{change}, {c}",
        "nobody will sign for it, but {sign}{change} is what we hear",
        "make that {other} instead of {value}",
        "{other} is nearer the truth, {c}",
    ),
    "person": ("{n} months out of twelve, {c}", "I would say {sign}{change}", "{other} in {month}, if you ask me; {value} over the year"),
    "method": ("{prior} and {value}, same definition", "checked: {value}, {month}", "definition unchanged; {value}, before that {prior}"),
}
_WEAK = frozenset({"forecast", "rumour"})
# Which quotes bear a claim out: those that name what it names.
_NEEDS = ("{other}", "{change}", "{n}")
# The sizes of a slice, by how hard it is: cards, share of weak ones among those beyond the section's own, bullets.
_SIZES: Final = ((4, 5, 35, 2), (6, 7, 50, 3), (7, 8, 65, 4))


@dataclass
class _Used:
    """What has been written so far: claims of all slices, and shapes by how often they were used."""

    claims: set[str]
    shapes: Counter[str]


def _pair(pairs: tuple[tuple[str, str], ...], up: bool, draws: Draws) -> str:
    return draws.one(pairs)[0 if up else 1]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _values(item: Item, kind: str, up: bool, place: World, draws: Draws) -> dict[str, str]:
    """Return all that a claim and its quote may be filled in with. ``up``: which way it goes."""
    past: tuple[tuple[str, str], ...] = _PAST
    if any(word in item.subject.split() for word in ("gap", "spread", "margin")):
        past = (_GAPS,)
    elif item.unit in ("days", "hours", "minutes", "weeks", "months", "years"):
        past = (*_PAST[:1], _LASTING)
    step = max(1, item.room * draws.within(15, 160) // 1000)
    # Where the other value is what this one is compared with, it lies on the other side.
    other = item.value - step if (kind in ("budget", "peer")) == up else item.value + step
    change = item.change()
    if kind not in ("year", "method"):
        tenths = draws.within(11, 89)
        points = number(max(1, item.room * tenths // 1000), item.decimals) + " points"
        change = points if item.unit == "%" else number(tenths, 1) + "%"
    who, weak = draws.one(place.people), draws.one(place.weak)
    name, _, role = who.partition(", ")
    who = f"{name}, {role}," if draws.chance(50) else f"{_capital(role)} {name}"
    out = {
        "s": item.subject, "S": _capital(item.subject), "c": item.circumstance, "C": _capital(item.circumstance),
        "value": item.written(item.value), "prior": item.written(item.prior), "other": item.written(other), "change": change,
        "sign": "+" if up else "-", "y": str(YEAR), "py": str(YEAR - 1), "ny": str(YEAR + 1), "n": str(draws.within(3, 9)),
        "month": draws.one(_MONTHS[7:10] if kind == "quarter" else _MONTHS[:10]),
        "past": _pair(past, up, draws), "perfect": _pair(_PERFECT, up, draws), "plain": _pair(_PLAIN, up, draws),
        "going": _pair(_GOING, up, draws), "higher": "higher" if up else "lower", "above": "above" if up else "below",
        "up": "up" if up else "down", "peer": draws.one(place.peers), "weak": weak, "Weak": _capital(weak), "who": who, "Who": who,
        "name": name,
    }  # fmt: skip
    out["place"] = draws.one(place.places)
    return out | {"Place": _capital(out["place"])}


def _source(kind: str, values: dict[str, str], place: World, weak: bool, draws: Draws) -> str:
    month, page = draws.one(_MONTHS), draws.within(2, 94)
    if weak:
        named = values["Weak"] if kind in _WEAK else _capital(draws.one(place.weak))
        return draws.one((f"{named}, {month} {YEAR}", f"{named} ({month})", f"{named}, no. {page}"))
    if kind == "person":
        return draws.one((f"Board minutes, {month} {YEAR}", f"Interview with {values['name']}, {month} {YEAR}", f"Staff meeting, {month}"))
    report = draws.one(place.reports)
    forms = (f"{place.name} {report} {YEAR}", f"{_capital(report)}, {month} {YEAR}", f"{_capital(report)} {YEAR}, p. {page}")
    return draws.one(forms)


def _card(name: str, item: Item, kind: str, place: World, weak: bool, used: _Used, draws: Draws) -> Card:
    """Write one card. Its claim is one that no other has; shapes take turns."""
    up = item.up if kind in ("year", "method") else draws.chance(50)
    for _ in range(40):
        values = _values(item, kind, up, place, draws)
        shapes = sorted(draws.order(_SHAPES[kind]), key=lambda shape: used.shapes[shape])
        shape = shapes[0]
        claim = _capital(shape.format(**values)).rstrip(",")
        if claim not in used.claims:
            break
        used.shapes[shape] += 1
    used.claims.add(claim)
    used.shapes[shape] += 1
    needs = [need for need in _NEEDS if need in shape and kind not in ("year", "method")]
    fitting = [each for each in _QUOTES[kind] if not needs or any(need in each for need in needs)]
    quote = "..." + draws.one(sorted(draws.order(fitting), key=lambda each: used.shapes["quote " + each])[:2]).format(**values) + "..."
    stance = ("neutral", "bull", "bear")[0 if kind == "method" else item.good * (1 if up else -1)]
    refs = (item.tag,) if values["value"] in claim and "{value}" in shape else ()
    source = _source(kind, values, place, weak, draws)
    return Card(name, stance, "weak" if weak else "ok", claim, quote, source, refs)


def _slice(section: Section, place: World, first: int, used: _Used, seed: int) -> Slice:
    draws = Draws(seed, place.key, section.id, "slice")
    low, high, weakness, floor = draws.one(_SIZES)
    size = draws.within(low, high) + (draws.chance(10) and high == 8)
    others = draws.order([other for other in place.sections if other.id != section.id])[: draws.within(1, 4)]
    own = list(section.items)
    plan: list[tuple[Item, str]] = [(item, "year") for item in own[: min(3, size - 1)]]
    if draws.chance(40):
        plan[-1] = (plan[-1][0], "budget")
    kinds = draws.order(("place", "quarter", "person", "peer", "budget", "method"))
    while len(plan) < size:
        item = draws.one(own)
        if draws.chance(weakness):
            plan.append((item, draws.one(("forecast", "rumour"))))
        elif draws.chance(45):
            plan.append((draws.one(draws.one(others).items), "year"))
        elif kinds:
            plan.append((item, kinds.pop()))
        elif own[-1] not in [each for each, _ in plan]:
            plan.append((own[-1], "year"))
        if len(set(plan)) < len(plan):
            plan.pop()
    cards = []
    for i, (item, kind) in enumerate(draws.order(plan)):
        weak = kind in _WEAK or (kind in ("place", "peer", "quarter") and draws.chance(30))
        cards.append(_card(f"E{first + i:03d}", item, kind, place, weak, used, draws))
    tags = {tag for card in cards for tag in card.metric_refs}
    known = {item.tag: item for each in place.sections for item in each.items}
    metrics = tuple(item.metric() for tag, item in known.items() if tag in tags)
    xref = tuple(Xref(other.id, other.title) for other in sorted(others, key=lambda other: int(other.id[1:])))
    return Slice(section.id, section.title, section.purpose, floor, tuple(cards), metrics, xref)


def production(name: str, seed: int = SEED) -> tuple[Slice, ...]:
    """Generate all slices of one production. Cards are numbered through; no two claims of it are the same."""
    place = world(name, seed)
    used = _Used(set(), Counter())
    out: list[Slice] = []
    first = 1
    for section in place.sections:
        out.append(_slice(section, place, first, used, seed))
        first += len(out[-1].cards)
    return tuple(out)


def productions(seed: int = SEED) -> dict[str, tuple[Slice, ...]]:
    """Generate the slices of all productions by name, 31 each."""
    return {name: production(name, seed) for name in NAMES}
