"""Which programs a plan needs on which host, found out before its first trial."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dutlab.dut.mode import Mode, NeedsPrograms
from dutlab.errors import ToolMissing
from dutlab.hosts.host import Host
from dutlab.hosts.programs import ETHTOOL, IP, IPERF3, NFT, PING, PYTHON3, SYSCTL, TASKSET, Program, missing_on
from dutlab.plan.cell import Cell
from dutlab.spec.testbed import Testbed
from dutlab.spec.workloads.matrix import MatrixSetting
from dutlab.spec.workloads.reconf import ReconfSetting
from dutlab.spec.workloads.rfc2544 import Benchmark, Modifier, Rfc2544Setting
from dutlab.systems import system_of
from dutlab.workloads import named, plug_of

_ENDS = ("source", "sink")
_FOR_RESET = (IP, NFT, SYSCTL)
_ADDS = {ETHTOOL: "drivers, offloads and ring sizes of its ports"}
"""Programs that only add to the record, and what they add."""


def needs_of(
    testbed: Testbed, cells: Sequence[Cell], modes: Mapping[str, Mode], pinned: Mapping[str, Sequence[int]]
) -> dict[str, list[Program]]:
    """Role → programs without which a trial of `cells` could not be measured. `pinned` is role → cores of its programs.

    The engine and generators other than iperf3 say themselves what they need.
    """
    found: dict[str, list[Program]] = defaultdict(list)
    for role in _ENDS:  # the engine's next hop
        found[role] += [IP, PING] if system_of(testbed.hosts[role].family).kernel_tables else []
    for name in dict.fromkeys(
        name for cell in cells for name in (cell.mode, cell.setting.to if isinstance(cell.setting, ReconfSetting) else cell.mode)
    ):
        mode = modes.get(name)
        if isinstance(mode, NeedsPrograms):
            for role, programs in mode.needs().items():
                found[role] += programs
    for cell in cells:
        suite = cell.setting if isinstance(cell.setting, Rfc2544Setting) else None
        for role in _of_iperf3(cell):
            found[role] += [IPERF3, *([TASKSET] if pinned.get(role) and TASKSET.name in system_of(testbed.hosts[role].family).pin else [])]
        if system_of(testbed.hosts["dut"].family).kernel_tables:
            found["dut"] += (named(path) for path in plug_of(cell.workload).on_dut)
            found["dut"] += _FOR_RESET if suite is not None and Benchmark.RESET in suite.tests else ()
            found["dut"] += (IP,) if suite is not None and Modifier.ROUTING in suite.modifiers else ()
        found["source"] += (PYTHON3,) if suite is not None and Modifier.MANAGEMENT in suite.modifiers else ()
    return {role: list(dict.fromkeys(programs)) for role, programs in found.items()}


async def missing_of(hosts: Mapping[str, Host], needs: Mapping[str, Iterable[Program]]) -> list[ToolMissing]:
    """What is needed and not there, of all hosts that can be reached. Raises HostError."""
    return [absent for role, programs in needs.items() if role in hosts for absent in await missing_on(hosts[role], programs)]


async def left_out(hosts: Mapping[str, Host], testbed: Testbed) -> list[str]:
    """A note for each program that a record can do without. Raises HostError."""
    notes = []
    for role, host in hosts.items():
        if system_of(testbed.hosts[role].family).kernel_tables:
            absent = {missing.tool for missing in await missing_on(host, _ADDS)}
            notes += [f"{role}: no {p.name}, so {what} are not recorded" for p, what in _ADDS.items() if p.name in absent]
    return notes


def _of_iperf3(cell: Cell) -> tuple[str, ...]:
    """The roles that run iperf3."""
    if cell.tool != IPERF3.name:
        return ()
    return (cell.setting.client, cell.setting.server) if isinstance(cell.setting, MatrixSetting) else _ENDS
