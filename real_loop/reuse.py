"""Answers that logs have to the very same question: they are taken over, so that nobody is asked for them again.

Runs that differ in the reward alone ask much that is the same: all of the first round, and whatever a shelf of the same skills leads
to. A question is the same if role, task, model and the whole request are, the seed of sampling included; at temperature 0 the seed is
left out, since it decides nothing. What is taken over stands in the log of the run as its own call, of part 0: it cost nothing.

What this does to a comparison: trials taken over are the same draws, not new ones. Between conditions that is what common random
numbers are in the simulator, and makes differences sharper; two runs of one condition that are to count as two have seeds of their own,
and share answers at temperature 0 alone, which would be the same if they were asked again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from real_loop.log import Log, Reader
from real_loop.models import Request
from real_loop.settings import ROLES, Settings
from sim.errors import InputError

TAKEN: Final = 0  # the part of a run that a call taken over is of
_SAME: Final = "SELECT * FROM calls WHERE subject = ? AND role = ? AND request = ? ORDER BY id LIMIT 1"
_SAME_BUT_SEED: Final = """SELECT * FROM calls WHERE subject = ? AND role = ?
    AND json_remove(request, '$.seed') = json_remove(?, '$.seed') ORDER BY id LIMIT 1"""
_COLUMNS: Final = ("model", "answer", "stop_reason", "input_tokens", "output_tokens")


class Known:
    """Logs to look answers up in.

    Parameters
    ----------
    paths
        Logs, or folders of runs; a run may still be writing one.
    settings
        Of the run that asks: a role's answers are taken from logs in which the same model had that role.

    Raises
    ------
    InputError
        One is no log of a run, or none in which any role had the same model.
    """

    def __init__(self, paths: Sequence[Path | str], settings: Settings) -> None:
        from real_loop.history import understood

        self.sources: list[tuple[Reader, frozenset[str]]] = []
        try:
            for path in paths:
                reader = Reader(path)
                self.sources.append((reader, frozenset()))
                if "policy" not in reader.identity:
                    raise InputError("reuse", f"{path}, a log of no run", "logs of python -m real_loop")
                theirs, _ = understood(reader.path, reader.identity)
                same = frozenset(role for role in ROLES if theirs.model_of(role) == settings.model_of(role))
                if not same:
                    raise InputError("reuse", f"{path}, a log of other models", "a log in which some role had the same model")
                self.sources[-1] = (reader, same)
        except BaseException:
            self.close()
            raise

    def answer(self, own: Log, role: str, subject: str, request: Request, text: str) -> dict[str, Any] | None:
        """Return the columns of a logged call that answers this request, or None.

        Parameters
        ----------
        own
            The log of the run that asks; looked up too, for what it was told at temperature 0.
        text
            The request as logs keep it.
        """
        query = _SAME if request.temperature else _SAME_BUT_SEED
        found = None if request.temperature else own.one(query, (subject, role, text))
        for reader, roles in self.sources:
            if found is None and role in roles:
                try:
                    found = reader.one(query, (subject, role, text))
                except sqlite3.Error:  # held, or gone meanwhile: then it is asked
                    continue
        return None if found is None else {**{name: found[name] for name in _COLUMNS}, "cost": 0.0, "seconds": 0.0, "part": TAKEN}

    def close(self) -> None:
        """Close the logs."""
        for reader, _ in self.sources:
            reader.close()


def paths_of(value: str | None) -> list[str]:
    """Return the logs that ``reuse=`` names, separated by commas."""
    return [path.strip() for path in value.split(",") if path.strip()] if value is not None else []
