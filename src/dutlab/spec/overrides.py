"""Option `--set KEY=VALUE`: change one key of a file after it is read and before it is checked.

    factors.mode=router,nat            a list: the value has commas
    repeats=1                          a single value
    testbed.lab=three-node             a key of a mapping; it replaces a plain value of `testbed`
    workloads.sweep.duration=2s        a key of every `sweep` in the list
    workloads.0.links=[[a], [a, b]]    YAML: the value begins with a bracket

A fault of such a value has the place `--set:N:1`, where N is the number of the option, from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dutlab.errors import Fault, FaultKind, SpecRefused
from dutlab.spec.model import Loc
from dutlab.spec.yaml_source import Source, SourcePosition, parse, printable
from dutlab.units import number_or_text

OPTION = "--set"


def apply(source: Source, overrides: Sequence[str]) -> list[Fault]:
    """Apply the overrides to `source` in place. Return a fault for each override that is not KEY=VALUE, or whose key does not exist."""
    faults: list[Fault] = []
    for number, text in enumerate(overrides, start=1):
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            faults.append(_fault(number, key, "write KEY=VALUE, as in factors.mode=router,nat", FaultKind.SYNTAX))
            continue
        try:
            new = _value(value, number)
        except SpecRefused as refused:
            faults += [_fault(number, key, fault.what, fault.kind) for fault in refused.faults]
            continue
        parts = tuple(part.strip() for part in key.split("."))
        if not isinstance(source.data, dict):
            continue  # the fault of the file reports this
        if not _put(source, parts, new, number):
            faults.append(_fault(number, key, "the file has no such place", FaultKind.UNKNOWN_KEY))
    return faults


def _fault(number: int, key: str, what: str, kind: FaultKind) -> Fault:
    return Fault(OPTION, number, 1, printable(key.strip()) or "file", what, kind)


def _value(text: str, number: int) -> Any:  # noqa: ANN401 what a user wrote can be anything
    s = text.strip()
    if not s:
        return None
    if s[0] not in "[{\"'" and "," in s:
        return [_value(part, number) for part in s.split(",")]
    return parse(s.encode("utf-8", "surrogateescape"), OPTION).data


def _put(source: Source, parts: tuple[str, ...], new: Any, number: int) -> bool:  # noqa: ANN401
    """Set the value; return False if its key does not exist."""
    *parents, last = parts
    spots = _spots(source, tuple(parents), number)
    for at, holder in spots:
        if isinstance(holder, list):
            if (place := _place_in(holder, last)) is None:
                return False
            key: str | int = place
            old = holder[place]
        else:
            key, old = last, holder.get(last)
        wants_list = isinstance(old, list) or at == ("factors",)
        holder[key] = [new] if wants_list and not isinstance(new, list | dict) else new
        for loc in [loc for loc in source.places if loc[: len(at) + 1] == (*at, key)]:
            del source.places[loc]
        source.places[*at, key] = SourcePosition(OPTION, number, 1)
    return bool(spots)


def _place_in(holder: list[Any], part: str) -> int | None:
    place = number_or_text(part)
    return place if isinstance(place, int) and place < len(holder) else None


def _spots(source: Source, parts: tuple[str, ...], number: int) -> list[tuple[Loc, Any]]:
    """Return every mapping or list at the path. A name selects, in a list, all entries with that key."""
    spots: list[tuple[Loc, Any]] = [((), source.data)]
    for part in parts:
        further: list[tuple[Loc, Any]] = []
        for at, holder in spots:
            if isinstance(holder, dict):
                if not isinstance(holder.get(part), dict | list):
                    holder[part] = {}
                    source.places[*at, part] = SourcePosition(OPTION, number, 1)
                further.append(((*at, part), holder[part]))
            elif (place := _place_in(holder, part)) is not None:
                further.append(((*at, place), holder[place]))
            else:
                further += [((*at, i, part), item[part]) for i, item in enumerate(holder) if isinstance(item, dict) and part in item]
        spots = [(at, holder) for at, holder in further if isinstance(holder, dict | list)]
    return spots
