"""Offset of the clocks of two agents, and its bounds.

Each agent is asked for its time some times over; the four time stamps of NTP (RFC 5905 section 8) give its offset to the controller's clock
to within half of what the exchange took on the way. The shortest exchange has the tightest bound (the minimum filter of RFC 5905 section
10). Two agents are then apart by the difference of their offsets, to within the sum of their bounds. Clocks also drift: two such
measurements, one before a trial and one after it, bound what they did meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EXCHANGES = 12


@dataclass(frozen=True)
class Offset:
    """A clock shows `ns` more than another, give or take `error_ns`."""

    ns: int
    error_ns: int

    def since(self, other: Offset) -> Offset:
        """Return how far this clock is ahead of the other, both measured against a third."""
        return Offset(self.ns - other.ns, self.error_ns + other.error_ns)

    def lasting(self, after: Offset) -> Offset:
        """This one, with the bound that holds from its measurement until that of `after`, however the clocks drifted between them."""
        return Offset(self.ns, max(self.error_ns, abs(after.ns - self.ns) + after.error_ns))


@dataclass(frozen=True)
class Clocks:
    """The clocks of several hosts at one time. Hosts of one kernel, and of one time namespace, read the same."""

    which: Mapping[str, bytes]
    """The clock that a host reads, by any name."""
    offsets: Mapping[bytes, Offset]
    """Offset of each against this process's clock; empty where there is only one."""

    def are_one(self, host: str, other: str) -> bool:
        """Return whether both hosts read the same clock."""
        return self.which[host] == self.which[other]

    def ahead(self, host: str, other: str) -> Offset:
        """Return how far the clock of `host` is ahead of that of `other`."""
        if self.are_one(host, other):
            return Offset(0, 0)
        return self.offsets[self.which[host]].since(self.offsets[self.which[other]])


def exchange(*, asked_ns: int, received_ns: int, replied_ns: int, heard_ns: int) -> Offset:
    """The offset of the clock that `received` and `replied` were read from, against that of `asked` and `heard` (RFC 5905 section 8)."""
    delay = max(0, (heard_ns - asked_ns) - (replied_ns - received_ns))
    return Offset(((received_ns - asked_ns) + (replied_ns - heard_ns)) // 2, (delay + 1) // 2)
