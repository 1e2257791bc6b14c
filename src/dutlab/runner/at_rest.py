"""Busy cores of the DUT without load. Where a device polls, a core is busy with or without load.

examine.py examines the testbed before the first trial of a run. Modes set by commands or by a person may start any program, so the
DUT is examined again in such a mode.
"""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.dut.custom import CommandMode
from dutlab.dut.manual import ManualMode
from dutlab.dut.mode import Mode, StartsPrograms
from dutlab.hosts.host import Host
from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.physics.interference import Interference
from dutlab.runner.examine import POLLS_PERCENT, always_busy, cores_of
from dutlab.runner.levels import InLevels
from dutlab.sensors.cpu_account import AccountReader


@dataclass(frozen=True)
class DutAtRest:
    """Busy cores without load. On this machine, cores count only if a thread of the DUT is busy, since other programs run here too."""

    cores: tuple[int, ...] = ()
    threads: tuple[str, ...] = ()
    """Names of the DUT's programs and kernel threads on this machine."""


def may_start_programs(mode: Mode) -> bool:
    """Return whether the mode is set by commands that are not dutlab's."""
    return isinstance(mode, (CommandMode, ManualMode, InLevels, StartsPrograms))


async def measure_at_rest(dut: Host, accounts: AccountReader) -> DutAtRest:
    """Measure the DUT's busy cores for half a second. Raises HostError if the DUT does not answer."""
    before = await accounts.read()
    watched = await cores_of(dut)
    after = await accounts.read()
    cores = tuple(always_busy(watched))
    if not isinstance(dut, LocalHost):
        return DutAtRest(cores)
    if THIS_MACHINE not in before.keys() & after.keys() or not (threads := busy_threads(after[THIS_MACHINE].since(before[THIS_MACHINE]))):
        return DutAtRest()
    if not cores and watched is not None:  # a hypervisor took part of the core's time
        cores = (max(watched.cores, key=lambda n: watched.cores[n].busy_percent),)
    return DutAtRest(cores, threads)


def busy_threads(interference: Interference) -> tuple[str, ...]:
    """Return threads that ran or waited for a CPU all the time. Waiting counts, since a polling thread may share its core."""
    return tuple(name for name, t in interference.threads.items() if t.run_s + t.wait_s >= POLLS_PERCENT / 100 * interference.seconds)
