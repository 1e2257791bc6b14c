"""One test of `iperf3 -u`: datagrams of one length from a socket of the sender to one of the receiver, and what both ends say of them.

What arrived is taken from the payload that the server counted: its own count of datagrams is the highest number that it saw, so that
what was lost at the end is missing in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from dutlab.errors import ToolFailed
from dutlab.hosts.host import Done, Host
from dutlab.tools.iperf3.program import PROGRAM, TOOL, ended, listen, run_client
from dutlab.tools.json_text import Unreadable, UnreadableError, member, read_object

GRACE_S = 15.0


@dataclass(frozen=True)
class DatagramEnd:
    """A host, the address that iperf3 is bound to there, and the cores that it runs on."""

    host: Host
    address: str
    cores: Sequence[int] = ()


@dataclass(frozen=True)
class Datagrams:
    """What is sent: `length` bytes of payload each, `rate` a second of all streams together; None is as fast as it can."""

    length: int
    rate: float | None
    seconds: float
    """iperf3 takes whole ones: it is rounded up."""
    streams: int = 1
    omit_s: int = 0
    bits_per_s: float | None = None
    """Instead of `rate`: of payload, of all streams together."""

    @property
    def whole_seconds(self) -> int:
        """What iperf3 is told."""
        return max(1, math.ceil(self.seconds))


@dataclass(frozen=True)
class Sent:
    """What became of them."""

    sent: int
    received: int
    out_of_order: int
    seconds: float
    raw: Mapping[str, bytes] = field(default_factory=dict)
    repairs: Sequence[str] = ()


async def send(near: DatagramEnd, far: DatagramEnd, datagrams: Datagrams, *, name: str, first_port: int) -> Sent:
    """From a client on `near` to a server on `far`; `name` begins the names of the raw files. Raises ToolFailed, ToolMissing, HostError."""
    async with AsyncExitStack() as ended_at_exit:
        port, server = await listen(far.host, far.address, first_port, ended_at_exit, cores=far.cores)
        argv = [*near.host.system.pinned(near.cores), PROGRAM, "-c", far.address, "-p", str(port), "-B", near.address, "-u", "-J"]
        argv += ["-l", str(datagrams.length), "-b", _bit_rate(datagrams), "-P", str(datagrams.streams), "-t", str(datagrams.whole_seconds)]
        argv += ["-O", str(datagrams.omit_s)] if datagrams.omit_s else []
        client = await run_client(
            near.host, argv, timeout_s=datagrams.omit_s + datagrams.whole_seconds + GRACE_S, name=name, lets="TCP and UDP"
        )
        served = await ended(server, client)
    raw = {f"iperf3-{name}-client.json": client.stdout, f"iperf3-{name}-server.json": served.stdout}
    try:
        return read_ends(client, served, datagrams.length, raw)
    except UnreadableError as e:
        said = client.complaint
        raise ToolFailed(f"{name}: {e}{f'; on stderr: {said}' if said else ''}", tool=TOOL, host=near.host.name, raw=raw) from e


def read_ends(client: Done, server: Done, length: int, raw: Mapping[str, bytes]) -> Sent:
    """Out of the client's report, and the server's where the client's has nothing of what was received. Raises UnreadableError."""
    document, repairs = read_object(client.stdout)
    if (error := document.get("error")) is not None:
        raise UnreadableError(f"it reports: {str(error).removeprefix('error - ')}", Unreadable.REPORTED)
    end = member(document, "end")
    total, received = member(end, "sum_sent") or member(end, "sum"), member(end, "sum_received")
    if not received:  # before 3.7 only the server tells; its `bytes` are what it received
        served, more = read_object(server.stdout)
        received, repairs = member(member(served, "end"), "sum"), [*repairs, *more]
    sent, came, seconds = total.get("packets"), received.get("bytes"), total.get("seconds")
    if not isinstance(sent, int) or not isinstance(came, int) or not isinstance(seconds, int | float) or seconds <= 0:
        raise UnreadableError("its report does not say what was sent and received (end.sum_sent.packets, end.sum_received.bytes)")
    streams = end.get("streams")
    ends = [member(s, "udp") for s in streams if isinstance(s, Mapping)] if isinstance(streams, list) else []
    out_of_order = sum(n for e in ends if isinstance(n := e.get("out_of_order"), int))
    return Sent(sent, came // length, out_of_order, float(seconds), raw, repairs)


def _bit_rate(datagrams: Datagrams) -> str:
    """Payload bits a second of one stream (`-b`); 0 is not a limit."""
    bits = datagrams.bits_per_s if datagrams.rate is None else datagrams.rate * datagrams.length * 8
    return "0" if bits is None else str(max(1, round(bits / datagrams.streams)))
