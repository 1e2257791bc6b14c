"""Findings about cables: speed, duplex and flow control of both ends, and optical modules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dutlab.analysis.doctor.commands import FREEBSD, fix_link, is_bsd, is_windows, negotiate, read, read_optic, read_property, set_property
from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price, shell, unknown_price
from dutlab.analysis.doctor.inventory import Inventory, InventoryLink, InventoryPort, whole

_PAUSE = "*FlowControl"


def optics(p: Inventory) -> Iterator[Finding]:
    """Find transceivers that exceed their own thresholds."""
    for port, card in p.cards():
        optic = card.get("optic")
        faults = optic.get("findings") if isinstance(optic, Mapping) else None
        for fault in faults if isinstance(faults, Sequence) and not isinstance(faults, str) else ():
            yield Finding(
                "weak-optics",
                f"the transceiver exceeds its own thresholds: {fault}",
                unknown_price("outside its thresholds a module's bit error rate has no bound; each error costs a frame"),
                (str(port),),
                (Evidence(port.host, read_optic(p, port), str(fault)),),
                (CureStep(port.host, "by hand: clean the connectors, look for tight bends, then try another module and another fibre"),),
                (CureStep(port.host, "by hand: put the module back"),),
            )


def speed_and_duplex(p: Inventory) -> Iterator[Finding]:
    """Find ports that are slower than stated in the testbed file, slower than the other end of the cable, or half duplex."""
    for link in p.links:
        cables = [(port, port) for port in link.ports] if link.is_segment else [*link.cables, *((b, a) for a, b in link.cables)]
        for port, other in cables:  # on a segment the other end of the cable is a switch port, which is not known
            yield from _slower(p, link, port, other)
    for port, card in p.cards():
        if card.get("duplex") == "half":
            yield Finding(
                "half-duplex",
                "the port is half duplex",
                Price(50.0, "both directions together", "computed: one direction at a time (IEEE 802.3 clause 4); collisions cost more"),
                (str(port),),
                (Evidence(port.host, read(p, port, "duplex"), "half"),),
                (CureStep(port.host, negotiate(p, port)),),
                (CureStep(port.host, fix_link(p, port, duplex="half")),),
            )


def flow_control(p: Inventory) -> Iterator[Finding]:
    """Find ports with flow control: when full they pause their sender, so frames are not sent instead of lost."""
    for port, card in p.cards():
        pause = card.get("pause_frames")
        if not isinstance(pause, Mapping):
            continue
        on = [direction for direction in ("rx", "tx") if pause.get(direction) is True]
        if not on or card.get("kind") not in (None, "physical"):
            continue
        at_router = "; on a router one full port thus stops the packets of all others" if port.host == p.dut else ""
        yield Finding(
            "flow-control",
            f"flow control is on ({' and '.join(on)}): a full receiver slows its sender instead of losing frames{at_router}",
            Price(None, "", "it turns losses into a lower rate, so zero-loss rates are those of the slowest queue"),
            (str(port),),
            (Evidence(port.host, _read_pause(p, port), ", ".join(f"{direction.upper()} on" for direction in on)),),
            (CureStep(port.host, _set_pause(p, port, {"autonegotiate": False, "rx": False, "tx": False})),),
            (CureStep(port.host, _set_pause(p, port, pause)),),
        )


def _slower(p: Inventory, link: InventoryLink, port: InventoryPort, other: InventoryPort) -> Iterator[Finding]:
    now, there = whole(p.card(port).get("speed_mbps")), whole(p.card(other).get("speed_mbps"))
    meant = max(link.speed_bps_l1 or 0.0, 1e6 * (there or 0))
    if not now or now * 1e6 >= meant:
        return
    source = "the testbed says" if meant == link.speed_bps_l1 else f"its other end {other} has"
    yield Finding(
        "speed-mismatch",
        f"the port runs at {now} Mb/s where {source} {meant / 1e6:g}",
        Price(100 * (1 - now * 1e6 / meant), "line rate", f"computed: 1 - {now} / {meant / 1e6:g}"),
        (str(port),),
        (Evidence(port.host, read(p, port, "speed"), str(now)),
         Evidence(other.host, read(p, other, "speed"), str(there))),
        (CureStep(port.host, negotiate(p, port)),),
        (CureStep(port.host, fix_link(p, port, speed_mbps=now)),),
    )  # fmt: skip


def _read_pause(p: Inventory, port: InventoryPort) -> str:
    if is_windows(p, port.host):
        return read_property(port, _PAUSE)
    return shell("ifconfig", port.interface) if is_bsd(p, port.host) else shell("ethtool", "-a", port.interface)


def _set_pause(p: Inventory, port: InventoryPort, pause: Mapping[str, object]) -> str:
    """Return the command that sets flow control of both directions as in `pause`."""
    rx, tx = (int(pause.get(direction) is True) for direction in ("rx", "tx"))
    if is_windows(p, port.host):  # NDIS: 0 none, 1 pause frames sent, 2 obeyed, 3 both, 4 as negotiated
        return set_property(port, _PAUSE, 4 if pause.get("autonegotiate") is True else tx + 2 * rx)
    if p.text(port.host, "kernel", "name") == FREEBSD and (m := re.fullmatch(r"([a-z_]+)(\d+)", port.interface)):
        return shell("sysctl", f"dev.{m[1]}.{m[2]}.fc={rx + 2 * tx}")  # Intel's drivers: 1 pause frames obeyed, 2 sent
    if is_bsd(p, port.host):
        return "by hand: choose media with or without rxpause and txpause at the other end of the cable; see ifconfig -m"
    return shell("ethtool", "-A", port.interface, *_words_of(pause))


def _words_of(pause: Mapping[str, object]) -> list[str]:
    """Return the settings as arguments of `ethtool -A`."""
    names = {"autonegotiate": "autoneg", "rx": "rx", "tx": "tx"}
    return [word for key, name in names.items() if key in pause for word in (name, "on" if pause[key] is True else "off")]
