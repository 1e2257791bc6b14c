"""Links of a trial that are set down: a methods.dut_ports.LinkControl that writes each undo to the journal before the change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut.path_failure import failure_of
from dutlab.errors import DutlabError, HostError, InputError
from dutlab.hosts.host import Host
from dutlab.runner.device import JournaledDevice
from dutlab.spec.links import Link, Port
from dutlab.spec.testbed import Testbed
from dutlab.spec.workloads.convergence import ConvergenceEvent
from dutlab.spec.workloads.soak_power import cut_ports

BACK_S, LOOK_S = 60.0, 0.5
"""Longest time until a link that was set up passes frames, and the pause between two looks. Copper ports negotiate for some seconds."""


@dataclass
class HeldLinks:
    """Links through the DUT. The device keeps their undo steps, and carries them out at the end of the trial in any case."""

    device: JournaledDevice
    testbed: Testbed
    """The whole testbed: links that no workload drives can be down, too."""
    hosts: Mapping[str, Host]
    """Hosts that commands reach."""

    @property
    def _links(self) -> Mapping[str, Link]:
        return self.testbed.through_dut().links

    def ports_up(self, down: Sequence[str]) -> int:
        """Return the number of the DUT's ports with a link, as specified in methods.dut_ports. Links may share a port."""
        dark = {port for name in down for port in self._links[name].dut_ports}
        return len({port for link in self._links.values() for port in link.dut_ports} - dark)

    async def hold_down(self, links: Sequence[str]) -> None:
        """Set exactly these links down, as specified in methods.dut_ports."""
        wanted = dict.fromkeys(port for name in links for port in self._ports_of(name))
        down = [port for name in self._links for port in self._ports_of(name, insist=False) if _change(port) in self.device.standing]
        risen = [port for port in dict.fromkeys(down) if port not in wanted]
        for port in reversed(risen):
            await self.device.undo_change(_change(port))
        for port in wanted:
            if port not in down:
                await self._set_down(port)
        back = [
            name
            for name in self.device.testbed.links
            if {*risen} & {*(of := self._ports_of(name, insist=False))} and not wanted.keys() & {*of}
        ]
        if back:
            await self._until_passing(back)

    def _ports_of(self, name: str, *, insist: bool = True) -> tuple[Port, ...]:
        families = {host: self.testbed.hosts[host].family for host in self.hosts}
        ports = cut_ports(self._links[name], families)
        if insist and not ports:
            raise InputError(f"dutlab sets no port of link {name} down", remedy="leave `down` out of the phases")
        return ports

    async def _set_down(self, port: Port) -> None:
        host = self.hosts[port.host]
        failure = await failure_of(ConvergenceEvent(name="down", port=port), host)
        self.device.announce(_change(port), failure.recover)
        self.device.cut_ports.add(port)
        for command in failure.fail:
            await host.run(command)

    async def _until_passing(self, links: Sequence[str]) -> None:
        """Wait until frames pass each link. Raises HostError if they do not in time."""
        until_s, why = time.monotonic() + BACK_S, "no frame arrived"
        while True:
            try:
                if all(probe.received for probe in await self.device.prober.probe(links)):
                    return
            except DutlabError as error:  # a generator may refuse a port that has no carrier yet
                why = error.what
            if time.monotonic() > until_s:
                raise HostError(
                    f"link {', '.join(links)} was set up again and does not pass frames after {BACK_S:g} s: {why}",
                    host=self.device.dut.name,
                    remedy="see whether its ports are up",
                )
            await asyncio.sleep(LOOK_S)


def _change(port: Port) -> str:
    """Return the name of a port's change in the journal."""
    return f"port-down-{port}"
