"""JSON Schemas of the files that users write, for editors, made from the models of these files.

A model declares its keys with their descriptions. Other forms of a value are declared where the value is read: `json_schema_input_type` of
a validator, `OneOf` where a name selects a model, `written_as` of a model with a shorter form. A schema accepts every file that the models
accept; only `dutlab plan` checks rules between keys.
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

from dutlab.by_path import named
from dutlab.choices import FILE_MODELS
from dutlab.spec.drive_models import KEY
from dutlab.spec.model import SpecModel


def file_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of one kind of file. Raises KeyError for an unknown kind."""
    model: type[SpecModel] = named(FILE_MODELS[kind])
    json_schema = model.model_json_schema(schema_generator=_FileSchema)
    if kind == "testbed":  # the loader takes it before the model reads the rest
        json_schema["properties"][KEY] = {"type": "string", "description": "CSV file with the ratings of drives by model."}
    return {"$schema": _FileSchema.schema_dialect, **json_schema, "title": f"dutlab {kind} file"}


class _FileSchema(GenerateJsonSchema):
    """Schema of the forms that a user writes, without those that only code passes."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the keys of a file with their descriptions, and the shorter forms."""
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
            properties["kind"] = {"const": getattr(cls, "kind")}  # noqa: B009 - only models with `kind_is_written` have this class variable
            required = ["kind", *required]
        if required:
            json_schema["required"] = required
        return {"anyOf": [*cls.written_as, json_schema]} if cls.written_as else json_schema

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema without the default, which `model_schema` adds in the form of a file."""
        return self.generate_inner(schema["schema"])


def _defaults(cls: type[SpecModel]) -> dict[str, Any]:
    """Return key → default, in the form of a file.

    Fields without a default or with None are left out, and so are all fields of models that are written as text.
    """
    if cls.__pydantic_decorators__.model_serializers:
        return {}
    cls.model_rebuild()
    return cls.model_construct().model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)


@cache
def _words(cls: type[Any]) -> dict[str, str]:
    """Return field → the docstring below it, in the class and its base classes."""
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
