"""Transceiver: its data, and its readings compared with its own thresholds. Pure.

Modules have alarm flags, but drivers and tools sometimes report them wrongly. So each value is compared with its threshold here, and the
flags are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

LIMITS = ("high_alarm", "low_alarm", "high_warning", "low_warning")
"""Names of thresholds, in the order in which modules store them (SFF-8472 table 9-5, SFF-8636 table 6-28)."""
DARK = "dark"
"""Name in place of a threshold: no light, for a module without thresholds."""
_RECEIVED = "rx_power_mw"
_OF_LIGHT = frozenset({_RECEIVED, "tx_power_mw", "tx_bias_ma"})
_COPPER_CONNECTORS = frozenset({"RJ45", "Copper pigtail"})
_COPPER = re.compile(r"Base-(T|CR\d*|CX4?)\b|Passive Cable|Active Cable", re.IGNORECASE)
_BRIGHTEST_DBM = 100.0
"""Largest plausible power, ten megawatts; larger values are errors of the module."""


@dataclass(frozen=True)
class OpticFinding:
    """Value beyond one of the module's own thresholds."""

    quantity: str
    lane: int
    """Lane from 1, as on modules and switches; also 1 for values of the whole module, such as its temperature."""
    value: float
    limit: str
    """Name of the threshold, such as `low_alarm`; DARK without thresholds."""
    threshold: float

    def __str__(self) -> str:
        if self.limit == DARK:
            return f"no light is received on lane {self.lane}"
        name, unit = self.quantity.rsplit("_", 1)
        shown = [f"{dbm(v):.2f} dBm" if unit == "mw" else f"{v:g} {unit}" for v in (self.value, self.threshold)]
        way = "below" if self.limit.startswith("low") else "above"
        return f"{name.replace('_', ' ')} of lane {self.lane} is {shown[0]}, {way} its {self.limit.replace('_', ' ')} threshold {shown[1]}"


@dataclass(frozen=True)
class Optic:
    """One module. `values` is quantity (with its unit) → value by lane; `limits` is quantity → limit → threshold."""

    form: str = ""
    """Form factor, from its identifier: `SFP`, `QSFP28`."""
    kind: str = ""
    """Ethernet type: `10G Base-SR`."""
    connector: str = ""
    vendor: str = ""
    part: str = ""
    serial: str = ""
    made: str = ""
    """Date of manufacture, as YYYY-MM-DD or in the module's format."""
    wavelength_nm: float | None = None
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    note: str = ""
    """Reason for missing values."""

    def findings(self) -> list[OpticFinding]:
        """Return every value beyond a threshold; an alarm replaces a warning. A dark lane is a finding even without thresholds.

        Thresholds that are all 0 belong to a module without thresholds.
        """
        results = []
        for quantity, lanes in self.values.items():
            limits = self.limits.get(quantity, {})
            if not any(limits.values()):
                if quantity == _RECEIVED:
                    results += [OpticFinding(quantity, lane, value, DARK, 0.0) for lane, value in enumerate(lanes, 1) if not value]
                continue
            for lane, value in enumerate(lanes, 1):
                for limit in LIMITS:  # alarms come first
                    threshold = limits.get(limit)
                    if threshold is not None and (value > threshold if limit.startswith("high") else value < threshold):
                        results.append(OpticFinding(quantity, lane, value, limit, threshold))
                        break
        return results

    @property
    def is_copper(self) -> bool:
        """True for a cable with plugs or a module for twisted pairs, which have no light."""
        return self.connector in _COPPER_CONNECTORS or _COPPER.search(self.kind) is not None

    def to_json(self) -> dict[str, Any]:
        """Return the values for the facts of a host."""
        return {**asdict(self), "values": {k: list(v) for k, v in self.values.items()}, "findings": [str(f) for f in self.findings()]}


_CONTRADICTORY = 2
"""Number of quantities with contradictory thresholds from which no threshold counts."""
_LEAST_VOLTS, _MOST_VOLTS = 2.0, 5.0
"""Bounds of a module's supply, which is 3.3 V. Beyond them the driver has read another page than that of the diagnostics."""


def readable(optic: Optic) -> Optic:
    """Return the module without values that cannot be measurements.

    Optical values of copper are removed: its registers have zeros, and thresholds copied from other modules. Some drivers return another
    page of the module in place of its diagnostics: then thresholds contradict one another, and the supply voltage is impossible.
    """
    if sum(map(_contradict, optic.limits.values())) >= _CONTRADICTORY:
        is_supplied = all(_LEAST_VOLTS < volts < _MOST_VOLTS for volts in optic.values.get("voltage_v", ()))
        note = "its thresholds contradict one another" + ("" if is_supplied else ": the driver did not read the page of its diagnostics")
        optic = replace(optic, values=optic.values if is_supplied else {}, limits={}, note=note)
    if not optic.is_copper:
        return optic
    values = {q: of for q, of in optic.values.items() if q not in _OF_LIGHT}
    return replace(optic, values=values, limits={q: of for q, of in optic.limits.items() if q in values}, wavelength_nm=None)


def _contradict(limits: Mapping[str, float]) -> bool:
    ascending = [limits[name] for name in ("low_alarm", "low_warning", "high_warning", "high_alarm") if name in limits]
    return ascending != sorted(ascending)


def dbm(milliwatts: float) -> float:
    """Return optical power in dBm, as in data sheets; ethtool's JSON has only milliwatts."""
    return 10 * math.log10(milliwatts) if milliwatts > 0 else -math.inf


def milliwatts(decibels: float) -> float:
    """Return dBm in milliwatts, rounded to the 0.1 µW of modules' registers."""
    return round(10 ** (min(decibels, _BRIGHTEST_DBM) / 10), 4)


def made_on(date_code: str) -> str:
    """Return the date in YYMMDD of a module, which a lot code may follow (SFF-8472 table 4-1, bytes 84 to 91)."""
    code = date_code.strip()
    return f"20{code[:2]}-{code[2:4]}-{code[4:6]}" if code[:6].isdigit() and len(code) >= len("YYMMDD") else code
