"""Fields with a different value in each frame, each by its own rule.

    vary: {source-port: 1024..2047, ttl: [64, 128], dscp: {from: 0, to: 63, random: yes, seed: 7, every: 16}}

The names are those of the engine's command line. The destination MAC cannot vary: frames to other MACs leave the testbed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PlainSerializer, Strict, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import YesNo
from dutlab.spec.model import NAME_KEY, SpecModel, ValueFault, did_you_mean, fault, faults_of, raised, refuse

LONGEST_LIST = 65536
WIDEST_RANDOM = 1 << 64
"""Widest random field, as in engine/traffic/src/series.rs."""
_MAC = r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}"
_BITS = r"bits@(\d{1,4})(?:\.([0-7]))?\+(\d{1,2})"
_WIDEST_BITS = 64

SOURCE_ADDRESS, DESTINATION_ADDRESS = "source-address", "destination-address"
ADDRESSES = (SOURCE_ADDRESS, DESTINATION_ADDRESS)
_WIDTHS = {
    "source-mac": 48,
    "vlan-id": 12,
    "vlan-priority": 3,
    "inner-vlan-id": 12,
    "inner-vlan-priority": 3,
    SOURCE_ADDRESS: 128,
    DESTINATION_ADDRESS: 128,
    "dscp": 6,
    "ttl": 8,
    "identification": 16,
    "flow-label": 20,
    "source-port": 16,
    "destination-port": 16,
}
"""Field → width in bits."""
TELLS_FLOWS = frozenset({*ADDRESSES, "source-port", "destination-port"})
"""Fields that identify a flow in a state table."""
_VERSIONS = {"identification": 4, "flow-label": 6}
_TAGS = {"vlan-id": 1, "vlan-priority": 1, "inner-vlan-id": 2, "inner-vlan-priority": 2}


def _value(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise ValueFault("must be a whole number, an address or a MAC", FaultKind.TYPE)


_Value = Annotated[int | str, BeforeValidator(_value)]
_Count = Annotated[int, Strict(), Field(ge=1, le=2**53 - 1)]
_Number = Annotated[int, Strict(), Field(ge=0, le=2**53 - 1)]


class VaryRule(SpecModel):
    """Values of one field: a range in steps, pseudo-random values of a range, or a list."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})

    name: str
    """Name of the field."""
    values: Annotated[tuple[_Value, ...], Field(min_length=2, max_length=LONGEST_LIST)] | None = None
    """List of values, used in turn and repeated."""
    first: _Value | None = Field(default=None, alias="from")
    last: _Value | None = Field(default=None, alias="to")
    by: _Count = 1
    """Step between values; downwards where `from` is above `to`."""
    random: YesNo = False
    """True for pseudo-random values with repetitions, the same in every trial."""
    seed: _Number = 0
    phase: _Number = 0
    """Index, from 0, of the value of frame 0."""
    every: _Count = 1
    """Number of successive frames with the same value."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that the values fit the field, and that the keys belong to one kind of rule."""
        if self.values is not None:
            return iter(self._faults_of_list())
        if self.first is None or self.last is None:
            missing = "to" if self.last is None else "from"
            return iter([fault((missing,), "missing; write from and to, or a list of values", FaultKind.MISSING)])
        faults, ends = [], list[int]()
        for key, value in (("from", self.first), ("to", self.last)):
            try:
                ends.append(number_of(self.name, value))
            except ValueError as error:
                faults.append(raised((key,), error))
        return iter(faults or self._faults_between(*ends))

    def _faults_of_list(self) -> list[InitErrorDetails]:
        alone = (
            ("from", self.first, None),
            ("to", self.last, None),
            ("by", self.by, 1),
            ("random", self.random, False),
            ("seed", self.seed, 0),
        )
        faults = [
            fault((key,), "cannot be combined with a list of values", FaultKind.CONFLICT) for key, value, usual in alone if value != usual
        ]
        for i, value in enumerate(self.values or ()):
            try:
                number_of(self.name, value)
            except ValueError as error:
                faults.append(raised(("values", i), error))
        return faults or self._faults_of_phase()

    def _faults_between(self, first: int, last: int) -> list[InitErrorDetails]:
        backwards, steady = self.random and first > last, not self.random
        checks = (
            (first == last, "to", "the same as `from`; a field that varies has two values at least"),
            (version_of(self.first) != version_of(self.last), "to", f"{self.first} and {self.last} are of different versions of IP"),
            (steady and self.seed != 0, "seed", "belongs to random values; add `random: yes`, or leave it out"),
            (steady and self.by > abs(last - first), "by", f"no step of {self.by} fits between the two"),
            (self.random and self.by != 1, "by", "random values have no steps"),
            (backwards, "from", "random values go from the lowest to the highest; exchange the two"),
            (self.random and last - first >= WIDEST_RANDOM, "to", "a random range has at most 2^64 values"),
        )
        wrong = next((fault((key,), what) for is_so, key, what in checks if is_so), None)
        return self._faults_of_phase() if wrong is None else [wrong]

    def _faults_of_phase(self) -> list[InitErrorDetails]:
        if self.random or self.phase < self.members:
            return []
        return [fault(("phase",), f"there are {self.members} values, counted from 0", FaultKind.RANGE)]

    @property
    def members(self) -> int:
        """Most distinct values."""
        if self.values is not None:
            return len(self.values)
        distance = abs(number_of(self.name, self.last or 0) - number_of(self.name, self.first or 0))
        return distance + 1 if self.random else distance // self.by + 1

    @property
    def every_value(self) -> tuple[_Value, ...]:
        """Values as written: the list, or the ends of the range."""
        return self.values if self.values is not None else tuple(v for v in (self.first, self.last) if v is not None)

    @property
    def bits(self) -> tuple[int, int] | None:
        """First bit in the frame and the bit after the last, for a field written `bits@…`; None for a named field."""
        if (at := re.fullmatch(_BITS, self.name)) is None:
            return None
        first = 8 * int(at[1]) + int(at[2] or 0)
        return first, first + int(at[3])

    def overlaps(self, other: Self) -> bool:
        """Return whether both are `bits@…` fields that have bits in common."""
        mine, others = self.bits, other.bits
        return mine is not None and others is not None and mine[0] < others[1] and others[0] < mine[1]

    def words(self) -> str:
        """Return a description: `ttl 64, 128 in turn`."""
        if self.values is not None:
            shown = ", ".join(map(str, self.values[:_SHOWN])) + (f" … ({len(self.values)} values)" if len(self.values) > _SHOWN else "")
            values = f"{shown} in turn"
        else:
            values = f"{self.first}..{self.last}" + (" at random" if self.random else f" in steps of {self.by}" if self.by > 1 else "")
        more = [f"{key} {value}" for key, value, usual in (("seed", self.seed, 0), ("phase", self.phase, 0)) if value != usual]
        return ", ".join([f"{self.name} {values}", *more, *([f"each for {self.every} frames"] if self.every > 1 else [])])

    def misfit(self, *, ipv6: bool) -> str:
        """Return the reason why the rule does not fit frames of this IP version, or ""."""
        version = 6 if ipv6 else 4
        if _VERSIONS.get(self.name, version) != version:
            return f"only IPv{_VERSIONS[self.name]} has it"
        if self.name in ADDRESSES and (other := next((v for v in self.every_value if version_of(v) != version), None)) is not None:
            return f"{other} is not an address of IPv{version}, as those of the link are"
        return ""

    def lacks(self, *, tags: int, transport: str) -> str:
        """Return the reason why frames with this number of tags and this transport lack the field, or ""."""
        if _TAGS.get(self.name, 0) > tags:
            return f"the frames have {tags or 'no'} tag{'s' if tags != 1 else ''}; name them in `vlans`"
        if self.name == "destination-port" and transport == "icmp-echo":
            return "ICMP has no destination ports; vary source-port, which is its identifier"
        return ""

    def protocol(self) -> dict[str, Any]:
        """Return the rule in the form of the engine's protocol."""
        if (bits := self.bits) is not None:
            field: Any = {"bits": {"byte": bits[0] // 8, "bit": bits[0] % 8, "width": bits[1] - bits[0]}}
        else:
            field = self.name.replace("-", "_")
        values: dict[str, Any] = {"step": {"from": self.first, "to": self.last, "by": self.by}}
        if self.values is not None:
            values = {"list": list(self.values)}
        elif self.random:
            values = {"random": {"from": self.first, "to": self.last, "seed": self.seed}}
        return {"field": field, "values": values, "phase": self.phase, "every": self.every}


_SHOWN = 8
"""Most values of a list that a report shows."""


def version_of(value: _Value | None) -> int | None:
    """Return the IP version of an address; None for any other value."""
    try:
        return None if not isinstance(value, str) else ip_address(value).version
    except ValueError:
        return None


def number_of(field: str, value: _Value) -> int:
    """Return a value as the number of its bits. Raises ValueError for a value that does not fit the field."""
    if field in ADDRESSES:
        if version_of(value) is None:
            raise ValueError(f"{value} is not an address")
        return int(ip_address(str(value)))
    if field == "source-mac":
        if not isinstance(value, str) or not re.fullmatch(_MAC, value):
            raise ValueError(f"{value} is not a MAC; write it as in 02:00:00:00:00:01")
        return int(value.replace(":", ""), 16)
    try:
        number = int(value, 0) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None
    width = _WIDTHS[field] if field in _WIDTHS else int((re.fullmatch(_BITS, field) or ["", "", "", "64"])[3])
    if number >> width:
        raise ValueFault(f"{value} does not fit into {width} bits", FaultKind.RANGE)
    return number


def _field_fault(field: str) -> str:
    if field in _WIDTHS:
        return ""
    if field == "destination-mac":
        return "frames to other MACs than the next hop's do not pass the DUT, and leave the testbed"
    if field.startswith("bits@"):
        at = re.fullmatch(_BITS, field)
        return (
            "" if at is not None and 1 <= int(at[3]) <= _WIDEST_BITS else "write bits@BYTE.BIT+WIDTH, as in bits@60.4+12; at most 64 bits"
        )
    return f"unknown field {did_you_mean(field, [*_WIDTHS, 'bits@BYTE.BIT+WIDTH'])}"


def _short(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, list | tuple):
        return {"values": value}
    if isinstance(value, str):
        first, dots, rest = value.partition("..")
        if not dots:
            raise ValueError(f"{value!r} is one value; write a range, as in 1024..2047, or a list")
        last, slash, step = rest.partition("/")
        return {"from": first, "to": last} | ({"by": _step(step)} if slash else {})
    if not isinstance(value, Mapping):
        raise ValueFault("must be a range, as in 1024..2047, a list of values, or a mapping", FaultKind.TYPE)
    return value


def _step(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a step; write it as in 0..255/5")
    return int(text)


def _named(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, tuple) and all(isinstance(rule, VaryRule) for rule in value):
        return value
    if not isinstance(value, Mapping):
        raise ValueFault("must be a mapping of fields to values, as in {source-port: 1024..2047}", FaultKind.TYPE)
    rules, faults = list[VaryRule](), list[InitErrorDetails]()
    for field, values in value.items():
        if what := _field_fault(str(field)):
            faults.append(fault((str(field),), what))
            continue
        try:
            rules.append(VaryRule.model_validate({**_short(values), NAME_KEY: str(field)}, context=info.context))
        except ValidationError as error:
            faults += faults_of(error, (str(field),))
        except ValueError as error:
            faults.append(raised((str(field),), error))
    if faults:
        raise refuse("vary", faults)
    return tuple(rules)


def _written(rules: tuple[VaryRule, ...]) -> dict[str, Any]:
    return {rule.name: rule.model_dump(mode="json", exclude={"name"}, exclude_defaults=True, by_alias=True) for rule in rules}


Vary = Annotated[
    tuple[VaryRule, ...],
    BeforeValidator(_named, json_schema_input_type=dict[str, str | tuple[int | str, ...] | VaryRule]),
    PlainSerializer(_written, return_type=dict[str, Any]),
]
"""Rules by field."""
