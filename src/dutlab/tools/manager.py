"""Management station at the source: SNMP queries to the DUT's own address, and their results (RFC 2544 section 11.2).

One python3 process on the source sends all queries of a link through the source's network stack, so that a query costs only one datagram.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dutlab.errors import HostError
from dutlab.hosts.host import Host, Process
from dutlab.spec.testbed import Testbed

ANSWER_S = 0.8
"""Time limit of an answer: less than the one second between queries."""
# SNMPv1 (RFC 1157), community "public", GetRequest of sysUpTime.0 (1.3.6.1.2.1.1.3.0). A connected socket reports ICMP port unreachable.
_PROGRAM = """
import socket, sys
to, wait_s = sys.argv[1], float(sys.argv[2])
before = bytes.fromhex("302902010004067075626c6963a01c0204")
after = bytes.fromhex("020100020100300e300c06082b060102010103000500")
s = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(wait_s)
s.connect((to, 161))
for n, _ in enumerate(sys.stdin, 1):
    request = n.to_bytes(4, "big")
    try:
        s.send(before + request + after)
        while request not in s.recv(2048):
            pass
        result = "answered"
    except ConnectionRefusedError:
        result = "refused: nothing listens there"
    except socket.timeout:
        result = "not answered"
    except OSError as e:
        result = f"not sent: {e.strerror}"
    print(result, flush=True)
"""


class Manager:
    """A methods.dut_ports.ConcurrentWork: each step sends a query to the DUT's address that is the gateway of the link's source."""

    def __init__(self, hosts: Mapping[str, Host], testbed: Testbed) -> None:
        self._hosts, self._testbed = hosts, testbed
        self._running: dict[str, Process] = {}

    async def step(self, link: str, number: int) -> str:
        """Send a query; return `answered`, `refused: …`, `not answered` or `not sent: …`."""
        try:
            program = self._running.get(link) or await self._start(link)
            await program.write(b"\n")
            reply = (await asyncio.wait_for(program.readline(), ANSWER_S * 10)).decode().strip()
        except (HostError, TimeoutError) as e:
            return f"not sent: {e}"
        if not reply:
            await self._running.pop(link).end()
            return "not sent: python3 of the source cannot run"
        return reply

    async def _start(self, link: str) -> Process:
        path = self._testbed.links[link]
        to = str(path.dut_in_address.ip)
        self._running[link] = await self._hosts[path.source.host].spawn(["python3", "-c", _PROGRAM, to, str(ANSWER_S)])
        return self._running[link]
