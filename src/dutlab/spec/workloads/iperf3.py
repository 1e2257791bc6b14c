"""Workload `iperf3`: TCP goodput."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Duration
from dutlab.spec.model import fault
from dutlab.spec.workloads.base import LONGEST_TRIAL, Need, Params, Setting, WorkloadModel
from dutlab.units import Seconds

LONGEST_OMIT = Seconds(60)  # iperf_api.h, MAX_OMIT_TIME; 3.12 refuses 61


class Iperf3Workload(WorkloadModel):
    """TCP goodput with iperf3."""

    kind: ClassVar[str] = "iperf3"
    tool: ClassVar[str] = "iperf3"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IPERF3})

    streams: Annotated[int, Strict(), Field(ge=1, le=128)] = 4  # iperf_api.h: MAX_STREAMS is 128
    omit: Duration = Seconds(5.0)
    """Left out at the start, while TCP finds its rate."""
    duration: Duration = Seconds(30.0)
    zerocopy: Annotated[bool, Strict()] = False
    """Sent with sendfile(2), which spares the sender a copy (`-Z`)."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """What iperf3 takes: whole seconds, within its limits."""
        faults = super().cross_faults(data, made)
        if made is None:
            return faults
        for key, value, least, most in (("omit", made.omit, 0, LONGEST_OMIT), ("duration", made.duration, 1, LONGEST_TRIAL)):
            if not float(value).is_integer():
                faults.append(fault((key,), f"iperf3 takes whole seconds, not {value:g}s"))
            elif not least <= value <= most:
                faults.append(fault((key,), f"iperf3 takes {least:g}s to {most:g}s, not {value:g}s"))
        return faults

    def settings(self, every_link: Iterable[str]) -> Iterator[Setting]:
        """One a set of links."""
        for links in self.link_sets(every_link):
            yield Setting(links, self.tcp_params(), Seconds(self.omit + self.duration), "tcp")

    def tcp_params(self) -> Params:
        """What iperf3 is asked for."""
        asked: Params = {"streams": self.streams, "omit_s": int(self.omit), "duration_s": int(self.duration)}
        return {**asked, "zerocopy": "yes"} if self.zerocopy else asked
