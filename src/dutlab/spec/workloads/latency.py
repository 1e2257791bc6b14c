"""Workload `latency`: one-way latency at shares of one rate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Duration, FrameRate, Share
from dutlab.spec.mixes import Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.workloads.base import LONGEST_TRIAL, LONGEST_WAIT, Params, Setting, Wire, WorkloadModel, too_long
from dutlab.units import Pps, Seconds, line_rate, si

SEARCH_S = Seconds(30.0)
"""What the short search takes, to count with."""
AROUND_TRIAL_S = Seconds(1.0)
MOST_SHARE = 10.0


class LatencyWorkload(WorkloadModel):
    """Latency over the load axis (RFC 8219 section 7): one trial a share of a rate."""

    kind: ClassVar[str] = "latency"
    tool: ClassVar[str] = "engine"

    frame_sizes: tuple[Mix, ...] = Field(default_factory=lambda: (Mix.model_validate(64),))
    rate: FrameRate | None = None
    """Of each link; None is found by a short search of rates without loss."""
    shares: tuple[Share, ...] = (0.0, 0.1, 0.5, 0.9, 1.0, 1.1)
    idle_rate: FrameRate = Pps(1000.0)
    """What a share of 0 sends."""
    duration: Duration = Seconds(30.0)
    warmup: Duration = Seconds(1.0)
    drain: Duration = Seconds(0.5)

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether sizes and shares are there, each once, and the times can be kept."""
        faults = super().cross_faults(data, made)
        if made is None:
            return faults
        for key, names in (("frame_sizes", [m.name for m in made.frame_sizes]), ("shares", [f"{s:g}" for s in made.shares])):
            if not names:
                faults.append(fault((key,), "empty; write at least one"))
            faults += [fault((key, i), "stands twice; `repeats` repeats trials") for i, n in enumerate(names) if n in names[:i]]
        faults += [fault(("shares", i), f"must be 0% to {MOST_SHARE:.0%}") for i, s in enumerate(made.shares) if not 0 <= s <= MOST_SHARE]
        limits: tuple[tuple[str, float, float, float], ...] = (
            ("duration", made.duration, 0.1, LONGEST_TRIAL),
            ("warmup", made.warmup, 0, LONGEST_WAIT),
            ("drain", made.drain, 0, LONGEST_WAIT),
        )
        return faults + [fault((k,), f"must be {low:g}s to {high:g}s, not {v:g}s") for k, v, low, high in limits if not low <= v <= high]

    def count(self, every_link: Iterable[str]) -> int:
        """How many settings there are: all shares are one trial."""
        return len(self.link_sets(every_link)) * len(self.frame_sizes)

    def settings(self, every_link: Iterable[str]) -> Iterator[Setting]:
        """One a set of links and frame size."""
        each = self.warmup + self.duration + self.drain + AROUND_TRIAL_S
        seconds = Seconds(len(self.shares) * each + (SEARCH_S if self.rate is None else 0.0))
        for links in self.link_sets(every_link):
            for mix in self.frame_sizes:
                params: Params = {
                    "frame_size": mix.size or mix.name,
                    "frame_mix": mix.text,
                    "rate_pps": self.rate,
                    "shares_percent": ",".join(f"{round(s * 100, 9):g}" for s in self.shares),
                    "idle_pps": self.idle_rate,
                    "duration_s": self.duration,
                    "warmup_s": self.warmup,
                    "drain_s": self.drain,
                }
                yield Setting(links, params, seconds)

    def misfits(self, wires: Mapping[str, Wire]) -> Iterator[tuple[Loc, str]]:
        """Frames longer than an MTU, and a rate above a line rate."""
        names = sorted({name for links in self.link_sets(wires) for name in links})
        yield from too_long(self.frame_sizes, "frame_sizes", names, wires)
        for name in names:
            speed = wires[name].speed
            slow = [m for m in self.frame_sizes if speed is not None and self.rate is not None and self.rate > line_rate(speed, m.mean)]
            if slow and speed is not None and self.rate is not None:
                ceiling = si(line_rate(speed, slow[0].mean), "pps")
                yield ("rate",), f"{si(self.rate, 'pps')} of frame size {slow[0].name} is more than link {name} carries ({ceiling})"
