"""The pages of modules with the Common Management Interface Specification: QSFP-DD, OSFP and their kin. Bytes in, facts out.

OIF-CMIS 5.0, chapter 8: lower memory (8.2), page 00h (8.3), 01h (8.4), 02h (8.5), 11h (8.9). Offsets as there and in ethtool's cmis.h:
a page's own bytes begin at 128.
"""

from __future__ import annotations

from collections.abc import Mapping

from dutlab.hosts.optics.cells import CMIS_FORMS, CONNECTORS, HALF, PAGE_BYTES, limits_at, scaled, text
from dutlab.hosts.optics.optic import Optic, made_on

LANES = 8
"""Of one bank; the others are not read."""
_READY = 3
_STATES = {1: "ModuleLowPwr", 2: "ModulePwrUp", _READY: "ModuleReady", 4: "ModulePwrDn", 5: "ModuleFault"}
_FLAT = 0x80
"""Byte 2: a module of this memory model, a copper cable, has no further pages and measures nothing."""
_COPPER = 0x0A
"""Byte 212: this technology and above are copper (SFF-8024 table 4-9 as CMIS has it)."""
_MULTIMODE, _SINGLE_MODE = 1, 2
_LANE_COUNTS = (1, 2, 4)

# Where the first lane stands in page 11h and the first threshold in page 02h; which bit of 01h:160 says that it is measured.
_OF_LANES = {"tx_power_mw": (154, 176, 0x02), "tx_bias_ma": (170, 184, 0x01), "rx_power_mw": (186, 192, 0x04)}
# Where it stands in lower memory and in page 02h; which bit of 01h:159.
_OF_MODULE = {"temperature_c": (14, 128, 0x01), "voltage_v": (16, 136, 0x02)}

# Byte 87, the first application's media interface: SFF-8024 tables 4-6 and 4-7, those of Ethernet at 50 Gb/s and above.
_KINDS = {
    _MULTIMODE: {
        0x07: "50GBASE-SR", 0x09: "100GBASE-SR4", 0x0C: "100GBASE-SR2", 0x0D: "100GBASE-SR1", 0x0E: "200GBASE-SR4",
        0x10: "400GBASE-SR8", 0x11: "400GBASE-SR4", 0x1A: "400GBASE-SR4.2",
    },
    _SINGLE_MODE: {
        0x0B: "50GBASE-FR", 0x0C: "50GBASE-LR", 0x0D: "100GBASE-LR4", 0x0E: "100GBASE-ER4", 0x10: "100G CWDM4", 0x14: "100GBASE-DR",
        0x15: "100GBASE-FR1", 0x16: "100GBASE-LR1", 0x17: "200GBASE-DR4", 0x18: "200GBASE-FR4", 0x19: "200GBASE-LR4",
        0x1A: "400GBASE-FR8", 0x1B: "400GBASE-LR8", 0x1C: "400GBASE-DR4", 0x1D: "400GBASE-FR4", 0x43: "400GBASE-LR4-6", 0x3E: "400ZR",
    },
}  # fmt: skip


def of_cmis(page00: bytes, page01: bytes = b"", page02: bytes = b"", page11: bytes = b"") -> Optic:
    """Lower memory with upper page 00h, 256 bytes; upper pages 01h, 02h and 11h of bank 0, 128 bytes each, where they were read.

    Lanes that the module says it has not are left out, and all of them while it is not ready. Raises ValueError on short pages.
    """
    if len(page00) < PAGE_BYTES:
        raise ValueError(f"page 00h has {len(page00)} bytes with the lower memory; {PAGE_BYTES} are needed")
    state = page00[3] >> 1 & 7
    copper = page00[212] >= _COPPER
    values, limits = _measured(page00, page01, page02, page11 if state == _READY else b"")
    wavelength = int.from_bytes(page01[138 - HALF : 140 - HALF], "big") / 20 if len(page01) >= HALF and not copper else 0.0
    return Optic(
        form=CMIS_FORMS.get(page00[0], ""),
        kind=_KINDS.get(page00[85], {}).get(page00[87], ""),
        connector=CONNECTORS.get(page00[203], ""),
        vendor=text(page00[129:145]),
        part=text(page00[148:164]),
        serial=text(page00[166:182]),
        made=made_on(text(page00[182:190])),
        wavelength_nm=wavelength or None,
        values=values,
        limits=limits,
        note="" if state == _READY else _not_ready(state),
    )


def lanes_there(values: Mapping[str, tuple[float, ...]], state: int | None) -> tuple[dict[str, tuple[float, ...]], str]:
    """What ethtool printed of a module, without the lanes that it has not; and why there is less.

    ethtool prints eight lanes whatever the module has. Lanes at the end that are dark, without bias, and leave 1, 2 or 4 are taken as
    none. `state` is the module's, None where ethtool does not tell it.
    """
    if state not in (None, _READY):
        return {q: of for q, of in values.items() if q not in _OF_LANES}, _not_ready(state)
    printed = [of for q, of in values.items() if q in _OF_LANES]
    lit = max((n + 1 for of in printed for n, value in enumerate(of) if value), default=0)
    if lit not in _LANE_COUNTS or all(len(of) <= lit for of in printed):
        return dict(values), ""
    return {q: of[:lit] if q in _OF_LANES else of for q, of in values.items()}, f"all after lane {lit - 1} measure nothing: taken as absent"


def _measured(
    page00: bytes, page01: bytes, page02: bytes, page11: bytes
) -> tuple[dict[str, tuple[float, ...]], dict[str, dict[str, float]]]:
    """Values and limits of what the module says that it measures, as far as its pages are there."""
    values: dict[str, tuple[float, ...]] = {}
    limits: dict[str, dict[str, float]] = {}
    if len(page01) < HALF or page00[2] & _FLAT:
        return values, limits
    of_module, of_lanes = page01[159 - HALF], page01[160 - HALF]
    times = 1 << min(of_lanes >> 3 & 3, 2)  # of the bias; ethtool divides by it, and by that of its thresholds too
    for quantity, (at, threshold_at, bit) in _OF_MODULE.items():
        if of_module & bit:
            values[quantity] = (scaled(quantity, page00, at),)
            limits |= _limits(quantity, page02, threshold_at, 1)
    for quantity, (at, threshold_at, bit) in _OF_LANES.items():
        if of_lanes & bit and len(page11) >= HALF:
            factor = times if quantity == "tx_bias_ma" else 1
            values[quantity] = tuple(factor * scaled(quantity, page11, at - HALF + 2 * n) for n in range(_lanes(page00[210])))
            limits |= _limits(quantity, page02, threshold_at, factor)
    return values, limits


def _limits(quantity: str, page02: bytes, at: int, factor: int) -> dict[str, dict[str, float]]:
    if len(page02) < HALF:
        return {}
    return {quantity: limits_at(quantity, page02, at - HALF, lambda raw: factor * raw)}


def _lanes(absent: int) -> int:
    """Of byte 210, in which a set bit is a media lane that is not there."""
    return max((n + 1 for n in range(LANES) if not absent >> n & 1), default=0)


def _not_ready(state: int | None) -> str:
    return f"the module is in state {_STATES.get(state or 0, state)}, in which its lanes measure nothing"
