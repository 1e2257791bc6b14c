"""Generators that send and receive in one process: source and sink must be one machine, with the ports of both."""

from __future__ import annotations

from dutlab.errors import ToolMissing
from dutlab.hosts.host import Host
from dutlab.tools.generators import Place

_THERE = 'test -e "/sys/class/net/$1" || ifconfig "$1" >/dev/null 2>&1'


async def both_ends(place: Place, *, tool: str) -> Host:
    """The one machine. Raises ToolMissing naming the ports that it has not, HostError."""
    host = place.hosts["source"]
    ports = sorted({port.interface for link in place.testbed.links.values() for port in (link.source, link.sink)})
    absent = [port for port in ports if (await host.run(["sh", "-c", _THERE, "there", port], check=False)).status != 0]
    if absent:
        what = f"{tool} sends and receives in one process, and {', '.join(absent)} is not here"
        remedy = "give source and sink of the testbed the same machine, with the ports of both ends"
        raise ToolMissing(what, tool=tool, host=host.name, remedy=remedy)
    return host
