"""The loop: route, solve, grade, observe, criticise, retire, write, evaluate, roll back. One run of one library.

All trials of a round see one shelf and run at once; what they report is counted in the order of tasks, so nothing depends on who was
done first. The loop keeps no state of its own beside the library: a run that is taken up plays from its first round and finds in the
log what it had asked and decided.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Protocol

from real_loop.calls import Calls, together
from real_loop.library import Change, Cluster, Library, Skill
from real_loop.log import Log, plain
from real_loop.rewards import Observer
from real_loop.roles import EVAL, REWRITE, TRAIN, WRITE, At, Cast, Failure, Text, Verdict
from real_loop.suites import Task


class Watch(Protocol):
    """Who looks on while a run plays."""

    def began(self, round_: int, phase: str, total: int) -> None: ...
    def did(self) -> None: ...
    def ended(self, round_: int, counts: dict[str, int]) -> None: ...
    def attach(self, calls: Calls) -> None: ...


class Loop:
    """One run.

    Parameters
    ----------
    library
        Empty, with the controller in it.
    cast
        The roles and the tasks.
    observer
        The reward channel of train trials.
    log, calls
        Where everything is kept, and how models are asked.
    watch
        Told what happens.
    prior, rewrite_every
        The authoring prior, and after how many rounds it is rewritten (0: never).
    inject
        Whether routed skills reach the solver (not in mode ``withheld``).
    """

    def __init__(
        self,
        library: Library,
        cast: Cast,
        observer: Observer,
        log: Log,
        calls: Calls,
        watch: Watch,
        prior: str = "",
        rewrite_every: int = 0,
        inject: bool = True,
    ) -> None:
        self.library, self.cast, self.observer, self.log, self.calls, self.watch = library, cast, observer, log, calls, watch
        self.prior, self.rewrite_every, self.inject = prior, rewrite_every, inject

    async def play(self) -> None:
        """Play all rounds.

        Raises
        ------
        BudgetReached, ServiceError, InputError
            From a model's client. What was done is in the log.
        RunError
            The log says otherwise: other code or other data wrote it.
        """
        for cluster, text in self.cast.start:
            self.put(-1, Cluster(cluster, 0, (), 0, 0), text)
        for t in range(self.library.policy.rounds):
            self.step, self.counts = 0, {"retired": 0, "evicted": 0, "written": 0, "observed_failures": 0}
            self.library.forget()
            failed = self.count(await self.trials(t, TRAIN, self.cast.train))
            await self.criticise(t, failed)
            self.note(t, self.library.retire())
            if t < self.library.policy.rounds - 1:
                await self.write(t)
            capsules = await self.trials(t, EVAL, self.cast.eval)
            passes, attempted = sum(c["passed"] or 0 for c in capsules), sum(c["passed"] is not None for c in capsules)
            self.note(t, self.library.roll_back(passes, attempted))
            row = {"round": t, "passes": passes, "attempted": attempted, "active": len(self.library.shelf)}
            self.log.settle("rounds", ("round",), row)
            self.log.there()
            self.watch.ended(t, {**self.counts, **row})

    # ------------------------------------------------------------ trials

    async def trials(self, t: int, phase: str, tasks: tuple[Task, ...]) -> list[dict[str, Any]]:
        """Attempt every task once, all with the shelf as it is; return the capsules in the order of tasks."""
        shelf = [entry.skill for entry in self.library.shelf]
        self.watch.began(t, phase, len(tasks))
        return await together(self.calls, (self.trial(At(t, phase, i, task.id), task, shelf) for i, task in enumerate(tasks)))

    async def trial(self, at: At, task: Task, shelf: list[Skill]) -> dict[str, Any]:
        """One attempt: its capsule, from the log if it is there."""
        capsule = self.log.capsule(at.round, at.phase, at.subject)
        if capsule is None:
            self.calls.check()
            choice = await self.cast.router.route(at, task, shelf)
            skill = next((s for s in shelf if s.number == choice.skill), None)
            attempt = await self.cast.solver.solve(at, task, skill if self.inject else None)
            row = {
                "round": at.round, "phase": at.phase, "task": task.id, "position": at.index, "skill": choice.skill,
                "injected": int(self.inject and skill is not None), "route_call": choice.call, "solve_call": attempt.call,
                "prompt": attempt.prompt, "answer": attempt.answer, "passed": None, "observed": None, "reason": attempt.void,
                "trace": "", "judge_call": None, "seconds": 0.0,
            }  # fmt: skip
            if not attempt.void:
                grade = await self.cast.grader.grade(at, task, attempt.answer)
                row |= {"passed": int(grade.passed), "reason": grade.logged, "trace": grade.trace, "seconds": grade.seconds}
                if at.phase == TRAIN:
                    seen = await self.observer.observe(at, task, attempt.answer, grade)
                    row |= {"observed": int(seen.passed), "trace": seen.trace, "judge_call": seen.call}
            row = {key: plain(value) if isinstance(value, str) else value for key, value in row.items()}
            row["id"] = self.log.add("capsules", {**row, **self.spent(row)})
            capsule = row
        self.watch.did()
        return dict(capsule)

    def spent(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return tokens and cost of the calls made for one capsule, retries included, and the seconds they and the grader took."""
        query = """SELECT coalesce(sum((input_tokens + output_tokens) * (part > 0)), 0), sum(cost), coalesce(sum(seconds), 0) FROM calls
            WHERE round = ? AND phase = ? AND subject = ? AND role IN ('router', 'solver', 'judge')"""
        tokens, cost, seconds = self.log.one(query, (row["round"], row["phase"], row["task"]))
        return {"tokens": tokens, "cost": cost, "seconds": row["seconds"] + seconds}

    def count(self, capsules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Count what was observed of routed skills; return the observed failures."""
        for capsule in capsules:
            if capsule["skill"] is not None and capsule["observed"] is not None:
                self.library.count(capsule["skill"], bool(capsule["observed"]))
        failed = [c for c in capsules if c["observed"] == 0]
        self.counts["observed_failures"] = len(failed)
        return failed

    # ------------------------------------------------------------ failures and skills

    async def criticise(self, t: int, failed: list[dict[str, Any]]) -> None:
        """Have every observed failure labelled, and put it into its cluster's pool."""
        skills = {entry.number: entry.skill for entry in self.library.shelf}
        self.watch.began(t, "critic", len(failed))
        verdicts = await together(self.calls, (self.verdict(t, capsule, skills) for capsule in failed))
        for capsule, verdict in zip(failed, verdicts, strict=True):
            cluster = self.library.fail(verdict.pattern, bool(capsule["passed"]))
            row = {"round": t, "capsule": capsule["id"], "call": verdict.call, "label": verdict.label, "pattern": verdict.pattern}
            self.log.settle("verdicts", ("capsule",), {**row, "cluster": cluster})

    async def verdict(self, t: int, capsule: dict[str, Any], skills: dict[int, Skill]) -> Verdict:
        """Ask the critic about one failure."""
        task = self.cast.train[capsule["position"]]
        at = At(t, TRAIN, capsule["position"], task.id)
        failure = Failure(task, skills.get(capsule["skill"]) if capsule["injected"] else None, capsule["answer"], capsule["trace"])
        verdict = await self.cast.critic.criticise(at, failure)
        self.watch.did()
        return verdict

    async def write(self, t: int) -> None:
        """Have skills written from the largest clusters, and put them on the shelf."""
        if self.rewrite_every and t and t % self.rewrite_every == 0:
            self.prior, call = await self.cast.synthesizer.rewrite(At(t, REWRITE, 0, "prior"), self.prior, self.summary(t))
            self.log.settle("priors", ("round",), {"round": t, "text": self.prior, "call": call})
        clusters = self.library.ready(t)
        self.watch.began(t, WRITE, len(clusters))
        work = (self.cast.synthesizer.write(At(t, WRITE, i, c.name), c, self.prior) for i, c in enumerate(clusters))
        for cluster, text in zip(clusters, await together(self.calls, work), strict=True):
            self.watch.did()
            if text is not None:
                self.put(t, cluster, text)

    def put(self, t: int, cluster: Cluster, text: Text) -> None:
        """Give a text its number, and its place on the shelf."""
        body = {k: v for k, v in asdict(text).items() if k != "call"}
        skill = Skill(number=self.library.births, born=t, cluster=cluster.name, **body)
        row = {"number": skill.number, "round": t, "cluster": skill.cluster, **body, "call": text.call}
        self.log.settle("skills", ("number",), row)
        changes = self.library.put(skill)
        if t >= 0:
            self.note(t, changes)

    def note(self, t: int, changes: list[Change]) -> None:
        """Log changes of state."""
        for change in changes:
            row = {"round": t, "step": self.step, "kind": change.kind, "skill": change.skill}
            self.log.settle("changes", ("round", "step"), {**row, "reason": json.dumps(change.reason, sort_keys=True)})
            self.step += 1
            if change.kind in self.counts:
                self.counts[change.kind] += 1

    def summary(self, t: int) -> str:
        """Return what became of the skills up to round ``t``, a line each, for the rewriting of the prior."""
        active = {entry.number: entry for entry in self.library.shelf}
        lines = []
        query = "SELECT s.number, s.name, count(c.id) AS n, coalesce(sum(c.observed), 0) AS good FROM skills AS s LEFT JOIN capsules AS c "
        query += "ON c.skill = s.number AND c.phase = ? AND c.round <= ? AND c.observed IS NOT NULL "
        query += "WHERE s.round < ? GROUP BY s.number ORDER BY s.number"
        for row in self.log.all(query, (TRAIN, t, t)):
            state = "active" if row["number"] in active else "removed"
            share = f"{row['good'] / row['n']:.0%}" if row["n"] else "-"
            lines.append(f"- {row['name']}: {row['n']} trials, {share} passes, {state}")
        return "\n".join(lines[-40:]) or "(none yet)"
