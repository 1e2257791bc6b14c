"""One process's work on a run folder, for any kind of run: its events, its records and its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from dutlab.events import EVENTS
from dutlab.plan.plan import Plan, Trial
from dutlab.runner.command_book import CommandBook
from dutlab.runner.event_log import EventLog
from dutlab.runner.journal import Journal, read_journal
from dutlab.runner.progress import Progress, RunResult
from dutlab.runner.records import Records
from dutlab.store.judged import DISTURBED
from dutlab.store.manifest import PAUSE
from dutlab.store.run_folder import RunFolder


class TimeIsOver(Exception):
    """End of a process's work, since the next trial would end after the budget."""

    what = "the budget ended"


class Paused(TimeIsOver):
    """Pause after the current trial, which a person asked for."""

    what = "paused"


@asynccontextmanager
async def within(budget_s: float | None) -> AsyncIterator[float | None]:
    """Yield the deadline (event-loop time). Raises TimeIsOver after it, or the error that ended the work before."""
    limit = asyncio.timeout(budget_s)
    try:
        async with limit:
            yield limit.when()
    except TimeoutError as error:
        if not isinstance(cut := error.__cause__, asyncio.CancelledError) or not limit.expired():
            raise
        raise cut.__cause__ or TimeIsOver() from None


@dataclass(frozen=True, kw_only=True)
class RunProcess:
    """One process's work on a run: all trials without a record."""

    plan: Plan
    folder: RunFolder
    journal: Journal
    progress: Progress
    book: CommandBook = field(default_factory=CommandBook)

    async def all_left(
        self, measure: Callable[[Sequence[Trial], float | None], Awaitable[None]], *, how: str, budget_s: float | None = None
    ) -> RunResult:
        """Run the remaining trials by `measure`, which gets the deadline (event-loop time).

        `how` names the command that continues a cut run; empty if there is none.
        """
        self.begin()
        if left := self.records.left():
            try:
                async with within(budget_s) as ends:
                    await measure(left, ends)
            except TimeIsOver as error:
                if self.records.left():
                    self.say_cut(error, how)
                    return self.partial()
            except BaseException as error:
                self.say_cut(error, how)
                raise
            self.journal.write("run-finished")
        return self.result()

    def begin(self) -> None:
        """Report the start to observers. An earlier request for a pause is dropped."""
        self._take_pause_request()
        self.events.begun(self.folder.path, self.folder.finished())

    def begin_trial(self, trial: Trial, ends: float | None) -> Trial:
        """Begin a trial, or raise TimeIsOver if it would miss the deadline `ends`, Paused if a pause was asked for.

        The first trial of a run is always begun.
        """
        if ends is not None and self.folder.finished() and asyncio.get_running_loop().time() + trial.estimate_s > ends:
            raise TimeIsOver
        if self.folder.finished() and self._take_pause_request():
            raise Paused
        self.folder.discard_incomplete(trial.number)
        self.journal.write("trial-started", trial=trial.number)
        self.events.trial(trial)
        return trial

    def _take_pause_request(self) -> bool:
        """Return whether a pause was asked for, and remove the request."""
        try:
            (self.folder.path / PAUSE).unlink()
        except OSError:
            return False
        return True

    def say_cut(self, error: BaseException, how: str) -> None:
        """Report that the run was cut, and `how` to continue it. An error before the first trial has its own remedy."""
        finished = len(self.folder.finished())
        what = error.what if isinstance(error, TimeIsOver) else "interrupted"
        when = f"after {finished} of {len(self.plan.trials)} trials" if self._was_begun() else "before the first trial"
        continues = how and (self._was_begun() or isinstance(error, (TimeIsOver, asyncio.CancelledError)))
        self.events.cut(error, f"{what} {when}: {how}" if continues else "")

    def _was_begun(self) -> bool:
        return any(entry["event"] == "trial-started" for entry in read_journal(self.folder.journal))

    def result(self) -> RunResult:
        """Close a run without remaining trials. If programs were killed in trials, it stays open, and a resume repeats these."""
        self._take_pause_request()  # drops a request made during the last trial
        outcome = self.partial()
        if killed := self.records.killed():
            lost = "; ".join(f"trial {trial}: {programs}" for trial, programs in killed.items())
            self.events.close("cut", {}, f"programs were killed ({lost}): `dutlab resume {self.folder.path}` does these trials again")
            return replace(outcome, left=outcome.left + len(killed), failed=outcome.failed - len(killed))
        of = {"measured": outcome.measured, "failed": outcome.failed, "refused": outcome.refused, "disturbed": outcome.disturbed}
        self.events.close("finished", of)
        self.folder.write_manifest()
        return outcome

    def partial(self) -> RunResult:
        """Return the result so far."""
        status = Counter(r.status for r in self.folder.records())
        left = len(self.records.left())
        return RunResult(self.folder.path, status["measured"], status["failed"], status["refused"], status[DISTURBED], left)

    @cached_property
    def events(self) -> EventLog:
        """Events of the run, for observers and the run folder; a closed folder gets no events."""
        return EventLog(None if self.folder.is_closed else self.folder.path / EVENTS, self.progress.hear, self.plan)

    @cached_property
    def records(self) -> Records:
        """Records of the run, and its remaining trials."""
        return Records(self.plan, self.folder, self.journal, self.events)
