"""Exception types, with facts in their fields.

DutlabError                 a sentence for the user: what happened, where, what to do
├── InputError              a file or argument is wrong                        exit 2
│   ├── DirectionUnknown    a verdict on a figure whose better direction is unknown
│   ├── NotOurs             a run folder from elsewhere contains commands (runner/trust.py)
│   ├── WrongKind           a file for another importer (interop/importers.py)
│   └── SpecRefused         all faults, each with its file:line:column         exit 2
├── TestbedError            the testbed cannot be used as it is                exit 3
│   ├── HostError           a host cannot be reached, or vanished
│   │   ├── NamespaceGone   a namespace of this machine was deleted (hosts/netns.py)
│   │   └── CommandFailed   a command ended with an unexpected status
│   │       ├── CommandTimedOut
│   │       └── CommandSaidTooMuch
│   ├── InUse               another run has the lease of a host (hosts/lease.py)
│   ├── LabError            an embedded lab cannot be built or taken down
│   │   └── LabGone         the lab no longer exists (labs/lost_guests.py)
│   ├── ToolMissing         a measuring program is absent or too old
│   ├── ToolsMissing        several programs are, each with its host
│   └── PortRefused         a port that must not be loaded (RFC 6815)
├── MeasurementError        a trial has no result; the run continues           exit 1
│   ├── MachineTooBusy      other work disturbed every attempt
│   │   └── LinkUnsteady    a link of the testbed went down in every attempt
│   └── ToolFailed          a measuring program failed or printed garbage
│       └── ReplyUnfit      a reply of the engine breaks its contract (tools/engine/agent.py)
└── StoreError              a run folder cannot be written or read             exit 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dutlab.reason import reason_in


class DutlabError(Exception):
    """Root of the tree. `remedy` is what the user can do. Each family has its own exit status."""

    exit_status = 1

    def __init__(self, what: str, *, remedy: str = "") -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.what, self.remedy = what, remedy


class InputError(DutlabError):
    """A file or an argument is wrong."""

    exit_status = 2


class FaultKind(StrEnum):
    """Kind of a fault in an input file or in a reply of the engine. The fault's text has the details."""

    UNREADABLE = "unreadable"
    """The file cannot be read."""
    SYNTAX = "syntax"
    """The text does not follow the file format."""
    UNKNOWN_KEY = "unknown-key"
    UNKNOWN_NAME = "unknown-name"
    """The name is unknown; the sentence lists the known ones."""
    MISSING = "missing"
    """A key is missing, or a required item of a list or text."""
    TYPE = "type"
    """The value has another type, such as text in place of a list."""
    UNIT = "unit"
    """A quantity without a unit, or with an unknown one."""
    RANGE = "range"
    """Too small, too large, too many, too few."""
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    """The value is valid alone, but conflicts with another key of the file."""
    UNFIT = "unfit"
    """The testbed lacks something that this needs."""
    INVALID = "invalid"
    """Any other value that cannot be used, such as a text that is not a valid name."""


class DirectionUnknown(InputError):
    """No verdict: it is unknown whether more or less of these figures is better."""

    def __init__(self, figures: Sequence[str]) -> None:
        one = figures[0]
        super().__init__(
            f"{', '.join(figures)}: the better direction is unknown, so there is no verdict",
            remedy=f"state the direction, as in --better {one}=lower or --better {one}=higher",
        )
        self.figures = tuple(figures)


@dataclass(frozen=True, order=True)
class Fault:
    """One fault of an input file. `path` is the key's path, as in `links.a.speed`."""

    file: str
    line: int
    column: int
    path: str
    what: str
    kind: FaultKind = FaultKind.INVALID

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.path}: {self.what}"


class SpecRefused(InputError):
    """The input files are refused; `faults` has all their faults."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(str(f) for f in sorted(faults)))
        self.faults = sorted(faults)


class TestbedError(DutlabError):
    """The testbed cannot be used as it is."""

    __test__ = False  # pytest would take it for a test class by its name
    exit_status = 3


class HostError(TestbedError):
    """A host cannot be reached, or vanished."""

    def __init__(self, what: str, *, host: str, remedy: str = "") -> None:
        super().__init__(f"{host}: {what}", remedy=remedy)
        self.host = host


class CommandFailed(HostError):
    """A command ended with an unexpected status."""

    def __init__(self, *, host: str, argv: Sequence[str], status: int, stderr_tail: str, remedy: str = "") -> None:
        reason = reason_in(stderr_tail) or "it printed nothing"
        super().__init__(f"`{' '.join(argv)}` ended with {status}: {reason}", host=host, remedy=remedy)
        self.argv, self.status, self.stderr_tail = list(argv), status, stderr_tail


class CommandTimedOut(CommandFailed):
    """A command exceeded its time limit and was ended."""

    def __init__(self, *, host: str, argv: Sequence[str], timeout_s: float, stderr_tail: str = "") -> None:
        HostError.__init__(self, f"`{' '.join(argv)}` did not end within {timeout_s:g} s and was ended", host=host)
        self.argv, self.status, self.stderr_tail, self.timeout_s = list(argv), -1, stderr_tail, timeout_s


class CommandSaidTooMuch(CommandFailed):
    """A command printed more than its output limit. The end of its output is missing."""

    def __init__(self, *, host: str, argv: Sequence[str], status: int, most_bytes: int, dropped_bytes: int) -> None:
        what = f"`{' '.join(argv)[:200]}` printed {most_bytes + dropped_bytes} bytes, more than the {most_bytes} that are kept"
        HostError.__init__(self, what, host=host, remedy="check the program on that host; it may be another program of the same name")
        self.argv, self.status, self.stderr_tail = list(argv), status, ""
        self.most_bytes, self.dropped_bytes = most_bytes, dropped_bytes


class LabError(TestbedError):
    """An embedded lab cannot be built or taken down."""


class ToolMissing(TestbedError):
    """A measuring program is absent or too old on a host."""

    def __init__(self, what: str, *, tool: str, host: str, remedy: str) -> None:
        super().__init__(f"{host}: {what}", remedy=remedy)
        self.tool, self.host = tool, host


class ToolsMissing(TestbedError):
    """Several programs are absent or too old. The message has one line for each."""

    def __init__(self, missing: Sequence[ToolMissing]) -> None:
        super().__init__("\n".join(map(str, missing)))
        self.missing = list(missing)


class PortRefused(TestbedError):
    """A port that must not be loaded: it appears to be part of a network in use (RFC 6815)."""


class MeasurementError(DutlabError):
    """A trial has no result. Earlier results stay, and the run continues. `raw` is the output of the tool, by file name."""

    def __init__(self, what: str, *, remedy: str = "", raw: Mapping[str, bytes] | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.raw = dict(raw or {})


class MachineTooBusy(MeasurementError):
    """Other work on the testbed's machines disturbed every attempt, so the trial has no valid result."""


class LinkUnsteady(MachineTooBusy):
    """A link of the testbed went down in every attempt, so the trial has no valid result."""


class ToolFailed(MeasurementError):
    """A measuring program failed, ended early or printed unreadable output."""

    def __init__(self, what: str, *, tool: str, host: str, remedy: str = "", raw: Mapping[str, bytes] | None = None) -> None:
        super().__init__(f"{host}: {tool}: {what}", remedy=remedy, raw=raw)
        self.tool, self.host = tool, host


class StoreError(DutlabError):
    """A run folder cannot be written or read."""
