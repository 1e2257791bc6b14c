"""Modes `gre`, `ipip` and `vxlan` of Linux: a router that ends a tunnel in the clear from the source of each link, by ip-link(8).

The tunnel is bound to the port below it. So its own packets leave by that port, and a route to the source through the tunnel does not
catch them. The engine's frames do not pass the source's kernel, so nothing wraps them: the modes are for iperf3, ping and the like.

VXLAN carries Ethernet: its ports have addresses (MAC) of ours, and each end knows that of the other, so there is no ARP inside. An end
that learned addresses from what arrives would keep them without the port below (vxlan_snoop() in drivers/net/vxlan/vxlan_core.c), and its
packets would take the route of those inside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut.ipsec import SOURCE, Router, TunnelledMode, pinged
from dutlab.dut.ipsec_rules import lines
from dutlab.dut.mode import Check, Mode, NeedsPrograms, Prober, UndoStep
from dutlab.errors import HostError, ToolMissing
from dutlab.hosts.host import NO_SUCH_PROGRAM, Host
from dutlab.hosts.programs import IP, PING, UNSHARE, Program
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.systems.modes import GRE, IPIP, VXLAN

_PROGRAMS = (IP, UNSHARE)
_MODULES = {
    GRE: "CONFIG_NET_IPGRE (module ip_gre)", IPIP: "CONFIG_NET_IPIP (module ipip)", VXLAN: "CONFIG_VXLAN (module vxlan)",
}  # fmt: skip
"""Mode, whose name is ip-link(8)'s of the kind of tunnel → what a kernel needs for it."""
_VXLAN_PORT = 4789
"""RFC 7348 section 8; ip-link(8) would take 8472."""


@dataclass(frozen=True)
class TunnelMode(TunnelledMode):
    """One kind of tunnel, on both ends of every link."""

    kernel_option: str

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """On both ends."""
        of_router = self.router.needs() if isinstance(self.router, NeedsPrograms) else {}
        return {SOURCE: (PING, *_PROGRAMS), "dut": (*_PROGRAMS, *of_router.get("dut", ()))}

    async def insist(self, dut: Host, testbed: Testbed) -> None:
        """Changes nothing. Raises HostError when a kernel has no such tunnel or a link is IPv6, ToolMissing without unshare(1)."""
        if any(link.source_address.version != 4 for link in testbed.links.values()):  # noqa: PLR2004 -- the version of the protocol itself
            raise HostError(f"mode {self.name} is for links of IPv4", host=dut.name, remedy="leave the mode out")
        for host in (dut, self._source()):
            asked = ["unshare", "--net", "ip", "link", "add", "name", "t", *self._kind(0, "192.0.2.1", "192.0.2.2")]
            done = await host.run(asked, check=False)
            if done.status == NO_SUCH_PROGRAM:
                raise ToolMissing(
                    "unshare is not there, so it is not known whether its kernel has the tunnel", tool="unshare", host=host.name,
                    remedy="install util-linux on it",
                )  # fmt: skip
            if done.status != 0:
                said = done.errors.strip().splitlines()
                raise HostError(
                    f"its kernel has no tunnel as mode {self.name} needs: {said[0] if said else f'`ip link` ended with {done.status}'}",
                    host=host.name,
                    remedy=f"boot a kernel with {self.kernel_option}, or leave the mode out",
                )

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Raises HostError when a kernel has no such tunnel, or a port has the name of one of ours."""
        await self.insist(dut, testbed)
        ours = [name for name, _ in named_tunnels(testbed)]
        steps = []
        for host in (dut, self._source()):
            there = {port["ifname"] for port in json.loads((await host.run(["ip", "-j", "link"])).text)}
            if taken := sorted(there & set(ours)):
                raise HostError(f"it has a port {taken[0]} already", host=host.name, remedy=f"`ip link del {taken[0]}`")
            script = "".join(f"ip link del {name} 2>/dev/null || true\n" for name in ours)
            steps.append(UndoStep(host.name, ("sh",), script, "no tunnel, as it was found"))
        return [*steps, *await self.router.undo(dut, testbed)]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Raises CommandFailed, HostError."""
        await self.router.apply(dut, testbed)
        for host, is_dut in ((dut, True), (self._source(), False)):
            await host.run(["ip", "-batch", "-"], stdin=lines(tuple(self._words(testbed, is_dut=is_dut))).encode())

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """The router; that a ping passes, and that both ends of the tunnel counted it in both directions."""
        del prober  # its frames would go past the tunnel
        ends = (dut, self._source())
        checks = await self.checks_of_state(dut, testbed)
        before = [await _counted(host, testbed) for host in ends]
        checks += [await pinged(ends[1], name, str(link.sink_address.ip)) for name, link in testbed.links.items()]
        for host, then in zip(ends, before, strict=True):
            now = await _counted(host, testbed)
            idle = sorted(f"{name} {way}" for (name, way), packets in now.items() if packets <= then.get((name, way), 0))
            used = len(now) == 2 * len(testbed.links) and not idle
            checks.append(
                Check(f"{host.name}: they pass through every tunnel, in both directions", used, f"idle: {', '.join(idle) or 'none'}")
            )
        return checks

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """The router, and the tunnels of both ends."""
        checks = await self.router.checks_of_state(dut, testbed)
        for host in (dut, self._source()):
            found = len(await _counted(host, testbed)) // 2
            checks.append(Check(f"{host.name}: a tunnel a link", found == len(testbed.links), f"{found} for {len(testbed.links)} links"))
        return checks

    def _words(self, testbed: Testbed, *, is_dut: bool) -> Iterator[str]:
        for number, (name, link) in enumerate(named_tunnels(testbed)):
            near, far = str(link.source_address.ip), str(link.dut_in_address.ip)
            own, other = (far, near) if is_dut else (near, far)
            port = link.dut_in.interface if is_dut else link.source.interface
            yield f"link add name {name} {' '.join(self._kind(number, own, other))} dev {port}"
            target = near if is_dut else str(link.sink_address.ip)
            if self.declared == VXLAN:
                yield f"link set dev {name} address {_mac(number, is_dut=is_dut)} addrgenmode none"  # no IPv6 of the port's own
                yield f"neighbour add {target} lladdr {_mac(number, is_dut=not is_dut)} dev {name} nud permanent"
            yield f"link set dev {name} up"
            # Routes to one address each, of the link's own ends: nothing that was there is replaced, and all of them go with the tunnel.
            yield f"route add {target}/32 dev {name}{'' if is_dut else f' src {near}'}"

    def _kind(self, number: int, own: str, other: str) -> list[str]:
        ends = ["type", self.name, "local", own, "remote", other]
        return [*ends, "id", str(number + 1), "dstport", str(_VXLAN_PORT), "nolearning"] if self.declared == VXLAN else ends


def named_tunnels(testbed: Testbed) -> Iterator[tuple[str, Link]]:
    """The tunnel of each link."""
    return ((f"dutlab-t{number}", link) for number, link in enumerate(testbed.links.values()))


def _mac(number: int, *, is_dut: bool) -> str:
    """Return the MAC of one end of a tunnel, administered locally (IEEE 802, bit 1 of the first octet)."""
    return f"02:00:00:00:{number:02x}:{1 + is_dut:02x}"


async def _counted(host: Host, testbed: Testbed) -> dict[tuple[str, str], int]:
    """Name of a tunnel that is up, and `rx` or `tx` → packets."""
    ours = {name for name, _ in named_tunnels(testbed)}
    ports = [
        port for port in json.loads((await host.run(["ip", "-j", "-s", "link"])).text) if port["ifname"] in ours and "UP" in port["flags"]
    ]
    return {(port["ifname"], way): int(port["stats64"][way]["packets"]) for port in ports for way in ("rx", "tx")}


def tunnel_modes(router: Router, hosts: Mapping[str, Host]) -> dict[str, Mode]:
    """The modes of a family, which need the source as well as the DUT."""
    return {mode.name: TunnelMode(mode, router, hosts.get(SOURCE), option) for mode, option in _MODULES.items()}
