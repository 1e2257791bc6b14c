"""Method `stateful-nat`: the measurements of RFC 9693 for one frame size and number of connections, the rate of connections first.

Figures of a link; unknown ones are absent:

    establishment_lower_per_s, _upper_per_s   new connections a second, each of which is established (section 4.5, validated as in 4.6)
    throughput_pps, loss_at_max_ratio, latency_*_ns, pdv_p999_ns   for known connections, as in rfc2544 (section 4.7)
    tear_down_per_s, tear_down_net_per_s, tear_down_s   deletion of all at once (section 4.8)
    capacity_connections, capacity_upper_connections   the table: the most that were known, the least that were not (section 4.9)

Tables `establishment_trials`, `capacity_trials`, `capacity`, `tear_down` have every trial; the other tables are those of rfc2544.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dutlab.doubts import Doubt
from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.methods.ledger import HELD_BACK_MARGIN, made_frames
from dutlab.methods.ports import Bench, Measured, Offer, Table
from dutlab.methods.stateful_nat import capacity, establishment, loaded, tear_down
from dutlab.methods.stateful_nat.phases import Phases
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.stateful_nat import NatTest, StatefulNatSetting
from dutlab.units import Seconds, line_rate

FILL_SHARE = 0.5
"""Share of the establishment rate at which the table is filled for another test."""
KEPT_S = 3600.0
"""Least seconds for which a connection stays in the DUT's table without a frame: longer than any trial (RFC 9693 section 4.4)."""
REACH_S = Seconds(0.5)


@dataclass
class _Suite:
    """Inputs of the tests, and their results so far."""

    bench: Bench
    cell: Cell
    phases: Phases
    fill_per_s: float | None
    figures: dict[str, float] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)

    @property
    def fill(self) -> float:
        """Connections a second of a first phase. Raises MeasurementError if no rate is known."""
        if self.fill_per_s is None:
            raise MeasurementError("no rate was found at which connections can be begun", remedy="write a fill_rate")
        return self.fill_per_s

    def add(self, figures: Mapping[str, float], tables: Mapping[str, Table], notes: Sequence[str], doubts: Sequence[Doubt]) -> None:
        """Add the results of a test."""
        self.figures |= figures
        self.tables |= tables
        self.notes += notes
        self.doubts += doubts


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Run the tests of the setting. Raises InputError, HostError, MachineTooBusy; MeasurementError if no test has a result."""
    setting, link = cell.setting_as(StatefulNatSetting), cell.links[0]
    phases, failed = Phases(bench.generator, bench.states, link, setting, bench.again), list[str]()
    of = _Suite(bench, cell, phases, setting.fill_pps)
    if bench.states is not None:
        if setting.table_connections is not None:
            await bench.states.limit(setting.table_connections)
        await bench.states.keep(KEPT_S)
    for work in dict.fromkeys(_WORK[test] for test in NatTest if test in setting.tests):
        try:
            await work(of)
        except MachineTooBusy:
            raise
        except MeasurementError as e:
            failed.append(f"{work.__name__.strip('_').replace('_', '-')}: {e}")
    if bench.states is not None:  # a full table would refuse later connections
        await bench.states.forget()
    if not of.tables:
        raise MeasurementError("; ".join(failed), raw=phases.raw)
    return Measured(
        figures={link: of.figures},
        notes=[*of.notes, *failed],
        doubts=(*of.doubts, *phases.doubts.values()),
        raw={f"{name}.gz": gzip.compress(output, mtime=0) for name, output in phases.raw.items()},
        facts=phases.facts,
        tables=of.tables,
    )


async def _establishment(of: _Suite) -> None:
    setting = of.phases.setting
    rate = await establishment.measure(of.phases, setting.connections, await _highest(of.bench, of.phases), width=setting.width_ratio)
    of.add(rate.figures, {"establishment_trials": rate.rows}, rate.notes, rate.doubts)
    if of.fill_per_s is None and rate.lower_per_s is not None:
        of.fill_per_s = rate.lower_per_s * FILL_SHARE


async def _known_connections(of: _Suite) -> None:
    result = await loaded.measure(of.bench, of.cell, of.phases, of.fill)
    of.add(result.figures[of.cell.link_label], result.tables, result.notes, result.doubts)


async def _tear_down(of: _Suite) -> None:
    result = await tear_down.measure(of.phases, of.phases.setting.connections, of.fill)
    of.add(result.figures, {"tear_down": result.rows}, result.notes, result.doubts)


async def _capacity(of: _Suite) -> None:
    result = await capacity.measure(of.phases, of.fill)
    of.add(result.figures, {"capacity_trials": result.rows, "capacity": [result.row]}, result.notes, result.doubts)


_WORK: Mapping[NatTest, Callable[[_Suite], Awaitable[None]]] = {
    NatTest.ESTABLISHMENT: _establishment,
    **dict.fromkeys(loaded.BENCHMARKS, _known_connections),
    NatTest.TEAR_DOWN: _tear_down,
    NatTest.CAPACITY: _capacity,
}


async def _highest(bench: Bench, phases: Phases) -> float:
    """Return the highest rate of the search: the asked rate, the line rate, or the rate of a short load at full speed."""
    setting, speed = phases.setting, bench.speeds.get(phases.link)
    if setting.highest_pps is not None:
        return setting.highest_pps
    if speed is not None:
        return line_rate(speed, setting.frame_size.mean)
    traffic = setting.traffic(setting.connections, seed=0)
    offer = Offer((phases.link,), setting.frame_size, None, REACH_S, drain=setting.drain_s, traffic=traffic)
    (flow,) = (await phases.generator.offer(offer)).flows
    if not flow.sent_frames or flow.sent_seconds <= 0:
        raise MeasurementError("the generator sent nothing at full speed")
    frames = made_frames(flow)
    rate = frames / flow.sent_seconds
    return rate * flow.sent_frames / frames * HELD_BACK_MARGIN if flow.backpressure_frames else rate
