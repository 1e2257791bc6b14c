"""Base class of the models of input files: frozen, all faults reported at once, unknown keys refused with a list of known ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError

from dutlab.errors import FaultKind
from dutlab.units import UnitError

FILE_CONTEXT = {"file": True}
"""Validation context of a user's file: a quantity needs a unit, and fields that only code may set are unknown."""

NAME_KEY = object()
"""Key under which `fields.named` passes an entry its name; no file can contain it."""

Loc = tuple[str | int, ...]
SPEC_FAULT = "spec_fault"
_ONE_KEY_FAULT = "spec_fault_of_one_key"


def from_file(info: ValidationInfo) -> bool:
    """Return whether the value was written by a user, not by code."""
    return bool(info.context and info.context.get("file"))


class ValueFault(ValueError):
    """Fault of one value, raised by its validator. A plain ValueError is of the kind INVALID, a UnitError of the kind UNIT."""

    def __init__(self, what: str, kind: FaultKind) -> None:
        super().__init__(what)
        self.kind = kind


def fault(loc: Loc, what: str, kind: FaultKind = FaultKind.INVALID) -> InitErrorDetails:
    """Return a fault at `loc`, relative to the model that finds it."""
    return InitErrorDetails(type=PydanticCustomError(SPEC_FAULT, "{what}", {"what": what, "kind": kind}), loc=loc, input=None)


def raised(loc: Loc, error: ValueError) -> InitErrorDetails:
    """Return the error that a check of a value raised, as the fault at `loc`."""
    return fault(loc, str(error), _kind_of(error))


def fault_of_key(key: str, what: str, kind: FaultKind = FaultKind.INVALID) -> InitErrorDetails:
    """Return a fault of one key that does not depend on other keys; it is reported even if others are wrong."""
    return InitErrorDetails(type=PydanticCustomError(_ONE_KEY_FAULT, "{what}", {"what": what, "kind": kind}), loc=(key,), input=None)


def faults_of(error: ValidationError, prefix: Loc = ()) -> list[InitErrorDetails]:
    """Return the faults that pydantic collected, with `prefix` before their paths, to be raised again with others."""
    return [fault((*prefix, *loc), what, kind) for loc, what, kind in plain_faults(error)]


def plain_faults(error: ValidationError) -> list[tuple[Loc, str, FaultKind]]:
    """Return the faults that pydantic collected, as path, message and kind."""
    return [(e["loc"], _words(e), _kind(e)) for e in error.errors(include_url=False, include_input=False)]


def refuse(title: str, faults: list[InitErrorDetails]) -> ValidationError:
    """Return all `faults` as one exception."""
    return ValidationError.from_exception_data(title, faults)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `(known: a, b; did you mean a?)`, without the question if no known word is similar."""
    names = sorted(known)
    from difflib import get_close_matches  # noqa: PLC0415 -- only a fault needs it

    near = get_close_matches(word, names, n=1)
    return f"(known: {', '.join(names) or 'none'}{f'; did you mean {near[0]}?' if near else ''})"


_OF_PYDANTIC = {
    "missing": (FaultKind.MISSING, "missing"),
    "string_type": (FaultKind.TYPE, "must be text"),
    "int_type": (FaultKind.TYPE, "must be a whole number"),
    "bool_type": (FaultKind.TYPE, "must be true or false"),
    "tuple_type": (FaultKind.TYPE, "must be a list, as in [a, b]"),
    "dict_type": (FaultKind.TYPE, "must be a mapping of keys to values"),
    "string_too_short": (FaultKind.MISSING, "empty"),
    "string_too_long": (FaultKind.RANGE, "must be at most {max_length} characters"),
    "too_short": (FaultKind.RANGE, "must hold at least {min_length} items, not {actual_length}"),
    "too_long": (FaultKind.RANGE, "must hold at most {max_length} items, not {actual_length}"),
    "greater_than_equal": (FaultKind.RANGE, "must be at least {ge}"),
    "less_than_equal": (FaultKind.RANGE, "must be at most {le}"),
    "literal_error": (FaultKind.UNKNOWN_NAME, "must be {expected}"),
    "enum": (FaultKind.UNKNOWN_NAME, "must be {expected}"),
}
"""Pydantic's error type → kind and message of dutlab; names in braces are keys of the error's context."""


def _words(error: ErrorDetails) -> str:
    if error["type"] in _OF_PYDANTIC:
        return _OF_PYDANTIC[error["type"]][1].format_map(error.get("ctx", {}))
    return error["msg"].removeprefix("Value error, ")


def _kind(error: ErrorDetails) -> FaultKind:
    if error["type"] in _OF_PYDANTIC:
        return _OF_PYDANTIC[error["type"]][0]
    of = error.get("ctx", {})
    return FaultKind(of.get("kind") or _kind_of(of.get("error")))


def _kind_of(error: ValueError | None) -> FaultKind:
    return error.kind if isinstance(error, ValueFault) else FaultKind.UNIT if isinstance(error, UnitError) else FaultKind.INVALID


class SpecModel(BaseModel):
    """Base model of a mapping in an input file. Instances are immutable.

    Subclasses may override `read` (shorter written forms), `own_faults` (rules between fields that are each valid) and `cross_faults`
    (rules between fields as they are written, valid or not).
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    @classmethod
    def usual(cls) -> Self:
        """Return the model with every default, without building its schema, which a short command may never need."""
        return cast("Self", cls.model_construct())  # pydantic's plugin of mypy types it as the base class

    only_code: ClassVar[frozenset[str]] = frozenset()
    """Fields that a file cannot set."""

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """JSON Schemas of the shorter forms that `read` accepts."""

    kind_is_written: ClassVar[bool] = False
    """True if the key `kind` in a file selects the model."""

    not_yet: ClassVar[Mapping[str, str]] = {}
    """Key that this version does not support → why a file with it is refused. In records of older versions, such keys are ignored."""

    @classmethod
    def file_keys(cls) -> dict[str, str]:
        """Key in a file → field name."""
        return {f.alias or name: name for name, f in cls.model_fields.items() if name not in cls.only_code}

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Return what was written as a mapping of field names. Raises ValueError."""
        return data

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Yield faults between fields. `data` is what was written, `made` the model, or None where a field is wrong."""
        if made is not None:
            yield from made.own_faults()

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Yield faults between fields that are each valid."""
        return iter(())

    @model_validator(mode="wrap")
    @classmethod
    def _whole(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:  # noqa: ANN401
        if isinstance(data, cls):
            return handler(data)
        data = cls.read(data)
        if not isinstance(data, Mapping):
            raise ValueFault(f"must be a mapping of keys to values (keys: {', '.join(sorted(cls.file_keys()))})", FaultKind.TYPE)
        early = [fault((k,), why, FaultKind.UNKNOWN_KEY) for k, why in cls.not_yet.items() if k in data] if from_file(info) else []
        data = {k: v for k, v in data.items() if k not in cls.not_yet}
        keys = cls.file_keys()
        allowed = set(keys) if from_file(info) else set(keys) | set(cls.model_fields)
        faults = early + [
            fault((str(k),), f"unknown key {did_you_mean(str(k), keys)}", FaultKind.UNKNOWN_KEY)
            for k in data
            if k not in allowed and k is not NAME_KEY
        ]
        known = {k: v for k, v in data.items() if k in allowed}
        if NAME_KEY in data:
            known["name"] = data[NAME_KEY]
        instance: Self | None = None
        try:
            instance = handler(known)
        except ValidationError as error:
            details = faults_of(error)
            # An entry's name is its key in the file, so a fault of the name belongs to the whole entry.
            faults += [InitErrorDetails({**of, "loc": ()}) if of["loc"] == ("name",) and NAME_KEY in data else of for of in details]
            faults += cls._faults_of_other_keys(known, {of["loc"][0] for of in details if of["loc"]}, handler)
        faults += cls.cross_faults(known, instance)
        if faults or instance is None:
            raise refuse(cls.__name__, faults)
        return instance

    @classmethod
    def _faults_of_other_keys(
        cls, written: Mapping[Any, Any], wrong: Collection[str | int], handler: ModelWrapValidatorHandler[Self]
    ) -> list[InitErrorDetails]:
        """Return the faults of single keys where other keys are `wrong`, found by leaving out the wrong keys."""
        fields = cls.file_keys()
        left = {key: value for key, value in written.items() if not {key, fields.get(key, key)} & set(wrong)}
        try:
            instance = handler(left)
        except ValidationError:  # a required key is among the wrong ones
            return []
        return [of for of in cls.cross_faults(left, instance) if _has_single_key(of) and of["loc"][0] in left]


@dataclass(frozen=True)
class OneOf:
    """Annotation, only for the JSON Schema, of a value whose name selects the model."""

    models: Callable[[], Mapping[str, type[SpecModel]]]
    by_kind: bool = False
    """True if the name is under the key `kind`; otherwise it is the only key of a mapping."""
    or_name: bool = False
    """True if the name may be given alone, without settings."""

    def __get_pydantic_json_schema__(self, _core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        each = dict[str, Any]()
        for name, model in self.models().items():
            model.model_rebuild()
            each[name] = handler(model.__pydantic_core_schema__)
        if self.by_kind:
            return {"anyOf": list(each.values())}
        keyed = {"type": "object", "properties": each, "additionalProperties": False, "minProperties": 1, "maxProperties": 1}
        return {"anyOf": [{"enum": list(each)}, keyed]} if self.or_name else keyed


def _has_single_key(of: InitErrorDetails) -> bool:
    return isinstance(of["type"], PydanticCustomError) and of["type"].type == _ONE_KEY_FAULT
