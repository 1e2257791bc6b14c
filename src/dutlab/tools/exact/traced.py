"""Profile of a frame's instructions: QEMU logs the address of each instruction of some frames, which become stacks of functions.

The guest pauses itself before and after such a pass. In between, QEMU makes blocks of one instruction each and logs every block that it
executes (qemu(1), `-d exec`). This does not affect the guest, since its clock counts instructions. Names come from the guest's
/proc/kallsyms. A function that is entered at its first instruction was called; any other entry is a return to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

from dutlab.errors import ToolFailed
from dutlab.tools.exact.guest import MARK, SYMBOLS_BEGIN, SYMBOLS_END
from dutlab.tools.exact.machine import Monitor

OF_USERS, UNKNOWN = "[user]", "[unknown]"
_KERNEL = 1 << 63
_FARTHEST = 1 << 20
"""Largest distance of an address from the begin of its function."""
# "Trace 0: 0x7f… [cs_base/pc/flags/cflags] " (accel/tcg/cpu-exec.c, log_cpu_exec)
_ADDRESS = re.compile(rb"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/.*$", re.MULTILINE)
_VARIANT = re.compile(r"\.(?:isra|constprop|part|cold|llvm|lto_priv)\b.*")
_MARK_OF_SECTION = re.compile(r".*_(?:start|end|begin)|__pfx_.*|_[se]text")
_SENT = "veth_xmit"
_GENERATOR = "pktgen"
_RECEIVED = "net_rx_action"
"""Function that takes a frame out of a port's queue. If ksoftirqd is awake, it does so later and for many frames (kernel/softirq.c)."""
_INTERRUPTS = ("asm_sysvec_", "asm_common_interrupt", "apic_timer_interrupt")
_BEGIN, _END = (f"{MARK} {word}\n" for word in (SYMBOLS_BEGIN, SYMBOLS_END))
_CHUNK = 1 << 20
_CLOSES_S = 60.0
_FEWEST = 2


class Symbols:
    """Functions of a kernel and its modules, by address."""

    def __init__(self, kallsyms: str) -> None:
        best = dict[int, tuple[bool, int, str, bool]]()
        for line in kallsyms.splitlines():
            words = line.split()
            if len(words) < 3 or words[1] not in "tTwW":  # noqa: PLR2004 -- address, kind, name
                continue
            address, name = int(words[0], 16), _VARIANT.sub("", words[2])
            candidate = (_MARK_OF_SECTION.fullmatch(name) is not None, len(name), name, ".cold" not in words[2])
            if address not in best or candidate < best[address]:
                best[address] = candidate
        self._begins = sorted(best)
        self._functions = [best[of][2:] for of in self._begins]

    def at(self, address: int) -> tuple[str, bool]:
        """Return the function at an address, and whether it is entered there. Its cold part is reached by a jump."""
        if address < _KERNEL:
            return OF_USERS, False
        place = bisect_right(self._begins, address) - 1
        if place < 0 or address - self._begins[place] > _FARTHEST:
            return UNKNOWN, False
        name, is_whole = self._functions[place]
        return name, is_whole and address == self._begins[place]


class _Place:
    """A function, with its callers and its callees."""

    __slots__ = ("above", "below", "function")

    def __init__(self, function: str, above: _Place | None) -> None:
        self.function, self.above, self.below = function, above, dict[str, _Place]()

    def calls(self, function: str) -> _Place:
        if (place := self.below.get(function)) is None:
            place = self.below[function] = _Place(function, self)
        return place

    def caller_named(self, function: str) -> _Place:
        """Return the nearest caller that is `function`. If it was called before the log began, it gets a place below the root."""
        place = self
        while place.above is not None:
            if place.function == function:
                return place
            place = place.above
        return place.calls(function)

    @property
    def stack(self) -> tuple[str, ...]:
        """Functions from the outermost inwards."""
        return () if self.above is None else (*self.above.stack, self.function)


@dataclass(frozen=True)
class Count:
    """Instructions per frame: the mean of some frames, and its standard error."""

    mean: float
    error: float = 0.0


@dataclass(frozen=True)
class PassProfile:
    """Profile of a pass's frames."""

    frames: int
    """Number of counted frames: those that were carried to their end before the next one, without an interrupt."""
    stacks: Mapping[tuple[str, ...], float]
    """Functions from the outermost inwards → instructions per frame."""
    functions: Mapping[str, Count]


class FrameLog:
    """Reader of the log of a pass. A frame lasts from one call of the generator into its port to the next."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self._known = dict[bytes, tuple[str, bool]]()
        self._root = self._here = _Place("", None)
        self._run = 0
        self._frame = dict[_Place, int]()
        self._begun = self._disturbed = self._is_carried = False
        self._left = b""
        self._frames = 0
        self._stacks = defaultdict[_Place, int](int)
        self._sums, self._squares = defaultdict[str, int](int), defaultdict[str, int](int)

    def take(self, chunk: bytes) -> None:
        """Read text of the log, in any pieces."""
        text, _, self._left = (self._left + chunk).rpartition(b"\n")
        known, here, run = self._known, self._here, self._run
        for address in _ADDRESS.findall(text):
            function, is_entry = known.get(address) or self._learn(address)
            if function != here.function:
                self._frame[here] = self._frame.get(here, 0) + run
                run = 0
                here = here.calls(function) if is_entry else here.caller_named(function)
                if is_entry and function == _SENT and here.above is not None and here.above.function.startswith(_GENERATOR):
                    self._end_frame()
                elif function.startswith(_INTERRUPTS):
                    self._disturbed = True
                elif function == _RECEIVED:
                    self._is_carried = True
            run += 1
        self._here, self._run = here, run

    def profile(self) -> PassProfile:
        """Return the profile of all complete frames. Raises ValueError if there are too few."""
        n = self._frames
        if n < _FEWEST:
            raise ValueError(f"the log has {n} frames that were carried to their end before the next one")
        counts = {
            name: Count(total / n, sqrt(max(self._squares[name] - total * total / n, 0.0) / (n - 1) / n))
            for name, total in self._sums.items()
        }
        return PassProfile(n, {place.stack: count / n for place, count in self._stacks.items()}, counts)

    def _learn(self, address: bytes) -> tuple[str, bool]:
        symbol = self._known[address] = self._symbols.at(int(address, 16))
        return symbol

    def _end_frame(self) -> None:
        if self._begun and self._is_carried and not self._disturbed:
            self._frames += 1
            of_frame = defaultdict[str, int](int)
            for place, count in self._frame.items():
                self._stacks[place] += count
                of_frame[place.function] += count
            for name, count in of_frame.items():
                self._sums[name] += count
                self._squares[name] += count * count
        self._begun, self._disturbed, self._is_carried = True, False, False
        self._frame.clear()


class Tracer:
    """Logger of passes, each from one pause of the guest to the next."""

    def __init__(self, folder: Path) -> None:
        self._pipe = folder / "log"
        self._symbols: Symbols | None = None
        self._reading: asyncio.Task[PassProfile] | None = None
        self.profiles: list[PassProfile] = []
        self.why = ""
        """Reason why there is no profile."""
        os.mkfifo(self._pipe)

    async def paused(self, monitor: Monitor, console: str) -> None:
        """Begin or end the log of a pass. A trial without a profile still has its figures. Raises GuestEnded."""
        try:
            if self.why:
                return
            if self._reading is not None:
                await self._end(monitor, self._reading)
            else:
                await self._begin(monitor, console)
        except (ToolFailed, ValueError) as error:
            self.why = str(error)
        except TimeoutError:
            self.why = "QEMU does not end its log"

    async def _begin(self, monitor: Monitor, console: str) -> None:
        if self._symbols is None:
            self._symbols = Symbols(symbols_in(console))
        await _set_single_stepping(monitor, "on")
        self._reading = asyncio.create_task(asyncio.to_thread(_read, self._pipe, FrameLog(self._symbols)))
        await monitor.command(f'logfile "{self._pipe}"')
        await monitor.command("log exec")

    async def _end(self, monitor: Monitor, reading: asyncio.Task[PassProfile]) -> None:
        await monitor.command("log none")
        await monitor.command("logfile /dev/null")  # without this, a QEMU that traces to its log keeps the file open
        await _set_single_stepping(monitor, "off")
        async with asyncio.timeout(_CLOSES_S):
            self.profiles.append(await asyncio.shield(reading))
        self._reading = None

    async def end(self) -> None:
        """End the log in any case."""
        if self._reading is not None:
            with contextlib.suppress(OSError):  # a reader that waits for QEMU gets the end of the file instead
                os.close(os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK))
            await asyncio.gather(self._reading, return_exceptions=True)


@asynccontextmanager
async def tracer(folder: Path) -> AsyncIterator[Tracer]:
    """Yield a tracer for one guest. QEMU must have ended when this ends."""
    with TemporaryDirectory(prefix=".log-", dir=folder) as place:
        new_tracer = Tracer(Path(place))
        try:
            yield new_tracer
        finally:
            await new_tracer.end()


async def _set_single_stepping(monitor: Monitor, switch: str) -> None:
    """Switch blocks of one instruction on or off, by the command of QEMU 8.1 and later or the older one. Raises ValueError."""
    complaint = await monitor.command(f"one-insn-per-tb {switch}")
    if complaint and (complaint := await monitor.command(f"singlestep {switch}")):
        raise ValueError(f"QEMU cannot execute instructions one by one: {complaint}")


def _read(pipe: Path, log: FrameLog) -> PassProfile:
    with pipe.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            log.take(chunk)
    return log.profile()


def symbols_in(console: str) -> str:
    """Return the functions that the guest printed."""
    return console.partition(_BEGIN)[2].partition(_END)[0]


def without_symbols(console: str) -> str:
    """Return the console without the functions that the guest printed."""
    before, begin, rest = console.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return f"{before}{begin}{end}{after}" if end else console


def weighed(parts: Sequence[tuple[float, PassProfile]]) -> PassProfile:
    """Return the profile of a mix: each size with its share."""
    whole = sum(share for share, _ in parts)
    stacks = defaultdict[tuple[str, ...], float](float)
    means, variances = defaultdict[str, float](float), defaultdict[str, float](float)
    for share, of in parts:
        for stack, count in of.stacks.items():
            stacks[stack] += count * share / whole
        for name, cost in of.functions.items():
            means[name] += cost.mean * share / whole
            variances[name] += (cost.error * share / whole) ** 2
    counts = {name: Count(mean, sqrt(variances[name])) for name, mean in means.items()}
    return PassProfile(sum(of.frames for _, of in parts), stacks, counts)
