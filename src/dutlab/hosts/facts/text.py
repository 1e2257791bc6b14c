"""Output of programs as values. Pure: text in, facts out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any


def os_name(os_release: str) -> str | None:
    """PRETTY_NAME of /etc/os-release (os-release(5))."""
    m = re.search(r'^PRETTY_NAME="?([^"\n]*)"?$', os_release, re.MULTILINE)
    return m[1] if m else None


def lscpu_fields(text: str) -> dict[str, str]:
    """Field → value, of `lscpu -J` whether its entries are nested (util-linux since 2.37) or not."""
    try:
        found: dict[str, str] = {}
        _gather(json.loads(text)["lscpu"], found)
    except (ValueError, KeyError, TypeError):
        return {}
    return found


def colon_pairs(text: str) -> dict[str, str]:
    """Lines `key: value`."""
    return {k.strip(): v.strip() for k, colon, v in (line.partition(":") for line in text.splitlines()) if colon}


def ring_sizes(text: str) -> dict[str, dict[str, int]] | None:
    """`ethtool -g` or `-l`: most and now → what → number. None when nothing can be set."""
    most, _, now = text.partition("Current hardware settings:")
    numbers = {
        which: {k.lower().replace(" ", "_"): int(v) for k, v in colon_pairs(part).items() if v.isdigit()}
        for which, part in (("most", most), ("now", now))
    }
    return numbers if any(numbers.values()) else None


def _gather(entries: Sequence[Mapping[str, Any]], into: dict[str, str]) -> None:
    for entry in entries:
        into.setdefault(str(entry["field"]), str(entry.get("data") or ""))
        _gather(entry.get("children", []), into)


def first_of_json(text: str | None) -> dict[str, Any]:
    """The first object of a JSON list, as ip and ethtool print one; empty for anything else."""
    try:
        parsed = json.loads(text or "[]")
    except ValueError:
        return {}
    return next((entry for entry in parsed if isinstance(entry, dict) and entry), {}) if isinstance(parsed, list) else {}


def chosen(text: str) -> str | None:
    """The word in brackets, of files that list what could be chosen: `[default] performance powersave`."""
    m = re.search(r"\[([^\]]+)\]", text)
    return m[1] if m else None


def coalescing(text: str) -> dict[str, int | bool]:
    """`ethtool -c`: how long and how many frames a card waits before it interrupts; what the driver cannot set is left out."""
    found: dict[str, int | bool] = {}
    if m := re.search(r"^Adaptive RX: (on|off|n/a)\s+TX: (on|off|n/a)", text, re.MULTILINE):
        found |= {f"adaptive_{way}": state == "on" for way, state in zip(("rx", "tx"), m.groups(), strict=True) if state != "n/a"}
    for key, value in colon_pairs(text).items():
        if re.fullmatch(r"[rt]x-(usecs|frames)", key) and value.isdigit():
            found[key.replace("-", "_")] = int(value)
    return found


def pause_frames(text: str) -> dict[str, bool]:
    """`ethtool -a`: whether flow control is negotiated, obeyed and sent (IEEE 802.3 annex 31B)."""
    return {key.lower(): value == "on" for key, value in colon_pairs(text).items() if key in ("Autonegotiate", "RX", "TX")}


def irq_cores(text: str) -> dict[str, dict[str, str]]:
    """Lines `number may goes name` → number → name, cores_allowed and cores_now as lists of the kernel; `-` is what it does not tell."""
    rows = [line.split(None, 3) for line in text.splitlines()]
    keys = ("cores_allowed", "cores_now", "name")
    return {row[0]: {k: v for k, v in zip(keys, row[1:], strict=False) if v != "-"} for row in rows if row}
