"""Commands on several hosts that begin at one agreed instant.

Each command waits behind a gate on its host: a few lines of the system's shell (`systems/posix_gate.py`) that print the host's clock when
asked, get the instant, and wait for it. The wait is local, so a busy network or controller at that instant delays no command. A host
whose clock is not finer than a second is released by a message instead, sent half a round trip earlier. If all hosts are on this machine,
each has only one shell, which is released by a message too: no clocks are compared.

Clocks are compared as in `clocks.py`: the host's wall clock against this process's CLOCK_MONOTONIC, which cannot be set.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dutlab.errors import HostError
from dutlab.hosts.host import Host, OnThisMachine, Process
from dutlab.hosts.own_time import own_timeout
from dutlab.systems.posix_gate import BEGAN, NS_PER_S
from dutlab.tools.engine.clocks import Offset, exchange

MOST_EXCHANGES = 4
CLOSE_NS = 2_000_000
"""Error of an offset up to which the clock is not read again."""
AT_ONCE = 8
"""Gates that are served at the same time. More of them would wait for one another, run out of time, and widen the bounds."""
READY_S = 30.0
TOLD_LATER_NS = 500_000
"""Delay of the report of a start, per host that begins. A report costs more than a start: on a shared machine all start first."""
LEAD_NS = 1_000_000
"""Lead of the instant in addition to the round trips, which are long if the controller or a host gets no CPU."""
COARSE_NS = 100_000_000
"""Error of a clock from which on no gate waits by it."""
DRIFT = 500e-6
"""Largest drift between two clocks: the most that NTP corrects a frequency by (RFC 5905, MAXFREQ). A larger change is a jump."""


@dataclass(frozen=True)
class Start:
    """Start of a command on a host, by our clock. Times are in nanoseconds after the agreed instant."""

    host: str
    ahead: Offset
    """Offset of its wall clock against ours."""
    earliest_ns: int
    latest_ns: int
    jumped_ns: int = 0
    """Step of its clock since the last reading; 0 if drift explains all of it."""


@dataclass(frozen=True)
class ClockReading:
    """Reading of a host's wall clock, against our CLOCK_MONOTONIC at `at_ns`."""

    offset: Offset
    at_ns: int
    round_trip_ns: int

    @property
    def is_fine(self) -> bool:
        """True if the clock is fine enough to wait for an instant."""
        return self.offset.error_ns < COARSE_NS

    def jump_to(self, later: ClockReading) -> int:
        """Return the step of the clock between two readings, in nanoseconds; 0 if their bounds and drift explain the difference."""
        allowed = self.offset.error_ns + later.offset.error_ns + DRIFT * abs(later.at_ns - self.at_ns)
        moved = later.offset.ns - self.offset.ns
        return moved if abs(moved) > allowed else 0


@dataclass
class Gate:
    """A command that is ready on its host. `process` is the command itself once the gate is open."""

    process: Process
    clock: ClockReading
    """Best of several readings."""
    jumped_ns: int = 0
    output: bytes = b""
    """Output of the command before the report of its start was read."""
    here: bool = False
    """True if it is on this machine, with our clock."""

    @classmethod
    async def stand(
        cls, host: Host, command: str, few: asyncio.Semaphore, last_seen: ClockReading | None = None, *, here: bool = False
    ) -> Gate:
        """Start `command` behind a gate and read the host's clock, also for a jump since `last_seen`. Raises HostError.

        `few` limits how many do so at once. `here`: this host and all others that begin with it are on this machine (`can_be_here`).
        """
        shell = host.system.shell
        if here and isinstance(host, OnThisMachine) and shell.gate_here:
            async with few:
                process = await host.spawn(shell.gate_here(command), tied=False)
                await _line(process)
            clock = _our_clock()
            return cls(process, clock, last_seen.jump_to(clock) if last_seen else 0, here=True)
        async with few:
            process = await host.spawn(shell.gate(command))
            await _line(process)
            clock = await _look(process)
            for _ in range(1, MOST_EXCHANGES):
                if clock.offset.error_ns > CLOSE_NS:
                    clock = min(clock, await _look(process), key=lambda r: r.offset.error_ns)
        return cls(process, clock, last_seen.jump_to(clock) if last_seen else 0)

    async def open(self, at_ns: int, few: asyncio.Semaphore, *, among: int = 1) -> Start:
        """Start the command at `at_ns` of our CLOCK_MONOTONIC, as one of `among` hosts; return once it runs. Raises HostError."""
        if self.here:
            before = at_ns - time.monotonic_ns()
            await self.process.write(b"go\n")
        elif self.clock.is_fine:
            async with few:
                await self._set_for(at_ns, among)
            before = self.clock.offset.error_ns
        else:
            await self._release_at(at_ns)
            before = self.clock.round_trip_ns
        times_ns = await self._begun()
        heard = time.monotonic_ns() - at_ns
        earliest, latest = self._between(times_ns, at_ns, heard) or (-before, heard)
        ours = _our_clock().offset
        ahead = Offset(self.clock.offset.ns - ours.ns, self.clock.offset.error_ns + ours.error_ns)
        return Start(self.process.host_name, ahead, earliest, latest, self.jumped_ns)

    async def _begun(self) -> list[int]:
        """Return the times of the host's clock before and after the start of the command; empty if unknown. Raises HostError."""
        while True:
            line = await _line(self.process)
            match = re.search(BEGAN, line)
            self.output += line[: match.start()] if match else line
            if match:
                return [int(shown_ns) for shown_ns in match.groups() if shown_ns]

    def _between(self, shown_ns: list[int], at_ns: int, heard_ns: int) -> tuple[int, int] | None:
        """Return the earliest and latest start after `at_ns`, by the host's own clock; None if it printed none, or was set since."""
        error = self.clock.offset.error_ns
        match [shown - self.clock.offset.ns - at_ns for shown in shown_ns]:
            case [before, after] if -error <= before <= after <= heard_ns + error:
                return before - error, min(after + error, heard_ns)
        return None

    async def _set_for(self, at_ns: int, among: int) -> None:
        """Let the gate wait by its own clock. Its reply is one more reading of that clock."""
        target = at_ns + self.clock.offset.ns
        asked = time.monotonic_ns()
        await self.process.write(f"go {target} {among * TOLD_LATER_NS / NS_PER_S:.4f}\n".encode())
        left = int(await _line(self.process))
        self.jumped_ns = self.jumped_ns or self.clock.jump_to(_reading(asked, target - left, time.monotonic_ns()))

    async def _release_at(self, at_ns: int) -> None:
        await asyncio.sleep((at_ns - self.clock.round_trip_ns // 2 - time.monotonic_ns()) / NS_PER_S)
        await self.process.write(b"go 0 0\n")
        await _line(self.process)


def can_be_here(hosts: Iterable[Host]) -> bool:
    """Return whether all hosts are on this machine, with its clock."""
    return all(isinstance(h, OnThisMachine) and h.on_this_machine and h.system.shell.gate_here for h in hosts)


def lead_ns(gates: Sequence[Gate]) -> int:
    """Return the time from now to the instant that lets all gates get it in time; 0 for one gate, or if all are here."""
    if len(gates) < 2 or all(gate.here for gate in gates):  # noqa: PLR2004 -- there is no other command, or no gate on another machine
        return 0
    trips = [gate.clock.round_trip_ns for gate in gates]
    return LEAD_NS + 3 * sum(trips) // AT_ONCE + 3 * max(trips, default=0)


def _our_clock() -> ClockReading:
    """Return a reading of our own clock, with bounds: this process may get no CPU between two reads."""
    asked = time.monotonic_ns()
    shown = time.time_ns()
    return _reading(asked, shown, time.monotonic_ns())


async def _look(process: Process) -> ClockReading:
    asked = time.monotonic_ns()
    await process.write(b"clock\n")
    shown, unit = map(int, (await _line(process)).split())
    return _reading(asked, shown, time.monotonic_ns(), unit)


def _reading(asked_ns: int, shown_ns: int, heard_ns: int, unit_ns: int = 1) -> ClockReading:
    """Return the reading of a clock that was read between `asked_ns` and `heard_ns`, and truncated to its unit."""
    middle = shown_ns + unit_ns // 2
    offset = exchange(asked_ns=asked_ns, received_ns=middle, replied_ns=middle, heard_ns=heard_ns)
    return ClockReading(Offset(offset.ns, offset.error_ns + unit_ns // 2), heard_ns, heard_ns - asked_ns)


async def _line(process: Process) -> bytes:
    try:
        async with own_timeout(READY_S):
            line = await process.readline()
    except TimeoutError:
        await process.end()
        raise HostError(f"did not start within {READY_S:g} s", host=process.host_name) from None
    if not line:
        done = await process.end()
        raise HostError(f"ended with {done.status} before it began: {done.complaint or 'it printed nothing'}", host=process.host_name)
    return line
