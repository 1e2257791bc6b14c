"""Tool `steps`: commands of the user's own on the hosts of a testbed, in phases with a barrier before each.

All hosts of a phase begin together: the first step of each is started behind a gate (`gate.py`), and once every host stands at its own
they agree on an instant.
The steps of one host follow one another. A spawned step runs until it ends by itself, at the latest until its trial ends. `reset` is
carried out whatever happened before, and nothing of a step is lost: output, errors, status, times.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import CommandTimedOut, HostError, InputError
from dutlab.hosts.host import Done, Host, Process
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.steps import PHASES, ByHost, Phase, Step, StepsWorkload
from dutlab.tools.gate import AT_ONCE, ClockReading, Gate, Start, lead_ns

TOOL = "steps"
STARTS = "starts"
"""The table of when each host began each phase, and of the clocks that say so."""
ALL_HOSTS = "all hosts"
"""Stands where other tools name a link."""
LONGEST_S = 366 * 86400.0
"""For a step without a time-out: it may take as long as it takes."""


@dataclass(frozen=True)
class StepDone:
    """A step that was begun, and what became of it."""

    host: str
    phase: Phase
    place: int
    """In its phase on its host, from 1."""
    step: Step
    started_s: float
    """Wall clock, in seconds since the epoch."""
    seconds: float
    status: int | None
    """None: it was ended by its time-out, or its host was lost."""
    stdout: bytes = b""
    stderr: bytes = b""
    why: str = ""
    """Why it has failed; empty when it has not."""

    @property
    def failed(self) -> bool:
        """It did not do what it was asked for. A spawned step that ran until the reset has."""
        return bool(self.why)

    @property
    def file(self) -> str:
        """Where its output is kept, without the ending."""
        return f"{self.host}/{self.phase}/{self.place:02d}"

    @property
    def row(self) -> Row:
        """For the record's table."""
        return {
            "host": self.host,
            "phase": self.phase,
            "step": self.step.name or str(self.place),
            "kind": "run" if self.step.spawn is None else "spawn",
            "command": self.step.command,
            "status": self.status,
            "started_s": round(self.started_s, 6),
            "duration_s": round(self.seconds, 6),
            "why": self.why,
        }


@dataclass
class Account:
    """What has been done so far; filled as it happens, so that an interrupted trial keeps it too."""

    done: list[StepDone] = field(default_factory=list)
    starts: dict[Phase, list[Start]] = field(default_factory=dict)
    """When each host began, by phase; a host that was lost has none."""
    clocks: dict[str, ClockReading] = field(default_factory=dict)
    """Each host's clock as it was last seen."""

    @property
    def failed(self) -> list[StepDone]:
        """In the order of their end."""
        return [d for d in self.done if d.failed]

    @property
    def skew_ns(self) -> int:
        """At most this lay between the first host's start of a phase and the last's."""
        spreads = [max(s.latest_ns for s in starts) - min(s.earliest_ns for s in starts) for starts in self.starts.values() if starts]
        return max(spreads, default=0)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Of clocks that were set meanwhile."""
        jumps = [(phase, s) for phase, starts in self.starts.items() for s in starts if s.jumped_ns]
        return tuple(
            Doubt(DoubtKind.CLOCK_JUMPED, detail=f"{s.host}, by {s.jumped_ns / 1e9:+.3f} s, seen as {phase} began") for phase, s in jumps
        )

    def measured(self) -> Measured:
        """Figures, tables and outputs for the record."""
        ordered = sorted(self.done, key=lambda d: (PHASES.index(d.phase), d.started_s))
        raw = {f"{d.file}.{end}": data for d in ordered for end, data in (("out", d.stdout), ("err", d.stderr)) if data}
        figures = {
            "failed_steps": float(len(self.failed)),
            "skew_ns": float(self.skew_ns),
            "duration_s": max((d.started_s + d.seconds for d in ordered), default=0.0) - min((d.started_s for d in ordered), default=0.0),
        }
        return Measured(
            figures={ALL_HOSTS: figures},
            raw=raw,
            doubts=self.doubts,
            tables={TOOL: [d.row for d in ordered], STARTS: [_row(phase, s) for phase, starts in self.starts.items() for s in starts]},
            notes=[_words(d) for d in self.failed],
        )


class Steps:
    """Carries out a StepsWorkload on `hosts`."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self._hosts = hosts

    async def measure(self, cell: Cell) -> Measured:
        """One trial as the cell says. Raises InputError; a step that fails raises nothing and is in the figures."""
        account = Account()
        await self.carry_out(StepsWorkload.of_params(cell.params), account)
        return account.measured()

    async def carry_out(self, work: StepsWorkload, account: Account, phases: Sequence[Phase] = PHASES) -> None:
        """`phases` of `work` in their order, into `account`. Raises InputError for a host that is not there."""
        if unknown := sorted({host for by_host in work.phases.values() for host in by_host} - set(self._hosts)):
            raise InputError(f"no host {', '.join(unknown)}", remedy=f"there are {', '.join(sorted(self._hosts))}")
        left: list[_Spawned] = []
        try:
            for phase in phases:
                if phase != "reset" and not (account.failed and work.on_failure == "stop"):
                    await self._phase(phase, work.phases[phase], account, left)
        finally:
            for spawned in left:
                spawned.early = spawned.waiting.done()
            if "reset" in phases:
                await self._phase("reset", work.reset, account, left)
            account.done += await asyncio.gather(*(spawned.end() for spawned in left))

    async def _phase(self, phase: Phase, by_host: ByHost, account: Account, left: list[_Spawned]) -> None:
        few = asyncio.Semaphore(AT_ONCE)
        lanes = [_Lane(self._hosts[name], phase, steps, account, left) for name, steps in by_host.items() if steps]
        await asyncio.gather(*(lane.stand_ready(few) for lane in lanes))
        at_ns = time.monotonic_ns() + lead_ns([lane.gate for lane in lanes if lane.gate])
        await asyncio.gather(*(lane.begin(at_ns, few, among=len(lanes)) for lane in lanes))
        await asyncio.gather(*(lane.to_its_end() for lane in lanes))


@dataclass
class _Spawned:
    """A step that was left running."""

    begun: StepDone
    process: Process
    waiting: asyncio.Future[Done]
    early: bool = False
    """It ended by itself before anything was reset."""

    async def end(self) -> StepDone:
        done = await self.process.end()
        await asyncio.gather(self.waiting, return_exceptions=True)
        why = f"ended with {done.status} before anything was reset" if self.early and done.status else ""
        return _ended(self.begun, done, done.status, why)


@dataclass
class _Lane:
    """One host's steps of one phase."""

    host: Host
    phase: Phase
    steps: Sequence[Step]
    account: Account
    left: list[_Spawned]
    gate: Gate | None = None
    began_s: float = 0.0

    async def stand_ready(self, few: asyncio.Semaphore) -> None:
        """Starts the first step behind its gate. A host that cannot is noted; its steps are then skipped."""
        clocks = self.account.clocks
        try:
            self.gate = await Gate.stand(self.host, self.steps[0].command, few, clocks.get(self.host.name))
            clocks[self.host.name] = self.gate.clock
        except HostError as e:
            self._lost(1, str(e))

    async def begin(self, at_ns: int, few: asyncio.Semaphore, *, among: int) -> None:
        """Opens the gate at `at_ns` of CLOCK_MONOTONIC."""
        if self.gate is None:
            return
        self.began_s = time.time() + (at_ns - time.monotonic_ns()) / 1e9
        try:
            self.account.starts.setdefault(self.phase, []).append(await self.gate.open(at_ns, few, among=among))
        except HostError as e:
            self._lost(1, str(e))

    async def to_its_end(self) -> None:
        """The first step, which runs already, and those after it."""
        if self.gate is None:
            return
        for place, step in enumerate(self.steps, 1):
            try:
                process = self.gate.process if place == 1 else await self.host.spawn(["sh", "-c", step.command])
                begun = self._begun(place, self.began_s if place == 1 else time.time())
                await process.close_stdin()
                if step.spawn is not None:
                    self.left.append(_Spawned(begun, process, asyncio.ensure_future(process.wait(LONGEST_S))))
                else:
                    self.account.done.append(await _waited(process, begun))
            except HostError as e:
                self._lost(place, str(e))
                return

    def _begun(self, place: int, now_s: float) -> StepDone:
        said = self.gate.said if self.gate and place == 1 else b""
        return StepDone(self.host.name, self.phase, place, self.steps[place - 1], now_s, 0.0, None, said)

    def _lost(self, place: int, why: str) -> None:
        """The host cannot go on: this step and those after it have no result."""
        now = time.time()
        self.account.done += [replace(self._begun(later, now), why=why) for later in range(place, len(self.steps) + 1)]
        self.gate = None


async def _waited(process: Process, begun: StepDone) -> StepDone:
    """Until it has ended, or its time-out has ended it. Raises HostError."""
    try:
        done = await process.wait(begun.step.timeout or LONGEST_S)
        status, why = done.status, f"ended with {done.status}" if done.status else ""
    except CommandTimedOut:
        done = await process.end()
        status, why = None, f"did not end within {begun.step.timeout:g} s and was ended"
    return _ended(begun, done, status, why)


def _ended(begun: StepDone, done: Done, status: int | None, why: str) -> StepDone:
    """It has taken from the start of the step, which is later than that of a process which stood behind a gate."""
    seconds = max(0.0, done.started_s + done.seconds - begun.started_s)
    return replace(begun, seconds=seconds, status=status, stdout=begun.stdout + done.stdout, stderr=done.stderr, why=why)


def _row(phase: Phase, start: Start) -> Row:
    return {
        "host": start.host,
        "phase": phase,
        "clock_ahead_ns": start.ahead.ns,
        "clock_error_ns": start.ahead.error_ns,
        "earliest_ns": start.earliest_ns,
        "latest_ns": start.latest_ns,
        "jumped_ns": start.jumped_ns,
    }


def _words(step: StepDone) -> str:
    tail = step.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    return (
        f"{step.host}, {step.phase}, step {step.step.name or step.place}: `{step.step.command}` {step.why}{f': {tail[0]}' if tail else ''}"
    )
