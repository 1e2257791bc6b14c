"""What a transceiver says of itself, and what its own limits say of that. Pure: text or pages in, facts out.

Modules raise alarm flags themselves, but drivers and tools pass them on wrongly now and then; so each value is compared with its
threshold here, and the flags are not read.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_QUANTITIES = ("temperature_c", "voltage_v", "tx_bias_ma", "tx_power_mw", "rx_power_mw")
_LIMITS = ("high_alarm", "low_alarm", "high_warning", "low_warning")
_EXTERNALLY_CALIBRATED = 0x10
_HAS_DIAGNOSTICS = 0x40
_PAGE_BYTES = 256

# Labels of ethtool's sfpdiag.c and qsfp.c, without the channel's number.
_LABELS = {
    "Module temperature": "temperature_c",
    "Module voltage": "voltage_v",
    "Laser bias current": "tx_bias_ma",
    "Laser tx bias current": "tx_bias_ma",
    "Laser output power": "tx_power_mw",
    "Laser tx power": "tx_power_mw",
    "Transmit avg optical power": "tx_power_mw",
    "Receiver signal average optical power": "rx_power_mw",
    "Receiver signal OMA": "rx_power_mw",
    "Rcvr signal avg optical power": "rx_power_mw",
    "Laser rx power": "rx_power_mw",
}
_LINE = re.compile(r"^\s*(?P<label>[^:]+?)\s*:\s*(?P<value>.*?)\s*$", re.MULTILINE)
_LANE = re.compile(r"\s*\(Channel (\d+)\)$")
_THRESHOLD = re.compile(r" (high|low) (alarm|warning) threshold$")


@dataclass(frozen=True)
class Finding:
    """A value beyond one of the module's own limits."""

    quantity: str
    lane: int
    """From 0; also of what a module has once, as its temperature."""
    value: float
    limit: str
    """`low_alarm` and the like."""
    threshold: float

    def __str__(self) -> str:
        name, unit = self.quantity.rsplit("_", 1)
        shown = [f"{dbm(v):.2f} dBm" if unit == "mw" and v > 0 else f"{v:g} {unit}" for v in (self.value, self.threshold)]
        way = "below" if self.limit.startswith("low") else "above"
        return f"{name.replace('_', ' ')} of lane {self.lane} is {shown[0]}, {way} its {self.limit.replace('_', ' ')} threshold {shown[1]}"


@dataclass(frozen=True)
class Optic:
    """One module. `values` is quantity → value by lane, its unit in its name; `limits` is quantity → limit → threshold."""

    vendor: str = ""
    part: str = ""
    wavelength_nm: float | None = None
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        """Every value beyond a limit; where alarm and warning are both passed, the alarm alone."""
        found = []
        for quantity, lanes in self.values.items():
            for lane, value in enumerate(lanes):
                for limit in _LIMITS:  # alarms stand first
                    threshold = self.limits.get(quantity, {}).get(limit)
                    if threshold is not None and (value > threshold if limit.startswith("high") else value < threshold):
                        found.append(Finding(quantity, lane, value, limit, threshold))
                        break
        return found

    def to_json(self) -> dict[str, Any]:
        """For the facts of a host."""
        return {**asdict(self), "values": {k: list(v) for k, v in self.values.items()}, "findings": [str(f) for f in self.findings()]}


def dbm(milliwatts: float) -> float:
    """Optical power as the logarithm that data sheets use; ethtool's JSON has milliwatts only."""
    return 10 * math.log10(milliwatts) if milliwatts > 0 else -math.inf


def of_ethtool(text: str) -> Optic | None:
    """`ethtool -m`, as text, of SFP and QSFP modules. None when it tells of no module."""
    told: dict[str, str] = {}
    values: dict[str, dict[int, float]] = {}
    limits: dict[str, dict[str, float]] = {}
    for m in _LINE.finditer(text):
        label, value = m["label"], m["value"]
        told.setdefault(label, value)
        if (threshold := _THRESHOLD.search(label)) and (quantity := _LABELS.get(label[: threshold.start()])):
            limits.setdefault(quantity, {})[f"{threshold[1]}_{threshold[2]}"] = _number(value)
        elif quantity := _LABELS.get(_LANE.sub("", label)):
            lane = int(found[1]) - 1 if (found := _LANE.search(label)) else 0
            values.setdefault(quantity, {})[lane] = _number(value)
    if "Identifier" not in told:
        return None
    wavelength = told.get("Laser wavelength", "")
    return Optic(
        vendor=told.get("Vendor name", ""),
        part=told.get("Vendor PN", ""),
        wavelength_nm=_number(wavelength) if wavelength else None,
        values={q: tuple(by_lane[lane] for lane in sorted(by_lane)) for q, by_lane in values.items()},
        limits=limits,
    )


def of_sff8472(a0: bytes, a2: bytes = b"") -> Optic:
    """The pages A0h and A2h of an SFP module, 256 bytes each; A2h only where the module has diagnostics (SFF-8472, tables 4-1 and 9-5).

    Raises ValueError on short pages, and on modules whose values need external calibration.
    """
    if len(a0) < _PAGE_BYTES // 2:
        raise ValueError(f"page A0h has {len(a0)} bytes; 128 at least are needed")
    vendor, part = (a0[at : at + 16].decode("ascii", "replace").strip() for at in (20, 40))
    optic = Optic(vendor, part, float(int.from_bytes(a0[60:62], "big")))
    if not a0[92] & _HAS_DIAGNOSTICS or not a2:
        return optic
    if a0[92] & _EXTERNALLY_CALIBRATED:
        raise ValueError("the module's values need external calibration, which is not read")
    if len(a2) < 106:  # noqa: PLR2004 the end of the last value, byte 105
        raise ValueError(f"page A2h has {len(a2)} bytes; 106 at least are needed")
    limits = {
        quantity: dict(zip(_LIMITS, (_scaled(quantity, a2, 8 * i + 2 * j) for j in range(4)), strict=True))
        for i, quantity in enumerate(_QUANTITIES)
    }
    values = {quantity: (_scaled(quantity, a2, 96 + 2 * i),) for i, quantity in enumerate(_QUANTITIES)}
    return Optic(optic.vendor, optic.part, optic.wavelength_nm, values, limits)


def _scaled(quantity: str, page: bytes, at: int) -> float:
    """Two bytes in the units of SFF-8472 section 9.2: 1/256 °C signed, 100 µV, 2 µA, 0.1 µW."""
    if quantity == "temperature_c":
        return float(struct.unpack_from(">h", page, at)[0]) / 256
    divisor = {"voltage_v": 10_000, "tx_bias_ma": 500}.get(quantity, 10_000)
    return float(struct.unpack_from(">H", page, at)[0]) / divisor


def _number(text: str) -> float:
    m = re.match(r"-?\d+(?:\.\d+)?", text)
    return float(m[0]) if m else math.nan
