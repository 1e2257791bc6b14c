"""Parser of ifconfig about a transceiver, on FreeBSD (`ifconfig -vvv IFACE`) and OpenBSD (`ifconfig IFACE sff`).

FreeBSD prints no thresholds, and no transmitted power of an SFP since version 13; OpenBSD prints thresholds of alarms. Alarm flags of both
are ignored. Sources: sbin/ifconfig/sfp.c and sbin/ifconfig/sff.c.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dutlab.systems.optics.optic import Optic, milliwatts

_PLUGGED = re.compile(r"^\s*plugged: (?P<form>\S+) (?P<kind>.*) \((?P<connector>[^()]*)\)$", re.MULTILINE)
_VENDOR = re.compile(r"^\s*vendor: (?P<vendor>.*) PN: (?P<part>.*) SN: (?P<serial>.*) DATE: (?P<made>.*?)\s*$", re.MULTILINE)
_MODULE = re.compile(
    r"^\s*module temperature: (?P<temperature>-?\d+\.\d+) C voltage: (?P<voltage>\d+\.\d+) Volts", re.MULTILINE | re.IGNORECASE
)
_LANE = re.compile(
    r"^\s*(?:lane (?P<lane>\d+): )?RX(?: power)?: .*?\((?P<rx>-?inf|-?\d+\.\d+) dBm\) TX(?: (?P<bias>bias))?: (?P<tx>.*)$", re.MULTILINE
)
_DUMP = re.compile(r"DUMP \(0xA0 0\.\.127 range\):\s*\n(?P<bytes>(?:\s*(?:[0-9a-f]{2}(?:\s+|\Z)){16})+)", re.IGNORECASE)

_COPPER = 0x0C
"""Bits of byte 8 of page A0h: passive or active cable."""

_TRANSCEIVER = re.compile(r"^\s*transceiver: (?P<form>\S+)(?: (?P<connector>[^,\n]+))?(?:, (?P<wavelength>\d+) nm)?", re.MULTILINE)
_MODEL = re.compile(r"^\s*model: (?P<vendor>.*?) ?(?P<part>\S+)(?: rev (?P<rev>.*?))?\s*$", re.MULTILINE)
_SERIAL = re.compile(r"^\s*serial: (?P<serial>\S+?),? date: (?P<made>\S+)", re.MULTILINE)
_CHANNEL = re.compile(r"^\s*channel (\d+)")
_VALUE = re.compile(
    r"(?P<name>voltage|bias current|temp|tx|rx): (?P<value>-?inf|-?\d+\.\d+) (?P<unit>V|mA|C|dBm)"
    r"(?: \(low (?P<low>-?inf|-?\d+\.\d+) \S+, high (?P<high>-?inf|-?\d+\.\d+) \S+\))?"
)
_QUANTITIES = {"voltage": "voltage_v", "bias current": "tx_bias_ma", "temp": "temperature_c", "tx": "tx_power_mw", "rx": "rx_power_mw"}


def of_freebsd(text: str) -> Optic | None:
    """Parse `ifconfig -v IFACE`, with one or more `v`. None where it shows no module."""
    plugged, vendor = _PLUGGED.search(text), _VENDOR.search(text)
    if plugged is None:
        return None
    values: dict[str, tuple[float, ...]] = {}
    if module := _MODULE.search(text):
        values = {"temperature_c": (float(module["temperature"]),), "voltage_v": (float(module["voltage"]),)}
    for m in _LANE.finditer(text):
        reading = re.match(r"(?P<ma>\d+\.\d+) mA", m["tx"]) if m["bias"] else re.search(r"\((?P<dbm>-?inf|-?\d+\.\d+) dBm\)", m["tx"])
        values["rx_power_mw"] = (*values.get("rx_power_mw", ()), _from_dbm(m["rx"]))
        if reading:
            name, value = ("tx_bias_ma", float(reading["ma"])) if m["bias"] else ("tx_power_mw", _from_dbm(reading["dbm"]))
            values[name] = (*values.get(name, ()), value)
    return Optic(
        form=plugged["form"],
        kind="" if plugged["kind"] == "Unknown" else plugged["kind"],
        connector=plugged["connector"],
        vendor=vendor["vendor"].strip() if vendor else "",
        part=vendor["part"].strip() if vendor else "",
        serial=vendor["serial"].strip() if vendor else "",
        made=vendor["made"] if vendor else "",
        wavelength_nm=_dumped_wavelength(text),
        values=values,
        note="FreeBSD's ifconfig prints no thresholds",
    )


def _dumped_wavelength(text: str) -> float | None:
    """Return the wavelength in page A0h, which -vvv dumps for an SFP: bytes 60 and 61; None for copper (SFF-8472 table 4-1, byte 8)."""
    m = _DUMP.search(text)
    page = bytes.fromhex("".join(m["bytes"].split())) if m else b""
    if len(page) < 128 or page[8] & _COPPER:  # noqa: PLR2004 -- the length that the dump's headline names
        return None
    return float(int.from_bytes(page[60:62], "big")) or None


def of_openbsd(text: str) -> Optic | None:
    """Parse `ifconfig IFACE sff`. None where it shows no module."""
    transceiver = _TRANSCEIVER.search(text)
    if transceiver is None:
        return None
    model, serial = _MODEL.search(text), _SERIAL.search(text)
    optic = Optic(
        form=transceiver["form"],
        connector=(transceiver["connector"] or "").strip(),
        vendor=model["vendor"].strip() if model else "",
        part=model["part"] if model else "",
        serial=serial["serial"] if serial else "",
        made=serial["made"] if serial else "",
        wavelength_nm=float(transceiver["wavelength"]) if transceiver["wavelength"] else None,
    )
    if "calibration: external" in text:
        return replace(optic, note="its values need external calibration, which OpenBSD's ifconfig does not do")
    values: dict[str, dict[int, float]] = {}
    limits: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        lane = int(match[1]) - 1 if (match := _CHANNEL.match(line)) else 0
        for m in _VALUE.finditer(line):
            quantity, read = _QUANTITIES[m["name"]], _from_dbm if m["unit"] == "dBm" else float
            values.setdefault(quantity, {})[lane] = read(m["value"])
            if m["low"]:
                limits[quantity] = {"high_alarm": read(m["high"]), "low_alarm": read(m["low"])}
    return replace(optic, values={q: tuple(by_lane[n] for n in sorted(by_lane)) for q, by_lane in values.items()}, limits=limits)


def _from_dbm(text: str) -> float:
    """Return milliwatts; `-inf dBm` is 0."""
    return 0.0 if text.endswith("inf") else milliwatts(float(text))
