"""Whether the evidence in a log can be what its roles said. That the decisions follow from the evidence, :mod:`real_loop.history` sees.

Where the reward is a channel, what was observed follows from what is true and the flips of this seed and run. Scripted roles say the
same again, so all of it is asked again. Of real models the log has every answer, and what was made of it is made again: who was routed
where, verdicts, the texts of skills, a judge's words, an authoring prior.

What a log of real models cannot show to be changed: whether an answer truly passed, with its reason and trace, which only the grader
says; the answer itself, if the call says the same; what the most similar skill was (mode top_hit); prompts, models, costs, times,
fallbacks and faults.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from real_loop.library import Cluster, Skill
from real_loop.log import plain
from real_loop.rewards import Flips
from real_loop.roles import EVAL, LABELS, REWRITE, TRAIN, WRITE, At, Failure, Text
from real_loop.roles.scripted import PASSES, Script

if TYPE_CHECKING:
    from real_loop.history import History, Row

T = TypeVar("T")
TEXT: Final = ("name", "applicability", "insight", "pitfalls", "postcondition")


def check(history: History) -> None:
    """Hold the evidence of a log to what its roles said.

    Parameters
    ----------
    history
        The log, played again, and readable still.

    Raises
    ------
    RunError
        At the first row that cannot be so.
    """
    script = Script(history.cell, history.settings.seed, history.settings.run) if history.cell is not None else None
    for row in _rows(history):
        if row["skill"] is not None and row["skill"] not in {skill.number for skill in _shelf(history, row)}:
            raise history.error(f"{_at(row)}: skill", row["skill"], "a skill on the shelf")
    if history.settings.reward.kind == "channel":
        _flips(history, script.cast().topics if script is not None else ())
    if script is not None:
        _scripted(history, script)
    else:
        _Answers(history).check()


def _rows(history: History) -> list[Row]:
    return [row for at in sorted(history.trials) for row in history.trials[at]]


def _shelf(history: History, row: Row) -> tuple[Skill, ...]:
    return history.shelves.get((row["round"], row["phase"]), ())


def _at(row: Row) -> str:
    return f"round {row['round']}, {row['phase']} {row['task']}"


def _flips(history: History, topics: tuple[int, ...]) -> None:
    """What was observed is what is true, flipped where this seed and run flip."""
    s = history.settings
    flips, never = Flips(s.reward, s.seed, s.run, topics), not s.reward.rho_fp and not s.reward.rho_pf
    for row in _rows(history):
        if row["judge_call"] is not None:
            raise history.error(f"{_at(row)}: judge_call", row["judge_call"], "nothing: no judge was asked")
        if row["phase"] != TRAIN or row["passed"] is None:
            continue
        flipped = not never and flips.flipped(row["round"], row["position"], bool(row["passed"]))
        if row["observed"] != (row["passed"] != flipped):
            said = f"{int(row['passed'] != flipped)}, since passed is {row['passed']} and is {'' if flipped else 'not '}flipped"
            raise history.error(f"{_at(row)}: observed", row["observed"], said)


# ---------------------------------------------------------------- scripted roles


def _now(work: Coroutine[Any, Any, T]) -> T:
    """Return what a scripted role says: it waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("a scripted role waited")


def _scripted(history: History, script: Script) -> None:
    cast, inject = script.cast(), history.settings.roles.mode != "withheld"
    tasks = {TRAIN: cast.train, EVAL: cast.eval}
    for phase in (TRAIN, EVAL):
        if [task.id for task in tasks[phase]] != history.tasks[phase]:
            raise history.error(f"identity: tasks.{phase}", f"{len(history.tasks[phase])} tasks", f"the {len(tasks[phase])} of the world")
    for i, row in enumerate(history.texts.get(-1, ())):
        name, text = cast.start[i] if i < len(cast.start) else ("", None)
        _same_text(history, row, text, name)
    if history.trials and len(history.texts.get(-1, ())) < len(cast.start):
        raise history.error("skills", len(history.texts.get(-1, ())), f"{len(cast.start)} that the shelf began with")
    for row in _rows(history):
        at, task, shelf = At(row["round"], row["phase"], row["position"], row["task"]), cast.train[0], _shelf(history, row)
        number = _now(script.route(at, task, shelf)).skill
        if row["skill"] != number:
            raise history.error(f"{_at(row)}: skill", row["skill"], f"{number}, by the world and the seed")
        skill = next((s for s in shelf if s.number == number), None) if inject else None
        passes = _now(script.solve(at, task, skill)).answer == PASSES
        if row["passed"] != passes:
            raise history.error(f"{_at(row)}: passed", row["passed"], f"{int(passes)}, by the world and the seed")
        if row["id"] in history.verdicts:
            verdict, said = history.verdicts[row["id"]], _now(script.criticise(at, Failure(task, skill, "", "")))
            if (verdict["label"], verdict["pattern"]) != (said.label, said.pattern):
                raise history.error(f"{_at(row)}: pattern", repr(verdict["pattern"])[:80], f"{said.pattern!r}, by the world and the seed")
    for t, cluster, i, written in _writing(history):
        if written is None:
            raise history.error(f"round {t}: skills", "none", f"one from {cluster.name!r}")
        _same_text(history, written, _now(script.write(At(t, WRITE, i, cluster.name), cluster, "")), cluster.name)
    query = "SELECT round, phase, task, answer, reason FROM capsules WHERE (answer, reason) != "
    query += "(CASE passed WHEN 1 THEN 'passes' ELSE 'fails' END, CASE passed WHEN 1 THEN 'passed' ELSE 'wrong' END)"
    if bad := history.reader.one(query):
        raise history.error(_at(bad), f"{bad['answer'][:40]!r} ({bad['reason'][:40]})", "an answer as its outcome says")


def _writing(history: History) -> list[tuple[int, Cluster, int, Row | None]]:
    """Return round, cluster, place and row of each skill that was to be written, as far as the log is whole."""
    found: list[tuple[int, Cluster, int, Row | None]] = []
    for t, ready in history.ready.items():
        rows = {row["cluster"]: row for row in history.texts.get(t, ())}
        whole = (t, EVAL) in history.trials
        found += [(t, c, i, rows.get(c.name)) for i, c in enumerate(ready) if whole or c.name in rows]
    return found


def _same_text(history: History, row: Row, text: Text | None, cluster: str) -> None:
    where = f"skill {row['number']}"
    if text is None:
        raise history.error(where, "a skill", "none: it was not to be written, or what came was no skill")
    if row["cluster"] != cluster:
        raise history.error(f"{where}: cluster", repr(row["cluster"])[:80], repr(cluster)[:80])
    said = asdict(text)
    for name in TEXT:
        if row[name] != plain(said[name]):
            raise history.error(f"{where}: {name}", repr(row[name])[:80], repr(said[name])[:80])


# ---------------------------------------------------------------- answers of real models


class _Answers:
    """The calls of a log of real models, and what was made of them."""

    def __init__(self, history: History) -> None:
        from real_loop.roles import prompted

        self.history, self.settings, self.prompted = history, history.settings, prompted
        self.paired = self.settings.evals == "paired"
        # Answers of the solver are compared in SQL: they are long.
        query = """SELECT id, round, phase, role, subject, attempt, stop_reason, input_tokens + output_tokens AS tokens,
            CASE role WHEN 'solver' THEN '' ELSE answer END AS answer,
            CASE WHEN json_valid(request) THEN json_extract(request, '$.seed') END AS seed FROM calls ORDER BY id"""
        self.calls = {row["id"]: dict(row) for row in history.reader.db.execute(query)}

    def check(self) -> None:
        """Raise RunError at the first row that is not what its call says."""
        for call in self.calls.values():
            where = "" if self.paired and call["phase"] == EVAL else call["round"]
            text = f"{self.settings.seed}/{self.settings.run}/{where}/{call['phase']}/{call['role']}/{call['subject']}/{call['attempt']}"
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1  # real_loop.calls.Calls.seeded
            if call["seed"] != seed:
                at = f"call {call['id']} ({call['role']}, round {call['round']}, {call['subject'][:60]}): seed"
                raise self.history.error(at, call["seed"], f"{seed}, by seed and run")
        if self.history.texts.get(-1):
            raise self.history.error("skills", "one before the first round", "none")
        for row in _rows(self.history):
            self._trial(row)
        query = "SELECT c.round, c.phase, c.task FROM capsules AS c JOIN calls AS k ON k.id = c.solve_call WHERE c.answer != k.answer"
        if bad := self.history.reader.one(query):
            raise self.history.error(f"{_at(bad)}: answer", "one", "another one, as the call says")
        for t, cluster, _, written in _writing(self.history):
            self._skill(t, cluster, written)
        self._priors()

    def _trial(self, row: Row) -> None:
        where, shelf = _at(row), _shelf(self.history, row)
        solved = self._call(row, "solver", row["solve_call"])
        if (solved["stop_reason"] == "overflow") != (row["passed"] is None):
            got = "no outcome" if row["passed"] is None else "an outcome"
            raise self.history.error(f"{where}: passed", got, "one exactly if the solver was answered")
        if row["passed"] is not None and (row["reason"] == "passed") != bool(row["passed"]):
            raise self.history.error(f"{where}: passed", row["passed"], f"what its reason says ({row['reason'][:40]})")
        if self.settings.roles.mode == "top_hit" or not shelf:
            if row["route_call"] is not None or (row["skill"] is None) != (not shelf):
                raise self.history.error(f"{where}: skill", row["skill"], "one exactly if the shelf has any, and nobody asked")
        else:
            asked = self._call(row, "router", row["route_call"])
            number = self._read(asked, lambda text: self._choice(text, shelf))
            if row["skill"] != number:
                raise self.history.error(f"{where}: skill", row["skill"], f"{number}, as the router said")
        if self.settings.reward.kind == "judge" and row["phase"] == TRAIN and row["passed"] is not None:
            said = bool(self._read(self._call(row, "judge", row["judge_call"]), self._judgement))
            if row["observed"] != said:
                raise self.history.error(f"{where}: observed", row["observed"], f"{int(said)}, as the judge said")
        elif row["judge_call"] is not None:
            raise self.history.error(f"{where}: judge_call", row["judge_call"], "nothing")
        if row["id"] in self.history.verdicts:
            self._verdict(row, self.history.verdicts[row["id"]])

    def _verdict(self, row: Row, verdict: Row) -> None:
        call = self._call(row, "critic", verdict["call"])
        label, pattern = self._read(call, lambda text: self._criticism(text, bool(row["injected"]))) or ("neutral", "")
        if (verdict["label"], verdict["pattern"]) != (label, plain(pattern)):
            got = f"{verdict['label']}, {verdict['pattern']!r}"[:80]
            raise self.history.error(f"{_at(row)}: verdict", got, f"{label}, {pattern!r}, as the critic said")

    def _skill(self, t: int, cluster: Cluster, row: Row | None) -> None:
        where: dict[str, Any] = {"round": t, "phase": WRITE, "task": cluster.name}
        if row is not None:
            written = self._read(self._call(where, "synthesizer", row["call"]), self._text)
            _same_text(self.history, row, written, cluster.name)
            return
        mine = [c for c in self.calls.values() if (c["round"], c["role"], c["subject"]) == (t, "synthesizer", plain(cluster.name))]
        last = max(mine, key=lambda c: int(c["attempt"]))["id"] if mine else None
        if self._read(self._call(where, "synthesizer", last), self._text):
            raise self.history.error(f"round {t}: skills", "none", f"one from {cluster.name!r}, as the synthesizer wrote it")

    def _priors(self) -> None:
        every, last = self.settings.writing.rewrite_every, self.history.policy.rounds - 1
        text = plain(str(self.history.identity.get("prior_text", "")))
        for row in self.history.reader.rows("priors", "round"):
            t = row["round"]
            call = self._call({"round": t, "phase": REWRITE, "task": "prior"}, "synthesizer", row["call"])
            text = call["answer"].strip() or text
            if not every or t % every or not 0 < t < last or row["text"] != text:
                raise self.history.error(f"round {t}: prior", repr(row["text"])[:80], "what the synthesizer wrote, in its rounds")

    # ------------------------------------------------------------ calls

    def _call(self, row: Row, role: str, number: int | None) -> Row:
        """Return a call that a row refers to, if it is the one for it."""
        call = self.calls.get(number) if number is not None else None
        if call is None or (call["phase"], call["role"], call["subject"]) != (row["phase"], role, plain(row["task"])):
            raise self.history.error(f"{_at(row)}: call of the {role}", number, "the number of one about it")
        again = self.paired and row["phase"] == EVAL  # the same question is asked once
        if call["round"] != row["round"] and not (again and call["round"] < row["round"]):
            raise self.history.error(f"{_at(row)}: call of the {role}", f"one of round {call['round']}", "one of its own round")
        return call

    def _read(self, call: Row, read: Callable[[str], T]) -> T | None:
        """Return what is made of an answer; None where a fallback stands in for it."""
        from real_loop.calls import OVERFLOW, Malformed

        if call["stop_reason"] == OVERFLOW:
            return None
        try:
            return read(call["answer"])
        except (Malformed, RecursionError):
            if call["attempt"] == 0:
                where = f"call {call['id']} ({call['role']}, round {call['round']}, {call['subject'][:60]})"
                raise self.history.error(where, "an answer that cannot be read", "a second try after it") from None
            return None

    # What the roles of real_loop.roles.prompted make of an answer.

    def _choice(self, text: str, shelf: tuple[Skill, ...]) -> int | None:
        from real_loop.calls import Malformed

        got, ids = str(self.prompted._object(text).get("skill")), {f"S{skill.number}": skill.number for skill in shelf}
        if got not in ids and got.lower() != self.prompted.NONE:
            raise Malformed("no skill on the shelf")
        return ids.get(got)

    def _judgement(self, text: str) -> bool:
        from real_loop.calls import Malformed

        got = str(self.prompted._object(text).get("verdict")).upper()
        if got not in ("PASS", "FAIL"):
            raise Malformed("no verdict")
        return got == "PASS"

    def _criticism(self, text: str, guided: bool) -> tuple[str, str]:
        from real_loop.calls import Malformed

        value = self.prompted._object(text)
        label = str(value.get("label")).lower() if guided else "inapplicable"
        if label not in LABELS:
            raise Malformed("no label")
        return label, self.prompted._string(value, "pattern", self.prompted.LONGEST_PATTERN).lower().rstrip(".")

    def _text(self, text: str) -> Text:
        value = self.prompted._object(text)
        fields: dict[str, Any] = {key: self.prompted._string(value, key, length) for key, length in self.prompted.LONGEST.items()}
        return Text(**fields)
