"""Workload `reconf`: load during a change of the DUT's mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, FrameRate, Name, YesNo
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.known import PROGRAM_MODES, WITHOUT_A_WAY_IN
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.workloads.base import LONGEST_TRIAL, Need, WorkloadDrive
from dutlab.spec.workloads.frames import HELD_AND_WATCHED, FramesAround, each_once, outside
from dutlab.spec.workloads.setting import AT_RATE, DrainSaid, FrameSetting, PositiveRate, SecondsLong, Setting, WarmupSaid, Words
from dutlab.systems.linux import LINUX
from dutlab.units import Seconds

if TYPE_CHECKING:
    from dutlab.spec.shape import TestbedShape

FAILURE = "failure"
"""Name of a change that is a failure of the device."""
RELOAD = "reload"
"""Name that means the present mode of the DUT: its rules are loaded again."""
SHORTEST_AROUND = Seconds(1.0)
"""Shortest load before and after a change: a generator needs some tenths of a second to begin, and the change must be within the load."""
AROUND_TRIAL_S = Seconds(2.0)


class ReconfSetting(FrameSetting):
    """Setting of a trial: a load, and the mode that the DUT changes into meanwhile."""

    kind: Literal["reconf"] = "reconf"
    rate_pps: Annotated[PositiveRate, AT_RATE]
    """Rate of each link."""
    to: Annotated[Name, Words("into {}")]
    failure: Annotated[bool, Words("as a failure of the device", {False: ""})] = False
    changes: Annotated[int, Field(ge=1), Words("{} changes")]
    before_s: Annotated[SecondsLong, Words("{} s before")]
    after_s: Annotated[SecondsLong, Words("{} s after")]
    warmup_s: WarmupSaid
    drain_s: DrainSaid

    @property
    def modes(self) -> tuple[str, ...]:
        """Mode that the DUT changes into."""
        return (self.to,)


class ReconfWorkload(FramesAround):
    """Time out of service at a change of mode, one load per change: lost frames ÷ offered rate (as RFC 6201 section 4 times a reset)."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.TRANSIT})
    setting: ClassVar[type[Setting]] = ReconfSetting
    features: ClassVar[tuple[tuple[Loc, GeneratorFeature], ...]] = HELD_AND_WATCHED

    rate: FrameRate
    """Rate of each link, at which the DUT loses nothing."""
    to: tuple[Name, ...] = (RELOAD,)
    """Modes that the DUT is changed into and back from; each is a separate trial."""
    failure: YesNo = False
    """True if the modes in `to` are failures of the device. A figure then shows whether frames still pass, and recovery is not awaited."""
    changes: Annotated[int, Strict(), Field(ge=1, le=1000)] = 10
    """Number of changes in each direction."""
    frame_sizes: FrameSizes = Field(default_factory=lambda: (Mix.model_validate(64),))
    before: Duration = Seconds(2.0)
    after: Duration = Seconds(5.0)
    """Time of load after a change; a DUT that has not recovered by its end is reported."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there is a mode to change into, and that the times are in range."""
        yield from super().own_faults()
        yield from each_once("to", self.to)
        if self.failure and RELOAD in self.to:
            yield fault(("to",), f"{RELOAD} loads the same mode again; name a mode that makes the device fail", FaultKind.CONFLICT)
        yield from outside(
            [
                ("before", self.before, SHORTEST_AROUND, LONGEST_TRIAL),
                ("after", self.after, SHORTEST_AROUND, LONGEST_TRIAL),
            ]
        )

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return super().count(every_link) * len(self.to)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links, frame size and mode to change into."""
        each = self.warmup + self.before + self.after + self.drain + AROUND_TRIAL_S
        for links, mix in self.sized(every_link):
            for to in self.to:
                setting = ReconfSetting(
                    frame_size=mix,
                    generator=self.generator,
                    rate_pps=self.rate,
                    to=to,
                    failure=self.failure,
                    changes=self.changes,
                    before_s=self.before,
                    after_s=self.after,
                    warmup_s=self.warmup,
                    drain_s=self.drain,
                )
                loads = 1 + self.changes * (1 if to == RELOAD or self.failure else 2)
                yield WorkloadDrive(links, setting, Seconds(loads * each), mix)

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also a fault for a rate above line rate."""
        yield from super().incompatibilities(bounds)
        yield from self.above_line_rate(("rate",), self.rate, bounds)

    def unfit(self, written: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
        """Yield faults: unknown modes, and modes without commands, since a change without effect would lose no frame."""
        own, factors = written.get("modes"), written.get("factors")
        yield from bed.unknown_modes([(("to", i), to) for i, to in enumerate(self.to)], own, RELOAD)
        if bed.family in WITHOUT_A_WAY_IN:
            yield (), f"changes the mode within a trial, but no command reaches the DUT of {bed.title}, of family {bed.family}"
            return
        levels = factors.get("mode") if isinstance(factors, Mapping) else None
        for name in dict.fromkeys([*self.to, *(levels if isinstance(levels, list) else ())]):
            mode = own.get(name) if isinstance(own, Mapping) and isinstance(name, str) else None
            starts = bool(mode.get("start")) if isinstance(mode, Mapping) else bed.family == LINUX.name and name in PROGRAM_MODES
            if starts and self.to != (RELOAD,):
                yield ("to",), f"mode {name} is programs, which no other mode ends: write [{RELOAD}], which starts them again"
            elif isinstance(mode, Mapping) and not mode.get("apply") and not starts:
                yield ("to",), f"mode {name} has no commands to `apply`: changing into it, or back to it, would do nothing"
