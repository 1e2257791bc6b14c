"""Generator `engine`: dutlab's own, which counts, orders and times every frame."""

from __future__ import annotations

from typing import ClassVar

from dutlab.spec.generators.base import GeneratorModel


class EngineModel(GeneratorModel):
    """dutlab-engine; it can all that can be asked."""

    kind: ClassVar[str] = "engine"
