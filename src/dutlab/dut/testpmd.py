"""dpdk-testpmd of DPDK on packet sockets of the DUT's ports (net_af_packet): no card is bound to DPDK, and no huge pages are reserved.

Words: DPDK's "Testpmd Application User Guide". Tested with 22.11, the version of Debian 12.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dutlab.dut.device_programs import DevicePrograms, ProgramText
from dutlab.dut.dpdk import RINGS, RUN_FOLDER, DpdkProgram, peers
from dutlab.dut.user_space import Crossing
from dutlab.hosts.host import Host
from dutlab.hosts.programs import DPDK_TESTPMD, STDBUF, Program
from dutlab.systems.polled import parse_testpmd

_PROMPT = "testpmd> "
_NO_COMMAND = "Command not found"
_ASKS = "show config fwd\nshow fwd stats all\nshow port stats all\ndutlab\n"
"""Commands for the counters. testpmd refuses the last line with a message, which marks the end of its answers."""
_MEMORY_MB, _BUFFERS = 256, 16384


@dataclass(frozen=True)
class Testpmd(DpdkProgram):
    """testpmd that forwards frames unchanged (`io`), or with the MAC addresses of the next cable (`mac`)."""

    forwards: Literal["io", "mac"]

    @property
    def needs(self) -> Sequence[Program]:
        """Programs on the DUT."""
        return (DPDK_TESTPMD, STDBUF)

    def commands(self, ways: Sequence[Crossing], cores: Sequence[int]) -> ProgramText:
        """Return the command: one polling thread for all ports, or one per link with enough cores, and a sleeping thread for commands."""
        ports = [port for way in ways for port in way.ports]
        polling = list(cores)[: len(ways)]
        lcores = [f"0@{cores[0]}", *(f"{n}@{core}" for n, core in enumerate(polling, start=1))]
        words = [
            f"--lcores={','.join(lcores)} --no-pci --no-huge -m {_MEMORY_MB} --file-prefix=dutlab",
            *(f"--vdev=net_af_packet{n},iface={port}{RINGS['packet']}" for n, port in enumerate(ports)),
            f"-- -i --auto-start --forward-mode={self.forwards} --nb-cores={len(polling)} --record-core-cycles",
            f"--total-num-mbufs={_BUFFERS}",
            *(peers("eth-peer", ways) if self.forwards == "mac" else ()),
        ]
        # Without a terminal, its output would not be line-buffered.
        return ProgramText((f"{RUN_FOLDER}\nexec stdbuf -oL dpdk-testpmd {' '.join(words)}",))

    async def configure(self, programs: DevicePrograms, dut: Host, ways: Sequence[Crossing]) -> None:
        """Wait until it reads commands: it forwards by then. Raises HostError."""
        del dut, ways
        (program,) = programs.running
        await program.asked("", _PROMPT)

    async def counters(self, programs: DevicePrograms, dut: Host) -> Mapping[str, float]:
        """Return the counters of its ports, and the cycles of its threads. Raises HostError."""
        del dut
        (program,) = programs.running
        return parse_testpmd(await program.asked(_ASKS, _NO_COMMAND), time.monotonic())
