"""A device that consists of programs: started with its mode in a private folder on the DUT, polled until ready, ended with the mode.

Each program is a command that runs as long as the device. It inherits a variable that names the folder. By that variable the undo step
finds all descendants of the command, even after dutlab was killed: the step in the journal needs only the folder. The same variable marks
the processes whose processor time belongs to the device (sensors/device_processes.py).
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dutlab.dut.mode import Check, UndoStep
from dutlab.errors import CommandTimedOut, HostError
from dutlab.hosts.host import Done, Host, Process
from dutlab.hosts.own_time import own_timeout
from dutlab.hosts.private_folder import make_private_folder, new_private_folder
from dutlab.printable import printable
from dutlab.reason import reason_in
from dutlab.systems.linux_proc import DEVICE_VARIABLE
from dutlab.systems.plain import plain

CPUS_VARIABLE = "DUTLAB_CPUS"
"""Environment variable with the DUT's cores as taskset(1) reads them; not set where the testbed names no cores."""
READY_WITHIN_S = 30.0
_KEPT_BYTES = 1 << 16
_LAST_LINES = 3
_LOOK_S, _EVERY_S, _ANSWER_S, _FOREVER_S = 10.0, 0.1, 5.0, 1e9
# A shell with a trap lives until its child has ended. Children do not inherit the trap: they start with default signal actions (POSIX,
# trap).
_RUN = 'trap : TERM INT HUP; cd -- "$0" || exit 126; sh -c "$1" 2>&1; exit $?'
_MARKED = (
    f'marked() {{ grep -slzxF "{DEVICE_VARIABLE}=$folder" /proc/[0-9]*/environ | while IFS=/ read -r _ _ pid _; do echo "$pid"; done; }}\n'
)
# The `stop` commands run first. Processes that remain are sent SIGTERM, then SIGKILL. The leader of each process group is the shell above.
_END = (
    "folder=$1; shift\n"
    + _MARKED
    + r"""
gone_within() { n=0; while [ -n "$(marked)" ]; do [ $n -lt "$1" ] || return 1; n=$((n + 1)); sleep 0.1; done; }
if [ -d "$folder" ] && [ $# != 0 ]; then
  for stop; do (cd -- "$folder" && timeout 10 sh -c "$stop") >/dev/null 2>&1 </dev/null; done
  gone_within 30
fi
for signal in TERM KILL; do
  left=$(marked)
  [ -n "$left" ] || break
  for pid in $left; do kill -s $signal -- "-$pid" 2>/dev/null || kill -s $signal "$pid" 2>/dev/null; done
  gone_within 50
done
rm -rf -- "$folder"
left=$(marked)
[ -z "$left" ] || { echo "these processes cannot be ended:" $left >&2; exit 1; }
"""
)
_NAMES = (
    "folder=$1\n"
    + _MARKED
    + r"""
for pid in $(marked); do
  read -r name 2>/dev/null <"/proc/$pid/comm" && [ "$name" != sh ] && echo "$name"
done
:
"""
)


class ProgramCommands(Protocol):
    """Shell commands of a device that consists of programs; each runs in its folder."""

    @property
    def start(self) -> Sequence[str]:
        """Commands that run as long as the device, in the order in which they are started."""

    @property
    def ready(self) -> Sequence[str]:
        """Commands that are repeated until each has ended with 0: the device is then ready."""

    @property
    def stop(self) -> Sequence[str]:
        """Commands that ask the programs to end; those that do not are sent SIGTERM."""

    @property
    def ready_within(self) -> float:
        """Time limit for `ready`, in seconds."""


@dataclass(frozen=True)
class ProgramText:
    """Commands of the programs of a family's mode."""

    start: Sequence[str]
    ready: Sequence[str] = ()
    stop: Sequence[str] = ()
    ready_within: float = READY_WITHIN_S


class DeviceProgram:
    """One running command of `start`, with the last part of its output."""

    def __init__(self, command: str, process: Process) -> None:
        self.command, self._process = command, process
        self.done: Done | None = None
        """Exit status and output; None while it runs."""
        self.ends = False
        """True once dutlab itself has asked it to end."""
        self._printed, self._dropped = bytearray(), 0
        self._more = asyncio.Event()
        self.following = asyncio.ensure_future(self._follow())
        """Task that reads the output and finishes when the program has ended."""

    async def _follow(self) -> None:
        while chunk := await self._process.read():
            self._printed += chunk
            self._dropped += max(0, len(self._printed) - _KEPT_BYTES)
            del self._printed[:-_KEPT_BYTES]
            self._more.set()
        try:
            self.done = await self._process.wait(_FOREVER_S)
        except HostError as error:  # the connection to the host was lost
            self.done = Done(self._process.host_name, self._process.argv, -1, b"", str(error).encode(), time.time(), 0.0)
        self._more.set()

    async def asked(self, words: str, until: str) -> str:
        """Write `words` to the program and return its output up to `until`. Raises HostError if `until` does not arrive."""
        mark = self._dropped + len(self._printed)
        if words:
            await self._process.write(words.encode())
        else:
            mark = 0
        try:
            async with own_timeout(_ANSWER_S if words else READY_WITHIN_S):
                while until not in (text := self._printed[max(0, mark - self._dropped) :].decode(errors="replace")):
                    if self.done is not None:
                        raise HostError(f"`{self.name}`: {self.state}", host=self._process.host_name)
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise HostError(f"`{self.name}` does not answer; {self.last}", host=self._process.host_name) from None
        return plain(text)

    @property
    def name(self) -> str:
        """Last line of the command, shortened for a message."""
        line = self.command.strip().splitlines()[-1].removeprefix("exec ")
        return line if len(line) <= 60 else f"{line[:59]}…"  # noqa: PLR2004 -- a message stays one line

    @property
    def last(self) -> str:
        """Last lines of the output."""
        text = plain((bytes(self._printed) + (self.done.stderr if self.done else b"")).decode(errors="replace"))
        lines = [printable(line.strip()) for line in text.splitlines() if line.strip()]
        return f"its last lines: {' | '.join(lines[-_LAST_LINES:])}" if lines else "it printed nothing"

    @property
    def state(self) -> str:
        """Text that says whether it runs; if not, its status and last output."""
        return "it runs" if self.done is None else f"it ended with {self.done.status}; {self.last}"

    async def end(self) -> None:
        """End the program. Has no effect when it has ended already."""
        self.ends = True
        await self._process.end()
        await self.following


@dataclass
class DevicePrograms:
    """Programs of one mode on one host."""

    mode: str
    cpus: Sequence[int] = ()
    """Cores of the DUT, given to the commands in DUTLAB_CPUS."""
    folder: str = field(default_factory=new_private_folder)
    running: list[DeviceProgram] = field(default_factory=list)
    names: tuple[str, ...] = ()
    """Names of the running programs, as `ps -o comm` prints them."""

    def undo(self, dut: Host, stop: Sequence[str] = ()) -> UndoStep:
        """Return the step that ends all programs and removes the folder; it also works when nothing was started."""
        argv = ("sh", "-c", _END, "dutlab", self.folder, *stop)
        return UndoStep(dut.name, argv, why=f"ends the programs of mode {self.mode}")

    async def start(self, dut: Host, commands: ProgramCommands) -> None:
        """End programs of an earlier start, start all, and return when they are ready. Raises HostError if one ends before that."""
        await self.end(dut)
        await make_private_folder(dut, self.folder)
        variables = [f"{DEVICE_VARIABLE}={self.folder}", *self._variables]
        for command in commands.start:
            argv = ["env", *variables, "sh", "-c", _RUN, self.folder, command]
            self.running.append(DeviceProgram(command, await dut.spawn(argv)))
        await self._until_ready(dut, commands)
        listing = await dut.run(["sh", "-c", _NAMES, "dutlab", self.folder])
        self.names = tuple(dict.fromkeys(listing.text.split()))

    async def end(self, dut: Host) -> None:
        """End all programs. Raises HostError if one does not end."""
        for program in reversed(self.running):
            await program.end()
        self.running, self.names = [], ()
        await dut.run(self.undo(dut).argv, timeout_s=60.0)

    async def ended(self) -> str:
        """Wait until a program ends that dutlab did not end; return its status and last lines."""
        while True:
            if (dead := next((of for of in self.running if of.done is not None and not of.ends), None)) is not None:
                return f"`{dead.name}`: {dead.state}"
            alive = [of.following for of in self.running if of.done is None]
            await (asyncio.wait(alive, return_when=asyncio.FIRST_COMPLETED) if alive else asyncio.sleep(_EVERY_S))

    async def run(self, dut: Host, command: str, *, stdin: str = "", check: bool = True, timeout_s: float = 30.0) -> Done:
        """Run a command in the folder. Raises CommandFailed on a status other than 0 if `check`, HostError."""
        return await dut.run(self.argv(dut, command), stdin=stdin.encode(), check=check, timeout_s=timeout_s)

    def argv(self, dut: Host, command: str) -> list[str]:
        """Return the arguments that run the command in the folder, or outside it if the folder is gone."""
        variables = "".join(f"export {shlex.quote(variable)}\n" for variable in self._variables)
        return list(dut.system.shell.text(f"{variables}cd -- {self.folder} 2>/dev/null || :\n{command}"))

    def checks(self) -> list[Check]:
        """Check for each program that it runs."""
        return [Check(f"`{of.name}` runs", of.done is None, of.state) for of in self.running]

    @property
    def _variables(self) -> list[str]:
        return [f"{CPUS_VARIABLE}={','.join(map(str, self.cpus))}"] if self.cpus else []

    async def _until_ready(self, dut: Host, commands: ProgramCommands) -> None:
        until_s, missing = time.monotonic() + commands.ready_within, list(commands.ready)
        await asyncio.sleep(0 if missing else _EVERY_S)  # a program that cannot start has ended by then
        while True:
            if ended := [of for of in self.running if of.done is not None]:
                what = f"mode {self.mode}: `{ended[0].name}`: {ended[0].state}"
                raise HostError(what, host=dut.name, remedy="start it there manually, and read its output")
            if not missing:
                return
            why = await self._not_ready(dut, missing[0])
            if not why:
                missing.pop(0)
            elif time.monotonic() >= until_s:
                what = f"mode {self.mode} is not ready within {commands.ready_within:g} s: `{missing[0]}`: {why}"
                raise HostError("; ".join([what, *(f"`{of.name}`: {of.last}" for of in self.running)]), host=dut.name)
            else:
                await asyncio.sleep(_EVERY_S)

    async def _not_ready(self, dut: Host, command: str) -> str:
        """Return why a command of `ready` did not end with 0; empty if it did."""
        try:
            done = await self.run(dut, command, check=False, timeout_s=_LOOK_S)
        except CommandTimedOut as error:
            return str(error)
        return "" if done.status == 0 else f"status {done.status}: {reason_in(done.errors + done.text)}"
