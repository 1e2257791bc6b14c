"""Input of TRex: its configuration for interfaces of the kernel, and frames byte by byte."""

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
    """An interface, its MAC, and that of whom it sends to."""

    interface: str
    own_mac: str
    next_hop_mac: str


def config_of(ports: Sequence[TrexPort]) -> str:
    """A trex_cfg.yaml for software mode.

    TRex makes `--vdev=net_af_packetN,iface=NAME` of a name that is not a PCI address, with blocks as large as it needs (its main_dpdk.cpp);
    `low_end` has it do with one core and no huge pages (trex_book, "kernel interfaces"). The MACs spare it ARP.
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
    """One stream a frame size, its rate in proportion to its weight; without a rate the weights alone, for TRex to scale to 100 %."""
    total = sum(weight for _, weight in mix.parts)
    return [
        {"frame": frame_of(direction, own_mac, size).hex(), "pps": weight if rate is None else rate * weight / total}
        for size, weight in mix.parts
    ]


def frame_of(direction: Direction, own_mac: str, frame_bytes: int) -> bytes:
    """A UDP frame, zeroes inside, without its FCS. The shortest over IPv4 is 46 bytes with it, over IPv6 66."""
    source, destination = ipaddress.ip_address(direction.source), ipaddress.ip_address(direction.destination)
    header = 20 if source.version == 4 else 40  # noqa: PLR2004 -- the version's number
    payload = bytes(frame_bytes - FCS_BYTES - 14 - header - 8)
    length = 8 + len(payload)
    udp = struct.pack("!HHHH", direction.source_port, DESTINATION_PORT, length, 0)
    if source.version == 4:  # noqa: PLR2004 -- the version of IP; no checksum is one that UDP over IPv4 allows (RFC 768)
        bare = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0, TTL, UDP, 0, source.packed, destination.packed)
        ip = bare[:10] + struct.pack("!H", checksum(bare)) + bare[12:]
    else:
        ip = struct.pack("!IHBB16s16s", 6 << 28, length, UDP, TTL, source.packed, destination.packed)
        pseudo = source.packed + destination.packed + struct.pack("!II", length, UDP)  # RFC 8200 section 8.1
        udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp + payload) or 0xFFFF)
    macs = bytes.fromhex(direction.destination_mac.replace(":", "")) + bytes.fromhex(own_mac.replace(":", ""))
    return macs + struct.pack("!H", ETHERTYPES[source.version]) + ip + udp + payload


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    padded = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
