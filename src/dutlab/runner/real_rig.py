"""The rig of machines of your own: looped by cables, or, as far as that goes, the generator alone.

A loop needs no addresses: frames are sent to the MAC of the port at the other end. Whoever loops a rig says so; nobody else can know.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

from dutlab.ending import closing
from dutlab.errors import HostError, TestbedError
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.host import Host
from dutlab.hosts.lease import Holder, leased
from dutlab.hosts.reach import hosts_of
from dutlab.methods.calibrate import Rig
from dutlab.runner.rig import FACTS, Disturbed, Failed, RigLoad, with_loads
from dutlab.spec.generators import ENGINE
from dutlab.spec.testbed import Port, Testbed
from dutlab.store.calibration import Calibration, cached, keep, superseded
from dutlab.tools.engine.binary import EngineFile, engine_on
from dutlab.tools.engine.engine import Engine
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.neighbours import NextHop, next_hop_mac
from dutlab.units import Seconds

_PASSING = frozenset({"optic", "operstate", "absent"})
"""Facts of a port that change from minute to minute, or with what it is cabled to."""


@dataclass(frozen=True)
class RealRig:
    """Hosts and their testbed, with an engine that works on them."""

    site: GeneratorSite
    versions: Mapping[str, str] | None = None
    """Generator → its version now, as far as that is known."""
    disturbed: Disturbed = "repeat"
    """What becomes of a load that other work disturbed."""

    async def facts(self, rig: Rig) -> dict[str, Any]:
        """All that a calibration depends on. Raises HostError, ToolMissing."""
        ends = {
            host: [port.interface for link in self.site.paths for port in (link.source, link.sink) if port.host == host]
            for host in (*self.site.senders, *self.site.receivers)
        }
        found = await asyncio.gather(*(collect_facts(self.site.hosts[host], ports) for host, ports in ends.items()))
        return {
            **{facts["host"]: {k: facts.get(k) for k in FACTS} | {"interfaces": _steady(facts.get("interfaces", {}))} for facts in found},
            "engine": await self.site.engine.check(),
            "testbed": self.site.testbed.name,
            "links": {link.name: [str(link.source), str(link.sink)] for link in self.site.paths},
            "cpus": {host: list(self.site.testbed.hosts[host].cpus) for host in ends},
            "rig": rig.value,
        }

    async def known(self, rig: Rig, cache: Path) -> Calibration | None:
        """What the cache has of it, if that is still true. Raises as facts()."""
        return cached(await self.facts(rig), cache, now=datetime.now(UTC), versions=self.versions, disturbed=self.disturbed)

    async def measure(
        self,
        rig: Rig,
        loads: Sequence[RigLoad],
        cache: Path,
        *,
        anew: Seconds | None = None,
        failed: Failed | None = None,
    ) -> tuple[Calibration, Path | None]:
        """Those of `loads` that the cache has not, and where in the cache all are now. With `anew` every load is measured, for so long.

        In a loop other generators than the engine are left out: they look for the DUT. Where a load cannot be measured, `failed` is told
        and the others are; without it, that is raised. Raises HostError, ToolMissing, MeasurementError.
        """
        facts = await self.facts(rig)
        known = cached(facts, cache, now=datetime.now(UTC), versions=self.versions, disturbed=self.disturbed)
        found = known or Calibration(measured=datetime.now(UTC), facts=facts, points=[])
        able = loads if rig is Rig.GENERATOR else [load for load in loads if load.generator == ENGINE.kind]
        found = await with_loads(found, able, self.site, anew=anew, failed=failed, rig=rig, disturbed=self.disturbed)
        return found, keep(found, cache)

    async def insist_on_loop(self) -> None:
        """Raises TestbedError that names every link of which ten frames do not come back."""
        seen = [(link, await self.site.engine.probe(link.name)) for link in self.site.paths]
        if lost := [
            f"link {link.name}: of {s.sent} frames from {link.source} {s.received} came to {link.sink}"
            for link, s in seen
            if s.received < s.sent or not s.sent
        ]:
            raise TestbedError("; ".join(lost), remedy="cable the two ports of each link to one another, both up, and nothing else to them")


async def of_machines(rig: RealRig, loads: Sequence[RigLoad], cache: Path, tell: Callable[[str], None], failed: Failed) -> Calibration:
    """What is known of the rig for `loads`: what it did looped, where that is known and true, else what its generator does alone, now.

    Raises HostError, ToolMissing.
    """
    looped = await rig.known(Rig.LOOPED, cache)
    missing = [load for load in loads if looped is None or not load.known_to(looped)]
    if looped is not None and not missing:
        return looped
    tell(_why_alone(looped, superseded(await rig.facts(Rig.LOOPED), cache)))
    alone, _ = await rig.measure(Rig.GENERATOR, missing, cache, failed=failed)
    return alone if looped is None else looped.model_copy(update={"points": [*looped.points, *alone.points]})


def _why_alone(looped: Calibration | None, before: tuple[datetime, list[str]] | None) -> str:
    """In words for the user, and what would be better."""
    better = "`dutlab calibrate --testbed FILE` measures source and sink cabled to one another"
    if looped is not None:
        return f"headroom of some frames is that of the generator alone, since the loop was not measured with them; {better}"
    if before is None:
        return f"headroom is that of the generator alone; {better}"
    when, facts = before
    said = f"{', '.join(facts[:4])}{' and more' if len(facts) > 4 else ''} changed since" if facts else "it is too old"  # noqa: PLR2004 -- a line
    return f"headroom is that of the generator alone: the loop was measured on {when:%Y-%m-%d}, and {said}; {better}"


@asynccontextmanager
async def real_rig(testbed: Testbed, rig: Rig, binary: Path, run: Path, *, disturbed: Disturbed = "repeat") -> AsyncIterator[RealRig]:
    """The hosts at the ends of paths, leased for whatever goes on in the folder `run`, with an engine that knows how they are cabled.

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
        yield RealRig(GeneratorSite(hosts, testbed, cpus, engine), disturbed=disturbed)


def _other_end(hosts: Mapping[str, Host], testbed: Testbed) -> NextHop:
    """Each frame goes to the port at the other end of its link's loop."""
    other = {}
    for link in (link for link in testbed.links.values() if link.path):
        for here, there in ((link.source, link.sink), (link.sink, link.source)):
            other[hosts[here.host].name, here.interface] = there

    async def next_hop(host: Host, interface: str, _: IPv4Address | IPv6Address) -> str:
        there = other[host.name, interface]
        return await _mac(hosts[there.host], there)

    return next_hop


async def _mac(host: Host, port: Port) -> str:
    done = await host.run(["cat", f"/sys/class/net/{port.interface}/address"], check=False)
    if done.status != 0:
        raise HostError(f"there is no port {port.interface}", host=host.name, remedy="correct the testbed file")
    return done.text.strip()


def _steady(interfaces: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {k: v for k, v in facts.items() if k not in _PASSING} for name, facts in interfaces.items()}
