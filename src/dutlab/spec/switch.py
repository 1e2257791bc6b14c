"""Power switch of a host: the common part of all kinds, and the rules for the key `power`.

`spec/power.py` has the kinds. It is imported only for files that name one, to keep start-up short.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationError, ValidationInfo

from dutlab.errors import FaultKind
from dutlab.spec.fields import Duration, YesNo
from dutlab.spec.model import OneOf, SpecModel, ValueFault, did_you_mean, fault, faults_of, refuse

LONGEST_OFF_S = 600.0
LONGEST_BACK_S = 3600.0


def _off(seconds: float) -> float:
    if not 0 < seconds <= LONGEST_OFF_S:
        raise ValueFault("must be from above 0s to 10min", FaultKind.RANGE)
    return seconds


def _back(seconds: float) -> float:
    if not 0 < seconds <= LONGEST_BACK_S:
        raise ValueFault("must be from above 0s to 1h", FaultKind.RANGE)
    return seconds


class PowerSpec(SpecModel):
    """Power switch of any kind."""

    kind: ClassVar[str]
    kind_is_written: ClassVar[bool] = True

    may_switch: YesNo = Field(default=False, alias="may-switch")
    """True if dutlab may switch the host on and off; otherwise it only reads the state."""
    off_for: Annotated[Duration, AfterValidator(_off)] = Field(default=Duration(10.0), alias="off-for")
    """Time for which a power cycle keeps the host off, so that capacitors discharge."""
    back_within: Annotated[Duration, AfterValidator(_back)] = Field(default=Duration(600.0), alias="back-within")
    """Time limit for the host's first answer after power on."""

    @property
    @abstractmethod
    def outlet(self) -> tuple[object, ...]:
        """Identity of the outlet: two hosts with the same identity lose power together."""


def _kinds() -> Mapping[str, type[PowerSpec]]:
    from dutlab.spec.power import SWITCHES  # noqa: PLC0415 -- only files with power switches need the kinds

    return SWITCHES


def _switch(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, PowerSpec) or value is None:
        return value
    if not isinstance(value, Mapping):
        raise ValueFault("must be a mapping of keys to values, as in {kind: plug, model: shelly, url: ...}", FaultKind.TYPE)
    if not isinstance(kind := value.get("kind"), str) or kind not in _kinds():
        what = "missing" if "kind" not in value else f"unknown kind of switch {str(kind)!r}"
        raise refuse("power", [fault(("kind",), f"{what} {did_you_mean(str(kind or ''), _kinds())}", FaultKind.UNKNOWN_NAME)])
    try:
        return _kinds()[kind].model_validate({k: v for k, v in value.items() if k != "kind"}, context=info.context)
    except ValidationError as error:
        raise refuse("power", faults_of(error)) from error


def _written(switch: PowerSpec | None) -> dict[str, Any] | None:
    return None if switch is None else {"kind": switch.kind, **switch.model_dump(mode="json", by_alias=True)}


Power = Annotated[PowerSpec | None, BeforeValidator(_switch), PlainSerializer(_written), OneOf(_kinds, by_kind=True)]
"""Switch of a host; None where there is none."""
