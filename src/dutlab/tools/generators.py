"""Every generator, and the module that drives it: that has `make(model, place)`, and is imported when an experiment names its generator."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import cast

from dutlab.spec.generators import ENGINE, GeneratorModel
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool
from dutlab.tools.stepped import Stepped

MODULES: Mapping[str, str] = {
    "trafgen": "dutlab.tools.trafgen",
    "iperf3-udp": "dutlab.tools.iperf3_udp",
    "pktgen": "dutlab.tools.pktgen",
    "xdp-trafficgen": "dutlab.tools.xdp_trafficgen",
    "trex": "dutlab.tools.trex",
    "pkt-gen": "dutlab.tools.pkt_gen",
    "ipgen": "dutlab.tools.ipgen",
}
"""Generator → its module; the engine is there already."""

Make = Callable[[GeneratorModel, GeneratorSite], GeneratorTool]


def make(model: GeneratorModel, place: GeneratorSite) -> GeneratorTool:
    """The generator that `model` describes, at work in `place`; nothing is started yet."""
    if model.kind == ENGINE.kind:
        return place.engine.on(model.cores) if model.cores else place.engine
    made = cast("Make", importlib.import_module(MODULES[model.kind]).make)(model, place)
    return Stepped(made) if model.stepped else made
