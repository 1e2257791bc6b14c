"""What generators have in common that send and nothing else: what arrived is told by counters, of the ports or of the other end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dutlab.spec.generators.base import Ask, StreamsModel

NOT_TIMED = "its frames carry no time that the sink could read"
ONE_FLOW = "it is started with one flow of UDP"
ONE_SIZE = "one size is written into its frames"
PLAIN_UDP: Mapping[Ask, str] = {
    Ask.SEVERAL_SIZES: ONE_SIZE,
    Ask.ORDER: ONE_SIZE,
    Ask.TRANSPORT: ONE_FLOW,
    Ask.FLOWS: ONE_FLOW,
    Ask.VLANS: ONE_FLOW,
    Ask.LATENCY: NOT_TIMED,
}
"""What a program cannot do that sends one flow of UDP of one size, without times in it."""


class CountedModel(StreamsModel):
    """A generator without a receiver of its own."""

    stepped: ClassVar[bool] = True
    lacks: ClassVar[Mapping[Ask, str]] = {**PLAIN_UDP, Ask.READINGS: "counters are read before and after a trial"}
