"""The pages that a module holds: SFF-8472 for SFP, SFF-8636 for QSFP; those of CMIS are in cmis.py. Bytes in, facts out."""

from __future__ import annotations

import math
import struct

from dutlab.hosts.optics.cells import (
    CMIS_FORMS,
    CONNECTORS,
    HALF,
    PAGE_BYTES,
    SFF8636_FORMS,
    SFP,
    Calibration,
    as_it_is,
    limits_at,
    scaled,
    text,
)
from dutlab.hosts.optics.cmis import of_cmis
from dutlab.hosts.optics.optic import QUANTITIES, Optic, made_on

LANES = 4
_LAST_VALUE = 106
"""Of A2h: the first byte behind the values (SFF-8472 table 9-16)."""
_LAST_CONSTANT = 92
_EXTERNALLY_CALIBRATED = 0x10
_HAS_DIAGNOSTICS = 0x40
_SFP_CABLE = 0x0C
"""Byte 8: passive or active copper cable; bytes 60 and 61 are then no wavelength."""
_QSFP_COPPER = 0xA0
"""Byte 147, upper half: this and above are copper (SFF-8636 table 6-20)."""
_NOT_READY = 0x01

# Byte 3 and byte 6 of SFF-8472 (table 5-3), byte 131 of SFF-8636 (table 6-17), from the highest bit down.
_SFP_10G = ("10G Base-ER", "10G Base-LRM", "10G Base-LR", "10G Base-SR")
_SFP_1G = ("BASE-PX", "BASE-BX10", "100BASE-FX", "100BASE-LX/LX10", "1000BASE-T", "1000BASE-CX", "1000BASE-LX", "1000BASE-SX")
_QSFP = ("", "10GBASE-LRM", "10GBASE-LR", "10GBASE-SR", "40GBASE-CR4", "40GBASE-SR4", "40GBASE-LR4", "40G Active Cable")
# Where SFF-8636 keeps each quantity: the first lane's value in the lower page, the thresholds in the upper half of page 03h.
_QSFP_PLACES = {
    "temperature_c": (22, 128),
    "voltage_v": (26, 144),
    "tx_bias_ma": (42, 184),
    "tx_power_mw": (50, 192),
    "rx_power_mw": (34, 176),
}
_OF_THE_MODULE = ("temperature_c", "voltage_v")


def of_dump(raw: bytes) -> Optic:
    """`ethtool -m IFACE raw on`: the pages one behind the other, as drivers hand them out.

    Of CMIS the lower memory and the upper pages 00h, 01h, 02h, 10h and 11h (drivers/net/ethernet/mellanox/mlxsw/core_env.c), or as many of
    them as there are. Raises ValueError on a module of another kind, and on a dump that is too short.
    """
    kind = raw[0] if raw else None
    upper = [raw[at : at + HALF] for at in range(PAGE_BYTES, PAGE_BYTES + 4 * HALF, HALF)]
    if kind == SFP:
        return of_sff8472(raw[:PAGE_BYTES], raw[PAGE_BYTES : 2 * PAGE_BYTES])
    if kind in SFF8636_FORMS:
        return of_sff8636(raw[:PAGE_BYTES], upper[2])  # pages 01h and 02h lie between
    if kind in CMIS_FORMS:
        return of_cmis(raw[:PAGE_BYTES], upper[0], upper[1], upper[3])
    known = "SFP (03), QSFP (0c, 0d, 11) nor one with CMIS (18, 19, 1b, 1e, 1f, 20)"
    raise ValueError(f"identifier {raw[:1].hex() or 'missing'}: neither {known}")


def of_sff8472(a0: bytes, a2: bytes = b"") -> Optic:
    """The pages A0h and A2h of an SFP module, 256 bytes each; A2h only where the module has diagnostics (SFF-8472, tables 4-1 and 9-5).

    Raises ValueError on short pages.
    """
    if len(a0) < HALF:
        raise ValueError(f"page A0h has {len(a0)} bytes; 128 at least are needed")
    values: dict[str, tuple[float, ...]] = {}
    limits: dict[str, dict[str, float]] = {}
    if a0[92] & _HAS_DIAGNOSTICS and a2:
        if len(a2) < _LAST_VALUE:
            raise ValueError(f"page A2h has {len(a2)} bytes; {_LAST_VALUE} at least are needed")
        calibrate = _external(a2) if a0[92] & _EXTERNALLY_CALIBRATED else dict.fromkeys(QUANTITIES, as_it_is)
        for i, quantity in enumerate(QUANTITIES):
            values[quantity] = (scaled(quantity, a2, 96 + 2 * i, calibrate[quantity]),)
            limits[quantity] = limits_at(quantity, a2, 8 * i, calibrate[quantity])
    return Optic(
        form="SFP",
        kind=_first_bit((*_SFP_10G, "", "", "", ""), a0[3]) or _first_bit(_SFP_1G, a0[6]),
        connector=CONNECTORS.get(a0[2], ""),
        vendor=text(a0[20:36]),
        part=text(a0[40:56]),
        serial=text(a0[68:84]),
        made=made_on(text(a0[84:92])),
        wavelength_nm=None if a0[8] & _SFP_CABLE else float(int.from_bytes(a0[60:62], "big")) or None,
        values=values,
        limits=limits,
    )


def of_sff8636(page00: bytes, page03: bytes = b"") -> Optic:
    """The lower page with upper page 00h of a QSFP module, 256 bytes, and upper page 03h, 128 bytes, where it has one.

    A module whose temperature reads 0 or -1/256 measures nothing, as ethtool has it. Raises ValueError on short pages.
    """
    if len(page00) < PAGE_BYTES:
        raise ValueError(f"page 00h has {len(page00)} bytes with the lower page; {PAGE_BYTES} are needed")
    values: dict[str, tuple[float, ...]] = {}
    limits: dict[str, dict[str, float]] = {}
    ready = not page00[2] & _NOT_READY
    if ready and page00[22:24] not in (b"\0\0", b"\xff\xff"):
        for quantity, (at, threshold_at) in _QSFP_PLACES.items():
            lanes = 1 if quantity in _OF_THE_MODULE else LANES
            values[quantity] = tuple(scaled(quantity, page00, at + 2 * lane) for lane in range(lanes))
            if len(page03) >= HALF:
                limits[quantity] = limits_at(quantity, page03, threshold_at - HALF)
    copper = page00[147] & 0xF0 >= _QSFP_COPPER
    return Optic(
        form=SFF8636_FORMS.get(page00[0], ""),
        kind=_first_bit(_QSFP, page00[131]),
        connector=CONNECTORS.get(page00[130], ""),
        vendor=text(page00[148:164]),
        part=text(page00[168:184]),
        serial=text(page00[196:212]),
        made=made_on(text(page00[212:220])),
        wavelength_nm=None if copper else int.from_bytes(page00[186:188], "big") / 20 or None,
        values=values,
        limits=limits,
        note="" if ready else "the module's values were not ready",
    )


def _external(a2: bytes) -> dict[str, Calibration]:
    """Of a module that stores raw counts: what makes values and thresholds of them (SFF-8472 section 9.3, table 9-6)."""
    if len(a2) < _LAST_CONSTANT:
        raise ValueError(f"page A2h has {len(a2)} bytes; the calibration needs {_LAST_CONSTANT}")
    powers = struct.unpack_from(">5f", a2, 56)  # of the received power's polynomial, the highest first

    def line(at: int) -> Calibration:
        slope, offset = struct.unpack_from(">Hh", a2, at)
        return lambda raw: slope / 256 * raw + offset

    def received(raw: float) -> float:
        total = 0.0
        for factor in powers:
            total = total * raw + factor
        return total if math.isfinite(total) else 0.0  # constants that were never written

    return {"tx_bias_ma": line(76), "tx_power_mw": line(80), "temperature_c": line(84), "voltage_v": line(88), "rx_power_mw": received}


def _first_bit(names: tuple[str, ...], byte: int) -> str:
    """The name of the highest bit that is set."""
    return next((name for i, name in enumerate(names) if byte & 0x80 >> i and name), "")
