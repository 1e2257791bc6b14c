"""One way to drive a workload, validated: what a plan, a record and a method have of it. Each workload's own is beside its model.

Names carry units. A JSON file has a setting as an object whose `kind` says which model reads it back.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dutlab.errors import InputError
from dutlab.spec.generators import Generator, GeneratorModel
from dutlab.spec.goals import Goal, checked, goals_text
from dutlab.spec.mixes import Mix
from dutlab.spec.rates import AskedRate, Rate, RateUnit
from dutlab.spec.traffic import Directions, Traffic
from dutlab.units import Pps, Seconds

IMPORTED: Final = "imported"
Value = str | float | int | None
Params = Mapping[str, Value]

NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
SecondsLong = Annotated[Seconds, Field(gt=0)]
SecondsOrNone = Annotated[Seconds, Field(ge=0)]
"""A time that may be 0."""
PositiveRate = Annotated[Pps, Field(gt=0)]


class Setting(BaseModel):
    """What does not depend on the links."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)

    kind: str
    left_out: ClassVar[frozenset[str]] = frozenset()
    """Fields that `params` does not name while they have their default."""

    @property
    def workload(self) -> str:
        """As the experiment file calls it."""
        return self.kind

    @property
    def flows(self) -> int:
        """How many cross the DUT at once on a link at most, which its table of states must hold."""
        return 1

    @property
    def loaded_s(self) -> Seconds:
        """How long one load lasts that is the same from beginning to end; 0 of anything else."""
        return Seconds(0.0)

    @property
    def at_limit_s(self) -> Seconds:
        """How long the load at the limit takes, offered once more; 0 of what finds none."""
        return Seconds(0.0)

    @property
    def modes(self) -> tuple[str, ...]:
        """That a trial puts the DUT into, beside its own."""
        return ()

    @property
    def variant(self) -> str:
        """What of its frames is not as in the tests that come first, in words; empty of most."""
        return ""

    @property
    def ends(self) -> tuple[str, ...]:
        """The host that sends and the one that receives, where it names them itself."""
        return ()

    @property
    def on_dut(self) -> tuple[str, ...]:
        """Programs that it changes a Linux DUT with, beside those of the modes, each as `module:name`."""
        return ()

    @property
    def at_source(self) -> tuple[str, ...]:
        """Programs that the first host of its links must have, likewise."""
        return ()

    @cached_property
    def params(self) -> Params:
        """Name with unit → value: what tables, labels, groups and queries have of it. No other place puts a setting into words."""
        flat: dict[str, Value] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name != "kind" and not (name in self.left_out and value == field.get_default(call_default_factory=True)):
                flat |= _flat(name, value)
        return flat

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic does it, which would keep the words of the original."""
        made = super().model_copy(update=update, deep=deep)
        made.__dict__.pop("params", None)
        return made


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


class FrameSetting(Setting):
    """Frames of one size, or of a mix."""

    left_out: ClassVar[frozenset[str]] = frozenset({"generator"})

    frame_size: Mix
    """In bytes with FCS."""
    generator: Generator | None = None
    """None is the engine."""


class CarryingSetting(FrameSetting):
    """Frames that the experiment describes."""

    left_out: ClassVar[frozenset[str]] = FrameSetting.left_out | {"traffic"}

    traffic: Traffic = Field(default_factory=Traffic)

    @property
    def flows(self) -> int:
        """Those of the traffic."""
        return self.traffic.flow_count


class DirectedSetting(FrameSetting):
    """Frames that can go either way."""

    directions: Directions = Directions.FORWARD


def directions_of(setting: Setting) -> Directions:
    """Which ways frames go on each link."""
    return setting.directions if isinstance(setting, DirectedSetting) else Directions.FORWARD


class LoadSetting(DirectedSetting):
    """Frames of one kind at one rate, counted for one time: what the method `sweep` offers once."""

    left_out: ClassVar[frozenset[str]] = FrameSetting.left_out | {"traffic", "directions"}

    rate: Rate = None
    traffic: Traffic = Field(default_factory=Traffic)
    duration_s: SecondsLong
    warmup_s: SecondsOrNone
    drain_s: SecondsOrNone

    @property
    def flows(self) -> int:
        """Flows of the traffic in each direction."""
        return self.traffic.flow_count * len(self.directions.backs)

    @property
    def loaded_s(self) -> Seconds:
        """The warm-up too."""
        return Seconds(self.duration_s + self.warmup_s)

    @cached_property
    def params(self) -> Params:
        """A share stays one: what it is a share of may differ from link to link."""
        flat = super().params
        return {
            k: v for name, value in flat.items() for k, v in (_rate(value, self.frame_size) if name == "rate" else {name: value}).items()
        }


def _rate(rate: Any, mix: Mix) -> dict[str, Value]:  # noqa: ANN401 AskedRate or None
    if isinstance(rate, AskedRate) and rate.unit is RateUnit.PERCENT:
        return {"rate_percent": rate.value}
    return {"rate_pps": None if rate is None else rate.pps(mix.mean, None)}


def _goals(goals: tuple[Goal, ...]) -> tuple[Goal, ...]:
    try:
        return checked(goals)
    except InputError as error:
        raise ValueError(str(error)) from error


Goals = Annotated[tuple[Goal, ...], AfterValidator(_goals)]
"""Goals that one search can serve."""


class ImportedSetting(Setting):
    """What a file of another tool says of how its figures came about."""

    kind: Literal["imported"] = IMPORTED
    of: str
    """The workload that its figures are shown as."""
    said: dict[str, Value] = {}

    @property
    def workload(self) -> str:
        """The one that it is shown as."""
        return self.of

    @cached_property
    def params(self) -> Params:
        """Parameters as in the file."""
        return self.said
