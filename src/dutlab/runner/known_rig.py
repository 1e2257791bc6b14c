"""Faults of the rig itself, which must never count as the DUT's: a sink with four receive queues, and a link that goes down.

They run in the embedded lab, after the devices of methods.known. The four queues come last, since they need a router and another cable.
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
"""Known method whose rig is tested."""
RATE, DURATION = Pps(2000.0), Seconds(1.0)
QUEUES, FLOWS = 4, 64
DOWN_S = 0.2
_NEVER = ("drops", str(2**31 - 1))
_FORWARDS = "/proc/sys/net/ipv4/ip_forward"


class _Quiet:
    """Account reader without threads, so that no load counts as disturbed by other work."""

    async def read(self) -> Mapping[str, CpuAccount]:
        return {}


async def verify(lab: labs.Lab, binary: str, tell: Callable[[Known], None]) -> list[Known]:
    """Measure all, and call `tell` with each figure. The lab's cable is another one afterwards.

    Raises ToolMissing, ToolFailed, HostError, LinkUnsteady.
    """
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
    """Unplug the cable to the sink once, during a load. The load must be offered again, and the DUT must lose no frame."""
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
    """Load a router that spreads flows over the queues of its cable to the sink. It does not reorder, but the rig cannot know that."""
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
    """Set up a cable with several queues and a DUT that forwards, during the context. Raises HostError."""
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
