"""What the pages of all modules have in common: identifiers, and how a value is stored in two bytes. Bytes in, facts out."""

from __future__ import annotations

import struct
from collections.abc import Callable

from dutlab.hosts.optics.optic import LIMITS

PAGE_BYTES = 256
HALF = 128
"""A lower or an upper page of a module that has many."""

# SFF-8024 tables 4-1 and 4-3.
SFP = 0x03
SFF8636_FORMS = {0x0C: "QSFP", 0x0D: "QSFP+", 0x11: "QSFP28"}
CMIS_FORMS = {0x18: "QSFP-DD", 0x19: "OSFP", 0x1B: "DSFP", 0x1E: "QSFP (CMIS)", 0x1F: "SFP-DD", 0x20: "SFP (CMIS)"}
CONNECTORS = {
    0x01: "SC",
    0x07: "LC",
    0x0B: "Optical pigtail",
    0x0C: "MPO 1x12",
    0x21: "Copper pigtail",
    0x22: "RJ45",
    0x23: "No separable connector",
    0x24: "MXC 2x16",
    0x25: "CS",
    0x26: "SN",
    0x27: "MPO 2x12",
    0x28: "MPO 1x16",
}

Calibration = Callable[[float], float]


def as_it_is(raw: float) -> float:
    """Of a module that stores values."""
    return raw


def limits_at(quantity: str, page: bytes, at: int, calibrate: Calibration = as_it_is) -> dict[str, float]:
    """Four thresholds one behind the other."""
    return {limit: scaled(quantity, page, at + 2 * i, calibrate) for i, limit in enumerate(LIMITS)}


def scaled(quantity: str, page: bytes, at: int, calibrate: Calibration = as_it_is) -> float:
    """Two bytes in the units of SFF-8472 section 9.2, SFF-8636 section 6.2.4 and CMIS: 1/256 °C signed, 100 µV, 2 µA, 0.1 µW."""
    if quantity == "temperature_c":
        return calibrate(float(struct.unpack_from(">h", page, at)[0])) / 256
    return calibrate(float(struct.unpack_from(">H", page, at)[0])) / (500 if quantity == "tx_bias_ma" else 10_000)


def text(field: bytes) -> str:
    """ASCII, filled up with spaces or zeros."""
    return field.decode("ascii", "replace").strip(" \0")
