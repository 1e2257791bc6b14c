"""Form of a link's frames on its cables in a mode of the DUT, where it differs from what the testbed says of the link.

With the factor `nat64`, frames of the source have IPv6 addresses. With the factor `vlan`, both ends of a link are at the source's port, in
two VLANs of one cable: the DUT is a router on a stick.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Self

from dutlab.spec.translation import embedded, prefix_of

if TYPE_CHECKING:
    from dutlab.spec.generators import GeneratorModel
    from dutlab.spec.shape import TestbedShape
    from dutlab.spec.workloads import WorkloadModel

IPAddress = IPv4Address | IPv6Address
NAT64, VLAN = "nat64", "vlan"
TAG_BYTES = 4
"""Length of a VLAN tag (IEEE 802.1Q)."""
VLAN_IDS = range(1, 4095)
"""Identifiers of VLANs; 0 and 4095 are reserved."""


@dataclass(frozen=True)
class WireForm:
    """Form of a link's frames."""

    nat64: IPv6Network | None = None
    """Prefix to which the source sends IPv6; the frames arrive as IPv4."""
    vlans: tuple[int, int] | None = None
    """VLAN of the source's network, and of the sink's, both on the source's cable."""

    @classmethod
    def of(cls, levels: Mapping[str, str]) -> Self:
        """Return the form at these levels of factors; other factors do not matter."""
        return cls(prefix_of(levels.get(NAT64)), vlans_of(levels.get(VLAN)))

    def ends(self, source: IPAddress, sink: IPAddress) -> tuple[IPAddress, IPAddress]:
        """Return the addresses that both ends of a link with these addresses have."""
        return (embedded(self.nat64, source) if self.nat64 is not None and isinstance(source, IPv4Address) else source), sink


PLAIN = WireForm()
"""Form of frames as the testbed describes the link."""


def vlans_of(level: str | None) -> tuple[int, int] | None:
    """Return the two identifiers of a level such as `10 20`; None for `off` or without a level. Raises ValueError for any other text."""
    if level in (None, "off"):
        return None
    inner, outer = map(int, level.split())
    return inner, outer


def vlans_fault(level: str) -> str:
    """Return why a level with two numbers has no two identifiers of VLANs; empty if it has, and for `off`."""
    ids = vlans_of(level)
    if ids is None:
        return ""
    if odd := [number for number in ids if number not in VLAN_IDS]:
        return f"{odd[0]} is not a VLAN: their numbers are {VLAN_IDS.start} to {VLAN_IDS.stop - 1}"
    return "" if ids[0] != ids[1] else "both networks would be in one VLAN"


def is_tagged(factors: object) -> bool:
    """Return whether a level of `vlan` tags frames."""
    levels = factors.get(VLAN) if isinstance(factors, Mapping) else None
    return any(level != "off" for level in (levels if isinstance(levels, list | tuple) else ()))


def unstackable_links(factors: object, bed: TestbedShape) -> Iterator[str]:
    """Yield why links through the DUT cannot have both ends on one cable."""
    for name, bound in bed.bounds.items() if is_tagged(factors) else ():
        if bound.through_dut and bound.is_transparent:
            yield f"the ends of link {name} of {bed.title} are in one network, so nothing is routed between two VLANs"
        elif bound.through_dut and bound.shares_with:
            yield f"link {name} of {bed.title} shares a port with another link, so its VLANs would be those of both"


def untaggable(workload: WorkloadModel, generator: GeneratorModel | None, factors: object) -> Iterator[str]:
    """Yield why a workload cannot be measured on a stick. `generator` is that of its frames; None if it sends none."""
    if not is_tagged(factors):
        return
    if VLAN not in workload.forms:
        yield "is not of frames that the engine tags, or was not tried on one cable; leave vlan out, or drive it in a separate experiment"
        return
    if generator is not None and generator.kind != "engine":
        yield f"its frames are sent by {generator.kind}, and only the engine sends and receives on one port"
    traffic = getattr(workload, "traffic", None)
    if traffic is not None and traffic.vlans:
        yield "its traffic has vlans, and so has the experiment's factor; write one of them"
