"""Destinations over 256 networks (RFC 2544 section 12): their addresses, their routes in the DUT, and the traffic to them.

The section runs the tests with one source and one destination address first. Then it repeats them with random destinations, uniformly
distributed over 256 networks. Each direction has 256 different networks. Those behind the sink are in the upper half of 198.19.0.0/16,
those behind the source in the upper half of 198.18.0.0/16. The lower halves hold the networks of the DUT's ports (appendix C.2). Twice 256
networks of 24 bits do not fit into 198.18.0.0/15 with those, so the networks of one link have 25 bits. Links that are driven at once share
a half evenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network

from dutlab.methods.dut_tables import LinkEnd
from dutlab.methods.ports import Bench, Row
from dutlab.methods.routes import load_checked, traffic_to
from dutlab.spec.traffic import IPNetwork, Spread, Traffic
from dutlab.spec.workloads.rfc2544 import Rfc2544Setting
from dutlab.subject import back_of

BEHIND: Mapping[int, Mapping[LinkEnd, IPNetwork]] = {
    4: {LinkEnd.SINK: ip_network("198.19.128.0/17"), LinkEnd.SOURCE: ip_network("198.18.128.0/17")},
    6: {LinkEnd.SINK: ip_network("2001:2:0:ff00::/56"), LinkEnd.SOURCE: ip_network("2001:2:0:fe00::/56")},
}
"""Address range of the destination networks, by version of IP and end of a link (RFC 2544 appendix C.2.2, RFC 5180 section 5.2)."""


@dataclass(frozen=True)
class Networks:
    """Destinations of a suite; empty for a single network."""

    traffic_of: Mapping[str, Traffic] = field(default_factory=dict)
    """Traffic by flow name."""
    rows: Sequence[Row] = ()
    """Rows of the record's table, one for each direction."""
    notes: Sequence[str] = ()


def spreads(links: Sequence[str], setting: Rfc2544Setting, versions: Mapping[str, int]) -> Iterator[tuple[str, str, LinkEnd, Spread]]:
    """Yield each direction with its link, the end behind which its destinations are, and their networks.

    `versions` is the IP version of each link.
    """
    for i, link in enumerate(links):
        for back in setting.directions.backs:
            end = LinkEnd.SOURCE if back else LinkEnd.SINK
            whole = BEHIND[versions.get(link, 4)][end]
            part = Spread.over(whole, len(links)).part(i)
            yield back_of(link) if back else link, link, end, Spread.over(part, setting.networks)


async def networks_of(bench: Bench, links: Sequence[str], setting: Rfc2544Setting) -> Networks:
    """Load the routes and check them. Raises HostError; MeasurementError if the DUT has not taken them."""
    if setting.networks == 1:
        return Networks()
    versions = {link: addresses[0].version for link, addresses in bench.addresses.items()}
    traffic_of, rows, notes = dict[str, Traffic](), list[Row](), list[str]()
    for direction, link, end, spread in spreads(links, setting, versions):
        traffic_of[direction] = setting.traffic.model_copy(update={"flows": traffic_to(spread).flows})
        row: dict[str, float | str | None] = {
            "direction": direction,
            "behind": end.value,
            "within": str(spread.network),
            "networks": spread.count,
            "prefix_bits": spread.length,
        }
        if bench.routes is None:
            notes.append(f"routes cannot be loaded into this DUT: it must have its own to {spread.network} via the {end.value}")
            rows.append({**row, "routes_loaded": None, "routes_checked": None})
            continue
        loaded = await load_checked(bench.routes, link, spread, end)
        rows.append({**row, "routes_loaded": loaded.count, "routes_checked": loaded.checked})
    return Networks(traffic_of, rows, notes)
