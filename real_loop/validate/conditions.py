"""Which logs there are: clean runs to fit, runs under other rewards to predict; that they can be laid side by side; what they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from real_loop.history import History
from real_loop.log import Reader
from real_loop.roles import TRAIN
from real_loop.validate.predict import Planned, Values, real
from real_loop.words import reward
from sim.errors import InputError
from sim.model import Cell, Channel, World

# Of an identity: what two runs must have in common for one world to be behind both.
SAME: Final = ("model", "roles", "subset.suite", "suite_digest", "prompts", "tasks", "writing", "prior_text", "world")
JUDGED: Final = Channel(0.0, 0.0)


@dataclass(frozen=True)
class Measured:
    """Rates of the judge of a run, as its own trials show them.

    Attributes
    ----------
    rho_fp, rho_pf
        Errors and trials, effective numbers (errors that come by task count for less).
    spread
        Intra-class correlation of errors by task.
    """

    rho_fp: tuple[float, float]
    rho_pf: tuple[float, float]
    spread: float

    def draw(self, random: np.random.Generator) -> Channel:
        """Draw a channel from the posterior of both rates, under Jeffreys' prior."""
        fp, pf = (float(random.beta(k + 0.5, n - k + 0.5)) for k, n in (self.rho_fp, self.rho_pf))
        return Channel(fp, pf, self.spread, "task")


@dataclass(frozen=True)
class Seen:
    """A log.

    Attributes
    ----------
    history
        It, played again.
    name, condition
        Of its folder; its reward in words.
    clean
        Whether its reward was the true grader, so that a world can be fitted to it.
    values
        What it shows.
    """

    history: History
    name: str
    condition: str
    clean: bool
    values: Values

    @property
    def rates(self) -> Measured | None:
        """Return the rates of its judge; None if its reward was a channel."""
        if self.history.settings.reward.kind == "channel":
            return None
        from real_loop.audit.cases import Cases
        from real_loop.audit.rates import measured

        rows = [row for (_, phase), found in self.history.trials.items() if phase == TRAIN for row in found if row["passed"] is not None]
        truth, verdict = (np.array([bool(row[key]) for row in rows]) for key in ("passed", "observed"))
        tasks = np.array([row["task"] for row in rows])
        numbers, nothing = np.arange(len(rows)).astype(str), np.full(len(rows), "")
        found = measured(Cases(truth, verdict, None, nothing, tasks, numbers, nothing, np.ones(len(rows)), True), resamples=0)
        sides = [found.rho_fp, found.rho_pf]
        fp, pf = ((s.n_effective * (s.value or 0.0), s.n_effective) for s in sides)
        known = [s.icc for s in sides if s.icc is not None]
        return Measured(fp, pf, float(np.clip(np.mean(known) if known else 0.0, 0.0, 0.9)))


def read(paths: Sequence[Path | str]) -> list[Seen]:
    """Read finished logs of one suite.

    Raises
    ------
    InputError
        One is unfinished, of another suite, other tasks or other roles; or given twice.
    RunError
        One contradicts itself.
    """
    found: list[Seen] = []
    for path in paths:
        reader = Reader(path)
        history = History(reader)
        history.check()
        name = reader.path.parent.name if reader.path.name == "log.sqlite" else reader.path.stem
        if not history.finished:
            todo = "let it end: the same command that began it goes on"
            raise InputError(str(path), f"an unfinished log ({history.ended} of {history.policy.rounds} rounds)", "a finished one", todo)
        if any(reader.path.samefile(other.history.path) for other in found):
            raise InputError(str(path), "the same log twice", "each log once")
        for key in SAME:
            mine, first = (_at(h.identity, key) for h in (history, found[0].history if found else history))
            if mine != first:
                got = f"a log of another {key}" + (f" ({str(mine)[:40]!r})" if isinstance(mine, str) else "")
                raise InputError(str(path), got, f"that of {found[0].name}", "runs that differ in reward, policy and seed can be compared")
        r = history.settings.reward
        clean = r.kind == "channel" and not r.rho_fp and not r.rho_pf
        found.append(Seen(history, name, reward(history.identity), clean, real(history)))
    return found


def _at(identity: object, key: str) -> object:
    for part in key.split("."):
        identity = identity.get(part) if isinstance(identity, dict) else None
    return identity


@dataclass(frozen=True)
class Plan:
    """What is predicted from what.

    Attributes
    ----------
    fits
        For each fit the logs that it is made from: all clean ones first, then for each clean one all others.
    runs
        For each log how it is predicted.
    held_out
        Whether the fit had no part in it.
    """

    fits: tuple[tuple[Seen, ...], ...]
    runs: tuple[Planned, ...]
    held_out: tuple[bool, ...]


def clean(logs: Sequence[Seen]) -> tuple[Seen, ...]:
    """Return the logs of clean runs.

    Raises
    ------
    InputError
        There is none.
    """
    found = tuple(log for log in logs if log.clean)
    if not found:
        raise InputError("LOG", "no log of a clean run", "one at least, to fit the world to", "run it with reward=clean")
    return found


def plan(logs: Sequence[Seen], world: World) -> Plan:
    """Say which log is predicted from which.

    Parameters
    ----------
    logs
        All of them.
    world
        Any world of this suite; each draw puts its own in its place.

    Raises
    ------
    InputError
        No log is of a clean run.
    """
    fitted = clean(logs)
    fits, runs, held_out = [fitted], list[Planned](), list[bool]()
    for log in logs:
        fit = 0
        if log.clean and len(fitted) > 1:
            fits.append(tuple(other for other in fitted if other is not log))
            fit = len(fits) - 1
        s = log.history.settings
        r, rates = s.reward, log.rates
        channel = JUDGED if rates else Channel(r.rho_fp, r.rho_pf, r.spread, r.unit)
        draw: Callable[[np.random.Generator], Channel] | None = rates.draw if rates else None
        cell = Cell(replace(world, router=replace(world.router, mode=s.roles.mode)), s.policy, channel)
        runs.append(Planned(cell, fit, s.evals == "paired", draw))
        held_out.append(not log.clean or fit > 0)
    return Plan(tuple(fits), tuple(runs), tuple(held_out))


def shared(logs: Sequence[Seen]) -> list[tuple[str, int, int]]:
    """Return of each log how many calls it made and how many of them were taken over from another (:mod:`real_loop.reuse`)."""
    found = []
    for log in logs:
        row = log.history.reader.one("SELECT count(*), coalesce(sum(part = 0), 0) FROM calls")
        found.append((log.name, int(row[0]), int(row[1])))
    return found
