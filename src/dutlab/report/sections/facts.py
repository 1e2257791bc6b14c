"""Facts of the hosts as rows with a column per host; the facts that readers look for first come first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from dutlab.report.model.course import FactRow
from dutlab.report.model.words import plural
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
    """Return every scalar of the facts by its dotted path. Lists are one line each; long texts are cut, with a note."""
    values_by_name: dict[str, dict[str, str]] = {}
    for host, facts in hosts.items():
        for name, value in _flat(facts, ""):
            values_by_name.setdefault(name, {})[host] = value
    rows = [FactRow(name, of, key=_place(name) < len(_FIRST)) for name, of in values_by_name.items()]
    rows.sort(key=lambda r: (not r.key, _is_absent(r.name), _place(r.name), r.name))
    if (more := len(rows) - MOST_ROWS) > 0:
        rows[MOST_ROWS:] = [FactRow("and more", dict.fromkeys(hosts, f"{more} facts, in the hosts' files"), key=False)]
    return tuple(rows)


_MOST_OF_A_KIND = 12
"""Largest number of ports, or of drives, in a summary."""


def fact_summary(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the main facts of one host as (name, text): system, processor, memory, a line for each port and drive."""
    cpu, machine = _part(facts, "cpu"), _part(facts, "machine")
    in_force = [name for name, state in _part(facts, "mitigations").items() if state != "Not affected"]
    versions = [str(version) for version in _part(facts, "versions").values() if version]
    threads = cpu.get("threads_per_core")
    rows = [
        ("machine", _joined(machine.get("vendor"), machine.get("product"), machine.get("bios"))),
        ("system", _joined(facts.get("os"), _part(facts, "kernel").get("release"))),
        ("virtual", _joined(facts.get("virtual"))),
        ("processor", _joined(cpu.get("model"), _count(cpu.get("cores"), "core"), _of(threads, "threads a core: {}"), cpu.get("governor"))),
        ("memory", _joined(_of(facts.get("memory_bytes"), "{:.1f} GB", 1e9), *_module_words(facts.get("dimms")))),
        ("controller", _joined(*(_of(_part(facts, "bmc").get(key), words) for key, words in _CONTROLLER))),
        ("clock", _joined(facts.get("clocksource"))),
        ("mitigations", ", ".join(in_force)),
        ("programs", "; ".join(versions)),
    ]
    ports = [(f"port {name}", _port_words(of)) for name, of in _part(facts, "interfaces").items() if isinstance(of, Mapping)]
    drives = [(f"drive {name}", _drive_words(of)) for name, of in _part(facts, "drives").items() if isinstance(of, Mapping)]
    for kind, of_kind in (("ports", ports), ("drives", drives)):
        rows += of_kind[:_MOST_OF_A_KIND]
        if (more := len(of_kind) - _MOST_OF_A_KIND) > 0:
            rows.append(("and", f"{more} more {kind}"))
    return [(name, _cut(words)) for name, words in rows if words]


_CONTROLLER = (("maker", "{}"), ("product", "product {}"), ("firmware", "firmware {}"))


def _module_words(dimms: object) -> list[str]:
    """Return memory modules in words, equal ones once with their number: `4 × 8.59 GB DDR4 2133 MT/s`."""
    modules = [module for module in dimms if isinstance(module, Mapping)] if isinstance(dimms, (list, tuple)) else []
    words = Counter(
        " ".join(
            filter(None, (
                _of(module.get("size_bytes"), "{:.3g} GB", 1e9), _of(module.get("type"), "{}"),
                _of(module.get("mts_now", module.get("mts")), "{} MT/s"), _of(module.get("part"), "({})"),
            ))
        )
        for module in modules
    )  # fmt: skip
    return [f"{number} × {text}" for text, number in words.items() if text]


def _port_words(port: Mapping[str, Any]) -> str:
    now, most = (_part(_part(port, "channels"), which) for which in ("now", "most"))
    queues = now.get("combined", now.get("rx", port.get("rx_queues")))
    limit = most.get("combined", most.get("rx"))
    queue_words = f"{queues} of {limit} queues" if limit not in (None, queues) else _count(queues, "queue")
    speed = _of(port.get("speed_mbps"), "{:g} Gb/s", 1000)
    return _joined(
        port.get("driver"), port.get("kind"), port.get("operstate"), speed, _of(port.get("mtu"), "MTU {}"), queue_words, port.get("mac")
    )


def _drive_words(drive: Mapping[str, Any]) -> str:
    turns = {True: "rotational", False: "solid state"}.get(drive.get("rotational", ""), "")
    return _joined(drive.get("model"), _of(drive.get("size_bytes"), "{:.4g} GB", 1e9), turns, drive.get("file"))


def _part(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = facts.get(name)
    return part if isinstance(part, Mapping) else {}


def _count(value: object, noun: str) -> str:
    return plural(value, noun) if isinstance(value, int) else _of(value, f"{{}} {noun}s")


def _of(value: object, words: str, scale: float = 0) -> str:
    """Return `words` with the number divided by `scale`, or with any value if `scale` is 0; empty without a value."""
    if value is None or (scale and (isinstance(value, bool) or not isinstance(value, int | float))):
        return ""
    return words.format(value / scale if scale and isinstance(value, int | float) else value)


def _joined(*words: object) -> str:
    return ", ".join(dict.fromkeys(str(word) for word in words if word not in (None, "")))


def tools(records: list[TrialRecord]) -> tuple[tuple[str, str], ...]:
    """Return the versions that tools printed; different outputs of a tool are joined."""
    outputs: dict[str, dict[str, None]] = {}
    for record in records:
        for name, output in record.tool_facts.items():
            outputs.setdefault(name, {})[output] = None
    return tuple((name, _cut(" | ".join(output))) for name, output in sorted(outputs.items()))


def _flat(value: Any, path: str) -> list[tuple[str, str]]:  # noqa: ANN401 - facts may be any JSON
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
    """Return whether a row is the reason for a missing fact; these come last."""
    return name.startswith("absent.")


def _place(name: str) -> int:
    """Return the position of a fact among those that come first; reasons for missing facts come after all of them."""
    if _is_absent(name):
        return len(_FIRST)
    return next((n for n, p in enumerate(_FIRST) if p.fullmatch(name)), len(_FIRST))
