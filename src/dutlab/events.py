"""Events of a run, as they happen: one line each in the run's events.jsonl, also given to observers in this process.

Events are for watching a run. No record, no resume and no verdict is made from them. `events_schema()` is the contract in
contracts/events.schema.json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter

from dutlab import bounds, outside

EVENTS = "events.jsonl"
"""Name of the file in a run's folder."""

_AT_ONCE_BYTES = 1 << 20
SEARCH = "search"
"""Source name of a search's bounds, which are named GOAL/lower_pps and GOAL/upper_pps."""
Tell = Callable[[str, str, Mapping[str, float]], None]
"""Observer of values: takes a host or link, a source (sensor, tool or method) and its newest values by name."""


def no_observer(_where: str, _who: str, _values: Mapping[str, float]) -> None:
    """Ignore the values."""


class _Event(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    at: datetime
    """Wall-clock time of the machine that dutlab runs on."""


class RunBegun(_Event):
    """A process begins the run, or resumes it."""

    event: Literal["run-begun"] = "run-begun"
    folder: str
    experiment: str
    cells: int
    trials: int
    """Number of trials: cells times repeats."""
    done: int
    """Number of trials that already have a record."""
    estimate_s: float
    seed: int


class Preparing(_Event):
    """A preparation before or between trials."""

    event: Literal["preparing"] = "preparing"
    what: str


class Note(_Event):
    """Something that the user should know."""

    event: Literal["note"] = "note"
    text: str


class ModeApplying(_Event):
    """The DUT is being brought into a mode."""

    event: Literal["mode-applying"] = "mode-applying"
    mode: str
    trials: int
    """Number of trials to be measured in the mode."""


class CheckSeen(BaseModel):
    """One check of a mode, with real frames where possible."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    what: str
    passed: bool
    found: str


class ModeVerified(_Event):
    """A mode was applied and verified; if it is not in force, its trials are refused."""

    event: Literal["mode-verified"] = "mode-verified"
    mode: str
    holds: bool
    checks: tuple[CheckSeen, ...]


class TrialBegun(_Event):
    """A trial is being measured."""

    event: Literal["trial-begun"] = "trial-begun"
    trial: int
    what: str
    """The trial in words, as in `nat search 64 a+b #2`."""
    mode: str
    workload: str
    tool: str
    links: tuple[str, ...]
    repeat: int
    estimate_s: float
    done: int
    """Number of trials that have a record."""
    trials: int
    left_s: float
    """Estimated time of all trials without a record, this one included."""


class Reading(_Event):
    """The newest values of a sensor, tool or method; about once a second."""

    event: Literal["reading"] = "reading"
    trial: int | None
    where: str
    """A host, or a link with its direction."""
    who: str
    """The sensor, the tool, or `search` for the present bounds of a search."""
    values: dict[str, FiniteFloat]
    """Name → value. The unit is the last part of the name, or the sensor's."""


class DoubtFound(_Event):
    """A reason to distrust the trial."""

    event: Literal["doubt"] = "doubt"
    trial: int
    kind: str
    grade: str
    text: str


class SetAside(_Event):
    """A trial was measured but does not count; it is repeated."""

    event: Literal["set-aside"] = "set-aside"
    trial: int
    attempt: int
    """Number of the attempt that does not count; the next attempt follows now."""
    reason: str
    """`disturbed`, `mode-lost`, `host-lost`, or the end of a tool."""
    why: str


class TrialEnded(_Event):
    """A trial's record is on the disk."""

    event: Literal["trial-ended"] = "trial-ended"
    trial: int
    what: str
    workload: str
    status: str
    why: str
    seconds: float
    figures: dict[str, dict[str, FiniteFloat]]
    """Place → figure → value, in the words of dutlab.subject: `a+b` → `ndr/lower_pps` → value."""
    main: str
    """Place whose figures are those of the whole trial; empty when there are none."""
    backpressure_ratio: FiniteFloat | None
    """Share of the generated frames that the DUT did not take; null where it is unknown."""
    done: int
    trials: int


class HostLost(_Event):
    """A host no longer answers. The run ends, unless the host is a guest of its lab; a guest is started again."""

    event: Literal["host-lost"] = "host-lost"
    host: str
    what: str


class RunEnded(_Event):
    """This process has ended its work on the run."""

    event: Literal["run-ended"] = "run-ended"
    status: Literal["finished", "cut"]
    """`cut`: trials are left, and `dutlab resume` continues the run."""
    measured: int
    failed: int
    refused: int
    disturbed: int
    remedy: str = ""


Event = (
    RunBegun
    | Preparing
    | Note
    | ModeApplying
    | ModeVerified
    | TrialBegun
    | Reading
    | DoubtFound
    | SetAside
    | TrialEnded
    | HostLost
    | RunEnded
)


@cache
def _any() -> TypeAdapter[Event]:
    """Return the reader of all kinds of events. It is made at first use, since most commands read none."""
    return TypeAdapter(Annotated[Event, Field(discriminator="event")])


def events_schema() -> dict[str, Any]:
    """Return the JSON Schema of one line of events.jsonl."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "dutlab event", **_any().json_schema(mode="serialization")}


class EventTail:
    """Reader of the new events in a run's events.jsonl. It needs only the file, which another process or machine may write."""

    def __init__(self, run: Path) -> None:
        self._path, self._read, self._rest = run / EVENTS, 0, _Rest()

    def new(self) -> tuple[bool, Iterator[dict[str, Any]]]:
        """Return whether the file was replaced, which voids earlier events, and the events since the last call.

        The events are read as the iterator advances. Lines cut by a crash are skipped. An incomplete last line is read when it is complete.

        Raises UnfitFile, OSError.
        """
        file = outside.opened(self._path, most=bounds.EVENTS)
        was_replaced = file.seek(0, 2) < self._read
        if was_replaced:
            self._read, self._rest = 0, _Rest()
        file.seek(self._read)
        return was_replaced, self._events(file)

    def _events(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        with file:
            while part := file.read(_AT_ONCE_BYTES):
                self._read += len(part)
                for line in self._rest.lines(part):
                    try:
                        event = outside.json_of(line)
                    except (ValueError, RecursionError):
                        continue
                    if isinstance(event, dict) and isinstance(event.get("event"), str):
                        yield event
                if self._read >= bounds.EVENTS.most_bytes:
                    return


class _Rest:
    """The last, incomplete line of the file. A line longer than any event is not kept."""

    def __init__(self) -> None:
        self._kept, self._is_long = b"", False

    def lines(self, part: bytes) -> list[bytes]:
        """Return the lines that end in `part`."""
        *lines, rest = part.split(b"\n")
        if lines:
            lines[0] = b"" if self._is_long else self._kept + lines[0]
            self._kept, self._is_long = b"", False
        if self._is_long or len(self._kept) + len(rest) > bounds.EVENT_LINE_BYTES:
            self._kept, self._is_long = b"", True
        else:
            self._kept += rest
        return [line for line in lines if len(line) <= bounds.EVENT_LINE_BYTES]


def events_in(path: Path) -> Iterator[Event]:
    """Yield the events of a file, in order. Lines cut by a crash and events of a newer dutlab are skipped."""
    _, events = EventTail(path.parent).new()
    for event in events:
        with suppress(ValueError):
            yield _any().validate_python(event, strict=False)
