"""Generator `xdp-trafficgen` of xdp-tools: one frame, sent repeatedly from inside the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.generators.base import GeneratorFeature
from dutlab.spec.generators.counted import CountedModel
from dutlab.spec.model import fault

# xdp-tools 1.2 to 1.5, xdp-trafficgen.c, udp_packet: Ethernet, IPv6 and UDP, in all 64 bytes without FCS; hop_limit is 1.
SHORTEST_FRAME = 64 + 4
"""Shortest frame in bytes with FCS; versions without --pkt-size send only this size."""


class XdpTrafficgenModel(CountedModel):
    """`xdp-trafficgen udp`, always at full speed, and only for paths without a router."""

    kind: ClassVar[str] = "xdp-trafficgen"
    stepped: ClassVar[bool] = False
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {
        **CountedModel.lacks,
        GeneratorFeature.RATE: "it has no rate, only full speed",
        GeneratorFeature.PROFILE: "it has no rate, only full speed",
        GeneratorFeature.IPV4: "its frames are IPv6",
        GeneratorFeature.ROUTED: "its frames have a hop limit of 1, which no router forwards",
    }

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that `cores` are those that it uses (xdp-trafficgen.c, create_runners: 0, 1, …)."""
        if made is None or made.cores in ((), tuple(range(made.streams))):
            return
        yield fault(("cores",), "xdp-trafficgen pins its streams to the cores 0, 1, … itself; leave cores out", FaultKind.CONFLICT)

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Return the reason why frames of this size are too short for its headers, or ""."""
        return "" if frame_bytes >= SHORTEST_FRAME else f"xdp-trafficgen's shortest frame has {SHORTEST_FRAME} bytes with FCS"
