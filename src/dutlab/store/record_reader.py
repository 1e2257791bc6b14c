"""Reader of the records of one run. It parses and stores a part only once if several records share it byte for byte.

Most of a record is the same in all repeats: doubts, checks and tool versions. RunFolder writes each part of a record on one line,
indented by one space, and JSON has no line breaks inside strings. So a record can be split at these lines without parsing it. Every part is
then parsed; parts that the reader leaves out are only checked to be JSON. A file in another form is read whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic_core import SchemaValidator, core_schema

from dutlab.plan.cell import Cell
from dutlab.store.record import DoubtRecord, TrialRecord

FIGURES_ONLY: Final = frozenset({"flows", "checks", "counters", "watched", "notes", "tables", "raw"})
"""Parts that are needed only for a report of a single run. Without them, the records of many runs fit into memory."""
_BETWEEN = re.compile(rb'\n "')  # takes half the time of bytes.split
_NAMED, _REPEAT, _END = b'": ', b',\n  "repeat": ', b"\n}\n"
_OWN = frozenset({"trial", "started", "ended", "figures", "counters", "watched", "interference"})
"""Parts that no two records have in common. They are parsed together and not stored."""
_MOST_KEPT, _LONGEST_KEPT, _LONGEST_REPEAT = 4096, 4096, 9
"""Limits: number of stored parts, bytes of a stored part (longer parts are tables of one record), digits of a repeat number."""
_NOTHING_ELSE = (("__pydantic_extra__", None), ("__pydantic_private__", None))
M = TypeVar("M", bound=BaseModel)
_REQUIRED = {name for name, of in TrialRecord.model_fields.items() if of.is_required()}
_DEFAULTS = {name: of.get_default(call_default_factory=True) for name, of in TrialRecord.model_fields.items() if not of.is_required()}
_ALL, _ALL_OF_CELL = set(TrialRecord.model_fields), set(Cell.model_fields)
"""Fields that pydantic treats as set. All records share these sets, since a separate set would take 2 kB per record."""
_PARSED_AT_ONCE = TrialRecord.model_config | ConfigDict(defer_build=False)
_ANY_JSON = SchemaValidator(core_schema.typed_dict_schema({}, extra_behavior="ignore"))


class OtherForm(ValueError):
    """Error: the file does not have RunFolder's form; it may still be a record."""


class RecordReader:
    """Reader of one run. It leaves out the parts in `without`."""

    def __init__(self, without: Collection[str] = ()) -> None:
        self.left_out: Mapping[str, Any] = {name: _DEFAULTS[name] for name in without}
        """Default values of the parts that are left out."""
        own = _OWN.difference(without)
        self._own, self._parse_own = tuple(f'{name}"'.encode() for name in own), _own_parser(own)
        self._known: dict[bytes, tuple[str, Any]] = {}
        self._cells: dict[bytes, Cell] = {}
        self._doubts: dict[DoubtRecord, DoubtRecord] = {}

    def read(self, data: bytes) -> TrialRecord:
        """Return the record of a file. Raises ValueError: OtherForm, or a part is invalid."""
        before, *parts = _BETWEEN.split(data)
        if before != b"{" or not parts or not parts[-1].endswith(_END):
            raise OtherForm
        parts[-1] = parts[-1][: -len(_END)] + b","
        values, own, known = dict[str, Any](), list[bytes](), self._known.get
        for part in parts:
            if (entry := known(part)) is None:
                if part.startswith(self._own):
                    own.append(part)
                    continue
                entry = self._part(part)
            values[entry[0]] = entry[1]
        if not own or not own[-1].endswith(b","):
            raise OtherForm
        values |= vars(self._parse_own(b'{"' + b'"'.join(own)[:-1] + b"}"))
        if len(values) < len(parts) or not values.keys() >= _REQUIRED:
            raise OtherForm
        return _made(TrialRecord, {**_DEFAULTS, **values}, _ALL)

    def _part(self, part: bytes) -> tuple[str, Any]:
        start, _, text = part.partition(_NAMED)
        name, value = start.decode(), text[:-1]
        if not text.endswith(b",") or name not in _ALL:
            raise OtherForm
        if name in self.left_out:
            _ANY_JSON.validate_json(b'{"":' + value + b"}")
            content = self.left_out[name]
        elif name == "cell":
            return name, self._cell(value)
        else:
            content = _parser(name)(value)
        if name == "doubts":
            content = [self._doubts.setdefault(doubt, doubt) for doubt in content]
        if len(value) <= _LONGEST_KEPT and len(self._known) < _MOST_KEPT:
            self._known[part] = name, content
        return name, content

    def _cell(self, value: bytes) -> Cell:
        """Return the cell. Its repeat number comes last, and the rest is the same in all repeats."""
        same, _, last = value.rpartition(_REPEAT)
        digits = last[:-3]
        if not same or last[-3:] != b"\n }" or not digits.isdigit() or digits[:1] == b"0" or len(digits) > _LONGEST_REPEAT:
            return cast("Cell", _parser("cell")(value))
        if (known := self._cells.get(same)) is None:
            known = self._cells[same] = _parser("cell")(value)
        return of_repeat(known, int(digits))


def of_repeat(cell: Cell, repeat: int) -> Cell:
    """Return the cell with another repeat number."""
    return _made(Cell, {**vars(cell), "repeat": repeat}, _ALL_OF_CELL)


def with_parts(record: TrialRecord, **parts: object) -> TrialRecord:
    """Return the record with some parts replaced, without using more memory."""
    return _made(TrialRecord, {**vars(record), **parts}, _ALL)


def _made(kind: type[M], values: dict[str, Any], fields: set[str]) -> M:
    """Return an object of checked values, as `model_construct` does. `model_construct` takes longer than the check."""
    instance = kind.__new__(kind)
    for name, value in (("__dict__", values), ("__pydantic_fields_set__", fields), *_NOTHING_ELSE):
        object.__setattr__(instance, name, value)
    return instance


def prepare() -> None:
    """Build all parsers, which takes longer than reading a few records. Call this before forking a process."""
    for name in _ALL - _OWN:
        _parser(name)
    for without in (frozenset[str](), FIGURES_ONLY):
        _own_parser(_OWN - without)


@cache
def _own_parser(names: frozenset[str]) -> Callable[[bytes], BaseModel]:
    """Return the parser of an object with all of these fields. The parser raises ValueError."""
    fields: dict[str, Any] = {name: (TrialRecord.model_fields[name].rebuild_annotation(), ...) for name in names}
    parts: type[BaseModel] = create_model("OwnParts", __config__=_PARSED_AT_ONCE, **fields)
    return parts.model_validate_json


@cache
def _parser(name: str) -> Callable[[bytes], Any]:
    """Return the parser of a field, from JSON to its value. The parser raises ValueError."""
    config = None if name == "cell" else _PARSED_AT_ONCE
    adapter: TypeAdapter[Any] = TypeAdapter(TrialRecord.model_fields[name].rebuild_annotation(), config=config)
    return adapter.validator.validate_json
