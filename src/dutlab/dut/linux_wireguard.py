"""Modes `wireguard` and `wireguard-go` of Linux: a router that ends WireGuard tunnels from the source of each link, by ip-link(8), wg(8).

Each end makes its own private key and passes it to its kernel; only the public key leaves the host. A rule on the sink's port routes
packets from the sink into the tunnel, so that the tunnel's outer packets to the same source stay outside.

With several tunnels per link, each is a peer of the DUT's one port, as at a concentrator. The source has a port and a key for each that
carries traffic. The keys of the other peers are random numbers without a private key.

In mode `wireguard-go` a process is the DUT's end (dut/wireguard_by.py), and the source's end where its kernel lacks WireGuard.
"""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut import tunnel_processes
from dutlab.dut.ipsec_rules import lines
from dutlab.dut.linux_tunnels import GROUP, OnePortMode, kernel_refuses, lead_into, return_route
from dutlab.dut.mode import Check, Mode, Prober
from dutlab.dut.tunnelled import SET_S, SOURCE, Router, Tunnel
from dutlab.dut.wireguard_by import BY_FAR_PROCESS, BY_KERNEL, BY_PROCESS, WireGuardBy
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import WG, WIREGUARD_GO, Program, insist, missing_on
from dutlab.spec.testbed import Testbed
from dutlab.spec.tunnels import inner_network, inner_source
from dutlab.systems import modes

_KERNEL_OPTION = f"CONFIG_WIREGUARD (module wireguard), take mode {modes.WIREGUARD_GO.name}"
_PORT = 51820
"""UDP port of the first link's tunnels, as in the examples of wg-quick; each further link has the next port."""
_AROUND_BYTES = 60
"""Bytes that WireGuard adds to a packet: IPv4 20, UDP 8, type 4, index 4, counter 8, tag 16 (physics/ceilings/tunnel.py)."""
_KEY_BYTES = 32
# The shell reads its script from standard input, so the key cannot be passed there.
_MAKE = """wg genkey | wg set {name} listen-port {port} private-key /proc/self/fd/0
ip link set dev {name} mtu {mtu} group {group}
wg show {name} public-key
"""


@dataclass(frozen=True)
class WireGuardMode(OnePortMode):
    """Mode of WireGuard: peers of the DUT at the source of every link."""

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs that both ends need."""
        return {host: (*programs, WG) for host, programs in super().needs().items()}

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Set the router and the tunnels. Raises CommandFailed, HostError."""
        await self.router.apply(dut, testbed)
        await self.apply_extras(testbed)
        source = self._source()
        of_dut, of_source = await self._made(dut, testbed, is_dut=True), await self._made(source, testbed, is_dut=False)
        # Ports with a fixed UDP port come up first: the others take any free one.
        first_tunnels_first = sorted(self._ports(testbed, is_dut=False), key=lambda t: t.number)
        scripts = {
            dut: "".join(self._peers_of_dut(t, of_source) for t in self._ports(testbed, is_dut=True)),
            source: "".join(_peer_of_source(t, of_dut[t.place, 0]) for t in first_tunnels_first),
        }
        for host, script in scripts.items():
            by = await self._by(host, is_dut=host is dut)
            await host.run(by.shell, stdin=script.encode(), timeout_s=SET_S)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check as for other tunnels, and that as many peers received and sent as have an end at the source (wg(8))."""
        checks = list(await super().verify(dut, testbed, prober))
        by = await self._by(dut, is_dut=True)
        for t in self._ports(testbed, is_dut=True):
            rows = [row.split() for row in (await dut.run([*by.command, "wg", "show", t.name, "transfer"])).text.splitlines()]
            used = sum(int(received) > 0 and int(sent) > 0 for _, received, sent in rows)
            what = f"{dut.name}: each peer of {t.name} with an end at the source received and sent"
            checks.append(Check(what, used == len(self.loaded), f"{used} of {len(rows)} peers by `wg show`, {len(self.loaded)} ends"))
        return checks

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check router and tunnels, and the number of the DUT's peers."""
        checks = await super().checks_of_state(dut, testbed)
        by = await self._by(dut, is_dut=True)
        for t in self._ports(testbed, is_dut=True):
            peers = len((await dut.run([*by.command, "wg", "show", t.name, "peers"])).text.split())
            checks.append(Check(f"{dut.name}: {self.count} peers of {t.name}", peers == self.count, str(peers)))
        return checks

    async def _by(self, host: Host, *, is_dut: bool) -> WireGuardBy:
        """Return the implementation of WireGuard on a host. Raises HostError, ToolMissing."""
        del host, is_dut
        return BY_KERNEL

    async def _made(self, host: Host, testbed: Testbed, *, is_dut: bool) -> dict[tuple[int, int], str]:
        """Make the ports, not yet up, and return (place of the link, number of the tunnel) → public key."""
        by, ports = await self._by(host, is_dut=is_dut), self._ports(testbed, is_dut=is_dut)
        mtus = {port["ifname"]: int(port["mtu"]) for port in json.loads((await host.run(["ip", "-j", "link"])).text)}
        script = by.begin([t.name for t in ports])
        for t in ports:
            below = t.link.dut_in if is_dut else t.link.source
            port = 0 if t.number else _PORT + t.place  # 0: any free port
            script += _MAKE.format(name=t.name, port=port, mtu=mtus[below.interface] - _AROUND_BYTES, group=GROUP)
        keys = (await host.run(by.shell, stdin=script.encode(), timeout_s=SET_S)).text.split()
        if len(keys) != len(ports):
            raise HostError(f"wg showed {len(keys)} public keys for {len(ports)} tunnels", host=host.name)
        return {(t.place, t.number): key for t, key in zip(ports, keys, strict=True)}

    def _peers_of_dut(self, t: Tunnel, keys: Mapping[tuple[int, int], str]) -> str:
        peers = []
        for number in range(self.count):
            key = keys.get((t.place, number)) or b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
            peers += ["[Peer]", f"PublicKey = {key}", f"AllowedIPs = {inner_source(t.link, t.place, number)}/32"]
            peers += [] if number else [f"Endpoint = {t.link.source_address.ip}:{_PORT + t.place}"]
        text = f"wg addconf {t.name} /proc/self/fd/0 <<'end'\n{lines(peers)}end\nip link set dev {t.name} up\n"
        text += return_route(t)
        return text + (f"ip route add {inner_network(t.place)} dev {t.name}\n" if self.count > 1 else "")

    def _kind(self, own: str, other: str, number: int = 1) -> list[str]:
        del own, other, number
        return ["type", modes.WIREGUARD.name]


@dataclass(frozen=True)
class WireGuardGoMode(WireGuardMode):
    """Mode of WireGuard by a process on the DUT, and on a source whose kernel lacks WireGuard."""

    @property
    def program_names(self) -> Sequence[str]:
        """Names of the DUT's programs, as `ps -o comm` prints them."""
        return (WIREGUARD_GO.name,)

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs that both ends need, with wireguard-go on the DUT; on the source the kernel decides."""
        of = super().needs()
        return {**of, "dut": (*of["dut"], WIREGUARD_GO)}

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check router, tunnels and peers, and add the implementation of WireGuard at each end."""
        checks = await super().checks_of_state(dut, testbed)
        for host in (dut, self._source()):
            by = await self._by(host, is_dut=host is dut)
            version = (await host.run(by.version)).text.strip().splitlines()
            checks.append(Check(f"{host.name}: WireGuard is {by.title}", bool(version), version[0] if version else "no version"))
        return checks

    async def _insist_on_kind(self, host: Host, *, is_dut: bool) -> None:
        if await self._by(host, is_dut=is_dut) is not BY_KERNEL:
            insist(await missing_on(host, [WIREGUARD_GO]))

    @property
    def delete(self) -> str:
        """Script that ends the processes and deletes the tunnels of a host."""
        return tunnel_processes.end(WIREGUARD_GO.name) + super().delete

    async def _by(self, host: Host, *, is_dut: bool) -> WireGuardBy:
        if is_dut:
            return BY_PROCESS
        return BY_KERNEL if await kernel_refuses(host, self._kind("", "")) is None else BY_FAR_PROCESS


def _peer_of_source(t: Tunnel, key: str) -> str:
    endpoint = f"{t.link.dut_in_address.ip}:{_PORT + t.place}"
    text = f"wg set {t.name} peer {key} allowed-ips {t.link.sink_address.ip}/32 endpoint {endpoint}\nip link set dev {t.name} up\n"
    return text + "".join(f"ip {line}\n" for line in lead_into(t))


def wireguard_modes(router: Router, hosts: Mapping[str, Host]) -> dict[str, Mode]:
    """Return the WireGuard modes, which need the source as well as the DUT."""
    kinds = {modes.WIREGUARD: WireGuardMode, modes.WIREGUARD_GO: WireGuardGoMode}
    return {mode.name: kind(mode, router, hosts.get(SOURCE), _KERNEL_OPTION, hosts=hosts) for mode, kind in kinds.items()}
