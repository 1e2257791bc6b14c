"""A generator whose frames are of one traffic, whatever the offer says: for methods that know rates and sizes only."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dutlab.methods.ports import Generator, Offer, Outcome
from dutlab.spec.traffic import Traffic


@dataclass(frozen=True)
class Carrying:
    """`generator`, with `traffic` in every offer."""

    generator: Generator
    traffic: Traffic

    async def offer(self, offer: Offer) -> Outcome:
        """As the port asks."""
        return await self.generator.offer(replace(offer, traffic=self.traffic))
