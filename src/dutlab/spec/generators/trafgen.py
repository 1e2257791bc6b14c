"""Generator `trafgen` of netsniff-ng: prepared frames through an AF_PACKET ring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dutlab.spec.generators.base import GeneratorFeature
from dutlab.spec.generators.counted import CountedModel

LONGEST_FRAME = 2044
"""Longest frame in bytes with FCS: a slot of the ring has 2048 bytes without the jumbo option, less a header."""


class TrafgenModel(CountedModel):
    """trafgen, with one process per stream."""

    kind: ClassVar[str] = "trafgen"

    @property
    def missing(self) -> Mapping[GeneratorFeature, str]:
        """Missing features → reason. With a rate (`-b`), trafgen starts one process on core 0 and ignores other options."""
        if self.streams == 1 and self.cores in ((), (0,)):
            return self.lacks
        why = "with a rate it sends one stream, and that from core 0; leave streams and cores out"
        return {**self.lacks, GeneratorFeature.RATE: why, GeneratorFeature.PROFILE: why}

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Return the reason why frames of this size do not fit a slot of the ring, or ""."""
        return f"trafgen's ring takes at most {LONGEST_FRAME} bytes with FCS" if frame_bytes > LONGEST_FRAME else ""
