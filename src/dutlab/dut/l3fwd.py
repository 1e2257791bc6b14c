"""l3fwd of DPDK's examples on sockets of the DUT's ports: a router whose threads poll, with a separate table.

Words: DPDK's "L3 Forwarding Sample Application" and "Telemetry Library". Tested with 22.11, built from the sources of Debian 12 by
examples/user-space/l3fwd.sh. Debian has no package with the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Literal

from dutlab.dut.device_programs import DevicePrograms, ProgramText
from dutlab.dut.dpdk import RINGS, RUN_FOLDER, DpdkProgram, peers
from dutlab.dut.user_space import Crossing
from dutlab.hosts.host import Host
from dutlab.hosts.programs import DPDK_L3FWD, DPDK_TELEMETRY, Program
from dutlab.systems.polled import parse_ethdev

_TABLES_MB, _PORT_MB = 512, 32
"""Memory for the tables, and for the buffers of a port. 256 MB do not suffice for a FIB of IPv6."""
_FORWARDS = "entering main loop on lcore"
_ASK = f"{RUN_FOLDER}\ndpdk-telemetry.py --file-prefix=dutlab <asks"
_NOWHERE = IPv4Network("192.0.2.0/24"), IPv6Network("2001:db8::/64")
"""Networks for documentation (RFC 5737, RFC 3849): l3fwd refuses an empty table of either version."""


@dataclass(frozen=True)
class L3fwd(DpdkProgram):
    """l3fwd with the longest-prefix-match table (`lpm`) or the forwarding information base (`fib`) of DPDK."""

    lookup: Literal["lpm", "fib"]
    sockets: Literal["packet", "xdp"] = "packet"
    """Packet sockets (net_af_packet), whose frames the kernel receives too, or AF_XDP sockets (net_af_xdp), which take all frames."""

    @property
    def needs(self) -> Sequence[Program]:
        """Programs on the DUT."""
        return (DPDK_L3FWD, DPDK_TELEMETRY)

    def commands(self, ways: Sequence[Crossing], cores: Sequence[int]) -> ProgramText:
        """Return the command that writes both tables and starts it, with a polling thread per link or, with fewer cores, per core."""
        ports = [port for way in ways for port in way.ports]
        polling = list(cores)[: len(ways)]
        queues = ",".join(f"({n},0,{n // 2 % len(polling)})" for n in range(len(ports)))
        words = [
            f"--lcores={','.join(f'{n}@{core}' for n, core in enumerate(polling))}",
            f"--no-pci --no-huge -m {_TABLES_MB + _PORT_MB * len(ports)} --file-prefix=dutlab",
            *(f"--vdev=net_af_{self.sockets}{n},iface={port}{RINGS[self.sockets]}" for n, port in enumerate(ports)),
            # The buffers of a common pool do not suffice for four AF_XDP sockets: the last port receives nothing (--per-port-pool).
            # A socket does not say what a frame contains, so l3fwd has to look (--parse-ptype).
            f"-- -p {(1 << len(ports)) - 1:#x} -P --parse-ptype --per-port-pool --lookup={self.lookup}",
            f"--rule_ipv4=ipv4 --rule_ipv6=ipv6 --config='{queues}'",
            *peers("eth-dest", ways),
        ]
        files = {f"ipv{nowhere.version}": list(_table(ways, nowhere)) for nowhere in _NOWHERE}
        files["asks"] = [f"/ethdev/stats,{n}" for n in range(len(ports))]
        written = "".join("\n".join([f"cat >{name} <<'END'", *lines, "END", ""]) for name, lines in files.items())
        return ProgramText((f"{written}{RUN_FOLDER}\nexec dpdk-l3fwd {' '.join(words)}",))

    async def configure(self, programs: DevicePrograms, dut: Host, ways: Sequence[Crossing]) -> None:
        """Wait until its threads forward. Raises HostError."""
        del dut, ways
        (program,) = programs.running
        await program.asked("", _FORWARDS)

    async def counters(self, programs: DevicePrograms, dut: Host) -> Mapping[str, float]:
        """Return the counters of its ports, from the telemetry of DPDK; it does not count its cycles. Raises HostError."""
        return parse_ethdev((await programs.run(dut, _ASK)).text)


def _table(ways: Sequence[Crossing], nowhere: IPv4Network | IPv6Network) -> Iterator[str]:
    """Yield a line for each network behind a port that has the version of `nowhere`; one for `nowhere` if there is none."""
    networks = [network for way in ways for network in way.networks]
    routes = [(network, port) for port, network in enumerate(networks) if network.version == nowhere.version]
    for network, port in routes or [(nowhere, 0)]:
        yield f"R{network.network_address.exploded}/{network.prefixlen} {port}"
