"""Sensors of totals, read before and after a trial: growth of counters of hosts and of a DUT's programs, and CPU time of other work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

from dutlab.events import Tell, no_observer
from dutlab.hosts.host import Host
from dutlab.physics.interference import CpuAccount
from dutlab.sensors.cpu_account import AccountReader
from dutlab.sensors.sensor import Watched
from dutlab.systems.watched import CONNTRACK_ENTRIES


class CounterTotals:
    """Counters of one host."""

    name = "counters"
    vital = True
    """True: if the host does not answer before or after the trial, it is lost, and so is the trial."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._before: Mapping[str, float] | None = None

    async def start(self, tell: Tell = no_observer) -> None:
        """Read the counters. Raises HostError."""
        self._before = await read_counters(self._host)

    async def stop(self, began_s: float) -> Watched:
        """Read the counters again, and return their growth. Raises HostError."""
        if self._before is None:
            return Watched()
        return Watched(counters={self._host.name: difference(self._before, await read_counters(self._host))})


class ProgramTotals:
    """Counters that the programs of a DUT keep; `read` returns them."""

    name = "device counters"
    vital = False
    """False: a program that has ended does not answer, and the mode reports that after the trial, with its last lines."""

    def __init__(self, host: str, read: Callable[[], Awaitable[Mapping[str, float]]]) -> None:
        self._host, self._read = host, read
        self._before: Mapping[str, float] = {}

    async def start(self, tell: Tell = no_observer) -> None:
        """Read the counters. Raises HostError."""
        self._before = await self._read()

    async def stop(self, began_s: float) -> Watched:
        """Read the counters again, and return their growth. Raises HostError."""
        return Watched(counters={self._host: difference(self._before, await self._read())})


class CpuTotals:
    """CPU accounts of all machines of a testbed."""

    name = "interference"
    vital = True

    def __init__(self, accounts: AccountReader) -> None:
        self._accounts, self._meanwhile = accounts, AsyncExitStack()
        self._before: Mapping[str, CpuAccount] = {}

    async def start(self, tell: Tell = no_observer) -> None:
        self._before = await self._accounts.read()
        await self._meanwhile.enter_async_context(self._accounts.running())

    async def stop(self, began_s: float) -> Watched:
        await self._meanwhile.aclose()
        before, after = self._before, await self._accounts.read()
        return Watched(interference={name: after[name].since(before[name]) for name in sorted(after.keys() & before.keys())})


async def read_counters(host: Host) -> dict[str, float]:
    """Return all counters of `host` now, read by one command; empty if dutlab has no command for the system. Raises HostError."""
    counting = host.system.counters
    if counting is None:
        return {}
    done = await host.run(host.system.shell.text(counting.script))
    return counting.parse(done.text)


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the growth of each counter, and `softnet_dropped` etc. as sums over the cores.

    Counters in only one reading are left out, and so are counters that fell because their interface was made again. Wraps of 32-bit
    counters are corrected. The number of connection-tracking entries is the number after the trial.
    """
    counts: dict[str, float] = {}
    for name in before.keys() & after.keys():
        change = after[name] - before[name]
        if name == CONNTRACK_ENTRIES:
            counts[name] = after[name]
        elif change < 0 and "_softnet_" in name:
            counts[name] = change + 2**32
        elif change >= 0:
            counts[name] = change
    for name in ("processed", "dropped", "squeezed"):
        if parts := [value for key, value in counts.items() if key.startswith("cpu") and key.endswith(f"_softnet_{name}")]:
            counts[f"softnet_{name}"] = sum(parts)
    return dict(sorted(counts.items()))
