"""Make the generator that an experiment names. Its module is imported only then (dutlab/choices.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from dutlab.by_path import named
from dutlab.choices import GENERATORS
from dutlab.spec.generators import ENGINE, GeneratorModel
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool
from dutlab.tools.generators.guarded import GuardedGenerator
from dutlab.tools.generators.stepped import Stepped

Make = Callable[[GeneratorModel, GeneratorSite], GeneratorTool]


def make(model: GeneratorModel, place: GeneratorSite) -> GeneratorTool:
    """Return the generator that `model` describes, for the hosts and links of `place`. Nothing is started yet."""
    if model.kind == ENGINE.kind:
        return place.engine.on(model.cores) if model.cores else place.engine
    generator: GeneratorTool = GuardedGenerator(cast("Make", named(GENERATORS[model.kind].make))(model, place), place)
    return Stepped(generator) if model.stepped else generator
