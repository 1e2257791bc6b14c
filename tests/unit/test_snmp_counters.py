"""Counters of SNMP that wrap, and agents that were restarted. Real agents are in tests/servers/test_network_sensors.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.sensors import snmp
from dutlab.spec.sensors import SENSORS

COUNTER = "1.3.6.1.2.1.2.2.1.10.1"


def rates(kind: str, told: Sequence[tuple[int, float]]) -> list[float | None]:
    """What a counter is told as, a reading a second; `told` has its value and the agent's uptime at each."""
    spec = SENSORS["snmp"].model_validate({"name": "it", "address": "127.0.0.1:1", "oid": COUNTER, "unit": "B", "every": "1s"})
    at = iter(range(len(told)))
    now = 0
    engine = Mock(spec=snmp.SnmpEngine)  # nothing is sent

    async def answered(_engine: object, _who: object, device: Any, value: int | None = None) -> tuple[float, str]:
        nonlocal now
        if device.oid == COUNTER:
            now = next(at)
            return told[now][0], kind
        return told[now][1], "TimeTicks"

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(snmp, "_exchange", answered)
        patched.setattr(snmp, "SnmpEngine", lambda: engine)
        patched.setattr(snmp.time, "monotonic", lambda: float(now))
        agent = snmp.SnmpAgent(spec)  # type: ignore[arg-type]
        try:
            read = [agent.read() for _ in told]
        finally:
            agent.close()
    return [of["it"].value if of else None for of in read]


@pytest.mark.parametrize(("kind", "bits"), [("Counter32", 32), ("Counter64", 64)])
def test_a_counter_that_wraps_tells_what_it_grew(kind: str, bits: int) -> None:
    assert rates(kind, [(2**bits - 100, 1), (50, 101), (60, 201)]) == [None, 150.0, 10.0]


@pytest.mark.parametrize("kind", ["Counter32", "Counter64"])
def test_an_agent_that_was_restarted_tells_nothing_across_it(kind: str) -> None:
    assert rates(kind, [(1000, 90_000), (2000, 90_100), (30, 50), (80, 150)]) == [None, 1000.0, None, 50.0]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2**31), st.booleans()), min_size=2, max_size=20), st.integers(0, 2**32 - 1))
def test_no_rate_is_more_than_what_was_counted(steps: list[tuple[int, bool]], start: int) -> None:
    value, uptime, told, grown = start, 1e6, [(start, 1e6)], list[float | None]()
    for step, restarted in steps:
        value, uptime = (step, uptime / 2) if restarted else ((value + step) % 2**32, uptime + 100)
        told.append((value, uptime))
        grown.append(None if restarted else step)
    found = rates("Counter32", told)
    assert found[0] is None
    assert found[1:] == grown
