"""Busy cores of the DUT without load: the load of a device that polls does not show there.

The testbed is looked at before the first trial of a run (examine.py). A mode that commands or a person set may start any program, so there
the DUT is looked at once more.
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
    """Busy cores without load. On this machine cores count only where threads of the DUT are, since others work there too."""

    cores: tuple[int, ...] = ()
    threads: tuple[str, ...] = ()
    """Programs and kernel threads of the DUT on this machine, by name."""


def may_start_programs(mode: Mode) -> bool:
    """Return whether commands other than dutlab's own put the DUT into the mode."""
    return isinstance(mode, (CommandMode, ManualMode, InLevels, StartsPrograms))


async def look_at_rest(dut: Host, accounts: AccountReader) -> DutAtRest:
    """Takes half a second. Raises HostError when the DUT is gone."""
    before = await accounts.read()
    watched = await cores_of(dut)
    after = await accounts.read()
    cores = tuple(always_busy(watched))
    if not isinstance(dut, LocalHost):
        return DutAtRest(cores)
    if THIS_MACHINE not in before.keys() & after.keys() or not (threads := busy_threads(after[THIS_MACHINE].since(before[THIS_MACHINE]))):
        return DutAtRest()
    if not cores and watched is not None:  # a hypervisor took some of it
        cores = (max(watched.cores, key=lambda n: watched.cores[n].busy_percent),)
    return DutAtRest(cores, threads)


def busy_threads(interference: Interference) -> tuple[str, ...]:
    """The threads that ran or waited for a CPU all the time: one that shares its core with others polls too."""
    return tuple(name for name, t in interference.threads.items() if t.run_s + t.wait_s >= POLLS_PERCENT / 100 * interference.seconds)
