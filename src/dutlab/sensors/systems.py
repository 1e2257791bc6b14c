"""Which words a host is watched in, by its family."""

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


@dataclass(frozen=True)
class _Counting:
    """A shell script and what it prints."""

    script: str
    parse: Callable[[str], dict[str, float]]


def _of_vpp(text: str) -> dict[str, float]:
    return {**counters.parse_counters(text), **vpp.parse(text)}


_LINUX = _Counting(counters.SCRIPT, counters.parse_counters)
_BSD = _Counting(bsd.SCRIPT, bsd.parse)
_COUNTING = {
    "freebsd": _BSD,
    "freebsd-pf": _BSD,
    "pfsense": _BSD,
    "openbsd": _BSD,
    "openbsd-pf": _BSD,
    "vpp": _Counting(counters.SCRIPT.removesuffix("exit 0\n") + vpp.SCRIPT + "exit 0\n", _of_vpp),
}
_CPU = {
    "freebsd": FREEBSD_CPU,
    "freebsd-pf": FREEBSD_CPU,
    "pfsense": FREEBSD_CPU,
    "openbsd": OPENBSD_CPU,
    "openbsd-pf": OPENBSD_CPU,
    "windows": None,
}


async def read_counters(host: Host, family: str = "linux") -> dict[str, float]:
    """All counters of `host` as they are now, in one command; those of a family without words of its own as Linux's. Raises HostError."""
    counting = _COUNTING.get(family, _LINUX)
    done = await host.run(["sh", "-c", counting.script])
    return counting.parse(done.text)


def cpu_watch(family: str) -> CpuWatch | None:
    """How the cores of a host of this family are watched; None where they cannot be."""
    return _CPU.get(family, LINUX_CPU)


def make(spec: CpuSensor, site: SensorSite) -> Sampler | None:
    """The sensor `cpu`; None where the cores of such a system cannot be watched."""
    watch = cpu_watch(site.family)
    return None if watch is None else Sampler(site, watch=watch, interval_s=spec.every, name=spec.name)
