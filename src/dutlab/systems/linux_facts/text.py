"""Parsers of programs' output. Pure: text in, facts out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_MODEL = "Model name:"


def os_name(os_release: str) -> str | None:
    """Return PRETTY_NAME of /etc/os-release (os-release(5))."""
    m = re.search(r'^PRETTY_NAME="?([^"\n]*)"?$', os_release, re.MULTILINE)
    return m[1] if m else None


def lscpu_fields(text: str) -> dict[str, str]:
    """Return field → value of `lscpu -J`, with nested entries (util-linux since 2.37) or without.

    A machine with several kinds of cores has all their models, and otherwise the values of the first kind. A value `-` is left out.
    """
    try:
        fields: dict[str, str] = {}
        _gather(json.loads(text)["lscpu"], fields)
    except (ValueError, KeyError, TypeError):
        return {}
    return fields


def colon_pairs(text: str) -> dict[str, str]:
    """Parse lines `key: value`."""
    return {k.strip(): v.strip() for k, colon, v in (line.partition(":") for line in text.splitlines()) if colon}


def ring_sizes(text: str) -> dict[str, dict[str, int]] | None:
    """Parse `ethtool -g` or `-l`: most and now → name → number. None when nothing can be set."""
    most, _, now = text.partition("Current hardware settings:")
    numbers = {
        which: {k.lower().replace(" ", "_"): int(v) for k, v in colon_pairs(part).items() if v.isdigit()}
        for which, part in (("most", most), ("now", now))
    }
    return numbers if any(numbers.values()) else None


def _gather(entries: Sequence[Mapping[str, Any]], into: dict[str, str]) -> None:
    for entry in entries:
        field, value = str(entry["field"]), str(entry.get("data") or "")
        if field == _MODEL and value not in (known := into.get(field, value), *known.split(", ")):
            into[field] += f", {value}"
        elif value != "-":
            into.setdefault(field, value)
        _gather(entry.get("children", []), into)


def first_of_json(text: str | None) -> dict[str, Any]:
    """Return the first object of a JSON list, as printed by ip and ethtool; empty for other texts."""
    try:
        parsed = json.loads(text or "[]")
    except ValueError:
        return {}
    return next((entry for entry in parsed if isinstance(entry, dict) and entry), {}) if isinstance(parsed, list) else {}


def chosen(text: str) -> str | None:
    """Return the word in brackets, in files that list all choices: `[default] performance powersave`."""
    m = re.search(r"\[([^\]]+)\]", text)
    return m[1] if m else None


def coalescing(text: str) -> dict[str, int | bool]:
    """Parse `ethtool -c`: time and frames until a card interrupts; settings that the driver lacks are left out."""
    settings: dict[str, int | bool] = {}
    if m := re.search(r"^Adaptive RX: (on|off|n/a)\s+TX: (on|off|n/a)", text, re.MULTILINE):
        settings |= {f"adaptive_{way}": state == "on" for way, state in zip(("rx", "tx"), m.groups(), strict=True) if state != "n/a"}
    for key, value in colon_pairs(text).items():
        if re.fullmatch(r"[rt]x-(usecs|frames)", key) and value.isdigit():
            settings[key.replace("-", "_")] = int(value)
    return settings


def pause_frames(text: str) -> dict[str, bool]:
    """Parse `ethtool -a`: whether flow control is negotiated, obeyed and sent (IEEE 802.3 annex 31B)."""
    return {key.lower(): value == "on" for key, value in colon_pairs(text).items() if key in ("Autonegotiate", "RX", "TX")}


def irq_cores(text: str) -> dict[str, dict[str, str]]:
    """Parse lines `number may goes name` into number → name, cores_allowed and cores_now, in the kernel's list format; `-` is unknown."""
    rows = [line.split(None, 3) for line in text.splitlines()]
    keys = ("cores_allowed", "cores_now", "name")
    return {row[0]: {k: v for k, v in zip(keys, row[1:], strict=False) if v != "-"} for row in rows if row}


_OF_SPEED = re.compile(
    r"(isolcpus|nohz(_full)?|rcu_nocbs|rcu_nocb_poll|irqaffinity|maxcpus|nr_cpus|nosmt|smt|mitigations|no\w*spectre\w*|spectre\w*|nopti|pti|"
    r"spec_store_bypass_disable|l1tf|mds|tsx\w*|retbleed|srbds|mmio_stale_data|iommu|iommu\.\w+|(intel|amd)_iommu|(intel|amd)_pstate|"
    r"(intel_idle|processor|cpuidle|cpufreq|nvme|nvme_core|scsi_mod|raid456|md_mod|pcie_aspm|workqueue|rcupdate|rcutree)\.\w+|idle|pci|"
    r"pcie_aspm|(default_)?hugepagesz|hugepages|hugetlb\w*|transparent_hugepage|numa\w*|preempt|threadirqs|skew_tick|clocksource|tsc|nowatchdog|"
    r"nmi_watchdog|audit|quiet|ro|rw)"
)


def command_line(text: str) -> str:
    """Return the kernel's command line (/proc/cmdline) without values that may identify people or places.

    Only parameters that affect its speed keep their values. Words after `--` are for the first program and are left out.
    """
    words = (word.partition("=") for word in text.partition(" -- ")[0].split())
    return " ".join(
        f"{name}={value}" if value and _OF_SPEED.fullmatch(name) else f"{name}=…" if value else name for name, _, value in words
    )


def dimms(text: str) -> list[dict[str, str | int]]:
    """Parse `dmidecode --type 17`: installed memory modules; speeds in megatransfers per second, sizes in bytes (DSP0134, 7.18)."""
    devices: list[dict[str, str | int]] = []
    for block in re.split(r"^Memory Device$", text, flags=re.MULTILINE)[1:]:
        pairs = colon_pairs(block)
        size = re.fullmatch(r"(\d+) ([kMGT])i?B", pairs.get("Size", ""))
        if size is None:
            continue
        device: dict[str, str | int] = {"size_bytes": int(size[1]) << 10 * ("kMGT".index(size[2]) + 1)}
        for key, field in (("place", "Locator"), ("bank", "Bank Locator"), ("type", "Type"), ("part", "Part Number")):
            if (value := pairs.get(field, "")) not in ("", "Unknown", "Not Specified"):
                device[key] = value
        for key, fields in (("mts", ("Speed",)), ("mts_now", ("Configured Memory Speed", "Configured Clock Speed"))):
            if speed := next((m for field in fields if (m := re.match(r"(\d+) (MT/s|MHz)", pairs.get(field, "")))), None):
                device[key] = int(speed[1])
        devices.append(device)
    return devices
