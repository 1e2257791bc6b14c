"""Modes of Linux in which a program forwards in the kernel's place. What a program is, its file says: `dut/ovs.py`, `dut/testpmd.py`.

The kernel's forwarding is off meanwhile, for it sees each frame too: otherwise both would send it on. The ports keep their addresses, so
the kernel goes on answering ARP and ND for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
    """One link's way through the DUT: its two ports, and the MAC addresses that a router writes into frames."""

    link: str
    ports: tuple[str, str]
    """Towards the source, towards the sink."""
    macs: tuple[str, str]
    """Addresses of these ports."""
    peers: tuple[str, str]
    """Addresses at the other ends of their cables."""


class ForwardingProgram(Protocol):
    """Words for one program: how it is started, set and asked. What it raises is HostError."""

    @property
    def needs(self) -> Sequence[Program]: ...
    @property
    def stop(self) -> Sequence[str]:
        """As ProgramCommands says, known before it runs."""

    def made_ports(self, links: int) -> Sequence[str]:
        """Names of the ports that it makes for so many links: one that is killed leaves them."""

    def commands(self, ways: Sequence[Crossing], cores: Sequence[int]) -> ProgramCommands: ...
    async def configure(self, programs: DevicePrograms, dut: Host, ways: Sequence[Crossing]) -> None:
        """Once it is ready: returns when it forwards."""

    async def counters(self, programs: DevicePrograms, dut: Host) -> Mapping[str, float]:
        """Return what it counts, by our names; among them DEVICE_FRAMES."""

    async def is_tracked(self, programs: DevicePrograms, dut: Host, flow: UdpFlow) -> bool | None:
        """Whether it has this flow, asked in a mode that tracks."""


@dataclass(frozen=True)
class UserSpaceMode(OfRecord):
    """One mode of one program."""

    program: ForwardingProgram
    programs: DevicePrograms

    def on_cores(self, cores: Sequence[int]) -> Self:
        """Return this mode for a DUT whose cores these are."""
        return replace(self, programs=replace(self.programs, cpus=tuple(cores)))

    @property
    def program_names(self) -> Sequence[str]:
        """Names of the programs that run."""
        return self.programs.names

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """On the DUT."""
        return {"dut": (IP, SYSCTL, *self.program.needs)}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """The programs' end, then ports and forwarding as they were found. Raises HostError where a port has the name of one of theirs."""
        keys = await state.read_forwarding(dut)
        listed = json.loads((await dut.run(["ip", "-j", "link"])).text)
        ours = testbed.ports_of(dut.name)
        program_ports = self.program.made_ports(len(testbed.links))
        if taken := sorted({port["ifname"] for port in listed}.intersection(program_ports)):
            raise HostError(f"it has a port {taken[0]} already", host=dut.name, remedy=f"end what made it, or leave mode {self.name} out")
        steps = [self.programs.undo(dut, self.program.stop)]
        script = "".join(f"ip link del dev {port} 2>/dev/null || :\n" for port in program_ports)
        steps += [UndoStep(dut.name, ("sh", "-c", script), "", "no port that its programs made")] if program_ports else []
        for port in (port for port in listed if port["ifname"] in ours):  # what a program that was killed leaves of it
            settings = [*(["promisc"] if "PROMISC" not in port["flags"] else []), *(["xdp", "xdpgeneric"] if "xdp" not in port else [])]
            script = "; ".join(f"ip link set dev {port['ifname']} {what} off" for what in settings)
            steps += [UndoStep(dut.name, ("sh", "-c", script), "", "the port as it was found")] if settings else []
        return [*steps, UndoStep(dut.name, ("sysctl", "-q", "-e", "-w", *keys), "", "forwarding as it was found")]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Raises CommandFailed, HostError with the last lines of a program that ended, ToolFailed where a neighbour does not answer."""
        await dut.run(["sh", "-c", _NOTHING_FORWARDS])
        ways = [await _crossing(dut, testbed, name) for name in testbed.links]
        cores = self.programs.cpus or (await _allowed(dut))[-1:]
        await self.programs.start(dut, self.program.commands(ways, cores))
        await self.program.configure(self.programs, dut, ways)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Frames in both directions, which the program itself must have counted."""
        try:
            return await self._verified(dut, testbed, prober)
        except HostError:  # a program that has ended does not answer
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
        """Whether the programs run, and nothing else forwards."""
        del testbed
        on = await state.forwards(dut)
        return [*self.programs.checks(), Check("the kernel does not forward", not on, f"net.ipv4.ip_forward is {int(on)}")]

    async def program_ended(self) -> str:
        """How the first of them ended."""
        return await self.programs.ended()

    async def device_counters(self, dut: Host) -> Mapping[str, float]:
        """Raises HostError."""
        return await self.program.counters(self.programs, dut)


def modes_of_programs(table: Mapping[DeclaredMode, ForwardingProgram]) -> dict[str, UserSpaceMode]:
    """Mode by name, made anew at each call: each has programs that run."""
    return {of.name: UserSpaceMode(of, program, DevicePrograms(of.name)) for of, program in table.items()}


async def _crossing(dut: Host, testbed: Testbed, name: str) -> Crossing:
    """Raises ToolFailed where the other end of a cable does not answer, HostError."""
    link = testbed.links[name]
    ports = link.dut_in.interface, link.dut_out.interface
    macs = (await dut.run(["cat", *(f"/sys/class/net/{port}/address" for port in ports)])).text.split()
    peers = [await next_hop_mac(dut, port, peer.ip) for port, peer in zip(ports, (link.dut_in_peer, link.dut_out_peer), strict=True)]
    return Crossing(name, ports, (macs[0], macs[1]), (peers[0], peers[1]))


async def _allowed(dut: Host) -> list[int]:
    """The cores that programs may use there."""
    output = (await dut.run(["sh", "-c", "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status"])).text.strip()
    spans = [part.partition("-") for part in output.split(",") if part]
    return [core for first, _, last in spans for core in range(int(first), int(last or first) + 1)]
