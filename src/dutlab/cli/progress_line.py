"""The moving line of a measurement on a terminal: bar, trial, time left and rates.

It is never wider than the terminal: a line that wraps cannot be overwritten.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from dataclasses import dataclass, field

from dutlab.events import SEARCH, Reading, TrialBegun
from dutlab.printable import printable
from dutlab.report.model.trial_words import LIVE_RATES
from dutlab.report.model.words import duration_words
from dutlab.subject import by_part
from dutlab.units import si

_BAR, _SHORT_BAR = 10, 4
"""Width of the bar in columns, on wide and on narrow terminals."""
_BAR_FROM = 60
"""Width of the terminal from which the line has a bar."""
_LEAST_NAME = 12
"""Least number of columns of a trial's name."""
_WIDE = {"W", "F"}
"""East Asian widths of characters of two columns (UAX #11)."""


def width_of_errors() -> int:
    """Return the columns of a line on standard error. It may be a terminal where standard output is a file, and change its size."""
    try:
        columns = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(sys.stderr.fileno()).columns
    except (ValueError, OSError, AttributeError):
        columns = 0
    return max(20, (columns or 80) - 1)  # in the last column, some terminals wrap


def columns_of(text: str) -> int:
    """Return the columns that `text` takes on a terminal; `text` is printable."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in _WIDE else 1 for c in text)


def fitted(text: str, width: int) -> str:
    """Return `text` as one printable line of at most `width` columns. What is cut is marked by `…`."""
    line = printable(text)
    if columns_of(line) <= width:
        return line
    while line and columns_of(line) > width - 1:
        line = line[:-1]
    return f"{line}…"


def bar(share: float, width: int = _BAR) -> str:
    """Return a bar of `width` columns, filled up to `share` of 1, in the characters that standard error can encode."""
    full, empty = "█", "░"
    try:
        (full + empty).encode(getattr(sys.stderr, "encoding", None) or "ascii")
    except (UnicodeError, LookupError):
        full, empty = "#", "."
    filled = round(min(1.0, max(0.0, share)) * width)
    return full * filled + empty * (width - filled)


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

    def share(self, now_s: float) -> float:
        """Return the share of the run's trials that is done, with the estimated share of this one."""
        of_this = min(1.0, (now_s - self.since_s) / self.begun.estimate_s) if self.begun.estimate_s else 0.0
        return (self.begun.done + of_this) / max(1, self.begun.trials)

    def words(self, now_s: float, width: int) -> str:
        """Return the line: a bar of the run, the trial, its time so far, the time left for all trials, and its readings.

        If the readings do not all fit, they are shown one after another. A name that is too long for one reading next to it is cut.
        """
        took, b = now_s - self.since_s, self.begun
        left = f"{duration_words(b.left_s - took)} left" if took < b.left_s else "longer than planned"
        start, times = f"[{b.done + 1}/{b.trials}] ", f": {duration_words(took)}, {left}"
        parts = self._known()
        room = width - len(start) - len(times) - max((len(part) + 2 for part in parts), default=0)
        name = columns_of(printable(b.what))
        if width >= _BAR_FROM and room > _SHORT_BAR + _LEAST_NAME:
            of_bar = min(_BAR, max(_SHORT_BAR, room - name - 1))
            start, room = f"{start}{bar(self.share(now_s), of_bar)} ", room - of_bar - 1
        line = f"{start}{fitted(b.what, max(_LEAST_NAME, room))}{times}"
        turn = int(took) % len(parts) if parts and columns_of(", ".join([line, *parts])) > width else 0
        for part in (*parts[turn:], *parts[:turn]):
            if columns_of(line) + 2 + len(part) <= width:
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


def with_time(what: str, seconds: float, width: int) -> str:
    """Return an activity with its time. If it does not fit, the words are cut, not the time."""
    took = f", {duration_words(seconds)}"
    return f"{fitted(what, width - len(took))}{took}"
