"""Devices with known behaviour, and the correct result of each method for them.

Every expected result follows from the device's rule, never from a measurement. A device that drops every 7th of n frames loses n ÷ 7,
rounded down. A policer with r frames per second and a bucket of d frames loses nothing in T seconds at rates up to r + d ÷ T.
"""

from __future__ import annotations

from dutlab.methods.known import counts, rates, times, translated
from dutlab.methods.known.case import Case, FaultyDevice, Known

__all__ = ["CASES", "Case", "FaultyDevice", "Known"]

CASES: tuple[Case, ...] = (*counts.CASES, *times.CASES, *rates.CASES, *translated.CASES)
"""Every known device; the slowest come last."""
