"""Programs that a plan needs on each host, checked before its first trial."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dutlab.by_path import named
from dutlab.dut.mode import Mode, NeedsPrograms
from dutlab.errors import ToolMissing
from dutlab.hosts.host import Host
from dutlab.hosts.programs import ETHTOOL, IP, IPERF3, PING, TASKSET, Program, missing_on
from dutlab.plan.cell import Cell
from dutlab.spec.drives import host_of_drive
from dutlab.spec.links import DUT
from dutlab.spec.testbed import Testbed
from dutlab.systems import system_of
from dutlab.tools.fio.drives import LSBLK, WIPEFS
from dutlab.tools.fio.program import FIO
from dutlab.tools.iperf3.tcp import hosts_of

_ADDS = {ETHTOOL: "drivers, offloads and ring sizes of its ports"}
"""Optional programs → facts that they add to the record."""


def needs_of(
    testbed: Testbed, cells: Sequence[Cell], modes: Mapping[str, Mode], pinned: Mapping[str, Sequence[int]], framed: Iterable[str]
) -> dict[str, list[Program]]:
    """Return host → programs that the trials of `cells` need.

    `pinned` is host → cores of its programs; `framed` are the hosts with the engine. The engine and generators other than iperf3 check
    their other needs themselves.
    """
    programs_by_host: dict[str, list[Program]] = defaultdict(list)
    for host in framed:  # for the MAC of the engine's next hop
        programs_by_host[host] += [IP, PING]
    dut = testbed.dut
    for name in dict.fromkeys(name for cell in cells for name in (cell.mode, *cell.setting.modes)):
        mode = modes.get(name)
        if isinstance(mode, NeedsPrograms):
            for role, programs in mode.needs().items():
                for host in hosts_in(role, testbed):
                    programs_by_host[host] += programs
    for cell in cells:
        for host in hosts_of(cell, testbed) if cell.tool == IPERF3.name else ():
            programs_by_host[host] += [
                IPERF3,
                *([TASKSET] if pinned.get(host) and TASKSET.name in system_of(testbed.hosts[host].family).pin else []),
            ]
        if dut is not None and system_of(testbed.dut_family).kernel_tables:
            programs_by_host[dut] += map(named, cell.setting.on_dut)
        for link in cell.links if cell.setting.at_source else ():
            programs_by_host[testbed.links[link].source.host] += map(named, cell.setting.at_source)
    programs_by_host |= {host: [*programs_by_host[host], FIO, LSBLK, WIPEFS] for host in hosts_of_drives(cells)}
    return {host: list(dict.fromkeys(programs)) for host, programs in programs_by_host.items()}


async def missing_of(hosts: Mapping[str, Host], needs: Mapping[str, Iterable[Program]]) -> list[ToolMissing]:
    """Return needed programs that are missing, of all hosts that can be reached. Raises HostError."""
    return [absent for host, programs in needs.items() if host in hosts for absent in await missing_on(hosts[host], programs)]


async def left_out(hosts: Mapping[str, Host], testbed: Testbed) -> list[str]:
    """Return a note for each optional program that is missing. Raises HostError."""
    notes = []
    for role, host in hosts.items():
        if system_of(testbed.hosts[role].family).kernel_tables:
            absent = {missing.tool for missing in await missing_on(host, _ADDS)}
            notes += [f"{role}: no {p.name}, so {what} are not recorded" for p, what in _ADDS.items() if p.name in absent]
    return notes


def hosts_in(role: str, testbed: Testbed) -> list[str]:
    """Return the hosts in the role `source`, `dut` or `sink`."""
    if role == DUT:
        return [] if testbed.dut is None else [testbed.dut]
    links = [link for link in testbed.links.values() if link.path]
    return list(dict.fromkeys((link.source if role == "source" else link.sink).host for link in links))


def hosts_of_drives(cells: Iterable[Cell]) -> list[str]:
    """Return the hosts whose drives these cells use."""
    return list(dict.fromkeys(host_of_drive(name) for cell in cells if cell.tool == FIO.name for name in cell.links))
