"""Findings about the PCI Express slot of a card: too few lanes, low speed, small packets, power saving."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dutlab.analysis.doctor.commands import is_bsd, read_link
from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price, unknown_price, write
from dutlab.analysis.doctor.inventory import Inventory, InventoryPort, whole
from dutlab.analysis.doctor.published import BOOST_AND_PCIE
from dutlab.physics.ceilings.ethernet import AROUND_PACKET_BYTES, ETH_HEADER_BYTES
from dutlab.physics.ceilings.pcie import GENERATIONS, TO_HOST_OVERHEAD, WIDTHS, PcieLink, payload_share

_SMALLEST_PAYLOAD = 128
"""Smallest payload limit in bytes; every device supports it (PCI Express Base Specification 7.5.3.4)."""
_MTU = 1500
_FRAME_SHARE = (_MTU + ETH_HEADER_BYTES) / (_MTU + AROUND_PACKET_BYTES)
"""Share of the bytes on the wire that cross the bus, with frames of 1518 bytes: all but FCS, preamble and gap."""
_ROOM = 1.25
"""Required bandwidth of a slot ÷ that of the frames. Descriptors and acknowledgements cross the slot too."""
_NO_SPEED = Price(None, "", "the speed of the ports is unknown: their link is down, or their driver does not report it")
_POLICY = "/sys/module/pcie_aspm/parameters/policy"
_LARGER = "add pci=pcie_bus_perf to the kernel's command line (Linux), or raise the payload in the BIOS, then reboot"

_Device = Mapping[str, Any]


def narrow_slot(p: Inventory) -> Iterator[Finding]:
    """Find PCI Express links that are slower than the ports behind them, or slower than both ends support."""
    for ports, step, speed in _bottlenecks(p):
        now, most = _link(step, "link_gts", "link_width"), _possible(_way(p, ports[0]), step)
        if now is None:
            continue
        payload = min((b for s in _way(p, ports[0]) if (b := whole(s.get("payload_bytes")))), default=_SMALLEST_PAYLOAD)
        need, carries = (speed or 0.0) / 8 * _FRAME_SHARE, now.bytes_per_s * payload_share(payload, TO_HOST_OVERHEAD)
        below = most is not None and now.bytes_per_s < most.bytes_per_s
        if carries >= need and not below:
            continue
        formula = (
            f"{now} carries {carries / 1e9:.3g} GB/s to the host with {payload}-byte payloads; {_names(ports)} can deliver {need / 1e9:.3g}"
        )
        price = Price(100 * max(0.0, 1 - carries / need), "line rate with 1518-byte frames", f"computed: {formula}") if need else _NO_SPEED
        which = f"{now} where {most} is possible" if below else f"{now}"
        slot = f"whose lanes carry {need * _ROOM / 1e9:.3g} GB/s or more, all the way to the processor"
        cure = f"reseat the card, or move it to a slot {slot}" if below else f"move the card to a slot {slot}"
        yield Finding(
            "narrow-slot",
            f"the card is on a PCI Express link of {which}",
            price,
            tuple(map(str, ports)),
            _links_read(p, ports[0].host, step),
            (CureStep(ports[0].host, f"by hand: {cure if need else 'reseat the card, or move it to another slot'}"),),
            (CureStep(ports[0].host, "by hand: put the card back"),),
        )


def small_payload(p: Inventory) -> Iterator[Finding]:
    """Find PCI Express paths that use smaller payloads than every device on them supports. Headers then take more of the link."""
    for ports, step, speed in _bottlenecks(p):
        way = [s for s in _way(p, ports[0]) if whole(s.get("payload_bytes")) and whole(s.get("payload_bytes_most"))]
        if not way:
            continue
        now, most = min(s["payload_bytes"] for s in way), min(s["payload_bytes_most"] for s in way)
        if now >= most:
            continue
        yield Finding(
            "small-payload",
            f"PCI Express packets carry {now} bytes where every device on the path supports {most}",
            _payload_price(_link(step, "link_gts", "link_width"), speed, now, most),
            tuple(map(str, ports)),
            tuple(
                Evidence(
                    ports[0].host,
                    f"device control register of {s.get('address')}",
                    f"{s['payload_bytes']} of {s['payload_bytes_most']} bytes",
                )
                for s in way
            ),
            (CureStep(ports[0].host, f"by hand: {_LARGER}"),),
            (CureStep(ports[0].host, "by hand: undo that, then reboot"),),
        )


def link_power(p: Inventory) -> Iterator[Finding]:
    """Find PCI Express links with power saving. They need microseconds to wake."""
    for port, card in p.cards():
        sleeping = [s for s in _steps(card) if isinstance(aspm := s.get("aspm"), str) and aspm != "off"]
        if not sleeping:
            continue
        policy = p.text(port.host, "pcie_aspm_policy")
        by_hand = is_bsd(p, port.host) or policy == "performance"
        yield Finding(
            "pcie-power",
            "power saving (ASPM) is enabled on PCI Express links to the card",
            Price(None, "", BOOST_AND_PCIE),
            (str(port),),
            tuple(Evidence(port.host, f"link control register of {s.get('address')}", f"ASPM {s['aspm']}") for s in sleeping),
            (CureStep(port.host, "by hand: disable ASPM in the BIOS" if by_hand else write("performance", _POLICY)),),
            (CureStep(port.host, "by hand: enable it again" if by_hand else write(policy or "default", _POLICY)),),
        )


def _bottlenecks(p: Inventory) -> Iterator[tuple[list[InventoryPort], _Device, float | None]]:
    """Yield groups of ports that share their slowest link, with that link and their summed speed in bits per second (L1)."""
    shared: dict[tuple[str, str], tuple[list[InventoryPort], _Device]] = {}
    for port, card in p.cards():
        linked = [(link.bytes_per_s, n, step) for n, step in enumerate(_steps(card)) if (link := _link(step, "link_gts", "link_width"))]
        if linked:
            step = min(linked)[2]
            # All functions of a card share one link. Each reports the link under the function's address.
            key = (port.host, str(step.get("address", "")).partition(".")[0])
            shared.setdefault(key, ([], step))[0].append(port)
    for ports, step in shared.values():
        speeds = [p.speed(port) for port in ports]
        yield ports, step, None if None in speeds else sum(s for s in speeds if s)


def _payload_price(link: PcieLink | None, speed: float | None, now: int, most: int) -> Price:
    if link is None or speed is None:
        return unknown_price("the link's generation or the ports' speed is unknown")
    need = speed / 8 * _FRAME_SHARE
    before, after = (min(need, link.bytes_per_s * payload_share(size, TO_HOST_OVERHEAD)) for size in (now, most))
    shares = f"{now} / ({now} + {TO_HOST_OVERHEAD}) against {most} / ({most} + {TO_HOST_OVERHEAD}) of {link}"
    return Price(100 * (after - before) / after, "line rate with 1518-byte frames", f"computed: {shares}; {need / 1e9:.3g} GB/s are needed")


def _way(p: Inventory, port: InventoryPort) -> Sequence[_Device]:
    return _steps(p.card(port))


def _steps(card: Mapping[str, Any]) -> Sequence[_Device]:
    way = card.get("pcie")
    return [s for s in way if isinstance(s, Mapping)] if isinstance(way, list) else []


def _link(step: _Device, speed: str, width: str) -> PcieLink | None:
    """Return the link as a PcieLink; None for a step without a link, or with an unknown generation."""
    generation = next((g for g, of in GENERATIONS.items() if of.gigatransfers == step.get(speed)), None)
    lanes = whole(step.get(width))
    return PcieLink(generation, lanes) if generation and lanes in WIDTHS else None


def _possible(way: Sequence[_Device], step: _Device) -> PcieLink | None:
    """Return the fastest link that both ends support. On the path, devices 0 and 1 are the ends of one link, and so are 2 and 3."""
    at = next((n for n, other in enumerate(way) if other is step), 0)
    ends = (_link(end, "link_gts_most", "link_width_most") for end in (step, *way[at ^ 1 : (at ^ 1) + 1]))
    return min((end for end in ends if end), key=lambda end: end.bytes_per_s, default=None)


def _links_read(p: Inventory, host: str, step: _Device) -> tuple[Evidence, ...]:
    if is_bsd(p, host):
        text = f"x{step['link_width']} of x{step.get('link_width_most')}, {step['link_gts']} GT/s of {step.get('link_gts_most')}"
        return (Evidence(host, read_link(p, host, step.get("address")), text),)
    at = f"/sys/bus/pci/devices/{step.get('address')}"
    return (
        Evidence(host, f"{at}/current_link_speed", f"{step['link_gts']} GT/s of {step.get('link_gts_most')}"),
        Evidence(host, f"{at}/current_link_width", f"{step['link_width']} of {step.get('link_width_most')}"),
    )


def _names(ports: Sequence[InventoryPort]) -> str:
    return " and ".join(port.interface for port in ports)
