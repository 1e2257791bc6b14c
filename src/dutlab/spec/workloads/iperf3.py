"""Workload `iperf3`: TCP goodput."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, Name, YesNo
from dutlab.spec.model import Loc, did_you_mean, fault, fault_of_key
from dutlab.spec.traffic import Directions
from dutlab.spec.wire_form import NAT64
from dutlab.spec.workloads.base import LONGEST_TRIAL, Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.setting import LASTS, OMITS, STREAMS, Setting, Words
from dutlab.units import Seconds

if TYPE_CHECKING:
    from dutlab.spec.shape import TestbedShape

MOST_STREAMS = 128  # iperf_api.h: MAX_STREAMS
LONGEST_OMIT = Seconds(60)  # iperf_api.h, MAX_OMIT_TIME; 3.12 refuses 61


Direction = Literal["forward", "reverse", "bidir"]
"""`reverse`: the client receives (`-R`); `bidir`: both send at once (`--bidir`). The client begins every connection, since filters may
require it."""


class TcpSetting(Setting):
    """Setting of iperf3 over TCP. Times are whole seconds, since iperf3 silently reads `-t 1.5` as 1 (atoi() in its src/iperf_api.c)."""

    left_out: ClassVar[frozenset[str]] = frozenset({"zerocopy", "direction"})

    streams: Annotated[int, Field(ge=1, le=MOST_STREAMS), STREAMS]
    duration_s: Annotated[int, Field(ge=1, le=LONGEST_TRIAL), LASTS]
    omit_s: Annotated[int, Field(ge=0, le=LONGEST_OMIT), OMITS]
    zerocopy: Annotated[bool, Words("sent without a copy (-Z)")] = False
    direction: Annotated[Direction, Words("direction: {}")] = "forward"

    @property
    def flows(self) -> int:
        """Number of flows, one per stream and direction."""
        return self.streams * len(self.ways.backs)

    @property
    def ways(self) -> Directions:
        """Directions in which data is sent."""
        return {"forward": Directions.FORWARD, "reverse": Directions.BACK, "bidir": Directions.BOTH}[self.direction]

    @property
    def loaded_s(self) -> Seconds:
        """Duration, with the time that the figures leave out."""
        return Seconds(self.duration_s + self.omit_s)


class Iperf3Setting(TcpSetting):
    """Setting of a trial: TCP between source and sink."""

    kind: Literal["iperf3"] = "iperf3"
    left_out: ClassVar[frozenset[str]] = TcpSetting.left_out | {"ends_apart_s", "server"}
    ends_apart_s: Annotated[int, Field(ge=0), Words("links end {} s apart")] = 0
    """Seconds by which each link ends before the link named before it; the first link lasts for the whole duration."""
    server: Annotated[str, Words("to {}", place=1)] = ""
    """Host with the servers of all links; empty for the sink of each."""


class Iperf3Workload(WorkloadModel):
    """TCP goodput with iperf3."""

    tool: ClassVar[str] = "iperf3"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IPERF3})
    setting: ClassVar[type[Setting]] = Iperf3Setting
    forms: ClassVar[frozenset[str]] = frozenset({NAT64})
    goes_to_sink: ClassVar[bool] = True

    streams: Annotated[int, Strict(), Field(ge=1, le=MOST_STREAMS)] = 4
    omit: Duration = Seconds(5.0)
    """Time left out at the start, while TCP finds its rate."""
    duration: Duration = Seconds(30.0)
    zerocopy: YesNo = False
    """True to send with sendfile(2), which saves the sender a copy (`-Z`)."""
    direction: Direction = "forward"
    ends_apart: Duration = Seconds(0.0)
    """Time by which each link ends before the link named before it, so that the load falls in steps."""
    server: Name | None = None
    """Host on the links that runs the servers, such as the DUT itself; None is the sink of each link."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that the times are whole seconds within iperf3's limits."""
        yield from super().own_faults()
        for key, value, least, most in (("omit", self.omit, 0, LONGEST_OMIT), ("duration", self.duration, 1, LONGEST_TRIAL)):
            if not float(value).is_integer():
                yield fault_of_key(key, f"iperf3 takes whole seconds, not {value:g}s", FaultKind.RANGE)
            elif not least <= value <= most:
                yield fault_of_key(key, f"iperf3 takes {least:g}s to {most:g}s, not {value:g}s", FaultKind.RANGE)
        if not float(self.ends_apart).is_integer():
            yield fault_of_key("ends_apart", f"iperf3 takes whole seconds, not {self.ends_apart:g}s", FaultKind.RANGE)
        elif self.ends_apart and (shortest := self.duration - self.ends_apart * (max(map(len, self.links or ((),))) - 1)) < 1:
            yield fault(("ends_apart",), f"the last link would end after {shortest:g}s; lower it, or raise duration", FaultKind.CONFLICT)

    def unfit(self, written: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
        """Yield the links that do not lead from their source to the server."""
        yield from super().unfit(written, bed)
        if self.server is None:
            return
        for name in dict.fromkeys(link for links in self.link_sets(bed.bounds) for link in links):
            bound = bed.bounds[name]
            others = [host for host in bound.hosts if host != bound.ends[0]]
            if self.server not in others:
                yield ("server",), f"link {name} does not lead from {bound.ends[0]} to it {did_you_mean(self.server, others)}"
            elif self.server not in bed.hosts:
                yield ("server",), f"no command reaches {self.server}, which runs the servers"

    def drives(self, every_link: Mapping[str, LinkBounds]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links."""
        setting = Iperf3Setting(
            streams=self.streams,
            omit_s=int(self.omit),
            duration_s=int(self.duration),
            zerocopy=self.zerocopy,
            direction=self.direction,
            ends_apart_s=int(self.ends_apart),
            server=self.server or "",
        )
        for links in self.link_sets(every_link):
            yield WorkloadDrive(links, setting, Seconds(self.omit + self.duration), "tcp")
