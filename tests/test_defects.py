"""Known defects: each changes one thing, in the place it says, and the checks see five classes and are blind to two."""

from __future__ import annotations

import re
from functools import cache

import pytest

from real_loop.audit.defects import CLASSES, OPPOSITES, VISIBLE, Injection, NotApplicable, inject, recall, words
from real_loop.suites.report import load_report
from real_loop.suites.report.compose import compose
from real_loop.suites.report.grader import TIER1, violations
from real_loop.suites.report.slices import Card, Metric, Slice, Xref

SLICES = [task.slice for task in load_report(1).tasks]
SMALL = Slice(
    "s3", "Market", "size it", 1,
    (
        Card("E001", "bull", "ok", "Revenue rose 30% to 1.2 B USD", "...1.2 B (+30%)...", "Annual report", ("m_rev",)),
        Card("E002", "bear", "ok", "The share is 18%, above plan", "...18%...", "Accounts"),
    ),
    (Metric("m_rev", "1.2", "B USD"),), (Xref("s5", "Rivals"),),
)  # fmt: skip
CLEAN = "# Market\n\nTL;DR\n- Revenue rose 30% to {m_rev} [E001].\n\nThe share, above plan, is 18% [E002]. More in §s5.\n"


@cache
def sections() -> list[str]:
    return [compose(each) for each in SLICES]


@cache
def injections(cls: str, seed: int = 0) -> list[Injection]:
    return [inject(each, text, cls, seed) for each, text in zip(SLICES, sections(), strict=True)]


@pytest.mark.parametrize("cls", CLASSES)
def test_one_contiguous_edit(cls: str) -> None:
    """All but what it says is as it was, byte for byte, and it is on the line it says."""
    for clean, one in zip(sections(), injections(cls), strict=True):
        assert one.cls == cls
        assert one.text != clean
        start = sum(map(len, clean.splitlines(keepends=True)[: one.line - 1]))
        places = [m.start() for m in re.finditer(f"(?={re.escape(one.before)})", clean[start:])]
        made = [clean[: start + at] + one.after + clean[start + at + len(one.before) :] for at in places]
        assert one.text in made
        # On that line, not on a later one.
        at = start + places[made.index(one.text)]
        assert "\n" not in clean[start:at]


@pytest.mark.parametrize("cls", VISIBLE)
def test_check_visible(cls: str) -> None:
    """The check of that class fires, once, on that line, and no other does."""
    for each, one in zip(SLICES, injections(cls), strict=True):
        (found,) = violations(each, one.text)
        assert found.cls == cls
        assert found.line == (1 if cls == "missing_tldr" else one.line)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls not in VISIBLE])
def test_check_invisible(cls: str) -> None:
    assert all(violations(each, one.text, 2) == [] for each, one in zip(SLICES, injections(cls), strict=True))


def card_of(each: Slice, one: Injection) -> set[str]:
    """Return the texts of the cards that the changed line cites."""
    ids = set(re.findall(r"E\d{3}", one.text.splitlines()[one.line - 1]))
    return {text for card in each.cards if card.id in ids for text in (card.claim, card.quote)}


def test_negation_contradicts_its_card() -> None:
    """One word is turned round, which the card says the other way; numbers, tags and citations stay."""
    kinds = set()
    for each, clean, one in zip(SLICES, sections(), injections("claim_negation"), strict=True):
        assert OPPOSITES[one.before.lower()] == one.after.lower()
        assert one.before[0].isupper() == one.after[0].isupper()
        assert any(re.search(rf"\b{one.before}\b", said) for said in card_of(each, one))
        marks = r"\[E\d+\]|\{\w+\}|\d+"
        assert re.findall(marks, clean) == re.findall(marks, one.text)
        kinds.add(one.before)
    assert len(kinds) > 15


def test_opposites() -> None:
    for word, other in OPPOSITES.items():
        assert word != other
        assert OPPOSITES[OPPOSITES[other]] == other


def test_swap_misquotes_its_card() -> None:
    """One digit is another; the number was in its card and the new one is not; markers are as they were."""
    for each, clean, one in zip(SLICES, sections(), injections("number_swap"), strict=True):
        assert re.fullmatch(r"\d", one.before)
        assert re.fullmatch(r"\d", one.after)
        assert len(one.text) == len(clean)
        (at,) = [i for i, (a, b) in enumerate(zip(clean, one.text, strict=True)) if a != b]
        marks = r"\[E\d+\]|\{\w+\}|§s\d+"
        assert re.findall(marks, clean) == re.findall(marks, one.text)
        found = next(m for m in re.finditer(r"\d+(?:\.\d+)*", clean) if m.start() <= at < m.end())
        new = one.text[found.start() : found.end()]
        numbers = {number for text in card_of(each, one) for number in re.findall(r"\d+(?:\.\d+)*", text)}
        assert found.group() in numbers
        assert not (new[0] == "0" and new[1:2].isdigit())
        assert float(new) != float(found.group())


def test_orphans_are_no_cards() -> None:
    for each, one in zip(SLICES, injections("orphan_citation"), strict=True):
        assert re.fullmatch(r"E\d{3}", one.after)
        assert one.after not in {card.id for card in each.cards}


def test_bare_numbers_of_both_kinds() -> None:
    """Half are sentences put in, half are markers taken away: within four standard deviations (false alarm: 1 in 16,000)."""
    added = sum(one.before == "" for one in injections("bare_number"))
    assert abs(added - 77.5) < 4 * (155 / 4) ** 0.5
    assert all(one.before == "" or one.after == "" for one in injections("bare_number"))


def test_tldr_goes_whole() -> None:
    for one in injections("missing_tldr"):
        assert "TL;DR" in one.before
        assert one.before.count("\n- ") >= 2
        assert "TL;DR" not in one.text
        assert re.match(r"## [^\n]+\n\n\w", one.text)


@pytest.mark.parametrize("cls", CLASSES)
def test_deterministic_in_the_seed(cls: str) -> None:
    again = [inject(each, text, cls, 0) for each, text in zip(SLICES[:30], sections(), strict=False)]
    assert again == injections(cls)[:30]
    other = [inject(each, text, cls, 1) for each, text in zip(SLICES[:30], sections(), strict=False)]
    assert (other == again) == (cls == "missing_tldr")  # there is only one TL;DR


WHERE: list[tuple[str, str, str]] = [
    ("orphan_citation", "TL;DR\n- none\n\nWords.\n", "no card is cited"),
    ("unregistered_metric", "TL;DR\n- none\n\nWords.\n", "no metric and no citation"),
    ("bare_number", "TL;DR\n- none\n\nWords.\n", "no sentence with a citation"),
    ("broken_xref", "TL;DR\n- none\n\nWords.\n", "no cross-reference and no citation"),
    ("missing_tldr", "Words [E001].\n", "no TL;DR"),
    ("claim_negation", "TL;DR\n- Revenue: {m_rev} [E001].\n", "no cited sentence has a direction"),
    ("claim_negation", "TL;DR\n- Revenue fell [E001].\n", "no cited sentence has a direction"),
    ("number_swap", "TL;DR\n- Revenue rose to {m_rev} [E001].\n", "no cited sentence has a number"),
    ("number_swap", "TL;DR\n- Revenue rose in 2025 [E001].\n", "no cited sentence has a number"),
    ("number_swap", "TL;DR\n- Some 77 of them [E001].\n", "no cited sentence has a number"),
]


@pytest.mark.parametrize(("cls", "text", "reason"), WHERE, ids=[str(i) for i in range(len(WHERE))])
def test_where_it_does_not_apply(cls: str, text: str, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        inject(SMALL, text, cls, 0)


MADE: list[tuple[str, str, str, str]] = [
    ("unregistered_metric", "TL;DR\n- Revenue rose 30% [E001].\n", "", r"\{m_total_\w+\} "),
    ("broken_xref", "TL;DR\n- Revenue rose 30% [E001].\n", "", r" \(see §s\d+\)"),
    ("claim_negation", "TL;DR\n- Revenue grew [E001].\n", "grew", "shrank"),
    ("claim_negation", "TL;DR\n- Up 30% on the year [E001].\n", "Up", "Down"),
    ("claim_negation", "TL;DR\n- It adds up to growth in all [E001].\n", "growth", "decline"),
    ("claim_negation", "TL;DR\n- A follow-up; ABOVE plan [E002].\n", "ABOVE", "Below"),
    ("number_swap", "TL;DR\n- The FY18 share is 18%, see §s18 [E002].\n", r"1|8", r"\d"),
    ("number_swap", "TL;DR\n1. On 18 March, the 18th of\nthem, it was 18% [E002].\n", r"1|8", r"\d"),
    ("orphan_citation", "TL;DR\n- Both [E001, E002].\n", r"E00[12]", r"E\d{3}"),
]


@pytest.mark.parametrize(("cls", "text", "before", "after"), MADE, ids=[str(i) for i in range(len(MADE))])
def test_in_sections_of_other_writers(cls: str, text: str, before: str, after: str) -> None:
    for seed in range(8):
        one = inject(SMALL, text, cls, seed)
        assert re.fullmatch(before, one.before)
        assert re.fullmatch(after, one.after)
        assert one.line == (3 if "March" in text else 2)
        if "FY18" in text:
            assert re.search(r"FY18 share is (?!18%)\d\d%, see §s18 ", one.text)


WRAPPED = (
    "TL;DR\n- Revenue rose\n  30% [E001].\n\nRevenue is {m_rev}, after 1.1\na year ago, or so\nthey say [E001]. The share\nis 18% [E002].\n"
)


def test_bare_numbers_in_wrapped_lines() -> None:
    """A sentence over several lines has the markers of all of them; what is made bare is bare."""
    assert violations(SMALL, WRAPPED) == []
    kinds = set()
    for seed in range(40):
        one = inject(SMALL, WRAPPED, "bare_number", seed)
        assert [each.cls for each in violations(SMALL, one.text)] == ["bare_number"], one
        kinds.add(one.before)
    assert kinds == {"", " [E001]", " [E002]"}


def test_recall_over_155_sections() -> None:
    rows, unclean = recall(SLICES)
    assert unclean == ()
    assert [row.cls for row in rows] == ["clean", *CLASSES]
    assert [(row.n, row.flagged, row.other) for row in rows] == [(155, 0, ()), *[(155, 155, ())] * 5, *[(155, 0, ())] * 2]
    assert all(row.named == row.flagged for row in rows)
    assert [row.rate for row in rows] == [0, 1, 1, 1, 1, 1, 0, 0]
    assert set(VISIBLE) == set(TIER1)
    lines = words(rows).splitlines()
    assert len(lines) == 9
    assert lines[1].split() == ["clean", "155", "0"]
    assert lines[2].split() == ["orphan_citation", "155", "155", "1.00"]


def test_what_does_not_apply_is_told() -> None:
    """Sections without a place for a class are counted with the reason, those that are not clean by their place."""
    texts = [CLEAN, "TL;DR\n- none\n", "Words.", CLEAN]
    rows, unclean = recall([SMALL] * 4, sections=texts)
    assert unclean == (2,)
    by = {row.cls: row for row in rows}
    assert by["clean"].n == 3
    assert (by["orphan_citation"].n, by["orphan_citation"].other) == (2, (("no card is cited", 1),))
    assert by["missing_tldr"].n == 3
    assert "not applicable: no card is cited" in words(rows)
    none, _ = recall([SMALL], sections=["TL;DR\n- none\n"])
    assert next(row for row in none if row.cls == "number_swap").rate is None


def test_broken_checks_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grader that misses one class, or that flags what is clean, shows in the table."""
    few = SLICES[:12]
    real = violations
    monkeypatch.setattr("real_loop.audit.defects.violations", lambda s, t, tier: [v for v in real(s, t, tier) if v.cls != "bare_number"])
    by = {row.cls: row.rate for row in recall(few)[0]}
    assert by["bare_number"] == 0
    assert by["orphan_citation"] == 1
    monkeypatch.setattr("real_loop.audit.defects.violations", lambda s, t, tier: real(s, t + "\n77.\n", tier))
    rows, unclean = recall(few)
    assert (rows[0].n, len(unclean)) == (0, 12)


def test_of_several_tldrs_none_is_taken_away() -> None:
    """The best of them counts, so a section without one of two may be whole."""
    two = CLEAN + "\n## TL;DR\n- The share is 18% [E002].\n"
    assert not violations(SMALL, two)
    with pytest.raises(NotApplicable, match="several TL;DRs"):
        inject(SMALL, two, "missing_tldr", 0)
