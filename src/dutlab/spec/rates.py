"""Rates in the forms that users write: frames or bits a second, a share of the link's speed, or the generator's maximum.

    rates: [max, 100kpps, 80%, 5Gbit/s-l1, 5Gbit/s-l2]

A bit rate names its layer, as on the engine's command line: `-l1` counts preamble and gap (20 bytes a frame), `-l2` does not.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo

from dutlab.spec.fields import text_of
from dutlab.spec.model import from_file
from dutlab.units import ETH_L1_OVERHEAD_BYTES, BpsL1, Pps, UnitError, line_rate, parse_bit_rate, parse_pps

_WRITE = "write max, 100kpps, 80%, 5Gbit/s-l1 (with preamble and gap) or 5Gbit/s-l2 (frames with FCS)"


class RateUnit(enum.Enum):
    """Unit of a rate; the value is the text after its number."""

    PPS = "pps"
    BPS_L1 = "bit/s-l1"
    BPS_L2 = "bit/s-l2"
    PERCENT = "%"


@dataclass(frozen=True)
class AskedRate:
    """Intended rate on each link."""

    value: float
    unit: RateUnit

    def __str__(self) -> str:
        return text_of(self.value, self.unit.value)

    def pps(self, mean_frame: float, speed: BpsL1 | None) -> Pps | None:
        """Return the rate in frames a second of `mean_frame` bytes with FCS; None where the unknown link speed is needed."""
        match self.unit:
            case RateUnit.PPS:
                return Pps(self.value)
            case RateUnit.BPS_L1:
                return Pps(self.value / ((mean_frame + ETH_L1_OVERHEAD_BYTES) * 8))
            case RateUnit.BPS_L2:
                return Pps(self.value / (mean_frame * 8))
            case RateUnit.PERCENT:
                return None if speed is None else Pps(line_rate(speed, mean_frame) * self.value / 100)


def parse_rate(text: str) -> AskedRate | None:
    """Parse `100kpps`, `80%`, `5Gbit/s-l1`; return None for `max`. Raises UnitError."""
    written = text.strip()
    if written == "max":
        return None
    if written.endswith("%"):
        return _percent(written)
    if written.endswith("pps"):
        return _positive(parse_pps(written), RateUnit.PPS, text)
    for unit, suffix in ((RateUnit.BPS_L1, "-l1"), (RateUnit.BPS_L2, "-l2")):
        if written.lower().endswith(suffix):
            return _positive(parse_bit_rate(written[: -len(suffix)]), unit, text)
    try:
        parse_bit_rate(written)
    except UnitError:
        raise UnitError(f"{text!r} is not a rate; {_WRITE}") from None
    raise UnitError(f"{text!r} does not state its layer; write {written}-l1 (with preamble and gap) or {written}-l2 (frames with FCS)")


def _percent(text: str) -> AskedRate:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise UnitError(f"{text!r} is not a rate; {_WRITE}") from None
    if not 0 < value <= 100:  # noqa: PLR2004 per cent
        raise UnitError(f"{text!r}: a share of a link's speed is above 0% and at most 100%")
    return AskedRate(value, RateUnit.PERCENT)


def _positive(value: float, unit: RateUnit, text: str) -> AskedRate:
    if not value > 0:
        raise UnitError(f"{text!r}: a rate is above 0")
    return AskedRate(value, unit)


def _read(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, str):
        return parse_rate(value)
    if value is None or isinstance(value, AskedRate):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnitError(f"must be a rate; {_WRITE}")
    if from_file(info):
        raise UnitError(f"{value} has no unit; {_WRITE}")
    return _positive(float(value), RateUnit.PPS, str(value))


Rate = Annotated[
    AskedRate | None,
    BeforeValidator(_read, json_schema_input_type=Annotated[str, Field(examples=["max", "100kpps", "80%", "5Gbit/s-l1"])]),
    PlainSerializer(lambda v: "max" if v is None else str(v), return_type=str),
]
"""Rate of a setting; None, written `max`, is the generator's maximum. A bare number, accepted only from code, is frames a second."""
