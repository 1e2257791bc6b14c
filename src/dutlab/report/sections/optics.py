"""Transceivers of a testbed, or of one machine: a row per module, from the facts of hosts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dutlab.report.model.run_report import Section
from dutlab.report.model.table import Column, Row, Table

NO_DIAGNOSTICS, NO_LIMITS, GOOD = "no readings", "no thresholds", "within its limits"


@dataclass(frozen=True)
class OpticRow:
    """A module in a port. Unknown values are empty or None; values of several lanes are all kept."""

    host: str
    port: str
    form: str
    kind: str
    connector: str
    vendor: str
    part: str
    serial: str
    made: str
    wavelength_nm: float | None
    link: str
    """State of the link: `up`, `down`, or as the system reports it."""
    speed_mbps: int | None
    temperature_c: float | None
    tx_power_dbm: tuple[float | None, ...]
    """Power of each lane; None if the lane is dark."""
    rx_power_dbm: tuple[float | None, ...]
    verdict: str

    def words(self) -> dict[str, str]:
        """Return column → text, for every form of the table."""
        return {f.name: _text(getattr(self, f.name)) for f in fields(self)}


COLUMNS = tuple(f.name for f in fields(OpticRow))


def optic_rows(hosts: Mapping[str, Mapping[str, Any]]) -> list[OpticRow]:
    """Return a row for every port with a module."""
    rows = []
    for host, facts in hosts.items():
        interfaces = facts.get("interfaces")
        for port, card in interfaces.items() if isinstance(interfaces, Mapping) else ():
            if isinstance(card, Mapping) and isinstance(optic := card.get("optic"), Mapping):
                rows.append(_row(host, port, card, optic))
    return rows


def optics_section(hosts: Mapping[str, Mapping[str, Any]]) -> tuple[Section, ...]:
    """Return one section if any port has a module, else none."""
    rows = optic_rows(hosts)
    if not rows:
        return ()
    shown = [name for name in COLUMNS if any(row.words()[name] for row in rows)]
    columns = tuple(Column(head(name)) for name in shown)
    table = Table("optics", "Readings of each module against its own thresholds", columns, tuple(
        Row("", tuple(row.words()[name] for name in shown)) for row in rows
    ), first="")  # fmt: skip
    lead = "Read once, before the run. The limits are the module's own; flags that a module or a driver raises are not read."
    return (Section(slug="optics", workload="", title="Optics", lead=lead, tables=(table,)),)


def head(column: str) -> str:
    """Return a column's head: `rx_power_dbm` → `rx power, dBm`."""
    units = {"nm": "nm", "mbps": "Mb/s", "c": "°C", "dbm": "dBm"}
    name, _, unit = column.rpartition("_")
    return f"{name.replace('_', ' ')}, {units[unit]}" if unit in units else column


def _row(host: str, port: str, card: Mapping[str, Any], optic: Mapping[str, Any]) -> OpticRow:
    values = optic.get("values") or {}
    return OpticRow(
        host=host,
        port=port,
        **{name: str(optic.get(name) or "") for name in ("form", "kind", "connector", "vendor", "part", "serial", "made")},
        wavelength_nm=optic.get("wavelength_nm"),
        link=str(card.get("operstate") or ""),
        speed_mbps=card.get("speed_mbps"),
        temperature_c=next(iter(values.get("temperature_c", ())), None),
        tx_power_dbm=_dbm(values.get("tx_power_mw", ())),
        rx_power_dbm=_dbm(values.get("rx_power_mw", ())),
        verdict=_verdict(optic),
    )


def _verdict(optic: Mapping[str, Any]) -> str:
    if findings := optic.get("findings"):
        return "; ".join(findings)
    if not optic.get("values"):
        return NO_DIAGNOSTICS
    return GOOD if any(any(of.values()) for of in (optic.get("limits") or {}).values()) else NO_LIMITS


def _dbm(lanes: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(round(10 * math.log10(mw), 2) if mw > 0 else None for mw in lanes)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " / ".join("dark" if v is None else f"{v:.2f}" for v in value)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
