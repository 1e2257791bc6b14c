"""Steps of one host in one phase: started behind a gate, waited for or left running, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dutlab.bounds import OUTPUT_BYTES
from dutlab.errors import HostError
from dutlab.hosts.host import Done, Host, Process
from dutlab.hosts.own_time import own_timeout
from dutlab.spec.workloads.steps import Phase, Step
from dutlab.tools.gate import Gate
from dutlab.tools.steps.account import Account, End, StepDone
from dutlab.tools.steps.background import leaves_something, take_status, watched
from dutlab.tools.steps.killing import ends_one_of, found_nothing

LONGEST_S = 366 * 86400.0
"""Time limit of a step without a time-out: longer than any run."""
_STATUS_BYTES = 4096
_LEAVES_S = 0.2
"""Time in which a shell ends if its step left nothing running."""
_INTERRUPTED = "was interrupted"


@dataclass
class Left:
    """A step that was left running, or that left processes running."""

    begun: StepDone
    process: Process
    waiting: asyncio.Future[Done]
    early: bool = False
    """True if it ended before anything was reset."""
    by_step: bool = False
    """True if it ended early because a later step on its host ended it."""

    def was_ended_by(self, other: StepDone) -> bool:
        """Return whether `other` began on the same host while this step ran, and ends processes: this program, or one by its number."""
        if other.host != self.begun.host or self.waiting.exception() is not None:
            return False
        ended = self.waiting.result()
        if not self.begun.started_s <= other.started_s <= ended.started_s + ended.seconds:
            return False
        return ends_one_of(other.step.command, self.begun.step.command)

    async def end(self) -> StepDone:
        done = await self.process.end()
        await asyncio.gather(self.waiting, return_exceptions=True)
        if self.begun.step.spawn is None:  # its own end is known
            return replace(self.begun, stdout=self.begun.stdout + done.stdout, stderr=done.stderr)
        if self.by_step:
            return _ended(self.begun, done, None, "", "step")
        why = f"ended with {done.status} before anything was reset" if self.early and done.status else ""
        by_trial = done.killed_by_us or (not self.early and done.status != 0)
        return _ended(self.begun, done, None if by_trial else done.status, why, "trial" if by_trial else "")


@dataclass
class Lane:
    """Steps of one host in one phase."""

    host: Host
    phase: Phase
    steps: Sequence[Step]
    account: Account
    left: list[Left]
    directory: str = ""
    gate: Gate | None = None
    began_s: float = 0.0
    """Start, by the wall clock; 0.0 until its gate was opened."""
    awaited: StepDone | None = None
    """Step that is waited for now."""

    async def start_first_step(self, few: asyncio.Semaphore, *, here: bool) -> None:
        """Start the first step behind its gate. If the host cannot, that is recorded and its steps are skipped."""
        clocks = self.account.clocks
        try:
            self.gate = await Gate.stand(self.host, self._text(self.steps[0]), few, clocks.get(self.host.name), here=here)
            clocks[self.host.name] = self.gate.clock
        except HostError as e:
            self._lost(1, str(e))

    async def begin(self, at_ns: int, few: asyncio.Semaphore, *, among: int) -> None:
        """Open the gate at `at_ns` of CLOCK_MONOTONIC."""
        if self.gate is None:
            return
        self.began_s = time.time() + (at_ns - time.monotonic_ns()) / 1e9
        try:
            self.account.starts.setdefault(self.phase, []).append(await self.gate.open(at_ns, few, among=among))
        except HostError as e:
            self._lost(1, str(e))

    async def run_to_end(self) -> None:
        """Run all steps to their end. The first one runs already."""
        if self.gate is None:
            return
        for place, step in enumerate(self.steps, 1):
            try:
                process = self.gate.process if place == 1 else await self.host.spawn(self.host.system.shell.text(self._text(step)))
                begun = self.awaited = self._begun(place, self.began_s if place == 1 else time.time())
                await process.close_stdin()
                if step.spawn is not None:
                    self.left.append(Left(begun, process, asyncio.ensure_future(process.wait(LONGEST_S))))
                elif self._may_leave_processes(step):
                    await self._watched(process, begun)
                else:
                    await self._waited(process, begun)
                self.awaited = None
            except HostError as e:
                self._lost(place, str(e))
                return

    async def give_up(self) -> None:
        """End and keep a step that was begun and is not waited for yet. Harmless if there is none."""
        if self.gate is None or not self.began_s or any(d.host == self.host.name and d.phase == self.phase for d in self.account.done):
            return
        if any(thing.process is self.gate.process for thing in self.left):
            return
        done = await self.gate.process.end()
        self.account.keep(_ended(self._begun(1, self.began_s), done, None, _INTERRUPTED, "interrupted"))

    def _text(self, step: Step) -> str:
        """Return the text for the host's shell."""
        command = watched(step.command) if step.spawn is None and self._may_leave_processes(step) else step.command
        return self.host.system.shell.in_directory(self.directory, command) if self.directory else command

    def _may_leave_processes(self, step: Step) -> bool:
        return self.host.system.shell.watches_background and leaves_something(step.command)

    async def _waited(self, process: Process, begun: StepDone) -> None:
        """Wait until the step has ended, or its time-out has ended it. Raises HostError."""
        waiting = asyncio.ensure_future(process.wait(LONGEST_S))
        try:
            with contextlib.suppress(TimeoutError):
                async with own_timeout(_limit_s(begun.step)):
                    await asyncio.wait([waiting])
        except asyncio.CancelledError:
            self.account.keep(_ended(begun, await _end(process, waiting), None, _INTERRUPTED, "interrupted"))
            raise
        if waiting.done():
            done = waiting.result()
            self.account.keep(_ended(begun, done, done.status, _why(begun.step, done.status)))
        else:
            self.account.keep(_timed_out(begun, await _end(process, waiting)))

    async def _watched(self, process: Process, begun: StepDone) -> None:
        """Watch a step that may leave processes in the background; these continue. Raises HostError."""
        output, dropped = bytearray(begun.stdout), 0
        begun = replace(begun, stdout=b"")
        status = take_status(output, 0)
        try:
            async with own_timeout(_limit_s(begun.step)):
                while status is None and (chunk := await process.read()):
                    until = len(output)
                    output += chunk
                    status = take_status(output, until)
                    dropped += len(output)
                    del output[OUTPUT_BYTES:-_STATUS_BYTES]  # the status comes last
                    dropped -= len(output)
        except TimeoutError:
            self.account.keep(_timed_out(replace(begun, stdout=bytes(output)), await process.end()))
            return
        except asyncio.CancelledError:
            self.account.keep(_ended(replace(begun, stdout=bytes(output)), await process.end(), None, _INTERRUPTED, "interrupted"))
            raise
        if dropped:
            output[OUTPUT_BYTES:OUTPUT_BYTES] = f"\ndutlab: {dropped} bytes were not kept\n".encode()
        begun = replace(begun, stdout=bytes(output))
        waiting = asyncio.ensure_future(process.wait(LONGEST_S))
        if status is None:  # its shell was killed, or the host was lost
            done = await waiting
            self.account.keep(_ended(begun, done, done.status, f"ended with {done.status}"))
            return
        ended = replace(begun, seconds=time.time() - begun.started_s, status=status, why=_why(begun.step, status))
        self.account.keep(ended)
        left = Left(ended, process, waiting)
        await asyncio.wait([waiting], timeout=_LEAVES_S)
        if waiting.done():
            self.account.keep(await left.end())
        else:
            self.left.append(left)

    def _begun(self, place: int, now_s: float) -> StepDone:
        output = self.gate.output if self.gate and place == 1 else b""
        return StepDone(self.host.name, self.phase, place, self.steps[place - 1], now_s, 0.0, None, output)

    def _lost(self, place: int, why: str) -> None:
        """Record that the host failed: this step and those after it have no result."""
        now = time.time()
        for later in range(place, len(self.steps) + 1):
            self.account.keep(replace(self._begun(later, now), why=why))
        self.gate = None


def _why(step: Step, status: int) -> str:
    return "" if status == 0 or found_nothing(step.command, status) else f"ended with {status}"


async def _end(process: Process, waiting: asyncio.Future[Done]) -> Done:
    """End the process that is waited for, with time for its last output."""
    done = await process.end()
    await asyncio.gather(waiting, return_exceptions=True)
    return done


def _limit_s(step: Step) -> float:
    return LONGEST_S if step.timeout is None else step.timeout


def _timed_out(begun: StepDone, done: Done) -> StepDone:
    why = "" if begun.step.at_timeout == "end" else f"did not end within {begun.step.timeout:g} s and was ended"
    return _ended(begun, done, None, why, "time-out")


def _ended(begun: StepDone, done: Done, status: int | None, why: str, end: End = "") -> StepDone:
    """Return the ended step. Its time begins at its own start, which is later than that of a process behind a gate."""
    seconds = max(0.0, done.started_s + done.seconds - begun.started_s)
    return replace(begun, seconds=seconds, status=status, stdout=begun.stdout + done.stdout, stderr=done.stderr, why=why, end=end)
