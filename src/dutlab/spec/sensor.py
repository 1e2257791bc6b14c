"""Sensor of a testbed or experiment: the common part of all kinds, and the rules for the keys `sensors` and `watch`.

`spec/sensors.py` has the kinds. It is imported only for files that name one, to keep start-up short.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import Duration, Name, YesNo, named
from dutlab.spec.model import OneOf, SpecModel, ValueFault, did_you_mean, fault, faults_of, refuse

LEAST_EVERY_S = 0.1
MOST_EVERY_S = 3600.0
DEFAULT_WATCH = ("cpu",)
"""Kinds of sensors that watch a DUT unless an experiment names others."""


def _period(seconds: float) -> float:
    if not LEAST_EVERY_S <= seconds <= MOST_EVERY_S:
        raise ValueFault("must be from 100ms to 1h", FaultKind.RANGE)
    return seconds


Period = Annotated[Duration, AfterValidator(_period)]


class SensorSpec(SpecModel):
    """Sensor of any kind."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})
    kind_is_written: ClassVar[bool] = True
    runs_there: ClassVar[bool] = True
    """True if it runs on its host, which commands must reach. Otherwise it runs on dutlab's machine and only measures its host."""
    kind: ClassVar[str]
    made_by: ClassVar[str]
    """Function, as `module:name`, that takes (the spec, SensorSite) and returns the Sensor; None for systems that it does not support."""
    measures: ClassVar[str]
    """Description of its readings, for lists and reports."""

    name: Name
    host: str | None = None
    """Host that it measures and on which it runs; None for the machine that dutlab runs on."""
    every: Period = Duration(1.0)
    simulated: YesNo = False
    """True if its readings are made up for a demonstration; each trial and each table with them says so."""


def _kinds() -> Mapping[str, type[SensorSpec]]:
    from dutlab.spec.sensors import SENSORS  # noqa: PLC0415 -- only files with sensors need the kinds

    return SENSORS


def _sensor(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, SensorSpec):
        return value
    if not isinstance(value, Mapping):
        raise ValueFault("must be a mapping of keys to values, as in {kind: command, command: ..., unit: W}", FaultKind.TYPE)
    if not isinstance(kind := value.get("kind"), str) or kind not in _kinds():
        what = "missing" if "kind" not in value else f"unknown kind of sensor {str(kind)!r}"
        raise refuse("sensor", [fault(("kind",), f"{what} {did_you_mean(str(kind or ''), _kinds())}", FaultKind.UNKNOWN_NAME)])
    try:
        return _kinds()[kind].model_validate({k: v for k, v in value.items() if k != "kind"}, context=info.context)
    except ValidationError as error:
        raise refuse("sensor", faults_of(error)) from error


def _written(sensor: SensorSpec) -> dict[str, Any]:
    return {"kind": sensor.kind, **sensor.model_dump(mode="json", by_alias=True)}


Sensors = Annotated[
    dict[Name, Annotated[SensorSpec, BeforeValidator(_sensor), PlainSerializer(_written), OneOf(_kinds, by_kind=True)]],
    BeforeValidator(named),
]
"""Name → sensor."""


def watch_faults(watch: object) -> Iterator[InitErrorDetails]:
    """Yield faults of the key `watch` of an experiment: unknown kinds, kinds with required settings, and duplicates."""
    kinds: Sequence[object] = watch if isinstance(watch, list | tuple) else ()
    for i, kind in enumerate(kinds):
        if isinstance(kind, str) and kind not in DEFAULT_WATCH and kind not in (known := _watches()):
            yield fault(("watch", i), f"{kind!r} cannot be watched {did_you_mean(kind, known)}", FaultKind.UNKNOWN_NAME)
        elif kind in kinds[:i]:
            yield fault(("watch", i), f"duplicate {kind}", FaultKind.DUPLICATE)


def _watches() -> Collection[str]:
    from dutlab.spec.sensors import WATCHES  # noqa: PLC0415 -- as above

    return WATCHES


def host_faults(sensors: object, hosts: Collection[str], unreachable: frozenset[str] = frozenset()) -> Iterator[InitErrorDetails]:
    """Yield faults of sensors whose host does not exist, or that need commands on a host that none can reach."""
    for name, sensor in sensors.items() if isinstance(sensors, Mapping) else ():
        host = sensor.get("host") if isinstance(sensor, Mapping) else getattr(sensor, "host", None)
        if not isinstance(host, str):
            continue
        if host not in hosts:
            yield fault(("sensors", str(name), "host"), f"there is no host {host!r} {did_you_mean(host, hosts)}", FaultKind.UNKNOWN_NAME)
        elif host in unreachable and _runs_there(sensor):
            yield fault(
                ("sensors", str(name), "host"),
                f"no command reaches {host}; leave `host` out and ask it from this machine",
                FaultKind.CONFLICT,
            )


def _runs_there(sensor: object) -> bool:
    kind = sensor.get("kind") if isinstance(sensor, Mapping) else getattr(sensor, "kind", None)
    return _kinds()[kind].runs_there if isinstance(kind, str) and kind in _kinds() else True
