"""Generators that send and receive in one process: source and sink must be one machine, with the ports of both."""

from __future__ import annotations

from dutlab.errors import ToolMissing
from dutlab.hosts.host import Host
from dutlab.tools.generator_tool import GeneratorSite

# One boot of one kernel, and the network namespace in it (random(4), network_namespaces(7)); on FreeBSD the host's own number.
_WHO = "cat /proc/sys/kernel/random/boot_id 2>/dev/null && readlink /proc/self/ns/net || sysctl -n kern.hostuuid kern.boottime"
_THERE = 'test -e "/sys/class/net/$1" || ifconfig "$1" >/dev/null 2>&1'


async def both_ends(place: GeneratorSite, *, tool: str) -> Host:
    """The one machine. Raises ToolMissing when there are two, or naming the ports that it has not; HostError."""
    host, other = place.hosts["source"], place.hosts["sink"]
    who = [(await end.run(["sh", "-c", _WHO], check=False)).text for end in (host, other)]
    ports = sorted({port.interface for link in place.testbed.links.values() for port in (link.source, link.sink)})
    absent = [port for port in ports if (await host.run(["sh", "-c", _THERE, "there", port], check=False)).status != 0]
    if who[0] != who[1] or absent:
        why = f"{', '.join(absent)} is not here" if absent else "source and sink are two machines, or two network namespaces"
        remedy = "give source and sink of the testbed the same machine, with the ports of both ends"
        raise ToolMissing(f"{tool} sends and receives in one process, and {why}", tool=tool, host=host.name, remedy=remedy)
    return host
