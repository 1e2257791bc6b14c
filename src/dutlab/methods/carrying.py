"""Generator whose offers all carry the same traffic, for any method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dutlab.methods.ports import Bench, Generator, Offer, Outcome
from dutlab.spec.traffic import Traffic


@dataclass(frozen=True)
class TrafficWrapper:
    """Wrapper of `generator` that puts `traffic` into every offer; `traffic_of` has the traffic of single flows."""

    generator: Generator
    traffic: Traffic
    traffic_of: Mapping[str, Traffic] = field(default_factory=dict)

    async def offer(self, offer: Offer) -> Outcome:
        """Offer the load with this traffic; see methods.ports."""
        return await self.generator.offer(offer.carrying(self.traffic, self.traffic_of))


def carrying(bench: Bench, traffic: Traffic, traffic_of: Mapping[str, Traffic] | None = None) -> Bench:
    """Return a copy of `bench` whose generator carries `traffic`, or for single flows that of `traffic_of`."""
    return replace(bench, generator=TrafficWrapper(bench.generator, traffic, traffic_of or {}))
