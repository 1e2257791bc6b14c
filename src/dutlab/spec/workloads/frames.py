"""Base models of workloads that send frames: frame sizes, generators, and checks against the links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, Self

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration
from dutlab.spec.generators import Generator, GeneratorFeature, GeneratorModel, unfit
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault, fault_of_key
from dutlab.spec.traffic import Traffic
from dutlab.spec.workloads.base import LONGEST_TRIAL, LONGEST_WAIT, LinkSet, Need, WorkloadModel
from dutlab.units import Pps, Seconds, line_rate, si

ROUNDING = 1e-9
"""Allowed rounding error, as a share, of a rate equal to line rate."""


HELD_AND_WATCHED: tuple[tuple[Loc, GeneratorFeature], ...] = ((("rate",), GeneratorFeature.RATE), ((), GeneratorFeature.READINGS))
"""Generator features for a workload with a constant `rate` and readings of each second."""


class FrameWorkload(WorkloadModel):
    """Workload with frame sizes (bytes with FCS) or mixes; each size with each set of links is a setting."""

    tool: ClassVar[str] = "engine"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES})
    goes_to_sink: ClassVar[bool] = True
    own_frames: ClassVar[bool] = True
    features: ClassVar[tuple[tuple[Loc, GeneratorFeature], ...]] = ()
    """Features that it needs of its generator with any settings, each with its place in the body."""

    frame_sizes: FrameSizes
    generator: Generator | None = None
    """Generator of the frames; None is the experiment's."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there are sizes without duplicates."""
        yield from super().own_faults()
        yield from each_once("frame_sizes", [mix.name for mix in self.frame_sizes])

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return len(self.link_sets(every_link)) * len(self.frame_sizes)

    def sized(self, every_link: Iterable[str]) -> Iterator[tuple[LinkSet, Mix]]:
        """Return each set of links with each size."""
        return product(self.link_sets(every_link), self.frame_sizes)

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield a fault for frames longer than an MTU."""
        for name in self.driven(bounds):
            for i, mix in enumerate(self.frame_sizes):
                if mix.longest > (most := bounds[name].longest_frame):
                    yield (
                        ("frame_sizes", i),
                        f"{mix.longest} bytes with FCS do not pass link {name}: its MTU of {bounds[name].mtu} carries {most}",
                    )

    def too_short(self, traffic: Traffic, *, ipv6: bool, tag_bytes: int = 0) -> Iterator[tuple[Loc, str]]:
        """Yield a fault for frames too short for the headers and the probe of `traffic`, and for further tags."""
        least = traffic.shortest(ipv6=ipv6) + tag_bytes
        for i, mix in enumerate(self.frame_sizes):
            if mix.shortest < least:
                yield ("frame_sizes", i), f"{mix.name}: a frame of this traffic has at least {least} bytes with FCS"

    def misfits_of(self, traffic: Traffic, bounds: Mapping[str, LinkBounds], at: Loc) -> Iterator[tuple[Loc, str]]:
        """Yield faults of `traffic` with the links' IP version; `at` is the place of the extension headers."""
        versions = {ipv6 for name in self.driven(bounds) for ipv6 in bounds[name].ip_versions}
        for ipv6 in sorted(versions):
            yield from self.too_short(traffic, ipv6=ipv6, tag_bytes=max(bounds[name].tag_bytes for name in self.driven(bounds)))
            for name, what in dict(misfit for mix in self.frame_sizes for misfit in traffic.misfits(mix.shortest, ipv6=ipv6)).items():
                yield ("traffic", "vary", name), what
        if traffic.extension_headers and False in versions:
            yield at, f"only IPv6 has extension headers, and link {next(n for n in self.driven(bounds) if not bounds[n].ipv6)} is of IPv4"

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """Yield (place in the body, needed generator feature) for sizes and links; subclasses add those of their settings."""
        for i, mix in enumerate(self.frame_sizes):
            if mix.sequence is not None:
                yield ("frame_sizes", i), GeneratorFeature.ORDER
            elif len(mix.parts) > 1:
                yield ("frame_sizes", i), GeneratorFeature.SEVERAL_SIZES
        for i, links in enumerate(self.links or ()):
            if len(links) > 1:
                yield ("links", i), GeneratorFeature.SEVERAL_LINKS

    def beyond(self, generator: GeneratorModel, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield (place, reason) where `generator` cannot drive this workload on these links."""
        versions = {ipv6 for name in self.driven(bounds) for ipv6 in bounds[name].ip_versions}
        of_testbed = [GeneratorFeature.ROUTED, *(GeneratorFeature.IPV6 if ipv6 else GeneratorFeature.IPV4 for ipv6 in sorted(versions))]
        shared = [
            (("links", i) if self.links else (), GeneratorFeature.SHARED_PORTS)
            for i, links in enumerate(self.link_sets(bounds))
            if any(bounds[name].shares_with & set(links) for name in links)
        ]
        yield from unfit(generator, [*self.asks(), *self.features, *shared, *(((), ask) for ask in of_testbed)])
        if len(self.frame_sizes) > 1 and generator.fixes_sizes:
            yield ("frame_sizes",), generator.fixes_sizes
        for i, mix in enumerate(self.frame_sizes):
            faults = (generator.size_fault(size, ipv6=ipv6) for ipv6 in versions for size, _ in mix.parts)
            if what := next(filter(None, faults), ""):
                yield ("frame_sizes", i), what

    def sent_by(self, generator: GeneratorModel) -> tuple[GeneratorModel, ...]:
        """Return the generators of its frames; `generator` is that of the experiment or testbed."""
        return (generator,)

    def driven(self, every_link: Iterable[str]) -> list[str]:
        """Return the sorted names of the links that any trial drives."""
        return sorted({name for links in self.link_sets(every_link) for name in links})

    def above_line_rate(self, at: Loc, rate: Pps | None, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield a fault at `at` for each link that cannot carry `rate` at some frame size."""
        for name in self.driven(bounds):
            speed = bounds[name].speed
            slow = [
                m for m in self.frame_sizes if speed is not None and rate is not None and rate > line_rate(speed, m.mean) * (1 + ROUNDING)
            ]
            if slow and speed is not None and rate is not None:
                ceiling = si(line_rate(speed, slow[0].mean), "pps")
                yield at, f"{si(rate, 'pps')} of frame size {slow[0].name} is more than link {name} carries ({ceiling})"


def each_once(key: str, names: Sequence[str]) -> Iterator[InitErrorDetails]:
    """Yield faults of a list that must not be empty or have duplicates."""
    if not names:
        yield fault((key,), "empty; write at least one", FaultKind.MISSING)
    for i, name in enumerate(names):
        if name in names[:i]:
            yield fault((key, i), "duplicate; `repeats` repeats trials", FaultKind.DUPLICATE)


def alone(links: Sequence[LinkSet] | None, why: str) -> Iterator[InitErrorDetails]:
    """Yield a fault for each set of several links, for a workload that drives one link at a time."""
    for i, together in enumerate(links or ()):
        if len(together) > 1:
            yield fault(("links", i), f"one link at a time: {why}", FaultKind.CONFLICT)


def outside(limits: Iterable[tuple[str, float | None, float, float]], unit: str = "s") -> Iterator[InitErrorDetails]:
    """Yield a fault for each (key, value, least, most) whose value is given and out of range."""
    for key, value, low, high in limits:
        if value is not None and not low <= value <= high:
            yield fault_of_key(key, f"must be {low:g}{unit} to {high:g}{unit}, not {value:g}{unit}", FaultKind.RANGE)


class FramesAround(FrameWorkload):
    """Workload with a warm-up before each trial and a drain after it."""

    warmup: Duration = Seconds(1.0)
    """Time of sending before the trial; these frames are not counted."""
    drain: Duration = Seconds(0.5)
    """Wait after the last frame, before counters are read."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that both times are in range."""
        yield from super().cross_faults(data, made)
        around = [] if made is None else [("warmup", made.warmup, 0.0, LONGEST_WAIT), ("drain", made.drain, 0.0, LONGEST_WAIT)]
        yield from outside(around)


class CarryingTraffic(FrameWorkload):
    """Workload with the key `traffic`, which describes its frames."""

    spaced_bursts: ClassVar[bool] = False
    """True if its rates are known in advance, so that bursts can be checked against them."""

    traffic: Traffic = Field(default_factory=Traffic.usual)

    @property
    def sends_back(self) -> bool:
        """True if frames are also sent from sink to source."""
        return False

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that the frames are long enough for the traffic, and that given addresses are used on one direction of one link."""
        yield from super().own_faults()
        traffic = self.traffic
        if traffic.elsewhere and (self.sends_back or any(len(links) > 1 for links in self.links or ())):
            why = "given addresses belong to one way of one link; drive each link alone, forward"
            yield fault(("traffic", "vary" if traffic.varied_addresses else "flows"), why)
        if not self.spaced_bursts and traffic.burst is not None and traffic.burst.rate is not None:
            yield fault(
                ("traffic", "burst", "rate"),
                "the rates of this workload are found, so bursts follow each other at once only",
                FaultKind.CONFLICT,
            )
        too_short = self.too_short(traffic, ipv6=bool(traffic.extension_headers))
        yield from (fault(at, what, FaultKind.RANGE) for at, what in too_short)

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """Yield features for frames other than one evenly sent UDP flow."""
        yield from super().asks()
        traffic = self.traffic
        for key, asked, feature in (
            ("transport", traffic.transport != "udp", GeneratorFeature.TRANSPORT),
            ("flows", traffic.flows.count > 1, GeneratorFeature.FLOWS),
            ("vlans", bool(traffic.vlans), GeneratorFeature.VLANS),
            ("extension_headers", bool(traffic.extension_headers), GeneratorFeature.EXTENSIONS),
            ("vary", bool(traffic.vary), GeneratorFeature.VARIED),
            ("burst", traffic.burst is not None, GeneratorFeature.BURSTS),
        ):
            if asked:
                yield ("traffic", key), feature

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also faults of the traffic with the links' IP version."""
        yield from super().incompatibilities(bounds)
        yield from self.misfits_of(self.traffic, bounds, ("traffic", "extension_headers"))


class TimedFrames(FramesAround):
    """Workload whose trials have the same duration."""

    shortest: ClassVar[Seconds] = Seconds(0.1)
    duration: Duration = Seconds(30.0)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check also that the duration is in range."""
        yield from super().own_faults()
        yield from outside([("duration", self.duration, self.shortest, LONGEST_TRIAL)])

    @property
    def trial_s(self) -> Seconds:
        """Duration of a trial with its warm-up and drain."""
        return Seconds(self.warmup + self.duration + self.drain)
