"""Workload `soak-power`: phases of load, idleness and power off, with the watts and temperatures of each.

- soak-power:
    rate: 1Mpps
    phases:
      - {name: full, share: 100%, until: stable, duration: 30min}
      - {name: one-link, share: 100%, links: [a], duration: 10min}
      - {name: idle, duration: 10min}
      - {name: one-link-idle, down: [b], duration: 10min}
      - {name: off, off: yes, duration: 2min}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, FrameRate, Name, Share, YesNo, name_fault, text_of
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.links import Link, Port
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, SpecModel, did_you_mean, fault, fault_of_key
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.base import LONGEST_TRIAL, LONGEST_WAIT, LinkSet, WorkloadDrive
from dutlab.spec.workloads.frames import HELD_AND_WATCHED, FrameWorkload, each_once, outside
from dutlab.spec.workloads.setting import AT_RATE, DirectedSetting, DrainSaid, PositiveRate, SecondsLong, Setting, Words
from dutlab.subject import joined
from dutlab.systems import SYSTEMS
from dutlab.units import Pps, Seconds

if TYPE_CHECKING:
    from dutlab.spec.shape import TestbedShape

LEAST_S = 3.0
"""Shortest phase: meters report once a second, and the first half of a phase is left out."""
AROUND_S = 2.0
"""Seconds in which a generator begins and ends a load, for the estimate."""


class PowerPhase(SpecModel):
    """One state of the DUT, with its duration."""

    name: Name
    share: Share = 0.0
    """Load as a share of the rate; 0 sends nothing."""
    links: tuple[str, ...] | None = None
    """Links under load; None is all links of the trial."""
    duration: Duration = Seconds(300.0)
    until: Literal["stable"] | None = None
    """`stable` ends the phase when watts and temperatures are steady, at `duration` at the latest."""
    off: YesNo = False
    """True to switch the DUT off by its `power:` in the testbed."""
    down: tuple[str, ...] = ()
    """Links that are set down; all others are up."""

    def __str__(self) -> str:
        """Return a text for lists and labels."""
        at = "off" if self.off else f"{text_of(round(self.share * 100, 9), '%')}{'' if self.links is None else ' on ' + joined(self.links)}"
        down = f", {joined(self.down)} down" if self.down else ""
        return f"{self.name} ({at}{' until stable' if self.until else ''} {text_of(self.duration, 's')}{down})"

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that duration and share are in range, and that the keys fit together."""
        yield from list(outside([("duration", self.duration, LEAST_S, LONGEST_TRIAL)]))
        if not 0 <= self.share <= 1:
            yield fault_of_key("share", "must be 0% to 100% of `rate`", FaultKind.RANGE)
        if self.off and (self.share or self.links is not None):
            yield fault(("off",), "nothing is sent to a DUT that is off; leave share and links out", FaultKind.CONFLICT)
        if self.links is not None and not self.share:
            yield fault(("links",), "no load is asked for; write share too", FaultKind.CONFLICT)
        yield from each_once("down", self.down) if self.down else ()
        if self.off and self.down:
            yield fault(("down",), "a DUT that is off has no links; leave it out", FaultKind.CONFLICT)


USUAL = tuple(
    PowerPhase(name=name, share=share, duration=Seconds(seconds), until=until)
    for name, share, seconds, until in (
        ("idle", 0.0, 300.0, None),
        ("at-10", 0.1, 300.0, None),
        ("at-50", 0.5, 300.0, None),
        ("at-90", 0.9, 300.0, None),
        ("full", 1.0, 1800.0, "stable"),
        ("cool-down", 0.0, 1800.0, "stable"),
    )
)  # fmt: skip


class SoakPowerSetting(DirectedSetting):
    """Setting of a trial: a rate, and the phases in which shares of it are sent."""

    kind: Literal["soak-power"] = "soak-power"
    left_out: ClassVar[frozenset[str]] = frozenset({"generator", "meter"})

    rate_pps: Annotated[PositiveRate, AT_RATE]
    """Rate of each link and direction, at 100 %."""
    phases: Annotated[tuple[PowerPhase, ...], Words("phases {}")]
    window_s: Annotated[SecondsLong, Words("stable over {} s")]
    """Time for which watts and temperatures must be steady to count as stable."""
    drain_s: DrainSaid
    meter: Annotated[str | None, Words("watts by {}")] = None


class SoakPowerWorkload(FrameWorkload):
    """Watts, temperatures and loss over a schedule of phases."""

    setting: ClassVar[type[Setting]] = SoakPowerSetting
    features: ClassVar[tuple[tuple[Loc, GeneratorFeature], ...]] = HELD_AND_WATCHED

    rate: FrameRate
    """Rate of each link and direction at a share of 100 %, usually the result of a search."""
    frame_sizes: FrameSizes = Field(default_factory=lambda: (Mix.model_validate("imix"),))
    directions: Directions = Directions.BOTH
    phases: Annotated[tuple[PowerPhase, ...], Field(max_length=100)] = USUAL
    window: Duration = Seconds(120.0)
    """Time for which watts and temperatures must be steady to count as stable."""
    drain: Duration = Seconds(0.5)
    meter: str | None = None
    """Sensor of the testbed that measures the power; None is the first one that reads watts."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that the phases can follow each other."""
        yield from super().own_faults()
        yield from outside([("window", self.window, 2.0, 3600.0), ("drain", self.drain, 0.0, LONGEST_WAIT)])
        yield from each_once("phases", [phase.name for phase in self.phases])
        if self.directions is Directions.ANSWERS:
            yield fault(("directions",), "answers have no separate load; write forward, both or back", FaultKind.CONFLICT)
        if self.phases and not any(phase.share for phase in self.phases):
            yield fault(("phases",), "none has a load; write share in one of them", FaultKind.CONFLICT)
        off = next((i for i, phase in enumerate(self.phases) if phase.off), len(self.phases))
        for i, phase in enumerate(self.phases):
            if i > off and phase.share:
                yield fault(
                    ("phases", i, "share"),
                    "the DUT has lost its mode by then: write loads before the phase that is off",
                    FaultKind.CONFLICT,
                )
            if phase.until and self.window > phase.duration:
                yield fault(
                    ("phases", i, "duration"),
                    f"shorter than window, {self.window:g} s, over which stability is checked",
                    FaultKind.RANGE,
                )
        if self.meter is not None and (what := name_fault(self.meter)):
            yield fault(("meter",), what)

    def link_sets(self, every_link: Iterable[str]) -> tuple[LinkSet, ...]:
        """Return the sets of links; all links together where none are named."""
        return (tuple(every_link),) if self.links is None else self.links

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links and frame size."""
        for links, mix in self.sized(every_link):
            setting = SoakPowerSetting(
                frame_size=mix,
                generator=self.generator,
                directions=self.directions,
                rate_pps=self.rate,
                phases=self.phases,
                window_s=self.window,
                drain_s=self.drain,
                meter=self.meter,
            )
            seconds = sum(phase.duration + (AROUND_S if phase.share else 0.0) for phase in self.phases)
            yield WorkloadDrive(links, setting, Seconds(seconds), mix)

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """Yield also the feature for loads in both directions."""
        yield from super().asks()
        if self.directions is Directions.BOTH:
            yield ("directions",), GeneratorFeature.BOTH_WAYS

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also faults for a load above line rate, and for phases on links that the trial does not have."""
        yield from super().incompatibilities(bounds)
        yield from self.above_line_rate(("rate",), Pps(self.rate * max(phase.share for phase in self.phases)), bounds)
        for i, phase in enumerate(self.phases):
            for links in self.link_sets(bounds):
                for what in _down_faults(phase, links, bounds):
                    yield ("phases", i, "down"), what
                if absent := [name for name in phase.links or () if name not in links]:
                    yield ("phases", i, "links"), f"{absent[0]!r} is not among the links of the trial {did_you_mean(absent[0], links)}"

    def unfit(self, written: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
        """Yield faults: a phase `off` for a DUT that must not be switched off, and an unknown meter."""
        for i, phase in enumerate(self.phases):
            if phase.off and bed.no_switch:
                yield ("phases", i, "off"), bed.no_switch
            links = bed.find().links if phase.down and bed.find is not None else {}
            for name in phase.down:
                if name in links and links[name].forwarders and not cut_ports(links[name], bed.hosts):
                    what = f"dutlab sets no port of link {name} down: neither the DUT of {bed.title} nor its neighbours are Linux"
                    yield ("phases", i, "down"), what
        at = written.get("testbed")
        known = bed.sensors if bed.sensors is not None else (at.get("sensors") if isinstance(at, Mapping) else None) or {}
        if self.meter is not None and self.meter not in known:
            yield ("meter",), f"{bed.title} has no sensor {self.meter!r} {did_you_mean(self.meter, map(str, known))}"


def cut_ports(link: Link, families: Mapping[str, str]) -> tuple[Port, ...]:
    """Return the ports that set a link through the DUT down: the DUT's own, or else those at the other ends of its cables.

    `families` is host → family, of hosts that commands reach. Empty if dutlab cannot set these ports.
    """
    for ports in (link.dut_ports, link.facing_dut):
        if all(port.host in families and SYSTEMS[families[port.host]].kernel_tables for port in ports):
            return ports
    return ()


def _down_faults(phase: PowerPhase, links: LinkSet, bounds: Mapping[str, LinkBounds]) -> Iterator[str]:
    for name in phase.down:
        if name not in bounds:
            yield f"no link {name!r} {did_you_mean(name, bounds)}"
        elif not bounds[name].through_dut:
            yield f"link {name} does not go through the DUT"
    down = {*phase.down}
    loaded = [name for name in phase.links or links if name in bounds] if phase.share else []
    if dark := [name for name in loaded if name in down or bounds[name].shares_with & down]:
        yield f"link {dark[0]} is loaded in this phase, or shares a port with a link that is; write `links:` with others"
