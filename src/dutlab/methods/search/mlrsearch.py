"""The MLRsearch library as a sequence of trials: each call returns the next trial to run.

The library (RFC 9971's reference, Apache-2.0) is synchronous and calls a function for each trial during its search. Here it runs in a
separate thread, which waits while a trial runs. `first()` and `tell()` wait until it asks for a trial or has ended. All other parts of a
search are in one coroutine, so that cancelling it cancels the trial.

The thread also imports the library when a search begins. During the import it looks up the module of every stack frame above it. This takes
0.2 s of CPU in a run, and seconds in a program with many modules and a deep stack, such as tests.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from dutlab.errors import MeasurementError
from dutlab.methods.early_stop import HINTS
from dutlab.spec.goals import Goal
from dutlab.units import Pps, Seconds

_NO_LIMIT_S = 1e12  # the library would read a clock; the caller limits the time of a search


@dataclass(frozen=True)
class NextTrial:
    """The trial that the search asks for next."""

    load: Pps
    """Load of each link."""
    duration: Seconds
    in_full: bool = False
    """True if it must not be stopped early, because its loss ratio steers the search."""


@dataclass(frozen=True)
class LoadOutcome:
    """Result of a trial for the library. Frames of all links together."""

    ask: NextTrial
    intended_frames: int
    """Frames that the loss ratio counts as intended: frames that were not sent count as lost."""
    sent_frames: int
    lost_frames: int

    @property
    def loss_ratio(self) -> float:
        """Loss ratio as the library computes it (MLRsearch 1.2.1, MeasurementResult.loss_ratio)."""
        overall = max(self.intended_frames, self.sent_frames)
        return (self.lost_frames + abs(self.intended_frames - self.sent_frames)) / overall if overall else 0.0


@dataclass(frozen=True)
class Bounds:
    """Bounds that the library found for one goal; None if there is no such bound."""

    lower: Pps | None
    upper: Pps | None


class _Abandoned(BaseException):
    """Ends the library's thread. Not an Exception, so that the library does not catch it."""


class Library:
    """One search as a context manager; leaving it ends the thread at any point of the search."""

    def __init__(self, goals: Sequence[Goal], *, lowest: Pps, highest: Pps) -> None:
        self._goals, self._asked = goals, 0
        self._lowest, self._highest = lowest, highest
        self._replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="mlrsearch", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next: asyncio.Future[NextTrial | dict[Goal, Bounds]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._thread.is_alive():
            self._replies.put(None)
            self._thread.join()

    async def first(self) -> NextTrial | dict[Goal, Bounds]:
        """Start the search and return its first trial. Raises MeasurementError if the library cannot search at all."""
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.create_future()
        self._thread.start()
        return await self._next

    async def tell(self, outcome: LoadOutcome) -> NextTrial | dict[Goal, Bounds]:
        """Pass the result of the last asked trial; return the next one, or the bounds of every goal.

        Raises MeasurementError if the library ends with an error.
        """
        assert self._loop is not None  # noqa: S101 first() was called before
        self._next = self._loop.create_future()
        from MLRsearch import MeasurementResult  # type: ignore[import-untyped]  # noqa: PLC0415 -- first() has imported it

        self._replies.put(
            MeasurementResult(
                intended_duration=outcome.ask.duration,
                intended_load=outcome.ask.load,
                intended_count=outcome.intended_frames,
                offered_count=outcome.sent_frames,
                loss_count=outcome.lost_frames,
                duration_with_overheads=outcome.ask.duration,
            )
        )
        return await self._next

    def measure(self, intended_duration: float, intended_load: float) -> Any:  # noqa: ANN401 the library ships no types
        """Run a trial for the library, which calls this in its thread."""
        self._asked += 1
        self._post(NextTrial(Pps(intended_load), Seconds(intended_duration), in_full=self._asked <= HINTS))
        if (reply := self._replies.get()) is None:
            raise _Abandoned
        return reply

    def _run(self) -> None:
        try:
            bounds = self._searched()
        except _Abandoned:
            return
        except Exception as error:  # noqa: BLE001 every error of the library goes to the waiting caller
            self._post(error)
        else:
            self._post(bounds)

    def _searched(self) -> dict[Goal, Bounds]:
        from MLRsearch import Config, MultipleLossRatioSearch  # noqa: PLC0415 -- as the module's docstring says

        goals = {goal: _search_goal(goal) for goal in self._goals}
        config = Config(
            goals=tuple(goals.values()),
            min_load=self._lowest,
            max_load=self._highest,
            search_duration_max=_NO_LIMIT_S,
            warmup_duration=0.0,
        )
        results = MultipleLossRatioSearch(config).search(self, debug=lambda _: None)
        return {goal: _bounds(results[searched]) for goal, searched in goals.items()}

    def _post(self, item: NextTrial | dict[Goal, Bounds] | Exception) -> None:
        assert self._loop is not None  # noqa: S101 the thread is started by first()
        self._loop.call_soon_threadsafe(self._deliver, item)

    def _deliver(self, item: NextTrial | dict[Goal, Bounds] | Exception) -> None:
        if self._next is None or self._next.done():
            return  # the waiting caller was cancelled
        if isinstance(item, Exception):
            gave_up = MeasurementError(f"the search stopped: {item}")
            gave_up.__cause__ = item
            self._next.set_exception(gave_up)
        else:
            self._next.set_result(item)


def _search_goal(goal: Goal) -> Any:  # noqa: ANN401 the library ships no types
    from MLRsearch import SearchGoal  # noqa: PLC0415 -- as the module's docstring says

    return SearchGoal(
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        relative_width=goal.width,
        initial_trial_duration=goal.initial_s,
        final_trial_duration=goal.final_s,
        duration_sum=goal.sum_s,
        preceding_targets=goal.steps,
        fail_fast=False,  # no lower bound is a result too
    )


def _bounds(result: Any) -> Bounds:  # noqa: ANN401 the library ships no types
    lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
    return Bounds(None if lower is None else Pps(float(lower)), None if upper is None else Pps(float(upper)))
