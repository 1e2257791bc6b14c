"""Method `state`: the size and speed of a DUT's flow table, in the terms of RFC 2647 (UDP connections) and RFC 9411 (connections a second).

Figures of a link; unknown ones are absent:

    setup_lower_per_s, setup_upper_per_s     highest rate of new flows that the DUT takes, and lowest rate that it does not take
    concurrent_flows, concurrent_upper_flows most flows that it knows at once, and least flows of which it does not know all

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
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.state import StateSetting, StateTest
from dutlab.units import Pps, line_rate

T = TypeVar("T")

FILL_SHARE = 0.5
"""Share of the rate at which the DUT accepts flows."""


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Run the tests of the setting. Raises InputError, HostError, ToolMissing, MachineTooBusy; MeasurementError if no test has a result."""
    setting, link = cell.setting_as(StateSetting), cell.links[0]
    if (states := bench.states) is None:
        raise MeasurementError("this DUT's state table cannot be read", remedy="take a DUT of family linux")
    await _limited(states, setting)
    figures, tables, notes, doubts = dict[str, float](), dict[str, Table](), list[str](), list[Doubt]()
    fill, failed = setting.fill_pps, list[str]()
    if StateTest.RATE in setting.tests:
        rate_result = await _or_why("new flows a second", _rate(bench, states, link, setting), failed)
        if rate_result is not None:
            figures |= rate_result.figures
            tables["setup_trials"] = rate_result.rows
            notes += rate_result.notes
            doubts += rate_result.doubts
            if fill is None and rate_result.lower_pps is not None:
                fill = Pps(rate_result.lower_pps * FILL_SHARE)
    if StateTest.CONCURRENT in setting.tests:
        concurrent_result = await _or_why("concurrent flows", _concurrent(bench, states, link, setting, fill), failed)
        if concurrent_result is not None:
            figures |= concurrent_result.figures
            tables["concurrent_trials"] = concurrent_result.rows
            notes += concurrent_result.notes
            doubts += concurrent_result.doubts
    if not tables:
        raise MeasurementError("; ".join(failed))
    return Measured(figures={link: figures}, notes=[*notes, *failed], doubts=tuple(doubts), tables=tables)


async def _or_why(what: str, test: Awaitable[T], failed: list[str]) -> T | None:
    """Return a test's result; if it has none, add the reason to `failed`. Raises MachineTooBusy, which concerns every test."""
    try:
        return await test
    except MachineTooBusy:
        raise
    except MeasurementError as e:
        failed.append(f"{what}: {e}")
        return None


async def _rate(bench: Bench, states: StateTable, link: str, setting: StateSetting) -> rate.Rate:
    return await rate.measure(
        bench.generator, states, link, setting,
        line_pps=_line(bench, link, setting), room=await _room(states, setting), tell=bench.tell,
    )  # fmt: skip


async def _concurrent(bench: Bench, states: StateTable, link: str, setting: StateSetting, fill: Pps | None) -> concurrent.Concurrent:
    if fill is None:
        raise MeasurementError("no rate was found at which the table could be filled", remedy="write a fill_rate")
    return await concurrent.measure(bench.generator, states, link, setting, fill)


async def _limited(states: StateTable, setting: StateSetting) -> None:
    """Set the sizes of the table and of its port range. Raises MeasurementError if they cannot be set."""
    if setting.table_flows is not None:
        await states.limit(setting.table_flows)
    if setting.nat_ports is not None:
        await states.limit_ports(*setting.nat_ports)


async def _room(states: StateTable, setting: StateSetting) -> int:
    """Return the most distinguishable flows that a trial may begin without filling the table or its range of ports."""
    await states.forget()
    most = (await states.counts()).most
    room = setting.most_flows if most is None else min(setting.most_flows, int(most * rate.ROOM))
    if setting.nat_ports is not None and setting.destination_ports == 1:
        room = min(room, int((setting.nat_ports[1] - setting.nat_ports[0] + 1) * rate.ROOM))
    return room


def _line(bench: Bench, link: str, setting: StateSetting) -> Pps | None:
    speed = bench.speeds.get(link)
    return None if speed is None else line_rate(speed, setting.frame_size.mean)
