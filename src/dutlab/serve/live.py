"""State of a run from its events, read once a second while browsers watch it.

The state comes only from events.jsonl. So any process or machine may carry out the run, and watching cannot disturb it.
"""

from __future__ import annotations

import asyncio
import enum
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dutlab.events import SEARCH, EventTail, TrialEnded
from dutlab.outside import UnfitFile
from dutlab.report.model.trial_words import LIVE_RATES, ended_words
from dutlab.report.model.words import duration_words, plural, unit_for
from dutlab.report.plots.plot import Plot
from dutlab.serve.live_plot import SHOWN_S, RateLine, TrialStart, rate_plot
from dutlab.store.cell_figures import name_words
from dutlab.store.find import is_running
from dutlab.store.manifest import MANIFEST, PAUSE
from dutlab.subject import by_part, subject_of

LOOK_S = 1.0
_BREATH_S = 20.0
"""Seconds after which a stream without news sends a comment, because proxies end silent streams."""
_KEPT_TRIALS, _KEPT_NOTES, _KEPT_VALUES, _MOST_READINGS = 40, 12, 120, 200
_DRAWN, _MOST_PLOTS, _MOST_BOUNDS = 8, 6, 6
_LONGEST = 400
"""Longest text that is shown, in characters."""


class RunStage(enum.Enum):
    """Actions that are possible with a run; the page shows a button for each."""

    RUNNING = "running"
    PAUSING = "pausing"
    """A pause was asked for: the run ends after its trial."""
    ENDING = "ending"
    """The run was cancelled here, and undoes its changes."""
    CUT = "cut"
    FINISHED = "finished"


@dataclass
class WatchedValue:
    """Newest values of one reading of a sensor, tool or search."""

    where: str
    who: str
    name: str
    values: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_VALUES))
    moments: deque[datetime] = field(default_factory=lambda: deque(maxlen=_KEPT_VALUES))
    """When each value was read."""

    @property
    def words(self) -> str:
        """Newest value with its unit."""
        return unit_for(self.name, [self.values[-1]]).text(self.values[-1]).strip()

    @property
    def points(self) -> str:
        """Points of a line in an SVG of 120 by 24: the newest value is at the right, the greatest at the top."""
        high, low = max(self.values), min(*self.values, 0.0)
        height = (high - low) or 1.0
        first = _KEPT_VALUES - len(self.values)
        return " ".join(f"{first + n},{23 - 22 * (v - low) / height:.1f}" for n, v in enumerate(self.values))


@dataclass
class RunState:
    """State of a run, from its events so far."""

    run: Path
    experiment: str = ""
    trials: int = 0
    done: int = 0
    doing: str = ""
    """Words for the current activity; empty in a trial and at the end."""
    mode: str = ""
    trial: str = ""
    """Words for the trial that is measured."""
    number: int = 0
    workload: str = ""
    links: tuple[str, ...] = ()
    """Links that the trial drives."""
    starts: deque[tuple[datetime, int]] = field(default_factory=lambda: deque(maxlen=_KEPT_TRIALS))
    """Start and number of each trial."""
    bounds: dict[str, float] = field(default_factory=dict)
    """Present bounds of a search in this trial, in frames per second and direction: `ndr lower` → 466e3."""
    since: datetime | None = None
    """Start of the trial or other activity."""
    left_s: float = 0.0
    """Estimated remaining seconds of the run at `since`."""
    ended: str = ""
    """How the last process of the run ended: finished or cut."""
    remedy: str = ""
    stage: RunStage = RunStage.RUNNING
    last: datetime | None = None
    readings: dict[tuple[str, str, str], WatchedValue] = field(default_factory=dict)
    """Readings by place, source and name. They are kept over trials, because many trials have few readings."""
    heard: set[tuple[str, str, str]] = field(default_factory=set)
    """Keys of readings in the current or last trial."""
    log: deque[tuple[str, str, str, str]] = field(default_factory=lambda: deque(maxlen=_KEPT_TRIALS))
    """Trials that ended, newest first: number of trials done, name, status, words about figures."""
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_NOTES))
    doubts: Counter[str] = field(default_factory=Counter)
    severe: list[str] = field(default_factory=list)

    @property
    def rates(self) -> list[tuple[str, WatchedValue]]:
        """Rates of the tool, each with its word, in the order of reports."""
        return [(word, r) for name, _, word in LIVE_RATES for r in self._of_now() if r.name == name][:_DRAWN]

    def place(self, where: str) -> str:
        """Return words for the place of a rate: `link a`, `link a, backward`, or a host."""
        try:
            return name_words(where, self.links, self.workload) if {*subject_of(where).places} & {*self.links} else where
        except (ValueError, KeyError):  # not a name that dutlab gives
            return where

    def plots(self, now: datetime) -> list[Plot]:
        """Return a plot of the rates of each place and unit, with the trial's bounds."""
        if self.last is not None and not 0 <= (now - self.last).total_seconds() < SHOWN_S:
            now = self.last  # the run has ended, or its machine has another clock
        by_place: dict[tuple[str, str], list[WatchedValue]] = {}
        for name, unit, _ in LIVE_RATES:
            for r in self._of_now():
                if r.name == name:
                    by_place.setdefault((r.where, unit), []).append(r)
        starts = [TrialStart((at - now).total_seconds(), number) for at, number in self.starts]
        drawn = []
        for n, ((where, unit), readings) in enumerate(list(by_place.items())[:_MOST_PLOTS], 1):
            lines = [
                RateLine(r.name, [((at - now).total_seconds(), v) for at, v in zip(r.moments, r.values, strict=True)]) for r in readings
            ]
            title = ", ".join(filter(None, (self.trial and f"trial {self.number}: {self.trial}", self.place(where))))
            drawn.append(rate_plot(n, title, lines, self.bounds if unit == "pps" else {}, starts))
        return [plot for plot in drawn if plot is not None]

    @property
    def others(self) -> list[WatchedValue]:
        """All other readings, by place and name."""
        rate_names = {name for name, _, _ in LIVE_RATES}
        return [r for r in self._of_now() if r.name not in rate_names]

    def _of_now(self) -> list[WatchedValue]:
        return [r for key, r in sorted(self.readings.items()) if key in self.heard]

    def time_words(self, now: datetime) -> str:
        """Return how long the current activity has taken, and how long the run should still take."""
        if self.since is None or self.ended:
            return ""
        took = max(0.0, (now - self.since).total_seconds())  # the run's machine may have another clock
        left = f"{duration_words(self.left_s - took)} left" if took < self.left_s else "longer than planned" if self.left_s else ""
        return ", ".join(filter(None, (duration_words(took), left)))

    def silent_words(self, now: datetime) -> str:
        """Return a sentence if the last event is more than a minute old; otherwise an empty text."""
        if self.ended or self.last is None or (quiet := (now - self.last).total_seconds()) < 60:  # noqa: PLR2004 - a minute
            return ""
        return f"It sent no event for {duration_words(quiet)}."

    def hear(self, event: Mapping[str, Any]) -> None:
        """Apply an event. Invalid events, and unknown ones of a newer dutlab, are ignored."""
        try:
            self.last = datetime.fromisoformat(str(event["at"]))
            self._hear(event)
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
            return

    def _hear(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "run-begun":
                self.experiment, self.ended, self.remedy = _short(event["experiment"]), "", ""
                self.trials, self.done, self.left_s = int(event["trials"]), int(event["done"]), float(event["estimate_s"])
                self._begin("beginning")
            case "preparing":
                self._begin(_short(event["what"]))
            case "mode-applying":
                self.mode = _short(event["mode"])
                self._begin(f"mode {self.mode}: applying and verifying it, then {plural(int(event['trials']), 'trial')}")
            case "mode-verified" if not event["holds"]:
                self.notes.appendleft(f"mode {_short(event['mode'])} skipped: its verification failed")
            case "note":
                self.notes.appendleft(_short(event["text"]))
            case "host-lost":
                self.notes.appendleft(f"{_short(event['host'])} does not answer: {_short(event['what'])}")
            case "run-ended":
                self._begin("")
                self.ended, self.remedy = _short(event["status"]), _short(event.get("remedy", ""))
                self.heard.clear()
            case _:
                self._receive_trial(event)

    def _receive_trial(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "trial-begun":
                self._begin("")
                self.trial, self.number, self.mode = _short(event["what"]), int(event["trial"]), _short(event["mode"])
                self.done, self.trials, self.left_s = int(event["done"]), int(event["trials"]), float(event["left_s"])
                self.workload, self.links = _short(event["workload"]), tuple(_short(link) for link in event["links"])
                self.heard.clear()
                self.severe.clear()
                self.bounds.clear()
                if self.last is not None:
                    self.starts.append((self.last, self.number))
            case "reading":
                self._receive_reading(event)
            case "doubt":
                self.doubts[_short(event["grade"])] += 1
                if event["grade"] == "severe":
                    self.severe.append(_short(event["text"]))
            case "set-aside":
                self.notes.appendleft(f"trial {int(event['trial'])} is repeated: {_short(event['why'])}")
            case "trial-ended":
                self._trial_ended(event)
            case _:
                pass

    def _receive_reading(self, event: Mapping[str, Any]) -> None:
        if event["who"] == SEARCH:
            self._receive_bounds(event["values"])
        for name, value in event["values"].items():
            key = (_short(event["where"]), _short(event["who"]), _short(name))
            if key in self.readings or len(self.readings) < _MOST_READINGS:
                self.heard.add(key)
                reading = self.readings.setdefault(key, WatchedValue(*key))
                reading.values.append(float(value))
                reading.moments.append(self.last or datetime.now(UTC))

    def _receive_bounds(self, values: Mapping[str, Any]) -> None:
        """Keep the newest bounds of each goal; goals with the same bound share a line."""
        goals: dict[tuple[str, float], list[str]] = {}
        for goal, of in by_part(values).items():
            for end in ("lower", "upper"):
                if goal and f"{end}_pps" in of:
                    goals.setdefault((end, float(of[f"{end}_pps"])), []).append(_short(goal))
        self.bounds = {f"{', '.join(names)} {end}": rate for (end, rate), names in list(goals.items())[:_MOST_BOUNDS]}

    def _trial_ended(self, event: Mapping[str, Any]) -> None:
        self.done, self.trials = int(event["done"]), int(event["trials"])
        try:
            words = ended_words(TrialEnded.model_validate(event), self.severe)
        except ValidationError:
            words = _short(event["status"])
        self.log.appendleft((f"{self.done}/{self.trials}", _short(event["what"]), _short(event["status"]), _short(words)))
        self.left_s = max(0.0, self.left_s - float(event["seconds"]))
        self._begin("between trials")

    def _begin(self, doing: str) -> None:
        self.doing, self.trial, self.number, self.since = doing, "", 0, self.last


def _never(_: Path) -> bool:
    return False


class Following:
    """Run that browsers watch. It is read once a second, and drawn once for all browsers."""

    def __init__(self, run: Path, draw: Callable[[RunState, datetime, str], str], is_ending: Callable[[Path], bool] = _never) -> None:
        """`draw` makes the changing part of the page from the state, the time, and a sentence about a fault.

        `is_ending` returns whether a run was cancelled here.
        """
        self._run, self._draw, self._is_ending = run, draw, is_ending
        self._begin()
        self.drawn, self.is_over = "", False
        self._changed = asyncio.Condition()
        self.listeners = 0

    def _begin(self) -> None:
        self.state, self._tail = RunState(self._run), EventTail(self._run)

    def look(self) -> None:
        """Read the new events and draw the state."""
        fault = ""
        try:
            was_replaced, events = self._tail.new()
            if was_replaced:
                self.state = RunState(self._run)
            for event in events:
                self.state.hear(event)
        except (OSError, UnfitFile) as error:
            fault = f"The run's events cannot be read: {error.strerror if isinstance(error, OSError) else error.what}."
        running, finished = is_running(self._run), (self._run / MANIFEST).exists()
        if fault and finished:
            fault = "This run has no events. Its report has the results."
        elif not fault and not running and not finished and not self.state.ended:
            fault = "No process of this machine runs it. One on another machine may; otherwise `dutlab resume` continues it."
        self.is_over = not running and (finished or bool(self.state.ended))
        self.state.stage = self._stage(is_running=running, is_finished=finished)
        self.drawn = self._draw(self.state, datetime.now(UTC), fault)

    def _stage(self, *, is_running: bool, is_finished: bool) -> RunStage:
        if not is_running:
            return RunStage.FINISHED if is_finished else RunStage.CUT
        if self._is_ending(self._run):
            return RunStage.ENDING
        return RunStage.PAUSING if (self._run / PAUSE).exists() else RunStage.RUNNING

    async def keep_looking(self) -> None:
        """Read the run every second until no browser watches it, or until it is over."""
        while self.listeners:
            await asyncio.to_thread(self.look)
            async with self._changed:
                self._changed.notify_all()
            if self.is_over:
                return
            await asyncio.sleep(LOOK_S)

    async def parts(self) -> AsyncIterator[str]:
        """Yield each new drawing, and an empty text after a long silence; end with the run."""
        drawing = ""
        while True:
            if self.drawn != drawing:
                drawing = self.drawn
                yield drawing
            if self.is_over:
                return
            try:
                async with asyncio.timeout(_BREATH_S), self._changed:
                    await self._changed.wait()
            except TimeoutError:
                yield ""


class FollowedRuns:
    """All runs that browsers watch."""

    def __init__(
        self, draw: Callable[[RunState, datetime, str], str], is_ending: Callable[[Path], bool] = _never, *, most: int = 500
    ) -> None:
        self._draw, self._is_ending, self._most = draw, is_ending, most
        self._followed: dict[Path, tuple[Following, asyncio.Task[None]]] = {}

    def once(self, run: Path) -> tuple[str, RunStage]:
        """Return the drawn state of a run, and the possible actions, for a page that opens."""
        now = Following(run, self._draw, self._is_ending)
        now.look()
        return now.drawn, now.state.stage

    @property
    def listeners(self) -> int:
        """Number of browsers that watch."""
        return sum(of.listeners for of, _ in self._followed.values())

    @property
    def is_full(self) -> bool:
        """True if no further browser is accepted."""
        return self.listeners >= self._most

    async def parts(self, run: Path) -> AsyncGenerator[str]:
        """Yield Following.parts() of the run in the folder `run`."""
        followed, task = self._followed.get(run, (None, None))
        if followed is None or task is None or task.done():
            followed = Following(run, self._draw, self._is_ending)
            followed.listeners += 1
            task = asyncio.create_task(followed.keep_looking())
            self._followed[run] = followed, task
        else:
            followed.listeners += 1
        try:
            async for part in followed.parts():
                yield part
        finally:
            followed.listeners -= 1
            if not followed.listeners:
                task.cancel()
                if self._followed.get(run, (None,))[0] is followed:
                    del self._followed[run]


def _short(text: object) -> str:
    words = str(text)
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
