"""JSON Schemas of the files that users write, for editors: made from the models that read these files.

A model has its keys and their words. Other forms of a value are declared where it is read: `json_schema_input_type` of a validator,
`OneOf` where a name chooses among models, `written_as` of a model with a shorter form. A schema accepts every file that the models accept;
what holds between keys is checked by `dutlab plan` alone.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from dutlab.choices import FILE_MODELS
from dutlab.spec.model import SpecModel
from dutlab.workloads import named


def file_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one kind of file. Raises KeyError for another kind."""
    model: type[SpecModel] = named(FILE_MODELS[kind])
    json_schema = model.model_json_schema(schema_generator=_FileSchema)
    return {"$schema": _FileSchema.schema_dialect, **json_schema, "title": f"dutlab {kind} file"}


class _FileSchema(GenerateJsonSchema):
    """Schema of what a user writes, not of what code passes."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The keys of a file, each with its words; and the shorter forms."""
        json_schema = super().model_schema(schema)
        cls: type[Any] = schema["cls"]
        if not issubclass(cls, SpecModel):
            return json_schema
        properties: dict[str, Any] = json_schema.setdefault("properties", {})
        required: list[str] = json_schema.pop("required", [])
        words, defaults = _words(cls), _defaults(cls)
        for name, field in cls.model_fields.items():
            key = field.alias or name
            if name in cls.only_code:
                del properties[key]
                required = [other for other in required if other != key]
                continue
            properties[key].pop("title", None)
            properties[key] |= ({"description": words[name]} if name in words else {}) | (
                {"default": defaults[key]} if key in defaults else {}
            )
        if cls.kind_is_written:
            properties["kind"] = {"const": getattr(cls, "kind")}  # noqa: B009 - a class variable of those that have it written
            required = ["kind", *required]
        if required:
            json_schema["required"] = required
        return {"anyOf": [*cls.written_as, json_schema]} if cls.written_as else json_schema

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Without the default: `model_schema` writes it as a file has it."""
        return self.generate_inner(schema["schema"])


def _defaults(cls: type[SpecModel]) -> dict[str, Any]:
    """Key → its default as a file would have it; none of fields that have none, or None, and none of models that are written as text."""
    if cls.__pydantic_decorators__.model_serializers:
        return {}
    cls.model_rebuild()
    return cls.model_construct().model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)


@cache
def _words(cls: type[Any]) -> dict[str, str]:
    """Field → the docstring below it, of the class and of those that it inherits from."""
    words_by_field: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, SpecModel) or base is SpecModel:
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = getattr(tree, "body", [])
        for field, below in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                words_by_field[field.target.id] = " ".join(below.value.value.split())
    return words_by_field
