"""Workload `sweep`: frames of each size at each rate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PlainSerializer
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Duration, FrameRate, text_of
from dutlab.spec.mixes import Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.workloads.base import LONGEST_TRIAL, LONGEST_WAIT, Params, Setting, Wire, WorkloadModel, too_long
from dutlab.units import RFC2544_FRAME_SIZES, Seconds, line_rate, si

SHORTEST_SWEEP = Seconds(0.1)


def _rate(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    return None if value == "max" else value


Rate = Annotated[FrameRate | None, BeforeValidator(_rate), PlainSerializer(lambda v: "max" if v is None else text_of(v, "pps"))]


class SweepWorkload(WorkloadModel):
    """Frames of each size at each rate, counted and timed by the engine (throughput at a given load, RFC 2544 section 26.3's trial)."""

    kind: ClassVar[str] = "sweep"
    tool: ClassVar[str] = "engine"

    frame_sizes: tuple[Mix, ...] = Field(default_factory=lambda: tuple(Mix.model_validate(n) for n in RFC2544_FRAME_SIZES))
    rates: tuple[Rate, ...] = (None,)
    """Frames a second on each link; None, written `max`, is as fast as the generator can."""
    duration: Duration = Seconds(30.0)
    warmup: Duration = Seconds(1.0)
    """Sent before the trial and not counted."""
    drain: Duration = Seconds(0.5)
    """Waited after the last frame, before counters are read."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether sizes and rates are there, each once, and the times can be kept."""
        faults = super().cross_faults(data, made)
        if made is None:
            return faults
        for key, names in (("frame_sizes", [m.name for m in made.frame_sizes]), ("rates", [str(r) for r in made.rates])):
            if not names:
                faults.append(fault((key,), "empty; a sweep needs at least one"))
            faults += [fault((key, i), "stands twice; `repeats` repeats trials") for i, n in enumerate(names) if n in names[:i]]
        limits: tuple[tuple[str, float, float, float], ...] = (
            ("duration", made.duration, SHORTEST_SWEEP, LONGEST_TRIAL),
            ("warmup", made.warmup, 0, LONGEST_WAIT),
            ("drain", made.drain, 0, LONGEST_WAIT),
        )
        faults += [fault((k,), f"must be {low:g}s to {high:g}s, not {v:g}s") for k, v, low, high in limits if not low <= v <= high]
        return faults

    def count(self, every_link: Iterable[str]) -> int:
        """How many settings there are."""
        return len(self.link_sets(every_link)) * len(self.frame_sizes) * len(self.rates)

    def settings(self, every_link: Iterable[str]) -> Iterator[Setting]:
        """One a set of links, size and rate."""
        for links in self.link_sets(every_link):
            for mix in self.frame_sizes:
                for rate in self.rates:
                    params: Params = {
                        "frame_size": mix.size or mix.name,
                        "frame_mix": mix.text,
                        "rate_pps": rate,
                        "duration_s": self.duration,
                        "warmup_s": self.warmup,
                        "drain_s": self.drain,
                    }
                    yield Setting(links, params, Seconds(self.warmup + self.duration + self.drain), mix)

    def misfits(self, wires: Mapping[str, Wire]) -> Iterator[tuple[Loc, str]]:
        """Frames longer than an MTU, and rates above a line rate."""
        names = sorted({name for links in self.link_sets(wires) for name in links})
        yield from too_long(self.frame_sizes, "frame_sizes", names, wires)
        for name in names:
            if (speed := wires[name].speed) is None:
                continue
            for i, rate in enumerate(self.rates):
                slow = [mix for mix in self.frame_sizes if rate is not None and rate > line_rate(speed, mix.mean)]
                if slow and rate is not None:
                    ceiling = si(line_rate(speed, slow[0].mean), "pps")
                    yield ("rates", i), f"{si(rate, 'pps')} of frame size {slow[0].name} is more than link {name} carries ({ceiling})"
