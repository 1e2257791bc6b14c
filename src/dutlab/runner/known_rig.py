"""Faults of the tester itself, which must never count as the DUT's: a sink with four receive queues, and a link that drops.

In the embedded lab, behind the devices of methods.known. The first needs a router there and another cable to the sink, so it comes last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from dutlab import labs
from dutlab.choices import KnownMethod
from dutlab.ending import closing, ended_by
from dutlab.hosts.host import Host
from dutlab.labs.recipe import cable_script, port_script
from dutlab.methods.known.case import DRAINED, FRAME, LINK, Known
from dutlab.methods.ports import NO_TIME, Offer
from dutlab.methods.undisturbed import Undisturbed
from dutlab.physics.interference import CpuAccount
from dutlab.runner.verify import known_device
from dutlab.spec.links import DUT
from dutlab.spec.traffic import FlowSet, Traffic
from dutlab.tools.engine.engine import Engine
from dutlab.units import Pps, Seconds

METHOD: KnownMethod = "sweep"
"""The known method whose rig this is."""
RATE, DURATION = Pps(2000.0), Seconds(1.0)
QUEUES, FLOWS = 4, 64
DOWN_S = 0.2
_NEVER = ("drops", str(2**31 - 1))
_FORWARDS = "/proc/sys/net/ipv4/ip_forward"


class _Quiet:
    """Nobody is asked what other work takes."""

    async def read(self) -> Mapping[str, CpuAccount]:
        return {}


async def verify(lab: labs.Lab, binary: str, tell: Callable[[Known], None]) -> list[Known]:
    """Tells each figure as it comes. Leaves the lab with another cable. Raises ToolMissing, ToolFailed, HostError, LinkUnsteady."""
    hosts = lab.hosts()
    engine, dut = Engine(hosts, lab.testbed, lab.cpus, binary), hosts[lab.testbed.dut or DUT]
    results = []
    async with closing(engine, *hosts.values()):
        for measure in (_link_drops, _four_queues):
            for known in await measure(lab, engine, dut):
                results.append(known)
                tell(known)
    return results


async def _link_drops(lab: labs.Lab, engine: Engine, dut: Host) -> list[Known]:
    """The cable to the sink, once, in the middle of a load: it is offered again, and the DUT has lost nothing."""
    link, pulls = lab.testbed.links[LINK], list[asyncio.Task[object]]()
    port = link.dut_out.interface
    script = f"ip link set dev {port} down; sleep {DOWN_S}; ip link set dev {port} up"

    def pull() -> None:
        if not pulls:
            pulls.append(asyncio.create_task(dut.run(["sh", "-c", script])))

    async with known_device(dut, link, engine.binaries[link.source.host], _NEVER):
        outcome = await Undisturbed(engine, _Quiet()).offer(replace(_load(), begun=pull))
        await asyncio.gather(*pulls)
    lost = [earlier for earlier in outcome.thrown_away if earlier.link_lost]
    device = f"a cable that is pulled for {DOWN_S:g} s"
    return [
        Known(device, METHOD, "lost_frames", 0, outcome.flows[0].lost_frames, 0),
        Known(device, METHOD, "void_loads", 1, min(len(lost), 1), 0, "no load was thrown away" if not lost else ""),
    ]


async def _four_queues(lab: labs.Lab, engine: Engine, dut: Host) -> list[Known]:
    """A router that spreads flows over the queues of its cable to the sink does not reorder, but the rig cannot know that."""
    async with _cabled(lab, dut):
        outcome = await engine.offer(_load(FLOWS))
    flow, device = outcome.flows[0], f"{QUEUES} receive queues, {FLOWS} flows"
    known = flow.received_frames and flow.reordered_frames is not None
    return [
        Known(device, METHOD, "reordered_at_least_frames", 0, flow.reordered_at_least_frames, 0),
        Known(device, METHOD, "loads_whose_order_is_known", 0, float(known), 0),
    ]


@asynccontextmanager
async def _cabled(lab: labs.Lab, dut: Host) -> AsyncIterator[None]:
    """With such a cable, and a DUT that forwards. Raises HostError."""
    link = lab.testbed.links[LINK]
    sink = lab.hosts()[link.sink.host]
    async with ended_by(lambda: dut.run(["sh", "-c", f"echo 0 >{_FORWARDS}"], check=False)), closing(sink):
        await dut.run(["sh", "-ec", cable_script(lab.testbed, link.dut_out, lab.namespaces[link.sink.host], QUEUES)])
        await dut.run(["sh", "-ec", f"{port_script(lab.testbed, link.dut_out)}echo 1 >{_FORWARDS}"])
        await sink.run(["sh", "-ec", port_script(lab.testbed, link.sink)])
        yield


def _load(flows: int = 1) -> Offer:
    traffic = Traffic(flows=FlowSet(count=flows, source_ports=flows))
    return Offer((LINK,), FRAME, RATE, DURATION, warmup=NO_TIME, drain=DRAINED, traffic=traffic)
