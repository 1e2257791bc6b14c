"""Find the interfaces that share a link with a port, and check whether that link is part of a network in use (RFC 6815).

The engine has the same rule for its own ports (engine/port/src/iface.rs). This module is for other programs that send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_interface, ip_network
from typing import Any

from dutlab.errors import PortRefused
from dutlab.hosts.host import Host
from dutlab.hosts.iproute import entries

Entry = Mapping[str, Any]
"""Entry of `ip -j` about an interface or a route."""
Network = IPv4Network | IPv6Network
_BEHIND_A_CABLE = frozenset({"veth", "netkit", "dsa"})
"""Kinds of interfaces whose `link` is the other end of a cable, or the CPU's port of a switch chip."""
_SHORTEST = {4: 8, 6: 7}
"""Shortest prefix of a testbed's network, by version of IP: 10.0.0.0/8 and fc00::/7 are the largest networks not routed on the Internet."""


def sharers(name: str, links: Sequence[Entry]) -> list[str]:
    """Return all interfaces that share a link with `name`: itself first, then its masters, members, uppers and lowers, and theirs.

    `links` is from `ip -d -j address show`.
    """
    touches = {str(link["ifname"]): _touched(link) for link in links if "ifname" in link}
    names = [name]
    for at in names:  # grows during the loop
        near = [*touches.get(at, ()), *(other for other, of in touches.items() if at in of)]
        names += [other for other in dict.fromkeys(near) if other not in names]
    return names


def _touched(link: Entry) -> set[str]:
    """Return the master and the lower interface of a link. A VRF does not count as a master: it routes between its members."""
    info = link.get("linkinfo", {})
    master = link.get("master") if info.get("info_slave_kind") != "vrf" else None
    lower = link.get("link") if "link_netnsid" not in link and info.get("info_kind") not in _BEHIND_A_CABLE else None
    return {str(other) for other in (master, lower) if other}


def leads_out(name: str, links: Sequence[Entry], routes: Sequence[Entry]) -> tuple[str, str] | None:
    """Return interface and destination of a route from the link of `name` out of the testbed; None if there is none.

    It is a default route, or one to a large part of the Internet. `routes` is from `ip -j route show table all`, also for IPv6.
    Raises ValueError for a route that cannot be read.
    """
    shared = sharers(name, links)
    for route in routes:
        to = str(route.get("dst", ""))
        out_of = {route.get("dev"), *(hop.get("dev") for hop in route.get("nexthops", ()))}
        if (
            route.get("type", "unicast") == "unicast"
            and (to == "default" or _is_wide(to))
            and (owner := next((s for s in shared if s in out_of), ""))
        ):
            return owner, to
    return None


def _is_wide(to: str) -> bool:
    if "/" not in to:
        return False
    network = ip_network(to, strict=False)
    return network.prefixlen < _SHORTEST[network.version] and not network.network_address.is_multicast


def reason_in_use(name: str, links: Sequence[Entry], routes: Sequence[Entry], allow: Sequence[Network]) -> str | None:
    """Return the reason why `name` must not send; None when it may. Raises ValueError, as leads_out()."""
    if out := leads_out(name, links, routes):
        owner, to = out
        return f"{_named(owner, name)} carries {'the default route' if to == 'default' else f'a route to {to}'}"
    shared = set(sharers(name, links))
    for link in links:
        for entry in link.get("addr_info", ()) if link.get("ifname") in shared else ():
            address = ip_interface(f"{entry['local']}/{entry['prefixlen']}") if "local" in entry else None
            if address and not address.is_link_local and not any(address.ip in network for network in allow):
                return f"{_named(str(link['ifname']), name)} has the address {address}, which is in no network of the testbed"
    return None


def _named(owner: str, name: str) -> str:
    return name if owner == name else f"{owner}, which shares a link with {name},"


async def read_links(host: Host) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the host's interfaces with their addresses, and all routes of IPv4 and IPv6; empty without `ip`. Raises HostError."""
    links, *routes = await asyncio.gather(
        entries(host, ["-d", "address", "show"]),
        entries(host, ["route", "show", "table", "all"]),
        entries(host, ["-6", "route", "show", "table", "all"]),
    )
    return links, [route for of_family in routes for route in of_family]


async def refuse_networks_in_use(host: Host, name: str, allow: Sequence[Network]) -> None:
    """Refuse a port of a Linux host that is part of a network in use. Ports of other systems are not checked.

    Raises PortRefused, HostError.
    """
    links, routes = await read_links(host)
    try:
        why = reason_in_use(name, links, routes, allow)
    except (ValueError, KeyError, TypeError) as e:
        why = f"the output of `ip` about {name} and its routes cannot be read ({e!r})"
    if why is not None:
        raise PortRefused(
            f"{host.name}: {why}: test traffic must stay off networks in use (RFC 6815)",
            remedy="name another interface, or set `isolated: true` for this link if nothing else is on it",
        )
