"""The report's model as JSON: everything that the page shows, for programs. Rates in bits and frames a second, latencies in nanoseconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from dutlab.report.model.run_report import RunReport

REPORT_SCHEMA_VERSION = 1


def json_data(runs: Sequence[RunReport]) -> str:
    """Return the reports as JSON. A missing figure is an object with `why` instead of `median`.

    Each part of a run and each entry of a list is on one line, so that files can be compared by line; the encoder in C cannot indent.
    """
    return f'{{"schema_version": {REPORT_SCHEMA_VERSION}, "runs": [{",".join(map(_run, runs))}]}}\n'


def _run(run: RunReport) -> str:
    parts = ((field.name, getattr(run, field.name)) for field in fields(run))
    return "{\n" + ",\n".join(f" {_text(name)}: {_part(value)}" for name, value in parts) + "}"


def _part(value: object) -> str:
    return "[" + ",".join(f"\n  {_text(entry)}" for entry in value) + "]" if isinstance(value, (list, tuple)) else _text(value)


def _plain(value: object) -> dict[str, Any]:
    return {name: getattr(value, name) for name in _names(type(value))}  # type: ignore[arg-type]  # mypy: a class would not be hashable


@cache
def _names(kind: type) -> tuple[str, ...]:
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} has no JSON")
    return tuple(field.name for field in fields(kind))


_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain).encode


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of json_data()'s output: the contract in contracts/report.schema.json."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - only who writes or checks the contract needs it

    from dutlab.analysis.doctor import Finding  # noqa: F401, PLC0415 -- TypeAdapter looks for the names of annotations here too

    schema = TypeAdapter(RunReport).json_schema(mode="serialization", ref_template="#/$defs/{model}")
    defs = schema.pop("$defs")
    for of in (*defs.values(), schema):
        if "properties" in of:  # every field is always written
            of |= {"required": list(of["properties"]), "additionalProperties": False}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report",
        "description": "report.json: figures in base units, named at the end of each name; every part of a run is always present.",
        "type": "object",
        "properties": {
            "schema_version": {"const": REPORT_SCHEMA_VERSION},
            "runs": {"type": "array", "items": {"$ref": "#/$defs/RunReport"}},
        },
        "required": ["schema_version", "runs"],
        "additionalProperties": False,
        "$defs": {**defs, "RunReport": schema},
    }
