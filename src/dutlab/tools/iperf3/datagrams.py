"""One test of `iperf3 -u`: datagrams of one length from a socket of the sender to one of the receiver, and the counts of both ends.

Since 3.11, received datagrams follow from the payload that the server counted. The server's count of datagrams is the highest number that
it saw, so it lacks datagrams lost at the end. Before 3.11 a server prints 0 bytes. Then received is sent less what the server missed: the
gaps in the numbers, and all after the highest number, unless they were sent in the last 10 ms. The server stops reading when the client is
done, so these may have arrived unread.

With a warm-up (-O) the two ends omit different seconds, and up to 3.13 a client counts losses in its own warm-up as lost. Then received is
the share of those sent that the server did not miss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from dutlab.errors import ToolFailed
from dutlab.hosts.host import Done, Host
from dutlab.tools.iperf3.json_output import sums_of
from dutlab.tools.iperf3.program import PROGRAM, TOOL, ended, listen, run_client
from dutlab.tools.json_text import Unreadable, UnreadableError, member, number, read_object

GRACE_S = 15.0
_UNREAD_S = 0.01
"""Time before the end; datagrams sent in it may still wait in the server's socket."""


@dataclass(frozen=True)
class DatagramEnd:
    """A host, the address that iperf3 is bound to there, and its cores."""

    host: Host
    address: str
    cores: Sequence[int] = ()


@dataclass(frozen=True)
class Datagrams:
    """Datagrams of a test: `length` bytes of payload each, `rate` a second of all streams together; None: as fast as it can."""

    length: int
    rate: float | None
    seconds: float
    """Duration; rounded up, since iperf3 takes whole seconds."""
    streams: int = 1
    omit_s: int = 0
    bits_per_s: float | None = None
    """Payload bits a second of all streams together, instead of `rate`."""

    @property
    def whole_seconds(self) -> int:
        """Duration in whole seconds, at least one."""
        return max(1, math.ceil(self.seconds))


@dataclass(frozen=True)
class Sent:
    """Account of the datagrams of a test."""

    sent: int
    received: int
    out_of_order: int
    seconds: float
    raw: Mapping[str, bytes] = field(default_factory=dict)
    repairs: Sequence[str] = ()


async def send(near: DatagramEnd, far: DatagramEnd, datagrams: Datagrams, *, name: str, first_port: int) -> Sent:
    """Send from a client on `near` to a server on `far`; `name` is in the names of raw files. Raises ToolFailed, ToolMissing, HostError."""
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
        complaint = client.complaint
        raise ToolFailed(f"{name}: {e}{f'; on stderr: {complaint}' if complaint else ''}", tool=TOOL, host=near.host.name, raw=raw) from e


def read_ends(client: Done, server: Done, length: int, raw: Mapping[str, bytes]) -> Sent:
    """Return the account from the client's report, and the server's where the client's lacks what was received. Raises UnreadableError."""
    document, repairs = read_object(client.stdout)
    if (error := document.get("error")) is not None:
        raise UnreadableError(f"it reports: {str(error).removeprefix('error - ')}", Unreadable.REPORTED)
    end, streams = member(document, "end"), member(document, "end").get("streams")
    ends = [member(s, "udp") for s in streams if isinstance(s, Mapping)] if isinstance(streams, list) else []
    out_of_order = sum(n for e in ends if isinstance(n := e.get("out_of_order"), int))
    total, received = member(end, "sum_sent"), member(end, "sum_received")
    if not total and not received:
        older = _before_3_11(document, server, length)
        result = replace(older, out_of_order=out_of_order, raw=raw, repairs=[*repairs, *older.repairs])
        return _without_warm_up(result, document, server)
    sent, came, seconds = total.get("packets"), received.get("bytes"), total.get("seconds")
    if not isinstance(sent, int) or not isinstance(came, int) or not isinstance(seconds, int | float) or seconds <= 0:
        raise UnreadableError("its report does not state what was sent and received (end.sum_sent.packets, end.sum_received.bytes)")
    return _without_warm_up(Sent(sent, came // length, out_of_order, float(seconds), raw, repairs), document, server)


def _without_warm_up(sent: Sent, document: Mapping[str, Any], server: Done) -> Sent:
    server_counts = _seen_by(server) if number(member(member(document, "start"), "test_start"), "omit") else {}
    packets, missed = number(server_counts, "packets"), server_counts.get("lost_packets")
    if not packets or not isinstance(missed, int):
        return sent
    return replace(sent, received=round(sent.sent * (1 - min(1.0, max(0, missed) / packets))))


def _seen_by(server: Done) -> Mapping[str, Any]:
    """Return the sum in the server's report; empty if the report cannot be read."""
    try:
        return member(member(read_object(server.stdout)[0], "end"), "sum")
    except UnreadableError:
        return {}


def _before_3_11(document: Mapping[str, Any], server: Done, length: int) -> Sent:
    sums = sums_of(document)
    size, seconds, came = (number(of, key) for of, key in ((sums.sent, "bytes"), (sums.sent, "seconds"), (sums.received, "packets")))
    if size is None or came is None or not seconds:
        raise UnreadableError("its report does not state what was sent and received (end.sum.bytes, packets, lost_packets)")
    sent = int(size // length)
    repairs = [*sums.repairs, *([f"its count of lost datagrams is below zero: {sums.below_zero}"] if sums.below_zero else [])]
    server_counts = _seen_by(server)
    highest, missed = number(server_counts, "packets"), number(server_counts, "lost_packets")
    if highest is None or missed is None:
        repairs.append("the server's report cannot be read: datagrams lost at the end of the test are not counted as lost")
    else:
        unseen = max(0.0, sent - highest)
        came = sent - missed - (unseen if unseen > sent / seconds * _UNREAD_S else 0)
    return Sent(sent, max(0, min(sent, int(came))), 0, seconds, repairs=repairs)


def _bit_rate(datagrams: Datagrams) -> str:
    """Return the payload bits a second of one stream (`-b`); 0 means unlimited."""
    bits = datagrams.bits_per_s if datagrams.rate is None else datagrams.rate * datagrams.length * 8
    return "0" if bits is None else str(max(1, round(bits / datagrams.streams)))
