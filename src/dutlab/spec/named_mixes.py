"""Mixes of frame sizes from other tools and documents, by name. None is a standard: RFC 6985 section 1 does not define one.

Tools count the same frame with FCS, without it, or as IP length, and seldom say which. Each entry has the sizes of its source and the bytes
that these leave out; `NAMED_MIXES` has them as frames with FCS. "IMIX 352" and "IMIX 409" of SD-WAN data sheets are averages whose sizes
were never published, so they are not included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dutlab.units import SHORTEST_FRAME, FrameBytes

FCS_BYTES = 4
"""Bytes of the frame check sequence (IEEE 802.3 clause 3.2.9)."""
ETH_FRAME_OVERHEAD = 14 + FCS_BYTES
"""Bytes of an untagged Ethernet frame around its IP datagram."""


@dataclass(frozen=True)
class NamedMix:
    """A mix as its source states it."""

    sizes: tuple[tuple[int, int], ...]
    """Pairs (size, weight) in the source's way of counting."""
    around: int
    """Bytes that the source leaves out of a frame: 0, the FCS, or header and FCS."""
    source: str

    @property
    def frames(self) -> tuple[tuple[FrameBytes, int], ...]:
        """Pairs (frame size with FCS, weight); Ethernet pads shorter frames to its minimum."""
        return tuple((FrameBytes(max(size + self.around, SHORTEST_FRAME)), weight) for size, weight in self.sizes)


SOURCES: Mapping[str, NamedMix] = MappingProxyType(
    {
        "imix": NamedMix(((64, 7), (594, 4), (1518, 1)), 0, "simple IMIX on Ethernet: nfvbench, ostinato.org/blog/imix"),
        "imix-ip": NamedMix(((40, 7), (576, 4), (1500, 1)), ETH_FRAME_OVERHEAD, "simple IMIX as IP lengths: Linux pktgen imix_weights"),
        "imix-trex": NamedMix(((60, 28), (590, 16), (1514, 4)), FCS_BYTES, "TRex scripts/stl/imix.py"),
        "imix-trex-bench": NamedMix(((68, 28), (590, 16), (1514, 4)), FCS_BYTES, "TRex scripts/stl/bench.py, imix_azure.py"),
        "imix-trex-hlt": NamedMix(((64, 7), (570, 4), (1518, 1)), 0, "TRex trex_stl_hltapi.py, whose l3_imix sizes are frame sizes"),
        # 60 is a legal frame only without FCS.
        "imix-trex-4-rates": NamedMix(((60, 4), (400, 3), (2000, 2), (8000, 1)), FCS_BYTES, "TRex stl/hlt/hlt_imix_4rates.py"),
        "imix-csit": NamedMix(((64, 28), (570, 16), (1518, 4)), 0, "FD.io CSIT, data_plane_throughput.md, IPv4"),
        "imix-csit-v6": NamedMix(((78, 28), (570, 16), (1518, 4)), 0, "FD.io CSIT, data_plane_throughput.md, IPv6"),
        "imix-spirent": NamedMix(((64, 61), (594, 21), (1518, 18)), 0, "Spirent FAQ11671, in percent"),
        "imix-web": NamedMix(((64, 67), (570, 1), (594, 2), (1518, 1)), 0, "a table of 2012 that many pages repeat"),
    }
)

NAMED_MIXES: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType({name: mix.frames for name, mix in SOURCES.items()})
"""Name → pairs (frame size with FCS, weight), by ascending size."""
