"""What the neighbour tables of the test interfaces hold; it is apart from the interfaces because it changes by the minute.

Whose an entry is stays out of the facts. FreeBSD's arp(8) prints a sentence an entry (usr.sbin/arp/arp.c), OpenBSD's a row of a table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from dutlab.hosts.facts.questions import Answers, Question
from dutlab.hosts.facts.tree import FactTree

_ARP = ("bsd", "arp", "-an")
_FREEBSD = re.compile(
    r"^\S+ \([\d.]+\) at (?P<mac>\S+) on (?P<on>\S+) (?:(?P<word>permanent|expired)|expires in (?P<expires>\d+) seconds)", re.MULTILINE
)
_OPENBSD = re.compile(r"^[\d.]+ +(?P<mac>\S+) +(?P<on>\S+) +(?:(?P<word>permanent|expired)|(?P<expires>(?:\d+[dhms])+))\b", re.MULTILINE)
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1, "": 1}


def questions(names: Sequence[str]) -> Iterator[Question]:
    """What is asked."""
    yield from (_of_linux(name) for name in names)
    yield _ARP


def put(facts: FactTree, answers: Answers, names: Sequence[str]) -> None:
    """Into `neighbours/NAME`."""
    tables, _ = answers.of(*_ARP)
    for name in names:
        text, why = answers.of(*_of_linux(name))
        if tables is not None:
            facts.put(f"neighbours/{name}", arp_states(tables, name))
        else:
            facts.put(f"neighbours/{name}", neighbour_states(text) if text is not None else None, why)


def neighbour_states(text: str) -> list[dict[str, Any]] | None:
    """`ip -s -j neigh`: state and seconds since it was last confirmed, of each entry."""
    try:
        return [{"state": " ".join(e["state"]), "confirmed_s": e.get("confirmed")} for e in json.loads(text or "[]")]
    except (ValueError, KeyError, TypeError):
        return None


def arp_states(text: str, name: str) -> list[dict[str, Any]]:
    """`arp -an` of FreeBSD and OpenBSD: state in Linux's words, and seconds until it expires, of each entry on the interface `name`."""
    rows = [m for form in (_FREEBSD, _OPENBSD) for m in form.finditer(text) if m["on"] == name]
    return [{"state": _state(m), "expires_s": _in_seconds(m["expires"])} for m in rows]


def _state(entry: re.Match[str]) -> str:
    if entry["mac"] == "(incomplete)":
        return "INCOMPLETE"
    return {"permanent": "PERMANENT", "expired": "STALE"}.get(entry["word"] or "", "REACHABLE")


def _in_seconds(text: str | None) -> int | None:
    """`1186`, `19m46s`."""
    return sum(int(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([dhms]?)", text)) if text else None


def _of_linux(name: str) -> Question:
    return ("ip", "-s", "-j", "-4", "neigh", "show", "dev", name)
