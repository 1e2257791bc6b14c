"""One way to drive a workload, validated, as plan, record and method use it. Each workload's setting is next to its model.

Names carry units. A JSON file has a setting as an object whose `kind` says which model reads it back.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dutlab.errors import InputError
from dutlab.spec.generators import Generator, GeneratorModel
from dutlab.spec.goals import Goal, checked, goals_text
from dutlab.spec.mixes import Mix
from dutlab.spec.rates import Rate, RateUnit
from dutlab.spec.traffic import Directions, Traffic
from dutlab.units import Pps, Seconds
from dutlab.workloads import named, plug_of

IMPORTED: Final = "imported"
Value = str | float | int | None
Params = Mapping[str, Value]


Identity = tuple[tuple[str, Value], ...]


def identity_of(params: Params, *, without: Collection[str] = ()) -> Identity:
    """Values that distinguish settings of one workload, except some names."""
    return tuple(sorted((name, value) for name, value in params.items() if name not in without))


@dataclass(frozen=True)
class Words:
    """Words of a setting in a sentence; a mark in the annotation of its field. A test holds that each field has one."""

    text: str
    """`{}` is the value, `{:pps}` a frame rate in the unit of its size; empty if it is said elsewhere."""
    instead: Mapping[Value, str] = field(default_factory=dict, hash=False)
    """Values with special words; empty words for what need not be said. None is not said unless it is here."""
    place: int = 0
    """Before the others (-1) or after them (1)."""
    read: Callable[[Any], str] | None = None
    """Makes the value's text of the field; the text of `params` where there is none."""


ELSEWHERE = Words("")

NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
SecondsLong = Annotated[Seconds, Field(gt=0)]
SecondsOrNone = Annotated[Seconds, Field(ge=0)]
"""A time that may be 0."""
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
"""In bytes with FCS."""
GeneratorSaid = Annotated[Generator | None, ELSEWHERE]
"""It is said with the tool."""
RampSaid = Annotated[SecondsOrNone, OMITS]
TrafficSaid = Annotated[Traffic, Words("{}", place=1, read=Traffic.words)]
WarmupSaid = Annotated[SecondsOrNone, Words("{} s warm-up", {0: ""})]


class Setting(BaseModel):
    """Part that does not depend on the links."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)

    kind: str
    left_out: ClassVar[frozenset[str]] = frozenset()
    """Fields that `params` does not name while they have their default."""
    also: ClassVar[Mapping[str, Words]] = {"frame_mix": ELSEWHERE}
    """Words of names in `params` that are no fields."""

    @property
    def workload(self) -> str:
        """Name in the experiment file."""
        return self.kind

    @property
    def size(self) -> str:
        """Size of its frames, as in tables: bytes with FCS, or the name of a mix; empty where there are no such frames."""
        return ""

    @property
    def of_any_kernel(self) -> Self:
        """Return it without the kernel of a guest, where it names one: what is compared where each side has its own."""
        return self

    def with_frames(self, times: int) -> Self:  # noqa: ARG002 - settings that have frames use it
        """Return it with so many times the frames, where it names their number."""
        return self

    @property
    def made_by(self) -> GeneratorModel | None:
        """The generator that it names; None where that is the engine, or it has no frames."""
        return None

    @property
    def flows(self) -> int:
        """Most flows at once through the DUT on a link, which its table of states must hold."""
        return 1

    @property
    def loaded_s(self) -> Seconds:
        """Duration of a load that is the same from beginning to end; 0 for any other."""
        return Seconds(0.0)

    @property
    def at_limit_s(self) -> Seconds:
        """Duration of the load at the limit, offered once more; 0 where none is found."""
        return Seconds(0.0)

    @property
    def modes(self) -> tuple[str, ...]:
        """Further modes that a trial puts the DUT into."""
        return ()

    @property
    def variant(self) -> str:
        """Differences of its frames from plain ones, in words; mostly empty."""
        return ""

    @property
    def ways(self) -> Directions:
        """Directions of data on each link."""
        return Directions.FORWARD

    @property
    def ends(self) -> tuple[str, ...]:
        """The host that sends and the one that receives, where it names them itself."""
        return ()

    @property
    def on_dut(self) -> tuple[str, ...]:
        """Programs that it changes a Linux DUT with, in addition to those of the modes, each as `module:name`."""
        return ()

    @property
    def at_source(self) -> tuple[str, ...]:
        """Programs that the first host of its links must have, each as `module:name`."""
        return ()

    @cached_property
    def params(self) -> Params:
        """Name with unit → value: what tables, labels, groups and queries have of it."""
        flat: dict[str, Value] = {}
        for name, of in type(self).model_fields.items():
            value = getattr(self, name)
            if name != "kind" and not (name in self.left_out and value == of.get_default(call_default_factory=True)):
                flat |= _flat(name, value)
        return flat

    @cached_property
    def identity(self) -> Identity:
        """Values that distinguish it from other settings of its workload."""
        return identity_of(self.params)

    @classmethod
    @cache
    def words_of_fields(cls) -> Mapping[str, Words]:
        """Name → how it is said."""
        words = {name: mark for name, of in cls.model_fields.items() for mark in of.metadata if isinstance(mark, Words)}
        return {**words, **cls.also}

    @property
    def words(self) -> Mapping[str, Words]:
        """Words of each name in `params` that has some."""
        return self.words_of_fields()

    @property
    def sentence(self) -> Iterator[tuple[str, Value, Words]]:
        """Each name of `params` with its value and how it is said, in this order; names without words come last, as they are."""
        left = dict(self.params)
        for name, words in sorted(self.words.items(), key=lambda item: item[1].place):
            if name in left:
                value = left.pop(name)
                yield name, value if words.read is None or value is None else words.read(getattr(self, name)), words
        yield from ((name, value, Words(f"{_in_format(name.replace('_', ' '))} {{}}")) for name, value in sorted(left.items()))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does, but without the cached words of the original."""
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
    """Frames of one size, or of a mix, as a generator makes them."""

    left_out: ClassVar[frozenset[str]] = frozenset({"generator"})

    frame_size: FrameSize
    generator: GeneratorSaid = None
    """None is the engine."""

    @property
    def size(self) -> str:
        """Size of all frames."""
        return str(self.frame_size.size or self.frame_size.name)

    @property
    def made_by(self) -> GeneratorModel | None:
        """Generator in the experiment."""
        return self.generator


class FrameSetting(MadeSetting):
    """Frames that are sent, by the testbed's generator where it names none."""


class CarryingSetting(FrameSetting):
    """Frames that the experiment describes."""

    left_out: ClassVar[frozenset[str]] = FrameSetting.left_out | {"traffic"}

    traffic: TrafficSaid = Field(default_factory=Traffic)

    @property
    def flows(self) -> int:
        """Those of the traffic."""
        return self.traffic.flow_count


class DirectedSetting(FrameSetting):
    """Frames that can go either way."""

    directions: DirectionsSaid = Directions.FORWARD

    @property
    def ways(self) -> Directions:
        """Directions, as it says."""
        return self.directions


class LoadSetting(DirectedSetting):
    """Frames of one kind at one rate, counted for one time: what the method `sweep` offers once."""

    left_out: ClassVar[frozenset[str]] = FrameSetting.left_out | {"traffic", "directions"}
    also: ClassVar[Mapping[str, Words]] = {
        **Setting.also,
        "rate_pps": AT_RATE,
        "rate_percent": Words("at {} % of a link's speed", place=-1),
    }

    rate: Annotated[Rate, ELSEWHERE] = None
    traffic: TrafficSaid = Field(default_factory=Traffic)
    duration_s: DurationSaid
    warmup_s: WarmupSaid
    drain_s: DrainSaid

    @property
    def flows(self) -> int:
        """Flows of the traffic in each direction."""
        return self.traffic.flow_count * len(self.directions.backs)

    @property
    def loaded_s(self) -> Seconds:
        """The warm-up too."""
        return Seconds(self.duration_s + self.warmup_s)

    @property
    def rate_percent(self) -> float | None:
        """A share of the speed of each link; None where the rate is none."""
        return self.rate.value if self.rate is not None and self.rate.unit is RateUnit.PERCENT else None

    @property
    def rate_pps(self) -> float | None:
        """Frames a second on each link; None for a share, and for as fast as the generator can."""
        return None if self.rate is None or self.rate_percent is not None else self.rate.pps(self.frame_size.mean, None)

    @cached_property
    def params(self) -> Params:
        """A share stays one: what it is a share of may differ from link to link."""
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


_T = TypeVar("_T")
_BY_READS: Mapping[float | None, str] = {100: "read", 0: "write"}


class Told(Generic[_T]):
    """A field of an import: what the file says under its name; None where it says nothing, or nothing of these kinds."""

    def __init__(self, *kinds: type[_T]) -> None:
        self._kinds, self._name = kinds, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, setting: ImportedSetting, owner: type) -> _T | None:
        value: object = setting.said.get(self._name)
        return value if isinstance(value, self._kinds) else None


class ImportedSetting(Setting):
    """Settings from a file of another tool."""

    model_config = ConfigDict(ignored_types=(Told,))
    kind: Literal["imported"] = IMPORTED
    of: Annotated[str, ELSEWHERE]
    """The workload that its figures are shown as."""
    said: Annotated[dict[str, Value], ELSEWHERE] = {}
    also: ClassVar[Mapping[str, Words]] = {
        **LoadSetting.words_of_fields(),
        "streams": STREAMS,
        "omit_s": OMITS,
        "rampup_s": Words("ramp of {} s"),
        "hold_s": Words("{} s hold"),
        "target_percent": Words("to {} % of line rate"),
        "warmup_mult": Words("warm-up at {}"),
    }
    """Words of names in files of many tools; a workload of ours that it is shown as has the others."""
    frame_mix, protocol, work = Told(str), Told(str), Told(str)
    mtu, streams = Told(int), Told(int)
    duration_s, rate_pps, rate_percent, reads_percent = Told(int, float), Told(int, float), Told(int, float), Told(int, float)
    target_percent, threshold_percent, warmup_s = Told(int, float), Told(int, float), Told(int, float)

    @property
    def workload(self) -> str:
        """The one that it is shown as."""
        return self.of

    @property
    def size(self) -> str:
        """Size, as in the file."""
        return str(self.said.get("frame_size") or "")

    @property
    def ends(self) -> tuple[str, ...]:
        """Both ends, where the file names them."""
        client, server = self.said.get("client"), self.said.get("server")
        return (str(client), str(server)) if client and server else ()

    @property
    def options(self) -> Mapping[str, str]:
        """Options, by fio's names; a table may have the share of reads in place of `rw`."""
        return {"rw": _BY_READS.get(self.reads_percent, ""), **{name: str(value) for name, value in self.said.items()}}

    @cached_property
    def params(self) -> Params:
        """Parameters as in the file."""
        return self.said

    @property
    def words(self) -> Mapping[str, Words]:
        """Words, as of our setting; what needs a field of ours stays as in the file."""
        path = plug_of(self.of).settings
        ours: Mapping[str, Words] = named(path).setting.words_of_fields() if path else {}
        return {name: words for name, words in {**ours, **self.also, **ours}.items() if words.read is None}
