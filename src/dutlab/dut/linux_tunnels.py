"""Modes `gre`, `ipip` and `vxlan` of Linux: a router that ends an unencrypted tunnel from the source of each link, by ip-link(8).

The tunnel is bound to the port below it. So its outer packets leave by that port, and a route to the source through the tunnel does not
affect them. The engine's frames do not pass the source's kernel, so nothing wraps them: the modes are for iperf3, ping and similar tools.

VXLAN carries Ethernet. Its ports get fixed MAC addresses, and each end is given that of the other, so the tunnel carries no ARP. The ends
do not learn addresses from frames: they would store them without the port below (vxlan_snoop() in drivers/net/vxlan/vxlan_core.c). Their
outer packets would then take the route of the inner ones.

With several tunnels per link (`vxlan`) the DUT has all of them. The source has those that carry traffic; a rule by source address selects
each after the first. All tunnel ports are in one group (ip-link(8)), so that one command deletes any number of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut.ipsec_rules import lines
from dutlab.dut.mode import Check, Mode, NeedsPrograms, Prober, UndoStep
from dutlab.dut.tunnelled import SET_S, SOURCE, Router, Tunnel, TunnelledMode, tunnels_of
from dutlab.errors import HostError, ToolMissing
from dutlab.hosts.host import NO_SUCH_PROGRAM, Host
from dutlab.hosts.programs import IP, PING, UNSHARE, Program
from dutlab.spec.testbed import Testbed
from dutlab.spec.tunnels import MOST_TUNNELS
from dutlab.systems.modes import GRE, IPIP, VXLAN

_PROGRAMS = (IP, UNSHARE)
_MODULES = {
    GRE: "CONFIG_NET_IPGRE (module ip_gre)", IPIP: "CONFIG_NET_IPIP (module ipip)", VXLAN: "CONFIG_VXLAN (module vxlan)",
}  # fmt: skip
"""Mode → kernel option that it needs. The mode's name is the tunnel type of ip-link(8)."""
_VXLAN_PORT = 4789
"""UDP port of RFC 7348 section 8; the default of ip-link(8) is 8472."""
GROUP = 51820
"""Group of all tunnel ports."""
_PRIORITY = 1000
"""Priority of rules that select tunnels: before the main table (32766, ip-rule(8))."""
_BACK_TABLE = 51820
"""Routing table on the DUT for the first link's port, in modes that select it by a rule; each further link has the next table."""
_TABLE = 60000
"""Routing table at the source for the first tunnel that needs one; each further tunnel has the next table."""


@dataclass(frozen=True)
class TunnelMode(TunnelledMode):
    """Mode with one type of tunnel, at both ends of every link."""

    kernel_option: str

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs that source and DUT need."""
        of_router = self.router.needs() if isinstance(self.router, NeedsPrograms) else {}
        return {SOURCE: (PING, *_PROGRAMS), "dut": (*_PROGRAMS, *of_router.get("dut", ()))}

    async def insist(self, dut: Host, testbed: Testbed) -> None:
        """Check that both kernels have the tunnel type. Changes nothing.

        Raises HostError when one lacks it or a link is IPv6, ToolMissing without unshare(1).
        """
        if any(link.source_address.version != 4 for link in testbed.links.values()):  # noqa: PLR2004 -- the version of the protocol itself
            raise HostError(f"mode {self.name} is for links of IPv4", host=dut.name, remedy="leave the mode out")
        for host in (dut, self._source()):
            await self._insist_on_kind(host, is_dut=host is dut)

    async def _insist_on_kind(self, host: Host, *, is_dut: bool) -> None:
        del is_dut
        if (refused := await kernel_refuses(host, self._kind("192.0.2.1", "192.0.2.2"))) is not None:
            raise HostError(
                f"its kernel has no tunnel as mode {self.name} needs: {refused}",
                host=host.name,
                remedy=f"boot a kernel with {self.kernel_option}, or leave the mode out",
            )

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that delete the tunnels.

        Raises HostError when a kernel lacks the tunnel type, or a port has the name or group of our ports.
        """
        await self.insist(dut, testbed)
        steps = self.undo_extras(testbed)
        for host in (dut, self._source()):
            ours = {t.name for t in self._ports(testbed, is_dut=host is dut)}
            there = json.loads((await host.run(["ip", "-j", "link"])).text)
            if taken := sorted(port["ifname"] for port in there if port["ifname"] in ours or port.get("group") == str(GROUP)):
                raise HostError(f"it has a port {taken[0]} already", host=host.name, remedy=f"`ip link del {taken[0]}`")
            steps.append(UndoStep(host.name, ("sh",), self.delete, "no tunnel, as it was found"))
        return [*steps, *await self.router.undo(dut, testbed)]

    @property
    def delete(self) -> str:
        """Script that deletes the tunnels of a host, if there are any."""
        return f"ip link del group {GROUP} 2>/dev/null || true\n"

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Set the router and the tunnels. Raises CommandFailed, HostError."""
        await self.router.apply(dut, testbed)
        await self.apply_extras(testbed)
        for host, is_dut in ((dut, True), (self._source(), False)):
            text = lines(*(tuple(self._words(t, is_dut=is_dut)) for t in self._ports(testbed, is_dut=is_dut)))
            await host.run(["ip", "-batch", "-"], stdin=text.encode(), timeout_s=SET_S)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check the router, that pings pass, and that both ends of their tunnels counted them in both directions."""
        del prober  # its frames would bypass the tunnel
        ends = (dut, self._source())
        checks = await self.checks_of_state(dut, testbed)
        before = [await _counted(host) for host in ends]
        checks += await self.pings(testbed)
        for host, then in zip(ends, before, strict=True):
            now = await _counted(host)
            used = [t.name for t in self._ports(testbed, is_dut=host is dut) if t.number in self.loaded]
            idle = [f"{name} {way}" for name in used for way in ("rx", "tx") if now.get((name, way), 0) <= then.get((name, way), 0)]
            what = f"{host.name}: frames pass through every tunnel, in both directions"
            checks.append(Check(what, not idle, f"idle: {', '.join(idle) or 'none'}"))
        return checks

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check the router, and the tunnels at both ends."""
        checks = await self.router.checks_of_state(dut, testbed)
        for host in (dut, self._source()):
            ours = {t.name for t in self._ports(testbed, is_dut=host is dut)}
            count = len(ours & {name for name, _ in await _counted(host)})
            text = f"{count} of {len(ours)} for {len(testbed.links)} links"
            checks.append(Check(f"{host.name}: every port of a tunnel is up", count == len(ours), text))
        return checks

    def _extras(self, testbed: Testbed) -> Iterator[tuple[str, str]]:
        """Yield the base class's lines, and the rules of the source."""
        yield from super()._extras(testbed)
        for t in tunnels_of(testbed, self.loaded[1:]):
            yield t.link.source.host, f"rule add from {t.inside}/32 lookup {table(t)} priority {_PRIORITY}"

    def _ports(self, testbed: Testbed, *, is_dut: bool) -> list[Tunnel]:
        """Return the tunnels that have a port at this end."""
        return tunnels_of(testbed, range(self.count) if is_dut else self.loaded)

    def _words(self, t: Tunnel, *, is_dut: bool) -> Iterator[str]:
        near, far = str(t.link.source_address.ip), str(t.link.dut_in_address.ip)
        own, other = (far, near) if is_dut else (near, far)
        port = t.link.dut_in.interface if is_dut else t.link.source.interface
        number = t.place * (MOST_TUNNELS + 1) + t.number + 1
        yield f"link add name {t.name} group {GROUP} {' '.join(self._kind(own, other, number))} dev {port}"
        target = str(t.inside) if is_dut else str(t.link.sink_address.ip)
        if self.declared == VXLAN:
            yield f"link set dev {t.name} address {_mac(t, is_dut=is_dut)} addrgenmode none"  # no IPv6 packets from the port itself
            yield f"neighbour add {target} lladdr {_mac(t, is_dut=not is_dut)} dev {t.name} nud permanent"
        yield f"link set dev {t.name} up"
        if is_dut:
            yield f"route add {target}/32 dev {t.name}"
        else:
            yield from lead_into(t)

    def _kind(self, own: str, other: str, number: int = 1) -> list[str]:
        ends = ["type", self.name, "local", own, "remote", other]
        return [*ends, "id", str(number), "dstport", str(_VXLAN_PORT), "nolearning"] if self.declared == VXLAN else ends


@dataclass(frozen=True)
class OnePortMode(TunnelMode):
    """Mode of one tunnel type with one port per link at the DUT. A rule selects it for packets from the sink, not for its outer packets."""

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that delete tunnels and rules.

        Raises HostError when an end cannot have the tunnel, or a port has the name or group of our ports.
        """
        script = "".join(f"ip rule del {_rule(t)} 2>/dev/null || true\n" for t in self._ports(testbed, is_dut=True))
        return [*await super().undo(dut, testbed), UndoStep(dut.name, ("sh",), script, "no rule for a tunnel, as it was found")]

    def _ports(self, testbed: Testbed, *, is_dut: bool) -> list[Tunnel]:
        return tunnels_of(testbed, [0] if is_dut else self.loaded)


def return_route(t: Tunnel) -> str:
    """Return commands that route packets from the sink into the tunnel, and the tunnel's outer packets outside it."""
    return f"ip route add {t.inside}/32 dev {t.name} table {_BACK_TABLE + t.place}\nip rule add {_rule(t)}\n"


def _rule(t: Tunnel) -> str:
    return f"iif {t.link.dut_out.interface} to {t.link.source_address.ip}/32 lookup {_BACK_TABLE + t.place} priority {_PRIORITY + t.place}"


def lead_into(t: Tunnel) -> Iterator[str]:
    """Yield lines for `ip -batch` that route the source's packets for the sink into the tunnel.

    Each route is to a single address, that of the link's sink. So no existing route is replaced, and all of them disappear with the tunnel.
    """
    if not t.number:
        yield f"route add {t.link.sink_address.ip}/32 dev {t.name} src {t.inside}"
        return
    yield f"addr add {t.inside}/32 dev {t.name}"
    yield f"route add {t.link.sink_address.ip}/32 dev {t.name} table {table(t)}"


def table(t: Tunnel) -> int:
    """Return the routing table at the source for a tunnel after the first of its link."""
    return _TABLE + t.place * (MOST_TUNNELS + 1) + t.number


async def kernel_refuses(host: Host, kind: Sequence[str]) -> str | None:
    """Return the kernel's error for a port of this type; None if it can make one. Raises ToolMissing without unshare(1)."""
    done = await host.run(["unshare", "--net", "ip", "link", "add", "name", "t", *kind], check=False)
    if done.status == NO_SUCH_PROGRAM:
        raise ToolMissing(
            "unshare is not installed, so it is not known whether its kernel has the tunnel", tool="unshare", host=host.name,
            remedy="install util-linux on it",
        )  # fmt: skip
    if done.status == 0:
        return None
    complaints = done.errors.strip().splitlines()
    return complaints[0] if complaints else f"`ip link` ended with {done.status}"


def _mac(t: Tunnel, *, is_dut: bool) -> str:
    """Return the locally administered MAC (IEEE 802, bit 1 of the first octet) of one end of a tunnel."""
    return f"02:00:{t.place:02x}:{t.number >> 8:02x}:{t.number & 0xFF:02x}:{1 + is_dut:02x}"


async def _counted(host: Host) -> dict[tuple[str, str], int]:
    """Return (name of a port that is up, `rx` or `tx`) → packets."""
    ports = json.loads((await host.run(["ip", "-j", "-s", "link"])).text)
    up = [port for port in ports if "UP" in port["flags"]]
    return {(port["ifname"], way): int(port["stats64"][way]["packets"]) for port in up for way in ("rx", "tx")}


def tunnel_modes(router: Router, hosts: Mapping[str, Host]) -> dict[str, Mode]:
    """Return the tunnel modes, which need the source as well as the DUT."""
    return {mode.name: TunnelMode(mode, router, hosts.get(SOURCE), option, hosts=hosts) for mode, option in _MODULES.items()}
