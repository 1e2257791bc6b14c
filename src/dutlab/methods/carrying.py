"""A generator whose frames are of one traffic, whatever the offer says: for methods that know rates and sizes only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dutlab.methods.ports import Generator, Offer, Outcome
from dutlab.spec.traffic import Traffic


@dataclass(frozen=True)
class Carrying:
    """`generator`, with `traffic` in every offer, and of each way in `traffic_of` its own."""

    generator: Generator
    traffic: Traffic
    traffic_of: Mapping[str, Traffic] = field(default_factory=dict)

    async def offer(self, offer: Offer) -> Outcome:
        """As the port asks."""
        return await self.generator.offer(replace(offer, traffic=self.traffic, traffic_of=self.traffic_of))
