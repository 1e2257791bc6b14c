"""State of a run from its events, read once a second while browsers watch it.

The state comes only from events.jsonl. So any process or machine may carry out the run, and watching cannot disturb it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dutlab.events import EventTail, TrialEnded
from dutlab.outside import UnfitFile
from dutlab.report.model.trial_words import LIVE_RATES, ended_words
from dutlab.report.model.words import duration_words, plural, unit_for
from dutlab.store.find import is_running
from dutlab.store.manifest import MANIFEST

LOOK_S = 1.0
_BREATH_S = 20.0
"""Seconds after which a stream without news sends a comment, because proxies end silent streams."""
_KEPT_TRIALS, _KEPT_NOTES, _KEPT_VALUES, _MOST_READINGS = 40, 12, 120, 200
_DRAWN = 8
_LONGEST = 400
"""Longest text that is shown, in characters."""


@dataclass
class WatchedValue:
    """Newest values of one reading of a sensor, tool or search."""

    where: str
    who: str
    name: str
    values: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_VALUES))

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
    since: datetime | None = None
    """Start of the trial or other activity."""
    left_s: float = 0.0
    """Estimated remaining seconds of the run at `since`."""
    ended: str = ""
    """How the last process of the run ended: finished or cut."""
    remedy: str = ""
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
                self._hear_of_trial(event)

    def _hear_of_trial(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "trial-begun":
                self._begin("")
                self.trial, self.number, self.mode = _short(event["what"]), int(event["trial"]), _short(event["mode"])
                self.done, self.trials, self.left_s = int(event["done"]), int(event["trials"]), float(event["left_s"])
                self.heard.clear()
                self.severe.clear()
            case "reading":
                for name, value in event["values"].items():
                    key = (_short(event["where"]), _short(event["who"]), _short(name))
                    if key in self.readings or len(self.readings) < _MOST_READINGS:
                        self.heard.add(key)
                        self.readings.setdefault(key, WatchedValue(*key)).values.append(float(value))
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


class Following:
    """Run that browsers watch. It is read once a second, and drawn once for all browsers."""

    def __init__(self, run: Path, draw: Callable[[RunState, datetime, str], str]) -> None:
        """`draw` makes the changing part of the page from the state, the time, and a sentence about a fault."""
        self._run, self._draw = run, draw
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
            anew, events = self._tail.new()
            if anew:
                self.state = RunState(self._run)
            for event in events:
                self.state.hear(event)
        except (OSError, UnfitFile) as error:
            fault = f"The run's events cannot be read: {error.strerror if isinstance(error, OSError) else error.what}."
        running, finished = is_running(self._run), (self._run / MANIFEST).exists()
        if fault and finished:
            fault = "This run has no events. Its report has what was measured."
        elif not fault and not running and not finished and not self.state.ended:
            fault = "No process of this machine runs it. One on another machine may; otherwise `dutlab resume` continues it."
        self.is_over = not running and (finished or bool(self.state.ended))
        self.drawn = self._draw(self.state, datetime.now(UTC), fault)

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

    def __init__(self, draw: Callable[[RunState, datetime, str], str], *, most: int = 500) -> None:
        self._draw, self._most = draw, most
        self._followed: dict[Path, tuple[Following, asyncio.Task[None]]] = {}

    def once(self, run: Path) -> str:
        """Return the drawn state of a run, for a page that opens."""
        now = Following(run, self._draw)
        now.look()
        return now.drawn

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
            followed = Following(run, self._draw)
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
