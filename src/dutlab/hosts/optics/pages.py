"""The pages that a module holds: SFF-8472 for SFP, SFF-8636 for QSFP. Bytes in, facts out."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from dutlab.hosts.optics.optic import LIMITS, QUANTITIES, Optic, made_on

PAGE_BYTES = 256
LANES = 4
_HALF = 128
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

# SFF-8024 tables 4-1 and 4-3.
_FORMS = {0x03: "SFP", 0x0C: "QSFP", 0x0D: "QSFP+", 0x11: "QSFP28"}
_CONNECTORS = {
    0x01: "SC",
    0x07: "LC",
    0x0B: "Optical pigtail",
    0x0C: "MPO 1x12",
    0x21: "Copper pigtail",
    0x22: "RJ45",
    0x23: "No separable connector",
}
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

Calibration = Callable[[float], float]


def of_dump(raw: bytes) -> Optic:
    """`ethtool -m IFACE raw on`: the pages one behind the other, as drivers hand them out.

    Raises ValueError on a module of another kind, and on a dump that is too short.
    """
    if raw[:1] == b"\x03":
        return of_sff8472(raw[:PAGE_BYTES], raw[PAGE_BYTES : 2 * PAGE_BYTES])
    if raw[:1] and raw[0] in _FORMS:
        return of_sff8636(raw[:PAGE_BYTES], raw[PAGE_BYTES + 2 * _HALF : PAGE_BYTES + 3 * _HALF])  # pages 01h and 02h lie between
    raise ValueError(f"identifier {raw[:1].hex() or 'missing'}: neither SFP (03) nor QSFP (0c, 0d, 11)")


def of_sff8472(a0: bytes, a2: bytes = b"") -> Optic:
    """The pages A0h and A2h of an SFP module, 256 bytes each; A2h only where the module has diagnostics (SFF-8472, tables 4-1 and 9-5).

    Raises ValueError on short pages.
    """
    if len(a0) < _HALF:
        raise ValueError(f"page A0h has {len(a0)} bytes; 128 at least are needed")
    values: dict[str, tuple[float, ...]] = {}
    limits: dict[str, dict[str, float]] = {}
    if a0[92] & _HAS_DIAGNOSTICS and a2:
        if len(a2) < _LAST_VALUE:
            raise ValueError(f"page A2h has {len(a2)} bytes; {_LAST_VALUE} at least are needed")
        calibrate = _external(a2) if a0[92] & _EXTERNALLY_CALIBRATED else dict.fromkeys(QUANTITIES, _as_it_is)
        for i, quantity in enumerate(QUANTITIES):
            values[quantity] = (_scaled(quantity, a2, 96 + 2 * i, calibrate[quantity]),)
            limits[quantity] = _limits(quantity, a2, 8 * i, calibrate[quantity])
    return Optic(
        form=_FORMS.get(a0[0], ""),
        kind=_first_bit((*_SFP_10G, "", "", "", ""), a0[3]) or _first_bit(_SFP_1G, a0[6]),
        connector=_CONNECTORS.get(a0[2], ""),
        vendor=_text(a0[20:36]),
        part=_text(a0[40:56]),
        serial=_text(a0[68:84]),
        made=made_on(_text(a0[84:92])),
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
            values[quantity] = tuple(_scaled(quantity, page00, at + 2 * lane) for lane in range(lanes))
            if len(page03) >= _HALF:
                limits[quantity] = _limits(quantity, page03, threshold_at - _HALF)
    copper = page00[147] & 0xF0 >= _QSFP_COPPER
    return Optic(
        form=_FORMS.get(page00[0], ""),
        kind=_first_bit(_QSFP, page00[131]),
        connector=_CONNECTORS.get(page00[130], ""),
        vendor=_text(page00[148:164]),
        part=_text(page00[168:184]),
        serial=_text(page00[196:212]),
        made=made_on(_text(page00[212:220])),
        wavelength_nm=None if copper else int.from_bytes(page00[186:188], "big") / 20 or None,
        values=values,
        limits=limits,
        note="" if ready else "the module's values were not ready",
    )


def _as_it_is(raw: float) -> float:
    return raw


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


def _limits(quantity: str, page: bytes, at: int, calibrate: Calibration = _as_it_is) -> dict[str, float]:
    return {limit: _scaled(quantity, page, at + 2 * i, calibrate) for i, limit in enumerate(LIMITS)}


def _scaled(quantity: str, page: bytes, at: int, calibrate: Calibration = _as_it_is) -> float:
    """Two bytes in the units of SFF-8472 section 9.2 and SFF-8636 section 6.2.4: 1/256 °C signed, 100 µV, 2 µA, 0.1 µW."""
    if quantity == "temperature_c":
        return calibrate(float(struct.unpack_from(">h", page, at)[0])) / 256
    return calibrate(float(struct.unpack_from(">H", page, at)[0])) / (500 if quantity == "tx_bias_ma" else 10_000)


def _text(field: bytes) -> str:
    return field.decode("ascii", "replace").strip(" \0")


def _first_bit(names: tuple[str, ...], byte: int) -> str:
    """The name of the highest bit that is set."""
    return next((name for i, name in enumerate(names) if byte & 0x80 >> i and name), "")
