"""The workloads of an experiment file: what is driven through the DUT, by which tool, on which links.

    workloads:
      - iperf3: {streams: 4, omit: 5s, duration: 30s, links: [[a], [b], [a, b]]}
      - sweep:  {frame_sizes: [64, 1518, imix], rates: [max, 100kpps], duration: 30s, links: [[a]]}

Each expands into settings; a setting times the factors times the repeats is a trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PlainSerializer, Strict, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Duration, FrameRate, text_of
from dutlab.spec.mixes import Mix
from dutlab.spec.model import Loc, SpecModel, did_you_mean, fault, faults_of, refuse
from dutlab.units import RFC2544_FRAME_SIZES, Pps, Seconds

LONGEST_TRIAL = Seconds(86400)  # iperf3's own limit (iperf_api.h, MAX_TIME); one day is enough for any trial here
LONGEST_OMIT = Seconds(60)  # iperf_api.h, MAX_OMIT_TIME; 3.12 refuses 61
SHORTEST_SWEEP = Seconds(0.1)
LONGEST_WAIT = Seconds(600)

Params = dict[str, str | float | int | None]


def _link_set(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list of the links that are driven at once, as in [a, b]")  # noqa: TRY004 pydantic collects ValueErrors
    return value


LinkSet = Annotated[tuple[str, ...], BeforeValidator(_link_set)]


@dataclass(frozen=True)
class Setting:
    """One way to drive a workload: the links loaded at once, and the parameters with units in their names."""

    links: LinkSet
    params: Params
    seconds: Seconds
    """What it takes, without what the tool needs to start and end."""
    mix: Mix | None = None
    rate: Pps | None = None


class _Workload(SpecModel):
    """What every workload says: the sets of links that are driven at once, one trial a set."""

    kind: ClassVar[str]
    tool: ClassVar[str]

    links: tuple[LinkSet, ...] | None = None
    """None: each link alone."""

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """An empty mapping may be left out: `- sweep:`."""
        return {} if data is None else data

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether the sets of links are sets, each once."""
        del made
        return list(_link_set_faults(data.get("links")))

    def link_sets(self, every_link: Iterable[str]) -> tuple[LinkSet, ...]:
        """The sets to drive, on a testbed with `every_link`."""
        return tuple((name,) for name in every_link) if self.links is None else self.links


def _link_set_faults(raw: object) -> Iterator[InitErrorDetails]:
    if not isinstance(raw, list | tuple):
        return
    if not raw:
        yield fault(("links",), "empty; write sets of links, as in [[a], [b], [a, b]]")
    seen: list[set[str]] = []
    for i, links in enumerate(raw):
        if not isinstance(links, list | tuple) or not all(isinstance(name, str) for name in links):
            continue
        if not links:
            yield fault(("links", i), "empty; a trial needs a link")
        if len(set(links)) < len(links):
            yield fault(("links", i), "a link stands twice in one set")
        elif set(links) in seen:
            yield fault(("links", i), f"{'+'.join(links)} stands twice; `repeats` repeats trials")
        seen.append(set(links))


class Iperf3Workload(_Workload):
    """TCP goodput with iperf3."""

    kind: ClassVar[str] = "iperf3"
    tool: ClassVar[str] = "iperf3"

    streams: Annotated[int, Strict(), Field(ge=1, le=128)] = 4  # iperf_api.h: MAX_STREAMS is 128
    omit: Duration = Seconds(5.0)
    """Left out at the start, while TCP finds its rate."""
    duration: Duration = Seconds(30.0)

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """What iperf3 takes: whole seconds, within its limits."""
        faults = super().cross_faults(data, made)
        if made is None:
            return faults
        for key, value, least, most in (("omit", made.omit, 0, LONGEST_OMIT), ("duration", made.duration, 1, LONGEST_TRIAL)):
            if not float(value).is_integer():
                faults.append(fault((key,), f"iperf3 takes whole seconds, not {value:g}s"))
            elif not least <= value <= most:
                faults.append(fault((key,), f"iperf3 takes {least:g}s to {most:g}s, not {value:g}s"))
        return faults

    def count(self, every_link: Iterable[str]) -> int:
        """How many settings there are."""
        return len(self.link_sets(every_link))

    def settings(self, every_link: Iterable[str]) -> Iterator[Setting]:
        """One a set of links."""
        for links in self.link_sets(every_link):
            params: Params = {"streams": self.streams, "omit_s": int(self.omit), "duration_s": int(self.duration)}
            yield Setting(links, params, Seconds(self.omit + self.duration))


def _rate(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    return None if value == "max" else value


Rate = Annotated[FrameRate | None, BeforeValidator(_rate), PlainSerializer(lambda v: "max" if v is None else text_of(v, "pps"))]


class SweepWorkload(_Workload):
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
                    yield Setting(links, params, Seconds(self.warmup + self.duration + self.drain), mix, rate)


_KINDS: Mapping[str, type[Iperf3Workload | SweepWorkload]] = {"iperf3": Iperf3Workload, "sweep": SweepWorkload}


def _dispatch(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """`{sweep: {...}}` as the model that its key names."""
    if isinstance(value, _Workload):
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError(f"must be one of {', '.join(_KINDS)} with its settings, as in `- sweep: {{duration: 30s}}`")
    kind, body = next(iter(value.items()))
    at: Loc = (str(kind),)
    if kind not in _KINDS:
        raise refuse("workload", [fault(at, f"unknown workload {did_you_mean(str(kind), _KINDS)}")])
    try:
        return _KINDS[kind].model_validate(body, context=info.context)
    except ValidationError as error:
        raise refuse("workload", faults_of(error, at)) from error


Workload = Annotated[
    Iperf3Workload | SweepWorkload, BeforeValidator(_dispatch), PlainSerializer(lambda w: {w.kind: w.model_dump(mode="json")})
]
"""One entry of `workloads`."""
