"""Generator `pktgen`: the Linux kernel's own, driven by files under /proc/net/pktgen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, Strict

from dutlab.spec.generators.base import GeneratorFeature
from dutlab.spec.generators.counted import CountedModel

# net/core/pktgen.c: Ethernet, IP, UDP, and its own header of 16 bytes (struct pktgen_hdr), which carries a sequence number and a time.
_PKTGEN_HEADER = 16
_FCS = 4
SHORTEST = {4: 14 + 20 + 8 + _PKTGEN_HEADER + _FCS, 6: 14 + 40 + 8 + _PKTGEN_HEADER + _FCS}
"""Bytes with FCS, by IP version."""


class PktgenModel(CountedModel):
    """Kernel pktgen, one kernel thread a stream."""

    kind: ClassVar[str] = "pktgen"
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {
        **CountedModel.lacks,
        GeneratorFeature.SEVERAL_LINKS: "one start begins everything that a host sends",
    }

    burst: Annotated[int, Strict(), Field(ge=1, le=1024)] = 1
    """Frames handed to the driver at once (`burst`); more is faster, and less even."""

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Its headers bound the length from below."""
        least = SHORTEST[6 if ipv6 else 4]
        return f"pktgen's headers need at least {least} bytes with FCS" if frame_bytes < least else ""
