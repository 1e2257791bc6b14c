"""Base of the generator models. Each declares the features that the generator lacks, so that no host needs to be reached to know them."""

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
"""Name of a program, or its path."""
_LAST_CPU = 1023


class GeneratorFeature(enum.Enum):
    """Features that an experiment can request beyond frames of one size, at full speed, in one direction of one link."""

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
    """Generator of frames; its fields are the options that an experiment may set."""

    kind: ClassVar[str]
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {}
    """Missing features → reason; the generator has all others."""

    begins_s: ClassVar[Seconds] = Seconds(0.0)
    """Time that the generator needs before the first frame of each trial."""
    stepped: ClassVar[bool] = False
    """True if its rate is fixed at the start; a rate that changes in time then becomes steps of one second (tools.stepped)."""

    cores: Annotated[
        tuple[Annotated[int, Strict(), Field(ge=0, le=_LAST_CPU)], ...], AfterValidator(_each_once), Field(max_length=MOST_STREAMS)
    ] = ()
    """Cores of the sending host; if empty, those that the testbed assigns to its programs, if any."""

    @property
    def missing(self) -> Mapping[GeneratorFeature, str]:
        """Missing features → reason, with these options."""
        return self.lacks

    @property
    def needs_one_machine(self) -> bool:
        """True if, with these options, one process handles both ends of every path."""
        return False

    @property
    def fixes_sizes(self) -> str:
        """Reason why it sends its own frame sizes; empty where it sends the requested ones."""
        return ""

    def port_fault(self, interface: str) -> str:
        """Return the reason why it cannot use a port of this name, or ""."""
        return ""

    def size_fault(self, frame_bytes: int, *, ipv6: bool) -> str:
        """Return the reason why it cannot send frames of this size, in bytes with FCS, or ""."""
        return ""

    def text(self) -> str:
        """Return its name, or with options `{"trafgen":{"cores":[2]}}`, for a cell's params."""
        options = self.model_dump(mode="json", exclude_defaults=True)
        return json.dumps({self.kind: options}, separators=(",", ":")) if options else self.kind

    def words(self, *, without: Collection[str] = ()) -> str:
        """Return its options in words, except those in `without`: `cores 2+3, streams 2`; empty where all have their defaults."""
        options = {name: value for name, value in self.model_dump(mode="json", exclude_defaults=True).items() if name not in without}
        return ", ".join(f"{name} {_said(value)}" for name, value in options.items())

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ({"type": "null"},)

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Accept nothing in place of options."""
        return {} if data is None else data


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return "+".join(f"{name}={of}" for name, of in value.items())
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


class StreamsModel(GeneratorModel):
    """Generator that sends several streams to one port, stream n on the n-th core."""

    streams: Annotated[int, Strict(), Field(ge=1, le=MOST_STREAMS)] = 1
