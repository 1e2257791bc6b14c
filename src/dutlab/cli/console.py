"""Progress for people: on a terminal one line that is overwritten, elsewhere plain lines."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from dutlab.cli.answers import answer_to
from dutlab.cli.terminal import tell
from dutlab.errors import InputError
from dutlab.events import (
    SEARCH,
    DoubtFound,
    Event,
    HostLost,
    ModeApplying,
    ModeVerified,
    Note,
    Preparing,
    Reading,
    RunBegun,
    RunEnded,
    SetAside,
    TrialBegun,
    TrialEnded,
)
from dutlab.report.model.trial_words import LIVE_RATES, ended_words
from dutlab.report.model.words import duration_words, plural
from dutlab.subject import by_part
from dutlab.units import si

_TICK_S = 1.0


@dataclass
class LiveTrial:
    """The running trial, with its newest readings."""

    begun: TrialBegun
    since_s: float
    _rates: dict[str, dict[str, float]] = field(default_factory=dict)
    _bounds: dict[str, float] = field(default_factory=dict)

    def hear(self, reading: Reading) -> None:
        """Keep the newest values."""
        if reading.who == SEARCH:
            self._bounds = dict(reading.values)
        elif any(name in reading.values for name, _, _ in LIVE_RATES):
            self._rates[reading.where] = dict(reading.values)

    def words(self, now_s: float, width: int) -> str:
        """Return the line for a terminal: the trial, its time so far, the time left for all trials, and its readings.

        If the readings do not all fit, they are shown in turn.
        """
        took, b = now_s - self.since_s, self.begun
        left = f"{duration_words(b.left_s - took)} left" if took < b.left_s else "longer than planned"
        line = f"[{b.done + 1}/{b.trials}] {b.what}: {duration_words(took)}, {left}"
        parts = self._known()
        turn = int(took) % len(parts) if len(", ".join([line, *parts])) > width and parts else 0
        for part in (*parts[turn:], *parts[:turn]):
            if len(line) + 2 + len(part) <= width:
                line += f", {part}"
        return line

    def _known(self) -> list[str]:
        """Return the bounds of a search, goals with equal bounds together, and the current rates, as words."""
        bounds: dict[str, list[str]] = {}
        for goal, of in by_part(self._bounds).items():
            if not goal:
                continue
            low, high = of.get("lower_pps"), of.get("upper_pps")
            ends = ["?" if end is None else si(end, "pps") for end in (low, high)]
            if (unit := ends[1].partition(" ")[2]) and ends[0].endswith(f" {unit}"):
                ends[0] = ends[0].partition(" ")[0]
            bounds.setdefault(f"{ends[0]} to {ends[1]}", []).append(goal)
        parts = [f"{' and '.join(of)} {ends}" for ends, of in bounds.items()]
        for name, unit, word in LIVE_RATES:
            if rates := [values[name] for values in self._rates.values() if name in values]:
                parts.append(f"{word} {si(sum(rates), unit)}")
        return parts


class Console:
    """A runner.progress.Progress on standard error, since standard output is for results."""

    def __init__(self, name: str = "", *, also: Callable[[Event], None] | None = None) -> None:
        """Make a console. `name` is the prefix of every line, to distinguish several runs; `also` is called with every event."""
        self._name, self._also = name, also
        self._renews = _renews()
        self._width = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be overwritten
        self._live: LiveTrial | None = None
        self._doing, self._since_s = "", 0.0
        self._severe: list[str] = []
        self._ticking: asyncio.TimerHandle | None = None
        self._asking = False

    def hear(self, event: Event) -> None:
        if self._also is not None:
            self._also(event)
        match event:
            case RunBegun():
                there = f", {event.done} already done" if event.done else ""
                counted = f"{plural(event.cells, 'cell')}, {plural(event.trials, 'trial')}"
                self._line(f"{event.folder}: {counted}{there}, about {duration_words(event.estimate_s)}; order seed {event.seed}")
            case Note():
                self.note(event.text)
            case ModeVerified(holds=False):
                failed = [c for c in event.checks if not c.passed]
                faults = "; ".join(f"{c.what}: {c.found}" for c in failed) or "could not be applied"
                self._line(f"mode {event.mode} skipped: {faults}")
            case SetAside():
                self.note(f"trial {event.trial} repeated, attempt {event.attempt + 1}: {event.why}")
            case HostLost():
                self._rest()  # the command's last line has the same words
            case RunEnded():
                self._rest()
                if self._renews:
                    tell("", end="", renew=True)  # the next output starts on an empty line
                if event.remedy:
                    self.note(event.remedy)
            case _:
                self._hear_of_trial(event)

    def _hear_of_trial(self, event: Event) -> None:
        match event:
            case Preparing():
                self._do(event.what)
            case ModeApplying():
                self._do(f"mode {event.mode}: applying and verifying it, then {plural(event.trials, 'trial')}")
            case TrialBegun():
                self._rest()
                self._live, self._severe = LiveTrial(event, time.monotonic()), []
                self._tick()
            case Reading() if self._live is not None:
                self._live.hear(event)
            case DoubtFound(grade="severe"):
                self._severe.append(event.text)
            case TrialEnded():
                self._ended(event)
            case _:
                pass

    def note(self, text: str) -> None:
        """Print a note to the user."""
        self._line(f"note: {text}")

    def _ended(self, event: TrialEnded) -> None:
        self._rest()
        text = f"{self._name}[{event.done}/{event.trials}] {event.what}: {ended_words(event, self._severe)}"
        if event.status == "measured" and self._renews:
            tell(text[: self._width], end="\n" if event.done == event.trials else "", renew=True)
        else:
            self._tell_words(text)
        if event.done < event.trials:
            self._do("before the next trial", shown=False)
        else:
            self._do("restoring everything")

    def _do(self, what: str, *, shown: bool = True) -> None:
        """Show an activity between trials."""
        self._rest()
        self._doing, self._since_s = what, time.monotonic()
        self._tick(shown=shown)

    def _tick(self, *, shown: bool = True) -> None:
        """Overwrite the line of the current activity once a second, on a terminal."""
        now = time.monotonic()
        text = (
            self._live.words(now, self._width - len(self._name))
            if self._live
            else _with_time(self._doing, now - self._since_s, self._width - len(self._name))
            if self._doing
            else ""
        )
        if not text or not self._renews or self._asking:
            return
        if shown:
            tell(f"{self._name}{text}"[: self._width], end="", renew=True)
        with suppress(RuntimeError):  # without a run there is no event loop
            self._ticking = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _rest(self) -> None:
        self._live, self._doing = None, ""
        if self._ticking is not None:
            self._ticking.cancel()

    async def ask(self, question: str) -> str:
        live = self._live
        self._rest()
        self._line("")
        self._asking = True
        try:
            while (answer := await answer_to(f"{question}; type what you did, then Enter")) == "":
                pass
        finally:
            self._asking = False
        if live is not None:  # the trial goes on
            self._live = live
            self._tick()
        if answer is None:
            tell("")
            raise InputError("no answer: standard input has ended", remedy="run it on a terminal; --unattended refuses such a plan")
        return answer

    def _line(self, text: str) -> None:
        self._tell_words(f"{self._name}{text}" if text else "")

    def _tell_words(self, text: str) -> None:
        """Print text, wrapped between words on a terminal; a file or a program gets one line."""
        tell(
            "\n".join(textwrap.wrap(text, self._width, break_long_words=False, break_on_hyphens=False)) if self._renews else text,
            renew=self._renews,
        )


@contextmanager
def shown_meanwhile(what: str) -> Iterator[None]:
    """Show `what` with the time so far while this thread computes, on a terminal; elsewhere print one line."""
    if not _renews():
        tell(what)
        yield
        return
    over, since_s = threading.Event(), time.monotonic()

    def show() -> None:
        wait_s = 0.0
        while not over.wait(wait_s):
            tell(f"{what}, {duration_words(time.monotonic() - since_s)}", end="", renew=True)
            wait_s = _TICK_S

    showing = threading.Thread(target=show, daemon=True)
    showing.start()
    try:
        yield
    finally:
        over.set()
        showing.join()
        tell("", end="", renew=True)


def _with_time(what: str, seconds: float, width: int) -> str:
    """Return the activity with its time. If it does not fit, the words are cut, not the time."""
    took = f", {duration_words(seconds)}"
    return f"{what if len(what) + len(took) <= width else f'{what[: width - len(took) - 1]}…'}{took}"


def _renews() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
