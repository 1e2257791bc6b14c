"""Linux as the end of ESP tunnels, keyed by hand through ip-xfrm(8): as source, which encrypts its own packets, and as DUT.

To find out whether a kernel has ESP and the ciphers, it is asked for an association in a network namespace that ends with the command
(unshare(1)). The kernel then loads its modules, and nothing else on the host changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import ClassVar, Literal

from dutlab.dut.ipsec import TunnelEndState, carried, refuse_own
from dutlab.dut.ipsec_rules import LinkTunnel, Suite, lines
from dutlab.dut.linux_state import Runs
from dutlab.dut.mode import Check, UndoStep, network_pairs
from dutlab.dut.tunnelled import SET_S, pinged
from dutlab.errors import HostError, ToolMissing
from dutlab.hosts.host import NO_SUCH_PROGRAM, Host
from dutlab.hosts.programs import IP, UNSHARE, Program
from dutlab.spec.testbed import Testbed

_NONE = ("xfrm policy flush", "xfrm state flush")
# xfrm_state_info_print() and xfrm_policy_info_print() of iproute2. Not counted are policies of IKE daemons: those of sockets (`socket in`),
# and those without a template, which exempt the local network (strongSwan's plugin bypass-lan).
_SPI = re.compile(r"^\s+proto \S+ spi (0x[0-9a-f]+)", re.MULTILINE)
_BYTES = re.compile(r"lifetime current:\s+(\d+)\(bytes\)")
_POLICY = re.compile(r"^\s+dir (?:in|out|fwd) (?:action block .*$|.*\n\s+tmpl )", re.MULTILINE)
# RFC 5737, RFC 3849
_ANYWHERE = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}


@dataclass(frozen=True)
class XfrmEnd:
    """Tunnel end (dut/ipsec.py) by ip-xfrm(8): the source that encrypts its own packets, or the router that forwards them."""

    programs: ClassVar[tuple[Program, ...]] = (IP, UNSHARE)
    suite: Suite
    is_: Literal["source", "router"] = "source"

    async def undo(self, host: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the step that removes the tunnels.

        Raises HostError when there are tunnels or the kernel cannot encrypt; ToolMissing without unshare(1).
        """
        refuse_own(host, await self.held(host), "`ip xfrm policy flush; ip xfrm state flush`")
        await self.insist(host, testbed)
        return [away(host)]

    async def insist(self, host: Host, testbed: Testbed) -> None:
        """Check that the kernel can encrypt so. Raises HostError with its message, ToolMissing without unshare(1)."""
        await need_esp(host, testbed, self.suite)

    async def apply(self, host: Host, tunnels: Sequence[LinkTunnel]) -> None:
        """Set associations and policies. Raises CommandFailed, HostError."""
        text = lines(_NONE, *(tuple(self.words(t)) for t in tunnels))
        await host.run(["ip", "-batch", "-"], stdin=text.encode(), timeout_s=SET_S)

    async def held(self, host: Host) -> TunnelEndState:
        """Return the associations and policies that the kernel lists."""
        return await held(host)

    def policies(self, testbed: Testbed) -> int:
        """Return the number of policies: one per direction of each pair of networks, and in a router one more for forwarded packets."""
        return (3 if self.is_ == "router" else 2) * len(list(network_pairs(testbed)))

    def words(self, t: LinkTunnel) -> Iterator[str]:
        """Yield the associations and policies of a tunnel as lines for `ip -batch`."""
        to_dut, to_source = t.associations
        for start, end, spi, keys in (to_dut, to_source):
            protected = f"mode tunnel {self.suite.xfrm.format(*keys)}"
            yield f"xfrm state add src {start} dst {end} proto esp spi {spi:#x} reqid {t.spi_in} {protected}"
        # Packets out of a tunnel need a policy `fwd` if they are forwarded, and `in` if they are for the router itself
        # (xfrm_policy_check()).
        directions = {"out": to_source, "in": to_dut, "fwd": to_dut} if self.is_ == "router" else {"out": to_dut, "in": to_source}
        for far in t.far:
            for direction, (start, end, _, _) in directions.items():
                from_, to = (t.near, far) if (start, end) == t.ends else (far, t.near)
                template = f"tmpl src {start} dst {end} proto esp reqid {t.spi_in} mode tunnel"
                yield f"xfrm policy add src {from_} dst {to} dir {direction} {template}"


_LAST = 1000
"""Priority of policies that apply after those of the tunnels (priority 0)."""


@dataclass(frozen=True)
class RequiringEnd(XfrmEnd):
    """Router that drops unprotected packets from the networks of its tunnels, including packets to itself."""

    is_: Literal["source", "router"] = "router"

    async def insist(self, host: Host, testbed: Testbed) -> None:
        """Check the kernel. Raises HostError also where the policy would drop our own login or IPv6 neighbour discovery."""
        if any(link.source_address.version != 4 for link in testbed.links.values()):  # noqa: PLR2004 -- the version of the protocol itself
            raise HostError(f"mode {self.suite.mode.name} is for links of IPv4", host=host.name, remedy="leave the mode out")
        client = (await host.run(["sh", "-c", "echo ${SSH_CONNECTION%% *}"])).text.strip()  # set by sshd(8): the client's address
        if client and any(ip_address(client) in link.source_address.network for link in testbed.links.values()):
            raise HostError(
                f"its login is from {client}, and mode {self.suite.mode.name} drops unprotected packets from there", host=host.name,
                remedy="reach it over another network",
            )  # fmt: skip
        await super().insist(host, testbed)

    def policies(self, testbed: Testbed) -> int:
        """Return the number of policies: two more per link."""
        return super().policies(testbed) + 2 * len(testbed.links)

    def words(self, t: LinkTunnel) -> Iterator[str]:
        """Yield the tunnel's lines, then policies that drop the rest. ESP passes: Linux checks the decrypted packet (`no_policy`)."""
        yield from super().words(t)
        for direction in ("in", "fwd"):
            yield f"xfrm policy add src {t.near} dst 0.0.0.0/0 dir {direction} action block priority {_LAST}"

    async def drops(self, source: Host, testbed: Testbed) -> list[Check]:
        """Check that the DUT answers no unprotected ping to its own address, which no tunnel covers."""
        checks = []
        for name, link in testbed.links.items():
            check = await pinged(source, name, str(link.dut_in_address.ip))
            checks.append(Check(f"link {name}: the DUT itself takes nothing unprotected", not check.passed, check.found))
        return checks


def away(host: Host) -> UndoStep:
    """Return the step that deletes all associations and policies."""
    return UndoStep(host.name, ("ip", "-batch", "-"), lines(_NONE), "no tunnel, as it was found")


async def held(runs: Runs) -> TunnelEndState:
    """Return the associations and policies of a Linux kernel, without the keys."""
    associations = (await runs.run(["ip", "-s", "xfrm", "state", "list", "nokeys"])).text
    return TunnelEndState(carried(associations, _SPI, _BYTES), len(_POLICY.findall((await runs.run(["ip", "xfrm", "policy"])).text)))


async def need_esp(host: Host, testbed: Testbed, suite: Suite) -> None:
    """Check that the kernel can encrypt with `suite`. Raises HostError with its message; ToolMissing without unshare(1)."""
    nothing = suite.xfrm.format(*("00" * n for n in suite.key_bytes))
    for version in sorted({link.source_address.version for link in testbed.links.values()}):
        start, end = _ANYWHERE[version]
        asked = f"xfrm state add src {start} dst {end} proto esp spi 0x1000 mode tunnel {nothing}\n"
        done = await host.run(["unshare", "--net", "ip", "-batch", "-"], stdin=asked.encode(), check=False)
        if done.status == NO_SUCH_PROGRAM:
            raise ToolMissing(
                "unshare is not installed, so it is not known whether its kernel has ESP", tool="unshare", host=host.name,
                remedy="install util-linux on it",
            )  # fmt: skip
        if done.status != 0:
            complaint = next(iter(done.errors.strip().splitlines()), f"`ip xfrm` ended with {done.status}")
            raise HostError(
                f"its kernel cannot encrypt as mode {suite.mode.name} needs: {complaint}",
                host=host.name,
                remedy=f"boot a kernel with {'CONFIG_INET_ESP' if version == 4 else 'CONFIG_INET6_ESP'} (module esp{version}) and "  # noqa: PLR2004
                f"{suite.xfrm.split(' 0x')[0]}, or leave the mode out",
            )
