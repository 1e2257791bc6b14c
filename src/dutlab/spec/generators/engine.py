"""Generator `engine`: dutlab's own generator, which counts every frame and records its order and latency."""

from __future__ import annotations

from typing import ClassVar

from dutlab.spec.generators.base import GeneratorModel
from dutlab.units import SHORTEST_IPV6_FRAME


class EngineModel(GeneratorModel):
    """dutlab-engine, which supports every request."""

    kind: ClassVar[str] = "engine"

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Return the reason why a probe does not fit into frames of this size, or ""."""
        if not ipv6 or frame_bytes >= SHORTEST_IPV6_FRAME:
            return ""
        return f"{frame_bytes} bytes with FCS hold no probe over IPv6; the shortest that do are {SHORTEST_IPV6_FRAME}"
