"""Modes `gre`, `ipip` and `vxlan` of Linux: a router that ends a tunnel in the clear from the source of each link, by ip-link(8).

The tunnel is bound to the port below it. So its own packets leave by that port, and a route to the source through the tunnel does not
catch them. The engine's frames do not pass the source's kernel, so nothing wraps them: the modes are for iperf3, ping and the like.

VXLAN carries Ethernet: its ports have addresses (MAC) of ours, and each end knows that of the other, so there is no ARP inside. An end
that learned addresses from what arrives would keep them without the port below (vxlan_snoop() in drivers/net/vxlan/vxlan_core.c), and its
packets would take the route of those inside.

Of several tunnels a link (`vxlan`) the DUT has every one. The source has those that carry traffic, and a rule by source address leads into
each after the first. All ports of tunnels are in one group (ip-link(8)), so that they are deleted together, however many they are.
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
"""Mode, whose name is ip-link(8)'s of the kind of tunnel → what a kernel needs for it."""
_VXLAN_PORT = 4789
"""RFC 7348 section 8; ip-link(8) would take 8472."""
GROUP = 51820
"""Of all ports of tunnels."""
_PRIORITY = 1000
"""Of the rules that lead into tunnels: before the main table (32766, ip-rule(8))."""
_BACK_TABLE = 51820
"""Routing table on the DUT of the first link's port, where a rule leads into it; those of further links count up."""
_TABLE = 60000
"""Routing table at the source of the first tunnel that has one; those of further tunnels count up."""


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
        """Raises HostError when a kernel has no such tunnel, or a port has the name of one of ours."""
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
        """A script that takes the tunnels of a host away, if there are any."""
        return f"ip link del group {GROUP} 2>/dev/null || true\n"

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Raises CommandFailed, HostError."""
        await self.router.apply(dut, testbed)
        await self.apply_extras(testbed)
        for host, is_dut in ((dut, True), (self._source(), False)):
            text = lines(*(tuple(self._words(t, is_dut=is_dut)) for t in self._ports(testbed, is_dut=is_dut)))
            await host.run(["ip", "-batch", "-"], stdin=text.encode(), timeout_s=SET_S)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """The router; that pings pass, and that both ends of their tunnels counted them in both directions."""
        del prober  # its frames would go past the tunnel
        ends = (dut, self._source())
        checks = await self.checks_of_state(dut, testbed)
        before = [await _counted(host) for host in ends]
        checks += await self.pings(testbed)
        for host, then in zip(ends, before, strict=True):
            now = await _counted(host)
            used = [t.name for t in self._ports(testbed, is_dut=host is dut) if t.number in self.loaded]
            idle = [f"{name} {way}" for name in used for way in ("rx", "tx") if now.get((name, way), 0) <= then.get((name, way), 0)]
            what = f"{host.name}: they pass through every tunnel, in both directions"
            checks.append(Check(what, not idle, f"idle: {', '.join(idle) or 'none'}"))
        return checks

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """The router, and the tunnels of both ends."""
        checks = await self.router.checks_of_state(dut, testbed)
        for host in (dut, self._source()):
            ours = {t.name for t in self._ports(testbed, is_dut=host is dut)}
            count = len(ours & {name for name, _ in await _counted(host)})
            text = f"{count} of {len(ours)} for {len(testbed.links)} links"
            checks.append(Check(f"{host.name}: every port of a tunnel is up", count == len(ours), text))
        return checks

    def _extras(self, testbed: Testbed) -> Iterator[tuple[str, str]]:
        """Also the rules of the source."""
        yield from super()._extras(testbed)
        for t in tunnels_of(testbed, self.loaded[1:]):
            yield t.link.source.host, f"rule add from {t.inside}/32 lookup {table(t)} priority {_PRIORITY}"

    def _ports(self, testbed: Testbed, *, is_dut: bool) -> list[Tunnel]:
        """The tunnels that have a port on this end."""
        return tunnels_of(testbed, range(self.count) if is_dut else self.loaded)

    def _words(self, t: Tunnel, *, is_dut: bool) -> Iterator[str]:
        near, far = str(t.link.source_address.ip), str(t.link.dut_in_address.ip)
        own, other = (far, near) if is_dut else (near, far)
        port = t.link.dut_in.interface if is_dut else t.link.source.interface
        number = t.place * (MOST_TUNNELS + 1) + t.number + 1
        yield f"link add name {t.name} group {GROUP} {' '.join(self._kind(own, other, number))} dev {port}"
        target = str(t.inside) if is_dut else str(t.link.sink_address.ip)
        if self.declared == VXLAN:
            yield f"link set dev {t.name} address {_mac(t, is_dut=is_dut)} addrgenmode none"  # no IPv6 of the port's own
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
    """One kind of tunnel with one port a link at the DUT. A rule leads what comes from the sink into it, and not its own packets."""

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Raises HostError when an end cannot have the tunnel, or a port has the name of one of ours."""
        script = "".join(f"ip rule del {_rule(t)} 2>/dev/null || true\n" for t in self._ports(testbed, is_dut=True))
        return [*await super().undo(dut, testbed), UndoStep(dut.name, ("sh",), script, "no rule for a tunnel, as it was found")]

    def _ports(self, testbed: Testbed, *, is_dut: bool) -> list[Tunnel]:
        return tunnels_of(testbed, [0] if is_dut else self.loaded)


def lead_back(t: Tunnel) -> str:
    """Commands that have the DUT send what the sink answers into the tunnel, and the tunnel's own packets past it."""
    return f"ip route add {t.inside}/32 dev {t.name} table {_BACK_TABLE + t.place}\nip rule add {_rule(t)}\n"


def _rule(t: Tunnel) -> str:
    return f"iif {t.link.dut_out.interface} to {t.link.source_address.ip}/32 lookup {_BACK_TABLE + t.place} priority {_PRIORITY + t.place}"


def lead_into(t: Tunnel) -> Iterator[str]:
    """Has the source send what is for the sink into the tunnel, as `ip -batch` reads it.

    Routes to one address each, of the link's own ends: nothing that was there is replaced, and all of them go with the tunnel.
    """
    if not t.number:
        yield f"route add {t.link.sink_address.ip}/32 dev {t.name} src {t.inside}"
        return
    yield f"addr add {t.inside}/32 dev {t.name}"
    yield f"route add {t.link.sink_address.ip}/32 dev {t.name} table {table(t)}"


def table(t: Tunnel) -> int:
    """Routing table at the source of a tunnel after the first of its link."""
    return _TABLE + t.place * (MOST_TUNNELS + 1) + t.number


async def kernel_refuses(host: Host, kind: Sequence[str]) -> str | None:
    """Why it makes no port of this kind, in its words; None where it does. Changes nothing. Raises ToolMissing without unshare(1)."""
    done = await host.run(["unshare", "--net", "ip", "link", "add", "name", "t", *kind], check=False)
    if done.status == NO_SUCH_PROGRAM:
        raise ToolMissing(
            "unshare is not there, so nothing tells whether its kernel has the tunnel", tool="unshare", host=host.name,
            remedy="install util-linux on it",
        )  # fmt: skip
    if done.status == 0:
        return None
    complaints = done.errors.strip().splitlines()
    return complaints[0] if complaints else f"`ip link` ended with {done.status}"


def _mac(t: Tunnel, *, is_dut: bool) -> str:
    """Return the MAC of one end of a tunnel, administered locally (IEEE 802, bit 1 of the first octet)."""
    return f"02:00:{t.place:02x}:{t.number >> 8:02x}:{t.number & 0xFF:02x}:{1 + is_dut:02x}"


async def _counted(host: Host) -> dict[tuple[str, str], int]:
    """Name of a port that is up, and `rx` or `tx` → packets."""
    ports = json.loads((await host.run(["ip", "-j", "-s", "link"])).text)
    up = [port for port in ports if "UP" in port["flags"]]
    return {(port["ifname"], way): int(port["stats64"][way]["packets"]) for port in up for way in ("rx", "tx")}


def tunnel_modes(router: Router, hosts: Mapping[str, Host]) -> dict[str, Mode]:
    """The modes of a family, which need the source as well as the DUT."""
    return {mode.name: TunnelMode(mode, router, hosts.get(SOURCE), option, hosts=hosts) for mode, option in _MODULES.items()}
