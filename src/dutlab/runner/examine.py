"""Examination of the testbed before the first trial: facts of its hosts, its cores without load, its cables, and findings from them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from dutlab.analysis import doctor
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import HostError, ToolMissing
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.host import Host
from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.sensors.cores import Sampler
from dutlab.sensors.sensor import Sample, SensorSite
from dutlab.spec.experiment import Experiment
from dutlab.spec.testbed import Testbed
from dutlab.systems.sample_names import IDLE, STEAL, core_of
from dutlab.systems.watched import POLLING_CORES
from dutlab.tools.iperf3.program import version_of
from dutlab.tools.ping import Ping

WATCH_S = 0.5
"""Time for which the cores are watched, in seconds."""
POLLS_PERCENT = 95.0
"""Load of a core without traffic, in percent, from which the core counts as polling."""


@dataclass(frozen=True)
class Examined:
    """Facts of each host, and the findings from them."""

    facts: Mapping[str, Mapping[str, Any]]
    findings: Sequence[doctor.Finding]


async def examine(
    testbed: Testbed, hosts: Mapping[str, Host], *, pinned: Mapping[str, Sequence[int]] | None = None, loads: Sequence[doctor.Streams] = ()
) -> Examined:
    """Examine the testbed in one to two seconds, with a ping over each cable. Raises HostError if a host does not answer."""
    one_machine = testbed.lab is not None
    # The cores of an embedded lab's hosts are all those of this machine.
    watched = await _watch({THIS_MACHINE: next(iter(hosts.values()))} if one_machine else hosts)
    ports: dict[str, list[str]] = {name: [] for name in hosts}
    for link in testbed.links.values():
        for port in link.ports:
            if port.host in hosts:  # no command reaches a black box
                ports[port.host].append(port.interface)
    with_drives = {name for name, spec in testbed.hosts.items() if spec.drives}
    read = await asyncio.gather(*(_facts(host, ports[name], of_drives=name in with_drives) for name, host in hosts.items()))
    inventory = doctor.Inventory(
        facts=dict(zip(hosts, read, strict=True)),
        links=links_of(testbed),
        watched=watched,
        pinned={role: tuple(cores) for role, cores in (pinned or {}).items()},
        one_machine=one_machine,
        loads=tuple(loads),
        dut=testbed.dut or "",
    )
    ping = Ping(hosts, testbed)
    carried = await asyncio.gather(
        *(_over_cable(ping, inventory, link, *ends) for link in inventory.links for ends in _first_cables(link, hosts))
    )
    facts = (
        inventory.facts
        if one_machine
        else {name: {**of, **_polling(hosts[name], watched.get(name))} for name, of in inventory.facts.items()}
    )
    return Examined(facts, doctor.examine(replace(inventory, carried=tuple(c for c in carried if c is not None))))


def _polling(host: Host, watched: doctor.WatchedCores | None) -> dict[str, list[int]]:
    """Return the cores that are busy without load, as a fact; empty if there are none.

    Empty also for this machine, since its cores may be busy with other programs; at_rest.py asks for a thread of the device too.
    """
    cores = [] if isinstance(host, LocalHost) else always_busy(watched)
    return {POLLING_CORES: cores} if cores else {}


def always_busy(watched: doctor.WatchedCores | None) -> list[int]:
    """Return the cores whose load is at least POLLS_PERCENT."""
    return [] if watched is None else [n for n, share in watched.cores.items() if share.busy_percent >= POLLS_PERCENT]


async def cores_of(host: Host) -> doctor.WatchedCores | None:
    """Measure the load of the host's cores for half a second; None if its system does not show it. Raises HostError."""
    return (await _watch({host.name: host})).get(host.name)


async def examine_machine(host: Host, interfaces: Sequence[str]) -> Examined:
    """Examine one machine without a testbed. Raises HostError if it does not answer."""
    watched = await _watch({host.name: host})
    facts = {host.name: await _facts(host, interfaces)}
    return Examined(facts, doctor.examine(doctor.Inventory(facts, watched=watched)))


async def _facts(host: Host, interfaces: Sequence[str], *, of_drives: bool = False) -> dict[str, Any]:
    """Return the host's facts, with the versions of programs whose counting differs by version. Raises HostError."""
    facts = await collect_facts(host, interfaces, of_drives=of_drives)
    with suppress(ToolMissing):
        facts["programs"] = {"iperf3": await version_of(host)}
    return facts


def links_of(testbed: Testbed) -> tuple[doctor.InventoryLink, ...]:
    """Return the links as the examination's inventory has them."""
    links = []
    for link in testbed.links.values():
        ports = tuple(doctor.InventoryPort(port.host, port.interface) for port in link.ports)
        near = link.addressed
        across = [i ^ 1 if link.path else (i + 1) % len(near) for i in range(len(near))]
        hops = {port: str(near[i][1].ip) for (port, _), i in zip(near, across, strict=True)}
        next_hops = tuple(hops.get(port, "") for port in link.ports)
        links.append(doctor.InventoryLink(link.name, ports, next_hops, link.speed, link.mtu, is_segment=bool(link.segment)))
    return tuple(links)


def streams_of(experiment: Experiment) -> list[doctor.Streams]:
    """Return the TCP loads of an experiment."""
    loads = [(w.kind, getattr(w, "streams", None), getattr(w, "direction", "") == "bidir") for w in experiment.workloads]
    return [doctor.Streams(kind, streams, both_ways) for kind, streams, both_ways in loads if isinstance(streams, int)]


def doubts_of(findings: Sequence[doctor.Finding]) -> list[Doubt]:
    """Return a doubt for each finding: a warning if its cost exceeds noise, else a note."""
    return [
        Doubt(
            DoubtKind.TESTBED_COSTS if f.is_worth_a_warning else DoubtKind.TESTBED_SUSPECT,
            detail=f"{', '.join(f.where)}: {f.what}; expected cost: {f.price.words}",
        )
        for f in findings
    ]


async def _watch(hosts: Mapping[str, Host]) -> dict[str, doctor.WatchedCores]:
    """Return host → load of its cores; hosts whose system does not show it are left out."""
    loops = {name: host.system.cores for name, host in hosts.items()}
    samplers = {name: Sampler(SensorSite(hosts[name]), loop, interval_s=WATCH_S) for name, loop in loops.items() if loop}
    started = await asyncio.gather(*(s.start() for s in samplers.values()), return_exceptions=True)
    await asyncio.sleep(WATCH_S * 1.2)
    cores_by_host = {}
    for (name, sampler), begun in zip(samplers.items(), started, strict=True):
        if isinstance(begun, BaseException):
            if not isinstance(begun, HostError):
                raise begun
            continue
        if cores := _shares((await sampler.stop()).samples):
            cores_by_host[name] = doctor.WatchedCores(WATCH_S, cores)
    return cores_by_host


def _shares(samples: Sequence[Sample]) -> dict[int, doctor.CoreShare]:
    by_core: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        core, state = core_of(sample.name) or (0, IDLE)
        if state != IDLE:
            by_core[core][state].append(sample.value)
    shares = {}
    for core, of in sorted(by_core.items()):
        means = {state: fmean(values) for state, values in of.items()}
        shares[core] = doctor.CoreShare(sum(v for state, v in means.items() if state != STEAL), means.get(STEAL, 0.0))
    return shares


def _first_cables(link: doctor.InventoryLink, hosts: Mapping[str, Host]) -> list[tuple[doctor.InventoryPort, doctor.InventoryPort]]:
    """Return sender and receiver of each cable at an end of a path, each pair on a segment, or the two ends of a transparent path."""
    (near, first), (last, far) = link.cables[0], link.cables[-1]
    bridged = [(near, far), (far, near)] if "" in link.next_hops else [(near, first), (far, last)]
    ends = list(link.cables) if link.is_segment else bridged
    return [(sender, receiver) for sender, receiver in dict.fromkeys(ends) if sender.host in hosts]


async def _over_cable(
    ping: Ping, inventory: doctor.Inventory, link: doctor.InventoryLink, sender: doctor.InventoryPort, receiver: doctor.InventoryPort
) -> doctor.PassedMtu | None:
    """Return the largest packet that passes between two ports of a cable; None if nothing answers or neither MTU is known."""
    mtus = [size for port in (sender, receiver) if isinstance(size := inventory.card(port).get("mtu"), int)]
    passes = await ping.cable(link.name, sender.host, str(receiver), doctor.sizes_to_try(min(mtus))) if mtus else None
    return None if passes is None else doctor.PassedMtu(link.name, sender, receiver, passes)
