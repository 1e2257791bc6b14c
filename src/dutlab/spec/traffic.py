"""What the frames of a workload are, besides their size: transport, flows, VLAN tags.

    traffic: {transport: tcp, flows: 1024, vlans: [100]}
    traffic: {flows: {count: 1000000, source_addresses: 250, seed: 1}}

Addresses and their kind (IPv4, IPv6) are those of the links in the testbed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.spec.model import SpecModel, fault

MOST_FLOWS = 2_097_152
"""As many as the engine lays out (docs/reference/engine-protocol.md)."""
RFC4814_SOURCE_PORTS = (1024, 64512)
"""First, and how many (RFC 4814)."""
RFC4814_DESTINATION_PORTS = (1, 49151)

_Range = Annotated[int, Strict(), Field(ge=1, le=MOST_FLOWS)]
_Ports = Annotated[int, Strict(), Field(ge=1, le=65535)]
_VlanId = Annotated[int, Strict(), Field(ge=0, le=4095)]


class FlowSet(SpecModel):
    """Many flows in one stream, frame n of flow n mod `count`. Written as a number, each flow has a source port of its own."""

    count: _Range = 1
    source_addresses: _Range = 1
    """So many, from the link's source address upwards."""
    destination_addresses: _Range = 1
    """The DUT must know a way to each of them."""
    source_ports: _Ports = 1
    destination_ports: _Ports = 1
    seed: Annotated[int, Strict(), Field(ge=0, le=2**53 - 1)] | None = None
    """Given: members are drawn pseudo-randomly from the ranges, the same in every trial. Ports that are not given are those of RFC 4814."""

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """A number alone, and the ranges of RFC 4814."""
        if isinstance(data, int) and not isinstance(data, bool):
            return {"count": data, "source_ports": data}
        if isinstance(data, Mapping) and data.get("seed") is not None and not {"source_ports", "destination_ports"} & data.keys():
            return {**data, "source_ports": RFC4814_SOURCE_PORTS[1], "destination_ports": RFC4814_DESTINATION_PORTS[1]}
        return data

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether the ranges hold as many different flows."""
        del data
        if made is None or made.count <= made.members:
            return []
        return [fault(("count",), f"the ranges make {made.members} different flows, not {made.count}; widen one, as in source_ports: 1024")]

    @property
    def members(self) -> int:
        """How many flows the ranges make."""
        return self.source_addresses * self.destination_addresses * self.source_ports * self.destination_ports


class Traffic(SpecModel):
    """Frames of one kind."""

    transport: Literal["udp", "tcp", "tcp-syn", "icmp-echo"] = "udp"
    flows: FlowSet = Field(default_factory=FlowSet)
    vlans: Annotated[tuple[_VlanId, ...], Field(max_length=2)] = ()
    """Tags, the outer one first."""

    def text(self) -> str | None:
        """What differs from one UDP flow without tags, so that `parse` gives it back; None if nothing does."""
        return None if self == Traffic() else self.model_dump_json(exclude_defaults=True)

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """What `text` gave. Raises pydantic.ValidationError."""
        return cls() if text is None else cls.model_validate_json(text)

    @property
    def shortest_over_ipv4(self) -> int:
        """Bytes with FCS of the shortest frame that holds headers and probe (docs/reference/engine-protocol.md)."""
        return 64 + 4 * len(self.vlans) + (12 if self.transport in {"tcp", "tcp-syn"} else 0)
