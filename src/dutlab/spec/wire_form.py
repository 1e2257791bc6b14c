"""Form of a link's frames on its cables in a mode of the DUT, where it differs from what the testbed says of the link.

With the factor `nat64`, frames of the source have IPv6 addresses, although the testbed has IPv4 addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Network
from typing import Self

from dutlab.spec.translation import prefix_of

NAT64 = "nat64"


@dataclass(frozen=True)
class WireForm:
    """Form of a link's frames."""

    nat64: IPv6Network | None = None
    """Prefix to which the source sends IPv6; the frames arrive as IPv4."""

    @classmethod
    def of(cls, levels: Mapping[str, str]) -> Self:
        """Return the form at these levels of factors; other factors do not matter."""
        return cls(prefix_of(levels.get(NAT64)))


PLAIN = WireForm()
"""Form of frames as the testbed describes the link."""
