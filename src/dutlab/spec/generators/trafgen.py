"""Generator `trafgen` of netsniff-ng: prepared frames through a ring of AF_PACKET."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dutlab.spec.generators.base import GeneratorFeature
from dutlab.spec.generators.counted import CountedModel

LONGEST_FRAME = 2044
"""Bytes with FCS: a slot of its ring has 2048 without its jumbo option, less a header."""


class TrafgenModel(CountedModel):
    """trafgen, one process a stream."""

    kind: ClassVar[str] = "trafgen"

    @property
    def missing(self) -> Mapping[GeneratorFeature, str]:
        """With a rate (`-b`) it starts one process, on core 0, whatever its other options are."""
        if self.streams == 1 and self.cores in ((), (0,)):
            return self.lacks
        why = "with a rate it sends one stream, and that from core 0; leave streams and cores out"
        return {**self.lacks, GeneratorFeature.RATE: why, GeneratorFeature.PROFILE: why}

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Its ring's slots bound the length."""
        del ipv6
        return f"trafgen's ring takes at most {LONGEST_FRAME} bytes with FCS" if frame_bytes > LONGEST_FRAME else ""
