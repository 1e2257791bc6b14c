"""Mode `openvpn` of Linux: a router that ends an OpenVPN tunnel from the source of each link, by a process with a TUN at each end.

Each end makes its own private key and certificate; the other end knows the fingerprint. The key is in a folder that only root can read, and
is deleted with the mode. The kernel's data channel (DCO) is off. Words: openvpn(8) of 2.5 and later, which has fingerprints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut import tunnel_processes
from dutlab.dut.linux_tunnels import GROUP, OnePortMode, lead_into, return_route
from dutlab.dut.mode import Check, Mode
from dutlab.dut.tunnelled import SOURCE, Router, Tunnel
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import OPENSSL, OPENVPN, Program
from dutlab.spec.testbed import Testbed
from dutlab.systems import modes

_FAR_NAME = "openvpn-far"
"""Name of the source's processes, which separates their processor time from that of the DUT's."""
_PORT = 1194
"""UDP port of the first link's tunnel (IANA); each further link has the next port."""
_AROUND_BYTES = 52
"""Bytes that OpenVPN adds to a packet: IPv4 20, UDP 8, opcode and peer 4, packet number 4, tag 16 (physics/ceilings/tunnel.py)."""
_FOLDER = tunnel_processes.folder(OPENVPN.name)
_CERTIFY = """openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} -days 2 \
-keyout "$d/{name}.key" -out "$d/{name}.crt" 2>"$d/{name}.said" || {{ cat "$d/{name}.said" >&2; exit 1; }}
openssl x509 -in "$d/{name}.crt" -noout -fingerprint -sha256 | cut -d= -f2
"""
# Answers of the sink have the same destination inside as the tunnel's packets outside, which OpenVPN would take for a loop.
_OPTIONS = (
    "--dev {name} --dev-type tun --proto udp --local {own} --remote {other} --lport {port} --rport {port} {role} --disable-dco "
    '--cert "$d/{name}.crt" --key "$d/{name}.key" --peer-fingerprint {fingerprint} --data-ciphers AES-256-GCM '
    "--allow-recursive-routing --mssfix 0 --verb 3"
)


@dataclass(frozen=True)
class OpenVpnMode(OnePortMode):
    """Mode with an OpenVPN process for each link at each end."""

    @property
    def program_names(self) -> Sequence[str]:
        """Names of the DUT's programs, as `ps -o comm` prints them."""
        return (OPENVPN.name,)

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs that both ends need."""
        return {host: (*programs, OPENVPN, OPENSSL) for host, programs in super().needs().items()}

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Set the router and start the processes. Raises CommandFailed, HostError with the output of a process without a connection."""
        await self.router.apply(dut, testbed)
        ends = {dut: self._source(), self._source(): dut}
        keys = {host: await self._certified(host, testbed, is_dut=host is dut) for host in ends}
        for host, other in ends.items():
            name = OPENVPN.name if host is dut else _FAR_NAME
            script = _FOLDER + tunnel_processes.link(OPENVPN.name, name)
            for t, fingerprint in zip(self._ports(testbed, is_dut=host is dut), keys[other], strict=True):
                script += tunnel_processes.start(t.name, f'"$d/{name}"', _options(t, fingerprint, is_dut=host is dut))
            await host.run(["sh", "-e"], stdin=script.encode())
        for host in ends:
            mtus = {port["ifname"]: int(port["mtu"]) for port in json.loads((await host.run(["ip", "-j", "link"])).text)}
            script = _FOLDER
            for t in self._ports(testbed, is_dut=host is dut):
                script += tunnel_processes.until(t.name, f'grep -q "Initialization Sequence Completed" "$d/{t.name}.said"')
                below = t.link.dut_in if host is dut else t.link.source
                script += f"ip link set dev {t.name} group {GROUP} mtu {mtus[below.interface] - _AROUND_BYTES} up\n"
                script += return_route(t) if host is dut else "".join(f"ip {line}\n" for line in lead_into(t))
            await host.run(["sh", "-e"], stdin=script.encode(), timeout_s=60.0)

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check router and tunnels, and add the OpenVPN version of each end."""
        checks = await super().checks_of_state(dut, testbed)
        for host in (dut, self._source()):
            version = (await host.run(["openvpn", "--version"], check=False)).text.strip().splitlines()
            checks.append(Check(f"{host.name}: OpenVPN runs as a process", bool(version), version[0] if version else "no version"))
        return checks

    async def _insist_on_kind(self, host: Host, *, is_dut: bool) -> None:
        """Check nothing: OpenVPN needs only a TUN from the kernel."""

    @property
    def delete(self) -> str:
        """Script that ends the processes and deletes the tunnels of a host."""
        return tunnel_processes.end(OPENVPN.name) + super().delete

    async def _certified(self, host: Host, testbed: Testbed, *, is_dut: bool) -> list[str]:
        """Make key and certificate of each tunnel, and return the fingerprints."""
        ports = self._ports(testbed, is_dut=is_dut)
        script = f'{_FOLDER}mkdir -p -m 700 "$d"\n' + "".join(_CERTIFY.format(name=t.name) for t in ports)
        fingerprints = (await host.run(["sh", "-e"], stdin=script.encode())).text.split()
        if len(fingerprints) != len(ports):
            raise HostError(f"openssl showed {len(fingerprints)} fingerprints for {len(ports)} tunnels", host=host.name)
        return fingerprints


def _options(t: Tunnel, fingerprint: str, *, is_dut: bool) -> str:
    near, far = t.link.source_address.ip, t.link.dut_in_address.ip

    own, other = (far, near) if is_dut else (near, far)
    role = "--tls-server --dh none" if is_dut else "--tls-client"

    return _OPTIONS.format(name=t.name, own=own, other=other, port=_PORT + t.place, role=role, fingerprint=fingerprint)


def openvpn_modes(router: Router, hosts: Mapping[str, Host]) -> dict[str, Mode]:
    """Return mode `openvpn`, which needs the source as well as the DUT."""
    return {modes.OPENVPN.name: OpenVpnMode(modes.OPENVPN, router, hosts.get(SOURCE), "CONFIG_TUN (module tun)", hosts=hosts)}
