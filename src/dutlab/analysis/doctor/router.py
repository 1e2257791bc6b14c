"""Findings about settings that help the end of a connection but harm a router."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dutlab.analysis.doctor.commands import FREEBSD, is_bsd
from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, shell, unknown_price
from dutlab.analysis.doctor.inventory import Inventory

_FORWARDING = ("net.ipv4.ip_forward", "net.inet.ip.forwarding")
_OF_FREEBSD = {"LRO": "lro", "TSO4": "tso4", "TSO6": "tso6"}
_OF_LINUX = {"large-receive-offload": "lro"}
"""Offloads whose merged packets cannot be split again as they were; those of GRO can. A forwarding Linux disables LRO if the driver
allows it (dev_disable_lro)."""


def offloads_on_router(p: Inventory) -> Iterator[Finding]:
    """Find routers whose card merges received packets: merged ones may exceed the next MTU, and differ from those sent."""
    for port, card in p.cards():
        offloads = card.get("offloads")
        bsd = is_bsd(p, port.host)
        if bsd and p.text(port.host, "kernel", "name") != FREEBSD:
            continue  # OpenBSD prints what the card supports, not what is enabled
        names = _OF_FREEBSD if bsd else _OF_LINUX
        on = [name for name in names if isinstance(offloads, Mapping) and offloads.get(name) is True]
        if not on or "1" not in (p.text(port.host, "sysctls", name) for name in _FORWARDING):
            continue
        yield Finding(
            "offloads-on-router",
            f"the host forwards packets, and its card merges or splits them: {', '.join(on)}",
            unknown_price("merged packets that exceed the next MTU are dropped or split again; which depends on the driver"),
            (str(port),),
            (Evidence(port.host, shell("ifconfig", port.interface) if bsd else shell("ethtool", "-k", port.interface), ", ".join(on)),),
            (CureStep(port.host, _switch(port.interface, [names[name] for name in on], bsd=bsd, on=False)),),
            (CureStep(port.host, _switch(port.interface, [names[name] for name in on], bsd=bsd, on=True)),),
        )


def _switch(interface: str, words: list[str], *, bsd: bool, on: bool) -> str:
    if bsd:
        return shell("ifconfig", interface, *(word if on else f"-{word}" for word in words))
    return shell("ethtool", "-K", interface, *(part for word in words for part in (word, "on" if on else "off")))
