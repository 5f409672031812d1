"""Put a run together from its settings, play it, and end it well whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from real_loop.calls import Calls
from real_loop.config import Plan, identity
from real_loop.library import Library
from real_loop.log import Log, check
from real_loop.loop import Loop, Watch
from real_loop.models import Budget, Client, Patience, Spent, open_client
from real_loop.reuse import Known, paths_of
from real_loop.rewards import Flips, Judged, Observer
from real_loop.roles import At, Cast
from real_loop.roles.prompted import Judge, PromptedCritic, PromptedRouter, PromptedSolver, PromptedSynthesizer, TopHit
from real_loop.roles.scripted import Script
from real_loop.roles.trade import CODING, Trade, trade_of
from real_loop.settings import ROLES, Settings
from real_loop.suites import Grade, Suite, Task
from real_loop.tasks import Chosen
from sim.errors import InputError
from sim.model import recorded

T = TypeVar("T")
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
GRACE: Final = 20.0  # s that calls in flight have to end in after Ctrl-C: they are paid for


class Graded:
    """The true grader of a suite, as many at once as there are cores."""

    def __init__(self, suite: Suite) -> None:
        self.suite, self.free = suite, asyncio.Semaphore(len(os.sched_getaffinity(0)))

    async def grade(self, at: At, task: Task, answer: str) -> Grade:
        """Run the task's tests, or the checks of its form, on the answer."""
        async with self.free:
            return await _aside(lambda: self.suite.grade(task, answer))


async def _aside(work: Callable[[], T]) -> T:
    """Await work on a thread that the end of the process does not wait for: an answer may run for a long time."""
    running = asyncio.get_running_loop()
    done: asyncio.Future[T] = running.create_future()

    def told(setter: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            running.call_soon_threadsafe(lambda: None if done.done() else setter(value))

    def run() -> None:
        try:
            told(done.set_result, work())
        except BaseException as error:  # handed to who waits
            told(done.set_exception, error)

    threading.Thread(target=run, daemon=True).start()
    return await done


class LoggedBudget(Budget):
    """A run's budget: what its log says was spent counts, and failed attempts go into the log."""

    def __init__(self, settings: Settings) -> None:
        b = settings.budget
        super().__init__(b.calls, b.tokens, b.cost, b.seconds)
        self.log: Log | None = None

    def keep(self, log: Log) -> None:
        """Take up what a log says, and keep failed attempts there from now on."""
        calls, tokens, cost, unpriced = log.spent()
        self.take_up(Spent(calls=calls, input_tokens=tokens, cost=cost, seconds=log.spent_before, unpriced=unpriced))
        self.log = log

    def fault(self, kind: str, detail: str = "") -> None:
        """Count a failed attempt, and log it."""
        super().fault(kind, detail)
        if self.log is not None:
            self.log.add("faults", {"kind": kind, "text": detail})


def prior_text(name: str, trade: Trade) -> str:
    """Return the authoring prior: ``default`` is that of the trade, ``none`` is none, or the text of a file.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    if name == "none":
        return ""
    if name == "default":
        return trade.prompt("prior").strip()
    try:
        return Path(os.path.expanduser(name)).read_text().strip()
    except (OSError, ValueError) as error:
        raise InputError("writing.prior", repr(name), "default, none, or a text file that can be read") from error


def _clients_needed(settings: Settings) -> list[str]:
    left_out = set() if settings.reward.kind == "judge" else {"judge"}
    return [role for role in ROLES if role not in left_out and not (role == "router" and settings.roles.mode == "top_hit")]


def _price(settings: Settings) -> tuple[float, float] | None:
    b = settings.budget
    if (b.price_in is None) != (b.price_out is None):
        raise InputError("budget.price_in", "one price", "two", "give budget.price_in and budget.price_out")
    return None if b.price_in is None or b.price_out is None else (b.price_in, b.price_out)


def _spec(settings: Settings, role: str) -> tuple[str, str | None]:
    """Return the model of a role, and its address if it has one of its own."""
    own = getattr(settings.roles, role)
    spec, url = (own.model, own.base_url) if own.model else (settings.model, own.base_url or settings.base_url)
    if spec is None:
        raise InputError("model", "null", "local/NAME, scripted/WORLD, or PROVIDER/NAME")
    if spec.startswith("scripted/"):
        raise InputError(f"roles.{role}.model", repr(spec), "a model that can be asked", "model=scripted/WORLD is for all roles")
    return spec, url


@asynccontextmanager
async def clients(
    settings: Settings, budget: Budget, note: Callable[[str], None], only: Sequence[str] | None = None
) -> AsyncIterator[dict[str, Client]]:
    """Open the models of all roles that ask one, or only of some, each once; close them at the end."""
    opened: dict[tuple[str, str | None], Client] = {}
    asked = {role: _spec(settings, role) for role in only or _clients_needed(settings)}
    bear = settings.patience
    patience = Patience(absent=bear, total=max(bear, 1.0) * 12, first=min(1.0, bear / 60), longest=min(60.0, bear / 5))
    try:
        for spec, url in dict.fromkeys(asked.values()):
            servers = settings.servers if spec.startswith("local/") else settings.concurrency
            opened[spec, url] = await open_client(
                spec, base_url=url, servers=servers, price=_price(settings), budget=budget, patience=patience, note=note
            )
        yield {role: opened[model] for role, model in asked.items()}
    finally:
        for client in opened.values():
            await client.close()


def told(settings: Settings, suite: Suite | None, tasks: dict[str, list[str]], prior: str, plan: Plan) -> dict[str, Any]:
    """Return the identity of a run: its settings, and the data and prompts they stand for."""
    trade = trade_of(suite.name) if suite is not None else CODING  # scripted roles use none
    more: dict[str, Any] = {"tasks": tasks, "prior_text": prior, "prompts": trade.digest()}
    if suite is not None:
        more["suite_digest"] = suite.digest
    if plan.cell is not None:
        more["world"] = recorded(plan.cell.world)
    return {**identity(settings), **more}


def library_of(settings: Settings, cast: Cast) -> Library:
    """Return an empty library for a run."""
    return Library(settings.policy, settings.writing, len(cast.train), settings.seed, settings.run, cast.known)


async def scripted(plan: Plan, path: Path | str, watch: Watch) -> None:
    """Play a run of scripted roles into the log at ``path``."""
    assert plan.cell is not None
    settings = plan.settings
    cast = Script(plan.cell, settings.seed, settings.run).cast()
    tasks = {"train": [t.id for t in cast.train], "eval": [t.id for t in cast.eval]}
    observer = Flips(settings.reward, settings.seed, settings.run, cast.topics)
    with closing(Log(path, told(settings, None, tasks, "", plan), paid=False)) as log:
        calls = Calls(log, {}, Budget(), settings.seed, settings.run, False)
        watch.attach(calls)
        await Loop(library_of(settings, cast), cast, observer, log, calls, watch, inject=settings.roles.mode != "withheld").play()


async def prompted(plan: Plan, path: Path | str, watch: Watch, chosen: Chosen, note: Callable[[str], None]) -> None:
    """Play a run of real models into the log at ``path``.

    Raises
    ------
    BudgetReached, ServiceError
        The run ended before its time; all that was done is in the log.
    """
    settings, (suite, train, evals) = plan.settings, chosen
    roles, trade = settings.roles, trade_of(suite.name)
    prior = prior_text(settings.writing.prior, trade)
    tasks = {"train": [t.id for t in train], "eval": [t.id for t in evals]}
    this = told(settings, suite, tasks, prior, plan)
    check(path, this)  # before servers are started
    budget, sources = LoggedBudget(settings), paths_of(settings.reuse)
    known = Known(sources, settings) if sources else None
    async with clients(settings, budget, note) as models:  # before a log is begun: a model that cannot be opened leaves none
        with closing(Log(path, this, {"sandbox": settings.sandbox, "reuse": sources})) as log, ExitStack() as stack:
            if known is not None:
                stack.callback(known.close)
            budget.keep(log)
            calls = Calls(log, models, budget, settings.seed, settings.run, settings.evals == "paired", known)
            cast = Cast(
                TopHit() if roles.mode == "top_hit" else PromptedRouter(calls, roles.router, trade),
                PromptedSolver(calls, roles.solver, trade),
                Graded(suite),
                PromptedCritic(calls, roles.critic, trade),
                PromptedSynthesizer(calls, roles.synthesizer, trade),
                train,
                evals,
            )
            observer: Observer = Flips(settings.reward, settings.seed, settings.run)
            if settings.reward.kind == "judge":
                observer = Judged(Judge(calls, replace(roles.judge, temperature=0.0), settings.reward.prompt, trade))
            library, inject = library_of(settings, cast), roles.mode != "withheld"
            loop = Loop(library, cast, observer, log, calls, watch, prior, settings.writing.rewrite_every, inject)
            watch.attach(calls)
            await until_stopped(loop.play(), calls, note, all(c.name.startswith("local/") for c in models.values()))


class Interrupted(Exception):  # noqa: N818 - a KeyboardInterrupt that may pass through tasks
    """Somebody asked the run to stop."""


async def until_stopped(work: Coroutine[Any, Any, T], calls: Calls, note: Callable[[str], None], local: bool) -> T:
    """Await work; at the first Ctrl-C begin no call any more, and wait a while for those in flight unless they cost nothing.

    Once it is stopped, further signals are passed over: what is left takes a moment, and then the process ends.

    Raises
    ------
    KeyboardInterrupt
        It was stopped.
    """
    playing = asyncio.ensure_future(work)
    running = asyncio.get_running_loop()

    def interrupted() -> None:
        if local or calls.stopping is not None or not calls.in_flight:
            playing.cancel()
        else:
            note(f"stopping: {calls.in_flight} calls in flight are waited for; Ctrl-C again drops them")
            running.call_later(GRACE, playing.cancel)
        calls.stop(Interrupted())

    for number in SIGNALS:
        running.add_signal_handler(number, interrupted)
    stopped = True
    try:
        result = await playing
        stopped = False
        return result
    except (asyncio.CancelledError, Interrupted):
        raise KeyboardInterrupt from None
    except BaseException:
        stopped = False
        raise
    finally:
        for number in SIGNALS:
            running.remove_signal_handler(number)
            if stopped:
                signal.signal(number, signal.SIG_IGN)
