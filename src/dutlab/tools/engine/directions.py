"""Directions of frames over a testbed's links, with the addresses in the frames."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Interface

from dutlab.hosts.host import Host
from dutlab.hosts.neighbours import NextHop, mac_of_port, next_hop_mac
from dutlab.methods.ports import Offer
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.spec.translation import embedded_interface
from dutlab.spec.wire_form import PLAIN, WireForm
from dutlab.subject import back_of
from dutlab.tools.engine.load import SOURCE_PORT, Direction


async def direction_of(
    hosts: Mapping[str, Host],
    testbed: Testbed,
    name: str,
    *,
    source_port: int = SOURCE_PORT,
    reverse: bool = False,
    next_hop: NextHop = next_hop_mac,
    form: WireForm = PLAIN,
) -> Direction:
    """Return one direction of the link `name`, with frames of this form.

    Raises ToolFailed if the next hop does not answer, HostError.
    """
    link: Link = testbed.links[name]
    ends = [
        (link.source, link.source_address, link.source_gateway),
        (link.sink, link.sink_address, link.sink_gateway),
    ]
    if form.vlans is not None:  # one cable: the DUT's port there is the next hop of both
        ends[1] = (link.source, link.sink_address, link.source_gateway)
    (here, address, gateway), (there, destination, _) = reversed(ends) if reverse else ends
    if form.nat64 is not None and not reverse:
        address, gateway, destination = (
            embedded_interface(form.nat64, of) if isinstance(of, IPv4Interface) else of for of in (address, gateway, destination)
        )
    if link.is_transparent:
        mac = await mac_of_port(hosts[there.host], there)
    else:
        mac = await next_hop(hosts[here.host], here.interface, gateway.ip)
    return Direction(
        back_of(name) if reverse else name,
        name,
        here,
        there,
        str(address.ip),
        str(destination.ip),
        mac,
        source_port,
        link.isolated,
        vlan=None if form.vlans is None else form.vlans[reverse],
    )


async def directions_of(
    hosts: Mapping[str, Host], testbed: Testbed, offer: Offer, *, next_hop: NextHop = next_hop_mac, form: WireForm = PLAIN
) -> list[Direction]:
    """Return every direction of an offer, in the order of its `flow_names`. Raises as direction_of()."""
    return [
        await direction_of(hosts, testbed, name, reverse=back, next_hop=next_hop, form=form)
        for name in offer.links
        for back in offer.directions.backs
    ]
