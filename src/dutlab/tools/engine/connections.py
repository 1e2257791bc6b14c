"""Both ends of TCP connections: a methods.connection_ports.Connections by the engine's `tcp-client` and `tcp-server`.

The server listens on separate ports of the sink's test address for one trial, and ends with it. The number of sockets of a process is
limited (RLIMIT_NOFILE), so many simultaneous connections need several clients, each with its own server and ports.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from dutlab.dut.mode import Announce
from dutlab.errors import ToolFailed
from dutlab.hosts.host import Host, Process
from dutlab.hosts.running import together
from dutlab.methods.connection_ports import FAILURES, ConnectionLoad, ConnectionReport, Percentiles, ServerCounts, TlsSeen
from dutlab.spec.testbed import Testbed
from dutlab.tools.engine.agent import TOOL
from dutlab.tools.engine.protocol import TcpClientDone, TcpFailed, TcpServerReady, TcpServerSeen, TcpTimes, TcpTls
from dutlab.tools.engine.source_addresses import SourceAddresses
from dutlab.tools.engine.typed import MisfitError, read

FIRST_PORT = 20000
PORTS_EACH = 16
MOST_EACH = 16_000
"""Most connections of a client that are open at once, if its host allows more sockets."""
_SPARE_FILES = 128
_GRACE_S = 20.0
T = TypeVar("T")


@dataclass(frozen=True)
class _End:
    """A host, the first words of its commands, and its addresses in the test."""

    host: Host
    engine: tuple[str, ...]
    addresses: tuple[str, ...]

    @property
    def address(self) -> str:
        """The port's own address."""
        return self.addresses[0]


class EngineConnections:
    """TCP loads. `cpus` is host → cores; `binaries` is host → path of the engine; `announce` gets addresses before they exist."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        testbed: Testbed,
        cpus: Mapping[str, Sequence[int]],
        binaries: Mapping[str, str],
        announce: Announce,
    ) -> None:
        self._hosts, self._testbed, self._cpus, self._binaries = hosts, testbed, cpus, binaries
        self._addresses = SourceAddresses(hosts, announce)
        self._begun = 0
        """Connections of earlier trials: their addresses and ports may be in TIME-WAIT for a minute, so others come first."""

    async def carry_out(self, load: ConnectionLoad) -> ConnectionReport:
        """Carry out a load and return its report. Raises ToolFailed, HostError."""
        link = self._testbed.links[load.link]
        source = self._end(link.source.host, *await self._addresses.of(link, load.sources))
        sink = self._end(link.sink.host, str(link.sink_address.ip))
        each = await self._most_each(source.host, sink.host) if load.hold else load.count
        several, first = max(1, math.ceil(load.count / each)), self._begun
        self._begun += load.count
        shares = [_share(load, n, several) for n in range(several)]
        if load.to is None:  # each client has its own server and ports
            targets = [(sink.address, _ports(n), first) for n in range(several)]
        else:  # a proxy knows only the first server; clients differ by their first connection
            address = load.to.address or str(link.dut_in_address.ip)
            apart = math.ceil(load.count / several)
            targets = [(address, load.to.ports, first + n * apart) for n in range(several)]
        async with AsyncExitStack() as ended:
            servers = [await _server(sink, _ports(n), load, ended) for n in range(several if load.to is None else 1)]
            clients = await together(_client(source, *target, share) for target, share in zip(targets, shares, strict=True))
            server_counts = [await _asked(server, sink.host) for server in servers]
        raw = json.dumps({"clients": [asdict(client) for client in clients], "servers": [asdict(server) for server in server_counts]})
        return _report(clients, server_counts, through_proxy=load.to is not None, raw=f"{raw}\n".encode())

    def _end(self, name: str, *addresses: str) -> _End:
        host = self._hosts[name]
        return _End(host, (*host.system.pinned(self._cpus.get(name) or ()), self._binaries[name]), addresses)

    @staticmethod
    async def _most_each(*hosts: Host) -> int:
        limits = [(await host.run(["sh", "-c", "ulimit -Hn"])).text.strip() for host in hosts]
        return max(1, min([MOST_EACH, *(int(limit) - _SPARE_FILES for limit in limits if limit.isdecimal())]))


def _share(load: ConnectionLoad, nth: int, several: int) -> ConnectionLoad:
    """Return the load of one of several clients, which begin together."""
    return replace(load, rate_per_s=load.rate_per_s / several, count=load.count // several + (nth < load.count % several))


async def _server(sink: _End, ports: str, load: ConnectionLoad, ended: AsyncExitStack) -> Process:
    argv = [*sink.engine, "tcp-server", sink.address, "--ports", ports, "--connections", str(load.count)]
    server = await sink.host.spawn([*argv, *_tls(load.server_tls, resumes=load.resumes)])
    ended.push_async_callback(server.end)
    line = await server.readline()
    _read(
        TcpServerReady,
        line,
        sink.host,
        f"the server does not listen on {sink.address} ports {ports}",
        "end the programs that use the ports",
    )
    return server


async def _client(source: _End, to: str, ports: str, first: int, load: ConnectionLoad) -> TcpClientDone:
    argv = [*source.engine, "tcp-client", "--from", ",".join(source.addresses), "--to", to, "--ports", ports, "--first", str(first)]
    argv += ["--rate", f"{load.rate_per_s:.6f}", "--count", str(load.count), "--requests", str(load.requests)]
    argv += ["--request-bytes", str(load.request_bytes), "--response-bytes", load.response_bytes]
    argv += ["--timeout", f"{load.timeout:g}s", *(["--hold"] if load.hold else []), *(["--reset"] if load.resets else [])]
    argv += [*(["--server-name", load.to.name] if load.to and load.to.name else []), *_tls(load.client_tls, resumes=load.resumes)]
    argv += ["--http2"] if load.http2 else []
    takes_s = load.count / load.rate_per_s * (2 if load.hold else 1) + load.timeout * (load.requests + 2)
    done = await source.host.run(argv, timeout_s=takes_s + _GRACE_S, check=False)
    return _read(TcpClientDone, done.stdout, source.host, f"the client ended with {done.status}", complaint=done.complaint)


def _tls(version: str, *, resumes: bool) -> list[str]:
    return ["--tls", version, *(["--resume"] if resumes else [])] if version else []


def _ports(nth: int) -> str:
    return f"{FIRST_PORT + nth * PORTS_EACH}-{FIRST_PORT + nth * PORTS_EACH + PORTS_EACH - 1}"


async def _asked(server: Process, host: Host) -> TcpServerSeen:
    await server.write(b"report\n")
    why, remedy = "the server ended during the trial", "check whether its host has memory left"
    return _read(TcpServerSeen, await server.readline(), host, why, remedy)


def _read(kind: type[T], line: bytes, host: Host, otherwise: str, remedy: str = "", *, complaint: str = "") -> T:
    """Read the output of an end as a `kind`. Raises ToolFailed with `otherwise` if it is anything else."""
    try:
        document = json.loads(line)
        if isinstance(document, dict) and "error" in document:
            complaint = read(TcpFailed, document).error
        else:
            return read(kind, document)
    except MisfitError as e:
        complaint = f"its output does not fit: {e}"
    except ValueError:
        complaint = complaint or "it printed nothing"
    raise ToolFailed(f"{otherwise}: {complaint}", tool=TOOL, host=host.name, remedy=remedy, raw={"tcp.txt": line})


def _report(clients: Sequence[TcpClientDone], servers: Sequence[TcpServerSeen], *, through_proxy: bool, raw: bytes) -> ConnectionReport:
    """Return the report of all pairs. A kernel's counters cover all its processes, so the largest reading covers all pairs."""
    of = [client.connections for client in clients]

    def total(name: str) -> int:
        return sum(getattr(c, name) for c in of)

    def risen(ends: Sequence[TcpClientDone | TcpServerSeen], name: str) -> int:
        return max(end.tcp.get(name, 0) for end in ends)

    def served(name: str) -> int:
        return sum(getattr(server.served, name) for server in servers)

    resets = total("refused") + total("reset")
    by_sink = 0 if through_proxy else min(resets, risen(servers, "OutRsts"))
    return ConnectionReport(
        asked=total("asked"),
        begun=total("begun"),
        established=total("established"),
        completed=total("completed"),
        failed={name: total(name) for name in FAILURES},
        open_max=total("open_max"),
        transactions=total("transactions"),
        body_bytes=total("body_bytes"),
        begun_s=max(c.begun_ns for c in of) / 1e9,
        answered_s=max(c.answered_ns for c in of) / 1e9,
        handshake=_times([c.handshake for c in of]),
        tls_handshake=_times([c.tls_handshake for c in of]),
        first_byte=_times([c.first_byte for c in of]),
        response=_times([c.response for c in of]),
        reset_by_sink=by_sink,
        reset_by_path=resets - by_sink,
        retransmits=risen(clients, "RetransSegs") + risen(servers, "RetransSegs"),
        overflows=risen(servers, "ListenOverflows"),
        system_refused="; ".join(dict.fromkeys(c.refused_by_system for c in of if c.refused_by_system)),
        statuses=_added(c.statuses for c in of),
        tls=_tls_seen([c.tls for c in of]),
        server=ServerCounts(
            accepted=served("accepted"),
            answered=served("answered"),
            body_bytes=served("body_bytes"),
            closed=served("closed"),
            closed_here=served("closed_here"),
            reset=served("reset"),
            tls=_tls_seen([server.served.tls for server in servers]),
        ),
        raw={"connections.json": raw},
    )


def _times(of: Sequence[TcpTimes]) -> Percentiles:
    """Return the times of one client, or the worst times of several."""
    return Percentiles(float(max(t.p50_ns for t in of)), float(max(t.p99_ns for t in of)), float(max(t.max_ns for t in of)))


def _added(counts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    """Return the sum for each name."""
    return dict(sum((Counter(of) for of in counts), Counter[str]()))


def _tls_seen(of: Sequence[TcpTls]) -> TlsSeen:
    errors = dict.fromkeys(tls.error for tls in of if tls.error)
    return TlsSeen(sum(tls.full for tls in of), sum(tls.resumed for tls in of), _added(tls.agreed for tls in of), "; ".join(errors))
