"""What is watched while a trial runs: samples once a second, counters before and after."""

from __future__ import annotations

from dutlab.sensors.counters import CARRIER_CHANGES, difference
from dutlab.sensors.sampler import WATCH_COST, Sample, Sampler
from dutlab.sensors.systems import cpu_watch, read_counters

__all__ = ["CARRIER_CHANGES", "WATCH_COST", "Sample", "Sampler", "cpu_watch", "difference", "read_counters"]
