"""Workload `datagrams`: UDP datagrams of many lengths, with and without fragmentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import Duration, FrameRate, PayloadRate
from dutlab.spec.generators.iperf3_udp import LEAST_PAYLOAD
from dutlab.spec.model import fault, fault_of_key
from dutlab.spec.workloads.base import LONGEST_TRIAL, Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.frames import each_once
from dutlab.spec.workloads.iperf3 import LONGEST_OMIT, MOST_STREAMS
from dutlab.spec.workloads.setting import AT_RATE, LASTS, OMITS, STREAMS, PositiveRate, Setting, Words
from dutlab.units import Seconds

LONGEST_DATAGRAM = 65507  # RFC 768 over IPv4: 65535 less 20 and 8 bytes of headers
AROUND_S = Seconds(1.5)
"""Time in which a server and a client begin and end."""
PATH_MTU_S = Seconds(5.0)

_Length = Annotated[int, Strict(), Field(ge=LEAST_PAYLOAD, le=LONGEST_DATAGRAM)]


class DatagramsSetting(Setting):
    """Setting of a trial: datagrams of each length in turn."""

    kind: Literal["datagrams"] = "datagrams"
    lengths_bytes: Annotated[tuple[_Length, ...], Field(min_length=1), Words("lengths bytes {}", place=1)]
    left_out: ClassVar[frozenset[str]] = frozenset({"rate_bps", "omit_s"})
    rate_pps: Annotated[PositiveRate | None, AT_RATE] = None
    rate_bps: Annotated[Annotated[float, Field(gt=0)] | None, Words("rate bps {}", place=1)] = None
    """Payload rate of all streams together, in bits a second."""
    omit_s: Annotated[int, Field(ge=0, le=LONGEST_OMIT), OMITS] = 0
    streams: Annotated[int, Field(ge=1, le=MOST_STREAMS), STREAMS]
    duration_s: Annotated[int, Field(ge=1), LASTS]

    @property
    def flows(self) -> int:
        """Number of flows, one per stream."""
        return self.streams


class DatagramsWorkload(WorkloadModel):
    """`iperf3 -u` with each length in turn, and the path MTU, which explains steps in the result."""

    tool: ClassVar[str] = "iperf3"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IPERF3})
    setting: ClassVar[type[Setting]] = DatagramsSetting
    goes_to_sink: ClassVar[bool] = True

    lengths: tuple[_Length, ...] = (16, 64, 128, 256, 512, 1024, 1280, 1472, 1473, 1500)
    """Lengths of the datagrams, in bytes of payload (`-l`)."""
    rate: FrameRate | None = None
    """Datagrams a second on each link; None is full speed."""
    bit_rate: PayloadRate | None = None
    """Payload rate on each link (`-b`), the same at each length; in place of `rate`."""
    omit: Duration = Seconds(0.0)
    """Time left out at the start of each length (`-O`)."""
    streams: Annotated[int, Strict(), Field(ge=1, le=128)] = 1
    duration: Duration = Seconds(5.0)
    """Duration of each length."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there are lengths without duplicates, and that iperf3 accepts the times."""
        yield from super().own_faults()
        yield from each_once("lengths", [str(n) for n in self.lengths])
        if not float(self.duration).is_integer() or not 1 <= self.duration <= LONGEST_TRIAL:
            yield fault_of_key(
                "duration", f"iperf3 takes whole seconds from 1s to {LONGEST_TRIAL:g}s, not {self.duration:g}s", FaultKind.RANGE
            )
        if not float(self.omit).is_integer() or not 0 <= self.omit <= LONGEST_OMIT:
            yield fault_of_key("omit", f"iperf3 takes whole seconds from 0s to {LONGEST_OMIT:g}s, not {self.omit:g}s", FaultKind.RANGE)
        if self.rate is not None and self.bit_rate is not None:
            yield fault(("bit_rate",), "cannot be combined with rate; write one of them", FaultKind.CONFLICT)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links; a trial has all lengths."""
        setting = DatagramsSetting(
            lengths_bytes=self.lengths,
            rate_pps=self.rate,
            rate_bps=self.bit_rate,
            omit_s=int(self.omit),
            streams=self.streams,
            duration_s=int(self.duration),
        )
        for links in self.link_sets(every_link):
            yield WorkloadDrive(links, setting, Seconds(PATH_MTU_S + len(self.lengths) * (self.omit + self.duration + AROUND_S)))
