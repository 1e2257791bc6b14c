"""Keep generators off networks in use (RFC 6815): they would send on any port. The engine checks its ports itself."""

from __future__ import annotations

from dutlab.hosts.shared_link import refuse_networks_in_use
from dutlab.methods.ports import Offer, Outcome
from dutlab.spec.links import Link
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool


class GuardedGenerator:
    """A tools.generator_tool.GeneratorTool that wraps another one."""

    def __init__(self, inner: GeneratorTool, place: GeneratorSite) -> None:
        self._inner, self._place = inner, place
        self._seen = set[str]()
        """Links whose ports were checked and may be loaded."""

    async def check(self) -> str:
        """Check as the wrapped generator does."""
        return await self._inner.check()

    async def close(self) -> None:
        """Close as the wrapped generator does."""
        self._seen.clear()
        await self._inner.close()

    async def offer(self, offer: Offer) -> Outcome:
        """Check the ports, then offer as the wrapped generator does. Raises PortRefused, and what that generator raises."""
        for name in offer.links:
            link = self._place.testbed.links[name]
            if name not in self._seen and not link.isolated:
                await self._insist(link)
            self._seen.add(name)
        return await self._inner.offer(offer)

    async def _insist(self, link: Link) -> None:
        allow = [address.network for other in self._place.testbed.links.values() for address in other.addresses]
        for port in (link.source, link.sink):
            await refuse_networks_in_use(self._place.hosts[port.host], port.interface, allow)
