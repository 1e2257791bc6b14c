"""Tables of a DUT as a method sees them: its routes, and the flows that it tracks. Like ports.py, protocols only."""

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
    """Routes of a DUT after some were loaded into it, by its own account."""

    count: int
    took_s: float
    """From the first route to the last."""
    checked: int
    """Addresses, spread over all routes, that the DUT was asked the way to."""
    astray: tuple[str, ...] = ()
    """Its answers on addresses that it would send elsewhere."""


class RouteTable(Protocol):
    """Routes that are added to the DUT. They are removed at the end of the trial, and after a crash."""

    async def load(self, link: str, spread: Spread, towards: LinkEnd = LinkEnd.SINK) -> RoutesLoaded:
        """A route to each part of `spread` through the link's end. Raises MeasurementError where they cannot be, HostError."""


@dataclass(frozen=True)
class FlowCounts:
    """Numbers of a DUT about the flows that it tracks; None where they are not known."""

    tracked: int | None = None
    most: int | None = None
    """Size of its table."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Its counters of what went wrong, from whenever it began to count."""

    def risen_since(self, before: FlowCounts) -> dict[str, int]:
        """Return the growth of each counter, as columns of a table."""
        return {f"{name}{_RISEN}": number - before.counters.get(name, 0) for name, number in self.counters.items()}


_RISEN = "_count"


def counter_of(column: str) -> str:
    """The counter whose growth a column has; empty for any other column."""
    return column.removesuffix(_RISEN) if column.endswith(_RISEN) else ""


def risen(row: Mapping[str, float | str | None]) -> dict[str, int]:
    """Counter → by how much it grew, of those that did."""
    return {name: int(value) for column, value in row.items() if (name := counter_of(column)) and value}


class StateTable(Protocol):
    """Flows of a DUT. Changes are put back at the end of the trial, and after a crash."""

    async def counts(self) -> FlowCounts:
        """Return the current counts. Raises HostError."""

    async def forget(self) -> None:
        """Forgets every flow. Raises HostError."""

    async def keep(self, seconds: float) -> None:
        """From now on a flow stays known for at least so long without a frame. Raises HostError."""

    async def limit(self, flows: int) -> None:
        """The table holds so many at most. Raises MeasurementError where that cannot be set, HostError."""

    async def limit_ports(self, first: int, last: int) -> None:
        """Translated flows get these ports only. Raises MeasurementError in a mode that does not translate, HostError."""
