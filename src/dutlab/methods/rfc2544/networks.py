"""Destinations over 256 networks (RFC 2544 section 12): which they are, their routes in the DUT, and the traffic that goes to them.

The section has the tests done with one source and one destination address first, and then again with destinations that are random and
uniformly distributed over 256 networks. Each direction has 256 others: behind the sink in the upper half of 198.19.0.0/16, behind the
source in 198.18.0.0/16's, since the lower halves hold the networks of the DUT's ports (appendix C.2). Twice 256 networks of 24 bits do not
fit into 198.18.0.0/15 with those, so one link's have 25 bits. Links that are driven at once share a half evenly.
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
"""Version of IP → end of a link → what its destination networks are taken from (RFC 2544 appendix C.2.2, RFC 5180 section 5.2)."""


@dataclass(frozen=True)
class Networks:
    """Destinations of a suite. With a single network there is nothing to say."""

    traffic_of: Mapping[str, Traffic] = field(default_factory=dict)
    """Flow name → traffic."""
    rows: Sequence[Row] = ()
    """For the record's table: a direction each."""
    notes: Sequence[str] = ()


def spreads(links: Sequence[str], setting: Rfc2544Setting, versions: Mapping[str, int]) -> Iterator[tuple[str, str, LinkEnd, Spread]]:
    """Each direction with its link, the end behind which its destinations lie, and where. `versions`: the IP version of each link."""
    for i, link in enumerate(links):
        for back in setting.directions.backs:
            end = LinkEnd.SOURCE if back else LinkEnd.SINK
            whole = BEHIND[versions.get(link, 4)][end]
            part = Spread.over(whole, len(links)).part(i)
            yield back_of(link) if back else link, link, end, Spread.over(part, setting.networks)


async def networks_of(bench: Bench, links: Sequence[str], setting: Rfc2544Setting) -> Networks:
    """Loads the routes and has them looked up. Raises HostError, and MeasurementError for a DUT that has not taken them."""
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
            notes.append(f"routes cannot be loaded into this DUT: it must have its own to {spread.network} by way of the {end.value}")
            rows.append({**row, "routes_loaded": None, "routes_checked": None})
            continue
        loaded = await load_checked(bench.routes, link, spread, end)
        rows.append({**row, "routes_loaded": loaded.count, "routes_checked": loaded.checked})
    return Networks(traffic_of, rows, notes)
