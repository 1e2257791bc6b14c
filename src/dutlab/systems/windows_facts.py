"""Facts of Windows by PowerShell scripts, with the names of Linux's facts: CIM classes, adapters, and the power scheme.

Names of properties are those of Microsoft's documentation of Win32_OperatingSystem, Win32_Processor, Win32_ComputerSystem, Win32_BIOS and
MSFT_NetAdapter. No value depends on the system's language; the power scheme is identified by its GUID. Never run on a machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SCRIPTS = (
    r"""
@{os=@(Get-CimInstance Win32_OperatingSystem | Select-Object Caption,Version,TotalVisibleMemorySize)
 cpu=@(Get-CimInstance Win32_Processor | Select-Object Name,NumberOfCores,NumberOfLogicalProcessors,MaxClockSpeed,CurrentClockSpeed)
 machine=@(Get-CimInstance Win32_ComputerSystem | Select-Object Manufacturer,Model)
 bios=@(Get-CimInstance Win32_BIOS | Select-Object SMBIOSBIOSVersion)
 adapters=@(Get-NetAdapter | Select-Object Name,InterfaceDescription,MacAddress,Speed,MtuSize,FullDuplex,DriverVersionString,DriverFileName)
 scheme="$(powercfg.exe /getactivescheme)"} | ConvertTo-Json -Depth 3 -Compress
""",
    r"""
$ErrorActionPreference='SilentlyContinue'
@{today=[DateTime]::UtcNow.ToString('yyyy-MM-dd',[Globalization.CultureInfo]::InvariantCulture)
 firewall=@(Get-NetFirewallProfile | Select-Object Name,Enabled)
 drivers=@(Get-NetAdapter | Select-Object Name,DriverDate)
 properties=@(Get-NetAdapterAdvancedProperty -RegistryKeyword '*InterruptModeration','*FlowControl' |
   Select-Object Name,RegistryKeyword,RegistryValue)
 rss=@(Get-NetAdapterRss | Select-Object Name,Enabled,NumberOfReceiveQueues)
 memory=@(Get-CimInstance Win32_PhysicalMemory | Select-Object DeviceLocator,Speed,ConfiguredClockSpeed)} |
   ConvertTo-Json -Depth 3 -Compress
""",
)
"""Two scripts, because cmd.exe accepts 8,191 characters; each prints an object on one line."""
_SCHEMES = {
    "381b4222-f694-41f0-9685-ff5bb260df2e": "balanced",
    "8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c": "high performance",
    "a1841308-3541-4fab-bc81-f71556f20b4a": "power saver",
}
"""GUIDs of the schemes that all versions of Windows have (Power Policy Settings)."""
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KIB = 1024
_MEGA = 10**6


def parse(text: str, names: Sequence[str]) -> dict[str, object]:
    """Return path of a fact → value, None where it is missing; adapters are those of `names`. Raises ValueError for an invalid answer."""
    parts = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not parts or not all(isinstance(part, Mapping) for part in parts):
        raise ValueError("no object of JSON")
    document = {key: value for part in parts for key, value in part.items()}
    return {**dict(_machine(document)), **dict(_adapters(document, names))}


def _machine(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    os, machine, bios = (_first(document.get(key)) for key in ("os", "machine", "bios"))
    sockets = _rows(document.get("cpu"))
    cpu = _first(sockets)
    cores, threads = (sum(int(row.get(key) or 0) for row in sockets) for key in ("NumberOfCores", "NumberOfLogicalProcessors"))
    memory = os.get("TotalVisibleMemorySize")
    guid = _GUID.search(str(document.get("scheme", "")).lower())
    yield "kernel.name", "Windows"
    yield "kernel.release", os.get("Version")
    yield "os", os.get("Caption")
    yield "memory_bytes", int(memory) * _KIB if memory else None
    yield "cpu.model", cpu.get("Name")
    yield "cpu.cores", threads or None  # as on other systems: the cores that the kernel schedules
    yield "cpu.threads_per_core", threads // cores if cores else None
    yield "cpu.sockets", len(sockets) or None
    yield "cpu.now_mhz", cpu.get("CurrentClockSpeed")
    yield "cpu.governor", _SCHEMES.get(guid[0], guid[0]) if guid else None
    yield "cpu.power_scheme", guid[0] if guid else None
    yield "machine.vendor", machine.get("Manufacturer")
    yield "machine.product", machine.get("Model")
    yield "machine.bios", bios.get("SMBIOSBIOSVersion")
    yield "today", document.get("today")
    yield "dimms", [_dimm(row) for row in _rows(document.get("memory"))] or None
    profiles = [str(row.get("Name")) for row in _rows(document.get("firewall")) if row.get("Enabled") in (1, "True")]  # true is 1 too
    yield "firewall.profiles_on", profiles if document.get("firewall") is not None else None


def _adapters(document: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[str, object]]:
    by_name = {str(row.get("Name")): row for row in _rows(document.get("adapters"))}
    for name in names:
        of, at = by_name.get(name, {}), f"interfaces/{name}"
        properties = {str(row.get("RegistryKeyword")): _value(row) for row in _rows(document.get("properties")) if row.get("Name") == name}
        queues = next((row for row in _rows(document.get("rss")) if row.get("Name") == name), {})
        driver = next((row for row in _rows(document.get("drivers")) if row.get("Name") == name), {})
        moderation, pause = properties.get("*InterruptModeration"), properties.get("*FlowControl")
        speed, mac = of.get("Speed"), of.get("MacAddress")
        yield f"{at}/description", of.get("InterfaceDescription")
        yield f"{at}/driver", of.get("DriverFileName")
        yield f"{at}/driver_version", of.get("DriverVersionString")
        yield f"{at}/mac", mac.replace("-", ":").lower() if mac else None
        yield f"{at}/mtu", of.get("MtuSize")
        yield f"{at}/speed_mbps", int(speed) // _MEGA if speed else None
        yield f"{at}/duplex", None if (full := of.get("FullDuplex")) is None else "full" if full else "half"
        yield f"{at}/driver_date", driver.get("DriverDate")
        yield f"{at}/interrupt_moderation", None if moderation is None else moderation != "0"
        yield f"{at}/pause_frames", None if pause is None else _pause(pause)
        yield f"{at}/rss", queues.get("Enabled")
        yield f"{at}/rx_queues", queues.get("NumberOfReceiveQueues")


def _value(row: Mapping[str, Any]) -> str:
    """Return the value of a property, which is a list with one text."""
    value = row.get("RegistryValue")
    return str(value[0] if isinstance(value, list) and value else value)


def _pause(value: str) -> dict[str, bool]:
    """Parse the standardised keyword *FlowControl: 1 sends, 2 obeys, 3 both, 4 as negotiated."""
    return {"autonegotiate": value == "4", "rx": value in {"2", "3", "4"}, "tx": value in {"1", "3", "4"}}


def _dimm(row: Mapping[str, Any]) -> dict[str, object]:
    """Return the facts of a memory module, with the names of dmidecode."""
    return {"place": row.get("DeviceLocator"), "mts": row.get("Speed"), "mts_now": row.get("ConfiguredClockSpeed")}


def _first(rows: object) -> Mapping[str, Any]:
    return next(iter(_rows(rows)), {})


def _rows(rows: object) -> list[Mapping[str, Any]]:
    """Return the rows of a list, which is an object in some versions of ConvertTo-Json if it has one row."""
    listed = rows if isinstance(rows, list) else [rows]
    return [row for row in listed if isinstance(row, Mapping)]
