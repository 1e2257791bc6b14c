"""Mode `wireguard` of Linux: a router that ends a WireGuard tunnel from the source of each link, by ip-link(8) and wg(8).

Each end makes its private key itself, and hands it to its kernel; only the public one leaves the host. What comes from the sink is
routed into the tunnel by a rule on the port that it comes in by, so that the tunnel's own packets to the same source stay outside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut.ipsec import Router
from dutlab.dut.linux_tunnels import TunnelMode, named_tunnels
from dutlab.dut.mode import Mode, UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import WG, Program
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.systems.modes import WIREGUARD

_KERNEL_OPTION = "CONFIG_WIREGUARD (module wireguard)"
_PORT = 51820
"""UDP port of the first link's tunnel, as wg-quick's examples have it; those of further links count up."""
_TABLE = 51820
"""Routing table of the first link's tunnel on the DUT; those of further links count up."""
_PRIORITY = 1000
"""Priority of the rule that leads there: before the main table (32766, ip-rule(8))."""
_AROUND_BYTES = 60
"""IPv4 20, UDP 8, type 4, index 4, counter 8, tag 16: what WireGuard puts around a packet (physics/ceilings/tunnel.py)."""
# The shell's own input is its script, so a key cannot come that way.
_MAKE = """ip link add name {name} type wireguard
wg genkey | wg set {name} listen-port {port} private-key /proc/self/fd/0
ip link set dev {name} mtu {mtu}
wg show {name} public-key
"""


@dataclass(frozen=True)
class WireGuardMode(TunnelMode):
    """A tunnel of one peer at each end of every link."""

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """On both ends."""
        return {host: (*programs, WG) for host, programs in super().needs().items()}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Raises HostError when a kernel has no WireGuard, or a port has the name of one of ours."""
        script = "".join(f"ip rule del {_rule(at, link)} 2>/dev/null || true\n" for at, _, link in _numbered(testbed))
        return [*await super().undo(dut, testbed), UndoStep(dut.name, ("sh",), script, "no rule for a tunnel, as it was found")]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Raises CommandFailed, HostError."""
        await self.router.apply(dut, testbed)
        source = self._source()
        of_dut, of_source = await self._made(dut, testbed), await self._made(source, testbed)
        for host, keys in ((dut, of_source), (source, of_dut)):
            pairs = zip(_numbered(testbed), keys, strict=True)
            text = "".join(_peer(at, name, link, key, is_dut=host is dut) for (at, name, link), key in pairs)
            await host.run(["sh", "-e"], stdin=text.encode())

    async def _made(self, host: Host, testbed: Testbed) -> list[str]:
        """The public keys of its tunnels, which are not up yet."""
        mtus = {port["ifname"]: int(port["mtu"]) for port in json.loads((await host.run(["ip", "-j", "link"])).text)}
        script = ""
        for at, name, link in _numbered(testbed):
            port = link.source if host.name == link.source.host else link.dut_in
            script += _MAKE.format(name=name, port=_PORT + at, mtu=mtus[port.interface] - _AROUND_BYTES)
        keys = (await host.run(["sh", "-e"], stdin=script.encode())).text.split()
        if len(keys) != len(testbed.links):
            raise HostError(f"wg showed {len(keys)} public keys for {len(testbed.links)} tunnels", host=host.name)
        return keys

    def _kind(self, number: int, own: str, other: str) -> list[str]:
        del number, own, other
        return ["type", self.name]


def _peer(at: int, name: str, link: Link, key: str, *, is_dut: bool) -> str:
    near, far, sink = link.source_address.ip, link.dut_in_address.ip, link.sink_address.ip
    beyond, end = (near, near) if is_dut else (sink, far)
    text = f"wg set {name} peer {key} allowed-ips {beyond}/32 endpoint {end}:{_PORT + at}\nip link set dev {name} up\n"
    if not is_dut:
        return f"{text}ip route add {sink}/32 dev {name} src {near}\n"
    return f"{text}ip route add {near}/32 dev {name} table {_TABLE + at}\nip rule add {_rule(at, link)}\n"


def _rule(at: int, link: Link) -> str:
    return f"iif {link.dut_out.interface} to {link.source_address.ip}/32 lookup {_TABLE + at} priority {_PRIORITY + at}"


def _numbered(testbed: Testbed) -> Iterator[tuple[int, str, Link]]:
    """Number, name and link of each tunnel."""
    return ((at, name, link) for at, (name, link) in enumerate(named_tunnels(testbed)))


def wireguard_modes(router: Router, hosts: Mapping[str, Host]) -> dict[str, Mode]:
    """The mode, which needs the source as well as the DUT."""
    return {WIREGUARD.name: WireGuardMode(WIREGUARD, router, hosts.get("source"), _KERNEL_OPTION)}
