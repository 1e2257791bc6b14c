"""Simulated machine: QEMU's software emulation, in which each instruction takes one nanosecond of the guest's clock.

Everything that could differ between two boots is fixed: the random seed, the date, and the clock, which only instructions advance. So the
same files give the same figures to the last digit, under any load of the host. A guest is booted once for its files, pauses itself by a
device, and is saved; each trial continues from there. QEMU is controlled over its standard input (QMP) and ends with its host.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import shlex
import shutil
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from dutlab import outside
from dutlab.bounds import CONSOLE_BYTES
from dutlab.errors import HostError, ToolFailed
from dutlab.hosts.host import Host, Process
from dutlab.hosts.programs import Program
from dutlab.reason import shortened
from dutlab.tools.exact.guest import MARK, PAUSE, SCRIPT

_T = TypeVar("_T")
QEMU = Program("qemu-system-x86_64", "qemu-system-x86")
MEMORY_MB = 512
CPU_LIMIT_S = 900
"""Processor time after which QEMU is ended, for a guest that never idles and never ends. Time of other processes does not count."""
_WALL_LIMIT_S = 7200.0
_SCRIPT_BYTES = 1 << 20
"""Length of all scripts with their padding: a saved guest keeps the length of the first one."""
_END = b"\npoweroff -f\n"
"""Command after which the guest does not read the padding."""
_KEPT = 4
"""Number of saved guests that are kept, the newest ones."""
_CONSOLE_LINES = 12
_LEFT_S = 86_400.0
_ALIKE = 20
"""Looks, _LOOK_S apart, that must find a halted processor unchanged for it to count as halted for good."""
_TRIES = 3
_STATE_S = 300.0
"""Time limit for some 100 MB to be written or read, also on a busy machine."""
_LOOK_S = 2.0
"""Interval of looks at a silent guest."""
APPEND = (
    "earlyprintk=ttyS0,115200 console=ttyS0 rdinit=/init quiet loglevel=4 printk.time=0 audit=0 mitigations=off nokaslr "
    "tsc=reliable no_timer_check random.trust_cpu=on reboot=t panic=-1"
)
"""The kernel's command line. A panic ends the guest."""


@dataclass(frozen=True)
class Machine:
    """Parts of a guest. The same parts give the same figures."""

    kernel: Path
    image: bytes
    """Initramfs of the guest."""
    cpu: str
    qemu: str
    """Version of QEMU, as it prints it."""

    @property
    def argv(self) -> list[str]:
        """Command of QEMU, without the options of a single start."""
        return [
            QEMU.name, "-M", "pc", "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", self.cpu, "-smp", "1",
            "-m", f"{MEMORY_MB}M", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-seed", "1",
            "-rtc", "base=2026-01-01,clock=vm", "-device", "pvpanic-pci", "-action", "panic=pause", "-qmp", "stdio",
            "-append", APPEND,
        ]  # fmt: skip

    @property
    def digest(self) -> str:
        """Hash of all parts."""
        hasher = hashlib.sha256(json.dumps([self.argv, self.qemu, _SCRIPT_BYTES]).encode())
        hasher.update(self.kernel.read_bytes())
        hasher.update(self.image)
        return hasher.hexdigest()[:32]


class GuestEnded(Exception):
    """QEMU ended before it answered."""


class GuestStuck(ToolFailed):
    """The guest waits for something that does not happen, or its state could not be written or read. The next try usually succeeds."""


class Monitor:
    """Conversation with QEMU by QMP (docs/interop/qmp-spec.rst of QEMU): one object a line."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._told = deque[dict[str, Any]]()
        """Events that arrived before a reply."""
        self._seen, self._alike = "", 0
        """Registers at the last look, and the number of looks in a row with the same registers."""
        self.is_spent = False
        """True if QEMU used up its processor time; known once it has ended."""

    async def ask(self, execute: str, **arguments: Any) -> Any:  # noqa: ANN401 JSON
        """Execute a command and return its result. Raises GuestEnded; ToolFailed if QEMU refuses it."""
        with contextlib.suppress(HostError):  # the reply, or the end, says more
            await self._process.write(json.dumps({"execute": execute, "arguments": arguments}).encode() + b"\n")
        while True:
            message = await self._line()
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise ToolFailed(f"{execute}: {message['error'].get('desc')}", tool=QEMU.name, host=self._process.host_name)
            self._told.append(message)

    async def event(self, *names: str) -> dict[str, Any]:
        """Return the next event with one of these names. Raises GuestEnded, also if the guest makes no progress."""
        while True:
            while self._told:
                if (message := self._told.popleft()).get("event") in names:
                    return message
            try:
                async with asyncio.timeout(_LOOK_S):
                    self._told.append(await self._line())
            except TimeoutError:
                if await self._is_dead():
                    raise GuestEnded from None

    async def command(self, line: str) -> str:
        """Return the output of a command of QEMU's human monitor. Raises GuestEnded, ToolFailed."""
        return str(await self.ask("human-monitor-command", **{"command-line": line})).strip()

    async def _is_dead(self) -> bool:
        """Return whether the guest waits with interrupts disabled (EFLAGS: IF is bit 9). Raises GuestStuck if no interrupt comes."""
        registers = await self.command("info registers")
        flags, is_halted = re.search(r"[ER]FL=([0-9a-f]+)", registers), "HLT=1" in registers
        self._seen, self._alike = registers, self._alike + 1 if registers == self._seen else 0
        if is_halted and self._alike >= _ALIKE:  # virtual time jumps to the next timer, so there is none
            raise GuestStuck("the guest waits for an interrupt that does not come", tool=QEMU.name, host=self._process.host_name)
        return is_halted and flags is not None and not int(flags[1], 16) & 1 << 9

    async def migrated(self) -> None:
        """Wait until the state is written or read. Raises GuestEnded, GuestStuck."""
        status = ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STATE_S):
                while status not in ("completed", "failed"):
                    status = (await self.event("MIGRATION"))["data"]["status"]
        if status != "completed":
            raise _unreadable(self._process.host_name)

    async def _line(self) -> dict[str, Any]:
        if not (line := await self._process.readline()):
            raise GuestEnded
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError:
            return {}
        return message


async def version_of(host: Host) -> str:
    """Return QEMU's version. Raises CommandFailed, HostError."""
    return (await host.run([QEMU.name, "--version"])).text.partition("\n")[0].removeprefix("QEMU emulator version ")


async def saved(host: Host, machine: Machine, folder: Path) -> Path:
    """Return the saved state of a guest that waits for its script; boot one if there is none. Raises ToolFailed, HostError, OSError."""
    state = folder / machine.digest
    if await asyncio.to_thread(_is_there, state):
        return state
    with TemporaryDirectory(prefix=".new-", dir=folder) as place:
        part, whole = Path(place) / "part", Path(place) / "state"
        (Path(place) / "image").write_bytes(machine.image)
        async with _started(host, machine, Path(place), b"", ["-initrd", f"{place}/image"]) as monitor:
            await monitor.ask("migrate-set-capabilities", capabilities=[{"capability": "events", "state": True}])
            if (await monitor.event("GUEST_PANICKED", "SHUTDOWN"))["event"] == "SHUTDOWN":
                raise GuestEnded
            await monitor.ask("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            await monitor.ask("migrate", uri=f"exec:cat >{shlex.quote(str(part))} && mv {shlex.quote(str(part))} {shlex.quote(str(whole))}")
            await monitor.migrated()
            await _written(whole, host)
            if f"{MARK} ready" not in _console(Path(place)):
                raise GuestEnded
        await asyncio.to_thread(_keep, whole, state)
    return state


async def _written(whole: Path, host: Host) -> None:
    """Wait for the last bytes of a state: QEMU has completed when they are in the pipe, not yet in the file. Raises GuestStuck."""
    until = time.monotonic() + _STATE_S
    while not await asyncio.to_thread(whole.exists):
        if time.monotonic() > until:
            raise _unreadable(host.name)
        await asyncio.sleep(0.02)


def _unreadable(host: str) -> GuestStuck:
    return GuestStuck("the saved state cannot be written or read", tool=QEMU.name, host=host)


def _is_there(state: Path) -> bool:
    state.parent.mkdir(parents=True, exist_ok=True)
    for left in state.parent.glob(".*-*"):  # left by a process that was killed
        if left.stat().st_mtime < time.time() - _LEFT_S:
            shutil.rmtree(left, ignore_errors=True)
    if is_there := state.exists():
        state.touch()
    return is_there


def _keep(part: Path, state: Path) -> None:
    part.replace(state)
    for old in sorted((p for p in state.parent.iterdir() if p.is_file()), key=lambda p: p.stat().st_mtime)[:-_KEPT]:
        old.unlink(missing_ok=True)


async def tried(once: Callable[[], Awaitable[_T]]) -> _T:
    """Return the result of a guest's run. A stuck guest is run again, _TRIES times in all. Raises what `once` raises."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(GuestStuck):
            return await once()
    return await once()


Paused = Callable[[Monitor, str], Awaitable[None]]
"""Function that is called while the guest has paused itself, with its console so far."""


async def run_script(host: Host, machine: Machine, state: Path, script: bytes, paused: Paused | None = None) -> str:
    """Return the guest's console from the script's first command to its end. Raises ToolFailed, HostError, OSError.

    A state that cannot be read is removed, and GuestStuck raised: the next try has to boot a new guest.
    """
    with TemporaryDirectory(prefix=".trial-", dir=state.parent) as place:
        async with _started(host, machine, Path(place), script, ["-incoming", "defer"]) as monitor:
            await monitor.ask("migrate-set-capabilities", capabilities=[{"capability": "events", "state": True}])
            await monitor.ask("migrate-incoming", uri=f"exec:cat {shlex.quote(str(state))}")
            try:
                await monitor.migrated()
            except (GuestStuck, GuestEnded):
                await asyncio.to_thread(state.unlink, missing_ok=True)
                raise _unreadable(host.name) from None
            await monitor.ask("cont")
            with contextlib.suppress(GuestEnded):
                while (await monitor.event("SHUTDOWN", "GUEST_PANICKED"))["event"] != "SHUTDOWN":
                    console = _console(Path(place))
                    if paused is None or not console.endswith(f"{MARK} {PAUSE}\n"):
                        raise ended(host, console, is_booted=True)
                    await paused(monitor, console)
                    await monitor.ask("cont")
        console = _console(Path(place))
        if f"{MARK} done" not in console:
            raise ended(host, console, is_spent=monitor.is_spent, is_booted=True)
        return console


@asynccontextmanager
async def _started(host: Host, machine: Machine, place: Path, script: bytes, more: Sequence[str]) -> AsyncIterator[Monitor]:
    """Start QEMU and yield its monitor. Raises ToolFailed with the console's last lines if the guest ends too soon."""
    if len(script := script + _END) > _SCRIPT_BYTES:
        why = f"the commands of a mode and of its trial have {len(script)} bytes; a guest takes {_SCRIPT_BYTES}"
        raise ToolFailed(why, tool=QEMU.name, host=host.name, remedy="make the rule set shorter")
    (place / "script").write_bytes(script.ljust(_SCRIPT_BYTES, b"\n"))
    serial = ["-serial", f"file:{place}/console", "-fw_cfg", f"name={SCRIPT},file={place}/script", "-kernel", str(machine.kernel)]
    command = [*machine.argv, *serial, *more]
    process = await host.spawn(["sh", "-c", f'ulimit -c 0; ulimit -S -t {CPU_LIMIT_S}; exec "$@"', "sh", *command])
    monitor = Monitor(process)
    try:
        async with asyncio.timeout(_WALL_LIMIT_S):
            await monitor.ask("qmp_capabilities")
            yield monitor
    except TimeoutError:
        raise ToolFailed(f"the guest takes longer than {_WALL_LIMIT_S:g} s", tool=QEMU.name, host=host.name) from None
    except GuestEnded:
        done = await process.end()
        raise ended(host, _console(place), done.errors, is_spent=done.status == -signal.SIGXCPU, is_booted="-incoming" in more) from None
    finally:
        monitor.is_spent = (await process.end()).status == -signal.SIGXCPU


class GuestEnd(StrEnum):
    """Reason why a guest gave no result."""

    MODE = "mode"
    """The guest refuses a command of its mode."""
    PART = "part"
    """The kernel lacks a part."""
    LATE = "late"
    """The guest takes too long, by its own clock or by QEMU's processor time."""
    NO_ICOUNT = "no-icount"
    """QEMU cannot count instructions."""
    NO_START = "no-start"
    """QEMU does not start."""
    NO_BOOT = "no-boot"
    """The kernel does not reach its first program."""
    SOON = "soon"
    """The guest ended before it was done."""
    VOID = "void"
    """Frames were lost or arrived twice, or foreign frames arrived."""


_REMEDIES = {
    GuestEnd.MODE: "correct the rule set; lines are counted from its first",
    GuestEnd.PART: "take a kernel that has it, as linux-image-cloud-amd64",
    GuestEnd.LATE: "write a larger limit_s, or fewer frames, rules or routes",
    GuestEnd.NO_ICOUNT: "take a QEMU with the accelerator TCG and -icount",
    GuestEnd.NO_START: "see qemu.txt",
    GuestEnd.NO_BOOT: "see console.txt",
    GuestEnd.SOON: "see console.txt",
    GuestEnd.VOID: "see console.txt",
}


class GuestFailed(ToolFailed):
    """A guest without a result. `message` is the message of the guest or of QEMU."""

    def __init__(self, kind: GuestEnd, message: str, *, host: str, raw: Mapping[str, bytes] | None = None) -> None:
        super().__init__(f"{_WORDS[kind]}: {message}", tool=QEMU.name, host=host, remedy=_REMEDIES[kind], raw=raw)
        self.kind, self.message = kind, message


_WORDS = {
    GuestEnd.MODE: "the guest refuses the mode",
    GuestEnd.PART: "the guest lacks a part",
    GuestEnd.LATE: "the guest did not finish in time",
    GuestEnd.NO_ICOUNT: "this QEMU does not count instructions",
    GuestEnd.NO_START: "QEMU does not start",
    GuestEnd.NO_BOOT: "the kernel does not boot",
    GuestEnd.SOON: "the guest ended too soon",
    GuestEnd.VOID: "the trial is void",
}


def ended(host: Host, console: str, qemu: str = "", *, is_spent: bool = False, is_booted: bool = False) -> GuestFailed:
    """Return the error for a guest that ended before it was done, from its console or QEMU's output.

    `is_spent`: QEMU used up its processor time; `is_booted`: it began with a guest that had booted.
    """
    ours = [line.removeprefix(f"{MARK} ") for line in console.splitlines() if line.startswith(MARK)]
    tail = " / ".join(line.strip() for line in console.splitlines()[-_CONSOLE_LINES:] if line.strip())
    complaint = " ".join(qemu.split())
    match next((line.removeprefix("failed ") for line in ours if line.startswith("failed ")), ""):
        case "mode":
            kind, detail = GuestEnd.MODE, " / ".join(shortened(line.removeprefix("said ")) for line in ours if line.startswith("said "))
        case "":
            kind, detail = GuestEnd.SOON, f"{tail} {complaint}".strip()
            if is_spent:
                kind, detail = GuestEnd.LATE, f"QEMU has taken {CPU_LIMIT_S} s of processor time. {tail}".strip()
            elif "late" in ours:
                kind, detail = GuestEnd.LATE, tail
            elif "icount" in complaint or "tcg" in complaint:
                kind, detail = GuestEnd.NO_ICOUNT, complaint
            elif complaint and not tail:
                kind, detail = GuestEnd.NO_START, complaint
            elif not ours and not is_booted:
                kind, detail = GuestEnd.NO_BOOT, tail or "its console is empty"
        case failed:
            kind, detail = GuestEnd.PART, failed
    return GuestFailed(kind, detail, host=host.name, raw={"console.txt": console.encode(), "qemu.txt": qemu.encode()})


def _console(place: Path) -> str:
    return outside.tail(place / "console", CONSOLE_BYTES).decode("utf-8", "replace").replace("\r", "")
