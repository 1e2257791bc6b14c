"""What an Ethernet link can carry at most.

A frame of n bytes with FCS takes n + 20 bytes of the wire: preamble, start delimiter and gap (RFC 5180 appendix A). Of a packet of
MTU bytes, the frame around it takes 18 more (header 14, FCS 4) and each VLAN tag 4.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dutlab.units import ETH_L1_OVERHEAD_BYTES, FCS_BYTES, Bps, BpsL1, BpsL2, Pps, l2_rate, line_rate

ETH_HEADER_BYTES = 14
VLAN_TAG_BYTES = 4
TCP_HEADER_BYTES = 20
TCP_TIMESTAMP_BYTES = 12  # RFC 7323 section 3.2: 10 bytes, padded to 12; on by default in Linux and the BSDs
UDP_HEADER_BYTES = 8


class Ip(enum.Enum):
    """An IP version; the value is its header in bytes, without options or extension headers."""

    V4 = 20
    V6 = 40


@dataclass(frozen=True)
class FrameCeiling:
    """What a link carries of one frame size."""

    pps: Pps
    bps_l1: BpsL1
    bps_l2: BpsL2


def frames(speed: BpsL1, mean_frame: float) -> FrameCeiling:
    """The ceiling for frames of `mean_frame` bytes with FCS (of a mix: its average) on a link of `speed`."""
    pps = line_rate(speed, mean_frame)
    return FrameCeiling(pps, speed, l2_rate(pps, mean_frame))


def tcp_goodput(speed: BpsL1, *, mtu: int = 1500, ip: Ip = Ip.V4, vlan_tags: int = 0, timestamps: bool = True) -> Bps:
    """Most payload a second that TCP carries in full segments (RFC 6349 section 4.1.1), without losses, ACKs of the other way free."""
    return _goodput(speed, mtu, ip.value + TCP_HEADER_BYTES + (TCP_TIMESTAMP_BYTES if timestamps else 0), vlan_tags)


def udp_goodput(speed: BpsL1, *, mtu: int = 1500, ip: Ip = Ip.V4, vlan_tags: int = 0) -> Bps:
    """Most payload a second that UDP carries in datagrams as long as the MTU allows."""
    return _goodput(speed, mtu, ip.value + UDP_HEADER_BYTES, vlan_tags)


def _goodput(speed: BpsL1, mtu: int, headers: int, vlan_tags: int) -> Bps:
    if mtu <= headers:
        raise ValueError(f"an MTU of {mtu} bytes leaves no room beside {headers} bytes of headers")
    on_wire = mtu + ETH_HEADER_BYTES + FCS_BYTES + VLAN_TAG_BYTES * vlan_tags + ETH_L1_OVERHEAD_BYTES
    return Bps(speed * (mtu - headers) / on_wire)
