"""Generators that only send. Received frames are counted by port counters or by the other end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dutlab.spec.generators.base import GeneratorFeature, StreamsModel

ONE_SIZE: Mapping[GeneratorFeature, str] = dict.fromkeys(
    (GeneratorFeature.SEVERAL_SIZES, GeneratorFeature.ORDER), "one size is written into its frames"
)
ONE_FLOW: Mapping[GeneratorFeature, str] = dict.fromkeys(
    (GeneratorFeature.TRANSPORT, GeneratorFeature.FLOWS, GeneratorFeature.VLANS, GeneratorFeature.EXTENSIONS, GeneratorFeature.VARIED),
    "it is started with one flow of UDP",
)
NOT_TIMED: Mapping[GeneratorFeature, str] = {GeneratorFeature.LATENCY: "its frames carry no time that the sink could read"}
EVENLY: Mapping[GeneratorFeature, str] = {GeneratorFeature.BURSTS: "its rate is of single frames, evenly"}
NOT_SHARED: Mapping[GeneratorFeature, str] = {
    GeneratorFeature.SHARED_PORTS: "a port does not state whose frames it counts, unless the links are driven one by one"
}
PLAIN_UDP: Mapping[GeneratorFeature, str] = {**ONE_SIZE, **ONE_FLOW, **NOT_TIMED, **EVENLY, **NOT_SHARED}
"""Features that are missing in a program that sends one UDP flow of one frame size, without timestamps."""


class CountedModel(StreamsModel):
    """Generator without a receiver."""

    stepped: ClassVar[bool] = True
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {**PLAIN_UDP, GeneratorFeature.READINGS: "counters are read before and after a trial"}
