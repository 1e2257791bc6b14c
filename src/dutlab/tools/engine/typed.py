"""JSON values as records of protocol.py. A value that does not fit its type is refused, with its place and the kind of fault."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from dutlab.errors import FaultKind

T = TypeVar("T")
_Reader = Callable[[Any], Any]
_SHOWN = 60


class MisfitError(ValueError):
    """A value that its type does not allow, or that is missing. `path` is its place, as in `streams[0].lost`."""

    def __init__(self, kind: FaultKind, what: str, path: str = "") -> None:
        super().__init__(what)
        self.kind, self.what, self.path = kind, what, path

    def __str__(self) -> str:
        return f"`{self.path}` {self.what}" if self.path else f"it {self.what}"


def read(kind: type[T], value: object) -> T:
    """Return `value`, a result of json.loads(), as a record of the class `kind`. Raises MisfitError."""
    return cast("T", _reader(cast("Hashable", kind))(value))


@cache
def _reader(kind: Any) -> _Reader:  # noqa: ANN401 - a class, or what typing makes
    origin, args = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        reader = _record(cast("type", kind))
    elif origin is tuple:
        reader = _list(_reader(args[0])) if args[-1] is ... else _list(*map(_reader, args))
    elif origin is Mapping:
        reader = _map(_reader(args[1]))
    elif origin is Literal:
        reader = _one_of(args, " or ".join(args), FaultKind.UNKNOWN_NAME)
    elif origin is Annotated:
        reader = _one_of(args[1], f"a whole number from {args[1].start} to {args[1].stop - 1}", FaultKind.RANGE, _reader(args[0]))
    elif NoneType in args:
        reader = _or_none(_reader(args[0]))
    else:
        reader = _number if kind is float else _plain(kind)
    return reader


def _refuse(value: object, wanted: str, kind: FaultKind = FaultKind.TYPE) -> Any:  # noqa: ANN401 - never returns
    raise MisfitError(kind, f"is {repr(value)[:_SHOWN]}, not {wanted}")


def _one_of(allowed: Container[object], wanted: str, kind: FaultKind, first: _Reader = lambda value: value) -> _Reader:
    return lambda value: value if first(value) in allowed else _refuse(value, wanted, kind)


def _or_none(some: _Reader) -> _Reader:
    return lambda value: None if value is None else some(value)


def _number(value: Any) -> float:  # noqa: ANN401 - any JSON value
    return float(value) if type(value) in {int, float} and abs(value) <= sys.float_info.max else _refuse(value, "a number")


def _plain(kind: type) -> _Reader:
    return lambda value: value if type(value) is kind else _refuse(value, kind.__name__)


def _list(*of: _Reader) -> _Reader:
    """Return a reader of lists: of any length for one reader, else one item for each reader."""

    def items(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any JSON value
        if not isinstance(value, list) or len(of) not in {1, len(value)}:
            _refuse(value, "a list" if len(of) == 1 else f"a list of {len(of)}")
        return tuple(_part(f"[{i}]", of[i % len(of)], one) for i, one in enumerate(value))

    return items


def _map(of: _Reader) -> _Reader:
    def values(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - any JSON value
        return {name: _part(name, of, one) for name, one in value.items()} if isinstance(value, dict) else _refuse(value, "an object")

    return values


def _record(kind: type) -> _Reader:
    readers = {name: _reader(of) for name, of in get_type_hints(kind, include_extras=True).items()}
    needed = [field.name for field in fields(kind) if field.default is MISSING]

    def record(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if not isinstance(value, dict):
            _refuse(value, "an object")
        for name in needed:
            if name not in value:
                raise MisfitError(FaultKind.MISSING, "is missing", name)
        for name in value:
            if name not in readers:
                raise MisfitError(FaultKind.UNKNOWN_KEY, "is not known", name[:_SHOWN])
        return kind(**{name: _part(name, readers[name], part) for name, part in value.items()})

    return record


def _part(step: str, reader: _Reader, value: object) -> Any:  # noqa: ANN401 - as the reader
    try:
        return reader(value)
    except MisfitError as e:
        e.path = step + ("." if e.path and e.path[0] != "[" else "") + e.path
        raise
