"""Times of a trial of generated frames: what is sent before it and waited after it, and how long it lasts itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Duration
from dutlab.spec.workloads.base import LONGEST_TRIAL, LONGEST_WAIT
from dutlab.spec.workloads.frames import FrameWorkload, outside
from dutlab.units import Seconds


class FramesAround(FrameWorkload):
    """Frames with a warm-up before each trial and a drain after it."""

    warmup: Duration = Seconds(1.0)
    """Sent before the trial and not counted."""
    drain: Duration = Seconds(0.5)
    """Waited after the last frame, before counters are read."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether both can be kept."""
        faults = super().cross_faults(data, made)
        around = [] if made is None else [("warmup", made.warmup, 0.0, LONGEST_WAIT), ("drain", made.drain, 0.0, LONGEST_WAIT)]
        return [*faults, *outside(around)]


class TimedFrames(FramesAround):
    """Trials of one duration."""

    shortest: ClassVar[Seconds] = Seconds(0.1)
    duration: Duration = Seconds(30.0)

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether the duration can be kept, too."""
        faults = super().cross_faults(data, made)
        return faults if made is None else [*faults, *outside([("duration", made.duration, cls.shortest, LONGEST_TRIAL)])]

    @property
    def trial_s(self) -> Seconds:
        """What a trial takes, counting alone left out."""
        return Seconds(self.warmup + self.duration + self.drain)
