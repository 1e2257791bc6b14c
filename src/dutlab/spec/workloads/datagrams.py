"""Workload `datagrams`: UDP of many lengths, below and above what one packet carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Duration, FrameRate
from dutlab.spec.generators.iperf3_udp import LEAST_PAYLOAD
from dutlab.spec.model import fault
from dutlab.spec.workloads.base import LONGEST_TRIAL, Need, Params, Setting, WorkloadModel
from dutlab.spec.workloads.frames import each_once
from dutlab.units import Seconds

LONGEST_DATAGRAM = 65507  # RFC 768 over IPv4: 65535 less 20 and 8 bytes of headers
AROUND_S = Seconds(1.5)
"""What a server and a client take to begin and end."""
PATH_MTU_S = Seconds(5.0)

_Length = Annotated[int, Strict(), Field(ge=LEAST_PAYLOAD, le=LONGEST_DATAGRAM)]


class DatagramsWorkload(WorkloadModel):
    """`iperf3 -u` with each length in turn, and the path MTU that explains where the answer steps."""

    kind: ClassVar[str] = "datagrams"
    tool: ClassVar[str] = "iperf3"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IPERF3})

    lengths: tuple[_Length, ...] = (16, 64, 128, 256, 512, 1024, 1280, 1472, 1473, 1500)
    """Bytes of payload (`-l`)."""
    rate: FrameRate | None = None
    """Datagrams a second on each link; None is as fast as it can."""
    streams: Annotated[int, Strict(), Field(ge=1, le=128)] = 1
    duration: Duration = Seconds(5.0)
    """Of each length."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether lengths are there, each once, and iperf3 takes the time."""
        faults = super().cross_faults(data, made)
        if made is None:
            return faults
        faults += each_once("lengths", [str(n) for n in made.lengths])
        if not float(made.duration).is_integer() or not 1 <= made.duration <= LONGEST_TRIAL:
            faults.append(fault(("duration",), f"iperf3 takes whole seconds from 1s to {LONGEST_TRIAL:g}s, not {made.duration:g}s"))
        return faults

    def settings(self, every_link: Iterable[str]) -> Iterator[Setting]:
        """One a set of links: all lengths are one trial."""
        for links in self.link_sets(every_link):
            params: Params = {
                "lengths_bytes": ",".join(map(str, self.lengths)),
                "rate_pps": self.rate,
                "streams": self.streams,
                "duration_s": int(self.duration),
            }
            yield Setting(links, params, Seconds(PATH_MTU_S + len(self.lengths) * (self.duration + AROUND_S)))
