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


def read(kind: type[T], said: object) -> T:
    """Return `said`, a result of json.loads(), as a record of the class `kind`. Raises MisfitError."""
    return cast("T", _reader(cast("Hashable", kind))(said))


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


def _refuse(said: object, wanted: str, kind: FaultKind = FaultKind.TYPE) -> Any:  # noqa: ANN401 - never returns
    raise MisfitError(kind, f"is {repr(said)[:_SHOWN]}, not {wanted}")


def _one_of(allowed: Container[object], wanted: str, kind: FaultKind, first: _Reader = lambda said: said) -> _Reader:
    return lambda said: said if first(said) in allowed else _refuse(said, wanted, kind)


def _or_none(some: _Reader) -> _Reader:
    return lambda said: None if said is None else some(said)


def _number(said: Any) -> float:  # noqa: ANN401 - any JSON value
    return float(said) if type(said) in {int, float} and abs(said) <= sys.float_info.max else _refuse(said, "a number")


def _plain(kind: type) -> _Reader:
    return lambda said: said if type(said) is kind else _refuse(said, kind.__name__)


def _list(*of: _Reader) -> _Reader:
    """Return a reader of lists: of any length for one reader, else one item for each reader."""

    def items(said: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any JSON value
        if not isinstance(said, list) or len(of) not in {1, len(said)}:
            _refuse(said, "a list" if len(of) == 1 else f"a list of {len(of)}")
        return tuple(_part(f"[{i}]", of[i % len(of)], one) for i, one in enumerate(said))

    return items


def _map(of: _Reader) -> _Reader:
    def values(said: Any) -> Mapping[str, Any]:  # noqa: ANN401 - any JSON value
        return {name: _part(name, of, one) for name, one in said.items()} if isinstance(said, dict) else _refuse(said, "an object")

    return values


def _record(kind: type) -> _Reader:
    readers = {name: _reader(of) for name, of in get_type_hints(kind, include_extras=True).items()}
    needed = [field.name for field in fields(kind) if field.default is MISSING]

    def record(said: Any) -> Any:  # noqa: ANN401 - any JSON value
        if not isinstance(said, dict):
            _refuse(said, "an object")
        for name in needed:
            if name not in said:
                raise MisfitError(FaultKind.MISSING, "is missing", name)
        for name in said:
            if name not in readers:
                raise MisfitError(FaultKind.UNKNOWN_KEY, "is not known", name[:_SHOWN])
        return kind(**{name: _part(name, readers[name], value) for name, value in said.items()})

    return record


def _part(step: str, reader: _Reader, said: object) -> Any:  # noqa: ANN401 - as the reader
    try:
        return reader(said)
    except MisfitError as e:
        e.path = step + ("." if e.path and e.path[0] != "[" else "") + e.path
        raise
