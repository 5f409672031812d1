"""The lives of the skills of one run: when each was on the shelf, how it left, and what it truly was.

A sweep keeps sums over runs, not single skills. But a run is a function of its cell, seed and number: the plain-Python
reference plays any run of a stored sweep again, to the bit, and :class:`Replay` watches the shelf while it does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sim.model import Cell
from sim.reference import Run, Skill
from sim.tables import EFFECT_BINS, Tables, derive, effects

RETIRED: Final = "retired"
EVICTED: Final = "evicted"
DROPPED: Final = "dropped"  # by a rollback
ON_SHELF: Final = "on_shelf"  # at the end of the run
HOW: Final = (RETIRED, EVICTED, DROPPED, ON_SHELF)


@dataclass(frozen=True)
class Stretch:
    """A time on the shelf: in the trials of the rounds ``came + 1`` to ``left``, on the shelf at the end of ``came`` to ``left - 1``.

    Attributes
    ----------
    came
        Round (from 0) in which the skill was written, or put back by a rollback; -1 if the shelf started with it.
    left
        Round in which it went; None if it is on the shelf at the end. The same as ``came`` if it was evicted by the next skill written.
    how
        One of HOW.
    n, net, passes
        At its end: trials, observed passes minus failures, true passes. A rollback puts a skill back with the counters it had then.
    """

    came: int
    left: int | None
    how: str
    n: int
    net: int
    passes: int


@dataclass(frozen=True)
class Life:
    """A skill, from its birth on.

    Attributes
    ----------
    number
        In order of birth, from 0.
    topic
        That it was written for.
    effect
        On its topic, logit.
    spurious
        Whether it was written from phantom failures.
    stretches
        Times on the shelf, in order: one, and one more for each time a rollback put it back.
    """

    number: int
    topic: int
    effect: float
    spurious: bool
    stretches: tuple[Stretch, ...]

    @property
    def born_round(self) -> int:
        """Round in which it was written; -1 if the shelf started with it."""
        return self.stretches[0].came

    @property
    def left_round(self) -> int | None:
        """Round in which it went for the last time, None if it is on the shelf at the end."""
        return self.stretches[-1].left

    @property
    def how(self) -> str:
        """How it ended, one of HOW."""
        return self.stretches[-1].how

    @property
    def n(self) -> int:
        """Trials at its end."""
        return self.stretches[-1].n

    @property
    def net(self) -> int:
        """Observed passes minus failures at its end."""
        return self.stretches[-1].net

    @property
    def passes(self) -> int:
        """True passes at its end."""
        return self.stretches[-1].passes

    @property
    def restored(self) -> int:
        """How often a rollback put it back."""
        return len(self.stretches) - 1

    @property
    def true_rate(self) -> float:
        """Share of its trials that truly passed; nan before the first."""
        return self.passes / self.n if self.n else float("nan")

    @property
    def observed_rate(self) -> float:
        """Share of its trials that were observed as passes; nan before the first."""
        return (1 + self.net / self.n) / 2 if self.n else float("nan")


class Replay(Run):
    """A run that notes who comes to the shelf and who leaves it; it plays as :class:`sim.reference.Run` does.

    Attributes
    ----------
    sampled
        Eval tasks that pass in one attempt each, by round; zeros where the cell samples no evals.
    """

    def __init__(self, tables: Tables, cell: int, seed: int, run: int) -> None:
        super().__init__(tables, cell, seed, run)
        self.sampled: list[int] = []
        self._seen: dict[int, tuple[int, int]] = {}  # topic and effect row, by birth
        self._stretches: dict[int, list[Stretch]] = {}
        self._here: dict[int, tuple[int, Skill]] = {}  # the round a skill came in, and the skill; by birth
        self._compare(DROPPED, -1)

    def retire(self) -> None:
        self._watched(super().retire, RETIRED)

    def synthesise(self, t: int) -> None:
        self._watched(lambda: super(Replay, self).synthesise(t), EVICTED)

    def evict(self) -> None:
        self._watched(super().evict, EVICTED)

    def roll_back(self, sampled: int) -> None:
        self._watched(lambda: super(Replay, self).roll_back(sampled), DROPPED)

    def note_sampled(self, t: int, sampled: int) -> None:
        super().note_sampled(t, sampled)
        self.sampled.append(sampled)

    def _watched(self, step: Callable[[], None], how: str) -> None:
        """Let a step happen. Who was written before it has come; who is gone after it has left, in this way."""
        self._compare(how)
        step()
        self._compare(how)

    def _compare(self, how: str, now: int | None = None) -> None:
        now, shelf = len(self.series) if now is None else now, {skill.born: skill for skill in self.shelf}
        for born in [born for born in self._here if born not in shelf]:
            came, skill = self._here.pop(born)
            self._stretches[born].append(Stretch(came, now, how, skill.n, skill.net, skill.passes))
        for born, skill in shelf.items():
            came, _ = self._here.get(born, (now, skill))
            self._here[born] = came, skill  # after a rollback a skill is a copy, with the counters it had
            self._seen[born] = skill.topic, skill.row
            self._stretches.setdefault(born, [])

    def lives(self, cell: Cell) -> list[Life]:
        """Return the lives, in order of birth; ``cell`` is what was played."""
        size = effects(cell.world)
        found = []
        for born, (topic, row) in sorted(self._seen.items()):
            stretches = list(self._stretches[born])
            if born in self._here:
                came, skill = self._here[born]
                stretches.append(Stretch(came, None, ON_SHELF, skill.n, skill.net, skill.passes))
            found.append(Life(born, topic, float(size[row]), row >= EFFECT_BINS, tuple(stretches)))
        return found


def replay(cell: Cell, seed: int, run: int) -> Replay:
    """Play one run again.

    Parameters
    ----------
    cell
        Parameters of the run (:meth:`sim.sweep.Sweep.cell`; of a stored result :func:`sim.store.sweep_of`).
    seed, run
        The key of all randomness; runs of a sweep are numbered from 0.

    Raises
    ------
    InputError
        The cell is beyond the limits of the model.
    """
    played = Replay(derive([cell]), 0, seed, run)
    played.play()
    return played


def lives(cell: Cell, seed: int, run: int) -> list[Life]:
    """Return the lives of all skills of one run, in order of birth. Parameters as in :func:`replay`."""
    return replay(cell, seed, run).lives(cell)
