"""How long things take beside the seconds that a workload asks for. Every constant of the estimate is here.

They are meant to err by being long: a run that ends earlier than announced annoys nobody.
"""

from __future__ import annotations

from dutlab.units import Seconds

LAB_S = Seconds(4.0)
"""Once a run: the lab is built, tools are checked, facts are collected; the lab is taken down."""
MODE_S = Seconds(2.0)
"""Once an application of a mode: read what is there, apply, verify with real frames, restore."""
TOOL_S = {"iperf3": Seconds(0.8), "engine": Seconds(0.5)}
"""Once a trial: the tool starts and ends, counters are read before and after, the record is written."""
OTHER_TOOL_S = Seconds(1.0)
HAND_S = Seconds(300.0)
"""Once a change that a person makes: a setup screen, a cable."""


def tool_overhead(tool: str) -> Seconds:
    """What a trial of `tool` takes beside its own duration."""
    return TOOL_S.get(tool, OTHER_TOOL_S)
