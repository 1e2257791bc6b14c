"""Every generator, and the module that drives it: that has `make(model, place)`, and is imported when an experiment names its generator."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from dutlab.hosts.host import Host
from dutlab.methods.ports import Generator
from dutlab.spec.generators import ENGINE, GeneratorModel
from dutlab.spec.testbed import Testbed
from dutlab.tools.engine import Engine

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


@dataclass(frozen=True)
class Place:
    """Where a generator is to work. `cpus` is role → cores for the programs that send and receive, where the testbed gives any."""

    hosts: Mapping[str, Host]
    testbed: Testbed
    cpus: Mapping[str, Sequence[int]]
    engine: Engine

    def cores(self, model: GeneratorModel, role: str) -> tuple[int, ...]:
        """The cores to pin to on the host that sends: those that were asked for, or the testbed's; empty for none."""
        return model.cores or tuple(self.cpus.get(role) or ())


class GeneratorTool(Generator, Protocol):
    """A generator that is found, versioned and checked on its hosts before it is used."""

    async def check(self) -> str:
        """Its version; of both ends when they differ. Raises ToolMissing when it is not there or cannot work there, HostError."""

    async def close(self) -> None:
        """Ends whatever of it still runs. It can be used again after that."""


Make = Callable[[GeneratorModel, Place], GeneratorTool]


def make(model: GeneratorModel, place: Place) -> GeneratorTool:
    """The generator that `model` describes, at work in `place`; nothing is started yet."""
    if model.kind == ENGINE.kind:
        return place.engine.on(model.cores) if model.cores else place.engine
    made = cast("Make", importlib.import_module(MODULES[model.kind]).make)(model, place)
    if not model.stepped:
        return made
    from dutlab.tools.stepped import Stepped  # noqa: PLC0415 -- it is one of these itself

    return Stepped(made)
