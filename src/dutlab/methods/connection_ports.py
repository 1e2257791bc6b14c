"""TCP connections through the DUT, as a method sees them: the request, and the result of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dutlab.units import Seconds

FAILURES = (
    "refused", "unreachable", "no_handshake", "tls_failed", "reset", "closed_early", "no_answer", "malformed", "error_status",
)  # fmt: skip
"""Kinds of failure: RST instead of a handshake; ICMP or no route; no answer to SYN in time; no handshake of TLS; RST, FIN or
silence where an answer was due; an answer that is none; one with another status than 200."""


@dataclass(frozen=True)
class ProxyEnd:
    """Where a proxy listens."""

    ports: str
    """`8080` or `8080-8095`."""
    address: str = ""
    """Empty: that of the DUT's port towards the source."""
    name: str = ""
    """What requests and TLS call it; empty: by its address."""


@dataclass(frozen=True)
class ConnectionLoad:
    """Request to both ends. Sizes in bytes: of a request with its head, of a response without."""

    link: str
    rate_per_s: float
    """New connections a second."""
    count: int
    requests: int
    request_bytes: int
    response_bytes: str
    """Or several sizes by weight, as `1024:60,102400:40`."""
    timeout: Seconds
    hold: bool = False
    """All stay open until the last was answered, and each is asked once more then."""
    resets: bool = False
    """They end with RST instead of FIN."""
    sources: int = 1
    """Addresses that they begin from, one after the other."""
    to: ProxyEnd | None = None
    """Where they go instead of the sink."""
    http2: bool = False
    """The client speaks HTTP/2, which the server does not."""
    client_tls: str = ""
    """Version of TLS that the client speaks, or `any`; empty without TLS."""
    server_tls: str = ""
    resumes: bool = False
    """Sessions of TLS are resumed."""


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of times in nanoseconds; None where there is none."""

    p50_ns: float = 0.0
    p99_ns: float = 0.0
    max_ns: float = 0.0


@dataclass(frozen=True)
class TlsSeen:
    """Handshakes of TLS at one end."""

    full: int = 0
    resumed: int = 0
    agreed: Mapping[str, int] = field(default_factory=dict)
    """`TLS 1.3 TLS_AES_256_GCM_SHA384 X25519` → how many."""
    error: str = ""
    """Why one failed, the last time."""


@dataclass(frozen=True)
class ServerCounts:
    """What the sink's servers counted."""

    accepted: int = 0
    answered: int = 0
    body_bytes: int = 0
    closed: int = 0
    """Connections that the other end closed."""
    closed_here: int = 0
    """Those that the servers closed, as a request asked for."""
    reset: int = 0
    """Those that the other end reset."""
    tls: TlsSeen = TlsSeen()


@dataclass(frozen=True)
class ConnectionReport:
    """Results of all connections: asked = begun + not_begun; begun = completed + the sum of `failed`."""

    asked: int
    begun: int
    established: int
    completed: int
    failed: Mapping[str, int]
    """Number by kind of failure, in the words of FAILURES."""
    open_max: int
    """Established at once, at most."""
    transactions: int
    body_bytes: int
    begun_s: float
    """From the first SYN to the last."""
    answered_s: float
    """From the first SYN to the last byte of an answer."""
    handshake: Percentiles = Percentiles()
    tls_handshake: Percentiles = Percentiles()
    first_byte: Percentiles = Percentiles()
    response: Percentiles = Percentiles()
    reset_by_sink: int = 0
    """RSTs that the sink's kernel sent, among the refused and reset. None of those that went to a proxy, whose kernel ended them."""
    reset_by_path: int = 0
    """The rest: something between the ends sent them."""
    retransmits: int = 0
    """Segments that either end sent again."""
    overflows: int = 0
    """SYNs that the sink's own queues had no room for: the rig's limit, not the DUT's."""
    system_refused: str = ""
    """Why the source had no socket or port, if it had none."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """Status other than 200 → how many answers had it."""
    tls: TlsSeen = TlsSeen()
    """Of the client."""
    server: ServerCounts = ServerCounts()
    raw: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def not_begun(self) -> int:
        """The generator was late, or had no socket or port."""
        return self.asked - self.begun

    @property
    def balances(self) -> bool:
        """Every connection has one end."""
        return self.begun == self.completed + sum(self.failed.values())


class Connections(Protocol):
    """Begins connections at a link's source, answers them at its sink."""

    async def carry_out(self, load: ConnectionLoad) -> ConnectionReport:
        """Raises ToolFailed, HostError."""
