"""Generator `iperf3-udp`: UDP datagrams between kernel sockets of sender and receiver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dutlab.spec.generators.base import GeneratorFeature, StreamsModel
from dutlab.spec.generators.counted import PLAIN_UDP

# iperf3 3.12, iperf_api.h: MIN_UDP_BLOCKSIZE, room for its header with a time and a number.
LEAST_PAYLOAD = 16
_FRAME = 14 + 4
IP_UDP = {4: 20 + 8, 6: 40 + 8}
"""IP version → bytes of the IP and UDP headers."""


def payload_of(frame_bytes: int, *, ipv6: bool) -> int:
    """Return the payload bytes (`-l`) of a frame of `frame_bytes` with FCS."""
    return frame_bytes - _FRAME - IP_UDP[6 if ipv6 else 4]


class Iperf3UdpModel(StreamsModel):
    """`iperf3 -u`: a server at the receiver reports what arrived."""

    kind: ClassVar[str] = "iperf3-udp"
    stepped: ClassVar[bool] = True
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {**PLAIN_UDP, GeneratorFeature.READINGS: "both ends report at the end of a trial"}

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Return the reason why iperf3's header does not fit into frames of this size, or ""."""
        payload = payload_of(frame_bytes, ipv6=ipv6)
        shortest = frame_bytes - payload + LEAST_PAYLOAD
        return "" if payload >= LEAST_PAYLOAD else f"iperf3 sends at least {LEAST_PAYLOAD} bytes of payload: {shortest} bytes with FCS"
