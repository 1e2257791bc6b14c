"""Input of TRex: its configuration for kernel interfaces, and frames byte by byte."""

from __future__ import annotations

import ipaddress
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dutlab.spec.mixes import Mix
from dutlab.tools.engine.load import DESTINATION_PORT, Direction
from dutlab.units import FCS_BYTES, Pps

ETHERTYPES = {4: 0x0800, 6: 0x86DD}
UDP = 17
TTL = 64


@dataclass(frozen=True)
class TrexPort:
    """An interface, its MAC, and the MAC of its next hop."""

    interface: str
    own_mac: str
    next_hop_mac: str


def config_of(ports: Sequence[TrexPort]) -> str:
    """Return a trex_cfg.yaml for software mode.

    TRex turns a name that is not a PCI address into `--vdev=net_af_packetN,iface=NAME`, with blocks as large as it needs (its
    main_dpdk.cpp). With `low_end` it needs one core and no huge pages (trex_book, "kernel interfaces"). With the MACs it needs no ARP.
    """
    lines = [
        f"- port_limit: {len(ports)}",
        "  version: 2",
        "  low_end: true",
        f"  interfaces: {json.dumps([port.interface for port in ports])}",
        "  port_info:",
        *(f'    - {{dest_mac: "{port.next_hop_mac}", src_mac: "{port.own_mac}"}}' for port in ports),
    ]
    return "\n".join(lines) + "\n"


def streams_of(direction: Direction, mix: Mix, rate: Pps | None, own_mac: str) -> list[dict[str, Any]]:
    """Return one stream per frame size, its rate in proportion to its weight. Without a rate, TRex scales the weights to 100 %."""
    total = sum(weight for _, weight in mix.parts)
    return [
        {"frame": frame_of(direction, own_mac, size).hex(), "pps": weight if rate is None else rate * weight / total}
        for size, weight in mix.parts
    ]


def frame_of(direction: Direction, own_mac: str, frame_bytes: int) -> bytes:
    """Return a UDP frame filled with zeros, without FCS. The shortest is 46 bytes with FCS over IPv4, 66 over IPv6."""
    source, destination = ipaddress.ip_address(direction.source), ipaddress.ip_address(direction.destination)
    header = 20 if source.version == 4 else 40  # noqa: PLR2004 -- the version's number
    payload = bytes(frame_bytes - FCS_BYTES - 14 - header - 8)
    length = 8 + len(payload)
    udp = struct.pack("!HHHH", direction.source_port, DESTINATION_PORT, length, 0)
    if source.version == 4:  # noqa: PLR2004 -- the version of IP; UDP over IPv4 may omit the checksum (RFC 768)
        bare = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0, TTL, UDP, 0, source.packed, destination.packed)
        ip = bare[:10] + struct.pack("!H", checksum(bare)) + bare[12:]
    else:
        ip = struct.pack("!IHBB16s16s", 6 << 28, length, UDP, TTL, source.packed, destination.packed)
        pseudo = source.packed + destination.packed + struct.pack("!II", length, UDP)  # RFC 8200 section 8.1
        udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp + payload) or 0xFFFF)
    macs = bytes.fromhex(direction.destination_mac.replace(":", "")) + bytes.fromhex(own_mac.replace(":", ""))
    return macs + struct.pack("!H", ETHERTYPES[source.version]) + ip + udp + payload


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    padded = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
