"""Protocols for tables of a DUT: its routes, and the flows that it tracks."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dutlab.spec.traffic import Spread


class LinkEnd(enum.Enum):
    """One end of a link."""

    SOURCE = "source"
    SINK = "sink"


@dataclass(frozen=True)
class RoutesLoaded:
    """Result of loading routes into a DUT, as the DUT reports it."""

    count: int
    took_s: float
    """Seconds from the first route to the last."""
    checked: int
    """Number of addresses, spread over all routes, whose route was looked up on the DUT."""
    astray: tuple[str, ...] = ()
    """Answers of the DUT for addresses with a wrong route."""


class RouteTable(Protocol):
    """Routes added to the DUT. They are removed at the end of the trial, and after a crash."""

    async def load(self, link: str, spread: Spread, towards: LinkEnd = LinkEnd.SINK) -> RoutesLoaded:
        """Add a route to each part of `spread` through the link's end. Raises MeasurementError if they cannot be added, HostError."""


@dataclass(frozen=True)
class FlowCounts:
    """Counts of a DUT about the flows that it tracks; None if not known."""

    tracked: int | None = None
    most: int | None = None
    """Size of its table."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Error counters of the DUT, cumulative."""

    def risen_since(self, before: FlowCounts) -> dict[str, int]:
        """Return the increase of each counter, as columns of a table."""
        return {f"{name}{_RISEN}": number - before.counters.get(name, 0) for name, number in self.counters.items()}


_RISEN = "_count"


def counter_of(column: str) -> str:
    """Return the counter whose increase a column has; empty for any other column."""
    return column.removesuffix(_RISEN) if column.endswith(_RISEN) else ""


def risen(row: Mapping[str, float | str | None]) -> dict[str, int]:
    """Return the counters of a row that increased, with their increase."""
    return {name: int(value) for column, value in row.items() if (name := counter_of(column)) and value}


class StateTable(Protocol):
    """Flow table of a DUT. Changes are undone at the end of the trial, and after a crash."""

    async def counts(self) -> FlowCounts:
        """Return the current counts. Raises HostError."""

    async def forget(self) -> None:
        """Delete every flow. Raises HostError."""

    async def keep(self, seconds: float) -> None:
        """Keep each flow for at least `seconds` without a frame, from now on. Raises HostError."""

    async def limit(self, flows: int) -> None:
        """Limit the table to `flows` flows. Raises MeasurementError if that cannot be set, HostError."""

    async def limit_ports(self, first: int, last: int) -> None:
        """Limit translated flows to these ports. Raises MeasurementError in a mode that does not translate, HostError."""
