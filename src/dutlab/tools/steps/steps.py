"""Tool `steps`: commands of the user's own on the hosts of a testbed, in phases with a barrier before each.

All hosts of a phase begin together: the first step of each is started behind a gate (`gate.py`), and once every host waits at its own
they agree on an instant.
The steps of one host follow one another. A spawned step runs until it ends by itself, at the latest until its trial ends, and so does what
a step leaves in the background (`background.py`). `reset` is carried out whatever happened before, after an interruption in `run` `collect`
too, and nothing of a step is lost: output, errors, status, times.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from dutlab.bounds import OUTPUT_BYTES
from dutlab.doubts import Doubt, DoubtKind
from dutlab.ending import to_its_end
from dutlab.errors import HostError, InputError
from dutlab.hosts.host import Done, Host, Process
from dutlab.hosts.own_time import own_timeout
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.reason import reason_in
from dutlab.spec.workloads.steps import PHASES, Phase, Step, StepsSetting, StepsWorkload
from dutlab.subject import Figures, Subject, step_part
from dutlab.tools.gate import AT_ONCE, ClockReading, Gate, Start, can_be_here, lead_ns
from dutlab.tools.steps.background import leaves_something, take_status, watched
from dutlab.tools.steps.figures import step_figures
from dutlab.tools.steps.killing import ends_one_of, found_nothing

if TYPE_CHECKING:  # it loads the engine, which no step needs
    from dutlab.tools.generator_tool import GeneratorSite

TOOL = "steps"
STARTS = "starts"
"""The table of when each host began each phase, and of the clocks that say so."""
FIGURES = "step_figures"
"""The table of what was found in the outputs of steps (`figures.py`)."""
ALL_HOSTS = "all hosts"
"""In the place where other tools name a link. Figures of one step have its host there."""
LONGEST_S = 366 * 86400.0
"""For a step without a time-out: it may take as long as it takes."""
FIRST_WORD_S = 10.0
"""A step that takes longer is named to whoever watches, and again each time that it has taken twice as long."""
_STATUS_BYTES = 4096
_LEAVES_S = 0.2
"""A shell that nothing of its step holds has ended by then."""

End = Literal["", "time-out", "step", "trial", "interrupted"]
"""What ended a step, if not itself: its time-out, a later step, the end of its trial, an interruption of the run."""


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
    """None: it did not end by itself, or its host was lost."""
    stdout: bytes = b""
    stderr: bytes = b""
    why: str = ""
    """Why it has failed; empty when it has not."""
    end: End = ""

    @property
    def failed(self) -> bool:
        """It did not do what it was asked for. A spawned step that ran until the reset has, and one that its time-out was to end."""
        return bool(self.why)

    @property
    def file(self) -> str:
        """Where its output is kept, without the ending."""
        return f"{self.host}/{self.phase}/{self.place:02d}"

    @property
    def subject(self) -> Subject:
        """What the figures in its output are of."""
        return Subject((self.host,), part=step_part(self.phase, self.place))

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
            "ended_by": self.end,
            "file": self.file,
        }


@dataclass
class Account:
    """What has been done so far; filled as it happens, so that an interrupted trial keeps it too."""

    done: list[StepDone] = field(default_factory=list)
    starts: dict[Phase, list[Start]] = field(default_factory=dict)
    """When each host began, by phase; a host that was lost has none."""
    clocks: dict[str, ClockReading] = field(default_factory=dict)
    """Each host's clock as it was last seen."""
    interrupted: Phase | None = None
    """The phase in which the run was interrupted."""
    began: dict[Phase, float] = field(default_factory=dict)
    """When each phase was begun, in seconds since the epoch."""
    _at: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> list[StepDone]:
        """Results, in the order in which the steps ended."""
        return [d for d in self.done if d.failed]

    def keep(self, step: StepDone) -> None:
        """Adds `step`, or puts it in the place of what was known of it before."""
        at = self._at.setdefault(step.file, len(self.done))
        self.done[at : at + 1] = [step]

    @property
    def skew_ns(self) -> int:
        """At most this lay between the first host's start of a phase and the last's."""
        spreads = [max(s.latest_ns for s in starts) - min(s.earliest_ns for s in starts) for starts in self.starts.values() if starts]
        return max(spreads, default=0)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Doubts about clocks that were set meanwhile."""
        jumps = [(phase, s) for phase, starts in self.starts.items() for s in starts if s.jumped_ns]
        return tuple(
            Doubt(DoubtKind.CLOCK_JUMPED, detail=f"{s.host}, by {s.jumped_ns / 1e9:+.3f} s, seen as {phase} began") for phase, s in jumps
        )

    def measured(self) -> Measured:
        """Figures, tables and outputs for the record."""
        ordered = sorted(self.done, key=lambda d: (PHASES.index(d.phase), d.started_s))
        raw = {f"{d.file}.{end}": data for d in ordered for end, data in (("out", d.stdout), ("err", d.stderr)) if data}
        own = [(d, found) for d in ordered if (found := step_figures(d.stdout, d.stderr))]
        figures = {
            "failed_steps": float(len(self.failed)),
            "skew_ns": float(self.skew_ns),
            "duration_s": max((d.started_s + d.seconds for d in ordered), default=0.0) - min((d.started_s for d in ordered), default=0.0),
        }
        return Measured(
            figures=Figures.of([(Subject((ALL_HOSTS,)), figures), *((d.subject, found) for d, found in own)]),
            raw=raw,
            doubts=self.doubts,
            tables={
                TOOL: [d.row for d in ordered],
                FIGURES: [{**_named(d), "figure": name, "value": v} for d, found in own for name, v in found.items()],
                STARTS: [_row(phase, s) for phase, starts in self.starts.items() for s in starts],
            },
            notes=[*([f"interrupted in {self.interrupted}"] if self.interrupted else []), *(_words(d) for d in self.failed)],
        )


class Steps:
    """Carries out a StepsWorkload on `hosts`."""

    def __init__(self, hosts: Mapping[str, Host], *, directories: Mapping[str, str] | None = None, note: Note | None = None) -> None:
        """`directories`: where the steps of a host run, if not where its commands run anyway. `note` is told of steps that take long."""
        self._hosts, self._directories, self._note = hosts, directories or {}, note

    async def carry_out(self, work: StepsWorkload, account: Account, phases: Sequence[Phase] = PHASES) -> None:
        """`phases` of `work` in their order, into `account`. Raises InputError for a host that is not there."""
        if unknown := sorted({host for by_host in work.phases.values() for host in by_host} - set(self._hosts)):
            raise InputError(f"no host {', '.join(unknown)}", remedy=f"there are {', '.join(sorted(self._hosts))}")
        left: list[_Left] = []
        try:
            for phase in phases:
                if phase != "reset" and not (account.failed and work.on_failure == "stop"):
                    await self._phase(phase, work, account, left)
        except asyncio.CancelledError:
            account.interrupted = next(reversed(account.began), "startup")
            if account.interrupted == "run" and "collect" in phases:  # what Run did is there to be collected
                await self._phase("collect", work, account, left)
            raise
        finally:
            try:
                await to_its_end(self._end(work, account, left, phases))
            except asyncio.CancelledError:
                account.interrupted = account.interrupted or "reset"
                raise

    async def _end(self, work: StepsWorkload, account: Account, left: list[_Left], phases: Sequence[Phase]) -> None:
        """Reset, and the end of all that was left running; nothing interrupts it."""
        for thing in left:
            thing.early = thing.waiting.done()
            thing.by_step = thing.early and any(thing.was_ended_by(step) for step in account.done)
        if "reset" in phases:
            await self._phase("reset", work, account, left)
        for step in await asyncio.gather(*(thing.end() for thing in left)):
            account.keep(step)

    async def _phase(self, phase: Phase, work: StepsWorkload, account: Account, left: list[_Left]) -> None:
        few = asyncio.Semaphore(AT_ONCE)
        account.began[phase] = time.time()
        of_hosts = [(name, steps) for name, steps in work.phases[phase].items() if steps]
        lanes = [_Lane(self._hosts[name], phase, steps, account, left, self._directories.get(name, "")) for name, steps in of_hosts]
        watching = asyncio.ensure_future(_watch(lanes, self._note)) if self._note else None
        try:
            here = can_be_here(lane.host for lane in lanes)
            await asyncio.gather(*(lane.stand_ready(few, here=here) for lane in lanes))
            at_ns = time.monotonic_ns() + lead_ns([lane.gate for lane in lanes if lane.gate])
            await asyncio.gather(*(lane.begin(at_ns, few, among=len(lanes)) for lane in lanes))
            await asyncio.gather(*(lane.to_its_end() for lane in lanes))
        except asyncio.CancelledError:
            await asyncio.gather(*(lane.give_up() for lane in lanes))
            raise
        finally:
            if watching:
                watching.cancel()


Note = Callable[[str], None]


async def measure(site: GeneratorSite, cell: Cell) -> Measured:
    """Workload `steps`. Raises InputError; a step that fails raises nothing and is in the figures."""
    account = Account()
    await Steps(site.hosts).carry_out(cell.setting_as(StepsSetting).steps, account)
    return account.measured()


@dataclass
class _Left:
    """A step that was left running, or that left something running."""

    begun: StepDone
    process: Process
    waiting: asyncio.Future[Done]
    early: bool = False
    """It ended by itself before anything was reset."""
    by_step: bool = False
    """It ended early because a later step of its host was there to end it."""

    def was_ended_by(self, other: StepDone) -> bool:
        """Whether a step on the same host began while this one ran, and ends processes: this program, or one by its number."""
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
class _Lane:
    """One host's steps of one phase."""

    host: Host
    phase: Phase
    steps: Sequence[Step]
    account: Account
    left: list[_Left]
    directory: str = ""
    gate: Gate | None = None
    began_s: float = 0.0
    """0.0 until its gate was opened."""
    awaited: StepDone | None = None
    """The step that is waited for now."""

    async def stand_ready(self, few: asyncio.Semaphore, *, here: bool) -> None:
        """Starts the first step behind its gate. A host that cannot is noted; its steps are then skipped."""
        clocks = self.account.clocks
        try:
            self.gate = await Gate.stand(self.host, self._text(self.steps[0]), few, clocks.get(self.host.name), here=here)
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
                process = self.gate.process if place == 1 else await self.host.spawn(self.host.system.shell.text(self._text(step)))
                begun = self.awaited = self._begun(place, self.began_s if place == 1 else time.time())
                await process.close_stdin()
                if step.spawn is not None:
                    self.left.append(_Left(begun, process, asyncio.ensure_future(process.wait(LONGEST_S))))
                elif self._may_leave_something(step):
                    await self._watched(process, begun)
                else:
                    await self._waited(process, begun)
                self.awaited = None
            except HostError as e:
                self._lost(place, str(e))
                return

    async def give_up(self) -> None:
        """Ends and keeps what was begun and is not waited for yet. Harmless when there is nothing."""
        if self.gate is None or not self.began_s or any(d.host == self.host.name and d.phase == self.phase for d in self.account.done):
            return
        if any(thing.process is self.gate.process for thing in self.left):
            return
        done = await self.gate.process.end()
        self.account.keep(_ended(self._begun(1, self.began_s), done, None, _INTERRUPTED, "interrupted"))

    def _text(self, step: Step) -> str:
        """What the host's shell is given."""
        command = watched(step.command) if step.spawn is None and self._may_leave_something(step) else step.command
        return self.host.system.shell.in_directory(self.directory, command) if self.directory else command

    def _may_leave_something(self, step: Step) -> bool:
        return self.host.system.shell.watches_background and leaves_something(step.command)

    async def _waited(self, process: Process, begun: StepDone) -> None:
        """Until it has ended, or its time-out has ended it. Raises HostError."""
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
        """The same for a step that may leave something in the background, which goes on. Raises HostError."""
        said, dropped = bytearray(begun.stdout), 0
        begun = replace(begun, stdout=b"")
        status = take_status(said, 0)
        try:
            async with own_timeout(_limit_s(begun.step)):
                while status is None and (chunk := await process.read()):
                    until = len(said)
                    said += chunk
                    status = take_status(said, until)
                    dropped += len(said)
                    del said[OUTPUT_BYTES:-_STATUS_BYTES]  # the status comes last
                    dropped -= len(said)
        except TimeoutError:
            self.account.keep(_timed_out(replace(begun, stdout=bytes(said)), await process.end()))
            return
        except asyncio.CancelledError:
            self.account.keep(_ended(replace(begun, stdout=bytes(said)), await process.end(), None, _INTERRUPTED, "interrupted"))
            raise
        if dropped:
            said[OUTPUT_BYTES:OUTPUT_BYTES] = f"\ndutlab: {dropped} bytes were not kept\n".encode()
        begun = replace(begun, stdout=bytes(said))
        waiting = asyncio.ensure_future(process.wait(LONGEST_S))
        if status is None:  # its shell was killed, or the host was lost
            done = await waiting
            self.account.keep(_ended(begun, done, done.status, f"ended with {done.status}"))
            return
        ended = replace(begun, seconds=time.time() - begun.started_s, status=status, why=_why(begun.step, status))
        self.account.keep(ended)
        left = _Left(ended, process, waiting)
        await asyncio.wait([waiting], timeout=_LEAVES_S)
        if waiting.done():
            self.account.keep(await left.end())
        else:
            self.left.append(left)

    def _begun(self, place: int, now_s: float) -> StepDone:
        said = self.gate.said if self.gate and place == 1 else b""
        return StepDone(self.host.name, self.phase, place, self.steps[place - 1], now_s, 0.0, None, said)

    def _lost(self, place: int, why: str) -> None:
        """The host cannot go on: this step and those after it have no result."""
        now = time.time()
        for later in range(place, len(self.steps) + 1):
            self.account.keep(replace(self._begun(later, now), why=why))
        self.gate = None


_INTERRUPTED = "was interrupted"


def _why(step: Step, status: int) -> str:
    return "" if status == 0 or found_nothing(step.command, status) else f"ended with {status}"


async def _end(process: Process, waiting: asyncio.Future[Done]) -> Done:
    """Ends what is waited for, with time to say its last words."""
    done = await process.end()
    await asyncio.gather(waiting, return_exceptions=True)
    return done


def _limit_s(step: Step) -> float:
    return LONGEST_S if step.timeout is None else step.timeout


def _timed_out(begun: StepDone, done: Done) -> StepDone:
    why = "" if begun.step.at_timeout == "end" else f"did not end within {begun.step.timeout:g} s and was ended"
    return _ended(begun, done, None, why, "time-out")


async def _watch(lanes: Sequence[_Lane], note: Note) -> None:
    """Tells `note` which steps are waited for, and for how long, after FIRST_WORD_S and each time that it has become twice as long."""
    began, next_s = time.monotonic(), FIRST_WORD_S
    while True:
        await asyncio.sleep(began + next_s - time.monotonic())
        if text := "; ".join(_awaited(lanes, time.time())):
            note(text)
        next_s *= 2


def _awaited(lanes: Sequence[_Lane], now_s: float) -> Iterator[str]:
    """The first few of the steps that are waited for, and how many more there are."""
    waited = [d for lane in lanes if (d := lane.awaited) is not None]
    for d in waited[:3]:
        limit = "no limit" if d.step.timeout is None else f"limit {d.step.timeout:g} s"
        yield f"waiting for {d.host}, {d.phase}, {d.step.name or d.place}: `{d.step.command}` ({now_s - d.started_s:.0f} s; {limit})"
    if len(waited) > 3:  # noqa: PLR2004 -- as many as were named
        yield f"and {len(waited) - 3} more"


def _ended(begun: StepDone, done: Done, status: int | None, why: str, end: End = "") -> StepDone:
    """It has taken from the start of the step, which is later than that of a process which stood behind a gate."""
    seconds = max(0.0, done.started_s + done.seconds - begun.started_s)
    return replace(begun, seconds=seconds, status=status, stdout=begun.stdout + done.stdout, stderr=done.stderr, why=why, end=end)


def _named(step: StepDone) -> Row:
    return {
        "host": step.host,
        "phase": step.phase,
        "step": step.step.name or str(step.place),
        "command": step.step.command,
        "file": step.file,
    }


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
    reason = reason_in(step.stderr.decode("utf-8", "replace"))
    return (
        f"{step.host}, {step.phase}, step {step.step.name or step.place}: `{step.step.command}` {step.why}{f': {reason}' if reason else ''}"
    )
