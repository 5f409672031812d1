"""The report testbed: slices that are the same everywhere, a grader blind to all but its checks, a composer that passes it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from real_loop.audit.defects import OPPOSITES
from real_loop.suites.report import NAMES, load_report, text_of
from real_loop.suites.report.compose import compose
from real_loop.suites.report.generate import production, productions
from real_loop.suites.report.grader import CLASSES, HEDGES, TIER1, violations
from real_loop.suites.report.slices import Card, Metric, Slice, Xref, dumped, from_json, to_json
from real_loop.suites.report.worlds import number
from sim.errors import InputError

DIGEST = "83e9d551c664cc122a8363ea4b91f1614d5c4fccd7c7001e4784932fb8e6774a"
TASKS = load_report(1).tasks
SLICES = [task.slice for task in TASKS]
SMALL = Slice(
    "s3", "Market position", "size the market", 2,
    (
        Card("E001", "bull", "ok", "Revenue rose 30% to 1.2 B USD", "...1.2 B (+30%)...", "Annual report", ("m_rev",)),
        Card("E002", "bear", "weak", "A note puts the share near 18%", "...~18%...", "Newsletter"),
        Card("E003", "bear", "ok", "Costs fell", "...fell...", "Accounts"),
    ),
    (Metric("m_rev", "1.2", "B USD"),), (Xref("s5", "Competitors"),),
)  # fmt: skip
HEAD = "TL;DR\n- one\n- two\n\n"


def found(text: str, tier: int = 1, head: str = HEAD) -> list[tuple[str, int]]:
    """Grade a text under a TL;DR of four lines: classes, and lines from the first of the text."""
    shift = head.count("\n")
    return [(each.cls, each.line - shift) for each in violations(SMALL, head + text, tier)]


def classes(text: str, tier: int = 1) -> list[str]:
    return [name for name, _ in found(text, tier)]


# Slices


def test_slices_pinned() -> None:
    """Tasks, and so all that was measured on them, are the same on every machine."""
    rows = [[task.id, to_json(task.slice)] for task in TASKS]
    assert hashlib.sha256(json.dumps(rows, ensure_ascii=False).encode()).hexdigest() == DIGEST


def test_slices_whatever_hash_seed() -> None:
    code = "from real_loop.suites.report import load_report as l; from real_loop.suites.report.compose import compose as c;"
    code += "import hashlib; s=l(2); print(s.digest, hashlib.sha256(''.join(c(t.slice, 3) for t in s.tasks).encode()).hexdigest())"
    env = {**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout.decode().split()
    suite = load_report(2)
    assert said == [suite.digest, hashlib.sha256("".join(compose(t.slice, 3) for t in suite.tasks).encode()).hexdigest()]


def test_another_seed_another_world() -> None:
    assert all(a != b for a, b in zip(production("water", 1), productions()["water"], strict=True))


def test_productions_are_coherent() -> None:
    assert Counter(task.production for task in TASKS) == dict.fromkeys(productions(), 31)
    assert len({task.id for task in TASKS}) == 155
    assert load_report(1).task("water/s3").slice.section == "s3"
    for slices in productions().values():
        titles = {each.section: each.title for each in slices}
        assert len(set(titles.values())) == 31
        values: dict[str, set[Metric]] = {}
        shared: Counter[str] = Counter()
        ids: list[str] = []
        for each in slices:
            assert all(titles[other.id] == other.title and other.id != each.section for other in each.xref)
            assert each.xref
            for metric in each.metrics:
                values.setdefault(metric.tag, set()).add(metric)
                shared[metric.tag] += 1
            known = {metric.tag: metric for metric in each.metrics}
            assert {tag for card in each.cards for tag in card.metric_refs} == set(known)
            for card in each.cards:
                assert all(known[tag].shown() in card.claim for tag in card.metric_refs), card
            ids.extend(card.id for card in each.cards)
        assert all(len(one) == 1 for one in values.values())
        assert sum(n > 1 for n in shared.values()) >= 8  # values are quoted by more than one section
        assert ids == [f"E{i:03d}" for i in range(1, len(ids) + 1)]


def test_last_years_value_is_one_too() -> None:
    """What a card says of the year before agrees with what every other card says of the same metric."""
    for slices in productions().values():
        prior: dict[str, set[str]] = {}
        for card in (card for each in slices for card in each.cards):
            for pattern in (r"\(2024: ([^)]+)\)", r"after (\S.*) the year before", r"where 2024 had shown ([^,]+)\.\.\.$"):
                for said in re.findall(pattern, card.quote):
                    for tag in card.metric_refs:
                        prior.setdefault(tag, set()).add(said)
        assert len(prior) > 20
        assert {tag: said for tag, said in prior.items() if len(said) > 1} == {}


def test_slices_vary() -> None:
    assert {len(each.cards) for each in SLICES} == {4, 5, 6, 7, 8, 9}
    assert {each.tldr_min_bullets for each in SLICES} == {2, 3, 4}
    assert sum({"bull", "bear"} <= each.stances() for each in SLICES) >= 140
    assert sum(any(card.status == "weak" for card in each.cards) for each in SLICES) >= 110
    assert all(any(card.status == "ok" for card in each.cards) for each in SLICES)
    claims = [card.claim for each in SLICES for card in each.cards]
    assert len(set(claims)) == len(claims)


def test_directions_are_right() -> None:
    """A claim of the year says rose where the figures rise: the sentence a defect turns round must have been true."""
    up = {"rose", "grew", "climbed", "increased", "advanced", "lengthened", "widened"}
    checked = 0
    for card in (card for each in SLICES for card in each.cards):
        for word, prior, now in re.findall(r"\b(\w+) from ([\d.]+)%? ?[^\d]*? to ([\d.]+)", card.claim):
            if word in OPPOSITES:
                checked += 1
                assert (float(now) > float(prior)) == (word in up), card.claim
    assert checked > 30


def test_no_direction_or_hedge_slips_in() -> None:
    """Each claim has at most one word of direction, and claims of weak cards are not hedged already."""
    direction = re.compile(r"\b(?:" + "|".join(sorted(OPPOSITES.keys() - {"up", "down"})) + r")\b")
    hedge = re.compile(r"\b(?:" + "|".join(HEDGES) + r")\b", re.IGNORECASE)
    cards = [card for each in SLICES for card in each.cards]
    assert [card.claim for card in cards if len(direction.findall(card.claim)) > 1] == []
    assert [card.claim for card in cards if hedge.search(card.claim + card.source)] == []
    assert sum(bool(direction.search(card.claim)) for card in cards) > 0.8 * len(cards)


def grams(text: str) -> frozenset[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9.%']+", text.lower())
    return frozenset(tuple(words[i : i + 5]) for i in range(len(words) - 4))


@pytest.mark.parametrize("kind", ["slices", "sections"])
def test_no_two_read_alike(kind: str) -> None:
    """Of the runs of five words of a text, no other text shares more than one in seven (the worst pairs share one in ten)."""
    texts = [compose(each) for each in SLICES]
    if kind == "slices":
        texts = ["\n".join([each.title, each.purpose, *(f"{c.claim} | {c.quote} | {c.source}" for c in each.cards)]) for each in SLICES]
    sets = [grams(text) for text in texts]
    shares = [len(a & b) / min(len(a), len(b)) for i, a in enumerate(sets) for b in sets[:i]]
    assert max(shares) < 1 / 7
    assert sum(shares) / len(shares) < 0.02


def test_schema_there_and_back() -> None:
    for each in [*SLICES, SMALL]:
        plain = json.loads(json.dumps(to_json(each)))
        assert from_json(plain) == each
        assert json.loads(dumped(each)) == plain
    plain = to_json(SMALL)
    assert list(plain) == ["section", "title", "purpose", "tldr_min_bullets", "cards", "metrics", "xref"]
    assert list(plain["cards"][0]) == ["id", "stance", "status", "claim", "quote", "source", "metric_refs"]
    assert "metric_refs" not in plain["cards"][1]
    assert plain["metrics"] == [{"tag": "m_rev", "value": "1.2", "unit": "B USD"}]


BAD: list[tuple[str, Callable[[dict], object], str]] = [
    ("no object", lambda p: [p], "slice"),
    ("key missing", lambda p: p.pop("cards") and p, "no cards"),
    ("key unknown", lambda p: p | {"notes": 1}, "notes"),
    ("no cards", lambda p: p | {"cards": []}, "none"),
    ("card twice", lambda p: p | {"cards": [p["cards"][0], p["cards"][0]]}, "E001 twice"),
    ("id", lambda p: p | {"cards": [p["cards"][1] | {"id": "X1"}]}, "X1"),
    ("stance", lambda p: p | {"cards": [p["cards"][1] | {"stance": "cow"}]}, "cow"),
    ("reference", lambda p: p | {"metrics": []}, "m_rev"),
    ("floor", lambda p: p | {"tldr_min_bullets": True}, "True"),
    ("value", lambda p: p | {"metrics": [{"tag": "m_rev", "value": 1.2, "unit": ""}]}, "1.2"),
    ("section", lambda p: p | {"section": "three"}, "three"),
    ("empty", lambda p: p | {"title": " "}, "title"),
    ("xref", lambda p: p | {"xref": {}}, "xref"),
]


@pytest.mark.parametrize(("change", "said"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_slices_are_refused(change: Callable[[dict], object], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        from_json(change(to_json(SMALL)))


def test_numbers_without_floats() -> None:
    assert [number(5, 1), number(1234, 2), number(7, 0), number(100, 2), number(-5, 1)] == ["0.5", "12.34", "7", "1.00", "-0.5"]


# The grader: what each rule of README says, one text each


CASES: list[tuple[str, list[tuple[str, int]]]] = [
    ("Revenue rose 30% [E001].", []),
    ("Revenue rose 30% [E009].", [("orphan_citation", 1)]),
    ("Words alone [E009, E001; E010].", [("orphan_citation", 1), ("orphan_citation", 1)]),
    ("Posted {m_rev}, up 30%.", []),
    ("Posted {m_profit}, up 30%.", [("unregistered_metric", 1)]),
    ("Posted {revenue}.", [("unregistered_metric", 1)]),
    ("Posted {m_rev: 1.2}.", [("unregistered_metric", 1)]),
    ("Sets {a, b} are no metric.", []),
    ("See §s5, not §s4.", [("broken_xref", 1)]),
    ("See § s5 and §s55.", [("broken_xref", 1)]),
    ("This very section, §s3.", [("broken_xref", 1)]),
    ("A lone § sign.", [("broken_xref", 1)]),
    ("Revenue rose 30%.", [("bare_number", 1)]),
    ("Revenue rose 30% and 40% and 50%.", [("bare_number", 1)]),
    ("It rose 30%. It fell 20%.", [("bare_number", 1), ("bare_number", 1)]),
    ("It rose 30% [E001]. It fell 20%.", [("bare_number", 1)]),
    ("It rose 30%. [E001] Then it fell.", []),
    ("It rose 30%.[E001] Then it fell by 20%.", [("bare_number", 1)]),
    ('"It rose 30%." [E001]', []),
    ("It rose 30%\nover the year [E001].", []),
    ("Words.\n\nIt rose 30%\n\nover the year [E001].", [("bare_number", 3)]),
    ("- it rose 30%\n- and more [E001]", [("bare_number", 1)]),
    ("| a | 30% |\n| b [E001] | 20% |", [("bare_number", 1)]),
    ("| a | 30% [E001] |\n|---|---|\n| b [E001] | 20% |", []),
    ("# 3. Market\n## 2.1 Size\n### Section 4: Share", []),
    ("# Share of 30%\nWords [E001].", [("bare_number", 1)]),
    ("1. first\n2) second", []),
    ("In 2024, and from 1998-99 to 2019/20 and FY25, Q3, CO2, COVID-19.", []),
    ("A sum of $2024.", [("bare_number", 1)]),
    ("A rise of 2024%.", [("bare_number", 1)]),
    ("A rise of 2024 points.", [("bare_number", 1)]),
    ("The year 2150.", [("bare_number", 1)]),
    ("The 3rd, 21st and 2nd of them, on 12 March and April 30.", []),
    ("The 45 March hares.", [("bare_number", 1)]),
    ("Some 30 people.", [("bare_number", 1)]),
    ("About 3x, 12km, 5pp.", [("bare_number", 1)]),
    ("Thirty per cent.", []),
    ("It is \u0663\u0660 per cent.", [("bare_number", 1)]),
    ("It is \uff13\uff10 per cent.", [("bare_number", 1)]),
    ("It took \u00bd of it.", [("bare_number", 1)]),
    ("A km\u00b2 of land.", []),
    ("Approx. 30 ships, cf. p. 40 there [E001].", []),
    ("It cost 1.5 or 2,000.75 [E001].", []),
    ("**30%** of it.", [("bare_number", 1)]),
    ("_30_ of it.", [("bare_number", 1)]),
    ("Footnotes [1] are no citations.", [("bare_number", 1)]),
    ("It rose 30% [E001, p. 4].", [("bare_number", 1)]),
    ("It rose 30% (E001).", [("bare_number", 1)]),
    ("It rose 30% [e001].", [("bare_number", 1)]),
    ("It rose 30% [[E001]].", []),
    ("It rose 30% [see {m_rev}].", []),
    ("It rose 30% [see §s9] [E001].", [("broken_xref", 1)]),
    ("See §s5, which has 30%.", [("bare_number", 1)]),
    ("```\nIt rose 30%.\n```", [("bare_number", 2)]),
    ("> It rose 30%.\n> Yes [E001].", [("bare_number", 1)]),
    ("It rose\r\n30%.\r\n\r\nSee §s9.", [("bare_number", 2), ("broken_xref", 4)]),
    ("\x00\x01 It rose 30%.", [("bare_number", 1)]),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[str(i) for i in range(len(CASES))])
def test_each_rule(text: str, expected: list[tuple[str, int]]) -> None:
    assert found(text) == expected


TLDRS: list[tuple[str, str]] = [
    ("TL;DR\n- a\n- b", ""),
    ("## TL;DR\n\n* a\n\n* b", ""),
    ("**TLDR:**\n1. a\n2. b\n\nWords.", ""),
    ("tl;dr\n\u2022 a\n\u2013 b", ""),
    ("# Title\n\nWords.\n\n### **TL;DR**\n- a\n  goes on\n- b", ""),
    ("TL;DR\n- a\n  - b", ""),
    ("TL;DR\n- a", "1 bullets"),
    ("TL;DR\n- a\n- ", "1 bullets"),
    ("TL;DR\n- a\n\nWords.\n\n- b", "1 bullets"),
    ("TL;DR\n- a\n# Head\n- b", "1 bullets"),
    ("TL;DR: a; b", "0 bullets"),
    ("- a\n- b", "no TL;DR"),
    ("Words on the TL;DR\n- a\n- b", "no TL;DR"),
    ("", "no TL;DR"),
    ("TL;DR\n- a\n\nTL;DR\n- a\n- b", ""),
    ("TL;DR\n- a\n- b\n\nTL;DR\n- a", ""),
    ("TL;DR\n- a\nTL;DR\n- b", "1 bullets"),
]


@pytest.mark.parametrize(("text", "said"), TLDRS, ids=[str(i) for i in range(len(TLDRS))])
def test_tldr(text: str, said: str) -> None:
    got = violations(SMALL, text)
    assert [each.cls for each in got] == (["missing_tldr"] if said else [])
    assert said in "".join(each.what for each in got)


TIER2_CASES: list[tuple[str, list[str]]] = [
    ("A [E001]. Reportedly B [E002].", []),
    ("A [E001]. B [E002].", ["unhedged_weak"]),
    ("A [E001]. B [E002]. It is unverified.", ["unhedged_weak"]),
    ("A [E001]. B [E002]. C [E002].", ["unhedged_weak", "unhedged_weak"]),
    ("A [E001]. In May 2025 B [E002].", ["unhedged_weak"]),
    ("A [E001]. It MAY be B [E002].", []),
    ("A [E001]. The maypole [E002].", ["unhedged_weak"]),
    ("A [E001]. Not\nverified B [E002].", []),
    ("A [E001].", ["one_sided", "low_coverage"]),
    ("C [E003]. Perhaps B [E002].", ["one_sided"]),
    ("A [E001]. C [E003].", []),
    ("A [E001], A [E001], D [E009].", ["orphan_citation", "one_sided", "low_coverage"]),
]


@pytest.mark.parametrize(("text", "expected"), TIER2_CASES, ids=[str(i) for i in range(len(TIER2_CASES))])
def test_tier2(text: str, expected: list[str]) -> None:
    assert sorted(classes(text, 2), key=CLASSES.index) == expected
    assert set(classes(text)) <= set(TIER1)


# The grader: blind to all else

MARK = re.compile(r"\[[^\]]*\]|\{[^}]*\}|§s\d+")
KEPT = {word for phrase in HEDGES for word in phrase.split()} | {"p", "no"}


def outside(text: str, pattern: str, by: Callable[[re.Match[str]], str]) -> str:
    """Replace what a pattern finds outside markers and the line of the TL;DR."""
    joined = re.compile(rf"(?P<kept>{MARK.pattern}|^.*TL;DR.*$)|{pattern}", re.MULTILINE)
    return joined.sub(lambda m: m.group() if m.group("kept") else by(m), text)


def reworded(text: str, rng: random.Random) -> str:
    """Other words: each its own initial, so that sentences begin where they did."""

    def by(m: re.Match[str]) -> str:
        word = m.group()
        return word if word.lower() in KEPT or rng.random() < 0.3 else word[0] + "".join(rng.choices("aeioqxz", k=rng.randint(3, 8)))

    return outside(text, r"(?<![\w'])[A-Za-z]+(?![\w'])", by)


def other_digits(text: str, rng: random.Random) -> str:
    return outside(text, r"\d", lambda m: rng.choice("123456789"))


def recased(text: str, rng: random.Random) -> str:
    return outside(text, r"(?<=[A-Za-z])[A-Za-z]+", lambda m: "".join(rng.choice((c.upper(), c.lower())) for c in m.group()))


def reordered(text: str, rng: random.Random) -> str:
    """Bullets in another order, and the sentences of each paragraph."""
    parts = text.split("\n\n")
    for i, part in enumerate(parts):
        lines = part.split("\n")
        if all(line.startswith("- ") for line in lines):
            rng.shuffle(lines)
            parts[i] = "\n".join(lines)
        elif not part.startswith("#") and "TL;DR" not in part:
            sentences = re.split(r"(?<!\bp\.)(?<!\bno\.)(?<=\.) (?=[A-Z{\d])", part.rstrip("\n"))
            rng.shuffle(sentences)
            parts[i] = " ".join(sentences)
    return "\n\n".join(parts)


@pytest.mark.parametrize("change", [reworded, other_digits, recased, reordered])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(at=st.integers(0, 154), variant=st.integers(0, 6), seed=st.integers(0, 10**6))
def test_blind_to_the_rest(change: Callable[[str, random.Random], str], at: int, variant: int, seed: int) -> None:
    """Whatever does not concern a check leaves the violations as they are: clean sections, and those of tier 2."""
    text = compose(SLICES[at], variant)
    changed = change(text, random.Random(seed))
    assert changed != text or change is reordered
    before, after = (Counter(each.cls for each in violations(SLICES[at], t, 2)) for t in (text, changed))
    assert before == after


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(st.sampled_from("[]{}§E0123 sm_.\n-#|>*;,ATLDR\u0663\u00bd\x00\r"), max_size=120))
def test_any_text_is_graded(text: str) -> None:
    """No text is an error; lines exist; markers that are not of the slice are never missed."""
    got = violations(SMALL, text, 2)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert all(1 <= each.line <= lines and each.cls in CLASSES for each in got)
    orphans = [name for name in re.findall(r"\[(E\d+)\]", text, re.ASCII) if name not in ("E001", "E002", "E003")]
    assert len(orphans) <= sum(each.cls == "orphan_citation" for each in got)


HOSTILE = [
    "a. " * 350_000, "." * 1_000_000, "[" * 1_000_000, "[E001" * 200_000, "{" * 1_000_000, "§" * 1_000_000, "1" * 1_000_000,
    "1," * 500_000, "a1." * 333_000, "- " * 500_000, "# " * 500_000, "TL;DR\n- a\n" * 90_000, ".)" * 500_000, "| 1 |\n" * 160_000,
    "." + " " * 1_000_000 + "a", ". [E001]" * 120_000, "it rose 3 [E002] " * 58_000, "2024-" * 200_000, "x-1" * 333_000, "\n" * 1_000_000,
    "*" * 1_000_000, "> " * 500_000, "[E001, " * 140_000, "3 March " * 125_000, "a" * 1_000_000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=[str(i) for i in range(len(HOSTILE))])
def test_time_is_linear(text: str) -> None:
    """A tenth of a megabyte of the worst kinds: quadratic time would take minutes."""
    began = time.process_time()
    violations(SMALL, text[:100_000], 2)
    assert time.process_time() - began < 2.5


# The suite and its composer


def test_suite() -> None:
    plain, strict = load_report(1), load_report(2)
    assert (plain.name, strict.name) == NAMES
    assert plain.digest != strict.digest
    assert load_report(1) is plain
    with pytest.raises(ValueError, match="3"):
        load_report(3)
    with pytest.raises(KeyError):
        plain.task("water/s32")
    for suite in (plain, strict):
        for task in suite.tasks:
            assert len(task.prompt) < 4300  # 1,260 tokens of Qwen2.5 at most
            assert dumped(task.slice) in task.prompt
            assert task.slice.purpose in task.prompt
            assert ("two thirds" in task.prompt) == (suite is strict)


def test_grades() -> None:
    suite = load_report(2)
    task = suite.tasks[0]
    section = compose(task.slice)
    grade = suite.grade(task, section)
    assert (grade.passed, grade.reason, grade.violations) == (True, "passed", ())
    assert suite.grade(task, f"```markdown\n{section}\n```").passed
    bad = suite.grade(task, "Sales rose 30%.\n\nSee §s99 and §s98.")
    assert (bad.passed, bad.reason) == (False, "violations")
    assert Counter(bad.violations) == {"broken_xref": 2, "bare_number": 1, "missing_tldr": 1, "one_sided": 1, "low_coverage": 1}
    assert "line 3: broken_xref: §s99" in bad.trace
    assert bad.trace.startswith("2 broken_xref, ")
    assert len(suite.grade(task, "See §s99. " * 500).trace) <= 600
    assert load_report(1).grade(task, "nothing").violations == ("missing_tldr",)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("a", "a"),
        ("```md\na\nb\n```", "a\nb"),
        ("\n```\na\n```\n", "a"),
        ("```python\na\n```", "a"),
        ("```\na\n```\nb\n```\nc\n```", "```\na\n```\nb\n```\nc\n```"),
        ("longer than it\n```\nb\n```", "longer than it\n```\nb\n```"),
    ],
)
def test_fence(answer: str, text: str) -> None:
    assert text_of(answer) == text


def warnings(variant: int) -> list[Counter[str]]:
    return [Counter(one.cls for one in violations(each, compose(each, variant), 2)) for each in SLICES]


def test_composer_passes() -> None:
    assert set(map(len, warnings(0))) == {0}
    texts = [compose(each) for each in SLICES]
    assert len(set(texts)) == 155
    for each, text in zip(SLICES, texts, strict=True):
        assert all(f"[{card.id}]" in text for card in each.cards)
        assert all(f"§{other.id}" in text for other in each.xref)
        assert all(f"{{{metric.tag}}}" in text for metric in each.metrics)


def test_variants_vary_in_tier_2_alone() -> None:
    assert {0, 1, 2, 3, 4} <= {found.total() for found in warnings(1)}
    assert set().union(*warnings(1)) == {"unhedged_weak", "one_sided", "low_coverage"}


@pytest.mark.parametrize(
    ("text", "cls"),
    [
        ("It rose by EUR41.", "bare_number"),
        ("It cost USD41m.", "bare_number"),
        ("Sales rose [E001-E999].", "orphan_citation"),
        ("Sales rose [E001 and E999].", "orphan_citation"),
        ("Sales rose [E001/E999].", "orphan_citation"),
        ("Sales rose [E999,].", "orphan_citation"),
        ("Sales rose [see E999].", "orphan_citation"),
        ("Sales rose 3% [E999: p. 3].", "orphan_citation"),
    ],
)
def test_what_hides_a_number_or_an_orphan(text: str, cls: str) -> None:
    assert classes(text) == [cls]
    assert not classes(text.replace("E999", "E001").replace("EUR41", "much").replace("USD41m", "little"))
