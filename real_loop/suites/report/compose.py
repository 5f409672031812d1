"""A composer without a model: writes a section from a slice by rule, so that an audit of checks needs no model.

Each card becomes one sentence: its claim, where it comes from, its citation, and a hedge where the card is weak; values of registered
metrics become tags or have them at their side. Which words are used is drawn from the slice itself: the same slice, the same section.
"""

from __future__ import annotations

import re
from typing import Final

from real_loop.suites.report.slices import Card, Slice
from real_loop.suites.report.worlds import Draws

# Ways to say that a card is weak, around its claim. Each has a word of `grader.HEDGES`.
_HEDGED: Final = (
    "{claim}, though {source} is unverified {cite}.",
    "Unconfirmed so far, from {source}: {claim} {cite}.",
    "{claim} {cite}; {source} may be wrong here.",
    "To be treated with care ({source}): {claim} {cite}.",
    "Reportedly, and on the word of {source} only: {claim} {cite}.",
    "{claim}, a point that remains uncertain while {source} stands alone {cite}.",
    "One preliminary reading, {source}, has it thus: {claim} {cite}.",
    "{claim}; no ledger bears this out, and {source} could be mistaken {cite}.",
)
_SURE: Final = (
    "{claim} {cite}.",
    "{claim}, as {source} records {cite}.",
    "From {source}: {claim} {cite}.",
    "{claim} {cite}, going by {source}.",
    "Documented in {source}: {claim} {cite}.",
    "{claim}; the basis is {source} {cite}.",
    "{source} is plain on this: {claim} {cite}.",
)
_BARELY: Final = ("{claim} {cite}.", "{claim}, {source} says {cite}.", "So says {source}: {claim} {cite}.")
_HEADS: Final[dict[str, tuple[str, ...]]] = {
    "bull": ("What speaks for it", "Gains", "On the credit side", "Where it holds up", "Grounds for confidence", "Tailwinds"),
    "bear": ("What speaks against it", "Strains", "On the debit side", "Where it gives way", "Grounds for doubt", "Headwinds"),
    "neutral": ("How it is counted", "Basis of the figures", "On the record", "Definitions", "A note on method"),
    "weak": ("Less certain", "What rests on thin sources", "Open claims", "Still to be checked", "Hearsay and forecasts"),
}
_OPENINGS: Final = (
    "The aim here is to {purpose}.",
    "This section sets out to {purpose}.",
    "What follows is meant to {purpose}.",
    "The question is a narrow one: {purpose}.",
    "Read this part to {purpose}.",
)
_POINTERS: Final = (
    "{title} is taken up in §{id}.",
    "See §{id} for {title}.",
    "The other half of the picture, {title}, is in §{id}.",
    "Read together with §{id} ({title}).",
    "More on this under {title} (§{id}).",
)
_EXTRA: Final = (
    "In the words of the source: {quote} {cite}.",
    "The wording there, {quote}, leaves little room {cite}.",
    "Quoted in full: {quote} {cite}.",
)
_ARTICLE = re.compile(r"\A(?:An?|The) ")


def compose(each: Slice, variant: int = 0) -> str:
    """Write a section from a slice.

    Parameters
    ----------
    each
        The slice.
    variant
        0 passes both tiers. Any other passes the five checks, and may leave hedges out, cite fewer cards or one stance alone, or quote
        more numbers: what tier 2 finds differs from one variant to the next, from nothing to many.

    Returns
    -------
    str
        Markdown, ends with a line break.
    """
    draws = Draws("compose", each.section, each.title, *(card.claim for card in each.cards), variant)
    hedging, covered, wordy = 100, len(each.cards), draws.chance(30)
    cards = draws.order(each.cards)
    if variant:
        hedging = draws.one((0, 30, 60, 100))
        wordy = draws.chance(60)
        covered = draws.within(max(1, len(cards) // 3), len(cards))
        if draws.chance(25):
            kept = draws.one(("bull", "bear"))
            cards = [card for card in cards if card.stance in (kept, "neutral")] or cards
    cards = cards[: max(1, covered)]
    body = _body(each, cards, hedging, wordy, draws)
    return f"## {each.title}\n\n{_tldr(each, cards, hedging, draws)}\n\n{draws.one(_OPENINGS).format(purpose=each.purpose)}\n\n{body}\n"


def _claim(each: Slice, card: Card, draws: Draws) -> str:
    """Return a card's claim with the values of its metrics replaced by tags, or tagged."""
    claim = card.claim
    for metric in each.metrics:
        shown = metric.shown()
        found = re.search(rf"(?<![\d.]){re.escape(shown)}(?!\d|\.\d|%)", claim) if metric.tag in card.metric_refs else None
        if found is not None:
            tag = f"{{{metric.tag}}}"
            claim = claim[: found.start()] + (tag if draws.chance(45) else f"{shown} {tag}") + claim[found.end() :]
    return claim


def _sentence(each: Slice, card: Card, hedging: int, draws: Draws, used: list[str]) -> str:
    weak = card.status == "weak"
    forms = (_HEDGED if draws.chance(hedging) else _BARELY) if weak else _SURE
    form = draws.one([form for form in forms if form not in used] or list(forms))
    used.append(form)
    source = _ARTICLE.sub(lambda found: found.group().lower(), card.source)
    text = form.format(claim=_claim(each, card, draws), source=source, cite=f"[{card.id}]")
    return text[:1].upper() + text[1:]


def _tldr(each: Slice, cards: list[Card], hedging: int, draws: Draws) -> str:
    bullets = []
    wanted = each.tldr_min_bullets + draws.below(2)
    # Where fewer cards are used than bullets needed, cards come again with other words.
    for i in range(wanted):
        card = cards[i % len(cards)]
        bullets.append("- " + _sentence(each, card, hedging, draws, []))
    head = draws.one(("**TL;DR**", "### TL;DR", "**TL;DR:**", "TL;DR"))
    return head + "\n\n" + "\n".join(bullets)


def _body(each: Slice, cards: list[Card], hedging: int, wordy: bool, draws: Draws) -> str:
    groups: dict[str, list[Card]] = {}
    for card in cards:
        groups.setdefault("weak" if card.status == "weak" and draws.chance(40) else card.stance, []).append(card)
    used: list[str] = []
    pointers = [draws.one(_POINTERS).format(id=other.id, title=other.title) for other in each.xref]
    parts = []
    for name in draws.order(sorted(groups)):
        sentences = []
        for card in groups[name]:
            sentences.append(_sentence(each, card, hedging, draws, used))
            if wordy and draws.chance(40) and card.status == "ok":
                sentences.append(draws.one(_EXTRA).format(quote=f'"{card.quote.strip(".")}"', cite=f"[{card.id}]"))
        if pointers:
            sentences.append(pointers.pop())
        parts.append(f"### {draws.one(_HEADS[name])}\n\n" + " ".join(sentences))
    if pointers:
        parts[-1] += " " + " ".join(pointers)
    return "\n\n".join(parts)
