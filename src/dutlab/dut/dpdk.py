"""The common part of DPDK's programs on sockets of the DUT's ports: no card is bound to DPDK, and no huge pages are reserved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.dut.device_programs import DevicePrograms
from dutlab.dut.mode import UdpFlow
from dutlab.dut.user_space import Crossing
from dutlab.hosts.host import Host

RUN_FOLDER = "export RUNTIME_DIRECTORY=$PWD"
"""Shell line: DPDK keeps its files in the folder of the programs."""
RINGS = {"packet": ",framesz=2048,blocksz=4096,framecnt=2048", "xdp": ""}
"""Kind of socket → options of its virtual device."""


class DpdkProgram:
    """A program that SIGTERM ends cleanly, that makes no ports, and that tracks no flows."""

    @property
    def stop(self) -> Sequence[str]:
        """No commands: SIGTERM ends it cleanly."""
        return ()

    def made_ports(self, links: int) -> Sequence[str]:
        """Return no ports: it makes none."""
        del links
        return ()

    async def is_tracked(self, programs: DevicePrograms, dut: Host, flow: UdpFlow) -> bool | None:
        """Return False: it tracks no flows."""
        del programs, dut, flow
        return False


def peers(option: str, ways: Sequence[Crossing]) -> Iterator[str]:
    """Yield an option for each port, in order, with the MAC of its next hop."""
    return (f"--{option}={n},{mac}" for n, mac in enumerate(mac for way in ways for mac in way.peers))
