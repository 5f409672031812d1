"""Evidence slices: what one section of a report may be written from. The schema is that of BC App. A."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sim.errors import InputError

STANCES: Final = ("bull", "bear", "neutral")
STATUSES: Final = ("ok", "weak")
_CARD = re.compile(r"E[0-9]{3,4}")
_TAG = re.compile(r"m_[a-z0-9_]{1,40}")
_SECTION = re.compile(r"s[0-9]{1,3}")


@dataclass(frozen=True)
class Card:
    """One piece of evidence.

    Parameters
    ----------
    id
        ``E`` and three or four digits, as a citation names it.
    stance
        One of `STANCES`: whether it speaks for the subject of the report, against it, or neither.
    status
        ``weak`` cards have to be hedged where they are cited (tier 2).
    claim, quote, source
        What it says, the words of the source, and the source.
    metric_refs
        Tags of the metrics whose values it gives. May be empty.
    """

    id: str
    stance: str
    status: str
    claim: str
    quote: str
    source: str
    metric_refs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Metric:
    """A registered metric: its tag (``m_rev``), its value as text, and its unit."""

    tag: str
    value: str
    unit: str

    def shown(self) -> str:
        """Return value and unit as the cards write them: ``61.4%``, ``1.2 B USD``."""
        return f"{self.value}{self.unit}" if self.unit == "%" else f"{self.value} {self.unit}".rstrip()


@dataclass(frozen=True)
class Xref:
    """Another section that may be referred to (as ``§s5``), and its title."""

    id: str
    title: str


@dataclass(frozen=True)
class Slice:
    """The brief of one section, and the closed set of cards, metrics and cross-references it may use.

    Parameters
    ----------
    section
        Its id within the report (``s3``).
    title, purpose
        What it is called and what it is for.
    tldr_min_bullets
        The fewest bullets its TL;DR may have.
    cards, metrics, xref
        In the order a composer sees them.
    """

    section: str
    title: str
    purpose: str
    tldr_min_bullets: int
    cards: tuple[Card, ...]
    metrics: tuple[Metric, ...]
    xref: tuple[Xref, ...]

    def stances(self) -> frozenset[str]:
        """Return the stances met, without ``neutral``."""
        return frozenset(card.stance for card in self.cards) - {"neutral"}


def to_json(each: Slice) -> dict[str, Any]:
    """Return a slice as plain values, in the shape and order of BC App. A; ``metric_refs`` is left out where there are none."""
    cards = []
    for card in each.cards:
        row: dict[str, Any] = {"id": card.id, "stance": card.stance, "status": card.status}
        row |= {"claim": card.claim, "quote": card.quote, "source": card.source}
        if card.metric_refs:
            row["metric_refs"] = list(card.metric_refs)
        cards.append(row)
    return {
        "section": each.section,
        "title": each.title,
        "purpose": each.purpose,
        "tldr_min_bullets": each.tldr_min_bullets,
        "cards": cards,
        "metrics": [{"tag": m.tag, "value": m.value, "unit": m.unit} for m in each.metrics],
        "xref": [{"id": x.id, "title": x.title} for x in each.xref],
    }


def dumped(each: Slice) -> str:
    """Return a slice as JSON text, one card, metric or cross-reference a line."""
    plain = to_json(each)
    parts = []
    for key, value in plain.items():
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in value)
            parts.append(f'"{key}":[\n{rows}\n]' if rows else f'"{key}":[]')
        else:
            parts.append(f'"{key}":{json.dumps(value, ensure_ascii=False)}')
    return "{" + ",\n".join(parts) + "}"


def _got(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _keys(value: object, what: str, needed: tuple[str, ...], more: tuple[str, ...] = ()) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(what, _got(value), "an object with " + ", ".join(needed))
    for key in needed:
        if key not in value:
            raise InputError(what, "no " + key, "an object with " + ", ".join(needed))
    for key in value:
        if key not in needed and key not in more:
            raise InputError(what, f"a key {_got(key)}", "no others than " + ", ".join((*needed, *more)))
    return value


def _text(value: object, what: str, form: re.Pattern[str] | None = None, one_of: tuple[str, ...] = ()) -> str:
    if not isinstance(value, str) or (form is None and not one_of and not value.strip()):
        raise InputError(what, _got(value), "a text")
    if form is not None and not form.fullmatch(value):
        raise InputError(what, _got(value), f"a text of the form {form.pattern}")
    if one_of and value not in one_of:
        raise InputError(what, _got(value), " or ".join(one_of))
    return value


def _rows(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise InputError(what, _got(value), "a list")
    return value


def _distinct(ids: list[str], what: str) -> None:
    for i, name in enumerate(ids):
        if name in ids[:i]:
            raise InputError(what, f"{name} twice", "each once")


def _card(value: object, what: str, tags: list[str]) -> Card:
    row = _keys(value, what, ("id", "stance", "status", "claim", "quote", "source"), ("metric_refs",))
    refs = [_text(tag, f"{what}.metric_refs", _TAG) for tag in _rows(row.get("metric_refs", []), f"{what}.metric_refs")]
    for tag in refs:
        if tag not in tags:
            raise InputError(f"{what}.metric_refs", tag, "a tag of the slice's metrics")
    stance = _text(row["stance"], f"{what}.stance", one_of=STANCES)
    status = _text(row["status"], f"{what}.status", one_of=STATUSES)
    claim, quote, source = (_text(row[key], f"{what}.{key}") for key in ("claim", "quote", "source"))
    return Card(_text(row["id"], f"{what}.id", _CARD), stance, status, claim, quote, source, tuple(refs))


def from_json(value: object) -> Slice:
    """Read a slice from plain values in the shape of BC App. A.

    Raises
    ------
    InputError
        Something is missing, of the wrong kind, there twice, or refers to nothing.
    """
    needed = ("section", "title", "purpose", "tldr_min_bullets", "cards", "metrics", "xref")
    row = _keys(value, "slice", needed)
    section = _text(row["section"], "slice.section", _SECTION)
    floor = row["tldr_min_bullets"]
    if not isinstance(floor, int) or isinstance(floor, bool) or not 1 <= floor <= 20:
        raise InputError(f"{section}.tldr_min_bullets", _got(floor), "a whole number from 1 to 20")
    metrics = []
    for i, each in enumerate(_rows(row["metrics"], f"{section}.metrics")):
        what = f"{section}.metrics[{i}]"
        one = _keys(each, what, ("tag", "value", "unit"))
        unit = one["unit"]
        if not isinstance(unit, str):
            raise InputError(f"{what}.unit", _got(unit), "a text")
        metrics.append(Metric(_text(one["tag"], f"{what}.tag", _TAG), _text(one["value"], f"{what}.value"), unit))
    xref = []
    for i, each in enumerate(_rows(row["xref"], f"{section}.xref")):
        what = f"{section}.xref[{i}]"
        one = _keys(each, what, ("id", "title"))
        xref.append(Xref(_text(one["id"], f"{what}.id", _SECTION), _text(one["title"], f"{what}.title")))
    tags = [metric.tag for metric in metrics]
    cards = [_card(each, f"{section}.cards[{i}]", tags) for i, each in enumerate(_rows(row["cards"], f"{section}.cards"))]
    if not cards:
        raise InputError(f"{section}.cards", "none", "one or more")
    _distinct([card.id for card in cards], f"{section}.cards")
    _distinct(tags, f"{section}.metrics")
    _distinct([each.id for each in xref], f"{section}.xref")
    title, purpose = _text(row["title"], f"{section}.title"), _text(row["purpose"], f"{section}.purpose")
    return Slice(section, title, purpose, floor, tuple(cards), tuple(metrics), tuple(xref))
