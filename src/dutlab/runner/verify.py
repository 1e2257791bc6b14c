"""Check of the methods on devices with known answers, in place of a lab's DUT."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence

from dutlab import labs
from dutlab.ending import closing
from dutlab.errors import ToolFailed
from dutlab.hosts.host import Host, Process
from dutlab.hosts.own_time import own_timeout
from dutlab.methods.known import Case, Known
from dutlab.methods.ports import Bench
from dutlab.spec.links import DUT, Link
from dutlab.tools.engine.engine import Engine

TOOL = "dutlab-engine yardstick"
_ANSWER_S = 10.0


class KnownDevice:
    """Known device between the DUT's two ports of a link."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def altered_frames(self) -> int:
        """Return the number of frames that it dropped, duplicated, swapped or damaged so far. Raises ToolFailed."""
        await self._process.write(b"\n")
        return int((await self.next_line())["wronged"])

    async def forget(self) -> None:
        """Delete every connection of a device that translates addresses. Raises ToolFailed."""
        await self._process.write(b"forget\n")
        await self.next_line()

    async def next_line(self) -> dict[str, int]:
        """Return its next line of output. Raises ToolFailed."""
        try:
            async with own_timeout(_ANSWER_S):
                line = await self._process.readline()
            return dict(json.loads(line))
        except (TimeoutError, ValueError) as e:
            why = "prints nothing; check that its host may load eBPF programs"
            raise ToolFailed(why, tool=TOOL, host=self._process.host_name) from e


@contextlib.asynccontextmanager
async def known_device(dut: Host, link: Link, binary: str, wrong: Sequence[str]) -> AsyncIterator[KnownDevice]:
    """Run a known device during the context; `wrong` is its fault, as in ("drops", "7"). Raises ToolFailed, HostError."""
    process = await dut.spawn([binary, "yardstick", "device", link.dut_in.interface, link.dut_out.interface, *wrong])
    try:
        device = KnownDevice(process)
        await device.next_line()
        yield device
    finally:
        await process.end()


async def verify(lab: labs.Lab, cases: Sequence[Case], binary: str, tell: Callable[[Known], None]) -> list[Known]:
    """Measure each case, and call `tell` with each figure. The lab's DUT must not forward, which is its state after labs.up().

    Raises ToolMissing, ToolFailed, HostError.
    """
    hosts, figures = lab.hosts(), []
    engine = Engine(hosts, lab.testbed, lab.cpus, binary)
    link, dut = next(iter(lab.testbed.through_dut().links.values())), hosts[lab.testbed.dut or DUT]
    async with closing(engine, *hosts.values()):
        for case in cases:
            async with known_device(dut, link, binary, case.wrong) as device:
                for known in await case.measure(Bench(engine), device):
                    figures.append(known)
                    tell(known)
    return figures
