"""Calibration of a rig without the DUT, measured or from the cache: of an embedded lab or of real machines.

A lab is looped by extra cables, with addresses. Machines are looped by hand; without a loop, only the generator is measured.
Their loop needs no addresses: frames are sent to the MAC of the port at the other end. The user states that a rig is looped, since
dutlab cannot find out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Literal

from dutlab import labs
from dutlab.choices import Rig
from dutlab.ending import closing
from dutlab.errors import MeasurementError, TestbedError
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.host import Host
from dutlab.hosts.lease import Holder, leased
from dutlab.hosts.neighbours import NextHop, mac_of_port, next_hop_mac
from dutlab.hosts.reach import hosts_of
from dutlab.methods.calibrate import DURATION, RigPoint, calibrate
from dutlab.methods.undisturbed import Undisturbed
from dutlab.runner.headroom import RigLoad
from dutlab.sensors.cpu_account import accounts_of
from dutlab.spec.generators import ENGINE
from dutlab.spec.testbed import Testbed
from dutlab.store.calibration import Calibration, cached, keep, superseded
from dutlab.tools.engine.binary import EngineFile, engine_on
from dutlab.tools.engine.engine import Engine
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.generators.registry import make
from dutlab.units import Seconds

FACTS = ("kernel", "cpu", "machine", "mitigations", "virtual", "memory_bytes", "clocksource")
MOST_AGAIN = 2
"""Most repeats of a rig load that other work disturbed. Few, since results are valid without headroom too."""
_PASSING = frozenset({"optic", "operstate", "absent"})
"""Facts of a port that change often, or with its cabling."""

Disturbed = Literal["repeat", "count"]
"""Treatment of a load that other work disturbed, as in the experiment file."""
DISTURBED_VARIABLE = "DUTLAB_DISTURBED"
"""Environment variable. `count` acts as `disturbed: count` in the experiment, for test suites on machines that are never quiet."""

Failed = Callable[[RigLoad, MeasurementError], None]
"""Function that is called with a load that could not be measured, and the error."""


def disturbed_by_environment() -> Disturbed:
    """Return the value of DISTURBED_VARIABLE; without it, disturbed loads are repeated."""
    return "count" if os.environ.get(DISTURBED_VARIABLE) == "count" else "repeat"


@dataclass(frozen=True)
class OpenRig:
    """Hosts and testbed of a rig, with an engine for them."""

    site: GeneratorSite
    versions: Mapping[str, str] | None = None
    """Generator → its current version, if known."""
    disturbed: Disturbed = "repeat"
    """Treatment of a load that other work disturbed."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """Other facts that its figures depend on: the embedded lab and its placement on cores."""

    async def facts(self, rig: Rig) -> dict[str, Any]:
        """Return all facts that a calibration depends on. Raises HostError, ToolMissing."""
        ends = {
            host: [port.interface for link in self.site.paths for port in (link.source, link.sink) if port.host == host]
            for host in (*self.site.senders, *self.site.receivers)
        }
        host_facts = await asyncio.gather(*(collect_facts(self.site.hosts[host], ports) for host, ports in ends.items()))
        return {
            **{
                facts["host"]: {k: facts.get(k) for k in FACTS} | {"interfaces": _steady(facts.get("interfaces", {}))}
                for facts in host_facts
            },
            "engine": await self.site.engine.check(),
            "testbed": self.site.testbed.name,
            "links": {link.name: [str(link.source), str(link.sink)] for link in self.site.paths},
            "cpus": {host: list(self.site.cpus.get(host, ())) for host in ends},
            "rig": rig.value,
            **self.layout,
        }

    async def known(self, rig: Rig, cache: Path) -> Calibration | None:
        """Return the cached calibration if it is still valid. Raises as facts()."""
        return cached(await self.facts(rig), cache, now=datetime.now(UTC), versions=self.versions, disturbed=self.disturbed)

    async def measure(
        self, rig: Rig, loads: Sequence[RigLoad], cache: Path, *, fresh_s: Seconds | None = None, failed: Failed | None = None
    ) -> tuple[Calibration, Path | None]:
        """Measure loads that the cache lacks; return the calibration and its path there. With `fresh_s`, measure every load for that time.

        In a loop of machines, generators other than the engine are left out, since they look for the DUT. If a load cannot be measured,
        for example because other work disturbed each attempt, `failed` is called and the other loads are measured. Without `failed`, the
        error is raised. Raises HostError, ToolMissing, MeasurementError.
        """
        facts = await self.facts(rig)
        known = cached(facts, cache, now=datetime.now(UTC), versions=self.versions, disturbed=self.disturbed)
        calibration = known or Calibration(measured=datetime.now(UTC), facts=facts, points=[])
        able = loads if self.layout or rig is Rig.GENERATOR else [load for load in loads if load.generator == ENGINE]
        calibration = await self.with_loads(calibration, able, rig, fresh_s=fresh_s, failed=failed)
        return calibration, keep(calibration, cache)

    async def with_loads(
        self,
        known: Calibration,
        loads: Sequence[RigLoad],
        rig: Rig = Rig.LOOPED,
        *,
        fresh_s: Seconds | None = None,
        failed: Failed | None = None,
    ) -> Calibration:
        """Measure the loads that `known` lacks, or all of them for `fresh_s` each; return `known` with them. Raises as measure()."""
        for load in loads:
            if fresh_s is None and load.known_to(known, rig):
                continue
            try:
                points = await self._points(load, fresh_s or DURATION, rig)
            except MeasurementError as e:
                if failed is None:
                    raise
                failed(load, e)
                continue
            known = known.with_points(points, datetime.now(UTC))
        return known

    async def best(self, loads: Sequence[RigLoad], cache: Path, tell: Callable[[str], None], failed: Failed) -> Calibration:
        """Return the best calibration of machines for `loads`: of the loop if it is valid, else of the generator alone, measured now.

        Raises HostError, ToolMissing.
        """
        looped = await self.known(Rig.LOOPED, cache)
        missing = [load for load in loads if looped is None or not load.known_to(looped)]
        if looped is not None and not missing:
            return looped
        tell(_why_alone(looped, superseded(await self.facts(Rig.LOOPED), cache)))
        alone, _ = await self.measure(Rig.GENERATOR, missing, cache, failed=failed)
        return alone if looped is None else looped.model_copy(update={"points": [*looped.points, *alone.points]})

    async def insist_on_loop(self) -> None:
        """Send ten frames over each link. Raises TestbedError that names every link with loss."""
        probes = zip(self.site.paths, await self.site.engine.probe([link.name for link in self.site.paths]), strict=True)
        if lost := [
            f"link {link.name}: of {s.sent} frames from {link.source} {s.received} arrived at {link.sink}"
            for link, s in probes
            if s.received < s.sent or not s.sent
        ]:
            raise TestbedError("; ".join(lost), remedy="cable the two ports of each link to one another, both up, and nothing else to them")

    async def _points(self, load: RigLoad, duration: Seconds, rig: Rig) -> list[RigPoint]:
        """Measure each load that the generator can send; repeat loads that other work disturbed. Raises MachineTooBusy too."""
        generator = make(load.generator, self.site)
        again = MOST_AGAIN if self.disturbed == "repeat" else 0
        ends = {name: host for name, host in self.site.hosts.items() if name in self.site.testbed.ends}  # the DUT does nothing here
        undisturbed = Undisturbed(generator, accounts=accounts_of(ends), most_again=again)
        async with closing(*([] if generator is self.site.engine else [generator])):
            return await calibrate(
                undisturbed,
                load.links,
                load.mix,
                duration=duration,
                loads=load.under(rig),
                model=load.generator,
                version=await generator.check(),
                rig=rig,
                directions=load.directions,
            )


def _why_alone(looped: Calibration | None, before: tuple[datetime, list[str]] | None) -> str:
    """Return, in words, why headroom is of the generator alone, and a better command."""
    better = "`dutlab calibrate --testbed FILE` measures source and sink cabled to one another"
    if looped is not None:
        return f"headroom of some frames is that of the generator alone, since the loop was not measured with them; {better}"
    if before is None:
        return f"headroom is that of the generator alone; {better}"
    when, facts = before
    reason = f"{', '.join(facts[:4])}{' and more' if len(facts) > 4 else ''} changed since" if facts else "it is too old"  # noqa: PLR2004 -- a line
    return f"headroom is that of the generator alone: the loop was measured on {when:%Y-%m-%d}, and {reason}; {better}"


@asynccontextmanager
async def lab_rig(
    lab: labs.Lab, engine_binary: str, *, versions: Mapping[str, str] | None = None, disturbed: Disturbed = "repeat"
) -> AsyncIterator[OpenRig]:
    """Cable the ends of a lab's paths directly to each other, during the context. Raises LabError, HostError."""
    hosts = lab.hosts()
    layout = {"lab": lab.testbed.lab, "layout": lab.layout}
    async with closing(*hosts.values()), labs.direct_links(lab) as testbed:
        engine = Engine(hosts, testbed, lab.cpus, engine_binary)
        async with closing(engine):
            yield OpenRig(GeneratorSite(hosts, testbed, lab.cpus, engine), versions, disturbed, layout)


@asynccontextmanager
async def machines_rig(testbed: Testbed, rig: Rig, binary: Path, run: Path, *, disturbed: Disturbed = "repeat") -> AsyncIterator[OpenRig]:
    """Lease the hosts at the ends of paths for folder `run`, with an engine for the cabling `rig`, during the context.

    Raises InUse, ToolMissing, HostError.
    """
    async with AsyncExitStack() as undo:
        ends = {end for link in testbed.links.values() if link.path for end in link.ends}
        hosts = {name: host for name, host in hosts_of(testbed).items() if name in ends}
        await undo.enter_async_context(closing(*hosts.values()))
        await undo.enter_async_context(leased(hosts, Holder.this_process(run, datetime.now(UTC))))
        engine_file = await EngineFile.read(binary)
        binaries = {name: await undo.enter_async_context(engine_on(host, engine_file)) for name, host in hosts.items()}
        cpus = {name: spec.cpus for name, spec in testbed.hosts.items() if spec.cpus}
        next_hop = _other_end(hosts, testbed) if rig is Rig.LOOPED else next_hop_mac
        engine = Engine(hosts, testbed, cpus, binaries, next_hop=next_hop)
        await undo.enter_async_context(closing(engine))
        yield OpenRig(GeneratorSite(hosts, testbed, cpus, engine), disturbed=disturbed)


def _other_end(hosts: Mapping[str, Host], testbed: Testbed) -> NextHop:
    """Return a next hop that is the port at the other end of the link's loop."""
    other = {}
    for link in (link for link in testbed.links.values() if link.path):
        for here, there in ((link.source, link.sink), (link.sink, link.source)):
            other[hosts[here.host].name, here.interface] = there

    async def next_hop(host: Host, interface: str, _: IPv4Address | IPv6Address) -> str:
        there = other[host.name, interface]
        return await mac_of_port(hosts[there.host], there)

    return next_hop


def _steady(interfaces: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {k: v for k, v in facts.items() if k not in _PASSING} for name, facts in interfaces.items()}
