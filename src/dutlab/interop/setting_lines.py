"""Settings that a person wrote down, such as those of a BIOS: a line each, as `NAME: VALUE`, `NAME = VALUE` or `NAME,VALUE`, or JSON.

A line `[SECTION]` is put before the names below it. Empty lines and lines that begin with `#` are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from dutlab.errors import InputError

MOST_SETTINGS = 1000
LONGEST = 200
_LINE = re.compile(r"([^:=,\t]+?)\s*(?:[:=,\t]|\s{2,})\s*(.+)")
_SECTION = re.compile(r"\[([^\]]+)\]")


def settings_of(name: str, data: bytes) -> dict[str, str]:
    """Return name → value of the file `name`. Raises InputError with every faulty line."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not a text in UTF-8: {error}") from error
    settings, faults = dict[str, str](), list[str]()
    for where, key, value in _of_json(name, text) if text.lstrip().startswith("{") else _of_lines(name, text):
        if not key or not value:
            faults.append(f"{where}: write NAME: VALUE")
        elif len(key) > LONGEST or len(value) > LONGEST:
            faults.append(f"{where}: a name and a value have at most {LONGEST} characters")
        elif settings.setdefault(key, value) != value:
            faults.append(f"{where}: {key} has two values")
    if not settings and not faults:
        faults.append(f"{name}: has no settings")
    if len(settings) > MOST_SETTINGS:
        faults.append(f"{name}: has {len(settings)} settings, more than {MOST_SETTINGS}")
    if faults:
        raise InputError("; ".join(faults[:20]), remedy="write a setting a line, as in `Core Performance Boost: enabled`")
    return settings


def _of_lines(name: str, text: str) -> Iterator[tuple[str, str, str]]:
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        if head := _SECTION.fullmatch(words):
            section = f"{head[1].strip()}: "
            continue
        match = _LINE.fullmatch(words)
        key, value = (match[1].strip(), match[2].strip()) if match else ("", "")
        yield f"{name}:{number}", f"{section}{key}" if key else "", value


def _of_json(name: str, text: str) -> Iterator[tuple[str, str, str]]:
    try:
        held = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON: {error}") from error
    for key, value in held.items():
        if isinstance(value, Mapping):
            yield from ((name, f"{key}: {inner}", _text(of)) for inner, of in value.items())
        else:
            yield name, str(key), _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
