"""Interface of every generator to the runner, and the hosts and links that it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dutlab.dut.mode import Announce
from dutlab.errors import ToolFailed, ToolMissing
from dutlab.events import Tell, no_observer
from dutlab.hosts.host import Host
from dutlab.methods.ports import Generator
from dutlab.spec.experiment import CustomMode
from dutlab.spec.generators import GeneratorModel
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.spec.wire_form import PLAIN, WireForm
from dutlab.systems.modes import ModeArray
from dutlab.tools.engine.engine import Engine
from dutlab.tools.path_counters import TOLERATED

# Identifies a boot of a kernel and its network namespace (random(4), network_namespaces(7)); on FreeBSD a host and its boot.
_WHO = "cat /proc/sys/kernel/random/boot_id 2>/dev/null && readlink /proc/self/ns/net || sysctl -n kern.hostuuid kern.boottime"
_THERE = 'test -e "/sys/class/net/$1" || ifconfig "$1" >/dev/null 2>&1'


@dataclass(frozen=True)
class GeneratorSite:
    """Hosts and links that a generator uses. `cpus` is host → cores for the programs that send and receive, if the testbed names any."""

    hosts: Mapping[str, Host]
    testbed: Testbed
    cpus: Mapping[str, Sequence[int]]
    engine: Engine
    tell: Tell = no_observer
    """Function that gets the progress of a running program."""
    arrays: Mapping[str, ModeArray] = field(default_factory=dict)
    """Mode → array that it makes of a host's drives; an array is larger than each of them."""
    modes: Mapping[str, CustomMode] = field(default_factory=dict)
    """Modes that the experiment itself defines."""
    numbered_links: Sequence[str] = ()
    """Links through the DUT that a workload drives, in the order in which modes number them. Empty: all links."""
    form: WireForm = PLAIN
    """Form of the frames on the cables."""
    announce: Announce | None = None
    """Function that a tool calls before it changes a host; the change is undone after the trial. None: nothing would undo it."""

    @property
    def paths(self) -> list[Link]:
        """Links that frames can be sent on."""
        return [link for link in self.testbed.links.values() if link.path]

    @property
    def senders(self) -> list[str]:
        """Hosts at the source of any path, each once."""
        return list(dict.fromkeys(link.source.host for link in self.paths))

    @property
    def receivers(self) -> list[str]:
        """Hosts at the sink of any path, each once."""
        return list(dict.fromkeys(link.sink.host for link in self.paths))

    def cores(self, model: GeneratorModel, host: str) -> tuple[int, ...]:
        """Return the cores to pin to on the host that sends: those of the generator, or else the testbed's; empty for none."""
        return model.cores or tuple(self.cpus.get(host) or ())


def require_sent_frames(sent: int, *, asked: int | None, tool: str, host: str, raw: Mapping[str, bytes]) -> None:
    """Check that a program sent frames, if it was asked for more than a few, or for all it can (None). Raises ToolFailed."""
    if sent == 0 and (asked is None or asked > TOLERATED):
        raise ToolFailed("sent nothing", tool=tool, host=host, raw=raw)


async def both_ends(place: GeneratorSite, *, tool: str) -> Host:
    """Return the machine that has both ends. Raises ToolMissing if there are several machines, or a port is missing; HostError."""
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
        """Return its version; of both ends if they differ. Raises ToolMissing if it is missing or cannot work there, HostError."""

    async def close(self) -> None:
        """End all its processes. The generator can be used again afterwards."""
