"""Interface of every generator to the runner, and the place where it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dutlab.errors import ToolFailed, ToolMissing
from dutlab.events import Tell, nobody
from dutlab.hosts.host import Host
from dutlab.methods.ports import Generator
from dutlab.spec.experiment import CustomMode
from dutlab.spec.generators import GeneratorModel
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.systems.modes import ModeArray
from dutlab.tools.engine.engine import Engine
from dutlab.tools.path_counters import TOLERATED

# One boot of one kernel, and the network namespace in it (random(4), network_namespaces(7)); on FreeBSD the host's own number.
_WHO = "cat /proc/sys/kernel/random/boot_id 2>/dev/null && readlink /proc/self/ns/net || sysctl -n kern.hostuuid kern.boottime"
_THERE = 'test -e "/sys/class/net/$1" || ifconfig "$1" >/dev/null 2>&1'


@dataclass(frozen=True)
class GeneratorSite:
    """Site of a generator. `cpus` is host → cores for the programs that send and receive, where the testbed gives any."""

    hosts: Mapping[str, Host]
    testbed: Testbed
    cpus: Mapping[str, Sequence[int]]
    engine: Engine
    tell: Tell = nobody
    """Told what a program that works does meanwhile."""
    arrays: Mapping[str, ModeArray] = field(default_factory=dict)
    """Mode → the array that it makes of the drives of a host, which is larger than each of them."""
    modes: Mapping[str, CustomMode] = field(default_factory=dict)
    """Those of the experiment's own."""

    @property
    def paths(self) -> list[Link]:
        """The links that frames can be sent on."""
        return [link for link in self.testbed.links.values() if link.path]

    @property
    def senders(self) -> list[str]:
        """The hosts at the source of any path, each once."""
        return list(dict.fromkeys(link.source.host for link in self.paths))

    @property
    def receivers(self) -> list[str]:
        """The hosts at the sink of any path, each once."""
        return list(dict.fromkeys(link.sink.host for link in self.paths))

    def cores(self, model: GeneratorModel, host: str) -> tuple[int, ...]:
        """The cores to pin to on the host that sends: those that were asked for, or the testbed's; empty for none."""
        return model.cores or tuple(self.cpus.get(host) or ())


def insist_that_it_sent(sent: int, *, asked: int | None, tool: str, host: str, raw: Mapping[str, bytes]) -> None:
    """Raises ToolFailed for a program that sent no frame although it was asked for more than a handful, or for all it can (None)."""
    if sent == 0 and (asked is None or asked > TOLERATED):
        raise ToolFailed("sent nothing", tool=tool, host=host, raw=raw)


async def both_ends(place: GeneratorSite, *, tool: str) -> Host:
    """The one machine. Raises ToolMissing when there are two, or naming the ports that it has not; HostError."""
    names = list(dict.fromkeys((*place.senders, *place.receivers)))
    host = place.hosts[names[0]]
    who = {(await place.hosts[name].run(["sh", "-c", _WHO], check=False)).text for name in names}
    ports = sorted({port.interface for link in place.paths for port in (link.source, link.sink)})
    absent = [port for port in ports if (await host.run(["sh", "-c", _THERE, "there", port], check=False)).status != 0]
    if len(who) > 1 or absent:
        why = f"{', '.join(absent)} is not here" if absent else f"{' and '.join(names)} are several machines, or network namespaces"
        remedy = "give the ends of the testbed's paths the same machine, with the ports of both ends"
        raise ToolMissing(f"{tool} sends and receives in one process, and {why}", tool=tool, host=host.name, remedy=remedy)
    return host


class GeneratorTool(Generator, Protocol):
    """A generator that is found, versioned and checked on its hosts before it is used."""

    async def check(self) -> str:
        """Its version; of both ends when they differ. Raises ToolMissing when it is not there or cannot work there, HostError."""

    async def close(self) -> None:
        """Ends whatever of it still runs. It can be used again after that."""
