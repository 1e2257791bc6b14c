"""What FreeBSD and OpenBSD tell in their own words: sysctls, the packet filter, and whether OpenBSD links a kernel after each boot."""

from __future__ import annotations

from collections.abc import Iterator

from dutlab.hosts.facts.questions import Answers, Question
from dutlab.hosts.facts.tree import FactTree

_SYSCTLS = (
    "net.inet.ip.forwarding",
    "kern.timecounter.choice",
    "kern.pool_debug",
    "hw.setperf",
    "hw.perfpolicy",
    "hw.cpuspeed",
    "dev.cpu.0.freq",
)
_ELSEWHERE = {"cpu.model": "hw.model", "cpu.cores": "hw.ncpu", "memory_bytes": "hw.physmem", "clocksource": "kern.timecounter.hardware"}
"""Facts that other systems have too → the sysctl."""
_PF = ("bsd", "pfctl", "-s", "info")
_RELINKED = ("bsd", "ls", "/var/db/kernel.SHA256")
"""reorder_kernel(8) links a new kernel only while this checksum is that of the kernel that runs."""


def questions() -> Iterator[Question]:
    """What is asked; Linux refuses it at once."""
    yield from (_sysctl(name) for name in (*_SYSCTLS, *_ELSEWHERE.values()))
    yield from (_PF, _RELINKED)


def put(facts: FactTree, answers: Answers) -> None:
    """Beside the facts of any system; of a Linux nothing."""
    system, _ = answers.said("uname", "-s")
    if system in (None, "Linux"):
        return
    for name in _SYSCTLS:
        facts.put(f"sysctls/{name}", *answers.said(*_sysctl(name)))
    for path, name in _ELSEWHERE.items():
        said, why = answers.said(*_sysctl(name))
        facts.put(path, int(said) if said and said.isdigit() else said, why)
    said, why = answers.said(*_PF)
    facts.put("firewall/pf_enabled", "Status: Enabled" in said if said else None, why)
    if system == "OpenBSD":
        said, _ = answers.said(*_RELINKED)
        facts.put("kernel.relinks_at_boot", said is not None)


def _sysctl(name: str) -> Question:
    return ("bsd", "sysctl", "-n", name)
