"""Line of the frames that an overloaded device forwards over time: those in its buffers, then its rate.

A device with a rate c and buffers for B frames forwards B + c t frames in the first t seconds of an overload. So two overloaded trials of
different lengths show both, and the highest load without loss in a trial of T seconds is c + B / T. Short trials alone overrate a device
with large buffers, because they end before these are full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

APART = 1.5
"""Least ratio of two durations that show rate and buffers separately: closer ones would multiply small differences of the rate."""


@dataclass(frozen=True)
class Overload:
    """Frames that left one link of the device in a trial with loss, and the time in which they were offered."""

    seconds: float
    forwarded_frames: float

    @property
    def rate_pps(self) -> float:
        """Mean rate of forwarding."""
        return self.forwarded_frames / self.seconds


@dataclass(frozen=True)
class ForwardingLine:
    """Rate of a device under overload, and the frames that its buffers hold (at least 0)."""

    rate_pps: float
    held_frames: float

    def forwarded_frames(self, seconds: float) -> float:
        """Return the frames forwarded in the first seconds of an overload."""
        return self.held_frames + self.rate_pps * seconds

    def limit_pps(self, seconds: float) -> float:
        """Return the highest load that a trial of this length forwards without loss."""
        return self.rate_pps + self.held_frames / seconds


def forwarding_line(trials: Sequence[Overload]) -> ForwardingLine:
    """Return the line through the shortest and the longest of one or more trials.

    Without two different lengths, or if the longer trial was the faster one, the buffers are taken as empty.
    """
    short, long = min(trials, key=lambda t: t.seconds), max(trials, key=lambda t: t.seconds)
    if long.seconds < APART * short.seconds:
        return ForwardingLine(min(t.rate_pps for t in trials), 0.0)
    rate = (long.forwarded_frames - short.forwarded_frames) / (long.seconds - short.seconds)
    held = short.forwarded_frames - rate * short.seconds
    return ForwardingLine(long.rate_pps, 0.0) if held < 0 else ForwardingLine(max(rate, 0.0), held)
