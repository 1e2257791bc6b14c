"""Connection tear-down rate (RFC 9693 section 4.8): N connections ÷ the time in which the DUT deletes all of them at once.

The duration of the command includes the time to reach the DUT. The command is also timed on an empty table, which takes only that time;
both are recorded. Afterwards each connection is answered: no answer may pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MeasurementError
from dutlab.methods.ports import Row
from dutlab.methods.stateful_nat.phases import Phases

EMPTY_TIMES = 3
"""Number of times that the command is timed on an empty table."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class TearDown:
    """Result of the test."""

    figures: Mapping[str, float]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()


async def measure(phases: Phases, connections: int, rate_per_s: float, *, clock: Clock = time.monotonic) -> TearDown:
    """Run the test. Raises MeasurementError, HostError."""
    if phases.states is None:
        raise MeasurementError("this DUT cannot delete all of its connections at once", remedy="take a DUT of family linux")
    await phases.forget()
    empty = []
    for _ in range(EMPTY_TIMES):
        began = clock()
        await phases.states.forget()
        empty.append(clock() - began)
    _, learned = await phases.begin(connections, rate_per_s)
    if learned.frames != connections:
        raise MeasurementError(f"{learned.frames} of {connections} connections were established", remedy="lower fill_rate")
    tracked = (await phases.counts()).tracked
    began = clock()
    await phases.states.forget()
    took_s, empty_s = max(clock() - began, 1e-9), median(empty)
    left = (await phases.answer(connections, rate_per_s * phases.setting.alpha_ratio)).flows[0].received_frames
    figures = {"tear_down_per_s": connections / took_s, "tear_down_s": took_s}
    row: Row = {"asked_connections": connections, "tracked_flows": tracked, "took_s": took_s, "empty_s": empty_s, "left_connections": left}
    if took_s > empty_s:
        figures["tear_down_net_per_s"] = connections / (took_s - empty_s)
    if not left:
        return TearDown(figures, (row,))
    words = f"{left} of {connections} connections let an answer through after they had been deleted"
    return TearDown(figures, (row,), (f"tear-down: {words}",), (Doubt(DoubtKind.LIMIT_UNEXPLAINED, words, "tear_down_per_s"),))
