"""Findings about paths: the longest packet that a path carries, and the ARP or ND entry of the next hop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dutlab.analysis.doctor.commands import fix_neighbour, forget_neighbour, read, read_neighbours, set_mtu
from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price
from dutlab.analysis.doctor.inventory import Inventory, InventoryLink, InventoryPort, whole
from dutlab.physics.ceilings.ethernet import ETH_HEADER_BYTES, VLAN_TAG_BYTES, tcp_goodput
from dutlab.units import FCS_BYTES, BpsL1

HEADERS = (ETH_HEADER_BYTES, ETH_HEADER_BYTES + FCS_BYTES, ETH_HEADER_BYTES + FCS_BYTES + VLAN_TAG_BYTES)
"""14, 18 and 22 bytes: headers that some systems count in a frame's size and others do not."""
_LEAST_JUMBO = 1501
_COMMON = (1500, 1492, 1400, 576)
_ENOUGH_MTU = 576
_LEAST_REACHABLE_S = 15
"""An entry is reachable for 0.5 to 1.5 times base_reachable_time, 30 s (RFC 4861 section 6.3.2; the kernel does so for ARP too)."""
_LONGEST_TRIAL_S = 60
"""Longest trial of RFC 2544 (section 24). The BSDs resolve an address again 20 minutes after it was learnt (arp(4))."""


def sizes_to_try(most: int) -> tuple[int, ...]:
    """Return packet sizes to test a cable with: the MTU, the MTU less each header, then sizes that nearly every path carries."""
    return tuple(dict.fromkeys((most, *(most - h for h in HEADERS), *(size for size in _COMMON if size < most))))


def mtu(p: Inventory) -> Iterator[Finding]:
    """Find links whose ports differ in MTU."""
    for link in p.links:
        size_by_port = {port: size for port in link.ports if (size := whole(p.card(port).get("mtu"))) and size >= _ENOUGH_MTU}
        if len(set(size_by_port.values())) > 1:
            yield _mismatch(p, link, size_by_port)


def carried(p: Inventory) -> Iterator[Finding]:
    """Find cables that carry less than the MTU of both ends, since a switch or a driver counts headers differently."""
    for cable in p.carried:
        sizes = [whole(p.card(port).get("mtu")) for port in (cable.sender, cable.receiver)]
        meant = min((s for s in sizes if s), default=None)
        if meant is None or cable.mtu >= meant:
            continue
        jumbo = meant - cable.mtu in HEADERS
        why = f": {meant - cable.mtu} bytes less, so a switch counts a header that the ports do not" if jumbo else ""
        yield Finding(
            "jumbo-meaning" if jumbo else "mtu-mismatch",
            f"between {cable.sender} and {cable.receiver} packets of {cable.mtu} bytes pass, but none of {meant}, the MTU of both{why}",
            _price(cable.mtu, meant),
            (f"link {cable.link}",),
            (Evidence(cable.sender.host, "ping with fragmentation forbidden", f"{cable.mtu} bytes pass, {meant} do not"),),
            (
                CureStep(
                    cable.sender.host,
                    f"by hand: let every switch on this cable carry frames of {meant + ETH_HEADER_BYTES + FCS_BYTES} bytes with FCS",
                ),
            ),
            (CureStep(cable.sender.host, "by hand: set the switch back"),),
        )


def neighbours(p: Inventory) -> Iterator[Finding]:
    """Find next hops whose ARP or ND entry may expire during a trial."""
    for link in p.links:
        for port, address in zip(link.ports, link.next_hops, strict=True):
            entries = p.fact(port.host, "neighbours", port.interface)
            states = [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
            ageing = [e for e in states if _is_ageing(e)]
            if not ageing or not address:
                continue
            ages = ", ".join(map(_age, ageing))
            dead = any(set(str(e.get("state", "")).split()) & {"FAILED", "INCOMPLETE"} for e in ageing)
            yield Finding(
                "neighbour-ageing",
                "the next hop does not answer ARP or ND" if dead else "the next hop's ARP or ND entry expires during a trial",
                Price(None, "", "frames are lost if the next hop is too busy to answer (RFC 2544 appendix C.2.4.1)"),
                (str(port),),
                (Evidence(port.host, read_neighbours(p, port), ages),),
                (CureStep(port.host, fix_neighbour(p, port, address)),),
                (CureStep(port.host, forget_neighbour(p, port, address)),),
            )


def _mismatch(p: Inventory, link: InventoryLink, mtu_by_port: dict[InventoryPort, int]) -> Finding:
    least, most = min(mtu_by_port.values()), max(mtu_by_port.values())
    jumbo = least >= _LEAST_JUMBO and most - least in HEADERS
    cables = [(a, b) for a, b in link.cables if a in mtu_by_port and b in mtu_by_port and mtu_by_port[a] != mtu_by_port[b]]
    why = (
        f"; {most - least} bytes are a header that one side counts and the other does not" if jumbo
        else "; hosts of one network differ, so longer packets are dropped silently" if cables and link.is_segment
        else "; two ends of one cable differ, so longer packets are dropped silently" if cables
        else "; the router between must fragment, or say that packets are too big"
    )  # fmt: skip
    low = [port for port, size in mtu_by_port.items() if size < most]
    return Finding(
        "jumbo-meaning" if jumbo else "mtu-mismatch",
        f"the ports of link {link.name} have MTUs from {least} to {most}{why}",
        _price(least, most),
        (f"link {link.name}",),
        tuple(Evidence(port.host, read(p, port, "mtu"), str(size)) for port, size in mtu_by_port.items()),
        _set(p, low, dict.fromkeys(low, most)),
        _set(p, low, mtu_by_port),
    )


def _set(p: Inventory, ports: Sequence[InventoryPort], sizes: dict[InventoryPort, int]) -> tuple[CureStep, ...]:
    return tuple(CureStep(port.host, set_mtu(p, port, sizes[port])) for port in ports)


def _price(least: int, most: int) -> Price:
    speed = BpsL1(1.0)
    small, large = (tcp_goodput(speed, mtu=size) for size in (least, most))
    formula = f"({least} - 52) / ({least} + 38) against ({most} - 52) / ({most} + 38) of the link (RFC 6349 section 4.1.1)"
    return Price(100 * (1 - small / large), "TCP goodput at line rate", f"computed: {formula}; packets in between may be lost altogether")


def _is_ageing(entry: Mapping[str, Any]) -> bool:
    words = set(str(entry.get("state", "")).split())
    confirmed, expires = whole(entry.get("confirmed_s")), whole(entry.get("expires_s"))
    if words & {"PERMANENT", "NOARP"}:
        return False
    if words & {"STALE", "DELAY", "PROBE", "FAILED", "INCOMPLETE"}:
        return True
    return (confirmed is not None and confirmed >= _LEAST_REACHABLE_S) or (expires is not None and expires <= _LONGEST_TRIAL_S)


def _age(entry: Mapping[str, Any]) -> str:
    confirmed, expires = entry.get("confirmed_s"), entry.get("expires_s")
    when = f", confirmed {confirmed} s ago" if confirmed is not None else f", expires in {expires} s" if expires is not None else ""
    return f"{entry.get('state')}{when}"
