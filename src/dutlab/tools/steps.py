"""Tool `steps`: commands of the user's own on the hosts of a testbed, in phases with a barrier before each.

All hosts of a phase begin together: the first step of each is started behind a gate, and the gates open once every host stands at its own.
The steps of one host follow one another. A spawned step runs until it ends by itself, at the latest until its trial ends. `reset` is
carried out whatever happened before, and nothing of a step is lost: output, errors, status, times.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dutlab.errors import CommandTimedOut, HostError, InputError
from dutlab.hosts.host import Done, Host, Process
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.steps import PHASES, ByHost, Phase, Step, StepsWorkload

TOOL = "steps"
ALL_HOSTS = "all hosts"
"""Stands where other tools name a link."""
LONGEST_S = 366 * 86400.0
"""For a step without a time-out: it may take as long as it takes."""
READY_S = 30.0
# Says that it stands there, waits for a line, and becomes the command. `read` takes no more than its line: the command sees no input.
_GATE = 'echo; read -r go; exec sh -c "$1"'


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
    skews_s: dict[Phase, float] = field(default_factory=dict)
    """From the first gate that opened to the last, by phase."""

    @property
    def failed(self) -> list[StepDone]:
        """In the order of their end."""
        return [d for d in self.done if d.failed]

    def measured(self) -> Measured:
        """Figures, table and outputs for the record."""
        ordered = sorted(self.done, key=lambda d: (PHASES.index(d.phase), d.started_s))
        raw = {f"{d.file}.{end}": data for d in ordered for end, data in (("out", d.stdout), ("err", d.stderr)) if data}
        figures = {
            "failed_steps": float(len(self.failed)),
            "skew_ns": max(self.skews_s.values(), default=0.0) * 1e9,
            "duration_s": max((d.started_s + d.seconds for d in ordered), default=0.0) - min((d.started_s for d in ordered), default=0.0),
        }
        return Measured(
            figures={ALL_HOSTS: figures}, raw=raw, tables={TOOL: [d.row for d in ordered]}, notes=[_words(d) for d in self.failed]
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
        lanes = [_Lane(self._hosts[name], phase, steps, account, left) for name, steps in by_host.items() if steps]
        await asyncio.gather(*(lane.stand_ready() for lane in lanes))
        opened = [await lane.open_gate() for lane in lanes]
        if opened:
            account.skews_s[phase] = max(opened) - min(opened)
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
        return replace(self.begun, seconds=done.seconds, status=done.status, stdout=done.stdout, stderr=done.stderr, why=why)


@dataclass
class _Lane:
    """One host's steps of one phase."""

    host: Host
    phase: Phase
    steps: Sequence[Step]
    account: Account
    left: list[_Spawned]
    gate: Process | None = None
    opened_s: float = 0.0

    async def stand_ready(self) -> None:
        """Starts the first step behind its gate. A host that cannot is noted; its steps are then skipped."""
        try:
            self.gate = await self.host.spawn(["sh", "-c", _GATE, "sh", self.steps[0].command])
            async with asyncio.timeout(READY_S):
                await self.gate.readline()
        except (HostError, TimeoutError) as e:
            self._lost(1, str(e) or f"did not start within {READY_S:g} s")

    async def open_gate(self) -> float:
        """Returns the moment, in seconds since the epoch."""
        self.opened_s = time.time()
        if self.gate is not None:
            try:
                await self.gate.write(b"\n")
            except HostError as e:
                self._lost(1, str(e))
        return self.opened_s

    async def to_its_end(self) -> None:
        """The first step, which runs already, and those after it."""
        if self.gate is None:
            return
        for place, step in enumerate(self.steps, 1):
            try:
                process = self.gate if place == 1 else await self.host.spawn(["sh", "-c", step.command])
                begun = self._begun(place, self.opened_s if place == 1 else time.time())
                await process.close_stdin()
                if step.spawn is not None:
                    self.left.append(_Spawned(begun, process, asyncio.ensure_future(process.wait(LONGEST_S))))
                else:
                    self.account.done.append(await _waited(process, begun))
            except HostError as e:
                self._lost(place, str(e))
                return

    def _begun(self, place: int, now_s: float) -> StepDone:
        return StepDone(self.host.name, self.phase, place, self.steps[place - 1], now_s, 0.0, None)

    def _lost(self, place: int, why: str) -> None:
        """The host cannot go on: this step and those after it have no result."""
        self.gate = None
        now = time.time()
        self.account.done += [replace(self._begun(later, now), why=why) for later in range(place, len(self.steps) + 1)]


async def _waited(process: Process, begun: StepDone) -> StepDone:
    """Until it has ended, or its time-out has ended it. Raises HostError."""
    try:
        done = await process.wait(begun.step.timeout or LONGEST_S)
        status, why = done.status, f"ended with {done.status}" if done.status else ""
    except CommandTimedOut:
        done = await process.end()
        status, why = None, f"did not end within {begun.step.timeout:g} s and was ended"
    return replace(begun, seconds=done.seconds, status=status, stdout=done.stdout, stderr=done.stderr, why=why)


def _words(step: StepDone) -> str:
    tail = step.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    return (
        f"{step.host}, {step.phase}, step {step.step.name or step.place}: `{step.step.command}` {step.why}{f': {tail[0]}' if tail else ''}"
    )
