"""Cost of a fleet for a run, in seconds: from "handed to the worker" to the start of the run's process, from its end to "reported done".

Both are read on one clock of the worker, as is the time of the run. Dask and the network take the rest of the time that the asking side
waits. So no figure compares clocks of two machines, and none needs a second run to compare with.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class RunClock:
    """When a run's process began and ended, on this machine's clock, and how long its place waited for others before."""

    began_s: float
    ended_s: float
    waited_s: float


@dataclass(frozen=True)
class FleetCost:
    """Cost of one process of a place, or of several together."""

    before_s: float
    """From "handed to the worker" to the start of the run's process, without what it waited for others who had the testbed."""
    after_s: float
    """From the end of the run's process to the end of the place's."""
    carried_s: float
    """Time that the asking side waited longer than its worker took; 0 on one machine."""
    waited_s: float
    """For others who had the testbed."""
    run_s: float
    """The run's own."""

    @classmethod
    def of(cls, handed_s: float, run: RunClock, done_s: float) -> Self:
        """On the worker, before anything was carried."""
        return cls(run.began_s - handed_s - run.waited_s, done_s - run.ended_s, 0.0, run.waited_s, run.ended_s - run.began_s)

    @classmethod
    def together(cls, lines: Sequence[Mapping[str, Any]]) -> Self | None:
        """The sums of several; None without any."""
        return cls(*(sum(float(line[name]) for line in lines) for name in cls.__dataclass_fields__)) if lines else None

    @property
    def added_s(self) -> float:
        """All that the fleet added, without the waits for others."""
        return self.before_s + self.after_s + self.carried_s

    @property
    def added_share(self) -> float:
        """Share of the run's own time."""
        return self.added_s / self.run_s if self.run_s else 0.0


def on_this_clock() -> float:
    """Return seconds since the boot, by a clock that counts while the machine sleeps and that cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
