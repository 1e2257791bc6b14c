"""A generator that would send out of any port it is given, kept off networks in use (RFC 6815). The engine looks at its ports itself."""

from __future__ import annotations

from dutlab.hosts.shared_link import insist_off_networks_in_use
from dutlab.methods.ports import Offer, Outcome
from dutlab.spec.links import Link
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool


class GuardedGenerator:
    """A tools.generators.GeneratorTool around one."""

    def __init__(self, inner: GeneratorTool, place: GeneratorSite) -> None:
        self._inner, self._place = inner, place
        self._seen = set[str]()
        """Links whose ports may be loaded."""

    async def check(self) -> str:
        """Check as the wrapped generator does."""
        return await self._inner.check()

    async def close(self) -> None:
        """Close as the wrapped generator does."""
        self._seen.clear()
        await self._inner.close()

    async def offer(self, offer: Offer) -> Outcome:
        """Raises PortRefused, and as the wrapped generator does."""
        for name in offer.links:
            link = self._place.testbed.links[name]
            if name not in self._seen and not link.isolated:
                await self._insist(link)
            self._seen.add(name)
        return await self._inner.offer(offer)

    async def _insist(self, link: Link) -> None:
        allow = [address.network for other in self._place.testbed.links.values() for address in other.addresses]
        for port in (link.source, link.sink):
            await insist_off_networks_in_use(self._place.hosts[port.host], port.interface, allow)
