"""Generator `pkt-gen` of netmap: one sends, another receives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dutlab.spec.generators.base import GeneratorFeature, ProgramName
from dutlab.spec.generators.counted import CountedModel

LONGEST_FRAME = 2048
"""Bytes with FCS: a buffer of netmap, unless its buf_size was raised."""


class PktGenModel(CountedModel):
    """pkt-gen -f tx and -f rx; `streams` are its threads (-p), the first on the first of `cores` (-a)."""

    kind: ClassVar[str] = "pkt-gen"
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {
        **{ask: why for ask, why in CountedModel.lacks.items() if ask is not GeneratorFeature.READINGS},
        GeneratorFeature.BOTH_WAYS: "a netmap port belongs to one pkt-gen, which sends or receives",
        GeneratorFeature.IPV6: "its words for IPv6 addresses with ports changed between its versions",
    }

    program: ProgramName = "pkt-gen"

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """A frame fits one buffer."""
        del ipv6
        return f"a buffer of netmap takes at most {LONGEST_FRAME} bytes with FCS" if frame_bytes > LONGEST_FRAME else ""
