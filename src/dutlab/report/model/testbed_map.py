"""Map of a testbed: its hosts, the cables of its links, its segments and sensors, as a diagram shows them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dutlab.units import parse_bit_rate

MOST_HOSTS, MOST_LINKS = 24, 12
"""Largest numbers of hosts and of links of a diagram; more do not fit on a page."""


@dataclass(frozen=True)
class MapHost:
    """A host, or the machine that dutlab runs on, which has no name in the file."""

    name: str
    lines: tuple[str, ...]
    """Facts about it, a line each: family, model, cores, drives, sensors, power switch."""
    is_dut: bool = False


@dataclass(frozen=True)
class MapPort:
    """A port of a host."""

    host: str
    interface: str


@dataclass(frozen=True)
class MapCable:
    """A cable between two ports of a path."""

    near: MapPort
    far: MapPort
    network: str
    """Network of its two ends; empty if the machines between forward below IP."""


@dataclass(frozen=True)
class MapLink:
    """A link: the cables of a path, or the ports on a segment."""

    name: str
    words: tuple[str, ...]
    """Speed, MTU if it is not 1500, and network of a segment."""
    cables: tuple[MapCable, ...] = ()
    segment: tuple[MapPort, ...] = ()


@dataclass(frozen=True)
class TestbedMap:
    """Hosts in rows from the sources to the sinks, and links in the order of their columns."""

    __test__ = False  # pytest would take it for a test class by its name

    name: str
    hosts: tuple[MapHost, ...]
    rows: tuple[tuple[str, ...], ...]
    """Names of the hosts in each row, from above. Every cable joins hosts of different rows."""
    links: tuple[MapLink, ...]
    left_out: str = ""
    """Omissions, in a sentence; empty if the map is complete."""


def map_of_testbed(testbed: Mapping[str, Any]) -> TestbedMap | None:
    """Return the map of a testbed in the form of `Testbed.model_dump(mode="json")`; None if it names no host.

    It accepts any JSON, since it may come from a run of another version: parts of another form are left out.
    """
    of_hosts, of_links = _mapping(testbed.get("hosts")), _mapping(testbed.get("links"))
    links = [link for name, of in of_links.items() if (link := _link(str(name), _mapping(of)))]
    named = dict.fromkeys((*map(str, of_hosts), *(port.host for link in links for port in _ports(link))))
    if not named:
        return None
    hosts = tuple(named)[:MOST_HOSTS]
    shown = [link for link in links if all(port.host in hosts for port in _ports(link))][:MOST_LINKS]
    left = [f"{len(named) - len(hosts)} more hosts" if len(named) > len(hosts) else ""]
    left += [f"{len(links) - len(shown)} more links" if len(links) > len(shown) else ""]
    missing = " and ".join(filter(None, left))
    sensors = _mapping(testbed.get("sensors"))
    dut = _dut(hosts, links)
    boxes = [MapHost(name, tuple(_host_lines(_mapping(of_hosts.get(name)), _sensor_words(sensors, name))), name == dut) for name in hosts]
    if elsewhere := _sensor_words(sensors, None):
        boxes.append(MapHost("dutlab's machine", (elsewhere,)))
    rows = _rows(hosts, shown)
    placed = {name for row in rows for name in row}
    return TestbedMap(
        name=str(testbed.get("name") or testbed.get("testbed") or ""),
        hosts=tuple(boxes),
        rows=(*rows, *((box.name,) for box in boxes if box.name not in placed)),
        links=tuple(_in_columns(shown)),
        left_out=f"The testbed file also has {missing}." if missing else "",
    )


def speed_words(bits_per_s: object) -> str:
    """Return a speed, as a number or as `10000000000bit/s`, in the form `10 Gb/s`; empty for None and for anything else."""
    if isinstance(bits_per_s, str):
        try:
            bits_per_s = float(parse_bit_rate(bits_per_s))
        except ValueError:
            return ""
    if isinstance(bits_per_s, bool) or not isinstance(bits_per_s, int | float) or bits_per_s <= 0:
        return ""
    return f"{bits_per_s / 1e9:g} Gb/s" if bits_per_s >= 1e9 else f"{bits_per_s / 1e6:g} Mb/s"  # noqa: PLR2004 -- giga


def _list(of: object) -> list[Any]:
    """Return a list as it is; nothing for anything else."""
    return of if isinstance(of, list) else []


def _ports(link: MapLink) -> tuple[MapPort, ...]:
    return link.segment or tuple(port for cable in link.cables for port in (cable.near, cable.far))


def _link(name: str, of: Mapping[str, Any]) -> MapLink | None:
    """Return a link; None if it has no ports that can be read."""
    path, segment = (_port_list(of.get(key)) for key in ("path", "segment"))
    addresses = [_network(text) for text in _list(of.get("addresses")) if isinstance(text, str)]
    mtu = of.get("mtu")
    words = [speed_words(of.get("speed")), f"MTU {mtu}" if isinstance(mtu, int) and mtu != 1500 else ""]  # noqa: PLR2004 -- Ethernet's
    if segment:
        return MapLink(name, tuple(filter(None, (*words, addresses[0] if addresses else ""))), segment=segment)
    if len(path) < 2 or len(path) % 2:  # noqa: PLR2004 -- two ports a cable
        return None
    whole = len(addresses) == len(path)
    cables = (MapCable(path[n], path[n + 1], addresses[n] if whole else "") for n in range(0, len(path), 2))
    return MapLink(name, tuple(filter(None, words)), cables=tuple(cables))


def _port_list(ports: object) -> tuple[MapPort, ...]:
    texts = [text.partition(":") for text in ports if isinstance(text, str)] if isinstance(ports, (list, tuple)) else []
    return tuple(MapPort(host, interface) for host, colon, interface in texts if host and colon)


def _network(address: str) -> str:
    try:
        return str(ipaddress.ip_interface(address).network)
    except ValueError:
        return ""


def _dut(hosts: Sequence[str], links: Sequence[MapLink]) -> str:
    """Return the measured host: the one called dut, else the first between the ends of a path, else a single host."""
    between = (cable.far.host for link in links for cable in link.cables[:-1])
    return "dut" if "dut" in hosts else next(between, hosts[0] if len(hosts) == 1 else "")


def _host_lines(of: Mapping[str, Any], sensors: str) -> Iterator[str]:
    about, power, drives = (_mapping(of.get(key)) for key in ("about", "power", "drives"))
    for key in ("model", "processor", "memory"):
        if isinstance(text := about.get(key), str):
            yield text
    if isinstance(family := of.get("family"), str):
        yield f"{family}{', this machine' if of.get('local') is True else ''}"
    if words := _core_words(of.get("cpus")):
        yield words
    if drives:
        yield f"{len(drives)} drives" if len(drives) > 1 else "1 drive"
    if sensors:
        yield sensors
    if power:
        yield f"power switch: {power.get('kind', 'yes')}"


def _core_words(cpus: object) -> str:
    """Return cores in words, of all links or by link; empty without any."""
    by_link = cpus.items() if isinstance(cpus, Mapping) else [("", cpus)]
    parts = [
        f"{', '.join(map(str, of))}{f' for link {link}' if link else ''}" for link, of in by_link if isinstance(of, (list, tuple)) and of
    ]
    return f"cores {'; '.join(parts)}" if parts else ""


def _sensor_words(sensors: Mapping[str, Any], host: str | None) -> str:
    own = ((name, of) for name, of in sensors.items() if isinstance(of, Mapping) and of.get("host") == host)
    words = [f"{name} ({of['kind']})" if "kind" in of else str(name) for name, of in own]
    return f"sensors: {', '.join(words)}" if words else ""


def _rows(hosts: Sequence[str], links: Sequence[MapLink]) -> tuple[tuple[str, ...], ...]:
    """Return the hosts on links in rows, so that each host is below all hosts whose cables lead to it.

    The row of a host is the longest way to it; a cable that would close a circle counts in the other direction. With a segment, every
    host has its own row, so that a line leads from each to the segment.
    """
    after: dict[str, set[str]] = {}
    for near, far in ((cable.near.host, cable.far.host) for link in links for cable in link.cables):
        one, other = (far, near) if near in _reachable(after, far) else (near, far)
        if one != other:
            after.setdefault(one, set()).add(other)
    depth = dict.fromkeys((h for h in hosts if any(port.host == h for link in links for port in _ports(link))), 0)
    for _ in depth:
        for one, others in after.items():
            for other in others:
                depth[other] = max(depth[other], depth[one] + 1)
    ordered = sorted(depth, key=lambda host: (depth[host], hosts.index(host)))
    if any(link.segment for link in links):
        return tuple((host,) for host in ordered)
    return tuple(tuple(h for h in ordered if depth[h] == row) for row in range(max(depth.values(), default=-1) + 1))


def _reachable(after: Mapping[str, set[str]], start: str) -> set[str]:
    reached, waiting = {start}, [start]
    while waiting:
        new = after.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


def _in_columns(links: Sequence[MapLink]) -> list[MapLink]:
    """Return paths so that those of the same hosts are neighbours, as the boxes of hosts span their columns; then segments."""
    rest, out = [link for link in links if link.cables], list[MapLink]()
    while rest:
        before = {port.host for port in _ports(out[-1])} if out else set()
        nearest = max(rest, key=lambda link: len(before & {port.host for port in _ports(link)}))
        rest.remove(nearest)
        out.append(nearest)
    return [*out, *(link for link in links if link.segment)]


def neighbours(columns: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of consecutive numbers, in order: [0, 1, 3] → [(0, 1), (3, 3)]."""
    starts = [columns[0], *(b for a, b in pairwise(columns) if b > a + 1)] if columns else []
    ends = [*(a for a, b in pairwise(columns) if b > a + 1), columns[-1]] if columns else []
    return list(zip(starts, ends, strict=True))


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON may be any type
    return value if isinstance(value, Mapping) else {}
