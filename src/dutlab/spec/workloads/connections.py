"""Workload `connections`: TCP connections with requests and answers, new ones a second and concurrent ones."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.address_blocks import MOST_SOURCES
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, Share
from dutlab.spec.links import IPV6
from dutlab.spec.model import Loc, fault
from dutlab.spec.workloads.base import Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.frames import alone, each_once, outside
from dutlab.spec.workloads.proxies import Http, HttpVersion, ObjectSizes, ProxyAddress, TlsEnds, TlsUse, TlsVersion, objects_text
from dutlab.spec.workloads.setting import NotNegative, Positive, SecondsLong, Setting, Words
from dutlab.units import Seconds

_TRIALS_OF_A_SEARCH = 12
_TRIALS_OF_A_BRACKET = 10
_AROUND_S = 1.0
"""Seconds in which both ends begin and end a trial."""
MOST_CONNECTIONS = 1_000_000
_PerSecond = Annotated[int, Strict(), Field(ge=20, le=1_000_000)]
_Count = Annotated[int, Strict(), Field(ge=1000, le=MOST_CONNECTIONS)]
_RequestBytes = Annotated[int, Strict(), Field(ge=64, le=15_000)]


class ConnectionsTest(enum.Enum):
    """Test of connections; the value is the word of the experiment file."""

    RATE = "rate"
    CONCURRENT = "concurrent"


class ConnectionsSetting(Setting):
    """Setting of a trial of connections."""

    kind: Literal["connections"] = "connections"
    left_out: ClassVar[frozenset[str]] = frozenset(
        {"sources", "to_ports", "to_address", "to_name", "http", "tls", "tls_ends", "tls_resumes"}
    )
    tests: Annotated[tuple[ConnectionsTest, ...], Words("tests: {}")]
    requests: Annotated[int, Field(ge=1), Words("requests a connection: {}")]
    request_bytes: Annotated[int, Field(ge=0), Words("requests of {} bytes")]
    response_bytes: Annotated[int | str, Words("answers of {} bytes")]
    """Bytes of a response body; several sizes with weights as `1024:60,102400:40`."""
    closes: Annotated[Literal["fin", "reset"], Words("ended by {}")]
    trial_s: Annotated[SecondsLong, Words("trials of {} s")]
    failed_ratio: Annotated[NotNegative, Words("failures: {}")]
    width_ratio: Annotated[Positive, Words("bounds closer than {} of the upper")]
    highest_per_s: Annotated[Positive, Words("up to {} a second")]
    most_connections: Annotated[int, Field(ge=1), Words("up to {} at once")]
    fill_per_s: Annotated[Positive | None, Words("opened at {} a second")] = None
    sources: Annotated[int, Field(ge=1), Words("from {} addresses")] = 1
    timeout_s: Annotated[SecondsLong, Words("{} s to answer")]
    to_ports: Annotated[str, Words("to port {} of a proxy")] = ""
    to_address: Annotated[str, Words("at {}")] = ""
    to_name: Annotated[str, Words("called {}")] = ""
    http: Annotated[HttpVersion, Words("HTTP/{}")] = "1.1"
    tls: Annotated[TlsVersion | None, Words("TLS {}", {"any": "TLS"})] = None
    tls_ends: Annotated[TlsEnds, Words("TLS of the {}", {"both": ""})] = "both"
    tls_resumes: Annotated[bool, Words("sessions resumed: {}")] = False

    @property
    def at_source(self) -> tuple[str, ...]:
        """Program that adds addresses to the port, if there are several."""
        return ("dutlab.hosts.programs:IP",) if self.sources > 1 else ()

    @property
    def at_limit_s(self) -> Seconds:
        """Duration of a trial at the rate that was found; 0 without a search for a rate."""
        return Seconds(self.trial_s + _AROUND_S) if ConnectionsTest.RATE in self.tests else Seconds(0.0)

    @property
    def flows(self) -> int:
        """Most connections of a trial, including ended ones, which the DUT's table must hold."""
        of_rate = int(self.highest_per_s * self.trial_s) if ConnectionsTest.RATE in self.tests else 0
        return max(of_rate, self.most_connections if ConnectionsTest.CONCURRENT in self.tests else 0)


class ConnectionsWorkload(WorkloadModel):
    """New TCP connections a second, transactions and goodput at that rate, and most concurrent connections (RFC 3511, RFC 9411)."""

    tool: ClassVar[str] = "engine"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES})
    setting: ClassVar[type[Setting]] = ConnectionsSetting
    goes_to_sink: ClassVar[bool] = True

    tests: tuple[ConnectionsTest, ...] = tuple(ConnectionsTest)
    requests: Annotated[int, Strict(), Field(ge=1, le=10_000)] = 1
    """Requests over each connection, one after another; with several, the connection is kept alive (RFC 9411 section 7.3 wants 10)."""
    request_bytes: _RequestBytes = 200
    response_bytes: ObjectSizes = ((1024, 1),)
    """Bytes of a response body; RFC 9411 section 7.2 has objects of 1 to 64 KByte."""
    closes: Literal["fin", "reset"] = "fin"
    """Way in which the client ends a connection."""
    trial: Duration = Seconds(5.0)
    failed: Share = 0.00001
    """Share of connections that may fail: RFC 9411 section 7.2.3.4 allows less than 0.001 %."""
    width: Share = 0.05
    highest: _PerSecond = 20_000
    """Highest rate that is tried, in connections a second."""
    most: _Count = 100_000
    """Most concurrent connections that are tried."""
    fill_rate: _PerSecond | None = None
    """Connections a second while concurrent connections are opened; None is half of the rate that was found."""
    sources: Annotated[int, Strict(), Field(ge=1, le=MOST_SOURCES)] = 1
    """Number of source addresses, used in turn."""
    timeout: Duration = Seconds(3.0)
    """Time limit of a handshake or an answer; a longer one has failed."""
    to: ProxyAddress | None = None
    """Proxy that the clients connect to, which connects to the sink; None for connections to the sink."""
    http: Http = "1.1"
    """HTTP version of the clients; the server uses 1.1."""
    tls: TlsUse | None = None

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there are tests without duplicates, and that the numbers are in range and fit together."""
        yield from super().own_faults()
        yield from each_once("tests", [test.value for test in self.tests])
        yield from alone(self.links, "its connections fill the DUT's table")
        if ConnectionsTest.RATE not in self.tests and self.fill_rate is None:
            yield fault(
                ("fill_rate",), "missing; without the test rate it is not known how fast connections may be opened", FaultKind.MISSING
            )
        if self.to is None and self.tls is not None and self.tls.ends != "both":
            yield fault(("tls", "ends"), "without a proxy (key `to`) both ends speak TLS, or none", FaultKind.CONFLICT)
        if self.to is None and self.http == "2":
            yield fault(("http",), "the server speaks HTTP/1.1: name a proxy that speaks HTTP/2 (key `to`)", FaultKind.CONFLICT)
        yield from outside([("trial", self.trial, 1, 600), ("timeout", self.timeout, 0.1, 60)])
        yield from outside([("failed", self.failed, 0, 0.5), ("width", self.width, 0.001, 0.5)], unit="")

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per link, in which the tests run one after another."""
        rate, concurrent = (test in self.tests for test in ConnectionsTest)
        seconds = _TRIALS_OF_A_SEARCH * (self.trial + _AROUND_S) if rate else 0.0
        fill = self.fill_rate or self.highest / 4
        seconds += _TRIALS_OF_A_BRACKET * (self.most / fill + _AROUND_S) if concurrent else 0.0
        for links in self.link_sets(every_link):
            setting = ConnectionsSetting(
                tests=tuple(test for test in ConnectionsTest if test in self.tests),
                requests=self.requests,
                request_bytes=self.request_bytes,
                response_bytes=objects_text(self.response_bytes),
                closes=self.closes,
                trial_s=self.trial,
                failed_ratio=self.failed,
                width_ratio=self.width,
                highest_per_s=float(self.highest),
                most_connections=self.most,
                fill_per_s=None if self.fill_rate is None else float(self.fill_rate),
                sources=self.sources,
                timeout_s=self.timeout,
                http=self.http,
                **self._of_proxies(),
            )
            yield WorkloadDrive(links, setting, Seconds(seconds))

    def _of_proxies(self) -> dict[str, Any]:
        of: dict[str, Any] = {}
        if (to := self.to) is not None:
            of |= {"to_ports": to.ports, "to_address": "" if to.address is None else str(to.address), "to_name": to.name or ""}
        if (tls := self.tls) is not None:
            of |= {"tls": tls.version, "tls_ends": tls.ends, "tls_resumes": tls.resume}
        return of

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield faults: more sources than the network of a link's source has free addresses for, or a proxy that the link cannot reach."""
        for name in dict.fromkeys(name for links in self.link_sets(bounds) for name in links if name in bounds):
            if self.to is not None and not bounds[name].through_dut:
                yield ("to",), f"link {name} has no DUT between its ends, where a proxy could be"
            if self.to is not None and self.to.address is not None and (self.to.address.version == IPV6) != bounds[name].ipv6:
                yield ("to", "address"), f"{self.to.address} is not of the version of IP that link {name} has"
            if self.sources > (most := bounds[name].most_sources):
                yield ("sources",), f"{self.sources} addresses: the network at the source of link {name} has {most} free"
