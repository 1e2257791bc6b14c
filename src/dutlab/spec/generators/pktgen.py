"""Generator `pktgen` of the Linux kernel, controlled by files under /proc/net/pktgen."""

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
"""IP version → shortest frame in bytes with FCS."""


class PktgenModel(CountedModel):
    """Kernel pktgen, with one kernel thread per stream."""

    kind: ClassVar[str] = "pktgen"
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {
        **CountedModel.lacks,
        GeneratorFeature.SEVERAL_LINKS: "one start begins everything that a host sends",
    }

    burst: Annotated[int, Strict(), Field(ge=1, le=1024)] = 1
    """Frames that the driver gets at once (`burst`); more are faster, but less even."""

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Return the reason why frames of this size are too short for pktgen's headers, or ""."""
        least = SHORTEST[6 if ipv6 else 4]
        return f"pktgen's headers need at least {least} bytes with FCS" if frame_bytes < least else ""
