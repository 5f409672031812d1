"""Known defects, one at a time, put into clean report sections, and what the checks find of them (BC section 5, App. D; RT section 6.1).

Five classes mirror a check of the grader. Two keep every marker and change what is said: a claim's direction turned round, a digit
changed. How markers look is written here a second time: an injection must not ask the grader it is to test.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from real_loop.suites.report.compose import compose
from real_loop.suites.report.grader import violations
from real_loop.suites.report.slices import Card, Slice
from real_loop.suites.report.worlds import Draws

VISIBLE: Final = ("orphan_citation", "unregistered_metric", "bare_number", "broken_xref", "missing_tldr")
CLASSES: Final = (*VISIBLE, "claim_negation", "number_swap")

_PAIRS = (
    *(("rose", "fell"), ("grew", "shrank"), ("climbed", "slid"), ("increased", "decreased"), ("advanced", "retreated")),
    *(("lengthened", "shortened"), ("widened", "narrowed"), ("expanded", "contracted"), ("strengthened", "weakened")),
    *(("rise", "fall"), ("grow", "shrink"), ("climb", "drop"), ("increase", "decrease"), ("widen", "narrow"), ("rises", "falls")),
    *(("rising", "falling"), ("growing", "shrinking"), ("climbing", "dropping"), ("increasing", "decreasing")),
    *(("widening", "narrowing"), ("higher", "lower"), ("above", "below"), ("up", "down"), ("growth", "decline")),
    *(("risen", "fallen"), ("grown", "shrunk"), ("improved", "worsened"), ("gained", "lost"), ("soared", "plunged")),
)
_ALSO = {"dropped": "climbed", "declined": "grew", "declining": "growing", "decline": "growth", "dropping": "climbing"}
OPPOSITES: Final = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}, **_ALSO}
_UP: Final = frozenset(a for a, _ in _PAIRS)
# "up" and "down" are directions where a number follows ("up 3 %"), not in "up to" or "made up of".
_DIRECTION = re.compile(
    r"(?<![\w-])(?:" + "|".join(sorted(OPPOSITES.keys() - {"up", "down"})) + r"|(?:up|down)(?= (?:by )?[\d{]))(?![\w-])", re.IGNORECASE
)
_CITE = re.compile(r"\[E[0-9]{3,4}(?:[,;] ?E[0-9]{3,4})*\]")
_ID = re.compile(r"E[0-9]{3,4}")
_TAG = re.compile(r"\{m_[a-z0-9_]+\}")
_XREF = re.compile(r"§s[0-9]+")
_MARKER = re.compile(f"{_CITE.pattern}|{_TAG.pattern}|{_XREF.pattern}")
_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
# Not those that need no source: ordinals, days of a month, digits joined to letters.
_NUMERAL = re.compile(rf"(?<![\w.,])(?<![A-Za-z]-)[0-9]+(?:[.,][0-9]+)*+(?![0-9]|(?:st|nd|rd|th)\b| {_MONTH}\b)")
_DAY = re.compile(rf"\b{_MONTH} \Z")
_ITEM = re.compile(r"[ \t>]*[0-9]+[.)][ \t]+")
# Lines that begin something new: bullets, list items, quotes; and those that end with it too: headings and rows of a table.
_NEW = re.compile(r"[ \t]*(?:[-*+•>][ \t]|[0-9]+[.)][ \t])")
_ALONE = re.compile(r"[ \t]*(?:#|\|)")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_STOP = re.compile(r"(?<![A-Z]\.)(?<!\bp\.)(?<!\bno\.)(?<=[.!?])[ \n]+(?=[A-Z\"{0-9])")
_HEADS = re.compile(r"^[ \t>#*_+\-\u2013\u2014\u2022]*TL;?DR\b", re.MULTILINE | re.IGNORECASE)
_TLDR = re.compile(r"^[#*_ ]*TL;?DR\b.*\n(?:[ \t]*\n)*(?:[ \t]*(?:[-*+•]|[0-9]+[.)])[ \t].*(?:\n|\Z))+", re.MULTILINE | re.IGNORECASE)
# Sentences with a number that nothing stands for.
_BARE: Final = (
    "Roughly {n}% of this looks set to last.",
    "A further {n} cases were set aside.",
    "That leaves a buffer of about {n} days.",
    "On present form another {n}.{d}% is within reach.",
    "Some {n} of those concerned have not answered.",
    "The effect is worth {n}.{d} million in a normal year.",
    "Nearly {n} in a hundred would say the same.",
    "It took {n} weeks to notice.",
    "Costs of {n}.{d} thousand go with it.",
    "The remaining {n}% is a matter of definition.",
)
_TAGS: Final = ("run_rate", "net", "adjusted", "pro_forma", "per_head", "real_terms", "rolling", "gross")


class NotApplicable(Exception):  # noqa: N818 - nothing is wrong: the class has no place in this section
    """A class of defect cannot be put into a section.

    Parameters
    ----------
    reason
        Why, in a few words.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True)
class Injection:
    """A section with one known defect.

    Parameters
    ----------
    cls
        One of `CLASSES`.
    text
        The section; all but ``before`` is as it was, byte for byte.
    line
        The line, from 1, on which the change begins.
    before, after
        What stood there and what stands there now; one of them may be empty.
    """

    cls: str
    text: str
    line: int
    before: str
    after: str


@dataclass(frozen=True)
class _Sentence:
    start: int
    end: int
    text: str
    cited: tuple[str, ...]


def _sentences(section: str) -> list[_Sentence]:
    """Return the sentences of a section. One may go over several lines of a paragraph or bullet."""
    blocks: list[tuple[int, int]] = []
    begin, goes_on = 0, False
    for line in section.splitlines(keepends=True):
        end = begin + len(line)
        alone = _ALONE.match(line) is not None
        if goes_on and line.strip() and not alone and not _NEW.match(line):
            blocks[-1] = (blocks[-1][0], end)
        elif line.strip():
            blocks.append((begin, end))
        goes_on = bool(line.strip()) and not alone
        begin = end
    out = []
    for start, stop in blocks:
        stop = start + len(section[start:stop].rstrip())
        ends = [*((found.start(), found.end()) for found in _STOP.finditer(section, start, stop)), (stop, stop)]
        for end, following in ends:
            text = section[start:end]
            out.append(_Sentence(start, end, text, tuple(name for cite in _CITE.findall(text) for name in _ID.findall(cite))))
            start = following
    return out


def inject(each: Slice, section: str, cls: str, seed: int) -> Injection:
    """Put one defect of a class into a section that was clean.

    Parameters
    ----------
    each
        The slice the section was written from.
    section
        The section, clean: without violations of tier 1.
    cls
        One of `CLASSES`.
    seed
        Of the draw of place and words. The same seed gives the same defect.

    Raises
    ------
    NotApplicable
        There is no place for such a defect.
    """
    draws = Draws("inject", cls, seed, each.section, each.title, section)
    start, end, after = _EDITS[cls](each, section, draws)
    text = section[:start] + after + section[end:]
    return Injection(cls, text, section.count("\n", 0, start) + 1, section[start:end], after)


_Edit = tuple[int, int, str]


def _orphan(each: Slice, section: str, draws: Draws) -> _Edit:
    places = [(cite.start() + name.start(), name.group()) for cite in _CITE.finditer(section) for name in _ID.finditer(cite.group())]
    if not places:
        raise NotApplicable("no card is cited")
    at, name = draws.one(places)
    known = {card.id for card in each.cards}
    width = len(name) - 1
    # One of the report's other cards, or one that no section has: both happen.
    while (other := f"E{draws.within(1, 10**width - 1):0{width}d}") in known:
        pass
    return at, at + len(name), other


def _unregistered(each: Slice, section: str, draws: Draws) -> _Edit:
    tags = list(_TAG.finditer(section))
    known = {metric.tag for metric in each.metrics}
    if tags:
        found = draws.one(tags)
        start, end = found.span()
        base = found.group()[1:-1]
    else:
        cites = list(_CITE.finditer(section))
        if not cites:
            raise NotApplicable("there is no metric and no citation")
        start = end = draws.one(cites).start()
        base = "m_total"
    new = [f"{base}_{word}" for word in _TAGS if f"{base}_{word}" not in known]
    return start, end, f"{{{draws.one(new)}}}" + ("" if tags else " ")


def _broken(each: Slice, section: str, draws: Draws) -> _Edit:
    known = {int(other.id[1:]) for other in each.xref}
    while (other := draws.within(1, 60)) in known:
        pass
    places = list(_XREF.finditer(section))
    if places:
        found = draws.one(places)
        return found.start(), found.end(), f"§s{other}"
    cites = list(_CITE.finditer(section))
    if not cites:
        raise NotApplicable("there is no cross-reference and no citation")
    at = draws.one(cites).end()
    return at, at, f" (see §s{other})"


def _bare(each: Slice, section: str, draws: Draws) -> _Edit:
    """Take the only marker of a sentence with numerals away, or, half of the time, add a sentence with a number."""
    lone = []
    for sentence in _sentences(section):
        marks = [mark for mark in _MARKER.finditer(sentence.text) if not mark.group().startswith("§")]
        if len(marks) == 1 and any(not _YEAR.fullmatch(number) for _, number in _numerals(sentence)):
            start, end = sentence.start + marks[0].start(), sentence.start + marks[0].end()
            space = section[start - 1 : start] == " " and marks[0].group().startswith("[")
            lone.append((start - space, end))
    if lone and draws.chance(50):
        return *draws.one(lone), ""
    ends = [sentence.end for sentence in _sentences(section) if sentence.cited and sentence.text.endswith(".")]
    if not ends:
        raise NotApplicable("there is no sentence with a citation")
    at = draws.one(ends)
    return at, at, " " + draws.one(_BARE).format(n=draws.within(11, 97), d=draws.within(1, 9))


def _headless(each: Slice, section: str, draws: Draws) -> _Edit:
    found = _TLDR.search(section)
    if found is None:
        raise NotApplicable("there is no TL;DR with bullets right below it")
    if len(_HEADS.findall(section)) > 1:
        raise NotApplicable("there are several TL;DRs, and one would be left")
    end = found.end()
    while section[end : end + 1] == "\n":
        end += 1
    return found.start(), end, ""


def _cited(each: Slice, sentence: _Sentence) -> list[Card]:
    return [card for card in each.cards if card.id in sentence.cited]


def _negated(each: Slice, section: str, draws: Draws) -> _Edit:
    places = []
    for sentence in _sentences(section):
        for card in _cited(each, sentence):
            said = {found.group().lower() for found in _DIRECTION.finditer(card.claim)}
            ups = {word in _UP for word in said}
            for found in _DIRECTION.finditer(sentence.text):
                word = found.group().lower()
                # The card says the same word, or other words that all point the same way.
                if word in said or ups == {word in _UP}:
                    places.append((sentence.start + found.start(), found.group()))
    if not places:
        raise NotApplicable("no cited sentence has a direction that its card has")
    at, word = draws.one(places)
    other = OPPOSITES[word.lower()]
    return at, at + len(word), other.capitalize() if word[0].isupper() else other


def _numerals(sentence: _Sentence) -> list[tuple[int, str]]:
    """Return the numerals of a sentence outside its markers, each with its place in the section."""
    inside = [mark.span() for mark in _MARKER.finditer(sentence.text)]
    item = _ITEM.match(sentence.text)
    inside.append(item.span() if item else (0, 0))
    found = [each for each in _NUMERAL.finditer(sentence.text) if not any(a <= each.start() < b for a, b in inside)]
    found = [each for each in found if not _DAY.search(sentence.text, 0, each.start())]
    return [(sentence.start + each.start(), each.group()) for each in found]


def _swapped(each: Slice, section: str, draws: Draws) -> _Edit:
    places: list[tuple[int, str, set[str]]] = []
    for sentence in _sentences(section):
        cards = _cited(each, sentence)
        said = {number for card in cards for text in (card.claim, card.quote) for number in _NUMERAL.findall(text)}
        places.extend((at, number, said) for at, number in _numerals(sentence) if number in said and not _YEAR.fullmatch(number))
    if not places:
        raise NotApplicable("no cited sentence has a number that its card has")
    at, number, said = draws.one(places)
    edits = []
    for i, digit in enumerate(number):
        for new in "0123456789" if digit.isdigit() else "":
            changed = number[:i] + new + number[i + 1 :]
            leading = new == "0" and i == 0 and number[1:2] != "."
            if new != digit and not leading and changed not in said:
                edits.append((at + i, at + i + 1, new))
    return draws.one(edits)


_EDITS: Final = {
    "orphan_citation": _orphan,
    "unregistered_metric": _unregistered,
    "bare_number": _bare,
    "broken_xref": _broken,
    "missing_tldr": _headless,
    "claim_negation": _negated,
    "number_swap": _swapped,
}


@dataclass(frozen=True)
class Recall:
    """What the checks found of one class of defect.

    Parameters
    ----------
    cls
        The class, or ``clean`` for the sections as they were, none of which has violations: others are left out.
    n
        Sections it was put into.
    flagged
        Of these, those with any violation.
    named
        Those with a violation of the very class; of no use for classes that no check is named after.
    other
        Why it could not be put into the rest, with how many of them.
    """

    cls: str
    n: int
    flagged: int
    named: int
    other: tuple[tuple[str, int], ...]

    @property
    def rate(self) -> float | None:
        """Return the share flagged; None where there was nothing to flag."""
        return self.flagged / self.n if self.n else None


def recall(
    slices: Sequence[Slice], seed: int = 0, tier: int = 1, sections: Sequence[str] | None = None
) -> tuple[tuple[Recall, ...], tuple[int, ...]]:
    """Put one defect of each class into each section and ask the grader.

    Parameters
    ----------
    slices
        What the sections were written from.
    seed
        Of the draws of the defects.
    tier
        Of the grader: 1 or 2.
    sections
        One for each slice; None: those of the composer without a model. Sections that are not clean are left out.

    Returns
    -------
    rows, unclean
        A row for the clean sections and one for each class; and which sections (by place) were left out, as not clean.
    """
    texts = [compose(each) for each in slices] if sections is None else list(sections)
    clean = [not violations(each, text, tier) for each, text in zip(slices, texts, strict=True)]
    pairs = [(each, text) for each, text, passes in zip(slices, texts, clean, strict=True) if passes]
    unclean = tuple(i for i, passes in enumerate(clean) if not passes)
    rows = [Recall("clean", len(pairs), 0, 0, ())]
    for cls in CLASSES:
        n = flagged = named = 0
        other: dict[str, int] = {}
        for each, text in pairs:
            try:
                found = violations(each, inject(each, text, cls, seed).text, tier)
            except NotApplicable as why:
                other[why.reason] = other.get(why.reason, 0) + 1
                continue
            n, flagged, named = n + 1, flagged + bool(found), named + any(one.cls == cls for one in found)
        rows.append(Recall(cls, n, flagged, named, tuple(sorted(other.items()))))
    return tuple(rows), unclean


def words(rows: Sequence[Recall]) -> str:
    """Return the table of `recall` as text."""
    lines = [f"{'defect':<20} {'sections':>8} {'flagged':>8} {'recall':>7}"]
    for row in rows:
        rate = "" if row.rate is None or row.cls == "clean" else f"{row.rate:.2f}"
        lines.append(f"{row.cls:<20} {row.n:>8} {row.flagged:>8} {rate:>7}".rstrip())
        lines.extend(f"{'':<20} {n:>8} not applicable: {why}" for why, n in row.other)
    return "\n".join(lines)
