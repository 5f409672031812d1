"""The five made-up worlds that reports are about: what there is to measure in each, and its values, the same in every section.

A world is a text file of ``texts/``: who and what there is, then its sections; under a section, what is measured there, one a line:
tag, what it is, whether more of it is good (+), bad (-) or neither (0), its range and unit, and a circumstance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Final, TypeVar

from real_loop.suites.report.slices import Metric

NAMES: Final = ("ferry", "heatpumps", "seedbank", "water", "podcasts")
YEAR: Final = 2025
T = TypeVar("T")


class Draws:
    """Draws that are the same on every machine and Python: hashes of a key and a count.

    Parameters
    ----------
    key
        What is drawn for. The same key draws the same.
    """

    def __init__(self, *key: object) -> None:
        self._key = "/".join(map(str, key))
        self._count = 0

    def below(self, n: int) -> int:
        """Return a whole number from 0 to n - 1."""
        self._count += 1
        digest = hashlib.sha256(f"{self._key}#{self._count}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % n

    def within(self, least: int, most: int) -> int:
        return least + self.below(most - least + 1)

    def one(self, among: Sequence[T]) -> T:
        return among[self.below(len(among))]

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def order(self, among: Sequence[T]) -> list[T]:
        """Return all of them in a drawn order."""
        left, out = list(among), []
        while left:
            out.append(left.pop(self.below(len(left))))
        return out


def number(scaled: int, decimals: int) -> str:
    """Write ``scaled / 10**decimals`` with so many decimals, without floats."""
    if not decimals:
        return str(scaled)
    whole, part = divmod(abs(scaled), 10**decimals)
    return f"{'-' if scaled < 0 else ''}{whole}.{part:0{decimals}d}"


@dataclass(frozen=True)
class Item:
    """Something measured in a world, this year and the year before.

    Parameters
    ----------
    tag, subject, circumstance
        Its tag, what it is and what happened meanwhile, in words that fit into a sentence.
    good
        1, -1 or 0: whether more of it is good, bad or neither.
    value, prior
        This year's and last year's, times 10 to the number of decimals.
    decimals, unit
        How it is written.
    """

    tag: str
    subject: str
    circumstance: str
    good: int
    value: int
    prior: int
    decimals: int
    unit: str

    @property
    def up(self) -> bool:
        return self.value > self.prior

    @property
    def room(self) -> int:
        """Return what other values are a share away of: the value, or, where it is a percentage, what is left of it on the nearer side."""
        return self.value if self.unit != "%" else min(self.value, 100 * 10**self.decimals - self.value)

    def metric(self) -> Metric:
        return Metric(self.tag, number(self.value, self.decimals), self.unit)

    def written(self, scaled: int) -> str:
        return Metric(self.tag, number(scaled, self.decimals), self.unit).shown()

    def change(self) -> str:
        """Return by how much it changed, without sign: points where it is a percentage, else per cent of last year's."""
        if self.unit == "%":
            return number(abs(self.value - self.prior), self.decimals) + " points"
        permille = (2000 * abs(self.value - self.prior) + self.prior) // (2 * self.prior)
        return number(permille, 1) + "%"


@dataclass(frozen=True)
class Section:
    """A section of a report: its id, title, purpose, and what is measured in it."""

    id: str
    title: str
    purpose: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class World:
    """One production: a subject of a report, who and what there is around it, and the sections of the report."""

    key: str
    name: str
    people: tuple[str, ...]
    peers: tuple[str, ...]
    places: tuple[str, ...]
    reports: tuple[str, ...]
    weak: tuple[str, ...]
    sections: tuple[Section, ...]


def _scaled(text: str, decimals: int) -> int:
    whole, _, part = text.partition(".")
    return int(whole + part.ljust(decimals, "0"))


def _item(line: str, draws: Draws, good: bool | None) -> Item:
    """Draw an item's values. ``good``: whether the year went well for it, where that matters; None: as it comes."""
    tag, subject, sign, amount, circumstance = (part.strip() for part in line.split("|"))
    span, _, unit = amount.partition(" ")
    span, _, places = span.partition("/")
    decimals = int(places or 0)
    low, high = (_scaled(end, decimals) for end in span.split("-"))
    weight = {"+": 1, "-": -1, "0": 0}[sign]
    value = draws.within(low, high)
    up = draws.chance(50) if good is None or not weight else good == (weight > 0)
    # Last year's is 2 to 21 % off, and by at least one unit of the last place.
    now = Item("m_" + tag, subject, circumstance, weight, value, value, decimals, unit.strip())
    step = max(1, now.room * draws.within(20, 210) // 1000)
    return replace(now, prior=value - step if up else value + step)


def world(key: str, seed: int) -> World:
    """Read a world and draw its values."""
    text = resources.files("real_loop.suites.report").joinpath("texts").joinpath(f"{key}.txt").read_text("utf-8")
    head: dict[str, tuple[str, ...]] = {}
    sections: list[tuple[str, str, list[str]]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("= "):
            title, purpose = (part.strip() for part in line[2:].split("|"))
            sections.append((title, purpose, []))
        elif sections:
            sections[-1][2].append(line)
        else:
            name, _, values = line.partition(":")
            head[name] = tuple(part.strip() for part in values.split("|"))
    made = []
    for i, (title, purpose, lines) in enumerate(sections, start=1):
        draws = Draws(seed, key, i)
        # Both stances are there in most sections: the first two go one way each, one section in twelve goes as it comes.
        first = draws.chance(50)
        ways = [None] * len(lines) if draws.chance(8) else [first, not first, *[None] * (len(lines) - 2)]
        items = tuple(_item(line, draws, way) for line, way in zip(lines, ways, strict=True))
        made.append(Section(f"s{i}", title, purpose, items))
    return World(key, head["name"][0], head["people"], head["peers"], head["places"], head["reports"], head["weak"], tuple(made))
