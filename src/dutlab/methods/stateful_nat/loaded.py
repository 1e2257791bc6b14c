"""Throughput, frame loss, latency and its variation for known connections (RFC 9693 section 4.7), by the tests of RFC 2544.

Before each load, the first phase puts all connections into an empty table. In the second phase the source continues to send in these
connections (no frame begins a new one: case 2 of section 4.3), and the sink answers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dutlab.choices import Benchmark
from dutlab.errors import MeasurementError
from dutlab.methods.ports import Bench, Measured, Offer, Outcome
from dutlab.methods.rfc2544 import suite
from dutlab.methods.rfc2544.deviations import BURST_LIMIT_S
from dutlab.methods.stateful_nat.phases import Phases
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.rfc2544 import Rfc2544Setting
from dutlab.spec.workloads.stateful_nat import NatTest
from dutlab.units import Seconds

BENCHMARKS: Mapping[NatTest, Benchmark] = {
    NatTest.THROUGHPUT: Benchmark.THROUGHPUT,
    NatTest.LATENCY: Benchmark.LATENCY,
    NatTest.FRAME_LOSS: Benchmark.FRAME_LOSS,
}


@dataclass(frozen=True)
class KnownConnections:
    """Generator that establishes all connections just before each load."""

    phases: Phases
    connections: int
    fill_per_s: float

    async def offer(self, offer: Offer) -> Outcome:
        """Offer the load; see methods.ports. Raises MeasurementError if the first phase did not establish all connections."""
        _, learned = await self.phases.begin(self.connections, self.fill_per_s)
        if min(learned.frames, learned.different) != self.connections:
            raise MeasurementError(
                f"the first phase established {min(learned.frames, learned.different)} of {self.connections} connections",
                remedy="lower fill_rate",
            )
        return await self.phases.generator.offer(replace(offer, traffic=self.phases.traffic, answers_learned=True))


async def measure(bench: Bench, cell: Cell, phases: Phases, fill_per_s: float) -> Measured:
    """Run the tests. Raises MeasurementError if no test has a result, InputError, HostError."""
    setting = phases.setting
    tests = tuple(BENCHMARKS[test] for test in setting.tests if test in BENCHMARKS)
    of_suite = Rfc2544Setting(
        frame_size=setting.frame_size,
        tests=tests,
        scale=setting.scale,
        directions=setting.directions,
        width_ratio=setting.width_ratio,
        latency_repeats=setting.latency_repeats,
        burst_repeats=1,
        burst_limit_s=Seconds(BURST_LIMIT_S),
        recovery_repeats=1,
        reset_repeats=1,
    )
    known = KnownConnections(phases, setting.connections, fill_per_s)
    return await suite.measure(replace(bench, generator=known), cell.model_copy(update={"setting": of_suite}))
