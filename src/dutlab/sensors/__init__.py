"""What is watched while a trial runs: samples once a second, counters before and after."""

from __future__ import annotations

from dutlab.sensors.counters import difference, read_counters
from dutlab.sensors.sampler import WATCH_COST, Sample, Sampler

__all__ = ["WATCH_COST", "Sample", "Sampler", "difference", "read_counters"]
