"""Sensor that is one shell loop on its host during a whole trial. A login or a new program every second would change the figures.

Each turn prints parts that begin with a mark and a name; `own` is the CPU time of the loop, and `end` ends the turn.
The loop runs on a core that the generator does not use, if there is one.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from dutlab.bounds import TURN_BYTES
from dutlab.errors import CommandFailed, HostError
from dutlab.events import Tell, no_observer
from dutlab.hosts.host import Process
from dutlab.hosts.running import KeptOutput
from dutlab.sensors.oddities import Amount, FaultTally, in_range
from dutlab.sensors.sensor import WATCH_COST, Sample, SensorSite, Watched, limits_once
from dutlab.systems.watched import MARK, sections, shell_times_s

_END = f"{MARK}end\n"
_FIRST_TURN_S = 30.0


class ShellLoop(ABC):
    """Loop `script`. Its `$1` is the seconds between two turns, and its further arguments are `arguments`.

    A subclass parses a turn (`_turn`) and turns the readings into samples (`_samples`).
    """

    vital = False
    waits = True
    """True if start() waits for the first turn; False for sensors whose first turn may be slow."""
    needs = "the host needs sh"
    """Needs of the loop, for the error message when it prints nothing."""

    def __init__(self, name: str, site: SensorSite, script: str, arguments: Sequence[str] = (), *, interval_s: float = 1.0) -> None:
        self.name, self.host = name, site.host.name
        self._site, self._script, self._interval_s = site, script, interval_s
        self._arguments = tuple(arguments)
        self._process: Process | None = None
        self._reader: asyncio.Future[None] | None = None
        self._first = asyncio.Event()
        self._first_s = 0.0
        self._own: list[tuple[float, float]] = []
        """(Time of a turn, CPU time of the loop until then), in seconds."""
        self._faults = FaultTally()
        self._tell: Tell = no_observer

    async def start(self, tell: Tell = no_observer) -> None:
        """Start the loop; return after the first turn, if `waits`. Raises HostError."""
        self._tell = tell
        pin = [] if self._site.core is None else self._site.host.system.pinned([self._site.core])
        argv = [*pin, "sh", "-c", self._script, "sensor", str(self._interval_s), *self._arguments]
        self._process = await self._site.host.spawn(argv)
        self._reader = asyncio.ensure_future(self._read(self._process))
        if not self.waits:
            return
        first = asyncio.ensure_future(self._first.wait())
        try:
            await asyncio.wait([first, self._reader], timeout=_FIRST_TURN_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            first.cancel()
        if not self._first.is_set():
            done = await self._process.end()
            if done.status > 0:
                raise CommandFailed(host=self.host, argv=done.argv[:3], status=done.status, stderr_tail=done.errors)
            raise HostError(f"sensor {self.name} printed nothing", host=self.host, remedy=self.needs)

    async def stop(self, began_s: float | None = None) -> Watched:
        """End the loop, and return its readings. Without `began_s` the trial began with the first turn."""
        if self._process is None or self._reader is None:
            return Watched()
        ended_s = time.monotonic()
        if self._reader.done() and not self._faults:
            self._faults.add("its loop ended before the trial did")
        await self._process.end(grace_s=1.0)
        await self._reader
        if not self._first.is_set():
            self._faults.add(f"no reading; {self.needs}")
        said = self._faults.words or self._odd(ended_s)
        return Watched(
            list(self._samples(self._first_s if began_s is None else began_s)), faults=tuple(f"{self.name}: {what}" for what in said)
        )

    def _odd(self, ended_s: float) -> Iterable[str]:
        """Yield a sentence for each doubt about existing readings."""
        return ()

    @abstractmethod
    def _turn(self, at_s: float, text: str) -> None:
        """Store the readings of a turn, and report them. Raises ValueError, KeyError if they are invalid."""

    @abstractmethod
    def _samples(self, began_s: float) -> Iterable[Sample]:
        """Yield samples of the turns, with times since `began_s`."""

    def _costs(self, began_s: float) -> Iterable[Sample]:
        """Yield the loop's share of one core between successive turns, in percent."""
        for (before_s, before), (at_s, after) in pairwise(self._own):
            if at_s > before_s:
                yield Sample(round(at_s - began_s, 3), self.host, self.name, WATCH_COST, "%", (after - before) / (at_s - before_s) * 100)

    async def _read(self, process: Process) -> None:
        block = KeptOutput(TURN_BYTES)
        try:
            while line := await process.readline():
                block.take(line)
                if line == _END.encode():
                    if block.dropped_bytes:
                        self._faults.add(f"it printed {TURN_BYTES + block.dropped_bytes} bytes in one turn")
                    else:
                        self._enter(time.monotonic(), block.kept.decode("utf-8", "replace"))
                    block = KeptOutput(TURN_BYTES)
        except HostError as e:  # the host is lost; the measurement reports it too
            self._faults.add(str(e))

    def _enter(self, at_s: float, text: str) -> None:
        try:
            self._turn(at_s, text)
            self._own.append((at_s, shell_times_s(sections(text).get("own", ""))))
        except (ValueError, KeyError) as e:
            self._faults.add(str(e))
        if not self._first.is_set():
            self._first_s = at_s
            self._first.set()


class AmountLoop(ShellLoop):
    """Loop whose turns print quantities by name, with their limits. Its first turn may be slow."""

    waits = False

    def __init__(self, name: str, site: SensorSite, script: str, arguments: Sequence[str] = (), *, interval_s: float = 1.0) -> None:
        super().__init__(name, site, script, arguments, interval_s=interval_s)
        self._values: list[tuple[float, Mapping[str, Amount]]] = []

    @abstractmethod
    def _amounts(self, text: str) -> Mapping[str, Amount]:
        """Return the readings of a turn. Raises ValueError, KeyError if they are invalid."""

    def _turn(self, at_s: float, text: str) -> None:
        amounts, odd = in_range(self._amounts(text))
        self._faults.add(*odd)
        self._values.append((at_s, amounts))
        self._tell(self.host, self.name, {name: amount.value for name, amount in amounts.items()})

    def _samples(self, began_s: float) -> Iterable[Sample]:
        yield from limits_once(
            Sample(round(at_s - began_s, 3), self.host, self.name, name, amount.unit, amount.value)
            for at_s, amounts in self._values
            for name, amount in amounts.items()
        )
        yield from self._costs(began_s)
