"""FreeBSD and pfSense as the end of ESP tunnels, keyed by hand through setkey(8).

Written from the sources of FreeBSD 14 (setkey) and tested against transcripts that follow them; never run on a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dutlab.dut.ipsec import TunnelEndState, carried, refuse_own
from dutlab.dut.ipsec_rules import LinkTunnel, Suite, lines
from dutlab.dut.mode import UndoStep, network_pairs
from dutlab.dut.privilege import Root
from dutlab.errors import CommandFailed
from dutlab.hosts.host import Host
from dutlab.hosts.programs import Program
from dutlab.spec.testbed import Testbed

# pfkey_sadump() and pfkey_spdump() in libipsec's pfkey_dump.c
_SPI = re.compile(r"^\t\S+ mode=\S+ spi=(\d+)\(", re.MULTILINE)
_BYTES = re.compile(r"^\tcurrent: (\d+)\(bytes\)", re.MULTILINE)
_POLICY = re.compile(r"^\t(?:in|out) ipsec$", re.MULTILINE)
_FLUSH = "setkey -F; setkey -FP"
_UNLOAD = "if kldstat -q -m ipsec; then kldunload ipsec; fi"


@dataclass(frozen=True)
class SetkeyEnd:
    """Tunnel end (dut/ipsec.py) of FreeBSD, by setkey(8)."""

    programs: ClassVar[tuple[Program, ...]] = ()
    suite: Suite

    async def undo(self, host: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the step that removes the tunnels. Raises HostError when there are tunnels already."""
        del testbed
        root = await Root.on(host)
        # kldstat must run before setkey, whose newer versions load the module (setkey.c, main()).
        loaded = (await root.run(["kldstat", "-q", "-m", "ipsec"], check=False)).status == 0
        refuse_own(host, await self.held(host), "`setkey -F; setkey -FP`")
        removal = _FLUSH if loaded else f"{_FLUSH}; {_UNLOAD}"
        return [root.step("sh", "-c", removal, why="no tunnel, as it was found")]

    async def apply(self, host: Host, tunnels: Sequence[LinkTunnel]) -> None:
        """Set associations and policies. Raises CommandFailed, HostError."""
        text = lines(["flush ;", "spdflush ;"], *(tuple(_words(t, self.suite)) for t in tunnels))
        done = await (await Root.on(host)).run(["setkey", "-c"], stdin=text)
        if output := done.text.strip():  # setkey ends with 0 although the kernel refused a line (setkey.c, postproc())
            raise CommandFailed(host=host.name, argv=done.argv, status=done.status, stderr_tail=output)

    async def held(self, host: Host) -> TunnelEndState:
        """Return the associations and policies that setkey prints."""
        root = await Root.on(host)
        associations, policies = (await root.run(["setkey", "-D"])).text, (await root.run(["setkey", "-DP"])).text
        return TunnelEndState(carried(associations, _SPI, _BYTES), len(_POLICY.findall(policies)))

    def policies(self, testbed: Testbed) -> int:
        """Return the number of policies: one per direction of each pair of networks."""
        return 2 * len(list(network_pairs(testbed)))


def _words(t: LinkTunnel, suite: Suite) -> Iterator[str]:
    source, dut = t.ends
    for start, end, spi, keys in t.associations:
        yield f"add {start} {end} esp {spi:#x} -m tunnel {suite.setkey.format(*keys)} ;"
    for far in t.far:
        yield f"spdadd {t.near} {far} any -P in ipsec esp/tunnel/{source}-{dut}/require ;"
        yield f"spdadd {far} {t.near} any -P out ipsec esp/tunnel/{dut}-{source}/require ;"
