"""OpenBSD as the end of ESP tunnels, keyed by hand through ipsecctl(8), with the syntax of ipsec.conf(5).

It has only mode `ipsec-cbc`. ipsecctl refuses AES-GCM and all other counter-mode ciphers with static keys, because the counter restarts
with each use of the key (parse.y, validate_sa(): `… is disallowed with static keys`; RFC 4106 section 2).

Written from the sources of OpenBSD 7.6 (ipsecctl) and tested against transcripts that follow them; never run on a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dutlab.dut.ipsec import TunnelEndState, carried, refuse_own
from dutlab.dut.ipsec_rules import AES_CBC_SHA256, LinkTunnel, Suite, lines
from dutlab.dut.mode import UndoStep, network_pairs
from dutlab.dut.privilege import Root
from dutlab.hosts.host import Host
from dutlab.hosts.programs import Program
from dutlab.spec.testbed import Testbed

SUITES = (AES_CBC_SHA256,)
# ipsecctl_print_sa() and ipsecctl_print_flow() in ipsecctl.c, print_life() in pfkdump.c
_SPI = re.compile(r"^\w+ \w+ from \S+ to \S+ spi (0x[0-9a-f]+)", re.MULTILINE)
_BYTES = re.compile(r"^\s+lifetime_cur: alloc \d+ bytes (\d+)", re.MULTILINE)
_FLOW = re.compile(r"^flow ", re.MULTILINE)


@dataclass(frozen=True)
class IpsecctlEnd:
    """Tunnel end (dut/ipsec.py) of OpenBSD, by ipsecctl(8)."""

    programs: ClassVar[tuple[Program, ...]] = ()
    suite: Suite

    async def undo(self, host: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the step that removes the tunnels. Raises HostError when there are tunnels already."""
        del testbed
        refuse_own(host, await self.held(host), "`ipsecctl -F`")
        return [(await Root.on(host)).step("ipsecctl", "-F", why="no tunnel, as it was found")]

    async def apply(self, host: Host, tunnels: Sequence[LinkTunnel]) -> None:
        """Set associations and flows. Raises CommandFailed, HostError."""
        root = await Root.on(host)
        await root.run(["ipsecctl", "-F"])
        await root.run(["ipsecctl", "-f", "-"], stdin=lines(*(tuple(_words(t)) for t in tunnels)))

    async def held(self, host: Host) -> TunnelEndState:
        """Return the associations and flows that ipsecctl lists; it shows keys only with `-k`."""
        root = await Root.on(host)
        associations, flows = (await root.run(["ipsecctl", "-v", "-s", "sa"])).text, (await root.run(["ipsecctl", "-s", "flow"])).text
        return TunnelEndState(carried(associations, _SPI, _BYTES), len(_FLOW.findall(flows)))

    def policies(self, testbed: Testbed) -> int:
        """Return the number of flows: one per direction of each pair of networks."""
        return 2 * len(list(network_pairs(testbed)))


def _words(t: LinkTunnel) -> Iterator[str]:
    source, dut = t.ends
    for start, end, spi, (cipher, hash_) in t.associations:
        transforms = f"auth hmac-sha2-256 enc aes-128 authkey 0x{hash_} enckey 0x{cipher}"
        yield f"esp tunnel from {start} to {end} spi {spi:#010x} {transforms}"
    for far in t.far:
        # Both directions are explicit: a flow that is written once gets `type use` for incoming packets, which also admits unencrypted
        # ones.
        yield f"flow esp in from {t.near} to {far} local {dut} peer {source} type require"
        yield f"flow esp out from {far} to {t.near} local {dut} peer {source} type require"
