"""Ceilings of an Ethernet link.

A frame of n bytes with FCS takes n + 20 bytes on the wire: preamble, start delimiter and gap (RFC 5180 appendix A). The frame of a packet
of MTU bytes has 18 bytes more (header 14, FCS 4), and 4 for each VLAN tag.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from dutlab.physics.ceilings.ceiling import Ceiling, insist, number, positive
from dutlab.units import ETH_L1_OVERHEAD_BYTES, FCS_BYTES, SHORTEST_FRAME, Bps, BpsL1, BpsL2, Pps, Seconds, l2_rate, line_rate

ETH_HEADER_BYTES = 14
VLAN_TAG_BYTES = 4
TCP_HEADER_BYTES = 20
TCP_TIMESTAMP_BYTES = 12  # RFC 7323 section 3.2: 10 bytes, padded to 12; on by default in Linux and the BSDs
UDP_HEADER_BYTES = 8
AROUND_PACKET_BYTES = ETH_HEADER_BYTES + FCS_BYTES + ETH_L1_OVERHEAD_BYTES
"""Bytes on the wire around each IP packet of an untagged frame: 38."""

_FRAMES = "RFC 5180 appendix A; 20 bytes of preamble, start delimiter and gap (IEEE 802.3)"
_GOODPUT = "RFC 6349 section 4.1.1; 38 = Ethernet header 14, FCS 4, preamble and gap 20"


class Ip(enum.Enum):
    """IP version; the value is the length of its header in bytes, without options or extension headers."""

    V4 = 20
    V6 = 40

    @property
    def words(self) -> str:
        """Name of the version: `IPv4` or `IPv6`."""
        return f"IP{self.name.lower()}"


@dataclass(frozen=True)
class FrameCeiling:
    """Ceiling of one frame size."""

    pps: Pps
    bps_l1: BpsL1
    bps_l2: BpsL2


def frames(speed: BpsL1, mean_frame: float) -> FrameCeiling:
    """Return the ceiling for frames of `mean_frame` bytes with FCS (of a mix: its average) on a link of `speed`."""
    pps = line_rate(speed, mean_frame)
    return FrameCeiling(pps, speed, l2_rate(pps, mean_frame))


def tcp_goodput(speed: BpsL1, *, mtu: int = 1500, ip: Ip = Ip.V4, vlan_tags: int = 0, timestamps: bool = True) -> Bps:
    """Return the highest goodput of TCP in full segments (RFC 6349 section 4.1.1), without losses; ACKs in the other direction are free."""
    return _goodput(speed, mtu, ip.value + _tcp_bytes(timestamps=timestamps), vlan_tags)


def udp_goodput(speed: BpsL1, *, mtu: int = 1500, ip: Ip = Ip.V4, vlan_tags: int = 0) -> Bps:
    """Return the highest goodput of UDP in datagrams as long as the MTU allows."""
    return _goodput(speed, mtu, ip.value + UDP_HEADER_BYTES, vlan_tags)


def ethernet_ceilings(speed: BpsL1, sizes: Mapping[str, float]) -> tuple[Ceiling, ...]:
    """Return frames a second and both bit rates for each of `sizes`: name → mean bytes with FCS and tags, as the engine counts."""
    insist([positive(speed, "the speed"), *(_frame_fault(name, size) for name, size in sizes.items())])
    out = []
    for name, size in sizes.items():
        limit = frames(speed, size)
        about = f"{name} B" if name.isdigit() else f"{name}, {size:.2f} B on average"
        out += [
            Ceiling("frames_pps", about, "frames a second", limit.pps, "pps", f"{number(speed)} / (({size:.7g} + 20) × 8)", _FRAMES),
            Ceiling("rate_bps_l2", about, "L2 rate", limit.bps_l2, "bit/s", f"{number(limit.pps)} × {size:.7g} × 8", _FRAMES),
            Ceiling("rate_bps_l1", about, "L1 rate", limit.bps_l1, "bit/s", f"{number(limit.pps)} × ({size:.7g} + 20) × 8", _FRAMES),
        ]
    return tuple(out)


def tcp_ceilings(
    speed: BpsL1, *, mtu: int = 1500, ip: Ip = Ip.V4, vlan_tags: int = 0, timestamps: bool = True, rtt: Seconds | None = None
) -> tuple[Ceiling, ...]:
    """Return TCP's goodput and segments a second; with a round-trip time also the window that fills the link. Raises ValueError."""
    headers = ip.value + _tcp_bytes(timestamps=timestamps)
    stamped = "" if timestamps else " without timestamps"
    out = _packet_ceilings(speed, mtu, headers, vlan_tags, about=f"TCP over {ip.words}{stamped}", unit_words="segments")
    if rtt is not None:
        insist([positive(rtt, "the round-trip time")])
        bdp = out[0].value * rtt / 8
        formula = f"{number(out[0].value)} × {rtt:g} s / 8"
        source = "RFC 6349 section 3.3.1: the bandwidth-delay product; less in flight and the window is the limit"
        out = (*out, Ceiling("window_bytes", out[0].about, "window that fills the link", bdp, "B", formula, source))
    return out


def udp_ceilings(speed: BpsL1, *, mtu: int = 1500, ip: Ip = Ip.V4, vlan_tags: int = 0) -> tuple[Ceiling, ...]:
    """Return UDP's goodput and datagrams a second, for datagrams as long as the MTU allows. Raises ValueError."""
    return _packet_ceilings(speed, mtu, ip.value + UDP_HEADER_BYTES, vlan_tags, about=f"UDP over {ip.words}", unit_words="datagrams")


def _packet_ceilings(speed: BpsL1, mtu: int, headers: int, vlan_tags: int, *, about: str, unit_words: str) -> tuple[Ceiling, ...]:
    goodput = _goodput(speed, mtu, headers, vlan_tags)
    around = AROUND_PACKET_BYTES + VLAN_TAG_BYTES * vlan_tags
    about = f"{about}, MTU {mtu}{f', {vlan_tags} VLAN' if vlan_tags else ''}"
    return (
        Ceiling("goodput_bps", about, "goodput", goodput, "bit/s", f"{number(speed)} × ({mtu} - {headers}) / ({mtu} + {around})", _GOODPUT),
        Ceiling("packets_pps", about, f"{unit_words} a second", speed / ((mtu + around) * 8), "pps",
                f"{number(speed)} / (({mtu} + {around}) × 8)", _FRAMES),
        Ceiling("payload_ratio", about, "share of the wire that is payload", goodput / speed, "",
                f"({mtu} - {headers}) / ({mtu} + {around})", _GOODPUT),
    )  # fmt: skip


def _goodput(speed: BpsL1, mtu: int, headers: int, vlan_tags: int) -> Bps:
    no_room = "" if mtu > headers else f"an MTU of {mtu} bytes is too small for {headers} bytes of headers"
    insist([positive(speed, "the speed"), _tags_fault(vlan_tags), no_room])
    return Bps(speed * (mtu - headers) / (mtu + AROUND_PACKET_BYTES + VLAN_TAG_BYTES * vlan_tags))


def _tcp_bytes(*, timestamps: bool) -> int:
    return TCP_HEADER_BYTES + (TCP_TIMESTAMP_BYTES if timestamps else 0)


def _tags_fault(tags: int) -> str:
    return "" if 0 <= tags <= 2 else f"a frame has 0, 1 or 2 VLAN tags (IEEE 802.1ad), not {tags}"  # noqa: PLR2004 - QinQ has two


def _frame_fault(name: str, size: float) -> str:
    if size >= SHORTEST_FRAME:
        return ""
    return f"{name} is not a frame size: the shortest frame has {SHORTEST_FRAME} bytes with its FCS (60 without)"
