"""Workload `generation`: frames a second that a generator makes on a number of cores, without sending them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration
from dutlab.spec.generators import Generator
from dutlab.spec.generators.base import MOST_STREAMS
from dutlab.spec.generators.ipgen import FrameWork, IpgenModel
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import fault, fault_of_key
from dutlab.spec.workloads.base import LONGEST_WAIT, LinkSet, Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.frames import each_once
from dutlab.spec.workloads.setting import LASTS, STREAMS, MadeSetting, Setting, Words
from dutlab.units import Seconds

AROUND_S = Seconds(1.0)
"""Time around the measurement, which begins at a full second of the clock."""

_Streams = Annotated[int, Strict(), Field(ge=1, le=MOST_STREAMS)]


class GenerationSetting(MadeSetting):
    """Setting of a trial: concurrent processes that make frames of one size. The generator, ipgen by default, sends nothing."""

    kind: Literal["generation"] = "generation"

    work: Annotated[FrameWork, Words("making {}")]
    streams: Annotated[int, Field(ge=1), STREAMS]
    duration_s: Annotated[int, Field(ge=1), LASTS]


class GenerationWorkload(WorkloadModel):
    """Benchmark of the generator with each size, number of streams and kind of work, on the sending host."""

    tool: ClassVar[str] = "ipgen"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.COMMANDS})
    setting: ClassVar[type[Setting]] = GenerationSetting

    generator: Generator | None = None
    frame_sizes: FrameSizes = Field(default_factory=lambda: tuple(Mix.model_validate(n) for n in (64, 512, 1518)))
    streams: tuple[_Streams, ...] = (1,)
    """Numbers of concurrent processes, each on a separate core where the generator or the testbed names cores."""
    work: tuple[FrameWork, ...] = tuple(FrameWork)
    duration: Duration = Seconds(3.0)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that lists have values without duplicates, and that the generator has a benchmark for the sizes and the time."""
        yield from super().own_faults()
        yield from each_once("frame_sizes", [mix.name for mix in self.frame_sizes])
        yield from each_once("streams", [str(n) for n in self.streams])
        yield from each_once("work", [work.value for work in self.work])
        generator = self.generator or IpgenModel()
        if not isinstance(generator, IpgenModel):
            yield fault(("generator",), f"{generator.kind} has no benchmark; use ipgen", FaultKind.CONFLICT)
        for i, mix in enumerate(self.frame_sizes):
            several = "" if mix.size else "its frames are of one size; write the sizes one by one"
            if what := several or generator.size_fault(int(mix.size or 0), ipv6=False):
                yield fault(("frame_sizes", i), what)
        for i, links in enumerate(self.links or ()):
            if len(links) > 1:
                yield fault(("links", i), "write one link: the host at its source makes the frames", FaultKind.CONFLICT)
        if not float(self.duration).is_integer() or not 1 <= self.duration <= LONGEST_WAIT:
            yield fault_of_key(
                "duration", f"ipgen takes whole seconds, here from 1s to {LONGEST_WAIT:g}s, not {self.duration:g}s", FaultKind.RANGE
            )

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return len(self._of_hosts(every_link)) * len(self.frame_sizes) * len(self.streams) * len(self.work)

    def drives(self, every_link: Mapping[str, LinkBounds]) -> Iterator[WorkloadDrive]:
        """Yield one drive per host, kind of work, size and number of streams."""
        for links, work, size, streams in product(self._of_hosts(every_link), self.work, self.frame_sizes, self.streams):
            setting = GenerationSetting(
                frame_size=size, work=work, streams=streams, duration_s=int(self.duration), generator=self.generator
            )  # fmt: skip
            yield WorkloadDrive(links, setting, Seconds(self.duration + AROUND_S))

    def _of_hosts(self, every_link: Mapping[str, LinkBounds]) -> list[LinkSet]:
        """Return the given sets of links, or else one link for each sending host."""
        of_host: dict[str, LinkSet] = {}
        for name, bounds in every_link.items() if self.links is None else ():
            of_host.setdefault(bounds.ends[0], (name,))
        return list(self.links or of_host.values())
