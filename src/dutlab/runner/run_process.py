"""One process's work on a run folder, whatever is measured: its events, its records, and how it ends."""

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
    """The next trial would end after the budget."""

    what = "the budget ended"


class Paused(TimeIsOver):
    """Somebody asked for a pause after the trial that was measured."""

    what = "paused"


@asynccontextmanager
async def within(budget_s: float | None) -> AsyncIterator[float | None]:
    """Yields when it ends on the loop's clock. Raises TimeIsOver then, or the error that had ended the work before and was cleaned up."""
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
    """One process's work on a run: everything that has no record yet."""

    plan: Plan
    folder: RunFolder
    journal: Journal
    progress: Progress
    book: CommandBook = field(default_factory=CommandBook)

    async def all_left(
        self, measure: Callable[[Sequence[Trial], float | None], Awaitable[None]], *, how: str, budget_s: float | None = None
    ) -> RunResult:
        """Run the remaining trials by `measure`, which gets the deadline (event-loop time) at which it must end.

        `how` says what continues a run that was cut; empty if nothing does.
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
        """Tells the user what there is to do. A pause that was asked for before is over."""
        self._is_pause_asked()
        self.events.begun(self.folder.path, self.folder.finished())

    def begin_trial(self, trial: Trial, ends: float | None) -> Trial:
        """The first trial of a run is begun whatever it is expected to take."""
        if ends is not None and self.folder.finished() and asyncio.get_running_loop().time() + trial.estimate_s > ends:
            raise TimeIsOver
        if self.folder.finished() and self._is_pause_asked():
            raise Paused
        self.folder.discard_incomplete(trial.number)
        self.journal.write("trial-started", trial=trial.number)
        self.events.trial(trial)
        return trial

    def _is_pause_asked(self) -> bool:
        """Return whether a pause was asked for; the request is granted once."""
        try:
            (self.folder.path / PAUSE).unlink()
        except OSError:
            return False
        return True

    def say_cut(self, error: BaseException, how: str) -> None:
        """Tells the user `how` the run can go on, if it can and a trial of it was begun."""
        finished = len(self.folder.finished())
        what = error.what if isinstance(error, TimeIsOver) else "interrupted"
        self.events.cut(error, f"{what} after {finished} of {len(self.plan.trials)} trials: {how}" if how and self._was_begun() else "")

    def _was_begun(self) -> bool:
        return any(entry["event"] == "trial-started" for entry in read_journal(self.folder.journal))

    def result(self) -> RunResult:
        """Closes the run, of which nothing is left. One that lost trials stays open: a resume does them again."""
        self._is_pause_asked()  # in the last trial
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
        """Return the result so far; a run that was cut can continue."""
        status = Counter(r.status for r in self.folder.records())
        left = len(self.records.left())
        return RunResult(self.folder.path, status["measured"], status["failed"], status["refused"], status[DISTURBED], left)

    @cached_property
    def events(self) -> EventLog:
        """Events of the run, for observers; in the run's folder until that is closed."""
        return EventLog(None if self.folder.is_closed else self.folder.path / EVENTS, self.progress.hear, self.plan)

    @cached_property
    def records(self) -> Records:
        """Those that there are, and which are still to be made."""
        return Records(self.plan, self.folder, self.journal, self.events)
