"""Offset of the clocks of two agents, and its bounds.

Each agent is asked for its time several times. The four time stamps of NTP (RFC 5905 section 8) give its offset to the controller's clock
to within half of the time that the exchange spent in transit. The shortest exchange has the tightest bound (the minimum filter of RFC 5905
section 10). The offset between two agents is the difference of their offsets, to within the sum of their bounds. Clocks also drift: one
measurement before a trial and one after it bound the drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EXCHANGES = 12


@dataclass(frozen=True)
class Offset:
    """Offset of two clocks: one shows `ns` more than the other, ± `error_ns`."""

    ns: int
    error_ns: int

    def since(self, other: Offset) -> Offset:
        """Return how far this clock is ahead of the other, both measured against a third."""
        return Offset(self.ns - other.ns, self.error_ns + other.error_ns)

    def lasting(self, after: Offset) -> Offset:
        """Return this offset with the bound that holds from its measurement until that of `after`, however the clocks drifted."""
        return Offset(self.ns, max(self.error_ns, abs(after.ns - self.ns) + after.error_ns))


@dataclass(frozen=True)
class Clocks:
    """Clocks of several hosts at one time. Hosts with the same kernel and time namespace read the same clock."""

    which: Mapping[str, bytes]
    """Host → any name of the clock that it reads."""
    offsets: Mapping[bytes, Offset]
    """Clock → offset against this process's clock; empty if there is only one clock."""

    def are_one(self, host: str, other: str) -> bool:
        """Return whether both hosts read the same clock."""
        return self.which[host] == self.which[other]

    def ahead(self, host: str, other: str) -> Offset:
        """Return how far the clock of `host` is ahead of that of `other`."""
        if self.are_one(host, other):
            return Offset(0, 0)
        return self.offsets[self.which[host]].since(self.offsets[self.which[other]])


def exchange(*, asked_ns: int, received_ns: int, replied_ns: int, heard_ns: int) -> Offset:
    """Return the offset of the clock of `received` and `replied` against that of `asked` and `heard` (RFC 5905 section 8)."""
    delay = max(0, (heard_ns - asked_ns) - (replied_ns - received_ns))
    return Offset(((received_ns - asked_ns) + (replied_ns - heard_ns)) // 2, (delay + 1) // 2)
