"""Base of the settings: validated parameters of a trial, as used by plans, records and methods. Each is next to its workload's model.

Field names end in their unit. In JSON, a setting is an object whose `kind` names its model.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dutlab.errors import InputError
from dutlab.spec.generators import Generator, GeneratorModel
from dutlab.spec.goals import Goal, checked, goals_text
from dutlab.spec.mixes import Mix
from dutlab.spec.rates import Rate, RateUnit
from dutlab.spec.traffic import Directions, Traffic
from dutlab.units import Pps, Seconds

IMPORTED: Final = "imported"
Value = str | float | int | None
Params = Mapping[str, Value]


Identity = tuple[tuple[str, Value], ...]


def identity_of(params: Params, *, without: Collection[str] = ()) -> Identity:
    """Return the values that distinguish settings of one workload, except the names in `without`."""
    return tuple(sorted((name, value) for name, value in params.items() if name not in without))


@dataclass(frozen=True)
class Words:
    """Words for a setting's value in a sentence, in the annotation of its field. A test checks that each field has one."""

    text: str
    """Text in which `{}` is the value, `{:pps}` a frame rate and `{:bps}` a bit rate with a fitting prefix; empty if shown elsewhere."""
    instead: Mapping[Value, str] = field(default_factory=dict, hash=False)
    """Value → special text; empty text for values that are not shown. None is not shown unless it is listed here."""
    place: int = 0
    """Place in the sentence: before the others (-1), among them (0) or after them (1)."""
    read: Callable[[Any], str] | None = None
    """Function that makes the value's text from the field; None uses the text in `params`."""


ELSEWHERE = Words("")

NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
SecondsLong = Annotated[Seconds, Field(gt=0)]
SecondsOrNone = Annotated[Seconds, Field(ge=0)]
"""Seconds, 0 allowed."""
PositiveRate = Annotated[Pps, Field(gt=0)]

AT_RATE = Words("at {:pps} a link", {None: "as fast as the generator can"}, place=-1)
LASTS = Words("{} s")
OMITS = Words("first {} s left out", {0: ""})
SCALE = Words("every duration × {}", {1: ""})
STREAMS = Words("{} streams", {1: "1 stream"}, place=1)
DirectionsSaid = Annotated[Directions, Words("direction: {}", place=1)]
DrainSaid = Annotated[SecondsOrNone, Words("{} s drain", {0: ""})]
DurationSaid = Annotated[SecondsLong, LASTS]
FrameSize = Annotated[Mix, Words("frame size {}", place=1)]
"""Frame size or mix, in bytes with FCS."""
GeneratorSaid = Annotated[Generator | None, ELSEWHERE]
"""Generator, which is shown with the tool."""
RampSaid = Annotated[SecondsOrNone, OMITS]
TrafficSaid = Annotated[Traffic, Words("{}", place=1, read=Traffic.words)]
WarmupSaid = Annotated[SecondsOrNone, Words("{} s warm-up", {0: ""})]


class Setting(BaseModel):
    """Parameters of a trial that do not depend on its links."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)

    kind: str
    left_out: ClassVar[frozenset[str]] = frozenset()
    """Fields that `params` omits while they have their default."""
    also: ClassVar[Mapping[str, Words]] = {"frame_mix": ELSEWHERE}
    """Words for names in `params` that are not fields."""

    @property
    def workload(self) -> str:
        """Name of the workload in the experiment file."""
        return self.kind

    @property
    def size(self) -> str:
        """Frame size for tables: bytes with FCS, or the name of a mix; empty without such frames."""
        return ""

    @property
    def of_any_kernel(self) -> Self:
        """The setting without the kernel of a guest, for comparisons between kernels."""
        return self

    def with_frames(self, times: int) -> Self:
        """Return the setting with `times` as many frames, if it has a number of frames."""
        return self

    @property
    def made_by(self) -> GeneratorModel | None:
        """Generator that it names; None for the default or without frames."""
        return None

    @property
    def flows(self) -> int:
        """Most concurrent flows through the DUT on a link, which its state table must hold."""
        return 1

    @property
    def loaded_s(self) -> Seconds:
        """Duration of a constant load; 0 for any other load."""
        return Seconds(0.0)

    @property
    def at_limit_s(self) -> Seconds:
        """Duration of the repeated load at the limit; 0 for methods that find no limit."""
        return Seconds(0.0)

    @property
    def by_person(self) -> str:
        """Action of a person during the trial; empty if it needs none."""
        return ""

    @property
    def modes(self) -> tuple[str, ...]:
        """Additional modes that a trial puts the DUT into."""
        return ()

    @property
    def variant(self) -> str:
        """Differences of its frames from plain ones, in words; usually empty."""
        return ""

    @property
    def ways(self) -> Directions:
        """Directions of data on each link."""
        return Directions.FORWARD

    @property
    def ends(self) -> tuple[str, ...]:
        """Sending and receiving host, where the setting names them; otherwise empty."""
        return ()

    @property
    def on_dut(self) -> tuple[str, ...]:
        """Programs that it needs on a Linux DUT, in addition to those of the modes, each as `module:name`."""
        return ()

    @property
    def at_source(self) -> tuple[str, ...]:
        """Programs that it needs on the first host of its links, each as `module:name`."""
        return ()

    @cached_property
    def params(self) -> Params:
        """Name with unit → value, for tables, labels, groups and queries."""
        flat: dict[str, Value] = {}
        for name, of in type(self).model_fields.items():
            value = getattr(self, name)
            if name != "kind" and not (name in self.left_out and value == of.get_default(call_default_factory=True)):
                flat |= _flat(name, value)
        return flat

    @cached_property
    def identity(self) -> Identity:
        """Values that distinguish the setting from others of its workload."""
        return identity_of(self.params)

    @classmethod
    @cache
    def words_of_fields(cls) -> Mapping[str, Words]:
        """Return name → words."""
        words = {name: mark for name, of in cls.model_fields.items() for mark in of.metadata if isinstance(mark, Words)}
        return {**words, **cls.also}

    @property
    def words(self) -> Mapping[str, Words]:
        """Name in `params` → words; other names have none."""
        return self.words_of_fields()

    @property
    def sentence(self) -> Iterator[tuple[str, Value, Words]]:
        """Name, value and words of each entry of `params`, in the order of the sentence; names without words come last."""
        left = dict(self.params)
        for name, words in sorted(self.words.items(), key=lambda item: item[1].place):
            if name in left:
                value = left.pop(name)
                yield name, value if words.read is None or value is None else words.read(getattr(self, name)), words
        yield from ((name, value, Words(f"{_in_format(name.replace('_', ' '))} {{}}")) for name, value in sorted(left.items()))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does, but without the original's cached params and identity."""
        copy = super().model_copy(update=update, deep=deep)
        for name in ("params", "identity"):
            copy.__dict__.pop(name, None)
        return copy


def _in_format(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _flat(name: str, value: Any) -> dict[str, Value]:  # noqa: ANN401, PLR0911 -- one line a type
    match value:
        case Mix():
            return {name: value.size or value.name, name.replace("size", "mix"): value.text}
        case GeneratorModel():
            return {name: value.text()}
        case Traffic():
            return {name: value.text()}
        case enum.Enum():
            return {name: str(value.value)}
        case bool():
            return {name: "yes" if value else "no"}
        case tuple() if value and isinstance(value[0], Goal):
            return {name: goals_text(value)}
        case tuple():
            return {name: ",".join(f"{v:g}" if isinstance(v, float) else str(v.value if isinstance(v, enum.Enum) else v) for v in value)}
        case IPv4Network() | IPv6Network():
            return {name: str(value)}
        case _:
            return {name: value}


class MadeSetting(Setting):
    """Setting with frames of one size or mix that a generator makes."""

    left_out: ClassVar[frozenset[str]] = frozenset({"generator"})

    frame_size: FrameSize
    generator: GeneratorSaid = None
    """Generator of the frames; None is the default."""

    @property
    def size(self) -> str:
        """Size of all frames."""
        return str(self.frame_size.size or self.frame_size.name)

    @property
    def made_by(self) -> GeneratorModel | None:
        """Generator that the experiment names."""
        return self.generator


class FrameSetting(MadeSetting):
    """Setting with frames that are sent, by the testbed's generator where it names none."""


class CarryingSetting(FrameSetting):
    """Setting with frames that the key `traffic` describes."""

    left_out: ClassVar[frozenset[str]] = FrameSetting.left_out | {"traffic"}

    traffic: TrafficSaid = Field(default_factory=Traffic.usual)

    @property
    def flows(self) -> int:
        """Number of flows of the traffic."""
        return self.traffic.flow_count


class DirectedSetting(FrameSetting):
    """Setting with frames in a choice of directions."""

    directions: DirectionsSaid = Directions.FORWARD

    @property
    def ways(self) -> Directions:
        """Directions of the frames."""
        return self.directions


class LoadSetting(DirectedSetting):
    """Setting with one load: frames of one kind at one rate, for one duration (method `sweep`)."""

    left_out: ClassVar[frozenset[str]] = FrameSetting.left_out | {"traffic", "directions"}
    also: ClassVar[Mapping[str, Words]] = {
        **Setting.also,
        "rate_pps": AT_RATE,
        "rate_percent": Words("at {} % of a link's speed", place=-1),
    }

    rate: Annotated[Rate, ELSEWHERE] = None
    traffic: TrafficSaid = Field(default_factory=Traffic.usual)
    duration_s: DurationSaid
    warmup_s: WarmupSaid
    drain_s: DrainSaid

    @property
    def flows(self) -> int:
        """Flows of the traffic in each direction."""
        return self.traffic.flow_count * len(self.directions.backs)

    @property
    def loaded_s(self) -> Seconds:
        """Duration with the warm-up."""
        return Seconds(self.duration_s + self.warmup_s)

    @property
    def rate_percent(self) -> float | None:
        """Rate in percent of each link's speed; None where the rate is not a share."""
        return self.rate.value if self.rate is not None and self.rate.unit is RateUnit.PERCENT else None

    @property
    def rate_pps(self) -> float | None:
        """Frames a second on each link; None for a share, and for full speed."""
        return None if self.rate is None or self.rate_percent is not None else self.rate.pps(self.frame_size.mean, None)

    @cached_property
    def params(self) -> Params:
        """Parameters, with a share kept as a share, since the speeds of links may differ."""
        rate = {"rate_pps": self.rate_pps} if self.rate_percent is None else {"rate_percent": self.rate_percent}
        return {k: v for name, value in super().params.items() for k, v in (rate if name == "rate" else {name: value}).items()}


def _goals(goals: tuple[Goal, ...]) -> tuple[Goal, ...]:
    try:
        return checked(goals)
    except InputError as error:
        raise ValueError(str(error)) from error


Goals = Annotated[tuple[Goal, ...], AfterValidator(_goals)]
"""Goals that one search can serve."""
GoalsSaid = Annotated[Goals, Words("search for {}", place=-1, read=lambda goals: ", ".join(goal.name for goal in goals))]
