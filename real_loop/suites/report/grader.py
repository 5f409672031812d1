"""The grader of report sections: deterministic checks of form (BC section 3; tier 2: BC App. B). It reads no meaning.

Markers are ``[E001]`` (a card; several as ``[E001, E002]``), ``{m_tag}`` (a metric) and ``§s5`` (a section). A section passes when no
check finds anything. What counts as a sentence, a numeral, a TL;DR is in README.md of this folder. Time is linear in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from real_loop.suites.report.slices import Slice

TIER1: Final = ("orphan_citation", "unregistered_metric", "bare_number", "broken_xref", "missing_tldr")
TIER2: Final = ("unhedged_weak", "one_sided", "low_coverage")
CLASSES: Final = (*TIER1, *TIER2)
COVERAGE: Final = (2, 3)  # of the cards, at least so many are cited
HEDGES: Final = (
    *("reportedly", "allegedly", "apparently", "perhaps", "possibly", "may", "might", "could", "seems", "appears", "suggests"),
    *("unverified", "unconfirmed", "unaudited", "uncertain", "unclear", "tentative", "tentatively", "provisional", "provisionally"),
    *("preliminary", "indicative", "doubtful", "caution", "cautiously", "caveat", "not confirmed", "not verified", "not been confirmed"),
    *("not been verified", "not independently", "if confirmed", "taken with care", "treated with care"),
)

_ABBREVIATIONS = frozenset(re.findall(r"\S+", "e.g i.e p pp approx ca cf vs no nos est incl inc ltd co corp dr mr mrs ms st fig vol etc"))
_CURRENCIES = "EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|AUD|CAD|NZD|BRL|ZAR|US"
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"

# All that is looked for is bounded, or consumes what it scans, so that no text takes more than linear time.
_MARKER = re.compile(r"\[(?P<ids>[^\[\]\n]{1,400})\]|\{(?P<tag>[^{}\n]{1,80})\}|§+[ \u00a0]?(?P<xref>[A-Za-z0-9_]*)")
_IDS = re.compile(r"\s*(?:see )?E[0-9]{1,9}(?:\s*(?:[,;&/|\u2013-]|and )\s*E[0-9]{1,9})*\s*[,;]?\s*(?:: ?p{1,2}\. ?[0-9]{1,4})?\s*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*")
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'\u201d\u2019)\]*_]*+(?:[ \t\n]*+\x00++)*+(?=\s|\Z)")
_NEXT = re.compile(r"\s*+(.?)")
_LAST = re.compile(r"[A-Za-z.]+\Z")
_NUMBER = re.compile(
    r"(?P<years>(?:19|20)[0-9]{2}[-\u2013/](?:[0-9]{4}|[0-9]{2})(?![\d%]))"
    rf"|(?P<currency>(?:{_CURRENCIES})(?=\d))"  # the numeral comes next
    r"|(?P<name>[^\W\d_\u00bc-\u00be\u2150-\u215e]\w*+(?:[-\u2011]\d\w*+)?(?:(?<=\d)\.\d++)*+)"
    r"|(?P<numeral>[\d\u00bc-\u00be\u2150-\u215e]++(?:[.,]\d++)*+)"
)
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_NOT_YEAR = re.compile(r"\s?(?:%|‰|per ?cent\b|points?\b|[kKMB]\b)")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
_MONTH_AFTER = re.compile(rf"(?:st|nd|rd|th)? (?:of )?(?:{_MONTHS})\b", re.IGNORECASE)
_MONTH_BEFORE = re.compile(rf"\b(?:{_MONTHS}) \Z", re.IGNORECASE)
_BULLET = re.compile(r"[ \t]*+(?:>[ \t]*+)*+(?:[-*+•\u2013—]|[0-9]{1,3}[.)])[ \t]++")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}(?:[ \t]++(?:[Ss]ection[ \t]++)?(?:[0-9]{1,3}(?:\.[0-9]{1,3})*+[.):]?(?=[ \t]))?|[ \t]*+\Z)")
_FENCE = re.compile(r"[ ]{0,3}(?:```|~~~)[ \t]*+[A-Za-z]*+[ \t]*+\Z")
_TLDR = re.compile(r"[ \t>#*_+\-\u2013—•]*+TL;?DR\b", re.IGNORECASE)
_HEDGE = re.compile(r"\b(?:" + "|".join(HEDGES).replace("|may|", r"|may(?!\s\d)|").replace(" ", r"\s") + r")\b", re.IGNORECASE)
_SPACES = re.compile(r"\s+")
_LETTER = re.compile(r"[^\W_]|[\x00-\x02]")


@dataclass(frozen=True)
class Violation:
    """One thing a section breaks: the class of the check, the line (from 1), and what it was in a few words."""

    cls: str
    line: int
    what: str


@dataclass(frozen=True)
class _Sentence:
    """Where a sentence starts and ends, and the numerals in it that need a marker, each with its place."""

    start: int
    end: int
    numerals: tuple[tuple[int, str], ...]


class Reading:
    """A section taken apart: its markers, sentences and TL;DR.

    Parameters
    ----------
    text
        The section, Markdown.
    """

    def __init__(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", " ").replace("\x01", " ").replace("\x02", " ")
        self.text = text
        self._starts = [0]
        self._starts.extend(i + 1 for i, char in enumerate(text) if char == "\n")
        self.cites: list[tuple[int, str]] = []
        self.tags: list[tuple[int, str]] = []
        self.xrefs: list[tuple[int, str]] = []
        # The text with each marker blotted out, by one character for each kind: digits in them are no numerals.
        self._plain = _MARKER.sub(self._mark, text)
        self.bullets = 0
        self.tldr: int | None = None
        self.sentences = [self._sentence(a, b) for start, end in self._blocks() for a, b in self._split(start, end)]

    def line(self, at: int) -> int:
        """Return the number of the line, from 1, on which a place is."""
        return bisect_right(self._starts, at)

    def _mark(self, found: re.Match[str]) -> str:
        whole, at = found.group(), found.start()
        ids, tag, xref = found.group("ids", "tag", "xref")
        if ids is not None:
            if not _IDS.fullmatch(ids):
                # What else stands in brackets is text, and may have other markers in it.
                return "[" + _MARKER.sub(lambda inner: self._inner(inner, at + 1), ids) + "]"
            self.cites.extend((at, name) for name in re.findall(r"E[0-9]+", ids))
            return "\x00" * len(whole)
        if tag is not None:
            if not _NAME.fullmatch(tag.strip()) and not tag.strip().startswith("m_"):
                return whole
            self.tags.append((at, tag.strip()))
            return "\x01" * len(whole)
        self.xrefs.append((at, xref))
        return "\x02" * len(whole)

    def _inner(self, found: re.Match[str], by: int) -> str:
        tag, xref = found.group("tag", "xref")
        if tag is not None and _NAME.fullmatch(tag.strip()):
            self.tags.append((by + found.start(), tag.strip()))
            return "\x01" * len(found.group())
        if xref is not None:
            self.xrefs.append((by + found.start(), xref))
            return "\x02" * len(found.group())
        return found.group()

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Yield where headings, bullets, table rows and paragraphs start and end; count the bullets of the TL;DR on the way."""
        start = end = -1  # of the block that may go on
        counting, best = False, -1
        count = 0
        for begin, stop in zip(self._starts, [*self._starts[1:], len(self._plain) + 1], strict=True):
            line = self._plain[begin : stop - 1]
            stop = begin + len(line)
            heading, bullet = _HEADING.match(line), _BULLET.match(line)
            tldr = _TLDR.match(line)
            fence, blank = _FENCE.match(line), not line.strip()
            row = line.lstrip().startswith("|")
            alone = bool(heading or bullet or tldr or fence or blank or row)
            if tldr or (counting and not (blank or fence or bullet) and (heading or row or end < 0)):
                best, counting = max(best, count if counting else best), bool(tldr)
                count = 0 if tldr else count
                if tldr and self.tldr is None:
                    self.tldr = begin
            elif counting and bullet and _LETTER.search(line, bullet.end()):
                count += 1
            if alone and end >= 0:
                yield start, end
                start = end = -1
            if blank or fence:
                continue
            if alone:
                opened = heading or (None if tldr else bullet)
                start = begin + (opened.end() if opened else 0)
            elif end < 0:
                start = begin
            end = stop
            if heading or row:
                yield start, end
                start = end = -1
        if end >= 0:
            yield start, end
        self.bullets = max(best, count if counting else best, 0)

    def _split(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        plain = self._plain[start:end]
        at = 0
        for found in _END.finditer(plain):
            after = _NEXT.match(plain, found.end())
            if after is not None and after.group(1).islower():
                continue
            last = _LAST.search(plain, max(0, found.start() - 8), found.start())
            if last is not None and last.group().lower() in _ABBREVIATIONS and found.group().startswith("."):
                continue
            yield start + at, start + found.end()
            at = found.end()
        if plain[at:].strip():
            yield start + at, end

    def _sentence(self, start: int, end: int) -> _Sentence:
        plain = self._plain[start:end]
        found = [each for each in _NUMBER.finditer(plain) if each["numeral"] is not None and not _exempt(plain, each)]
        return _Sentence(start, end, tuple((start + each.start(), each.group()) for each in found))


def _exempt(plain: str, found: re.Match[str]) -> bool:
    """Return whether a numeral is a year, an ordinal or a day of a month."""
    numeral = found.group()
    if _YEAR.fullmatch(numeral) and not _NOT_YEAR.match(plain, found.end()):
        return not plain[max(0, found.start() - 2) : found.start()].rstrip().endswith(("$", "€", "£", "¥"))
    if not numeral.isdecimal():
        return False
    if _ORDINAL.match(plain, found.end()):
        return True
    if len(numeral) > 2 or not 1 <= int(numeral) <= 31:
        return False
    before = plain[max(0, found.start() - 12) : found.start()]
    return _MONTH_AFTER.match(plain, found.end()) is not None or _MONTH_BEFORE.search(before) is not None


def _shown(text: str, most: int = 60) -> str:
    text = _SPACES.sub(" ", text[: 4 * most]).strip()
    return text if len(text) <= most else text[: most - 3] + "..."


def violations(each: Slice, text: str, tier: int = 1) -> list[Violation]:
    """Return all that a section breaks, in the order of its lines; an empty list means that it passes.

    Parameters
    ----------
    each
        The slice the section was written from.
    text
        The section.
    tier
        1: the five checks of `TIER1`. 2: those and `TIER2`.
    """
    if tier not in (1, 2):
        raise ValueError(f"tier: {tier}")
    read = Reading(text)
    found = list(_tier1(each, read))
    if tier == 2:
        found.extend(_tier2(each, read))
    return sorted(found, key=lambda one: (one.line, CLASSES.index(one.cls)))


def _tier1(each: Slice, read: Reading) -> Iterator[Violation]:
    cards = {card.id for card in each.cards}
    tags = {metric.tag for metric in each.metrics}
    xrefs = {other.id for other in each.xref}
    for at, name in read.cites:
        if name not in cards:
            yield Violation("orphan_citation", read.line(at), f"[{_shown(name)}] is no card of this section")
    for at, tag in read.tags:
        if tag not in tags:
            yield Violation("unregistered_metric", read.line(at), f"{{{_shown(tag)}}} is no metric of this section")
    for at, name in read.xrefs:
        if name not in xrefs:
            yield Violation("broken_xref", read.line(at), f"§{_shown(name)} is no cross-reference of this section")
    marked = sorted(at for at, _ in (*read.cites, *read.tags))
    for sentence in read.sentences:
        if sentence.numerals and bisect_right(marked, sentence.end - 1) == bisect_right(marked, sentence.start - 1):
            at, numeral = sentence.numerals[0]
            yield Violation("bare_number", read.line(at), f"{_shown(numeral)} has no citation or metric in its sentence")
    floor = each.tldr_min_bullets
    if read.tldr is None:
        yield Violation("missing_tldr", 1, f"no TL;DR; {floor} bullets needed")
    elif read.bullets < floor:
        yield Violation("missing_tldr", read.line(read.tldr), f"{read.bullets} bullets in the TL;DR; {floor} needed")


def _tier2(each: Slice, read: Reading) -> Iterator[Violation]:
    cards = {card.id: card for card in each.cards}
    cites = [(at, name) for at, name in read.cites if name in cards]
    weak = [(at, name) for at, name in cites if cards[name].status == "weak"]
    places = [at for at, _ in weak]
    for sentence in read.sentences:
        first, last = bisect_right(places, sentence.start - 1), bisect_right(places, sentence.end - 1)
        if first < last and not _HEDGE.search(read.text, sentence.start, sentence.end):
            at, name = weak[first]
            yield Violation("unhedged_weak", read.line(at), f"[{name}] is weak and its sentence does not say so")
    cited = {name for _, name in cites}
    if {"bull", "bear"} <= each.stances():
        missing = {"bull", "bear"} - {cards[name].stance for name in cited}
        if missing:
            yield Violation("one_sided", 1, f"no {' and no '.join(sorted(missing))} card is cited")
    least, of = COVERAGE
    if of * len(cited) < least * len(cards):
        yield Violation("low_coverage", 1, f"{len(cited)} of {len(cards)} cards are cited; at least {least} of {of} needed")
