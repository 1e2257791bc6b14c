"""Facts of the hosts, as rows that are side by side; those that a reader looks for first come first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dutlab.report.model.course import FactRow
from dutlab.store.record import TrialRecord

_FIRST = tuple(
    re.compile(pattern)
    for pattern in (
        r"(.*\.)?(os|distribution|pretty_name)(\..*name)?",
        r"(.*\.)?(kernel|kernel_release|release)(\..*)?",
        r"(.*\.)?(cpu\.)?(cpu_)?model(_name)?",
        r"(.*\.)?(cpus|cores|cpu\.count|cpu_count|online_cpus)",
        r"(.*\.)?memory.*",
        r"(.*\.)?(scaling_)?governor.*",
        r"(.*\.)?(turbo|boost|no_turbo).*",
        r"(.*\.)?(hypervisor|virtualization|virtualisation).*",
        r"(.*\.)?mitigations?",
        r"tools\..*",
    )
)
LONGEST = 400
MOST_ROWS = 1000


def fact_rows(hosts: Mapping[str, Mapping[str, Any]]) -> tuple[FactRow, ...]:
    """Every scalar of the facts by its dotted path; lists are written in one line, long texts are cut and say so."""
    found: dict[str, dict[str, str]] = {}
    for host, facts in hosts.items():
        for name, value in _flat(facts, ""):
            found.setdefault(name, {})[host] = value
    rows = [FactRow(name, of, key=_place(name) < len(_FIRST)) for name, of in found.items()]
    rows.sort(key=lambda r: (not r.key, _is_absent(r.name), _place(r.name), r.name))
    if (more := len(rows) - MOST_ROWS) > 0:
        rows[MOST_ROWS:] = [FactRow("and more", dict.fromkeys(hosts, f"{more} facts, in the hosts' files"), key=False)]
    return tuple(rows)


def tools(records: list[TrialRecord]) -> tuple[tuple[str, str], ...]:
    """Return the versions that tools printed; different answers are side by side."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for name, said in record.tool_facts.items():
            found.setdefault(name, {})[said] = None
    return tuple((name, _cut(" | ".join(said))) for name, said in sorted(found.items()))


def _flat(value: Any, path: str) -> list[tuple[str, str]]:  # noqa: ANN401 - facts are whatever JSON holds
    if isinstance(value, Mapping):
        return [pair for key, inner in value.items() for pair in _flat(inner, f"{path}.{key}" if path else str(key))]
    if isinstance(value, (list, tuple)):
        if any(isinstance(v, (Mapping, list, tuple)) for v in value):
            return [pair for n, inner in enumerate(value) for pair in _flat(inner, f"{path}.{n}" if path else str(n))]
        return [(path, _cut(", ".join(map(str, value))))] if value else []
    if isinstance(value, bool):
        return [(path, "yes" if value else "no")]
    return [] if value in (None, "") else [(path, _cut(str(value)))]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text)} characters, the rest in the host's file)"


def _is_absent(name: str) -> bool:
    """Why a fact is not known; read last."""
    return name.startswith("absent.")


def _place(name: str) -> int:
    """The place of a fact among those that come first; why a fact is absent is none of them."""
    if _is_absent(name):
        return len(_FIRST)
    return next((n for n, p in enumerate(_FIRST) if p.fullmatch(name)), len(_FIRST))
