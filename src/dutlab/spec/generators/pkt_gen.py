"""Generator `pkt-gen` of netmap: one process sends, another receives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dutlab.spec.generators.base import GeneratorFeature, ProgramName
from dutlab.spec.generators.counted import CountedModel
from dutlab.units import Seconds

LONGEST_FRAME = 2048
"""Longest frame in bytes with FCS: a netmap buffer, unless its buf_size was raised."""
_ENDS_NAME = "-*^{}/@"
"""Characters that end a port name in netmap and begin that of a ring or pipe (libnetmap, nmreq.c; nm_open of netmap_user.h)."""


class PktGenModel(CountedModel):
    """pkt-gen -f tx and -f rx. `streams` is the number of its threads (-p); the first runs on the first of `cores` (-a)."""

    kind: ClassVar[str] = "pkt-gen"
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {
        **{ask: why for ask, why in CountedModel.lacks.items() if ask is not GeneratorFeature.READINGS},
        GeneratorFeature.BOTH_WAYS: "a netmap port belongs to one pkt-gen, which sends or receives",
        GeneratorFeature.IPV6: "its words for IPv6 addresses with ports changed between its versions",
    }

    begins_s: ClassVar[Seconds] = Seconds(5.0)
    """Receiver and sender each wait for the link before they begin."""

    program: ProgramName = "pkt-gen"

    def port_fault(self, interface: str) -> str:
        """Return the reason why netmap would read part of the name as a ring's number, or ""."""
        end = next((c for c in interface if c in _ENDS_NAME), "")
        return f"netmap reads what follows {end!r} in a name as the number of a ring; give ports other names" if end else ""

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Return the reason why a frame of this size does not fit one buffer, or ""."""
        return f"a buffer of netmap takes at most {LONGEST_FRAME} bytes with FCS" if frame_bytes > LONGEST_FRAME else ""
