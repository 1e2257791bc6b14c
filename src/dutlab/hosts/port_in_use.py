"""Check whether a port is the end of a test link, or part of a network in use (RFC 6815)."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from dutlab.hosts.port_survey import PortSurvey

QUIET_PPS = 20.0
"""Frames a second that an idle box may send: announcements, spanning tree, router advertisements."""
_SSH = 22
_LEADS_ELSEWHERE = frozenset({"bridge", "bond", "team", "vlan", "macvlan", "ipvlan", "tun", "wireguard", "vxlan", "ppp", "dummy", "ifb"})


def unusable(port: PortSurvey) -> Iterator[str]:
    """Yield the reasons why the port cannot send our frames. The user cannot override them."""
    if "LOOPBACK" in port.flags:
        yield "is the loopback: no frame leaves the machine"
    elif port.link_type != "ether":
        yield f"is not an Ethernet port but of type {port.link_type}"
    elif port.up and not port.cabled:
        yield "has no carrier: check the cable and the box's port"


def in_use(port: PortSurvey, *, login: str) -> Iterator[str]:
    """Yield the signs that the port is not the end of a test link. `login` is SSH_CONNECTION of the caller (ssh(1)), or empty."""
    if port.default_route:
        yield "carries the default route, or shares a link with a port that does"
    for address in port.leased:
        yield f"has {address} by DHCP or from a router: the network is managed"
    if port.wireless:
        yield "is wireless: the medium is shared"
    if port.master is not None:
        yield f"belongs to {port.master}, a bridge, bond or the like: frames would leave elsewhere"
    if port.kind in _LEADS_ELSEWHERE:
        yield f"is a {port.kind}, which is a part of something else" + (f" ({port.lower})" if port.lower else "")
    if port.uppers:
        yield f"carries {', '.join(port.uppers)}"
    yield from _talked_to(port, login)
    if len(port.neighbours) > 1:
        yield f"has {len(port.neighbours)} neighbours ({', '.join(map(str, port.neighbours[:4]))}); expected is one, the box"
    if port.heard_pps > QUIET_PPS:
        yield f"is not quiet: {port.heard_pps:.0f} frames a second arrive while nothing is sent"


def _talked_to(port: PortSurvey, login: str) -> Iterator[str]:
    words = login.split()
    own = {address.ip for address in port.addresses}
    logins = [s for s in port.sockets if s.port == _SSH]
    if (len(words) == 4 and ip_address(words[2].partition("%")[0]) in own) or logins:  # noqa: PLR2004 -- client, its port, server, its port
        yield "carries an ssh login"
    if others := len(port.sockets) - len(logins):
        yield f"carries {others} TCP connection{'s' if others > 1 else ''} of this machine"
