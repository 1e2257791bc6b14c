"""Survey of a machine's ports: their kind, their use, and their neighbours. It changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Any

from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.iproute import entries
from dutlab.hosts.shared_link import leads_out, read_links
from dutlab.units import BpsL1

IPAddress = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
LISTEN_S = 0.5
_FOREVER = 2**32 - 1
"""Unlimited lifetime of an address, as iproute2 prints it."""
_READ = r"""
cd "/sys/class/net/$1" || exit 1
for file in speed operstate statistics/rx_packets; do printf '%s=%s\n' "$file" "$(cat $file 2>/dev/null)"; done
for sign in wireless phy80211 bonding bridge; do [ ! -e $sign ] || printf '%s=yes\n' $sign; done
"""


@dataclass(frozen=True)
class Socket:
    """Local end of an established TCP connection of the machine."""

    local: IPAddress
    port: int


@dataclass(frozen=True)
class PortSurvey:
    """State of one port."""

    name: str
    link_type: str
    """Link type: `ether`, `loopback`, `none`."""
    kind: str
    """`physical`, or the kernel's name of a virtual kind: `veth`, `bridge`, `vlan`."""
    flags: frozenset[str]
    mtu: int
    speed: BpsL1 | None
    """Speed of a physical port; None without a cable or a carrier."""
    master: str | None
    lower: str | None
    """Port below this one, as of a VLAN."""
    uppers: tuple[str, ...]
    """Ports on top of this one, such as VLANs."""
    wireless: bool
    addresses: tuple[Interface, ...]
    """Addresses of the port, without link-local ones."""
    leased: tuple[Interface, ...]
    """Addresses with a lifetime: given by DHCP or a router."""
    default_route: bool
    """True if a route out of the testbed uses the port, or an interface that shares its link."""
    routers: tuple[IPAddress, ...]
    """Next hops of routes through the port, without link-local ones."""
    neighbours: tuple[IPAddress, ...]
    """Neighbours that have answered there, without link-local addresses."""
    sockets: tuple[Socket, ...]
    """Connections of the machine at one of the port's addresses."""
    heard_pps: float
    """Frames a second that arrived while dutlab sent nothing."""

    @property
    def up(self) -> bool:
        """True if the port is enabled, with or without a cable."""
        return "UP" in self.flags

    @property
    def cabled(self) -> bool:
        """True if there is a carrier; not known for a port that is down."""
        return "LOWER_UP" in self.flags


@dataclass(frozen=True)
class SurveyOutput:
    """Output of the machine's programs: entries of `ip -j`, sockets, files of /sys/class/net."""

    links: Sequence[Mapping[str, Any]]
    routes: Sequence[Mapping[str, Any]]
    neighbours: Sequence[Mapping[str, Any]]
    """Neighbours of the port."""
    sockets: Sequence[Socket]
    files: Mapping[str, str]
    """Path → text of files about the port."""
    heard_pps: float


async def survey(host: Host, name: str) -> PortSurvey | None:
    """Survey a port; return None if it does not exist. Raises HostError."""
    before = await host.run(["sh", "-c", _READ, "survey", name], check=False)
    if before.status != 0:
        return None
    (links, routes), neighbours, sockets, _ = await asyncio.gather(
        read_links(host),
        entries(host, ["neigh", "show", "dev", name]),
        host.run(["ss", "-Htan", "state", "established"], check=False),
        asyncio.sleep(LISTEN_S),
    )
    after = await host.run(["sh", "-c", _READ, "survey", name], check=False)
    heard = _number(_words(after.text).get("statistics/rx_packets")) - _number(_words(before.text).get("statistics/rx_packets"))
    answers = SurveyOutput(links, routes, neighbours, sockets_of(sockets.text), _words(before.text), max(0.0, heard / LISTEN_S))
    try:
        return read_port(name, answers)
    except (StopIteration, KeyError, ValueError, TypeError) as e:
        raise HostError(f"the output of `ip` about {name} cannot be read: {e!r}", host=host.name, remedy="install a newer iproute2") from e


def read_port(name: str, survey: SurveyOutput) -> PortSurvey:
    """Build the survey of a port from the programs' output. Raises KeyError, ValueError, TypeError, StopIteration for unexpected output."""
    own = next(link for link in survey.links if link.get("ifname") == name)
    kind = str(own.get("linkinfo", {}).get("info_kind", "physical"))
    all_addresses = [
        (entry, ip_interface(f"{entry['local']}/{entry['prefixlen']}")) for entry in own.get("addr_info", ()) if "local" in entry
    ]
    addresses = [(entry, address) for entry, address in all_addresses if not address.is_link_local]
    through = [route for route in survey.routes if route.get("dev") == name]
    hops = [ip_address(route["gateway"]) for route in through if "gateway" in route]
    known = [ip_address(n["dst"]) for n in survey.neighbours if "lladdr" in n and not {"FAILED", "INCOMPLETE"} & set(n.get("state", ()))]
    speed = _number(survey.files.get("speed"))
    return PortSurvey(
        name=name,
        link_type=str(own["link_type"]),
        kind=kind,
        flags=frozenset(own["flags"]),
        mtu=int(own["mtu"]),
        speed=BpsL1(speed * 1e6) if kind == "physical" and speed > 0 else None,
        master=own.get("master"),
        lower=own.get("link") if kind != "veth" else None,
        uppers=tuple(
            link["ifname"] for link in survey.links if link.get("link") == name and link.get("linkinfo", {}).get("info_kind") != "veth"
        ),
        wireless=bool({"wireless", "phy80211"} & survey.files.keys()),
        addresses=tuple(address for _, address in addresses),
        leased=tuple(address for entry, address in addresses if entry.get("valid_life_time", _FOREVER) != _FOREVER),
        default_route=leads_out(name, survey.links, survey.routes) is not None,
        routers=tuple(dict.fromkeys(hop for hop in hops if not hop.is_link_local)),
        neighbours=tuple(dict.fromkeys(n for n in known if not n.is_link_local and not n.is_multicast)),
        sockets=tuple(s for s in survey.sockets if s.local in {address.ip for _, address in addresses}),
        heard_pps=survey.heard_pps,
    )


def sockets_of(text: str) -> list[Socket]:
    """Parse `ss -Htan state established`: queues, local address:port, peer. IPv4-mapped IPv6 addresses become IPv4."""
    sockets = []
    for words in (line.split() for line in text.splitlines()):
        if len(words) < 4:  # noqa: PLR2004 -- receive queue, send queue, local end, peer
            continue
        host, _, port = words[2].rpartition(":")
        try:
            address = ip_address(host.strip("[]").partition("%")[0])
        except ValueError:
            continue
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        sockets.append(Socket(mapped or address, int(port) if port.isdigit() else 0))
    return sockets


def _words(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (line.partition("=") for line in text.splitlines()) if value}


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.lstrip("-").isdigit() else 0
