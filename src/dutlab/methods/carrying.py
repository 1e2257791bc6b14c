"""A generator whose offers all carry the same traffic, whatever method makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dutlab.methods.ports import Bench, Generator, Offer, Outcome
from dutlab.spec.traffic import Traffic


@dataclass(frozen=True)
class Carrying:
    """`generator`, with `traffic` in every offer, and of each way in `traffic_of` its own."""

    generator: Generator
    traffic: Traffic
    traffic_of: Mapping[str, Traffic] = field(default_factory=dict)

    async def offer(self, offer: Offer) -> Outcome:
        """Offer as methods.ports says."""
        return await self.generator.offer(offer.carrying(self.traffic, self.traffic_of))


def carrying(bench: Bench, traffic: Traffic) -> Bench:
    """`bench`, whose generator carries `traffic`."""
    return replace(bench, generator=Carrying(bench.generator, traffic))
