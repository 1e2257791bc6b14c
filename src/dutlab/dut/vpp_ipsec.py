"""VPP as the end of ESP tunnels, keyed by hand: per link one association per direction and a policy database on the inner port.

Words: ipsec_cli.c of VPP 21.01 and later. Keys are in a file that VPP executes and that is deleted with the command, because arguments of
vppctl(1) are visible to all users. An error of vppctl may repeat the line, so keys are removed from it.

VPP applies its policies to incoming ESP, AH and UDP only (ipsec_input.c): unencrypted TCP and ICMP from the source pass, but VPP sends
nothing unencrypted back, and the counters of the associations show which packets used them.

Written from the sources of VPP 23.02 to 26.06. VPP 26.10 took, listed and removed the tunnels of both suites; no encrypted packet was sent
through it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import ClassVar

from dutlab.dut.ipsec import TunnelEndState, carried, fed, refuse_own
from dutlab.dut.ipsec_rules import LinkTunnel, Suite, hidden, lines
from dutlab.dut.mode import UndoStep, network_pairs
from dutlab.dut.privilege import Root
from dutlab.dut.vpp_state import show
from dutlab.errors import CommandFailed
from dutlab.hosts.host import Host
from dutlab.hosts.programs import VPPCTL, Program
from dutlab.spec.testbed import Testbed
from dutlab.systems.plain import plain

# format_ipsec_sa() and format_ipsec_policy() in ipsec_format.c
_SPI = re.compile(r"^\[\d+\] sa \d+ \(\S+\) spi (\d+) ", re.MULTILINE)
_BYTES = re.compile(r"packets[: ]\d+ bytes[: ](\d+)")
_POLICY = re.compile(r"^\s+\[\d+\] priority ", re.MULTILINE)
# On success, `ipsec policy add` prints the policy's index among the counters; other commands print nothing.
_TAKEN = re.compile(r"policy-index:\d+\s*")
_PROTECT, _BYPASS, _DISCARD = 100, 50, 10
"""Priorities of policies; the highest that matches decides."""


@dataclass(frozen=True)
class VppEnd:
    """Tunnel end (dut/ipsec.py) of VPP."""

    programs: ClassVar[tuple[Program, ...]] = (VPPCTL,)
    suite: Suite

    async def undo(self, host: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the step that removes the tunnels. Raises HostError when there are associations or policies already."""
        refuse_own(host, await self.held(host), "`vppctl ipsec policy del …`, `vppctl ipsec sa del …`")
        # The commands that delete contain no key, so tunnels with any keys give the same commands.
        away = [line for t in LinkTunnel.all_of(testbed, self.suite) for line in _away(t)]
        script = "; ".join(f"vppctl {line}" for line in away)
        return [(await Root.on(host)).step("sh", "-c", script, why="no tunnel, as it was found")]

    async def apply(self, host: Host, tunnels: Sequence[LinkTunnel]) -> None:
        """Set the tunnels. Raises CommandFailed with VPP's message, HostError."""
        text = lines(*(tuple(_words(t, self.suite)) for t in tunnels))
        done = await (await Root.on(host)).run(["sh", "-c", fed('vppctl exec "$f"')], stdin=text, check=False)
        output = hidden(_TAKEN.sub("", plain(done.text)).strip() or done.errors.strip(), tunnels)
        if output or done.status != 0:  # vppctl ends with 0 even if VPP refuses
            raise CommandFailed(host=host.name, argv=done.argv, status=done.status, stderr_tail=output)

    async def held(self, host: Host) -> TunnelEndState:
        """Return the associations and policies that VPP lists; `detail` without a number shows no keys."""
        root = await Root.on(host)
        associations, policies = await show(root, "ipsec", "sa", "detail"), await show(root, "ipsec", "spd")
        return TunnelEndState(carried(associations, _SPI, _BYTES), len(_POLICY.findall(policies)))

    def policies(self, testbed: Testbed) -> int:
        """Return the number of policies: protect per direction and discard for each pair of networks, and bypass for the DUT's ESP."""
        return 3 * len(list(network_pairs(testbed))) + len(testbed.links)


def _words(t: LinkTunnel, suite: Suite) -> Iterator[str]:
    for start, end, spi, keys in t.associations:
        tunnel = f"tunnel src {start} dst {end}{' inbound' if spi == t.spi_in else ''}"
        yield f"ipsec sa add {spi} spi {spi} esp {suite.vpp.format(*keys)} {tunnel}"
    yield f"ipsec spd add {t.spi_in}"
    yield from (f"ipsec policy add {policy}" for policy in _policies(t))
    yield f"set interface ipsec spd {t.link.dut_in.interface} {t.spi_in}"


def _away(t: LinkTunnel) -> Iterator[str]:
    # `set interface ipsec spd … del` is in the help, but VPP does not read `del` (ipsec_cli.c); `ipsec spd del` also removes it from its
    # interface.
    yield from (f"ipsec policy del {policy}" for policy in _policies(t))
    yield f"ipsec spd del {t.spi_in}"
    yield from (f"ipsec sa del {spi}" for _, _, spi, _ in t.associations)


def _policies(t: LinkTunnel) -> Iterator[str]:
    """Yield the policies; `local` is the DUT's side in both directions."""
    _, dut = t.ends
    near = _range("remote", t.near)
    version = "ip6 " if t.link.source_address.version == 6 else ""  # noqa: PLR2004 - the version number of the protocol itself
    for far in t.far:
        both = f"{_range('local', far)} {near}"
        yield f"spd {t.spi_in} {version}inbound priority {_PROTECT} action protect sa {t.spi_in} {both}"
        yield f"spd {t.spi_in} {version}inbound priority {_DISCARD} action discard {both}"
        yield f"spd {t.spi_in} {version}outbound priority {_PROTECT} action protect sa {t.spi_out} {both}"
    yield f"spd {t.spi_in} {version}outbound priority {_BYPASS} action bypass {_range('local', dut)} {near}"


def _range(side: str, network: str) -> str:
    of = ip_network(network)
    return f"{side}-ip-range {of[0]} - {of[-1]}"
