"""Method `state`: what a DUT can remember of flows, in the words of RFC 2647 (connections of UDP) and RFC 9411 (connections a second).

Figures of a link; what is not known is absent:

    setup_lower_per_s, setup_upper_per_s     new flows a second that the DUT takes, and at which it no longer does
    concurrent_flows, concurrent_upper_flows flows that it knows at once, and of which it no longer knows all

The record's tables have every trial with the DUT's own counters: `setup_trials`, `concurrent_trials`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from dutlab.doubts import Doubt
from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.methods.dut_tables import StateTable
from dutlab.methods.ports import Bench, Measured, Table
from dutlab.methods.state import concurrent, rate
from dutlab.methods.state.asked import Asked, StateTest, asked_of
from dutlab.plan.cell import Cell
from dutlab.units import Pps, line_rate

T = TypeVar("T")

FILL_SHARE = 0.5
"""Of the rate at which the DUT takes flows."""


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Raises InputError, HostError, ToolMissing, MachineTooBusy, and MeasurementError when no test found anything."""
    asked = asked_of(cell)
    if (states := bench.states) is None:
        raise MeasurementError("nothing is known of this DUT's state table", remedy="take a DUT of family linux")
    await _limited(states, asked)
    figures, tables, notes, doubts = dict[str, float](), dict[str, Table](), list[str](), list[Doubt]()
    fill, failed = asked.fill, list[str]()
    if StateTest.RATE in asked.tests:
        found = await _or_why("new flows a second", _rate(bench, states, asked), failed)
        if found is not None:
            figures |= found.figures
            tables["setup_trials"] = found.rows
            notes += found.notes
            doubts += found.doubts
            if fill is None and found.lower_pps is not None:
                fill = Pps(found.lower_pps * FILL_SHARE)
    if StateTest.CONCURRENT in asked.tests:
        held = await _or_why("concurrent flows", _concurrent(bench, states, asked, fill), failed)
        if held is not None:
            figures |= held.figures
            tables["concurrent_trials"] = held.rows
            notes += held.notes
            doubts += held.doubts
    if not tables:
        raise MeasurementError("; ".join(failed))
    return Measured(figures={asked.link: figures}, notes=[*notes, *failed], doubts=tuple(doubts), tables=tables)


async def _or_why(what: str, test: Awaitable[T], failed: list[str]) -> T | None:
    """What a test found; where it found nothing, the reason goes into `failed`. Raises MachineTooBusy, which is no matter of one test."""
    try:
        return await test
    except MachineTooBusy:
        raise
    except MeasurementError as e:
        failed.append(f"{what}: {e}")
        return None


async def _rate(bench: Bench, states: StateTable, asked: Asked) -> rate.Rate:
    return await rate.measure(bench.generator, states, asked, line_pps=_line(bench, asked), room=await _room(states, asked))


async def _concurrent(bench: Bench, states: StateTable, asked: Asked, fill: Pps | None) -> concurrent.Concurrent:
    if fill is None:
        raise MeasurementError("no rate was found at which the table could be filled", remedy="write a fill_rate")
    return await concurrent.measure(bench.generator, states, asked, fill)


async def _limited(states: StateTable, asked: Asked) -> None:
    """The table and its ports as they were asked for. Raises MeasurementError where they cannot be set."""
    if asked.table is not None:
        await states.limit(asked.table)
    if asked.nat_ports is not None:
        await states.limit_ports(*asked.nat_ports)


async def _room(states: StateTable, asked: Asked) -> int:
    """Flows that a trial may begin: what can be told apart, and does not fill the table, nor the ports that it is limited to."""
    await states.forget()
    most = (await states.counts()).most
    room = asked.most if most is None else min(asked.most, int(most * rate.ROOM))
    if asked.nat_ports is not None and asked.destination_ports == 1:
        room = min(room, int((asked.nat_ports[1] - asked.nat_ports[0] + 1) * rate.ROOM))
    return room


def _line(bench: Bench, asked: Asked) -> Pps | None:
    speed = bench.speeds.get(asked.link)
    return None if speed is None else line_rate(speed, asked.mix.mean)
