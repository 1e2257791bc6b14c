"""INI files as Python's configparser reads them by default, except that nothing is lost: duplicate keys stay, in order, each with its line.

The grammar (configparser, CPython's documentation): the delimiter is the first `:` or `=`; keys are case-folded; `#` and `;` begin a
comment only as the first character of a line that is not blank; an indented line continues the value above it. A `%` is a `%`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.errors import Fault

_SECTION = re.compile(r"\[(?P<name>.+)\]")
_KEY = re.compile(r"(?P<key>.*?)\s*[:=]\s*(?P<value>.*)")


@dataclass(frozen=True)
class Entry:
    """`key: value`; `value` may span lines."""

    key: str
    value: str
    line: int


@dataclass(frozen=True)
class Section:
    """A section and its entries in the order of the file."""

    name: str
    entries: tuple[Entry, ...]
    line: int

    def value(self, key: str) -> str | None:
        """The last value of `key`."""
        return next((e.value for e in reversed(self.entries) if e.key == key), None)


def parse_ini(text: str, file: str) -> tuple[dict[str, Section], list[Fault]]:
    """Sections by name, and every line that is none of the grammar. A section that stands twice goes on where it was left."""
    sections: dict[str, list[_Open]] = {}
    lines: dict[str, int] = {}
    faults: list[Fault] = []
    here: list[_Open] | None = None
    indent = 0
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if stripped[:1] in ("#", ";"):
            continue
        depth = len(raw) - len(raw.lstrip())
        if not stripped:
            if here:
                here[-1].lines.append("")
        elif here and depth > indent:
            here[-1].lines.append(stripped)
        elif found := _SECTION.match(stripped):
            here = sections.setdefault(found["name"], [])
            lines.setdefault(found["name"], number)
            indent = depth
        elif here is None:
            if not faults:  # one cause, however many lines
                faults.append(Fault(file, number, depth + 1, "file", f"{stripped[:60]!r} stands before the first [section]"))
        elif (entry := _KEY.match(stripped)) and entry["key"]:
            here.append(_Open(entry["key"].lower(), [entry["value"]], number))
            indent = depth
        else:
            faults.append(Fault(file, number, depth + 1, "file", f"{stripped[:60]!r} is neither [section] nor `key: value`"))
    return {name: Section(name, tuple(e.closed() for e in found), lines[name]) for name, found in sections.items()}, faults


@dataclass
class _Open:
    """An entry that may still be continued."""

    key: str
    lines: list[str]
    line: int

    def closed(self) -> Entry:
        return Entry(self.key, _joined(self.lines), self.line)


def _joined(lines: Sequence[str]) -> str:
    """Blank lines inside a value are kept, those after it are not."""
    return "\n".join(lines).rstrip()
