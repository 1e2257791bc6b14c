"""Generator `iperf3-udp`: datagrams from a socket of the sender's kernel to one of the receiver's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dutlab.spec.generators.base import GeneratorFeature, StreamsModel
from dutlab.spec.generators.counted import PLAIN_UDP

# iperf3 3.12, iperf_api.h: MIN_UDP_BLOCKSIZE, room for its header of a time and a number.
LEAST_PAYLOAD = 16
_FRAME = 14 + 4
IP_UDP = {4: 20 + 8, 6: 40 + 8}
"""Bytes of headers in front of a datagram's payload, by IP version."""


def payload_of(frame_bytes: int, *, ipv6: bool) -> int:
    """Return the payload (`-l`) of a frame of so many bytes with FCS."""
    return frame_bytes - _FRAME - IP_UDP[6 if ipv6 else 4]


class Iperf3UdpModel(StreamsModel):
    """`iperf3 -u`: a server at the receiver reports what arrived."""

    kind: ClassVar[str] = "iperf3-udp"
    stepped: ClassVar[bool] = True
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {**PLAIN_UDP, GeneratorFeature.READINGS: "both ends report at the end of a trial"}

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Its header must fit."""
        payload = payload_of(frame_bytes, ipv6=ipv6)
        shortest = frame_bytes - payload + LEAST_PAYLOAD
        return "" if payload >= LEAST_PAYLOAD else f"iperf3 sends at least {LEAST_PAYLOAD} bytes of payload: {shortest} bytes with FCS"
