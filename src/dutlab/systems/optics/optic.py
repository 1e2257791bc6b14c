"""A transceiver: its data, and its readings against its own limits. Pure.

Modules raise alarm flags themselves, but drivers and tools pass them on wrongly now and then; so each value is compared with its
threshold here, and the flags are not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

LIMITS = ("high_alarm", "low_alarm", "high_warning", "low_warning")
"""In the order in which modules store them (SFF-8472 table 9-5, SFF-8636 table 6-28)."""
DARK = "dark"
"""In place of a limit: no light at all, for a module without thresholds."""
_RECEIVED = "rx_power_mw"
_OF_LIGHT = frozenset({_RECEIVED, "tx_power_mw", "tx_bias_ma"})
_COPPER_CONNECTORS = frozenset({"RJ45", "Copper pigtail"})
_COPPER = re.compile(r"Base-(T|CR\d*|CX4?)\b|Passive Cable|Active Cable", re.IGNORECASE)
_BRIGHTEST_DBM = 100.0
"""Ten megawatts; more is not power but a misprint."""


@dataclass(frozen=True)
class OpticFinding:
    """A value beyond one of the module's own limits."""

    quantity: str
    lane: int
    """From 1, as modules and switches count; also of what a module has once, as its temperature."""
    value: float
    limit: str
    """`low_alarm` and the like; DARK without a threshold."""
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
    """One module. `values` is quantity → value by lane, its unit in its name; `limits` is quantity → limit → threshold."""

    form: str = ""
    """Form by its identifier: `SFP`, `QSFP28`."""
    kind: str = ""
    """Ethernet type: `10G Base-SR`."""
    connector: str = ""
    vendor: str = ""
    part: str = ""
    serial: str = ""
    made: str = ""
    """YYYY-MM-DD, or as the module has it."""
    wavelength_nm: float | None = None
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    note: str = ""
    """Why there is less here than the module has."""

    def findings(self) -> list[OpticFinding]:
        """Every value beyond a limit; where alarm and warning are both passed, the alarm alone. Darkness needs no limit.

        Limits that are all 0 are those of a module that has none.
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
        """A cable with plugs, or a module for twisted pairs: there is no light in it."""
        return self.connector in _COPPER_CONNECTORS or _COPPER.search(self.kind) is not None

    def to_json(self) -> dict[str, Any]:
        """For the facts of a host."""
        return {**asdict(self), "values": {k: list(v) for k, v in self.values.items()}, "findings": [str(f) for f in self.findings()]}


def readable(optic: Optic) -> Optic:
    """Without what a module of copper prints of light: its registers hold zeros, and thresholds of whatever they were copied from."""
    if not optic.is_copper:
        return optic
    values = {q: of for q, of in optic.values.items() if q not in _OF_LIGHT}
    return replace(optic, values=values, limits={q: of for q, of in optic.limits.items() if q in values}, wavelength_nm=None)


def dbm(milliwatts: float) -> float:
    """Optical power as the logarithm that data sheets use; ethtool's JSON has milliwatts only."""
    return 10 * math.log10(milliwatts) if milliwatts > 0 else -math.inf


def milliwatts(decibels: float) -> float:
    """The inverse, to the 0.1 µW in which modules count."""
    return round(10 ** (min(decibels, _BRIGHTEST_DBM) / 10), 4)


def made_on(date_code: str) -> str:
    """YYMMDD of a module, perhaps with a lot behind it (SFF-8472 table 4-1, bytes 84 to 91)."""
    code = date_code.strip()
    return f"20{code[:2]}-{code[2:4]}-{code[4:6]}" if code[:6].isdigit() and len(code) >= len("YYMMDD") else code
