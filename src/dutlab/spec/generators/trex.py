"""Generator `trex`: Cisco's TRex, stateless, on a machine that has both ends of every link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dutlab.spec.generators.base import GeneratorFeature, GeneratorModel
from dutlab.spec.generators.counted import EVENLY, NOT_SHARED, NOT_TIMED, ONE_FLOW

AbsolutePath = Annotated[str, Field(pattern=r"^/[^\s'\"]*$")]
"""On the generator's machine."""


class TrexModel(GeneratorModel):
    """A server that is started for the run, or runs already."""

    kind: ClassVar[str] = "trex"
    stepped: ClassVar[bool] = True
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {
        **{ask: f"{why}; give it a profile of your own (profile: FILE.py)" for ask, why in ONE_FLOW.items()},
        **NOT_TIMED,
        **EVENLY,
        **NOT_SHARED,
        GeneratorFeature.ORDER: "it mixes sizes by their rates, in no order",
        GeneratorFeature.READINGS: "its counters are read once, after the drain",
    }

    path: AbsolutePath = "/opt/trex"
    """The folder of the release, with t-rex-64 in it."""
    server: Literal["own", "running"] = "own"
    config: AbsolutePath | None = None
    """A trex_cfg.yaml that is there, for cards that DPDK drives: port 2n is the source's end of the n-th link, port 2n+1 the sink's.
    Without it one is written that has TRex use the links' interfaces by AF_PACKET."""
    profile: AbsolutePath | None = None
    """A stateless profile of the user's own, instead of our frames; its rates are scaled to what is asked."""
