"""Workload `matrix`: iperf3 between every two hosts, in both directions, one pair at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import permutations
from typing import Annotated, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import FrameRate
from dutlab.spec.generators.iperf3_udp import LEAST_PAYLOAD
from dutlab.spec.model import fault
from dutlab.spec.workloads.base import WorkloadDrive
from dutlab.spec.workloads.datagrams import LONGEST_DATAGRAM
from dutlab.spec.workloads.iperf3 import Iperf3Workload, TcpSetting
from dutlab.spec.workloads.setting import AT_RATE, Params, PositiveRate, Setting, Words
from dutlab.units import Seconds


class MatrixSetting(TcpSetting):
    """Setting of a trial: iperf3 from one host to another."""

    kind: Literal["matrix"] = "matrix"
    left_out: ClassVar[frozenset[str]] = TcpSetting.left_out | {"protocol"}

    client: Annotated[str, Words("client {}", place=1)]
    server: Annotated[str, Words("server {}", place=1)]
    protocol: Annotated[Literal["tcp", "udp"], Words("protocol {}", place=1)] = "tcp"
    length_bytes: Annotated[int, Field(ge=LEAST_PAYLOAD, le=LONGEST_DATAGRAM), Words("datagrams of {} bytes")]
    """Bytes of a datagram's payload."""
    rate_pps: Annotated[PositiveRate | None, AT_RATE] = None
    """Datagrams a second; None is full speed."""

    @property
    def ends(self) -> tuple[str, ...]:
        """Client and server."""
        return self.client, self.server

    @cached_property
    def params(self) -> Params:
        """Parameters that apply to its protocol."""
        others = {"length_bytes", "rate_pps"} if self.protocol == "tcp" else {"omit_s", "zerocopy", "direction"}
        return {name: value for name, value in super().params.items() if name not in others}


class MatrixWorkload(Iperf3Workload):
    """One trial per link and ordered pair of its hosts. A path through a DUT has six pairs; in four of them, the DUT is one end."""

    setting: ClassVar[type[Setting]] = MatrixSetting
    goes_to_sink: ClassVar[bool] = False
    on_segments: ClassVar[bool] = True

    protocol: Literal["tcp", "udp"] = "tcp"
    length: Annotated[int, Strict(), Field(ge=LEAST_PAYLOAD, le=LONGEST_DATAGRAM)] = 1448
    """Bytes of a datagram's payload (`-l`); the default fits an MTU of 1500 over IPv4 and over IPv6."""
    rate: FrameRate | None = None
    """Datagrams a second; None is full speed."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that only keys of the protocol are set."""
        yield from super().own_faults()
        others, why = (
            (("length", "rate"), "is for datagrams: write `protocol: udp`")
            if self.protocol == "tcp"
            else (
                ("omit", "zerocopy", "direction"),
                "is for TCP: datagrams are sent at their rate from the start, and copied, by the client",
            )
        )
        if self.server is not None:
            yield fault(("server",), "every pair of hosts is measured; name a server in iperf3", FaultKind.CONFLICT)
        if self.ends_apart:
            yield fault(("ends_apart",), "one pair at a time is measured; this is for several links at once", FaultKind.CONFLICT)
        yield from (fault((key,), why, FaultKind.CONFLICT) for key in others if getattr(self, key) != type(self).model_fields[key].default)

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return sum(len(pairs_on(every_link[link])) for link in self._each(every_link))

    def drives(self, every_link: Mapping[str, LinkBounds]) -> Iterator[WorkloadDrive]:
        """Yield one drive per link and ordered pair of its hosts."""
        tcp = self.protocol == "tcp"
        seconds = Seconds((self.omit if tcp else 0) + self.duration)
        for link in self._each(every_link):
            for client, server in pairs_on(every_link[link]):
                setting = MatrixSetting(
                    client=client,
                    server=server,
                    protocol=self.protocol,
                    streams=self.streams,
                    omit_s=int(self.omit) if tcp else 0,
                    duration_s=int(self.duration),
                    zerocopy=self.zerocopy,
                    direction=self.direction,
                    length_bytes=self.length,
                    rate_pps=self.rate,
                )
                yield WorkloadDrive((link,), setting, seconds, "tcp" if tcp else None)

    def _each(self, every_link: Iterable[str]) -> list[str]:
        """Return the distinct links of all sets."""
        return list(dict.fromkeys(link for links in self.link_sets(every_link) for link in links))


def pairs_on(link: LinkBounds) -> list[tuple[str, str]]:
    """Return every ordered pair (client, server) of a link's hosts."""
    return list(permutations(link.hosts, 2))
