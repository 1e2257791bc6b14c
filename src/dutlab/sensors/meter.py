"""Sensor `meter`: the power that a meter on the network tells by HTTP, asked from this machine once a period.

Answers as their makers document them: Shelly Gen1 (`/status`), Shelly Gen2 and later (`Shelly.GetStatus`), Tasmota (`Status 8`).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from dutlab.errors import HostError
from dutlab.events import Tell, nobody
from dutlab.hosts.local import THIS_MACHINE
from dutlab.sensors.sensor import WATCH_COST, Sample, SensorSite, Watched
from dutlab.spec.sensors import MeterSensor

PATIENCE_S = 10.0
"""For one answer; a meter that takes longer has not answered."""
_MOST_BYTES = 65_536
_SHOWN = 60
_ASKS = {"shelly": "/rpc/Shelly.GetStatus", "shelly-gen1": "/status", "tasmota": "/cm?cmnd=Status%208"}
_PLACES = {
    "shelly": ("switch:{0}.apower", "pm1:{0}.apower", "em1:{0}.act_power"),
    "shelly-gen1": ("meters[{0}].power", "emeters[{0}].power"),
    "tasmota": ("StatusSNS.ENERGY.Power[{0}]", "StatusSNS.ENERGY.Power"),
}
"""Where a model may have its watts; the first that is there counts. A Tasmota with one outlet has a number, one with several a list."""
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_REFUSED = (401, 403)
_OK = 200
SILENT_S, SILENT_PERIODS = 5.0, 3
STUCK_S, STUCK_READINGS = 30.0, 20
_LEAST_ZEROS = 3
_JUMP, _ALIKE = 2.0, 1.2


class MeterAnswer(NamedTuple):
    """When an answer came (time.monotonic()), what it said, and the CPU that the asking took."""

    at_s: float
    value: float
    cpu_s: float


class Refused(Exception):
    """The meter takes no more questions from us."""


class Meter:
    """One meter in one trial. A thread asks it, so that a slow answer holds nothing up; it ends with the process at the latest."""

    vital = False

    def __init__(self, spec: MeterSensor) -> None:
        self.name = spec.name
        self._spec = spec
        self._place = spec.host or spec.name
        self._readings: list[MeterAnswer] = []
        self._faults: list[str] = []
        self._over = threading.Event()
        self._began_s = 0.0
        self._tell: Tell = nobody
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self, tell: Tell = nobody) -> None:
        """Returns at once. Raises HostError where the password is not in the environment."""
        headers = _headers(self._spec)
        self._tell, self._loop, self._began_s = tell, asyncio.get_running_loop(), time.monotonic()
        threading.Thread(target=self._ask_on, args=(headers,), name=f"meter {self.name}", daemon=True).start()

    async def stop(self, began_s: float) -> Watched:
        """What it said. An answer that is still awaited is not waited for."""
        if self._loop is None:
            return Watched()
        self._over.set()
        readings, ended_s = tuple(self._readings), time.monotonic()
        odd = oddities(readings, self._began_s, ended_s, self._spec)
        again = f" ({len(self._faults)} times)" if len(self._faults) > 1 else ""
        faults = [f"{self._faults[0]}{again}"] if self._faults else []
        return Watched(list(self._samples(readings, began_s)), faults=tuple(f"{self.name}: {what}" for what in (*faults, *odd)))

    def _samples(self, readings: Sequence[MeterAnswer], began_s: float) -> Iterable[Sample]:
        for reading in readings:
            yield Sample(round(reading.at_s - began_s, 3), self._place, self.name, self.name, self._spec.unit, reading.value)
        for before, after in pairwise(readings):
            percent = after.cpu_s / (after.at_s - before.at_s) * 100 if after.at_s > before.at_s else 0.0
            yield Sample(round(after.at_s - began_s, 3), THIS_MACHINE, self.name, WATCH_COST, "%", percent)

    def _ask_on(self, headers: dict[str, str]) -> None:
        """In a thread of its own, until stop()."""
        due_s = time.monotonic()
        while not self._over.is_set():
            cpu_s = time.thread_time()
            try:
                value = ask(self._spec, headers)
                self._enter(MeterAnswer(time.monotonic(), value, time.thread_time() - cpu_s))
            except Refused as refused:
                self._faults.append(f"{refused}; not asked again")
                return
            except (OSError, HTTPException, ValueError) as error:
                self._faults.append(_words(error))
            due_s = max(due_s + self._spec.every, time.monotonic())
            self._over.wait(due_s - time.monotonic())

    def _enter(self, reading: MeterAnswer) -> None:
        if self._over.is_set() or self._loop is None:
            return
        self._readings.append(reading)
        told = {self.name: reading.value}
        try:
            self._loop.call_soon_threadsafe(self._tell, self._place, self.name, told)
        except RuntimeError:  # the loop has closed meanwhile
            self._over.set()


def ask(spec: MeterSensor, headers: dict[str, str]) -> float:
    """What the meter says now, in the unit. Raises Refused, OSError, HTTPException, ValueError."""
    said = _get(spec, headers)
    try:
        document = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it answered {said[:_SHOWN].decode('utf-8', 'replace')!r}, which is not JSON") from error
    places = [spec.value] if spec.value else [place.format(spec.channel) for place in _PLACES[spec.model or ""]]
    for place in places:
        found, valid = _number_at(document, place)
        if found is not None:
            if not valid:
                raise ValueError(f"it says that {place} is not valid")
            return found * spec.scale
    raise ValueError(f"no number at {' or '.join(places)} in its answer {said[:_SHOWN].decode('utf-8', 'replace')!r}")


def oddities(readings: Sequence[MeterAnswer], began_s: float, ended_s: float, spec: MeterSensor) -> Iterator[str]:
    """What makes readings doubtful, each in words."""
    if not readings:
        if ended_s - began_s > SILENT_S:
            yield "no reading"
        return
    values, unit = [r.value for r in readings], spec.unit
    if spec.unit == "W" and min(values) < 0:
        yield f"it says {min(values):g} W: is the meter the wrong way round?"
    if len(values) >= _LEAST_ZEROS and not any(values):
        yield f"it says 0 {unit} all the time: an outlet without a meter does"
    times = [began_s, *(r.at_s for r in readings), ended_s]
    longest = max(after - before for before, after in pairwise(times))
    if longest > max(SILENT_S, SILENT_PERIODS * spec.every):
        yield f"it said nothing for {longest:.0f} s"
    span_s = readings[-1].at_s - readings[0].at_s
    if len(values) >= STUCK_READINGS and span_s >= STUCK_S and len(set(values)) == 1 and not values[0].is_integer():
        yield f"it says {values[0]:g} {unit} to the digit for {span_s:.0f} s: it may be stuck"
    for before, between, after in zip(values, values[1:], values[2:], strict=False):
        near = min(before, after) > 0 and max(before, after) <= _ALIKE * min(before, after)
        if near and not fmean((before, after)) / _JUMP <= between <= fmean((before, after)) * _JUMP:
            yield f"one reading of {between:g} {unit} lies between {before:g} and {after:g}"
            return


def _number_at(document: object, place: str) -> tuple[float | None, bool]:
    """The number, and whether what it is part of calls itself valid (Shelly's Gen1 says `is_valid`)."""
    value, valid = document, True
    for name, index in _STEP.findall(place):
        if isinstance(value, dict) and name in value:
            valid = value.get("is_valid", True) is not False
            value = value[name]
        elif isinstance(value, list) and index and int(index) < len(value):
            value = value[int(index)]
        else:
            return None, valid
    return (float(value), valid) if isinstance(value, int | float) and not isinstance(value, bool) else (None, valid)


def _get(spec: MeterSensor, headers: dict[str, str]) -> bytes:
    url = urlsplit(spec.url)
    path = f"{url.path.rstrip('/')}{_ASKS[spec.model]}" if spec.model else f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
    if spec.model == "tasmota" and spec.user is not None:  # it takes them in the address only
        path += f"&user={quote(spec.user)}&password={quote(_password(spec))}"
    until_s = time.monotonic() + PATIENCE_S
    connection = _connection(spec, url.hostname or "", url.port)
    try:
        connection.connect()
        _insist_on_certificate(spec, connection)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status in _REFUSED:
            raise Refused(f"it refuses us ({answer.status} {answer.reason})")
        if answer.status != _OK:
            raise ValueError(f"it answered {answer.status} {answer.reason}")
        return _body(answer, connection, until_s)
    finally:
        connection.close()


def _body(answer: HTTPResponse, connection: HTTPConnection, until_s: float) -> bytes:
    said = b""
    while (part := answer.read1(_MOST_BYTES)) and len(said) <= _MOST_BYTES:
        said += part
        if (left_s := until_s - time.monotonic()) <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left_s)
    if len(said) > _MOST_BYTES:
        raise ValueError(f"its answer is longer than {_MOST_BYTES} bytes")
    return said


def _connection(spec: MeterSensor, host: str, port: int | None) -> HTTPConnection:
    if spec.url.startswith("http:"):
        return HTTPConnection(host, port, timeout=PATIENCE_S)
    context = ssl.create_default_context()
    if spec.certificate:  # what is pinned needs no name and no authority
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return HTTPSConnection(host, port, timeout=PATIENCE_S, context=context)


def _insist_on_certificate(spec: MeterSensor, connection: HTTPConnection) -> None:
    if not spec.certificate or not isinstance(connection.sock, ssl.SSLSocket):
        return
    found = hashlib.sha256(connection.sock.getpeercert(binary_form=True) or b"").hexdigest()
    if found != spec.certificate:
        raise Refused(f"its certificate is {found}, not the one of the testbed file")


def _headers(spec: MeterSensor) -> dict[str, str]:
    headers = {"Accept": "application/json", "Connection": "close"}
    if spec.user is None:
        return headers
    login = base64.b64encode(f"{spec.user}:{_password(spec)}".encode()).decode("ascii")
    return headers if spec.model == "tasmota" else {**headers, "Authorization": f"Basic {login}"}


def _password(spec: MeterSensor) -> str:
    name = spec.password_from or ""
    if (found := os.environ.get(name)) is None:
        raise HostError(f"the environment has no {name}", host=THIS_MACHINE, remedy=f"export {name} with the meter's password")
    return found


def _words(error: Exception) -> str:
    """Without what it was asked, which may have a password."""
    if isinstance(error, TimeoutError):
        return f"it did not answer within {PATIENCE_S:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); name it with certificate:"
    return str(error) or type(error).__name__


def make(spec: MeterSensor, site: SensorSite) -> Meter:
    """The sensor that `spec` describes; it runs here whatever it measures."""
    del site
    return Meter(spec)
