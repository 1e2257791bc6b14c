"""Protocol and data types for TCP connections through the DUT: the load and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dutlab.units import Seconds

FAILURES = (
    "refused", "unreachable", "no_handshake", "tls_failed", "reset", "closed_early", "no_answer", "malformed", "error_status",
)  # fmt: skip
"""Kinds of failure of a connection.

In order: RST instead of a handshake; ICMP or no route; no answer to SYN in time; no TLS handshake; RST, FIN or silence instead of an
answer; a malformed answer; a status other than 200.
"""


@dataclass(frozen=True)
class ProxyEnd:
    """Address at which a proxy listens."""

    ports: str
    """Ports, as `8080` or `8080-8095`."""
    address: str = ""
    """Address; empty for that of the DUT's port towards the source."""
    name: str = ""
    """Name of the proxy in requests and TLS; empty to use its address."""


@dataclass(frozen=True)
class ConnectionLoad:
    """TCP connections to make. Sizes are in bytes: of a request with its head, of a response without."""

    link: str
    rate_per_s: float
    """New connections a second."""
    count: int
    requests: int
    request_bytes: int
    response_bytes: str
    """Size, or several sizes by weight, as `1024:60,102400:40`."""
    timeout: Seconds
    hold: bool = False
    """True to keep all connections open until the last was answered; then each gets one more request."""
    resets: bool = False
    """True to end connections with RST instead of FIN."""
    sources: int = 1
    """Number of source addresses, used in turn."""
    to: ProxyEnd | None = None
    """Proxy to connect to instead of the sink."""
    http2: bool = False
    """True if the client uses HTTP/2; the server never does."""
    client_tls: str = ""
    """Version of TLS of the client, or `any`; empty without TLS."""
    server_tls: str = ""
    resumes: bool = False
    """True to resume TLS sessions."""


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of times in nanoseconds."""

    p50_ns: float = 0.0
    p99_ns: float = 0.0
    max_ns: float = 0.0


@dataclass(frozen=True)
class TlsSeen:
    """TLS handshakes at one end."""

    full: int = 0
    resumed: int = 0
    agreed: Mapping[str, int] = field(default_factory=dict)
    """Number of connections by agreed parameters, as `TLS 1.3 TLS_AES_256_GCM_SHA384 X25519`."""
    error: str = ""
    """Reason of the last failure."""


@dataclass(frozen=True)
class ServerCounts:
    """Counters of the sink's servers."""

    accepted: int = 0
    answered: int = 0
    body_bytes: int = 0
    closed: int = 0
    """Connections that the other end closed."""
    closed_here: int = 0
    """Connections that the servers closed, because a request asked for it."""
    reset: int = 0
    """Connections that the other end reset."""
    tls: TlsSeen = TlsSeen()


@dataclass(frozen=True)
class ConnectionReport:
    """Results of all connections: asked = begun + not_begun; begun = completed + the sum of `failed`."""

    asked: int
    begun: int
    established: int
    completed: int
    failed: Mapping[str, int]
    """Number of connections by kind of failure (FAILURES)."""
    open_max: int
    """Most connections that were established at once."""
    transactions: int
    body_bytes: int
    begun_s: float
    """Seconds from the first SYN to the last."""
    answered_s: float
    """Seconds from the first SYN to the last byte of an answer."""
    handshake: Percentiles = Percentiles()
    tls_handshake: Percentiles = Percentiles()
    first_byte: Percentiles = Percentiles()
    response: Percentiles = Percentiles()
    reset_by_sink: int = 0
    """RSTs that the sink's kernel sent, among the refused and reset. Connections to a proxy are not included: its kernel ends them."""
    reset_by_path: int = 0
    """All other RSTs: a device between the ends sent them."""
    retransmits: int = 0
    """Segments that either end retransmitted."""
    overflows: int = 0
    """SYNs that overflowed the sink's own queues: the rig's limit, not the DUT's."""
    system_refused: str = ""
    """Reason why the source had no socket or port; empty if it had."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """Number of answers by status, other than 200."""
    tls: TlsSeen = TlsSeen()
    """TLS handshakes of the client."""
    server: ServerCounts = ServerCounts()
    raw: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def not_begun(self) -> int:
        """Connections that were not begun: the generator was late, or had no socket or port."""
        return self.asked - self.begun

    @property
    def balances(self) -> bool:
        """True if every connection has exactly one result."""
        return self.begun == self.completed + sum(self.failed.values())


class Connections(Protocol):
    """Opens connections at a link's source and answers them at its sink."""

    async def carry_out(self, load: ConnectionLoad) -> ConnectionReport:
        """Make the connections of `load`. Raises ToolFailed, HostError."""
