"""Generator `ipgen` of IIJ, on a machine that has both ends of the link."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, Strict

from dutlab.spec.generators.base import GeneratorFeature, GeneratorModel, ProgramName
from dutlab.spec.generators.counted import EVENLY, NOT_SHARED, ONE_FLOW, ONE_SIZE
from dutlab.units import Seconds

L2_BYTES = 14 + 4
"""Bytes of Ethernet header and FCS. ipgen's packet sizes do not include them (gen.c counts from layer 3)."""
SHORTEST_PACKET, LONGEST_PACKET = 46, 1500


class FrameWork(enum.Enum):
    """Work of ipgen's benchmark (-X) on each frame; each kind includes the kinds before it."""

    FRAMES = "frames"
    """Addresses, ports and length are written into each frame."""
    COPIES = "copies"
    CHECKSUMS = "checksums"

    @property
    def letters(self) -> str:
        """Option of the benchmark, without its dash: `X`, `XX` or `XXX`."""
        return "X" * (list(FrameWork).index(self) + 1)


class IpgenModel(GeneratorModel):
    """ipgen: one process that a script controls (-S). It pins its threads itself, so `cores` apply only to its benchmark."""

    kind: ClassVar[str] = "ipgen"
    stepped: ClassVar[bool] = True
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {
        **ONE_SIZE,
        **ONE_FLOW,
        **EVENLY,
        **NOT_SHARED,
        GeneratorFeature.SEVERAL_LINKS: "it has one port that sends and one that receives",
        **dict.fromkeys((GeneratorFeature.BOTH_WAYS, GeneratorFeature.BACK), "its log has the forward direction only"),
        GeneratorFeature.LATENCY: "it reports a least, a mean and a greatest latency, and nothing between",
    }

    begins_s: ClassVar[Seconds] = Seconds(12.0)
    """ipgen opens both ports, and waits until their links are up again and the gateways answer."""

    program: ProgramName = "ipgen"
    benchmark: Annotated[int, Strict(), Field(ge=0, le=3)] = 0
    """Benchmark before the first trial, as the number of X in its option: 1 makes frames, 2 adds copies, 3 adds checksums; 0: none."""

    @property
    def needs_one_machine(self) -> bool:
        """True: ipgen has both ends of the path."""
        return True

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Return the reason why frames of this size are outside ipgen's 46 to 1500 bytes of layer 3 (-s), or ""."""
        shortest, longest = SHORTEST_PACKET + L2_BYTES, LONGEST_PACKET + L2_BYTES
        return "" if shortest <= frame_bytes <= longest else f"ipgen sends {shortest} to {longest} bytes with FCS"
