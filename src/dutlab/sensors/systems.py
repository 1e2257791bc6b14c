"""Which words a host is watched in, by its system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dutlab.hosts.host import Host
from dutlab.sensors import bsd, counters, vpp
from dutlab.sensors.cores import LINUX_CPU, CpuWatch, Sampler
from dutlab.sensors.freebsd_cpu import FREEBSD_CPU
from dutlab.sensors.openbsd_cpu import OPENBSD_CPU
from dutlab.sensors.sensor import SensorSite
from dutlab.spec.sensors import CpuSensor
from dutlab.systems import windows
from dutlab.systems.system import System


@dataclass(frozen=True)
class _Counting:
    """A shell script and what it prints."""

    script: str
    parse: Callable[[str], dict[str, float]]


def _of_vpp(text: str) -> dict[str, float]:
    return {**counters.parse_counters(text), **vpp.parse(text)}


_LINUX = _Counting(counters.SCRIPT, counters.parse_counters)
_BSD = _Counting(bsd.SCRIPT, bsd.parse)
_OF_SYSTEM = {
    "vpp": _Counting(counters.SCRIPT.removesuffix("exit 0\n") + vpp.SCRIPT + "exit 0\n", _of_vpp),
    "windows": _Counting(windows.COUNTERS, windows.parse_counters),
}
"""Where a system has other counters than its kernel."""
_OF_KERNEL = {"Linux": _LINUX, "FreeBSD": _BSD, "OpenBSD": _BSD, "Darwin": _BSD}
_CPU = {"Linux": LINUX_CPU, "FreeBSD": FREEBSD_CPU, "OpenBSD": OPENBSD_CPU}


def counting_of(system: System) -> _Counting | None:
    """How the counters of a system are read; None where nobody knows."""
    return _OF_SYSTEM.get(system.name) or _OF_KERNEL.get(system.kernel)


async def read_counters(host: Host) -> dict[str, float]:
    """All counters of `host` as they are now, in one command; none of a system whose words nobody knows. Raises HostError."""
    counting = counting_of(host.system)
    if counting is None:
        return {}
    done = await host.run(host.system.shell.text(counting.script))
    return counting.parse(done.text)


def cpu_watch(system: System) -> CpuWatch | None:
    """How the cores of a host are watched; None where they cannot be."""
    return _CPU.get(system.kernel)


def make(spec: CpuSensor, site: SensorSite) -> Sampler | None:
    """The sensor `cpu`; None where the cores of such a system cannot be watched."""
    watch = cpu_watch(site.host.system)
    return None if watch is None else Sampler(site, watch=watch, interval_s=spec.every, name=spec.name)
