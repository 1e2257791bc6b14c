"""A device with a known answer in the place of the DUT: an eBPF program (engine/xdp/bpf/devices.bpf.c) between two ports of one host."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence

from dutlab.errors import ToolFailed
from dutlab.hosts.host import Host, Process
from dutlab.spec.testbed import Link

TOOL = "dutlab-engine yardstick"
_ANSWER_S = 10.0


class KnownDevice:
    """Stands between the DUT's ports of a link."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def wronged(self) -> int:
        """Frames that it dropped, doubled, swapped or damaged so far. Raises ToolFailed."""
        await self._process.write(b"\n")
        return int((await self.said())["wronged"])

    async def said(self) -> dict[str, int]:
        """Its next line. Raises ToolFailed."""
        try:
            line = await asyncio.wait_for(self._process.readline(), _ANSWER_S)
            return dict(json.loads(line))
        except (TimeoutError, ValueError) as e:
            why = "says nothing; see whether its host may load eBPF programs"
            raise ToolFailed(why, tool=TOOL, host=self._process.host_name) from e


@contextlib.asynccontextmanager
async def known_device(dut: Host, link: Link, binary: str, wrong: Sequence[str]) -> AsyncIterator[KnownDevice]:
    """In place while the context lasts; `wrong` is what it does, as in ("drops", "7"). Raises ToolFailed, HostError."""
    process = await dut.spawn([binary, "yardstick", "device", link.dut_in.interface, link.dut_out.interface, *wrong])
    try:
        device = KnownDevice(process)
        await device.said()
        yield device
    finally:
        await process.end()
