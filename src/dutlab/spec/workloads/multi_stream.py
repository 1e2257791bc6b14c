"""Workload `multi-stream`: several streams at once, each with its own frames and rate, or one after another.

multi-stream:
  streams:
    syn:  {frame_size: 80, rate: 10kpps, frames: 1000, traffic: {transport: tcp-syn, flows: 1000}}
    data: {frame_size: imix, rate: 20kpps, frames: 5000, traffic: {transport: tcp, flows: 1000}}
    call: {frame_size: 218, rate: 1kpps}
  chains: [{steps: [syn, {stream: data, gap: 10ms}], rounds: 3}]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, Strict, ValidationError
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, Name, named
from dutlab.spec.mixes import Mix
from dutlab.spec.model import Loc, SpecModel, did_you_mean, fault, plain_faults
from dutlab.spec.rates import Rate
from dutlab.spec.traffic import Traffic
from dutlab.spec.workloads.base import LONGEST_TRIAL, LONGEST_WAIT, LinkSet, Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.frames import outside
from dutlab.spec.workloads.setting import ELSEWHERE, DrainSaid, DurationSaid, Params, Setting
from dutlab.spec.workloads.sweep import SweepWorkload
from dutlab.units import Seconds

MOST_STREAMS = 64
SHORTEST_TRIAL = Seconds(0.1)
_Count = Annotated[int, Strict(), Field(ge=1, le=2**53 - 1)]
_Rounds = Annotated[int, Strict(), Field(ge=1, le=2**32 - 1)]


def _place(loc: Loc) -> Loc:
    """Convert a place in a sweep of one size and rate into the place in a stream."""
    return {"frame_sizes": ("frame_size",), "rates": ("rate",)}.get(str(loc[0]), loc)


class StreamSpec(SpecModel):
    """One stream on each link."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})

    name: Name
    frame_size: Mix = Field(default_factory=lambda: Mix.model_validate(64))
    rate: Rate = None
    """Rate of the stream; None, written `max`, is full speed."""
    frames: _Count | None = None
    """Number of frames after which the stream ends; in a chain, it counts for each round. None ends it with the trial."""
    traffic: Traffic = Field(default_factory=Traffic.usual)

    def alone(self, links: tuple[LinkSet, ...] | None = None) -> SweepWorkload:
        """Return the workload that sends only this stream. Raises ValidationError for impossible frames."""
        return SweepWorkload(frame_sizes=(self.frame_size,), rates=(self.rate,), traffic=self.traffic, links=links)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Yield the faults of the stream alone."""
        return (fault(*of) for of in self.faults())

    def faults(self, links: tuple[LinkSet, ...] | None = None) -> list[tuple[Loc, str, FaultKind]]:
        """Return its faults on these sets of links, each with its place in the stream."""
        try:
            self.alone(links)
        except ValidationError as error:
            return [(_place(loc), what, kind) for loc, what, kind in plain_faults(error) if loc[0] != "links"]
        return []

    def words(self) -> str:
        """Return a description: `64 bytes at 10000pps, 1000 frames, tcp-syn`."""
        frames = [] if self.frames is None else [f"{self.frames} frames"]
        size = f"{self.frame_size.size} bytes" if self.frame_size.size else self.frame_size.name
        return ", ".join([f"{size} at {self.rate or 'max'}", *frames, *filter(None, [self.traffic.words()])])


class ChainStep(SpecModel):
    """Stream of a chain. Written as its name alone, it begins immediately after the last frame of the stream before."""

    stream: str
    gap: Duration = Seconds(0.0)
    """Time from the last frame of the stream before to the first frame of this one."""

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ({"type": "string"},)

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Accept a name alone."""
        return {"stream": data} if isinstance(data, str) else data


class ChainSpec(SpecModel):
    """Streams one after another, in rounds. Written as a list alone, it has one round."""

    steps: Annotated[tuple[ChainStep, ...], Field(min_length=1)]
    rounds: _Rounds = 1

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ({"type": "array"},)

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Accept a list alone."""
        return {"steps": data} if isinstance(data, list | tuple) else data

    def words(self) -> str:
        """Return a description: `syn, data after 0.01 s, 3 rounds`."""
        steps = [step.stream + (f" after {step.gap:g} s" if step.gap else "") for step in self.steps]
        return ", ".join([*steps, *([f"{self.rounds} rounds"] if self.rounds > 1 else [])])


class MultiStreamSetting(Setting):
    """Setting of a trial: streams, and chains of streams that are sent one after another."""

    kind: Literal["multi-stream"] = "multi-stream"
    streams: Annotated[tuple[StreamSpec, ...], Field(min_length=1), ELSEWHERE]
    chains: Annotated[tuple[ChainSpec, ...], ELSEWHERE] = ()
    duration_s: DurationSaid
    drain_s: DrainSaid

    @property
    def flows(self) -> int:
        """Number of flows of all streams."""
        return sum(stream.traffic.flow_count for stream in self.streams)

    @property
    def words_of_streams(self) -> Params:
        """Part of `params` with one entry per stream."""
        return {f"stream_{stream.name}": stream.words() for stream in self.streams}

    @cached_property
    def params(self) -> Params:
        """Settings as text, with one entry for each stream and chain."""
        chains = {f"chain_{i}": chain.words() for i, chain in enumerate(self.chains, 1)}
        return {**self.words_of_streams, **chains, "duration_s": self.duration_s, "drain_s": self.drain_s}


class MultiStreamWorkload(WorkloadModel):
    """Several streams at once, or one after another, each with its own ledger."""

    tool: ClassVar[str] = "engine"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES})
    setting: ClassVar[type[Setting]] = MultiStreamSetting
    goes_to_sink: ClassVar[bool] = True
    own_frames: ClassVar[bool] = True

    streams: Annotated[dict[Name, StreamSpec], BeforeValidator(named), Field(min_length=1, max_length=MOST_STREAMS)]
    chains: tuple[ChainSpec, ...] = ()
    """Chains of streams that begin one after another; all other streams begin with the trial."""
    duration: Duration = Seconds(30.0)
    """Time after which all streams end."""
    drain: Duration = Seconds(0.5)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that chains name streams with an end, each once, and that durations are in range."""
        yield from super().own_faults()
        yield from outside([("duration", self.duration, SHORTEST_TRIAL, LONGEST_TRIAL), ("drain", self.drain, 0.0, LONGEST_WAIT)])
        for name, stream in self.streams.items():
            yield from (fault(("streams", name, *loc), what, kind) for loc, what, kind in stream.faults(self.links))
        chained = set[str]()
        for i, chain in enumerate(self.chains):
            for j, step in enumerate(chain.steps):
                at: Loc = ("chains", i, "steps", j)
                if step.stream not in self.streams:
                    yield fault(at, f"unknown stream {step.stream!r} {did_you_mean(step.stream, self.streams)}", FaultKind.UNKNOWN_NAME)
                elif step.stream in chained:
                    yield fault(at, f"{step.stream} is in a chain already; a stream is in one, and once", FaultKind.DUPLICATE)
                elif self.streams[step.stream].frames is None:
                    yield fault(
                        ("streams", step.stream, "frames"),
                        "missing; the next of a chain begins when these have been sent",
                        FaultKind.MISSING,
                    )
                chained.add(step.stream)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links."""
        setting = MultiStreamSetting(streams=tuple(self.streams.values()), chains=self.chains, duration_s=self.duration, drain_s=self.drain)
        for links in self.link_sets(every_link):
            yield WorkloadDrive(links, setting, Seconds(self.duration + self.drain))

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield the incompatibilities of each stream, by its place in the file."""
        for name, stream in self.streams.items():
            for loc, what in stream.alone(self.links).incompatibilities(bounds):
                yield ("streams", name, *_place(loc)), what
