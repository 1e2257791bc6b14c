"""Limits of every generator, known before it is reached: features that it lacks, and why."""

from __future__ import annotations

import enum
import json
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, Strict

from dutlab.errors import FaultKind
from dutlab.spec.model import SpecModel, ValueFault
from dutlab.units import Seconds

MOST_STREAMS = 64
ProgramName = Annotated[str, Field(pattern=r"^[^\s'\"]+$")]
"""The name of a program, or where it lies."""
_LAST_CPU = 1023


class GeneratorFeature(enum.Enum):
    """Features that an experiment can want of a generator beyond frames of one size, as fast as they go, one way on one link."""

    RATE = "a rate"
    PROFILE = "a rate that changes in time"
    SEVERAL_SIZES = "frames of several sizes"
    ORDER = "sizes in an order"
    SEVERAL_LINKS = "several links at once"
    SHARED_PORTS = "links that share a port at once"
    BOTH_WAYS = "frames in both directions at once"
    BACK = "frames from the sink to the source"
    TRANSPORT = "frames other than UDP"
    FLOWS = "several flows"
    VLANS = "VLAN tags"
    BURSTS = "frames in bursts"
    VARIED = "fields that vary from frame to frame"
    EXTENSIONS = "IPv6 extension headers"
    LATENCY = "latency"
    READINGS = "what was lost in each second"
    IPV4 = "frames of IPv4"
    IPV6 = "frames of IPv6"
    ROUTED = "frames that a router forwards"


def _each_once(cores: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(cores)) < len(cores):
        raise ValueFault("duplicate core", FaultKind.DUPLICATE)
    return cores


class GeneratorModel(SpecModel):
    """A program that drives frames; what an experiment may set of it is its fields."""

    kind: ClassVar[str]
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {}
    """Features that it lacks, and why; it has all others."""

    begins_s: ClassVar[Seconds] = Seconds(0.0)
    """Time before the first frame of each trial."""
    stepped: ClassVar[bool] = False
    """Its rate is fixed when it starts, so a rate that changes in time is made of seconds at a constant rate each (tools.stepped)."""

    cores: Annotated[
        tuple[Annotated[int, Strict(), Field(ge=0, le=_LAST_CPU)], ...], AfterValidator(_each_once), Field(max_length=MOST_STREAMS)
    ] = ()
    """Cores of the sending host. Empty: those that the testbed gives to its programs, if it does."""

    @property
    def missing(self) -> Mapping[GeneratorFeature, str]:
        """Features that it lacks as it is set up here, and why."""
        return self.lacks

    @property
    def needs_one_machine(self) -> bool:
        """True if it is one process with both ends of every path, as it is set up here."""
        return False

    @property
    def fixes_sizes(self) -> str:
        """Why it sends the same frames whatever sizes are asked for; empty where it sends those."""
        return ""

    def port_fault(self, interface: str) -> str:
        """Why it cannot take a port of this name, or nothing."""
        del interface
        return ""

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Why it cannot send frames of so many bytes with FCS, or nothing."""
        del frame_bytes, ipv6
        return ""

    def text(self) -> str:
        """Its name alone, or `{"trafgen":{"cores":[2]}}` with what was set, for a cell's params."""
        options = self.model_dump(mode="json", exclude_defaults=True)
        return json.dumps({self.kind: options}, separators=(",", ":")) if options else self.kind

    def words(self, *, without: Collection[str] = ()) -> str:
        """`cores 2+3, streams 2`: what was set, but for the fields `without`; empty where nothing was."""
        options = {name: value for name, value in self.model_dump(mode="json", exclude_defaults=True).items() if name not in without}
        return ", ".join(f"{name} {_said(value)}" for name, value in options.items())

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ({"type": "null"},)

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Without options, nothing needs to follow its name."""
        return {} if data is None else data


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return "+".join(f"{name}={of}" for name, of in value.items())
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


class StreamsModel(GeneratorModel):
    """A generator that sends from several cores to one port: so many streams, stream n on the n-th core."""

    streams: Annotated[int, Strict(), Field(ge=1, le=MOST_STREAMS)] = 1
