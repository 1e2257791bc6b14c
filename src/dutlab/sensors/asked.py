"""Polling thread of sensors that this machine reads over the network, with any protocol."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple, Protocol

from dutlab.bounds import ANSWER_S
from dutlab.errors import HostError
from dutlab.events import Tell, no_observer
from dutlab.hosts.local import THIS_MACHINE
from dutlab.hosts.passwords import from_keyring
from dutlab.sensors.oddities import Amount, FaultTally, in_range, oddities
from dutlab.sensors.sensor import WATCH_COST, Sample, Watched, limits_once
from dutlab.spec.sensors import AskedSensor

PATIENCE_S = ANSWER_S
"""Time limit of one answer, from the first byte of the request."""
SHOWN = 60
"""Number of characters of an answer that a fault quotes."""


class TimedAnswer(NamedTuple):
    """Time of an answer (time.monotonic()), its quantities by name, and the CPU time of the request."""

    at_s: float
    quantities: Mapping[str, Amount]
    cpu_s: float


class Refused(Exception):
    """Error: the device refused the login. A further request might lock the account."""


class ReadingSource(Protocol):
    """Source of readings. One thread creates, uses and closes it."""

    def read(self) -> Mapping[str, Amount]:
        """Return the current readings by name. Raises Refused, OSError, ValueError."""

    def close(self) -> None:
        """Release its resources."""


_refused: dict[AskedSensor, str] = {}
"""Sensors that refused the login in this process, and why. Many controllers lock the account after three wrong passwords."""


class PolledSensor:
    """One sensor in one trial. A daemon thread polls it, so that a slow answer does not delay the trial."""

    vital = False

    def __init__(self, spec: AskedSensor, open_source: Callable[[], ReadingSource]) -> None:
        self.name = spec.name
        self._spec, self._open = spec, open_source
        self._place = spec.host or spec.name
        self._readings: list[TimedAnswer] = []
        self._faults = FaultTally()
        self._over = threading.Event()
        self._began_s = 0.0
        self._tell: Tell = no_observer
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self, tell: Tell = no_observer) -> None:
        """Start polling, and return at once. Raises HostError if a required secret is missing."""
        for variable in self._spec.secrets:
            secret(variable)
        self._tell, self._loop, self._began_s = tell, asyncio.get_running_loop(), time.monotonic()
        threading.Thread(target=self._ask_on, name=f"sensor {self.name}", daemon=True).start()

    async def stop(self, began_s: float) -> Watched:
        """Return its readings, without waiting for a pending answer."""
        if self._loop is None:
            return Watched()
        self._over.set()
        readings, ended_s = tuple(self._readings), time.monotonic()
        answers = [(reading.at_s, reading.quantities) for reading in readings]
        odd = oddities(answers, self._began_s, ended_s, every_s=self._spec.every)
        return Watched(
            list(limits_once(self._samples(readings, began_s))),
            faults=tuple(f"{self.name}: {what}" for what in (*self._faults.words, *odd)),
        )

    def _samples(self, readings: Sequence[TimedAnswer], began_s: float) -> Iterable[Sample]:
        for reading in readings:
            for name, (value, unit) in reading.quantities.items():
                yield Sample(round(reading.at_s - began_s, 3), self._place, self.name, name, unit, value)
        for before, after in pairwise(readings):
            percent = after.cpu_s / (after.at_s - before.at_s) * 100 if after.at_s > before.at_s else 0.0
            yield Sample(round(after.at_s - began_s, 3), THIS_MACHINE, self.name, WATCH_COST, "%", percent)

    def _ask_on(self) -> None:
        """Poll in a separate thread until stop()."""
        if (why := _refused.get(self._spec)) is not None:
            self._faults.add(f"{why}; not asked again")
            return
        due_s, source = time.monotonic(), None
        while not self._over.is_set():
            cpu_s = time.thread_time()
            try:
                source = source or self._open()
                quantities, odd = in_range(source.read())
                self._faults.add(*odd)
                self._enter(TimedAnswer(time.monotonic(), quantities, time.thread_time() - cpu_s))
            except Refused as refused:
                _refused[self._spec] = str(refused)
                self._faults.add(f"{refused}; not asked again")
                break
            except (OSError, ValueError) as error:
                self._faults.add(_words(error))
            except Exception as error:  # noqa: BLE001 - the boundary: a device may send any bytes, and a library may raise any exception
                self._faults.add(f"it gave an invalid answer ({type(error).__name__})")
            due_s = max(due_s + self._spec.every, time.monotonic())
            self._over.wait(due_s - time.monotonic())
        if source is not None:
            source.close()

    def _enter(self, reading: TimedAnswer) -> None:
        if self._over.is_set() or self._loop is None:
            return
        self._readings.append(reading)
        values = {name: quantity.value for name, quantity in reading.quantities.items()}
        try:
            self._loop.call_soon_threadsafe(self._tell, self._place, self.name, values)
        except RuntimeError:  # the loop has closed meanwhile
            self._over.set()


def secret(variable: str) -> str:
    """Return the secret of this name from the environment, else from the keyring. Raises HostError if neither has it."""
    if (value := os.environ.get(variable)) is not None:
        return value
    return _kept(variable)


@cache  # a keyring may ask its owner, and readings need the password each second
def _kept(variable: str) -> str:
    value, why = from_keyring(variable)
    if value is None:
        remedy = why or f"export {variable} with the password, or `keyring set dutlab {variable}`"
        raise HostError(f"the environment has no {variable}, and no keyring has it", host=THIS_MACHINE, remedy=remedy)
    return value


def _words(error: Exception) -> str:
    """Return the error as text, without the request, which may contain a password."""
    return f"it did not answer within {PATIENCE_S:g} s" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
