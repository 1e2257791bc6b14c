"""Sensor `snmp`: one object of an agent, such as watts of a power distribution unit, a temperature, or a counter of a switch or a UPS.

The reading of a counter (Counter32, Counter64 of RFC 2578) is its growth per second; it may wrap once between readings. There is no
reading across a restart of the agent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from pysnmp.error import PySnmpError
from pysnmp.hlapi.v3arch.asyncio import (
    CommunityData,
    ContextData,
    Integer32,
    ObjectIdentity,
    ObjectType,
    SnmpEngine,
    UdpTransportTarget,
    UsmUserData,
    get_cmd,
    set_cmd,
    usmAesCfb128Protocol,
    usmHMACSHAAuthProtocol,
)

from dutlab.sensors import asked
from dutlab.sensors.asked import PolledSensor, Refused, secret
from dutlab.sensors.oddities import Amount
from dutlab.sensors.sensor import SensorSite
from dutlab.spec.devices import SnmpDevice, secrets_of
from dutlab.spec.sensors import SnmpSensor

_WRAPS = {"Counter32": 2**32, "Counter64": 2**64}
_SYS_UP_TIME = "1.3.6.1.2.1.1.3.0"
"""sysUpTime of RFC 3418: hundredths of a second since the start of the agent and its counters (RFC 2578 section 7.1.6)."""
_NOT_LET_IN = ("digest", "usm user", "authorization", "authentication", "decrypt")
_PUBLIC = "public"
_LEAST_CHARACTERS = 8
_VERSIONS = {"1": 0, "2c": 1}


class SnmpAgent:
    """Source of one object of one agent, read in a separate event loop; a ReadingSource."""

    def __init__(self, spec: SnmpSensor) -> None:
        self._spec, self._who = spec, _credentials(spec)
        self._loop, self._engine = _quiet_loop(), SnmpEngine()
        self._before: tuple[float, int, float] | None = None
        """Previous reading of a counter: time in seconds (time.monotonic()), value, and sysUpTime."""

    def read(self) -> Mapping[str, Amount]:
        """Return the current reading; empty before a counter's second reading. Raises Refused, OSError, ValueError."""
        spec = self._spec
        number, kind = self._loop.run_until_complete(_exchange(self._engine, self._who, spec))
        if kind not in _WRAPS:
            return {spec.name: Amount(number * spec.scale, spec.unit)}
        now_s, last = time.monotonic(), self._before
        runs, _ = self._loop.run_until_complete(_exchange(self._engine, self._who, spec.model_copy(update={"oid": _SYS_UP_TIME})))
        self._before = (now_s, int(number), runs)
        if last is None or runs < last[2]:  # a restarted agent counts from 0, which is not a wrap
            return {}
        return {spec.name: Amount((int(number) - last[1]) % _WRAPS[kind] / (now_s - last[0]) * spec.scale, f"{spec.unit}/s")}

    def close(self) -> None:
        """Close the socket and the loop."""
        _close(self._engine, self._loop)


def asked_once(device: SnmpDevice, value: int | None = None) -> float:
    """Return the value of the object, after setting it to `value` if given. Raises Refused, OSError, ValueError."""
    loop, engine = _quiet_loop(), SnmpEngine()
    try:
        return loop.run_until_complete(_exchange(engine, _credentials(device), device, value))[0]
    finally:
        _close(engine, loop)


def _quiet_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that ignores malformed datagrams without a traceback."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)
    return loop


def _close(engine: SnmpEngine, loop: asyncio.AbstractEventLoop) -> None:
    engine.close_dispatcher()
    loop.run_until_complete(asyncio.sleep(0))  # the transport closes its socket in the loop's next iteration
    loop.close()


async def _exchange(
    engine: SnmpEngine, who: CommunityData | UsmUserData, device: SnmpDevice, value: int | None = None
) -> tuple[float, str]:
    of = ObjectIdentity(device.oid)
    try:
        target = await UdpTransportTarget.create(device.address.pair, timeout=asked.PATIENCE_S / 2, retries=1)
        if value is None:
            fault, status, _, values = await get_cmd(engine, who, target, ContextData(), ObjectType(of))
        else:
            fault, status, _, values = await set_cmd(engine, who, target, ContextData(), ObjectType(of, Integer32(value)))
    except PySnmpError as error:
        raise ValueError(str(error)) from error
    if fault is not None:
        if "timeout" in str(fault).lower():
            raise TimeoutError
        if any(words in str(fault).lower() for words in _NOT_LET_IN):
            raise Refused(f"it refuses access ({fault})")
        raise ValueError(f"it answers with a fault: {fault}")
    if status:
        what = f"it has no {device.oid}" if value is None else f"{device.oid} cannot be set"
        raise ValueError(f"{what} ({status.prettyPrint()})")
    return _number(values[0][1], device.oid)


def _number(value: Any, oid: str) -> tuple[float, str]:  # noqa: ANN401 a class of pysnmp that its types do not name
    """Return the number and its type. Text is accepted too, because devices without fractional types write numbers as text."""
    kind, text = type(value).__name__, value.prettyPrint()
    if kind in ("NoSuchObject", "NoSuchInstance", "EndOfMibView"):
        raise ValueError(f"it has no {oid}")
    try:
        return float(int(value) if kind.startswith("Integer") else text), kind  # pysnmp may print an integer as a name
    except ValueError as error:
        raise ValueError(f"{oid} says {text[: asked.SHOWN]!r}, which is not a number") from error


def _credentials(spec: SnmpDevice) -> CommunityData | UsmUserData:
    if spec.user is None:
        community = secret(spec.community_from) if spec.community_from else _PUBLIC
        return CommunityData(community, mpModel=_VERSIONS[spec.version])
    if any(len(secret(name)) < _LEAST_CHARACTERS for name in secrets_of(spec)):
        raise Refused(f"version 3 takes passwords of {_LEAST_CHARACTERS} characters and more (RFC 3414 section 11.2)")
    auth = secret(spec.password_from or "")
    if spec.privacy_from is None:
        return UsmUserData(spec.user, auth, authProtocol=usmHMACSHAAuthProtocol)
    return UsmUserData(spec.user, auth, secret(spec.privacy_from), authProtocol=usmHMACSHAAuthProtocol, privProtocol=usmAesCfb128Protocol)


def make(spec: SnmpSensor, site: SensorSite) -> PolledSensor:
    """Return the sensor that `spec` describes; it always runs on this machine."""
    del site
    return PolledSensor(spec, lambda: SnmpAgent(spec))
