"""What a Windows is, by one PowerShell script: classes of CIM, adapters, and the power scheme, by the names of Linux's facts.

Names of properties are those of Microsoft's documentation of Win32_OperatingSystem, Win32_Processor, Win32_ComputerSystem, Win32_BIOS and
MSFT_NetAdapter; nothing that is read is translated, and the power scheme goes by its GUID. Never run on a machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SCRIPT = r"""
@{os=@(Get-CimInstance Win32_OperatingSystem | Select-Object Caption,Version,TotalVisibleMemorySize)
 cpu=@(Get-CimInstance Win32_Processor | Select-Object Name,NumberOfCores,NumberOfLogicalProcessors,MaxClockSpeed,CurrentClockSpeed)
 machine=@(Get-CimInstance Win32_ComputerSystem | Select-Object Manufacturer,Model)
 bios=@(Get-CimInstance Win32_BIOS | Select-Object SMBIOSBIOSVersion)
 adapters=@(Get-NetAdapter | Select-Object Name,InterfaceDescription,MacAddress,Speed,MtuSize,FullDuplex,DriverVersionString,DriverFileName)
 scheme="$(powercfg.exe /getactivescheme)"} | ConvertTo-Json -Depth 3 -Compress
"""
_SCHEMES = {
    "381b4222-f694-41f0-9685-ff5bb260df2e": "balanced",
    "8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c": "high performance",
    "a1841308-3541-4fab-bc81-f71556f20b4a": "power saver",
}
"""GUIDs of the schemes that every Windows has (Power Policy Settings)."""
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KIB = 1024
_MEGA = 10**6


def parse(text: str, names: Sequence[str]) -> dict[str, object]:
    """Path of a fact → its value, None where not told; adapters are those of `names`. Raises ValueError where it is not an answer."""
    said = json.loads(text)
    if not isinstance(said, Mapping):
        raise ValueError("no object of JSON")  # noqa: TRY004 -- of the text, not of the argument
    return {**dict(_machine(said)), **dict(_adapters(said, names))}


def _machine(said: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    os, machine, bios = (_first(said.get(key)) for key in ("os", "machine", "bios"))
    sockets = _rows(said.get("cpu"))
    cpu = _first(sockets)
    cores, threads = (sum(int(row.get(key) or 0) for row in sockets) for key in ("NumberOfCores", "NumberOfLogicalProcessors"))
    memory = os.get("TotalVisibleMemorySize")
    guid = _GUID.search(str(said.get("scheme", "")).lower())
    yield "kernel.name", "Windows"
    yield "kernel.release", os.get("Version")
    yield "os", os.get("Caption")
    yield "memory_bytes", int(memory) * _KIB if memory else None
    yield "cpu.model", cpu.get("Name")
    yield "cpu.cores", threads or None  # as everywhere: what the kernel schedules on
    yield "cpu.threads_per_core", threads // cores if cores else None
    yield "cpu.sockets", len(sockets) or None
    yield "cpu.now_mhz", cpu.get("CurrentClockSpeed")
    yield "cpu.governor", _SCHEMES.get(guid[0], guid[0]) if guid else None
    yield "machine.vendor", machine.get("Manufacturer")
    yield "machine.product", machine.get("Model")
    yield "machine.bios", bios.get("SMBIOSBIOSVersion")


def _adapters(said: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[str, object]]:
    by_name = {str(row.get("Name")): row for row in _rows(said.get("adapters"))}
    for name in names:
        of, at = by_name.get(name, {}), f"interfaces/{name}"
        speed, mac = of.get("Speed"), of.get("MacAddress")
        yield f"{at}/description", of.get("InterfaceDescription")
        yield f"{at}/driver", of.get("DriverFileName")
        yield f"{at}/driver_version", of.get("DriverVersionString")
        yield f"{at}/mac", mac.replace("-", ":").lower() if mac else None
        yield f"{at}/mtu", of.get("MtuSize")
        yield f"{at}/speed_mbps", int(speed) // _MEGA if speed else None
        yield f"{at}/duplex", None if (full := of.get("FullDuplex")) is None else "full" if full else "half"


def _first(rows: object) -> Mapping[str, Any]:
    return next(iter(_rows(rows)), {})


def _rows(rows: object) -> list[Mapping[str, Any]]:
    """A list of one is an object in some versions of ConvertTo-Json."""
    listed = rows if isinstance(rows, list) else [rows]
    return [row for row in listed if isinstance(row, Mapping)]
