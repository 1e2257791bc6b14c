"""Workloads of an experiment file: the load on the DUT, its tool and its links.

    workloads:
      - iperf3: {streams: 4, omit: 5s, duration: 30s, links: [[a], [b], [a, b]]}
      - search: {preset: csit, frame_sizes: [64, 1518], links: [[a]]}
      - sweep:  {frame_sizes: [64, 1518, imix], rates: [max, 100kpps], duration: 30s, links: [[a]]}

Each workload has one file and expands into settings. Each combination of a setting, factor levels and a repeat is a trial.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, SerializeAsAny, ValidationError, ValidationInfo
from pydantic.json_schema import models_json_schema

from dutlab.by_path import named
from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds, TestbedBounds
from dutlab.spec.model import Loc, OneOf, ValueFault, did_you_mean, fault, faults_of, refuse
from dutlab.spec.workloads.base import Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.setting import IMPORTED, Setting
from dutlab.workloads import plug_of, settable

__all__ = [
    "AnySetting",
    "LinkBounds",
    "Need",
    "Setting",
    "TestbedBounds",
    "Workload",
    "WorkloadDrive",
    "WorkloadModel",
    "model_of",
    "settings_schema",
]


def model_of(workload: str) -> type[WorkloadModel]:
    """Import and return the model of a workload's settings. Raises KeyError for a workload that no experiment can use."""
    if not (path := plug_of(workload).settings):
        raise KeyError(workload)
    model: type[WorkloadModel] = named(path)
    return model


def _dispatch(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """Return `{sweep: {...}}` as the model that the key names."""
    if isinstance(value, WorkloadModel):
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueFault(f"must be one of {', '.join(settable())} with its settings, as in `- sweep: {{duration: 30s}}`", FaultKind.TYPE)
    kind, body = next(iter(value.items()))
    at: Loc = (str(kind),)
    if kind not in settable():
        raise refuse("workload", [fault(at, f"unknown workload {did_you_mean(str(kind), settable())}", FaultKind.UNKNOWN_NAME)])
    try:
        return model_of(kind).model_validate(body, context=info.context)
    except ValidationError as error:
        raise refuse("workload", faults_of(error, at)) from error


Workload = Annotated[
    WorkloadModel,
    BeforeValidator(_dispatch),
    OneOf(lambda: {kind: model_of(kind) for kind in settable()}),
    PlainSerializer(lambda w: {w.kind: w.model_dump(mode="json")}),
]
"""One entry of `workloads`."""


def _setting(value: Any) -> Any:  # noqa: ANN401 JSON
    """Return an object of a plan or a record as the setting that its `kind` names."""
    if isinstance(value, Setting):
        return value
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if kind != IMPORTED and not plug_of(str(kind)).settings:
        raise ValueFault(f"kind: unknown workload {did_you_mean(str(kind), settable())}", FaultKind.UNKNOWN_NAME)
    text = str(value)
    if (known := _READ.get(text)) is None:
        model: type[Setting] = ImportedSetting if kind == IMPORTED else model_of(str(kind)).setting
        known = model.model_validate_json(json.dumps(value))
        if len(_READ) < _MOST_KEPT:
            _READ[text] = known
    return known


_READ: dict[str, Setting] = {}
"""Cache: text of a mapping → its setting, which is immutable. A plan has each setting once per repeat and mode, and each record has one."""
_MOST_KEPT = 1024


AnySetting = Annotated[SerializeAsAny[Setting], BeforeValidator(_setting)]
"""Setting of any workload; its `kind` names the workload."""


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schemas of all settings by name, and under `Setting` the choice among them."""
    models: list[type[Setting]] = [*(model_of(kind).setting for kind in settable()), ImportedSetting]
    refs, schema = models_json_schema([(model, "serialization") for model in models])
    definitions: dict[str, Any] = schema["$defs"]
    return {**definitions, "Setting": {"oneOf": list(refs.values()), "discriminator": {"propertyName": "kind"}}}
