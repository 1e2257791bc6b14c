"""Workload `generators`: the rate of each generator, with the DUT and without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, Name
from dutlab.spec.generators import Generator, GeneratorFeature, GeneratorModel, unfit
from dutlab.spec.generators.base import MOST_STREAMS, StreamsModel
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, did_you_mean, fault
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.base import LinkSet, Need, WorkloadDrive
from dutlab.spec.workloads.frames import TimedFrames, each_once
from dutlab.spec.workloads.setting import STREAMS, LoadSetting, Setting, Words
from dutlab.subject import joined
from dutlab.units import Seconds

_Streams = Annotated[int, Strict(), Field(ge=1, le=MOST_STREAMS)]


class GeneratorsSetting(LoadSetting):
    """Setting of a trial: one generator with a number of streams, at full speed."""

    kind: Literal["generators"] = "generators"
    left_out: ClassVar[frozenset[str]] = frozenset({"generator", "rate", "traffic"})

    streams: Annotated[int, Field(ge=1), STREAMS]
    sender: Annotated[str, Words("sender {}", place=1)]
    """Sending host; `s1+s2` for several."""


class GeneratorsWorkload(TimedFrames):
    """Each generator on each host, with each number of streams and each frame size, at full speed."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.TRANSIT})
    setting: ClassVar[type[Setting]] = GeneratorsSetting
    shortest: ClassVar[Seconds] = Seconds(0.5)
    only_code: ClassVar[frozenset[str]] = frozenset({"generator"})

    generators: tuple[Generator, ...]
    frame_sizes: FrameSizes = Field(default_factory=lambda: tuple(Mix.model_validate(n) for n in (64, 512, 1518)))
    streams: tuple[_Streams, ...] = (1,)
    senders: tuple[Name, ...] | None = None
    """Sending hosts. Each sends on the paths of which it is an end; the other end receives. None is the source of each path."""
    duration: Duration = Seconds(10.0)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that lists have values without duplicates, and that each generator can send the number of streams."""
        yield from super().own_faults()
        yield from each_once("generators", [g.text() for g in self.generators])
        yield from each_once("streams", [str(n) for n in self.streams])
        if self.senders is not None:
            yield from each_once("senders", self.senders)
        for i, model in enumerate(self.generators):
            if isinstance(model, StreamsModel):
                if model.streams != 1:
                    yield fault(("generators", i), "write streams next to the list of generators, not in it", FaultKind.CONFLICT)
            elif max(self.streams, default=1) > 1:
                what = f"{model.kind} sends one stream to a port; compare it in a separate workload, with streams: [1]"
                yield fault(("generators", i), what, FaultKind.CONFLICT)

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        sent = sum(len(_directions(self.senders, links, every_link)) for links in self.link_sets(every_link))
        return sent * len(self.frame_sizes) * len(self.generators) * len(self.streams)

    def drives(self, every_link: Mapping[str, LinkBounds]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links, size, generator, number of streams and host."""
        for links, mix in self.sized(every_link):
            for model, streams, directions in product(self.generators, self.streams, _directions(self.senders, links, every_link)):
                setting = GeneratorsSetting(
                    frame_size=mix,
                    generator=_with_streams(model, streams),
                    streams=streams,
                    directions=directions,
                    sender=joined(dict.fromkeys(every_link[link].ends[-1 if directions is Directions.BACK else 0] for link in links)),
                    duration_s=self.duration,
                    warmup_s=self.warmup,
                    drain_s=self.drain,
                )
                yield WorkloadDrive(links, setting, self.trial_s, mix)

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also a fault for senders that are at no end of the links."""
        yield from super().incompatibilities(bounds)
        ends = sorted({end for name in self.driven(bounds) for end in bounds[name].ends})
        for i, host in enumerate(self.senders or ()):
            if not any(_directions((host,), links, bounds) for links in self.link_sets(bounds)):
                what = "no set of links that this drives has all of them begin, or all of them end, at"
                yield ("senders", i), f"{what} {host!r} {did_you_mean(host, ends)}"

    def sent_by(self, generator: GeneratorModel) -> tuple[GeneratorModel, ...]:
        """Return the generators of its list."""
        return self.generators

    def beyond(self, generator: GeneratorModel, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield requests that a generator of the list cannot meet; the experiment's `generator` is not used."""
        sinks = {bounds[name].ends[-1] for name in self.driven(bounds)}
        back = [(("senders", i), GeneratorFeature.BACK) for i, host in enumerate(self.senders or ()) if host in sinks]
        for model in self.generators:
            yield from super().beyond(model, bounds)
            yield from unfit(model, back)


def _with_streams(model: GeneratorModel, streams: int) -> GeneratorModel:
    return model.model_copy(update={"streams": streams}) if isinstance(model, StreamsModel) else model


def _directions(senders: Sequence[str] | None, links: LinkSet, wires: Mapping[str, LinkBounds]) -> list[Directions]:
    """Return the directions in which a set of links is driven: one per sender that is at the same end of all of them."""
    if senders is None:
        return [Directions.FORWARD]
    of_ends = ((Directions.FORWARD, 0), (Directions.BACK, -1))
    return [way for host in senders for way, end in of_ends if all(wires[link].ends[end] == host for link in links)]
