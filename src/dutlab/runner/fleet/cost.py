"""Cost of a fleet for a run, in seconds: from "handed to the worker" to the start of the run's process, from its end to "reported done".

Both are measured on one clock of the worker, as is the time of the run. The rest of the time that the caller waits is for Dask and the
network. So no figure compares clocks of two machines, and none needs a second run as a reference.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class RunClock:
    """Start and end of a run's process on this machine's clock, and the wait for other users before it, in seconds."""

    began_s: float
    ended_s: float
    waited_s: float


@dataclass(frozen=True)
class FleetCost:
    """Cost of one or several processes of a planned run."""

    before_s: float
    """From "handed to the worker" to the start of the run's process, without the wait for other users of the testbed."""
    after_s: float
    """From the end of the run's process to the end of the place's process."""
    carried_s: float
    """Time that the caller waited longer than its worker took; 0 on one machine."""
    waited_s: float
    """Wait for other users of the testbed."""
    run_s: float
    """Time of the run itself."""

    @classmethod
    def of(cls, handed_s: float, run: RunClock, done_s: float) -> Self:
        """Return the cost as the worker knows it, without `carried_s`."""
        return cls(run.began_s - handed_s - run.waited_s, done_s - run.ended_s, 0.0, run.waited_s, run.ended_s - run.began_s)

    @classmethod
    def together(cls, lines: Sequence[Mapping[str, Any]]) -> Self | None:
        """Return the sum of several costs; None without any."""
        return cls(*(sum(float(line[name]) for line in lines) for name in cls.__dataclass_fields__)) if lines else None

    @property
    def added_s(self) -> float:
        """Total time that the fleet added, without waits for other users."""
        return self.before_s + self.after_s + self.carried_s

    @property
    def added_share(self) -> float:
        """Total added time as a share of the run's own time."""
        return self.added_s / self.run_s if self.run_s else 0.0


def on_this_clock() -> float:
    """Return seconds since boot, by a clock that also runs while the machine sleeps and cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
