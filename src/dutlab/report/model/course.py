"""Course of a run: how it was carried out, with what, and what happened meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.report.model.cpu import Cpu
from dutlab.report.model.table import Table


@dataclass(frozen=True)
class CheckLine:
    """Result of verifying a mode, over all its applications."""

    mode: str
    what: str
    passed: int
    total: int
    found: str
    by_ping: bool = False
    """True if pings showed it, where an end of the link does not run the engine."""

    @property
    def broken(self) -> bool:
        """It did not hold at least once."""
        return self.passed < self.total


@dataclass(frozen=True)
class FactRow:
    """A fact of the hosts, by host; a host that lacks it has none."""

    name: str
    by_host: dict[str, str]
    key: bool
    """One of the few that a reader looks for first."""


@dataclass(frozen=True)
class Conditions:
    """Conditions of the measurement: device, tools, machine."""

    checks: tuple[CheckLine, ...]
    hosts: tuple[str, ...]
    facts: tuple[FactRow, ...]
    tools: tuple[tuple[str, str], ...]
    """Name, and its version or what it says of itself."""


@dataclass(frozen=True)
class RunCourse:
    """Course of the run, and how to repeat it."""

    started: str
    ended: str
    seconds: float
    seed: str
    order: str
    repeats: int
    """At most, of any cell."""
    repeat_rule: str
    """When a cell was repeated enough, in words; empty where all were repeated alike."""
    command: str


@dataclass(frozen=True)
class RunWatch:
    """Events on the path and on the hosts during the run."""

    losses: tuple[Table, ...]
    """Places where frames got lost; empty where no counter shows it."""
    cpus: tuple[Cpu, ...]
    counters: tuple[Table, ...]
    """Those that grew."""
