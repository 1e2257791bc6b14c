"""Progress for people: on a terminal one line that is overwritten, elsewhere plain lines."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dutlab.cli.answers import answer_to
from dutlab.cli.progress_line import LiveTrial, fitted, width_of_errors, with_time
from dutlab.cli.terminal import tell
from dutlab.errors import InputError
from dutlab.events import (
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
from dutlab.report.model.trial_words import ended_words
from dutlab.report.model.words import duration_words, plural

_TICK_S = 1.0


class Console:
    """A runner.progress.Progress on standard error, since standard output is for results."""

    def __init__(self, name: str = "", *, also: Callable[[Event], None] | None = None) -> None:
        """Make a console. `name` is the prefix of every line, to distinguish several runs; `also` is called with every event."""
        self._name, self._also = name, also
        self._renews = _renews()
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
                self._receive_trial(event)

    def _receive_trial(self, event: Event) -> None:
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
            tell(fitted(text, width_of_errors()), end="\n" if event.done == event.trials else "", renew=True)
        else:
            self._print_wrapped(text)
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
        if not self._renews or self._asking or not (self._live or self._doing):
            return
        if shown:
            now, width = time.monotonic(), width_of_errors()
            room = width - len(self._name)
            text = self._live.words(now, room) if self._live else with_time(self._doing, now - self._since_s, room)
            tell(fitted(f"{self._name}{text}", width), end="", renew=True)
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
        self._print_wrapped(f"{self._name}{text}" if text else "")

    def _print_wrapped(self, text: str) -> None:
        """Print text, wrapped between words on a terminal; a file or a program gets one line."""
        tell(
            "\n".join(textwrap.wrap(text, width_of_errors(), break_long_words=False, break_on_hyphens=False)) if self._renews else text,
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
            tell(with_time(what, time.monotonic() - since_s, width_of_errors()), end="", renew=True)
            wait_s = _TICK_S

    showing = threading.Thread(target=show, daemon=True)
    showing.start()
    try:
        yield
    finally:
        over.set()
        showing.join()
        tell("", end="", renew=True)


def _renews() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
