"""Testbed and experiment for `dutlab test`, from two ports of this machine.

The box between the ports is a black box. Neighbour entries that the search adds are removed at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface
from itertools import zip_longest
from typing import Any

from dutlab.ending import ended_by
from dutlab.errors import InputError, PortRefused
from dutlab.hosts.host import Host
from dutlab.hosts.port_in_use import in_use, unusable
from dutlab.hosts.port_survey import Interface, IPAddress, PortSurvey, survey
from dutlab.spec.known import BLACK_BOX, FAMILY_MODES
from dutlab.spec.links import IPV6
from dutlab.spec.mixes import ETH_FRAME_OVERHEAD
from dutlab.spec.named_mixes import NAMED_MIXES
from dutlab.units import LONGEST_STANDARD_FRAME, SHORTEST_FRAME, SHORTEST_IPV6_FRAME, si

IMIX, IMIX_OVER_IPV6 = "imix", "imix-over-ipv6"
"""Names of frame mixes. The latter is imix with a shortest frame that holds a probe over IPv6."""
TESTBED_FILE, EXPERIMENT_FILE = "testbed.yaml", "experiment.yaml"
_EXPERIMENT = {
    "testbed": TESTBED_FILE,
    "factors": {"mode": list(FAMILY_MODES[BLACK_BOX])},
    "order": "as-written",
    "watch": [],
}
_FEW_HOSTS = 16
"""Size of a network up to which every host is asked. In a larger one only the first and last are, usually the routers."""
_STANDARD_MTU = 1500


@dataclass(frozen=True)
class TwoPortRequest:
    """Arguments of the command. Addresses and gateways are in the order of the ports, or empty."""

    ports: tuple[str, str]
    addresses: Sequence[str] = ()
    gateways: Sequence[str] = ()
    forced: frozenset[str] = frozenset()
    """Ports to use although they seem to be in use."""
    bridged: bool = False
    """True if the box forwards below IP, as a bridge or a switch does, so that both ports are in one network."""
    version: int = 4
    """IP version to use if a port has addresses of both versions and none is given."""
    cpus: Sequence[int] = ()
    """Cores for the sending and receiving threads, in this order; empty leaves them to the kernel."""
    login: str = ""
    """SSH_CONNECTION of the caller."""
    repeats: int = 1
    """Repeats of each trial."""


@dataclass(frozen=True)
class TesterPort:
    """One port, its address, and the box's address at the other end of its cable (with a bridge, the address of the other port)."""

    port: PortSurvey
    address: Interface
    gateway: IPAddress

    @property
    def gateway_interface(self) -> str:
        return f"{self.gateway}/{self.address.network.prefixlen}"


@dataclass(frozen=True)
class TwoPortFiles:
    """Both files as data, and open questions. The experiment lacks its name and workloads."""

    testbed: Mapping[str, Any]
    experiment: Mapping[str, Any]
    sizes: list[int | str | dict[str, Any]]
    """Frame sizes: the shortest that holds a probe, imix if it fits, the longest that passes both ports."""
    unknown: tuple[str, ...] = field(default=())
    ends: tuple[TesterPort, ...] = ()
    """Ports of source and sink."""


async def find(host: Host, ask: TwoPortRequest) -> TwoPortFiles:
    """Examine the ports, and find the gateways. Raises InputError, PortRefused with all reasons, HostError."""
    source, sink = await _surveyed(host, ask)
    addresses = [
        _address(port, asked_address, ask.version) for port, asked_address in zip_longest((source, sink), _interfaces(ask.addresses))
    ]
    missing = [f"{port.name}: has no address" for port, address in zip((source, sink), addresses, strict=True) if address is None]
    if missing:
        raise PortRefused("; ".join(missing), remedy="give both with --address ADDRESS/PREFIX, in the order of the ports, and --gateway")
    here, there = (address for address in addresses if address is not None)
    if here.version != there.version:
        raise PortRefused(f"{source.name} has {here}, {sink.name} has {there}", remedy="give addresses of one family with --address")
    gateways = [there.ip, here.ip] if ask.bridged else [ip_address(text) for text in ask.gateways]
    both = f"{source.name} ({here}) and {sink.name} ({there})"
    if ask.bridged and (here.network != there.network or here.ip == there.ip):
        raise PortRefused(f"{both} are not two hosts of one network", remedy="leave --bridge out, or give two with --address")
    if not ask.bridged and here.network.overlaps(there.network):
        raise PortRefused(
            f"{both} are in one network", remedy="a router joins two networks; if the box is a bridge or a switch, add --bridge"
        )
    gateways = gateways or [await _gateway(host, p, a) for p, a in ((source, here), (sink, there))]
    ends = [TesterPort(p, a, g) for p, a, g in zip((source, sink), (here, there), gateways, strict=True)]
    if outside := [f"{e.gateway} is not in {e.address.network} of {e.port.name}" for e in ends if e.gateway not in e.address.network]:
        raise InputError("; ".join(outside), remedy="give the box's addresses with --gateway, in the order of the ports")
    return TwoPortFiles(_testbed(ends, ask), _EXPERIMENT, _sizes(ends), tuple(_unknown(ends, ask)), tuple(ends))


async def _surveyed(host: Host, ask: TwoPortRequest) -> tuple[PortSurvey, PortSurvey]:
    """Check the arguments and the ports; return both ports. Raises InputError, PortRefused."""
    faults = [
        f"{what} is given {len(values)} times, and there are two ports"
        for what, values in (("--address", ask.addresses), ("--gateway", ask.gateways))
        if len(values) not in {0, 2}
    ]
    faults += [] if ask.ports[0] != ask.ports[1] else [f"duplicate port {ask.ports[0]}: name one port on each side of the box"]
    faults += [f"--force-port {name}: not one of the two ports" for name in sorted(ask.forced - set(ask.ports))]
    faults += ["--gateway: a bridge has none; leave it or --bridge out"] if ask.bridged and ask.gateways else []
    faults += [f"--gateway {text}: is not an address" for text in ask.gateways if not _is_address(text)]
    faults += [f"--address {text}: is not an address with its prefix length" for text in ask.addresses if not _is_interface(text)]
    if faults:
        raise InputError("; ".join(faults))
    surveys = [await survey(host, name) for name in ask.ports]
    absent = [name for name, port in zip(ask.ports, surveys, strict=True) if port is None]
    if absent:
        raise InputError(f"there is no port {' and no port '.join(absent)}", remedy="`ip -br link` lists them")
    source, sink = (port for port in surveys if port is not None)
    hard = [f"{port.name} {why}" for port in (source, sink) for why in unusable(port)]
    hard += [f"{p.name} is down: set it up, or give --address and --gateway" for p in (source, sink) if not p.up and not _told(ask)]
    soft = {port.name: list(in_use(port, login=ask.login)) for port in (source, sink) if port.name not in ask.forced}
    if reasons := [*hard, *(f"{name} {why}" for name, of_port in soft.items() for why in of_port)]:
        force = " ".join(f"--force-port {name}" for name, of_port in soft.items() if of_port)
        anyway = f", or add {force} if they are test links" if force and not hard else ""
        raise PortRefused("not the ports of a test link:\n  " + "\n  ".join(reasons), remedy=f"name other ports{anyway}")
    return source, sink


def _told(ask: TwoPortRequest) -> bool:
    return bool(ask.addresses and (ask.gateways or ask.bridged))


def _interfaces(texts: Sequence[str]) -> list[Interface]:
    return [ip_interface(text) for text in texts]


def _is_interface(text: str) -> bool:
    try:
        ip_interface(text)
    except ValueError:
        return False
    return "/" in text


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _address(port: PortSurvey, given: Interface | None, version: int) -> Interface | None:
    """Return the given address, else the port's first of that IP version, else its first."""
    return given or next((a for a in port.addresses if a.version == version), next(iter(port.addresses), None))


async def _gateway(host: Host, port: PortSurvey, address: Interface) -> IPAddress:
    """Return the one machine at the other end of the cable. Raises PortRefused when there is none or it cannot be identified."""
    inside = [a for a in (*port.routers, *port.neighbours) if a in address.network and a != address.ip]
    candidates = list(dict.fromkeys(inside)) or await _answering_hosts(host, port, address)
    if len(candidates) != 1:
        text = f"{', '.join(map(str, candidates))} answer" if candidates else f"no host answers in {address.network}"
        why = f"{port.name}: {text}, so the box's address is not known"
        raise PortRefused(why, remedy="give it for both ports: --gateway ADDRESS --gateway ADDRESS, in their order")
    return candidates[0]


async def _answering_hosts(host: Host, port: PortSurvey, address: Interface) -> list[IPAddress]:
    """Return the hosts that answer ARP or ND, which the kernel sends for a ping; then remove the new neighbour entries."""
    asked = list(_likely(address))
    before = set(port.neighbours)
    async with ended_by(lambda: _forget(host, port, [a for a in asked if a not in before])):
        await asyncio.gather(*(host.run(["ping", "-c", "1", "-W", "1", "-I", port.name, str(a)], check=False, timeout_s=10) for a in asked))
        again = await survey(host, port.name)
        return [a for a in asked if again is not None and a in again.neighbours]


async def _forget(host: Host, port: PortSurvey, addresses: Sequence[IPAddress]) -> None:
    for a in addresses:
        await host.run(["ip", "neigh", "del", str(a), "dev", port.name], check=False)


def _likely(address: Interface) -> Iterator[IPAddress]:
    network = address.network
    if network.num_addresses <= _FEW_HOSTS:
        addresses: list[IPAddress] = list(network.hosts())
    else:
        addresses = [network[1]] if network.version == IPV6 else [network[1], network[-2]]
    return (a for a in addresses if a != address.ip)


def _testbed(ends: Sequence[TesterPort], ask: TwoPortRequest) -> dict[str, Any]:
    source, sink = ends
    speeds = [end.port.speed for end in ends if end.port.speed is not None]
    of_box = [] if ask.bridged else [source.gateway_interface, sink.gateway_interface]
    return {
        "testbed": "two-ports",
        "hosts": {"source": _here(ask.cpus[:1]), "dut": {"family": BLACK_BOX}, "sink": _here(ask.cpus[1:2] or ask.cpus[:1])},
        "links": {
            "a": {
                **({"speed": si(min(speeds), "bit/s", 6)} if len(speeds) == len(ends) else {}),
                "mtu": _mtu(ends),
                **({"isolated": True} if ask.forced else {}),
                "configure": True,
                "path": [f"source:{source.port.name}", "dut:near", "dut:far", f"sink:{sink.port.name}"],
                "addresses": [str(source.address), *of_box, str(sink.address)],
            }
        },
    }


def _here(cpus: Sequence[int]) -> dict[str, Any]:
    return {"local": True, **({"cpus": list(cpus)} if cpus else {})}


def _sizes(ends: Sequence[TesterPort]) -> list[int | str | dict[str, Any]]:
    ipv6 = ends[0].address.version == IPV6
    shortest = int(SHORTEST_IPV6_FRAME if ipv6 else SHORTEST_FRAME)
    longest = min(int(LONGEST_STANDARD_FRAME), _mtu(ends) + ETH_FRAME_OVERHEAD)
    mix: str | dict[str, Any] = {"name": IMIX_OVER_IPV6, "parts": {max(n, shortest): w for n, w in NAMED_MIXES[IMIX]}} if ipv6 else IMIX
    return [shortest, *([mix] if longest == LONGEST_STANDARD_FRAME else []), longest]


def _mtu(ends: Sequence[TesterPort]) -> int:
    return min(end.port.mtu for end in ends)


def _unknown(ends: Sequence[TesterPort], ask: TwoPortRequest) -> Iterator[str]:
    """Yield open questions, as sentences for the report."""
    source, sink = (end.port for end in ends)
    yield "the model of the box, and its limit for certain: without a login its cores, counters and drops were not seen"
    if source.speed is None or sink.speed is None:
        yield "the speed of the wire: the ports report none, so no ceiling is known and the generator sets the highest rate"
    elif source.speed != sink.speed:
        speeds = f"{si(source.speed, 'bit/s')} and {si(sink.speed, 'bit/s')}"
        yield f"the rate of the faster port: {source.name} and {sink.name} run at {speeds}, so the slower one is the limit"
    if source.mtu != sink.mtu or _mtu(ends) != _STANDARD_MTU:
        yield f"frames longer than the smaller MTU of the ports, {_mtu(ends)}"
    else:
        yield "whether the box carries more than an MTU of 1500: no longer frame was sent"
    yield "the reverse direction, and both at once: frames went from the first port to the second"
    yield "how it spreads load: all frames were of one flow, which many devices handle on one core"
    if ask.repeats == 1:
        yield "the spread between repeats: each figure was measured once"
    if ask.forced:
        yield f"other traffic of {' and '.join(sorted(ask.forced))}: the in-use check was skipped"
