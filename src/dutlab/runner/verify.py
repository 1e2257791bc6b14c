"""The methods against devices with known answers, in the place of a lab's DUT."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dutlab import labs
from dutlab.methods.known import Case, Known
from dutlab.methods.ports import Bench
from dutlab.tools.engine.engine import Engine
from dutlab.tools.known_device import known_device


async def verify(lab: labs.Lab, cases: Sequence[Case], binary: str, tell: Callable[[Known], None]) -> list[Known]:
    """Measures each case and tells each figure as it comes. The lab's DUT must not forward by itself, as after labs.up().

    Raises ToolMissing, ToolFailed, HostError.
    """
    hosts, found = lab.hosts(), []
    engine = Engine(hosts, lab.testbed, lab.cpus, binary)
    link = lab.testbed.links["a"]
    try:
        for case in cases:
            async with known_device(hosts["dut"], link, binary, case.wrong) as device:
                for known in await case.measure(Bench(engine), device):
                    found.append(known)
                    tell(known)
    finally:
        await engine.close()
        for host in hosts.values():
            await host.close()
    return found
