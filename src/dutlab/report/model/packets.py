"""Packets a second of goodput, where the MTU is known: full TCP segments with time stamps; acknowledgements do not count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dutlab.physics.ceilings.ethernet import TCP_HEADER_BYTES, TCP_TIMESTAMP_BYTES, Ip
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.imported_setting import ImportedSetting

_HEADERS = Ip.V4.value + TCP_HEADER_BYTES + TCP_TIMESTAMP_BYTES
GOODPUT = "goodput_bps"


def mtu_of(cell: Cell, mtus: Mapping[str, int]) -> int | None:
    """Return the MTU from the factor, the imported table or the testbed file (`mtus`, by link); None without one, or if links differ."""
    setting = cell.setting
    mtu = cell.mtu(0) or (setting.mtu if isinstance(setting, ImportedSetting) else None) or 0
    if mtu > _HEADERS:
        return mtu
    of_links = {mtus.get(link) for link in cell.links}
    return of_links.pop() if len(of_links) == 1 else None


def segments_per_s(goodput_bps: float, mtu: int) -> float:
    """Return the TCP segments a second that carry a goodput in bits a second."""
    return goodput_bps / 8 / (mtu - _HEADERS)


def mtus_of(testbed: Any) -> dict[str, int]:  # noqa: ANN401 -- of a run's resolved.json
    """Return link → its MTU in the testbed, for links that have one."""
    links = testbed.get("links") if isinstance(testbed, Mapping) else None
    return {
        name: mtu
        for name, link in (links.items() if isinstance(links, Mapping) else ())
        if isinstance(link, Mapping) and isinstance(mtu := link.get("mtu"), int)
    }
