"""Parser of `ethtool -m`, as text and as JSON.

JSON came with ethtool 6.13 and has changed since: at first a measured value and its thresholds had the same key, and received power was a
list before it was an object. All of these forms are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from dutlab.systems.optics.optic import LIMITS, Optic, made_on

# Modules with CMIS (QSFP-DD, OSFP and similar): identifiers of SFF-8024 table 4-1, states of OIF-CMIS 5.0 table 6-2.
_CMIS_FORMS = {0x18: "QSFP-DD", 0x19: "OSFP", 0x1B: "DSFP", 0x1E: "QSFP (CMIS)", 0x1F: "SFP-DD", 0x20: "SFP (CMIS)"}
_READY = 3
_STATES = {1: "ModuleLowPwr", 2: "ModulePwrUp", _READY: "ModuleReady", 4: "ModulePwrDn", 5: "ModuleFault"}
_LANE_COUNTS = (1, 2, 4)
_OF_LANES = frozenset({"tx_power_mw", "tx_bias_ma", "rx_power_mw"})

# Labels of ethtool's sfpdiag.c, qsfp.c and cmis.c, without the channel number; the JSON keys are the same in lower case with underscores.
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
    "Rx power": "rx_power_mw",
    "Laser rx power": "rx_power_mw",
}
_KEYS = {label.lower().replace(" ", "_"): quantity for label, quantity in _LABELS.items()}
_LINE = re.compile(r"^\s*(?P<label>[^:]+?)\s*:\s*(?P<value>.*?)\s*$", re.MULTILINE)
_LANE = re.compile(r"\s*\(Channel (\d+)\)$")
_THRESHOLD = re.compile(r" (high|low) (alarm|warning) threshold$")
_IN_BRACKETS = re.compile(r"0x([0-9a-f]+) \((.*)\)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_BEYOND = 1e9
"""Limit of plausible values in any unit; larger ones are errors of the module."""
_ETHERNET = (re.compile(r"Extended: (.*)"), re.compile(r"100G Ethernet: (.*)"), re.compile(r"(?:10G |40G )?Ethernet: (.*)"))
"""Patterns of types, best first: the codes of SFF-8024 table 4-4 are the newest, and modules of 10GBASE-T or 25G also name older types."""
_CABLES = ("Passive Cable", "Active Cable")

Pairs = list[tuple[str, Any]]
"""JSON object with all of its keys, including duplicates."""


def of_ethtool(text: str) -> Optic | None:
    """Parse `ethtool -m` or `ethtool --json -m`, of SFP, QSFP and CMIS modules. None where it shows no module."""
    if text.lstrip().startswith("["):
        return _of_json(text)
    value_by_label: dict[str, str] = {}
    types: list[str] = []
    values: dict[str, dict[int, float]] = {}
    limits: dict[str, dict[str, float]] = {}
    for m in _LINE.finditer(text):
        label, value = m["label"], m["value"]
        value_by_label.setdefault(label, value)
        if label == "Transceiver type":
            types.append(value)
        number = _number(value)
        if (threshold := _THRESHOLD.search(label)) and (quantity := _LABELS.get(label[: threshold.start()])):
            if number is not None:
                limits.setdefault(quantity, {})[f"{threshold[1]}_{threshold[2]}"] = number
        elif (quantity := _LABELS.get(_LANE.sub("", label))) and number is not None:
            lane = int(match[1]) - 1 if (match := _LANE.search(label)) else 0
            values.setdefault(quantity, {})[lane] = number
    if "Identifier" not in value_by_label:
        return None
    return _there(Optic(
        form=_form(_code(value_by_label["Identifier"]), _bracketed(value_by_label["Identifier"])),
        kind=_kind(types),
        connector=_bracketed(value_by_label.get("Connector", "")),
        vendor=value_by_label.get("Vendor name", ""),
        part=value_by_label.get("Vendor PN", ""),
        serial=value_by_label.get("Vendor SN", ""),
        made=made_on(value_by_label.get("Date code", "")),
        wavelength_nm=_number(value_by_label.get("Laser wavelength", "")) or None,
        values={q: tuple(by_lane[lane] for lane in sorted(by_lane)) for q, by_lane in values.items()},
        limits=limits,
    ), _code(value_by_label.get("Module State", "")))  # fmt: skip


def _of_json(text: str) -> Optic | None:
    try:
        modules: list[Any] = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    except ValueError:
        return None
    pairs: Pairs = [pair for pair in (modules[0] if modules and isinstance(modules[0], list) else []) if isinstance(pair, tuple)]
    value_by_key = {k: v for k, v in reversed(pairs) if isinstance(v, str | int | float)}
    if "identifier" not in value_by_key:
        return None
    values: dict[str, tuple[float, ...]] = {}
    limits: dict[str, dict[str, float]] = {}
    for key, value in pairs:
        quantity = _KEYS.get(re.sub(r"_(measurement|thresholds?)$", "", key))
        if quantity is None:
            continue
        if measured := _numbers(value):
            values[quantity] = (*values.get(quantity, ()), *measured)  # each bank of a CMIS module repeats the key
        elif isinstance(value, list) and (thresholds := _limits(value)):
            limits[quantity] = thresholds
    state, code = value_by_key.get("module_state"), value_by_key["identifier"]
    return _there(Optic(
        form=_form(code if isinstance(code, int) else None, str(value_by_key.get("identifier_description", ""))),
        kind=_kind([str(v) for k, v in pairs if k == "transceiver_type"]),
        connector=str(value_by_key.get("connector_description", "")),
        vendor=str(value_by_key.get("vendor_name", "")).strip(),
        part=str(value_by_key.get("vendor_pn", "")).strip(),
        serial=str(value_by_key.get("vendor_sn", "")).strip(),
        made=made_on(str(value_by_key.get("date_code", ""))),
        wavelength_nm=next(iter(_numbers(value_by_key.get("laser_wavelength"))), 0.0) or None,
        values=values,
        limits=limits,
    ), state if isinstance(state, int) else None)  # fmt: skip


def _lanes_there(values: Mapping[str, tuple[float, ...]], state: int | None) -> tuple[dict[str, tuple[float, ...]], str]:
    """Return ethtool's values without lanes that the module lacks, and the reason for missing ones.

    ethtool prints eight lanes for every module. Dark lanes without bias at the end are taken as absent if 1, 2 or 4 lanes remain. `state`
    is that of the module, None if ethtool does not print it.
    """
    if state not in (None, _READY):
        return {q: of for q, of in values.items() if q not in _OF_LANES}, _not_ready(state)
    printed = [of for q, of in values.items() if q in _OF_LANES]
    lit = max((n + 1 for of in printed for n, value in enumerate(of) if value), default=0)
    if lit not in _LANE_COUNTS or all(len(of) <= lit for of in printed):
        return dict(values), ""
    return {q: of[:lit] if q in _OF_LANES else of for q, of in values.items()}, f"all after lane {lit} measure nothing: taken as absent"


def _not_ready(state: int | None) -> str:
    return f"the module is in state {_STATES.get(state or 0, state)}, in which its lanes measure nothing"


def _there(optic: Optic, state: int | None) -> Optic:
    """Return a CMIS module without lanes that ethtool prints although the module lacks them."""
    if optic.form not in _CMIS_FORMS.values():
        return optic
    values, note = _lanes_there(optic.values, state)
    return replace(optic, values=values, note=note)


def _form(code: int | None, text: str) -> str:
    """Return the form factor; ethtool prints a sentence for a CMIS module."""
    return _CMIS_FORMS.get(code or 0, text)


def _numbers(value: Any) -> tuple[float, ...]:  # noqa: ANN401 whatever JSON holds
    """Return a measured value as numbers: one number, one per lane, or an object with either."""
    if isinstance(value, list) and value and all(isinstance(v, tuple) for v in value):
        inside = dict(value)
        return _numbers(inside.get("values", inside.get("value")))
    lanes = value if isinstance(value, list) else [value]
    return tuple(float(v) for v in lanes if _is_number(v))


def _limits(pairs: Pairs) -> dict[str, float]:
    thresholds = {str(p[0]).removesuffix("_threshold"): p[1] for p in pairs if isinstance(p, tuple)}
    return {k: float(v) for k, v in thresholds.items() if k in LIMITS and _is_number(v)}


def _is_number(value: Any) -> bool:  # noqa: ANN401 whatever JSON holds
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _BEYOND


def _bracketed(text: str) -> str:
    """Return the text in brackets: `0x07 (LC)` → `LC`."""
    m = _IN_BRACKETS.match(text)
    return m[2] if m else text


def _code(text: str) -> int | None:
    """Return the number before the brackets: `0x07 (LC)` → 7."""
    m = _IN_BRACKETS.match(text)
    return int(m[1], 16) if m else None


def _kind(types: Sequence[str]) -> str:
    """Return the Ethernet type (modules also name Fibre Channel types); else the kind of cable."""
    of_ethernet = (m[1] for pattern in _ETHERNET for name in types if (m := pattern.match(name)) and "unknown" not in m[1])
    return next(chain(of_ethernet, (name for name in types if name in _CABLES)), "")


def _number(text: str) -> float | None:
    m = _NUMBER.match(text)
    number = float(m[0]) if m else None
    return number if _is_number(number) else None
