"""Parser of INI files, like Python's configparser with its defaults. Unlike it, it keeps duplicate keys, in order and with their lines.

Grammar (configparser in CPython's documentation): the delimiter is the first `:` or `=`. Keys are converted to lower case. `#` and `;`
begin a comment only as the first character of a line that is not blank. An indented line continues the value above it. Only a newline ends
a line: a form feed or U+2028 does not.

`interpolated` expands values like configparser's BasicInterpolation: `%%` is `%`, and `%(key)s` is the value of `key` in the same section
or in [DEFAULT]. Any other `%` stays unchanged; configparser refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dutlab.errors import Fault, FaultKind

DEFAULTS = "DEFAULT"
"""Section whose keys are inherited by every other section."""
_SECTION = re.compile(r"\[(?P<name>.+)\]")
_KEY = re.compile(r"(?P<key>.*?)\s*[:=]\s*(?P<value>.*)", re.DOTALL)
_LINE_END = re.compile(r"\r\n|\r|\n")
_REFERENCE = re.compile(r"%(?:%|\((?P<key>[^)]*)\)s|(?P<cut>\())")
_DEEPEST = 10
"""Largest depth of nested references (configparser.MAX_INTERPOLATION_DEPTH)."""


@dataclass(frozen=True)
class Entry:
    """An entry `key: value`. `value` may have several lines."""

    key: str
    value: str
    line: int


@dataclass(frozen=True)
class IniSection:
    """A section and its entries in the order of the file."""

    name: str
    entries: tuple[Entry, ...]
    line: int

    def value(self, key: str) -> str | None:
        """Return the last value of `key`, or None."""
        return next((e.value for e in reversed(self.entries) if e.key == key), None)


def parse_ini(text: str, file: str) -> tuple[dict[str, IniSection], list[Fault]]:
    """Return the sections by name, and a fault for each line outside the grammar. A repeated section continues the first one."""
    sections: dict[str, list[_Open]] = {}
    lines: dict[str, int] = {}
    faults: list[Fault] = []
    here: list[_Open] | None = None
    indent = 0
    for number, raw in enumerate(_LINE_END.split(text), 1):
        stripped = raw.strip()
        if stripped[:1] in ("#", ";"):
            continue
        depth = len(raw) - len(raw.lstrip())
        if not stripped:
            if here:
                here[-1].lines.append("")
        elif here and depth > indent:
            here[-1].lines.append(stripped)
        elif section := _SECTION.match(stripped):
            here = sections.setdefault(section["name"], [])
            lines.setdefault(section["name"], number)
            indent = depth
        elif here is None:
            if not faults:  # all such lines have one cause
                faults.append(
                    Fault(file, number, depth + 1, "file", f"{stripped[:60]!r} comes before the first [section]", FaultKind.SYNTAX)
                )
        elif (entry := _KEY.match(stripped)) and entry["key"]:
            here.append(_Open(entry["key"].lower(), [entry["value"]], number))
            indent = depth
        else:
            faults.append(
                Fault(file, number, depth + 1, "file", f"{stripped[:60]!r} is neither [section] nor `key: value`", FaultKind.SYNTAX)
            )
    return {name: IniSection(name, tuple(e.closed() for e in section), lines[name]) for name, section in sections.items()}, faults


def interpolated(sections: Mapping[str, IniSection], file: str) -> tuple[dict[str, IniSection], list[Fault]]:
    """Return the sections with expanded values, and a fault for each value that cannot be expanded."""
    faults: list[Fault] = []
    common = {e.key: e.value for e in sections[DEFAULTS].entries} if DEFAULTS in sections else {}
    out = {}
    for name, section in sections.items():
        known = {**common, **{e.key: e.value for e in section.entries}}
        entries = []
        for entry in section.entries:
            try:
                entries.append(replace(entry, value=_expanded(entry.value, known, 1)))
            except ValueError as error:
                faults.append(Fault(file, entry.line, 1, f"{name}.{entry.key}", str(error)))
                entries.append(entry)
        out[name] = replace(section, entries=tuple(entries))
    return out, faults


def _expanded(value: str, known: Mapping[str, str], depth: int) -> str:
    """Return `value` with expanded references. Raises ValueError with a message for the user."""
    if "%" not in value:
        return value
    if depth > _DEEPEST:
        raise ValueError("values refer to one another more than ten deep; does one refer to itself?")

    def meant(match: re.Match[str]) -> str:
        if match["cut"]:
            raise ValueError("`%(` begins a reference and has to end as in `%(key)s`; write `%%(` for the characters themselves")
        if match["key"] is None:
            return "%"
        if (key := match["key"].lower()) not in known:
            raise ValueError(f"`%({match['key']})s`: the section has no key {match['key']}; write `%%` for a percent sign")
        return _expanded(known[key], known, depth + 1)

    return _REFERENCE.sub(meant, value)


@dataclass
class _Open:
    """An entry that may still be continued."""

    key: str
    lines: list[str]
    line: int

    def closed(self) -> Entry:
        return Entry(self.key, _joined(self.lines), self.line)


def _joined(lines: Sequence[str]) -> str:
    """Join the lines of a value. Blank lines inside a value are kept; trailing ones are removed."""
    return "\n".join(lines).rstrip()
