"""What tests of generators share: a direction over a link, and what is asked on it."""

from __future__ import annotations

from dutlab.spec.links import Port
from dutlab.tools.engine.load import Direction
from dutlab.tools.generators.counted import SendOrder
from dutlab.units import FrameBytes, Pps, Seconds


def direction(source="10.0.1.2", destination="10.0.2.2"):
    ports = (Port(host=h, interface="eth1") for h in ("source", "sink"))
    return Direction("a", "a", *ports, source, destination, "02:00:00:00:00:02", 49152, isolated=False)


def asked(size=64, rate=None, seconds=3.0):
    return SendOrder(FrameBytes(size), None if rate is None else Pps(rate), Seconds(seconds))
