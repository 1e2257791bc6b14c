"""Workload `generators`: what each generator makes, with the DUT between source and sink and without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Duration
from dutlab.spec.generators import Generator, GeneratorFeature, GeneratorModel
from dutlab.spec.generators.base import MOST_STREAMS, StreamsModel
from dutlab.spec.mixes import Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.base import LinkBounds, Need, WorkloadDrive
from dutlab.spec.workloads.frames import each_once
from dutlab.spec.workloads.setting import LoadSetting, Setting
from dutlab.spec.workloads.timed import TimedFrames
from dutlab.units import Seconds

_Streams = Annotated[int, Strict(), Field(ge=1, le=MOST_STREAMS)]


class GeneratorsSetting(LoadSetting):
    """One generator with so many streams, as fast as it can."""

    kind: Literal["generators"] = "generators"
    left_out: ClassVar[frozenset[str]] = frozenset({"generator", "rate", "traffic"})

    streams: Annotated[int, Field(ge=1)]


class GeneratorsWorkload(TimedFrames):
    """Each generator on each host, with each number of streams and each frame size, as fast as it can."""

    kind: ClassVar[str] = "generators"
    tool: ClassVar[str] = "engine"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.TRANSIT})
    setting: ClassVar[type[Setting]] = GeneratorsSetting
    shortest: ClassVar[Seconds] = Seconds(0.5)
    only_code: ClassVar[frozenset[str]] = frozenset({"generator"})

    generators: tuple[Generator, ...]
    frame_sizes: tuple[Mix, ...] = Field(default_factory=lambda: tuple(Mix.model_validate(n) for n in (64, 512, 1518)))
    streams: tuple[_Streams, ...] = (1,)
    senders: tuple[Literal["source", "sink"], ...] = ("source",)
    """The host that sends; the other one receives."""
    duration: Duration = Seconds(10.0)

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether each thing is there, once, and the generators have as many streams."""
        faults = super().cross_faults(data, made)
        if made is None:
            return faults
        faults += each_once("generators", [g.text() for g in made.generators])
        faults += each_once("streams", [str(n) for n in made.streams])
        faults += each_once("senders", made.senders)
        for i, model in enumerate(made.generators):
            if isinstance(model, StreamsModel):
                if model.streams != 1:
                    faults.append(fault(("generators", i), "write streams next to the list of generators, not in it"))
            elif max(made.streams, default=1) > 1:
                what = f"{model.kind} sends one stream to a port; compare it in a workload of its own, with streams: [1]"
                faults.append(fault(("generators", i), what))
        return faults

    def count(self, every_link: Iterable[str]) -> int:
        """How many drives there are."""
        return super().count(every_link) * len(self.generators) * len(self.streams) * len(self.senders)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """One a set of links, size, generator, number of streams and host."""
        for links, mix in self.sized(every_link):
            for model, streams, host in product(self.generators, self.streams, self.senders):
                setting = GeneratorsSetting(
                    frame_size=mix,
                    generator=_with_streams(model, streams),
                    streams=streams,
                    directions=Directions.FORWARD if host == "source" else Directions.BACK,
                    duration_s=self.duration,
                    warmup_s=self.warmup,
                    drain_s=self.drain,
                )
                yield WorkloadDrive(links, setting, self.trial_s, mix)

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """Frames from the sink too, if it is to send."""
        yield from super().asks()
        if "sink" in self.senders:
            yield ("senders", self.senders.index("sink")), GeneratorFeature.BOTH_WAYS

    def beyond(self, generator: GeneratorModel, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Of each generator in the list; that of the experiment is none of them."""
        del generator
        for model in self.generators:
            yield from super().beyond(model, bounds)


def _with_streams(model: GeneratorModel, streams: int) -> GeneratorModel:
    return model.model_copy(update={"streams": streams}) if isinstance(model, StreamsModel) else model
