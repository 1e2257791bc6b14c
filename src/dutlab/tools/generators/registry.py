"""Every generator, and the module that drives it: that has `make(model, place)`, and is imported when an experiment names its generator."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import cast

from dutlab.spec.generators import ENGINE, GeneratorModel
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool
from dutlab.tools.generators.guarded import GuardedGenerator
from dutlab.tools.generators.stepped import Stepped

MODULES: Mapping[str, str] = {
    "trafgen": "dutlab.tools.generators.trafgen",
    "iperf3-udp": "dutlab.tools.generators.iperf3_udp",
    "pktgen": "dutlab.tools.generators.pktgen",
    "xdp-trafficgen": "dutlab.tools.generators.xdp_trafficgen",
    "trex": "dutlab.tools.generators.trex",
    "pkt-gen": "dutlab.tools.generators.pkt_gen",
    "ipgen": "dutlab.tools.generators.ipgen",
}
"""Generator → its module; the engine is there already."""

Make = Callable[[GeneratorModel, GeneratorSite], GeneratorTool]


def make(model: GeneratorModel, place: GeneratorSite) -> GeneratorTool:
    """The generator that `model` describes, at work in `place`; nothing is started yet."""
    if model.kind == ENGINE.kind:
        return place.engine.on(model.cores) if model.cores else place.engine
    made: GeneratorTool = GuardedGenerator(cast("Make", importlib.import_module(MODULES[model.kind]).make)(model, place), place)
    return Stepped(made) if model.stepped else made
