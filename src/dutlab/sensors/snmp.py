"""Sensor `snmp`: one object of an agent: watts of a power distribution unit, a temperature, a counter of a switch or a UPS.

A counter (Counter32, Counter64 of RFC 2578) is told as what it grew by a second, and may wrap in between.
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
    ObjectIdentity,
    ObjectType,
    SnmpEngine,
    UdpTransportTarget,
    UsmUserData,
    get_cmd,
    usmAesCfb128Protocol,
    usmHMACSHAAuthProtocol,
)

from dutlab.sensors import asked
from dutlab.sensors.asked import Amount, Asked, Refused, secret
from dutlab.sensors.sensor import SensorSite
from dutlab.spec.sensors import SnmpSensor

_WRAPS = {"Counter32": 2**32, "Counter64": 2**64}
_NOT_LET_IN = ("digest", "usm user", "authorization", "authentication", "decrypt")
_PUBLIC = "public"
_LEAST_CHARACTERS = 8
_VERSIONS = {"1": 0, "2c": 1}


class SnmpAgent:
    """A ReadingSource: one object of one agent, asked by a loop of its own."""

    def __init__(self, spec: SnmpSensor) -> None:
        self._spec, self._who = spec, _credentials(spec)
        self._loop, self._engine = asyncio.new_event_loop(), SnmpEngine()
        self._object = ObjectType(ObjectIdentity(spec.oid))
        self._before: tuple[float, int] | None = None

    def read(self) -> Mapping[str, Amount]:
        """Raises Refused, OSError, ValueError."""
        found, kind = self._loop.run_until_complete(self._get())
        spec = self._spec
        if kind not in _WRAPS:
            return {spec.name: Amount(found * spec.scale, spec.unit)}
        now_s, (since_s, before) = time.monotonic(), self._before or (0.0, -1)
        self._before = (now_s, int(found))
        if before < 0:
            return {}
        return {spec.name: Amount((int(found) - before) % _WRAPS[kind] / (now_s - since_s) * spec.scale, f"{spec.unit}/s")}

    async def _get(self) -> tuple[float, str]:
        spec = self._spec
        try:
            target = await UdpTransportTarget.create(spec.address.pair, timeout=asked.PATIENCE_S / 2, retries=1)
            fault, status, _, values = await get_cmd(self._engine, self._who, target, ContextData(), self._object)
        except PySnmpError as error:
            raise ValueError(str(error)) from error
        if fault is not None:
            if "timeout" in str(fault).lower():
                raise TimeoutError
            if any(words in str(fault).lower() for words in _NOT_LET_IN):
                raise Refused(f"it refuses us ({fault})")
            raise ValueError(f"it answers with a fault: {fault}")
        if status:
            raise ValueError(f"it has no {spec.oid} ({status.prettyPrint()})")
        return _number(values[0][1], spec.oid)

    def close(self) -> None:
        """Closes the socket and the loop."""
        self._engine.close_dispatcher()
        self._loop.run_until_complete(asyncio.sleep(0))  # the transport closes its socket in the loop's next turn
        self._loop.close()


def _number(value: Any, oid: str) -> tuple[float, str]:  # noqa: ANN401 a class of pysnmp that its types do not name
    """The number and its type. A device that knows no fractions writes them as text."""
    kind, text = type(value).__name__, value.prettyPrint()
    if kind in ("NoSuchObject", "NoSuchInstance", "EndOfMibView"):
        raise ValueError(f"it has no {oid}")
    try:
        return float(text), kind
    except ValueError as error:
        raise ValueError(f"{oid} says {text[: asked.SHOWN]!r}, which is not a number") from error


def _credentials(spec: SnmpSensor) -> CommunityData | UsmUserData:
    if spec.user is None:
        community = secret(spec.community_from) if spec.community_from else _PUBLIC
        return CommunityData(community, mpModel=_VERSIONS[spec.version])
    if any(len(secret(name)) < _LEAST_CHARACTERS for name in spec.secrets):
        raise Refused(f"version 3 takes passwords of {_LEAST_CHARACTERS} characters and more (RFC 3414 section 11.2)")
    auth = secret(spec.password_from or "")
    if spec.privacy_from is None:
        return UsmUserData(spec.user, auth, authProtocol=usmHMACSHAAuthProtocol)
    return UsmUserData(spec.user, auth, secret(spec.privacy_from), authProtocol=usmHMACSHAAuthProtocol, privProtocol=usmAesCfb128Protocol)


def make(spec: SnmpSensor, site: SensorSite) -> Asked:
    """The sensor that `spec` describes; it runs here whatever it measures."""
    del site
    return Asked(spec, lambda: SnmpAgent(spec))
