"""Translator as a test device: the size of its table is exact, its rate is exact within the jitter of a sender.

It knows `most` connections at once and takes r new ones a second, with a bucket of d that is full when a trial begins. Of N connections
that begin at R a second, all are taken up to R = r × N ÷ (N - d): the last comes N ÷ R after the first, and there were d + r × N ÷ R tokens
until then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dutlab.errors import MeasurementError
from dutlab.methods.dut_tables import FlowCounts
from dutlab.methods.known.case import DRAINED, FRAME, Case, FaultyDevice, Known, found_by
from dutlab.methods.ports import Bench
from dutlab.methods.stateful_nat import suite
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.stateful_nat import NatTest, StatefulNatSetting
from dutlab.units import Pps

WITHIN = 0.01
"""Tolerance as a share of the rate."""


@dataclass(frozen=True)
class _Connections:
    """State table of such a device: a command empties it, and it reports nothing."""

    device: FaultyDevice

    async def counts(self) -> FlowCounts:
        """Return no counts: the device reports none."""
        return FlowCounts()

    async def forget(self) -> None:
        """Delete every connection. Raises ToolFailed."""
        await self.device.forget()

    async def keep(self, seconds: float) -> None:
        """Do nothing: its connections never end."""

    async def limit(self, flows: int) -> None:
        """Raise MeasurementError: the size is fixed."""
        raise MeasurementError(f"a table of {flows} connections: it has the size that it began with")

    async def limit_ports(self, first: int, last: int) -> None:
        """Raise MeasurementError: the ports are fixed."""
        raise MeasurementError(f"ports {first} to {last}: it gives each connection the next one")


BOTH = (NatTest.ESTABLISHMENT, NatTest.CAPACITY)


def translator(*, most: int, per_s: int, depth: int, connections: int, tests: tuple[NatTest, ...] = BOTH) -> Case:
    """Return the case of a translator for `most` connections and `per_s` new ones a second, measured with `connections` connections."""

    async def measure(bench: Bench, device: FaultyDevice) -> list[Known]:
        setting = StatefulNatSetting(
            frame_size=FRAME,
            tests=tests,
            directions=Directions.BOTH,
            connections=connections,
            source_ports=connections,
            destination_ports=2,
            fill_pps=Pps(per_s / 2),
            highest_pps=Pps(2.0 * per_s),
            alpha_ratio=1.0,
            beta_ratio=0.5,
            gamma_ratio=0.9,
            first_connections=connections,
            most_connections=2 * connections,
            error_connections=1,
            width_ratio=WITHIN / 2,
            scale=1.0,
            latency_repeats=1,
            drain_s=DRAINED,
        )
        expected = per_s * connections / (connections - depth)
        result = await found_by(suite.measure, replace(bench, states=_Connections(device)), setting)
        answers = {
            NatTest.ESTABLISHMENT: ("establishment_lower_per_s", expected, expected * WITHIN),
            NatTest.CAPACITY: ("capacity_connections", most, 0.0),
        }
        return result.against(f"translates: {most} known, {per_s} new/s", [answers[test] for test in tests])

    words = ("translates", str(per_s), "--depth", str(depth), "--most", str(most))
    return Case("translates", "stateful-nat", words, measure, seconds=60.0)


CASES = (translator(most=3000, per_s=10_000, depth=100, connections=2000),)
