"""Modes of Linux in which a program forwards in place of the kernel.

Each program has its own module: `dut/ovs.py`, `dut/testpmd.py`, `dut/l3fwd.py`.

The kernel's forwarding is off in these modes: it receives each frame too and would forward it a second time. The ports keep their
addresses, so the kernel continues to answer ARP and ND for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from typing import Protocol, Self

from dutlab.dut import linux_state as state
from dutlab.dut.device_programs import DevicePrograms, ProgramCommands
from dutlab.dut.frames import frame_checks
from dutlab.dut.mode import Check, OfRecord, Prober, UdpFlow, UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.neighbours import next_hop_mac
from dutlab.hosts.programs import IP, SYSCTL, Program
from dutlab.spec.testbed import Testbed
from dutlab.systems.modes import DeclaredMode
from dutlab.systems.sample_names import DEVICE_FRAMES

_NOTHING_FORWARDS = (
    f"sysctl -q -w {state.IP_FORWARD}=0 && {{ [ ! -e /proc/sys/{state.IP6_FORWARD} ] || sysctl -q -w {state.IP6_FORWARD}=0; }}"
)


@dataclass(frozen=True)
class Crossing:
    """Path of one link through the DUT: its two ports, and the MAC addresses that a router writes into frames."""

    link: str
    ports: tuple[str, str]
    """Ports towards the source and towards the sink."""
    macs: tuple[str, str]
    """MAC addresses of these ports."""
    peers: tuple[str, str]
    """MAC addresses at the other ends of their cables."""
    networks: tuple[IPv4Network | IPv6Network, IPv4Network | IPv6Network]
    """Networks of source and sink, to which a router sends frames through these ports."""


class ForwardingProgram(Protocol):
    """Commands and settings of one program. All errors are HostError."""

    @property
    def needs(self) -> Sequence[Program]: ...
    @property
    def stop(self) -> Sequence[str]:
        """Commands that end it, as in ProgramCommands, known before it runs."""

    def made_ports(self, links: int) -> Sequence[str]:
        """Return the names of the ports that it makes for this number of links; they remain if it is killed."""

    def commands(self, ways: Sequence[Crossing], cores: Sequence[int]) -> ProgramCommands: ...
    async def configure(self, programs: DevicePrograms, dut: Host, ways: Sequence[Crossing]) -> None:
        """Configure the program once it is ready, and return when it forwards."""

    async def counters(self, programs: DevicePrograms, dut: Host) -> Mapping[str, float]:
        """Return its counters by dutlab's names, with DEVICE_FRAMES among them."""

    async def is_tracked(self, programs: DevicePrograms, dut: Host, flow: UdpFlow) -> bool | None:
        """Return whether it tracks this flow, in a mode that tracks."""


@dataclass(frozen=True)
class UserSpaceMode(OfRecord):
    """Mode of one program that forwards."""

    program: ForwardingProgram
    programs: DevicePrograms

    def on_cores(self, cores: Sequence[int]) -> Self:
        """Return the mode for a DUT with these cores."""
        return replace(self, programs=replace(self.programs, cpus=tuple(cores)))

    @property
    def program_names(self) -> Sequence[str]:
        """Names of the running programs."""
        return self.programs.names

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs that the DUT needs."""
        return {"dut": (IP, SYSCTL, *self.program.needs)}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that end the programs and restore ports and forwarding. Raises HostError if a port has a program's port name."""
        keys = await state.read_forwarding(dut)
        listed = json.loads((await dut.run(["ip", "-j", "link"])).text)
        ours = testbed.ports_of(dut.name)
        program_ports = self.program.made_ports(len(testbed.links))
        if taken := sorted({port["ifname"] for port in listed}.intersection(program_ports)):
            raise HostError(f"it has a port {taken[0]} already", host=dut.name, remedy=f"end its program, or leave mode {self.name} out")
        steps = [self.programs.undo(dut, self.program.stop)]
        script = "".join(f"ip link del dev {port} 2>/dev/null || :\n" for port in program_ports)
        steps += [UndoStep(dut.name, ("sh", "-c", script), "", "no port that its programs made")] if program_ports else []
        for port in (port for port in listed if port["ifname"] in ours):  # settings that a killed program leaves behind
            settings = [*(["promisc"] if "PROMISC" not in port["flags"] else []), *(["xdp", "xdpgeneric"] if "xdp" not in port else [])]
            script = "; ".join(f"ip link set dev {port['ifname']} {what} off" for what in settings)
            steps += [UndoStep(dut.name, ("sh", "-c", script), "", "the port as it was found")] if settings else []
        return [*steps, UndoStep(dut.name, ("sysctl", "-q", "-e", "-w", *keys), "", "forwarding as it was found")]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Start the programs and configure them.

        Raises CommandFailed, HostError with the last lines of a program that ended, ToolFailed where a neighbour does not answer.
        """
        await dut.run(["sh", "-c", _NOTHING_FORWARDS])
        ways = [await _crossing(dut, testbed, name) for name in testbed.links]
        cores = self.programs.cpus or (await _allowed(dut))[-1:]
        await self.programs.start(dut, self.program.commands(ways, cores))
        await self.program.configure(self.programs, dut, ways)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check frames in both directions, and that the program itself counted them."""
        try:
            return await self._verified(dut, testbed, prober)
        except HostError:  # an ended program does not answer
            if all(check.passed for check in self.programs.checks()):
                raise
            return self.programs.checks()

    async def _verified(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        tracked = partial(self.program.is_tracked, self.programs, dut) if self.declared.behaviour.tracks else None
        before = await self.device_counters(dut)
        frames = await frame_checks(testbed, prober, self.declared.behaviour, tracked)
        counted = (await self.device_counters(dut)).get(DEVICE_FRAMES, 0.0) - before.get(DEVICE_FRAMES, 0.0)
        went = Check("the frames went through the program", counted >= len(testbed.links), f"it counted {counted:.0f}")
        return [*await self.checks_of_state(dut, testbed), *frames, went]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Check that the programs run, and that the kernel does not forward."""
        del testbed
        on = await state.forwards(dut)
        return [*self.programs.checks(), Check("the kernel does not forward", not on, f"net.ipv4.ip_forward is {int(on)}")]

    async def program_ended(self) -> str:
        """Wait until a program ends, and return how it ended."""
        return await self.programs.ended()

    async def device_counters(self, dut: Host) -> Mapping[str, float]:
        """Return the counters of the program. Raises HostError."""
        return await self.program.counters(self.programs, dut)


def modes_of_programs(table: Mapping[DeclaredMode, ForwardingProgram]) -> dict[str, UserSpaceMode]:
    """Return mode by name, newly made at each call because each mode has its running programs."""
    return {of.name: UserSpaceMode(of, program, DevicePrograms(of.name)) for of, program in table.items()}


async def _crossing(dut: Host, testbed: Testbed, name: str) -> Crossing:
    """Return the path of a link through the DUT. Raises ToolFailed where the other end of a cable does not answer, HostError."""
    link = testbed.links[name]
    ports = link.dut_in.interface, link.dut_out.interface
    macs = (await dut.run(["cat", *(f"/sys/class/net/{port}/address" for port in ports)])).text.split()
    peers = [await next_hop_mac(dut, port, peer.ip) for port, peer in zip(ports, (link.dut_in_peer, link.dut_out_peer), strict=True)]
    networks = link.source_address.network, link.sink_address.network
    return Crossing(name, ports, (macs[0], macs[1]), (peers[0], peers[1]), networks)


async def _allowed(dut: Host) -> list[int]:
    """Return the cores that programs on the DUT may use."""
    output = (await dut.run(["sh", "-c", "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status"])).text.strip()
    spans = [part.partition("-") for part in output.split(",") if part]
    return [core for first, _, last in spans for core in range(int(first), int(last or first) + 1)]
