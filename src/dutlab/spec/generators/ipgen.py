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
"""Ethernet header and FCS around what ipgen calls a packet (gen.c counts from layer 3)."""
SHORTEST_PACKET, LONGEST_PACKET = 46, 1500


class FrameWork(enum.Enum):
    """Work of its benchmark (-X) on each frame; each kind includes those before it."""

    FRAMES = "frames"
    """Addresses, ports and length are written into it."""
    COPIES = "copies"
    CHECKSUMS = "checksums"

    @property
    def letters(self) -> str:
        """The option without its dash: `X`, `XX` or `XXX`."""
        return "X" * (list(FrameWork).index(self) + 1)


class IpgenModel(GeneratorModel):
    """One process, driven by a script (-S); it pins its threads itself, so `cores` are of its benchmark only."""

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
    """It takes both ports, and waits for their links to go down and up again, and for the gateways."""

    program: ProgramName = "ipgen"
    benchmark: Annotated[int, Strict(), Field(ge=0, le=3)] = 0
    """Number of X of its benchmark before the first trial: frames that a core makes (1), copies too (2), with checksums (3)."""

    @property
    def needs_one_machine(self) -> bool:
        """Always."""
        return True

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Its packets have 46 to 1500 bytes of layer 3 (-s)."""
        del ipv6
        shortest, longest = SHORTEST_PACKET + L2_BYTES, LONGEST_PACKET + L2_BYTES
        return "" if shortest <= frame_bytes <= longest else f"ipgen sends {shortest} to {longest} bytes with FCS"
