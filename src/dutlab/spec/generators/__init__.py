"""Generators of frames: dutlab's own engine, or another program behind the same interface.

    generator: trafgen                                    # of an experiment, a testbed, or one workload
    generator: {trafgen: {streams: 2, cores: [2, 3]}}

Each generator has one file. Requests that it cannot meet are refused when an experiment is loaded. dutlab/choices.py lists their parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationError, ValidationInfo

from dutlab import choices
from dutlab.by_path import ByPath
from dutlab.errors import FaultKind
from dutlab.spec.generators.base import GeneratorFeature, GeneratorModel
from dutlab.spec.generators.engine import EngineModel
from dutlab.spec.model import Loc, OneOf, ValueFault, did_you_mean, fault, faults_of, refuse

__all__ = ["ENGINE", "GENERATORS", "Generator", "GeneratorFeature", "GeneratorModel", "unfit"]


GENERATORS: Mapping[str, type[GeneratorModel]] = ByPath({name: plug.model for name, plug in choices.GENERATORS.items()})
ENGINE = EngineModel.usual()


def _named(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, GeneratorModel):
        return value
    if isinstance(value, str):
        value = {value: None}
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueFault("must be the name of a generator, or it with its options, as in {trafgen: {cores: [2]}}", FaultKind.TYPE)
    kind, body = next(iter(value.items()))
    if kind not in GENERATORS:
        raise refuse(
            "generator", [fault((), f"unknown generator {str(kind)!r} {did_you_mean(str(kind), GENERATORS)}", FaultKind.UNKNOWN_NAME)]
        )
    try:
        return GENERATORS[kind].model_validate(body, context=info.context)
    except ValidationError as error:
        raise refuse("generator", faults_of(error, (str(kind),))) from error


def _written(generator: GeneratorModel) -> Any:  # noqa: ANN401 JSON
    return json.loads(text) if (text := generator.text()).startswith("{") else text


Generator = Annotated[GeneratorModel, BeforeValidator(_named), PlainSerializer(_written), OneOf(lambda: GENERATORS, or_name=True)]
"""Generator and its options."""


def unfit(generator: GeneratorModel, asks: Iterable[tuple[Loc, GeneratorFeature]]) -> Iterator[tuple[Loc, str]]:
    """Yield (place, fault) for each feature in `asks` that `generator` lacks; the fault names the reason and generators that have it."""
    for loc, ask in asks:
        if ask in generator.missing:
            able = [kind for kind, model in GENERATORS.items() if ask not in model.lacks and kind != generator.kind]
            yield loc, f"generator {generator.kind} cannot be asked for {ask.value}: {generator.missing[ask]}; use {' or '.join(able)}"
