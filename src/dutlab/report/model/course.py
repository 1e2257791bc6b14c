"""Course of a run: how it was carried out, its tools and conditions, and events during it."""

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
    """True if checked by ping, because an end of the link does not run the engine."""

    @property
    def broken(self) -> bool:
        """True if the check failed at least once."""
        return self.passed < self.total


@dataclass(frozen=True)
class FactRow:
    """A fact of the hosts, by host; a host that lacks it has none."""

    name: str
    by_host: dict[str, str]
    key: bool
    """True for the few facts that readers look for first."""


@dataclass(frozen=True)
class Conditions:
    """Conditions of the measurement: device, tools, machine."""

    checks: tuple[CheckLine, ...]
    hosts: tuple[str, ...]
    facts: tuple[FactRow, ...]
    tools: tuple[tuple[str, str], ...]
    """Name of each tool, with its version or its own description."""


@dataclass(frozen=True)
class RunCourse:
    """Course of the run, and how to repeat it."""

    started: str
    ended: str
    seconds: float
    seed: str
    order: str
    repeats: int
    """Largest number of repeats of a cell."""
    repeat_rule: str
    """Rule that ended the repeats of a cell, in words; empty if all cells had the same number."""
    command: str


@dataclass(frozen=True)
class RunWatch:
    """Events on the path and on the hosts during the run."""

    losses: tuple[Table, ...]
    """Places where frames were lost; empty if no counter shows any."""
    cpus: tuple[Cpu, ...]
    counters: tuple[Table, ...]
    """Counters that increased during the run."""
