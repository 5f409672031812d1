"""Which failure patterns are the same: near-duplicates collapse by union-find over the similarity of their texts (RT section 3).

RT compares embeddings of a model. Here a text is its words and letter triples, weighed alike and compared by cosine, without words
that any failure could have: it needs no model, and gives the same clusters on every machine. So a threshold means something else
than RT's 0.85.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

# What a critic says of any failure: it tells no two patterns apart.
_ARTICLES = "a an the of in on to for with and or is are was does do did not no it its be by from that this than"
_BLAME = "incorrect incorrectly wrong wrongly error mistake failed fails failure bad bug function code answer"
GENERIC = frozenset([*_ARTICLES.split(), *_BLAME.split()])


def features(text: str) -> dict[str, float]:
    """Return the words and letter triples of a text with their weights; the squares of all weights add up to 1, or there are none."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    words = [word for word in words if word not in GENERIC] or words
    counts = Counter(words)
    triples = Counter(f" {word} "[i : i + 3] for word in words for i in range(len(word)))
    out: dict[str, float] = {}
    for part in (counts, triples):
        norm = math.sqrt(2 * sum(n * n for n in part.values()))
        out.update({("w:" if part is counts else "t:") + key: n / norm for key, n in part.items()})
    return out


def similarity(a: dict[str, float], b: dict[str, float]) -> float:
    """Return the cosine of two texts' features, from 0 to 1."""
    if len(b) < len(a):
        a, b = b, a
    return sum(weight * b.get(key, 0.0) for key, weight in a.items())


class Patterns:
    """All patterns seen, in clusters. A cluster bears the name of its first pattern.

    Parameters
    ----------
    least
        Similarity from which two patterns are the same; None: only equal ones are.
    known
        Patterns known beforehand, each the start of a cluster of its own.
    """

    def __init__(self, least: float | None, known: Sequence[str] = ()) -> None:
        self.least = least
        self._features: dict[str, dict[str, float]] = {}
        self._root: dict[str, str] = {}
        self._order: dict[str, int] = {}
        for pattern in known:
            self._new(pattern)

    def _new(self, pattern: str) -> None:
        self._root[pattern] = pattern
        self._order[pattern] = len(self._order)
        self._features[pattern] = {} if self.least is None else features(pattern)

    def find(self, pattern: str) -> str:
        """Return the name of the cluster that a pattern seen before belongs to."""
        while self._root[pattern] != pattern:
            pattern = self._root[pattern]
        return pattern

    def order(self, pattern: str) -> int:
        """Return the place of a cluster: the number of patterns seen before its first one."""
        return self._order[self.find(pattern)]

    def place(self, pattern: str) -> tuple[str, list[str]]:
        """Take in a pattern; return the name of its cluster, and of the clusters that became part of it by this."""
        if pattern in self._root:
            return self.find(pattern), []
        alike: list[str] = []
        if self.least is not None:
            mine = features(pattern)
            alike = sorted(
                {self.find(p) for p, f in self._features.items() if similarity(mine, f) >= self.least}, key=self._order.__getitem__
            )
        self._new(pattern)
        if not alike:
            return pattern, []
        for other in (*alike[1:], pattern):
            self._root[other] = alike[0]
        return alike[0], alike[1:]
