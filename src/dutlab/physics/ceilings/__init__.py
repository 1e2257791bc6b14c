"""Limits computed from facts: links, tunnels, buses, drives, arrays, memory."""

from dutlab.physics.ceilings.ceiling import Ceiling
from dutlab.physics.ceilings.ethernet import (
    ETH_HEADER_BYTES,
    TCP_HEADER_BYTES,
    TCP_TIMESTAMP_BYTES,
    UDP_HEADER_BYTES,
    VLAN_TAG_BYTES,
    FrameCeiling,
    Ip,
    frames,
    tcp_goodput,
    udp_goodput,
)

__all__ = [
    "ETH_HEADER_BYTES",
    "TCP_HEADER_BYTES",
    "TCP_TIMESTAMP_BYTES",
    "UDP_HEADER_BYTES",
    "VLAN_TAG_BYTES",
    "Ceiling",
    "FrameCeiling",
    "Ip",
    "frames",
    "tcp_goodput",
    "udp_goodput",
]
