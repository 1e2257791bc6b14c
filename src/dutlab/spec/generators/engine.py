"""Generator `engine`: dutlab's own, which counts, orders and times every frame."""

from __future__ import annotations

from typing import ClassVar

from dutlab.spec.generators.base import GeneratorModel
from dutlab.units import SHORTEST_IPV6_FRAME


class EngineModel(GeneratorModel):
    """dutlab-engine; supports every request."""

    kind: ClassVar[str] = "engine"

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Each frame carries a probe."""
        if not ipv6 or frame_bytes >= SHORTEST_IPV6_FRAME:
            return ""
        return f"{frame_bytes} bytes with FCS hold no probe over IPv6; the shortest that do are {SHORTEST_IPV6_FRAME}"
