"""Facts of the BSDs and macOS with Linux's names: machine, card and neighbours, from sysctl(8), ifconfig(8), pfctl(8) and arp(8).

FreeBSD's arp(8) prints a sentence per entry (usr.sbin/arp/arp.c), OpenBSD's a table row. The facts leave out the addresses of entries.

Tested only against transcripts of documented outputs and outputs of published machines, never on a machine of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dutlab.systems import bsd_slot
from dutlab.systems.facts import Answers, FactTree, Question

_SYSCTLS = (
    "net.inet.ip.forwarding",
    "kern.timecounter.choice",
    "kern.pool_debug",
    "hw.setperf",
    "hw.perfpolicy",
    "hw.cpuspeed",
    "dev.cpu.0.freq",
)
_NAMED = {"cpu.model": "hw.model", "cpu.cores": "hw.ncpu", "memory_bytes": "hw.physmem", "clocksource": "kern.timecounter.hardware"}
_PF = ("asroot", "pfctl", "-s", "info")
_ARP = ("arp", "-an")
_FREEBSD = re.compile(
    r"^\S+ \([\d.]+\) at (?P<mac>\S+) on (?P<on>\S+) (?:(?P<word>permanent|expired)|expires in (?P<expires>\d+) seconds)", re.MULTILINE
)
_OPENBSD = re.compile(r"^[\d.]+ +(?P<mac>\S+) +(?P<on>\S+) +(?:(?P<word>permanent|expired)|(?P<expires>(?:\d+[dhms])+))\b", re.MULTILINE)
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1, "": 1}
_SPEED = re.compile(r"\b(\d+(?:\.\d+)?)(G?)(?:base|SFP\+|-[A-Z]*AUI)", re.IGNORECASE)
"""Speed in a name of media: also `10GSFP+Cu` (OpenBSD) and `100G-CAUI4` (FreeBSD), in net/if_media.h of both."""
_OPTIONS = re.compile(r"^\s+(?:(?:options|hwfeatures)=[0-9a-f]+<|options (?=[A-Z]))([A-Za-z0-9_,]*)", re.MULTILINE)
"""Offloads of a card. `nd6 options=` are of its IPv6; a bridge has no others."""


@dataclass(frozen=True)
class BsdFacts:
    """Facts of one BSD in addition to those of all BSDs."""

    kernel: str
    named: Mapping[str, str] = field(default_factory=dict)
    """Fact → name of its sysctl."""
    sysctls: tuple[str, ...] = ()
    """Further sysctls that are facts under their own names."""
    mitigations: tuple[str, ...] = ()

    def questions(self, names: Sequence[str]) -> Iterator[Question]:
        """Yield the questions about the host, and about its interfaces `names`."""
        yield ("uname", "-r")
        yield from (_sysctl(name) for name in (*_SYSCTLS, *self.sysctls, *self.mitigations, *self._named().values()))
        yield from (_PF, _ARP, *bsd_slot.questions())
        yield from (self.ifconfig(name) for name in names)

    def put(self, facts: FactTree, answers: Answers, names: Sequence[str]) -> None:
        """Store the answers under the paths of Linux's facts."""
        facts.put("os", self.title(answers, f"{self.kernel} {answers.output_of('uname', '-r')[0] or ''}".strip()))
        for path, name in self._named().items():
            text, why = answers.output_of(*_sysctl(name))
            facts.put(path, int(text) if text and text.isdigit() else text, why)
        states = {name: text for name in self.mitigations if (text := answers.output_of(*_sysctl(name))[0])}
        facts.put("mitigations", states or None, "no sysctl has it")
        for name in (*_SYSCTLS, *self.sysctls):
            facts.put(f"sysctls/{name}", *answers.output_of(*_sysctl(name)))
        output, why = answers.output_of(*_PF)
        facts.put("firewall/pf_enabled", "Status: Enabled" in output if output else None, why)
        tables, why = answers.of(*_ARP)
        for name in names:
            self.put_interface(facts, answers, name)
            facts.put(f"neighbours/{name}", None if tables is None else arp_states(tables, name), why)
        bsd_slot.put(facts, answers, names)

    def title(self, answers: Answers, release: str) -> str:
        """Return the name of the system; `release` is from uname(1)."""
        del answers
        return release

    def ifconfig(self, name: str) -> Question:
        """Return the command that describes an interface."""
        return ("ifconfig", "-v", name)

    def driver(self, name: str) -> str | None:
        """Return the driver of an interface, from its name without the number (ifconfig(8))."""
        return re.sub(r"[\d.]+$", "", name)

    def put_interface(self, facts: FactTree, answers: Answers, name: str) -> None:
        """Store the output of ifconfig(8) about an interface."""
        at = f"interfaces/{name}"
        output, why = answers.output_of(*self.ifconfig(name))
        why = "not in the output of ifconfig" if output else why
        text = output or ""
        if driver := self.driver(name):
            facts.put(f"{at}/driver", driver)
        facts.put(f"{at}/mtu", int(m[1]) if (m := re.search(r"\bmtu (\d+)", text)) else None, why)
        facts.put(f"{at}/mac", m[1] if (m := re.search(r"\b(?:ether|lladdr) ([0-9a-f:]{17})", text)) else None, why)
        facts.put(f"{at}/operstate", m[1] if (m := re.search(r"\bstatus: (.+)", text)) else None, why)
        media = m[1] if (m := re.search(r"\bmedia: (.+)", text)) else None
        facts.put(f"{at}/media", media, why)
        speed = _SPEED.search(media or "")
        facts.put(f"{at}/speed_mbps", round(float(speed[1]) * (1000 if speed[2] else 1)) if speed else None, why)
        facts.put(f"{at}/duplex", next((way for way in ("full", "half") if f"{way}-duplex" in (media or "")), None), why)
        link = re.search(r"[<( ,](?:full|half)-duplex(?P<pause>[a-z,]*)", media or "")
        paused = {way: f"{way}pause" in link["pause"] for way in ("rx", "tx")} if link else None
        facts.put(f"{at}/pause_frames", paused, why)
        options = _OPTIONS.search(text)
        facts.put(f"{at}/offloads", {word: True for word in options[1].split(",") if word} if options else None, why)

    def _named(self) -> dict[str, str]:
        return {**_NAMED, **self.named}


def _sysctl(name: str) -> Question:
    return ("sysctl", "-n", name)


def arp_states(text: str, name: str) -> list[dict[str, Any]]:
    """Parse `arp -an` of FreeBSD and OpenBSD: state in Linux's words and seconds until expiry of each entry on interface `name`."""
    rows = [m for form in (_FREEBSD, _OPENBSD) for m in form.finditer(text) if m["on"] == name]
    return [{"state": _state(m), "expires_s": _in_seconds(m["expires"])} for m in rows]


def _state(entry: re.Match[str]) -> str:
    if entry["mac"] == "(incomplete)":
        return "INCOMPLETE"
    return {"permanent": "PERMANENT", "expired": "STALE"}.get(entry["word"] or "", "REACHABLE")


def _in_seconds(text: str | None) -> int | None:
    """Return the seconds in `1186` or `19m46s`."""
    return sum(int(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([dhms]?)", text)) if text else None
