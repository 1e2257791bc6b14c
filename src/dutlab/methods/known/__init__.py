"""Devices with known answers, and what each method must find of them.

Every answer follows from what the device does, never from what was measured: of n frames one that drops each 7th loses n ÷ 7, rounded down;
a policer with a bucket of d frames and r a second passes a trial of T seconds whole up to r + d ÷ T.
"""

from __future__ import annotations

from dutlab.methods.known import counts, rates, times, translated
from dutlab.methods.known.case import Case, FaultyDevice, Known

__all__ = ["CASES", "Case", "FaultyDevice", "Known"]

CASES: tuple[Case, ...] = (*counts.CASES, *times.CASES, *rates.CASES, *translated.CASES)
"""Every known device; those that take longest come last."""
