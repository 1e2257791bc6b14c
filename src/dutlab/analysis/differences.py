"""Differences of two nested mappings: settings and facts that differ between two results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ABSENT = "absent"
_ALWAYS_DIFFERS = re.compile(
    r"(^|\.)(command|seed|turns|taken_at|started|time|uptime(_s)?|boot_id|boot_time|load(avg)?|mac|hostname|name|run|repeated_run|experiment_yaml|"
    r"neighbours|tracked_connections|current_khz|available(_bytes|_kib)?|free(_bytes|_kib)?|temperature_c|hours|written_bytes)(\.|$)"
)


@dataclass(frozen=True)
class ValueDifference:
    """One value that differs between two mappings."""

    path: str
    """Dotted path, as in `hosts.dut.kernel`."""
    first: str
    second: str


def differences(first: Any, second: Any) -> tuple[ValueDifference, ...]:  # noqa: ANN401 - whatever JSON holds
    """Return every scalar that differs, with its path. Values that always differ between runs (times, seeds) are left out."""
    a, b = dict(_flat(first, "")), dict(_flat(second, ""))
    paths = [p for p in dict.fromkeys([*a, *b]) if a.get(p, ABSENT) != b.get(p, ABSENT) and not _ALWAYS_DIFFERS.search(p)]
    return tuple(ValueDifference(p, a.get(p, ABSENT), b.get(p, ABSENT)) for p in paths)


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - as above
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if any(isinstance(v, (Mapping, list, tuple)) for v in value):
            for number, inner in enumerate(value):
                yield from _flat(inner, f"{path}.{number}" if path else str(number))
        else:
            yield path, ", ".join(map(str, value))
    else:
        yield path, str(value)
